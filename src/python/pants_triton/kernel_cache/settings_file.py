"""What one Pants process leaves for the tests that it starts: their cache server. It may not be in a
test's key, so it is in an append-only cache folder, by the number of the process that starts them.

There is no secret in it; a token is in a file of the user's own, which it names.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Mapping


def settings_path(folder: Path, pid: int) -> Path:
    return folder / f"settings-{pid}.json"


def leave_settings(folder: Path, pid: int, settings: Mapping[str, str]) -> None:
    """Write the settings for the children of process `pid`, and remove those of processes that are no
    more. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        found = re.fullmatch(r"settings-([0-9]+)\.json", path.name)
        if found is not None and not _is_alive(int(found[1])):
            with contextlib.suppress(OSError):
                path.unlink()
    descriptor, temporary = tempfile.mkstemp(dir=folder)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(dict(settings), file)
        os.replace(temporary, settings_path(folder, pid))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
