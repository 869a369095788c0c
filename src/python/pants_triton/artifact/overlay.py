"""Which files are seen when trees are laid over each other."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Mapping, Sequence, TypeVar

T = TypeVar("T")


def lay_over(trees: Sequence[Mapping[str, T]]) -> dict[str, T]:
    """The files and links (paths to anything) that are seen of `trees`, where each lies over those
    before it.

    A file or link hides what was at its path or below it, and a folder the file that was at its
    path: as if the trees were copied over each other, but never through a link.
    """
    seen: dict[str, T] = {}
    for tree in trees:
        folders = {parent for path in tree for parent in _parents(path)}
        seen = {
            path: entry
            for path, entry in seen.items()
            if path not in folders and not any(parent in tree for parent in _parents(path))
        }
        seen.update(tree)
    return seen


def _parents(path: str) -> list[str]:
    return [str(parent) for parent in PurePosixPath(path).parents][:-1]
