from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest

from pants_triton.kernel_cache.entry import check_content, check_files, entry_name, is_private
from pants_triton.kernel_cache.errors import Refused

HASH = hashlib.sha256(b"a kernel").hexdigest()
KEY = base64.b32encode(bytes.fromhex(HASH)).decode().rstrip("=")
TARGET = {"backend": "cuda", "arch": 90, "warp_size": 32}


def kernel(**metadata: Any) -> dict[str, bytes]:
    content = {"hash": HASH, "target": TARGET, "ir_override": None, **metadata}
    return {
        "add.json": json.dumps(content).encode(),
        "add.ptx": b"// text",
        "add.cubin": b"\x7fELF\xff",
    }


def test_a_kernel_is_taken() -> None:
    check_content(KEY, "add.json", kernel())
    # Triton up to 3.0 has the hash itself as the key.
    check_content(HASH, "add.json", kernel())


def test_kernels_of_other_backends_are_taken() -> None:
    files = kernel(target={"backend": "hip", "arch": "gfx942", "warp_size": 64})
    files["add.hsaco"] = files.pop("add.cubin")
    check_content(KEY, "add.json", files)
    files = kernel(target={"backend": "xpu", "arch": "x", "warp_size": 32})
    check_content(KEY, "add.json", files)


@pytest.mark.parametrize(
    "files, message",
    [
        pytest.param(kernel(hash="0" * 64), "of another kernel", id="another kernel"),
        pytest.param(kernel(hash=1), "of another kernel", id="no hash"),
        pytest.param(kernel(hash="xyz"), "of another kernel", id="no hexadecimal hash"),
        pytest.param(kernel(ir_override="a.ptx"), "replaced intermediate", id="override"),
        pytest.param(kernel(target=None), "names no target", id="no target"),
        pytest.param(kernel(target={"backend": "cuda"}), "names no target", id="half a target"),
        pytest.param(kernel(target={**TARGET, "backend": "hip"}), "has no hsaco", id="no binary"),
        pytest.param({**kernel(), "add.cubin": b""}, "has no cubin", id="empty binary"),
        pytest.param({**kernel(), "add.ptx": b"\xff"}, "add.ptx is no text", id="no text"),
        pytest.param({**kernel(), "add.json": b"{"}, "no JSON", id="no JSON"),
        pytest.param({**kernel(), "add.json": b"\xff"}, "no JSON", id="no text as JSON"),
        pytest.param({**kernel(), "add.json": b"[]"}, "no JSON object", id="no object"),
        pytest.param({"add.json": kernel()["add.json"]}, "nothing but metadata", id="alone"),
        pytest.param({"add.cubin": b"x"}, "no metadata", id="no metadata"),
    ],
)
def test_what_is_refused(files: dict[str, bytes], message: str) -> None:
    with pytest.raises(Refused, match=message):
        check_content(KEY, "add.json", files)


@pytest.mark.parametrize(
    "name",
    ["add.so", "add.so.1", "add.cpython-311-x86_64-linux-gnu.so", "add.x.dylib", "add.py"],
)
def test_what_the_host_would_run_is_refused(name: str) -> None:
    with pytest.raises(Refused, match="the host would run"):
        check_files("add.json", [("add.json", 2), (name, 2)])


def test_too_many_files_are_refused() -> None:
    names = ["add.json", *(f"add.{i}" for i in range(64))]
    with pytest.raises(Refused, match="65 files"):
        check_files("add.json", [(name, 1) for name in names])


def test_the_name_has_what_the_key_lacks() -> None:
    plain = entry_name(KEY, "add.json", {"HOME": "/h"})
    assert plain == ("pants-triton-kernel/1", KEY, "add.json")
    others = [
        entry_name(KEY, "add.json", {variable: "1"})
        for variable in ("TRITON_STORE_BINARY_ONLY", "TRITON_MOCK_PTX_VERSION")
    ]
    assert len({plain, *others, entry_name(KEY, "sub.json", {})}) == 4


def test_what_depends_on_files_in_no_key_is_private() -> None:
    assert is_private({"TRITON_KERNEL_OVERRIDE": "1"})
    assert is_private({"LLVM_PASS_PLUGIN_PATH": "/plugin.so"})
    assert not is_private({"TRITON_KERNEL_OVERRIDE": "0", "TRITON_SWAP_MIR": ""})
