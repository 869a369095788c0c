"""Matrix product, tiled and autotuned (Triton tutorial 03).

Each program computes one tile of the product. It walks along K, a tile of A and a tile of B at a
time, and leaves the arithmetic of each step to the matrix units through ``tl.dot``. Programs are
numbered so that those which run together share rows of A and columns of B in the L2 cache.
"""

from typing import Any

import triton
import triton.language as tl

MATMUL_CONFIGS = [
    triton.Config(
        {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_M": 8},
        num_warps=warps,
        num_stages=stages,
    )
    for block_m, block_n, block_k, warps, stages in (
        (128, 128, 32, 8, 2),
        (128, 64, 64, 4, 2),
        (64, 128, 32, 4, 3),
        (64, 64, 64, 4, 2),
        (32, 64, 32, 2, 3),
    )
]
"""What the autotuner tries. Each fits every architecture that ``harness`` knows, with inputs of up
to 4 bytes an element."""

# The interpreter has no clock worth tuning by. It gets the smallest tiles, which leave it the
# least padding to compute on.
_CONFIGS = MATMUL_CONFIGS[-1:] if triton.knobs.runtime.interpret else MATMUL_CONFIGS


@triton.autotune(configs=_CONFIGS, key=["M", "N", "K", "INPUT_PRECISION"])
@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    a_stride_m,
    a_stride_k,
    b_stride_k,
    b_stride_n,
    c_stride_m,
    c_stride_n,
    INPUT_PRECISION: tl.constexpr,
    WIDEN_INPUTS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """``c = a @ b`` for ``a`` (M, K), ``b`` (K, N), ``c`` (M, N); strides count elements.

    Integers accumulate in int32, everything else in float32. ``INPUT_PRECISION`` (``ieee`` or
    ``tf32``) matters to float32 inputs only. ``WIDEN_INPUTS`` turns inputs into float32 first.
    """
    # Tiles are numbered down GROUP_M rows of tiles before the next column of tiles.
    program = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles_in_group = GROUP_M * tiles_n
    first_tile_m = (program // tiles_in_group) * GROUP_M
    group_height = min(tiles_m - first_tile_m, GROUP_M)
    tile_m = first_tile_m + (program % tiles_in_group) % group_height
    tile_n = (program % tiles_in_group) // group_height

    offsets_m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offsets_n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offsets_k = tl.arange(0, BLOCK_K)
    # Rows and columns past the edge wrap around: what they compute is never stored, and loads
    # without a mask along M and N are the cheaper ones.
    rows = offsets_m % M
    columns = offsets_n % N
    a_ptrs = a_ptr + rows[:, None] * a_stride_m + offsets_k[None, :] * a_stride_k
    b_ptrs = b_ptr + offsets_k[:, None] * b_stride_k + columns[None, :] * b_stride_n

    is_integer: tl.constexpr = a_ptr.dtype.element_ty.is_int()
    accumulator_type: tl.constexpr = tl.int32 if is_integer else tl.float32
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=accumulator_type)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        k_left = K - k * BLOCK_K
        a = tl.load(a_ptrs, mask=offsets_k[None, :] < k_left, other=0.0)
        b = tl.load(b_ptrs, mask=offsets_k[:, None] < k_left, other=0.0)
        if WIDEN_INPUTS:
            a = a.to(tl.float32)
            b = b.to(tl.float32)
        accumulator = tl.dot(
            a, b, accumulator, input_precision=INPUT_PRECISION, out_dtype=accumulator_type
        )
        a_ptrs += BLOCK_K * a_stride_k
        b_ptrs += BLOCK_K * b_stride_k

    c_ptrs = c_ptr + offsets_m[:, None] * c_stride_m + offsets_n[None, :] * c_stride_n
    mask = (offsets_m[:, None] < M) & (offsets_n[None, :] < N)
    tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=mask)


def matmul(a: Any, b: Any, c: Any, input_precision: str = "ieee", config: Any = None) -> None:
    """Write ``a @ b`` to ``c``.

    :param a, b: (M, K) and (K, N) of one type: float16, bfloat16, float32, float8_e5m2,
        float8_e4m3fn or int8; any strides. Each smaller than 2**31 elements.
    :param c: (M, N), any strides; int32 for int8 inputs, else a floating-point type.
    :param input_precision: for float32 inputs ``ieee`` (exact products) or ``tf32`` (10 bits of
        the significand, on the matrix units).
    :param config: one of ``MATMUL_CONFIGS`` to use; None lets the autotuner choose on a GPU and
        takes the smallest tiles in the interpreter.
    :raises ValueError: shapes don't fit, or a and b differ in type.
    """
    (m, k), (k_of_b, n) = a.shape, b.shape
    if k != k_of_b or tuple(c.shape) != (m, n):
        raise ValueError(f"no product {tuple(a.shape)} @ {tuple(b.shape)} -> {tuple(c.shape)}")
    if a.dtype != b.dtype:
        raise ValueError(f"a is {a.dtype}, b is {b.dtype}")

    def grid(meta: dict[str, Any]) -> tuple[int]:
        return (int(triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"])),)

    kernel = matmul_kernel if config is None else matmul_kernel.fn
    kernel[grid](
        a,
        b,
        c,
        m,
        n,
        k,
        *a.stride(),
        *b.stride(),
        *c.stride(),
        INPUT_PRECISION=input_precision,
        WIDEN_INPUTS=must_widen(a.dtype),
        **(config.all_kwargs() if config is not None else {}),
    )


def config_name(config: triton.Config) -> str:
    """Such as ``128x64x32-4w-2s``: a tile's M, N and K, warps and pipeline stages."""
    tile = "x".join(str(config.kwargs[f"BLOCK_{axis}"]) for axis in "MNK")
    return f"{tile}-{config.num_warps}w-{config.num_stages}s"


def must_widen(dtype: Any) -> bool:
    """Whether ``tl.dot`` can't take this type: the interpreter multiplies the bits of bfloat16 as
    if they were integers (Triton 3.7). Products of bfloat16 are exact in float32, so widening
    changes no result."""
    return bool(triton.knobs.runtime.interpret) and str(dtype).endswith("bfloat16")
