"""AMD's GPUs, through the HIP library. LLVM's linker makes the object loadable."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minitriton.compiler import CompiledKernel
from minitriton.runtime.driver import Driver, DriverError, Grid, Launch, argument_pointers

LIBRARY = "libamdhip64.so"

#: Names the linker where none is on PATH.
LINKER_VARIABLE = "MINITRITON_LLD"
_ROCM_LINKER = "/opt/rocm/llvm/bin/ld.lld"


class RocmDriver(Driver):
    """One GPU, by its number among those that the process may see."""

    def __init__(self, number: int = 0) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise DriverError(f"AMD's HIP library isn't installed: {error}") from None
        self._library.hipGetErrorString.restype = ctypes.c_char_p
        self._number = number
        self._call("hipInit", 0)
        self._enter()
        self.arch = self._find_arch()

    def load(self, kernel: CompiledKernel) -> Launch:
        self._enter()
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        image = link(kernel.object())
        self._call("hipModuleLoadData", ctypes.byref(module), image)
        name = ctypes.c_char_p(kernel.name.encode())
        self._call("hipModuleGetFunction", ctypes.byref(function), module, name)

        def launch(grid: Grid, values: Sequence[Any]) -> None:
            self._enter()
            pointers, _kept = argument_pointers(kernel.arguments, values)
            block = (kernel.threads, 1, 1)
            self._call("hipModuleLaunchKernel", function, *grid, *block, 0, None, pointers, None)
            self._call("hipDeviceSynchronize")

        return launch

    def _find_arch(self) -> str:
        # Where in hipDeviceProp_t the name is changed with ROCm 6. It is the only text there that
        # looks like this, and the buffer is larger than any version of the structure.
        properties = ctypes.create_string_buffer(16384)
        name = "hipGetDevicePropertiesR0600"
        if not hasattr(self._library, name):
            name = "hipGetDeviceProperties"
        self._call(name, properties, self._number)
        match = re.search(rb"gfx[0-9a-f]{3,}", properties.raw)
        if match is None:
            raise DriverError(f"{name} doesn't say what device {self._number} is")
        return match[0].decode()

    def _allocate(self, size: int) -> int:
        self._enter()
        address = ctypes.c_void_p()
        self._call("hipMalloc", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value or 0

    def _free(self, address: int) -> None:
        self._enter()
        self._call("hipFree", ctypes.c_void_p(address))

    def _write(self, address: int, data: bytes) -> None:
        self._enter()
        self._call("hipMemcpyHtoD", ctypes.c_void_p(address), data, ctypes.c_size_t(len(data)))

    def _read(self, address: int, size: int) -> bytes:
        self._enter()
        data = ctypes.create_string_buffer(size)
        self._call("hipMemcpyDtoH", data, ctypes.c_void_p(address), ctypes.c_size_t(size))
        return data.raw

    def _enter(self) -> None:
        # The current device belongs to a thread; this may be another than last time.
        self._call("hipSetDevice", self._number)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            text = self._library.hipGetErrorString(code) or b"unknown error"
            raise DriverError(f"{name}: {text.decode()} ({code})")


def find_linker() -> str:
    """LLVM's linker: $MINITRITON_LLD, that of PATH, or ROCm's. Raises DriverError."""
    named = os.environ.get(LINKER_VARIABLE)
    for candidate in [named] if named else ["ld.lld", _ROCM_LINKER]:
        found = shutil.which(candidate)
        if found is not None:
            return found
    raise DriverError(f"there is no ld.lld: put it on PATH, or name it by {LINKER_VARIABLE}")


def link(unlinked: bytes) -> bytes:
    """A shared object, as HIP loads it, of an unlinked one. Raises DriverError."""
    linker = find_linker()
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "kernel.o"), Path(folder, "kernel.hsaco")
        source.write_bytes(unlinked)
        linked = subprocess.run(
            [linker, "-shared", str(source), "-o", str(target)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if linked.returncode != 0:
            raise DriverError(f"{linker}: {linked.stdout.strip()}")
        return target.read_bytes()
