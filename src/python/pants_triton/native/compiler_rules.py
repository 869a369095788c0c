"""How the engine finds a compiler of this host, and what it is made of."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Iterable

from pants.engine.engine_aware import EngineAwareParameter
from pants.engine.env_vars import EnvironmentVars, EnvironmentVarsRequest
from pants.engine.fs import Digest
from pants.engine.process import Process, ProcessCacheScope, ProcessResult
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.native.host_compiler import HostCompiler, HostCompilerError, read_record
from pants_triton.native.host_probe import PROGRAM_MODULES
from pants_triton.native.subsystem import Linker, NativeError, NativeSubsystem
from pants_triton.program.rules import Program, ProgramPython, ProgramRequest

logger = logging.getLogger(__name__)

_PROGRAM = ".pants_triton_host_probe"

# Digests of the host's files are remembered here between runs of Pants.
_MEMORY = FrozenDict({"pants_triton_host_compiler": ".pants_triton_host_memory"})


@dataclass(frozen=True)
class HostCompilerRequest(EngineAwareParameter):
    """Asks for a compiler that takes its headers and libraries from this host. Fails with a
    NativeError.

    :param cc, cxx: the compilers, with CHROOT; those of the options if there are none.
    :param trees: the artifact that they are in.
    :param env: of compiles, as far as it changes what they read.
    """

    env: FrozenDict[str, str]
    cc: tuple[str, ...] = ()
    cxx: tuple[str, ...] = ()
    linker: str = ""
    trees: FrozenDict[str, Digest] = FrozenDict()

    def debug_hint(self) -> str:
        return " ".join(self.cxx)


def expanded_search_path(entries: Iterable[str], path_variable: str) -> list[str]:
    """The folders of the option `[native].host_search_path`."""
    return [
        folder
        for entry in entries
        for folder in (path_variable.split(os.pathsep) if entry == "<PATH>" else [entry])
        if folder
    ]


@rule(desc="Find this host's compiler", level=LogLevel.DEBUG)
async def find_host_compiler(
    request: HostCompilerRequest, native: NativeSubsystem, python: ProgramPython
) -> HostCompiler:
    assert __package__ is not None
    program, env = await MultiGet(
        Get(Program, ProgramRequest(__package__, PROGRAM_MODULES, main="host_probe")),
        Get(EnvironmentVars, EnvironmentVarsRequest(["PATH"])),
    )
    search_path = expanded_search_path(native.host_search_path, env.get("PATH", ""))
    (memory,) = _MEMORY.values()
    result = await Get(
        ProcessResult,
        Process(
            argv=(
                python.path.path,
                "-sE",
                _PROGRAM,
                *(f"--cc={name}" for name in request.cc or native.host_cc),
                *(f"--cxx={name}" for name in request.cxx or native.host_cxx),
                f"--search-path={os.pathsep.join(search_path)}",
                f"--linker={request.linker}",
                *(f"--tree={path}" for path in sorted(request.trees)),
                *(f"--file={path}" for path in native.host_files),
                f"--memory={memory}",
            ),
            env=request.env,
            immutable_input_digests={**request.trees, _PROGRAM: program.digest},
            append_only_caches=_MEMORY,
            description="Find this host's compiler",
            level=LogLevel.DEBUG,
            # A compiler is updated while a daemon lives, and what a rule reads is remembered for the
            # daemon's life: so this is a process, and one that is never cached.
            cache_scope=ProcessCacheScope.PER_SESSION,
        ),
    )
    try:
        compiler = read_record(result.stdout.decode(), native.host_files, bool(request.trees))
    except HostCompilerError as e:
        raise NativeError(str(e)) from None
    logger.debug(
        f"This host's compiler is {compiler.cxx} ({compiler.version}, {compiler.target}); its "
        f"fingerprint is {compiler.fingerprint}."
    )
    return compiler


def linker_name(linker: Linker, default: str) -> str:
    """For `-fuse-ld=`; `default` is that of the default linker, "" for the compiler's own."""
    return default if linker is Linker.DEFAULT else linker.value


def rules():
    return collect_rules()
