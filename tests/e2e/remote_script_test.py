"""The script that runs a remote cache: what it says."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
import warnings
from pathlib import Path
from typing import Iterator

import pytest

from e2e.remote_cache import REMOTE_CACHE, CacheServer, not_installable
from pants_triton.kernel_cache.client import CacheClient
from pants_triton.kernel_cache.faulty_server import FaultyServer, running
from pants_triton.kernel_cache.settings import Settings


@pytest.fixture(autouse=True)
def installed() -> None:
    reason = not_installable()
    if reason:
        warnings.warn(f"NOT TESTED: the remote cache's script; {reason}", stacklevel=1)
        pytest.skip(reason)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """The folder of a server that is stopped at the end."""
    yield tmp_path / "server"
    script("down", tmp_path / "server")


def script(command: str, state: Path, *args: str) -> tuple[int, str]:
    """Its exit code, and what it says."""
    done = subprocess.run(
        [str(REMOTE_CACHE), command, f"--state={state}", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout


FREE_PORTS = ("--port=0", "--read-port=0")


def test_up_twice_is_up(state: Path) -> None:
    code, said = script("up", state, *FREE_PORTS)
    assert code == 0 and said.startswith("Healthy: "), said
    code, again = script("up", state, *FREE_PORTS)
    assert code == 0 and again.startswith("It runs already.\nHealthy: "), again
    # The same one.
    assert re.findall(r"pid (\d+)|:(\d+) \(", again) == re.findall(r"pid (\d+)|:(\d+) \(", said)
    assert script("status", state)[0] == 0
    assert script("down", state) == (0, "Stopped.\n")
    assert script("down", state) == (0, "It does not run.\n")


def test_there_is_none(state: Path) -> None:
    assert script("down", state) == (0, "It does not run.\n")
    assert script("status", state) == (1, "It does not run.\n")
    code, said = script("status", state, "--json")
    assert (code, json.loads(said)) == (1, {"running": False})
    code, said = script("token", state, "writer:me")
    assert code == 1 and "`up` makes it, or name another with --state or --key" in said


def test_a_port_that_is_taken(state: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, said = script("up", state, f"--port={port}", "--read-port=0")
    assert code == 1
    assert said == (
        f"remote-cache: cannot listen on 127.0.0.1:{port}: Address already in use; choose another"
        " with --port or --read-port (0 takes any that is free)\n"
    )
    assert script("status", state)[0] == 1


def test_a_killed_server_says_so(state: Path) -> None:
    server = CacheServer(state)
    server.up()
    pid = server.info["supervisor"]["pid"]
    subprocess.run(["kill", "-KILL", str(pid)], check=True)
    deadline = time.monotonic() + 30
    while script("status", state) != (1, "It does not run (it was killed).\n"):
        assert time.monotonic() < deadline
    code, said = script("up", state, *FREE_PORTS)
    assert code == 0 and said.startswith("Healthy: "), said


def test_above_its_size_what_was_used_longest_ago_goes(state: Path) -> None:
    server = CacheServer(state, options=("--size=5M", "--protected-minutes=0"))
    server.up()
    client = CacheClient(
        Settings(
            server.address("write").partition("//")[2],
            token_file=str(server.token("writer:test")),
            timeout_s=60,
        )
    )

    def holds(number: int) -> bool:
        # All of its files or nothing: the client raises if it gets some other ones.
        return client.load((f"kernel {number}",), "k.json") is not None

    def save(number: int) -> None:
        files = {f"k.{i}": os.urandom(330_000) for i in range(3)}
        client.save((f"kernel {number}",), {"k.json": b"{}", **files})
        # Entries of one second go together.
        time.sleep(1.1)

    for number in range(8):
        save(number)
        # The oldest, and always in use.
        assert holds(0)
    deadline = time.monotonic() + 60
    while sum(path.stat().st_size for path in server.blobs) >= 5_000_000:
        assert time.monotonic() < deadline
        time.sleep(0.5)

    kept = [number for number in range(8) if holds(number)]
    # Four are left when it is done, and a fifth may have come since.
    assert len(kept) in (4, 5) and kept == [0, *range(9 - len(kept), 8)], kept
    client.close()


@pytest.mark.parametrize(
    ("content", "sent"), [("abc.def", "Bearer abc.def"), ("ci:s3cr3t", "Basic Y2k6czNjcjN0")]
)
def test_check_takes_a_token_or_a_password(tmp_path: Path, content: str, sent: str) -> None:
    """Any server of the API, such as bazel-remote, which wants a password."""
    token = tmp_path / "token"
    token.write_text(content + "\n")
    server = FaultyServer()
    with running(server) as port:
        address = f"grpc://localhost:{port}"
        subprocess.run([str(REMOTE_CACHE), "check", address, f"--token={token}"], check=True)
    assert server.metadata["authorization"] == sent
