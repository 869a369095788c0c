"""Give a test process its devices while it runs, and give no device to too many.

All processes of all Pants runs of a user on a host share one folder, with a file for each process
that holds devices or waits for them. The file is created and flocked by the process it stands for,
so it is alive exactly as long as that process (or its guardian, see `child`) lives: the kernel
drops a flock however its holder dies. What a file *says* is believed only while it is locked. A
mutex (`turnstile`) makes reading all files and writing one's own a single step, in which the pure
function `admit` decides.

The folder must be on a local file system. Users, and containers that don't share the folder, don't
see each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import re
import shlex
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence, TextIO

from pants_triton.hardware.admission import LeaseRequest, Party, admit, describe_wait
from pants_triton.hardware.child import run_child
from pants_triton.hardware.device import Device, Host
from pants_triton.hardware.visibility import device_environment

#: The host no longer has what the test was planned for. 69 is EX_UNAVAILABLE of sysexits.h; pytest
#: ends with 0 to 5.
EXIT_DEVICE_CHANGED = 69

#: The lease folder can't be used (read-only, disk full). 74 is EX_IOERR.
EXIT_NO_LEASE = 74

# A waiter that stopped asking (a suspended process) loses its turn until it asks again.
_STALE_AFTER_S = 5.0
_FIRST_REPORT_S = 5.0
_REPORT_EVERY_S = 60.0


# -- the shared folder ----------------------------------------------------------------------------


class LeaseQueue:
    """The folder in which processes queue for devices.

    `<folder>/turnstile.lock` is the mutex, held for milliseconds; `<folder>/queue/` has a file a
    party.
    """

    def __init__(self, folder: Path) -> None:
        # Pants links the folder into the sandbox; what the link names may have been cleaned away.
        folder = Path(os.path.realpath(folder))
        self._turnstile = folder / "turnstile.lock"
        self._parties = folder / "queue"
        self._parties.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def lease(
        self,
        request: LeaseRequest,
        command: str,
        on_wait: Callable[[float, Sequence[Party], int], None] = lambda *_: None,
    ) -> Iterator[Lease]:
        """Wait for devices and hold them for the `with` block.

        `on_wait(seconds, others, ahead)` is called several times a second while waiting; what it
        raises ends the wait.
        """
        started = time.monotonic()
        me, fd, path = self._enter(request, command)
        try:
            while True:
                held, others = self._try(me, fd, path)
                waited = time.monotonic() - started
                if held is not None:
                    break
                ahead = sum(1 for p in others if not p.held and p.ticket < me.ticket)
                on_wait(waited, others, ahead)
                # Those at the head of the queue ask often; the rest leave the turnstile to them.
                time.sleep(min(0.5, 0.05 + 0.005 * ahead) * random.uniform(0.75, 1.25))
            yield Lease(held, fd, waited)
        finally:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            # Unlocking, unlike closing, frees the devices even if somebody has a copy of the
            # descriptor.
            fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def _enter(self, request: LeaseRequest, command: str) -> tuple[Party, int, Path]:
        path = self._parties / f"{os.getpid()}-{os.urandom(8).hex()}.json"
        # In the turnstile, or another process would see the file before it is locked and think us
        # dead.
        with self._exclusively():
            ticket = 1 + max((party.ticket for party in self._others(None)), default=0)
            me = Party(ticket, request, (), os.getpid(), command, time.time())
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX)
            _write(fd, me)
        return me, fd, path

    def _try(self, me: Party, fd: int, path: Path) -> tuple[tuple[str, ...] | None, list[Party]]:
        with self._exclusively():
            others = list(self._others(path))
            held = admit(me, others)
            if held is not None:
                _write(fd, replace(me, held=held, since=time.time()))
            else:
                os.utime(fd)
        return held, others

    def _others(self, own: Path | None) -> Iterator[Party]:
        """The living parties but our own; the files of dead ones are removed."""
        for entry in os.scandir(self._parties):
            if own is not None and entry.name == own.name:
                continue
            try:
                fd = os.open(entry.path, os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                party = _read(fd)
                asked = time.time() - os.fstat(fd).st_mtime
                if party is not None and (party.held or asked < _STALE_AFTER_S):
                    yield party
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
            finally:
                os.close(fd)

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        while True:
            fd = os.open(self._turnstile, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                if _is_file(fd, self._turnstile):
                    yield
                    return
                # Somebody removed the file (cleaned a cache) while we waited: others lock a new
                # one.
            finally:
                os.close(fd)


@dataclass(frozen=True)
class Lease:
    """Devices held (uuids), after `waited_s` seconds. The flock on `fd` is what holds them."""

    held: tuple[str, ...]
    fd: int
    waited_s: float


def _write(fd: int, party: Party) -> None:
    data = {**vars(party), "request": vars(party.request)}
    content = json.dumps(data).encode()
    os.pwrite(fd, content, 0)
    os.ftruncate(fd, len(content))


def _read(fd: int) -> Party | None:
    # Takes what it knows and ignores the rest: a later version may write more.
    try:
        data: Any = json.loads(os.pread(fd, 1 << 20, 0))
        asked = data["request"]
        request = LeaseRequest(
            tuple(asked["eligible"]), asked["devices"], asked["exclusive"], asked["limit"]
        )
        held = tuple(data["held"])
        return Party(data["ticket"], request, held, data["pid"], data["command"], data["since"])
    except (ValueError, KeyError, TypeError):
        return None


def _is_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


# -- the runner -----------------------------------------------------------------------------------


class Interrupted(Exception):
    """A signal came while we waited for a device."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


def run_leased(
    argv: Sequence[str],
    *,
    lease_dir: Path,
    hardware: str,
    fingerprint: str,
    devices: int,
    exclusive: bool,
    tests_per_device: int,
    timeout_s: float | None,
    host: Host,
    environ: Mapping[str, str],
    interactive: bool = False,
    stderr: TextIO = sys.stderr,
) -> int:
    """Run `argv` on `devices` devices of `host` whose class has this `fingerprint`; returns the
    exit code.

    That is the child's own, 128 + n if signal n ended it, 124 after `timeout_s` seconds (counted
    from when the devices are held), 126 or 127 if it can't be run, EXIT_DEVICE_CHANGED if the host
    has no such devices, EXIT_NO_LEASE if the lease folder can't be used.
    """

    def say(message: str) -> None:
        print(f"pants-triton: {message}", file=stderr, flush=True)

    fitting = [d for d in host.of(hardware) if d.device_class.fingerprint == fingerprint]
    mismatch = _mismatch(hardware, fingerprint, devices, fitting, host)
    if mismatch:
        say(mismatch)
        return EXIT_DEVICE_CHANGED
    request = LeaseRequest(
        tuple(d.uuid for d in fitting), devices, exclusive, max(1, tests_per_device)
    )
    command = " ".join(shlex.quote(arg) for arg in argv)[:200]

    parent = os.getppid()
    next_report = _FIRST_REPORT_S
    signals: list[int] = []

    def on_wait(waited: float, others: Sequence[Party], ahead: int) -> None:
        nonlocal next_report
        if signals:
            raise Interrupted(signals[0])
        if os.getppid() != parent:
            # Pants ended: nobody waits for this test any more.
            raise Interrupted(signal.SIGHUP)
        if waited >= next_report:
            next_report = waited + _REPORT_EVERY_S
            say(describe_wait(hardware, waited, request, others, ahead))

    try:
        with _noting(signals), LeaseQueue(lease_dir).lease(request, command, on_wait) as lease:
            if signals:
                raise Interrupted(signals[0])
            since = time.strftime("%H:%M:%S")
            mine = [d for d in fitting if d.uuid in lease.held]
            result = run_child(
                argv,
                device_environment(hardware, mine, host.torch, environ),
                timeout_s=timeout_s,
                interactive=interactive,
                guarded_fds=(lease.fd,),
            )
    except Interrupted as e:
        return 128 + e.signum
    except OSError as e:
        say(f"can't lease a device through {lease_dir}: {e}")
        return EXIT_NO_LEASE
    if result.error:
        say(result.error)
    if result.exit_code != 0:
        # Which of several equal ones it was is no part of a result; of a failure it may be the cause.
        labels = ", ".join(device.label for device in mine)
        say(f"failed on {hardware} device{'s' if mine[1:] else ''} {labels}")
    if result.timed_out:
        say(
            f"timed out after {timeout_s:g} s (lease held since {since}; "
            f"waited {lease.waited_s:.1f} s for the device)"
        )
    return result.exit_code


def _mismatch(
    hardware: str, fingerprint: str, devices: int, fitting: Sequence[Device], host: Host
) -> str:
    if len(fitting) < devices:
        there = sorted({d.device_class.fingerprint for d in host.of(hardware)})
        found = ", ".join(there) or host.problems.get(hardware, "none")
        return (
            f"this test was planned for {devices} x {fingerprint!r}, but of these the host now "
            f"has {len(fitting)}: the devices or their driver changed since. Run it again. "
            f"Found: {found}"
        )
    if hardware == "rocm" and host.torch is not None:
        python = "%d.%d" % sys.version_info[:2]
        if python != host.torch.python:
            return (
                f"the machine's torch {host.torch.version} is for Python {host.torch.python}, but "
                f"this test runs with Python {python}: set its `interpreter_constraints`, or name "
                "another interpreter in `[hardware].torch_pythons`"
            )
        now = installed_torch_version(Path(host.torch.site_packages))
        if now != host.torch.version:
            return (
                f"this test was planned for the machine's torch {host.torch.version}, but "
                f"{host.torch.site_packages} now has {now or 'none'}. Run it again."
            )
    return ""


def installed_torch_version(site_packages: Path) -> str | None:
    """`__version__` of the torch in that folder, read without importing it; None if there is
    none."""
    try:
        text = (site_packages / "torch" / "version.py").read_text(errors="replace")
    except OSError:
        return None
    version = re.search(r"""^__version__\s*(?::.*?)?=\s*['"]([^'"]+)['"]""", text, re.MULTILINE)
    return version.group(1) if version else None


@contextlib.contextmanager
def _noting(signals: list[int]) -> Iterator[None]:
    """Append to `signals` instead of dying: an exception out of a handler could leave a file half
    made."""

    def handler(signum: int, frame: object) -> None:
        signals.append(signum)

    noted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous = {signum: signal.signal(signum, handler) for signum in noted}
    try:
        yield
    finally:
        for signum, old in previous.items():
            signal.signal(signum, old)
