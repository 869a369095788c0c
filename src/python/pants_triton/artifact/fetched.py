"""How `fetch-artifacts` tells what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Collection, Iterable, Sequence

from pants_triton.artifact.lock import shown_size


@dataclass(frozen=True)
class FetchedFile:
    """A file that an artifact is unpacked from, now in the cache.

    :param size: in bytes, None where neither the lock nor anybody else says.
    :param cached: whether it was there before.
    """

    name: str
    sha256: str
    size: int | None
    cached: bool


def render_fetched(
    fetched: Iterable[tuple[str, str, str, Sequence[FetchedFile]]],
) -> list[str]:
    """A line for each (target, artifact, platform, files), and one that sums them up."""
    lines = []
    new: dict[str, FetchedFile] = {}
    all_files: dict[str, FetchedFile] = {}
    for target, artifact, platform, files in fetched:
        missing = [file for file in files if not file.cached]
        size = shown_size(_total(files))
        if not missing:
            state = "cached"
        elif len(missing) == len(files):
            state = "downloaded"
        else:
            state = f"{len(missing)} downloaded, the others cached"
        count = f"{len(files)} files, " if len(files) > 1 else ""
        lines.append(f"{target}: {artifact} for {platform}: {count}{size}: {state}")
        # Two targets may have the same file.
        all_files.update({file.sha256: file for file in files})
        new.update({file.sha256: file for file in missing})
    if lines:
        lines.append(
            f"{_files(len(new))} downloaded ({shown_size(_total(new.values()))}) of "
            f"{_files(len(all_files))} ({shown_size(_total(all_files.values()))}); all verified."
        )
    return lines


def _files(count: int) -> str:
    return f"{count} file" if count == 1 else f"{count} files"


def _total(files: Collection[FetchedFile]) -> int | None:
    if any(file.size is None for file in files):
        return None
    return sum(file.size or 0 for file in files)
