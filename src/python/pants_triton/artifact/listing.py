"""What is in a tree: the names and digests of its files, without their content.

From a listing follows the tree's own digest, and from that the keys of all processes that have the
tree among their inputs. So where those are cached, a machine needs the listing and not the tree.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

#: What the program that fetches calls it.
LISTING = "listing.json"


class ListingError(Exception):
    """It is none."""


@dataclass(frozen=True)
class ListedFile:
    """A file's content.

    :param size: in bytes.
    """

    sha256: str
    size: int
    is_executable: bool


@dataclass(frozen=True)
class Listing:
    """All that is in a tree, by paths in it.

    :param sha256, size: of the tree's digest, as REAPI digests a folder.
    :param links: their targets.
    :param folders: the empty ones.
    """

    sha256: str
    size: int
    files: Mapping[str, ListedFile]
    links: Mapping[str, str]
    folders: tuple[str, ...]


def listing_text(listing: Listing) -> str:
    """The same text for equal listings."""
    files = {
        path: [file.sha256, file.size, int(file.is_executable)]
        for path, file in listing.files.items()
    }
    value = {
        "digest": [listing.sha256, listing.size],
        "files": files,
        "links": dict(listing.links),
        "folders": sorted(listing.folders),
    }
    return json.dumps(value, sort_keys=True, separators=(",", ":")) + "\n"


def read_listing(text: str) -> Listing:
    """The listing that `listing_text` made a text of. Raises ListingError."""
    try:
        value = json.loads(text)
        sha256, size = value["digest"]
        _check_paths([*value["files"], *value["links"], *value["folders"]])
        return Listing(
            _sha256(sha256),
            int(size),
            {
                path: ListedFile(_sha256(of_file), int(length), bool(is_executable))
                for path, (of_file, length, is_executable) in value["files"].items()
            },
            {path: str(target) for path, target in value["links"].items()},
            tuple(str(path) for path in value["folders"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as e:
        raise ListingError(f"it is no listing of a tree: {e}") from None


def _check_paths(paths: Sequence[str]) -> None:
    # The engine takes these on trust: one that no tree can have makes it wait forever.
    parents: set[str] = set()
    for path in paths:
        if posixpath.normpath(path) != path or path.partition("/")[0] in ("", ".", ".."):
            raise ValueError(f"{path!r} is no path in a tree")
        parents.update(path[:i] for i, c in enumerate(path) if c == "/")
    if len(set(paths)) != len(paths) or parents & set(paths):
        raise ValueError("two things have one path")


def _sha256(text: Any) -> str:
    if not isinstance(text, str) or not re.fullmatch("[0-9a-f]{64}", text):
        raise ValueError(f"{text!r} is no sha256")
    return text


def listing_path(cache: Path, parent_pid: int, entry: str, platform: str) -> Path:
    """Where the children of one process find the listing of an entry of the lock, if there is one.

    :param entry: as text.
    """
    key = hashlib.sha256(f"{platform}\n{entry}".encode()).hexdigest()[:16]
    return cache / f"listing-{parent_pid}-{key}.json"
