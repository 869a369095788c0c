"""A web server on the loopback that misbehaves as it is told, for tests."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import re
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Mapping


@dataclass
class Request:
    """One that came in. `sent` counts the body's bytes that were to go out."""

    path: str
    headers: Mapping[str, str]
    sent: int = 0


Behaviour = Callable[["Handler"], None]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by the behaviours that the server has for a path, one a request; the last one stays."""

    server: Any
    request_: Request

    def do_GET(self) -> None:
        # Lower case, as the two Pythons that talk here spell them differently.
        headers = {key.lower(): value for key, value in self.headers.items()}
        self.request_ = Request(self.path, headers)
        with self.server.lock:
            self.server.log.append(self.request_)
            behaviours = self.server.behaviours.get(self.path, [status(404)])
            behaviour = behaviours.pop(0) if len(behaviours) > 1 else behaviours[0]
        with contextlib.suppress(OSError):
            behaviour(self)

    def head(self, code: int, headers: Mapping[str, str]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def body(self, data: bytes) -> None:
        for i in range(0, len(data), 65536):
            # Before it is, because who has the last of it may ask at once.
            self.request_.sent += len(data[i : i + 65536])
            self.wfile.write(data[i : i + 65536])

    def log_message(self, *_: object) -> None:
        pass


@dataclass
class Server:
    """A running server. `url` is its root, without a trailing slash."""

    url: str
    behaviours: dict[str, list[Behaviour]]
    log: list[Request]
    stopped: threading.Event = field(default_factory=threading.Event)

    def on(self, path: str, *behaviours: Behaviour) -> str:
        """Answer `path` so; returns its URL."""
        self.behaviours[path] = list(behaviours)
        return self.url + path

    def requests(self, path: str) -> list[Request]:
        return [request for request in self.log if request.path == path]


class _Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def running(tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    httpd: Any = _Quiet(("127.0.0.1", 0), Handler)
    httpd.lock = threading.Lock()
    httpd.behaviours, httpd.log = {}, []
    if tls is not None:
        httpd.socket = tls.wrap_socket(httpd.socket, server_side=True)
    scheme = "https" if tls else "http"
    server = Server(f"{scheme}://127.0.0.1:{httpd.server_address[1]}", httpd.behaviours, httpd.log)
    httpd.stopped = server.stopped
    thread = threading.Thread(target=httpd.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopped.set()
        httpd.shutdown()
        httpd.server_close()


# -- behaviours -----------------------------------------------------------------------------------


def file(data: bytes, *, etag: str = "", headers: Mapping[str, str] = {}) -> Behaviour:
    """A good file server: ranges, and entity tags that are the content's."""
    tag = etag or f'"{hashlib.sha256(data).hexdigest()[:16]}"'

    def behave(handler: Handler) -> None:
        wanted = handler.request_.headers
        match = re.fullmatch(r"bytes=([0-9]+)-", wanted.get("range", ""))
        start = int(match.group(1)) if match and wanted.get("if-range", tag) == tag else 0
        if start and start >= len(data):
            handler.head(416, {"Content-Range": f"bytes */{len(data)}", "Content-Length": "0"})
            return
        extra = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if start else {}
        length = {"Content-Length": str(len(data) - start), "ETag": tag}
        handler.head(206 if start else 200, {**length, **extra, **headers})
        handler.body(data[start:])

    return behave


def no_ranges(data: bytes) -> Behaviour:
    def behave(handler: Handler) -> None:
        handler.head(200, {"Content-Length": str(len(data))})
        handler.body(data)

    return behave


def status(code: int, headers: Mapping[str, str] = {}) -> Behaviour:
    def behave(handler: Handler) -> None:
        handler.head(code, {"Content-Length": "0", **headers})

    return behave


def redirect(url: str, code: int = 302) -> Behaviour:
    return status(code, {"Location": url})


def broken_off(data: bytes, after: int, *, etag: str = "", say_length: bool = True) -> Behaviour:
    """Hangs up after `after` bytes."""
    tag = etag or f'"{hashlib.sha256(data).hexdigest()[:16]}"'

    def behave(handler: Handler) -> None:
        length = {"Content-Length": str(len(data))} if say_length else {}
        handler.head(200, {**length, "ETag": tag})
        handler.body(data[:after])

    return behave


def chunked(data: bytes, *, end: bool = True) -> Behaviour:
    """Without a length; without `end` it hangs up before the last chunk."""

    def behave(handler: Handler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.head(200, {"Transfer-Encoding": "chunked", "Connection": "close"})
        handler.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n" + (b"0\r\n\r\n" if end else b""))
        handler.close_connection = True

    return behave


def hanging(data: bytes = b"", after: int = 0) -> Behaviour:
    """Sends `after` bytes and then nothing, but stays."""

    def behave(handler: Handler) -> None:
        if data:
            handler.head(200, {"Content-Length": str(len(data))})
            handler.body(data[:after])
        handler.server.stopped.wait(20)

    return behave


def dripping(data: bytes, interval_s: float) -> Behaviour:
    """Sends a byte now and then."""

    def behave(handler: Handler) -> None:
        handler.head(200, {"Content-Length": str(len(data))})
        for i in range(len(data)):
            handler.body(data[i : i + 1])
            if handler.server.stopped.wait(interval_s):
                return

    return behave


def slow(data: bytes, pieces: int, interval_s: float) -> Behaviour:
    """A good file, in pieces."""
    size = -(-len(data) // pieces)
    tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'

    def behave(handler: Handler) -> None:
        handler.head(200, {"Content-Length": str(len(data)), "ETag": tag})
        for i in range(0, len(data), size):
            handler.body(data[i : i + size])
            time.sleep(interval_s)

    return behave


def reset(handler: Handler) -> None:
    """Hangs up without a word."""
    handler.connection.setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
    )
    handler.connection.close()
