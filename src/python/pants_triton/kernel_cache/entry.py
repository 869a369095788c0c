"""What a kernel is called in the cache, and what is taken from there for one.

An entry is one compiled kernel: the files of one of Triton's *groups* (`NAME.json`, its metadata, and
`NAME.ttir`, `NAME.ptx`, `NAME.cubin` and so on), under the key that Triton made of the compiler, the
source, the options and the environment.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Iterable, Mapping

from pants_triton.kernel_cache.errors import Refused

#: Of the form of entries: part of every name.
FORMAT = "pants-triton-kernel/1"

#: No kernel is larger; whoever claims so is not believed.
MAX_ENTRY_BYTES = 256 * 1024 * 1024
MAX_FILES = 64

# They change the code that is made, but Triton 3.7's key doesn't have them.
_PART_OF_NAME = (
    "AMDGCN_ANALYZE_SMALL_TENSOR_RANGE",
    "AMDGCN_SCALARIZE_PACKED_FOPS",
    "TRITON_MOCK_PTX_VERSION",
    "TRITON_STORE_BINARY_ONLY",
)

# They bring in files whose content is in no key, so that a kernel made with them is nobody else's.
_PRIVATE = (
    "LLVM_PASS_PLUGIN_PATH",
    "TRITON_KERNEL_OVERRIDE",
    "TRITON_PLUGIN_PATHS",
    "TRITON_SWAP_MIR",
)

# What the driver loads, by backend. Of a backend that isn't here, any file is enough.
_BINARIES = {"cuda": "cubin", "hip": "hsaco"}

_OFF_VALUES = ("", "0", "false", "off", "no", "n")

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.<>$@+=,-]{0,199}")


def is_private(environment: Mapping[str, str]) -> bool:
    """Whether what is compiled in this environment depends on more than its key says."""
    return any(environment.get(name, "").lower() not in _OFF_VALUES for name in _PRIVATE)


def entry_name(key: str, group: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """What an entry is called: the arguments of the API's `Command`.

    :param key: Triton's.
    :param group: Triton's name of the group, that of the metadata file.
    """
    variables = (f"{name}={environment[name]}" for name in _PART_OF_NAME if environment.get(name))
    return (FORMAT, key, group, *variables)


def check_files(group: str, files: Iterable[tuple[str, int]]) -> None:
    """See whether names and sizes are those of a group.

    :raises Refused: they are not.
    """
    names = set()
    total = 0
    stem = group.rpartition(".")[0]
    for name, size in files:
        if not _PLAIN_NAME.fullmatch(name) or not name.startswith(f"{stem}."):
            raise Refused(f"it has a file {name[:200]!r}, which is none of {group}")
        # Libraries that Triton loads into the process are never shared.
        if re.search(r"\.(so|dylib|dll|pyd|py)(\.|$)", name[len(stem) :]):
            raise Refused(f"it has a file {name!r}, which the host would run")
        if name in names:
            raise Refused(f"it has two files {name!r}")
        names.add(name)
        if size < 0:
            raise Refused(f"{name} has the size {size}")
        total += size
    if group not in names:
        raise Refused("it has no metadata")
    if len(names) > MAX_FILES or total > MAX_ENTRY_BYTES:
        raise Refused(f"it has {len(names)} files of {total} bytes together")


def check_content(key: str, group: str, files: Mapping[str, bytes]) -> None:
    """See whether the files are of the kernel that Triton asks for, so that another one's, put under
    this key, is not taken for it.

    :raises Refused: they are not.
    """
    check_files(group, ((name, len(data)) for name, data in files.items()))
    try:
        metadata = json.loads(files[group])
    except ValueError:
        raise Refused("its metadata is no JSON") from None
    if not isinstance(metadata, dict):
        raise Refused("its metadata is no JSON object")
    kernel_hash = metadata.get("hash")
    if not isinstance(kernel_hash, str) or key not in _keys_of(kernel_hash):
        raise Refused("its metadata is of another kernel")
    if metadata.get("ir_override"):
        raise Refused("it was compiled from a replaced intermediate file")
    target = metadata.get("target")
    if not isinstance(target, dict) or not {"backend", "arch", "warp_size"} <= set(target):
        raise Refused("its metadata names no target")
    if len(files) < 2:
        raise Refused("it has nothing but metadata")
    binary = _BINARIES.get(str(target["backend"]))
    if binary is None:
        return
    stem = group.rpartition(".")[0]
    if not files.get(f"{stem}.{binary}"):
        raise Refused(f"it has no {binary}")
    for name, data in files.items():
        if name != f"{stem}.{binary}":
            try:
                data.decode()
            except UnicodeDecodeError:
                raise Refused(f"its {name} is no text") from None


def _keys_of(kernel_hash: str) -> tuple[str, ...]:
    """The keys that Triton's cache managers get for a kernel: up to 3.0 the hash itself."""
    try:
        in_base32 = base64.b32encode(bytes.fromhex(kernel_hash)).decode().rstrip("=")
    except ValueError:
        return (kernel_hash,)
    return (kernel_hash, in_base32)
