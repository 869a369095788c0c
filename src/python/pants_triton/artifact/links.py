"""Symbolic links of a tree that lead round in circles."""

from __future__ import annotations

import posixpath
from typing import Mapping


def links_to_own_parents(links: Mapping[str, str]) -> list[str]:
    """Those of `links` by which one can walk round in the tree for ever, sorted.

    `links` is from paths in the tree to what the link says, relative to its folder. A link to a
    folder that it is in is one (`build/Release -> ..`); so is each of two whose folders link into
    each other.
    """
    targets = {
        path: posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        for path, target in links.items()
    }
    # Whoever is behind a link meets the links in there.
    met_behind = {
        path: [other for other in targets if _is_in(other, target)]
        for path, target in targets.items()
    }
    return sorted(path for path in targets if path in _reachable(path, met_behind))


def _reachable(start: str, edges: Mapping[str, list[str]]) -> set[str]:
    found: set[str] = set()
    todo = list(edges[start])
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += edges[path]
    return found


def _is_in(path: str, folder: str) -> bool:
    return folder == "." or path == folder or path.startswith(f"{folder}/")
