"""Tests of what a Pants process leaves for the programs that it starts."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import pytest

from pants_triton.artifact.settings import Settings, load_settings, settings_path
from pants_triton.artifact.settings_file import leave_settings, python_path


def _dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_the_children_read_what_was_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(
        mirrors=("file:///mirror",),
        environment=MappingProxyType({"TOKEN": "s3cret"}),
        credentials=MappingProxyType({"mirror.example.org": "TOKEN"}),
        tries=3,
    )
    leave_settings(tmp_path / "cache", os.getppid(), settings, "/usr/bin/python3")
    read = load_settings(tmp_path / "cache")
    assert (read.mirrors, read.tries) == (("file:///mirror",), 3)
    assert read.environment == {"TOKEN": "s3cret"}
    assert read.credentials == {"mirror.example.org": "TOKEN"}
    assert python_path(tmp_path / "cache", os.getppid()).read_text() == "/usr/bin/python3\n"


def test_nobody_else_can_read_the_credentials(tmp_path: Path) -> None:
    leave_settings(tmp_path, os.getpid(), Settings(), "python3")
    mode = settings_path(tmp_path, os.getpid()).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_what_is_there_already_is_not_written_again(tmp_path: Path) -> None:
    leave_settings(tmp_path, os.getpid(), Settings(), "python3")
    before = settings_path(tmp_path, os.getpid()).stat().st_ino
    leave_settings(tmp_path, os.getpid(), Settings(), "python3")
    assert settings_path(tmp_path, os.getpid()).stat().st_ino == before
    leave_settings(tmp_path, os.getpid(), Settings(tries=1), "python3")
    assert '"tries": 1' in settings_path(tmp_path, os.getpid()).read_text()


def test_what_a_dead_process_left_is_removed(tmp_path: Path) -> None:
    dead = _dead_pid()
    leave_settings(tmp_path, dead, Settings(), "python3")
    (tmp_path / f".settings-{dead}.json.x1").write_text("cut short")
    (tmp_path / "settings.json").write_text("{}")
    (tmp_path / "downloads").mkdir()
    leave_settings(tmp_path, os.getpid(), Settings(), "python3")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "downloads",
        f"python-{os.getpid()}",
        f"settings-{os.getpid()}.json",
        "settings.json",
    ]


def test_a_folder_that_cannot_be_made_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        leave_settings(tmp_path / "file" / "cache", 1, Settings(), "python3")
