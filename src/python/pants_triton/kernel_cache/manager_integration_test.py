"""Real kernels, compiled by the real Triton in processes of their own, each with its own home."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import grpc
import pytest

from pants_triton.kernel_cache import compile_kernels
from pants_triton.kernel_cache.faulty_server import FaultyServer, failing, running
from pants_triton.kernel_cache.reapi import digest_of

MANAGER = {
    "TRITON_CACHE_MANAGER": "pants_triton.kernel_cache.manager:KernelCacheManager",
}
BACKEND = {
    "TRITON_CACHE_MANAGER": "triton.runtime.cache:RemoteCacheManager",
    "TRITON_REMOTE_CACHE_BACKEND": "pants_triton.kernel_cache.manager:KernelCacheBackend",
}
KERNELS = 4


@pytest.fixture
def server() -> FaultyServer:
    return FaultyServer()


@pytest.fixture
def address(server: FaultyServer) -> Iterator[str]:
    with running(server) as port:
        yield f"grpc://localhost:{port}"


def compile_all(home: Path, address: str, how: dict[str, str] = MANAGER, **more: str) -> Any:
    """What `compile_kernels` says, with what went to standard error as `stderr`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TRITON_", "PANTS_TRITON_"))}
    result = subprocess.run(
        [sys.executable, "-m", compile_kernels.__name__, str(KERNELS)],
        env={
            **kept,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TRITON_HOME": str(home),
            # The default, about which Triton 3.9 warns.
            "TRITON_DEFAULT_FP_FUSION": "1",
            "PANTS_TRITON_KERNEL_CACHE_ADDRESS": address,
            "PANTS_TRITON_KERNEL_CACHE_MODE": "write",
            **how,
            **more,
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return {**json.loads(result.stdout), "stderr": result.stderr}


@pytest.mark.parametrize("how", [MANAGER, BACKEND], ids=["manager", "backend"])
def test_kernels_come_from_the_server_in_a_new_home(
    tmp_path: Path, server: FaultyServer, address: str, how: dict[str, str]
) -> None:
    cold = compile_all(tmp_path / "1", address, how)
    assert (cold["hits"], cold["misses"], cold["stored"]) == (0, KERNELS, KERNELS)
    warm = compile_all(tmp_path / "2", address, how)
    assert (warm["hits"], warm["misses"], warm["stored"]) == (KERNELS, 0, 0)
    assert (cold["compiled"], warm["compiled"]) == (KERNELS, 0)
    assert warm["sums"] == cold["sums"]
    # A kernel is one question and one answer; the home that has it asks nobody.
    server.calls.clear()
    again = compile_all(tmp_path / "2", address, how)
    assert again["sums"] == cold["sums"]
    assert server.calls == []
    assert cold["stderr"] == warm["stderr"] == again["stderr"] == ""


def test_manager_and_backend_have_the_same_entries(tmp_path: Path, address: str) -> None:
    cold = compile_all(tmp_path / "1", address, BACKEND)
    warm = compile_all(tmp_path / "2", address, MANAGER)
    assert warm["hits"] == KERNELS
    # And homes that one left serve the other.
    for home, how in [("1", MANAGER), ("2", BACKEND)]:
        assert compile_all(tmp_path / home, address, how)["sums"] == cold["sums"]


def test_a_home_filled_from_the_server_needs_none_later(tmp_path: Path, address: str) -> None:
    cold = compile_all(tmp_path / "1", address)
    compile_all(tmp_path / "2", address)
    plain = compile_all(tmp_path / "2", "", how={}, TRITON_STORE_BINARY_ONLY="1")
    assert plain["sums"] == cold["sums"]


@pytest.mark.parametrize("how", [MANAGER, BACKEND], ids=["manager", "backend"])
def test_poisoned_entries_are_refused(
    tmp_path: Path, server: FaultyServer, address: str, how: dict[str, str]
) -> None:
    cold = compile_all(tmp_path / "1", address, how)
    good = {path: digest for e in server.entries.values() for path, digest in _outputs(e)}
    assert "add_kernel.cubin" in good
    for entry in server.entries.values():
        for file in entry.output_files:
            if file.path == "add_kernel.cubin":
                server.blobs[file.digest.hash] = bytes(file.digest.size_bytes)
            if file.path == "add_kernel.hsaco":
                # Rightly signed for, but not what the entry is about.
                evil = b'{"hash": "%s"}' % (b"0" * 64)
                metadata = next(f for f in entry.output_files if f.path == "add_kernel.json")
                metadata.digest.CopyFrom(digest_of(evil))
                server.blobs[digest_of(evil).hash] = evil
    poisoned = compile_all(tmp_path / "2", address, how)
    assert poisoned["sums"] == cold["sums"]
    assert (poisoned["hits"], poisoned["refused"]) == (0, KERNELS)
    (line,) = poisoned["stderr"].splitlines()
    assert "refused an entry, and compiles the kernel instead" in line


def _outputs(entry: Any) -> Iterator[tuple[str, Any]]:
    return ((file.path, file.digest) for file in entry.output_files)


@pytest.mark.parametrize("how", [MANAGER, BACKEND], ids=["manager", "backend"])
def test_a_dead_server_is_as_none(tmp_path: Path, how: dict[str, str]) -> None:
    with running(FaultyServer()) as port:
        pass
    address = f"grpc://127.0.0.1:{port}"
    dead = compile_all(tmp_path / "1", address, how)
    (line,) = dead["stderr"].splitlines()
    assert "is off in this process: ConnectionRefusedError" in line
    # The local cache goes on to work.
    again = compile_all(tmp_path / "1", address, how)
    assert again["sums"] == dead["sums"]
    assert again["stderr"] == ""
    assert (dead["compiled"], again["compiled"]) == (KERNELS, 0)


@pytest.mark.parametrize("method", ["GetActionResult", "BatchReadBlobs", "UpdateActionResult"])
def test_a_server_that_fails_is_as_none(
    tmp_path: Path, server: FaultyServer, address: str, method: str
) -> None:
    good = compile_all(tmp_path / "1", address)
    server.faults[method] = failing(grpc.StatusCode.UNAVAILABLE, "down")
    if method == "UpdateActionResult":
        server.entries.clear()
    bad = compile_all(tmp_path / "2", address)
    assert bad["sums"] == good["sums"]
    assert bad["hits"] == 0
    (line,) = bad["stderr"].splitlines()
    what = "stores nothing more" if method == "UpdateActionResult" else "is off"
    assert f"{what} in this process: {method}: status 14: down" in line


def test_replaced_kernels_are_not_shared(
    tmp_path: Path, server: FaultyServer, address: str
) -> None:
    compile_all(tmp_path / "1", address, TRITON_KERNEL_OVERRIDE="1")
    assert server.calls == []


def test_without_an_address_nothing_is_said(tmp_path: Path) -> None:
    assert compile_all(tmp_path / "1", "")["stderr"] == ""
