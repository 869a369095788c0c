"""Element types of device arrays, and the encodings numpy does not know.

numpy has no bfloat16 and no fp8. A kernel only ever sees their bits, so on the CPU an array of
them is an array of unsigned integers; :meth:`ElementType.encode` and :meth:`ElementType.decode`
translate from and to float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np


@dataclass(frozen=True)
class ElementType:
    """One element type.

    ``str()`` gives the name, which is how Triton's launcher reads an array's ``dtype``.

    :param name: torch's name for it, such as ``float8_e4m3fn``.
    :param triton_name: its name in a Triton signature, such as ``fp8e4nv``.
    :param storage: the numpy type of its bits.
    :param mantissa_bits: stored bits of the significand, 0 for integers. One unit in the last
        place of a number near 1 is ``2 ** -mantissa_bits``.
    :param exponent_bias: of those types that numpy lacks.
    :param largest: the largest finite number, of those types that numpy lacks.
    """

    name: str
    triton_name: str
    storage: np.dtype
    mantissa_bits: int = 0
    exponent_bias: int | None = None
    largest: float | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def is_floating(self) -> bool:
        return self.mantissa_bits > 0

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return self.storage.itemsize

    @property
    def epsilon(self) -> float:
        """Distance from 1 to the next larger number (0 for integers)."""
        return 2.0**-self.mantissa_bits if self.is_floating else 0.0

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Round ``values`` to this type, to nearest, ties to even; return its storage.

        :raises ValueError: a value is out of range of a type that numpy lacks. What happens then
            differs between machines (infinity, NaN or the largest number): no test may rely on it.
        """
        if self.exponent_bias is None or self.largest is None:
            return np.asarray(values).astype(self.storage)
        values = np.asarray(values, dtype=np.float32)
        if not (np.abs(values) <= self.largest).all():
            raise ValueError(f"{self.name} holds finite numbers up to {self.largest} only")
        if self.itemsize == 2:
            bits = values.view(np.uint32)
            round_half_to_even = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
            return ((bits + round_half_to_even) >> np.uint32(16)).astype(np.uint16)
        # The codes of non-negative numbers ascend with the numbers themselves.
        table = _decode_table(self.mantissa_bits, self.exponent_bias)
        positive = table[: int(np.searchsorted(table[:0x80], self.largest)) + 1]
        magnitude = np.abs(values)
        above = np.searchsorted(positive, magnitude)
        below = np.maximum(above - 1, 0)
        to_above, to_below = positive[above] - magnitude, magnitude - positive[below]
        tie_to_above = (to_above == to_below) & (above % 2 == 0)
        code = np.where((to_above < to_below) | tie_to_above, above, below)
        return (code + np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)

    def decode(self, storage: np.ndarray) -> np.ndarray:
        """The values of ``storage``: float32 for types that numpy lacks, else a copy."""
        if self.exponent_bias is None:
            return storage.copy()
        if self.itemsize == 2:
            return (storage.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return _decode_table(self.mantissa_bits, self.exponent_bias)[storage]

    def round(self, values: np.ndarray) -> np.ndarray:
        """The nearest numbers of this type, as :meth:`decode` gives them."""
        return self.decode(self.encode(values))


@cache
def _decode_table(mantissa_bits: int, exponent_bias: int) -> np.ndarray:
    """float32 value of each of the 256 codes of an fp8 type.

    Formats: Micikevicius et al., "FP8 Formats for Deep Learning" (2022). e5m2 has infinities and
    NaNs as IEEE types do; e4m3 has no infinity and one NaN a sign.
    """
    codes = np.arange(256)
    sign = np.where(codes & 0x80, -1.0, 1.0)
    exponent = (codes & 0x7F) >> mantissa_bits
    mantissa = (codes & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    normal = (1 + mantissa) * 2.0 ** (exponent - exponent_bias)
    subnormal = mantissa * 2.0 ** (1 - exponent_bias)
    values = sign * np.where(exponent == 0, subnormal, normal)
    if mantissa_bits == 2:
        special = exponent == 31
        values = np.where(special, np.where(mantissa == 0, sign * np.inf, np.nan), values)
    else:
        values = np.where((codes & 0x7F) == 0x7F, np.nan, values)
    table = values.astype(np.float32)
    table.setflags(write=False)
    return table


ELEMENT_TYPES = {
    element_type.name: element_type
    for element_type in (
        ElementType("int8", "i8", np.dtype(np.int8)),
        ElementType("uint8", "u8", np.dtype(np.uint8)),
        ElementType("int32", "i32", np.dtype(np.int32)),
        ElementType("int64", "i64", np.dtype(np.int64)),
        ElementType("float16", "fp16", np.dtype(np.float16), 10),
        ElementType("bfloat16", "bf16", np.dtype(np.uint16), 7, 127, 3.3895313892515355e38),
        ElementType("float32", "fp32", np.dtype(np.float32), 23),
        ElementType("float8_e5m2", "fp8e5", np.dtype(np.uint8), 2, 15, 57344.0),
        ElementType("float8_e4m3fn", "fp8e4nv", np.dtype(np.uint8), 3, 7, 448.0),
    )
}
