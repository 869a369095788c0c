from __future__ import annotations

import json
from typing import Any, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pants_triton.artifact.pins import (
    LLVM_HASH_PATH,
    LLVM_INFO_PATH,
    NVIDIA_PATH,
    LlvmPin,
    PinError,
    TagPin,
    parse_json_pin,
    parse_llvm_pin,
    parse_nvidia_pin,
    parse_pybind11_pin,
)

DIGEST = "5cef4a9a0a5604ede1f68cfe5765aeafafd0b5f349d868985ecdb4749058dd3b"
REVISION = "62b7cf9623fc310525f39ed69aaecc318a909731"

# The pins of real trees, by the day upstream (or the fork named) committed them.
LLVM_HASHES = [
    ("2023-11-24", "49af6502c6dcb4a7f7520178bd14df396f78240c"),
    ("2023-12-14", "668865789620f390fbad4d7093ed8ca6eb932c31"),
    ("2024-02-02", "4017f04e310454ccced4c404a23f7698eec735ca"),
    # Cut to 32 digits, for four days.
    ("2024-04-05", "6f44bb7717897191be25aa01161831c6"),
    ("2024-06-19", "657ec7320d8a28171755ba0dd5afc570a5a16791"),
    ("2024-08-31", "1115dee248e68a155001ac3712a189299d104863"),
    ("2025-01-29", "c118864223c6309378cd704f3406533474c2759f"),
    ("2025-08-21", "064f02dac0c81c19350a74415b3245f42fed09dc"),
    ("2025-11-22", "49d5bb0ad0cb31410184c462801c5049ad671517"),
    ("2026-01-29", "2eb709b95d8f521aa15401e159fac0729d56a677"),
    ("2026-04-16", "87717bf9f81f7b29466c5d9a30a3453bdfc93941"),
]

# Commit, build number, digests of ubuntu-x64 and windows-x64.
LLVM_INFOS = [
    (
        "2026-05-28",
        "87717bf9f81f7b29466c5d9a30a3453bdfc93941",
        1,
        "7889df00f0dbbceb8e45774362b0478590029400a3abd58bdabba83d92fb2bbe",
        "9b2acb214d635bde0a5500a95186f99540e6aa5ac36f58a5a843f4fdb22a6a8a",
    ),
    (
        "2026-06-06",
        "62b7cf9623fc310525f39ed69aaecc318a909731",
        2,
        "5cef4a9a0a5604ede1f68cfe5765aeafafd0b5f349d868985ecdb4749058dd3b",
        "13a59b2778b78115580a293a78c4ef7b7284cdc9af676e9536a3c077c7cc1bd7",
    ),
    (
        "2026-08-17",
        "941a04e69ee8fe4c7a162b2f1e215aa8df867534",
        1,
        "6da421dd5fe5eda50bb4abf679a86ed8cf7543fd0dbace7398a10828dc7ae2aa",
        "983d1453841523e889a5caa3921fa5f002ed3144ee7ce98c6bcca28d111f4d2f",
    ),
]

WORDS = (
    *("ptxas-blackwell", "ptxas", "cuobjdump", "nvdisasm"),
    *("cudacrt", "cudart", "cupti", "cupti-blackwell"),
)


def versions(*given: str | None) -> dict[str, str]:
    """The versions of WORDS, in that order; None where the pin hasn't the component."""
    return {word: version for word, version in zip(WORDS, given) if version is not None}


CUDA_13_1 = ("13.1.80",) * 4
NVIDIA = [
    ("2024-09-03", versions(None, *("12.4.99",) * 6)),
    (
        "2025-01-28",
        versions("12.8.61", "12.4.99", "12.8.55", "12.8.55", "12.8.61", "12.8.57", "12.8.57"),
    ),
    (
        "2025-03-12",
        versions(None, "12.8.93", "12.8.55", "12.8.55", "12.8.61", "12.8.57", "12.8.90"),
    ),
    (
        "2025-10-17",
        versions("12.9.86", "12.8.93", "12.8.55", "12.8.55", "12.8.61", "12.8.57", "12.8.90"),
    ),
    ("2025-12-18", versions("12.9.86", "12.8.93", *CUDA_13_1, "12.8.90")),
    ("2026-01-02", versions("12.9.86", "12.9.86", *CUDA_13_1, "12.8.90")),
    ("2026-02-13", versions("13.1.80", "12.9.86", *CUDA_13_1, "12.8.90", "13.1.115")),
    ("2026-02-16", versions("13.1.80", "12.9.86", *CUDA_13_1, "12.8.90", "13.0.85")),
    (
        "2026-03-19",
        {
            **versions("13.1.80", "12.9.86", *CUDA_13_1, "12.8.90", "13.0.85"),
            "cuda-stdlib": "13.1.115",
        },
    ),
    ("2026-05-12", versions(None, "13.1.80", *CUDA_13_1, "12.8.90", "13.0.85")),
    ("2026-05-29", versions("13.3.33", "12.9.86", *CUDA_13_1, "12.8.90", "13.3.35")),
    (
        "2026, triton-windows",
        {
            **versions("13.3.33", "12.9.86", *CUDA_13_1, "12.8.90", "13.3.35"),
            "cupti-windows": "13.3.35",
        },
    ),
    (
        "2026, triton-das",
        {
            **versions("12.9.86", "12.8.93", "12.8.55", "12.8.55", "12.8.61", "12.8.57", "12.8.90"),
            "nvlink": "12.8.93",
        },
    ),
]


@pytest.mark.parametrize("day, revision", LLVM_HASHES)
def test_llvm_hashes(day: str, revision: str) -> None:
    pin = parse_llvm_pin(LLVM_HASH_PATH, revision + "\n")
    assert pin == LlvmPin(LLVM_HASH_PATH, revision)
    assert pin.short_revision == revision[:8]


@pytest.mark.parametrize("day, revision, build, ubuntu, windows", LLVM_INFOS)
def test_llvm_infos(day: str, revision: str, build: int, ubuntu: str, windows: str) -> None:
    digests = {"windows-x64": windows, "macos-arm64": DIGEST, "ubuntu-x64": ubuntu}
    text = json.dumps(
        {"llvm_hash": revision, "build_number": build, "sha256sum": digests}, indent=2
    )
    assert parse_llvm_pin(LLVM_INFO_PATH, text) == LlvmPin(
        LLVM_INFO_PATH,
        revision,
        build,
        (("macos-arm64", DIGEST), ("ubuntu-x64", ubuntu), ("windows-x64", windows)),
    )


def test_a_fork_with_builds_of_its_own() -> None:
    text = an_info(
        lambda d: d.update(
            llvm_repository="https://github.com/facebookexperimental/llvm-project",
            release_base_url="https://github.com/facebookexperimental/llvm-project/releases/download/llvm-f9bd45e3-1/",
        )
    )
    assert parse_llvm_pin(LLVM_INFO_PATH, text).store == (
        "https://github.com/facebookexperimental/llvm-project/releases/download/llvm-f9bd45e3-1"
    )


@pytest.mark.parametrize("day, pinned", NVIDIA)
def test_nvidia_versions(day: str, pinned: dict[str, str]) -> None:
    pin = parse_nvidia_pin(json.dumps(pinned))
    assert pin.path == NVIDIA_PATH
    assert pin.components == tuple(pinned.items())
    assert pin.version("ptxas") == pinned["ptxas"]
    assert pin.version("fatbinary") is None


def test_one_version_for_all() -> None:
    pin = parse_nvidia_pin("12.4.99", "cmake/nvidia-toolchain-version.txt")
    assert [name for name, _ in pin.components] == [
        *("ptxas", "cuobjdump", "nvdisasm", "cudacrt", "cudart", "cupti"),
    ]
    assert {version for _, version in pin.components} == {"12.4.99"}


def test_tags() -> None:
    assert parse_json_pin("v3.11.3\n") == TagPin("cmake/json-version.txt", "v3.11.3")
    assert parse_pybind11_pin("2.11.1") == TagPin("cmake/pybind11-version.txt", "v2.11.1")
    assert parse_pybind11_pin("2.13.1").tag == "v2.13.1"


def test_a_byte_order_mark_and_windows_lines_are_no_error() -> None:
    assert parse_llvm_pin(LLVM_HASH_PATH, f"\ufeff{REVISION}\r\n").revision == REVISION
    assert parse_nvidia_pin('\ufeff{\r\n"ptxas": "12.8.93"}').version("ptxas") == "12.8.93"


# --- malformed -------------------------------------------------------------------------------


def an_info(change: Callable[[Any], object]) -> str:
    document: Any = {
        "llvm_hash": REVISION,
        "build_number": 2,
        "sha256sum": {"ubuntu-x64": DIGEST},
    }
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    "text, message",
    [
        pytest.param("", "expected LLVM's commit and nothing else, got nothing", id="empty"),
        pytest.param(f"{REVISION} 1", "nothing else, got 2 words", id="more"),
        pytest.param(
            "main", 'expected LLVM\'s commit, 40 lower-case hex digits, got "main"', id="x"
        ),
        pytest.param(REVISION + "0", "40 lower-case hex digits", id="long"),
        pytest.param(REVISION.upper(), "40 lower-case hex digits", id="upper case"),
        pytest.param(
            f"<<<<<<< HEAD\n{REVISION}\n=======\n{REVISION}\n>>>>>>> x\n",
            "line 1: a merge conflict is not resolved",
            id="merge conflict",
        ),
    ],
)
def test_malformed_llvm_hashes(text: str, message: str) -> None:
    with pytest.raises(PinError) as e:
        parse_llvm_pin(LLVM_HASH_PATH, text)
    assert str(e.value).startswith(f"{LLVM_HASH_PATH}: ")
    assert message in str(e.value)


@pytest.mark.parametrize(
    "text, message",
    [
        pytest.param("{", "line 1, column 2: expected JSON", id="not JSON"),
        pytest.param("[]", "expected a JSON object, got []", id="a list"),
        pytest.param("[" * 100_000, "expected a small JSON object", id="nested"),
        pytest.param('{"a": 1, "a": 1}', '"a" occurs twice', id="twice"),
        pytest.param(
            an_info(lambda d: d.pop("sha256sum")),
            "has no sha256sum: expected cmake/llvm-info.json, not the request for a build",
            id="llvm-build-info.json",
        ),
        pytest.param(
            json.dumps({"llvm-hash": REVISION}),
            'llvm_hash is missing (there is "llvm-hash"): expected llvm_hash, build_number',
            id="misspelt",
        ),
        pytest.param(
            an_info(lambda d: d.update(llvm_hash=1)), "llvm_hash: expected LLVM's commit", id="hash"
        ),
        pytest.param(
            an_info(lambda d: d.update(build_number="2")),
            'build_number: expected a whole number, got "2"',
            id="number",
        ),
        pytest.param(an_info(lambda d: d.update(build_number=True)), "got true", id="no number"),
        pytest.param(an_info(lambda d: d.update(build_number=-1)), "got -1", id="negative"),
        pytest.param(
            an_info(lambda d: d.update(sha256sum={})), "sha256sum: expected an object", id="none"
        ),
        pytest.param(
            an_info(lambda d: d["sha256sum"].update({"ubuntu-x64": DIGEST[1:]})),
            "sha256sum: ubuntu-x64: expected 64 lower-case hex digits",
            id="digest",
        ),
        pytest.param(
            an_info(lambda d: d["sha256sum"].update({"../x": DIGEST})),
            'sha256sum: expected platforms such as ubuntu-x64, got "../x"',
            id="platform",
        ),
        pytest.param(
            an_info(lambda d: d.update(release_base_url="http://example.com")),
            'release_base_url: expected an https: URL, got "http://example.com"',
            id="store",
        ),
    ],
)
def test_malformed_llvm_infos(text: str, message: str) -> None:
    with pytest.raises(PinError) as e:
        parse_llvm_pin(LLVM_INFO_PATH, text)
    assert str(e.value).startswith(f"{LLVM_INFO_PATH}: ")
    assert message in str(e.value)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    "text, message",
    [
        pytest.param("", "line 1, column 1: expected JSON", id="empty"),
        pytest.param("{}", "has no component", id="no component"),
        pytest.param('{"ptxas": 12.8}', "ptxas: expected a version such as 12.8.93", id="number"),
        pytest.param(
            '{"nvlink": ""}', 'nvlink: expected a version such as 12.8.93, got ""', id="no"
        ),
        pytest.param('{"ptxas": "12.8"}', 'got "12.8"', id="short"),
        pytest.param('{"ptxas": "12.8.93/../x"}', "expected a version", id="path"),
        pytest.param(
            '{"bin/ptxas": "12.8.93"}', "expected component names such as ptxas", id="name"
        ),
        pytest.param('{"ptxas": "1.2.3", "ptxas": "1.2.4"}', '"ptxas" occurs twice', id="twice"),
    ],
)
def test_malformed_nvidia_pins(text: str, message: str) -> None:
    with pytest.raises(PinError) as e:
        parse_nvidia_pin(text)
    assert str(e.value).startswith(f"{NVIDIA_PATH}: ")
    assert message in str(e.value)


@pytest.mark.parametrize("text", ["", "3.11.3", "v3.11.3 v3.11.2", "v3/../..", "latest"])
def test_malformed_tags(text: str) -> None:
    with pytest.raises(PinError, match="cmake/json-version.txt: expected a tag such as v3.11.3"):
        parse_json_pin(text)


# --- any pin ---------------------------------------------------------------------------------

PARSERS: tuple[Callable[[str], object], ...] = (
    lambda text: parse_llvm_pin(LLVM_HASH_PATH, text),
    lambda text: parse_llvm_pin(LLVM_INFO_PATH, text),
    parse_nvidia_pin,
    lambda text: parse_nvidia_pin(text, "cmake/nvidia-toolchain-version.txt"),
    parse_json_pin,
    parse_pybind11_pin,
)


def refused_or_parsed(text: str) -> None:
    for parse in PARSERS:
        try:
            parse(text)
        except PinError as e:
            assert str(e).startswith("cmake/") and "\n" not in str(e) and len(str(e)) < 300


@given(st.text())
@settings(deadline=None)
def test_any_text(text: str) -> None:
    refused_or_parsed(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
info_names = st.sampled_from(["llvm_hash", "build_number", "sha256sum", "release_base_url"])


@given(st.dictionaries(info_names | st.text(max_size=6), json_values, max_size=5))
@settings(deadline=None)
def test_any_json(document: dict[str, Any]) -> None:
    refused_or_parsed(json.dumps(document))


@given(info_names, json_values)
@settings(deadline=None)
def test_any_value_of_a_field(name: str, value: Any) -> None:
    refused_or_parsed(an_info(lambda d: d.update({name: value})))
