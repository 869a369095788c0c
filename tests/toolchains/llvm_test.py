"""LLVM, MLIR, clang and lld out of the artifact."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchains.llvm import TOOLS, TREE, compile_cpp, run_built, run_tool

VERSION = "19.1.7"


@pytest.mark.parametrize(
    "tool", ["mlir-opt", "mlir-tblgen", "llvm-tblgen", "FileCheck", "clang", "ld.lld", "opt", "llc"]
)
def test_tools_start_and_are_of_one_version(tool: str) -> None:
    assert VERSION in run_tool(tool, "--version")


def test_mlir_opt_folds_constants() -> None:
    module = """\
func.func @f() -> i32 {
  %a = arith.constant 40 : i32
  %b = arith.constant 2 : i32
  %c = arith.addi %a, %b : i32
  return %c : i32
}
"""
    assert "arith.constant 42 : i32" in run_tool("mlir-opt", "--canonicalize", stdin=module)


def test_a_program_is_built_from_the_tree_alone_and_runs(tmp_path: Path) -> None:
    source = tmp_path / "main.cpp"
    source.write_text(
        """\
#include <iostream>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/raw_ostream.h>

int main() {
  llvm::SmallVector<int> numbers{1, 2, 3};
  try {
    throw numbers.size();
  } catch (size_t size) {
    llvm::outs() << "caught " << size << "\\n";
  }
}
"""
    )
    program = tmp_path / "main"
    compile_cpp(source, f"-I{TREE}/usr/lib/llvm-19/include", f"-o{program}", "-lLLVM-19")
    assert run_built(program) == "caught 3\n"


def test_nothing_of_the_host_is_read_when_compiling(tmp_path: Path) -> None:
    source = tmp_path / "main.cpp"
    source.write_text("#include <iostream>\n#include <zlib.h>\n")
    depfile = tmp_path / "main.d"
    compile_cpp(source, "-c", "-MD", f"-MF{depfile}", f"-o{tmp_path}/main.o")
    prerequisites = depfile.read_text().replace("\\\n", " ").split()[1:]
    elsewhere = [
        path
        for path in prerequisites
        if not path.startswith((str(TREE), str(TREE.resolve()), str(tmp_path)))
    ]
    assert len(prerequisites) > 100 and elsewhere == []


def test_permissions_and_links_are_kept() -> None:
    assert (TOOLS / "clang++").is_symlink()
    assert (TREE / "usr/include/stdio.h").stat().st_mode & 0o111 == 0
