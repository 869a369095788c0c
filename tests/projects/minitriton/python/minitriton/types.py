"""The types of a kernel's values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Union


@dataclass(frozen=True)
class ElementType:
    """A number's type.

    :param name: as MLIR writes it, such as `f32`.
    :param code: as the struct module packs it; None for booleans, which memory doesn't hold.
    """

    name: str
    bits: int
    is_float: bool
    code: Optional[str]

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.bits // 8

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class PointerType:
    """A pointer to elements in a device's memory."""

    pointee: ElementType

    @property
    def name(self) -> str:
        return f"!mini.ptr<{self.pointee.name}>"

    def __str__(self) -> str:
        return f"*{self.pointee}"


Type = Union[ElementType, PointerType]

BOOL = ElementType("i1", 1, is_float=False, code=None)

#: What memory holds, by name.
ELEMENT_TYPES = {
    type_.name: type_
    for type_ in (
        ElementType("f16", 16, is_float=True, code="e"),
        ElementType("f32", 32, is_float=True, code="f"),
        ElementType("f64", 64, is_float=True, code="d"),
        ElementType("i8", 8, is_float=False, code="b"),
        ElementType("i16", 16, is_float=False, code="h"),
        ElementType("i32", 32, is_float=False, code="i"),
        ElementType("i64", 64, is_float=False, code="q"),
    )
}


def parse_type(text: str) -> Type:
    """The type of an argument: `f32`, or `*f32` for a pointer to it. Raises ValueError."""
    name = text[1:] if text.startswith("*") else text
    element = ELEMENT_TYPES.get(name)
    if element is None:
        raise ValueError(f"unknown type {text!r}: expected one of {', '.join(ELEMENT_TYPES)}, or *")
    return PointerType(element) if text.startswith("*") else element


def spell_block(element: Type, length: Optional[int]) -> str:
    """The type as MLIR writes it, of a block or (`length` None) a scalar."""
    return element.name if length is None else f"tensor<{length}x{element.name}>"
