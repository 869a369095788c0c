"""Triton compiles for a GPU on this machine, which needs none."""

import numpy
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def store_one(target):
    tl.store(target, 1.0)


def test_a_kernel_is_compiled() -> None:
    source = ASTSource(store_one, signature={"target": "*fp32"})
    compiled = triton.compile(source, target=GPUTarget("cuda", 80, 32))
    assert compiled.asm["cubin"]
    assert numpy.float32(1) == 1
