"""Calls of gRPC over HTTP/2, as far as a cache client needs them: one at a time, each with a deadline.

gRPC's own library can't be used inside a compiler's process. Its threads and locks don't survive a fork, and
test runners fork: children of a process that had used it crashed or hung (measured with grpcio 1.85, with and
without its support for forks). Here is a socket and a state machine, so that a child simply connects anew.

Protocol: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
import threading
import time
from dataclasses import dataclass
from typing import Iterable, Iterator, Sequence
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from pants_triton.kernel_cache.errors import Refused, Unavailable

OK, DEADLINE_EXCEEDED, NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE, UNAUTHENTICATED = (
    *(0, 4, 5, 7),
    *(14, 16),
)

_CONNECT_S = 2.0
_WINDOW_BYTES = 4 * 1024 * 1024
_READ_BYTES = 64 * 1024


class RpcError(Exception):
    """The server ended a call with another status than OK.

    :param code: of gRPC's `google.rpc.Code`.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"status {code}{': ' if message else ''}{message}")
        self.code = code
        self.message = message


class _Lost(Exception):
    """The connection ended before the call did."""


@dataclass
class _Call:
    stream: int
    max_bytes: int
    deadline: float
    received: int = 0
    status: int | None = None
    message: str = ""
    is_done: bool = False

    def __post_init__(self) -> None:
        self.data = bytearray()


class Transport:
    """A server, connected to when it is first called. For all threads, which take turns, and for
    forked processes, which connect for themselves."""

    def __init__(
        self, host_port: str, tls: ssl.SSLContext | None, metadata: Sequence[tuple[str, str]]
    ) -> None:
        self._host_port = host_port
        self._tls = tls
        self._metadata = metadata
        self._connection: _Connection | None = None
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def call(
        self, path: str, requests: Iterable[bytes], *, timeout_s: float, max_bytes: int
    ) -> list[bytes]:
        """Call a method, which may take or give any number of messages.

        :param path: `/service/method`.
        :param requests: serialized; asked for once more if the connection had been closed.
        :param timeout_s: for all of it, in seconds.
        :param max_bytes: of the answer.
        :raises RpcError: the server's own error.
        :raises Refused: the answer is larger.
        :raises Unavailable: there is no answer in time.
        """
        with self._lock:
            was_open = self._connection is not None
            try:
                return self._call_once(path, requests, timeout_s, max_bytes)
            except _Lost as e:
                if not was_open:
                    raise Unavailable(str(e)) from None
            try:
                # Servers close connections that nobody used for a while.
                return self._call_once(path, requests, timeout_s, max_bytes)
            except _Lost as e:
                raise Unavailable(str(e)) from None

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def _call_once(
        self, path: str, requests: Iterable[bytes], timeout_s: float, max_bytes: int
    ) -> list[bytes]:
        is_clean = False
        try:
            if self._connection is None:
                self._connection = _Connection(
                    self._host_port, self._tls, min(_CONNECT_S, timeout_s)
                )
            answer = self._connection.call(path, requests, self._metadata, timeout_s, max_bytes)
            is_clean = True
            return answer
        except RpcError:
            is_clean = True
            raise
        except socket.timeout:
            raise Unavailable("it does not answer in time") from None
        except (OSError, h2.exceptions.H2Error) as e:
            raise _Lost(f"{type(e).__name__}: {e}") from None
        finally:
            if not is_clean or (self._connection is not None and self._connection.is_going):
                self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _forget(self) -> None:
        # The parent's thread that held it is not here.
        self._lock = threading.Lock()
        self._disconnect()


class _Connection:
    def __init__(self, host_port: str, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        """Raises OSError, _Lost or H2Error unless an HTTP/2 server answers in `timeout_s` seconds."""
        self.is_going = False
        host, _, port = host_port.rpartition(":")
        host = host.strip("[]")
        deadline = time.monotonic() + timeout_s
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=host)
            self._scheme = "https" if tls is not None else "http"
            self._authority = host_port
            self._http = h2.connection.H2Connection(
                h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
            )
            self._http.local_settings = h2.settings.Settings(
                client=True,
                initial_values={
                    h2.settings.SettingCodes.ENABLE_PUSH: 0,
                    h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW_BYTES,
                    h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: 64 * 1024,
                },
            )
            self._http.initiate_connection()
            self._http.increment_flow_control_window(_WINDOW_BYTES)
            self._flush(deadline)
            # Its settings are what a server says first.
            self._is_ready = False
            while not self._is_ready:
                self._receive(None, deadline)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    def call(
        self,
        path: str,
        requests: Iterable[bytes],
        metadata: Sequence[tuple[str, str]],
        timeout_s: float,
        max_bytes: int,
    ) -> list[bytes]:
        call = _Call(
            self._http.get_next_available_stream_id(), max_bytes, time.monotonic() + timeout_s
        )
        self._http.send_headers(
            call.stream,
            [
                (":method", "POST"),
                (":scheme", self._scheme),
                (":path", path),
                (":authority", self._authority),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", "pants-triton"),
                ("grpc-timeout", f"{max(1, int(timeout_s * 1000))}m"),
                *metadata,
            ],
        )
        for request in requests:
            # A server may end a call before it has heard all, as when it has the blob already.
            if not self._send(call, struct.pack(">?I", False, len(request)) + request):
                break
        if call.is_done:
            with contextlib.suppress(h2.exceptions.ProtocolError):
                self._http.reset_stream(call.stream, h2.errors.ErrorCodes.CANCEL)
        else:
            self._http.end_stream(call.stream)
        self._flush(call.deadline)
        while not call.is_done:
            self._receive(call, call.deadline)
        if call.status is None:
            raise _Lost("the call ended without a status")
        if call.status != OK:
            raise RpcError(call.status, call.message)
        return list(_messages(bytes(call.data)))

    def _send(self, call: _Call, data: bytes) -> bool:
        rest = memoryview(data)
        while rest:
            if call.is_done:
                return False
            size = min(
                len(rest),
                self._http.local_flow_control_window(call.stream),
                self._http.max_outbound_frame_size,
            )
            if size <= 0:
                self._receive(call, call.deadline)
                continue
            self._http.send_data(call.stream, bytes(rest[:size]))
            self._flush(call.deadline)
            rest = rest[size:]
        return True

    def _flush(self, deadline: float) -> None:
        data = self._http.data_to_send()
        if data:
            self._socket.settimeout(_rest_of(deadline))
            self._socket.sendall(data)

    def _receive(self, call: _Call | None, deadline: float) -> None:
        self._socket.settimeout(_rest_of(deadline))
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise _Lost("the server closed the connection")
        for event in self._http.receive_data(data):
            if isinstance(event, h2.events.RemoteSettingsChanged):
                self._is_ready = True
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.is_going = True
                if call is None or call.stream > (event.last_stream_id or 0):
                    raise _Lost("the server takes no calls on this connection any more")
            elif isinstance(event, h2.events.DataReceived):
                self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if call is not None and getattr(event, "stream_id", None) == call.stream:
                _record(call, event)
        self._flush(deadline)


def _record(call: _Call, event: h2.events.Event) -> None:
    if isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
        headers = {str(name): str(value) for name, value in event.headers or ()}
        if headers.get(":status", "200") != "200":
            raise RpcError(UNAVAILABLE, f"HTTP status {headers[':status'][:20]}")
        if "grpc-status" in headers:
            code = headers["grpc-status"]
            call.status = int(code) if code.isdigit() else UNAVAILABLE
            call.message = unquote(headers.get("grpc-message", ""))[:500]
    elif isinstance(event, h2.events.DataReceived):
        call.received += len(event.data)
        if call.received > call.max_bytes:
            raise Refused("the server sends more than was asked for")
        call.data += event.data
    elif isinstance(event, h2.events.StreamReset):
        # After its status, a server ends a call so that was not listened to.
        if call.status is None:
            raise RpcError(UNAVAILABLE, f"the server ended the call: {event.error_code!r}")
        call.is_done = True
    elif isinstance(event, h2.events.StreamEnded):
        call.is_done = True


def _messages(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        if len(data) - position < 5:
            raise _Lost("the answer is cut off")
        is_compressed, size = struct.unpack_from(">?I", data, position)
        position += 5
        # Nobody offered to understand that.
        if is_compressed or len(data) - position < size:
            raise _Lost("the answer is cut off or compressed")
        yield data[position : position + size]
        position += size


def _rest_of(deadline: float) -> float:
    rest = deadline - time.monotonic()
    if rest <= 0:
        raise socket.timeout
    return rest
