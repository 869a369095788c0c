"""NVIDIA's GPUs, through the driver's own library. The driver compiles the PTX."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from minitriton.compiler import CompiledKernel
from minitriton.runtime.driver import Driver, DriverError, Grid, Launch, argument_pointers

LIBRARY = "libcuda.so.1"

# Of the enumerations CUdevice_attribute and CUjit_option in cuda.h.
_COMPUTE_CAPABILITY_MAJOR = 75
_COMPUTE_CAPABILITY_MINOR = 76
_ERROR_LOG_BUFFER = 5
_ERROR_LOG_BUFFER_SIZE_BYTES = 6

# The newest that LLVM 19 makes PTX for. Drivers compile it for newer GPUs as well.
_NEWEST_CAPABILITY = 90


class CudaDriver(Driver):
    """One GPU, by its number among those that the process may see."""

    def __init__(self, number: int = 0) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise DriverError(f"NVIDIA's driver isn't installed: {error}") from None
        self._call("cuInit", 0)
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), number)
        major = self._attribute(_COMPUTE_CAPABILITY_MAJOR, device)
        minor = self._attribute(_COMPUTE_CAPABILITY_MINOR, device)
        self.arch = f"sm_{min(10 * major + minor, _NEWEST_CAPABILITY)}"
        # The primary context is the one that other libraries of the process use too.
        self._context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self._enter()

    def load(self, kernel: CompiledKernel) -> Launch:
        self._enter()
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(_ERROR_LOG_BUFFER, _ERROR_LOG_BUFFER_SIZE_BYTES)
        settings = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        text = ctypes.c_char_p(kernel.assembly.encode())
        try:
            self._call("cuModuleLoadDataEx", ctypes.byref(module), text, 2, options, settings)
        except DriverError as error:
            raise DriverError(f"{error}\n{log.value.decode(errors='replace')}") from None
        name = ctypes.c_char_p(kernel.name.encode())
        self._call("cuModuleGetFunction", ctypes.byref(function), module, name)

        def launch(grid: Grid, values: Sequence[Any]) -> None:
            self._enter()
            pointers, _kept = argument_pointers(kernel.arguments, values)
            block = (kernel.threads, 1, 1)
            self._call("cuLaunchKernel", function, *grid, *block, 0, None, pointers, None)
            self._call("cuCtxSynchronize")

        return launch

    def _allocate(self, size: int) -> int:
        self._enter()
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def _free(self, address: int) -> None:
        self._enter()
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def _write(self, address: int, data: bytes) -> None:
        self._enter()
        self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))

    def _read(self, address: int, size: int) -> bytes:
        self._enter()
        data = ctypes.create_string_buffer(size)
        self._call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return data.raw

    def _attribute(self, attribute: int, device: ctypes.c_int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        return value.value

    def _enter(self) -> None:
        # A context belongs to a thread; this may be another than last time.
        self._call("cuCtxSetCurrent", self._context)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            raise DriverError(f"{name}: {(text.value or b'unknown error').decode()} ({code})")
