"""Compile a kernel for an architecture, without that GPU, and look at what came out."""

from __future__ import annotations

import atexit
import importlib
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import triton
from triton.compiler import ASTSource

from kernels.harness.architectures import ARCHITECTURES, Architecture
from kernels.harness.hardware import INTERPRET_VARIABLE
from kernels.harness.instructions import InstructionFamily


class KernelCompileError(Exception):
    """Triton refused a kernel; the message is the compiler's own."""


@dataclass(frozen=True)
class CompiledKernel:
    """Machine code, and what running it takes.

    :param assembly: PTX for NVIDIA, AMDGCN assembly for AMD.
    :param ttgir: Triton's GPU dialect, where layouts and memory accesses still have names.
    :param binary: the cubin or hsaco.
    :param num_warps: warps (AMD: wavefronts) of one program.
    :param shared_bytes: shared memory (LDS) of one program.
    :param registers: vector registers a thread, accumulation registers included.
    :param scratch_bytes: local (AMD: private) memory a thread. Spilled registers live there.
    :param vector_spills: vector registers spilled, as AMD's compiler counts them. NVIDIA's tools
        show only the scratch.
    :param scalar_spills: scalar registers spilled; AMD only. They go to lanes of a vector register
        and need no scratch.
    """

    name: str
    architecture: Architecture
    assembly: str
    ttgir: str
    binary: bytes
    num_warps: int
    shared_bytes: int
    registers: int
    scratch_bytes: int
    vector_spills: int
    scalar_spills: int

    def __repr__(self) -> str:
        return f"<{self.name} for {self.architecture.name}>"

    def instructions(self, wanted: str | InstructionFamily) -> list[str]:
        """The instructions in which ``wanted``, a regular expression, is found."""
        if isinstance(wanted, InstructionFamily):
            wanted = wanted.nvidia if self.architecture.is_nvidia else wanted.amd
        lines = (line.strip() for line in self.assembly.splitlines())
        return [
            line
            for line in lines
            if not line.startswith((".", "//", ";")) and re.search(wanted, line)
        ]

    def unmasked_accesses(self) -> list[str]:
        """Loads and stores of whole blocks that no mask guards, in Triton's GPU dialect."""
        unmasked = []
        for line in self.ttgir.splitlines():
            access = re.search(
                r"(tt|amdg)\.(?:buffer_)?(load|store) (.*?) (\{.*\} )?: .*tensor<", line
            )
            if access:
                # Pointer, value if it is a store, mask.
                operands = access[3].split(", ")
                if len(operands) < (2 if access[2] == "load" else 3):
                    unmasked.append(line.strip())
        return unmasked

    @property
    def threads(self) -> int:
        """Threads of one program."""
        return self.num_warps * self.architecture.target.warp_size

    @property
    def sass(self) -> str:
        """NVIDIA's machine code as text, one instruction a line."""
        from triton.tools.disasm import get_sass

        return get_sass(self.binary)

    def assert_fits(self, scalar_spills: int = 0) -> None:
        """Fail unless the kernel spills nothing and its shared memory fits the device.

        :param scalar_spills: how many scalar registers may spill all the same.
        """
        assert (
            self.scratch_bytes == 0
        ), f"{self} uses {self.scratch_bytes} bytes a thread of scratch"
        assert self.vector_spills == 0, f"{self} spills {self.vector_spills} vector registers"
        assert self.scalar_spills <= scalar_spills, f"{self} spills {self.scalar_spills} scalars"
        limit = self.architecture.shared_limit
        assert self.shared_bytes <= limit, f"{self} needs {self.shared_bytes} of {limit} bytes"


def compile_kernel(
    kernel: Any,
    arch: str,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    *,
    multiples_of_16: Iterable[str] = (),
    num_warps: int = 4,
    num_stages: int | None = None,
    **options: Any,
) -> CompiledKernel:
    """Compile ``kernel`` for ``arch``, specialised as Triton's launcher would specialise it.

    Works in a process whose kernels are interpreted too: a second process then compiles.

    :param kernel: a ``@triton.jit`` function of an importable module, autotuned or not.
    :param arch: a key of ``ARCHITECTURES``.
    :param signature: type of each run-time parameter, such as ``*fp16`` or ``i32``. Pointers are
        taken to be 16-byte aligned and, on AMD, to arrays under 2 GiB, as torch's allocations are.
    :param constants: value of each ``tl.constexpr`` parameter.
    :param multiples_of_16: integer parameters whose value is a multiple of 16. A parameter that
        the launcher would see as 1 belongs in ``constants``.
    :param num_stages: depth of software pipelining; Triton's default for the vendor if None.
    :param options: further options of the vendor's backend, such as ``maxnreg``.
    :raises KernelCompileError: the compiler refuses, or a parameter has neither type nor value.
    """
    if num_stages is not None:
        options["num_stages"] = num_stages
    request = _Request(
        *_import_path(kernel),
        arch,
        tuple(signature.items()),
        tuple(constants.items()),
        tuple(multiples_of_16),
        tuple({"num_warps": num_warps, **options}.items()),
    )
    if triton.knobs.runtime.interpret:
        return _compile_in_worker(request)
    return _compile(request)


@dataclass(frozen=True)
class _Request:
    """All of one compilation, in a form that can be a key and can go to another process."""

    module: str
    qualname: str
    arch: str
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Any], ...]
    multiples_of_16: tuple[str, ...]
    options: tuple[tuple[str, Any], ...]


def _import_path(kernel: Any) -> tuple[str, str]:
    while not hasattr(kernel, "__code__"):  # Autotuner, then JITFunction or InterpretedFunction
        kernel = kernel.fn
    return kernel.__module__, kernel.__name__


@cache
def _compile(request: _Request) -> CompiledKernel:
    kernel = getattr(importlib.import_module(request.module), request.qualname)
    while not isinstance(kernel, triton.JITFunction):
        kernel = kernel.fn
    architecture = ARCHITECTURES[request.arch]

    # The order of parameters, not of the request, is what attributes and constants refer to.
    types, constants = dict(request.signature), dict(request.constants)
    missing = [n for n in kernel.arg_names if n not in types and n not in constants]
    if missing:
        raise KernelCompileError(f"{request.qualname}: no type and no value for {missing}")
    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    attributes = {}
    for position, (name, type_name) in enumerate(signature.items()):
        if type_name.startswith("*"):
            attributes[(position,)] = [["tt.divisibility", 16]]
            if architecture.is_amd:
                attributes[(position,)].append(["tt.pointer_range", 32])
        elif name in request.multiples_of_16:
            attributes[(position,)] = [["tt.divisibility", 16]]

    source = ASTSource(kernel, signature, constexprs=constants, attrs=attributes)
    try:
        compiled = triton.compile(source, architecture.target, dict(request.options))
    except Exception as error:
        # Errors of the front end hold syntax trees, which can't leave the process.
        causes = [str(error)] + ([str(error.__cause__)] if error.__cause__ else [])
        raise KernelCompileError("\n".join(causes)) from error

    asm = compiled.asm
    resources = (_cubin_resources if architecture.is_nvidia else _amdgcn_resources)(asm)
    return CompiledKernel(
        name=request.qualname,
        architecture=architecture,
        assembly=asm["ptx" if architecture.is_nvidia else "amdgcn"],
        ttgir=asm["ttgir"],
        binary=compiled.kernel,
        num_warps=compiled.metadata.num_warps,
        shared_bytes=compiled.metadata.shared,
        **resources,
    )


def _cubin_resources(asm: Mapping[str, Any]) -> dict[str, int]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(asm["cubin"])
        cubin.flush()
        cuobjdump = triton.knobs.nvidia.cuobjdump.path
        report = subprocess.run(
            [cuobjdump, "-res-usage", cubin.name], check=True, capture_output=True, text=True
        ).stdout
    usage = {key: int(value) for key, value in re.findall(r"\b([A-Z]+):(\d+)", report)}
    return {
        "registers": usage["REG"],
        "scratch_bytes": usage["STACK"] + usage["LOCAL"],
        "vector_spills": 0,
        "scalar_spills": 0,
    }


def _amdgcn_resources(asm: Mapping[str, Any]) -> dict[str, int]:
    # The kernel's metadata, at the end of the assembly (LLVM's AMDGPU usage guide, code object V5).
    usage = {
        key: int(value)
        for key, value in re.findall(r"^\s+-?\s*\.(\w+):\s+(\d+)$", asm["amdgcn"], re.MULTILINE)
    }
    return {
        "registers": usage["vgpr_count"],
        "scratch_bytes": usage["private_segment_fixed_size"],
        "vector_spills": usage["vgpr_spill_count"],
        "scalar_spills": usage["sgpr_spill_count"],
    }


# In a process whose kernels are interpreted, Triton's own library functions are too, so the
# compiler can't see them. One more process without the interpreter then does all the compiling.


@cache
def _compile_in_worker(request: _Request) -> CompiledKernel:
    worker = _worker()
    pickle.dump(request, worker.stdin)
    worker.stdin.flush()
    answer = pickle.load(worker.stdout)
    if isinstance(answer, CompiledKernel):
        return answer
    raise KernelCompileError(answer)


@cache
def _worker() -> Any:
    environ = {k: v for k, v in os.environ.items() if k != INTERPRET_VARIABLE}
    environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    worker = subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import serve; serve()"],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    atexit.register(worker.kill)
    return worker


def serve() -> None:
    """The worker: a pickled request from standard input, a pickled answer to standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the compiler prints must not mix with the answers
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: CompiledKernel | str = _compile(request)
        except KernelCompileError as error:
            answer = str(error)
        pickle.dump(answer, answers)
        answers.flush()
