"""The compile helper itself: what it sees must be there, and what is wrong must show."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import triton
import triton.language as tl

from kernels.harness.architectures import ALL, AMD, ARCHITECTURES, NVIDIA
from kernels.harness.compiling import CompiledKernel, KernelCompileError, compile_kernel
from kernels.harness.instructions import LOAD_16_BYTES
from kernels.softmax import softmax_kernel

pytestmark = pytest.mark.compile


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, MASKED: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    if MASKED:
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)
    else:
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))


def compile_copy(arch: str, masked: bool = True, n_is_multiple: bool = True) -> CompiledKernel:
    return compile_kernel(
        copy_kernel,
        arch,
        {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"},
        {"MASKED": masked, "BLOCK_SIZE": 1024},
        multiples_of_16=["n"] if n_is_multiple else [],
    )


@pytest.mark.parametrize("arch", ALL)
def test_makes_code_for_the_architecture(arch: str) -> None:
    compiled = compile_copy(arch)
    assert compiled.architecture is not None and compiled.architecture.name == arch
    assert arch in compiled.assembly
    assert compiled.binary.startswith(b"\x7fELF")
    assert compiled.registers > 0
    assert compiled.threads == 4 * (32 if arch in NVIDIA else 64)


@pytest.mark.parametrize("arch", ALL)
def test_wide_loads_need_the_promise_of_alignment(arch: str) -> None:
    assert compile_copy(arch).instructions(LOAD_16_BYTES)
    assert not compile_copy(arch, n_is_multiple=False).instructions(LOAD_16_BYTES)


@pytest.mark.parametrize("arch", ALL)
def test_sees_a_missing_mask(arch: str) -> None:
    assert compile_copy(arch).unmasked_accesses() == []
    assert len(compile_copy(arch, masked=False).unmasked_accesses()) == 2


@pytest.mark.parametrize(
    "arch, options", [("sm_90", {"maxnreg": 32}), ("gfx942", {"waves_per_eu": 8})]
)
def test_sees_spilled_registers(arch: str, options: dict[str, Any]) -> None:
    # A long row for a single warp, each of whose threads gets few registers.
    compiled = compile_kernel(
        softmax_kernel,
        arch,
        {
            "x_ptr": "*fp32",
            "out_ptr": "*fp32",
            "n_columns": "i32",
            "x_row_stride": "i32",
            "out_row_stride": "i32",
        },
        {"BLOCK_SIZE": 8192 if arch in AMD else 2048},
        num_warps=1,
        **options,
    )
    assert compiled.scratch_bytes > 0
    assert compiled.vector_spills > 0 or arch in NVIDIA
    with pytest.raises(AssertionError, match="bytes a thread of scratch"):
        compiled.assert_fits()


@pytest.mark.parametrize("arch", ALL)
def test_shared_memory_has_a_limit(arch: str) -> None:
    limit = ARCHITECTURES[arch].shared_limit
    compiled = compile_copy(arch)
    replace(compiled, shared_bytes=limit).assert_fits()
    with pytest.raises(AssertionError, match=f"needs {limit + 1} of {limit} bytes"):
        replace(compiled, shared_bytes=limit + 1).assert_fits()


def test_the_compilers_own_words_reach_the_caller() -> None:
    with pytest.raises(KernelCompileError, match="power of 2"):
        compile_kernel(
            copy_kernel,
            "sm_90",
            {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"},
            {"MASKED": True, "BLOCK_SIZE": 1000},
        )


def test_a_forgotten_parameter_is_named() -> None:
    with pytest.raises(KernelCompileError, match=r"copy_kernel: no type and no value for \['n'\]"):
        compile_kernel(
            copy_kernel,
            "sm_90",
            {"x_ptr": "*fp32", "out_ptr": "*fp32"},
            {"MASKED": True, "BLOCK_SIZE": 64},
        )


def test_compiles_in_a_process_that_interprets() -> None:
    script = """
import triton
from kernels.harness.compiling_test import compile_copy, copy_kernel
assert not isinstance(copy_kernel, triton.JITFunction)
print(compile_copy("sm_90").instructions("st.global")[0])
"""
    environ = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    assert "st.global.v4.b32" in result.stdout
