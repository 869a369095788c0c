from __future__ import annotations

import io
import os
import struct
from pathlib import Path

import pytest

from pants_triton.artifact.libraries import FOLDER, link_libraries, soname
from pants_triton.artifact.unpack import TIME


def library(name: str | None, *, wide: bool = True, order: str = "<", kind: int = 3) -> bytes:
    """An ELF file with the soname `name` and nothing else."""
    base = 0x1000
    header, segment = (64, 56) if wide else (52, 32)
    word = "Q" if wide else "I"
    strings = b"\0libc.so.6\0" + (name or "").encode() + b"\0"
    tags = [(1, 1), *([(14, 11)] if name is not None else [])]
    dynamic = header + 2 * segment
    text = dynamic + (len(tags) + 2) * 2 * struct.calcsize(f"={word}")
    tags += [(5, base + text), (0, 0)]
    size = text + len(strings)

    def load(kind: int, offset: int, length: int) -> bytes:
        if wide:
            return struct.pack(
                f"{order}IIQQQQQQ", kind, 4, offset, base + offset, 0, length, length, 8
            )
        return struct.pack(f"{order}IIIIIIII", kind, offset, base + offset, 0, length, length, 4, 4)

    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    rest = (0, header, 0, 0, header, segment, 2, 0, 0, 0)
    return b"".join(
        (
            ident,
            struct.pack(f"{order}HHI{word}{word}{word}IHHHHHH", kind, 62, 1, *rest),
            load(1, 0, size),
            load(2, dynamic, text - dynamic),
            *(struct.pack(f"{order}{word}{word}", *tag) for tag in tags),
            strings,
        )
    )


def put(tree: Path, path: str, content: bytes | str) -> None:
    """A file, or a link where `content` is a text."""
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        file.symlink_to(content)
    else:
        file.write_bytes(content)


def links(tree: Path) -> dict[str, str]:
    return {name: os.readlink(tree / FOLDER / name) for name in sorted(os.listdir(tree / FOLDER))}


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("order", ["<", ">"])
def test_the_name_a_library_goes_by(wide: bool, order: str) -> None:
    def name(content: bytes) -> str | None:
        return soname(io.BytesIO(content))

    good = library("libz.so.1", wide=wide, order=order)
    assert name(good) == "libz.so.1"
    assert name(library(None, wide=wide, order=order)) == ""
    assert name(library("a", wide=wide, order=order, kind=2)) is None
    for content in (b"", b"\x7fELF", b"\x7fELF\x02\x01", b"INPUT ( libz.so.1 )"):
        assert name(content) is None
    # However damaged, it is no more than another answer.
    for cut in range(len(good)):
        name(good[:cut])
        name(good[:cut] + b"\xff" + good[cut + 1 :])


def test_what_a_loader_may_ask_for_is_linked(tmp_path: Path) -> None:
    system = "usr/lib/x86_64-linux-gnu"
    put(tmp_path, f"{system}/libz.so.1.2.13", library("libz.so.1"))
    put(tmp_path, f"{system}/libz.so.1", "libz.so.1.2.13")
    put(tmp_path, f"{system}/libbfd-2.40.so", library("libbfd-2.40.so"))
    put(tmp_path, "lib/x86_64-linux-gnu/libgcc_s.so.1", library("libgcc_s.so.1"))
    put(tmp_path, "usr/lib/llvm-19/lib/libMLIR.so.19.1", library("libMLIR.so.19.1"))
    put(tmp_path, "usr/lib/llvm-19/lib/libLLVM.so.1", f"../../../../{system}/libz.so.1.2.13")
    # For the linker, or for nobody:
    put(tmp_path, f"{system}/libz.so", "libz.so.1")
    put(tmp_path, f"{system}/libm.so", b"GROUP ( /lib/x86_64-linux-gnu/libm.so.6 )")
    put(tmp_path, f"{system}/libtext.so.1", b"no library")
    put(tmp_path, f"{system}/libgone.so.1", "libgone.so.1.0")
    put(tmp_path, f"{system}/libz.a", b"!<arch>")
    put(tmp_path, f"{system}/libstdc++.so.6.0.30-gdb.py", b"")
    put(tmp_path, f"{system}/gconv/libJIS.so", library("libJIS.so"))
    put(tmp_path, "usr/lib/llvm-19/lib/LLVMgold.so", library(None))
    put(tmp_path, "usr/share/libother.so.1", library("libother.so.1"))
    names = link_libraries(tmp_path)
    assert links(tmp_path) == {
        "libLLVM.so.1": "../usr/lib/llvm-19/lib/libLLVM.so.1",
        "libMLIR.so.19.1": "../usr/lib/llvm-19/lib/libMLIR.so.19.1",
        "libbfd-2.40.so": f"../{system}/libbfd-2.40.so",
        "libgcc_s.so.1": "../lib/x86_64-linux-gnu/libgcc_s.so.1",
        "libz.so.1": f"../{system}/libz.so.1",
        "libz.so.1.2.13": f"../{system}/libz.so.1.2.13",
    }
    assert names == tuple(links(tmp_path))
    assert all((tmp_path / FOLDER / name).is_file() for name in names)
    for path in (tmp_path, tmp_path / FOLDER, tmp_path / FOLDER / "libz.so.1"):
        assert path.lstat().st_mtime == TIME


@pytest.mark.parametrize(
    "name, linked",
    [
        ("ld-linux-x86-64.so.2", False),
        ("libBrokenLocale.so.1", False),
        ("libanl.so.1", False),
        ("libc.so.6", False),
        ("libc_malloc_debug.so.0", False),
        ("libdl.so.2", False),
        ("libm.so.6", False),
        ("libmemusage.so", False),
        ("libmvec.so.1", False),
        ("libnsl.so.1", False),
        ("libnss_dns.so.2", False),
        ("libpthread.so.0", False),
        ("libresolv.so.2", False),
        ("librt.so.1", False),
        ("libthread_db.so.1", False),
        ("libutil.so.1", False),
        ("libcrypt.so.1", True),
        ("libcurl.so.4", True),
        ("libmd.so.0", True),
        ("libnsl.so.2", True),
    ],
)
def test_the_c_library_is_the_host_s(tmp_path: Path, name: str, linked: bool) -> None:
    put(tmp_path, f"lib/x86_64-linux-gnu/{name}", library(name))
    assert link_libraries(tmp_path) == ((name,) if linked else ())
    # No folder where it would be empty.
    assert (tmp_path / FOLDER).exists() == linked


def test_of_two_the_one_that_debian_s_loader_takes(tmp_path: Path) -> None:
    folders = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "usr/lib", "usr/lib/llvm-19/lib")
    for i in range(len(folders)):
        tree = tmp_path / str(i)
        for folder in folders[i:]:
            put(tree, f"{folder}/libz.so.1", library("libz.so.1"))
        assert link_libraries(tree) == ("libz.so.1",)
        assert links(tree) == {"libz.so.1": f"../{folders[i]}/libz.so.1"}


def test_a_system_whose_lib_is_a_link(tmp_path: Path) -> None:
    put(tmp_path, "usr/lib/x86_64-linux-gnu/libz.so.1", library("libz.so.1"))
    put(tmp_path, "lib", "usr/lib")
    link_libraries(tmp_path)
    assert links(tmp_path) == {"libz.so.1": "../usr/lib/x86_64-linux-gnu/libz.so.1"}


def test_nothing_outside_the_tree_is_linked(tmp_path: Path) -> None:
    put(tmp_path, "host/libz.so.1", library("libz.so.1"))
    put(tmp_path, "tree/usr/lib/libz.so.1", str(tmp_path / "host/libz.so.1"))
    put(tmp_path, "tree/lib", str(tmp_path / "host"))
    assert link_libraries(tmp_path / "tree") == ()
