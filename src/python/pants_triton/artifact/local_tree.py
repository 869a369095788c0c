"""Folders of this host that `[artifact].local_trees` puts in the place of artifacts.

Nothing pins what is in such a folder, so Pants asks for its stamp at each run, which needs no file
to be read, and has it copied when the stamp is a new one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Sequence, Tuple

from pants_triton.artifact.errors import (
    EXIT_THIS_HOST,
    FetchError,
    Report,
    os_reason,
    report_to_stderr,
    shown_size,
)
from pants_triton.artifact.unpack import TIME, Limits, staged

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Stamp:
    """A folder's state.

    :param stamp: a digest of what a file system says of each file, not of its content.
    :param files: how many there are.
    :param bytes: of all files.
    """

    stamp: str
    files: int
    bytes: int


def stamp(path: Path, limits: Limits) -> Stamp:
    """The state of the folder `path`, which may be a link to one; that of what its links lead to
    outside is part of it. A file that is written twice in one tick of the file system's clock (some
    milliseconds), with as many bytes, is taken for the same. Raises FetchError."""
    return _stamp(_entries(path, limits))


def copy(
    path: Path,
    output: Path,
    limits: Limits,
    expected: str = "",
    report: Report = report_to_stderr,
) -> None:
    """Make `output`, which must not exist or be empty, a copy of the folder `path`: of its files,
    whether they can be executed, and its links. A link that leads out of the folder becomes a copy
    of what is there, and one that leads nowhere is left out, with a line.

    :param expected: the stamp that the folder must have, "" for any.

    Raises FetchError, also where the folder changes meanwhile; then there is no `output`.
    """
    entries = _entries(path, limits)
    before = _stamp(entries).stamp
    if expected and before != expected:
        raise _changed(path)
    with staged(output) as root:
        folders = [root]
        for entry in entries:
            target = root / entry.path
            if entry.kind == "folder":
                os.mkdir(target)
                os.chmod(target, 0o755)
                folders.append(target)
            elif entry.kind == "file":
                _copy_file(path, entry, target)
            elif entry.kind == "link":
                os.symlink(entry.link, target)
                if os.utime in os.supports_follow_symlinks:
                    os.utime(target, (TIME, TIME), follow_symlinks=False)
            else:
                report(f"left out a link to nothing: {entry.source} -> {entry.told}")
        for folder in reversed(folders):
            os.utime(folder, (TIME, TIME))
        if _stamp(_entries(path, limits)).stamp != before:
            raise _changed(path)


# --- what is in a folder ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Entry:
    """Something in the tree.

    :param path: in the tree.
    :param kind: `file`, `folder`, `link` or `broken` (a link to nothing).
    :param source: the file or folder itself, or the link.
    :param status: of `source`.
    :param link: what the link shall say in the tree.
    :param told: what the link says, followed or not; "" where there is none.
    """

    path: str
    kind: str
    source: str
    status: os.stat_result
    link: str = ""
    told: str = ""


def _entries(path: Path, limits: Limits) -> list[_Entry]:
    """All that is in the tree, each folder before what is in it."""
    found: list[_Entry] = []
    size = 0
    for entry in _walk(path):
        found.append(entry)
        size += entry.status.st_size if entry.kind == "file" else 0
        if len(found) > limits.max_members:
            raise _problem(path, f"has more than {limits.max_members} files, folders and links")
        if size > limits.max_bytes:
            most = f"{shown_size(limits.max_bytes)}, which `[artifact].max_tree_size` allows"
            raise _problem(path, f"has more than {most}")
    if not any(entry.kind in ("file", "link") for entry in found):
        raise _problem(path, "has no file in it")
    return found


def _walk(path: Path) -> Iterator[_Entry]:
    with _reading(path):
        status = os.stat(path)
        if not stat.S_ISDIR(status.st_mode):
            raise _problem(path, "is no folder")
        real = os.path.realpath(path)
    # A folder (its real path), where it is in the tree, what was entered by way of links so far
    # (the same two of each), and the identities of it and those above it.
    Bases = Tuple[Tuple[str, str], ...]
    todo: list[tuple[str, str, Bases, tuple[object, ...]]]
    todo = [(real, "", ((real, ""),), (_identity(status),))]
    while todo:
        folder, prefix, bases, above = todo.pop()
        with _reading(path):
            names = sorted(os.listdir(folder))
        for name in names:
            source = os.path.join(folder, name)
            if not _is_utf8(source):
                raise _problem(path, f"has a file whose name isn't UTF-8: {ascii(source)}")
            here = f"{prefix}/{name}" if prefix else name
            inner, told = bases, ""
            with _reading(path):
                status = os.lstat(source)
                if stat.S_ISLNK(status.st_mode):
                    told = os.readlink(source)
                    if _is_broken(source):
                        yield _Entry(here, "broken", source, status, told=told)
                        continue
                    link = _kept_link(source, told, here, bases)
                    if link:
                        yield _Entry(here, "link", source, status, link, told)
                        continue
                    source = os.path.realpath(source)
                    status = os.stat(source)
                    inner = (*bases, (source, here))
            if stat.S_ISREG(status.st_mode):
                yield _Entry(here, "file", source, status, told=told)
            elif not stat.S_ISDIR(status.st_mode):
                raise _problem(path, f"has a device, socket or pipe in it: {source}")
            elif _identity(status) in above:
                raise _problem(path, f"has a link that leads in a circle: {here} ({source})")
            else:
                yield _Entry(here, "folder", source, status, told=told)
                todo.append((source, here, inner, (*above, _identity(status))))


def _kept_link(source: str, told: str, here: str, bases: Sequence[tuple[str, str]]) -> str:
    """What the link `source`, which is `here` in the tree, shall say; "" if it leads out."""
    folder, last = os.path.split(told)
    target = os.path.realpath(source)
    candidates = [target]
    if last not in ("", ".", ".."):
        # Not where a link leads in the end but to which other one, if that is in the tree.
        parent = os.path.realpath(os.path.join(os.path.dirname(source), folder))
        candidates.insert(0, os.path.join(parent, last))
    for candidate in candidates:
        for base, place in reversed(bases):
            if candidate == base or candidate.startswith(base.rstrip("/") + "/"):
                there = os.path.join("/", place, os.path.relpath(candidate, base))
                return os.path.relpath(there, "/" + os.path.dirname(here))
    return ""


def _is_broken(link: str) -> bool:
    try:
        os.stat(link)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError as e:
        if e.errno != errno.ELOOP:
            raise
        return True
    return False


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeError:
        return False
    return True


def _identity(status: os.stat_result) -> object:
    return status.st_dev, status.st_ino


def _stamp(entries: Sequence[_Entry]) -> Stamp:
    digest = hashlib.sha256()
    files = [entry.status.st_size for entry in entries if entry.kind == "file"]
    for entry in sorted(entries, key=lambda entry: entry.path):
        status = entry.status
        times = (status.st_mtime_ns, status.st_ctime_ns)
        row = (entry.path, entry.kind, status.st_size, status.st_mode, *times, status.st_ino)
        digest.update(repr((*row, entry.told)).encode("utf-8", "surrogateescape") + b"\n")
    return Stamp(digest.hexdigest(), len(files), sum(files))


def _copy_file(path: Path, entry: _Entry, target: Path) -> None:
    # Whatever became of the file meanwhile, opening it leads nowhere else and doesn't wait.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with _reading(path):
        fd = os.open(entry.source, flags)
    with open(fd, "rb") as source, open(target, "xb") as file:
        if not os.path.samestat(os.fstat(fd), entry.status):
            raise _changed(path)
        # A file that grows for ever isn't read for ever.
        left = entry.status.st_size
        while left:
            with _reading(path):
                chunk = source.read(min(left, _CHUNK))
            if not chunk:
                raise _changed(path)
            file.write(chunk)
            left -= len(chunk)
        file.flush()
        executable = entry.status.st_mode & 0o111
        os.fchmod(file.fileno(), 0o755 if executable else 0o644)
        os.utime(file.fileno() if os.utime in os.supports_fd else target, (TIME, TIME))


# --- errors ----------------------------------------------------------------------------------


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        where = f" ({e.filename})" if e.filename and str(e.filename) != str(path) else ""
        raise _problem(path, f"can't be read: {os_reason(e)}{where}") from None


def _problem(path: Path, problem: str) -> FetchError:
    return FetchError(
        f"The folder {path}, which `[artifact].local_trees` names, {problem}. Correct the option, or "
        "the folder.",
        EXIT_THIS_HOST,
    )


def _changed(path: Path) -> FetchError:
    return FetchError(
        f"The folder {path}, which `[artifact].local_trees` names, changed while it was read; try "
        "again.",
        EXIT_THIS_HOST,
    )
