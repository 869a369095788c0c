"""A tiny kernel language: element-wise kernels in Python, compiled for GPUs and for the host.

    import minitriton as mt
    import minitriton.language as ml

    @mt.jit
    def double(x, out, n, BLOCK: ml.constexpr):
        offsets = ml.program_id(0) * BLOCK + ml.arange(0, BLOCK)
        mask = offsets < n
        ml.store(out + offsets, ml.load(x + offsets, mask=mask) * 2, mask=mask)

    driver = mt.runtime.open_driver("cpu")
    x, out = driver.array([1, 2, 3], ml.float32), driver.array([0, 0, 0], ml.float32)
    double[(1,)](x, out, 3, BLOCK=128)
    assert out.tolist() == [2, 4, 6]

Nothing of a GPU is touched before a driver is opened.
"""

from minitriton import language, runtime
from minitriton.compiler import CompiledKernel, compile_kernel
from minitriton.frontend import CompileError
from minitriton.kernel import Kernel, jit

__all__ = [
    "CompileError",
    "CompiledKernel",
    "Kernel",
    "cdiv",
    "compile_kernel",
    "jit",
    "language",
    "runtime",
]


def cdiv(dividend: int, divisor: int) -> int:
    """The quotient, rounded up: how many blocks it takes."""
    return -(-dividend // divisor)
