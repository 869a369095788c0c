"""Softmax of each row of a matrix, fused into one pass over memory (Triton tutorial 02).

Written with separate steps, softmax reads and writes the matrix five times. Here a row stays in
registers from its one load to its one store.
"""

from typing import Any

import triton
import triton.language as tl

# A longer row spills registers on NVIDIA's GPUs (softmax_compile_test.py).
MAX_COLUMNS = 32768


@triton.jit
def softmax_kernel(
    x_ptr, out_ptr, n_columns, x_row_stride, out_row_stride, BLOCK_SIZE: tl.constexpr
):
    """One program a row. Strides count elements; columns are adjacent; BLOCK_SIZE >= n_columns."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_SIZE)
    mask = columns < n_columns
    # exp(-inf) is 0: the columns beyond the row add nothing to its sum.
    x = tl.load(x_ptr + row * x_row_stride + columns, mask=mask, other=-float("inf"))
    x = x.to(tl.float32)
    # Softmax doesn't change when a constant is added to a row; this one keeps exp from overflowing.
    numerator = tl.exp(x - tl.max(x, axis=0))
    softmax = numerator / tl.sum(numerator, axis=0)
    softmax = softmax.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row * out_row_stride + columns, softmax, mask=mask)


def softmax(x: Any, out: Any) -> None:
    """Write the softmax of each row of ``x`` to ``out``.

    :param x: (rows, columns), float16, bfloat16 or float32; rows may have gaps between them,
        columns may not. At most ``MAX_COLUMNS``, so that a row fits the registers of one program.
    :param out: of x's shape; its type may differ.
    :raises ValueError: shapes differ, columns aren't adjacent, or there are too many.
    """
    rows, columns = x.shape
    if tuple(out.shape) != (rows, columns):
        raise ValueError(f"out has shape {tuple(out.shape)}, x {(rows, columns)}")
    if x.stride(1) != 1 or out.stride(1) != 1:
        raise ValueError("the elements of a row must be adjacent")
    if columns > MAX_COLUMNS:
        raise ValueError(f"{columns} columns don't fit one program ({MAX_COLUMNS} do)")
    block_size = triton.next_power_of_2(columns)
    softmax_kernel[(rows,)](
        x,
        out,
        columns,
        x.stride(0),
        out.stride(0),
        BLOCK_SIZE=block_size,
        num_warps=num_warps(block_size),
    )


def num_warps(block_size: int) -> int:
    """Warps for a row of ``block_size`` elements: 4 up to 2048 elements, then 8, then 16."""
    return 4 if block_size <= 2048 else 8 if block_size <= 8192 else 16
