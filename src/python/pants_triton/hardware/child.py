"""Run one test process: forward signals to it, end it in time, and leave nothing of it behind.

A test that outlives its run keeps a device busy that the next run believes free. So the child has a
process group of its own, which is killed when the child is done, when its time is up, and, by a
small guardian process, when we ourselves are killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Callable, Iterator, Mapping, Sequence

#: Exit codes as in a shell and in GNU `timeout`.
EXIT_TIMED_OUT = 124
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127

# How often to see whether our parent is still there.
_ORPHAN_CHECK_S = 1.0

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True)
class ChildResult:
    """`exit_code` is the child's own, 128 + n if signal n ended it, or one of the EXIT_
    constants."""

    exit_code: int
    timed_out: bool = False
    error: str = ""


def run_child(
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    timeout_s: float | None = None,
    grace_s: float = 5.0,
    interactive: bool = False,
    guarded_fds: Sequence[int] = (),
) -> ChildResult:
    """Run `argv` to its end with our stdin, stdout and stderr.

    After `timeout_s` seconds its process group gets SIGINT (on which pytest says what it was doing),
    SIGTERM `grace_s` seconds later and SIGKILL another `grace_s` later. So it does when our parent
    ends, since nobody then waits for the result. Whatever is left of the group when the child ends
    gets SIGKILL too.

    With `interactive` the child stays in our process group, so that it may read from the terminal
    (a debugger): only the child itself is then signalled, and Ctrl-C is left to it.

    If we die first, a guardian kills the group and keeps `guarded_fds` (and with them, flocks) open
    until none of it is left. The child and its descendants never get these descriptors: a daemon
    that escapes the group holds nothing.
    """
    parent = os.getppid()
    with _Guardian(interactive, guarded_fds) as guardian:
        try:
            process = subprocess.Popen(
                list(argv),
                env=dict(environ),
                start_new_session=not interactive,
                preexec_fn=guardian.register_self,
            )
        except OSError as e:
            code = EXIT_NOT_FOUND if isinstance(e, FileNotFoundError) else EXIT_NOT_EXECUTABLE
            return ChildResult(code, error=f"can't run {argv[0]}: {e.strerror or e}")

        def send(signum: int) -> None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if interactive:
                    process.send_signal(signum)
                else:
                    os.killpg(process.pid, signum)

        with _forwarding(send, interactive):
            why_ended = _wait(process, send, timeout_s, grace_s, parent)
        if not interactive:
            # The number can't have been given to another group: the kernel reuses it last.
            send(signal.SIGKILL)
        if why_ended is _Ended.TIME_UP:
            return ChildResult(EXIT_TIMED_OUT, timed_out=True)
        if why_ended is _Ended.ORPHANED:
            return ChildResult(128 + signal.SIGHUP, error="Pants ended while this test ran")
        code = process.returncode
        return ChildResult(code if code >= 0 else 128 - code)


class _Ended(Enum):
    BY_ITSELF = 1
    TIME_UP = 2
    ORPHANED = 3


def _wait(
    process: subprocess.Popen[bytes],
    send: Callable[[int], None],
    timeout_s: float | None,
    grace_s: float,
    parent: int,
) -> _Ended:
    """Wait for the child, and end it if its time is up or our `parent` is gone."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left = _ORPHAN_CHECK_S if deadline is None else deadline - time.monotonic()
        try:
            process.wait(max(0.0, min(left, _ORPHAN_CHECK_S)))
            return _Ended.BY_ITSELF
        except subprocess.TimeoutExpired:
            if os.getppid() != parent:
                why = _Ended.ORPHANED
                break
            if deadline is not None and time.monotonic() >= deadline:
                why = _Ended.TIME_UP
                break
    for signum in (signal.SIGINT, signal.SIGTERM):
        send(signum)
        try:
            process.wait(grace_s)
            return why
        except subprocess.TimeoutExpired:
            continue
    send(signal.SIGKILL)
    process.wait()
    return why


@contextlib.contextmanager
def _forwarding(send: Callable[[int], None], interactive: bool) -> Iterator[None]:
    def handler(signum: int, frame: object) -> None:
        # On a terminal, Ctrl-C and Ctrl-\ reach the child without us, as it is in the foreground
        # group.
        if not (interactive and signum in (signal.SIGINT, signal.SIGQUIT)):
            send(signum)

    previous = {signum: signal.signal(signum, handler) for signum in _FORWARDED}
    try:
        yield
    finally:
        for signum, old in previous.items():
            signal.signal(signum, old)


class _Guardian:
    """A forked process that outlives us and then kills what we were running.

    It learns of our death by the end of a pipe, however we die.
    """

    def __init__(self, interactive: bool, guarded_fds: Sequence[int]) -> None:
        read_end, self._pipe = os.pipe()
        ready_read, ready_write = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            # Never let an exception climb into the code that the parent is running, too.
            with contextlib.suppress(BaseException):
                self._detach((read_end, ready_write, *guarded_fds))
                os.write(ready_write, b"ready")
                self._guard(read_end, interactive)
            os._exit(0)
        os.close(read_end)
        os.close(ready_write)
        # Not before it has left our process group: a kill of the group must not find it there.
        is_ready = os.read(ready_read, 5)
        os.close(ready_read)
        if not is_ready:
            raise OSError("the process that guards the test could not start")

    def __enter__(self) -> _Guardian:
        return self

    def register_self(self) -> None:
        """Called in the child, in its new process group, before it becomes another program.

        Until that its copy of the pipe is open, so even if we die this instant the guardian reads
        the pid before it reads the end: there is no moment at which the child runs unguarded.
        """
        os.write(self._pipe, b"%d\n" % os.getpid())

    def __exit__(self, exc_type: object, *_: object) -> None:
        # After an exception the child may still run: without the word, the guardian kills it.
        if exc_type is None:
            with contextlib.suppress(OSError):
                os.write(self._pipe, b"done\n")
        os.close(self._pipe)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _detach(self, keep: Sequence[int]) -> None:
        # A session of its own, so that a kill of our process group spares it; and none of our
        # output pipes, so that nobody waits for their end.
        os.setsid()
        for signum in _FORWARDED:
            signal.signal(signum, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        _close_all_but((0, 1, 2, *keep))

    def _guard(self, read_end: int, interactive: bool) -> None:
        message = b""
        while True:
            received = os.read(read_end, 100)
            if not received:
                break
            message += received
        lines = message.split()
        if not lines or lines[-1] == b"done":
            return
        pid = int(lines[0])
        alive = _process_alive if interactive else _group_alive
        kill = os.kill if interactive else os.killpg
        while alive(pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)
            time.sleep(0.05)


def _close_all_but(keep: Sequence[int]) -> None:
    first = 0
    for fd in [*sorted(set(keep)), 4096]:
        # From Python 3.10 on, closerange(0, 0) closes everything.
        if first < fd:
            os.closerange(first, fd)
        first = fd + 1


def _process_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    state = _stat_fields(Path("/proc", str(pid)))[:1]
    return state != ["Z"]


def _group_alive(group: int) -> bool:
    """Whether a process of the group still runs. Zombies don't count: in a container whose first
    process reaps no orphans they stay for ever."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    if not Path("/proc/self/stat").exists():
        return True
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = _stat_fields(Path("/proc", entry))
            if len(fields) > 2 and fields[2] == str(group) and fields[0] != "Z":
                return True
    return False


def _stat_fields(process: Path) -> list[str]:
    """state, ppid, pgrp, …: the fields of /proc/<pid>/stat after the name, which may hold
    anything."""
    try:
        text = (process / "stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
