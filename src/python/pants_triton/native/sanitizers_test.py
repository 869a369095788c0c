from __future__ import annotations

import pytest

from pants_triton.native.sanitizers import (
    RUNTIME,
    build_environment,
    cmake_variables,
    compiler_flags,
    missing_runtime,
)
from pants_triton.native.sanitizers import test_environment as environment_of_tests


def test_nothing_for_none() -> None:
    assert compiler_flags(()) == ()
    assert cmake_variables(()) == build_environment(()) == environment_of_tests((), "x") == {}


def test_flags() -> None:
    flags = compiler_flags(["undefined", "address", "undefined"])
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
    assert "ASAN_SYMBOLIZER_PATH" not in environment_of_tests(["address"], "")


@pytest.mark.parametrize(
    "line",
    [
        "ld.lld: error: cannot open /x/lib/clang/19/lib/linux/libclang_rt.asan-x86_64.a: No such",
        "/usr/bin/ld: cannot find libasan_preinit.o: No such file or directory",
        "/usr/bin/ld: cannot find -lubsan: No such file or directory",
    ],
)
def test_what_a_linker_says_without_their_libraries(line: str) -> None:
    assert RUNTIME.search(line)
    assert not RUNTIME.search("/usr/bin/ld: cannot find -lsanity: No such file or directory")
    assert "libclang-rt" in missing_runtime("//llvm") and "Install" in missing_runtime("")
