"""Download a file whose sha256 is known beforehand, once for everybody, from whoever has it.

A file lies at `<cache>/downloads/<sha256>` from when its bytes were verified, and at
`<sha256>.partial` until then. Whoever writes the partial holds a lock on it, so that two Pants runs
download once; whoever gets killed leaves it for the next one to resume.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import http.client
import json
import os
import random
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterable, Iterator, Sequence
from urllib.parse import quote, unquote, urlsplit

from pants_triton.artifact.connection import (
    Permanent,
    RangeNotSatisfiable,
    Stalling,
    Transient,
    network_problem,
    open_url,
    shown_status,
)
from pants_triton.artifact.errors import (
    EXIT_THIS_HOST,
    EXIT_UNREACHABLE,
    EXIT_WRONG_BYTES,
    LOCK_HINT,
    MIRROR_HINT,
    WARNING,
    FetchError,
    Report,
    local_error,
    name_in,
    os_reason,
    report_to_stderr,
    shown_size,
    shown_tries,
    shown_url,
)
from pants_triton.artifact.settings import Settings

_CHUNK = 1 << 20
_PROGRESS_INTERVAL_S = 5.0
# A try that got this much further doesn't count as a failed one: a big file over a bad line may
# break more often than there are tries.
_WORTHWHILE = 1 << 20


@dataclass(frozen=True)
class Wanted:
    """A file to download.

    :param name: its file name, for mirrors and messages.
    :param sha256: of all its bytes, lower-case hex.
    :param size: in bytes, None if unknown.
    :param locations: URLs that have it, best first; mirrors come before them.
    :param find: looks for more such URLs, if nobody else has it; may raise FetchError.
    :param way_out: what to do if nobody has it, for the message.
    """

    name: str
    sha256: str
    size: int | None
    locations: tuple[str, ...] = ()
    find: Callable[[], Sequence[str]] = tuple
    way_out: str = f"If it moved, correct the target or {LOCK_HINT}; else {MIRROR_HINT}"


def downloads(cache: Path) -> Path:
    """Where the verified files lie, by their sha256."""
    return cache / "downloads"


def cached(wanted: Wanted, cache: Path) -> bool:
    """Whether the file lies in the cache; its bytes aren't looked at."""
    return (downloads(cache) / wanted.sha256).is_file()


def kept(wanted: Wanted, cache: Path) -> bool:
    """Whether the file lies in the cache, with the right bytes. Raises FetchError."""
    with _local_problems(wanted, cache):
        handle = open_verified(wanted, downloads(cache) / wanted.sha256)
        if handle is None:
            return False
        handle.close()
        return True


@contextlib.contextmanager
def fetch(
    wanted: Wanted,
    settings: Settings,
    cache: Path,
    report: Report = report_to_stderr,
    downloaded: Callable[[Wanted], object] = lambda wanted: None,
) -> Iterator[BinaryIO]:
    """The file, opened for reading at its start, downloaded if the cache doesn't have it; then
    `downloaded` is called.

    Its bytes were verified through this very handle: what is in the cache is verified at each use,
    since nobody keeps others from writing there. Raises FetchError.
    """
    target = downloads(cache) / wanted.sha256
    with _local_problems(wanted, cache):
        handle = open_verified(wanted, target)
        if handle is None:
            target.parent.mkdir(parents=True, exist_ok=True)
            with _Partial.locked(target, wanted, report) as partial:
                # Another process may have downloaded it while this one waited for the lock.
                handle = open_verified(wanted, target)
                if handle is None:
                    with contextlib.suppress(FileNotFoundError):
                        target.unlink()
                        report(
                            f"{WARNING}{wanted.name} in the cache is damaged: downloading it again"
                        )
                    _download(wanted, _locations(wanted, settings), partial, settings, report)
                    partial.publish(target)
                    downloaded(wanted)
                    handle = open_verified(wanted, target)
    if handle is None:
        raise FetchError(
            f"{wanted.name}: the file {target} was changed as soon as it was written. Find out by "
            "whom, and try again.",
            EXIT_THIS_HOST,
        )
    with handle:
        yield handle


def adopt(path: Path, wanted: Wanted, cache: Path) -> bool:
    """Move a file that somebody else downloaded into the cache if it is the wanted one. Raises
    FetchError."""
    with _local_problems(wanted, cache):
        handle = open_verified(wanted, path)
        if handle is None:
            return False
        handle.close()
        downloads(cache).mkdir(parents=True, exist_ok=True)
        os.chmod(path, 0o444)
        os.replace(path, downloads(cache) / wanted.sha256)
        return True


@dataclass(frozen=True)
class Digested:
    """What a file turned out to be."""

    sha256: str
    size: int


def fetch_unknown(
    url: str, settings: Settings, cache: Path, report: Report = report_to_stderr
) -> Digested:
    """Download a file of which nothing is known yet, as when a lock is made; it is in the cache
    afterwards. Mirrors aren't asked: the lock's digest must be that of the location it names.
    Raises FetchError."""
    wanted = Wanted(
        name_in(url), "", None, (url,), way_out="Correct the location, or try again later"
    )
    key = "unknown-" + hashlib.sha256(url.encode()).hexdigest()
    with _local_problems(wanted, cache):
        downloads(cache).mkdir(parents=True, exist_ok=True)
        with _Partial.locked(downloads(cache) / key, wanted, report) as partial:
            _download(wanted, [_Location(url)], partial, settings, report)
            digested = Digested(partial.sha256(), partial.offset)
            partial.publish(downloads(cache) / digested.sha256)
    return digested


@contextlib.contextmanager
def _local_problems(wanted: Wanted, cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise local_error(f"{wanted.name}: can't write {downloads(cache)}", cache, e) from None


def open_verified(wanted: Wanted, path: Path) -> BinaryIO | None:
    """The file at `path`, opened at its start, if it is the wanted one; None if it isn't or there is
    none. Raises FetchError where only its size is another; may raise OSError."""
    try:
        handle = open(path, "rb")
    except FileNotFoundError:
        return None
    try:
        digest = hashlib.sha256()
        size = 0
        for chunk in iter(lambda: handle.read(_CHUNK), b""):
            digest.update(chunk)
            size += len(chunk)
        good = digest.hexdigest() == wanted.sha256
    except BaseException:
        handle.close()
        raise
    if not good:
        handle.close()
        return None
    if wanted.size is not None and size != wanted.size:
        handle.close()
        raise FetchError(
            f"{wanted.name}: its bytes have the locked sha256, but there are {size} of them and "
            f"the lock says {wanted.size}: the lock is wrong; {LOCK_HINT}.",
            EXIT_WRONG_BYTES,
        )
    handle.seek(0)
    return handle


# --- the partial file ------------------------------------------------------------------------


class _Partial:
    """The bytes got so far, in a file that this process has locked.

    The lock is on the file itself, so that none is left behind; whoever gets it must see whether
    the file is still the one with that name.
    """

    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd = fd
        self._digest = hashlib.sha256()
        self.offset = 0
        for chunk in iter(lambda: os.read(fd, _CHUNK), b""):
            self._digest.update(chunk)
            self.offset += len(chunk)
        #: Whether the bytes may be from two versions of a file.
        self.mixed = self.offset > 0

    @classmethod
    @contextlib.contextmanager
    def locked(cls, target: Path, wanted: Wanted, report: Report) -> Iterator[_Partial]:
        path = Path(f"{target}.partial")
        fd = cls._lock(path, wanted, report)
        try:
            partial = cls(path, fd)
            try:
                yield partial
            finally:
                # Under the lock: who waits for it will see that the name is gone.
                if not partial.offset:
                    partial._remove(path)
        finally:
            os.close(fd)

    @staticmethod
    def _lock(path: Path, wanted: Wanted, report: Report) -> int:
        told = False
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                while True:
                    try:
                        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        if not told:
                            report(f"waiting for another process that downloads {wanted.name}")
                            told = True
                        time.sleep(0.1)
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(fd), os.stat(path)):
                        return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)

    def append(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        while view:
            written = os.write(self._fd, view)
            self._digest.update(view[:written])
            self.offset += written
            view = view[written:]

    def restart(self) -> None:
        """Forget all bytes."""
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        self._digest = hashlib.sha256()
        self.offset = 0
        self.mixed = False
        self._remove(self._validator_path)

    def sha256(self) -> str:
        return self._digest.hexdigest()

    def publish(self, target: Path) -> None:
        os.fchmod(self._fd, 0o444)
        os.replace(self._path, target)
        self._remove(self._validator_path)
        # It has no name of its own any more that could be removed, see `locked`.
        self.offset = 0

    # Which version of which URL the bytes are from. Not the URL: it may hold a credential.

    @property
    def _validator_path(self) -> Path:
        return Path(f"{self._path}.json")

    def save_validator(self, url: str, validator: str) -> None:
        record = {"location": _url_key(url), "validator": validator}
        self._validator_path.write_text(json.dumps(record))

    def validator(self, url: str) -> str:
        """For If-Range; "" if the server gave none, or the bytes are from elsewhere."""
        try:
            record = json.loads(self._validator_path.read_text())
            return str(record["validator"]) if record["location"] == _url_key(url) else ""
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    @staticmethod
    def _remove(path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _url_key(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()


# --- one download ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Location:
    """`guess` is a mirror's URL that may well not exist."""

    url: str
    guess: bool = False


def _locations(wanted: Wanted, settings: Settings) -> Iterator[_Location]:
    for mirror in settings.mirrors:
        for name in (wanted.sha256, quote(wanted.name)):
            yield _Location(f"{mirror.rstrip('/')}/{name}", guess=True)
    for url in wanted.locations:
        yield _Location(url)
    for url in wanted.find():
        yield _Location(url)


def _download(
    wanted: Wanted,
    locations: Iterable[_Location],
    partial: _Partial,
    settings: Settings,
    report: Report,
) -> None:
    """Fill `partial` with the wanted bytes, verified, or raise FetchError."""
    failures: list[tuple[str, Permanent]] = []
    try:
        for location in locations:
            try:
                _download_from(location.url, wanted, partial, settings, report)
                return
            except Permanent as e:
                shown = shown_url(location.url)
                failures.append((shown, e))
                if location.guess and e.missing:
                    continue
                # Who set a mirror up should know that it doesn't serve, though another place does.
                is_mirror = location.guess or e.exit_code == EXIT_WRONG_BYTES
                report(f"{WARNING if is_mirror else ''}{wanted.name}: {shown}: {e}")
    except FetchError as e:
        # Of `find`; or of this host, where nothing failed before it.
        told = "; ".join(f"{shown}: {failure}" for shown, failure in failures)
        name = "" if wanted.name in str(e) else f"{wanted.name}: "
        before = f" Before that: {told}." if failures else ""
        raise FetchError(f"{name}{e}{before}", e.exit_code) from None
    told = "; ".join(f"{shown}: {e}" for shown, e in failures) or "nobody is known to have it"
    # Wrong bytes weigh more than a server that doesn't answer.
    exit_code = max([EXIT_UNREACHABLE, *(e.exit_code for _, e in failures)])
    hint = next((e.hint for _, e in reversed(failures) if e.hint), "") or wanted.way_out
    raise FetchError(
        f"{wanted.name} can't be downloaded: {told}. {hint}.",
        exit_code,
        missing=all(e.missing for _, e in failures),
        reason=told,
    )


def _download_from(
    url: str, wanted: Wanted, partial: _Partial, settings: Settings, report: Report
) -> None:
    tries, best = 0, partial.offset
    while True:
        try:
            _verify_or_go_on(url, wanted, partial, settings, report)
            return
        except Transient as e:
            if partial.offset >= best + _WORTHWHILE:
                tries = 0
            best = max(best, partial.offset)
            tries += 1
            if tries >= settings.tries:
                raise Permanent(f"{e} ({shown_tries(tries)})", hint=e.hint) from None
            # Half of it by chance: those who failed together shouldn't all come back together.
            wait_s = min(settings.backoff_s * 2 ** (tries - 1), settings.max_wait_s)
            wait_s = wait_s / 2 + random.uniform(0, wait_s / 2)
            wait_s = min(max(wait_s, e.wait_s), settings.max_wait_s)
            report(f"{wanted.name}: {shown_url(url)}: {e}: trying again in {wait_s:.1f} s")
            time.sleep(wait_s)


def _verify_or_go_on(
    url: str, wanted: Wanted, partial: _Partial, settings: Settings, report: Report
) -> None:
    """One try. Returns if `partial` then has the wanted bytes."""
    if partial.offset and wanted.size is not None and partial.offset >= wanted.size:
        # It was complete when a process was killed, or never came from a right place.
        if partial.offset == wanted.size and partial.sha256() == wanted.sha256:
            return
        partial.restart()
    progress = _Progress(wanted, partial.offset, shown_url(url), report)
    if urlsplit(url).scheme == "file":
        complete = _copy_file(url, wanted, partial, settings, progress)
    else:
        complete = _get(url, wanted, partial, settings, progress)
    if wanted.size is not None and partial.offset != wanted.size:
        got = partial.offset
        partial.restart()
        raise _wrong_size(wanted, got)
    if wanted.sha256 and partial.sha256() != wanted.sha256:
        got_sha256, mixed = partial.sha256(), partial.mixed
        partial.restart()
        if mixed:
            raise Transient("what it was resumed from doesn't fit")
        if not complete:
            raise Transient("the connection broke off")
        raise Permanent(
            f"wrong bytes: sha256 is {got_sha256}, locked is {wanted.sha256}",
            EXIT_WRONG_BYTES,
            f"Nothing of it was unpacked or kept. If the change is known and good, {LOCK_HINT}; "
            f"else tell who serves it, and {MIRROR_HINT}",
        )
    progress.done(partial.offset)


def _wrong_size(wanted: Wanted, got: int) -> Permanent:
    return Permanent(
        f"wrong size: it has {got} bytes, locked are {wanted.size}",
        EXIT_WRONG_BYTES,
        f"Nothing of it was unpacked or kept. If the change is known and good, {LOCK_HINT}; "
        f"else tell who serves it, and {MIRROR_HINT}",
    )


class _Progress:
    """Lines for people at sensible intervals."""

    def __init__(self, wanted: Wanted, offset: int, shown: str, report: Report) -> None:
        self._wanted = wanted
        self._shown = shown
        self._report = report
        self._first = offset
        self._start = self._last = time.monotonic()

    def at(self, offset: int) -> None:
        now = time.monotonic()
        if now - self._last < _PROGRESS_INTERVAL_S:
            return
        self._last = now
        size = self._wanted.size
        of = f" of {shown_size(size)} ({100 * offset // size} %)" if size else ""
        self._report(f"{self._wanted.name}: {shown_size(offset)}{of}{self._speed(offset)}")

    def done(self, offset: int) -> None:
        resumed = f", resumed at {shown_size(self._first)}" if self._first else ""
        self._report(
            f"{self._wanted.name}: {shown_size(offset)} from {self._shown}"
            f"{self._speed(offset)}{resumed}"
        )

    def _speed(self, offset: int) -> str:
        seconds = max(time.monotonic() - self._start, 0.001)
        return f", {shown_size(int((offset - self._first) / seconds))}/s"


def _bound(wanted: Wanted, settings: Settings) -> int:
    return settings.max_bytes if wanted.size is None else wanted.size


def _too_big(wanted: Wanted, settings: Settings) -> Permanent:
    if wanted.size is not None:
        return _wrong_size(wanted, wanted.size + 1)
    return Permanent(f"it has more than {shown_size(settings.max_bytes)}", EXIT_WRONG_BYTES)


def _copy_file(
    url: str, wanted: Wanted, partial: _Partial, settings: Settings, progress: _Progress
) -> bool:
    path = unquote(urlsplit(url).path)
    try:
        source = open(path, "rb")
    except (FileNotFoundError, NotADirectoryError):
        raise Permanent("there is no such file", missing=True) from None
    except (OSError, ValueError) as e:
        raise Permanent(f"can't read it: {os_reason(e)}") from None
    with source:
        status = os.fstat(source.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise Permanent("it is no regular file")
        if wanted.size is not None and status.st_size != wanted.size:
            raise _wrong_size(wanted, status.st_size)
        if status.st_size > _bound(wanted, settings):
            raise _too_big(wanted, settings)
        # A file is quick to read again, and needs no proof then that it is still the same.
        partial.restart()
        while True:
            try:
                chunk = source.read(_CHUNK)
            except OSError as e:
                raise Permanent(f"can't read it: {os_reason(e)}") from None
            if not chunk:
                return True
            partial.append(chunk)
            progress.at(partial.offset)
            if partial.offset > _bound(wanted, settings):
                partial.restart()
                raise _too_big(wanted, settings)


# --- HTTP ------------------------------------------------------------------------------------


def _get(
    url: str, wanted: Wanted, partial: _Partial, settings: Settings, progress: _Progress
) -> bool:
    """Append what a server sends. Returns whether it said that this was all of it."""
    headers = {}
    if partial.offset:
        validator = partial.validator(url)
        # Without a digest only the server can say that both halves are of one file.
        if validator or wanted.sha256:
            headers["Range"] = f"bytes={partial.offset}-"
            if validator:
                headers["If-Range"] = validator
        else:
            partial.restart()
    try:
        response = open_url(url, settings, headers)
    except RangeNotSatisfiable:
        # There is nothing after what we have: it is complete, or of another version.
        if wanted.sha256 and partial.sha256() == wanted.sha256:
            return True
        partial.restart()
        raise Transient("the server has less of it than an earlier run left") from None
    with response:
        total = _start_body(url, response, wanted, partial, settings)
        read = Stalling(response, settings.stall_timeout_s).read
        while True:
            try:
                chunk = read()
            except (OSError, http.client.HTTPException) as e:
                raise network_problem(e, settings) from None
            if not chunk:
                break
            partial.append(chunk)
            progress.at(partial.offset)
            if partial.offset > _bound(wanted, settings):
                partial.restart()
                raise _too_big(wanted, settings)
        if total is not None and partial.offset < total:
            raise Transient(f"the connection broke off after {partial.offset} of {total} bytes")
        complete = total is not None or _is_chunked(response)
        if not complete and wanted.size is not None and partial.offset < wanted.size:
            raise Transient(
                f"the connection broke off after {partial.offset} of {wanted.size} bytes"
            )
        return complete


def _start_body(
    url: str, response: Any, wanted: Wanted, partial: _Partial, settings: Settings
) -> int | None:
    """Make `partial` ready for the body; returns the whole file's size as the server says it."""
    length = response.headers.get("Content-Length", "")
    total = int(length) if re.fullmatch(r"[0-9]{1,18}", length) else None
    if _is_chunked(response):
        total = None
    if response.status == 206:
        first, size = _content_range(response.headers.get("Content-Range", ""))
        if first != partial.offset:
            partial.restart()
            raise Transient("the server sent another part than the one asked for")
        partial.mixed = partial.offset > 0
        total = size if size is not None else None if total is None else total + partial.offset
    elif response.status == 200:
        partial.restart()
    else:
        raise Permanent(f"the server answered {shown_status(response.status)}")
    if total is not None:
        if wanted.size is not None and total != wanted.size:
            raise _wrong_size(wanted, total)
        if total > _bound(wanted, settings):
            raise _too_big(wanted, settings)
    if response.status == 200:
        # Weak ones don't promise equal bytes; a date does, for a server that knows it (RFC 9110).
        etag = response.headers.get("ETag", "")
        strong = etag if etag.startswith('"') else ""
        partial.save_validator(url, strong or response.headers.get("Last-Modified", ""))
    return total


def _is_chunked(response: Any) -> bool:
    return "chunked" in response.headers.get("Transfer-Encoding", "").lower()


def _content_range(value: str) -> tuple[int | None, int | None]:
    match = re.fullmatch(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)", value.strip())
    if not match:
        return None, None
    return int(match[1]), None if match[2] == "*" else int(match[2])
