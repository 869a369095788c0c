"""The sum of an HdrHistogram in its compressed form, version 2, which is how Pants reports bytes.

The form is described at the Java class `EncodableHistogram` of github.com/HdrHistogram/HdrHistogram.
The library for Python, `hdrhistogram`, has wheels for two of our four platforms, so that the others
would need a C compiler to set Pants up.
"""

from __future__ import annotations

import struct
import zlib
from typing import Iterator

# The last hex digit but one is the width of a word, and always 1 in version 2.
_COMPRESSED_COOKIE = 0x1C849314
_COOKIE = 0x1C849313

# cookie, payload length, normalizing index offset, significant digits, lowest and highest value,
# conversion ratio
_HEADER = struct.Struct(">iiiiqqd")

_MAX_DIGITS = 5


class HistogramError(Exception):
    """The bytes are no histogram that can be read."""


def histogram_sum(encoded: bytes) -> int:
    """The sum of all recorded values, each as exact as the histogram keeps it (Pants': 0.1 %).

    :raises HistogramError:
    """
    try:
        cookie, length = struct.unpack_from(">ii", encoded)
        if cookie != _COMPRESSED_COOKIE:
            raise HistogramError(f"unknown form {cookie:#x}")
        content = zlib.decompress(encoded[8 : 8 + length])
        cookie, length, offset, digits, lowest, _, _ = _HEADER.unpack_from(content)
    except (struct.error, zlib.error) as e:
        raise HistogramError(str(e)) from None
    if cookie != _COOKIE or offset != 0 or not 0 <= digits <= _MAX_DIGITS or lowest < 1:
        raise HistogramError(f"unknown header {cookie:#x}, {offset}, {digits}, {lowest}")
    counts = content[_HEADER.size : _HEADER.size + length]

    # A bucket's values are twice as far from each other as those of the one before it, and each but
    # the first uses only its upper half.
    unit_magnitude = lowest.bit_length() - 1
    half_magnitude = (2 * 10**digits - 1).bit_length() - 1
    half = 1 << half_magnitude
    total = 0
    index = 0
    for count in _zigzag_numbers(counts):
        if count < 0:
            index -= count
            continue
        bucket, sub = (index >> half_magnitude) - 1, (index & (half - 1)) + half
        if bucket < 0:
            bucket, sub = 0, sub - half
        shift = bucket + unit_magnitude
        middle = (sub << shift) + ((1 << shift) >> 1)
        total += count * middle
        index += 1
    return total


def _zigzag_numbers(content: bytes) -> Iterator[int]:
    """The signed numbers of 1 to 9 bytes each, of which the ninth has eight bits."""
    value = shift = 0
    for byte in content:
        if shift == 56:
            value |= byte << shift
        else:
            value |= (byte & 0x7F) << shift
            if byte & 0x80:
                shift += 7
                continue
        yield (value >> 1) ^ -(value & 1)
        value = shift = 0
    if shift:
        raise HistogramError("it ends in the middle of a number")
