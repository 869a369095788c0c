"""A real REAPI server, and users of it with a project of two files, for tests and benchmarks.

The project's compiler and CMake are shell scripts, so that a run is as quick as Pants itself. What
is around them is real: artifacts, configuring, edges and a test, each a cached process.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator, Mapping

from e2e.workspace import REPOSITORY, PantsRun, Workspace, finish, workspace
from pants_triton.artifact.declaration import ArchiveDeclaration, slots
from pants_triton.artifact.lock import Row, UrlEntry, make_lock, write_lock
from pants_triton.artifact.misbehaving import Server as Origin
from pants_triton.artifact.misbehaving import file

REMOTE_CACHE = REPOSITORY / "build-support/remote-cache/remote-cache"


# --- the server ---------------------------------------------------------------------------------


@dataclass
class CacheServer:
    """A server in a folder of its own, on ports that are free."""

    state: Path
    options: tuple[str, ...] = ()
    info: dict[str, Any] = field(default_factory=dict)

    def up(self, *options: str) -> None:
        # The same addresses after a restart, as clients expect.
        ports = [self.info[name].rpartition(":")[2] for name in ("write", "read") if self.info]
        write, read = ports or ("0", "0")
        answer = self._run(
            *("up", "--json", f"--port={write}", f"--read-port={read}"), *self.options, *options
        )
        self.info = json.loads(answer)

    def down(self) -> None:
        self._run("down")

    def certify(self) -> None:
        """Speak TLS from the next `up` on."""
        folder = self.state.with_name("tls")
        self.make_certificate(folder)
        files = {"certificate": "server.pem", "private-key": "server.key", "ca": "ca.pem"}
        self.options += tuple(f"--{name}={folder / file}" for name, file in files.items())

    @property
    def ca(self) -> Path:
        return self.state.with_name("tls") / "ca.pem"

    def token(self, subject: str, minutes: float = 60) -> Path:
        """A file with a new token."""
        path = self.state.with_name(f"{subject.replace(':', '-')}-{minutes}.token")
        self._run("token", subject, f"--minutes={minutes}", f"--output={path}")
        return path

    def address(self, port: str, host: str = "localhost") -> str:
        number = self.info[port].rpartition(":")[2]
        return f"{self.info['scheme']}://{host}:{number}"

    def check(self, port: str, token: Path | None, instance: str = "") -> dict[str, str]:
        """What the server answers to each kind of request."""
        given = [f"--token={token}"] if token else []
        answer = self._run(
            *("check", self.address(port), f"--ca={self.ca}", f"--instance={instance}", "--json"),
            *given,
        )
        answers: dict[str, str] = json.loads(answer)
        return answers

    def make_certificate(self, folder: Path) -> Path:
        """Returns the certificate of the authority that made it."""
        self._run("certificate", "localhost", f"--output={folder}")
        return folder / "ca.pem"

    def send(self, number: signal.Signals, *names: str) -> None:
        """Send a signal to some of its programs: `write`, `read`, ..."""
        for name in names:
            os.kill(self.info["processes"][name]["pid"], number)

    def kill(self) -> None:
        """As a power cut does: nothing is written any more."""
        os.kill(self.info["supervisor"]["pid"], signal.SIGKILL)
        self._run("down")

    @property
    def blobs(self) -> list[Path]:
        return sorted(self.state.glob("blobs/cas/objects/*/*"))

    @property
    def actions(self) -> int:
        """How many results it knows: entries that were written to its log of them."""
        log = b"".join(f.read_bytes() for f in (self.state / "actions").rglob("*.aof"))
        return len(set(re.findall(rb"action-cache\.[0-9a-f]{64}", log)))

    @contextlib.contextmanager
    def emptied(self) -> Iterator[None]:
        """Restarted without any result or blob; afterwards again, with those that it had."""
        self.down()
        kept = self.state.with_name("kept")
        kept.mkdir()
        names = ("blobs", "index", "actions")
        for name in names:
            (self.state / name).rename(kept / name)
        self.up()
        try:
            yield
        finally:
            self.down()
            for name in names:
                shutil.rmtree(self.state / name)
                (kept / name).rename(self.state / name)
            kept.rmdir()
            self.up()

    @contextlib.contextmanager
    def remembering(self) -> Iterator[None]:
        """Restarted at the end, with the index of blobs that it had."""
        index, kept = self.state / "index", self.state.with_name("kept-index")
        self.down()
        shutil.copytree(index, kept)
        self.up()
        try:
            yield
        finally:
            self.down()
            shutil.rmtree(index)
            kept.rename(index)
            self.up()

    def _run(self, *args: str) -> str:
        process = subprocess.run(
            [str(REMOTE_CACHE), args[0], f"--state={self.state}", *args[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
        )
        assert process.returncode == 0, f"{args}: {process.stdout}{process.stderr}"
        return process.stdout


def not_installable() -> str:
    """Why the server can't be installed here, "" if it is."""
    process = subprocess.run(
        [str(REMOTE_CACHE), "install"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    return process.stderr.strip() if process.returncode != 0 else ""


@contextlib.contextmanager
def cache_server(state: Path, *options: str) -> Iterator[CacheServer]:
    """It runs, with TLS; at the end it is stopped."""
    server = CacheServer(state, options)
    server.certify()
    server.up()
    try:
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            server.send(signal.SIGCONT, *server.info["processes"])
        server.down()


# --- the project --------------------------------------------------------------------------------

# It knows no CMakeLists.txt: the manifest is always this one.
_CMAKE = """\
#!/bin/sh
for argument; do
  case "$argument" in
    -S*) source=${argument#-S} ;;
    -B*) build=${argument#-B} ;;
  esac
done
mkdir -p "$build"
cat >"$build/build.ninja" <<END
rule make
  command = { echo '#!/bin/sh'; cat \\$in; } >\\$out && chmod +x \\$out
build bin/greet: make $source/greet.sh
build bin/greet_test: make $source/greet.sh $source/greet_test.sh
END
echo "add_test([=[greet]=] \\"$build/bin/greet_test\\")" >"$build/CTestTestfile.cmake"
"""
#: A file of the toolchain that shows in what a run downloads.
BIG = "".join(hashlib.sha256(bytes([n % 256, n // 256])).hexdigest() for n in range(50_000))
_SCRIPTS = {
    "toolchain": {"bin/clang": "#!/bin/sh\n", "bin/clang++": "#!/bin/sh\n", "share/big": BIG},
    "cmake": {"bin/cmake": _CMAKE, "bin/ninja": "#!/bin/sh\n"},
}
_LOCK = "3rdparty/artifacts.lock.json"
_PROJECT = {
    "demo/BUILD": """\
        cmake_project(name="demo")
        cmake_output(name="greet", project=":demo", outputs=["bin/greet"])
        gtest_tests(name="unit", project=":demo")
        """,
    "demo/CMakeLists.txt": "",
    "demo/greet.sh": "greet() { echo 'Hello, {name}.'; }\n",
    "demo/greet_test.sh": """\
        for argument; do
          case "$argument" in --gtest_output=xml:*) report=${argument#*xml:} ;; esac
        done
        result="$(greet)"
        cat >"$report" <<END
        <testsuites><testsuite name="Greet" tests="1">
        <testcase name="$result" status="run" result="completed" classname="Greet"/>
        </testsuite></testsuites>
        END
        echo "The test saw: $result"
        """,
}
_NAMES = {
    "test": "--gtest_output",
    "configure": "--record=",
    "edge": r"chmod \+x",
    "fetch": "--entry=",
}
#: The processes of a run that knows nothing, but for those that list what is in trees.
EVERYTHING = ["configure", "edge", "edge", "fetch", "fetch", "test"]


def _archive(scripts: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in scripts.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            tar.addfile(member, io.BytesIO(content.encode()))
    return buffer.getvalue()


def _artifacts(origin: Origin) -> dict[str, str]:
    """The files of a workspace that declare and lock the tools, which `origin` then has."""
    rows, targets = [], []
    for name, scripts in _SCRIPTS.items():
        data = _archive(scripts)
        url = origin.on(f"/{name}.tar", file(data))
        targets.append(f'archive_artifact(name="{name}", url="{url}")\n')
        sha256 = hashlib.sha256(data).hexdigest()
        for slot in slots(ArchiveDeclaration(f"3rdparty:{name}", (("any", url),))):
            entry = UrlEntry(url, sha256, None, slot.pin_sha256)
            rows.append(Row(slot.address, slot.platform, entry))
    return {"3rdparty/BUILD": "".join(targets), _LOCK: write_lock(make_lock(_LOCK, rows))}


# --- users of it --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """A finished run.

    :param ran: processes that were run here, and not taken from a cache.
    :param report: the run's own.
    :param warnings: lines that a person sees of what went wrong with the cache.
    """

    run: PantsRun
    ran: list[str]
    remote_hits: int
    uploads: int
    report: dict[str, Any]

    @property
    def has_downloaded_the_toolchain(self) -> bool:
        downloaded: int = self.report["bytes"]["downloaded"]
        return downloaded > len(BIG)

    @property
    def warnings(self) -> list[str]:
        lines = self.run.output.splitlines()
        wrong = [line for line in lines if "[WARN]" in line or "[ERROR]" in line]
        # Of `--stats-log`, which is ours.
        return [line for line in wrong if "hdrhistogram" not in line]


def _named(script: str) -> str:
    """What the process of a kept sandbox is to the project; "" for those that look at this host."""
    for name, pattern in _NAMES.items():
        if re.search(pattern, script):
            return name
    return ""


@dataclass
class User:
    """Somebody with a home, a checkout of the project, and a daemon of their own."""

    ws: Workspace
    folder: Path

    def begin(self) -> Running:
        """Test and package the project, and go on meanwhile."""
        shutil.rmtree(self.ws.root / "dist", ignore_errors=True)
        before = set(self.sandboxes.iterdir())
        process = self.ws.start_pants("--stats-log", "test", "package", "demo::")
        return Running(self, process, before)

    def run(self, name: str = "") -> Result:
        """Test and package the project, maybe after an edit that gives all edges other results."""
        if name:
            self.greet(name)
        return self.begin().result()

    def greet(self, name: str) -> None:
        self.ws.write({"demo/greet.sh": _PROJECT["demo/greet.sh"].replace("{name}", name)})

    @property
    def sandboxes(self) -> Path:
        return self.folder / "sandboxes"


@dataclass
class Running:
    """A run that is going on."""

    user: User
    process: subprocess.Popen[str]
    before: set[Path]

    def ran(self) -> list[str]:
        """Which processes of the project were begun here so far."""
        scripts = [s / "__run.sh" for s in set(self.user.sandboxes.iterdir()) - self.before]
        return sorted(filter(None, (_named(s.read_text()) for s in scripts if s.exists())))

    def result(self) -> Result:
        """Wait for its end. What it made must be right: nothing excuses that."""
        run, root = finish(self.process), self.user.ws.root
        counters = {name: int(n) for name, n in re.findall(r"^  (\w+): (\d+)$", run.output, re.M)}
        assert run.exit_code == 0, run.output
        assert "Traceback" not in run.output, run.output
        greeting = (root / "demo/greet.sh").read_text()
        made = (root / "dist/demo/greet/bin/greet").read_text()
        assert made == f"#!/bin/sh\n{greeting}", run.output
        says = re.search(r"'(.*)'", greeting)
        assert says and f"The test saw: {says[1]}" in run.output, run.output
        hits = counters.get("remote_cache_requests_cached", 0)
        uploads = counters.get("remote_cache_write_successes", 0)
        return Result(run, self.ran(), hits, uploads, self.user.ws.report())


@contextlib.contextmanager
def new_user(
    folder: Path,
    origin: Origin,
    address: str,
    options: Mapping[str, object],
    checkout: str = "checkout",
) -> Iterator[User]:
    """A user called as the folder is, with nothing cached.

    :param options: of Pants, such as `remote_cache_write`.
    """
    (folder / checkout).mkdir(parents=True)
    (folder / "sandboxes").mkdir()
    given = {"remote_store_address": address, "remote_cache_read": True, **options}
    env = {
        "USER": folder.name,
        "LOGNAME": folder.name,
        "HOME": str(folder),
        "PANTS_LOCAL_STORE_DIR": str(folder / "store"),
        "PANTS_NAMED_CACHES_DIR": str(folder / "caches"),
        "PANTS_LOCAL_EXECUTION_ROOT_DIR": str(folder / "sandboxes"),
        "PANTS_KEEP_SANDBOXES": "always",
        "PANTS_CONFIG_FILES": "pants.ci.toml",
        "PANTS_NATIVE_TOOLCHAIN": "3rdparty:toolchain",
        "PANTS_NATIVE_CMAKE": "3rdparty:cmake",
        "PANTS_TEST_OUTPUT": "all",
        **{f"PANTS_{name.upper()}": str(value) for name, value in given.items()},
    }
    # Where the real user's Pants is installed.
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    env["PANTS_TRITON_CACHE"] = os.environ.get("PANTS_TRITON_CACHE") or f"{cache}/pants-triton"
    with workspace(folder / checkout, env) as ws:
        ws.write({**_PROJECT, **_artifacts(origin)})
        user = User(ws, folder)
        user.greet("World")
        # Pants waits a minute for its daemon, which isn't enough on a machine that has much to do.
        for _ in range(3):
            if ws.pants("list", "demo:demo").exit_code == 0:
                break
        yield user
