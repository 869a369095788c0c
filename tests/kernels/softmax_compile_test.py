"""Machine code of softmax."""

from __future__ import annotations

import pytest

from kernels.harness.architectures import ALL
from kernels.harness.compiling import CompiledKernel, compile_kernel
from kernels.harness.instructions import (
    BARRIER,
    EXCHANGE_LANES,
    EXP2,
    LOAD,
    LOAD_16_BYTES,
    STORE,
    STORE_16_BYTES,
)
from kernels.softmax import MAX_COLUMNS, num_warps, softmax_kernel

pytestmark = pytest.mark.compile


def compile_for(arch: str, block_size: int, warps: int | None = None) -> CompiledKernel:
    sizes = ("n_columns", "x_row_stride", "out_row_stride")
    return compile_kernel(
        softmax_kernel,
        arch,
        {"x_ptr": "*fp16", "out_ptr": "*fp16", **dict.fromkeys(sizes, "i32")},
        {"BLOCK_SIZE": block_size},
        multiples_of_16=sizes,
        num_warps=warps or num_warps(block_size),
    )


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("block_size", [2048, 8192, MAX_COLUMNS])
def test_reads_and_writes_a_row_once(arch: str, block_size: int) -> None:
    compiled = compile_for(arch, block_size)
    compiled.assert_fits()
    accesses = 2 * block_size // (16 * compiled.threads)
    for family in (LOAD, LOAD_16_BYTES, STORE, STORE_16_BYTES):
        assert len(compiled.instructions(family)) == accesses
    assert compiled.unmasked_accesses() == []


@pytest.mark.parametrize("arch", ALL)
def test_one_exponential_an_element(arch: str) -> None:
    compiled = compile_for(arch, 2048)
    assert len(compiled.instructions(EXP2)) == 2048 // compiled.threads


@pytest.mark.parametrize("arch", ALL)
def test_both_reductions_cross_lanes_and_warps(arch: str) -> None:
    compiled = compile_for(arch, 2048)
    # A maximum and a sum of four warps' values: 2 * 4 bytes would do at once, 4 one by one.
    assert compiled.shared_bytes >= 4 * compiled.num_warps
    assert compiled.instructions(BARRIER)
    # In one warp there is nobody to meet, but lanes still exchange.
    alone = compile_for(arch, 256, warps=1)
    assert alone.shared_bytes == 0
    assert not alone.instructions(BARRIER)
    # One at the very least for each of the two reductions.
    assert len(alone.instructions(EXCHANGE_LANES)) >= 2


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_longer_rows_would_spill(arch: str) -> None:
    # Why MAX_COLUMNS is what it is. If this fails, the compiler has become better: raise it.
    assert compile_for(arch, 2 * MAX_COLUMNS, warps=16).scratch_bytes > 0
