"""Compiles kernels with the real Triton in a process of its own, for tests and the benchmark.

    python -m pants_triton.kernel_cache.compile_kernels N

compiles N kernels, and prints what it had of the cache as JSON. Needs no GPU.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
import time
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from pants_triton.kernel_cache.store import the_store


@triton.jit
def add_kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, x + 1, mask=mask)


def main(count: int) -> None:
    targets = [GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64)]
    sums = []
    compiled_anew = 0

    def listen(*, cache_hit: bool, **_: Any) -> None:
        nonlocal compiled_anew
        compiled_anew += not cache_hit

    triton.knobs.compilation.listener = listen
    start = time.perf_counter()
    for i in range(count):
        source = ASTSource(
            add_kernel,
            signature={
                "x_ptr": "*fp32",
                "y_ptr": "*fp32",
                "n_elements": "i32",
                "BLOCK_SIZE": "constexpr",
            },
            constexprs={"BLOCK_SIZE": 64 << (i // 2)},
        )
        compiled = triton.compile(source, target=targets[i % 2])
        sums.append(hashlib.sha256(compiled.kernel).hexdigest())
    print(
        json.dumps(
            {
                "sums": sums,
                "compiled": compiled_anew,
                "seconds": time.perf_counter() - start,
                **dataclasses.asdict(the_store().statistics),
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
