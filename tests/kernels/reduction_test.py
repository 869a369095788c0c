"""Reductions and scans against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.harness.device_arrays import ArrayBackend
from kernels.harness.element_types import ELEMENT_TYPES
from kernels.reduction import linear_recurrence, row_argmax, row_cumsum, row_sum

pytestmark = pytest.mark.numerics

# Blocks of 256: one element, one block, a block and a tail, many blocks.
BLOCK_SIZE = 256
SHAPES = [(3, 1), (4, 256), (5, 257), (2, 3000)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_row_sum(device: ArrayBackend, shape: tuple[int, int], dtype: str) -> None:
    x = ELEMENT_TYPES[dtype].round(np.random.default_rng(1).normal(size=shape))
    out = device.empty(shape[:1], "float32")
    row_sum(device.array(x, dtype), out, BLOCK_SIZE)
    np.testing.assert_allclose(
        device.read(out), x.sum(axis=1, dtype=np.float64), rtol=1e-5, atol=1e-4
    )


def test_row_sum_of_rows_with_gaps(device: ArrayBackend) -> None:
    x = np.random.default_rng(2).normal(size=(4, 600)).astype(np.float32)
    out = device.empty((4,), "float32")
    row_sum(device.array(x, "float32").narrow(1, 100, 300), out, BLOCK_SIZE)
    np.testing.assert_allclose(device.read(out), x[:, 100:400].sum(axis=1), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_row_argmax(device: ArrayBackend, shape: tuple[int, int], dtype: str) -> None:
    # All negative, so that padding with 0 would win.
    x = ELEMENT_TYPES[dtype].round(-1 - np.random.default_rng(3).random(shape))
    value, index = device.empty(shape[:1], dtype), device.empty(shape[:1], "int32")
    row_argmax(device.array(x, dtype), value, index, BLOCK_SIZE)
    np.testing.assert_array_equal(device.read(value), x.max(axis=1))
    np.testing.assert_array_equal(device.read(index), x.argmax(axis=1))


def test_row_argmax_takes_the_first_of_equals(device: ArrayBackend) -> None:
    x = np.zeros((3, 900), np.float32)
    x[0, [300, 310]] = 1  # in one block
    x[1, [700, 200]] = 1  # in two blocks
    x[2, 899] = 1  # the last of all
    value, index = device.empty((3,), "float32"), device.empty((3,), "int32")
    row_argmax(device.array(x, "float32"), value, index, BLOCK_SIZE)
    np.testing.assert_array_equal(device.read(index), [300, 200, 899])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_row_cumsum(device: ArrayBackend, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(4).normal(size=shape).astype(np.float32)
    out = device.empty(shape, "float32")
    row_cumsum(device.array(x, "float32"), out, BLOCK_SIZE)
    expected = np.cumsum(x, axis=1, dtype=np.float64)
    np.testing.assert_allclose(device.read(out), expected, rtol=1e-5, atol=1e-4)


def test_row_cumsum_of_integers_is_exact(device: ArrayBackend) -> None:
    x = np.random.default_rng(5).integers(-1000, 1000, (3, 1000)).astype(np.int32)
    out = device.empty(x.shape, "int32")
    row_cumsum(device.array(x, "int32"), out, BLOCK_SIZE)
    np.testing.assert_array_equal(device.read(out), np.cumsum(x, axis=1, dtype=np.int32))


@pytest.mark.parametrize("columns", [1, 64, 100])
def test_linear_recurrence(device: ArrayBackend, columns: int) -> None:
    rng = np.random.default_rng(6)
    a = rng.uniform(0.5, 1.1, (3, columns)).astype(np.float32)
    b = rng.normal(size=(3, columns)).astype(np.float32)
    out = device.empty(a.shape, "float32")
    linear_recurrence(device.array(a, "float32"), device.array(b, "float32"), out)
    expected = np.zeros((3, columns))
    state = np.zeros(3)
    for column in range(columns):
        state = a[:, column] * state + b[:, column]
        expected[:, column] = state
    np.testing.assert_allclose(device.read(out), expected, rtol=1e-4, atol=1e-4)
