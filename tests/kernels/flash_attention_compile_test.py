"""Machine code of attention."""

from __future__ import annotations

import re

import pytest

from kernels.flash_attention import flash_attention_kernel, num_warps
from kernels.harness.architectures import ALL, NVIDIA
from kernels.harness.compiling import CompiledKernel, compile_kernel
from kernels.harness.instructions import EXCHANGE_LANES, EXP2, LOAD_16_BYTES, MATRIX_UNIT

pytestmark = pytest.mark.compile

BLOCK_M, BLOCK_N = 64, 32


def compile_for(
    arch: str, element: str = "fp16", causal: bool = False, head_dim: int = 64
) -> CompiledKernel:
    strides = [
        f"{array}_stride_{axis}"
        for array in ("q", "k", "v", "out")
        for axis in ("batch", "head", "row")
    ]
    return compile_kernel(
        flash_attention_kernel,
        arch,
        {
            **dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"), f"*{element}"),
            "log_sum_ptr": "*fp32",
            **dict.fromkeys(("n_heads", "n_queries", "n_keys"), "i32"),
            "log2_scale": "fp32",
            **dict.fromkeys(strides, "i32"),
        },
        {
            "CAUSAL": causal,
            "WIDEN_INPUTS": False,
            "HEAD_DIM": head_dim,
            "BLOCK_M": BLOCK_M,
            "BLOCK_N": BLOCK_N,
        },
        multiples_of_16=strides,
        num_warps=num_warps({"fp32": "float32"}.get(element, element)),
    )


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize(
    "causal, head_dim",
    [
        pytest.param(False, 64, id="full"),
        pytest.param(True, 64, id="causal"),
        pytest.param(True, 128, id="causal-wide"),
    ],
)
def test_fits(arch: str, causal: bool, head_dim: int) -> None:
    compiled = compile_for(arch, "fp16", causal, head_dim)
    # Twelve strides and more keep AMD's scalar registers busy; a lane or two holds the rest.
    compiled.assert_fits(scalar_spills=2)
    assert compiled.instructions(LOAD_16_BYTES)
    assert compiled.unmasked_accesses() == []
    # The scores of the whole sequence are nowhere: memory use doesn't depend on its length.
    assert compiled.shared_bytes <= 4 * (BLOCK_M + 2 * BLOCK_N) * head_dim * 2


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_fp32_fits(arch: str) -> None:
    compile_for(arch, "fp32", causal=True).assert_fits()


@pytest.mark.parametrize(
    "arch, instruction",
    [
        ("sm_80", r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.f16\.f16\.f32"),
        ("sm_90", r"wgmma\.mma_async\.sync\.aligned\.m64n(32|64)k16\.f32\.f16\.f16"),
        ("sm_100", r"tcgen05\.mma\.cta_group::1\.kind::f16"),
        ("gfx90a", r"v_mfma_f32_32x32x8f16"),
        ("gfx942", r"v_mfma_f32_32x32x8_f16"),
        ("gfx950", r"v_mfma_f32_32x32x16_f16"),
    ],
)
def test_both_products_are_on_the_matrix_units(arch: str, instruction: str) -> None:
    compiled = compile_for(arch, "fp16")
    products = compiled.instructions(MATRIX_UNIT)
    assert products and all(re.search(instruction, line) for line in products)
    # Scores of a block: BLOCK_M x BLOCK_N x 64 multiplications; values: the same again.
    # On Hopper their shapes tell them apart.
    if arch == "sm_90":
        shapes = re.findall(r"m64n\d+", "\n".join(products))
        assert set(shapes) == {"m64n32", "m64n64"}
    dots = re.findall(r"(?:tt\.dot|warp_group_dot|tc_gen5_mma) ", compiled.ttgir)
    assert len(dots) >= 2


@pytest.mark.parametrize("arch", ALL)
def test_an_exponential_a_score_and_a_row(arch: str) -> None:
    # Besides the scores', the factor by which each row's sum so far is rescaled.
    compiled = compile_for(arch)
    scores = BLOCK_M * BLOCK_N // compiled.threads
    assert len(compiled.instructions(EXP2)) > scores


@pytest.mark.parametrize("arch", NVIDIA)
def test_exponentials_take_scores_as_they_are(arch: str) -> None:
    # exp(x) would be ex2(x * log2(e)), one more product a score; that factor is in log2_scale.
    times_log2_e = r"mul\.\S* .*0f3FB8AA3B"
    assert not compile_for(arch).instructions(times_log2_e)


@pytest.mark.parametrize("arch", ALL)
def test_rows_are_reduced_among_lanes(arch: str) -> None:
    assert len(compile_for(arch).instructions(EXCHANGE_LANES)) >= 2


@pytest.mark.parametrize("arch", ALL)
def test_causal_attention_compares_positions(arch: str) -> None:
    full, causal = compile_for(arch).ttgir, compile_for(arch, causal=True).ttgir
    comparison = r"arith\.cmpi sge, .* : tensor<64x32xi32"
    assert not re.search(comparison, full)
    assert re.search(comparison, causal)
