"""What kernels compile to, for machines that aren't there."""

from __future__ import annotations

import re

import pytest
from minitriton import CompileError, compile_kernel
from minitriton.compiler import CompiledKernel
from minitriton.testing import add_kernel, axpy_kernel

NVIDIA = ["sm_80", "sm_90"]
AMD = ["gfx90a", "gfx942"]


def compile_add(arch: str, element: str = "f32", block: int = 256) -> CompiledKernel:
    pointers = {name: f"*{element}" for name in ("x", "y", "out")}
    return add_kernel.compile({**pointers, "n": "i32"}, {"BLOCK": block}, arch)


def test_metadata() -> None:
    compiled = compile_add("sm_90", "i64")
    assert compiled.name == "add_kernel"
    assert compiled.arch == "sm_90"
    assert compiled.threads == 128
    assert compiled.arguments == ("*i64", "*i64", "*i64", "i32")


@pytest.mark.parametrize("arch", NVIDIA)
def test_ptx(arch: str) -> None:
    ptx = compile_add(arch).assembly
    assert f".target {arch}" in ptx
    assert ".visible .entry add_kernel(" in ptx
    assert ".maxntid 128, 1, 1" in ptx


@pytest.mark.parametrize("arch", AMD)
def test_amd_assembly(arch: str) -> None:
    assembly = compile_add(arch).assembly
    assert f'.amdgcn_target "amdgcn-amd-amdhsa--{arch}' in assembly
    assert ".amdhsa_kernel add_kernel" in assembly


@pytest.mark.parametrize(
    "arch, load, store",
    [
        *((arch, r"ld\.global\.f32", r"st\.global\.f32") for arch in NVIDIA),
        *((arch, "global_load_dword ", "global_store_dword ") for arch in AMD),
    ],
)
@pytest.mark.parametrize("block", [128, 512])
def test_each_thread_moves_its_share(arch: str, load: str, store: str, block: int) -> None:
    assembly = compile_add(arch, block=block).assembly
    share = block // 128
    assert len(re.findall(load, assembly)) == 2 * share
    assert len(re.findall(store, assembly)) == share


@pytest.mark.parametrize("arch", AMD)
def test_objects_are_elf(arch: str) -> None:
    assert compile_add(arch).object().startswith(b"\x7fELF")


def test_there_are_no_objects_for_nvidia() -> None:
    with pytest.raises(Exception, match="LLVM makes no objects for sm_90"):
        compile_add("sm_90").object()


def test_what_is_the_same_for_a_block_is_computed_once() -> None:
    arguments = {"x": "*f32", "out": "*f32", "a": "f32", "n": "i32"}
    compiled = axpy_kernel.compile(arguments, {"BLOCK": 128, "RELU": True}, "sm_90")
    assert "mini.splat" in compiled.ir
    assert "llvm.maxnum" in compiled.llvm_ir()


def test_constants_choose_the_code() -> None:
    arguments = {"x": "*f32", "out": "*f32", "a": "f32", "n": "i32"}
    without = axpy_kernel.compile(arguments, {"BLOCK": 128, "RELU": False}, "sm_90")
    assert "max.f32" not in without.assembly


@pytest.mark.parametrize(
    "arch, message",
    [
        ("H100", "unknown architecture 'H100': expected host, sm_<number> or gfx<number>"),
        ("sm_12345", "this LLVM doesn't know the architecture sm_12345"),
    ],
)
def test_other_architectures_are_refused(arch: str, message: str) -> None:
    with pytest.raises(CompileError, match=re.escape(message)):
        compile_add(arch)


def test_blocks_that_threads_cannot_share_are_refused() -> None:
    with pytest.raises(CompileError, match="128 threads can't share equally"):
        compile_add("sm_90", block=100)


def test_types_are_named() -> None:
    with pytest.raises(ValueError, match=r"unknown type '\*f31': expected one of f16, f32"):
        compile_kernel(add_kernel.function, {"x": "*f31"}, {}, "sm_90")
