from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest

from pants_triton.artifact.machine_code import machines, mismatch

X86_64, AARCH64, CUDA, AMDGPU, S390 = 62, 183, 190, 224, 22
MAC_X86_64, MAC_ARM64 = 0x01000007, 0x0100000C


def elf(machine: int, kind: int = 3, bits: int = 2, big_endian: bool = False) -> bytes:
    order = ">" if big_endian else "<"
    ident = b"\x7fELF" + bytes([bits, 2 if big_endian else 1, 1])
    return ident.ljust(16, b"\0") + struct.pack(f"{order}HH", kind, machine) + bytes(44)


def macho(cpu: int) -> bytes:
    return struct.pack("<IiiI", 0xFEEDFACF, cpu, 3, 2) + bytes(16)


def universal(*cpus: int) -> bytes:
    parts = b"".join(struct.pack(">IIIII", cpu, 3, 0, 0, 0) for cpu in cpus)
    return struct.pack(">II", 0xCAFEBABE, len(cpus)) + parts


def pe(machine: int) -> bytes:
    return b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<H", machine)


@pytest.mark.parametrize(
    "header, expected",
    [
        pytest.param(elf(X86_64), ("linux_x86_64",), id="elf x86-64"),
        pytest.param(elf(X86_64, kind=2), ("linux_x86_64",), id="not position-independent"),
        pytest.param(elf(X86_64, bits=1), ("linux_x32",), id="x32"),
        pytest.param(elf(AARCH64), ("linux_arm64",), id="elf arm64"),
        pytest.param(elf(S390, big_endian=True), ("linux_s390x",), id="big-endian"),
        pytest.param(elf(X86_64, kind=1), (), id="object file"),
        pytest.param(elf(CUDA, kind=2), (), id="cubin"),
        pytest.param(elf(AMDGPU), (), id="code object"),
        pytest.param(macho(MAC_ARM64), ("macos_arm64",), id="mach-o"),
        pytest.param(universal(MAC_X86_64, MAC_ARM64), ("macos_x86_64", "macos_arm64"), id="fat"),
        pytest.param(b"\xca\xfe\xba\xbe\x00\x00\x00\x41" + bytes(2000), (), id="java"),
        pytest.param(pe(0xAA64), ("windows_arm64",), id="pe"),
        pytest.param(b"MZ, a text", (), id="text"),
        pytest.param(b"#!/bin/sh\n", (), id="script"),
        pytest.param(b"\x7fELF", (), id="cut off"),
        pytest.param(b"\xcf\xfa\xed\xfe", (), id="mach-o cut off"),
        pytest.param(b"\xca\xfe\xba\xbe", (), id="fat cut off"),
        pytest.param(b"MZ", (), id="pe cut off"),
        pytest.param(b"", (), id="empty"),
    ],
)
def test_machines(header: bytes, expected: tuple[str, ...]) -> None:
    assert machines(header) == expected


def make_tree(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
        (root / name).chmod(0o755 if "bin/" in name else 0o644)
    return root


@pytest.mark.parametrize("platform", ["linux_x86_64", "linux_x86_64-almalinux", "any"])
def test_a_tree_for_this_machine(tmp_path: Path, platform: str) -> None:
    files = {
        "bin/clang": elf(X86_64),
        "bin/lit": b"#!/usr/bin/env python3\n",
        "lib/libLLVM.so.19": elf(X86_64),
        "lib32/libc.so.6": elf(3, bits=1),
        "share/tests/arm": elf(AARCH64),
        "share/kernel.cubin": elf(CUDA, kind=2),
    }
    assert mismatch(make_tree(tmp_path, files), platform) is None


def test_a_tree_for_another_machine(tmp_path: Path) -> None:
    """As upstream's archive for "macOS x64" once was."""
    files = {"bin/mlir-opt": macho(MAC_ARM64), "lib/libMLIR.dylib": macho(MAC_ARM64)}
    wrong = mismatch(make_tree(tmp_path, files), "macos_x86_64")
    assert str(wrong) == "bin/mlir-opt is for macos_arm64, not for macos_x86_64"


def test_a_tree_for_another_system(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, {"bin/x": universal(MAC_X86_64, MAC_ARM64)})
    assert mismatch(tree, "macos_arm64") is None
    wrong = mismatch(tree, "linux_arm64")
    assert str(wrong) == "bin/x is for macos_x86_64 and macos_arm64, not for linux_arm64"


def test_headers_are_for_every_machine(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, {"include/cuda.h": b"#pragma once\n"})
    os.symlink("/nonexistent", tree / "include/libx.so")
    assert mismatch(tree, "linux_arm64") is None


@pytest.mark.skipif(sys.platform != "linux", reason="looks at this interpreter as an ELF file")
def test_a_real_program() -> None:
    found = machines(Path(os.path.realpath(sys.executable)).read_bytes()[:4096])
    machine = {"x86_64": "linux_x86_64", "aarch64": "linux_arm64"}.get(os.uname().machine)
    assert machine is None or found == (machine,)
