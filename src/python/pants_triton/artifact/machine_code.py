"""Which machine a tree's programs and libraries are for, from their headers.

Upstream has served arm code under an x86-64 name. That is told here, by file and machine, rather
than by a build that fails in odd ways.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

# e_machine (https://www.sco.com/developers/gabi/latest/ch4.eheader.html) and cputype (mach/machine.h)
# of the machines that run programs. Device code, such as CUDA's cubins (190) and AMD's code objects
# (224), is ELF too, and belongs into trees for any machine.
_ELF_MACHINES = {
    (3, 1): "linux_x86",
    (62, 2): "linux_x86_64",
    (62, 1): "linux_x32",
    (40, 1): "linux_arm",
    (183, 2): "linux_arm64",
    (21, 2): "linux_ppc64",
    (22, 2): "linux_s390x",
    (243, 2): "linux_riscv64",
    (258, 2): "linux_loongarch64",
}
_MACHO_MACHINES = {
    7: "macos_x86",
    0x01000007: "macos_x86_64",
    12: "macos_arm",
    0x0100000C: "macos_arm64",
    18: "macos_ppc",
}
_PE_MACHINES = {0x014C: "windows_x86", 0x8664: "windows_x86_64", 0xAA64: "windows_arm64"}

_EXECUTABLE, _SHARED = 2, 3
_MAX_FAT = 16
#: How many programs and libraries of a tree are looked at.
SAMPLE = 64


@dataclass(frozen=True)
class Mismatch:
    """A tree for another machine. `found` are the machines that `file` is for."""

    file: str
    found: tuple[str, ...]
    expected: str

    def __str__(self) -> str:
        return f"{self.file} is for {' and '.join(self.found)}, not for {self.expected}"


def machines(header: bytes) -> tuple[str, ...]:
    """The machines that the program or shared library with this header (its first 4 KiB) runs on,
    such as `linux_x86_64`; more than one for a universal binary. Empty for anything else, device
    code included, and for machines not known here."""
    if header[:4] == b"\x7fELF":
        return _elf(header)
    if header[:4] in (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe"):
        return _known(_MACHO_MACHINES, struct.unpack_from("<I", header.ljust(8, b"\0"), 4)[0])
    if header[:4] in (b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf"):
        return _fat(header)
    if header[:2] == b"MZ":
        return _pe(header)
    return ()


def mismatch(tree: Path, platform: str) -> Mismatch | None:
    """What shows that `tree` is not for `platform`: a name of Pants or of the lock
    (`linux_x86_64-ubuntu`; `any` fits all).

    A tree may have some code for others (a 32-bit C library, say): it is wrong if more of what was
    looked at is for other machines than for this one.
    """
    expected = platform.partition("-")[0]
    if expected == "any":
        return None
    wrong: list[tuple[str, tuple[str, ...]]] = []
    verdicts: Counter[bool] = Counter()
    for file in _candidates(tree):
        with open(tree / file, "rb") as f:
            found = machines(f.read(4096))
        if found:
            verdicts[expected in found] += 1
            if expected not in found:
                wrong.append((file, found))
        if sum(verdicts.values()) >= SAMPLE:
            break
    if verdicts[False] <= verdicts[True]:
        return None
    return Mismatch(*wrong[0], expected)


def _candidates(tree: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(tree):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            if os.path.islink(path):
                continue
            if os.access(path, os.X_OK) or _is_library(name):
                yield os.path.relpath(path, tree)


def _is_library(name: str) -> bool:
    return name.endswith((".so", ".dylib", ".dll", ".exe", ".pyd")) or ".so." in name


def _elf(header: bytes) -> tuple[str, ...]:
    order = {1: "<", 2: ">"}.get(header[5] if len(header) > 5 else 0)
    if order is None or len(header) < 20:
        return ()
    kind, machine = struct.unpack_from(f"{order}HH", header, 16)
    if kind not in (_EXECUTABLE, _SHARED):
        return ()
    return _known(_ELF_MACHINES, (machine, header[4]))


def _fat(header: bytes) -> tuple[str, ...]:
    count = struct.unpack_from(">I", header.ljust(8, b"\0"), 4)[0]
    size = 20 if header[3] == 0xBE else 32
    # Java's classes have the same magic, then a version above 40.
    if not 0 < count <= _MAX_FAT or len(header) < 8 + count * size:
        return ()
    types = [struct.unpack_from(">I", header, 8 + i * size)[0] for i in range(count)]
    return tuple(name for t in types for name in _known(_MACHO_MACHINES, t))


def _pe(header: bytes) -> tuple[str, ...]:
    offset = struct.unpack_from("<I", header.ljust(64, b"\0"), 60)[0]
    if header[offset : offset + 4] != b"PE\0\0" or len(header) < offset + 6:
        return ()
    return _known(_PE_MACHINES, struct.unpack_from("<H", header, offset + 4)[0])


def _known(table: dict, key: object) -> tuple[str, ...]:
    return (table[key],) if key in table else ()
