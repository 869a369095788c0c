"""How a test process is run and ended. What happens when we are killed is in
`lease_integration_test`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pants_triton.hardware import child as child_module
from pants_triton.hardware.child import ChildResult, run_child


def run(script: str, **options: Any) -> ChildResult:
    return run_child(["/bin/sh", "-c", script], os.environ, **options)


@pytest.mark.parametrize(
    "script, exit_code",
    [
        pytest.param("exit 0", 0, id="success"),
        pytest.param("exit 5", 5, id="the child's own code"),
        pytest.param("kill -TERM $$", 128 + signal.SIGTERM, id="ended by a signal"),
    ],
)
@pytest.mark.parametrize("interactive", [False, True])
def test_exit_code(script: str, exit_code: int, interactive: bool) -> None:
    assert run(script, interactive=interactive) == ChildResult(exit_code)


def test_a_command_that_is_not_there() -> None:
    result = run_child(["/no/such/program"], {})
    assert (result.exit_code, result.error) == (
        127,
        "can't run /no/such/program: No such file or directory",
    )


def test_a_command_that_is_not_executable(tmp_path: Path) -> None:
    (tmp_path / "program").touch(mode=0o644)
    assert run_child([str(tmp_path / "program")], {}).exit_code == 126


@pytest.mark.parametrize(
    "traps",
    [
        pytest.param("trap 'echo cleaned >{log}; exit 0' INT", id="as with ctrl-c"),
        pytest.param(
            "trap '' INT; trap 'echo cleaned >{log}; exit 0' TERM", id="then as kill does"
        ),
    ],
)
def test_a_child_whose_time_is_up_is_asked_to_end(tmp_path: Path, traps: str) -> None:
    log = tmp_path / "log"
    script = f"{traps.format(log=log)}; while :; do sleep 0.05; done"
    assert run(script, timeout_s=0.5, grace_s=2) == ChildResult(124, timed_out=True)
    assert log.read_text() == "cleaned\n"


def test_a_child_ends_when_nobody_waits_for_its_result(tmp_path: Path) -> None:
    """Pants was killed, and its test processes are now init's."""
    pid_file = tmp_path / "pid"
    script = f"""
import os, signal, time
from pathlib import Path
from pants_triton.hardware.child import run_child
if os.fork() == 0:
    run_child(["sh", "-c", "echo $$ >{pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 1000"], os.environ)
    os._exit(0)
while not Path("{pid_file}").exists():
    time.sleep(0.02)
os.kill(os.getpid(), signal.SIGKILL)
"""
    source_root = str(Path(child_module.__file__).parents[2])
    subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": source_root},
        timeout=60,
        check=False,
    )
    pid = int(pid_file.read_text())
    deadline = time.monotonic() + 60
    while child_module._process_alive(pid):
        assert time.monotonic() < deadline, "it still runs"
        time.sleep(0.05)


def test_and_killed_if_it_does_not() -> None:
    started = time.monotonic()
    result = run("trap '' TERM; while :; do sleep 0.05; done", timeout_s=0.3, grace_s=0.2)
    assert result.timed_out
    assert time.monotonic() - started < 10


def test_what_the_child_leaves_behind_is_killed(tmp_path: Path) -> None:
    run(f"(sleep 0.5; touch {tmp_path}/alive) & exit 0")
    time.sleep(0.8)
    assert not (tmp_path / "alive").exists()


def test_a_signal_to_us_is_forwarded(tmp_path: Path) -> None:
    script = f"trap 'exit 7' TERM; touch {tmp_path}/ready; while :; do sleep 0.05; done"

    def send() -> None:
        while not (tmp_path / "ready").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=send)
    # The child is forked first, and fork and threads don't mix; so the thread waits for the child.
    timer = threading.Timer(0.2, thread.start)
    timer.start()
    assert run(script, timeout_s=20).exit_code == 7


def test_no_moment_is_unguarded(tmp_path: Path) -> None:
    """Here we die as soon as the child runs, before we know its pid."""
    script = """
import os, signal, subprocess, sys
from pants_triton.hardware import child

class Deadly(subprocess.Popen):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

child.subprocess.Popen = Deadly
child.run_child(["/bin/sh", "-c", "sleep 0.5; touch " + sys.argv[1]], os.environ)
"""
    source_root = str(Path(__file__).parents[2])
    died = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "alive")],
        env={**os.environ, "PYTHONPATH": source_root},
    )
    assert died.returncode == -signal.SIGKILL
    time.sleep(0.8)
    assert not (tmp_path / "alive").exists()


def test_only_an_interactive_child_stays_in_our_process_group(tmp_path: Path) -> None:
    script = "import os, sys; sys.exit(os.getpgrp() == int(sys.argv[1]))"
    argv = [sys.executable, "-c", script, str(os.getpgrp())]
    assert run_child(argv, os.environ).exit_code == 0
    assert run_child(argv, os.environ, interactive=True).exit_code == 1


def test_the_child_does_not_inherit_what_the_guardian_holds(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    script = "import os, sys; os.fstat(int(sys.argv[1]))"
    assert run_child([sys.executable, "-c", script, str(fd)], {}, guarded_fds=(fd,)).exit_code == 1
    os.close(fd)
