"""Softmax against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.harness.device_arrays import ArrayBackend
from kernels.harness.element_types import ELEMENT_TYPES
from kernels.softmax import softmax

pytestmark = pytest.mark.numerics


def reference(x: np.ndarray) -> np.ndarray:
    """Softmax of each row, in float64."""
    x = x.astype(np.float64)
    numerator = np.exp(x - x.max(axis=1, keepdims=True))
    return numerator / numerator.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(1, 1), (4, 64), (37, 781), (3, 4099)], ids=str)
def test_rows(device: ArrayBackend, shape: tuple[int, int], dtype: str) -> None:
    element_type = ELEMENT_TYPES[dtype]
    x = element_type.round(np.random.default_rng(0).normal(0, 3, shape))
    out = device.empty(shape, dtype)

    softmax(device.array(x, dtype), out)

    # fp32 has its own error from exp and the sum; the others only that of the final rounding.
    tolerance = max(element_type.epsilon, 1e-5)
    np.testing.assert_allclose(device.read(out), reference(x), rtol=tolerance, atol=2.0**-24)


def test_large_numbers_do_not_overflow(device: ArrayBackend) -> None:
    x = np.array([[1000.0, 999.0, -1000.0], [-5e4, -5e4, -5e4]], np.float32)
    out = device.empty(x.shape, "float32")
    softmax(device.array(x, "float32"), out)
    np.testing.assert_allclose(device.read(out), reference(x), rtol=1e-5)


def test_rows_with_gaps(device: ArrayBackend) -> None:
    # What stands between the rows must neither be read nor be written.
    x = np.random.default_rng(1).normal(size=(5, 100)).astype(np.float32)
    y = x[:, :90]
    wide_in, wide_out = device.array(x, "float32"), device.array(y, "float32")

    softmax(wide_in.narrow(1, 0, 70), wide_out.narrow(1, 10, 70))

    out = device.read(wide_out)
    np.testing.assert_allclose(out[:, 10:80], reference(x[:, :70]), rtol=1e-5, atol=1e-8)
    np.testing.assert_array_equal(out[:, :10], y[:, :10])
    np.testing.assert_array_equal(out[:, 80:], y[:, 80:])


def test_strided_columns_are_refused(device: ArrayBackend) -> None:
    x = device.empty((4, 8), "float32")
    with pytest.raises(ValueError, match="must be adjacent"):
        softmax(x.t(), device.empty((8, 4), "float32"))
