"""The sample kernels on the host, compiled by LLVM like those for a GPU."""

from __future__ import annotations

import minitriton.language as ml
import pytest
from minitriton import CompileError, jit
from minitriton.runtime import Driver, open_driver
from minitriton.testing import SAMPLES, Sample, add_kernel


@pytest.fixture
def cpu() -> Driver:
    return open_driver("cpu")


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_sample(cpu: Driver, sample: Sample) -> None:
    actual, expected = sample(cpu)
    assert actual == expected


@pytest.mark.parametrize("threads", [1, 2, 16, 32])
def test_any_number_of_threads_gives_the_same(cpu: Driver, threads: int) -> None:
    x, y = cpu.array(range(50), ml.float32), cpu.array([1.5] * 50, ml.float32)
    out = cpu.array([0] * 50, ml.float32)
    add_kernel[(2,)](x, y, out, 50, BLOCK=32, threads=threads)
    assert out.tolist() == [i + 1.5 for i in range(50)]


@jit
def scale_kernel(x, FACTOR: ml.constexpr):
    offsets = ml.arange(0, 4)
    ml.store(x + offsets, ml.load(x + offsets) * FACTOR)


def test_each_constant_makes_its_own_kernel(cpu: Driver) -> None:
    x = cpu.array([1, 2, 3, 4], ml.int32)
    scale_kernel[(1,)](x, FACTOR=2, threads=4)
    scale_kernel[(1,)](x, 10, threads=4)
    assert x.tolist() == [20, 40, 60, 80]
    with pytest.raises(CompileError, match="2.0 is no i32"):
        scale_kernel[(1,)](x, FACTOR=2.0, threads=4)


def test_empty_arrays(cpu: Driver) -> None:
    assert cpu.array([], ml.int8).tolist() == []


@pytest.mark.parametrize(
    "element, values",
    [
        (ml.float16, [0.5, -2.0]),
        (ml.float64, [1e300]),
        (ml.int8, [-128, 127]),
        (ml.int16, [-(2**15)]),
        (ml.int64, [2**63 - 1]),
    ],
    ids=str,
)
def test_arrays_keep_their_values(
    cpu: Driver, element: ml.ElementType, values: list[float]
) -> None:
    assert cpu.array(values, element).tolist() == values


def test_arrays_are_of_one_driver(cpu: Driver) -> None:
    x, other = cpu.array([1], ml.int32), open_driver("cpu").array([1], ml.int32)
    with pytest.raises(TypeError, match="arrays of one driver, not of 2"):
        add_kernel[(1,)](x, other, x, 1, BLOCK=32)


def test_a_kernel_is_no_function() -> None:
    with pytest.raises(TypeError, match=r"launch it as add_kernel\[grid\]"):
        add_kernel(1, 2)


def test_the_language_means_nothing_outside_of_a_kernel() -> None:
    with pytest.raises(RuntimeError, match="outside of a kernel"):
        ml.arange(0, 4)
