"""Where things are in the sandboxes of a project's processes, and how paths are told."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import Iterable, Mapping

#: The build folder, below the root of every sandbox.
BUILD = "_build"

#: What stands for the root of the sandbox in files that configuring wrote: an absolute path as that
#: is, with nothing in it that CMake, ninja, a shell or `sed` has a meaning for.
ROOT_TOKEN = "/__pants_sandbox__"

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
        libraries=".libraries" if any(f.startswith(".libraries/") for f in files) else "",
    )


def toolchain_file(
    toolchain: Toolchain,
    root: str,
    trees: Iterable[str],
    flags: str = "",
    variables: Mapping[str, str] = {},
) -> str:
    """CMake's toolchain file. `root` is the sandbox's root as CMake shall see it; `trees` are the
    artifacts' folders, where packages are looked for; `flags` are more ones of the compiler,
    `variables` more ones of CMake's cache."""
    tree = f"{root}/{toolchain.path}"
    # `-no-canonical-prefixes`: else clang names itself and its headers by where Pants really keeps
    # them. The prefix map keeps the sandbox's path out of what is compiled.
    flags = f"-no-canonical-prefixes -ffile-prefix-map={root}=. {flags}".rstrip()
    lines = [
        f'set(CMAKE_C_COMPILER "{tree}/{toolchain.bin}/clang")',
        f'set(CMAKE_CXX_COMPILER "{tree}/{toolchain.bin}/clang++")',
        f'set(CMAKE_ASM_COMPILER "{tree}/{toolchain.bin}/clang")',
        f'set(CMAKE_AR "{tree}/{toolchain.bin}/llvm-ar" CACHE FILEPATH "")',
        f'set(CMAKE_RANLIB "{tree}/{toolchain.bin}/llvm-ranlib" CACHE FILEPATH "")',
        *(f'set(CMAKE_{language}_FLAGS_INIT "{flags}")' for language in ("C", "CXX", "ASM")),
        *(
            f'set(CMAKE_{kind}_LINKER_FLAGS_INIT "-fuse-ld=lld")'
            for kind in ("EXE", "SHARED", "MODULE")
        ),
        'set(CMAKE_EXPORT_COMPILE_COMMANDS ON CACHE BOOL "")',
        'set(FETCHCONTENT_FULLY_DISCONNECTED ON CACHE BOOL "")',
        f'set(CMAKE_FIND_ROOT_PATH "{";".join(f"{root}/{path}" for path in trees)}")',
        *(
            f"set(CMAKE_FIND_ROOT_PATH_MODE_{kind} {mode})"
            for kind, mode in (
                ("PROGRAM", "NEVER"),
                ("LIBRARY", "ONLY"),
                ("INCLUDE", "ONLY"),
                ("PACKAGE", "BOTH"),
            )
        ),
    ]
    if toolchain.is_sysroot:
        lines.insert(0, f'set(CMAKE_SYSROOT "{tree}")')
    lines += [f'set({name} "{value}" CACHE STRING "")' for name, value in variables.items()]
    return "\n".join(lines) + "\n"
