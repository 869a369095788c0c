"""Which modules a package's files are."""

from __future__ import annotations

from typing import Iterable


def modules_of(files: Iterable[str], root: str) -> list[str]:
    """The names of the Python modules among `files`, as imported from the folder `root`, sorted:
    `python/triton/__init__.py` is `triton`."""
    prefix = f"{root}/" if root else ""
    found = set()
    for file in files:
        if file.startswith(prefix) and file.endswith((".py", ".pyi")):
            parts = file[len(prefix) :].rpartition(".")[0].split("/")
            if parts[-1] == "__init__":
                parts.pop()
            if parts and all(part.isidentifier() for part in parts):
                found.add(".".join(parts))
    return sorted(found)
