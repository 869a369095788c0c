"""Machine code of reductions and scans."""

from __future__ import annotations

from typing import Any

import pytest

from kernels.harness.architectures import ALL, AMD, NVIDIA
from kernels.harness.compiling import CompiledKernel, compile_kernel
from kernels.harness.instructions import BARRIER, EXCHANGE_LANES, LOAD_16_BYTES, STORE_16_BYTES
from kernels.reduction import (
    linear_recurrence_kernel,
    row_argmax_kernel,
    row_cumsum_kernel,
    row_sum_kernel,
)

pytestmark = pytest.mark.compile

SUM = (row_sum_kernel, {"x_ptr": "*fp32", "out_ptr": "*fp32"})
ARGMAX = (row_argmax_kernel, {"x_ptr": "*fp32", "value_ptr": "*fp32", "index_ptr": "*i32"})
CUMSUM = (row_cumsum_kernel, {"x_ptr": "*fp32", "out_ptr": "*fp32"})
RECURRENCE = (
    linear_recurrence_kernel,
    {"a_ptr": "*fp32", "b_ptr": "*fp32", "out_ptr": "*fp32"},
)
KERNELS = [
    pytest.param(SUM, id="sum"),
    pytest.param(ARGMAX, id="argmax"),
    pytest.param(CUMSUM, id="cumsum"),
    pytest.param(RECURRENCE, id="recurrence"),
]
SIZES = ("n_columns", "row_stride")


def compile_for(
    arch: str, kernel: tuple[Any, dict[str, str]], block_size: int = 1024, num_warps: int = 4
) -> CompiledKernel:
    function, pointers = kernel
    return compile_kernel(
        function,
        arch,
        {**pointers, **dict.fromkeys(SIZES, "i32")},
        {"BLOCK_SIZE": block_size},
        multiples_of_16=SIZES,
        num_warps=num_warps,
    )


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("kernel", KERNELS)
def test_fits_and_loads_wide(arch: str, kernel: tuple[Any, dict[str, str]]) -> None:
    compiled = compile_for(arch, kernel)
    compiled.assert_fits()
    assert compiled.instructions(LOAD_16_BYTES)
    assert compiled.unmasked_accesses() == []


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("kernel", KERNELS)
def test_lanes_exchange_registers_and_warps_shared_memory(
    arch: str, kernel: tuple[Any, dict[str, str]]
) -> None:
    compiled = compile_for(arch, kernel)
    assert compiled.shared_bytes >= 4 * compiled.num_warps
    assert compiled.instructions(BARRIER)
    # 32 lanes are combined in 5 steps, 64 in 6.
    steps = 5 if arch in NVIDIA else 6
    assert len(compiled.instructions(EXCHANGE_LANES)) >= steps


@pytest.mark.parametrize("arch", ALL)
def test_one_warp_needs_no_shared_memory(arch: str) -> None:
    compiled = compile_for(arch, SUM, block_size=256, num_warps=1)
    assert compiled.shared_bytes == 0
    assert not compiled.instructions(BARRIER)


@pytest.mark.parametrize("arch", NVIDIA)
def test_a_sum_combines_a_warp_in_five_butterflies(arch: str) -> None:
    compiled = compile_for(arch, SUM, block_size=256, num_warps=1)
    assert len(compiled.instructions(r"shfl\.sync\.bfly")) == 5


@pytest.mark.parametrize("arch", AMD)
def test_a_sum_adds_across_lanes_with_dpp(arch: str) -> None:
    # Data-parallel primitives: the addition itself reads another lane.
    compiled = compile_for(arch, SUM, block_size=256, num_warps=1)
    assert compiled.instructions(r"v_add_f32_dpp .*row_shr")


@pytest.mark.parametrize("arch", NVIDIA)
def test_a_scan_takes_from_lower_lanes_only(arch: str) -> None:
    # shfl.up hands values from lower lanes to higher ones: that is what makes it a running sum.
    assert len(compile_for(arch, CUMSUM).instructions(r"shfl\.sync\.up")) >= 5
    # Two coefficients travel together.
    assert len(compile_for(arch, RECURRENCE).instructions(r"shfl\.sync\.up")) >= 10


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("kernel", [CUMSUM, RECURRENCE], ids=["cumsum", "recurrence"])
def test_a_scan_writes_every_element(arch: str, kernel: tuple[Any, dict[str, str]]) -> None:
    compiled = compile_for(arch, kernel)
    assert len(compiled.instructions(STORE_16_BYTES)) == 4 * 1024 // (16 * compiled.threads)
