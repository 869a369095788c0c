"""Arrays arrive as they were sent, and a kernel that leaves its array is found out."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

from kernels.harness.device_arrays import ArrayBackend
from kernels.harness.element_types import ELEMENT_TYPES

pytestmark = pytest.mark.numerics


@triton.jit
def shift_kernel(x_ptr, out_ptr, load_offset, store_offset, BLOCK_SIZE: tl.constexpr):
    """Copies BLOCK_SIZE elements, from and to wherever it is told."""
    elements = tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + store_offset + elements, tl.load(x_ptr + load_offset + elements))


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_values_survive_the_way_there_and_back(device: ArrayBackend, dtype: str) -> None:
    values = np.arange(24).reshape(4, 6)
    array = device.array(values, dtype)
    assert tuple(array.shape) == (4, 6)
    np.testing.assert_array_equal(device.read(array), ELEMENT_TYPES[dtype].round(values))


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_what_no_kernel_wrote_is_poison(device: ArrayBackend, dtype: str) -> None:
    values = device.read(device.empty((3,), dtype))
    if ELEMENT_TYPES[dtype].is_floating:
        assert np.isnan(values).all()
    else:
        np.testing.assert_array_equal(values, np.array([-1]).astype(values.dtype).repeat(3))


def test_views_share_their_bytes(device: ArrayBackend) -> None:
    values = np.arange(12).reshape(3, 4)
    array = device.array(values, "int32")
    np.testing.assert_array_equal(device.read(array.t()), values.T)
    np.testing.assert_array_equal(device.read(array.narrow(1, 1, 2)), values[:, 1:3])
    assert array.is_contiguous() and not array.t().is_contiguous()
    assert array.narrow(0, 1, 2).data_ptr() == array.data_ptr() + 16


def test_arrays_are_aligned_as_the_compile_checks_assume(device: ArrayBackend) -> None:
    for n_elements in (1, 3, 1000):
        assert device.empty((n_elements,), "int8").data_ptr() % 16 == 0


@pytest.mark.parametrize(
    "store_offset, side", [pytest.param(-1, "before", id="before"), pytest.param(1, "after")]
)
def test_a_store_outside_the_array_is_found(
    device: ArrayBackend, store_offset: int, side: str
) -> None:
    x, out = device.array(np.zeros(64), "int32"), device.empty((64,), "int32")
    shift_kernel[(1,)](x, out, 0, store_offset, BLOCK_SIZE=64)
    with pytest.raises(AssertionError, match=f"wrote 4 bytes {side} an array"):
        device.read(out)


def test_a_load_outside_the_array_poisons_the_result(device: ArrayBackend) -> None:
    x, out = device.array(np.zeros(64), "float32"), device.empty((64,), "float32")
    shift_kernel[(1,)](x, out, 1, 0, BLOCK_SIZE=64)
    result = device.read(out)
    assert np.isnan(result[63]) and not np.isnan(result[:63]).any()
