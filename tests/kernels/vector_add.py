"""Element-wise sum of two vectors: the smallest useful kernel (Triton tutorial 01).

What it shows: one program a block of elements, and a mask for the last, incomplete block.
"""

from typing import Any

import triton
import triton.language as tl


@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    """``out[i] = x[i] + y[i]`` for ``i < n_elements``; all three contiguous, of one type."""
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    # The GPU adds fp16 and bf16 in fp32 anyway; the interpreter, which keeps bf16 as bits, has to
    # be told.
    if x.dtype.is_floating():
        x = x.to(tl.float32)
        y = y.to(tl.float32)
    tl.store(out_ptr + offsets, (x + y).to(out_ptr.dtype.element_ty), mask=mask)


def vector_add(x: Any, y: Any, out: Any, block_size: int = 1024) -> None:
    """Write ``x + y`` to ``out``.

    :param x, y, out: contiguous arrays of one shape and one type (float16, bfloat16, float32 or
        int32), fewer than 2**31 elements.
    :param block_size: elements a program; a power of two.
    :raises ValueError: the arrays differ in shape or type, or one is not contiguous.
    """
    for name, array in (("x", x), ("y", y), ("out", out)):
        if array.shape != out.shape or array.dtype != out.dtype or not array.is_contiguous():
            raise ValueError(f"{name} must be contiguous, of out's shape and type")
    n_elements = out.numel()
    grid = (triton.cdiv(n_elements, block_size),)
    vector_add_kernel[grid](x, y, out, n_elements, BLOCK_SIZE=block_size)
