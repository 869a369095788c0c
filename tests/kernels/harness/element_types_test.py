"""The encodings numpy lacks, against numbers written out in their specifications."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.harness.element_types import ELEMENT_TYPES


@pytest.mark.parametrize(
    "name, code, value",
    [
        pytest.param("bfloat16", 0x3F80, 1.0, id="bf16-one"),
        pytest.param("bfloat16", 0xC040, -3.0, id="bf16-negative"),
        pytest.param("bfloat16", 0x7F7F, 3.3895313892515355e38, id="bf16-largest"),
        pytest.param("float8_e5m2", 0x3C, 1.0, id="e5m2-one"),
        pytest.param("float8_e5m2", 0x7B, 57344.0, id="e5m2-largest"),
        pytest.param("float8_e5m2", 0x01, 2.0**-16, id="e5m2-smallest-subnormal"),
        pytest.param("float8_e4m3fn", 0x38, 1.0, id="e4m3-one"),
        pytest.param("float8_e4m3fn", 0x7E, 448.0, id="e4m3-largest"),
        pytest.param("float8_e4m3fn", 0x81, -(2.0**-9), id="e4m3-smallest-subnormal"),
    ],
)
def test_known_codes(name: str, code: int, value: float) -> None:
    element_type = ELEMENT_TYPES[name]
    assert element_type.decode(np.array([code], element_type.storage)).item() == value
    assert element_type.encode(np.array([value])).item() == code


@pytest.mark.parametrize(
    "name, exact, rounded",
    [
        # Halfway between two neighbours: the one with an even last bit.
        pytest.param("bfloat16", 1 + 2.0**-8, 1.0, id="bf16-tie-down"),
        pytest.param("bfloat16", 1 + 3 * 2.0**-8, 1 + 2.0**-6, id="bf16-tie-up"),
        pytest.param("float8_e5m2", 1.125, 1.0, id="e5m2-tie-down"),
        pytest.param("float8_e5m2", 1.375, 1.5, id="e5m2-tie-up"),
        pytest.param("float8_e4m3fn", -1.0625, -1.0, id="e4m3-tie-down"),
        pytest.param("float8_e4m3fn", 1.07, 1.125, id="e4m3-nearest"),
    ],
)
def test_rounds_to_nearest_even(name: str, exact: float, rounded: float) -> None:
    assert ELEMENT_TYPES[name].round(np.array([exact])).item() == rounded


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn"])
def test_every_finite_fp8_code_survives_a_round_trip(name: str) -> None:
    element_type = ELEMENT_TYPES[name]
    codes = np.arange(256, dtype=np.uint8)
    values = element_type.decode(codes)
    finite = np.isfinite(values)
    assert finite.sum() == {"float8_e5m2": 248, "float8_e4m3fn": 254}[name]
    np.testing.assert_array_equal(element_type.encode(values[finite]), codes[finite])


@pytest.mark.parametrize("name, value", [("float8_e4m3fn", 449.0), ("bfloat16", np.nan)])
def test_out_of_range_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} holds finite numbers"):
        ELEMENT_TYPES[name].encode(np.array([value]))
