from __future__ import annotations

import base64
import struct
import zlib

import pytest

from pants_triton.ci.histogram import HistogramError, histogram_sum

# `local_process_time_run_ms` of a real run of Pants 2.17.1. The sum is what the library
# `hdrhistogram` 0.10.3 says: mean times count.
REAL = base64.b64decode(
    "HISTFAAAAF54nC2GPQ5AQBgFP7PrJ4SCQkFcRSHiTHqNUhxH7QBKhcIN3IDdrDfJm6mntRCRXtzUb8/pfdvHVY9PhbkUrRViC"
    "axDlCE0JIx0lMywNZyaPeKKWTIGbs2R8wFFaw0e"
)
REAL_SUM = 100_785


def test_real() -> None:
    assert histogram_sum(REAL) == REAL_SUM


def encoded(counts: bytes, digits: int = 3, lowest: int = 1, cookie: int = 0x1C849313) -> bytes:
    content = (
        struct.pack(">iiiiqqd", cookie, len(counts), 0, digits, lowest, 10**12, 1.0) + counts
    )
    compressed = zlib.compress(content)
    return struct.pack(">ii", 0x1C849314, len(compressed)) + compressed


def zigzag(number: int) -> bytes:
    value = number << 1 if number >= 0 else (-number << 1) - 1
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*result, value))


@pytest.mark.parametrize(
    ("counts", "total"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param([0, 3], 3, id="three times 1"),
        pytest.param([-2047, 1], 2047, id="exact up to 2047"),
        # From 2048 on, two values share a slot.
        pytest.param([-2048, 1], 2049, id="the middle of 2048 and 2049"),
        pytest.param([-5, 1_000_000], 5_000_000, id="a count of several bytes"),
        pytest.param([-(2048 + 1024), 1], 4096 + 2, id="the third bucket"),
    ],
)
def test_sum(counts: list[int], total: int) -> None:
    assert histogram_sum(encoded(b"".join(map(zigzag, counts)))) == total


def test_unit_above_one() -> None:
    # In steps of 1,024; a step's middle stands for it.
    assert histogram_sum(encoded(zigzag(-2) + zigzag(1), lowest=1024)) == 2 * 1024 + 512


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"0123456789", id="something else"),
        pytest.param(REAL[:-20], id="cut"),
        pytest.param(encoded(b"", cookie=0x1C849301), id="version 1"),
        pytest.param(encoded(b"", digits=9), id="impossible precision"),
        pytest.param(encoded(b"\x80"), id="half a number"),
    ],
)
def test_unreadable(content: bytes) -> None:
    with pytest.raises(HistogramError):
        histogram_sum(content)
