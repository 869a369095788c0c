"""One folder with the shared libraries of a Debian tree, for LD_LIBRARY_PATH.

The programs of such a tree need libraries that lie in its system's folders, where a loader that
isn't in the tree's root doesn't look. These folders can't be named to it: the C library is in them
too, and one that doesn't fit the loader that runs (the host's own, of another version) crashes every
program, the host's included. So `.libraries` has a link to each library that a loader may ask for,
but to none of the C library's: those the host has, or nothing would run on it.
"""

from __future__ import annotations

import fnmatch
import os
import re
import struct
from pathlib import Path
from typing import BinaryIO, Iterator

from pants_triton.artifact.unpack import TIME

#: In the tree's root; not there where the tree has no library.
FOLDER = ".libraries"

# As the loader of Debian has them, in its order; then LLVM's own, which the tools have as RUNPATH.
_FOLDERS = ("lib/*-linux-*", "usr/lib/*-linux-*", "lib", "usr/lib", "usr/lib/llvm-*/lib")

# What glibc's packages have. `libcrypt.so.1` and `libnsl.so.2` are others' by now. The libraries of
# NSS are loaded by the host's C library, as the host's /etc says, so they must be the host's.
_C_LIBRARY = (
    *("ld-linux*.so.*", "ld64.so.*", "ld.so.*", "libc.so.*", "libm.so.*", "libmvec.so.*"),
    *("libpthread.so.*", "libdl.so.*", "librt.so.*", "libresolv.so.*", "libutil.so.*"),
    *("libanl.so.*", "libnsl.so.1", "libnss_*.so.*", "libthread_db.so.*"),
    *("libBrokenLocale.so.*", "libc_malloc_debug.so.*", "libmemusage.so", "libpcprofile.so"),
)

_ELF_SHARED = 3
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_STRTAB, _DT_SONAME = 0, 5, 14
# More in a header is no library that anybody made.
_MAX_ENTRIES = 4096
_MAX_NAME = 256


def link_libraries(tree: Path) -> tuple[str, ...]:
    """Make the folder `.libraries` in `tree`, a Debian system's root, and return the names in it,
    sorted. Where two folders have a library of the same name, it is the one that Debian's own loader
    would take. May raise OSError."""
    found = _libraries(tree)
    if not found:
        return ()
    os.mkdir(tree / FOLDER, 0o755)
    for name in sorted(found):
        link = tree / FOLDER / name
        os.symlink(os.path.join("..", found[name]), link)
        if os.utime in os.supports_follow_symlinks:
            os.utime(link, (TIME, TIME), follow_symlinks=False)
    for folder in (tree / FOLDER, tree):
        os.chmod(folder, 0o755)
        os.utime(folder, (TIME, TIME))
    return tuple(sorted(found))


def _libraries(tree: Path) -> dict[str, str]:
    """Name to path in `tree`."""
    found: dict[str, str] = {}
    for folder in _folders(tree):
        for name in sorted(os.listdir(tree / folder)):
            path = os.path.join(folder, name)
            if name not in found and _is_asked_for(name, tree / path) and _is_within(tree, path):
                found[name] = path
    return found


def _folders(tree: Path) -> Iterator[str]:
    seen = set()
    for pattern in _FOLDERS:
        for folder in sorted(tree.glob(pattern)):
            real = folder.resolve()
            # `/lib` may be a link to `/usr/lib`.
            if real.is_dir() and _is_within(tree, folder) and real not in seen:
                seen.add(real)
                yield str(real.relative_to(tree.resolve()))


def _is_within(tree: Path, path: str | Path) -> bool:
    root = os.path.realpath(tree)
    return os.path.realpath(tree / path).startswith(root + os.sep)


def _is_asked_for(name: str, path: Path) -> bool:
    """Whether a loader may look for a library of this name: one with a version, or the library's own
    name (`libbfd-2.40-system.so`). `libz.so` is for the linker."""
    if not re.search(r"\.so(\.[0-9]+)*$", name) or not path.is_file():
        return False
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in _C_LIBRARY):
        return False
    with open(path, "rb") as file:
        own = soname(file)
    return own == name or (own is not None and not name.endswith(".so"))


def soname(file: BinaryIO) -> str | None:
    """The name that a shared library (ELF) goes by to a loader; "" where it has none, None for any
    other file, however damaged."""
    try:
        return _soname(file)
    except (struct.error, ValueError, OverflowError):
        return None


def _soname(file: BinaryIO) -> str | None:
    # https://www.sco.com/developers/gabi/latest/ch4.eheader.html and ch5.dynamic.html
    def read(offset: int, form: str) -> tuple[int, ...]:
        file.seek(offset)
        return struct.unpack(order + form, file.read(struct.calcsize(order + form)))

    file.seek(0)
    start = file.read(6)
    if (
        start[:4] != b"\x7fELF"
        or len(start) < 6
        or start[4] not in (1, 2)
        or start[5] not in (1, 2)
    ):
        return None
    wide, order = start[4] == 2, "<" if start[5] == 1 else ">"
    if read(16, "H") != (_ELF_SHARED,):
        return None
    table = read(32, "Q")[0] if wide else read(28, "I")[0]
    size, count = read(54 if wide else 42, "HH")
    loads: list[tuple[int, int, int]] = []
    dynamic = (0, 0)
    for i in range(min(count, _MAX_ENTRIES)):
        if wide:
            kind, _, offset, address, _, length = read(table + i * size, "IIQQQQ")
        else:
            kind, offset, address, _, length = read(table + i * size, "IIIII")
        if kind == _PT_LOAD:
            loads.append((address, length, offset))
        elif kind == _PT_DYNAMIC:
            dynamic = (offset, length)
    entry, values = (16, "QQ") if wide else (8, "II")
    tags: dict[int, int] = {}
    for i in range(min(dynamic[1] // entry, _MAX_ENTRIES)):
        tag, value = read(dynamic[0] + i * entry, values)
        if tag == _DT_NULL:
            break
        tags.setdefault(tag, value)
    if _DT_SONAME not in tags or _DT_STRTAB not in tags:
        return ""
    for address, length, offset in loads:
        if address <= tags[_DT_STRTAB] < address + length:
            file.seek(tags[_DT_STRTAB] - address + offset + tags[_DT_SONAME])
            return file.read(_MAX_NAME).partition(b"\0")[0].decode("utf-8", "replace")
    return ""
