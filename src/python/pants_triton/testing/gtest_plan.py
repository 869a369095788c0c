"""Which test programs a CMake project has, by what CMake and CTest say of it."""

from __future__ import annotations

import re
from typing import Iterable, Mapping

from pants_triton.native.layout import BUILD, in_root
from pants_triton.native.manifest import Edge

# CMake appends it to the link of programs that `gtest_discover_tests` names.
_DISCOVERY = re.compile(r'-D\s*"?TEST_EXECUTABLE=([^"\s]+)"?')

# add_test([=[name]=] "/path/to/program" "argument")
_ADD_TEST = re.compile(r'^add_test\(.*?\s"([^"]+)"', re.MULTILINE)


def test_programs(edges: Iterable[Edge], texts: Mapping[str, bytes]) -> tuple[str, ...]:
    """The programs that CTest would run, below the sandbox's root, sorted.

    `texts` are the files that configuring wrote, by their paths below it. Programs are known by the
    step that `gtest_discover_tests` appends to their link, and by `add_test` in CTest's files; of
    these only what an edge makes.
    """
    made: set[str | None] = set()
    found: set[str | None] = set()
    for edge in edges:
        if edge.is_phony:
            continue
        made.update(in_root(path) for path in edge.all_outputs)
        if "GoogleTestAddTests.cmake" in edge.command:
            for path in _DISCOVERY.findall(edge.command):
                found.add(in_root(path))
    for path, content in texts.items():
        if path.startswith(f"{BUILD}/") and path.endswith("CTestTestfile.cmake"):
            for program in _ADD_TEST.findall(content.decode("utf-8", "replace")):
                found.add(in_root(program))
    return tuple(sorted(path for path in found & made if path is not None))
