from __future__ import annotations

import pytest

from pants_triton.native.sanitizers import (
    build_environment,
    cmake_variables,
    compiler_flags,
)
from pants_triton.native.sanitizers import test_environment as environment_of_tests


def test_nothing_for_none() -> None:
    assert compiler_flags(()) == ""
    assert cmake_variables(()) == build_environment(()) == environment_of_tests((), "x") == {}


def test_flags() -> None:
    flags = compiler_flags(["undefined", "address", "undefined"]).split()
    assert flags[0] == "-fsanitize=address,undefined"
    assert "-fno-sanitize-recover=all" in flags


@pytest.mark.parametrize(
    "sanitizers, expected",
    [
        (["address"], "Address"),
        (["leak"], "Leaks"),
        (["undefined", "address"], "Address;Undefined"),
        (["thread", "undefined"], None),
    ],
)
def test_what_llvm_calls_them(sanitizers: list[str], expected: str | None) -> None:
    # As its HandleLLVMOptions.cmake compares them, which stops at any other.
    assert cmake_variables(sanitizers).get("LLVM_USE_SANITIZER") == expected


def test_environments() -> None:
    assert build_environment(["address"])["ASAN_OPTIONS"] == "detect_leaks=0"
    assert environment_of_tests(["address"], "/x/llvm-symbolizer")["ASAN_SYMBOLIZER_PATH"] == (
        "/x/llvm-symbolizer"
    )
