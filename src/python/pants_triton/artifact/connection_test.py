from __future__ import annotations

import email.utils
import socketserver
import ssl
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from pants_triton.artifact import misbehaving
from pants_triton.artifact.connection import read_url
from pants_triton.artifact.errors import FetchError
from pants_triton.artifact.misbehaving import Server
from pants_triton.artifact.settings import Settings

DATA = b"some page"
PATH = "/page"
PATIENCE_S = 30
ONCE = Settings(tries=1, stall_timeout_s=5)


@pytest.fixture
def server() -> Iterator[Server]:
    with misbehaving.running() as running:
        yield running


@pytest.fixture(autouse=True)
def no_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("NETRC", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def quiet(line: str) -> None:
    pass


def get(url: str, settings: Settings = ONCE) -> bytes:
    return read_url(url, settings, {}, 1000, quiet)[2]


def failure(url: str, settings: Settings = ONCE) -> str:
    with pytest.raises(FetchError) as e:
        get(url, settings)
    assert "\n" not in str(e.value)
    return str(e.value)


def test_a_document_and_where_it_is_from(server: Server) -> None:
    page = server.on(PATH, misbehaving.file(DATA, headers={"Content-Type": "text/html; x=y"}))
    url = server.on("/moved", misbehaving.redirect(page, 308)).replace("//", "//user:s3cr3t@")
    assert read_url(url, ONCE, {"Accept": "x"}, 1000, quiet) == (page, "text/html", DATA)
    assert server.log[1].headers["accept"] == "x"


def test_there_is_none(server: Server) -> None:
    with pytest.raises(FileNotFoundError):
        get(server.url + "/gone")


@pytest.mark.parametrize(
    "behaviour, told",
    [
        pytest.param(misbehaving.status(503), "503 Service Unavailable (2 tries)", id="down"),
        pytest.param(misbehaving.broken_off(DATA, 3), "connection broke off (2 tries)", id="torn"),
        pytest.param(misbehaving.reset, "no connection: ", id="reset"),
        pytest.param(misbehaving.hanging(), "nothing came for 0.2 s (2 tries)", id="hangs"),
        pytest.param(misbehaving.file(bytes(1001)), "it has more than 1.0 kB", id="too big"),
        pytest.param(misbehaving.status(409), "409 Conflict", id="conflict"),
    ],
)
def test_a_document_that_can_not_be_had(
    server: Server, behaviour: misbehaving.Behaviour, told: str
) -> None:
    url = server.on(PATH, behaviour)
    settings = Settings(tries=2, stall_timeout_s=0.2, backoff_s=0.01)
    assert told in failure(url, settings)
    assert len(server.log) == (2 if "tries" in told or "no connection" in told else 1)


def test_what_heals_is_tried_again(server: Server) -> None:
    later = email.utils.formatdate(time.time() + 3600, usegmt=True)
    answers = [misbehaving.status(429, {"Retry-After": later}), misbehaving.file(DATA)]
    assert get(server.on(PATH, *answers), Settings(tries=2, max_wait_s=0.1)) == DATA


@pytest.mark.parametrize(
    "proxy, shown",
    [
        pytest.param("http://me:s3cret@127.0.0.1:1", "http://127.0.0.1:1", id="with a scheme"),
        pytest.param("me:s3cret@127.0.0.1:1", "127.0.0.1:1", id="without"),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_does_not_answer(
    scheme: str, proxy: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv(f"{scheme}_proxy", proxy)
    url = f"{scheme}://files.example/x"
    assert failure(url) == (
        f"{url}: by way of the proxy {shown} ({scheme}_proxy): no connection: Connection refused "
        f"(1 try). Correct {scheme}_proxy, or name the host in no_proxy."
    )


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_credentials(
    server: Server, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handler: socketserver.StreamRequestHandler) -> None:
        while handler.rfile.readline().strip():
            pass
        handler.wfile.write(b"HTTP/1.1 407 Who?\r\nContent-Length: 0\r\n\r\n")

    handler = type("Proxy", (socketserver.StreamRequestHandler,), {"handle": refuse})
    with socketserver.TCPServer(("127.0.0.1", 0), handler) as proxy:
        threading.Thread(target=proxy.handle_request).start()
        shown = f"http://127.0.0.1:{proxy.server_address[1]}"
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.setenv(f"{scheme}_proxy", shown)
        e = failure(f"{scheme}://files.example/x")
    assert f"by way of the proxy {shown} ({scheme}_proxy): " in e
    assert f"407 Proxy Authentication Required. Correct {scheme}_proxy" in e


def test_no_proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert "by way of" not in failure(server.on(PATH, misbehaving.status(409)))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and self-signed certificate for the loopback."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    argv += ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    try:
        result = subprocess.run(
            [*argv, "-keyout", "-", "-out", "-"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except FileNotFoundError:
        pytest.skip("openssl isn't there to make a certificate")
    path.write_bytes(result.stdout)
    return path


def tls_context(certificate: Path) -> Any:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_an_untrusted_certificate(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with misbehaving.running(tls_context(certificate)) as server:
        url = server.on(PATH, misbehaving.file(DATA))
        e = failure(url, Settings(backoff_s=PATIENCE_S))
        assert "its certificate isn't trusted: self" in e
        assert "SSL_CERT_FILE" in e
        assert server.log == []

        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert get(url) == DATA


def test_a_server_without_tls(server: Server) -> None:
    url = server.on(PATH, misbehaving.file(DATA)).replace("http:", "https:")
    e = failure(url, Settings(backoff_s=PATIENCE_S))
    assert "no secure connection: wrong version number" in e


def test_ca_certificates_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
    with pytest.raises(FetchError, match="SSL_CERT_FILE"):
        get("https://127.0.0.1:1/x")
