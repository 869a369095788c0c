"""What a kernel's operations mean: which types they take, and the MLIR that they become.

Numbers known when the kernel is compiled are plain Python numbers here; all else is a `Value`.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

from minitriton._C import libminitriton
from minitriton.types import BOOL, ELEMENT_TYPES, ElementType, PointerType, Type, spell_block

INT32 = ELEMENT_TYPES["i32"]


class SemanticError(Exception):
    """An operation doesn't take what it is given. The message is for the kernel's author."""


@dataclass(frozen=True)
class Value:
    """Something that is known when the kernel runs.

    :param handle: libminitriton's value.
    :param element: its type, or that of its elements.
    :param length: how many elements; None for a scalar.
    """

    handle: libminitriton.Value
    element: Type
    length: Optional[int]

    def __str__(self) -> str:
        return str(self.element) if self.length is None else f"{self.element}[{self.length}]"


Number = Union[bool, int, float]
Operand = Union[Value, Number]


@dataclass(frozen=True)
class BinaryOperation:
    """One of Python's operators.

    :param python: what it does to two numbers.
    :param floats: arith's operation on floats; None if there is none.
    :param integers: the same for integers.
    """

    symbol: str
    python: Callable[[Any, Any], Any]
    floats: Optional[str]
    integers: Optional[str]


# Division of integers cuts off towards zero, as the hardware does.
BINARY = {
    operation.symbol: operation
    for operation in (
        BinaryOperation("+", operator.add, "addf", "addi"),
        BinaryOperation("-", operator.sub, "subf", "subi"),
        BinaryOperation("*", operator.mul, "mulf", "muli"),
        BinaryOperation("/", operator.truediv, "divf", None),
        BinaryOperation("//", operator.floordiv, None, "divsi"),
        BinaryOperation("%", operator.mod, None, "remsi"),
        BinaryOperation("&", operator.and_, None, "andi"),
        BinaryOperation("|", operator.or_, None, "ori"),
        BinaryOperation("minimum", min, "minnumf", "minsi"),
        BinaryOperation("maximum", max, "maxnumf", "maxsi"),
    )
}


@dataclass(frozen=True)
class Comparison:
    """One of Python's comparisons, and the predicates of arith.cmpf and arith.cmpi."""

    symbol: str
    python: Callable[[Any, Any], bool]
    floats: str
    integers: str


# Whatever is compared with a NaN, only `!=` holds.
COMPARISONS = {
    comparison.symbol: comparison
    for comparison in (
        Comparison("<", operator.lt, "olt", "slt"),
        Comparison("<=", operator.le, "ole", "sle"),
        Comparison(">", operator.gt, "ogt", "sgt"),
        Comparison(">=", operator.ge, "oge", "sge"),
        Comparison("==", operator.eq, "oeq", "eq"),
        Comparison("!=", operator.ne, "une", "ne"),
    )
}


class Emitter:
    """Appends operations to a kernel. The methods of `minitriton.language`'s names are what a kernel
    may call."""

    def __init__(self, builder: libminitriton.KernelBuilder) -> None:
        self._builder = builder

    # What kernels call.

    def program_id(self, axis: Operand) -> Value:
        if not isinstance(axis, int) or axis not in (0, 1, 2):
            raise SemanticError(f"a grid has the axes 0, 1 and 2, not {axis}")
        return Value(self._builder.program_id(axis), INT32, None)

    def arange(self, start: Operand, end: Operand) -> Value:
        if not isinstance(start, int) or not isinstance(end, int):
            raise SemanticError(
                f"the ends of a range must be constant integers, not {start}, {end}"
            )
        if start >= end:
            raise SemanticError(f"the range from {start} to {end} is empty")
        return Value(self._builder.range(start, end), INT32, end - start)

    def load(
        self, pointer: Operand, mask: Optional[Operand] = None, other: Optional[Operand] = None
    ) -> Value:
        pointer, element = self._pointers(pointer)
        if other is not None and mask is None:
            raise SemanticError("other is for where the mask is false, but there is no mask")
        return Value(
            self._builder.load(
                pointer.handle,
                self._fit(mask, BOOL, pointer.length),
                self._fit(other, element, pointer.length),
            ),
            element,
            pointer.length,
        )

    def store(self, pointer: Operand, value: Operand, mask: Optional[Operand] = None) -> None:
        pointer, element = self._pointers(pointer)
        self._builder.store(
            pointer.handle,
            self._fit(value, element, pointer.length),
            self._fit(mask, BOOL, pointer.length),
        )

    def where(self, condition: Operand, then: Operand, otherwise: Operand) -> Operand:
        if not isinstance(condition, Value):
            return then if condition else otherwise
        element = self._common_type("where", then, otherwise)
        length = _common_length(condition, then, otherwise)
        operands = [
            self._fit(condition, BOOL, length),
            self._fit(then, element, length),
            self._fit(otherwise, element, length),
        ]
        handle = self._builder.arithmetic("select", operands, spell_block(element, length))
        return Value(handle, element, length)

    def minimum(self, left: Operand, right: Operand) -> Operand:
        return self.binary("minimum", left, right)

    def maximum(self, left: Operand, right: Operand) -> Operand:
        return self.binary("maximum", left, right)

    def cast(self, value: Operand, to: ElementType) -> Operand:
        if not isinstance(to, ElementType):
            raise SemanticError(f"expected a type such as float32, not {to}")
        if not isinstance(value, Value):
            return float(value) if to.is_float else int(value)
        if isinstance(value.element, PointerType):
            raise SemanticError(f"a pointer can't be made a {to}")
        name = _conversion(value.element, to)
        if name is None:
            return value
        handle = self._builder.arithmetic(name, [value.handle], spell_block(to, value.length))
        return Value(handle, to, value.length)

    # What operators become.

    def binary(self, symbol: str, left: Operand, right: Operand) -> Operand:
        operation = BINARY[symbol]
        if not isinstance(left, Value) and not isinstance(right, Value):
            return operation.python(left, right)
        if symbol == "+" and _is_pointer(right):
            left, right = right, left
        if symbol == "+" and isinstance(left, Value) and _is_pointer(left):
            return self._move(left, right)
        element = self._common_type(symbol, left, right)
        name = operation.floats if element.is_float else operation.integers
        if name is None or (element == BOOL and symbol not in "&|"):
            raise SemanticError(f"there is no {symbol} of {element}")
        length = _common_length(left, right)
        operands = [self._fit(operand, element, length) for operand in (left, right)]
        return Value(self._builder.arithmetic(name, operands), element, length)

    def compare(self, symbol: str, left: Operand, right: Operand) -> Operand:
        comparison = COMPARISONS[symbol]
        if not isinstance(left, Value) and not isinstance(right, Value):
            return comparison.python(left, right)
        element = self._common_type(symbol, left, right)
        length = _common_length(left, right)
        handle = self._builder.compare(
            comparison.floats if element.is_float else comparison.integers,
            self._fit(left, element, length),
            self._fit(right, element, length),
        )
        return Value(handle, BOOL, length)

    def negate(self, value: Operand) -> Operand:
        if not isinstance(value, Value):
            return -value
        if isinstance(value.element, ElementType) and value.element.is_float:
            handle = self._builder.arithmetic("negf", [value.handle])
            return Value(handle, value.element, value.length)
        return self.binary("-", 0, value)

    # What they have in common.

    def _move(self, pointer: Value, offset: Operand) -> Value:
        element = offset.element if isinstance(offset, Value) else INT32
        if element.name not in ("i32", "i64"):
            raise SemanticError(f"pointers are moved by an i32 or i64, not by {offset}")
        length = _common_length(pointer, offset)
        handle = self._builder.addptr(
            self._fit(pointer, pointer.element, length), self._fit(offset, element, length)
        )
        return Value(handle, pointer.element, length)

    def _pointers(self, value: Operand) -> tuple[Value, ElementType]:
        if not isinstance(value, Value) or not isinstance(value.element, PointerType):
            raise SemanticError(f"expected pointers, not {value}")
        if value.length is None:
            raise SemanticError("expected a block of pointers: add an arange to this one")
        return value, value.element.pointee

    def _common_type(self, what: str, left: Operand, right: Operand) -> ElementType:
        elements: list[ElementType] = []
        for operand in (left, right):
            if not isinstance(operand, Value):
                continue
            if isinstance(operand.element, PointerType):
                raise SemanticError(f"there is no {what} of pointers")
            elements.append(operand.element)
            if operand.element != elements[0]:
                raise SemanticError(
                    f"{what} needs one type, not {elements[0]} and {operand.element}"
                )
        if elements:
            return elements[0]
        floats = isinstance(left, float) or isinstance(right, float)
        return ELEMENT_TYPES["f32"] if floats else INT32

    def _fit(self, operand: Optional[Operand], element: Type, length: Optional[int]) -> Any:
        """The handle of `operand` as that type and length; None stays None."""
        if operand is None:
            return None
        if not isinstance(operand, Value):
            if isinstance(element, PointerType):
                raise SemanticError(f"{operand} is no pointer")
            if not _holds(element, operand):
                raise SemanticError(f"{operand} is no {element}")
            return self._builder.constant(operand, spell_block(element, length))
        if operand.element != element:
            raise SemanticError(f"expected {element}, not {operand.element}")
        if operand.length == length:
            return operand.handle
        if operand.length is None and length is not None:
            return self._builder.splat(operand.handle, length)
        raise SemanticError(f"expected {length or 'no'} elements, not {operand.length}")


def _holds(element: ElementType, number: Number) -> bool:
    """Whether a number is one of that type. Floats are rounded if need be, integers never."""
    if element.is_float:
        return True
    if element == BOOL:
        return number in (0, 1)
    limit = 1 << (element.bits - 1)
    return isinstance(number, int) and -limit <= number < limit


def _is_pointer(operand: Operand) -> bool:
    return isinstance(operand, Value) and isinstance(operand.element, PointerType)


def _common_length(*operands: Operand) -> Optional[int]:
    lengths = {o.length for o in operands if isinstance(o, Value) and o.length is not None}
    if len(lengths) > 1:
        raise SemanticError(f"blocks differ in length: {', '.join(map(str, sorted(lengths)))}")
    return lengths.pop() if lengths else None


def _conversion(source: ElementType, target: ElementType) -> Optional[str]:
    """arith's operation from one type to another; None if they are the same."""
    if source == target:
        return None
    if source.is_float and target.is_float:
        return "extf" if source.bits < target.bits else "truncf"
    if source.is_float:
        return "fptosi"
    # True is one, not minus one.
    if target.is_float:
        return "uitofp" if source == BOOL else "sitofp"
    if source.bits < target.bits:
        return "extui" if source == BOOL else "extsi"
    return "trunci"
