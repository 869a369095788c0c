"""A cache server for tests: gRPC's own, with the rules of the API, and with faults where a test wants them."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from concurrent import futures
from typing import Any, Callable, Iterator

import grpc

from pants_triton.kernel_cache.reapi import MESSAGES, METHODS, digest_of

MAX_BATCH_BYTES = 4 * 1024 * 1024

_REQUESTS = {
    "GetActionResult": "GetActionResultRequest",
    "UpdateActionResult": "UpdateActionResultRequest",
    "FindMissingBlobs": "FindMissingBlobsRequest",
    "BatchUpdateBlobs": "BatchUpdateBlobsRequest",
    "BatchReadBlobs": "BatchReadBlobsRequest",
    "Read": "ReadRequest",
    "Write": "WriteRequest",
}


class FaultyServer:
    """What it holds may be changed by tests.

    :ivar blobs: by hash.
    :ivar entries: `ActionResult`s by the hash of the action.
    :ivar calls: methods in the order they were called.
    :ivar faults: what happens first in a call, by method: it gets gRPC's context.
    :ivar metadata: of the last call.
    """

    def __init__(self, instance: str = "") -> None:
        self.instance = instance
        self.blobs: dict[str, bytes] = {}
        self.entries: dict[str, Any] = {}
        self.calls: list[str] = []
        self.faults: dict[str, Callable[[Any], None]] = {}
        self.metadata: dict[str, str] = {}
        self._lock = threading.Lock()

    def start(self, port: int = 0, credentials: Any = None) -> tuple[Any, int]:
        """Returns gRPC's server and its port."""
        server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        by_service: dict[str, dict[str, Any]] = {}
        for method, (service, response) in METHODS.items():
            kind = {"Read": "unary_stream", "Write": "stream_unary"}.get(method, "unary_unary")
            make_handler = getattr(grpc, f"{kind}_rpc_method_handler")
            by_service.setdefault(service, {})[method] = make_handler(
                self._handler(method),
                request_deserializer=MESSAGES[_REQUESTS[method]].FromString,
                response_serializer=MESSAGES[response].SerializeToString,
            )
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(s, h) for s, h in by_service.items()]
        )
        address = f"localhost:{port}"
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
        server.start()
        return server, port

    def _handler(self, method: str) -> Callable[[Any, Any], Any]:
        def handle(request: Any, context: Any) -> Any:
            self.calls.append(method)
            self.metadata = dict(context.invocation_metadata())
            if method in self.faults:
                self.faults[method](context)
            if getattr(request, "instance_name", self.instance) != self.instance:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no such instance")
            return getattr(self, method)(request, context)

        return handle

    def GetActionResult(self, request: Any, context: Any) -> Any:
        entry = self.entries.get(request.action_digest.hash)
        if entry is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such entry")
        return entry

    def UpdateActionResult(self, request: Any, context: Any) -> Any:
        # "The client MUST first upload the Action, along with its Command."
        action = self.blobs.get(request.action_digest.hash)
        if action is None or (
            MESSAGES["Action"].FromString(action).command_digest.hash not in self.blobs
        ):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the action was not uploaded")
        for file in request.action_result.output_files:
            if file.digest.size_bytes and file.digest.hash not in self.blobs:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"no blob for {file.path}")
        self.entries[request.action_digest.hash] = request.action_result
        return request.action_result

    def FindMissingBlobs(self, request: Any, context: Any) -> Any:
        return MESSAGES["FindMissingBlobsResponse"](
            missing_blob_digests=[d for d in request.blob_digests if d.hash not in self.blobs]
        )

    def BatchUpdateBlobs(self, request: Any, context: Any) -> Any:
        if sum(blob.digest.size_bytes for blob in request.requests) > MAX_BATCH_BYTES:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the batch is too large")
        response = MESSAGES["BatchUpdateBlobsResponse"]()
        for blob in request.requests:
            answer = response.responses.add(digest=blob.digest)
            if digest_of(blob.data) == blob.digest:
                self._store(blob.data)
            else:
                answer.status.code = grpc.StatusCode.INVALID_ARGUMENT.value[0]
        return response

    def BatchReadBlobs(self, request: Any, context: Any) -> Any:
        if sum(digest.size_bytes for digest in request.digests) > MAX_BATCH_BYTES:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the batch is too large")
        response = MESSAGES["BatchReadBlobsResponse"]()
        for digest in request.digests:
            answer = response.responses.add(digest=digest)
            if digest.hash in self.blobs:
                answer.data = self.blobs[digest.hash]
            else:
                answer.status.code = grpc.StatusCode.NOT_FOUND.value[0]
        return response

    def Read(self, request: Any, context: Any) -> Iterator[Any]:
        *instance, blobs, key, _ = request.resource_name.split("/")
        if "/".join(instance) != self.instance or blobs != "blobs":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, request.resource_name)
        if key not in self.blobs:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such blob")
        for offset in range(0, len(self.blobs[key]), 65536):
            if "Read, midway" in self.faults and offset:
                self.faults["Read, midway"](context)
            yield MESSAGES["ReadResponse"](data=self.blobs[key][offset : offset + 65536])

    def Write(self, requests: Iterator[Any], context: Any) -> Any:
        data = b""
        parts: list[str] = []
        is_finished = False
        for request in requests:
            parts = parts or request.resource_name.split("/")
            if request.write_offset != len(data) or is_finished:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a wrong offset")
            data += request.data
            is_finished = request.finish_write
            # Somebody else was faster: "the server may return early".
            if parts[-2] in self.blobs:
                return MESSAGES["WriteResponse"](committed_size=int(parts[-1]))
        *instance, uploads, _, blobs, key, size = parts
        if (
            not is_finished
            or ["/".join(instance), uploads, blobs] != [self.instance, "uploads", "blobs"]
            or (hashlib.sha256(data).hexdigest(), str(len(data))) != (key, size)
        ):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not what was announced")
        self._store(data)
        return MESSAGES["WriteResponse"](committed_size=len(data))

    def _store(self, data: bytes) -> None:
        with self._lock:
            self.blobs[hashlib.sha256(data).hexdigest()] = data


@contextlib.contextmanager
def running(server: FaultyServer, credentials: Any = None) -> Iterator[int]:
    """Serve while this lasts. Gives the port."""
    grpc_server, port = server.start(credentials=credentials)
    try:
        yield port
    finally:
        grpc_server.stop(None).wait()


def failing(code: grpc.StatusCode, message: str = "as the test wants") -> Callable[[Any], None]:
    """A fault: the call ends with this error."""
    return lambda context: context.abort(code, message)
