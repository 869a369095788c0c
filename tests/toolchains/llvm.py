"""Running the tools of the LLVM artifact."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

#: The artifact's tree: a sysroot of Debian with LLVM below `usr/lib/llvm-19`.
TREE = Path(os.environ.get("LLVM_TREE", "no tree"))
TOOLS = TREE / "usr/lib/llvm-19/bin"


def run_tool(name: str, *args: str, stdin: str = "") -> str:
    """What an LLVM tool prints to stdout. Fails with its stderr."""
    return _run([str(TOOLS / name), *args], stdin)


def run_built(program: Path, *args: str) -> str:
    """What a program built with the artifact prints to stdout."""
    return _run([str(program), *args], "")


def compile_cpp(source: Path, *args: str) -> None:
    """Compile, and link if `args` don't say `-c`, with the artifact's clang, lld, headers and
    libraries only."""
    run_tool("clang++", f"--sysroot={TREE}", "-fuse-ld=lld", "-std=c++17", str(source), *args)


def _run(argv: list[str], stdin: str) -> str:
    result = subprocess.run(
        argv,
        input=stdin,
        capture_output=True,
        text=True,
        # The tree's own libraries, but libc's, which must be this host's.
        env={"LD_LIBRARY_PATH": str(TREE / ".libraries")},
        check=False,
    )
    assert result.returncode == 0, f"{argv}: {result.stderr}"
    return result.stdout
