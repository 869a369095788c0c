"""Machine code of layer normalisation."""

from __future__ import annotations

import pytest

from kernels.harness.architectures import ALL
from kernels.harness.compiling import CompiledKernel, compile_kernel
from kernels.harness.instructions import BARRIER, EXCHANGE_LANES, LOAD_16_BYTES, STORE_16_BYTES
from kernels.layer_norm import (
    MAX_COLUMNS,
    layer_norm_backward_kernel,
    layer_norm_forward_kernel,
    num_warps,
    sum_parts_kernel,
)

pytestmark = pytest.mark.compile

SIZES = ("n_columns", "x_row_stride", "out_row_stride", "row_stride")


def compile_forward(arch: str, block_size: int) -> CompiledKernel:
    half = ("x_ptr", "weight_ptr", "bias_ptr", "out_ptr")
    return compile_kernel(
        layer_norm_forward_kernel,
        arch,
        {
            **dict.fromkeys(half, "*fp16"),
            **dict.fromkeys(("mean_ptr", "rstd_ptr"), "*fp32"),
            **dict.fromkeys(SIZES[:3], "i32"),
            "epsilon": "fp32",
        },
        {"BLOCK_SIZE": block_size},
        multiples_of_16=SIZES,
        num_warps=num_warps(block_size),
    )


def compile_backward(arch: str, block_size: int, warps: int | None = None) -> CompiledKernel:
    half = ("out_grad_ptr", "x_ptr", "weight_ptr", "x_grad_ptr")
    single = ("mean_ptr", "rstd_ptr", "weight_grad_parts_ptr", "bias_grad_parts_ptr")
    return compile_kernel(
        layer_norm_backward_kernel,
        arch,
        {
            **dict.fromkeys(half, "*fp16"),
            **dict.fromkeys(single, "*fp32"),
            **dict.fromkeys(("n_rows", "n_columns", "row_stride"), "i32"),
        },
        {"BLOCK_SIZE": block_size},
        multiples_of_16=SIZES,
        num_warps=warps or num_warps(block_size),
    )


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("block_size", [4096, MAX_COLUMNS])
def test_forward_keeps_the_row_in_registers(arch: str, block_size: int) -> None:
    compiled = compile_forward(arch, block_size)
    compiled.assert_fits()
    accesses = max(1, 2 * block_size // (16 * compiled.threads))
    wide = block_size * 2 >= 16 * compiled.threads
    # x, weight and bias once each, although mean, variance and output all need x.
    assert len(compiled.instructions(LOAD_16_BYTES)) == (3 * accesses if wide else 0)
    assert len(compiled.instructions(STORE_16_BYTES)) == (accesses if wide else 0)
    assert compiled.unmasked_accesses() == []
    assert compiled.instructions(r"sqrt")


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("block_size", [4096, MAX_COLUMNS])
def test_backward_fits(arch: str, block_size: int) -> None:
    compiled = compile_backward(arch, block_size)
    compiled.assert_fits()
    assert compiled.unmasked_accesses() == []
    assert compiled.instructions(STORE_16_BYTES)


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("compile_pass", [compile_forward, compile_backward])
def test_two_reductions_cross_lanes_and_warps(arch: str, compile_pass) -> None:
    compiled = compile_pass(arch, 1024)
    assert len(compiled.instructions(EXCHANGE_LANES)) >= 2 * 6
    assert compiled.instructions(BARRIER)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_longer_rows_would_spill(arch: str) -> None:
    # Why MAX_COLUMNS is what it is. If this fails, the compiler has become better: raise it.
    assert compile_backward(arch, 2 * MAX_COLUMNS, warps=16).scratch_bytes > 0


@pytest.mark.parametrize("arch", ALL)
def test_sum_of_parts_uses_no_atomics(arch: str) -> None:
    compiled = compile_kernel(
        sum_parts_kernel,
        arch,
        {"parts_ptr": "*fp32", "out_ptr": "*fp32", "n_parts": "i32", "n_columns": "i32"},
        {"BLOCK_PARTS": 32, "BLOCK_COLUMNS": 64},
        multiples_of_16=["n_columns"],
    )
    compiled.assert_fits()
    assert compiled.instructions(LOAD_16_BYTES)
    assert not compiled.instructions(r"atom")
    assert compiled.unmasked_accesses() == []
