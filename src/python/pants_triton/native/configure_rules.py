"""A project as CMake configures it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from pants.engine.addresses import Address
from pants.engine.engine_aware import EngineAwareParameter
from pants.engine.fs import (
    CreateDigest,
    Digest,
    DigestContents,
    DigestSubset,
    FileContent,
    MergeDigests,
    PathGlobs,
    Snapshot,
)
from pants.engine.process import Process
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import (
    HydratedSources,
    HydrateSourcesRequest,
    WrappedTarget,
    WrappedTargetRequest,
)
from pants.option.global_options import GlobalOptions
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.artifact.fetch_rules import (
    CACHE_HEAD_START_MS,
    HOST_CACHE,
    FetchSettings,
    start_script,
)
from pants_triton.artifact.rules import run_with_trees
from pants_triton.native.configure import PROGRAM_MODULES
from pants_triton.native.layout import BUILD, below, unfit_root
from pants_triton.native.sanitizers import RUNTIME, build_environment, missing_runtime
from pants_triton.native.subsystem import NativeError, NativeSubsystem
from pants_triton.native.target_types import (
    CMakeBuildTypeField,
    CMakeCacheField,
    CMakeConfigureSourcesField,
    CMakeEnvField,
    CMakeProjectSourcesField,
)
from pants_triton.native.tools_rules import (
    NetworkNotice,
    NetworkNoticeRequest,
    ProjectTools,
    ProjectToolsRequest,
    process_env,
)
from pants_triton.program.rules import Program, ProgramRequest
from pants_triton.workunits import CONFIGURE, work_metadata

_PROGRAM = ".pants_triton_configure"
_TOOLCHAIN_FILE = "_toolchain.cmake"
_RECORD = "_configure.json"
_BUILD_TYPE = "CMAKE_BUILD_TYPE"


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
    result = await run_with_trees(
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
            remote_cache_speculation_delay_millis=CACHE_HEAD_START_MS,
        ),
        (address,),
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
    refuse_unseen(address, [path for path in stand_ins if below(path, record["reads"])])
    if record["network"]:
        await Get(NetworkNotice, NetworkNoticeRequest(address))
    return ConfiguredProject(digest, tuple(record["with_token"]), FrozenDict(env))


def refuse_unseen(address: Address, unseen: list[str]) -> None:
    """Fail with a NativeError that names the sources that configuring saw only as stand-ins."""
    if unseen:
        raise NativeError(
            f"{address}: configuring reads {', '.join(unseen)}, which it saw as an empty file. Add "
            f"it to `{CMakeConfigureSourcesField.alias}`."
        )


def rules():
    return collect_rules()
