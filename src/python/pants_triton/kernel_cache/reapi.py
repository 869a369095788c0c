"""The few messages of the Remote Execution API that a cache client needs.

They are described here rather than generated, so that any protobuf from 3.20 on serves them: generated
code works with few releases, and what the user's project has installed is not ours to choose. They are in a
pool of their own: another package in the process may bring the whole API under the same names.

Names and numbers: build/bazel/remote/execution/v2/remote_execution.proto of
bazelbuild/remote-apis 2.x, google/bytestream/bytestream.proto, google/rpc/status.proto.
"""

from __future__ import annotations

import hashlib
from typing import Any, Mapping

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_EXECUTION = "build.bazel.remote.execution.v2"
_BYTESTREAM = "google.bytestream"
_RPC = "google.rpc"

# Package -> message -> field -> (number, type). A type with a dot is a message; `*` says repeated.
_MESSAGES: Mapping[str, Mapping[str, Mapping[str, tuple[int, str]]]] = {
    _RPC: {
        "Status": {"code": (1, "int32"), "message": (2, "string")},
    },
    _EXECUTION: {
        "Digest": {"hash": (1, "string"), "size_bytes": (2, "int64")},
        "Command": {"arguments": (1, "string*"), "output_paths": (7, "string*")},
        "Action": {
            "command_digest": (1, ".Digest"),
            "input_root_digest": (2, ".Digest"),
        },
        "OutputFile": {"path": (1, "string"), "digest": (2, ".Digest")},
        "ActionResult": {"output_files": (2, ".OutputFile*"), "exit_code": (4, "int32")},
        "GetActionResultRequest": {
            "instance_name": (1, "string"),
            "action_digest": (2, ".Digest"),
        },
        "UpdateActionResultRequest": {
            "instance_name": (1, "string"),
            "action_digest": (2, ".Digest"),
            "action_result": (3, ".ActionResult"),
        },
        "FindMissingBlobsRequest": {
            "instance_name": (1, "string"),
            "blob_digests": (2, ".Digest*"),
        },
        "FindMissingBlobsResponse": {"missing_blob_digests": (2, ".Digest*")},
        "BlobToUpload": {"digest": (1, ".Digest"), "data": (2, "bytes")},
        "BatchUpdateBlobsRequest": {
            "instance_name": (1, "string"),
            "requests": (2, ".BlobToUpload*"),
        },
        "UploadedBlob": {"digest": (1, ".Digest"), "status": (2, f"{_RPC}.Status")},
        "BatchUpdateBlobsResponse": {"responses": (1, ".UploadedBlob*")},
        "BatchReadBlobsRequest": {"instance_name": (1, "string"), "digests": (2, ".Digest*")},
        "ReadBlob": {
            "digest": (1, ".Digest"),
            "data": (2, "bytes"),
            "status": (3, f"{_RPC}.Status"),
        },
        "BatchReadBlobsResponse": {"responses": (1, ".ReadBlob*")},
    },
    _BYTESTREAM: {
        "ReadRequest": {
            "resource_name": (1, "string"),
            "read_offset": (2, "int64"),
            "read_limit": (3, "int64"),
        },
        "ReadResponse": {"data": (10, "bytes")},
        "WriteRequest": {
            "resource_name": (1, "string"),
            "write_offset": (2, "int64"),
            "finish_write": (3, "bool"),
            "data": (10, "bytes"),
        },
        "WriteResponse": {"committed_size": (1, "int64")},
    },
}

_ACTION_CACHE = f"{_EXECUTION}.ActionCache"
_STORAGE = f"{_EXECUTION}.ContentAddressableStorage"
_STREAMS = f"{_BYTESTREAM}.ByteStream"

# Method -> (service, its response).
METHODS = {
    "GetActionResult": (_ACTION_CACHE, "ActionResult"),
    "UpdateActionResult": (_ACTION_CACHE, "ActionResult"),
    "FindMissingBlobs": (_STORAGE, "FindMissingBlobsResponse"),
    "BatchUpdateBlobs": (_STORAGE, "BatchUpdateBlobsResponse"),
    "BatchReadBlobs": (_STORAGE, "BatchReadBlobsResponse"),
    "Read": (_STREAMS, "ReadResponse"),
    "Write": (_STREAMS, "WriteResponse"),
}


def _make_classes() -> dict[str, Any]:
    field_types = descriptor_pb2.FieldDescriptorProto
    pool = descriptor_pool.DescriptorPool()
    classes = {}
    for package, messages in _MESSAGES.items():
        file = descriptor_pb2.FileDescriptorProto(
            name=f"pants_triton/{package}.proto", package=package, syntax="proto3"
        )
        if package == _EXECUTION:
            file.dependency.append(f"pants_triton/{_RPC}.proto")
        for name, fields in messages.items():
            message = file.message_type.add(name=name)
            for field_name, (number, kind) in fields.items():
                field = message.field.add(name=field_name, number=number)
                field.label = (
                    field_types.LABEL_REPEATED if kind.endswith("*") else field_types.LABEL_OPTIONAL
                )
                kind = kind.rstrip("*")
                if "." in kind:
                    field.type = field_types.TYPE_MESSAGE
                    field.type_name = f".{package}{kind}" if kind[0] == "." else f".{kind}"
                else:
                    field.type = getattr(field_types, f"TYPE_{kind.upper()}")
        pool.AddSerializedFile(file.SerializeToString())
        for name in messages:
            descriptor = pool.FindMessageTypeByName(f"{package}.{name}")
            classes[name] = _message_class(pool, descriptor)
    return classes


def _message_class(pool: Any, descriptor: Any) -> Any:
    # protobuf 4.22 and newer; the older way is gone from 5.
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


#: Message classes by their names in the API. Those that the API nests have names of our own.
MESSAGES = _make_classes()


def digest_of(data: bytes) -> Any:
    """The `Digest` of a blob."""
    return MESSAGES["Digest"](hash=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
