from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Callable, Iterator

import grpc
import pytest
import trustme

from pants_triton.kernel_cache.client import CacheClient
from pants_triton.kernel_cache.errors import (
    CallFailed,
    Refused,
    SettingsError,
    Unavailable,
    WriteDenied,
)
from pants_triton.kernel_cache.faulty_server import FaultyServer, failing, running
from pants_triton.kernel_cache.reapi import MESSAGES, digest_of
from pants_triton.kernel_cache.settings import Settings

NAME = ("form/1", "KEY", "k.json")
FILES = {"k.json": b"{}", "k.cubin": b"\x7fELF" + bytes(range(256)), "k.ptx": b"", "k.ttir": b"{}"}
MIB = 1024 * 1024

MakeClient = Callable[..., CacheClient]


@pytest.fixture
def server() -> FaultyServer:
    return FaultyServer()


@pytest.fixture
def client(server: FaultyServer) -> Iterator[CacheClient]:
    with running(server) as port:
        made = CacheClient(Settings(f"localhost:{port}", timeout_s=5))
        yield made
        made.close()


def only_entry(server: FaultyServer):
    (entry,) = server.entries.values()
    return entry


def test_what_is_saved_is_loaded(client: CacheClient, server: FaultyServer) -> None:
    assert client.load(NAME, "k.json") is None
    assert client.save(NAME, FILES) > 0
    assert client.load(NAME, "k.json") == FILES
    assert client.load(("form/1", "OTHER", "k.json"), "k.json") is None
    # What the server has is not sent again; its list of arguments says what the entry is.
    assert client.save(NAME, FILES) == 0
    assert any(
        list(MESSAGES["Command"].FromString(blob).arguments) == list(NAME)
        for blob in server.blobs.values()
        if blob.startswith(b"\n\x06form/1")
    )


def test_what_is_too_large_for_one_message(client: CacheClient, server: FaultyServer) -> None:
    files = {
        "k.json": b"{}",
        "k.large": os.urandom(9 * MIB + 1),
        **{f"k.{i}": os.urandom(MIB + i) for i in range(7)},
    }
    assert client.save(NAME, files) > 16 * MIB
    assert client.load(NAME, "k.json") == files
    assert server.calls.count("Write") == server.calls.count("Read") == 1
    assert server.calls.count("BatchUpdateBlobs") > 2


def test_an_upload_that_somebody_else_finished_first(
    client: CacheClient, server: FaultyServer
) -> None:
    large = os.urandom(20 * MIB)

    def finish_it(context) -> None:
        server.blobs[digest_of(large).hash] = large

    server.faults["Write"] = finish_it
    client.save(NAME, {"k.json": b"{}", "k.large": large})
    assert client.load(NAME, "k.json") == {"k.json": b"{}", "k.large": large}


def test_an_instance() -> None:
    server = FaultyServer("some/instance")
    with running(server) as port:
        client = CacheClient(Settings(f"localhost:{port}", instance="some/instance"))
        client.save(NAME, {"k.json": b"{}", "k.large": os.urandom(4 * MIB)})
        assert client.load(NAME, "k.json")
        with pytest.raises(CallFailed, match="GetActionResult: status 3: no such instance"):
            CacheClient(Settings(f"localhost:{port}")).load(NAME, "k.json")


@pytest.mark.parametrize("size", [100, 5 * MIB], ids=["batch", "stream"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda data: data[:-1] + bytes([data[-1] ^ 1]), id="a bit"),
        pytest.param(lambda data: data[:-1], id="cut off"),
        pytest.param(lambda data: data + b"x", id="longer"),
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data + bytes(2 * MIB), id="much longer"),
    ],
)
def test_changed_content_is_refused(
    client: CacheClient, server: FaultyServer, size: int, change: Callable[[bytes], bytes]
) -> None:
    data = os.urandom(size)
    client.save(NAME, {"k.json": b"{}", "k.cubin": data})
    server.blobs[digest_of(data).hash] = change(data)
    with pytest.raises(Refused):
        client.load(NAME, "k.json")
    # And the connection is as good as before.
    server.blobs[digest_of(data).hash] = data
    assert client.load(NAME, "k.json") is not None


@pytest.mark.parametrize("size", [100, 5 * MIB], ids=["batch", "stream"])
def test_what_is_evicted_is_a_miss(client: CacheClient, server: FaultyServer, size: int) -> None:
    data = os.urandom(size)
    client.save(NAME, {"k.json": b"{}", "k.cubin": data})
    del server.blobs[digest_of(data).hash]
    assert client.load(NAME, "k.json") is None


def test_other_blobs_than_asked_for(client: CacheClient, server: FaultyServer) -> None:
    client.save(NAME, FILES)
    response = MESSAGES["BatchReadBlobsResponse"]()
    response.responses.add(digest=digest_of(b"other"), data=b"other")
    server.BatchReadBlobs = lambda request, context: response  # type: ignore[method-assign]
    with pytest.raises(CallFailed, match="not all blobs came"):
        client.load(NAME, "k.json")


@pytest.mark.parametrize(
    "path, size, message",
    [
        pytest.param("../k.json", 2, "none of k.json", id="outside"),
        pytest.param("/etc/k.json", 2, "none of k.json", id="absolute"),
        pytest.param("other.cubin", 2, "none of k.json", id="another kernel"),
        pytest.param("k.cpython-311.so", 2, "the host would run", id="library"),
        pytest.param("k.json", 2, "two files", id="twice"),
        pytest.param("k.huge", 10**12, "of 1000000000264 bytes", id="huge"),
        pytest.param("k.negative", -5, "size -5", id="negative"),
    ],
)
def test_entries_of_another_shape_are_refused_unread(
    client: CacheClient, server: FaultyServer, path: str, size: int, message: str
) -> None:
    client.save(NAME, FILES)
    only_entry(server).output_files.add(
        path=path, digest=MESSAGES["Digest"](hash="0" * 64, size_bytes=size)
    )
    server.calls.clear()
    with pytest.raises(Refused, match=message):
        client.load(NAME, "k.json")
    assert server.calls == ["GetActionResult"]


def test_a_failed_compilation_and_no_metadata_are_refused(
    client: CacheClient, server: FaultyServer
) -> None:
    client.save(NAME, FILES)
    only_entry(server).exit_code = 1
    with pytest.raises(Refused, match="ended with 1"):
        client.load(NAME, "k.json")
    only_entry(server).Clear()
    with pytest.raises(Refused, match="no metadata"):
        client.load(NAME, "k.json")


@pytest.mark.parametrize(
    "code, method, error",
    [
        (grpc.StatusCode.UNAVAILABLE, "GetActionResult", CallFailed),
        (grpc.StatusCode.INTERNAL, "BatchReadBlobs", CallFailed),
        (grpc.StatusCode.UNAUTHENTICATED, "GetActionResult", CallFailed),
        (grpc.StatusCode.UNAVAILABLE, "Read, midway", CallFailed),
    ],
)
def test_errors_of_the_server(
    client: CacheClient, server: FaultyServer, code: grpc.StatusCode, method: str, error: type
) -> None:
    client.save(NAME, {"k.json": b"{}", "k.large": os.urandom(5 * MIB)})
    server.faults[method] = failing(code, "ä 100% wrong")
    with pytest.raises(error, match=f"status {code.value[0]}: ä 100% wrong"):
        client.load(NAME, "k.json")
    server.faults.clear()
    assert client.load(NAME, "k.json") is not None


@pytest.mark.parametrize("method", ["UpdateActionResult", "BatchUpdateBlobs", "Write"])
@pytest.mark.parametrize(
    "code", [grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED]
)
def test_a_server_that_only_lets_read(
    client: CacheClient, server: FaultyServer, method: str, code: grpc.StatusCode
) -> None:
    server.faults[method] = failing(code)
    with pytest.raises(WriteDenied):
        client.save(NAME, {"k.json": b"{}", "k.large": os.urandom(5 * MIB)})


def test_a_server_that_is_too_slow(server: FaultyServer) -> None:
    with running(server) as port:
        client = CacheClient(Settings(f"localhost:{port}", timeout_s=0.3))
        client.save(NAME, FILES)
        server.faults["BatchReadBlobs"] = lambda context: time.sleep(1)
        start = time.monotonic()
        with pytest.raises(Unavailable, match="in time|status 4"):
            client.load(NAME, "k.json")
        assert time.monotonic() - start < 0.9


def test_a_server_that_starts_anew(server: FaultyServer) -> None:
    with running(server) as port:
        client = CacheClient(Settings(f"localhost:{port}", timeout_s=5))
        client.save(NAME, FILES)
    with pytest.raises(Unavailable):
        client.load(NAME, "k.json")
    grpc_server, _ = server.start(port)
    try:
        assert client.load(NAME, "k.json") == FILES
    finally:
        grpc_server.stop(None).wait()
    # The client had this connection open, and finds it closed.
    grpc_server, _ = server.start(port)
    try:
        assert client.load(NAME, "k.json") == FILES
    finally:
        grpc_server.stop(None).wait()


def test_many_threads(client: CacheClient) -> None:
    results: list[bool] = []

    def work(i: int) -> None:
        name = ("form/1", str(i), "k.json")
        files = {"k.json": b"%d" % i, "k.cubin": os.urandom(200_000)}
        client.save(name, files)
        results.append(client.load(name, "k.json") == files)

    threads = [threading.Thread(target=work, args=[i]) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 16


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ("abc.def", "Bearer abc.def"),
        # For bazel-remote.
        ("ci:s3cr3t", "Basic Y2k6czNjcjN0"),
    ],
)
def test_a_token_is_sent(server: FaultyServer, tmp_path: Path, content: str, sent: str) -> None:
    token = tmp_path / "token"
    token.write_text(content + "\n")
    with running(server) as port:
        client = CacheClient(Settings(f"localhost:{port}", token_file=str(token)))
        client.load(NAME, "k.json")
    assert server.metadata["authorization"] == sent


@pytest.mark.parametrize(
    "content, message",
    [(None, "No such file"), (b"", "holds no token"), (b"a\nb", "no token"), (b"\xff", "read")],
)
def test_a_token_file_that_is_none(tmp_path: Path, content: bytes | None, message: str) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_bytes(content)
    with pytest.raises(SettingsError, match=f"token file {token} .*{message}"):
        CacheClient(Settings("localhost:1", token_file=str(token)))


def test_certificates_that_are_none(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("nothing")
    with pytest.raises(SettingsError, match=f"certificates {ca} can't be read"):
        CacheClient(Settings("localhost:1", is_tls=True, ca=str(ca)))


def test_nobody_is_there() -> None:
    with pytest.raises(Unavailable, match="refused"):
        CacheClient(Settings("127.0.0.1:1")).load(NAME, "k.json")


# --- encrypted ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


def identity(authority: trustme.CA, name: str) -> grpc.ServerCredentials:
    """The credentials of a server that is called `name`."""
    certificate = authority.issue_cert(name)
    chain = b"".join(part.bytes() for part in certificate.cert_chain_pems)
    return grpc.ssl_server_credentials([(certificate.private_key_pem.bytes(), chain)])


def test_an_encrypted_connection(
    server: FaultyServer, authority: trustme.CA, ca: str, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    with running(server, identity(authority, "localhost")) as port:
        settings = Settings(f"localhost:{port}", is_tls=True, ca=ca, token_file=str(token))
        client = CacheClient(settings)
        client.save(NAME, FILES)
        assert client.load(NAME, "k.json") == FILES
        assert server.metadata["authorization"] == "Bearer secret"
        client.close()


@pytest.mark.parametrize(
    ("certified", "is_trusted", "message"),
    [
        pytest.param("localhost", False, "CERTIFICATE_VERIFY_FAILED", id="unknown authority"),
        pytest.param("cache.example.org", True, "Hostname mismatch", id="another's certificate"),
    ],
)
def test_a_server_that_is_not_who_it_should_be(
    server: FaultyServer,
    authority: trustme.CA,
    ca: str,
    certified: str,
    is_trusted: bool,
    message: str,
) -> None:
    issuer = authority if is_trusted else trustme.CA()
    with running(server, identity(issuer, certified)) as port:
        client = CacheClient(Settings(f"localhost:{port}", is_tls=True, ca=ca))
        with pytest.raises(Unavailable, match=message):
            client.load(NAME, "k.json")
    assert not server.calls


def test_no_plain_client_of_an_encrypted_server(
    server: FaultyServer, authority: trustme.CA
) -> None:
    with running(server, identity(authority, "localhost")) as port:
        with pytest.raises(Unavailable):
            CacheClient(Settings(f"localhost:{port}", timeout_s=2)).load(NAME, "k.json")
    assert not server.calls
