"""Tests of what a Pants process leaves for the programs that it starts."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import pytest

from pants_triton.artifact import settings_file
from pants_triton.artifact.settings import Settings, load_settings, settings_path
from pants_triton.artifact.settings_file import (
    leave_python,
    lent_settings,
    private_folder,
    python_path,
    take_back,
)

SECRET = "s3cret"


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runtime"
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def some_settings() -> Settings:
    return Settings(
        mirrors=("file:///mirror",),
        environment=MappingProxyType({"TOKEN": SECRET}),
        credentials=MappingProxyType({"mirror.example.org": "TOKEN"}),
        tries=3,
    )


def with_the_secret(folder: Path) -> list[Path]:
    """The files below a folder, links not followed, that hold it."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if SECRET in path.read_text()]


def _dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_the_children_read_what_is_lent(cache: Path) -> None:
    with lent_settings(cache, os.getppid(), some_settings()):
        read = load_settings(cache)
        assert (read.mirrors, read.tries) == (("file:///mirror",), 3)
        assert read.environment == {"TOKEN": SECRET}
        assert read.credentials == {"mirror.example.org": "TOKEN"}
    assert load_settings(cache) == Settings()


def test_credentials_are_in_no_cache_and_gone_afterwards(cache: Path, runtime: Path) -> None:
    with lent_settings(cache, os.getpid(), some_settings()):
        assert with_the_secret(cache) == []
        (path,) = with_the_secret(runtime)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert settings_path(cache, os.getpid()).resolve() == path
    assert with_the_secret(runtime) == []
    assert list(cache.iterdir()) == []


def test_they_stay_for_the_last_who_borrows_them(cache: Path, runtime: Path) -> None:
    first = lent_settings(cache, os.getpid(), some_settings())
    second = lent_settings(cache, os.getpid(), some_settings())
    first.__enter__()
    second.__enter__()
    (path,) = with_the_secret(runtime)
    inode = path.stat().st_ino
    first.__exit__(None, None, None)
    # Nor are they written again.
    assert [path.stat().st_ino for path in with_the_secret(runtime)] == [inode]
    second.__exit__(None, None, None)
    assert with_the_secret(runtime) == []


def test_at_the_end_of_a_run_they_are_taken_back(cache: Path, runtime: Path) -> None:
    leave_python(cache, os.getpid(), "python3")
    abandoned = lent_settings(cache, os.getpid(), some_settings())
    abandoned.__enter__()
    take_back(cache, os.getpid(), with_python=False)
    assert with_the_secret(runtime) == []
    assert [path.name for path in cache.iterdir()] == [f"python-{os.getpid()}"]
    # Whoever was stopped in the run before takes nothing from the next one.
    with lent_settings(cache, os.getpid(), some_settings()):
        abandoned.__exit__(None, None, None)
        assert with_the_secret(runtime) != []
    take_back(cache, os.getpid(), with_python=True)
    assert list(cache.iterdir()) == []
    take_back(cache, os.getpid(), with_python=True)


def test_changed_settings_replace_the_old_ones(cache: Path, runtime: Path) -> None:
    with lent_settings(cache, os.getppid(), some_settings()):
        with lent_settings(cache, os.getppid(), Settings(tries=1)):
            assert load_settings(cache).tries == 1
            assert with_the_secret(runtime) == []


def test_the_python(cache: Path) -> None:
    leave_python(cache, os.getpid(), "/usr/bin/python3")
    path = python_path(cache, os.getpid())
    inode = path.stat().st_ino
    assert path.read_text() == "/usr/bin/python3\n"
    leave_python(cache, os.getpid(), "/usr/bin/python3")
    assert path.stat().st_ino == inode
    leave_python(cache, os.getpid(), "/opt/python3")
    assert path.read_text() == "/opt/python3\n"


def test_what_a_dead_process_left_is_removed(cache: Path, runtime: Path) -> None:
    dead = _dead_pid()
    leave_python(cache, dead, "python3")
    # As when it was killed.
    killed = lent_settings(cache, dead, some_settings())
    killed.__enter__()
    (cache / f".settings-{dead}.json.x1").write_text("cut short")
    # As an earlier version left it.
    (cache / "settings-999999999.json").write_text(SECRET)
    (cache / "settings.json").write_text("{}")
    (cache / "downloads").mkdir()
    assert with_the_secret(runtime) != []
    with lent_settings(cache, os.getpid(), Settings()):
        assert sorted(path.name for path in cache.iterdir()) == [
            "downloads",
            f"settings-{os.getpid()}.json",
            "settings.json",
        ]
        assert with_the_secret(runtime) == []


def test_without_a_runtime_folder_they_are_in_the_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nonexistent")
    monkeypatch.setattr(settings_file.tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"pants-triton-{os.getuid()}"
    assert private_folder() == folder
    # Somebody was careless with it.
    folder.chmod(0o755)
    assert stat.S_IMODE(private_folder().stat().st_mode) == 0o700


def test_a_private_folder_that_is_anothers(tmp_path: Path, runtime: Path, cache: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (runtime / "pants-triton").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="it is not this user's own folder"):
        with lent_settings(cache, os.getpid(), some_settings()):
            raise AssertionError
    assert with_the_secret(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        leave_python(tmp_path / "file" / "cache", 1, "python3")
    with pytest.raises(OSError):
        lent_settings(tmp_path / "file" / "cache", 1, Settings()).__enter__()
