"""Histograms and scatter-add against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.atomics import block_histogram, histogram, scatter_add
from kernels.harness.device_arrays import ArrayBackend

pytestmark = pytest.mark.numerics


@pytest.mark.parametrize("count", [histogram, block_histogram])
@pytest.mark.parametrize("n_elements", [1, 1024, 10_007], ids=str)
def test_histogram(device: ArrayBackend, count, n_elements: int) -> None:
    # Uneven on purpose: programs meet in the low bins.
    x = np.minimum(np.random.default_rng(0).geometric(0.1, n_elements), 63)
    counts = device.array(np.zeros(64), "int32")
    count(device.array(x, "int32"), counts)
    np.testing.assert_array_equal(device.read(counts), np.bincount(x, minlength=64))


@pytest.mark.parametrize("count", [histogram, block_histogram])
def test_counts_are_added_to(device: ArrayBackend, count) -> None:
    counts = device.array(np.arange(16), "int32")
    count(device.array(np.full(100, 3), "int32"), counts)
    expected = np.arange(16)
    expected[3] += 100
    np.testing.assert_array_equal(device.read(counts), expected)


def test_histogram_leaves_out_what_is_out_of_range(device: ArrayBackend) -> None:
    counts = device.array(np.zeros(10), "int32")
    histogram(device.array(np.array([-1, 0, 9, 10, 9, 1000]), "int32"), counts)
    np.testing.assert_array_equal(device.read(counts), [1, 0, 0, 0, 0, 0, 0, 0, 0, 2])


def test_block_histogram_wants_a_power_of_two(device: ArrayBackend) -> None:
    with pytest.raises(ValueError, match="10 bins: must be a power of two"):
        block_histogram(device.empty((4,), "int32"), device.empty((10,), "int32"))


@pytest.mark.parametrize("columns", [1, 256, 300])
def test_scatter_add(device: ArrayBackend, columns: int) -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(50, columns)).astype(np.float32)
    rows = rng.integers(0, 7, 50)
    rows[rows == 4] = 5  # row 4 gets nothing
    start = rng.normal(size=(7, columns)).astype(np.float32)
    out = device.array(start, "float32")

    scatter_add(device.array(values, "float32"), device.array(rows, "int32"), out)

    expected = start.astype(np.float64)
    np.add.at(expected, rows, values)
    result = device.read(out)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(result[4], start[4])
