"""What builds and runs with sanitizers take.

See https://clang.llvm.org/docs/AddressSanitizer.html and its siblings.
"""

from __future__ import annotations

import re
from typing import Mapping, Sequence

#: From the names of `-fsanitize=` to those of LLVM's `LLVM_USE_SANITIZER`.
SANITIZERS: Mapping[str, str] = {
    "address": "Address",
    "leak": "Leaks",
    "memory": "Memory",
    "thread": "Thread",
    "undefined": "Undefined",
}

#: The file that a linker misses where there are no runtime libraries, clang's or gcc's.
RUNTIME = re.compile(r"libclang_rt|lib[a-z]+san(_preinit\.o|\.)|-l[a-z]+san\b")

_RUNTIME_PACKAGE = "libclang-rt-19-dev"


def compiler_flags(sanitizers: Sequence[str]) -> tuple[str, ...]:
    """The flags of compiles and links. What is found ends the program."""
    if not sanitizers:
        return ()
    names = ",".join(sorted(set(sanitizers)))
    return (f"-fsanitize={names}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")


def cmake_variables(sanitizers: Sequence[str]) -> dict[str, str]:
    """CMake's variables. By LLVM's, projects that use its CMake files don't ask for libraries
    without undefined symbols, which these can't be; LLVM has no value for most combinations."""
    names = sorted({SANITIZERS[name] for name in sanitizers})
    known = len(names) == 1 or names == ["Address", "Undefined"]
    return {"LLVM_USE_SANITIZER": ";".join(names)} if known else {}


def build_environment(sanitizers: Sequence[str]) -> dict[str, str]:
    """For edges, which may run what they built: tools leak what they need until they end."""
    return {"ASAN_OPTIONS": "detect_leaks=0", "LSAN_OPTIONS": "exitcode=0"} if sanitizers else {}


def test_environment(sanitizers: Sequence[str], symbolizer: str) -> dict[str, str]:
    """For tests. :param symbolizer: `llvm-symbolizer`, so that what is found names source lines; ""
    for none."""
    if not sanitizers:
        return {}
    symbolizers = ("ASAN_SYMBOLIZER_PATH", "UBSAN_SYMBOLIZER_PATH") if symbolizer else ()
    return {
        **{name: symbolizer for name in symbolizers},
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def missing_runtime(toolchain: str) -> str:
    """What to do where the artifact `toolchain`, or this host's compiler if it is "", has no runtime
    libraries."""
    if not toolchain:
        return (
            "This host's compiler has no libraries of these sanitizers. Install them: they come with "
            f"gcc, or for clang in packages such as `{_RUNTIME_PACKAGE}`."
        )
    return (
        f"{toolchain}, which the option `[native].toolchain` names, has no libraries of clang's "
        f"sanitizers. Where it is of Debian's packages, add `{_RUNTIME_PACKAGE}` to its `packages`, "
        "and lock it."
    )
