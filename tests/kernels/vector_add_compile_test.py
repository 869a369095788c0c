"""Machine code of vector addition."""

from __future__ import annotations

import pytest

from kernels.harness.architectures import ALL
from kernels.harness.compiling import CompiledKernel, compile_kernel
from kernels.harness.instructions import LOAD, LOAD_16_BYTES, STORE, STORE_16_BYTES
from kernels.vector_add import vector_add_kernel

pytestmark = pytest.mark.compile

BLOCK_SIZE = 2048


def compile_for(arch: str, element: str, aligned: bool = True) -> CompiledKernel:
    return compile_kernel(
        vector_add_kernel,
        arch,
        {
            "x_ptr": f"*{element}",
            "y_ptr": f"*{element}",
            "out_ptr": f"*{element}",
            "n_elements": "i32",
        },
        {"BLOCK_SIZE": BLOCK_SIZE},
        multiples_of_16=["n_elements"] if aligned else [],
    )


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("element, size", [("fp32", 4), ("fp16", 2), ("bf16", 2), ("i32", 4)])
def test_moves_every_byte_once_and_16_at_a_time(arch: str, element: str, size: int) -> None:
    compiled = compile_for(arch, element)
    compiled.assert_fits()
    accesses = BLOCK_SIZE * size // (16 * compiled.threads)
    assert len(compiled.instructions(LOAD)) == 2 * accesses
    assert len(compiled.instructions(LOAD_16_BYTES)) == 2 * accesses
    assert len(compiled.instructions(STORE)) == accesses
    assert len(compiled.instructions(STORE_16_BYTES)) == accesses


@pytest.mark.parametrize("arch", ALL)
def test_every_access_is_masked(arch: str) -> None:
    assert compile_for(arch, "fp32").unmasked_accesses() == []


@pytest.mark.parametrize("arch", ALL)
def test_an_odd_length_is_moved_an_element_at_a_time(arch: str) -> None:
    # Whether the last elements may be touched changes from one element to the next.
    compiled = compile_for(arch, "fp32", aligned=False)
    assert len(compiled.instructions(LOAD)) == 2 * BLOCK_SIZE // compiled.threads


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize(
    "element, nvidia, amd",
    [
        ("fp32", r"add(\.rn)?(\.f32|\.f32x2)", r"v_(pk_)?add_f32"),
        ("i32", r"add\.s32", r"v_add_u32"),
    ],
)
def test_adds_once_an_element(arch: str, element: str, nvidia: str, amd: str) -> None:
    compiled = compile_for(arch, element)
    pattern = nvidia if compiled.architecture.is_nvidia else amd
    additions = compiled.instructions(pattern)
    packed = [line for line in additions if "f32x2" in line or "_pk_" in line]
    # Integers are added for addresses too, so at least; packed instructions add two numbers.
    assert len(additions) + len(packed) >= BLOCK_SIZE // compiled.threads
