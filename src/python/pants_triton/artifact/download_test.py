from __future__ import annotations

import contextlib
import email.utils
import errno
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from pants_triton.artifact import download, misbehaving
from pants_triton.artifact.download import (
    Wanted,
    adopt,
    cached,
    fetch,
    fetch_unknown,
)
from pants_triton.artifact.errors import (
    EXIT_THIS_HOST,
    EXIT_UNREACHABLE,
    EXIT_WRONG_BYTES,
    WARNING,
    FetchError,
)
from pants_triton.artifact.misbehaving import Server
from pants_triton.artifact.settings import Settings

# Not compressible, and of several pieces of any buffer.
DATA = b"".join(hashlib.sha256(b"%d" % i).digest() for i in range(50_000))
SHA256 = hashlib.sha256(DATA).hexdigest()
OTHER = DATA[:-1] + b"?"
NAME = "llvm-1a2b3c4d-ubuntu-x64.tar.gz"
PATH = f"/{NAME}"
SECRET = "s3cr3t"

# Generous: a bound for a machine that is busy with other things, not an expectation.
PATIENCE_S = 30

QUICK = Settings(tries=3, stall_timeout_s=0.5, backoff_s=0.01, max_wait_s=0.3)


@pytest.fixture
def server() -> Iterator[Server]:
    with misbehaving.running() as running:
        yield running


@pytest.fixture(autouse=True)
def no_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("NETRC", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


class Told:
    """What was reported."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def wanted(*locations: str, **changes: Any) -> Wanted:
    values: dict[str, Any] = {"name": NAME, "sha256": SHA256, "size": len(DATA)}
    return Wanted(**{**values, **changes}, locations=locations)


def get(what: Wanted, cache: Path, settings: Settings = QUICK, told: Told | None = None) -> bytes:
    with fetch(what, settings, cache, told or Told()) as file:
        return file.read()


def failure(what: Wanted, cache: Path, settings: Settings = QUICK) -> FetchError:
    with pytest.raises(FetchError) as e:
        get(what, cache, settings)
    assert "\n" not in str(e.value)
    assert what.name in str(e.value)
    return e.value


def files(cache: Path) -> dict[str, bytes]:
    """What is in the cache, by kind."""
    folder = cache / "downloads"
    found = sorted(folder.iterdir()) if folder.exists() else []
    return {path.name.replace(SHA256, "SHA256"): path.read_bytes() for path in found}


def leave_partial(cache: Path, data: bytes) -> None:
    (cache / "downloads").mkdir(parents=True)
    (cache / "downloads" / f"{SHA256}.partial").write_bytes(data)


# -- what goes well -------------------------------------------------------------------------------


def test_a_download_is_verified_and_kept(server: Server, cache: Path) -> None:
    what = wanted(server.on(PATH, misbehaving.file(DATA)))
    assert not cached(what, cache)
    assert get(what, cache) == DATA
    assert get(what, cache) == DATA
    assert cached(what, cache)
    assert len(server.log) == 1
    assert files(cache) == {"SHA256": DATA}


@pytest.mark.parametrize("size", [len(DATA), None])
@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(misbehaving.file(DATA), id="with a length"),
        pytest.param(misbehaving.chunked(DATA), id="chunked"),
        pytest.param(
            misbehaving.broken_off(DATA, len(DATA), say_length=False), id="until it hangs up"
        ),
        pytest.param(misbehaving.file(DATA, headers={"Content-Encoding": "gzip"}), id="as gzip"),
    ],
)
def test_ways_to_send_a_file(
    server: Server, cache: Path, behaviour: misbehaving.Behaviour, size: int | None
) -> None:
    assert get(wanted(server.on(PATH, behaviour), size=size), cache) == DATA


def test_a_file_on_this_host(cache: Path, tmp_path: Path) -> None:
    source = tmp_path / "with blank" / NAME
    source.parent.mkdir()
    source.write_bytes(DATA)
    assert get(wanted(source.as_uri()), cache) == DATA


def test_what_a_location_has_is_told_for_the_lock(server: Server, cache: Path) -> None:
    url = server.on(PATH, misbehaving.broken_off(DATA, 1000), misbehaving.file(DATA))
    digested = fetch_unknown(url, QUICK, cache, Told())
    assert (digested.sha256, digested.size) == (SHA256, len(DATA))
    # It was resumed: the server said that it is still the same file.
    assert [r.headers.get("range") for r in server.log] == [None, "bytes=1000-"]
    assert get(wanted(url), cache) == DATA
    assert len(server.log) == 2
    assert files(cache) == {"SHA256": DATA}


def test_halves_of_two_files_are_never_taken_for_one(server: Server, cache: Path) -> None:
    behaviours = (misbehaving.broken_off(OTHER, 1000), misbehaving.file(DATA))
    assert fetch_unknown(server.on(PATH, *behaviours), QUICK, cache, Told()).sha256 == SHA256
    assert [r.sent for r in server.log] == [1000, len(DATA)]
    no_tags = (
        misbehaving.broken_off(OTHER, 1000, etag="W/weak"),
        misbehaving.file(DATA, etag="W/weak"),
    )
    assert fetch_unknown(server.on("/b", *no_tags), QUICK, cache, Told()).sha256 == SHA256


# -- mirrors --------------------------------------------------------------------------------------


def test_mirrors_are_asked_in_order_and_before_the_location(server: Server, cache: Path) -> None:
    server.on(f"/second/{NAME}", misbehaving.file(DATA))
    location = server.on(PATH, misbehaving.file(DATA))
    mirrors = (f"{server.url}/first", f"{server.url}/second/")
    assert get(wanted(location), cache, Settings(mirrors=mirrors)) == DATA
    assert [r.path for r in server.log] == [
        f"/first/{SHA256}",
        f"/first/{NAME}",
        f"/second/{SHA256}",
        f"/second/{NAME}",
    ]


def test_the_downloads_of_one_user_are_a_mirror_for_another(tmp_path: Path) -> None:
    source = tmp_path / NAME
    source.write_bytes(DATA)
    get(wanted(source.as_uri()), tmp_path / "first")
    source.unlink()
    mirror = (tmp_path / "first/downloads").as_uri()
    assert get(wanted(source.as_uri()), tmp_path / "second", Settings(mirrors=(mirror,))) == DATA


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(misbehaving.file(OTHER), id="wrong bytes"),
        pytest.param(misbehaving.file(DATA[1:]), id="wrong size"),
        pytest.param(misbehaving.status(503), id="down"),
        pytest.param(misbehaving.hanging(), id="hangs"),
    ],
)
def test_a_bad_mirror_is_passed_over_and_told_of(
    server: Server, cache: Path, bad: misbehaving.Behaviour
) -> None:
    server.on(f"/mirror/{SHA256}", bad)
    location = server.on(PATH, misbehaving.file(DATA))
    told = Told()
    settings = Settings(
        mirrors=(f"{server.url}/mirror",), tries=2, stall_timeout_s=0.3, backoff_s=0.01
    )
    assert get(wanted(location), cache, settings, told) == DATA
    # Whose mirror it is wants to know, though all went well.
    (line,) = (line for line in told.lines if line.startswith(WARNING))
    assert line.startswith(f"{WARNING}{NAME}: {server.url}/mirror/{SHA256}: ")
    assert files(cache) == {"SHA256": DATA}


def test_who_downloads_is_told(server: Server, cache: Path) -> None:
    what = wanted(server.on(PATH, misbehaving.file(DATA)))
    new: list[Wanted] = []
    told = Told()

    def fetch_it() -> None:
        with fetch(what, QUICK, cache, told, new.append):
            pass

    fetch_it()
    fetch_it()
    assert new == [what]
    # What was kept and got damaged isn't what it was.
    kept = cache / "downloads" / SHA256
    kept.chmod(0o644)
    kept.write_bytes(OTHER)
    fetch_it()
    assert new == [what, what]
    assert f"{WARNING}{NAME} in the cache is damaged: downloading it again" in told.lines


def test_more_locations_are_looked_for_only_if_needed(server: Server, cache: Path) -> None:
    def find() -> tuple[str, ...]:
        return (server.on("/found", misbehaving.file(DATA)),)

    def never() -> tuple[str, ...]:
        raise AssertionError("nobody had to be asked")

    what = wanted(server.url + "/gone", find=find)
    assert get(what, cache) == DATA
    assert get(wanted(find=never), cache) == DATA


# -- what doesn't heal ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "behaviour, size, text, exit_code",
    [
        pytest.param(
            misbehaving.file(OTHER),
            len(DATA),
            f"wrong bytes: sha256 is {hashlib.sha256(OTHER).hexdigest()}, locked is {SHA256}",
            EXIT_WRONG_BYTES,
            id="wrong hash",
        ),
        pytest.param(
            misbehaving.file(DATA + b"?"),
            len(DATA),
            f"wrong size: it has {len(DATA) + 1} bytes, locked are {len(DATA)}",
            EXIT_WRONG_BYTES,
            id="too big",
        ),
        pytest.param(
            misbehaving.file(DATA[:-1]),
            len(DATA),
            f"wrong size: it has {len(DATA) - 1} bytes, locked are {len(DATA)}",
            EXIT_WRONG_BYTES,
            id="too small",
        ),
        pytest.param(
            misbehaving.chunked(DATA + bytes(1 << 20)),
            len(DATA),
            "wrong size",
            EXIT_WRONG_BYTES,
            id="too big and not saying so",
        ),
        pytest.param(
            misbehaving.chunked(DATA[:-1]), len(DATA), "wrong size", EXIT_WRONG_BYTES, id="chunked"
        ),
        pytest.param(
            misbehaving.chunked(DATA), None, "more than 1.0 MB", EXIT_WRONG_BYTES, id="endless"
        ),
        pytest.param(misbehaving.status(404), 1, "404 Not Found", EXIT_UNREACHABLE, id="not there"),
        pytest.param(misbehaving.status(409), 1, "409 Conflict", EXIT_UNREACHABLE, id="conflict"),
        pytest.param(misbehaving.status(401), 1, "in netrc", EXIT_UNREACHABLE, id="unauthorized"),
        pytest.param(misbehaving.status(403), 1, "in netrc", EXIT_UNREACHABLE, id="forbidden"),
        pytest.param(misbehaving.status(416), 1, "416", EXIT_UNREACHABLE, id="range, unasked"),
        pytest.param(
            misbehaving.status(204), 1, "204 No Content", EXIT_UNREACHABLE, id="no content"
        ),
        pytest.param(
            misbehaving.redirect(PATH), 1, "lead in a circle", EXIT_UNREACHABLE, id="redirect loop"
        ),
        pytest.param(
            misbehaving.redirect("file:///etc/hostname"),
            1,
            "nothing that can be fetched",
            EXIT_UNREACHABLE,
            id="redirect to a file of ours",
        ),
    ],
)
def test_no_second_try_where_it_can_not_help(
    server: Server,
    cache: Path,
    behaviour: misbehaving.Behaviour,
    size: int | None,
    text: str,
    exit_code: int,
) -> None:
    url = server.on(PATH, behaviour)
    settings = Settings(max_bytes=1_000_000, backoff_s=PATIENCE_S)
    e = failure(wanted(url, size=size), cache, settings)
    assert f"{url}: " in str(e) and text in str(e)
    assert "`./pants lock-artifacts`" in str(e) or "`[artifact]" in str(e)
    assert e.exit_code == exit_code
    assert len(server.log) == 1 or "circle" in text
    assert files(cache) == {}


@pytest.mark.parametrize(
    "url, text",
    [
        pytest.param("http://nobody.invalid/x", "its host's name is unknown", id="host"),
        pytest.param("file:///nonexistent/x", "there is no such file", id="no file"),
        pytest.param("file:///", "can't read it: Is a directory", id="folder"),
        pytest.param("http://127.0.0.1:x/x", "no URL that can be fetched", id="port"),
    ],
)
def test_locations_that_are_none(cache: Path, url: str, text: str) -> None:
    e = failure(wanted(url), cache)
    # Some networks' resolvers only say that they don't know just now.
    assert text in str(e) or "just now" in str(e)
    assert e.exit_code == EXIT_UNREACHABLE


def test_missing_everywhere_is_told_apart(server: Server, cache: Path) -> None:
    settings = Settings(mirrors=(f"{server.url}/mirror",), tries=1)
    assert failure(wanted(f"{server.url}/gone"), cache, settings).missing
    server.on("/mirror/" + SHA256, misbehaving.status(500))
    assert not failure(wanted(f"{server.url}/gone"), cache, settings).missing


# -- what can heal --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "behaviour, text",
    [
        pytest.param(misbehaving.status(429), "429 Too Many Requests", id="too many requests"),
        pytest.param(misbehaving.status(500), "500 Internal Server Error", id="server error"),
        pytest.param(misbehaving.status(503), "503 Service Unavailable", id="unavailable"),
        pytest.param(misbehaving.reset, "no connection", id="reset"),
        pytest.param(misbehaving.hanging(), "nothing came for 0.5 s", id="says nothing"),
        pytest.param(misbehaving.hanging(DATA, 5000), "nothing came for 0.5 s", id="stalls"),
        pytest.param(misbehaving.dripping(DATA, 0.05), "nothing came for 0.5 s", id="drips"),
        pytest.param(
            misbehaving.broken_off(DATA, 5000),
            f"broke off after 5000 of {len(DATA)}",
            id="truncated",
        ),
        pytest.param(
            misbehaving.broken_off(DATA, 5000, say_length=False),
            f"broke off after 5000 of {len(DATA)}",
            id="truncated without a length",
        ),
        pytest.param(misbehaving.chunked(DATA[:5000], end=False), "broke off", id="broken chunk"),
    ],
)
def test_what_heals_is_tried_again(
    server: Server, cache: Path, behaviour: misbehaving.Behaviour, text: str
) -> None:
    told = Told()
    url = server.on(PATH, behaviour, behaviour, misbehaving.file(DATA))
    assert get(wanted(url), cache, QUICK, told) == DATA
    assert f"{url}: " in told.text and text in told.text and "trying again in" in told.text
    assert len(server.log) == 3
    assert files(cache) == {"SHA256": DATA}

    url = server.on("/for/ever", behaviour)
    settings = Settings(tries=2, stall_timeout_s=0.2, backoff_s=0.01)
    e = failure(wanted(url, sha256="0" * 64), cache, settings)
    assert f"{url}: " in str(e) and "(2 tries)" in str(e)
    assert "`[artifact].mirrors`" in str(e)
    assert len(server.requests("/for/ever")) == 2
    assert "0" * 64 not in files(cache)


def test_a_port_on_which_nobody_listens(cache: Path) -> None:
    with misbehaving.running() as server:
        url = server.url + PATH
    assert "no connection: Connection refused (3 tries)" in str(failure(wanted(url), cache))


def test_retry_after_is_heeded_within_bounds(server: Server, cache: Path) -> None:
    later = email.utils.formatdate(time.time() + 3600, usegmt=True)
    url = server.on(
        PATH,
        misbehaving.status(429, {"Retry-After": "3600"}),
        misbehaving.status(503, {"Retry-After": later}),
        misbehaving.file(DATA),
    )
    told = Told()
    start = time.monotonic()
    assert get(wanted(url), cache, QUICK, told) == DATA
    assert 2 * QUICK.max_wait_s <= time.monotonic() - start < PATIENCE_S
    assert told.text.count("trying again in 0.3 s") == 2


@pytest.mark.parametrize("value", ["", "soon", "-1", "9" * 30, "Mon, 99 Foo 2026"])
def test_a_retry_after_that_is_none(server: Server, cache: Path, value: str) -> None:
    headers = {"Retry-After": value} if value else {}
    url = server.on(PATH, misbehaving.status(429, headers), misbehaving.file(DATA))
    assert get(wanted(url), cache) == DATA


def test_a_download_that_gets_further_each_time_is_not_given_up(
    server: Server, cache: Path
) -> None:
    def broken_off_further_on(handler: misbehaving.Handler) -> None:
        start = int(handler.request_.headers.get("range", "bytes=0-")[6:-1])
        part = f"bytes {start}-{len(big) - 1}/{len(big)}"
        length = {"Content-Length": str(len(big) - start)}
        handler.head(206 if start else 200, {**length, "Content-Range": part})
        handler.body(big[start : start + (1 << 20) + 1])

    big = DATA * 3
    url = server.on(PATH, broken_off_further_on)
    sha256 = hashlib.sha256(big).hexdigest()
    assert get(wanted(url, sha256=sha256, size=len(big)), cache) == big
    assert len(server.log) > QUICK.tries


# -- partial downloads ----------------------------------------------------------------------------


def test_what_is_there_is_not_sent_again(server: Server, cache: Path) -> None:
    leave_partial(cache, DATA[:1_000_000])
    told = Told()
    url = server.on(PATH, misbehaving.file(DATA))
    assert get(wanted(url), cache, QUICK, told) == DATA
    assert [r.sent for r in server.log] == [len(DATA) - 1_000_000]
    assert "resumed at 1.0 MB" in told.text
    assert files(cache) == {"SHA256": DATA}


@pytest.mark.parametrize(
    "partial, size, behaviour, requests",
    [
        pytest.param(DATA, len(DATA), misbehaving.file(DATA), 0, id="complete"),
        pytest.param(DATA, None, misbehaving.file(DATA), 1, id="complete, but who knows"),
        pytest.param(DATA[:999], len(DATA), misbehaving.no_ranges(DATA), 1, id="no ranges"),
        pytest.param(OTHER[-999:], len(DATA), misbehaving.file(DATA), 2, id="damaged"),
        pytest.param(OTHER, len(DATA), misbehaving.file(DATA), 1, id="damaged at its end"),
        pytest.param(OTHER, None, misbehaving.file(DATA), 2, id="damaged, of unknown size"),
        pytest.param(DATA + b"?", len(DATA), misbehaving.file(DATA), 1, id="too long"),
        pytest.param(DATA + b"?", None, misbehaving.file(DATA), 2, id="too long, but who knows"),
    ],
)
def test_what_earlier_runs_leave(
    server: Server,
    cache: Path,
    partial: bytes,
    size: int | None,
    behaviour: misbehaving.Behaviour,
    requests: int,
) -> None:
    leave_partial(cache, partial)
    assert get(wanted(server.on(PATH, behaviour), size=size), cache) == DATA
    assert len(server.log) == requests
    assert files(cache) == {"SHA256": DATA}


def test_another_part_than_asked_for(server: Server, cache: Path) -> None:
    def wrong_part(handler: misbehaving.Handler) -> None:
        handler.head(206, {"Content-Range": "bytes 5-9/10", "Content-Length": "5"})
        handler.body(b"12345")

    leave_partial(cache, DATA[:1000])
    url = server.on(PATH, wrong_part, misbehaving.file(DATA))
    assert get(wanted(url), cache) == DATA
    assert files(cache) == {"SHA256": DATA}


def test_a_file_that_changes_while_it_is_resumed(server: Server, cache: Path) -> None:
    def after_the_change(handler: misbehaving.Handler) -> None:
        # A server that doesn't know If-Range.
        handler.request_.headers = {**handler.request_.headers, "if-range": '"same"'}
        misbehaving.file(DATA, etag='"same"')(handler)

    url = server.on(PATH, misbehaving.broken_off(OTHER[::-1], 1000), after_the_change)
    assert get(wanted(url), cache) == DATA
    assert len(server.log) == 3


def test_damage_in_the_cache_is_found_and_mended(server: Server, cache: Path) -> None:
    what = wanted(server.on(PATH, misbehaving.file(DATA)))
    get(what, cache)
    path = cache / "downloads" / SHA256
    path.chmod(0o644)
    path.write_bytes(OTHER)
    told = Told()
    assert get(what, cache, QUICK, told) == DATA
    assert "in the cache is damaged" in told.text
    assert path.read_bytes() == DATA


def test_a_size_in_the_lock_that_contradicts_its_digest(tmp_path: Path, cache: Path) -> None:
    source = tmp_path / NAME
    source.write_bytes(DATA)
    get(wanted(source.as_uri()), cache)
    e = failure(wanted(source.as_uri(), size=5), cache)
    assert "the lock is wrong" in str(e) and e.exit_code == EXIT_WRONG_BYTES


def test_only_the_wanted_file_is_adopted(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "good").write_bytes(DATA)
    (tmp_path / "bad").write_bytes(OTHER)
    assert not adopt(tmp_path / "bad", wanted(), cache)
    assert files(cache) == {}
    assert adopt(tmp_path / "good", wanted(), cache)
    assert files(cache) == {"SHA256": DATA}


# -- several processes, killed ones, full disks ---------------------------------------------------

SCRIPT = """
import sys
from pathlib import Path
from pants_triton.artifact.download import Wanted, fetch
from pants_triton.artifact.errors import FetchError
from pants_triton.artifact.settings import Settings
name, sha256, size, url, cache = sys.argv[1:6]
exec(sys.argv[6] if len(sys.argv) > 6 else "")
settings = Settings(tries=3, backoff_s=0.01, stall_timeout_s=10)
try:
    with fetch(Wanted(name, sha256, int(size), (url,)), settings, Path(cache)) as file:
        print(len(file.read()))
except FetchError as e:
    sys.exit(str(e))
"""


def process(url: str, cache: Path, before: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, NAME, SHA256, str(len(DATA)), url, str(cache), before],
        env={**os.environ, "PYTHONPATH": str(Path(download.__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_download_once(server: Server, cache: Path) -> None:
    url = server.on(PATH, misbehaving.slow(DATA, 5, 0.2))
    processes = [process(url, cache) for _ in range(3)]
    outputs = [p.communicate(timeout=PATIENCE_S) for p in processes]
    assert [out for out, _ in outputs] == [f"{len(DATA)}\n"] * 3
    assert "waiting for another process that downloads" in "".join(err for _, err in outputs)
    assert len(server.log) == 1
    assert files(cache) == {"SHA256": DATA}


def test_threads_share_a_download_too(server: Server, cache: Path) -> None:
    url = server.on(PATH, misbehaving.slow(DATA, 3, 0.05))
    threads = [threading.Thread(target=get, args=(wanted(url), cache)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(server.log) == 1


def test_who_waits_takes_over_when_the_first_fails(server: Server, cache: Path) -> None:
    partial = cache / "downloads" / f"{SHA256}.partial"
    url = server.on(PATH, misbehaving.hanging(DATA, 1_000_000), misbehaving.file(DATA))
    first = process(url, cache)
    wait_until(lambda: partial.exists() and partial.stat().st_size == 1_000_000)
    second = process(url, cache)
    assert second.stderr is not None and "waiting" in second.stderr.readline()
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=PATIENCE_S)
    assert second.communicate(timeout=PATIENCE_S)[0] == f"{len(DATA)}\n"
    # The dead one's bytes weren't sent a second time.
    assert server.log[1].sent == len(DATA) - 1_000_000
    assert files(cache) == {"SHA256": DATA}


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    try:
        made = subprocess.run(mount, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        made = False
    if not made:
        pytest.skip("only root can make a small disk here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk(server: Server, tmp_path: Path) -> None:
    url = server.on(PATH, misbehaving.file(DATA))
    cache = tmp_path / "disk"
    with small_disk(cache):
        e = failure(wanted(url), cache)
        assert "the disk is full. Make room (" in str(e)
        assert e.exit_code == EXIT_THIS_HOST
        # No use in trying again, nor at another location; what came is there to be resumed.
        assert len(server.log) == 1
        assert set(files(cache)) - {"SHA256.partial.json"} == {"SHA256.partial"}
        assert not cached(wanted(url), cache)


def test_a_limit_on_the_size_of_files(server: Server, cache: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))"
    failed = process(server.on(PATH, misbehaving.file(DATA)), cache, limit)
    _, err = failed.communicate(timeout=PATIENCE_S)
    assert failed.returncode == 1
    assert "file too large. Make room" in err and "Traceback" not in err
    assert set(files(cache)) - {"SHA256.partial.json"} == {"SHA256.partial"}
    # And when there is room again:
    assert get(wanted(server.url + PATH), cache) == DATA
    assert server.log[-1].sent == len(DATA) - (1 << 20)


def test_a_cache_that_is_no_folder(cache: Path) -> None:
    cache.touch()
    e = failure(wanted("file:///x"), cache)
    assert "can't write" in str(e) and e.exit_code == EXIT_THIS_HOST


def test_a_cache_that_can_not_be_written(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system", "x")

    monkeypatch.setattr(os, "open", refuse)
    assert "Read-only file system (x)" in str(failure(wanted(server.url), cache))


# -- for people -----------------------------------------------------------------------------------


def test_a_secret_is_never_shown(server: Server, cache: Path, tmp_path: Path) -> None:
    told = Told()
    url = server.url.replace("//", f"//user:{SECRET}@") + f"/x?token={SECRET}"
    with pytest.raises(FetchError) as e:
        get(wanted(url), cache, QUICK, told)
    assert SECRET not in str(e.value) + told.text
    assert server.log[0].headers["authorization"] == "Basic dXNlcjpzM2NyM3Q="
    assert SECRET not in "".join(p.read_text() for p in cache.rglob("*.json"))


def test_progress_is_told_at_intervals(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_PROGRESS_INTERVAL_S", 0.05)
    told = Told()
    url = server.on(PATH, misbehaving.slow(DATA, 4, 0.1))
    get(wanted(url), cache, QUICK, told)
    assert any(f"{NAME}: 0.4 MB of 1.6 MB (25 %), " in line for line in told.lines) or any(
        " of 1.6 MB (" in line for line in told.lines
    )
    assert len(told.lines) < 20
    assert told.lines[-1].startswith(f"{NAME}: 1.6 MB from {url}, ")
