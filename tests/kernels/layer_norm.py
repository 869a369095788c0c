"""Layer normalisation, forward and backward (Ba et al. 2016; Triton tutorial 05).

Each row ``x`` becomes ``(x - mean) * rstd * weight + bias``, with the row's own mean and
``rstd = 1 / sqrt(variance + epsilon)``. The backward pass needs two sums along every row for the
gradient of x, and sums down every column for those of weight and bias. The latter are done in two
steps, partial sums and then their sum, so that results don't depend on the order of atomics.
"""

from typing import Any

import triton
import triton.language as tl

# Longer rows spill registers in the backward pass on NVIDIA's GPUs (layer_norm_compile_test.py).
MAX_COLUMNS = 8192


@triton.jit
def layer_norm_forward_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    mean_ptr,
    rstd_ptr,
    n_columns,
    x_row_stride,
    out_row_stride,
    epsilon,
    BLOCK_SIZE: tl.constexpr,
):
    """One program a row; BLOCK_SIZE >= n_columns. mean and rstd (float32, a row each) are kept for
    the backward pass."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_SIZE)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * x_row_stride + columns, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_columns
    # Two steps: E[x^2] - E[x]^2 would cancel when the mean is large. Padding must not count.
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n_columns
    rstd = 1.0 / tl.sqrt(variance + epsilon)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + columns, mask=mask, other=0.0).to(tl.float32)
    out = centred * rstd * weight + bias
    out = out.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row * out_row_stride + columns, out, mask=mask)


@triton.jit
def layer_norm_backward_kernel(
    out_grad_ptr,
    x_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    x_grad_ptr,
    weight_grad_parts_ptr,
    bias_grad_parts_ptr,
    n_rows,
    n_columns,
    row_stride,
    BLOCK_SIZE: tl.constexpr,
):
    """Gradient of x, and partial sums for those of weight and bias.

    Program p takes rows p, p + programs, ... and writes row p of both (programs, n_columns) parts.
    All matrices but the parts share ``row_stride``.
    """
    part = tl.program_id(0)
    columns = tl.arange(0, BLOCK_SIZE)
    mask = columns < n_columns
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0).to(tl.float32)
    weight_grad = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    bias_grad = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for row in range(part, n_rows, tl.num_programs(0)):
        start = tl.cast(row, tl.int64) * row_stride
        out_grad = tl.load(out_grad_ptr + start + columns, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + start + columns, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + row)
        rstd = tl.load(rstd_ptr + row)
        normal = tl.where(mask, (x - mean) * rstd, 0.0)
        weight_grad += out_grad * normal
        bias_grad += out_grad
        # The gradient loses its parts along the two directions that normalising takes out of x:
        # the constant one and x itself.
        normal_grad = out_grad * weight
        along_constant = tl.sum(normal_grad, axis=0) / n_columns
        along_x = tl.sum(normal_grad * normal, axis=0) / n_columns
        x_grad = (normal_grad - along_constant - normal * along_x) * rstd
        x_grad = x_grad.to(x_grad_ptr.dtype.element_ty)
        tl.store(x_grad_ptr + start + columns, x_grad, mask=mask)
    part_start = tl.cast(part, tl.int64) * n_columns
    tl.store(weight_grad_parts_ptr + part_start + columns, weight_grad, mask=mask)
    tl.store(bias_grad_parts_ptr + part_start + columns, bias_grad, mask=mask)


@triton.jit
def sum_parts_kernel(
    parts_ptr, out_ptr, n_parts, n_columns, BLOCK_PARTS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr
):
    """``out[j] = sum(parts[:, j])``; parts is a contiguous float32 (n_parts, n_columns)."""
    columns = tl.program_id(0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    total = tl.zeros((BLOCK_PARTS, BLOCK_COLUMNS), dtype=tl.float32)
    for first in range(0, n_parts, BLOCK_PARTS):
        parts = first + tl.arange(0, BLOCK_PARTS)
        mask = (parts[:, None] < n_parts) & (columns[None, :] < n_columns)
        total += tl.load(
            parts_ptr + parts[:, None] * n_columns + columns[None, :], mask=mask, other=0.0
        )
    out = tl.sum(total, axis=0).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + columns, out, mask=columns < n_columns)


def layer_norm_forward(
    x: Any, weight: Any, bias: Any, out: Any, mean: Any, rstd: Any, epsilon: float = 1e-5
) -> None:
    """Write the normalised rows of ``x`` to ``out``, and ``mean`` and ``rstd`` of each row.

    :param x, out: (rows, columns), float16, bfloat16 or float32, columns adjacent; at most
        ``MAX_COLUMNS`` columns, so that a row fits the registers of one program.
    :param weight, bias: (columns,), contiguous.
    :param mean, rstd: (rows,), float32, contiguous.
    :param epsilon: what is added to the variance.
    :raises ValueError: the elements of a row aren't adjacent, or there are too many.
    """
    rows, columns = x.shape
    _check_columns(columns, x, out)
    block_size = triton.next_power_of_2(columns)
    layer_norm_forward_kernel[(rows,)](
        x,
        weight,
        bias,
        out,
        mean,
        rstd,
        columns,
        x.stride(0),
        out.stride(0),
        epsilon,
        BLOCK_SIZE=block_size,
        num_warps=num_warps(block_size),
    )


def layer_norm_backward(
    out_grad: Any,
    x: Any,
    weight: Any,
    mean: Any,
    rstd: Any,
    x_grad: Any,
    weight_grad: Any,
    bias_grad: Any,
    n_parts: int = 64,
) -> None:
    """Write the gradients of x, weight and bias, given that of the output.

    :param out_grad, x, x_grad: contiguous, (rows, columns), as in the forward pass.
    :param mean, rstd: what the forward pass wrote.
    :param weight, weight_grad, bias_grad: (columns,), contiguous.
    :param n_parts: programs among which rows are shared out.
    :raises ValueError: a matrix isn't contiguous, or has too many columns.
    """
    rows, columns = x.shape
    _check_columns(columns, out_grad, x, x_grad)
    if not (out_grad.is_contiguous() and x.is_contiguous() and x_grad.is_contiguous()):
        raise ValueError("out_grad, x and x_grad must be contiguous")
    n_parts = min(n_parts, rows)
    weight_grad_parts = x.new_empty((n_parts, columns), dtype=mean.dtype)
    bias_grad_parts = x.new_empty((n_parts, columns), dtype=mean.dtype)
    block_size = triton.next_power_of_2(columns)
    layer_norm_backward_kernel[(n_parts,)](
        out_grad,
        x,
        weight,
        mean,
        rstd,
        x_grad,
        weight_grad_parts,
        bias_grad_parts,
        rows,
        columns,
        x.stride(0),
        BLOCK_SIZE=block_size,
        num_warps=num_warps(block_size),
    )
    grid = (triton.cdiv(columns, 64),)
    for parts, gradient in ((weight_grad_parts, weight_grad), (bias_grad_parts, bias_grad)):
        sum_parts_kernel[grid](parts, gradient, n_parts, columns, BLOCK_PARTS=32, BLOCK_COLUMNS=64)


def num_warps(block_size: int) -> int:
    """Warps for a row of ``block_size`` elements: one each 256 elements, between 1 and 16."""
    return min(max(block_size // 256, 1), 16)


def _check_columns(columns: int, *matrices: Any) -> None:
    if columns > MAX_COLUMNS:
        raise ValueError(f"{columns} columns don't fit one program ({MAX_COLUMNS} do)")
    if any(matrix.stride(1) != 1 for matrix in matrices):
        raise ValueError("the elements of a row must be adjacent")
