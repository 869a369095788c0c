"""What one and the same thing is called in NVIDIA's PTX and in AMD's assembly."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InstructionFamily:
    """Regular expressions for instructions that do the same job on either vendor's GPUs."""

    nvidia: str
    amd: str


# 16 bytes a thread, the most that one instruction moves. Triton emits it only where it has proved
# that addresses are aligned and adjacent.
LOAD_16_BYTES = InstructionFamily(
    r"ld\.global(\.\w+)*\.v4\.b32|cp\.async\.cg\.shared\.global .*, 0x10,",
    r"(buffer|global)_load_dwordx4",
)
STORE_16_BYTES = InstructionFamily(r"st\.global(\.\w+)*\.v4\.b32", r"(buffer|global)_store_dwordx4")

# Any other width.
LOAD = InstructionFamily(r"\bld\.global|cp\.async\.c[ag]", r"\b(buffer|global)_load")
STORE = InstructionFamily(r"\bst\.global", r"\b(buffer|global)_store")

# Threads of a warp hand registers to each other.
EXCHANGE_LANES = InstructionFamily(
    r"shfl\.sync|redux\.sync",
    r"_dpp|ds_bpermute|ds_swizzle|v_permlane|v_readlane",
)
# Warps hand values to each other through shared memory, and must meet in between.
BARRIER = InstructionFamily(r"bar\.sync", r"s_barrier")

EXP2 = InstructionFamily(r"ex2\.approx", r"v_exp_f32")
MULTIPLY_HIGH = InstructionFamily(r"mul\.hi\.u32", r"[vs]_mul_hi_u32")
ATOMIC_ADD_INT = InstructionFamily(
    r"(atom|red)\.global(\.\w+)*\.add\.[us]32", r"(global|buffer)_atomic_add\b"
)
MATRIX_UNIT = InstructionFamily(r"mma\.sync\.|wgmma\.mma_async|tcgen05\.mma", r"v_mfma_")
