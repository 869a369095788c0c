"""What a project is built with: its artifacts, the compiler, CMake."""

from __future__ import annotations

import itertools
import logging
from dataclasses import dataclass
from typing import Mapping

from pants.engine.addresses import Address, Addresses, UnparsedAddressInputs
from pants.engine.engine_aware import EngineAwareParameter
from pants.engine.fs import Digest, DigestEntries
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import Target, WrappedTarget, WrappedTargetRequest
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.artifact.rules import ArtifactTrees, ArtifactTreesRequest
from pants_triton.native.compiler_rules import HostCompilerRequest, linker_name
from pants_triton.native.host_compiler import COMPILER_VARIABLES, HostCompiler, host_toolchain_file
from pants_triton.native.layout import (
    CHROOT,
    LIBRARIES,
    ROOT_TOKEN,
    Settings,
    Toolchain,
    find_toolchain,
    portable_flags,
    toolchain_file,
    with_flags,
)
from pants_triton.native.sanitizers import (
    SANITIZERS,
    cmake_variables,
    compiler_flags,
    test_environment,
)
from pants_triton.native.subsystem import CompilerSource, Linker, NativeError, NativeSubsystem
from pants_triton.native.target_types import CMakeEnvField, CMakeSanitizersField

logger = logging.getLogger(__name__)


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
        Get(
            ArtifactTrees,
            ArtifactTreesRequest((request.address, *itertools.chain(*named)), with_content=False),
        ),
        *(
            Get(ArtifactTrees, ArtifactTreesRequest(tuple(addresses), with_content=False))
            for addresses in named
        ),
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
        # It is run to be looked at, each time.
        here = await Get(ArtifactTrees, ArtifactTreesRequest((tree.address,)))
        if here.error:
            raise NativeError(f"{request.address} needs an artifact: {here.error}")
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


def rules():
    return collect_rules()
