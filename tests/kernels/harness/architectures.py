"""The GPU architectures we compile for, and the limits a kernel has to respect there."""

from __future__ import annotations

from dataclasses import dataclass

from triton.backends.compiler import GPUTarget

KIB = 1024


@dataclass(frozen=True)
class Architecture:
    """One GPU architecture.

    :param name: the vendor's own name, such as ``sm_90`` or ``gfx942``.
    :param target: what ``triton.compile`` takes.
    :param shared_limit: most bytes of shared memory (AMD: LDS) that one program may use. On NVIDIA
        this is the opt-in limit for dynamic shared memory, which Triton's launcher asks for.
    """

    name: str
    target: GPUTarget
    shared_limit: int

    @property
    def is_nvidia(self) -> bool:
        return self.target.backend == "cuda"

    @property
    def is_amd(self) -> bool:
        return self.target.backend == "hip"


# Shared memory: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability";
# AMD CDNA2, CDNA3 and CDNA4 instruction set manuals, "LDS".
ARCHITECTURES = {
    architecture.name: architecture
    for architecture in (
        Architecture("sm_80", GPUTarget("cuda", 80, 32), 163 * KIB),
        Architecture("sm_90", GPUTarget("cuda", 90, 32), 227 * KIB),
        Architecture("sm_100", GPUTarget("cuda", 100, 32), 227 * KIB),
        Architecture("gfx90a", GPUTarget("hip", "gfx90a", 64), 64 * KIB),
        Architecture("gfx942", GPUTarget("hip", "gfx942", 64), 64 * KIB),
        Architecture("gfx950", GPUTarget("hip", "gfx950", 64), 160 * KIB),
    )
}

NVIDIA = tuple(name for name, arch in ARCHITECTURES.items() if arch.is_nvidia)
AMD = tuple(name for name, arch in ARCHITECTURES.items() if arch.is_amd)
ALL = NVIDIA + AMD
