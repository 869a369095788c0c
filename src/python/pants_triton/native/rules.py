"""How the engine builds a CMake project: configured once, then an edge a process."""

from __future__ import annotations

import difflib
import itertools
import json
import logging
import os
import re
from dataclasses import dataclass, field
from typing import Any, Mapping

from pants.engine.addresses import Address, Addresses, UnparsedAddressInputs
from pants.engine.engine_aware import EngineAwareParameter, EngineAwareReturnType
from pants.engine.fs import (
    EMPTY_DIGEST,
    CreateDigest,
    Digest,
    DigestContents,
    DigestEntries,
    DigestSubset,
    Directory,
    FileContent,
    FileEntry,
    MergeDigests,
    PathGlobs,
    RemovePrefix,
    Snapshot,
    SymlinkEntry,
)
from pants.engine.process import FallibleProcessResult, Process
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import (
    HydratedSources,
    HydrateSourcesRequest,
    Target,
    TransitiveTargets,
    TransitiveTargetsRequest,
    WrappedTarget,
    WrappedTargetRequest,
)
from pants.option.global_options import GlobalOptions
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.artifact.fetch_rules import HOST_CACHE, FetchSettings, start_script
from pants_triton.artifact.rules import ArtifactTrees, ArtifactTreesRequest
from pants_triton.native import compiler_rules, limit_rules
from pants_triton.native.compiler_rules import HostCompilerRequest, linker_name
from pants_triton.native.configure import PROGRAM_MODULES
from pants_triton.native.edges import (
    WITH_NETWORK,
    HostReads,
    Step,
    declared_inputs,
    edge_process,
    is_program_link,
    make_step,
    may_read,
    named_paths,
    offline,
    pool_of,
    run_time_files,
    shown_command,
)
from pants_triton.native.host_compiler import (
    COMPILER_VARIABLES,
    HostCompiler,
    host_toolchain_file,
    traced_link,
)
from pants_triton.native.includes import Resolver, Scans
from pants_triton.native.layout import (
    BUILD,
    CHROOT,
    LIBRARIES,
    ROOT_TOKEN,
    Settings,
    Toolchain,
    below,
    find_toolchain,
    in_root,
    leaf_folders,
    portable_flags,
    toolchain_file,
    unfit_root,
    with_flags,
)
from pants_triton.native.limit_rules import EdgeLimits
from pants_triton.native.manifest import Manifest, ManifestError, read_manifest
from pants_triton.native.sanitizers import (
    RUNTIME,
    SANITIZERS,
    build_environment,
    cmake_variables,
    compiler_flags,
    missing_runtime,
    test_environment,
)
from pants_triton.native.subsystem import CompilerSource, Linker, NativeError, NativeSubsystem
from pants_triton.native.target_types import (
    CMakeBuildTypeField,
    CMakeCacheField,
    CMakeConfigureSourcesField,
    CMakeEnvField,
    CMakeOutputOutputsField,
    CMakeOutputPathField,
    CMakeOutputProjectField,
    CMakeOutputSourceField,
    CMakeProjectSourcesField,
    CMakeSanitizersField,
)
from pants_triton.native.undeclared import undeclared_reads
from pants_triton.program.rules import Program, ProgramRequest
from pants_triton.workunits import CONFIGURE, EDGE, work_metadata

logger = logging.getLogger(__name__)

_PROGRAM = ".pants_triton_configure"
_TOOLCHAIN_FILE = "_toolchain.cmake"
_RECORD = "_configure.json"
_BUILD_TYPE = "CMAKE_BUILD_TYPE"

# A remote cache is asked this long before an edge is run here: else a quick compile would win over
# the hit, and a slow one be started for nothing.
_SPECULATION_DELAY_MS = 2_000

_HEADER = re.compile(r"\.(?:h|hh|hpp|hxx|inc|inl|ipp|def|td|cuh|H)$")

# Scans of sources, by content: what didn't change is not scanned again while a daemon lives.
_SCANS = Scans()


# --- what a project is built with --------------------------------------------------------------


@dataclass(frozen=True)
class ProjectToolsRequest(EngineAwareParameter):
    """Asks for the artifacts that a project is built with."""

    address: Address

    def debug_hint(self) -> str:
        return self.address.spec


@dataclass(frozen=True)
class ProjectTools:
    """The artifacts' trees by their paths, the compiler, and where CMake is.

    :param toolchain: the artifact that has the compiler; None if it is this host's.
    :param host: the compiler, if it is this host's or takes headers and libraries from it.
    :param linker: for `-fuse-ld=`, "" for the compiler's own.
    :param libraries: the folders of shared libraries in the trees, below the sandbox's root.
    :param sanitizers: that are compiled in.
    """

    trees: FrozenDict[str, Digest]
    toolchain: Toolchain | None
    host: HostCompiler | None
    linker: str
    libraries: tuple[tuple[str, str], ...]
    cmake: str
    sanitizers: tuple[str, ...] = ()

    @property
    def test_environment(self) -> Mapping[str, str]:
        """For tests of what is built, with CHROOT."""
        symbolizer = (
            f"{CHROOT}/{self.toolchain.path}/{self.toolchain.bin}/llvm-symbolizer"
            if self.toolchain
            else ""
        )
        return test_environment(self.sanitizers, symbolizer)

    @property
    def library_path(self) -> str:
        """For LD_LIBRARY_PATH of tools and of what is built, with CHROOT; "" for none."""
        return ":".join(f"{CHROOT}/{tree}/{folder}" for tree, folder in self.libraries)

    @property
    def runtime_trees(self) -> FrozenDict[str, Digest]:
        """What has the libraries that built programs run with."""
        paths = [self.toolchain.path] if self.toolchain else [tree for tree, _ in self.libraries]
        return FrozenDict({path: self.trees[path] for path in paths})

    @property
    def runtime_env(self) -> dict[str, str]:
        """What built programs run with, and what makes their results those of this host's
        libraries."""
        path = self.library_path
        return {
            **({"LD_LIBRARY_PATH": path} if path else {}),
            **(self.host.env if self.host else {}),
        }

    @property
    def compile_flags(self) -> tuple[str, ...]:
        """What every compile must have so that no path of a sandbox gets into it, with ROOT_TOKEN."""
        return portable_flags(ROOT_TOKEN, is_artifact=self.toolchain is not None)

    def toolchain_file(self) -> str:
        """CMake's toolchain file, with ROOT_TOKEN."""
        settings = Settings(
            " ".join((*self.compile_flags, *compiler_flags(self.sanitizers))),
            self.linker,
            use_host=self.host is not None,
            variables=cmake_variables(self.sanitizers),
        )
        if self.toolchain is not None:
            return toolchain_file(self.toolchain, ROOT_TOKEN, self.trees, settings)
        assert self.host is not None
        return host_toolchain_file(self.host, ROOT_TOKEN, self.trees, settings)

    def cache(self, own: Mapping[str, str]) -> dict[str, str]:
        """CMake's cache variables, `own` by the project. What it says of flags is added to what the
        toolchain file says of them, which CMake reads only where the cache has none."""
        flags = " ".join((*self.compile_flags, *compiler_flags(self.sanitizers)))
        return with_flags(own, flags, self.linker)


def process_env(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of configuring and of edges, with the project's own `env`."""
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C", **env}


@rule(desc="Find the tools of a project", level=LogLevel.DEBUG)
async def find_project_tools(request: ProjectToolsRequest, native: NativeSubsystem) -> ProjectTools:
    is_host = native.compiler is CompilerSource.HOST
    options = {"cmake": native.cmake, **({} if is_host else {"toolchain": native.toolchain})}
    wrapped, *named = await MultiGet(
        Get(WrappedTarget, WrappedTargetRequest(request.address, "<infallible>")),
        *(
            Get(
                Addresses,
                UnparsedAddressInputs(
                    (spec,),
                    owning_address=None,
                    description_of_origin=f"the option `[native].{name}`",
                ),
            )
            for name, spec in options.items()
        ),
    )
    artifacts, *found = await MultiGet(
        Get(ArtifactTrees, ArtifactTreesRequest((request.address, *itertools.chain(*named)))),
        *(Get(ArtifactTrees, ArtifactTreesRequest(tuple(addresses))) for addresses in named),
    )
    if artifacts.error:
        raise NativeError(f"{request.address} needs an artifact: {artifacts.error}")
    for name, trees in zip(options, found):
        if len(trees.trees) != 1:
            raise NativeError(
                f"The option `[native].{name}` must name one artifact, such as `llvm_toolchain` or "
                f"`artifact_tree`."
            )
    cmake = found[0].trees[0]
    own_env: Mapping[str, str] = wrapped.target.get(CMakeEnvField).value or FrozenDict()
    env = {
        name: value
        for name, value in process_env(own_env).items()
        if name in (*COMPILER_VARIABLES, "LC_ALL")
    }
    host: HostCompiler | None
    if is_host:
        linker = linker_name(native.linker, "")
        host = await Get(HostCompiler, HostCompilerRequest(FrozenDict(env), linker=linker))
        own = [tree for tree in artifacts.trees if tree.path != cmake.path]
        members = await MultiGet(Get(DigestEntries, Digest, tree.digest) for tree in own)
        libraries = tuple(
            (tree.path, LIBRARIES)
            for tree, entries in zip(own, members)
            if any(entry.path.startswith(f"{LIBRARIES}/") for entry in entries)
        )
        return ProjectTools(
            artifacts.immutable_input_digests,
            None,
            host,
            linker,
            libraries,
            cmake.path,
            _sanitizers(wrapped.target, native),
        )
    tree = found[1].trees[0]
    entries = await Get(DigestEntries, Digest, tree.digest)
    paths = {entry.path for entry in entries}
    toolchain = find_toolchain(tree.path, paths)
    if toolchain is None:
        raise NativeError(
            f"{tree.address}, which the option `[native].toolchain` names, has no `bin/clang++`. "
            "Name an artifact that has clang and lld, or use this host's compiler: "
            '`[native].compiler = "host"`. An LLVM that projects link with is one of their '
            "`dependencies`."
        )
    linker = linker_name(native.linker, "lld")
    if native.linker is not Linker.DEFAULT and f"{toolchain.bin}/ld.{linker}" not in paths:
        raise NativeError(
            f"{tree.address}, which the option `[native].toolchain` names, has no `ld.{linker}` "
            "beside its clang, which the option `[native].linker` asks for. Set that to `default`, "
            "or name an artifact that has it."
        )
    host = None
    if native.sysroot is CompilerSource.HOST:
        folder = f"{CHROOT}/{toolchain.path}/{toolchain.bin}"
        if toolchain.library_path:
            env.setdefault("LD_LIBRARY_PATH", toolchain.library_path)
        host = await Get(
            HostCompiler,
            HostCompilerRequest(
                FrozenDict(env),
                (f"{folder}/clang",),
                (f"{folder}/clang++",),
                linker,
                FrozenDict({tree.path: tree.digest}),
            ),
        )
    libraries = ((toolchain.path, toolchain.libraries),) if toolchain.libraries else ()
    return ProjectTools(
        artifacts.immutable_input_digests,
        toolchain,
        host,
        linker,
        libraries,
        cmake.path,
        _sanitizers(wrapped.target, native),
    )


def _sanitizers(target: Target, native: NativeSubsystem) -> tuple[str, ...]:
    value = target[CMakeSanitizersField].value if target.has_field(CMakeSanitizersField) else ()
    if value is not None:
        return tuple(value)
    unknown = sorted(set(native.sanitizers) - set(SANITIZERS))
    if unknown:
        raise NativeError(
            f"The option `[native].sanitizers` has {', '.join(unknown)}, but there are only "
            f"{', '.join(SANITIZERS)}."
        )
    return tuple(native.sanitizers)


@dataclass(frozen=True)
class NetworkNoticeRequest:
    """Asks to say that a project could use the network."""

    project: Address


@dataclass(frozen=True)
class NetworkNotice:
    """It has been said, once for all edges."""


@rule
async def say_that_there_is_a_network(request: NetworkNoticeRequest) -> NetworkNotice:
    logger.warning(
        f"{request.project} is built with the network at hand, because this host doesn't let users "
        "cut it off (`unshare --net`): whether it needs it can't be told here."
    )
    return NetworkNotice()


# --- configured --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConfiguredProjectRequest(EngineAwareParameter):
    """Asks for a project's build folder as CMake makes it."""

    address: Address

    def debug_hint(self) -> str:
        return self.address.spec

    def metadata(self) -> dict[str, Any]:
        return work_metadata(CONFIGURE, self.address.spec)


@dataclass(frozen=True)
class ConfiguredProject:
    """What CMake wrote.

    :param digest: with BUILD in it; ROOT_TOKEN stands for the sandbox's root.
    :param with_token: files that have it, relative to BUILD.
    """

    digest: Digest
    with_token: tuple[str, ...]
    env: FrozenDict[str, str]


@dataclass(frozen=True)
class ProjectSources:
    """All sources of a project, and those of them that configuring reads."""

    snapshot: Snapshot
    configure: Snapshot


@dataclass(frozen=True)
class ProjectSourcesRequest(EngineAwareParameter):
    address: Address

    def debug_hint(self) -> str:
        return self.address.spec


@rule
async def find_project_sources(request: ProjectSourcesRequest) -> ProjectSources:
    wrapped = await Get(WrappedTarget, WrappedTargetRequest(request.address, "<infallible>"))
    target = wrapped.target
    if not target.has_field(CMakeProjectSourcesField):
        raise NativeError(f"{request.address} is no `cmake_project` but a `{target.alias}`.")
    sources = await Get(HydratedSources, HydrateSourcesRequest(target[CMakeProjectSourcesField]))
    prefix = f"{request.address.spec_path}/" if request.address.spec_path else ""
    globs = [f"{prefix}{glob}" for glob in target[CMakeConfigureSourcesField].value]
    configure = await Get(Snapshot, DigestSubset(sources.snapshot.digest, PathGlobs(globs)))
    return ProjectSources(sources.snapshot, configure)


@rule(desc="Configure a project with CMake", level=LogLevel.DEBUG)
async def configure_project(
    request: ConfiguredProjectRequest,
    settings: FetchSettings,
    native: NativeSubsystem,
    global_options: GlobalOptions,
) -> ConfiguredProject:
    assert __package__ is not None
    address = request.address
    sandboxes = global_options.local_execution_root_dir
    unfit = unfit_root(sandboxes) or unfit_root(os.path.realpath(sandboxes))
    if unfit:
        raise NativeError(
            f"{address} can't be built in {sandboxes}, where Pants makes its sandboxes: compilers' "
            f"flags can't name a folder with {unfit!r} in its path. Name another in "
            "`[GLOBAL].local_execution_root_dir`."
        )
    wrapped, tools, sources, program = await MultiGet(
        Get(WrappedTarget, WrappedTargetRequest(address, "<infallible>")),
        Get(ProjectTools, ProjectToolsRequest(address)),
        Get(ProjectSources, ProjectSourcesRequest(address)),
        Get(Program, ProgramRequest(__package__, PROGRAM_MODULES, main="configure")),
    )
    target = wrapped.target
    lists = f"{address.spec_path}/CMakeLists.txt".lstrip("/")
    if lists not in sources.configure.files:
        raise NativeError(
            f"{address}: there is no {lists} among its `{CMakeProjectSourcesField.alias}`: declare "
            "the project in the folder of its root `CMakeLists.txt`."
        )
    cache: dict[str, str] = dict(target[CMakeCacheField].value or {})
    build_type = target[CMakeBuildTypeField].value
    if build_type and _BUILD_TYPE in cache:
        raise NativeError(
            f"{address} has a `{CMakeBuildTypeField.alias}`, and {_BUILD_TYPE} in its "
            f"`{CMakeCacheField.alias}`: remove one of them."
        )
    if build_type or native.build_type:
        cache.setdefault(_BUILD_TYPE, build_type or native.build_type or "")
    # Editing what configuring doesn't read must not configure anew: it sees that the file is there.
    stand_ins = sorted(set(sources.snapshot.files) - set(sources.configure.files))
    start, added = await MultiGet(
        Get(
            Digest,
            CreateDigest([FileContent("run.sh", start_script(_PROGRAM).encode())]),
        ),
        Get(
            Digest,
            CreateDigest(
                [
                    *(FileContent(path, b"") for path in stand_ins),
                    FileContent(_TOOLCHAIN_FILE, tools.toolchain_file().encode()),
                ]
            ),
        ),
    )
    program_digest, input_digest = await MultiGet(
        Get(Digest, MergeDigests((program.digest, start))),
        Get(Digest, MergeDigests((sources.configure.digest, added))),
    )
    env = process_env(
        {
            **tools.runtime_env,
            **build_environment(tools.sanitizers),
            **(target[CMakeEnvField].value or {}),
        }
    )
    settings.leave()
    result = await Get(
        FallibleProcessResult,
        Process(
            argv=(
                "/bin/sh",
                f"{_PROGRAM}/run.sh",
                f"--project={address.spec_path}",
                f"--cmake={tools.cmake}",
                f"--toolchain-file={_TOOLCHAIN_FILE}",
                *(f"--tree={path}" for path in sorted(tools.trees)),
                f"--record={_RECORD}",
                "--",
                *(f"-D{name}={value}" for name, value in sorted(tools.cache(cache).items())),
            ),
            env=env,
            input_digest=input_digest,
            immutable_input_digests={**tools.trees, _PROGRAM: program_digest},
            append_only_caches=HOST_CACHE,
            output_directories=(BUILD,),
            output_files=(_RECORD,),
            description=f"Configure {address} with CMake",
            remote_cache_speculation_delay_millis=_SPECULATION_DELAY_MS,
        ),
    )
    output = result.stderr.decode("utf-8", "replace").rstrip()
    if result.exit_code != 0:
        hint = (
            f"\n{missing_runtime(native.toolchain if tools.toolchain else '')}"
            if tools.sanitizers and RUNTIME.search(output)
            else ""
        )
        raise NativeError(f"{address} can't be configured:\n{output}{hint}")
    record_digest, digest = await MultiGet(
        Get(Digest, DigestSubset(result.output_digest, PathGlobs([_RECORD]))),
        Get(Digest, DigestSubset(result.output_digest, PathGlobs([f"{BUILD}/**"]))),
    )
    (content,) = await Get(DigestContents, Digest, record_digest)
    record = json.loads(content.content)
    _refuse_unseen(address, [path for path in stand_ins if below(path, record["reads"])])
    if record["network"]:
        await Get(NetworkNotice, NetworkNoticeRequest(address))
    return ConfiguredProject(digest, tuple(record["with_token"]), FrozenDict(env))


# --- the project as a graph --------------------------------------------------------------------


@dataclass(frozen=True)
class NativeProjectRequest(EngineAwareParameter):
    """Asks for a project, ready to run its edges."""

    address: Address

    def debug_hint(self) -> str:
        return self.address.spec


@dataclass(frozen=True)
class NativeProject:
    """A project in one state of its files.

    :param entries: all files that no edge makes, by their paths below the sandbox's root.
    :param texts: the content of the files that CMake wrote, by the same paths.
    :param generated: the content of what edges made, as far as others include it.
    :param numbers: of each edge that isn't phony, by index, counted as ninja counts them.
    """

    address: Address
    sources: Digest
    configured: ConfiguredProject
    trees: FrozenDict[str, Digest]
    host: HostCompiler | None
    compile_flags: tuple[str, ...]
    manifest: Manifest = field(compare=False, repr=False)
    entries: Mapping[str, FileEntry | SymlinkEntry] = field(compare=False, repr=False)
    texts: Mapping[str, bytes] = field(compare=False, repr=False)
    resolver: Resolver = field(compare=False, repr=False)
    generated: dict[str, bytes] = field(compare=False, repr=False)
    makers: Mapping[str, int] = field(compare=False, repr=False)
    numbers: Mapping[int, int] = field(compare=False, repr=False)


@rule(desc="Read a project's ninja manifest", level=LogLevel.DEBUG)
async def read_project(request: NativeProjectRequest) -> NativeProject:
    address = request.address
    configured, sources, tools = await MultiGet(
        Get(ConfiguredProject, ConfiguredProjectRequest(address)),
        Get(ProjectSources, ProjectSourcesRequest(address)),
        Get(ProjectTools, ProjectToolsRequest(address)),
    )
    contents, source_entries, configured_contents, configured_entries = await MultiGet(
        Get(DigestContents, Digest, sources.snapshot.digest),
        Get(DigestEntries, Digest, sources.snapshot.digest),
        Get(DigestContents, Digest, configured.digest),
        Get(DigestEntries, Digest, configured.digest),
    )
    known = {file.path: file.content for file in (*contents, *configured_contents)}

    def manifest_text(name: str) -> str:
        return known[f"{BUILD}/{name}"].decode("utf-8", "surrogateescape")

    try:
        manifest = read_manifest(manifest_text)
    except ManifestError as e:
        raise NativeError(f"{address}: {e}") from None
    _check_configure_sources(address, manifest, sources)
    makers = {
        path: index
        for index, edge in enumerate(manifest.edges)
        # The edge that would configure anew: that has been done.
        if not edge.is_phony and not edge.generator
        for path in (in_root(output) for output in edge.all_outputs)
        if path is not None
    }
    entries = {
        entry.path: entry
        for entry in (*source_entries, *configured_entries)
        if isinstance(entry, (FileEntry, SymlinkEntry))
    }
    generated: dict[str, bytes] = {}
    resolver = Resolver(
        (*entries, *makers),
        lambda path: known.get(path, generated.get(path)),
        outside=tools.trees,
        roots=(ROOT_TOKEN,),
        scans=_SCANS,
    )
    indices = {id(edge): index for index, edge in enumerate(manifest.edges)}
    ordered = [edge for edge in manifest.edges_for(manifest.default_targets) if not edge.is_phony]
    numbers = {indices[id(edge)]: number for number, edge in enumerate(ordered, start=1)}
    return NativeProject(
        address,
        sources.snapshot.digest,
        configured,
        tools.trees,
        tools.host,
        tools.compile_flags,
        manifest,
        entries,
        {file.path: file.content for file in configured_contents},
        resolver,
        generated,
        makers,
        numbers,
    )


def _check_configure_sources(address: Address, manifest: Manifest, sources: ProjectSources) -> None:
    # CMake writes down all that it read, as what its own edge depends on.
    edge = manifest.edge_of("build.ninja")
    inputs = edge.all_inputs if edge is not None else ()
    read = {path for path in map(in_root, inputs) if path is not None}
    _refuse_unseen(
        address, sorted((read & set(sources.snapshot.files)) - set(sources.configure.files))
    )


def _refuse_unseen(address: Address, unseen: list[str]) -> None:
    if unseen:
        raise NativeError(
            f"{address}: configuring reads {', '.join(unseen)}, which it saw as an empty file. Add "
            f"it to `{CMakeConfigureSourcesField.alias}`."
        )


# --- edges -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EdgeRequest(EngineAwareParameter):
    """Asks for what one edge of a project makes."""

    project: Address
    index: int

    def debug_hint(self) -> str:
        return f"{self.project} edge {self.index}"

    def metadata(self) -> dict[str, Any]:
        return work_metadata(EDGE, self.project.spec)


@dataclass(frozen=True)
class EdgeFailure:
    """An edge whose command failed: what it was doing, and all that a person needs to see."""

    description: str
    message: str


@dataclass(frozen=True)
class EdgeResult(EngineAwareReturnType):
    """What an edge made, by paths below the sandbox's root; or the failures that are in the way,
    its own or those of the edges that it needs."""

    project: Address
    output: str
    digest: Digest
    failures: tuple[EdgeFailure, ...] = ()

    def metadata(self) -> dict[str, Any]:
        return work_metadata(EDGE, self.project.spec, self.output)


def _failures(results: tuple[EdgeResult, ...]) -> tuple[EdgeFailure, ...]:
    return tuple(dict.fromkeys(failure for result in results for failure in result.failures))


# The engine finds the `Get`s of helpers only where they stand above the rules that call them.


async def _included_inputs(
    project: NativeProject, step: Step
) -> tuple[set[str], set[str], dict[int, EdgeResult]]:
    """The files and folders that a compile or TableGen run may open, and the edges that make those
    which are generated, run as far as that takes."""
    built: dict[int, EdgeResult] = {}
    files: set[str] = set()
    folders: set[str] = set()
    while True:
        if step.compile is not None:
            closure = project.resolver.compile_closure(step.compile.source, step.compile.search)
        else:
            assert step.tablegen is not None
            closure = project.resolver.tablegen_closure(step.tablegen.source, step.tablegen.search)
        files, folders = set(closure.files), set(closure.folders)
        if closure.unknown:
            # Nobody knows what is included: rather too much than too little.
            files.update(path for path in project.entries if _HEADER.search(path))
            files.update(path for path in project.makers if _HEADER.search(path))
        needed = {project.makers[path] for path in files if path in project.makers}
        todo = sorted(needed - set(built))
        if not todo:
            return files, folders, built
        results = await MultiGet(
            Get(EdgeResult, EdgeRequest(project.address, index)) for index in todo
        )
        built.update(zip(todo, results))
        if _failures(results):
            return files, folders, built
        contents = await MultiGet(Get(DigestContents, Digest, result.digest) for result in results)
        for each in contents:
            project.generated.update({file.path: file.content for file in each})


async def _declared(
    project: NativeProject, index: int, step: Step
) -> tuple[set[str], dict[int, EdgeResult]]:
    """The files that the manifest names as inputs of an edge which isn't understood further."""
    edge = project.manifest.edges[index]
    is_link = "LINKER" in edge.rule or "LIBRARY" in edge.rule
    files = set(declared_inputs(project.manifest, edge, order_only=not is_link))
    if not is_link:
        # A custom command may read what its words name, and all in the folders that they name.
        for path in named_paths(step.command):
            if path in project.entries or path in project.makers:
                files.add(path)
            elif path not in ("", BUILD):
                files.update(e for e in project.entries if e.startswith(f"{path}/"))
        files.update(
            path
            for path in project.entries
            if path.startswith(f"{BUILD}/") and may_read(step.command, path)
        )
    files -= set(step.outputs)
    needed = sorted({project.makers[path] for path in files if path in project.makers} - {index})
    results = await MultiGet(
        Get(EdgeResult, EdgeRequest(project.address, index)) for index in needed
    )
    return files, dict(zip(needed, results))


async def _declared_of_understood(
    project: NativeProject, index: int
) -> tuple[set[str], dict[int, EdgeResult]]:
    """Inputs beyond what is included: an object may depend on a file that its command names."""
    edge = project.manifest.edges[index]
    files = set(declared_inputs(project.manifest, edge, order_only=False))
    needed = sorted({project.makers[path] for path in files if path in project.makers} - {index})
    results = await MultiGet(
        Get(EdgeResult, EdgeRequest(project.address, index)) for index in needed
    )
    return files, dict(zip(needed, results))


@rule(desc="Run an edge", level=LogLevel.DEBUG)
async def run_edge(request: EdgeRequest) -> EdgeResult:
    project = await Get(NativeProject, NativeProjectRequest(request.project))
    edge = project.manifest.edges[request.index]
    host = project.host
    step = make_step(edge, host.origin if host else "$ORIGIN", project.compile_flags)
    if host:
        step = traced_link(step, edge.rule, host)
    output = next((path[len(BUILD) + 1 :] for path in step.outputs if below(path, [BUILD])), "")
    folders: set[str] = set()
    if step.compile is not None or step.tablegen is not None:
        files, folders, built = await _included_inputs(project, step)
        also, more = await _declared_of_understood(project, request.index)
        files |= also
        built = {**more, **built}
    else:
        files, built = await _declared(project, request.index, step)
    results = tuple(built.values())
    failures = _failures(results)
    if failures:
        return EdgeResult(project.address, output, results[0].digest, failures)

    # Unity files, scripts and the like name others by the sandbox's path.
    expand = [path for path in project.configured.with_token if f"{BUILD}/{path}" in files]
    missing = sorted(
        file
        for file in files
        if file not in project.entries
        and file not in project.makers
        and not below(file, project.trees)
    )
    entries = [project.entries[path] for path in files if path in project.entries]
    made_folders = {BUILD, *step.folders, *folders}
    leaves = leaf_folders(made_folders, [entry.path for entry in entries])
    argv, long_files = edge_process(step, expand, _host_reads(step, host))
    is_link = is_program_link(edge)
    if step.compile is None and step.tablegen is None:
        # Those two are one run of a program that is known to open no connection.
        argv = offline(argv)
    own = await Get(
        Digest,
        CreateDigest(
            [
                *entries,
                *(Directory(path) for path in leaves),
                *(FileContent(path, content) for path, content in long_files.items()),
            ]
        ),
    )
    input_digest = await Get(Digest, MergeDigests((own, *(result.digest for result in results))))
    number = project.numbers.get(request.index)
    count = f"[{number}/{len(project.numbers)}] " if number else ""
    process = Process(
        argv=argv,
        env=project.configured.env,
        input_digest=input_digest,
        immutable_input_digests=project.trees,
        output_files=step.outputs,
        description=f"{count}{step.description}",
        remote_cache_speculation_delay_millis=_SPECULATION_DELAY_MS,
    )
    pool = pool_of(project.manifest, edge)
    if is_link or pool is not None:
        limits = await Get(EdgeLimits)
        process = limits.bounded(process, limits.bounds(is_link, pool))
    result = await Get(FallibleProcessResult, Process, process)
    stderr = result.stderr.decode("utf-8", "replace")
    if WITH_NETWORK in stderr:
        await Get(NetworkNotice, NetworkNoticeRequest(request.project))
        stderr = stderr.replace(f"{WITH_NETWORK}\n", "", 1)
    if result.exit_code == 0:
        return EdgeResult(project.address, output, result.output_digest)
    said = _without_sandbox(f"{result.stdout.decode('utf-8', 'replace')}\n{stderr}")
    hint = f"\nThese inputs are nowhere: {', '.join(missing)}." if missing else ""
    if step.compile is None and step.tablegen is None and not is_link:
        known = (*project.entries, *project.makers)
        undeclared = undeclared_reads(said, known, {*files, *step.outputs})
        if undeclared:
            hint += (
                f"\nThe project has {', '.join(undeclared)}, but this command sees only what it "
                "declares and names: add it to the `DEPENDS` of its `add_custom_command`."
            )
    return EdgeResult(
        project.address,
        output,
        result.output_digest,
        (
            EdgeFailure(
                step.description,
                f"{said.strip()}{hint}\n"
                f"To repeat it in a sandbox that `--keep-sandboxes=on_failure` keeps:\n"
                f"  {shown_command(step, project.configured.env.items())}",
            ),
        ),
    )


def _host_reads(step: Step, host: HostCompiler | None) -> HostReads:
    if host is None:
        return HostReads()
    return host.link_reads if step.link_depfile else host.compile_reads


@dataclass(frozen=True)
class GeneratedInputsRequest(EngineAwareParameter):
    """Asks for what a compile opens in the build folder; the compile itself is not run."""

    project: Address
    index: int

    def debug_hint(self) -> str:
        return f"{self.project} edge {self.index}"


@dataclass(frozen=True)
class GeneratedInputs:
    """Files below the sandbox's root, or what failed."""

    digest: Digest
    failures: tuple[EdgeFailure, ...] = ()


@rule
async def find_generated_inputs(request: GeneratedInputsRequest) -> GeneratedInputs:
    project = await Get(NativeProject, NativeProjectRequest(request.project))
    step = make_step(project.manifest.edges[request.index])
    folders: set[str] = set()
    if step.compile is not None:
        files, folders, built = await _included_inputs(project, step)
    else:
        files, built = await _declared(project, request.index, step)
    results = tuple(built.values())
    failures = _failures(results)
    if failures:
        return GeneratedInputs(EMPTY_DIGEST, failures)
    entries = [project.entries[path] for path in files if path in project.entries]
    configured = [entry for entry in entries if below(entry.path, [BUILD])]
    leaves = leaf_folders(
        [path for path in folders if below(path, [BUILD])], [entry.path for entry in configured]
    )
    own = await Get(Digest, CreateDigest([*configured, *(Directory(path) for path in leaves)]))
    merged = await Get(Digest, MergeDigests((own, *(result.digest for result in results))))
    return GeneratedInputs(merged)


def _without_sandbox(text: str) -> str:
    return re.sub(r"/[^\s:'\"]*/pants-sandbox-[A-Za-z0-9]+/(?:_build/\.\./)?", "", text)


# --- outputs -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class BuiltFilesRequest:
    """Asks for files that edges of a project make.

    :param files: below the sandbox's root.
    """

    project: Address
    files: tuple[str, ...]


@dataclass(frozen=True)
class BuiltFiles:
    """The files, by their paths in BUILD, and the project's shared libraries that they run with; or
    all that failed on the way, for people."""

    digest: Digest
    error: str = ""


@rule(desc="Build files of a project", level=LogLevel.DEBUG)
async def build_files(request: BuiltFilesRequest) -> BuiltFiles:
    project = await Get(NativeProject, NativeProjectRequest(request.project))
    wanted = run_time_files(project.manifest, project.makers, request.files)
    results = await MultiGet(
        Get(EdgeResult, EdgeRequest(project.address, index))
        for index in sorted({project.makers[file] for file in wanted})
    )
    failures = _failures(results)
    if failures:
        shown = "\n\n".join(f"FAILED: {f.description}\n{f.message}" for f in failures)
        count = f"{len(failures)} edge{'s' * (len(failures) != 1)} failed"
        return BuiltFiles(EMPTY_DIGEST, f"{count}.\n\n{shown}")
    merged = await Get(Digest, MergeDigests(result.digest for result in results))
    kept = await Get(Snapshot, DigestSubset(merged, PathGlobs(wanted)))
    absent = sorted(set(request.files) - set(kept.files))
    if absent:
        return BuiltFiles(
            EMPTY_DIGEST, f"the edges of {', '.join(absent)} ran, but didn't make it."
        )
    return BuiltFiles(await Get(Digest, RemovePrefix(kept.digest, BUILD)))


@dataclass(frozen=True)
class BuiltOutputRequest(EngineAwareParameter):
    """Asks for the files of a `cmake_output`. Fails with a NativeError."""

    address: Address

    def debug_hint(self) -> str:
        return self.address.spec


@dataclass(frozen=True)
class BuiltOutput:
    """Files by their paths in the build folder.

    :param path: where they are to be in sandboxes.
    :param library_path: for LD_LIBRARY_PATH of whoever runs them, with CHROOT; "" for none.
    :param trees: the artifacts that have those libraries, as immutable inputs.
    """

    address: Address
    path: str
    files: tuple[str, ...]
    digest: Digest
    library_path: str
    trees: FrozenDict[str, Digest]


@rule(desc="Build an output of a project", level=LogLevel.DEBUG)
async def build_output(request: BuiltOutputRequest) -> BuiltOutput:
    wrapped = await Get(WrappedTarget, WrappedTargetRequest(request.address, "<infallible>"))
    target = wrapped.target
    projects = await Get(
        Addresses,
        UnparsedAddressInputs(
            (target[CMakeOutputProjectField].value,),
            owning_address=request.address,
            description_of_origin=f"the `{CMakeOutputProjectField.alias}` of {request.address}",
        ),
    )
    project_address = projects[0]
    project, tools = await MultiGet(
        Get(NativeProject, NativeProjectRequest(project_address)),
        Get(ProjectTools, ProjectToolsRequest(project_address)),
    )
    files: dict[str, None] = {}
    for output in target[CMakeOutputOutputsField].value:
        behind = _files_of(project, output)
        if not behind:
            raise NativeError(_unknown_output(request.address, project, output))
        files.update(dict.fromkeys(behind))
    built = await Get(BuiltFiles, BuiltFilesRequest(project.address, tuple(files)))
    if built.error:
        raise NativeError(f"{request.address} can't be built: {built.error}")
    return BuiltOutput(
        request.address,
        target[CMakeOutputPathField].in_sandbox(request.address),
        tuple(file[len(BUILD) + 1 :] for file in files),
        built.digest,
        tools.library_path,
        tools.runtime_trees,
    )


def _files_of(project: NativeProject, output: str) -> list[str]:
    edge = project.manifest.edge_of(output)
    if edge is None:
        return []
    found = map(in_root, project.manifest.resolve_phony(output))
    return [path for path in found if path is not None and path in project.makers]


def _unknown_output(address: Address, project: NativeProject, output: str) -> str:
    names = [path for edge in project.manifest.edges for path in edge.all_outputs]
    near = difflib.get_close_matches(output, names, n=3, cutoff=0.5)
    same_name = [n for n in names if n.rpartition("/")[2] == output.rpartition("/")[2]][:3]
    hint = " or ".join(f"`{name}`" for name in dict.fromkeys([*same_name, *near]))
    return (
        f"{address}: {project.address} has no output `{output}`."
        + (f" Did you mean {hint}?" if hint else "")
        + " Outputs are files relative to the build folder, or targets of CMake."
    )


# --- used --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BuiltOutputsRequest:
    """Asks for all `cmake_output`s that targets depend on, transitively."""

    addresses: tuple[Address, ...]


@dataclass(frozen=True)
class BuiltOutputs:
    """The outputs, or why one of them can't be had, so that only what needs it fails."""

    outputs: tuple[BuiltOutput, ...]
    error: str = ""

    @property
    def immutable_input_digests(self) -> FrozenDict[str, Digest]:
        trees: dict[str, Digest] = {}
        for output in self.outputs:
            trees.update(output.trees)
            trees[output.path] = output.digest
        return FrozenDict(trees)


@rule(desc="Build what targets depend on", level=LogLevel.DEBUG)
async def build_outputs(request: BuiltOutputsRequest) -> BuiltOutputs:
    transitive = await Get(TransitiveTargets, TransitiveTargetsRequest(request.addresses))
    addresses = [t.address for t in transitive.closure if t.has_field(CMakeOutputSourceField)]
    try:
        outputs = await MultiGet(
            Get(BuiltOutput, BuiltOutputRequest(address)) for address in addresses
        )
    except NativeError as e:
        return BuiltOutputs((), str(e))
    return BuiltOutputs(outputs)


def rules():
    return [*collect_rules(), *compiler_rules.rules(), *limit_rules.rules()]
