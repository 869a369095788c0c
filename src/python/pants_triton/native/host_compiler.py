"""A compiler of this host: what its probe found, what projects may read of it, how CMake gets it."""

from __future__ import annotations

import hashlib
import json
import posixpath
import shlex
from dataclasses import dataclass, replace
from typing import Any, Iterable, Mapping, Sequence

from pants_triton.native.edges import HostReads, Step
from pants_triton.native.layout import ROOT_TOKEN, Settings, common_settings

#: The variable with the fingerprint, in the environment of configuring and of every edge: a result
#: made with another compiler is under another key.
FINGERPRINT_VARIABLE = "PANTS_TRITON_HOST_COMPILER"

#: Of a project's `env`, what changes where a compiler looks for things.
COMPILER_VARIABLES = (
    *("PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH", "LD_LIBRARY_PATH"),
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"),
    *("SDKROOT", "DEVELOPER_DIR", "MACOSX_DEPLOYMENT_TARGET"),
)

# Written by the linker, relative to the build folder.
_LINK_DEPFILE = "_link.d"


class HostCompilerError(Exception):
    """This host has no such compiler. The message names the options that help."""


@dataclass(frozen=True)
class HostCompiler:
    """A compiler with what it takes from this host. It may be an artifact's that has no headers and
    libraries of C and C++: then its own paths begin with ROOT_TOKEN.

    :param fingerprint: sha256, in hexadecimal, of all that is known of it: version, target, search
        paths, and the content of its programs, headers and run-time libraries.
    :param version: for people, one line.
    :param folders: whose content is in the fingerprint: headers.
    :param files: of which that is so: programs, and what programs are linked with.
    :param extra: those of both that `[native].host_files` names.
    :param link_depfile: whether its linker says what it has read.
    :param sdk: folder of macOS' SDK, "" elsewhere.
    """

    fingerprint: str
    cc: str
    cxx: str
    ar: str
    ranlib: str
    version: str
    target: str
    folders: tuple[str, ...]
    files: tuple[str, ...]
    extra: tuple[str, ...] = ()
    link_depfile: bool = False
    sdk: str = ""

    @property
    def env(self) -> dict[str, str]:
        """What makes a process' result one of this compiler."""
        return {FINGERPRINT_VARIABLE: self.fingerprint}

    @property
    def origin(self) -> str:
        """What run-time search paths call the folder of the program or library."""
        return "@loader_path" if self.sdk else "$ORIGIN"

    @property
    def compile_reads(self) -> HostReads:
        """What a compile may read of this host."""
        return HostReads(self.folders, self.extra, _COMPILE_ADVICE)

    @property
    def link_reads(self) -> HostReads:
        """What a link may read of this host."""
        extra = tuple(path for path in self.extra if path in self.folders)
        return HostReads(extra, self.files, _LINK_ADVICE)


_COMPILE_ADVICE = (
    "Add what has them as an artifact to the project's dependencies, or name them or their folder in "
    "`[native].host_files`."
)
_LINK_ADVICE = (
    "They are none of the compiler's own libraries. Name them in `[native].host_files`, or add what "
    "has them as an artifact to the project's dependencies."
)


def read_record(text: str, files: Sequence[str] = (), is_toolchain: bool = False) -> HostCompiler:
    """The compiler of `host_probe`'s record.

    :param is_toolchain: whether it is an artifact's, with this host's headers and libraries.
    :param files: of the option `[native].host_files`.
    :raises HostCompilerError: if there is none.
    """
    record = json.loads(text)
    if "error" in record:
        raise HostCompilerError(_error(record, is_toolchain).replace(f"{ROOT_TOKEN}/", ""))
    folders, paths = record["folders"], record["files"]
    digests = {folders.get(posixpath.normpath(path), "") for path in files}
    file_digests = {paths.get(posixpath.normpath(path), "") for path in files}
    extra = [
        *(path for path, digest in folders.items() if digest in digests - {""}),
        *(path for path, digest in paths.items() if digest in file_digests - {""}),
    ]
    return HostCompiler(
        # The record is all that matters and nothing else: no time, no folder of a sandbox.
        fingerprint=hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest(),
        cc=record["c"]["path"],
        cxx=record["c++"]["path"],
        ar=record["ar"],
        ranlib=record["ranlib"],
        version=record["c++"]["version"].splitlines()[0],
        target=record["c++"]["target"],
        folders=tuple(folders),
        files=tuple(paths),
        extra=tuple(extra),
        link_depfile=record["link_depfile"],
        sdk=(record["sdk"] or {}).get("path", ""),
    )


def _error(record: Mapping[str, Any], is_toolchain: bool) -> str:
    kind = record["error"]
    if is_toolchain and kind in ("broken", "linker"):
        with_linker = f" with {record['linker']}" if kind == "linker" else ""
        command = f" `{shlex.join(record['command'])}` failed:" if kind == "broken" else ""
        return (
            f"The compiler of `[native].toolchain`{with_linker} doesn't work with this host's headers "
            f"and libraries, which `[native].sysroot` asks for:{command}\n{record['output']}\n"
            "Install those of C and C++ on this host (such as Debian's `libstdc++-dev` packages), or "
            "use a toolchain that has them."
        )
    if kind == "missing":
        language = record["language"]
        what, option = {
            "c": ("C compiler", "host_cc"),
            "c++": ("C++ compiler", "host_cxx"),
        }.get(language, (f"program `{language}`", ""))
        names = " or ".join(f"`{name}`" for name in record["names"]) or "no name at all"
        places = ", ".join(record["search_path"]) or "`[native].host_search_path`, which is empty"
        passed = (
            f" ({', '.join(record['launchers'])} was passed over: it is a compiler cache, of which "
            "there is no need here.)"
            if record["launchers"]
            else ""
        )
        where = f"Install one, or name it in `[native].{option}`" if option else "Install it"
        return (
            f"This host has no {what}: {names} is not in {places}.{passed} {where}, name its "
            "folder in `[native].host_search_path`, or use the compiler of an artifact: "
            '`[native].compiler = "toolchain"`.'
        )
    if kind == "linker":
        return (
            f"This host's compiler can't link with {record['linker']}, which the option "
            f"`[native].linker` asks for:\n{record['output']}\nInstall {record['linker']}, or leave "
            'the choice to the compiler: `[native].linker = "default"`.'
        )
    if kind == "file":
        return (
            f"The option `[native].host_files` names {record['path']!r}, which is not there. It "
            "must be the absolute path of a file or folder of this host."
        )
    return (
        f"This host's compiler doesn't work: `{shlex.join(record['command'])}` failed:\n"
        f"{record['output']}\n"
        "Repair it, or name another in `[native].host_cc` and `[native].host_cxx`."
    )


# --- for CMake ----------------------------------------------------------------------------------


def host_toolchain_file(
    compiler: HostCompiler, root: str, trees: Iterable[str], settings: Settings
) -> str:
    """CMake's toolchain file for a compiler of this host; see `layout.toolchain_file`."""
    lines = [
        f'set(CMAKE_C_COMPILER "{compiler.cc}")',
        f'set(CMAKE_CXX_COMPILER "{compiler.cxx}")',
        f'set(CMAKE_ASM_COMPILER "{compiler.cc}")',
        f'set(CMAKE_AR "{compiler.ar}" CACHE FILEPATH "")',
        f'set(CMAKE_RANLIB "{compiler.ranlib}" CACHE FILEPATH "")',
    ]
    if compiler.sdk:
        lines += [
            f'set(CMAKE_OSX_SYSROOT "{compiler.sdk}" CACHE PATH "")',
            # Else libraries are named by where they were built, which is a sandbox.
            'set(CMAKE_MACOSX_RPATH ON CACHE BOOL "")',
        ]
    return "\n".join([*lines, *common_settings(settings, root, trees)]) + "\n"


# --- for links ----------------------------------------------------------------------------------


def traced_link(step: Step, rule: str, compiler: HostCompiler) -> Step:
    """`step`, if `rule` is one by which CMake links a program or shared library, with an option by
    which the linker tells what it reads."""
    if not compiler.link_depfile or "LINKER" not in rule or "STATIC_LIBRARY" in rule:
        return step
    parts = step.command.split(" && ")
    for index, part in enumerate(parts):
        # What CMake does before and after it stands in other parts.
        if part.startswith((f"{compiler.cxx} ", f"{compiler.cc} ")) and " -o " in part:
            option = f"-Wl,--dependency-file={_LINK_DEPFILE}"
            # It is the last that counts: newer versions of CMake have one of their own.
            parts[index] = f"{part} {option}"
            return replace(step, command=" && ".join(parts), link_depfile=_LINK_DEPFILE)
    return step
