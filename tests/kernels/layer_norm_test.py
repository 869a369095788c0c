"""Layer normalisation and its gradients against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.harness.device_arrays import ArrayBackend
from kernels.harness.element_types import ELEMENT_TYPES
from kernels.layer_norm import layer_norm_backward, layer_norm_forward

pytestmark = pytest.mark.numerics

EPSILON = 1e-5
SHAPES = [(1, 1), (5, 64), (70, 129), (3, 1000)]


def forward(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Output, mean and reciprocal standard deviation, in float64."""
    x = x.astype(np.float64)
    mean = x.mean(axis=1)
    rstd = 1 / np.sqrt(x.var(axis=1) + EPSILON)
    return (x - mean[:, None]) * rstd[:, None] * weight + bias, mean, rstd


def inputs(shape: tuple[int, int], dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, weight and bias, rounded to ``dtype``; the mean of x is far from 0."""
    rng = np.random.default_rng(shape)
    rounded = ELEMENT_TYPES[dtype].round
    columns = shape[1]
    return (
        rounded(rng.normal(2, 3, shape)),
        rounded(rng.normal(1, 0.5, columns)),
        rounded(rng.normal(0, 0.5, columns)),
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_forward(device: ArrayBackend, shape: tuple[int, int], dtype: str) -> None:
    x, weight, bias = inputs(shape, dtype)
    out = device.empty(shape, dtype)
    mean, rstd = device.empty(shape[:1], "float32"), device.empty(shape[:1], "float32")

    layer_norm_forward(
        device.array(x, dtype),
        device.array(weight, dtype),
        device.array(bias, dtype),
        out,
        mean,
        rstd,
        EPSILON,
    )

    expected_out, expected_mean, expected_rstd = forward(x, weight, bias)
    epsilon = max(ELEMENT_TYPES[dtype].epsilon, 1e-5)
    np.testing.assert_allclose(device.read(out), expected_out, rtol=epsilon, atol=1e-5)
    np.testing.assert_allclose(device.read(mean), expected_mean, rtol=1e-5)
    np.testing.assert_allclose(device.read(rstd), expected_rstd, rtol=1e-5)


def test_a_large_mean_does_not_cancel(device: ArrayBackend) -> None:
    # 4096 + {0, 1, 2, 3}: E[x^2] - E[x]^2 in float32 would lose the variance of 1.25 altogether.
    x = np.tile(np.float32(4096) + np.arange(4, dtype=np.float32), (2, 25))
    ones, zeros = np.ones(100), np.zeros(100)
    out = device.empty(x.shape, "float32")
    mean, rstd = device.empty((2,), "float32"), device.empty((2,), "float32")
    layer_norm_forward(
        device.array(x, "float32"),
        device.array(ones, "float32"),
        device.array(zeros, "float32"),
        out,
        mean,
        rstd,
        EPSILON,
    )
    np.testing.assert_allclose(device.read(out), forward(x, ones, zeros)[0], rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("n_parts", [1, 64], ids=["one-part", "up-to-64-parts"])
def test_backward(device: ArrayBackend, shape: tuple[int, int], dtype: str, n_parts: int) -> None:
    x, weight, bias = inputs(shape, dtype)
    _, mean, rstd = forward(x, weight, bias)
    out_grad = ELEMENT_TYPES[dtype].round(np.random.default_rng(7).normal(size=shape))
    x_grad = device.empty(shape, dtype)
    weight_grad = device.empty(shape[1:], "float32")
    bias_grad = device.empty(shape[1:], "float32")

    layer_norm_backward(
        device.array(out_grad, dtype),
        device.array(x, dtype),
        device.array(weight, dtype),
        device.array(mean, "float32"),
        device.array(rstd, "float32"),
        x_grad,
        weight_grad,
        bias_grad,
        n_parts,
    )

    # Written with the Jacobian, where the kernel uses its closed form: d normal[j] / d x[i] is
    # rstd * (delta(i, j) - 1/n - normal[i] * normal[j] / n).
    normal = (x - mean[:, None]) * rstd[:, None]
    n = shape[1]
    expected_x_grad = np.empty(shape)
    for row in range(shape[0]):
        jacobian = np.eye(n) - 1 / n - np.outer(normal[row], normal[row]) / n
        expected_x_grad[row] = rstd[row] * jacobian @ (out_grad[row].astype(np.float64) * weight)
    epsilon = max(ELEMENT_TYPES[dtype].epsilon, 1e-5)
    # With one column the variance is 0, and rstd of about 316 enlarges what rounding leaves.
    atol = 2e-5 * rstd.max()
    np.testing.assert_allclose(device.read(x_grad), expected_x_grad, rtol=epsilon, atol=atol)
    np.testing.assert_allclose(
        device.read(weight_grad), (out_grad * normal).sum(axis=0), rtol=1e-5, atol=1e-4
    )
    np.testing.assert_allclose(
        device.read(bias_grad), out_grad.sum(axis=0, dtype=np.float64), rtol=1e-5, atol=1e-5
    )


def test_too_many_columns_are_refused(device: ArrayBackend) -> None:
    x = device.empty((1, 8193), "float32")
    vector, scalar = device.empty((8193,), "float32"), device.empty((1,), "float32")
    with pytest.raises(ValueError, match="8193 columns don't fit one program"):
        layer_norm_forward(x, vector, vector, x, scalar, scalar)
