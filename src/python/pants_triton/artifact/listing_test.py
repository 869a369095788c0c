from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from pants_triton.artifact.listing import (
    ListedFile,
    Listing,
    ListingError,
    listing_path,
    listing_text,
    read_listing,
)

LISTING = Listing(
    "a" * 64,
    82,
    {"bin/clang": ListedFile("b" * 64, 17, True), "share/ü": ListedFile("c" * 64, 0, False)},
    {"bin/clang++": "clang"},
    ("empty", "also/empty"),
)


def test_read_what_was_written() -> None:
    text = listing_text(LISTING)
    assert read_listing(text) == dataclasses.replace(LISTING, folders=("also/empty", "empty"))
    turned = dataclasses.replace(
        LISTING, files=dict(reversed(list(LISTING.files.items()))), folders=("also/empty", "empty")
    )
    assert listing_text(turned) == text


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"digest": None}, id="no digest"),
        pytest.param({"digest": ["A" * 64, 82]}, id="no sha256"),
        pytest.param({"files": {"a": ["b" * 64, "many", 0]}}, id="no size"),
        pytest.param({"files": {"a": ["b" * 64, 1]}}, id="a field less"),
        pytest.param({"files": []}, id="a list"),
        pytest.param({"folders": 3}, id="a number"),
        pytest.param({"folders": ["/a"]}, id="an absolute path"),
        pytest.param({"links": {"../a": "b"}}, id="a path that leads out"),
        pytest.param({"links": {"": "b"}}, id="no path"),
        pytest.param({"folders": ["."]}, id="the tree itself"),
        pytest.param({"folders": ["a/../b"]}, id="a path that goes back"),
        pytest.param({"links": {"bin/clang": "x"}}, id="one path twice"),
        pytest.param({"links": {"bin": "x"}}, id="a link that is a folder"),
    ],
)
def test_refuse_what_is_none(change: dict[str, object]) -> None:
    with pytest.raises(ListingError, match="no listing of a tree"):
        read_listing(json.dumps({**json.loads(listing_text(LISTING)), **change}))


@pytest.mark.parametrize("text", ["", "3", "null", '{"files": {}}', '"digest"'])
def test_refuse_other_texts(text: str) -> None:
    with pytest.raises(ListingError, match="no listing of a tree"):
        read_listing(text)


def test_each_entry_has_a_place(tmp_path: Path) -> None:
    places = {
        listing_path(tmp_path, pid, entry, platform)
        for pid in (1, 2)
        for entry in ("{}", "{1}")
        for platform in ("any", "linux_x86_64")
    }
    assert len(places) == 8
    assert all(path.parent == tmp_path for path in places)
