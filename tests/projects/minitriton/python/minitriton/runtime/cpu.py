"""This process as a device: programs and their threads run one after another."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

from minitriton._C import libminitriton
from minitriton.compiler import CompiledKernel
from minitriton.runtime.driver import Driver, Grid, Launch, c_type, c_value


class CpuDriver(Driver):
    """The host. Threads of a program never wait for each other in this language, so that running one
    after another is right."""

    arch = "host"

    def __init__(self) -> None:
        self._arrays: dict[int, Any] = {}

    def load(self, kernel: CompiledKernel) -> Launch:
        code = libminitriton.HostKernels(kernel.lowered)
        position = [ctypes.c_int32] * 4
        prototype = ctypes.CFUNCTYPE(None, *map(c_type, kernel.arguments), *position)
        function = prototype(code.address(kernel.name))

        def launch(grid: Grid, values: Sequence[Any]) -> None:
            # `code` is named here so that it lives as long as this function.
            assert code is not None
            arguments = [c_value(*pair) for pair in zip(kernel.arguments, values)]
            for x, y, z in itertools.product(*map(range, grid)):
                for thread in range(kernel.threads):
                    function(*arguments, x, y, z, thread)

        return launch

    def _allocate(self, size: int) -> int:
        array = ctypes.create_string_buffer(size)
        self._arrays[ctypes.addressof(array)] = array
        return ctypes.addressof(array)

    def _free(self, address: int) -> None:
        del self._arrays[address]

    def _write(self, address: int, data: bytes) -> None:
        ctypes.memmove(address, data, len(data))

    def _read(self, address: int, size: int) -> bytes:
        return ctypes.string_at(address, size)
