"""Tests of laying trees over each other."""

from __future__ import annotations

import pytest

from pants_triton.artifact.overlay import lay_over


@pytest.mark.parametrize(
    "trees, seen",
    [
        pytest.param([], {}, id="none"),
        pytest.param([{"bin/ptxas": 1}], {"bin/ptxas": 1}, id="one"),
        pytest.param([{"bin/a": 1}, {"bin/b": 2}], {"bin/a": 1, "bin/b": 2}, id="side by side"),
        pytest.param([{"a": 1, "b": 1}, {"b": 2}, {"b": 3}], {"a": 1, "b": 3}, id="the last wins"),
        pytest.param([{"lib/a": 1, "x": 1}, {"lib": 2}], {"lib": 2, "x": 1}, id="file over folder"),
        pytest.param([{"lib": 1}, {"lib/a": 2}], {"lib/a": 2}, id="folder over file"),
        pytest.param([{"lib/a/b": 1}, {"lib": 2}, {"lib/c": 3}], {"lib/c": 3}, id="hidden is gone"),
        pytest.param([{"lib*[1]": 1}, {"lib1": 2}], {"lib*[1]": 1, "lib1": 2}, id="no globs"),
    ],
)
def test_what_is_seen(trees: list[dict[str, int]], seen: dict[str, int]) -> None:
    assert lay_over(trees) == seen
