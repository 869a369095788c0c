"""Symbolic links of a tree that lead round in circles."""

from __future__ import annotations

from bisect import bisect_left
from typing import Mapping, Sequence

# Links that lead to links are followed this far, as Linux does.
_MAX_LINKS = 40


def links_to_own_parents(links: Mapping[str, str]) -> list[str]:
    """Those of `links` by which one can walk round in the tree for ever, sorted.

    `links` is from paths in the tree to what the link says, relative to its folder. A link to a
    folder that it is in is one (`build/Release -> ..`); so is each of two whose folders link into
    each other. One that leads to itself leads nowhere, so it is none.
    """
    paths = sorted(links)
    # Whoever is behind a link meets the links in there.
    met_behind = {path: _below(_resolved(path, links), paths) for path in paths}
    return [path for path in paths if path in _reachable(path, met_behind)]


def _reachable(start: str, edges: Mapping[str, Sequence[str]]) -> set[str]:
    found: set[str] = set()
    todo = list(edges[start])
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += edges[path]
    return found


def _below(folder: str | None, paths: Sequence[str]) -> Sequence[str]:
    """Those of `paths`, which are sorted, that are below `folder`; "" is the tree's root."""
    if not folder:
        return () if folder is None else paths
    # "0" is what comes after "/".
    return paths[bisect_left(paths, f"{folder}/") : bisect_left(paths, f"{folder}0")]


def _resolved(path: str, links: Mapping[str, str]) -> str | None:
    """Where `path` leads when all links are followed; None where that is nowhere or outside."""
    todo = path.split("/")[::-1]
    done: list[str] = []
    followed = 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not done:
                return None
            done.pop()
            continue
        done.append(part)
        target = links.get("/".join(done))
        if target is None:
            continue
        followed += 1
        if followed > _MAX_LINKS or target.startswith("/"):
            return None
        done.pop()
        todo += target.split("/")[::-1]
    return "/".join(done)
