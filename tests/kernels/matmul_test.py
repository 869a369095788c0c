"""Matrix products against numpy.

Inputs are rounded to their type first and multiplied in float64 by numpy, so tolerances cover only
what the kernel does: sums in float32, and one rounding of the result.
"""

from __future__ import annotations

import numpy as np
import pytest
import triton

from kernels.harness.device_arrays import ArrayBackend
from kernels.harness.element_types import ELEMENT_TYPES
from kernels.matmul import MATMUL_CONFIGS, config_name, matmul

pytestmark = pytest.mark.numerics

SHAPES = [
    pytest.param((64, 64, 64), id="whole-tiles"),
    pytest.param((128, 96, 160), id="several-tiles"),
    pytest.param((33, 17, 45), id="tails-everywhere"),
    pytest.param((1, 130, 7), id="one-row"),
    pytest.param((300, 40, 64), id="more-tile-rows-than-a-group"),
]


def operands(
    m: int, n: int, k: int, dtype: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """a, b, their product, and the sum of absolute products, to which rounding errors relate."""
    rng = np.random.default_rng([m, n, k])
    if dtype == "int8":
        a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    else:
        element_type = ELEMENT_TYPES[dtype]
        a, b = (element_type.round(rng.normal(size=shape)) for shape in ((m, k), (k, n)))
    exact_a, exact_b = a.astype(np.float64), b.astype(np.float64)
    return a, b, exact_a @ exact_b, np.abs(exact_a) @ np.abs(exact_b)


def assert_close(actual: np.ndarray, exact: np.ndarray, scale: np.ndarray, error: float) -> None:
    """Every element within ``error`` times the sum of its absolute products."""
    worst = float(np.max(np.abs(actual.astype(np.float64) - exact) / scale))
    assert worst <= error, f"worst relative error {worst:.2e}, allowed {error:.2e}"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_floating_point(device: ArrayBackend, shape: tuple[int, int, int], dtype: str) -> None:
    m, n, k = shape
    a, b, exact, scale = operands(m, n, k, dtype)
    c = device.empty((m, n), dtype)
    matmul(device.array(a, dtype), device.array(b, dtype), c)
    assert_close(device.read(c), exact, scale, max(ELEMENT_TYPES[dtype].epsilon, 1e-6))


def test_tf32(device: ArrayBackend) -> None:
    m, n, k = 64, 48, 96
    a, b, exact, scale = operands(m, n, k, "float32")
    c = device.empty((m, n), "float32")
    arguments = device.array(a, "float32"), device.array(b, "float32"), c
    if device.arch.startswith("gfx") and device.arch != "gfx942":
        # Of AMD's GPUs only the MI300 series has xf32.
        with pytest.raises(triton.CompilationError):
            matmul(*arguments, input_precision="tf32")
        return
    matmul(*arguments, input_precision="tf32")
    # Each factor keeps 10 bits: its error is up to 2**-11, or 2**-10 where the hardware truncates.
    assert_close(device.read(c), exact, scale, 2 * 2.0**-10)


@pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e4m3fn"])
@pytest.mark.parametrize("shape", [(64, 64, 64), (33, 48, 45)], ids=str)
def test_fp8(device: ArrayBackend, shape: tuple[int, int, int], dtype: str) -> None:
    m, n, k = shape
    a, b, exact, scale = operands(m, n, k, dtype)
    c = device.empty((m, n), "float32")
    arguments = device.array(a, dtype), device.array(b, dtype), c
    if dtype == "float8_e4m3fn" and device.arch in ("sm_80", "sm_86"):
        with pytest.raises(triton.CompilationError):
            matmul(*arguments)
        return
    matmul(*arguments)
    # Products of fp8 are exact, but Hopper's matrix units add them with some 14 bits.
    assert_close(device.read(c), exact, scale, 2.0**-13 if device.arch == "sm_90" else 1e-6)


@pytest.mark.parametrize("shape", [(64, 64, 64), (33, 17, 45)], ids=str)
def test_int8_is_exact(device: ArrayBackend, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b, exact, _ = operands(m, n, k, "int8")
    c = device.empty((m, n), "int32")
    matmul(device.array(a, "int8"), device.array(b, "int8"), c)
    np.testing.assert_array_equal(device.read(c), exact.astype(np.int32))


@pytest.mark.parametrize("config", MATMUL_CONFIGS, ids=config_name)
def test_every_autotuner_config_gives_the_product(
    device: ArrayBackend, config: triton.Config
) -> None:
    m, n, k = 150, 140, 72
    a, b, exact, scale = operands(m, n, k, "float16")
    c = device.empty((m, n), "float32")
    matmul(device.array(a, "float16"), device.array(b, "float16"), c, config=config)
    assert_close(device.read(c), exact, scale, 1e-6)


@pytest.mark.parametrize("a_transposed", [False, True], ids=["a", "a-transposed"])
@pytest.mark.parametrize("b_transposed", [False, True], ids=["b", "b-transposed"])
@pytest.mark.parametrize("c_transposed", [False, True], ids=["c", "c-transposed"])
def test_any_strides(
    device: ArrayBackend, a_transposed: bool, b_transposed: bool, c_transposed: bool
) -> None:
    m, n, k = 48, 80, 36
    a, b, exact, scale = operands(m, n, k, "float32")
    device_a = device.array(a.T, "float32").t() if a_transposed else device.array(a, "float32")
    device_b = device.array(b.T, "float32").t() if b_transposed else device.array(b, "float32")
    c = device.empty((n, m), "float32").t() if c_transposed else device.empty((m, n), "float32")
    matmul(device_a, device_b, c)
    assert_close(device.read(c), exact, scale, 1e-6)


def test_shapes_that_do_not_fit_are_refused(device: ArrayBackend) -> None:
    a, b = device.empty((4, 5), "float32"), device.empty((6, 7), "float32")
    with pytest.raises(ValueError, match=r"no product \(4, 5\) @ \(6, 7\) -> \(4, 7\)"):
        matmul(a, b, device.empty((4, 7), "float32"))


def test_mixed_types_are_refused(device: ArrayBackend) -> None:
    a, b = device.empty((4, 4), "float32"), device.empty((4, 4), "float16")
    with pytest.raises(ValueError, match="a is .*float32, b is .*float16"):
        matmul(a, b, device.empty((4, 4), "float32"))
