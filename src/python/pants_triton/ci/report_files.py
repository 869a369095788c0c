"""The folder of the reports: a folder for each run, and `latest`, a link to the newest."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from pathlib import Path
from typing import Mapping

LATEST = "latest"

# What is removed must be ours.
_NAME = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")
_DRAFT = ".draft-"


def report_name(started: float, run_id: str) -> str:
    """A name for the report of a run: unique, and sorted by time.

    :param started: Unix time.
    :param run_id: Pants' own, which ends in a UUID.
    """
    when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started))
    return f"{when}-{run_id[-32:][:8]}"


def write_report(folder: Path, name: str, files: Mapping[str, str], keep: int) -> Path:
    """Write a report whole or not at all, let `latest` lead to it, and remove the oldest.

    :param files: contents by name.
    :param keep: how many reports there may be afterwards; 0 for any number.
    :return: the report's folder.
    :raises OSError: if it can't be written; then nothing is left of it.
    """
    report = folder / name
    draft = folder / f"{_DRAFT}{name}"
    try:
        draft.mkdir(parents=True)
        for file, content in files.items():
            (draft / file).write_text(content, encoding="utf-8", errors="backslashreplace")
        draft.rename(report)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    # Another run may do the same at this moment.
    link = folder / f"{_DRAFT}{name}"
    with contextlib.suppress(OSError):
        link.symlink_to(name, target_is_directory=True)
        os.replace(link, folder / LATEST)
    if keep > 0:
        reports = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
        for path in reports[:-keep]:
            shutil.rmtree(path, ignore_errors=True)
    return report


def append_summary(path: Path, text: str) -> None:
    """Append to the file that a CI service names for a step's summary.

    :raises OSError:
    """
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
