"""Leases among real processes that get killed at bad moments."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Callable, Sequence

import pytest

from pants_triton.hardware import lease, recorded
from pants_triton.hardware.lease import (
    EXIT_DEVICE_CHANGED,
    EXIT_NO_LEASE,
    LeaseQueue,
    LeaseRequest,
    Party,
)
from pants_triton.hardware.parse import parse_host
from pants_triton.hardware.session import Session, save_session

# Generous: a bound for a machine that is busy with other things, not an expectation.
PATIENCE_S = 60

HOST = parse_host(recorded.host(recorded.nvidia_smi(*(recorded.a100_row(i) for i in range(3)))))
FINGERPRINT = HOST.devices[0].device_class.fingerprint


@pytest.fixture
def lease_dir(tmp_path: Path) -> Path:
    """A lease folder in which our probe has recorded three devices for our children."""
    folder = tmp_path / "leases"
    save_session(folder, os.getpid(), Session(HOST))
    return folder


def start(lease_dir: Path, options: list[str], *argv: str) -> subprocess.Popen[str]:
    """`agent lease … -- argv`, as Pants runs it."""
    source_root = Path(lease.__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-m", "pants_triton.hardware.agent", "lease"]
        + [f"--lease-dir={lease_dir}", "--hardware=cuda", f"--fingerprint={FINGERPRINT}"]
        + [*options, "--", *argv],
        env={**os.environ, "PYTHONPATH": str(source_root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def python(script: str, *args: object) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", script, *map(str, args)]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def all_devices(limit: int = 1) -> LeaseRequest:
    return LeaseRequest(tuple(d.uuid for d in HOST.devices), 3, True, limit)


def wait_until_all_are_free(lease_dir: Path) -> float:
    """Hold every device for a moment; returns the seconds that took."""
    with LeaseQueue(lease_dir).lease(all_devices(), "test") as held:
        return held.waited_s


# -- one process ----------------------------------------------------------------------------------


def test_a_test_sees_its_device_only(lease_dir: Path) -> None:
    script = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    out, _ = start(lease_dir, ["--devices=2"], *python(script)).communicate(timeout=PATIENCE_S)
    assert out == f"{recorded.uuid(0)},{recorded.uuid(1)}\n"


def test_stdin_and_exit_code_are_the_tests_own(lease_dir: Path) -> None:
    process = start(lease_dir, [], *python("import sys; sys.exit(int(input()))"))
    process.communicate("3\n", timeout=PATIENCE_S)
    assert process.returncode == 3


@pytest.mark.parametrize(
    ("count", "said"), [(1, "failed on cuda device 0"), (3, "failed on cuda devices 0, 1, 2")]
)
def test_a_failure_names_its_devices(lease_dir: Path, count: int, said: str) -> None:
    _, err = start(lease_dir, [f"--devices={count}"], "false").communicate(timeout=PATIENCE_S)
    assert err == f"pants-triton: {said}\n"
    _, err = start(lease_dir, [f"--devices={count}"], "true").communicate(timeout=PATIENCE_S)
    assert err == ""


def test_dashes_after_the_first_belong_to_the_command(lease_dir: Path) -> None:
    argv = python("import sys; print(sys.argv[1:])", "--timeout=1", "--", "-x")
    out, _ = start(lease_dir, [], *argv).communicate(timeout=PATIENCE_S)
    assert out == "['--timeout=1', '--', '-x']\n"


def test_a_time_out_says_how_long_it_waited(lease_dir: Path) -> None:
    process = start(lease_dir, ["--timeout=0.5"], "sleep", "60")
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 124
    assert "timed out after 0.5 s (lease held since " in err
    assert "; waited 0.0 s for the device)" in err


def test_a_host_that_changed_since_planning(lease_dir: Path) -> None:
    process = start(lease_dir, ["--fingerprint=cuda sm_90 | H100"], "true")
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == EXIT_DEVICE_CHANGED
    assert "planned for 1 x 'cuda sm_90 | H100', but of these the host now has 0" in err
    assert f"Found: {FINGERPRINT}" in err


def test_a_lease_folder_that_is_none(tmp_path: Path) -> None:
    save_session(tmp_path, os.getpid(), Session(HOST))
    (tmp_path / "queue").touch()
    process = start(tmp_path, [], "true")
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == EXIT_NO_LEASE
    assert "can't lease a device through" in err


def test_who_holds_the_device_is_told_to_who_waits(lease_dir: Path) -> None:
    queue = LeaseQueue(lease_dir)
    seen: list[Party] = []

    def on_wait(seconds: float, others: Sequence[Party], ahead: int) -> None:
        seen.extend(others)
        raise TimeoutError

    with queue.lease(all_devices(), "the holder"), pytest.raises(TimeoutError):
        with queue.lease(all_devices(), "the waiter", on_wait):
            raise AssertionError("two exclusive holders")
    assert [(p.command, p.pid) for p in seen] == [("the holder", os.getpid())]


# -- killed processes -----------------------------------------------------------------------------


def test_a_waiter_that_is_terminated_leaves_the_queue(lease_dir: Path) -> None:
    with LeaseQueue(lease_dir).lease(all_devices(), "test"):
        process = start(lease_dir, [], "true")
        wait_until(lambda: len(list((lease_dir / "queue").iterdir())) == 2)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 128 + signal.SIGTERM
        assert len(list((lease_dir / "queue").iterdir())) == 1


def test_a_waiter_that_is_killed_blocks_nobody(lease_dir: Path) -> None:
    with LeaseQueue(lease_dir).lease(all_devices(), "test"):
        process = start(lease_dir, ["--devices=3", "--exclusive"], "true")
        wait_until(lambda: len(list((lease_dir / "queue").iterdir())) == 2)
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    assert wait_until_all_are_free(lease_dir) < PATIENCE_S


@pytest.mark.parametrize("options", [[], ["--interactive"]])
def test_a_test_whose_wrapper_is_killed_is_killed_too_and_then_frees_its_device(
    lease_dir: Path, tmp_path: Path, options: list[str]
) -> None:
    script = """
import os, subprocess, sys, time
# In our process group but without our descriptors, as most helpers of a test are.
helper = None if len(sys.argv) > 2 else subprocess.Popen(["sleep", "1000"])
with open(sys.argv[1] + ".new", "w") as f:
    f.write(" ".join(str(p) for p in (os.getpid(), helper and helper.pid) if p))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(1000)
"""
    pids = tmp_path / "pids"
    process = start(lease_dir, [*options, "--devices=3"], *python(script, pids, *options))
    wait_until(pids.exists)
    process.kill()
    assert wait_until_all_are_free(lease_dir) < PATIENCE_S
    for pid in pids.read_text().split():
        assert not running(int(pid)), "its device was freed while it ran"


def test_a_daemon_that_escaped_a_killed_test_holds_nothing(lease_dir: Path, tmp_path: Path) -> None:
    script = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    with open(sys.argv[1] + ".new", "w") as f:
        f.write(str(os.getpid()))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(1000)
"""
    pid_file = tmp_path / "pid"
    process = start(lease_dir, ["--devices=3"], *python(script, pid_file))
    wait_until(pid_file.exists)
    daemon = int(pid_file.read_text())
    try:
        process.kill()
        assert wait_until_all_are_free(lease_dir) < PATIENCE_S
        assert running(daemon)
    finally:
        os.kill(daemon, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="finds the guardian in /proc")
def test_the_device_stays_leased_until_the_killed_test_is_really_dead(
    lease_dir: Path, tmp_path: Path
) -> None:
    script = "import os, sys, time; os.rename(sys.argv[1], sys.argv[2]); time.sleep(1000)"
    (tmp_path / "new").touch()
    argv = python(script, tmp_path / "new", tmp_path / "ready")
    process = start(lease_dir, ["--devices=3"], *argv)
    wait_until((tmp_path / "ready").exists)
    # The guardian is the child of the wrapper that didn't become another program.
    (guardian,) = [p for p in children(process.pid) if command_line(p) == command_line(process.pid)]
    os.kill(guardian, signal.SIGSTOP)
    try:
        process.kill()
        process.wait(PATIENCE_S)
        with pytest.raises(TimeoutError):
            with LeaseQueue(lease_dir).lease(all_devices(), "test", give_up):
                pass
    finally:
        os.kill(guardian, signal.SIGCONT)
    wait_until_all_are_free(lease_dir)


def give_up(*_: object) -> None:
    raise TimeoutError


def children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if stat.read_text().rpartition(")")[2].split()[1] == str(pid):
                found.append(int(stat.parent.name))
        except OSError:
            continue
    return found


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    # A zombie is dead; who its parent is now, and whether that reaps it, isn't ours to say.
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


# -- many processes -------------------------------------------------------------------------------

# The test that every wrapper runs in the stress test. It checks the promise by itself, without
# trusting the queue: it locks a marker file on each device it was given, so that the kernel tells
# who really is alive there, and looks at all markers of the device.
ORACLE = """
import fcntl, json, os, sys, time
folder, seconds, me = sys.argv[1], float(sys.argv[2]), json.loads(sys.argv[3])
devices = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
def log(line):
    fd = os.open(os.path.join(folder, "journal"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, (line + "\\n").encode())
    os.close(fd)
mutex = os.open(os.path.join(folder, "mutex"), os.O_RDWR | os.O_CREAT)
fcntl.flock(mutex, fcntl.LOCK_EX)
if len(devices) != me["devices"]:
    log("VIOLATION: got %s for %s" % (devices, me))
for device in devices:
    place = os.path.join(folder, device)
    os.makedirs(place, exist_ok=True)
    there = [me]
    for name in os.listdir(place):
        fd = os.open(os.path.join(place, name), os.O_RDWR)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            there.append(json.loads(os.pread(fd, 1000, 0)))
        os.close(fd)
    if len(there) > min(p["limit"] for p in there) or (
        len(there) > 1 and any(p["exclusive"] for p in there)
    ):
        log("VIOLATION: %s together on %s" % (there, device))
    mine = os.open(os.path.join(place, str(os.getpid())), os.O_RDWR | os.O_CREAT)
    os.pwrite(mine, sys.argv[3].encode(), 0)
    fcntl.flock(mine, fcntl.LOCK_EX)
fcntl.flock(mutex, fcntl.LOCK_UN)
log("ran %d %d" % (me["number"], len(there)))
time.sleep(seconds)
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_no_device_ever_has_too_many(lease_dir: Path, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    oracle = tmp_path / "oracle"
    oracle.mkdir()
    processes: list[subprocess.Popen[str]] = []
    for number in range(24):
        kind = chance.choice(
            ["shared", "shared", "shared", "exclusive", "multi", "multi exclusive"]
        )
        me = {
            "number": number,
            "devices": chance.choice([2, 3]) if "multi" in kind else 1,
            "exclusive": "exclusive" in kind,
            "limit": chance.choice([1, 2, 3]),
        }
        options = [f"--devices={me['devices']}", f"--tests-per-device={me['limit']}"]
        options += ["--exclusive"] if me["exclusive"] else []
        seconds = chance.uniform(0.02, 0.25)
        processes.append(
            start(lease_dir, options, *python(ORACLE, oracle, seconds, json.dumps(me)))
        )
    # Half of the victims are killed early, when most are starting up or waiting, half later on.
    victims = chance.sample(range(24), 8)
    for i, victim in enumerate(victims):
        time.sleep(chance.uniform(0.05, 0.5 if i < 4 else 0.9))
        # With its process group, as Pants does.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(processes[victim].pid, signal.SIGKILL)

    for number, process in enumerate(processes):
        _, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0 or number in victims, err
    wait_until_all_are_free(lease_dir)
    journal = (oracle / "journal").read_text().splitlines()
    assert [line for line in journal if line.startswith("VIOLATION")] == []
    ran = {int(line.split()[1]) for line in journal}
    assert ran >= set(range(24)) - set(victims)
    assert list((lease_dir / "queue").iterdir()) == []


def test_one_that_wants_a_device_for_itself_is_not_starved(lease_dir: Path) -> None:
    stop = threading.Event()
    uuid = HOST.devices[0].uuid
    shared = LeaseRequest((uuid,), 1, False, 3)
    runs: list[int] = []

    def keep_sharing(number: int) -> None:
        while not stop.is_set():
            with LeaseQueue(lease_dir).lease(shared, f"sharer {number}"):
                runs.append(number)
                time.sleep(0.05)

    threads = [threading.Thread(target=keep_sharing, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: len(runs) > 6)
        with LeaseQueue(lease_dir).lease(LeaseRequest((uuid,), 1, True, 1), "the one") as held:
            alone = len(runs)
            time.sleep(0.2)
            assert len(runs) == alone
        assert held.waited_s < 5
    finally:
        stop.set()
        for thread in threads:
            thread.join()
