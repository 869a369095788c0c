"""Where things are in the sandboxes of a project's processes, and how paths are told."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from typing import Iterable, Mapping

#: The build folder, below the root of every sandbox.
BUILD = "_build"

#: What stands for the root of the sandbox in files that configuring wrote: an absolute path as that
#: is, with nothing in it that CMake, ninja, a shell or `sed` has a meaning for.
ROOT_TOKEN = "/__pants_sandbox__"

#: The folder of an artifact's shared libraries, in its tree.
LIBRARIES = ".libraries"

#: What Pants replaces by that root in a process' arguments and environment.
CHROOT = "{chroot}"


# Of the folders that the compiler's flags, the linker's and `sed` take as they are.
_PLAIN_PATH = re.compile(r"[\w/.+@~-]*")


def unfit_root(folder: str) -> str:
    """The characters in the path of a folder by which no sandbox in it can build; "" for none. CMake
    passes paths on in flags, where a space ends them and a comma or colon divides them."""
    return "".join(sorted(set(_PLAIN_PATH.sub("", folder))))


def in_root(path: str, directory: str = BUILD) -> str | None:
    """The path below the sandbox's root of `path`, as it stands in the manifest (ROOT_TOKEN, or
    relative to `directory`); None where it is somewhere else."""
    if path == ROOT_TOKEN:
        return ""
    if path.startswith(f"{ROOT_TOKEN}/"):
        path = path[len(ROOT_TOKEN) + 1 :]
    elif path.startswith("/"):
        return None
    else:
        path = f"{directory}/{path}"
    path = posixpath.normpath(path)
    if path == ".":
        return ""
    return None if path.startswith("../") or path == ".." else path


def below(path: str, folders: Iterable[str]) -> bool:
    """Whether `path` is one of `folders` or in one of them."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def leaf_folders(folders: Iterable[str], files: Iterable[str]) -> list[str]:
    """The folders to make so that all of `folders` exist beside `files`: those with nothing in
    them. (Pants' engine panics where one of those that it is told to make is in another.)"""
    covered = set()
    for path in (*folders, *files):
        while "/" in path:
            path = path.rpartition("/")[0]
            if path in covered:
                break
            covered.add(path)
    return sorted({folder for folder in folders if folder} - covered - set(files))


@dataclass(frozen=True)
class Toolchain:
    """A compiler and what belongs to it, by paths in its tree.

    :param path: the tree's own, below the sandbox's root.
    :param bin: of `clang` and the like, "usr/lib/llvm-19/bin".
    :param is_sysroot: the tree has C's headers and libraries too.
    :param libraries: folder of the shared libraries that the tools need, "" for none.
    """

    path: str
    bin: str
    is_sysroot: bool
    libraries: str = ""

    @property
    def library_path(self) -> str:
        """For LD_LIBRARY_PATH, with CHROOT."""
        return f"{CHROOT}/{self.path}/{self.libraries}" if self.libraries else ""


def find_toolchain(path: str, members: Iterable[str]) -> Toolchain | None:
    """The toolchain in the tree at `path` with these files and links, the newest LLVM of several;
    None where there is no clang."""
    files = set(members)
    found = [
        match.group(1)
        for match in (
            re.fullmatch(r"((?:usr/lib/llvm-[0-9]+/|usr/)?bin)/clang\+\+", f) for f in files
        )
        if match
    ]
    if not found:
        return None
    # `usr/bin/clang++` is a link into one of the others.
    newest = max(
        found, key=lambda folder: ([int(number) for number in re.findall("[0-9]+", folder)], folder)
    )
    return Toolchain(
        path,
        newest,
        is_sysroot=any(
            f.startswith("usr/include/") and f.endswith("/stdio.h") or f == "usr/include/stdio.h"
            for f in files
        ),
        libraries=LIBRARIES if any(f.startswith(f"{LIBRARIES}/") for f in files) else "",
    )


@dataclass(frozen=True)
class Settings:
    """What CMake's toolchain files say of every compiler.

    :param flags: of compiles and links.
    :param linker: for `-fuse-ld=`, "" for the compiler's own.
    :param use_host: whether headers and libraries may be this host's.
    :param variables: more ones for CMake's cache.
    """

    flags: str
    linker: str = "lld"
    use_host: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)


def portable_flags(root: str, is_artifact: bool) -> tuple[str, ...]:
    """The flags by which a compile's output has no path of the sandbox, whose root is `root`.
    `is_artifact` is whether the compiler is an artifact's, which is a clang."""
    prefix_map = f"-ffile-prefix-map={root}=."
    # Else clang names itself and its headers by where Pants really keeps them.
    return ("-no-canonical-prefixes", prefix_map) if is_artifact else (prefix_map,)


_LANGUAGES = ("C", "CXX", "ASM")
_LINKED = ("EXE", "SHARED", "MODULE")


def with_flags(cache: Mapping[str, str], flags: str, linker: str) -> dict[str, str]:
    """The cache variables, `flags` and `linker` in front of what they set of flags themselves."""
    own = {f"CMAKE_{language}_FLAGS": flags for language in _LANGUAGES}
    if linker:
        own.update({f"CMAKE_{kind}_LINKER_FLAGS": f"-fuse-ld={linker}" for kind in _LINKED})
    return {name: f"{own[name]} {value}" if name in own else value for name, value in cache.items()}


def toolchain_file(
    toolchain: Toolchain, root: str, trees: Iterable[str], settings: Settings
) -> str:
    """CMake's toolchain file. `root` is the sandbox's root as CMake shall see it; `trees` are the
    artifacts' folders, where packages are looked for."""
    tree = f"{root}/{toolchain.path}"
    lines = [
        f'set(CMAKE_C_COMPILER "{tree}/{toolchain.bin}/clang")',
        f'set(CMAKE_CXX_COMPILER "{tree}/{toolchain.bin}/clang++")',
        f'set(CMAKE_ASM_COMPILER "{tree}/{toolchain.bin}/clang")',
        f'set(CMAKE_AR "{tree}/{toolchain.bin}/llvm-ar" CACHE FILEPATH "")',
        f'set(CMAKE_RANLIB "{tree}/{toolchain.bin}/llvm-ranlib" CACHE FILEPATH "")',
        *common_settings(settings, root, trees),
    ]
    if toolchain.is_sysroot and not settings.use_host:
        lines.insert(0, f'set(CMAKE_SYSROOT "{tree}")')
    return "\n".join(lines) + "\n"


def common_settings(settings: Settings, root: str, trees: Iterable[str]) -> list[str]:
    """The lines of toolchain files that are the same for every compiler."""
    elsewhere = "BOTH" if settings.use_host else "ONLY"
    return [
        *(f'set(CMAKE_{language}_FLAGS_INIT "{settings.flags}")' for language in _LANGUAGES),
        *(
            f'set(CMAKE_{kind}_LINKER_FLAGS_INIT "-fuse-ld={settings.linker}")'
            for kind in _LINKED
            if settings.linker
        ),
        'set(CMAKE_EXPORT_COMPILE_COMMANDS ON CACHE BOOL "")',
        'set(FETCHCONTENT_FULLY_DISCONNECTED ON CACHE BOOL "")',
        f'set(CMAKE_FIND_ROOT_PATH "{";".join(f"{root}/{path}" for path in trees)}")',
        *(
            f"set(CMAKE_FIND_ROOT_PATH_MODE_{kind} {mode})"
            for kind, mode in (
                ("PROGRAM", "NEVER"),
                ("LIBRARY", elsewhere),
                ("INCLUDE", elsewhere),
                ("PACKAGE", "BOTH"),
            )
        ),
        *(f'set({name} "{value}" CACHE STRING "")' for name, value in settings.variables.items()),
    ]
