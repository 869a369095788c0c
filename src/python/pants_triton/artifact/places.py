"""Where trees are in a sandbox: each for itself, and none where something else is."""

from __future__ import annotations

from typing import Iterable, Sequence


def trees_in_one_place(trees: Sequence[tuple[str, str]]) -> str:
    """Which of `trees`, pairs of a target's address and a path in the sandbox, are at or in another
    one's place, and the way out; "" where none is. A target may be named twice."""
    trees = list(dict.fromkeys(trees))
    for number, (address, path) in enumerate(trees):
        for other, other_path in trees[:number]:
            if _overlap(path, other_path):
                return (
                    f"{address} and {other} would both be at {max(path, other_path, key=len)} in the "
                    "sandbox: set `path` of one of them."
                )
    return ""


def tree_among_files(trees: Iterable[tuple[str, str]], files: Iterable[str]) -> str:
    """Which of `trees`, as above, is where one of `files` is, and the way out; "" where none is.

    `files` are the sandbox's own, empty folders included, by their paths.
    """
    files = list(files)
    for address, path in trees:
        for file in files:
            if _overlap(path, file):
                return (
                    f"{address} would be at {path} in the sandbox, but {file} is there: set `path` of "
                    "the one, or move the other."
                )
    return ""


def _overlap(path: str, other: str) -> bool:
    return f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")
