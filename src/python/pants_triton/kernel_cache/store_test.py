from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
import threading
from typing import Iterator

import grpc
import pytest

from pants_triton.kernel_cache.entry_test import KEY, kernel
from pants_triton.kernel_cache.faulty_server import FaultyServer, failing, running
from pants_triton.kernel_cache.reapi import digest_of
from pants_triton.kernel_cache.settings import Settings
from pants_triton.kernel_cache.store import KernelStore

GROUP = "add.json"


@pytest.fixture
def server() -> FaultyServer:
    return FaultyServer()


@pytest.fixture
def store(server: FaultyServer) -> Iterator[KernelStore]:
    with running(server) as port:
        yield KernelStore(Settings(f"localhost:{port}", writes=True, timeout_s=5))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def test_a_kernel_comes_back(store: KernelStore, caplog: pytest.LogCaptureFixture) -> None:
    assert store.load(KEY, GROUP) is None
    store.save(KEY, GROUP, kernel())
    assert store.load(KEY, GROUP) == kernel()
    statistics = store.statistics
    assert (statistics.misses, statistics.stored, statistics.hits) == (1, 1, 1)
    assert statistics.bytes_read == sum(map(len, kernel().values()))
    assert statistics.bytes_written > statistics.bytes_read
    assert warnings(caplog) == []


def test_without_settings_nothing_happens() -> None:
    store = KernelStore(None)
    store.save(KEY, GROUP, kernel())
    assert store.load(KEY, GROUP) is None


def test_reading_only(server: FaultyServer) -> None:
    with running(server) as port:
        store = KernelStore(Settings(f"localhost:{port}"))
        store.save(KEY, GROUP, kernel())
        assert store.load(KEY, GROUP) is None
    assert server.calls == ["GetActionResult"]


@pytest.mark.parametrize("variable", ["TRITON_KERNEL_OVERRIDE", "TRITON_PLUGIN_PATHS"])
def test_kernels_of_ones_own_are_neither_stored_nor_taken(
    store: KernelStore, server: FaultyServer, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    store.save(KEY, GROUP, kernel())
    assert store.load(KEY, GROUP) is None
    assert server.calls == []


def test_what_would_be_refused_is_not_stored(store: KernelStore, server: FaultyServer) -> None:
    store.save(KEY, GROUP, kernel(ir_override="some.ptx"))
    store.save(KEY, GROUP, {**kernel(), "add.so": b"\x7fELF"})
    assert server.calls == []


def test_a_poisoned_blob_is_refused_and_said_once(
    store: KernelStore, server: FaultyServer, caplog: pytest.LogCaptureFixture
) -> None:
    store.save(KEY, GROUP, kernel())
    cubin = kernel()["add.cubin"]
    server.blobs[digest_of(cubin).hash] = b"\x7fELF evil"[: len(cubin)].ljust(len(cubin), b"x")
    for _ in range(5):
        assert store.load(KEY, GROUP) is None
    assert store.statistics.refused == 5
    (message,) = warnings(caplog)
    assert "refused an entry, and compiles the kernel instead: the content of" in message


def test_an_entry_that_points_at_another_kernel_is_refused_and_replaced(
    store: KernelStore, server: FaultyServer, caplog: pytest.LogCaptureFixture
) -> None:
    store.save(KEY, GROUP, kernel())
    (action,) = server.entries
    evil = kernel(hash="0" * 64)
    store.save(KEY, GROUP, kernel())
    for file in server.entries[action].output_files:
        file.digest.CopyFrom(digest_of(evil[file.path]))
    server.blobs.update({digest_of(data).hash: data for data in evil.values()})
    assert store.load(KEY, GROUP) is None
    assert "of another kernel" in warnings(caplog)[0]
    # Triton has compiled it meanwhile.
    store.save(KEY, GROUP, kernel())
    assert store.load(KEY, GROUP) == kernel()


def test_a_server_that_lets_nobody_write_is_read(
    store: KernelStore, server: FaultyServer, caplog: pytest.LogCaptureFixture
) -> None:
    store.save(KEY, GROUP, kernel())
    server.faults["UpdateActionResult"] = failing(grpc.StatusCode.PERMISSION_DENIED, "not you")
    for _ in range(3):
        store.save(KEY, GROUP, kernel())
    assert server.calls.count("UpdateActionResult") == 2
    assert store.load(KEY, GROUP) == kernel()
    (message,) = warnings(caplog)
    assert "stores nothing, for the server does not allow it: status 7: not you" in message


def test_three_failures_in_a_row_are_enough(
    store: KernelStore, server: FaultyServer, caplog: pytest.LogCaptureFixture
) -> None:
    store.save(KEY, GROUP, kernel())
    server.faults["GetActionResult"] = failing(grpc.StatusCode.INTERNAL)
    assert store.load(KEY, GROUP) is None
    assert store.load(KEY, GROUP) is None
    server.faults.clear()
    assert store.load(KEY, GROUP) == kernel()
    assert warnings(caplog) == []
    server.faults["GetActionResult"] = failing(grpc.StatusCode.INTERNAL)
    for _ in range(10):
        assert store.load(KEY, GROUP) is None
    assert server.calls.count("GetActionResult") == 6
    (message,) = warnings(caplog)
    assert "is off in this process: GetActionResult: status 13" in message


def test_a_dead_server_is_asked_once(caplog: pytest.LogCaptureFixture) -> None:
    with running(FaultyServer()) as port:
        pass
    store = KernelStore(Settings(f"127.0.0.1:{port}", writes=True))
    for _ in range(3):
        assert store.load(KEY, GROUP) is None
        store.save(KEY, GROUP, kernel())
    (message,) = warnings(caplog)
    assert f"127.0.0.1:{port} is off in this process: ConnectionRefusedError" in message


def test_a_wrong_file_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    store = KernelStore(Settings("localhost:1", token_file="/nowhere/token"))
    for _ in range(3):
        assert store.load(KEY, GROUP) is None
    (message,) = warnings(caplog)
    assert "the token file /nowhere/token can't be read" in message


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("package", ["h2", "google.protobuf"])
def test_a_missing_package_is_said_once(package: str) -> None:
    result = run_python(
        f"""
        import sys
        sys.modules[{package!r}] = None
        from pants_triton.kernel_cache.store import the_store
        for _ in range(3):
            assert the_store().load("KEY", "add.json") is None
            the_store().save("KEY", "add.json", {{}})
        """,
        PANTS_TRITON_KERNEL_CACHE_ADDRESS="grpc://localhost:1",
    )
    assert result.returncode == 0, result.stderr
    (line,) = result.stderr.splitlines()
    assert "install the packages h2 and protobuf beside Triton" in line


def test_wrong_settings_are_said_once() -> None:
    result = run_python(
        """
        from pants_triton.kernel_cache.store import the_store
        for _ in range(3):
            assert the_store().load("KEY", "add.json") is None
        """,
        PANTS_TRITON_KERNEL_CACHE_ADDRESS="localhost",
    )
    assert result.returncode == 0, result.stderr
    (line,) = result.stderr.splitlines()
    assert "The kernel cache is off: the address must be like grpc://host:port" in line


def test_forked_processes_connect_for_themselves(server: FaultyServer) -> None:
    # In a process without gRPC's own library, which the server here needs and which does not survive.
    with running(server) as port:
        result = run_python(
            f"""
            import os, sys, threading
            from pants_triton.kernel_cache.entry_test import KEY, kernel
            from pants_triton.kernel_cache.settings import Settings
            from pants_triton.kernel_cache.store import KernelStore

            store = KernelStore(Settings("localhost:{port}", writes=True))
            store.save(KEY, "add.json", kernel())
            is_done = False

            def load():
                while not is_done:
                    assert store.load(KEY, "add.json") == kernel()

            # They hold the locks at the moment of a fork, now and then.
            threads = [threading.Thread(target=load) for _ in range(3)]
            for thread in threads:
                thread.start()
            for _ in range(20):
                pid = os.fork()
                if pid == 0:
                    os._exit(0 if store.load(KEY, "add.json") == kernel() else 1)
                assert os.waitpid(pid, 0)[1] == 0
            is_done = True
            for thread in threads:
                thread.join()
            assert store.load(KEY, "add.json") == kernel()
            assert "grpc" not in sys.modules
            """
        )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


def test_many_threads_share_a_store(store: KernelStore) -> None:
    results = []

    def work() -> None:
        for _ in range(5):
            store.save(KEY, GROUP, kernel())
            results.append(store.load(KEY, GROUP) == kernel())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 40
