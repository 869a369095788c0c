from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Iterator

import pytest

from pants_triton.artifact import fetch, leftovers, misbehaving
from pants_triton.artifact.errors import (
    EXIT_THIS_HOST,
    EXIT_UNREACHABLE,
    EXIT_UNUSABLE,
    EXIT_WRONG_BYTES,
)
from pants_triton.artifact.fetch import PROGRAM_MODULES, main
from pants_triton.artifact.lock import Entry, UrlEntry, WheelEntry, entry_json
from pants_triton.artifact.misbehaving import Server

ADDRESS = "3rdparty/llvm:llvm"
PIN = "0" * 64
PATIENCE_S = 30


def elf(machine: int) -> bytes:
    return b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HH", 2, machine) + bytes(44)


def archive(*files: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


LLVM = archive(("llvm-1/bin/mlir-opt", elf(62)), ("llvm-1/lib/cmake/x.cmake", b"x" * 100_000))


@pytest.fixture
def server() -> Iterator[Server]:
    with misbehaving.running() as running:
        yield running


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)
    # The program sets both for itself.
    monkeypatch.setattr(os, "environ", dict(os.environ))
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def url_entry(url: str, content: bytes = LLVM, strip: str = "") -> UrlEntry:
    return UrlEntry(url, hashlib.sha256(content).hexdigest(), len(content), PIN, strip)


def argv(command: str, entry: Entry, *options: str) -> list[str]:
    Path("entry.json").write_text(entry_json(entry))
    return [command, "--entry=entry.json", "--cache=cache", f"--address={ADDRESS}", *options]


def run_fetch(entry: Entry, *options: str, output: str = "out") -> int:
    return main(argv("fetch", entry, f"--output={output}", *options))


def settings(**values: object) -> None:
    Path("cache").mkdir(exist_ok=True)
    Path("cache/settings.json").write_text(json.dumps({"tries": 2, "backoff_s": 0.01, **values}))


def test_an_entry_becomes_a_tree(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    entry = url_entry(server.on("/llvm.tar.gz", misbehaving.file(LLVM)), strip="llvm-1")
    assert run_fetch(entry, "--platform=linux_x86_64-ubuntu") == 0
    assert sorted(os.listdir("out")) == ["bin", "lib"]
    assert os.access("out/bin/mlir-opt", os.X_OK)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"llvm.tar.gz: {len(LLVM)} bytes from {server.url}/llvm.tar.gz" in captured.err


def test_status_and_download(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    entry = url_entry(server.on("/llvm.tar.gz", misbehaving.file(LLVM)))
    row: dict[str, object] = {"name": "llvm.tar.gz", "sha256": entry.sha256, "size": len(LLVM)}
    for command, cached in (("status", False), ("download", False), ("download", True)):
        assert main(argv(command, entry)) == 0
        assert json.loads(capsys.readouterr().out) == [dict(row, cached=cached)]
    assert main(argv("status", entry)) == 0
    assert json.loads(capsys.readouterr().out)[0]["cached"]
    assert len(server.log) == 1


def test_a_mirror_for_others(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    url = server.on("/llvm.tar.gz", misbehaving.file(LLVM))
    entry = UrlEntry(url, hashlib.sha256(LLVM).hexdigest(), None, PIN, "")
    for _ in range(2):
        assert main(argv("download", entry, "--mirror=a/mirror")) == 0
        # The lock doesn't say how big it is.
        assert json.loads(capsys.readouterr().out)[0]["size"] == len(LLVM)
    assert {p.name: p.read_bytes() for p in Path("a/mirror").iterdir()} == {entry.sha256: LLVM}
    shutil.rmtree("cache")
    settings(mirrors=[Path("a/mirror").resolve().as_uri()])
    assert run_fetch(entry) == 0
    assert len(server.log) == 1


def test_a_local_folder_instead(capsys: pytest.CaptureFixture[str]) -> None:
    os.makedirs("llvm/bin")
    Path("llvm/bin/opt").write_bytes(b"program")
    common = ["--path=llvm", "--cache=cache", f"--address={ADDRESS}"]
    assert main(["stamp", *common]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["files"], told["bytes"]) == (1, 7)
    assert main(["copy", *common, "--output=out", f"--stamp={told['stamp']}"]) == 0
    assert Path("out/bin/opt").read_bytes() == b"program"
    assert main(["copy", *common, "--output=again", f"--stamp={PIN}"]) == EXIT_THIS_HOST
    assert main(["copy", *common, "--output=again"]) == 0
    err = capsys.readouterr().err
    assert err.startswith(f"pants-triton: {ADDRESS}: The folder llvm, which ")
    settings(max_bytes=5)
    assert main(["stamp", *common]) == EXIT_THIS_HOST
    assert "`[artifact].max_tree_size`" in capsys.readouterr().err


def test_a_wheel(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as wheel:
        wheel.writestr("nvidia/cuda_nvcc/bin/ptxas", elf(62))
        wheel.writestr("x-1.dist-info/RECORD", "")
    content, name = buffer.getvalue(), "x-1-py3-none-any.whl"
    sha256 = hashlib.sha256(content).hexdigest()
    page = f'<a href="/files/{name}#sha256={sha256}">'.encode()
    headers = {"Content-Type": "text/html"}
    server.on("/simple/x/", misbehaving.file(page, headers=headers))
    server.on(f"/files/{name}", misbehaving.file(content))
    entry = WheelEntry(
        "x", "1", name, sha256, len(content), PIN, "nvidia/cuda_nvcc", (("bin", "bin"),)
    )

    assert run_fetch(entry) == EXIT_UNREACHABLE
    assert "`[python-repos].indexes`" in capsys.readouterr().err
    index = server.url.replace("//", "//user:s3cr3t@") + "/simple"
    settings(indexes=[index])
    assert run_fetch(entry) == 0
    assert os.listdir("out") == ["bin"] and os.listdir("out/bin") == ["ptxas"]

    assert main(["wheels", "--name=x", "--version=1.0", "--cache=cache"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out) == [{"filename": name, "sha256": sha256, "size": None, "yanked": False}]
    assert "s3cr3t" not in out


def test_what_a_location_has(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    url = server.on("/llvm.tar.gz", misbehaving.file(LLVM))
    assert main(["digest", f"--url={url}", "--cache=cache"]) == 0
    told = json.loads(capsys.readouterr().out)
    sha256 = hashlib.sha256(LLVM).hexdigest()
    assert told == {"location": url, "sha256": sha256, "size": len(LLVM)}


def test_the_first_location_that_has_it(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    gone = f"{server.url}/old/llvm.tar.gz"
    url = server.on("/new/llvm.tar.gz", misbehaving.file(LLVM))
    assert main(["digest", f"--url={gone}", f"--url={url}", "--cache=cache"]) == 0
    assert json.loads(capsys.readouterr().out)["location"] == url


def test_a_page_in_the_place_of_an_archive_is_not_locked(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    url = server.on("/llvm.tar.gz", misbehaving.file(b"<!doctype html><title>Log in</title>"))
    assert main(["digest", f"--url={url}", "--cache=cache"]) == EXIT_WRONG_BYTES
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1].startswith(
        f"pants-triton: what {url} serves is not what it is named: it is a page of HTML. "
    )


def test_wrong_bytes_say_what_to_run(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    url = server.on("/llvm.tar.gz", misbehaving.file(LLVM[:-1] + b"?"))
    assert run_fetch(url_entry(url)) == EXIT_WRONG_BYTES
    assert f"run `./pants lock-artifacts --refresh {ADDRESS}` and read" in capsys.readouterr().err


def test_that_no_location_has_it_is_an_answer(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = f"{server.url}/llvm.tar.gz"
    assert main(["digest", f"--url={gone}", "--cache=cache"]) == 0
    told = json.loads(capsys.readouterr().out)
    # The way out is for whoever asks to say.
    assert told == {"absent": f"{gone}: the server answered 404 Not Found"}


def test_a_location_that_cannot_be_asked_is_none(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    settings(tries=1)
    url = server.on("/llvm.tar.gz", misbehaving.status(503))
    assert main(["digest", f"--url={url}", "--cache=cache"]) == EXIT_UNREACHABLE


def test_variables_in_the_settings_are_ours(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    def private(handler: misbehaving.Handler) -> None:
        good = handler.request_.headers.get("authorization") == "Bearer s3cr3t"
        (misbehaving.file(LLVM) if good else misbehaving.status(401))(handler)

    settings(credentials={"127.0.0.1": "TOKEN"}, environment={"TOKEN": "s3cr3t"})
    assert run_fetch(url_entry(server.on("/llvm.tar.gz", private))) == 0
    assert "s3cr3t" not in "".join(capsys.readouterr())


BOMB = archive(*((str(i), bytes(1 << 20)) for i in range(4)))
HOSTILE = archive(("../x", b""))


@pytest.mark.parametrize(
    "behaviour, content, exit_code, told",
    [
        pytest.param(misbehaving.status(404), LLVM, EXIT_UNREACHABLE, "404", id="missing"),
        pytest.param(misbehaving.status(503), LLVM, EXIT_UNREACHABLE, "(2 tries)", id="down"),
        pytest.param(misbehaving.file(HOSTILE), LLVM, EXIT_WRONG_BYTES, "wrong size", id="other"),
        pytest.param(misbehaving.file(HOSTILE), HOSTILE, EXIT_UNUSABLE, "a `..`", id="hostile"),
        pytest.param(misbehaving.file(BOMB), BOMB, EXIT_UNUSABLE, "bigger than 3.0 MB", id="bomb"),
    ],
)
def test_one_line_says_what_is_wrong(
    server: Server,
    behaviour: misbehaving.Behaviour,
    content: bytes,
    exit_code: int,
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings(max_bytes=3_000_000)
    assert run_fetch(url_entry(server.on("/llvm.tar.gz", behaviour), content)) == exit_code
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"pants-triton: {ADDRESS}: llvm.tar.gz ")
    assert told in last and "Traceback" not in last
    assert not os.path.exists("out")
    assert [name for name in os.listdir(".") if name.startswith(".out")] == []


def test_an_archive_for_the_wrong_machine(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = url_entry(server.on("/llvm.tar.gz", misbehaving.file(LLVM)))
    assert run_fetch(entry, "--platform=linux_arm64") == EXIT_UNUSABLE
    told = capsys.readouterr().err
    assert "llvm-1/bin/mlir-opt is for linux_x86_64, not for linux_arm64" in told
    assert not os.path.exists("out")


@pytest.mark.parametrize("text", ["{", '{"kind": "other"}'])
def test_an_entry_that_is_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("entry.json").write_text(text)
    assert main(["fetch", "--entry=entry.json", "--cache=cache", "--output=out"]) == EXIT_UNUSABLE
    assert "entry.json can't be used" in capsys.readouterr().err


def test_settings_that_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    settings(mirror="x")
    assert run_fetch(url_entry("file:///x")) == EXIT_THIS_HOST
    assert "options of `[artifact]`" in capsys.readouterr().err


def program(tmp_path: Path) -> Path:
    """A copy of the modules, as in a sandbox."""
    package = tmp_path / "program/pants_triton/artifact"
    package.mkdir(parents=True)
    for path in (package, package.parent):
        (path / "__init__.py").touch()
    for module in PROGRAM_MODULES:
        shutil.copy(Path(fetch.__file__).parent / f"{module}.py", package)
    (tmp_path / "program/__main__.py").write_text(
        "import sys\nfrom pants_triton.artifact.fetch import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    return tmp_path / "program"


def test_the_program_s_modules_are_all_that_it_imports(tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import pants_triton.artifact.fetch;"
        "print(*(name for name in sys.modules if name.startswith('pants_triton.artifact.')))"
    )
    result = subprocess.run(
        [sys.executable, "-I", "-c", script, str(program(tmp_path))],
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
    )
    names = sorted(name.rpartition(".")[2] for name in result.stdout.split())
    assert names == list(PROGRAM_MODULES)


def test_a_copy_of_these_modules_runs_on_its_own(server: Server, tmp_path: Path) -> None:
    """With nothing else of this project, nothing installed, and no environment at all."""
    entry = url_entry(server.on("/llvm.tar.gz", misbehaving.file(LLVM)))
    result = subprocess.run(
        [sys.executable, "-I", str(program(tmp_path)), *argv("fetch", entry), "--output=out"],
        env=dict[str, str](),
        timeout=PATIENCE_S,
    )
    assert result.returncode == 0
    assert os.listdir("out") == ["llvm-1"]


def test_the_folder_that_pants_laid_the_program_out_in_is_registered(tmp_path: Path) -> None:
    """For the process that started it, even by way of a shell."""
    folder = tmp_path / "immutable_inputsX1"
    (folder / "digest").mkdir(parents=True)
    os.rename(program(tmp_path), folder / "digest/program")
    (tmp_path / "sandbox").symlink_to(folder / "digest/program")
    result = subprocess.run(
        [
            "sh",
            "-c",
            'exec "$@"',
            "-",
            sys.executable,
            "-I",
            "sandbox",
            "register",
            "--cache=cache",
        ],
        stdout=subprocess.PIPE,
        timeout=PATIENCE_S,
    )
    assert json.loads(result.stdout) == {"folder": str(folder), "removed": []}
    assert leftovers.remove_own(Path("cache"), os.getpid()) == str(folder)
    assert not folder.exists()


def test_a_second_user_with_a_mirror_of_files_gets_the_same_bytes(tmp_path: Path) -> None:
    source = tmp_path / "llvm.tar.gz"
    source.write_bytes(LLVM)
    entry = url_entry(source.as_uri())
    assert run_fetch(entry) == 0
    source.unlink()
    os.rename("cache/downloads", "mirror")
    shutil.rmtree("cache")
    settings(mirrors=[(tmp_path / "mirror").as_uri()])
    assert run_fetch(entry, output="again") == 0
    assert subprocess.run(["diff", "-r", "out", "again"]).returncode == 0


def test_a_process_that_is_terminated_leaves_nothing_but_what_can_be_resumed(
    server: Server, tmp_path: Path
) -> None:
    url = server.on("/llvm.tar.gz", misbehaving.hanging(LLVM, 100), misbehaving.file(LLVM))
    entry = url_entry(url)
    process = subprocess.Popen(
        [sys.executable, "-I", str(program(tmp_path)), *argv("fetch", entry), "--output=out"],
        stderr=subprocess.PIPE,
        text=True,
    )
    partial = Path(f"cache/downloads/{entry.sha256}.partial")
    deadline = time.monotonic() + PATIENCE_S
    while not (partial.exists() and partial.stat().st_size == 100):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.terminate()
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in err
    assert not os.path.exists("out")
    assert run_fetch(entry) == 0
    assert server.log[1].sent == len(LLVM) - 100
