"""Remove the folders that Pants leaves behind where it runs without its daemon.

Each Pants process lays out the immutable inputs of its processes (a toolchain, some gigabytes) in
`<tmp>/immutable_inputsXXXXXX`, and leaves that folder when it ends without having been a daemon.
This program is such an input itself, so it knows where that folder is. It writes down which process
it belongs to, at `<cache>/leftovers/<pid>.json`; whoever comes later removes it once that process is
gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Iterator

from pants_triton.artifact.errors import Report, local_error, os_reason, report_to_stderr

_PREFIX = "immutable_inputs"
# Of a process that can't be seen from here, such as one in another container with the same cache.
_FORGET_AFTER_S = 7 * 24 * 3600


@dataclass(frozen=True)
class Registration:
    """A folder and the process it belongs to.

    :param started: tells that process from others that have the same pid, see `start_token`.
    """

    pid: int
    started: str
    folder: str


def own_folder(program: Path) -> str | None:
    """The folder of immutable inputs that `program` lies in, None if it doesn't lie in one."""
    for parent in Path(os.path.realpath(program)).parents:
        if parent.name.startswith(_PREFIX):
            return str(parent)
    return None


def register(
    cache: Path, program: Path, pid: int, report: Report = report_to_stderr
) -> dict[str, Any]:
    """Write down that the folder `program` lies in belongs to the process `pid`, and remove those
    whose process is gone. Returns `{"folder": path or None, "removed": [path]}`.

    What can't be removed is reported. Raises FetchError where the cache can't be written. Any number
    of processes may do this at once.
    """
    folder = own_folder(program)
    started = start_token(pid) if folder else None
    removed: list[str] = []
    try:
        if folder and started:
            file = _file(cache, pid)
            file.parent.mkdir(parents=True, exist_ok=True)
            previous = _read(file)
            _write(file, Registration(pid, started, folder))
            if previous and previous.folder != folder and _is_over(previous, 0):
                removed += _remove(previous, report)
        removed += _sweep(cache, pid, report)
    except OSError as e:
        raise local_error(f"Can't write {cache / 'leftovers'}", cache, e) from None
    return {"folder": folder, "removed": removed}


def remove_own(cache: Path, pid: int) -> str | None:
    """Remove the folder that is registered for the running process `pid`, at its end. Returns the
    folder, or None if there was none or it couldn't be removed. Never raises."""
    file = _file(cache, pid)
    registration = _read(file)
    # The file may be that of an equal pid in another container.
    if registration is None or registration.started != start_token(pid):
        return None
    removed = _remove(registration, lambda line: None)
    if removed:
        with contextlib.suppress(OSError):
            file.unlink()
    return removed[0] if removed else None


def start_token(pid: int) -> str | None:
    """What is the same for as long as a process lives, and different for every other one: when it
    was started, and on Linux in which boot and which namespace of pids. None if there is no such
    process, or it can't be told."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, IndexError):
            line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            # The second field is a name that may hold anything, in parentheses.
            return f"{_place()}/{line.rpartition(')')[2].split()[19]}"
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        result = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)],
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
            timeout=60,
        )
        return result.stdout.strip() or None
    return None


@functools.lru_cache(maxsize=None)
def _place() -> str:
    """`<boot>/<namespace>`."""
    boot = namespace = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with contextlib.suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return f"{boot}/{namespace}"


def _is_over(registration: Registration, age_s: float) -> bool:
    """Whether the process is known to be gone. `age_s` is how long ago it registered."""
    if sys.platform == "linux":
        ours, theirs = _place(), registration.started.rpartition("/")[0]
        if ours.partition("/")[0] != theirs.partition("/")[0]:
            # Booted since. If the folder isn't there, it may be on another host.
            return os.path.isdir(registration.folder) or age_s > _FORGET_AFTER_S
        if ours != theirs:
            return age_s > _FORGET_AFTER_S
    now = start_token(registration.pid)
    if now is not None:
        return now != registration.started
    try:
        os.kill(registration.pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass
    return False


def _sweep(cache: Path, own_pid: int, report: Report) -> list[str]:
    removed: list[str] = []
    with _alone(cache) as alone:
        # Who is at it now does it for all.
        for file in sorted(_files(cache)) if alone else ():
            if file == _file(cache, own_pid):
                continue
            try:
                age_s = time.time() - file.stat().st_mtime
                registration = _read(file)
                if registration is None:
                    report(f"{file} is no registration: removing it")
                elif not _is_over(registration, age_s):
                    continue
                else:
                    removed += _remove(registration, report)
                # A new process with the same pid may have registered meanwhile.
                if _read(file) == registration:
                    file.unlink()
            except FileNotFoundError:
                continue
            except OSError as e:
                report(f"can't remove what {file} is about: {os_reason(e)}")
    return removed


def _files(cache: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return list((cache / "leftovers").glob("[0-9]*.json"))
    return []


@contextlib.contextmanager
def _alone(cache: Path) -> Iterator[bool]:
    try:
        lock = open(cache / "leftovers" / "lock", "w")
    except OSError:
        # Nobody ever registered, or the cache is read-only.
        yield False
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def _remove(registration: Registration, report: Report) -> list[str]:
    """Remove the folder; returns it, if it was there."""
    folder = registration.folder
    try:
        status = os.lstat(folder)
    except OSError:
        return []
    # Whatever else the file names, it isn't ours to remove.
    problem = ""
    if not os.path.isabs(folder) or not os.path.basename(folder).startswith(_PREFIX):
        problem = f"its name doesn't start with {_PREFIX}"
    elif not stat.S_ISDIR(status.st_mode):
        problem = "it is no folder"
    elif status.st_uid != os.getuid():
        problem = "it is another user's"
    if problem:
        report(f"left {folder} alone: {problem}")
        return []
    problem = _remove_tree(folder)
    if problem:
        report(f"can't remove {folder}: {problem}")
    return [] if problem else [folder]


def _remove_tree(folder: str) -> str:
    """Remove as much of a folder as can be; returns what couldn't, "" if it is gone."""
    # Nobody may write into immutable folders, so nothing can be removed from them.
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        # Only to be told why.
        shutil.rmtree(folder)
    except FileNotFoundError:
        pass
    except OSError as e:
        return f"{e.filename or folder}: {os_reason(e)}"
    return ""


def _file(cache: Path, pid: int) -> Path:
    return cache / "leftovers" / f"{pid}.json"


def _read(file: Path) -> Registration | None:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        found = Registration(data["pid"], data["started"], data["folder"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    kinds = (type(found.pid), type(found.started), type(found.folder))
    return found if kinds == (int, str, str) and found.pid > 0 else None


def _write(file: Path, registration: Registration) -> None:
    fd, temporary = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with open(fd, "w", encoding="utf-8") as f:
            json.dump(asdict(registration), f)
        os.replace(temporary, file)
    except BaseException:
        os.unlink(temporary)
        raise
