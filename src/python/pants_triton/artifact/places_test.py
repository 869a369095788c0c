from __future__ import annotations

import pytest

from pants_triton.artifact.places import tree_among_files, trees_in_one_place


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        pytest.param("tools/a", "tools/a", "tools/a", id="equal"),
        pytest.param("tools", "tools/a", "tools/a", id="around"),
        pytest.param("tools/a/b", "tools/a", "tools/a/b", id="in"),
        pytest.param("tools/a", "tools/ab", "", id="beginning alike"),
    ],
)
def test_trees_in_one_place(one: str, other: str, place: str) -> None:
    problem = trees_in_one_place([("t:one", one), ("t:third", "third"), ("t:other", other)])
    assert problem == (
        place
        and f"t:other and t:one would both be at {place} in the sandbox: set `path` of one of them."
    )


def test_a_tree_that_is_named_twice() -> None:
    assert trees_in_one_place([("t:one", "tools"), ("t:one", "tools")]) == ""


@pytest.mark.parametrize(
    ("file", "conflict"),
    [
        pytest.param("t/data", True, id="a file in its place"),
        pytest.param("t/data/x.py", True, id="a file in its folder"),
        pytest.param("t", True, id="a file for its parent"),
        pytest.param("t/data.py", False, id="beginning alike"),
        pytest.param("t/x/data", False, id="elsewhere"),
    ],
)
def test_a_tree_among_files(file: str, conflict: bool) -> None:
    assert tree_among_files([("t:it", "t/data")], ["other", file]) == (
        f"t:it would be at t/data in the sandbox, but {file} is there: set `path` of the one, or "
        "move the other."
        if conflict
        else ""
    )
