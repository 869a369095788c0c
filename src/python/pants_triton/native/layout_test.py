from __future__ import annotations

import itertools

import pytest

from pants_triton.native.layout import (
    BUILD,
    CHROOT,
    ROOT_TOKEN,
    Settings,
    Toolchain,
    below,
    find_toolchain,
    in_root,
    leaf_folders,
    portable_flags,
    toolchain_file,
    unfit_root,
    with_flags,
)


@pytest.mark.parametrize(
    "path, expected",
    [
        pytest.param("lib/a.o", f"{BUILD}/lib/a.o", id="relative to the build folder"),
        pytest.param(".", BUILD, id="the build folder"),
        pytest.param("..", "", id="the root, from the build folder"),
        pytest.param("../demo/a.cpp", "demo/a.cpp", id="out of the build folder"),
        pytest.param("../../a.cpp", None, id="out of the sandbox"),
        pytest.param("../..", None, id="above the sandbox"),
        pytest.param(ROOT_TOKEN, "", id="the root"),
        pytest.param(f"{ROOT_TOKEN}/", "", id="the root, with a slash"),
        pytest.param(f"{ROOT_TOKEN}/demo//lib/./a.h", "demo/lib/a.h", id="not normal"),
        pytest.param(f"{ROOT_TOKEN}/{BUILD}/../demo", "demo", id="there and back"),
        pytest.param(f"{ROOT_TOKEN}/../etc", None, id="from the root out of the sandbox"),
        pytest.param(f"{ROOT_TOKEN}2/a", None, id="only begins like the token"),
        pytest.param("/usr/include/stdio.h", None, id="on the host"),
        pytest.param("...", f"{BUILD}/...", id="dots that mean nothing"),
    ],
)
def test_in_root(path: str, expected: str | None) -> None:
    assert in_root(path) == expected


def test_in_root_from_another_folder() -> None:
    assert in_root("a.h", "demo/include") == "demo/include/a.h"
    assert in_root(f"{ROOT_TOKEN}/a.h", "demo/include") == "a.h"


def test_below() -> None:
    assert below("a/b", ["x", "a"]) and below("a", ["a"])
    assert not below("ab", ["a"]) and not below("a", ["a/b"]) and not below("a", [])


@pytest.mark.parametrize(
    "folders, files, expected",
    [
        pytest.param(["a", "a/b", "a/b/c"], [], ["a/b/c"], id="in each other"),
        pytest.param(["a", "b/c"], ["a/x"], ["b/c"], id="has a file"),
        pytest.param(["a"], ["a/b/c/x"], [], id="has a file further down"),
        pytest.param(["a", "ab"], ["ab/x"], ["a"], id="names that begin alike"),
        pytest.param(["", "a", "a"], [], ["a"], id="the root, and one twice"),
        pytest.param(["a/b"], ["a/b"], [], id="is a file"),
        pytest.param(["a/b"], ["a"], ["a/b"], id="below a file, which the engine refuses by name"),
        pytest.param([], ["a/x"], [], id="none"),
    ],
)
def test_leaf_folders(folders: list[str], files: list[str], expected: list[str]) -> None:
    for order in itertools.permutations(folders):
        assert leaf_folders(order, files) == expected


DEBIAN = [
    "usr/bin/clang++",  # A link.
    "usr/lib/llvm-19/bin/clang",
    "usr/lib/llvm-19/bin/clang++",
    "usr/lib/llvm-19/bin/llvm-ar",
    "usr/include/stdio.h",
    ".libraries/libLLVM.so.19.1",
]


def test_the_toolchain_of_debian_packages_is_a_sysroot() -> None:
    toolchain = find_toolchain("3rdparty/llvm/llvm", DEBIAN)
    assert toolchain == Toolchain(
        "3rdparty/llvm/llvm", "usr/lib/llvm-19/bin", is_sysroot=True, libraries=".libraries"
    )
    assert toolchain is not None
    assert toolchain.library_path == f"{CHROOT}/3rdparty/llvm/llvm/.libraries"


def test_the_toolchain_of_an_upstream_build_is_none() -> None:
    members = ["bin/clang", "bin/clang++", "include/llvm/IR/Value.h", "lib/libLLVMCore.a"]
    toolchain = find_toolchain("llvm", members)
    assert toolchain == Toolchain("llvm", "bin", is_sysroot=False)
    assert toolchain is not None and toolchain.library_path == ""


@pytest.mark.parametrize(
    "members, expected",
    [
        pytest.param(
            [f"usr/lib/llvm-{version}/bin/clang++" for version in (9, 19, 18)],
            "usr/lib/llvm-19/bin",
            id="several versions",
        ),
        pytest.param(["usr/bin/clang++", "bin/clang++"], "usr/bin", id="neither has a version"),
        pytest.param(
            ["usr/bin/clang++", "usr/lib/llvm-9/bin/clang++"], "usr/lib/llvm-9/bin", id="a link"
        ),
    ],
)
def test_the_newest_of_several(members: list[str], expected: str) -> None:
    for order in itertools.permutations(members):
        toolchain = find_toolchain("llvm", order)
        assert toolchain is not None and toolchain.bin == expected


@pytest.mark.parametrize(
    "members",
    [
        pytest.param([], id="nothing"),
        pytest.param(["bin/clang", "bin/lld"], id="no C++"),
        pytest.param(["bin/clang++-19", "usr/lib/llvm-19/bin/clang++.exe"], id="other names"),
        pytest.param(["opt/x/bin/clang++", "share/bin/clang++"], id="elsewhere"),
    ],
)
def test_no_toolchain(members: list[str]) -> None:
    assert find_toolchain("llvm", members) is None


def test_a_header_of_that_name_deeper_down_is_a_sysroot_too() -> None:
    # Of musl and multiarch layouts; LLVM's own folder of headers is none.
    for header, expected in [
        ("usr/include/x86_64-linux-gnu/stdio.h", True),
        ("usr/lib/llvm-19/include/stdio.h", False),
        ("include/stdio.h", False),
    ]:
        toolchain = find_toolchain("llvm", ["bin/clang++", header])
        assert toolchain is not None and toolchain.is_sysroot is expected, header


def test_toolchain_file() -> None:
    toolchain = Toolchain("3rdparty/llvm", "usr/lib/llvm-19/bin", is_sysroot=True)
    assert (
        toolchain_file(
            toolchain,
            "/sandbox",
            ["3rdparty/cmake", "3rdparty/llvm"],
            Settings("-Oz", variables={"LLVM_USE_SANITIZER": "Address"}),
        )
        == """\
set(CMAKE_SYSROOT "/sandbox/3rdparty/llvm")
set(CMAKE_C_COMPILER "/sandbox/3rdparty/llvm/usr/lib/llvm-19/bin/clang")
set(CMAKE_CXX_COMPILER "/sandbox/3rdparty/llvm/usr/lib/llvm-19/bin/clang++")
set(CMAKE_ASM_COMPILER "/sandbox/3rdparty/llvm/usr/lib/llvm-19/bin/clang")
set(CMAKE_AR "/sandbox/3rdparty/llvm/usr/lib/llvm-19/bin/llvm-ar" CACHE FILEPATH "")
set(CMAKE_RANLIB "/sandbox/3rdparty/llvm/usr/lib/llvm-19/bin/llvm-ranlib" CACHE FILEPATH "")
set(CMAKE_C_FLAGS_INIT "-Oz")
set(CMAKE_CXX_FLAGS_INIT "-Oz")
set(CMAKE_ASM_FLAGS_INIT "-Oz")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-fuse-ld=lld")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-fuse-ld=lld")
set(CMAKE_MODULE_LINKER_FLAGS_INIT "-fuse-ld=lld")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON CACHE BOOL "")
set(FETCHCONTENT_FULLY_DISCONNECTED ON CACHE BOOL "")
set(CMAKE_FIND_ROOT_PATH "/sandbox/3rdparty/cmake;/sandbox/3rdparty/llvm")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
set(LLVM_USE_SANITIZER "Address" CACHE STRING "")
"""
    )


def test_flags_that_keep_the_sandbox_out() -> None:
    assert portable_flags("/sandbox", is_artifact=False) == ("-ffile-prefix-map=/sandbox=.",)
    assert "-no-canonical-prefixes" in portable_flags("/sandbox", is_artifact=True)


def test_flags_in_the_cache_stand_behind_ours() -> None:
    cache = {"CMAKE_CXX_FLAGS": "-w", "CMAKE_EXE_LINKER_FLAGS": "-s", "CMAKE_BUILD_TYPE": "Debug"}
    assert with_flags(cache, "-Oz", "lld") == {
        "CMAKE_CXX_FLAGS": "-Oz -w",
        "CMAKE_EXE_LINKER_FLAGS": "-fuse-ld=lld -s",
        "CMAKE_BUILD_TYPE": "Debug",
    }
    assert with_flags(cache, "-Oz", "")["CMAKE_EXE_LINKER_FLAGS"] == "-s"


def test_without_a_sysroot_the_compiler_finds_its_own() -> None:
    text = toolchain_file(
        Toolchain("llvm", "bin", is_sysroot=False), ROOT_TOKEN, ["llvm"], Settings("")
    )
    assert "SYSROOT" not in text
    assert f'set(CMAKE_CXX_COMPILER "{ROOT_TOKEN}/llvm/bin/clang++")' in text


@pytest.mark.parametrize(
    "folder, unfit",
    [
        ("/tmp", ""),
        ("/home/jörg/.cache/pants-2.17_x~1+2@3", ""),
        ("/Users/A B/tmp", " "),
        ("/a:b,c/'d'", "',:"),
        ("/a=b", "="),
    ],
)
def test_folders_in_which_nothing_can_be_built(folder: str, unfit: str) -> None:
    assert unfit_root(folder) == unfit
