"""Download a file whose sha256 is known beforehand, once for everybody, from whoever has it.

A file lies at `<cache>/downloads/<sha256>` from when its bytes were verified, and at
`<sha256>.partial` until then. Whoever writes the partial holds a lock on it, so that two Pants runs
download once; whoever gets killed leaves it for the next one to resume.

What isn't the same for everybody (mirrors, indexes, credentials, proxies, patience) must be in no
process's cache key: it is read from a file in the cache folder, see `Settings`.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import email.utils
import errno
import fcntl
import functools
import hashlib
import http.client
import json
import netrc
import os
import random
import re
import shutil
import socket
import ssl
import stat
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

# Exit codes of the program, by what its user can do about it.
EXIT_UNREACHABLE = 3
EXIT_WRONG_BYTES = 4
EXIT_UNUSABLE = 5
EXIT_THIS_HOST = 6

LOCK_HINT = "run `./pants lock-artifacts` and read the diff"
MIRROR_HINT = "name a mirror that has it in `[artifact].mirrors`"

_CHUNK = 1 << 20
_PROGRESS_INTERVAL_S = 5.0
# A try that got this much further doesn't count as a failed one: a big file over a bad line may
# break more often than there are tries.
_WORTHWHILE = 1 << 20
# Fewer bytes a second than this is a stall too, or a server that sends a byte now and then would
# hold us for ever. Measured over the stall timeout.
_MIN_BYTES_PER_SECOND = 64
_USER_AGENT = "pants-triton"


class FetchError(Exception):
    """An artifact can't be had. The text is one line that names the file, what happened at which
    location, and the way out; it holds no credentials.

    :param exit_code: one of the EXIT_… constants.
    :param missing: every location answered, and said that it doesn't have the file.
    """

    def __init__(self, text: str, exit_code: int, *, missing: bool = False) -> None:
        super().__init__(text)
        self.exit_code = exit_code
        self.missing = missing


# --- settings --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """How this user's downloads are done. Nothing here changes a tree's bytes.

    :param mirrors: URL prefixes (`file:`, `https:`, `http:`), tried in order before the location
        in the lock: `<mirror>/<sha256>`, then `<mirror>/<file name>`. The `downloads` folder of
        another cache is such a mirror.
    :param indexes: simple-API URLs of the package indexes that have the wheels.
    :param debian_mirror: instead of the mirror in the host's apt sources.
    :param environment: variables that this program shall see as if they were in its environment:
        `HOME`, `NETRC`, `SSL_CERT_FILE`, proxies, and those that `credentials` names.
    :param credentials: host, or host:port, to the name of a variable that holds `user:password`
        or a bearer token. Other hosts' credentials come from netrc.
    :param tries: how often a location is tried before the next one is, if trying again can help.
    :param stall_timeout_s: seconds without a byte after which a connection is given up.
    :param backoff_s: the first wait between two tries, in seconds; it doubles each time.
    :param max_wait_s: seconds that no wait exceeds, whatever a server's Retry-After says.
    :param max_bytes: the size in bytes that neither a download of unknown size nor a tree exceeds.
    :param max_members: the number of files, folders and links that no archive exceeds.
    :param max_ratio: how many times an archive's own size its content may have.
    """

    mirrors: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    debian_mirror: str = ""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: Mapping[str, str] = field(default_factory=dict)
    tries: int = 5
    stall_timeout_s: float = 60.0
    backoff_s: float = 1.0
    max_wait_s: float = 120.0
    max_bytes: int = 20 << 30
    max_members: int = 1_000_000
    max_ratio: float = 200.0


def settings_path(cache: Path, parent_pid: int | None = None) -> Path:
    """Where the settings lie: those for the children of one process, or for everybody else."""
    return cache / (f"settings-{parent_pid}.json" if parent_pid else "settings.json")


def load_settings(cache: Path) -> Settings:
    """The settings that the parent process left for its children, or else those for everybody, or
    else the defaults: two Pants runs that share a cache may have different mirrors.

    The file is a JSON object whose keys are Settings' fields, all optional; lists for tuples. Raises
    FetchError where it is something else.
    """
    path = settings_path(cache, os.getppid())
    if not path.exists():
        path = settings_path(cache)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeError) as e:
        raise _bad_settings(path, type(e).__name__) from None
    try:
        data = json.loads(text)
    except ValueError:
        raise _bad_settings(path, "it is not JSON") from None
    if not isinstance(data, dict):
        raise _bad_settings(path, "it is not a JSON object")
    values: dict[str, Any] = {}
    for item in dataclasses.fields(Settings):
        if item.name in data:
            value = data.pop(item.name)
            expected = _SETTING_KINDS[str(item.type)]
            if not expected[1](value):
                # Not the value: it may be a credential.
                raise _bad_settings(path, f"`{item.name}` must be {expected[0]}")
            values[item.name] = tuple(value) if isinstance(value, list) else value
    if data:
        raise _bad_settings(path, f"unknown: {', '.join(sorted(data))}")
    settings = Settings(**values)
    for url in (*settings.mirrors, *settings.indexes):
        if urlsplit(url).scheme not in ("file", "https", "http"):
            raise _bad_settings(path, f"{shown_url(url)} is no `https:`, `http:` or `file:` URL")
    return settings


def _bad_settings(path: Path, problem: str) -> FetchError:
    return FetchError(
        f"The settings of this user's downloads, {path}, can't be used: {problem}. Pants writes "
        "them from the options of `[artifact]`: correct these, or delete the file.",
        EXIT_THIS_HOST,
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _is_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())


def _is_positive_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e12


_SETTING_KINDS: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "tuple[str, ...]": ("a list of texts", _is_texts),
    "str": ("a text", _is_text),
    "Mapping[str, str]": ("an object of texts", _is_map),
    "int": ("a whole number above 0", _is_positive_int),
    "float": ("a number above 0", _is_positive),
}


# --- what is wanted --------------------------------------------------------------------------


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
    way_out: str = f"If it moved, {LOCK_HINT}; else {MIRROR_HINT}"


Report = Callable[[str], None]


def report_to_stderr(line: str) -> None:
    print(f"pants-triton: {line}", file=sys.stderr, flush=True)


def name_in(url: str) -> str:
    """The file name that a URL ends in, without its escapes."""
    return unquote(urlsplit(url).path).rstrip("/").rpartition("/")[2]


def shown_url(url: str) -> str:
    """`url` as it may be printed: without user, password, query and fragment, any of which can be
    secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "a malformed URL"
    netloc = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, netloc, parts.path, "", "")) or "an empty URL"


def downloads(cache: Path) -> Path:
    """Where the verified files lie, by their sha256."""
    return cache / "downloads"


def cached(wanted: Wanted, cache: Path) -> bool:
    """Whether the file lies in the cache; its bytes aren't looked at."""
    return (downloads(cache) / wanted.sha256).is_file()


@contextlib.contextmanager
def fetch(
    wanted: Wanted, settings: Settings, cache: Path, report: Report = report_to_stderr
) -> Iterator[BinaryIO]:
    """The file, opened for reading at its start, downloaded if the cache doesn't have it.

    Its bytes were verified through this very handle: what is in the cache is verified at each use,
    since nobody keeps others from writing there. Raises FetchError.
    """
    target = downloads(cache) / wanted.sha256
    with _local_problems(wanted, cache):
        handle = _open_verified(wanted, target)
        if handle is None:
            target.parent.mkdir(parents=True, exist_ok=True)
            with _Partial.locked(target, wanted, report) as partial:
                # Another process may have downloaded it while this one waited for the lock.
                handle = _open_verified(wanted, target)
                if handle is None:
                    with contextlib.suppress(FileNotFoundError):
                        target.unlink()
                        report(f"{wanted.name} in the cache is damaged: downloading it again")
                    _download(wanted, _locations(wanted, settings), partial, settings, report)
                    partial.publish(target)
                    handle = _open_verified(wanted, target)
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
        handle = _open_verified(wanted, path)
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


def local_error(what: str, place: Path, e: OSError) -> FetchError:
    """The FetchError for a file system that doesn't do what it should. `what` was being done."""
    if e.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        free = ""
        with contextlib.suppress(OSError):
            free = f" ({shown_size(shutil.disk_usage(place).free)} free)"
        reason = "the disk is full" if e.errno == errno.ENOSPC else _os_reason(e).lower()
        hint = f"Make room{free}, and try again: what was downloaded is kept and resumed"
        return FetchError(f"{what}: {reason}. {hint}.", EXIT_THIS_HOST)
    return FetchError(
        f"{what}: {e.strerror or type(e).__name__}"
        f"{f' ({e.filename})' if e.filename else ''}. Correct that, and try again.",
        EXIT_THIS_HOST,
    )


def shown_size(size: int) -> str:
    """`273.1 MB` (decimal), for people."""
    if size < 1000:
        return f"{size} bytes"
    value, unit = size / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if value >= 999.95:
            value, unit = value / 1000, larger
    return f"{value:.1f} {unit}"


def _open_verified(wanted: Wanted, path: Path) -> BinaryIO | None:
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


class _Transient(Exception):
    """Trying again can help. `wait_s` is what the server asked for."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class _Permanent(Exception):
    """Trying again at the same location can't help. `hint` replaces the usual way out."""

    def __init__(
        self, reason: str, exit_code: int = EXIT_UNREACHABLE, hint: str = "", missing: bool = False
    ) -> None:
        super().__init__(reason)
        self.exit_code = exit_code
        self.hint = hint
        self.missing = missing


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
    failures: list[tuple[str, _Permanent]] = []
    try:
        for location in locations:
            try:
                _download_from(location.url, wanted, partial, settings, report)
                return
            except _Permanent as e:
                shown = shown_url(location.url)
                failures.append((shown, e))
                if not (location.guess and e.missing):
                    report(f"{wanted.name}: {shown}: {e}")
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
    )


def _download_from(
    url: str, wanted: Wanted, partial: _Partial, settings: Settings, report: Report
) -> None:
    tries, best = 0, partial.offset
    while True:
        try:
            _verify_or_go_on(url, wanted, partial, settings, report)
            return
        except _Transient as e:
            if partial.offset >= best + _WORTHWHILE:
                tries = 0
            best = max(best, partial.offset)
            tries += 1
            if tries >= settings.tries:
                raise _Permanent(f"{e} ({tries} tries)") from None
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
            raise _Transient("what it was resumed from doesn't fit")
        if not complete:
            raise _Transient("the connection broke off")
        raise _Permanent(
            f"wrong bytes: sha256 is {got_sha256}, locked is {wanted.sha256}",
            EXIT_WRONG_BYTES,
            f"Nothing of it was unpacked or kept. If the change is known and good, {LOCK_HINT}; "
            f"else tell who serves it, and {MIRROR_HINT}",
        )
    progress.done(partial.offset)


def _wrong_size(wanted: Wanted, got: int) -> _Permanent:
    return _Permanent(
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


def _too_big(wanted: Wanted, settings: Settings) -> _Permanent:
    if wanted.size is not None:
        return _wrong_size(wanted, wanted.size + 1)
    return _Permanent(f"it has more than {shown_size(settings.max_bytes)}", EXIT_WRONG_BYTES)


def _copy_file(
    url: str, wanted: Wanted, partial: _Partial, settings: Settings, progress: _Progress
) -> bool:
    path = unquote(urlsplit(url).path)
    try:
        source = open(path, "rb")
    except (FileNotFoundError, NotADirectoryError):
        raise _Permanent("there is no such file", missing=True) from None
    except (OSError, ValueError) as e:
        raise _Permanent(f"can't read it: {_os_reason(e)}") from None
    with source:
        status = os.fstat(source.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise _Permanent("it is no regular file")
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
                raise _Permanent(f"can't read it: {_os_reason(e)}") from None
            if not chunk:
                return True
            partial.append(chunk)
            progress.at(partial.offset)
            if partial.offset > _bound(wanted, settings):
                partial.restart()
                raise _too_big(wanted, settings)


def _os_reason(e: Exception) -> str:
    return str(getattr(e, "strerror", "") or type(e).__name__)


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
    except _RangeNotSatisfiable:
        # There is nothing after what we have: it is complete, or of another version.
        if wanted.sha256 and partial.sha256() == wanted.sha256:
            return True
        partial.restart()
        raise _Transient("the server has less of it than an earlier run left") from None
    with response:
        total = _start_body(url, response, wanted, partial, settings)
        read = _Stalling(response, settings.stall_timeout_s).read
        while True:
            try:
                chunk = read()
            except (OSError, http.client.HTTPException) as e:
                raise _network_problem(e, settings) from None
            if not chunk:
                break
            partial.append(chunk)
            progress.at(partial.offset)
            if partial.offset > _bound(wanted, settings):
                partial.restart()
                raise _too_big(wanted, settings)
        if total is not None and partial.offset < total:
            raise _Transient(f"the connection broke off after {partial.offset} of {total} bytes")
        complete = total is not None or _is_chunked(response)
        if not complete and wanted.size is not None and partial.offset < wanted.size:
            raise _Transient(
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
            raise _Transient("the server sent another part than the one asked for")
        partial.mixed = partial.offset > 0
        total = size if size is not None else None if total is None else total + partial.offset
    elif response.status == 200:
        partial.restart()
    else:
        raise _Permanent(f"the server answered {_shown_status(response.status)}")
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


class _Stalling:
    """Reads a response as it comes in, and gives up on one that hardly does."""

    def __init__(self, response: Any, timeout_s: float) -> None:
        self._response = response
        self._timeout_s = timeout_s
        self._since = time.monotonic()
        self._bytes = 0

    def read(self) -> bytes:
        chunk: bytes = self._response.read1(_CHUNK)
        self._bytes += len(chunk)
        seconds = time.monotonic() - self._since
        if chunk and seconds >= self._timeout_s:
            if self._bytes < _MIN_BYTES_PER_SECOND * seconds:
                raise socket.timeout("stalled")
            self._since, self._bytes = time.monotonic(), 0
        return chunk


class _RangeNotSatisfiable(Exception):
    pass


def open_url(url: str, settings: Settings, headers: Mapping[str, str] = {}) -> Any:
    """The response to a GET, with `status` 200 or 206, as `http.client.HTTPResponse`.

    Raises what the caller's own retrying is for: `_Transient`, `_Permanent`, and
    `_RangeNotSatisfiable` where a range was asked for.
    """
    try:
        request = urllib.request.Request(_bare(url), headers=dict(headers))
        request.add_header("User-Agent", _USER_AGENT)
        request.add_header("Accept-Encoding", "identity")
        _authorize(request, url, settings)
        return _opener(settings).open(request, timeout=settings.stall_timeout_s)
    except urllib.error.HTTPError as e:
        with e:
            if e.code == 416 and "Range" in headers:
                raise _RangeNotSatisfiable from None
            raise _status_problem(e) from None
    except urllib.error.URLError as e:
        reason = e.reason if isinstance(e.reason, Exception) else OSError(str(e.reason))
        raise _network_problem(reason, settings) from None
    except (OSError, http.client.HTTPException) as e:
        raise _network_problem(e, settings) from None
    except (ValueError, UnicodeError):
        raise _Permanent("this is no URL that can be fetched") from None


def read_url(
    url: str, settings: Settings, headers: Mapping[str, str], limit: int, report: Report
) -> tuple[str, str, bytes]:
    """A small document: its URL after redirects (without credentials), media type and bytes.

    Retries as a download does. Raises FileNotFoundError where there is none, FetchError else.
    """
    tries = 0
    while True:
        try:
            with open_url(url, settings, headers) as response:
                body = bytearray()
                read = _Stalling(response, settings.stall_timeout_s).read
                try:
                    for chunk in iter(read, b""):
                        body += chunk
                        if len(body) > limit:
                            raise _Permanent(f"it has more than {shown_size(limit)}")
                except (OSError, http.client.HTTPException) as e:
                    raise _network_problem(e, settings) from None
                length = response.headers.get("Content-Length", "")
                if length.isdigit() and len(body) < int(length):
                    raise _Transient("the connection broke off")
                if response.status != 200:
                    raise _Permanent(f"the server answered {_shown_status(response.status)}")
                media_type = response.headers.get_content_type()
                return response.geturl(), media_type, bytes(body)
        except _Permanent as e:
            if e.missing:
                raise FileNotFoundError(shown_url(url)) from None
            hint = e.hint or "Correct that, or try again later"
            raise FetchError(f"{shown_url(url)}: {e}. {hint}.", e.exit_code) from None
        except _Transient as e:
            tries += 1
            if tries >= settings.tries:
                raise FetchError(
                    f"{shown_url(url)}: {e} ({tries} tries). Try again later.", EXIT_UNREACHABLE
                ) from None
            wait_s = min(settings.backoff_s * 2 ** (tries - 1), settings.max_wait_s)
            wait_s = min(max(random.uniform(wait_s / 2, wait_s), e.wait_s), settings.max_wait_s)
            report(f"{shown_url(url)}: {e}: trying again in {wait_s:.1f} s")
            time.sleep(wait_s)


def _opener(settings: Settings) -> urllib.request.OpenerDirector:
    context = _tls(os.environ.get("SSL_CERT_FILE") or None)
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirects(settings),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


# Reading some hundred certificates takes longer than a small download.
@functools.lru_cache(maxsize=None)
def _tls(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as e:
        raise FetchError(
            f"The CA certificates in {ca_file} (SSL_CERT_FILE) can't be read: {_os_reason(e)}. "
            "Correct the variable.",
            EXIT_THIS_HOST,
        ) from None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Each host gets its own credentials and nobody else's, and only HTTP is followed to."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        target = urljoin(req.full_url, newurl)
        if urlsplit(target).scheme not in ("http", "https"):
            return None
        request = super().redirect_request(req, fp, code, msg, headers, _bare(target))
        # A https: location that sends us to http: gets no credentials for that: see `_authorize`.
        if request is not None:
            _authorize(request, _bare(target), self._settings)
        return request

    # Python 3.8 to 3.10 don't know this code.
    http_error_308 = urllib.request.HTTPRedirectHandler.http_error_302


def _status_problem(e: urllib.error.HTTPError) -> Exception:
    code = e.code
    status = f"the server answered {_shown_status(code)}"
    if code == 429 or code >= 500:
        return _Transient(status, _retry_after(e.headers.get("Retry-After", "")))
    if code in (404, 410):
        return _Permanent(status, missing=True)
    if code in (401, 403, 407):
        _, netrc_problem = _netrc()
        return _Permanent(
            f"{status} ({netrc_problem})" if netrc_problem else status,
            hint="If it needs credentials, give them in netrc or by a variable that "
            "`[artifact]` names; they are sent over https: only",
        )
    if 300 <= code < 400:
        return _Permanent("its redirects lead in a circle, or to nothing that can be fetched")
    return _Permanent(status)


def _shown_status(code: int) -> str:
    # Not the server's own phrase: it may be anything.
    return f"{code} {http.client.responses.get(code, '')}".strip()


def _retry_after(value: str) -> float:
    """Seconds; 0 where the header (RFC 9110, 10.2.3) says nothing that can be understood."""
    if re.fullmatch(r"\s*[0-9]{1,9}\s*", value):
        return float(value)
    with contextlib.suppress(ValueError, TypeError, IndexError, OverflowError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    return 0.0


def _network_problem(e: BaseException, settings: Settings) -> Exception:
    if isinstance(e, ssl.SSLCertVerificationError):
        return _tls_problem(f"its certificate isn't trusted: {e.verify_message}")
    if isinstance(e, socket.timeout):
        return _Transient(f"nothing came for {settings.stall_timeout_s:g} s")
    if isinstance(e, ssl.SSLError) and not isinstance(
        e, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
    ):
        reason = (e.reason or "unknown").replace("_", " ").lower()
        return _tls_problem(f"no secure connection: {reason}")
    if isinstance(e, socket.gaierror):
        if e.errno == socket.EAI_AGAIN:
            return _Transient("its host's name can't be resolved just now")
        return _Permanent("its host's name is unknown")
    if isinstance(e, http.client.IncompleteRead):
        return _Transient("the connection broke off")
    if isinstance(e, http.client.InvalidURL):
        return _Permanent("this is no URL that can be fetched")
    if isinstance(e, http.client.HTTPException) and not isinstance(
        e, http.client.RemoteDisconnected
    ):
        return _Transient(f"the server doesn't speak HTTP: {type(e).__name__}")
    reason = getattr(e, "strerror", None) or type(e).__name__
    return _Transient(f"no connection: {reason}")


def _tls_problem(reason: str) -> _Permanent:
    return _Permanent(
        reason,
        hint="If the host is right, name its CA's certificates in the variable SSL_CERT_FILE, or "
        + MIRROR_HINT,
    )


# --- credentials -----------------------------------------------------------------------------


def _bare(url: str) -> str:
    """`url` without user, password and fragment: what a request may be made of."""
    parts = urlsplit(url)
    netloc = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, netloc, parts.path, parts.query, ""))


def _authorize(request: urllib.request.Request, url: str, settings: Settings) -> None:
    value = _authorization(url, settings)
    if value:
        # Of this request alone: urllib would hand an ordinary header to whoever it is redirected to.
        request.add_unredirected_header("Authorization", value)


def _authorization(url: str, settings: Settings) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "https" and host not in ("127.0.0.1", "::1", "localhost"):
        return ""
    port = f"{host}:{parts.port}" if parts.port else host
    variable = settings.credentials.get(port) or settings.credentials.get(host)
    if variable:
        secret = os.environ.get(variable, "")
        if not secret:
            raise FetchError(
                f"The variable {variable}, which holds the credentials for {host}, isn't set. Set "
                "it, or take it out of the options of `[artifact]`.",
                EXIT_THIS_HOST,
            )
        return _basic(secret) if ":" in secret else f"Bearer {_header_safe(variable, secret)}"
    if parts.username is not None:
        return _basic(f"{unquote(parts.username)}:{unquote(parts.password or '')}")
    entry = _netrc()[0].get(host)
    return _basic(f"{entry[0]}:{entry[2]}") if entry else ""


def _header_safe(variable: str, secret: str) -> str:
    if re.fullmatch(r"[\x21-\x7e]+", secret):
        return secret
    raise FetchError(
        f"The variable {variable} holds no token: there are blanks or other odd characters in it. "
        "Correct it.",
        EXIT_THIS_HOST,
    )


def _basic(user_and_password: str) -> str:
    return "Basic " + base64.b64encode(user_and_password.encode()).decode()


def _netrc() -> tuple[Mapping[str, tuple[Any, Any, Any]], str]:
    """Host to (login, account, password), and what is wrong with the file. The `default` entry is
    left out: a server may redirect us to any host."""
    path = os.environ.get("NETRC") or os.path.expanduser("~/.netrc")
    try:
        hosts: Mapping[str, tuple[Any, Any, Any]] = netrc.netrc(path).hosts
    except FileNotFoundError:
        return {}, ""
    except OSError as e:
        return {}, f"{path} can't be read: {_os_reason(e)}"
    except netrc.NetrcParseError as e:
        # Its text may quote the password it stumbled over. Most downloads need none of it.
        return {}, f"{path}: line {e.lineno} can't be understood"
    except UnicodeError:
        return {}, f"{path} is not UTF-8"
    return {host: entry for host, entry in hosts.items() if host != "default"}, ""


def apply_environment(settings: Settings) -> None:
    """Make the settings' variables this process's own."""
    os.environ.update(settings.environment)
