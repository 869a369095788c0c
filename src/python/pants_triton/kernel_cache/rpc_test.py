"""Servers that break HTTP/2 or gRPC, and ones that must not be noticed."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from typing import Callable, Iterator

import h2.config
import h2.connection
import h2.events
import pytest

from pants_triton.kernel_cache.errors import Refused, Unavailable
from pants_triton.kernel_cache.rpc import RpcError, Transport

OK_HEADERS = [(":status", "200"), ("content-type", "application/grpc")]
MESSAGE = struct.pack(">?I", False, 5) + b"hello"


@contextlib.contextmanager
def serving(serve: Callable[[socket.socket], None]) -> Iterator[Transport]:
    """A transport to a server that does `serve` with each connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.settimeout(10)
                    serve(connection)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    transport = Transport(f"127.0.0.1:{listener.getsockname()[1]}", None, [])
    try:
        yield transport
    finally:
        transport.close()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def call(transport: Transport, timeout_s: float = 5, max_bytes: int = 1000) -> list[bytes]:
    return transport.call("/s/m", [b"request"], timeout_s=timeout_s, max_bytes=max_bytes)


def http(
    answer: Callable[[h2.connection.H2Connection, int], None], calls: int = 1000
) -> Callable[[socket.socket], None]:
    """Serves HTTP/2, does `answer` when a request has ended, and hangs up after so many `calls`."""

    def serve(connection: socket.socket) -> None:
        state = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, validate_outbound_headers=False)
        )
        state.initiate_connection()
        connection.sendall(state.data_to_send())
        answered = 0
        while answered < calls:
            data = connection.recv(65536)
            if not data:
                return
            for event in state.receive_data(data):
                if isinstance(event, h2.events.StreamEnded):
                    answer(state, event.stream_id)
                    answered += 1
            connection.sendall(state.data_to_send())

    return serve


def hello(state: h2.connection.H2Connection, stream: int) -> None:
    state.send_headers(stream, OK_HEADERS)
    state.send_data(stream, MESSAGE)
    state.send_headers(stream, [("grpc-status", "0")], end_stream=True)


def test_an_answer() -> None:
    with serving(http(hello)) as transport:
        assert [call(transport) for _ in range(3)] == [[b"hello"]] * 3


def test_a_message_in_pieces() -> None:
    def in_pieces(state: h2.connection.H2Connection, stream: int) -> None:
        state.send_headers(stream, OK_HEADERS)
        for byte in MESSAGE * 3:
            state.send_data(stream, bytes([byte]), pad_length=3)
        state.ping(b"12345678")
        state.send_headers(stream, [("grpc-status", "0")], end_stream=True)

    with serving(http(in_pieces)) as transport:
        assert call(transport) == [b"hello"] * 3


def test_servers_that_hang_up_after_each_call() -> None:
    # As after an idle time: the client finds out when it calls again.
    with serving(http(hello, calls=1)) as transport:
        assert [call(transport) for _ in range(5)] == [[b"hello"]] * 5


def test_a_server_that_says_it_goes() -> None:
    def hello_and_goodbye(state: h2.connection.H2Connection, stream: int) -> None:
        hello(state, stream)
        state.close_connection(last_stream_id=stream)

    with serving(http(hello_and_goodbye)) as transport:
        assert [call(transport) for _ in range(3)] == [[b"hello"]] * 3


@pytest.mark.parametrize(
    "headers, code, message",
    [
        ([("grpc-status", "5"), ("grpc-message", "not%20here")], 5, "not here"),
        ([("grpc-status", "x")], 14, ""),
    ],
)
def test_a_status_without_an_answer(
    headers: list[tuple[str, str]], code: int, message: str
) -> None:
    def refuse(state: h2.connection.H2Connection, stream: int) -> None:
        state.send_headers(stream, [*OK_HEADERS, *headers], end_stream=True)

    with serving(http(refuse)) as transport:
        for _ in range(2):
            with pytest.raises(RpcError) as raised:
                call(transport)
            assert (raised.value.code, raised.value.message) == (code, message)


def test_a_web_server() -> None:
    def forbid(state: h2.connection.H2Connection, stream: int) -> None:
        state.send_headers(stream, [(":status", "403")], end_stream=True)

    with serving(http(forbid)) as transport:
        with pytest.raises(RpcError, match="HTTP status 403"):
            call(transport)


def test_a_call_that_is_reset() -> None:
    with serving(http(lambda state, stream: state.reset_stream(stream, 7))) as transport:
        for _ in range(2):
            with pytest.raises(RpcError, match="the server ended the call"):
                call(transport)


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_server_that_has_heard_enough(is_reset: bool) -> None:
    def early(connection: socket.socket) -> None:
        state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        state.initiate_connection()
        connection.sendall(state.data_to_send())
        while data := connection.recv(65536):
            for event in state.receive_data(data):
                # It never lets the client send more than the first 64 KiB.
                if isinstance(event, h2.events.RequestReceived):
                    hello(state, event.stream_id)
                    if is_reset:
                        state.reset_stream(event.stream_id, 0)
            connection.sendall(state.data_to_send())

    with serving(early) as transport:
        requests = [bytes(60_000) for _ in range(100)]
        answer = transport.call("/s/m", requests, timeout_s=5, max_bytes=100)
    assert answer == [b"hello"]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(MESSAGE[:3], id="a part of a head"),
        pytest.param(MESSAGE[:-1], id="a part of a message"),
        pytest.param(b"\1" + MESSAGE[1:], id="compressed"),
    ],
)
def test_broken_messages(data: bytes) -> None:
    def broken(state: h2.connection.H2Connection, stream: int) -> None:
        state.send_headers(stream, OK_HEADERS)
        state.send_data(stream, data)
        state.send_headers(stream, [("grpc-status", "0")], end_stream=True)

    with serving(http(broken)) as transport:
        with pytest.raises(Unavailable, match="cut off"):
            call(transport)


def test_no_status() -> None:
    def forget(state: h2.connection.H2Connection, stream: int) -> None:
        state.send_headers(stream, OK_HEADERS)
        state.send_data(stream, MESSAGE, end_stream=True)

    with serving(http(forget)) as transport:
        with pytest.raises(Unavailable, match="without a status"):
            call(transport)


def test_more_than_was_asked_for() -> None:
    with serving(http(hello)) as transport:
        with pytest.raises(Refused, match="more than was asked for"):
            call(transport, max_bytes=9)
        assert call(transport, max_bytes=10) == [b"hello"]


@pytest.mark.parametrize(
    "serve",
    [
        pytest.param(lambda connection: None, id="hangs up"),
        pytest.param(lambda c: c.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), id="HTTP/1"),
        pytest.param(lambda c: c.sendall(bytes(range(256)) * 100), id="noise"),
    ],
)
def test_no_http2_server(serve: Callable[[socket.socket], None]) -> None:
    with serving(serve) as transport:
        with pytest.raises(Unavailable):
            call(transport)


@pytest.mark.parametrize("is_greeting", [False, True], ids=["says nothing", "stops midway"])
def test_silence_lasts_no_longer_than_the_deadline(is_greeting: bool) -> None:
    def listen(connection: socket.socket) -> None:
        if is_greeting:
            http(lambda state, stream: None)(connection)
        else:
            time.sleep(2)

    with serving(listen) as transport:
        start = time.monotonic()
        with pytest.raises(Unavailable, match="in time"):
            call(transport, timeout_s=0.3)
        assert time.monotonic() - start < 1.5


def test_drops_of_data_do_not_prolong_a_call() -> None:
    def drip(connection: socket.socket) -> None:
        state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        state.initiate_connection()
        for i in range(100):
            state.ping(b"%08d" % i)
            connection.sendall(state.data_to_send())
            time.sleep(0.05)

    with serving(drip) as transport:
        start = time.monotonic()
        with pytest.raises(Unavailable, match="in time"):
            call(transport, timeout_s=0.4)
        assert time.monotonic() - start < 2
