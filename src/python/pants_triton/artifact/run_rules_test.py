"""The script that `pants run` starts, on trees as artifacts have them."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any, Mapping

import pytest

from pants_triton.artifact.run_rules import _RUN_TOOL

ADDRESS = "3rdparty/llvm:llvm"

# Dash is what Debian's `/bin/sh` is; Bash is that of other distributions.
SHELLS = [
    pytest.param(["/bin/sh"], id="sh"),
    *(
        pytest.param([path, *arguments], id=name)
        for name, *arguments in (["dash"], ["bash", "--posix"])
        for path in [shutil.which(name)]
        if path
    ),
]

PRINTS_ITSELF = """printf '%s\\n' "${0##*/tree/}" "$@" "$LD_LIBRARY_PATH" """


@pytest.fixture(params=SHELLS)
def shell(request: Any) -> list[str]:
    command: list[str] = request.param
    return command


def a_tree(root: Path, *tools: str, body: str = PRINTS_ITSELF) -> Path:
    """A tree with executables at these paths, each of which prints its own path in the tree, its
    arguments and LD_LIBRARY_PATH, a line each."""
    tree = root / "tree"
    for path in ("share/doc/README", *tools):
        file = tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{body}\n" if path in tools else "")
    for path in tools:
        (tree / path).chmod(0o755)
    return tree


def run_tool(
    shell: list[str], tree: Path, *argv: str, env: Mapping[str, str] = {}
) -> "subprocess.CompletedProcess[str]":
    script = tree.parent / "run_tool.sh"
    script.write_text(_RUN_TOOL)
    return subprocess.run(
        [*shell, str(script), ADDRESS, str(tree), *argv],
        env={"PATH": "/usr/bin:/bin", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=20,
    )


@pytest.mark.parametrize(
    ("there", "named"),
    [
        pytest.param("bin/mlir-opt", "mlir-opt", id="bin"),
        pytest.param("usr/bin/gcc", "gcc", id="usr/bin, as Debian has it"),
        pytest.param("usr/lib/llvm-19/bin/clang", "clang", id="LLVM's own folder in Debian"),
        pytest.param("nvvm/bin/cicc", "cicc", id="bin of a folder of the root"),
        pytest.param("share/clang/run-clang-tidy.py", "share/clang/run-clang-tidy.py", id="path"),
    ],
)
def test_where_tools_are_found(shell: list[str], tmp_path: Path, there: str, named: str) -> None:
    result = run_tool(shell, a_tree(tmp_path, there, "bin/other"), named)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0] == there


def test_bin_is_before_other_folders(shell: list[str], tmp_path: Path) -> None:
    tree = a_tree(tmp_path, "usr/lib/llvm-19/bin/opt", "bin/opt", "nvvm/bin/opt", "usr/bin/opt")
    assert run_tool(shell, tree, "opt").stdout.splitlines()[0] == "bin/opt"
    (tree / "bin/opt").unlink()
    assert run_tool(shell, tree, "opt").stdout.splitlines()[0] == "usr/bin/opt"


def test_what_cant_be_run_is_passed_over(shell: list[str], tmp_path: Path) -> None:
    tree = a_tree(tmp_path, "bin/opt", "usr/bin/opt", "bin/sub/x", "usr/bin/sub")
    (tree / "bin/opt").chmod(stat.S_IRUSR | stat.S_IWUSR)
    assert run_tool(shell, tree, "opt").stdout.splitlines()[0] == "usr/bin/opt"
    # `bin/sub` is a folder, and "executable".
    assert run_tool(shell, tree, "sub").stdout.splitlines()[0] == "usr/bin/sub"
    assert run_tool(shell, tree, "bin/sub").returncode == 127


def test_arguments_reach_the_tool_as_they_are(shell: list[str], tmp_path: Path) -> None:
    arguments = [
        "two words",
        "",
        "it's",
        '"quoted"',
        "*",
        "$HOME",
        "`id`",
        "back\\slash",
        "--",
        "-x",
    ]
    result = run_tool(shell, a_tree(tmp_path, "bin/opt"), "opt", *arguments)
    assert result.stdout.splitlines()[1:-1] == arguments


def test_paths_with_spaces(shell: list[str], tmp_path: Path) -> None:
    root = tmp_path / "a folder"
    root.mkdir()
    assert run_tool(shell, a_tree(root, "my tools/bin/a tool"), "a tool").returncode == 0


@pytest.mark.parametrize("code", [pytest.param(code, id=str(code)) for code in (1, 2, 127, 255)])
def test_the_exit_code_is_the_tools(shell: list[str], tmp_path: Path, code: int) -> None:
    result = run_tool(shell, a_tree(tmp_path, "bin/opt", body=f"exit {code}"), "opt")
    assert (result.returncode, result.stderr) == (code, "")


def test_no_tool_named(shell: list[str], tmp_path: Path) -> None:
    result = run_tool(shell, a_tree(tmp_path, "bin/opt", "bin/llc", "usr/bin/opt"))
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"Say which tool of {ADDRESS} to run: ./pants run {ADDRESS} -- TOOL ARGUMENT...",
        "It has:",
        "  llc",
        "  opt",
    ]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("ptxas", id="name"),
        pytest.param("bin/ptxas", id="path"),
        pytest.param("share/doc/README", id="no executable"),
    ],
)
def test_unknown_tool(shell: list[str], tmp_path: Path, name: str) -> None:
    result = run_tool(shell, a_tree(tmp_path, "bin/opt"), name, "--version")
    assert result.returncode == 127
    assert result.stderr.splitlines() == [
        f"{ADDRESS} has no tool `{name}`.",
        "It has:",
        "  opt",
    ]


@pytest.mark.parametrize("argv", [pytest.param([], id="none"), pytest.param(["opt"], id="one")])
def test_tree_without_tools(shell: list[str], tmp_path: Path, argv: list[str]) -> None:
    result = run_tool(shell, a_tree(tmp_path), *argv)
    assert result.returncode == (127 if argv else 2)
    assert result.stderr.splitlines()[1:] == ["It has no tools."]


@pytest.mark.parametrize(
    ("own", "users", "seen"),
    [
        pytest.param(True, None, "TREE/.libraries", id="the tree's"),
        pytest.param(
            True, "/opt/lib", "TREE/.libraries:/opt/lib", id="the tree's, then the user's"
        ),
        pytest.param(True, "", "TREE/.libraries", id="an empty one would be the working folder"),
        pytest.param(False, None, "", id="a tree without libraries"),
        pytest.param(False, "/opt/lib", "/opt/lib", id="the user's is kept"),
    ],
)
def test_shared_libraries(
    shell: list[str], tmp_path: Path, own: bool, users: str | None, seen: str
) -> None:
    tree = a_tree(tmp_path, "bin/opt")
    if own:
        (tree / ".libraries").mkdir()
    env = {} if users is None else {"LD_LIBRARY_PATH": users}
    result = run_tool(shell, tree, "opt", env=env)
    assert result.stdout.splitlines()[-1] == seen.replace("TREE", str(tree))
