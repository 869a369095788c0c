"""Programs that write to the same addresses: histograms and a scatter-add.

Which program comes first is up to the machine. Integer sums come out the same all the same;
floating-point sums differ in their last bits from run to run.
"""

from typing import Any

import triton
import triton.language as tl


@triton.jit
def histogram_kernel(x_ptr, counts_ptr, n_elements, n_bins, BLOCK_SIZE: tl.constexpr):
    """``counts[b] += 1`` for every ``x[i] == b``, an atomic addition an element."""
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    bins = tl.load(x_ptr + offsets, mask=mask, other=0)
    in_range = mask & (bins >= 0) & (bins < n_bins)
    # Nobody reads the counts before the launch is over, so no order need be kept.
    tl.atomic_add(counts_ptr + bins, 1, mask=in_range, sem="relaxed")


@triton.jit
def block_histogram_kernel(
    x_ptr, counts_ptr, n_elements, N_BINS: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    """As ``histogram_kernel``, but each program counts its own block first (in shared memory) and
    then adds its N_BINS counts. Elements out of range must not occur."""
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    bins = tl.load(x_ptr + offsets, mask=mask, other=0)
    counts = tl.histogram(bins, N_BINS, mask=mask)
    tl.atomic_add(counts_ptr + tl.arange(0, N_BINS), counts, sem="relaxed")


@triton.jit
def scatter_add_kernel(
    values_ptr, rows_ptr, out_ptr, n_columns, row_stride, BLOCK_SIZE: tl.constexpr
):
    """``out[rows[i], :] += values[i, :]``, one program a row of ``values``."""
    source = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = columns < n_columns
    destination = tl.load(rows_ptr + source).to(tl.int64)
    values = tl.load(values_ptr + source * row_stride + columns, mask=mask)
    tl.atomic_add(out_ptr + destination * row_stride + columns, values, mask=mask, sem="relaxed")


def histogram(x: Any, counts: Any, block_size: int = 1024) -> None:
    """Add to ``counts[b]`` how often ``b`` occurs in ``x``; other numbers count nowhere.

    :param x: (n,), int32, contiguous.
    :param counts: (bins,), int32, contiguous. Not set to 0 first.
    :param block_size: elements a program; a power of two.
    """
    n_elements = x.numel()
    grid = (triton.cdiv(n_elements, block_size),)
    histogram_kernel[grid](x, counts, n_elements, counts.numel(), BLOCK_SIZE=block_size)


def block_histogram(x: Any, counts: Any, block_size: int = 1024) -> None:
    """As :func:`histogram`, with fewer atomics; for few bins.

    :param x: (n,), int32, contiguous, every element in ``range(bins)``.
    :param counts: (bins,), int32, contiguous; the number of bins is a power of two.
    :param block_size: elements a program; a power of two.
    :raises ValueError: the number of bins isn't a power of two.
    """
    bins = counts.numel()
    if bins != triton.next_power_of_2(bins):
        raise ValueError(f"{bins} bins: must be a power of two")
    n_elements = x.numel()
    grid = (triton.cdiv(n_elements, block_size),)
    block_histogram_kernel[grid](x, counts, n_elements, N_BINS=bins, BLOCK_SIZE=block_size)


def scatter_add(values: Any, rows: Any, out: Any, block_size: int = 256) -> None:
    """Add row i of ``values`` to row ``rows[i]`` of ``out``.

    :param values: (n, columns), float32, contiguous.
    :param rows: (n,), int32, contiguous, every element in ``range(len(out))``; may repeat.
    :param out: (m, columns), float32, contiguous.
    :param block_size: columns a program; a power of two.
    """
    n_rows, columns = values.shape
    grid = (n_rows, triton.cdiv(columns, block_size))
    scatter_add_kernel[grid](values, rows, out, columns, values.stride(0), BLOCK_SIZE=block_size)
