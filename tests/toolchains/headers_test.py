"""The archives of headers and sources, compiled against."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchains.llvm import compile_cpp, run_built

# Where the artifacts are in the sandbox that the tests run in.
ROOT = Path("3rdparty").absolute()


def test_json(tmp_path: Path) -> None:
    source = tmp_path / "main.cpp"
    source.write_text(
        """\
#include <iostream>
#include <nlohmann/json.hpp>

int main() { std::cout << nlohmann::json{{"kernel", "matmul"}}.dump(); }
"""
    )
    compile_cpp(source, f"-I{ROOT}/json/json/include", f"-o{tmp_path}/main")
    assert run_built(tmp_path / "main") == '{"kernel":"matmul"}'


def test_googletest(tmp_path: Path) -> None:
    source = tmp_path / "main.cpp"
    source.write_text(
        """\
#include <gtest/gtest.h>

TEST(Arithmetic, Holds) { EXPECT_EQ(40 + 2, 42); }

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
"""
    )
    googletest = ROOT / "googletest/googletest/googletest"
    compile_cpp(
        source,
        str(googletest / "src/gtest-all.cc"),
        f"-I{googletest}",
        f"-I{googletest}/include",
        "-pthread",
        f"-o{tmp_path}/main",
    )
    assert "[  PASSED  ] 1 test." in run_built(tmp_path / "main")


@pytest.mark.parametrize(
    "include, folder",
    [
        pytest.param("cuda.h", "nvidia/nvidia/include", id="cuda"),
        pytest.param("cuda_runtime.h", "nvidia/nvidia/include", id="cudart"),
        pytest.param("cupti.h", "nvidia/nvidia/include", id="cupti"),
    ],
)
def test_cuda_headers(tmp_path: Path, include: str, folder: str) -> None:
    source = tmp_path / "main.cpp"
    source.write_text(f"#include <{include}>\n")
    compile_cpp(source, f"-I{ROOT}/{folder}", "-c", f"-o{tmp_path}/main.o")


def test_pybind11_has_what_cmake_and_compilers_look_for() -> None:
    tree = ROOT / "pybind11/pybind11"
    assert (tree / "include/pybind11/pybind11.h").is_file()
    assert (tree / "share/cmake/pybind11/pybind11Config.cmake").is_file()
