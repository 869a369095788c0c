"""What one Pants process leaves in the cache folder for the programs that it starts: how downloads
are done, and with which Python. None of it may be in a process' key.

The names hold the process' number, since two runs of Pants may differ in all of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import tempfile
from pathlib import Path

from pants_triton.artifact.settings import Settings, settings_path


def python_path(cache: Path, parent_pid: int) -> Path:
    """Where the path of the Python for the children of one process is written."""
    return cache / f"python-{parent_pid}"


def leave_settings(cache: Path, pid: int, settings: Settings, python: str) -> None:
    """Write the files for the children of process `pid`, readable by this user only, and remove
    those of processes that are no more. Cheap where they are there already. Raises OSError."""
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
    for path, content in (
        (settings_path(cache, pid), text),
        (python_path(cache, pid), f"{python}\n"),
    ):
        with contextlib.suppress(FileNotFoundError):
            if path.read_text(encoding="utf-8") == content:
                continue
        _remove_those_of_the_dead(cache)
        _write(path, content)


def _write(path: Path, content: str) -> None:
    # `mkstemp` makes files that only their owner can read: there may be credentials in it.
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _remove_those_of_the_dead(cache: Path) -> None:
    for path in cache.iterdir():
        found = re.fullmatch(r"\.?(?:settings|python)-([0-9]+)(?:\.json)?(?:\..*)?", path.name)
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
