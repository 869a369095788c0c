"""A lock without the packages that the machine provides."""

from __future__ import annotations

import fnmatch
import re
from typing import Iterable, Sequence

# A requirement's line, or one of its continuation (`--hash=…`).
_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)")


class ProvidedError(ValueError):
    """A glob in `provided` matches nothing. The message says what there is."""


def canonical_name(name: str) -> str:
    """A package's name as PEP 503 compares them; glob characters stay."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_provided(name: str, provided: Iterable[str]) -> bool:
    """Whether one of the names or globs in `provided` is this package."""
    return any(
        fnmatch.fnmatchcase(canonical_name(name), canonical_name(pattern)) for pattern in provided
    )


def without_provided(lock: str, provided: Sequence[str]) -> str:
    """The lines of a hash-pinned requirements file but for what `provided` names.

    :param lock: as `pip-compile --generate-hashes` and `uv pip compile` write it.
    :raises ProvidedError: a glob in `provided` matches no package of the lock.
    """
    kept: list[str] = []
    names: list[str] = []
    is_left_out = False
    continues = False
    for line in lock.splitlines():
        match = None if continues or line[:1].isspace() else _NAME.match(line)
        if match:
            names.append(match.group(1))
            is_left_out = is_provided(match.group(1), provided)
        elif not continues and not line.startswith((" ", "\t")):
            # A comment, an option or an empty line between requirements.
            is_left_out = False
        if not is_left_out:
            kept.append(line)
        continues = line.rstrip().endswith("\\")
    check_globs(provided, names)
    return "\n".join([*kept, ""])


def provided_packages(provided: Iterable[str]) -> tuple[str, ...]:
    """The names in `provided`, without the globs: what a machine must have."""
    return tuple(name for name in provided if not _is_glob(name))


def check_globs(provided: Iterable[str], names: Iterable[str]) -> None:
    """Raises ProvidedError if a glob in `provided` matches none of the `names` of a lock.

    A plain name may be none of them: the machine's torch, say, where no lock has one.
    """
    known = sorted({canonical_name(name) for name in names})
    for pattern in provided:
        if _is_glob(pattern) and not any(is_provided(name, [pattern]) for name in known):
            raise ProvidedError(
                f"`{pattern}` matches no package of the lock, which has {', '.join(known)}"
            )


def _is_glob(name: str) -> bool:
    return any(character in name for character in "*?[")
