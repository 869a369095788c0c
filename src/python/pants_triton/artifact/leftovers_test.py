from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator

import pytest

from pants_triton.artifact import leftovers
from pants_triton.artifact.errors import EXIT_THIS_HOST, FetchError
from pants_triton.artifact.leftovers import own_folder, register, remove_own, start_token

PATIENCE_S = 30


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def living() -> Iterator[subprocess.Popen[bytes]]:
    """Another process, which runs until it is killed."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate(timeout=PATIENCE_S)


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(PATIENCE_S)


def program_of(tmp_path: Path, name: str) -> Path:
    """A program as Pants lays it out: in folders that nobody may write to."""
    package = tmp_path / f"immutable_inputs{name}/digest/pants_triton/artifact"
    package.mkdir(parents=True)
    program = package / "fetch.py"
    program.touch()
    for path in (program, package, package.parent, package.parent.parent):
        path.chmod(0o555)
    return program


def quiet(line: str) -> None:
    raise AssertionError(line)


def registrations(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "leftovers").glob("*.json"))


def write(cache: Path, pid: int, **record: object) -> Path:
    path = cache / "leftovers" / f"{pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"pid": pid, **record}))
    return path


def test_a_program_knows_its_folder(tmp_path: Path) -> None:
    program = program_of(tmp_path, "A1")
    assert own_folder(program) == str(tmp_path / "immutable_inputsA1")
    # In a sandbox there is a link to it.
    (tmp_path / "sandbox").symlink_to(program.parents[1])
    found = own_folder(tmp_path / "sandbox/artifact/fetch.py")
    assert found == str(tmp_path / "immutable_inputsA1")
    assert own_folder(Path(__file__)) is None


def test_the_folders_of_processes_that_are_gone_are_removed(
    tmp_path: Path, cache: Path, living: subprocess.Popen[bytes]
) -> None:
    first, second = program_of(tmp_path, "A1"), program_of(tmp_path, "B2")
    folder = str(tmp_path / "immutable_inputsA1")
    assert register(cache, first, living.pid, quiet) == {"folder": folder, "removed": []}
    record = json.loads((cache / f"leftovers/{living.pid}.json").read_text())
    assert record == {"pid": living.pid, "started": start_token(living.pid), "folder": folder}

    # As long as it lives, all stays.
    mine = str(tmp_path / "immutable_inputsB2")
    assert register(cache, second, os.getpid(), quiet) == {"folder": mine, "removed": []}
    assert first.exists()
    kill(living)
    assert register(cache, second, os.getpid(), quiet) == {"folder": mine, "removed": [folder]}
    assert not os.path.exists(folder)
    assert second.exists()
    assert registrations(cache) == [f"{os.getpid()}.json"]


def test_a_process_with_a_pid_that_another_had(tmp_path: Path, cache: Path) -> None:
    """Both of this process and of another one."""
    old, other = program_of(tmp_path, "A1"), program_of(tmp_path, "B2")
    started = str(start_token(os.getpid()))[:-1] + "x"
    write(cache, os.getpid(), started=started, folder=str(tmp_path / "immutable_inputsA1"))
    started = str(start_token(os.getppid()))[:-1] + "x"
    write(cache, os.getppid(), started=started, folder=str(tmp_path / "immutable_inputsB2"))
    told = register(cache, program_of(tmp_path, "C3"), os.getpid(), quiet)
    assert sorted(told["removed"]) == [
        str(tmp_path / "immutable_inputsA1"),
        str(tmp_path / "immutable_inputsB2"),
    ]
    assert not old.exists() and not other.exists()
    assert registrations(cache) == [f"{os.getpid()}.json"]


def test_nothing_to_register(tmp_path: Path, cache: Path) -> None:
    assert register(cache, Path(__file__), os.getpid(), quiet) == {"folder": None, "removed": []}
    assert not cache.exists()


def test_own_folder_is_removed_at_the_end(tmp_path: Path, cache: Path) -> None:
    program = program_of(tmp_path, "A1")
    register(cache, program, os.getpid(), quiet)
    assert remove_own(cache, os.getpid()) == str(tmp_path / "immutable_inputsA1")
    assert not (tmp_path / "immutable_inputsA1").exists()
    assert registrations(cache) == []
    assert remove_own(cache, os.getpid()) is None


def test_the_folder_of_an_equal_pid_elsewhere_is_not_mine(tmp_path: Path, cache: Path) -> None:
    program = program_of(tmp_path, "A1")
    folder = str(tmp_path / "immutable_inputsA1")
    write(cache, os.getpid(), started="boot/pid:[1]/5", folder=folder)
    assert remove_own(cache, os.getpid()) is None
    assert program.exists()


def dead_record(cache: Path, folder: str) -> Path:
    return write(cache, 2**22 + 1, started=f"{leftovers._place()}/5", folder=folder)


def test_nothing_else_is_ever_removed(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "immutable_inputsLINK").symlink_to("home")
    (tmp_path / "immutable_inputsFILE").touch()
    cases = {
        str(tmp_path / "home"): "its name doesn't start with immutable_inputs",
        str(tmp_path / "immutable_inputsLINK"): "it is no folder",
        str(tmp_path / "immutable_inputsFILE"): "it is no folder",
    }
    program = program_of(tmp_path, "A1")
    for folder, problem in cases.items():
        dead_record(cache, folder)
        told: list[str] = []
        assert register(cache, program, os.getpid(), told.append)["removed"] == []
        assert told == [f"left {folder} alone: {problem}"]
        assert os.path.lexists(folder)
        # It is told once.
        assert registrations(cache) == [f"{os.getpid()}.json"]


def test_another_user_s_folder_is_left_alone(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = program_of(tmp_path, "A1")
    dead_record(cache, str(tmp_path / "immutable_inputsA1"))
    monkeypatch.setattr(leftovers.os, "getuid", lambda: 12345)
    told: list[str] = []
    register(cache, program_of(tmp_path, "B2"), os.getpid(), told.append)
    assert told == [f"left {tmp_path}/immutable_inputsA1 alone: it is another user's"]
    assert old.exists()


def test_a_folder_that_can_not_be_removed_is_told_of(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program_of(tmp_path, "A1")
    dead_record(cache, str(tmp_path / "immutable_inputsA1"))

    def refuse(path: object, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(leftovers.os, "unlink", refuse)
    monkeypatch.setattr(leftovers.os, "rmdir", refuse)
    told: list[str] = []
    assert register(cache, program_of(tmp_path, "B2"), os.getpid(), told.append)["removed"] == []
    assert len(told) == 1
    assert told[0].startswith(f"can't remove {tmp_path}/immutable_inputsA1: ")
    assert told[0].endswith("Permission denied")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": 0, "started": 1}'])
def test_a_registration_that_is_none(tmp_path: Path, cache: Path, text: str) -> None:
    path = write(cache, 7_000_000)
    path.write_text(text)
    told: list[str] = []
    register(cache, program_of(tmp_path, "A1"), os.getpid(), told.append)
    assert told == [f"{path} is no registration: removing it"]
    assert not path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces of pids")
@pytest.mark.parametrize(
    "place, days, removed",
    [
        pytest.param("BOOT/pid:[1]", 0, False, id="another container's"),
        pytest.param("BOOT/pid:[1]", 8, True, id="another container's, long ago"),
        pytest.param("other/pid:[1]", 0, True, id="before this host was booted"),
    ],
)
def test_processes_that_can_not_be_seen_from_here(
    tmp_path: Path, cache: Path, place: str, days: int, removed: bool
) -> None:
    program = program_of(tmp_path, "A1")
    place = place.replace("BOOT", leftovers._place().partition("/")[0])
    path = write(
        cache, 2**22 + 1, started=f"{place}/5", folder=str(tmp_path / "immutable_inputsA1")
    )
    then = time.time() - days * 24 * 3600
    os.utime(path, (then, then))
    register(cache, program_of(tmp_path, "B2"), os.getpid(), quiet)
    assert program.exists() is path.exists() is not removed


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells one boot from another")
def test_a_registration_of_another_host_with_the_same_home(tmp_path: Path, cache: Path) -> None:
    path = write(
        cache, 2**22 + 1, started="other/pid:[1]/5", folder="/elsewhere/immutable_inputsGONE"
    )
    register(cache, program_of(tmp_path, "A1"), os.getpid(), quiet)
    assert path.exists()


def test_a_cache_that_can_not_be_written(tmp_path: Path, cache: Path) -> None:
    cache.touch()
    with pytest.raises(FetchError, match="Can't write .*leftovers") as e:
        register(cache, program_of(tmp_path, "A1"), os.getpid(), quiet)
    assert e.value.exit_code == EXIT_THIS_HOST


def test_start_tokens(living: subprocess.Popen[bytes]) -> None:
    assert start_token(os.getpid()) == start_token(os.getpid())
    assert start_token(living.pid) is not None
    kill(living)
    assert start_token(living.pid) is None


def test_many_at_once(tmp_path: Path, cache: Path) -> None:
    for i in range(20):
        program_of(tmp_path, f"OLD{i}")
        folder = str(tmp_path / f"immutable_inputsOLD{i}")
        write(cache, 2**22 + 1 + i, started=f"{leftovers._place()}/5", folder=folder)
    program = program_of(tmp_path, "NEW")
    script = (
        "import os, sys; from pathlib import Path; from pants_triton.artifact.leftovers import *;"
        "register(Path(sys.argv[1]), Path(sys.argv[2]), os.getpid())"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(cache), str(program)],
            env={**os.environ, "PYTHONPATH": str(Path(leftovers.__file__).parents[2])},
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    assert [p.communicate(timeout=PATIENCE_S)[1] for p in processes] == [""] * 6
    # All of them are gone now, as is what they share.
    register(cache, program_of(tmp_path, "LAST"), os.getpid(), quiet)
    assert sorted(path.name for path in tmp_path.glob("immutable_inputs*")) == [
        "immutable_inputsLAST"
    ]
    assert registrations(cache) == [f"{os.getpid()}.json"]
