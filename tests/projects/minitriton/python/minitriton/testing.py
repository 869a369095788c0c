"""Sample kernels, each with a function that runs it and says what must come out.

Tests of every platform share them. All numbers are such that no result is rounded, so that all
machines must agree exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, Union

import minitriton.language as ml
from minitriton.kernel import jit
from minitriton.runtime.driver import Driver

Numbers = Sequence[Union[int, float]]
#: Runs a kernel on a device; returns what came out and what should have.
Sample = Callable[[Driver], tuple[Numbers, Numbers]]

#: In no input: shows which elements weren't written.
UNTOUCHED = -77


@jit
def add_kernel(x, y, out, n, BLOCK: ml.constexpr):
    """`out[i] = x[i] + y[i]` for `i < n`."""
    offsets = ml.program_id(0) * BLOCK + ml.arange(0, BLOCK)
    mask = offsets < n
    total = ml.load(x + offsets, mask=mask) + ml.load(y + offsets, mask=mask)
    ml.store(out + offsets, total, mask=mask)


@jit
def axpy_kernel(x, out, a, n, BLOCK: ml.constexpr, RELU: ml.constexpr):
    """`out[i] += a * x[i]`, negative results made zero with `RELU`."""
    offsets = ml.program_id(0) * BLOCK + ml.arange(0, BLOCK)
    mask = offsets < n
    result = ml.load(out + offsets, mask=mask)
    result += a * ml.load(x + offsets, mask=mask)
    if RELU:
        result = ml.maximum(result, 0.0)
    ml.store(out + offsets, result, mask=mask)


@jit
def digits_kernel(out, BASE: ml.constexpr, BLOCK: ml.constexpr):
    """The digit sum of each number below BASE**2, but -1 for the odd ones."""
    numbers = ml.arange(0, BLOCK)
    digits = numbers // BASE + numbers % BASE
    ml.store(out + numbers, ml.where(numbers % 2 == 0, digits, -1))


@jit
def half_kernel(x, out, BLOCK: ml.constexpr):
    """Half-precision numbers, doubled in single precision."""
    offsets = ml.arange(0, BLOCK)
    doubled = ml.cast(ml.load(x + offsets), ml.float32) * 2
    ml.store(out + offsets, ml.cast(doubled, ml.float16))


@jit
def fill_kernel(out, width, BLOCK: ml.constexpr):
    """`100 * row + column` for a matrix, a program a block of a row."""
    row = ml.program_id(1)
    columns = ml.program_id(0) * BLOCK + ml.arange(0, BLOCK)
    ml.store(out + row * width + columns, row * 100 + columns, mask=columns < width)


@jit
def shift_kernel(x, out, n, BLOCK: ml.constexpr):
    """`out[i] = x[i + 1]`, and 9 for the last one."""
    offsets = ml.arange(0, BLOCK)
    following = ml.load(x + offsets + 1, mask=offsets + 1 < n, other=9)
    ml.store(out + offsets, following, mask=offsets < n)


def add_floats(driver: Driver) -> tuple[Numbers, Numbers]:
    # Many programs, and a last one with little to do.
    return _add(driver, ml.float32, 1000, block=256, threads=128)


def add_integers(driver: Driver) -> tuple[Numbers, Numbers]:
    return _add(driver, ml.int32, 64, block=64, threads=32)


def add_one_element(driver: Driver) -> tuple[Numbers, Numbers]:
    return _add(driver, ml.float64, 1, block=32, threads=32)


def axpy(driver: Driver) -> tuple[Numbers, Numbers]:
    x, y = driver.array([1, -2, 3, -4], ml.float32), driver.array([0.25] * 4, ml.float32)
    axpy_kernel[(1,)](x, y, 0.5, 4, BLOCK=32, RELU=False, threads=32)
    return y.tolist(), [0.75, -0.75, 1.75, -1.75]


def axpy_relu(driver: Driver) -> tuple[Numbers, Numbers]:
    x, y = driver.array([1, -2, 3, -4], ml.float32), driver.array([0.25] * 4, ml.float32)
    axpy_kernel[(1,)](x, y, 0.5, 4, BLOCK=32, RELU=True, threads=32)
    return y.tolist(), [0.75, 0, 1.75, 0]


def digits(driver: Driver) -> tuple[Numbers, Numbers]:
    out = driver.array([UNTOUCHED] * 64, ml.int32)
    digits_kernel[(1,)](out, BASE=8, BLOCK=64, threads=32)
    return out.tolist(), [-1 if i % 2 else i // 8 + i % 8 for i in range(64)]


def half_precision(driver: Driver) -> tuple[Numbers, Numbers]:
    x = driver.array([i / 4 for i in range(32)], ml.float16)
    out = driver.array([UNTOUCHED] * 32, ml.float16)
    half_kernel[(1,)](x, out, BLOCK=32, threads=32)
    return out.tolist(), [i / 2 for i in range(32)]


def fill_matrix(driver: Driver) -> tuple[Numbers, Numbers]:
    rows, width, block = 3, 70, 64
    out = driver.array([UNTOUCHED] * (rows * width), ml.int32)
    fill_kernel[(-(-width // block), rows)](out, width, BLOCK=block, threads=64)
    return out.tolist(), [100 * row + column for row in range(rows) for column in range(width)]


def shift(driver: Driver) -> tuple[Numbers, Numbers]:
    x = driver.array([1, 2, 3], ml.int64)
    out = driver.array([UNTOUCHED] * 4, ml.int64)
    shift_kernel[(1,)](x, out, 3, BLOCK=32, threads=32)
    return out.tolist(), [2, 3, 9, UNTOUCHED]


def _add(
    driver: Driver, element: ml.ElementType, length: int, block: int, threads: int
) -> tuple[Numbers, Numbers]:
    x = driver.array(range(length), element)
    y = driver.array([3 * i for i in range(length)], element)
    # Room for all programs' blocks: what lies beyond `length` must stay.
    programs = -(-length // block)
    out = driver.array([UNTOUCHED] * (programs * block), element)
    add_kernel[(programs,)](x, y, out, length, BLOCK=block, threads=threads)
    beyond = [UNTOUCHED] * (programs * block - length)
    return out.tolist(), [4 * i for i in range(length)] + beyond


SAMPLES: dict[str, Sample] = {
    sample.__name__: sample
    for sample in (
        add_floats,
        add_integers,
        add_one_element,
        axpy,
        axpy_relu,
        digits,
        fill_matrix,
        half_precision,
        shift,
    )
}
