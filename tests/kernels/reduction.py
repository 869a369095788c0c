"""Reductions and scans along the rows of a matrix.

Rows may be longer than a block: a program walks along its row and carries what it has so far.
Threads combine their parts by exchanging registers (shuffles, DPP), and warps through shared
memory; ``tl.sum``, ``tl.max``, ``tl.cumsum`` and ``tl.associative_scan`` hide which.
"""

from typing import Any

import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, n_columns, row_stride, BLOCK_SIZE: tl.constexpr):
    """``out[i] = sum(x[i, :])``, added up in float32."""
    row = tl.program_id(0).to(tl.int64)
    # A whole block of partial sums: threads meet once, after the loop.
    partial = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for first in range(0, n_columns, BLOCK_SIZE):
        columns = first + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + row * row_stride + columns, mask=columns < n_columns, other=0.0)
        partial += x.to(tl.float32)
    tl.store(out_ptr + row, tl.sum(partial, axis=0))


@triton.jit
def row_argmax_kernel(x_ptr, value_ptr, index_ptr, n_columns, row_stride, BLOCK_SIZE: tl.constexpr):
    """The largest element of each row, and the first index at which it stands."""
    row = tl.program_id(0).to(tl.int64)
    best = -float("inf")
    best_index = 0
    for first in range(0, n_columns, BLOCK_SIZE):
        columns = first + tl.arange(0, BLOCK_SIZE)
        mask = columns < n_columns
        x = tl.load(x_ptr + row * row_stride + columns, mask=mask, other=-float("inf"))
        value, index = tl.max(x.to(tl.float32), axis=0, return_indices=True)
        # Not >=: an equal element further right must not displace the first.
        best_index = tl.where(value > best, first + index, best_index)
        best = tl.maximum(value, best)
    tl.store(value_ptr + row, best)
    tl.store(index_ptr + row, best_index)


@triton.jit
def row_cumsum_kernel(x_ptr, out_ptr, n_columns, row_stride, BLOCK_SIZE: tl.constexpr):
    """``out[i, j] = sum(x[i, : j + 1])``, added up in float32, or in int32 for integers."""
    row = tl.program_id(0).to(tl.int64)
    is_integer: tl.constexpr = x_ptr.dtype.element_ty.is_int()
    sum_type: tl.constexpr = tl.int32 if is_integer else tl.float32
    carried = tl.zeros((1,), dtype=sum_type)
    for first in range(0, n_columns, BLOCK_SIZE):
        columns = first + tl.arange(0, BLOCK_SIZE)
        mask = columns < n_columns
        x = tl.load(x_ptr + row * row_stride + columns, mask=mask, other=0).to(sum_type)
        out = (tl.cumsum(x, axis=0) + carried).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + row * row_stride + columns, out, mask=mask)
        carried += tl.sum(x, axis=0)


@triton.jit
def _then(a, b, next_a, next_b):
    """The map ``h -> next_a * (a * h + b) + next_b``, as its two coefficients."""
    return next_a * a, next_a * b + next_b


@triton.jit
def linear_recurrence_kernel(
    a_ptr, b_ptr, out_ptr, n_columns, row_stride, BLOCK_SIZE: tl.constexpr
):
    """``out[i, j] = a[i, j] * out[i, j - 1] + b[i, j]``, from ``out[i, -1] = 0``.

    Steps of a recurrence compose associatively, so a scan over pairs of coefficients does them in
    parallel (Blelloch 1990, "Prefix Sums and Their Applications"). BLOCK_SIZE >= n_columns.
    """
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_SIZE)
    mask = columns < n_columns
    a = tl.load(a_ptr + row * row_stride + columns, mask=mask, other=0.0)
    b = tl.load(b_ptr + row * row_stride + columns, mask=mask, other=0.0)
    _, out = tl.associative_scan((a, b), 0, _then)
    tl.store(out_ptr + row * row_stride + columns, out, mask=mask)


def row_sum(x: Any, out: Any, block_size: int = 1024) -> None:
    """Write the sum of each row of ``x`` to ``out``.

    :param x: (rows, columns), floating point; columns adjacent.
    :param out: (rows,), float32.
    :param block_size: elements a step; a power of two.
    """
    rows, columns = x.shape
    row_sum_kernel[(rows,)](x, out, columns, x.stride(0), BLOCK_SIZE=block_size)


def row_argmax(x: Any, value: Any, index: Any, block_size: int = 1024) -> None:
    """Write the largest element of each row of ``x`` to ``value``, its first index to ``index``.

    :param x: (rows, columns), floating point without NaNs; columns adjacent.
    :param value: (rows,), of x's type.
    :param index: (rows,), int32.
    :param block_size: elements a step; a power of two.
    """
    rows, columns = x.shape
    row_argmax_kernel[(rows,)](x, value, index, columns, x.stride(0), BLOCK_SIZE=block_size)


def row_cumsum(x: Any, out: Any, block_size: int = 1024) -> None:
    """Write the running sums of each row of ``x`` to ``out``.

    :param x, out: (rows, columns), contiguous; floating point, or int32.
    :param block_size: elements a step; a power of two.
    """
    rows, columns = x.shape
    row_cumsum_kernel[(rows,)](x, out, columns, x.stride(0), BLOCK_SIZE=block_size)


def linear_recurrence(a: Any, b: Any, out: Any) -> None:
    """Write ``h[j] = a[j] * h[j - 1] + b[j]`` of each row to ``out``, from ``h[-1] = 0``.

    :param a, b, out: (rows, columns), float32, contiguous; at most 16384 columns.
    """
    rows, columns = a.shape
    block_size = triton.next_power_of_2(columns)
    linear_recurrence_kernel[(rows,)](a, b, out, columns, a.stride(0), BLOCK_SIZE=block_size)
