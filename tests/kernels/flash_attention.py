"""Attention without the matrix of scores in memory (Dao 2023, FlashAttention-2; tutorial 06).

A program holds a block of queries and walks along the keys. It keeps, for each query, the largest
score so far, the sum of exponentials relative to it, and the weighted sum of values; when a larger
score turns up, what has been summed is scaled down (Milakov and Gimelshein 2018, online softmax).
"""

import math
from typing import Any

import triton
import triton.language as tl

from kernels.matmul import must_widen


@triton.jit
def flash_attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    log_sum_ptr,
    n_heads,
    n_queries,
    n_keys,
    log2_scale,
    q_stride_batch,
    q_stride_head,
    q_stride_row,
    k_stride_batch,
    k_stride_head,
    k_stride_row,
    v_stride_batch,
    v_stride_head,
    v_stride_row,
    out_stride_batch,
    out_stride_head,
    out_stride_row,
    CAUSAL: tl.constexpr,
    WIDEN_INPUTS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """One block of BLOCK_M queries of one head.

    All arrays are (batch, head, row, HEAD_DIM) with adjacent elements along the last axis, but
    ``log_sum`` (batch, head, n_queries), float32, contiguous. ``log2_scale`` is the factor on
    scores times log2(e), because exp2 is what the hardware has.
    """
    first_query = tl.program_id(0) * BLOCK_M
    batch = (tl.program_id(1) // n_heads).to(tl.int64)
    head = (tl.program_id(1) % n_heads).to(tl.int64)
    queries = first_query + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, HEAD_DIM)
    query_mask = queries[:, None] < n_queries

    q_start = q_ptr + batch * q_stride_batch + head * q_stride_head
    k_start = k_ptr + batch * k_stride_batch + head * k_stride_head
    v_start = v_ptr + batch * v_stride_batch + head * v_stride_head
    q = tl.load(
        q_start + queries[:, None] * q_stride_row + dims[None, :], mask=query_mask, other=0.0
    )
    if WIDEN_INPUTS:
        q = q.to(tl.float32)

    largest = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    accumulator = tl.zeros((BLOCK_M, HEAD_DIM), dtype=tl.float32)
    # A query sees no key after itself: whole blocks of those are left out.
    end = min(first_query + BLOCK_M, n_keys) if CAUSAL else n_keys
    for first_key in range(0, end, BLOCK_N):
        keys = first_key + tl.arange(0, BLOCK_N)
        key_mask = keys < n_keys
        k = tl.load(
            k_start + keys[None, :] * k_stride_row + dims[:, None],
            mask=key_mask[None, :],
            other=0.0,
        )
        v = tl.load(
            v_start + keys[:, None] * v_stride_row + dims[None, :],
            mask=key_mask[:, None],
            other=0.0,
        )
        if WIDEN_INPUTS:
            k = k.to(tl.float32)
        scores = tl.dot(q, k, input_precision="ieee") * log2_scale
        visible = key_mask[None, :]
        if CAUSAL:
            visible = visible & (queries[:, None] >= keys[None, :])
        scores = tl.where(visible, scores, -float("inf"))

        # Key 0 is visible to every query, so after the first block `largest` is finite.
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_largest[:, None])
        rescale = tl.exp2(largest - new_largest)
        total = total * rescale + tl.sum(weights, axis=1)
        # Rounded as the matrix units take them. In the interpreter the round trip keeps bfloat16
        # honest although the product is widened.
        weights = weights.to(v_ptr.dtype.element_ty)
        if WIDEN_INPUTS:
            weights = weights.to(tl.float32)
            v = v.to(tl.float32)
        accumulator = tl.dot(weights, v, accumulator * rescale[:, None], input_precision="ieee")
        largest = new_largest

    out = (accumulator / total[:, None]).to(out_ptr.dtype.element_ty)
    out_start = out_ptr + batch * out_stride_batch + head * out_stride_head
    tl.store(out_start + queries[:, None] * out_stride_row + dims[None, :], out, mask=query_mask)
    log_sum = (largest + tl.log2(total)) * 0.6931471805599453  # from base 2 to base e
    log_sum_start = log_sum_ptr + tl.program_id(1).to(tl.int64) * n_queries
    tl.store(log_sum_start + queries, log_sum, mask=queries < n_queries)


def flash_attention(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    log_sum: Any,
    causal: bool,
    scale: float | None = None,
    block_m: int = 64,
    block_n: int = 32,
) -> None:
    """Write ``softmax(q @ k.T * scale) @ v`` to ``out``, for every batch and head.

    :param q, out: (batch, heads, n_queries, head_dim); float16, bfloat16 or float32.
    :param k, v: (batch, heads, n_keys, head_dim), of q's type. The last axis of all is adjacent.
    :param log_sum: (batch, heads, n_queries), float32, contiguous: the natural logarithm of each
        query's sum of exponentials, which a backward pass starts from.
    :param causal: whether query i sees keys 0 to i only; then n_keys must equal n_queries.
    :param scale: factor on the scores; None for 1 / sqrt(head_dim).
    :param block_m, block_n: queries and keys a step; powers of two, at least 16.

    float32 with a head_dim of 128 is correct but slow: on NVIDIA's GPUs it spills registers.

    :raises ValueError: head_dim is none of 16, 32, 64, 128, there are no keys, causal attention
        isn't square, or a last axis isn't adjacent.
    """
    batches, heads, n_queries, head_dim = q.shape
    n_keys = k.shape[2]
    if head_dim not in (16, 32, 64, 128):
        raise ValueError(f"head_dim is {head_dim}: must be 16, 32, 64 or 128")
    if n_keys == 0:
        raise ValueError("there must be a key")
    if causal and n_keys != n_queries:
        raise ValueError(f"causal attention of {n_queries} queries to {n_keys} keys")
    if any(array.stride(3) != 1 for array in (q, k, v, out)):
        raise ValueError("the elements of a head's row must be adjacent")
    if scale is None:
        scale = 1 / math.sqrt(head_dim)
    flash_attention_kernel[(triton.cdiv(n_queries, block_m), batches * heads)](
        q,
        k,
        v,
        out,
        log_sum,
        heads,
        n_queries,
        n_keys,
        scale * math.log2(math.e),
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        *out.stride()[:3],
        CAUSAL=causal,
        WIDEN_INPUTS=must_widen(q.dtype),
        HEAD_DIM=head_dim,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        num_warps=num_warps(q.dtype),
    )


def num_warps(dtype: Any) -> int:
    """4 warps, but 8 for float32, whose tiles otherwise spill registers."""
    return 8 if str(dtype).endswith("float32") else 4
