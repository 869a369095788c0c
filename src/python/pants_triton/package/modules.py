"""Where a package's files are in it, and which modules they are."""

from __future__ import annotations

from typing import Iterable, Mapping


def places_of(
    files: Iterable[str], base: str, root: str, folders: Mapping[str, str]
) -> dict[str, str | None]:
    """Where each of `files` is in a package; None for one that is nowhere.

    :param base: the folder to which the following are relative, "" for the workspace.
    :param root: the folder that is the package's root.
    :param folders: where folders that aren't below it are in the package; the deepest decides.
    """

    def joined(*parts: str) -> str:
        return "/".join(part for part in parts if part)

    known = {joined(base, root): "", **{joined(base, f): place for f, place in folders.items()}}
    deepest_first = sorted(known, key=len, reverse=True)
    found: dict[str, str | None] = {}
    for file in files:
        found[file] = None
        for folder in deepest_first:
            if not folder or file.startswith(f"{folder}/"):
                rest = file[len(folder) :].lstrip("/")
                found[file] = joined(known[folder], rest)
                break
    return found


def modules_of(places: Iterable[str]) -> list[str]:
    """The names of the Python modules among files of a package, by their places in it, sorted:
    `triton/__init__.py` is `triton`."""
    found = set()
    for file in places:
        if file.endswith((".py", ".pyi")):
            parts = file.rpartition(".")[0].split("/")
            if parts[-1] == "__init__":
                parts.pop()
            if parts and all(part.isidentifier() for part in parts):
                found.add(".".join(parts))
    return sorted(found)
