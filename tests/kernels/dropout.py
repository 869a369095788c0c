"""Dropout with a counter-based random generator (Srivastava et al. 2014; Triton tutorial 04).

Which elements go depends on the seed and the element's index alone (Philox: Salmon et al. 2011).
No mask is stored: a backward pass draws the same numbers again.
"""

from typing import Any

import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n_elements, drop_rate, seed, BLOCK_SIZE: tl.constexpr):
    """``out[i]`` is 0 with probability ``drop_rate``, else ``x[i] / (1 - drop_rate)``."""
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    keep = tl.rand(seed, offsets) >= drop_rate
    # Scaling what is left keeps the expected value of every element.
    out = tl.where(keep, x / (1 - drop_rate), 0.0)
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=mask)


def dropout(x: Any, out: Any, drop_rate: float, seed: int, block_size: int = 1024) -> None:
    """Write ``x`` to ``out`` with a share of ``drop_rate`` of its elements set to 0.

    :param x, out: contiguous, of one shape; float16, bfloat16 or float32; under 2**31 elements.
    :param drop_rate: at least 0, less than 1.
    :param seed: 32 bits. The same seed drops the same elements, whatever the block size.
    :param block_size: elements a program; a power of two.
    :raises ValueError: the drop rate is out of range, or the arrays don't fit.
    """
    if not 0 <= drop_rate < 1:
        raise ValueError(f"drop_rate is {drop_rate}: it must be in [0, 1)")
    if x.shape != out.shape or not (x.is_contiguous() and out.is_contiguous()):
        raise ValueError("x and out must be contiguous and of one shape")
    n_elements = x.numel()
    grid = (triton.cdiv(n_elements, block_size),)
    dropout_kernel[grid](x, out, n_elements, drop_rate, seed, BLOCK_SIZE=block_size)
