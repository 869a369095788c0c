"""A cache server of the Remote Execution API: entries in its action cache, files in its
content-addressable storage.

Every call has a deadline, and none is tried again: the work that the cache saves takes seconds. What comes
back is believed only as far as its digest goes.
"""

from __future__ import annotations

import base64
import hashlib
import ssl
import uuid
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from google.protobuf.message import DecodeError

from pants_triton.kernel_cache.entry import check_files
from pants_triton.kernel_cache.errors import (
    CallFailed,
    Refused,
    SettingsError,
    WriteDenied,
)
from pants_triton.kernel_cache.reapi import MESSAGES, METHODS, digest_of
from pants_triton.kernel_cache.rpc import (
    NOT_FOUND,
    OK,
    PERMISSION_DENIED,
    UNAUTHENTICATED,
    RpcError,
    Transport,
)
from pants_triton.kernel_cache.settings import Settings

# gRPC messages have at most 4 MiB on most servers; what surrounds the data must fit, too.
_BATCH_BYTES = 3 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024

# What an answer has besides blobs.
_OVERHEAD_BYTES = 1024 * 1024


class CacheClient:
    """A server, for all threads of this process and for those forked from it."""

    def __init__(self, settings: Settings) -> None:
        """Raises SettingsError if a file that the settings name can't be used."""
        self._instance = settings.instance
        self._timeout_s = settings.timeout_s
        metadata = []
        if settings.token_file:
            metadata.append(("authorization", _authorization(_read_token(settings.token_file))))
        tls = _tls_context(settings.ca) if settings.is_tls else None
        self._transport = Transport(settings.host_port, tls, metadata)

    def close(self) -> None:
        self._transport.close()

    def load(self, name: Sequence[str], group: str) -> dict[str, bytes] | None:
        """The files of an entry, or None if the server has not all of it.

        :raises Refused: the entry or a file is not what it should be.
        :raises Unavailable, CallFailed: the server's fault.
        """
        action, _ = _action(name)
        try:
            result = self._call(
                "GetActionResult",
                MESSAGES["GetActionResultRequest"](
                    instance_name=self._instance, action_digest=digest_of(action)
                ),
            )
        except _NotFound:
            return None
        digests = {file.path: file.digest for file in result.output_files}
        check_files(group, ((f.path, f.digest.size_bytes) for f in result.output_files))
        if result.exit_code != 0:
            raise Refused(f"it is of a compilation that ended with {result.exit_code}")
        try:
            blobs = self._read_blobs(list(digests.values()))
        except _NotFound:
            return None
        return {path: blobs[digest.hash] for path, digest in digests.items()}

    def save(self, name: Sequence[str], files: Mapping[str, bytes]) -> int:
        """Store an entry, its files before the entry itself. Returns how many bytes the server did not
        have yet.

        :raises WriteDenied: the server does not let this user.
        :raises Unavailable, CallFailed: the server's fault.
        """
        action, command = _action(name)
        digests = {path: digest_of(data) for path, data in files.items()}
        blobs = {digest_of(data).hash: data for data in (action, command, *files.values()) if data}
        sent = self._write_missing(blobs)
        self._call(
            "UpdateActionResult",
            MESSAGES["UpdateActionResultRequest"](
                instance_name=self._instance,
                action_digest=digest_of(action),
                action_result=MESSAGES["ActionResult"](
                    output_files=[
                        MESSAGES["OutputFile"](path=path, digest=digest)
                        for path, digest in sorted(digests.items())
                    ]
                ),
            ),
        )
        return sent

    def _read_blobs(self, digests: Sequence[Any]) -> dict[str, bytes]:
        wanted = {digest.hash: digest for digest in digests if digest.size_bytes}
        blobs = {digest.hash: b"" for digest in digests if not digest.size_bytes}
        for batch in _batches({key: digest.size_bytes for key, digest in wanted.items()}):
            if len(batch) == 1 and wanted[batch[0]].size_bytes > _BATCH_BYTES:
                blobs[batch[0]] = self._read_stream(wanted[batch[0]])
                continue
            response = self._call(
                "BatchReadBlobs",
                MESSAGES["BatchReadBlobsRequest"](
                    instance_name=self._instance, digests=[wanted[key] for key in batch]
                ),
                size=sum(wanted[key].size_bytes for key in batch),
            )
            for blob in response.responses:
                _check_status(blob.status)
                blobs[blob.digest.hash] = blob.data
            if not set(batch) <= set(blobs):
                raise CallFailed("BatchReadBlobs: not all blobs came")
        for digest in digests:
            data = blobs[digest.hash]
            if len(data) != digest.size_bytes or hashlib.sha256(data).hexdigest() != digest.hash:
                raise Refused(f"the content of {digest.hash[:200]} is another")
        return blobs

    def _read_stream(self, digest: Any) -> bytes:
        responses = self._call_streaming(
            "Read",
            [
                MESSAGES["ReadRequest"](
                    resource_name=self._resource("blobs", digest.hash, str(digest.size_bytes))
                )
            ],
            size=digest.size_bytes,
        )
        return b"".join(response.data for response in responses)

    def _write_missing(self, blobs: Mapping[str, bytes]) -> int:
        response = self._call(
            "FindMissingBlobs",
            MESSAGES["FindMissingBlobsRequest"](
                instance_name=self._instance, blob_digests=[digest_of(d) for d in blobs.values()]
            ),
        )
        missing = {d.hash: blobs[d.hash] for d in response.missing_blob_digests if d.hash in blobs}
        for batch in _batches({key: len(data) for key, data in missing.items()}):
            if len(batch) == 1 and len(missing[batch[0]]) > _BATCH_BYTES:
                self._write_stream(missing[batch[0]])
                continue
            written = self._call(
                "BatchUpdateBlobs",
                MESSAGES["BatchUpdateBlobsRequest"](
                    instance_name=self._instance,
                    requests=[
                        MESSAGES["BlobToUpload"](digest=digest_of(missing[k]), data=missing[k])
                        for k in batch
                    ],
                ),
            )
            for blob in written.responses:
                _check_status(blob.status)
        return sum(map(len, missing.values()))

    def _write_stream(self, data: bytes) -> None:
        digest = digest_of(data)
        name = self._resource(
            "uploads", str(uuid.uuid4()), "blobs", digest.hash, str(digest.size_bytes)
        )

        chunks = [
            MESSAGES["WriteRequest"](
                resource_name=name,
                write_offset=offset,
                data=data[offset : offset + _CHUNK_BYTES],
                finish_write=offset + _CHUNK_BYTES >= len(data),
            )
            for offset in range(0, len(data), _CHUNK_BYTES)
        ]
        (response,) = self._call_streaming("Write", chunks)
        committed = response.committed_size
        if committed != len(data):
            raise CallFailed(f"Write: {committed} of {len(data)} bytes were stored")

    def _resource(self, *parts: str) -> str:
        return "/".join((*filter(None, [self._instance]), *parts))

    def _call(self, method: str, request: Any, size: int = 0) -> Any:
        (response,) = self._call_streaming(method, [request], size)
        return response

    def _call_streaming(self, method: str, requests: Sequence[Any], size: int = 0) -> list[Any]:
        """Call a method; `size` is that of the blobs in its answer."""
        service, response = METHODS[method]
        try:
            answers = self._transport.call(
                f"/{service}/{method}",
                [request.SerializeToString() for request in requests],
                timeout_s=self._timeout_s,
                max_bytes=size + _OVERHEAD_BYTES,
            )
        except RpcError as e:
            raise _error(method, e) from None
        if response != "ReadResponse" and len(answers) != 1:
            raise CallFailed(f"{method}: {len(answers)} answers")
        try:
            return [MESSAGES[response].FromString(answer) for answer in answers]
        except DecodeError:
            raise CallFailed(f"{method}: its answer is no {response}") from None


class _NotFound(Exception):
    """The server has it not."""


def _action(name: Sequence[str]) -> tuple[bytes, bytes]:
    """The `Action` of an entry, whose digest is its key, and the `Command` that it names. Nobody runs
    them, but the API wants them stored, and they say what the entry is."""
    command = MESSAGES["Command"](arguments=name).SerializeToString(deterministic=True)
    action = MESSAGES["Action"](
        command_digest=digest_of(command), input_root_digest=digest_of(b"")
    ).SerializeToString(deterministic=True)
    return action, command


def _batches(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Keys in groups of at most _BATCH_BYTES; what is larger is alone."""
    batch: list[str] = []
    total = 0
    for key, size in sizes.items():
        if batch and total + size > _BATCH_BYTES:
            yield batch
            batch, total = [], 0
        batch.append(key)
        total += size
    if batch:
        yield batch


def _error(method: str, error: RpcError) -> Exception:
    if error.code == NOT_FOUND and method not in _WRITING:
        return _NotFound()
    if error.code in (PERMISSION_DENIED, UNAUTHENTICATED) and method in _WRITING:
        return WriteDenied(str(error))
    return CallFailed(f"{method}: {error}")


# FindMissingBlobs is only asked before writing, and servers may count it as that.
_WRITING = ("FindMissingBlobs", "BatchUpdateBlobs", "Write", "UpdateActionResult")


def _check_status(status: Any) -> None:
    if status.code == NOT_FOUND:
        raise _NotFound()
    if status.code == PERMISSION_DENIED:
        raise WriteDenied(status.message[:300])
    if status.code != OK:
        raise CallFailed(f"a blob has status {status.code}: {status.message[:300]}")


def _tls_context(ca: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError) as e:
        raise SettingsError(f"the certificates {ca} can't be read: {e}") from None
    context.set_alpn_protocols(["h2"])
    return context


def _authorization(token: str) -> str:
    """Of RFC 6750 or 7617: no bearer token has a colon in it, every `USER:PASSWORD` has."""
    if ":" in token:
        return "Basic " + base64.b64encode(token.encode()).decode()
    return f"Bearer {token}"


def _read_token(path: str) -> str:
    try:
        token = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as e:
        raise SettingsError(f"the token file {path} can't be read: {e}") from None
    if not token or not token.isprintable():
        raise SettingsError(f"the token file {path} holds no token")
    return token
