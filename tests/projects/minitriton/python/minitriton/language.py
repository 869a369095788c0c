"""What kernels are written in. These functions mean something only inside of a kernel, where the
compiler reads them; Python never runs them.

Beside them a kernel knows assignments, `if` on constants, `+ - * / // % & |`, comparisons, and the
unary minus. A value is a *scalar* or a *block* of as many elements as the `arange` it came from; where
the two meet, the scalar is meant for each element. A number takes the type of what it meets; other
types must agree, or be made to by `cast`. Numbers among themselves are Python's, but when a kernel
runs, `//` and `%` of integers cut off towards zero, as the hardware does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, NoReturn, Optional, TypeVar

from minitriton.types import ELEMENT_TYPES, ElementType

float16: ElementType = ELEMENT_TYPES["f16"]
float32: ElementType = ELEMENT_TYPES["f32"]
float64: ElementType = ELEMENT_TYPES["f64"]
int8: ElementType = ELEMENT_TYPES["i8"]
int16: ElementType = ELEMENT_TYPES["i16"]
int32: ElementType = ELEMENT_TYPES["i32"]
int64: ElementType = ELEMENT_TYPES["i64"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Functions that the compiler knows, and under which name.
BUILTINS: dict[Any, str] = {}


if TYPE_CHECKING:
    constexpr = Any
else:

    class constexpr:
        """Annotates a parameter that is a constant when the kernel is compiled: a number, or a type."""


def _builtin(function: _Function) -> _Function:
    BUILTINS[function] = function.__name__
    return function


@_builtin
def program_id(axis: int) -> Any:
    """This program's position in the grid along axis 0, 1 or 2: an int32."""
    _outside()


@_builtin
def arange(start: int, end: int) -> Any:
    """The block of int32 from `start` up to, not including, `end`; both constants."""
    _outside()


@_builtin
def load(pointer: Any, mask: Optional[Any] = None, other: Optional[Any] = None) -> Any:
    """The elements at a block of pointers. Where `mask` is false memory isn't touched and the result
    is `other`, or anything without it."""
    _outside()


@_builtin
def store(pointer: Any, value: Any, mask: Optional[Any] = None) -> None:
    """Write `value` to a block of pointers, except where `mask` is false."""
    _outside()


@_builtin
def where(condition: Any, then: Any, otherwise: Any) -> Any:
    """`then` where `condition` is true. Both are computed."""
    _outside()


@_builtin
def minimum(left: Any, right: Any) -> Any:
    """The smaller one. Of a number and a NaN: the number."""
    _outside()


@_builtin
def maximum(left: Any, right: Any) -> Any:
    """The larger one. Of a number and a NaN: the number."""
    _outside()


@_builtin
def cast(value: Any, to: ElementType) -> Any:
    """`value` as another type. Floats are cut off towards zero when they become integers."""
    _outside()


def _outside() -> NoReturn:
    raise RuntimeError("this function of minitriton.language was called outside of a kernel")
