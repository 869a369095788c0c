"""Arrays a kernel can reach, made from numpy values and read back as numpy values.

Tests speak to a GPU and to Triton's interpreter through one small interface, :class:`ArrayBackend`.
On a GPU an array is a torch tensor. In the interpreter it is an :class:`InterpreterArray`: as much
of a torch tensor as Triton and our launchers ask for, on top of numpy.

Every array lies between two guard zones. Their bytes are all ones, which is a NaN in every
floating-point type and -1 in every integer type: a load beyond the array poisons the result, and a
store beyond it is found by :meth:`ArrayBackend.read`. Fresh outputs hold the same pattern, so an
element that a kernel forgets to write is seen too.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from kernels.harness.element_types import ELEMENT_TYPES, ElementType

# At least one block of the widest kernel on either side; a multiple of 16 keeps arrays aligned.
GUARD_BYTES = 64 * 1024
POISON = 0xFF


class ArrayBackend(Protocol):
    """Where a test's arrays live. Types are named as in ``ELEMENT_TYPES``."""

    arch: str
    """``interpreter``, or the GPU's architecture, such as ``sm_90`` or ``gfx942``."""

    def array(self, values: np.ndarray, dtype: str) -> Any:
        """A C-contiguous array of ``values``, rounded to ``dtype``."""

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        """A C-contiguous array of poison."""

    def read(self, array: Any) -> np.ndarray:
        """The values of ``array``; bfloat16 and fp8 come as float32.

        :raises AssertionError: a kernel has written outside the array.
        """


class HostStorage:
    """Bytes in host memory: what ``torch.Tensor.untyped_storage()`` is to the interpreter."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data

    def data_ptr(self) -> int:
        return self.data.ctypes.data

    def cpu(self) -> HostStorage:
        """The interpreter asks for a host copy to run on; these bytes are on the host already."""
        return self

    def copy_(self, other: HostStorage) -> None:
        if other is not self:
            self.data[:] = other.data


class InterpreterArray:
    """A strided array over a :class:`HostStorage`, in the words of ``torch.Tensor``.

    Strides and offsets count elements, as torch's do. Only what
    ``triton.runtime.interpreter.GridExecutor`` and the launchers in this package use is here.
    """

    def __init__(
        self,
        storage: HostStorage,
        offset: int,
        shape: Sequence[int],
        strides: Sequence[int],
        dtype: ElementType,
    ) -> None:
        self.dtype = dtype
        self.device = "cpu"
        self.set_(storage, offset, shape, strides)

    def set_(
        self, storage: HostStorage, offset: int, shape: Sequence[int], strides: Sequence[int]
    ) -> None:
        self._storage = storage
        self._offset = offset
        self.shape = tuple(shape)
        self._strides = tuple(strides)

    def untyped_storage(self) -> HostStorage:
        return self._storage

    def storage_offset(self) -> int:
        return self._offset

    def data_ptr(self) -> int:
        return self._storage.data_ptr() + self._offset * self.dtype.itemsize

    def element_size(self) -> int:
        return self.dtype.itemsize

    def size(self) -> tuple[int, ...]:
        return self.shape

    def numel(self) -> int:
        return math.prod(self.shape)

    def stride(self, dim: int | None = None) -> Any:
        return self._strides if dim is None else self._strides[dim]

    def is_contiguous(self) -> bool:
        return self._strides == _contiguous_strides(self.shape)

    def t(self) -> InterpreterArray:
        """The transpose of a matrix, over the same bytes."""
        rows, columns = self.shape
        row_stride, column_stride = self._strides
        return InterpreterArray(
            self._storage,
            self._offset,
            (columns, rows),
            (column_stride, row_stride),
            self.dtype,
        )

    def narrow(self, dim: int, start: int, length: int) -> InterpreterArray:
        """Indices ``start`` to ``start + length`` of dimension ``dim``, over the same bytes."""
        shape = self.shape[:dim] + (length,) + self.shape[dim + 1 :]
        offset = self._offset + start * self._strides[dim]
        return InterpreterArray(self._storage, offset, shape, self._strides, self.dtype)

    def new_empty(
        self,
        size: int | Sequence[int],
        dtype: ElementType | None = None,
        device: str | None = None,
    ) -> InterpreterArray:
        shape = (size,) if isinstance(size, int) else tuple(size)
        return _allocate(shape, dtype or self.dtype)

    def zero_(self) -> InterpreterArray:
        self.bits()[...] = 0
        return self

    def bits(self) -> np.ndarray:
        """A writable numpy view, of the element type's storage type."""
        itemsize = self.dtype.itemsize
        return np.ndarray(
            self.shape,
            self.dtype.storage,
            buffer=self._storage.data.data,
            offset=self._offset * itemsize,
            strides=tuple(stride * itemsize for stride in self._strides),
        )


class InterpreterBackend:
    """Arrays for Triton's interpreter."""

    arch = "interpreter"

    def array(self, values: np.ndarray, dtype: str) -> InterpreterArray:
        element_type = ELEMENT_TYPES[dtype]
        array = _allocate(np.shape(values), element_type)
        array.bits()[...] = element_type.encode(values)
        return array

    def empty(self, shape: Sequence[int], dtype: str) -> InterpreterArray:
        return _allocate(tuple(shape), ELEMENT_TYPES[dtype])

    def read(self, array: InterpreterArray) -> np.ndarray:
        _check_guards(array.untyped_storage().data)
        return array.dtype.decode(array.bits())


class TorchBackend:
    """Arrays on a device that torch drives: a GPU of either vendor, by default.

    :raises ImportError: torch is not installed.
    """

    def __init__(self, arch: str, device: str = "cuda") -> None:
        self.arch = arch
        self._device = device
        # Not an import statement: where torch is not among the locked packages, Pants would warn
        # in each run that it is missing. `hardware.probe` has asked for it before.
        self._torch = importlib.import_module("torch")

    def array(self, values: np.ndarray, dtype: str) -> Any:
        array = self.empty(np.shape(values), dtype)
        host = np.ascontiguousarray(ELEMENT_TYPES[dtype].encode(values)).reshape(-1)
        self._flat_bytes(array).copy_(self._torch.from_numpy(host.view(np.uint8)))
        return array

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        torch = self._torch
        size = math.prod(shape) * ELEMENT_TYPES[dtype].itemsize
        storage = torch.full(
            (size + 2 * GUARD_BYTES,), POISON, dtype=torch.uint8, device=self._device
        )
        return storage[GUARD_BYTES : GUARD_BYTES + size].view(getattr(torch, dtype)).view(*shape)

    def read(self, array: Any) -> np.ndarray:
        torch = self._torch
        # Copying to the host waits for the kernels before it.
        whole = array.new_empty(0, dtype=torch.uint8).set_(array.untyped_storage())
        _check_guards(whole.cpu().numpy())
        element_type = ELEMENT_TYPES[str(array.dtype).removeprefix("torch.")]
        host = self._flat_bytes(array.contiguous()).cpu().numpy()
        return element_type.decode(host.view(element_type.storage)).reshape(tuple(array.shape))

    def _flat_bytes(self, array: Any) -> Any:
        return array.view(-1).view(self._torch.uint8)


def _contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))


def _allocate(shape: tuple[int, ...], dtype: ElementType) -> InterpreterArray:
    size = math.prod(shape) * dtype.itemsize
    storage = HostStorage(np.full(size + 2 * GUARD_BYTES, POISON, dtype=np.uint8))
    offset = GUARD_BYTES // dtype.itemsize
    return InterpreterArray(storage, offset, shape, _contiguous_strides(shape), dtype)


def _check_guards(storage: np.ndarray) -> None:
    for side, guard in (("before", storage[:GUARD_BYTES]), ("after", storage[-GUARD_BYTES:])):
        overwritten = np.flatnonzero(guard != POISON)
        assert (
            not overwritten.size
        ), f"a kernel wrote {overwritten.size} bytes {side} an array: is its mask right?"
