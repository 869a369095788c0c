"""Artifacts under the real Pants: declared, locked, fetched and used, and what goes wrong on the way.

Most tests share one workspace and its daemon, whose start and first pytest take half a minute. What
they download comes from a server on the loopback that does as it is told.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator, Mapping

import pytest

from e2e.workspace import PantsRun, Workspace, finish, workspace
from pants_triton.artifact.misbehaving import (
    Behaviour,
    Handler,
    Server,
    broken_off,
    file,
    hanging,
    running,
    status,
)

LOCK = "3rdparty/artifacts.lock.json"
LOCK_TARGET = 'artifact_lock(name="lock", source="artifacts.lock.json")\n'
# Nobody listens there.
NOWHERE = "http://127.0.0.1:1"
# This machine, as Pants calls it.
HOST = "_".join(
    [
        "macos" if sys.platform == "darwin" else "linux",
        os.uname().machine.lower().replace("aarch64", "arm64"),
    ]
)


# --- archives, servers and users ---------------------------------------------------------------


def archive(
    files: Mapping[str, str | bytes], links: Mapping[str, str] = {}, padding: int = 0
) -> bytes:
    """A `.tar.gz`, the same bytes each time. What is in a `bin` folder is executable.

    :param padding: size in bytes of a file that doesn't compress.
    """
    blocks = (hashlib.sha256(b"%d" % i).digest() for i in range(padding // 32))
    members = {**files, **({"padding": b"".join(blocks)} if padding else {})}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(data)
            member.mode = 0o755 if "bin" in name.split("/") else 0o644
            tar.addfile(member, io.BytesIO(data))
        for name, target in links.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    return gzip.compress(buffer.getvalue(), mtime=0)


def tool(says: str, *, top: str = "", padding: int = 0) -> bytes:
    """An archive of one tool, `say`, in the folder `top`."""
    return archive({f"{top}bin/say": f"#!/bin/sh\necho {says}\n"}, padding=padding)


def artifact(name: str, url: str, rest: str = "") -> str:
    """The line of a BUILD file."""
    return f'archive_artifact(name="{name}", url="{url}"{rest and ", "}{rest})\n'


def build_file(*targets: str) -> dict[str, str]:
    return {"3rdparty/BUILD": LOCK_TARGET + "".join(targets)}


@dataclass
class User:
    """Somebody with a checkout and caches of their own."""

    ws: Workspace
    # Where Pants lays out sandboxes and immutable inputs: by default the temporary folder.
    sandboxes: Path
    caches: Path

    @property
    def downloads(self) -> Path:
        return self.caches / "pants_triton_artifacts/downloads"

    def forget_downloads(self) -> None:
        for path in self.downloads.glob("*"):
            path.unlink()

    @property
    def materialised(self) -> list[Path]:
        """The folders of gigabytes that Pants without its daemon leaves behind."""
        return list(self.sandboxes.glob("immutable_inputs*"))


@contextlib.contextmanager
def new_user(folder: Path, caches: Path | None = None) -> Iterator[User]:
    caches = caches or folder / "caches"
    sandboxes = folder / "sandboxes"
    sandboxes.mkdir()
    env = {
        "PANTS_NAMED_CACHES_DIR": str(caches),
        "PANTS_LOCAL_EXECUTION_ROOT_DIR": str(sandboxes),
        # The tests' own patience: no wait is longer than a second or two.
        "PANTS_ARTIFACT_TRIES": "2",
        "PANTS_ARTIFACT_STALL_TIMEOUT": "2",
    }
    with workspace(folder / "workspace", env) as ws:
        yield User(ws, sandboxes, caches)


@pytest.fixture(scope="module")
def shared_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    with new_user(tmp_path_factory.mktemp("user")) as user:
        yield user


def clear(ws: Workspace) -> None:
    """Remove what another test wrote."""
    kept = {"pants.toml", "pants.ci.toml", ".gitignore", "tools"}
    names = [path.name for path in ws.root.iterdir()]
    doomed = [
        n for n in names if n not in kept and n not in (".git", ".pants.d", ".pids", ".store")
    ]
    subprocess.run(["rm", "-rf", "--", *doomed], cwd=ws.root, check=True)


@pytest.fixture
def user(shared_user: User) -> User:
    clear(shared_user.ws)
    return shared_user


@pytest.fixture
def ws(user: User) -> Workspace:
    return user.ws


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as server:
        yield server


def lock_artifacts(ws: Workspace) -> str:
    """Returns the lock's text."""
    run = ws.pants("lock-artifacts")
    assert run.exit_code == 0, run.output
    return (ws.root / LOCK).read_text()


def fails(run: PantsRun, *parts: str) -> None:
    """It failed as it should: with these words, and no traceback."""
    assert run.exit_code == 1, run.output
    for part in parts:
        assert part in run.output, run.output
    assert "Traceback" not in run.output, run.output


def eventually(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(0.05)


# --- lock-artifacts and lint -------------------------------------------------------------------


def test_the_lock_follows_pins_and_declarations(ws: Workspace, server: Server) -> None:
    for version in ("1.0", "1.1"):
        name = f"say-{version}"
        server.on(f"/{name}.tar.gz", file(tool(f"I am {version}", top=f"{name}/")))
    other = artifact("other", server.on("/other.tar.gz", file(tool("other"))))
    say = artifact(
        "say",
        f"{server.url}/say-{{pin_version}}.tar.gz",
        'pin="say-version.txt", strip="say-{pin_version}"',
    )
    ws.write({**build_file(say, other), "3rdparty/say-version.txt": "v1.0\n"})
    lock = ws.root / LOCK

    first = ws.pants("lock-artifacts")
    assert first.exit_code == 0, first.output
    assert f"+ 3rdparty:say any: {server.url}/say-1.0.tar.gz" in first.output
    assert f"+ 3rdparty:other any: {server.url}/other.tar.gz" in first.output
    assert f"{LOCK} was written: 2 entries." in first.output
    assert "I am 1.0" in ws.pants("run", "3rdparty:say", "--", "say").output

    # What is as declared is left alone; nobody is asked.
    written, asked = lock.read_bytes(), len(server.log)
    assert f"{LOCK} is up to date: 2 entries." in ws.pants("lock-artifacts").output
    assert (lock.read_bytes(), len(server.log)) == (written, asked)
    good = ws.pants("lock-artifacts", "--check")
    assert good.exit_code == 0, good.output
    assert ws.pants("lint", "::").exit_code == 0

    # The pin moves without the lock: told by `--check`, by lint, and to whoever needs it.
    ws.write({"3rdparty/say-version.txt": "v1.1\n"})
    for args in (["lock-artifacts", "--check"], ["lint", "::"], ["run", "3rdparty:say"]):
        fails(ws.pants(*args), "3rdparty:say", "3rdparty/say-version.txt", LOCK, "lock-artifacts")
    assert (lock.read_bytes(), len(server.log)) == (written, asked)

    moved = ws.pants("lock-artifacts")
    assert moved.exit_code == 0, moved.output
    assert "~ 3rdparty:say any" in moved.output
    assert f"location: {server.url}/say-1.0.tar.gz -> {server.url}/say-1.1.tar.gz" in moved.output
    assert "strip: say-1.0 -> say-1.1" in moved.output
    assert "3rdparty:other" not in moved.output
    assert "I am 1.1" in ws.pants("run", "3rdparty:say", "--", "say").output

    # What the pin decides isn't the lock's to say.
    good_lock = lock.read_text()
    lock.write_text(good_lock.replace("/say-1.1.tar.gz", "/other.tar.gz"))
    for args in (["lock-artifacts", "--check"], ["lint", "::"], ["run", "3rdparty:say"]):
        fails(
            ws.pants(*args),
            f"3rdparty:say: the archive say-1.1.tar.gz for any was edited in {LOCK}",
        )
    lock.write_text(good_lock)

    # So does a declaration.
    ws.write(build_file(say, other.replace(")\n", ', subset=["bin"])\n')))
    for args in (["lock-artifacts", "--check"], ["lint", "::"]):
        fails(ws.pants(*args), "3rdparty:other", "another state of its declaration", LOCK)

    # A row that no BUILD file declares any more is the lock's own fault.
    ws.write(build_file(say))
    for args in (["lint", "::"], ["lint", "3rdparty:lock"], ["lock-artifacts", "--check"]):
        fails(ws.pants(*args), "3rdparty:other is locked in", "no BUILD file declares that target")
    gone = ws.pants("lock-artifacts")
    assert f"- 3rdparty:other any: {server.url}/other.tar.gz" in gone.output
    assert ws.pants("lint", "::").exit_code == 0


def test_on_an_error_no_lock_is_written(ws: Workspace, server: Server) -> None:
    good = artifact("good", server.on("/good.tar.gz", file(tool("good"))))
    ws.write(build_file(good))
    before = lock_artifacts(ws)
    new = artifact("new", server.on("/new.tar.gz", file(tool("new"))))
    ws.write(build_file(good, new, artifact("lost", f"{NOWHERE}/lost.tar.gz")))
    fails(
        ws.pants("lock-artifacts"),
        "3rdparty:lost: ",
        f"{NOWHERE}/lost.tar.gz: ",
        "Correct the location, or try again later",
        f"{LOCK} is as it was.",
    )
    assert (ws.root / LOCK).read_text() == before


def test_other_bytes_under_the_same_name(ws: Workspace, server: Server) -> None:
    a, b = (artifact(n, server.on(f"/{n}.tar.gz", file(tool(f"first {n}")))) for n in "ab")
    ws.write(build_file(a, b))
    before = lock_artifacts(ws)
    for name in "ab":
        server.on(f"/{name}.tar.gz", file(tool(f"second {name}")))
    assert "is up to date" in ws.pants("lock-artifacts").output
    # `--check --refresh` asks and writes nothing.
    fails(ws.pants("lock-artifacts", "--check", "--refresh", "::"), "other bytes under the same")
    assert (ws.root / LOCK).read_text() == before

    refreshed = ws.pants("lock-artifacts", "--refresh", "3rdparty:a")
    assert refreshed.exit_code == 0, refreshed.output
    assert "~ 3rdparty:a any" in refreshed.output
    assert "(other bytes under the same name!)" in refreshed.output
    assert "3rdparty:b" not in refreshed.output
    assert "second a" in ws.pants("run", "3rdparty:a", "--", "say").output


def test_llvm_with_digests_in_its_pin_is_locked_without_network(
    ws: Workspace, server: Server
) -> None:
    suffixes = ("almalinux-arm64", "almalinux-x64", "macos-arm64", "macos-x64")
    digests = {s: hashlib.sha256(s.encode()).hexdigest() for s in (*suffixes, "ubuntu-x64")}
    pin = {"llvm_hash": "4611156032e1ebac68b2b8f6107b1475a7c60800", "build_number": 1}
    llvm = f'llvm_toolchain(name="llvm", pin="llvm-info.json", stores=["{server.url}/"])\n'
    ws.write(build_file(llvm))
    ws.write({"3rdparty/llvm-info.json": json.dumps({**pin, "sha256sum": digests})})
    rows = json.loads(lock_artifacts(ws))["artifacts"]["3rdparty:llvm"]
    assert server.log == []
    assert sorted(rows) == [
        *("linux_arm64-almalinux", "linux_x86_64-almalinux", "linux_x86_64-ubuntu"),
        *("macos_arm64", "macos_x86_64"),
    ]
    for platform, suffix in (("macos_arm64", "macos-arm64"), ("linux_x86_64-ubuntu", "ubuntu-x64")):
        name = f"llvm-46111560-{suffix}-1"
        assert rows[platform]["location"] == f"{server.url}/{name}.tar.gz"
        assert rows[platform]["sha256"] == digests[suffix]

    # Which of them this host takes can be said, as with TRITON_LLVM_SYSTEM_SUFFIX.
    for suffix in ("nosuch-x64", "ubunto-x64"):
        run = ws.pants(f"--artifact-llvm-system-suffix={suffix}", "run", "3rdparty:llvm")
        fails(
            run, "3rdparty:llvm: LLVM 46111560 isn't built", suffix, "llvm-info.json", "ubuntu-x64"
        )
    assert "Did you mean 'ubuntu-x64'?" in run.output
    fails(
        ws.pants("--artifact-llvm-system-suffix=macos-x64", "run", "3rdparty:llvm"),
        "LLVM 46111560 for macos_x86_64",
        f"{server.url}/llvm-46111560-macos-x64-1.tar.gz",
    )


def test_llvm_without_digests_in_its_pin(ws: Workspace, server: Server) -> None:
    # Nobody knows for which platforms upstream built a commit of those days.
    suffix = "ubuntu-x64"
    name = f"llvm-4611156a-{suffix}"
    server.on(f"/{name}.tar.gz", file(tool("I am LLVM", top=f"{name}/")))
    llvm = f'llvm_toolchain(name="llvm", pin="llvm-hash.txt", stores=["{server.url}"])\n'
    ws.write({**build_file(llvm), "3rdparty/llvm-hash.txt": "4611156a" * 5})
    assert list(json.loads(lock_artifacts(ws))["artifacts"]["3rdparty:llvm"]) == [
        "linux_x86_64-ubuntu"
    ]
    run = ws.pants(f"--artifact-llvm-system-suffix={suffix}", "run", "3rdparty:llvm", "--", "say")
    assert "I am LLVM" in run.output

    ws.write({"3rdparty/llvm-hash.txt": "4611156b" * 5})
    fails(
        ws.pants("lock-artifacts"),
        "3rdparty:llvm: LLVM 4611156b",
        "doesn't exist on any of these platforms",
        f"{server.url}/llvm-4611156b-",
        "3rdparty/llvm-hash.txt",
        f"{LOCK} is as it was.",
    )


def test_a_lock_with_merge_conflicts_names_the_line(ws: Workspace, server: Server) -> None:
    ws.write(build_file(artifact("say", server.on("/say.tar.gz", file(tool("hello"))))))
    lines = lock_artifacts(ws).splitlines(keepends=True)
    broken = "".join([*lines[:3], "<<<<<<< HEAD\n", *lines[3:], "=======\n", ">>>>>>> theirs\n"])
    (ws.root / LOCK).write_text(broken)
    for args in (["run", "3rdparty:say"], ["lint", "::"], ["lock-artifacts"]):
        fails(ws.pants(*args), f"{LOCK}: line 4: a merge conflict is not resolved", "either side")
    assert (ws.root / LOCK).read_text() == broken


def test_a_platform_that_the_artifact_is_not_for(ws: Workspace) -> None:
    wheel = 'wheel_artifact(name="w", distribution="d", version="1.0", platforms=["macos_x86_64"])'
    ws.write(build_file(wheel))
    fails(
        ws.pants("run", "3rdparty:w", "--", "tool"),
        f"3rdparty:w: the wheel of d 1.0 isn't declared for {HOST}",
        "only for macos_x86_64",
        "add the platform to the target",
    )
    ws.write(build_file(wheel.replace("macos_x86_64", "macos_x64")))
    for args in (["run", "3rdparty:w"], ["lock-artifacts"], ["lint", "3rdparty:w"]):
        fails(ws.pants(*args), "3rdparty:w", "platforms", "macos_x64", "macos_x86_64")


# --- fetching, and its faults ------------------------------------------------------------------

# A program of a machine that Pants doesn't run on: the header of a 64-bit PowerPC's.
POWERPC = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x02\0\x15\0" + b"\0" * 44


@dataclass(frozen=True)
class Fault:
    """What a server has when the lock is made and what it does afterwards, in turn.

    :param errors: what the message must have in it; none where it heals.
    """

    locked: bytes
    then: tuple[Behaviour, ...]
    errors: tuple[str, ...] = ()


def _faults() -> dict[str, Fault]:
    names = ("good", "changed", "longer", "gone", "broken", "truncated", "busy", "hung")
    data = {name: tool(name) for name in names}
    changed = data["changed"][:-1] + b"\xff"
    escaping = archive({"bin/say": "", "../../escaped": "gotcha"})
    linked = archive({"bin/say": ""}, links={"out": "../../../..", "bin/passwd": "../out/etc"})
    foreign = archive({"bin/say": POWERPC})
    mirror_hint = "name a mirror that has it in `[artifact].mirrors`"

    def lock_hint(name: str) -> str:
        return f"run `./pants lock-artifacts --refresh 3rdparty:{name}` and read the diff"

    return {
        "good": Fault(data["good"], (file(data["good"]),)),
        "changed": Fault(
            data["changed"],
            (file(changed),),
            ("wrong bytes: sha256 is " + hashlib.sha256(changed).hexdigest(), lock_hint("changed")),
        ),
        "longer": Fault(
            data["longer"],
            (file(data["longer"] + b"\0"),),
            ("wrong size: ", lock_hint("longer")),
        ),
        "gone": Fault(data["gone"], (status(404),), ("404", lock_hint("gone"), mirror_hint)),
        "broken": Fault(data["broken"], (status(503),), ("503", "(2 tries)", mirror_hint)),
        "truncated": Fault(
            data["truncated"],
            (broken_off(data["truncated"], 40), file(data["truncated"])),
        ),
        "busy": Fault(data["busy"], (status(429, {"Retry-After": "1"}), file(data["busy"]))),
        "hung": Fault(
            data["hung"],
            (hanging(data["hung"], 40),),
            ("nothing came for 2 s (2 tries)", mirror_hint),
        ),
        "escaping": Fault(
            escaping,
            (file(escaping),),
            ("the name ../../escaped has a `..`", "see where they came from"),
        ),
        "linked": Fault(
            linked, (file(linked),), ("out is a link out of the tree", "see where they came from")
        ),
        "foreign": Fault(
            foreign, (file(foreign),), ("bin/say is for linux_ppc64", "correct its pin or location")
        ),
    }


FAULTS = _faults()

SAYS = """\
import subprocess

def test_it():
    assert subprocess.check_output(["3rdparty/{name}/bin/say"]) == b"{name}\\n"
"""


@dataclass(frozen=True)
class FaultyRun:
    """One run of all tests, each of which needs one of the artifacts above."""

    run: PantsRun
    url: str
    # Names of files to their sha256.
    downloads: Mapping[str, str]
    escaped: list[Path]


@pytest.fixture(scope="module")
def faulty(shared_user: User) -> Iterator[FaultyRun]:
    user = shared_user
    clear(user.ws)
    tests = {
        name: f'triton_tests(name="{name}", sources=["{name}_test.py"], dependencies=["{of}"])\n'
        for name, of in [("none", ""), *((name, f"3rdparty:{name}") for name in FAULTS)]
    }
    with running() as server:
        artifacts = []
        for name, fault in FAULTS.items():
            url = server.on(f"/{name}.tar.gz", file(fault.locked))
            artifacts.append(f'archive_artifact(name="{name}", urls={{"{HOST}": "{url}"}})\n')
            user.ws.write({f"t/{name}_test.py": SAYS.format(name=name)})
        user.ws.write(
            {
                **build_file(*artifacts),
                "t/BUILD": "".join(tests.values()).replace('dependencies=[""]', ""),
                "t/none_test.py": "def test_it(): pass\n",
            }
        )
        lock_artifacts(user.ws)
        # Another day, another user.
        user.forget_downloads()
        for name, fault in FAULTS.items():
            server.on(f"/{name}.tar.gz", *fault.then)
        run = user.ws.pants("test", "t::")
        downloads = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in user.downloads.iterdir()
        }
        folder = user.ws.root.parent
        yield FaultyRun(run, server.url, downloads, list(folder.rglob("escaped*")))


def error_of(run: PantsRun, name: str) -> str:
    """Why the tests that need the artifact `name` can't be run."""
    start = f"t/{name}_test.py:{name} can't be set up: 3rdparty:{name}: "
    [line] = [line for line in run.output.splitlines() if line.startswith(start)]
    return line


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if not fault.errors])
def test_what_can_heal_heals(faulty: FaultyRun, name: str) -> None:
    assert f"t/{name}_test.py:{name} succeeded" in faulty.run.output, faulty.run.output


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.errors])
def test_a_fault_says_what_where_and_the_way_out(faulty: FaultyRun, name: str) -> None:
    assert f"t/{name}_test.py:{name} - failed" in faulty.run.output, faulty.run.output
    error = error_of(faulty.run, name)
    assert f"the archive {name}.tar.gz for {HOST}: " in error
    for part in FAULTS[name].errors:
        assert part in error
    assert f"{faulty.url}/{name}.tar.gz" in error
    assert f"✕ t/{name}_test.py:{name} failed" in faulty.run.output


def test_a_failing_artifact_fails_only_what_needs_it(faulty: FaultyRun) -> None:
    fails(faulty.run, "t/none_test.py:none succeeded", "t/good_test.py:good succeeded")


def test_nothing_unverified_is_kept(faulty: FaultyRun) -> None:
    assert faulty.escaped == []
    verified = {name: digest for name, digest in faulty.downloads.items() if "." not in name}
    assert verified and all(name == digest for name, digest in verified.items())
    # What was stopped half-way may be resumed, but nothing of what turned out to be something else.
    unverified = {hashlib.sha256(FAULTS[name].locked).hexdigest() for name in ("changed", "longer")}
    assert not [name for name in faulty.downloads if name[:64] in unverified]


def test_a_fault_fails_pants_own_tests_and_run_too(user: User, server: Server) -> None:
    url = server.on("/say.tar.gz", file(tool("hello")))
    user.ws.write(
        {
            **build_file(artifact("say", url)),
            "t/BUILD": 'python_tests(dependencies=["3rdparty:say"])',
            "t/a_test.py": "def test_it(): pass",
        }
    )
    lock_artifacts(user.ws)
    user.forget_downloads()
    server.on("/say.tar.gz", status(410))
    for args in (["run", "3rdparty:say"], ["test", "t::"], ["fetch-artifacts", "3rdparty::"]):
        fails(user.ws.pants(*args), "3rdparty:say: the archive say.tar.gz", url, "410", "mirrors")


def test_two_runs_at_once_download_once(ws: Workspace, tmp_path: Path, server: Server) -> None:
    data = tool("once", padding=200_000)
    release = threading.Event()

    def slow(handler: Handler) -> None:
        handler.head(200, {"Content-Length": str(len(data))})
        handler.body(data[:100_000])
        release.wait(60)
        handler.body(data[100_000:])

    files = build_file(artifact("say", server.on("/say.tar.gz", file(data))))
    ws.write(files)
    files[LOCK] = lock_artifacts(ws)
    server.on("/say.tar.gz", slow)
    server.log.clear()
    with contextlib.ExitStack() as stack:
        users = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            user = stack.enter_context(new_user(tmp_path / name, caches=tmp_path / "caches"))
            user.ws.write(files)
            users.append(user)
        args = ["--no-pantsd", "--artifact-stall-timeout=60", "run", "3rdparty:say", "--", "say"]
        runs = [user.ws.start_pants(*args) for user in users]
        try:
            eventually(
                lambda: all([*u.sandboxes.glob("pants-sandbox-*/entry.json")] for u in users),
                "both to fetch",
            )
            # So that both programs have begun.
            time.sleep(1)
        finally:
            release.set()
        for run, user in zip(map(finish, runs), users):
            assert run.exit_code == 0 and "once" in run.output, run.output
            # Without its daemon, Pants would leave the tree behind.
            assert user.materialised == []
    assert len(server.requests("/say.tar.gz")) == 1


def descendants(pid: int) -> list[int]:
    """`pid` and the processes below it."""
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    pairs = [tuple(map(int, line.split())) for line in listing.splitlines()]
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in pairs if its_parent == parent]
    return found


def test_a_killed_run_is_resumed_and_cleaned_up(
    ws: Workspace, tmp_path: Path, server: Server
) -> None:
    data = tool("resumed", padding=200_000)
    files = build_file(artifact("say", server.on("/say.tar.gz", file(data))))
    ws.write(files)
    files[LOCK] = lock_artifacts(ws)
    server.on("/say.tar.gz", hanging(data, 150_000), file(data))
    server.log.clear()
    with new_user(tmp_path) as user:
        user.ws.write(files)
        args = ["--no-pantsd", "--artifact-stall-timeout=60", "run", "3rdparty:say", "--", "say"]
        killed = user.ws.start_pants(*args)
        eventually(
            lambda: sum(p.stat().st_size for p in user.downloads.glob("*.partial")) == 150_000,
            "the download to be half done",
        )
        # As when a machine goes down: nobody has time to clean up.
        for pid in descendants(killed.pid):
            os.kill(pid, signal.SIGKILL)
        finish(killed)
        left = user.materialised
        assert left

        again = user.ws.pants(*args)
        assert again.exit_code == 0 and "resumed" in again.output, again.output
        first, second = server.requests("/say.tar.gz")
        assert second.headers["range"] == "bytes=150000-"
        assert second.sent == len(data) - 150_000
        assert not left[0].exists()
        assert user.materialised == []


# --- real packages, and a second user ----------------------------------------------------------

REAL = build_file(
    'debian_artifact(name="hello", suite="bookworm", packages=["hello"])\n',
    """\
wheel_artifact(
    name="cuobjdump",
    distribution="nvidia-cuda-cuobjdump",
    version="13.2.78",
    platforms=["linux_arm64", "linux_x86_64"],
    strip="nvidia/cu13",
    subset=["bin"],
)
""",
)


def contents(tar: Path) -> dict[str, tuple[object, ...]]:
    """What is in an archive: types, permissions, targets of links, and digests."""
    with tarfile.open(tar) as archive:
        found: dict[str, tuple[object, ...]] = {}
        for member in archive:
            data = archive.extractfile(member) if member.isreg() else None
            digest = hashlib.sha256(data.read()).hexdigest() if data else ""
            found[member.name] = (member.type, member.mode & 0o111, member.linkname, digest)
        return found


def test_real_packages_from_the_lock_to_a_second_user(
    user: User, tmp_path: Path, server: Server
) -> None:
    ws = user.ws
    files = dict(REAL)
    files["3rdparty/BUILD"] += artifact("say", server.on("/say.tar.gz", file(tool("hello"))))
    files[
        "BUILD"
    ] = """\
        artifact_files(
            name="files", artifacts=["3rdparty:hello", "3rdparty:cuobjdump", "3rdparty:say"]
        )
        archive(name="all", format="tar", output_path="all.tar", files=[":files"])
        """
    ws.write(files)
    files[LOCK] = lock_artifacts(ws)
    user.forget_downloads()

    hello = ws.pants("run", "3rdparty:hello", "--", "hello", "--version")
    assert "hello (GNU Hello)" in hello.output, hello.output
    cuobjdump = ws.pants("run", "3rdparty:cuobjdump", "--", "cuobjdump", "--version")
    assert "Cuda compilation tools, release 13.2, V13.2.78" in cuobjdump.output, cuobjdump.output

    # For the second user: all that this host needs, in a folder.
    mirror = tmp_path / "mirror"
    fetched = ws.pants("fetch-artifacts", f"--mirror={mirror}", "::")
    assert fetched.exit_code == 0, fetched.output
    assert (
        f"3rdparty:cuobjdump: the wheel of nvidia-cuda-cuobjdump 13.2.78 for {HOST}"
        in fetched.output
    )
    assert "3rdparty:say: the archive say.tar.gz for any: 1" in fetched.output
    assert "1 file downloaded" in fetched.output and "all verified" in fetched.output
    assert all(
        hashlib.sha256(path.read_bytes()).hexdigest() == path.name for path in mirror.iterdir()
    )
    assert ws.pants("package", "//:all").exit_code == 0

    # The second user has no network at all, and begins with nothing.
    server.on("/say.tar.gz", status(404))
    (tmp_path / "second").mkdir()
    with new_user(tmp_path / "second") as second:
        second.ws.write(files)
        offline = {
            "PANTS_ARTIFACT_MIRRORS": f"['file://{mirror}']",
            "PANTS_ARTIFACT_DEBIAN_MIRROR": f"{NOWHERE}/debian",
            "PANTS_PYTHON_REPOS_INDEXES": f"['{NOWHERE}/simple']",
            "PANTS_PYTHON_REPOS_FIND_LINKS": "[]",
            **{name: NOWHERE for name in ("http_proxy", "https_proxy")},
        }
        packaged = second.ws.pants("--no-pantsd", "package", "//:all", env=offline)
        assert packaged.exit_code == 0, packaged.output
        there = contents(second.ws.root / "dist/all.tar")
    here = contents(ws.root / "dist/all.tar")
    assert here == there
    assert {"3rdparty/hello/usr/bin/hello", "3rdparty/cuobjdump/bin/cuobjdump"} <= set(here)


# --- used --------------------------------------------------------------------------------------


def test_tests_see_the_tree(ws: Workspace, server: Server) -> None:
    ws.write(
        {
            **build_file(
                artifact("say", server.on("/say.tar.gz", file(tool("hello")))),
                artifact("data", server.on("/data.tar.gz", file(archive({"a/b": "data"}))))[:-2],
                ', path="data/here", subset={"a": "c"})\n',
                'artifact_tree(name="both", path="tools/both", parts=[":say", ":data"])\n',
            ),
            "t/BUILD": """\
                python_tests(name="python", sources=["python_test.py"], dependencies=[
                    "3rdparty:say", "3rdparty:data",
                ])
                triton_tests(
                    name="triton",
                    sources=["triton_test.py"],
                    dependencies=["3rdparty:both"],
                    env={"SAY": "{chroot}/tools/both/bin/say"},
                )
                """,
            "t/python_test.py": """\
                import subprocess
                from pathlib import Path

                def test_it():
                    assert subprocess.check_output(["3rdparty/say/bin/say"]) == b"hello\\n"
                    assert Path("data/here/c/b").read_text() == "data"
                """,
            "t/triton_test.py": """\
                import os
                import subprocess
                from pathlib import Path

                def test_it():
                    assert os.path.isabs(os.environ["SAY"])
                    assert subprocess.check_output([os.environ["SAY"]]) == b"hello\\n"
                    assert Path("tools/both/c/b").read_text() == "data"
                """,
        }
    )
    lock_artifacts(ws)
    run = ws.pants("test", "t::")
    assert run.exit_code == 0, run.output
    tools = ws.pants("run", "3rdparty:both")
    assert tools.exit_code == 2
    assert "Say which tool of 3rdparty:both to run" in tools.output and "  say\n" in tools.output


def test_a_tree_where_a_tests_own_files_are(ws: Workspace, server: Server) -> None:
    say = artifact("say", server.on("/say.tar.gz", file(tool("hello"))), 'path="t"')
    ws.write(
        {
            **build_file(say),
            "t/BUILD": """\
                triton_tests(name="a", sources=["a_test.py"], dependencies=["3rdparty:say"])
                triton_tests(name="b", sources=["b_test.py"])
                """,
            **{f"t/{name}_test.py": "def test_it(): pass\n" for name in "ab"},
        }
    )
    lock_artifacts(ws)
    fails(
        ws.pants("test", "t::"),
        "t/a_test.py:a can't be set up: 3rdparty:say would be at t in the sandbox, but t/a_test.py is "
        "there: set `path` of the one, or move the other.",
        "✕ t/a_test.py:a failed",
        "✓ t/b_test.py:b succeeded",
    )


def test_a_tree_that_contains_itself(ws: Workspace) -> None:
    trees = (
        f'artifact_tree(name="{a}", parts=[":{b}"])\n'
        for a, b in (("x", "x"), ("y", "z"), ("z", "y"))
    )
    ws.write(build_file(*trees))
    for goal in (["lock-artifacts"], ["lint", "::"], ["run", "3rdparty:x"]):
        fails(ws.pants(*goal), "3rdparty:x: parts: it contains itself (3rdparty:x -> 3rdparty:x)")
    fails(ws.pants("run", "3rdparty:y"), "(3rdparty:y -> 3rdparty:z -> 3rdparty:y): leave one out.")


def test_a_link_back_cannot_be_laid_out_as_files(ws: Workspace, server: Server) -> None:
    tree = archive({"bin/say": "#!/bin/sh\necho round\n"}, links={"bin/self": "."})
    ws.write(
        {
            **build_file(artifact("round", server.on("/round.tar.gz", file(tree)))),
            "BUILD": """\
                artifact_files(name="files", artifacts=["3rdparty:round"])
                archive(name="all", format="tar", files=[":files"])
                """,
        }
    )
    lock_artifacts(ws)
    fails(
        ws.pants("package", "//:all"),
        "//:files: 3rdparty:round can't be laid out as files",
        "bin/self",
        "`subset`",
    )
    assert "round" in ws.pants("run", "3rdparty:round", "--", "bin/self/self/say").output


def test_a_changed_pin_or_lock_changes_what_depends_on_it(ws: Workspace, server: Server) -> None:
    ws.write(
        {
            **build_file(
                artifact("say", f"{server.url}/say-{{pin}}.tar.gz", 'pin="say-version.txt"'),
                artifact("other", server.on("/other.tar.gz", file(tool("other")))),
            ),
            "3rdparty/say-version.txt": "1",
            "t/BUILD": """\
                triton_tests(name="say", sources=["say_test.py"], dependencies=["3rdparty:say"])
                triton_tests(name="other", sources=["o_test.py"], dependencies=["3rdparty:other"])
                triton_tests(name="none", sources=["none_test.py"])
                """,
            **{f"t/{name}_test.py": "" for name in ("say", "o", "none")},
        }
    )
    server.on("/say-1.tar.gz", file(tool("1")))
    server.on("/say-2.tar.gz", file(tool("2")))
    lock_artifacts(ws)
    ws.git("add", "--all")
    ws.git("commit", "--quiet", "--message=base")

    def changed() -> set[str]:
        args = ["--changed-since=HEAD", "--changed-dependents=transitive", "list"]
        lines = ws.pants(*args).output.splitlines()
        return {line for line in lines if "[" not in line}

    assert changed() == set()
    ws.write({"3rdparty/say-version.txt": "2"})
    assert changed() == {"3rdparty:say", "t:say", "t/say_test.py:say"}
    lock_artifacts(ws)
    # Everything is of the one lock; what needs no artifact isn't.
    assert {"3rdparty:lock", "t/say_test.py:say", "t/o_test.py:other"} <= changed()
    assert "t/none_test.py:none" not in changed()


def test_a_local_tree_instead(ws: Workspace, tmp_path: Path, server: Server) -> None:
    local = tmp_path / "build/bin/say"
    local.parent.mkdir(parents=True)
    local.write_text("#!/bin/sh\necho mine\n")
    local.chmod(0o755)
    ws.write(
        {
            **build_file(artifact("say", server.url + "/say.tar.gz")),
            "t/BUILD": 'triton_tests(dependencies=["3rdparty:say"])',
            "t/a_test.py": """\
                import subprocess

                def test_it():
                    assert subprocess.check_output(["3rdparty/say/bin/say"]) == b"mine\\n"
                """,
        }
    )
    # Neither a lock nor a server is needed for it.
    option = f"--artifact-local-trees={{'3rdparty:say': '{tmp_path}/build'}}"
    warning = "3rdparty:say is not hermetic: `[artifact].local_trees` takes"
    for state in ("succeeded in", "(memoized)"):
        run = ws.pants(option, "test", "t::")
        assert run.exit_code == 0, run.output
        assert warning in run.output and state in run.output
    # The same bytes are the same tree, whoever wrote them when.
    local.write_text(local.read_text())
    touched = ws.pants(option, "test", "t::").output
    assert "(memoized)" in touched or "(cached locally)" in touched, touched

    local.write_text("#!/bin/sh\necho changed\n")
    changed = ws.pants(option, "test", "t::")
    assert changed.exit_code == 1 and warning in changed.output
    assert "b'changed\\n'" in changed.output
    assert server.log == []

    fails(
        ws.pants(f"--artifact-local-trees={{'3rdparty:say': '{tmp_path}/no'}}", "test", "t::"),
        f"3rdparty:say: The folder {tmp_path}/no, which `[artifact].local_trees` names",
    )


@pytest.mark.parametrize("daemon", ["--pantsd", "--no-pantsd"])
def test_credentials_are_used_and_nowhere_to_be_seen(
    user: User, tmp_path: Path, server: Server, daemon: str
) -> None:
    token, data = "tOkEn-0123456789abcdef", tool("private")

    def private(handler: Handler) -> None:
        allowed = handler.request_.headers.get("authorization") == f"Bearer {token}"
        (file(data) if allowed else status(401))(handler)

    user.ws.write(build_file(artifact("say", server.on("/say.tar.gz", private))))
    debug = (daemon, "-ldebug")
    unknown = user.ws.pants(*debug, "lock-artifacts")
    fails(unknown, "3rdparty:say: ", "401", f"{server.url}/say.tar.gz")

    host = server.url.rpartition("/")[2]
    option = f"--artifact-credentials={{'{host}': 'MIRROR_TOKEN'}}"
    unset = user.ws.pants(*debug, option, "lock-artifacts")
    fails(unset, "The variable MIRROR_TOKEN, which holds the credentials for 127.0.0.1, isn't set")
    # A program must be told the token by some way.
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    env = {"MIRROR_TOKEN": token, "XDG_RUNTIME_DIR": str(runtime)}
    locked = user.ws.pants(*debug, option, "lock-artifacts", env=env)
    assert locked.exit_code == 0, locked.output
    user.forget_downloads()
    said = user.ws.pants(*debug, option, "run", "3rdparty:say", "--", "say", env=env)
    assert said.exit_code == 0 and "private" in said.output, said.output

    assert token not in locked.output + said.output
    hidden = [".store", ".pants.d", ".pids", "3rdparty", str(user.caches), str(runtime)]
    grep = ["grep", "-r", "-l", "-a", "-F", "-e", token, *hidden]
    found = subprocess.run(grep, cwd=user.ws.root, stdout=subprocess.PIPE, text=True)
    assert (found.returncode, found.stdout) == (1, "")
    cache = user.caches / "pants_triton_artifacts"
    assert [path.name for path in cache.glob("settings*")] == []
