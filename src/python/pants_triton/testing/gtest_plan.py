"""Which test programs a CMake project has, by what CMake and CTest say of it."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import Iterable, Mapping, Sequence

from pants_triton.native.layout import BUILD, ROOT_TOKEN, in_root
from pants_triton.native.manifest import Edge

# CMake appends these to the link of programs that `gtest_discover_tests` names. The second is
# CROSSCOMPILING_EMULATOR, a list of CMake's.
_DISCOVERY = re.compile(r'-D\s*"?TEST_EXECUTABLE=([^"\s]+)"?')
_EXECUTOR = re.compile(r'-D\s*(?:"TEST_EXECUTOR=([^"]*)"|TEST_EXECUTOR=(\S*))')

# The same in the file that CTest reads, where they are to be discovered before tests run.
_DISCOVERED_LATER = re.compile(
    r"TEST_EXECUTABLE\s+\[==\[(.*?)\]==\]\s+TEST_EXECUTOR\s+\[==\[(.*?)\]==\]", re.DOTALL
)

# add_test([=[name]=] "/path/to/program" "argument")
_ADD_TEST = re.compile(
    r"^add_test\((?:\[(?P<open>=*)\[(?P<name>.*?)\](?P=open)\]|(?P<plain>\S+))"
    r'(?P<words>(?:\s+"(?:[^"\\]|\\.)*")+)\s*\)',
    re.MULTILINE,
)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, order=True)
class TestProgram:
    """A program that an edge makes, and how CTest would start it.

    :param path: below the sandbox's root.
    :param wrapper: the words before it in its command, such as an emulator, with ROOT_TOKEN.
    """

    path: str
    wrapper: tuple[str, ...] = ()

    __test__ = False


@dataclass(frozen=True)
class TestPrograms:
    """All of a project, sorted.

    :param others: names and commands of the tests of CTest that run nothing an edge makes.
    """

    programs: tuple[TestProgram, ...]
    others: tuple[tuple[str, str], ...]

    __test__ = False


def test_programs(edges: Iterable[Edge], texts: Mapping[str, bytes]) -> TestPrograms:
    """The programs that CTest would run.

    `texts` are the files that configuring wrote, by their paths below the sandbox's root. Programs
    are known by the step that `gtest_discover_tests` appends to their link, by what it writes for
    CTest in its mode `PRE_TEST`, and by `add_test` in CTest's files, where a program may stand behind
    a command that runs it.
    """
    made: set[str | None] = set()
    found: dict[TestProgram, None] = {}
    others: list[tuple[str, str]] = []

    def add(path: str, wrapper: Sequence[str], directory: str = BUILD) -> bool:
        program = in_root(path, directory)
        if program is None or program not in made:
            return False
        found[TestProgram(program, tuple(wrapper))] = None
        return True

    discovered = []
    for edge in edges:
        if edge.is_phony:
            continue
        made.update(in_root(path) for path in edge.all_outputs)
        if "GoogleTestAddTests.cmake" in edge.command:
            discovered.append(edge.command)
    for command in discovered:
        executor = _EXECUTOR.search(command)
        wrapper = _list(executor.group(1) or executor.group(2) or "") if executor else ()
        for path in _DISCOVERY.findall(command):
            add(path, wrapper)
    for file, content in sorted(texts.items()):
        if not file.startswith(f"{BUILD}/") or not file.endswith(".cmake"):
            continue
        text = content.decode("utf-8", "replace")
        if file.endswith("_include.cmake"):
            for path, executor_list in _DISCOVERED_LATER.findall(text):
                add(path, _list(executor_list))
        if posixpath.basename(file) != "CTestTestfile.cmake":
            continue
        for test in _ADD_TEST.finditer(text):
            words = [re.sub(r"\\(.)", r"\1", word) for word in _QUOTED.findall(test["words"])]
            folder = posixpath.dirname(file)
            if not any(add(word, words[:number], folder) for number, word in enumerate(words)):
                name = test["name"] if test["name"] is not None else test["plain"]
                others.append((name, " ".join(words).replace(f"{ROOT_TOKEN}/", "")))
    return TestPrograms(tuple(sorted(found)), tuple(sorted(others)))


# pytest takes it for a test.
test_programs.__test__ = False  # type: ignore[attr-defined]


def _list(value: str) -> tuple[str, ...]:
    return tuple(word for word in value.split(";") if word)
