"""What every machine can do: keep arrays, and run kernels on them."""

from __future__ import annotations

import ctypes
import struct
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Callable, Union

from minitriton.compiler import CompiledKernel
from minitriton.types import ElementType, PointerType, parse_type

Number = Union[int, float]
Grid = tuple[int, int, int]
#: Runs a kernel for a grid of programs with these arguments, and waits for its end.
Launch = Callable[[Grid, Sequence[Any]], None]

_C_TYPES = {
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
}


class DriverError(Exception):
    """A device isn't there, or refused something; the message has its own words."""


class Buffer:
    """An array in a device's memory. It is freed with its last reference."""

    def __init__(self, driver: Driver, element: ElementType, length: int) -> None:
        self.driver = driver
        self.element = element
        self.length = length
        self.address = driver._allocate(max(1, length * element.size))
        weakref.finalize(self, driver._free, self.address)

    def tolist(self) -> list[Number]:
        """The elements, copied to the host."""
        if self.length == 0:
            return []
        data = self.driver._read(self.address, self.length * self.element.size)
        return list(struct.unpack(f"={self.length}{self.element.code}", data))


class Driver(ABC):
    """One device. `arch` is what kernels must be compiled for."""

    arch: str

    def array(self, values: Sequence[Number], element: ElementType) -> Buffer:
        """An array on the device, with these values."""
        buffer = Buffer(self, element, len(values))
        if values:
            self._write(buffer.address, struct.pack(f"={len(values)}{element.code}", *values))
        return buffer

    @abstractmethod
    def load(self, kernel: CompiledKernel) -> Launch:
        """Hand a kernel, compiled for this device, to it."""

    @abstractmethod
    def _allocate(self, size: int) -> int:
        """The address of `size` new bytes."""

    @abstractmethod
    def _free(self, address: int) -> None:
        ...

    @abstractmethod
    def _write(self, address: int, data: bytes) -> None:
        ...

    @abstractmethod
    def _read(self, address: int, size: int) -> bytes:
        ...


def c_type(argument: str) -> Any:
    """The C type of a kernel's argument, given as `*f32` or `i32`."""
    type_ = parse_type(argument)
    if isinstance(type_, PointerType):
        return ctypes.c_void_p
    if type_.name not in _C_TYPES:
        raise TypeError(f"C has no {type_}: hand it to the kernel in an array")
    return _C_TYPES[type_.name]


def c_value(argument: str, value: Any) -> Any:
    """A value of `c_type(argument)`."""
    return c_type(argument)(value.address if isinstance(value, Buffer) else value)


def argument_pointers(arguments: Sequence[str], values: Sequence[Any]) -> tuple[Any, Any]:
    """Pointers to each argument, as both vendors' launch functions take them, and what must be kept
    while these are used."""
    kept = [c_value(argument, value) for argument, value in zip(arguments, values)]
    addresses = [ctypes.addressof(value) for value in kept]
    return (ctypes.c_void_p * len(addresses))(*addresses), kept
