"""Machine code of the matrix product: the matrix units of each architecture, for each type."""

from __future__ import annotations

import re

import pytest
import triton

from kernels.harness.architectures import ALL, AMD, NVIDIA
from kernels.harness.compiling import CompiledKernel, KernelCompileError, compile_kernel
from kernels.harness.instructions import LOAD_16_BYTES, MATRIX_UNIT
from kernels.matmul import MATMUL_CONFIGS, config_name, matmul_kernel

pytestmark = pytest.mark.compile

# 64 x 64 x 64 with 4 warps: large enough for Hopper's and Blackwell's own matrix instructions.
CONFIG = MATMUL_CONFIGS[3]


def compile_for(
    arch: str,
    inputs: str,
    output: str,
    precision: str = "ieee",
    config: triton.Config = CONFIG,
) -> CompiledKernel:
    """The kernel for row-major matrices whose sizes are multiples of 16."""
    sizes = ("M", "N", "K", "a_stride_m", "b_stride_k", "c_stride_m")
    return compile_kernel(
        matmul_kernel,
        arch,
        {
            "a_ptr": f"*{inputs}",
            "b_ptr": f"*{inputs}",
            "c_ptr": f"*{output}",
            **dict.fromkeys(sizes, "i32"),
        },
        {
            "a_stride_k": 1,
            "b_stride_n": 1,
            "c_stride_n": 1,
            "INPUT_PRECISION": precision,
            "WIDEN_INPUTS": False,
            **config.kwargs,
        },
        multiples_of_16=sizes,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )


# What multiplies, by type of the inputs and architecture. Two things stand out: AMD's CDNA2 and 3
# have no matrix instruction for these two fp8 types (CDNA3's are other fp8 types), and sm_80 has
# none for fp8 at all, so Triton converts to fp16; and on sm_100 int8 falls back to the
# instruction of sm_80.
MATRIX_INSTRUCTIONS = {
    ("fp16", "ieee"): {
        "sm_80": r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.f16\.f16\.f32",
        "sm_90": r"wgmma\.mma_async\.sync\.aligned\.m64n64k16\.f32\.f16\.f16",
        "sm_100": r"tcgen05\.mma\.cta_group::1\.kind::f16",
        "gfx90a": r"v_mfma_f32_32x32x8f16",
        "gfx942": r"v_mfma_f32_32x32x8_f16",
        "gfx950": r"v_mfma_f32_32x32x16_f16",
    },
    ("bf16", "ieee"): {
        "sm_80": r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.bf16\.bf16\.f32",
        "sm_90": r"wgmma\.mma_async\.sync\.aligned\.m64n64k16\.f32\.bf16\.bf16",
        "sm_100": r"tcgen05\.mma\.cta_group::1\.kind::f16",
        "gfx90a": r"v_mfma_f32_32x32x8bf16_1k",
        "gfx942": r"v_mfma_f32_32x32x8_bf16",
        "gfx950": r"v_mfma_f32_32x32x16_bf16",
    },
    ("fp32", "tf32"): {
        "sm_80": r"mma\.sync\.aligned\.m16n8k8\.row\.col\.f32\.tf32\.tf32\.f32",
        "sm_90": r"wgmma\.mma_async\.sync\.aligned\.m64n64k8\.f32\.tf32\.tf32",
        "sm_100": r"tcgen05\.mma\.cta_group::1\.kind::tf32",
        "gfx942": r"v_mfma_f32_32x32x4_xf32",
    },
    ("fp32", "ieee"): {
        "gfx90a": r"v_mfma_f32_32x32x2f32",
        "gfx942": r"v_mfma_f32_32x32x2_f32",
        "gfx950": r"v_mfma_f32_32x32x2_f32",
    },
    ("fp8e5", "ieee"): {
        "sm_80": r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.f16\.f16\.f32",
        "sm_90": r"wgmma\.mma_async\.sync\.aligned\.m64n64k32\.f32\.e5m2\.e5m2",
        "sm_100": r"tcgen05\.mma\.cta_group::1\.kind::f8f6f4",
        "gfx90a": r"v_mfma_f32_32x32x8f16",
        "gfx942": r"v_mfma_f32_32x32x8_f16",
        "gfx950": r"v_mfma_f32_32x32x64_f8f6f4.* cbsz:1 blgp:1",
    },
    ("fp8e4nv", "ieee"): {
        "sm_90": r"wgmma\.mma_async\.sync\.aligned\.m64n64k32\.f32\.e4m3\.e4m3",
        "sm_100": r"tcgen05\.mma\.cta_group::1\.kind::f8f6f4",
        "gfx90a": r"v_mfma_f32_32x32x8f16",
        "gfx942": r"v_mfma_f32_32x32x8_f16",
        "gfx950": r"v_mfma_f32_32x32x64_f8f6f4(?!.*cbsz)",
    },
    ("i8", "ieee"): {
        "sm_80": r"mma\.sync\.aligned\.m16n8k32\.row\.col\.satfinite\.s32\.s8\.s8\.s32",
        "sm_90": r"wgmma\.mma_async\.sync\.aligned\.m64n64k32\.s32\.s8\.s8",
        "sm_100": r"mma\.sync\.aligned\.m16n8k32\.row\.col\.satfinite\.s32\.s8\.s8\.s32",
        "gfx90a": r"v_mfma_i32_32x32x8i8",
        "gfx942": r"v_mfma_i32_32x32x16_i8",
        "gfx950": r"v_mfma_i32_32x32x32_i8",
    },
}


@pytest.mark.parametrize(
    "inputs, precision, arch, instruction",
    [
        pytest.param(inputs, precision, arch, instruction, id=f"{inputs}-{precision}-{arch}")
        for (inputs, precision), by_arch in MATRIX_INSTRUCTIONS.items()
        for arch, instruction in by_arch.items()
    ],
)
def test_the_right_matrix_instruction(
    inputs: str, precision: str, arch: str, instruction: str
) -> None:
    compiled = compile_for(arch, inputs, "i32" if inputs == "i8" else "fp32", precision)
    compiled.assert_fits()
    on_matrix_units = compiled.instructions(MATRIX_UNIT)
    assert on_matrix_units
    others = [line for line in on_matrix_units if not re.search(instruction, line)]
    assert others == []


# K of one matrix instruction; it multiplies a tile of M x N x K on behalf of a warp, or on Hopper
# (M = 64) of four.
@pytest.mark.parametrize(
    "arch, multiplications, warps_together",
    [
        pytest.param("sm_80", 16 * 8 * 16, 1, id="sm_80"),
        pytest.param("sm_90", 64 * 64 * 16, 4, id="sm_90"),
    ],
)
def test_the_loop_does_all_multiplications_of_a_tile(
    arch: str, multiplications: int, warps_together: int
) -> None:
    compiled = compile_for(arch, "fp16", "fp16")
    tile = CONFIG.kwargs["BLOCK_M"] * CONFIG.kwargs["BLOCK_N"] * CONFIG.kwargs["BLOCK_K"]
    issued = len(compiled.instructions(MATRIX_UNIT))
    assert issued * multiplications * (compiled.num_warps // warps_together) == tile


@pytest.mark.parametrize("arch", NVIDIA)
def test_exact_fp32_products_need_no_matrix_unit(arch: str) -> None:
    # NVIDIA's matrix units know fp32 only as tf32, which would be wrong for "ieee".
    compiled = compile_for(arch, "fp32", "fp32")
    compiled.assert_fits()
    assert not compiled.instructions(MATRIX_UNIT)
    multiply_adds = compiled.instructions(r"fma\.rn\.f32")
    packed = [line for line in multiply_adds if "f32x2" in line]
    assert len(multiply_adds) + len(packed) >= 64 * 64 * 64 // compiled.threads


@pytest.mark.parametrize("arch", ALL)
@pytest.mark.parametrize("config", MATMUL_CONFIGS, ids=config_name)
def test_every_autotuner_config_fits(arch: str, config: triton.Config) -> None:
    compiled = compile_for(arch, "fp16", "fp16", config=config)
    compiled.assert_fits()
    assert compiled.instructions(MATRIX_UNIT)
    assert compiled.instructions(LOAD_16_BYTES)
    if arch in NVIDIA:
        # The next tiles are on their way while this one is multiplied, each to its own place.
        tiles = (config.kwargs["BLOCK_M"] + config.kwargs["BLOCK_N"]) * config.kwargs["BLOCK_K"] * 2
        assert compiled.shared_bytes >= (config.num_stages - 1) * tiles
        assert compiled.instructions(r"cp\.async\.cg")


def test_sm_80_has_no_e4m3() -> None:
    with pytest.raises(KernelCompileError, match="type fp8e4nv not supported in this architecture"):
        compile_for("sm_80", "fp8e4nv", "fp32")


@pytest.mark.parametrize("arch", ["gfx90a", "gfx950"])
def test_only_the_mi300_series_of_amd_has_tf32(arch: str) -> None:
    with pytest.raises(KernelCompileError, match="input_precision must be one of .* Got tf32"):
        compile_for(arch, "fp32", "fp32", precision="tf32")


@pytest.mark.parametrize("arch", AMD)
def test_bf16_is_not_widened(arch: str) -> None:
    # Widening is for the interpreter alone; on a GPU it would halve the speed.
    assert not compile_for(arch, "bf16", "fp32").instructions(r"v_mfma_f32_\w+x2_?f32")
