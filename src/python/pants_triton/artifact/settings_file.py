"""What one Pants process leaves for the programs that it starts: how downloads are done, and with
which Python. None of it may be in a process' key.

A program finds both in the cache folder, by the number of the process that started it. The settings
may hold credentials, and CI keeps the cache folder from one job to the next: there is only a link to
them there. They themselves lie in a folder of this user's alone that nobody keeps, and only while a
program that may read them runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import re
import stat
import tempfile
import threading
from pathlib import Path
from typing import Iterator

from pants_triton.artifact.settings import Settings, settings_path

_FOLDER = "pants-triton"


def python_path(cache: Path, parent_pid: int) -> Path:
    """Where the path of the Python for the children of one process is written."""
    return cache / f"python-{parent_pid}"


def private_folder() -> Path:
    """The folder that the settings are in, which only this user can read: below `XDG_RUNTIME_DIR`,
    which is in memory and goes when the user logs out, or else in the temporary folder, with the
    user's number in its name. Raises OSError where somebody else has a folder of that name."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.access(runtime, os.W_OK | os.X_OK):
        folder = Path(runtime, _FOLDER)
    else:
        folder = Path(tempfile.gettempdir(), f"{_FOLDER}-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "it is not this user's own folder", str(folder))
    if stat.S_IMODE(status.st_mode) != 0o700:
        folder.chmod(0o700)
    return folder


def leave_python(cache: Path, pid: int, python: str) -> None:
    """Write the path of the Python for the children of process `pid`. Cheap where it is there
    already. Raises OSError."""
    path = python_path(cache, pid)
    with contextlib.suppress(FileNotFoundError):
        if path.read_text(encoding="utf-8") == f"{python}\n":
            return
    cache.mkdir(parents=True, exist_ok=True)
    _remove_those_of_the_dead(cache)
    replace_file(path, f"{python}\n")


@contextlib.contextmanager
def lent_listing(path: Path, text: str) -> Iterator[None]:
    """While this lasts, the children of this process find a tree's listing at `path`, which is of
    `listing_path`. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()


# For whom the settings in each cache are there now. Rules run in threads.
_borrowers: dict[Path, set[object]] = {}
_lock = threading.Lock()


@contextlib.contextmanager
def lent_settings(cache: Path, pid: int, settings: Settings) -> Iterator[None]:
    """While this lasts, the children of process `pid` find the settings. Raises OSError."""
    borrower = object()
    with _lock:
        _leave_settings(cache, pid, settings)
        _borrowers.setdefault(cache, set()).add(borrower)
    try:
        yield
    finally:
        with _lock:
            others = _borrowers.get(cache, set())
            # They may have been taken back, and lent to the next run.
            if borrower in others:
                others.remove(borrower)
                if not others:
                    _remove_settings(cache, pid)


def take_back(cache: Path, pid: int, with_python: bool) -> None:
    """Remove the settings of process `pid` at the end of a run, whoever has borrowed them, and
    `with_python` its Python's path. Never raises."""
    with _lock:
        _borrowers.pop(cache, None)
        _remove_settings(cache, pid)
    if with_python:
        with contextlib.suppress(OSError):
            python_path(cache, pid).unlink()


def _leave_settings(cache: Path, pid: int, settings: Settings) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    values = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
    # Mappings of Pants' own are no dictionaries to `json`.
    text = json.dumps(
        {
            **values,
            "environment": dict(settings.environment),
            "credentials": dict(settings.credentials),
        }
    )
    link = settings_path(cache, pid)
    with contextlib.suppress(OSError):
        if link.is_symlink() and link.read_text(encoding="utf-8") == text:
            return
    _remove_settings(cache, pid)
    _remove_those_of_the_dead(cache)
    folder = private_folder()
    _remove_those_of_the_dead(folder)
    # One process may have several caches.
    key = hashlib.sha256(os.fsencode(os.path.abspath(cache))).hexdigest()[:8]
    path = folder / f"settings-{pid}.json.{key}"
    replace_file(path, text)
    temporary = tempfile.mktemp(prefix=f".{link.name}.", dir=cache)
    os.symlink(path, temporary)
    os.replace(temporary, link)


def _remove_settings(cache: Path, pid: int) -> None:
    link = settings_path(cache, pid)
    with contextlib.suppress(OSError):
        path = Path(os.readlink(link))
        # Whatever else it leads to isn't ours.
        if path.name.startswith(link.name):
            path.unlink()
    with contextlib.suppress(OSError):
        link.unlink()


def replace_file(path: Path, content: str, mode: int = 0o600) -> None:
    """Write a file, which others see whole or not at all. Raises OSError."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _remove_those_of_the_dead(folder: Path) -> None:
    for path in folder.iterdir():
        found = re.fullmatch(
            r"\.?(?:settings|python|listing)-([0-9]+)(?:-[0-9a-f]+)?(?:\.json)?(?:\..*)?", path.name
        )
        if found is not None and not _is_alive(int(found.group(1))):
            with contextlib.suppress(OSError):
                path.unlink()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
