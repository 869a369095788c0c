"""Attention against numpy, which does keep the matrix of scores."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernels.flash_attention import flash_attention
from kernels.harness.device_arrays import ArrayBackend
from kernels.harness.element_types import ELEMENT_TYPES

pytestmark = pytest.mark.numerics


def reference(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Output and log of the sum of exponentials, in float64."""
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    scores = q @ k.swapaxes(2, 3) * scale
    if causal:
        scores = np.where(np.tri(*scores.shape[2:], dtype=np.bool_), scores, -np.inf)
    largest = scores.max(axis=3, keepdims=True)
    weights = np.exp(scores - largest)
    total = weights.sum(axis=3, keepdims=True)
    return weights / total @ v, (largest + np.log(total))[..., 0]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(
    "batches, heads, rows, head_dim",
    [
        pytest.param(1, 1, 64, 64, id="one-block"),
        pytest.param(2, 3, 128, 32, id="several-heads"),
        pytest.param(1, 2, 101, 16, id="odd-tail"),
        pytest.param(1, 1, 1, 128, id="one-row"),
    ],
)
def test_attention(
    device: ArrayBackend,
    batches: int,
    heads: int,
    rows: int,
    head_dim: int,
    causal: bool,
    dtype: str,
) -> None:
    element_type = ELEMENT_TYPES[dtype]
    shape = (batches, heads, rows, head_dim)
    q, k, v = element_type.round(np.random.default_rng(rows).normal(size=(3, *shape)))
    out, log_sum = device.empty(shape, dtype), device.empty(shape[:3], "float32")

    flash_attention(
        device.array(q, dtype),
        device.array(k, dtype),
        device.array(v, dtype),
        out,
        log_sum,
        causal=causal,
    )

    expected_out, expected_log_sum = reference(q, k, v, causal, 1 / math.sqrt(head_dim))
    # Weights and output are both rounded to dtype; weights are at most 1, values of order 1.
    tolerance = max(4 * element_type.epsilon, 2e-5)
    np.testing.assert_allclose(device.read(out), expected_out, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(device.read(log_sum), expected_log_sum, rtol=1e-5, atol=1e-5)


def test_more_keys_than_queries(device: ArrayBackend) -> None:
    rng = np.random.default_rng(3)
    q = rng.normal(size=(2, 2, 40, 32)).astype(np.float32)
    k, v = rng.normal(size=(2, 2, 2, 130, 32)).astype(np.float32)
    out, log_sum = device.empty(q.shape, "float32"), device.empty(q.shape[:3], "float32")
    device_q, device_k, device_v = (device.array(values, "float32") for values in (q, k, v))
    flash_attention(device_q, device_k, device_v, out, log_sum, causal=False, scale=0.3)
    expected, _ = reference(q, k, v, False, 0.3)
    np.testing.assert_allclose(device.read(out), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("block_m, block_n", [(16, 16), (16, 64), (128, 16)])
def test_block_sizes_do_not_matter(device: ArrayBackend, block_m: int, block_n: int) -> None:
    # Scores up to some 50 that grow along the keys: nearly every block brings a new maximum.
    rows = 96
    rng = np.random.default_rng(4)
    q, k, v = rng.normal(size=(3, 1, 1, rows, 16)).astype(np.float32)
    q, k = np.abs(q), np.abs(k) * np.linspace(0.1, 5, rows, dtype=np.float32)[:, None]
    out, log_sum = device.empty(q.shape, "float32"), device.empty(q.shape[:3], "float32")
    device_q, device_k, device_v = (device.array(values, "float32") for values in (q, k, v))
    flash_attention(
        device_q,
        device_k,
        device_v,
        out,
        log_sum,
        causal=True,
        scale=1.0,
        block_m=block_m,
        block_n=block_n,
    )
    expected, expected_log_sum = reference(q, k, v, True, 1.0)
    np.testing.assert_allclose(device.read(out), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(device.read(log_sum), expected_log_sum, rtol=1e-5)


def test_causal_attention_must_be_square(device: ArrayBackend) -> None:
    q, k = device.empty((1, 1, 4, 16), "float32"), device.empty((1, 1, 5, 16), "float32")
    with pytest.raises(ValueError, match="causal attention of 4 queries to 5 keys"):
        flash_attention(q, k, k, q, device.empty((1, 1, 4), "float32"), causal=True)


def test_other_head_dims_are_refused(device: ArrayBackend) -> None:
    q = device.empty((1, 1, 4, 24), "float32")
    with pytest.raises(ValueError, match="head_dim is 24"):
        flash_attention(q, q, q, q, device.empty((1, 1, 4), "float32"), causal=False)
