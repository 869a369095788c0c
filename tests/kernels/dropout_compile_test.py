"""Machine code of dropout."""

from __future__ import annotations

import pytest

from kernels.dropout import dropout_kernel
from kernels.harness.architectures import ALL
from kernels.harness.compiling import CompiledKernel, compile_kernel
from kernels.harness.instructions import LOAD, LOAD_16_BYTES, MULTIPLY_HIGH, STORE, STORE_16_BYTES

pytestmark = pytest.mark.compile

BLOCK_SIZE = 2048


def compile_for(arch: str) -> CompiledKernel:
    return compile_kernel(
        dropout_kernel,
        arch,
        {
            "x_ptr": "*fp16",
            "out_ptr": "*fp16",
            "n_elements": "i32",
            "drop_rate": "fp32",
            "seed": "i32",
        },
        {"BLOCK_SIZE": BLOCK_SIZE},
        multiples_of_16=["n_elements"],
    )


@pytest.mark.parametrize("arch", ALL)
def test_moves_every_byte_once_and_keeps_no_mask(arch: str) -> None:
    compiled = compile_for(arch)
    compiled.assert_fits()
    accesses = 2 * BLOCK_SIZE // (16 * compiled.threads)
    for family in (LOAD, LOAD_16_BYTES, STORE, STORE_16_BYTES):
        assert len(compiled.instructions(family)) == accesses
    assert compiled.unmasked_accesses() == []
    assert compiled.shared_bytes == 0


@pytest.mark.parametrize("arch", ALL)
def test_ten_rounds_of_philox_an_element(arch: str) -> None:
    compiled = compile_for(arch)
    # Two high products a round. Only one of four results is used, and three of four counters are
    # 0, so that the compiler can save some at both ends: 16 are left on AMD and NVIDIA alike.
    elements = BLOCK_SIZE // compiled.threads
    assert 16 * elements <= len(compiled.instructions(MULTIPLY_HIGH)) <= 20 * elements
    # Both multipliers of Philox4x32 (Salmon et al. 2011), as signed, unsigned or hex numbers.
    for multiplier in (0xD2511F53, 0xCD9E8D57):
        spellings = (str(multiplier), str(multiplier - 2**32), f"{multiplier:#x}")
        assert any(spelling in compiled.assembly for spelling in spellings)


@pytest.mark.parametrize("arch", ALL)
def test_what_is_kept_is_divided(arch: str) -> None:
    divisions = compile_for(arch).instructions(r"div\.full\.f32|v_rcp_f32")
    assert divisions
