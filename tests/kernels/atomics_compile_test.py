"""Machine code of the kernels that use atomics."""

from __future__ import annotations

import pytest

from kernels.atomics import block_histogram_kernel, histogram_kernel, scatter_add_kernel
from kernels.harness.architectures import ALL
from kernels.harness.compiling import CompiledKernel, compile_kernel
from kernels.harness.instructions import ATOMIC_ADD_INT, LOAD_16_BYTES, STORE

pytestmark = pytest.mark.compile

BLOCK_SIZE = 1024
N_BINS = 64


def compile_histogram(arch: str) -> CompiledKernel:
    return compile_kernel(
        histogram_kernel,
        arch,
        {"x_ptr": "*i32", "counts_ptr": "*i32", "n_elements": "i32", "n_bins": "i32"},
        {"BLOCK_SIZE": BLOCK_SIZE},
        multiples_of_16=["n_elements"],
    )


def compile_block_histogram(arch: str) -> CompiledKernel:
    return compile_kernel(
        block_histogram_kernel,
        arch,
        {"x_ptr": "*i32", "counts_ptr": "*i32", "n_elements": "i32"},
        {"N_BINS": N_BINS, "BLOCK_SIZE": BLOCK_SIZE},
        multiples_of_16=["n_elements"],
    )


def compile_scatter_add(arch: str) -> CompiledKernel:
    sizes = ("n_columns", "row_stride")
    return compile_kernel(
        scatter_add_kernel,
        arch,
        {
            "values_ptr": "*fp32",
            "rows_ptr": "*i32",
            "out_ptr": "*fp32",
            **dict.fromkeys(sizes, "i32"),
        },
        {"BLOCK_SIZE": 256},
        multiples_of_16=sizes,
    )


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize(
    "compile_for", [compile_histogram, compile_block_histogram, compile_scatter_add]
)
def test_fits_and_writes_atomically_only(arch: str, compile_for) -> None:
    compiled = compile_for(arch)
    compiled.assert_fits()
    # A plain store to an address that programs share would lose counts.
    assert not compiled.instructions(STORE)
    assert compiled.unmasked_accesses() == []


@pytest.mark.parametrize("arch", ALL)
def test_histogram_has_an_atomic_an_element(arch: str) -> None:
    compiled = compile_histogram(arch)
    assert len(compiled.instructions(ATOMIC_ADD_INT)) == BLOCK_SIZE // compiled.threads
    assert compiled.instructions(LOAD_16_BYTES)


@pytest.mark.parametrize("arch", ALL)
def test_block_histogram_counts_in_shared_memory_first(arch: str) -> None:
    compiled = compile_block_histogram(arch)
    assert compiled.shared_bytes >= 4 * N_BINS
    assert compiled.instructions(r"atom\.shared\.add\.u32|ds_add_u32")
    # Then one atomic a bin: less than one a thread.
    assert len(compiled.instructions(ATOMIC_ADD_INT)) == 1


# What adds floating-point numbers atomically. gfx90a has such an instruction, but it is safe for
# some kinds of memory only, so Triton compares and swaps until nobody has come between.
@pytest.mark.parametrize(
    "arch, instruction",
    [
        ("sm_80", r"atom\.global\.gpu\.relaxed\.add\.f32"),
        ("sm_90", r"atom\.global\.gpu\.relaxed\.add\.v2\.f32"),
        ("sm_100", r"atom\.global\.gpu\.relaxed\.add\.v2\.f32"),
        ("gfx90a", r"global_atomic_cmpswap"),
        ("gfx942", r"(global|buffer)_atomic_add_f32"),
        ("gfx950", r"(global|buffer)_atomic_add_f32"),
    ],
)
def test_scatter_add_of_floats(arch: str, instruction: str) -> None:
    assert compile_scatter_add(arch).instructions(instruction)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_no_order_is_paid_for(arch: str) -> None:
    for compiled in (compile_histogram(arch), compile_block_histogram(arch)):
        assert all("relaxed" in line for line in compiled.instructions(ATOMIC_ADD_INT))
