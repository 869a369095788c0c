"""Compile a kernel for a machine; the machine itself isn't needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Callable

from minitriton._C import libminitriton
from minitriton.frontend import CompileError, Constant, build_module
from minitriton.types import parse_type


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel for one machine, and what it was on the way there.

    :param arch: `host`, or the vendor's name of a GPU: `sm_90`, `gfx942`.
    :param threads: threads of one program.
    :param arguments: the types of the arguments, `*f32` or `i32`; constants are none.
    :param ir: the kernel in the mini dialect.
    :param lowered: libminitriton's module in LLVM's dialect.
    :param assembly: PTX for NVIDIA, assembly for all others.
    """

    name: str
    arch: str
    threads: int
    arguments: tuple[str, ...]
    ir: str
    lowered: libminitriton.Module
    assembly: str

    def llvm_ir(self) -> str:
        """Optimised LLVM IR."""
        return libminitriton.to_llvmir(self.lowered, self.arch)

    def object(self) -> bytes:
        """An unlinked ELF object. There is none for NVIDIA's GPUs."""
        return libminitriton.to_object(self.lowered, self.arch)


def compile_kernel(
    function: Callable[..., None],
    arguments: Mapping[str, str],
    constants: Mapping[str, Constant],
    arch: str,
    threads: int = 128,
) -> CompiledKernel:
    """Compile a Python function.

    :param arguments: the types of the parameters that aren't constants, `*f32` or `i32`.
    :param constants: the values of the others.
    :param threads: threads of one program; every block's length must be a multiple of it.
    :raises CompileError: the kernel isn't valid, or `arch` unknown.
    """
    types = {name: parse_type(text) for name, text in arguments.items()}
    module = build_module(function, types, constants)
    ir = str(module)
    try:
        [metadata] = json.loads(libminitriton.describe_kernels(module, arch, threads))
        libminitriton.lower(module, arch, threads)
        assembly = libminitriton.to_assembly(module, arch)
    except libminitriton.Error as error:
        raise CompileError(str(error)) from None
    return CompiledKernel(
        name=metadata["name"],
        arch=metadata["arch"],
        threads=metadata["threads"],
        arguments=tuple(metadata["arguments"]),
        ir=ir,
        lowered=module,
        assembly=assembly,
    )
