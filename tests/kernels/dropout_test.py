"""Dropout: what is kept, how much, and that the seed alone decides."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.dropout import dropout
from kernels.harness.device_arrays import ArrayBackend
from kernels.harness.element_types import ELEMENT_TYPES

pytestmark = pytest.mark.numerics


def dropped(
    device: ArrayBackend, x: np.ndarray, drop_rate: float, seed: int, block_size: int = 1024
) -> np.ndarray:
    """The float32 ``x`` after dropout."""
    out = device.empty(x.shape, "float32")
    dropout(device.array(x, "float32"), out, drop_rate, seed, block_size)
    return device.read(out)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("n_elements", [1, 1024, 2500], ids=str)
def test_kept_elements_are_scaled(device: ArrayBackend, n_elements: int, dtype: str) -> None:
    element_type = ELEMENT_TYPES[dtype]
    # No zeros, so that a zero in the output was dropped.
    x = element_type.round(np.random.default_rng(5).uniform(1, 2, n_elements))
    out = device.empty((n_elements,), dtype)
    dropout(device.array(x, dtype), out, drop_rate=0.25, seed=11)
    result = device.read(out)
    kept = result != 0
    np.testing.assert_allclose(
        result[kept].astype(np.float64), x[kept] / 0.75, rtol=max(element_type.epsilon, 1e-6)
    )
    if n_elements > 1:
        assert 0 < kept.sum() < n_elements


@pytest.mark.parametrize("drop_rate", [0.1, 0.5, 0.9])
def test_drop_rate_and_mean(device: ArrayBackend, drop_rate: float) -> None:
    n_elements = 50_000
    result = dropped(device, np.ones(n_elements), drop_rate, seed=123)
    # Five standard deviations of a binomial distribution; the seed is fixed, so no flakes.
    deviation = 5 * np.sqrt(drop_rate * (1 - drop_rate) / n_elements)
    assert abs((result == 0).mean() - drop_rate) < deviation
    assert abs(result.mean() - 1) < deviation / (1 - drop_rate)


def test_nothing_is_dropped_at_rate_0(device: ArrayBackend) -> None:
    x = np.arange(1, 1000, dtype=np.float32)
    np.testing.assert_array_equal(dropped(device, x, 0.0, seed=1), x)


def test_the_seed_decides(device: ArrayBackend) -> None:
    x = np.ones(3000)
    first = dropped(device, x, 0.5, seed=42)
    np.testing.assert_array_equal(dropped(device, x, 0.5, seed=42), first)
    # Another seed agrees with it on about half of the elements.
    assert 0.45 < (dropped(device, x, 0.5, seed=43) == first).mean() < 0.55


def test_the_block_size_does_not_matter(device: ArrayBackend) -> None:
    x = np.ones(3000)
    expected = dropped(device, x, 0.5, seed=42, block_size=1024)
    np.testing.assert_array_equal(dropped(device, x, 0.5, seed=42, block_size=128), expected)


def test_blocks_differ_from_each_other(device: ArrayBackend) -> None:
    result = dropped(device, np.ones(2048), 0.5, seed=9).reshape(2, 1024)
    assert 0.4 < (result[0] == result[1]).mean() < 0.6


def test_the_first_random_numbers_are_philox(device: ArrayBackend) -> None:
    # Philox4x32-10 of counter 0 and key 0 starts with 0x6627e8d5 (test vector of Random123).
    # tl.rand makes it a fraction of 2**31, 0.79809: the element goes above that rate, not below.
    assert dropped(device, np.ones(1), 0.7980, seed=0)[0] != 0
    assert dropped(device, np.ones(1), 0.7982, seed=0)[0] == 0


@pytest.mark.parametrize("drop_rate", [-0.1, 1.0])
def test_other_rates_are_refused(device: ArrayBackend, drop_rate: float) -> None:
    x = device.empty((4,), "float32")
    with pytest.raises(ValueError, match="must be in"):
        dropout(x, x, drop_rate, seed=0)
