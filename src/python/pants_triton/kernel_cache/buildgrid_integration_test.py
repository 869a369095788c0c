"""The client and a real server: one that is running, or BuildGrid if it is installed.

    PANTS_TRITON_TEST_CACHE_ADDRESS=grpc://localhost:50051
    PANTS_TRITON_TEST_BUILDGRID_PYTHON=…/bin/python        # of an environment with BuildGrid
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
import uuid
import warnings
from pathlib import Path
from typing import Iterator

import pytest

from pants_triton.kernel_cache.client import CacheClient
from pants_triton.kernel_cache.errors import Unavailable
from pants_triton.kernel_cache.manager_integration_test import KERNELS, compile_all
from pants_triton.kernel_cache.settings import make_settings

_ADDRESS = os.environ.get("PANTS_TRITON_TEST_CACHE_ADDRESS", "")
_PYTHON = os.environ.get("PANTS_TRITON_TEST_BUILDGRID_PYTHON", "")

if not _ADDRESS and not _PYTHON:
    warnings.warn("NOT TESTED: the kernel cache with a real server", stacklevel=1)
pytestmark = pytest.mark.skipif(
    not _ADDRESS and not _PYTHON,
    reason="PANTS_TRITON_TEST_CACHE_ADDRESS and PANTS_TRITON_TEST_BUILDGRID_PYTHON name no server",
)

CONFIGURATION = """\
server:
  - !channel
    address: localhost:{port}
    insecure-mode: true
description: of a test
authorization:
  method: none
storages:
  - !disk-storage &storage
    path: {folder}
caches:
  - !lru-action-cache &actions
    storage: *storage
    max-cached-refs: 1000
    cache-failed-actions: false
    allow-updates: true
instances:
  - name: ""
    services:
      - !action-cache
        cache: *actions
      - !cas
        storage: *storage
      - !bytestream
        storage: *storage
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if _ADDRESS:
        yield _ADDRESS
        return
    folder = tmp_path_factory.mktemp("buildgrid")
    with socket.create_server(("localhost", 0)) as listener:
        port = listener.getsockname()[1]
    (folder / "server.yml").write_text(
        CONFIGURATION.format(port=port, folder=folder / "storage"), encoding="utf-8"
    )
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(
            [str(Path(_PYTHON).with_name("bgd")), "server", "start", str(folder / "server.yml")],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        client = make_client(f"grpc://localhost:{port}")
        deadline = time.monotonic() + 60
        while True:
            try:
                client.load(("form", "K", "k.json"), "k.json")
                break
            except Unavailable:
                assert server.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.2)
        yield f"grpc://localhost:{port}"
    finally:
        server.terminate()
        server.wait(30)


def make_client(address: str) -> CacheClient:
    settings = make_settings(
        address=address, mode="write", instance="", ca="", token_file="", timeout="10"
    )
    assert settings is not None
    return CacheClient(settings)


def test_files_of_all_sizes(address: str) -> None:
    client = make_client(address)
    # A name of its own: the server may have been used before.
    name = ("form", uuid.uuid4().hex, "k.json")
    files = {
        "k.json": b"{}",
        "k.empty": b"",
        "k.small": os.urandom(100_000),
        **{f"k.{i}": os.urandom(2_000_000) for i in range(3)},
        "k.large": os.urandom(9_000_001),
    }
    assert client.load(name, "k.json") is None
    assert client.save(name, files) > 15_000_000
    assert client.load(name, "k.json") == files
    assert client.save(name, files) == 0


def test_real_kernels_in_a_new_home(address: str, tmp_path: Path) -> None:
    # Whoever was here first stored them; at the latest the first home does.
    first = compile_all(tmp_path / "1", address)
    assert first["hits"] + first["stored"] == KERNELS
    second = compile_all(tmp_path / "2", address)
    assert (second["hits"], second["misses"]) == (KERNELS, 0)
    assert second["sums"] == first["sums"]
    assert second["stderr"] == ""
