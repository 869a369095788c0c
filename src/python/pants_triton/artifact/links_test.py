from __future__ import annotations

import time
from typing import Mapping

import pytest

from pants_triton.artifact.links import links_to_own_parents


@pytest.mark.parametrize(
    ("links", "loops"),
    [
        pytest.param({}, [], id="no links"),
        pytest.param({"usr/bin/X11": "."}, ["usr/bin/X11"], id="to the folder it is in"),
        pytest.param({"build/Release": ".."}, ["build/Release"], id="to the root"),
        pytest.param({"a/b/c/up": "../.."}, ["a/b/c/up"], id="to a folder further up"),
        pytest.param({"top": "."}, ["top"], id="from the root to the root"),
        pytest.param({"a/up": "../a/./"}, ["a/up"], id="to its own folder by another name"),
        pytest.param({"a/x": "../b", "b/y": "../a"}, ["a/x", "b/y"], id="two into each other"),
        pytest.param(
            {"a/x": "../b", "b/y": "../c", "c/z": "../a"}, ["a/x", "b/y", "c/z"], id="three round"
        ),
        pytest.param(
            # Whoever is in `in` can walk round, but never comes back to `in`.
            {"in": "a", "a/x": "../b", "b/y": "../a"},
            ["a/x", "b/y"],
            id="a way into a circle is none itself",
        ),
        pytest.param(
            {"lib": "usr/lib", "usr/lib/sub/back": "../../../loop", "loop": "lib/sub"},
            ["usr/lib/sub/back"],
            id="by way of a folder that is a link",
        ),
    ],
)
def test_links_that_lead_round(links: Mapping[str, str], loops: list[str]) -> None:
    assert links_to_own_parents(links) == loops


@pytest.mark.parametrize(
    "links",
    [
        pytest.param({"bin/clang": "clang-19"}, id="to a file"),
        pytest.param({"lib64": "lib"}, id="to a folder beside it"),
        pytest.param({"a/x": "../ab"}, id="to a folder whose name begins alike"),
        pytest.param({"a/x": "../b", "b/y": "../c"}, id="a chain of folders"),
        pytest.param({"a": "b", "b": "c", "c": "d"}, id="a chain of links"),
        pytest.param({"lib": "usr/lib", "usr/lib/x.so": "../../lib/y.so"}, id="merged usr"),
        pytest.param({"x": "nowhere/at/all"}, id="to nothing"),
        pytest.param({"a/x": "../../x"}, id="out of the tree"),
        pytest.param({"a/x": "/usr"}, id="absolute"),
        pytest.param({"x": "x"}, id="to itself, so to nothing"),
        pytest.param({"x": "y", "y": "x"}, id="to each other, so to nothing"),
    ],
)
def test_harmless_links(links: Mapping[str, str]) -> None:
    assert links_to_own_parents(links) == []


def test_a_system_of_many_links_is_looked_through_at_once() -> None:
    links = {f"usr/lib/lib{i}.so": f"lib{i}.so.1" for i in range(20_000)}
    before = time.monotonic()
    assert links_to_own_parents({**links, "usr/lib/self": "."}) == ["usr/lib/self"]
    assert time.monotonic() - before < 5
