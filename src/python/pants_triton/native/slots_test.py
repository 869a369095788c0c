from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pants_triton.native import slots
from pants_triton.native.slots import (
    BYTES_A_LINK,
    EXIT_NO_SLOT,
    Bound,
    bounds_path,
    leave_bounds,
    links_in,
    memory,
    read_bounds,
)


# --- how many ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size, links",
    [(0, 1), (BYTES_A_LINK - 1, 1), (BYTES_A_LINK * 2, 2), (BYTES_A_LINK * 16 + 1, 16)],
)
def test_links_in_memory(size: int, links: int) -> None:
    assert links_in(size) == links


@pytest.mark.parametrize(
    "limits, expected",
    [
        pytest.param(["1000\n"], 1000, id="version 2"),
        pytest.param(["max\n"], None, id="no limit"),
        pytest.param(["max\n", "2000\n"], 2000, id="both versions"),
        pytest.param(["9223372036854771712\n"], None, id="version 1 without a limit"),
        pytest.param([], None, id="no container"),
    ],
)
def test_the_memory_of_a_container(tmp_path: Path, limits: list[str], expected: int | None) -> None:
    paths = []
    for number, text in enumerate(limits):
        (tmp_path / str(number)).write_text(text)
        paths.append(str(tmp_path / str(number)))
    whole = memory([str(tmp_path / "gone")])
    assert whole > 100_000_000
    assert memory(paths) == (whole if expected is None else expected)


# --- what is left ------------------------------------------------------------------------------


def test_what_is_left_is_read(tmp_path: Path) -> None:
    assert read_bounds(tmp_path, os.getpid(), "a") == []
    leave_bounds(tmp_path, os.getpid(), "a", [("pool-heavy", 2), ("links", 3)])
    assert read_bounds(tmp_path, os.getpid(), "a") == [("pool-heavy", 2), ("links", 3)]
    assert read_bounds(tmp_path, os.getpid(), "b") == []
    assert read_bounds(tmp_path, os.getppid(), "a") == []
    # Who empties the folder finds it working.
    shutil.rmtree(tmp_path / "slots")
    leave_bounds(tmp_path, os.getpid(), "a", [("links", 3)])
    assert read_bounds(tmp_path, os.getpid(), "a") == [("links", 3)]
    leave_bounds(tmp_path, os.getpid(), "a", [])
    assert read_bounds(tmp_path, os.getpid(), "a") == []


def test_what_processes_left_that_are_gone_is_removed(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    leave_bounds(tmp_path, process.pid, "a", [("links", 1)])
    leave_bounds(tmp_path, os.getppid(), "a", [("links", 1)])
    process.wait()
    leave_bounds(tmp_path, os.getpid(), "a", [])
    assert not bounds_path(tmp_path, process.pid, "a").parent.exists()
    assert bounds_path(tmp_path, os.getppid(), "a").exists()


# --- run ---------------------------------------------------------------------------------------


def start(cache: Path, command: str, **popen: Any) -> subprocess.Popen[str]:
    """The program, a child of ours as it is one of Pants."""
    return subprocess.Popen(
        [
            *(sys.executable, "-sE", "-c"),
            f"import sys; sys.path.insert(0, {str(Path(slots.__file__).parents[2])!r})\n"
            "from pants_triton.native.slots import main; sys.exit(main(sys.argv[1:]))",
            *(f"--cache={cache}", "--edge=a", "--", "/bin/sh", "-c", command),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **popen,
    )


def most_at_once(log: Path) -> int:
    running = most = 0
    for line in log.read_text().split():
        running += 1 if line == "+" else -1
        most = max(most, running)
    return most


@pytest.mark.parametrize(
    "bounds, expected",
    [
        pytest.param([("links", 2)], 2, id="two"),
        pytest.param([("links", 1)], 1, id="one"),
        pytest.param([("pool-heavy", 1), ("links", 4)], 1, id="a pool and links"),
        pytest.param([("pool-heavy", 4), ("links", 2)], 2, id="links and a pool"),
    ],
)
def test_so_many_run_and_no_more(tmp_path: Path, bounds: list[Bound], expected: int) -> None:
    leave_bounds(tmp_path, os.getpid(), "a", bounds)
    log = tmp_path / "log"
    command = f"echo + >> {log}; sleep 0.4; echo - >> {log}"
    processes = [start(tmp_path, command) for _ in range(5)]
    assert [(p.communicate()[1], p.returncode) for p in processes] == [("", 0)] * 5
    assert log.read_text().count("+") == log.read_text().count("-") == 5
    assert most_at_once(log) == expected


def test_without_a_bound_all_run(tmp_path: Path) -> None:
    leave_bounds(tmp_path, os.getpid(), "a", [])
    log = tmp_path / "log"
    # Each waits for all the others to have begun.
    command = f"echo + >> {log}; while [ $(wc -l < {log}) -lt 4 ]; do sleep 0.05; done"
    processes = [start(tmp_path, command) for _ in range(4)]
    assert [p.wait(timeout=60) for p in processes] == [0] * 4


def test_a_slot_is_free_when_its_holder_is_killed(tmp_path: Path) -> None:
    leave_bounds(tmp_path, os.getpid(), "a", [("links", 1)])
    started = tmp_path / "started"
    holder = start(tmp_path, f"touch {started}; sleep 1000", start_new_session=True)
    while not started.exists():
        time.sleep(0.05)
    waiter = start(tmp_path, "echo ran")
    time.sleep(0.5)
    assert waiter.poll() is None
    os.killpg(holder.pid, signal.SIGKILL)
    assert waiter.communicate(timeout=60) == ("ran\n", "")
    holder.communicate()


def test_what_the_command_left_running_still_counts(tmp_path: Path) -> None:
    leave_bounds(tmp_path, os.getpid(), "a", [("links", 1)])
    done = tmp_path / "done"
    first = start(tmp_path, f"(sleep 0.7; touch {done}) > /dev/null 2>&1 &")
    first.communicate()
    assert not done.exists()
    second = start(tmp_path, f"ls {done}")
    assert second.communicate() == (f"{done}\n", "")


def test_the_commands_own_exit_code_and_output(tmp_path: Path) -> None:
    process = start(tmp_path, "echo out; echo err >&2; exit 7")
    assert (process.communicate(), process.returncode) == (("out\n", "err\n"), 7)


def test_a_folder_that_cant_be_used(tmp_path: Path) -> None:
    leave_bounds(tmp_path, os.getpid(), "a", [("links", 1)])
    (tmp_path / "slots/links").write_text("a file")
    process = start(tmp_path, "echo ran")
    out, err = process.communicate()
    assert (out, process.returncode) == ("", EXIT_NO_SLOT)
    assert "can't be bounded" in err and "`[GLOBAL].named_caches_dir`" in err
    assert "Traceback" not in err


def test_it_runs_alone_in_an_isolated_python(tmp_path: Path) -> None:
    """The program is these modules and Python's own."""
    package = tmp_path / "program/pants_triton/native"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    for name in slots.PROGRAM_MODULES:
        source = Path(slots.__file__).parent / f"{name}.py"
        (package / f"{name}.py").write_text(source.read_text())
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from pants_triton.native.slots import main"
    result = subprocess.run(
        [sys.executable, "-sE", "-c", f"{code}; sys.exit(main(sys.argv[1:]))"]
        + [str(tmp_path / "program"), f"--cache={tmp_path}", "--edge=a", "--", "echo", "ran"],
        env={"PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
    )
    assert (result.returncode, result.stdout) == (0, b"ran\n")
