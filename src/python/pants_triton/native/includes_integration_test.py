"""No file is missed: closures of random trees, against what real compilers and TableGen open."""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import subprocess
import warnings
from pathlib import Path

import pytest

from pants_triton.native.compile_command import parse_compile, parse_tablegen
from pants_triton.native.includes import Resolver

TREES = int(os.environ.get("INCLUDES_TEST_TREES", "60"))


def found_tools(variable: str, names: list[str]) -> list[str]:
    """The tool that an environment variable names, or those of `names` that are on the PATH."""
    chosen = os.environ.get(variable)
    return [chosen] if chosen else [name for name in names if shutil.which(name)]


def compiles_cpp(compiler: str) -> bool:
    """A gcc may have come without its C++ half."""
    command = [compiler, "-x", "c++", "-fsyntax-only", "-"]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


COMPILERS = list(filter(compiles_cpp, found_tools("CLANG", ["clang", "clang-19", "gcc"])))
TABLEGENS = found_tools("LLVM_TBLGEN", ["llvm-tblgen", "llvm-tblgen-19"])
for what, tools in (("includes of C++: no clang or g++", COMPILERS), ("TableGen's", TABLEGENS)):
    if not tools:
        warnings.warn(f"NOT TESTED: {what} is on the PATH", stacklevel=1)

# Three levels down, so that a depfile's `../one/a.h`, which is how compilers name a file that they
# didn't find, is no file of the project.
BUILD, UP = "build/x/y", "../../.."

FOLDERS = ["src", "src/sub", "one", "one/sub", "two", "two/sub", "sys", "sys/sub", "iq", "after"]
NAMES = ["a.h", "b.h", "c.h", "d.inc"]
GAPS = ["", " ", "\t", "/**/", "/* don't \" */", " /* a\n\n b */ ", "\\\n", " \\ \n "]

# Complete in themselves, and no directive in them is one.
DECOYS = [
    'const char *s{n} = "/*";',
    'const char *s{n} = "don\'t // ";',
    "int s{n} = '\"' + '\\'' + '/';",
    "int s{n} = 1'000'0; const char *t{n} = \"/*\";",
    '// it\'s a /* comment \\\n#include "decoy.h"',
    '/* it\'s " a\n#include "decoy.h"\n // comment */',
    '#if 0\nit\'s /* skipped\n#include "decoy.h"\n*/\n#endif',
    'const char *s{n} = R"x(\n/* " )"\n)x";',
    'const char *s{n} = R"(\\\n)";',
    '#define M{n} "/*" // \\\n*/',
    "int s{n} /* a */ = 0; /* b\n */",
    "#define has_include_{n}(x) 1",
]


class CTree:
    """A random project. Not all that its files include is there: see `-MG`."""

    def __init__(self, seed: int, root: Path) -> None:
        self.random = random.Random(seed)
        self.root = root
        paths = [f"{folder}/{name}" for folder in FOLDERS for name in NAMES]
        self.files = self.random.sample(paths, self.random.randint(5, 25)) + ["src/main.cpp"]
        self.numbers = iter(range(10**9))

    def write(self) -> None:
        for folder in [*FOLDERS, BUILD]:
            (self.root / folder).mkdir(parents=True)
        for path in self.files:
            text = "\n".join(self.lines(path)) + "\n"
            if self.random.random() < 0.2:
                text = text.replace("\n", "\r\n")
            if self.random.random() < 0.2:
                text = "\ufeff" + text
            (self.root / path).write_bytes(text.encode())

    def lines(self, path: str) -> list[str]:
        # Finite, and some are read more than once.
        lines = [f"#if __INCLUDE_LEVEL__ < {self.random.randint(2, 5)}"]
        if self.random.random() < 0.5:
            lines.insert(0, "#pragma once")
        for _ in range(self.random.randint(0, 4)):
            if self.random.random() < 0.4:
                lines.append(self.random.choice(DECOYS).replace("{n}", f"_{next(self.numbers)}"))
            lines += self.directive(path)
        return [*lines, "#endif"]

    def gap(self) -> str:
        return self.random.choice(GAPS)

    def operand(self, path: str) -> str:
        target = self.random.choice(self.files)
        name = target.rpartition("/")[2]
        spelled = self.random.choice(
            [name, name, f"sub/{name}", f"../{target}", f"sub/../{name}", f"./{name}"]
            + [os.path.relpath(target, os.path.dirname(path)), f"{self.root}/{target}"]
        )
        return self.random.choice([f'"{spelled}"', f"<{spelled}>"])

    def directive(self, path: str) -> list[str]:
        hash = self.random.choice(["#", "#", "%:"])
        operand = self.operand(path)
        kind = self.random.choice(["include", "include", "include", "next", "macro", "asked", "-D"])
        g = self.gap
        if kind == "-D":
            return ["#ifdef FROM_COMMAND", f"{hash}{g()}include {g()}FROM_COMMAND", "#endif"]
        if kind == "next":
            return [f"{hash}{g()}include_next{g()}{operand}"]
        if kind == "macro":
            name = f"NAME_{next(self.numbers)}"
            return [
                f"#define {name} {operand}",
                f"{hash}{g()}define{g()} {name}_ {name} // why",
                f"{hash}{g()}include{g()} {name}{self.random.choice(['', '_'])}",
            ]
        if kind == "asked":
            # It needn't be this file that decides about.
            asked = self.operand(path)
            return [f"#if{g()} __has_include({asked})", f"#include {operand}", "#endif"]
        return [f"{g()}{hash}{g()}include{g()}{operand}{self.random.choice(['', ' // why'])}"]

    def command(self, compiler: str) -> str:
        options = [f"-I{UP}/one", f"-I{self.root}/two", f"-isystem {UP}/sys", f"-iquote {UP}/iq"]
        options += [f"-idirafter {UP}/after", f"-I {UP}/src/sub/..", f"-isystem {UP}/one"]
        options += [f"-iquote{UP}/two"]
        chosen = self.random.sample(options, self.random.randint(2, len(options)))
        if self.random.random() < 0.3:
            top = self.random.choice([UP, self.root])
            chosen.append(f"-include {top}/{self.random.choice(self.files)}")
        if self.random.random() < 0.5:
            file = self.random.choice(self.files)
            chosen.append(shlex.quote(f'-DFROM_COMMAND="{self.root}/{file}"'))
        return (
            f"cd {self.root}/{BUILD} && {compiler} -x c++ -std=c++17 -w {' '.join(chosen)} "
            f"-M -MG -MF main.d {UP}/src/main.cpp"
        )


def make_resolver(root: Path, files: list[str], folders: list[str]) -> Resolver:
    return Resolver(
        files, lambda path: (root / path).read_bytes(), folders=folders, roots=[str(root)]
    )


def depfile(path: Path, root: Path) -> set[str]:
    """What a depfile names, relative to `root`."""
    text = path.read_text().replace("\\\n", " ")
    words = re.sub(r"^[^:]*:\s", "", text).split()
    return {os.path.relpath(os.path.join(root, BUILD, word), root) for word in words}


@pytest.mark.parametrize("compiler", COMPILERS)
def test_what_a_compiler_opens(compiler: str, tmp_path: Path) -> None:
    opened = found = 0
    for seed in range(TREES):
        root = tmp_path / str(seed)
        tree = CTree(seed, root)
        tree.write()
        command = tree.command(compiler)
        ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
        if "no include path in which to search" in ran.stderr:
            # GCC's word for an `#include_next` in the last folder.
            continue
        assert ran.returncode == 0, f"tree {seed}: {command}\n{ran.stderr}"
        parsed = parse_compile(command)
        assert parsed is not None, command
        placed = parsed.at(str(root), BUILD)
        resolver = make_resolver(root, tree.files, FOLDERS)
        closure = resolver.compile_closure(placed.source, placed.search)
        needed = depfile(root / BUILD / "main.d", root) & set(tree.files)
        assert needed <= closure.files, f"tree {seed}: {sorted(needed - closure.files)}: {command}"
        assert not closure.unknown or "FROM_COMMAND" not in command
        assert closure.files <= set(tree.files)
        opened += len(needed)
        found += len(closure.files)
    # Many conditions are false in such trees, and all that `#include_next` may mean is taken.
    assert 2 * TREES < opened <= found <= 3 * opened


TD_FOLDERS = ["one", "one/sub", "two", "two/sub", BUILD, f"{BUILD}/sub"]
TD_NAMES = ["a.td", "b.td", "sub/a.td", "sub/b.td", "../one/c.td", "../one/sub/../a.td"]
TD_GAPS = ["", " ", "\n", "/* why */", " // why\n", "\r\n"]
TD_DECOYS = [
    '// include "decoy.td"',
    '/* include "decoy.td"\n /* nested */ "[{ */',
    'class C{n} { string s = "/* [{ //"; }',
    'class C{n} { code c = [{ /* " // }]; }',
    '#ifdef NEVER\n[{ " /*\n#endif',
    "#ifdef NEVER\n*/ }]\n#else",
]


def write_tablegen_tree(seed: int, root: Path) -> tuple[list[str], str]:
    """A random project, and the options with which it is read. It has what it includes."""
    rand = random.Random(seed)
    for folder in TD_FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    paths = [f"{folder}/{name}" for folder in TD_FOLDERS for name in ("a.td", "b.td", "c.td")]
    files = rand.sample(paths, rand.randint(3, 12)) + ["one/main.td"]
    dirs = rand.sample(["one", "two", "one/sub"], rand.randint(1, 3))
    names = [
        name
        for name in TD_NAMES
        if any(os.path.normpath(f"{folder}/{name}") in files for folder in [BUILD, *dirs])
    ]
    for path in files:
        # Nothing may be defined twice.
        guard = re.sub(r"\W", "_", path)
        lines = [f"#ifndef {guard}", f"#define {guard}"]
        ends = ["#endif"]
        for number in range(rand.randint(0, 3)):
            lines.append(rand.choice(TD_DECOYS).replace("{n}", f"{guard}{number}"))
            if lines[-1].endswith("#else"):
                ends.append("#endif")
            if names:
                lines.append(f'include{rand.choice(TD_GAPS)}"{rand.choice(names)}"')
        (root / path).write_bytes("\n".join([*lines, *ends, ""]).encode())
    return files, " ".join(rand.choice([f"-I {UP}/{d}", f"-I{root}/{d}"]) for d in dirs)


@pytest.mark.parametrize("tool", TABLEGENS)
def test_what_tablegen_opens(tool: str, tmp_path: Path) -> None:
    opened = found = 0
    for seed in range(TREES):
        root = tmp_path / str(seed)
        files, options = write_tablegen_tree(seed, root)
        command = (
            f"cd {root}/{BUILD} && {tool} -print-records {options} {UP}/one/main.td "
            "-o out -d out.d"
        )
        ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
        assert ran.returncode == 0, f"tree {seed}: {command}\n{ran.stderr}"
        parsed = parse_tablegen(command)
        assert parsed is not None, command
        placed = parsed.at(str(root), BUILD)
        resolver = make_resolver(root, files, TD_FOLDERS)
        closure = resolver.tablegen_closure(placed.source, placed.search)
        # TableGen leaves the source itself out.
        needed = {"one/main.td", *depfile(root / BUILD / "out.d", root)}
        assert needed <= closure.files, f"tree {seed}: {sorted(needed - closure.files)}: {command}"
        opened += len(needed)
        found += len(closure.files)
    assert opened <= found <= 2 * opened
