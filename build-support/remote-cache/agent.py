"""What `remote-cache` does inside the server's own Python environment. Not to be called by hand.

Each command prints one line of JSON, or fails with one line on stderr; `bound` prints one whenever it
deletes something.
"""

from __future__ import annotations

import argparse
import base64
import datetime
import hashlib
import json
import os
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any, Iterator

AUDIENCE = "remote-cache"

# An entry of the index takes some 150 bytes of memory.
MOST_BLOBS = 2_000_000
CLEANING_SECONDS = 10


def make_keys(private: Path, public: Path) -> None:
    """A new pair of keys for tokens; only the owner can read the private one."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=3072)
    pem = serialization.Encoding.PEM
    public.write_bytes(
        key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    # Last, and whole or not at all: its presence says that there are keys.
    draft = private.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
    draft.replace(private)


def make_certificate(folder: Path, names: list[str], days: int) -> None:
    """A certificate for those names (`server.pem`, `server.key`), and that of its own authority,
    which clients trust (`ca.pem`). Nobody can make another one: the authority's key isn't kept."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    def san(name: str) -> x509.GeneralName:
        try:
            return x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            return x509.DNSName(name)

    def named(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])

    def builder(name: str, key: ec.EllipticCurvePrivateKey, is_ca: bool) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named("remote-cache authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(is_ca, 0 if is_ca else None), critical=True)
        )

    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = builder("remote-cache authority", authority, True).sign(authority, hashes.SHA256())
    alternatives = x509.SubjectAlternativeName([san(name) for name in names])
    leaf = builder(names[0], key, False).add_extension(alternatives, critical=False)
    pem = serialization.Encoding.PEM
    with open(
        os.open(folder / "server.key", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
    ) as f:
        pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        f.write(key.private_bytes(pem, pkcs8, plain))
    (folder / "server.pem").write_bytes(leaf.sign(authority, hashes.SHA256()).public_bytes(pem))
    (folder / "ca.pem").write_bytes(root.public_bytes(pem))


def token(private: Path, subject: str, seconds: int) -> str:
    import jwt

    now = datetime.datetime.now(datetime.timezone.utc)
    claims = {
        "sub": subject,
        "aud": AUDIENCE,
        "iat": now,
        "exp": now + datetime.timedelta(seconds=seconds),
    }
    return jwt.encode(claims, private.read_bytes(), algorithm="RS256")


def connect(address: str, roots: Path | None, name: str | None) -> Any:
    """A channel to `host:port`.

    :param roots: certificates to trust; without them the connection is in plain text.
    :param name: the host's name in the server's certificate, where it isn't that of the address.
    """
    import grpc

    if not roots:
        return grpc.insecure_channel(address)
    options = [("grpc.ssl_target_name_override", name)] if name else []
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(roots.read_bytes()), options)


def authorization(token: str | None) -> list[tuple[str, str]]:
    """:param token: a bearer token, or `USER:PASSWORD`, which has a colon as no bearer token has."""
    if not token:
        return []
    if ":" in token:
        return [("authorization", "Basic " + base64.b64encode(token.encode()).decode())]
    return [("authorization", f"Bearer {token}")]


def capabilities(channel: Any, token: str | None, deadline: float) -> dict[str, object]:
    """What a server says it can do. Asks until `deadline` (of the clock that only goes forward),
    and at least once."""
    import grpc
    from buildgrid._protos.build.bazel.remote.execution.v2 import (
        remote_execution_pb2,
        remote_execution_pb2_grpc,
    )

    stub = remote_execution_pb2_grpc.CapabilitiesStub(channel)
    request = remote_execution_pb2.GetCapabilitiesRequest(instance_name="")
    while True:
        try:
            answer = stub.GetCapabilities(request, timeout=3, metadata=authorization(token))
            found = answer.cache_capabilities
            return {
                "writable": found.action_cache_update_capabilities.update_enabled,
                "batch_bytes": found.max_batch_total_size_bytes,
            }
        except grpc.RpcError as error:
            if time.monotonic() > deadline or error.code() in (
                grpc.StatusCode.UNAUTHENTICATED,
                grpc.StatusCode.PERMISSION_DENIED,
            ):
                return {"error": f"{error.code().name}: {error.details()}"}
        time.sleep(0.2)


def attempt(channel: Any, token: str | None, instance: str) -> dict[str, str]:
    """What a server answers to each kind of request, by the request's name: a status code.

    The blob and the entry that it tries to write are 32 random bytes and an action nobody has.
    """
    import grpc
    from buildgrid._protos.build.bazel.remote.execution.v2 import (
        remote_execution_pb2 as protocol,
    )
    from buildgrid._protos.build.bazel.remote.execution.v2 import remote_execution_pb2_grpc as stubs
    from buildgrid._protos.google.bytestream import bytestream_pb2, bytestream_pb2_grpc

    def new_blob() -> tuple[bytes, protocol.Digest]:
        data = os.urandom(32)
        return data, protocol.Digest(hash=hashlib.sha256(data).hexdigest(), size_bytes=32)

    def resource(digest: protocol.Digest, prefix: str = "") -> str:
        parts = [instance, prefix, "blobs", digest.hash, str(digest.size_bytes)]
        return "/".join(part for part in parts if part)

    actions, blobs = stubs.ActionCacheStub(channel), stubs.ContentAddressableStorageStub(channel)
    stream = bytestream_pb2_grpc.ByteStreamStub(channel)
    (batched, b), (streamed, s), (_, unknown) = new_blob(), new_blob(), new_blob()
    name = {"instance_name": instance}
    one = protocol.BatchUpdateBlobsRequest.Request(digest=b, data=batched)
    write = bytestream_pb2.WriteRequest(
        resource_name=resource(s, f"uploads/{uuid.uuid4()}"), data=streamed, finish_write=True
    )
    result = protocol.ActionResult(exit_code=0)
    requests = {
        "GetActionResult": lambda **k: actions.GetActionResult(
            protocol.GetActionResultRequest(action_digest=unknown, **name), **k
        ),
        "FindMissingBlobs": lambda **k: blobs.FindMissingBlobs(
            protocol.FindMissingBlobsRequest(blob_digests=[unknown], **name), **k
        ),
        "BatchReadBlobs": lambda **k: blobs.BatchReadBlobs(
            protocol.BatchReadBlobsRequest(digests=[unknown], **name), **k
        ),
        "Read": lambda **k: list(
            stream.Read(bytestream_pb2.ReadRequest(resource_name=resource(unknown)), **k)
        ),
        "UpdateActionResult": lambda **k: actions.UpdateActionResult(
            protocol.UpdateActionResultRequest(action_digest=unknown, action_result=result, **name),
            **k,
        ),
        "BatchUpdateBlobs": lambda **k: blobs.BatchUpdateBlobs(
            protocol.BatchUpdateBlobsRequest(requests=[one], **name), **k
        ),
        "Write": lambda **k: stream.Write(iter([write]), **k),
    }
    answers = {}
    for request, send in requests.items():
        try:
            send(timeout=10, metadata=authorization(token))
            answers[request] = "OK"
        except grpc.RpcError as error:
            answers[request] = error.code().name
    return answers


def sweep(blobs: Path, port: int, password: str, check: bool) -> dict[str, int]:
    """Make the index and the disk agree, after a crash say; no server may run meanwhile.

    Removes blobs that the index doesn't know (else nothing ever would), entries without a blob,
    and blobs of a wrong size. With `check`, also those with wrong bytes.
    """
    import redis

    index = redis.Redis(host="127.0.0.1", port=port, password=password)
    removed = kept = size = 0
    on_disk = {path.parent.name + path.name: path for path in blobs.glob("cas/objects/*/*")}
    for leftover in (blobs / "tmp").glob("*"):
        leftover.unlink()
    for key in index.scan_iter(match="A:*", count=1000):
        digest, _, expected = key.decode()[2:].rpartition("_")
        path = on_disk.pop(digest, None)
        if path and path.stat().st_size == int(expected) and not (check and wrong(path, digest)):
            kept += 1
            size += int(expected)
            continue
        removed += 1
        index.delete(key)
        if path:
            path.unlink()
    for path in on_disk.values():
        removed += 1
        path.unlink()
    index.set("total_size", size)
    return {"blobs": kept, "bytes": size, "removed": removed}


def bound(index: Any, size: int, protected: float) -> None:
    """Keep the blobs below a size, for ever: above it, those go that were used longest ago, until a
    fifth of it is free. Runs beside the servers.

    BuildGrid's own cleanup deletes in the order in which Redis happens to list its keys. A result is
    one only with all its blobs, so that hardly any would survive: with a fifth of all blobs gone at
    random, a result of ten blobs has one chance in nine.

    :param protected: seconds for which a used blob stays, whatever the size: a client may just have
        been told that it is there.
    """
    import redis

    while True:
        try:
            if index.get_total_size() >= size or index.get_blob_count() >= MOST_BLOBS:
                removed = evict(index, size * 8 // 10, MOST_BLOBS * 8 // 10, protected)
                if removed["evicted"]:
                    print(json.dumps(removed), flush=True)
        except redis.RedisError as error:
            print(f"Redis does not answer: {error}", flush=True)
        time.sleep(CLEANING_SECONDS)


def evict(index: Any, size: int, count: int, protected: float) -> dict[str, int]:
    """Delete what was used longest ago until that many bytes and blobs are left, at most.

    Whatever was used in the same second goes together: that is mostly all that a result has.
    """
    used: Counter[int] = Counter()
    blobs: Counter[int] = Counter()
    for second, _, length in indexed(index):
        used[second] += length
        blobs[second] += 1
    bytes_left, blobs_left = sum(used.values()), sum(blobs.values())
    youngest = float("-inf")
    for second in sorted(used):
        kept = second > time.time() - protected
        if kept or (bytes_left <= size and blobs_left <= count):
            break
        youngest = second
        bytes_left -= used[second]
        blobs_left -= blobs[second]
    removed = {"evicted": 0, "bytes": 0}
    batch = []
    # Asked once more: what a client has used since stays.
    for second, digest, length in indexed(index):
        if second <= youngest:
            batch.append(digest)
            removed["evicted"] += 1
            removed["bytes"] += length
        if len(batch) == 1000:
            index.bulk_delete(batch)
            batch = []
    index.bulk_delete(batch)
    return removed


def indexed(index: Any) -> Iterator[tuple[int, Any, int]]:
    """Each blob: the second in which it was last used, its digest, its bytes."""
    from buildgrid._protos.build.bazel.remote.execution.v2.remote_execution_pb2 import Digest

    def scan(redis: Any) -> Any:
        return redis.scan(cursor=cursor or 0, match="A:*", count=1000)

    def remaining(redis: Any) -> Any:
        pipeline = redis.pipeline(transaction=False)
        for key in keys:
            pipeline.pttl(key)
        return pipeline.execute()

    cursor = None
    while cursor != 0:
        cursor, keys = index._redis.execute_ro(scan)
        # BuildGrid gives a blob a year to live whenever a client asks for it, by itself or as a part
        # of a result.
        begin = time.time() - index._ttl.total_seconds()
        for key, milliseconds in zip(keys, index._redis.execute_ro(remaining)):
            digest, _, length = key.decode()[2:].rpartition("_")
            # Else it was deleted meanwhile.
            if milliseconds >= 0:
                used = round(begin + milliseconds / 1000)
                yield used, Digest(hash=digest, size_bytes=int(length)), int(length)


def index_of(blobs: Path, port: int, password: str) -> Any:
    """BuildGrid's index of the blobs, as in `config/write.yml`."""
    from buildgrid.server.cas.storage.disk import DiskStorage
    from buildgrid.server.cas.storage.index.redis import RedisIndex
    from buildgrid.server.redis.provider import RedisProvider

    provider = RedisProvider(host="127.0.0.1", port=port, password=password)
    return RedisIndex(provider, DiskStorage(str(blobs)))


def wrong(path: Path, digest: str) -> bool:
    actual = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            actual.update(block)
    return actual.hexdigest() != digest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    keys = commands.add_parser("keys")
    keys.add_argument("private", type=Path)
    keys.add_argument("public", type=Path)
    certificates = commands.add_parser("certificate")
    certificates.add_argument("folder", type=Path)
    certificates.add_argument("days", type=int)
    certificates.add_argument("names", nargs="+")
    tokens = commands.add_parser("token")
    tokens.add_argument("private", type=Path)
    tokens.add_argument("subject")
    tokens.add_argument("seconds", type=int)
    health = commands.add_parser("health")
    health.add_argument("private", type=Path)
    health.add_argument("roots")
    health.add_argument("name")
    health.add_argument("seconds", type=float)
    health.add_argument("addresses", nargs="+")
    attempts = commands.add_parser("attempt")
    attempts.add_argument("address")
    attempts.add_argument("roots")
    attempts.add_argument("token")
    attempts.add_argument("instance")
    sweeping = commands.add_parser("sweep")
    sweeping.add_argument("blobs", type=Path)
    sweeping.add_argument("port", type=int)
    sweeping.add_argument("password_file", type=Path)
    sweeping.add_argument("--check", action="store_true")
    bounding = commands.add_parser("bound")
    bounding.add_argument("blobs", type=Path)
    bounding.add_argument("port", type=int)
    bounding.add_argument("password_file", type=Path)
    bounding.add_argument("size", type=int)
    bounding.add_argument("protected", type=float)
    arguments = parser.parse_args()

    answer: object = None
    if arguments.command == "keys":
        make_keys(arguments.private, arguments.public)
    elif arguments.command == "certificate":
        make_certificate(arguments.folder, arguments.names, arguments.days)
    elif arguments.command == "token":
        answer = token(arguments.private, arguments.subject, arguments.seconds)
    elif arguments.command == "health":
        # Both ports are asked with a token: the one that needs none ignores it.
        deadline = time.monotonic() + arguments.seconds
        reader = token(arguments.private, "reader:status", 300)
        roots = Path(arguments.roots) if arguments.roots else None
        answer = [
            capabilities(connect(address, roots, arguments.name or None), reader, deadline)
            for address in arguments.addresses
        ]
    elif arguments.command == "attempt":
        roots = Path(arguments.roots) if arguments.roots else None
        given = Path(arguments.token).read_text().strip() if arguments.token else None
        channel = connect(arguments.address, roots, None)
        answer = attempt(channel, given, arguments.instance)
    elif arguments.command == "bound":
        password = arguments.password_file.read_text()
        index = index_of(arguments.blobs, arguments.port, password)
        bound(index, arguments.size, arguments.protected)
    else:
        password = arguments.password_file.read_text()
        answer = sweep(arguments.blobs, arguments.port, password, arguments.check)
    print(json.dumps(answer))


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"{error.filename or ''}: {error.strerror or error}")
