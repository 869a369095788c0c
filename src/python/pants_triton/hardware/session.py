"""What the probe of a Pants process hands to the test processes of the same Pants process.

A test's cache key must not hold UUIDs, the user's CUDA_VISIBLE_DEVICES or how many tests share a
device, and running nvidia-smi before every test is slow. So the probe leaves a record in the lease
folder under the pid of the process that both it and the tests are children of.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pants_triton.hardware.device import Host, HostFormatError, host_from_json


@dataclass(frozen=True)
class Session:
    """What the tests of one Pants process go by.

    :param tests_per_device: how many test processes may share a device, at least 1.
    """

    host: Host
    tests_per_device: int = 1


def save_session(lease_dir: Path, parent_pid: int, session: Session) -> None:
    """Write the record for the children of `parent_pid`, and remove those of dead processes.

    Atomic: a reader sees the old record or the new one. Raises OSError where the folder can't be
    written.
    """
    folder = _folder(lease_dir)
    folder.mkdir(parents=True, exist_ok=True)
    _prune(folder)
    record = {
        "started": process_start(parent_pid),
        "host": session.host.to_json(),
        "tests_per_device": session.tests_per_device,
    }
    fd, temporary = tempfile.mkstemp(dir=folder, prefix=f".{parent_pid}-")
    with os.fdopen(fd, "w") as f:
        json.dump(record, f)
    os.replace(temporary, folder / _record_name(parent_pid))


def load_session(lease_dir: Path, parent_pid: int) -> Session | None:
    """The record for the children of `parent_pid`; None if there is none, or it is another
    process's."""
    try:
        record = json.loads((_folder(lease_dir) / _record_name(parent_pid)).read_text())
        # The pid may have been used again since.
        if record["started"] != process_start(parent_pid):
            return None
        return Session(host_from_json(record["host"]), int(record["tests_per_device"]))
    except (OSError, ValueError, KeyError, TypeError, HostFormatError):
        return None


def process_start(pid: int) -> str | None:
    """When a process started, in clock ticks since boot; None where there is no /proc, or no
    process."""
    try:
        stat = Path("/proc", str(pid), "stat").read_text(errors="replace")
        return stat.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _folder(lease_dir: Path) -> Path:
    # Pants links the folder into the sandbox; what the link names may have been cleaned away.
    return Path(os.path.realpath(lease_dir)) / "hosts"


def _record_name(pid: int) -> str:
    return f"{_pid_namespace()}-{pid}.json"


def _pid_namespace() -> str:
    # Containers that share the folder each count pids from 1.
    try:
        return re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))
    except OSError:
        return "0"


def _prune(folder: Path) -> None:
    for record in folder.glob(f"{_pid_namespace()}-*.json"):
        try:
            os.kill(int(record.stem.partition("-")[2]), 0)
        except (ProcessLookupError, ValueError, OverflowError):
            with contextlib.suppress(OSError):
                record.unlink()
        except PermissionError:
            continue
