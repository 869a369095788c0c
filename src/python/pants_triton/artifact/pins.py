"""Upstream's pins: the files in Triton's `cmake` folder that say which toolchains a tree wants.

| file | since | says |
|---|---|---|
| `llvm-hash.txt` | November 2023 | LLVM's commit |
| `llvm-info.json` | May 2026, instead | the commit, a build number, the sha256 of each archive |
| `nvidia-toolchain-version.txt` | April 2024 | one version for all of NVIDIA's tools |
| `nvidia-toolchain-version.json` | September 2024, instead | a version for each component |
| `json-version.txt` | May 2024 | the tag of nlohmann json |
| `pybind11-version.txt` | April to August 2024 | pybind11's version |

Before, the versions stand in `setup.py`: there is no pin.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from typing import Any, Iterable

from pants_triton.artifact.lock import shown_value

#: Where the pins lie in a Triton tree.
LLVM_HASH_PATH = "cmake/llvm-hash.txt"
LLVM_INFO_PATH = "cmake/llvm-info.json"
NVIDIA_PATH = "cmake/nvidia-toolchain-version.json"
JSON_PATH = "cmake/json-version.txt"
PYBIND11_PATH = "cmake/pybind11-version.txt"

#: The components that a pin with one version for all stands for.
NVIDIA_COMPONENTS_OF_ONE_VERSION: tuple[str, ...] = (
    *("ptxas", "cuobjdump", "nvdisasm"),
    *("cudacrt", "cudart", "cupti"),
)


class PinError(ValueError):
    """A pin is malformed. The message is one line: the file, what is wrong, what was expected."""


@dataclass(frozen=True)
class LlvmPin:
    """Which build of LLVM a tree wants.

    `revision` is the commit in lower-case hex. `build_number` is None in the generation of
    `llvm-hash.txt`, which built each commit once. `sha256` pairs each of upstream's suffixes
    (`ubuntu-x64`) with its archive's digest, sorted; it is empty in that generation. `store` is the
    URL of the folder a fork publishes its own builds in, None for upstream's.
    """

    path: str
    revision: str
    build_number: int | None = None
    sha256: tuple[tuple[str, str], ...] = ()
    store: str | None = None

    @property
    def short_revision(self) -> str:
        """The eight digits in archives' names."""
        return self.revision[:8]


@dataclass(frozen=True)
class NvidiaPin:
    """The version (`12.8.93`) of each of NVIDIA's components (`ptxas`), in the file's order."""

    path: str
    components: tuple[tuple[str, str], ...]

    def version(self, component: str) -> str | None:
        """The version of `component`, None where the tree doesn't want it."""
        return dict(self.components).get(component)


@dataclass(frozen=True)
class TagPin:
    """A release of a project on GitHub, by its `tag` (`v3.11.3`)."""

    path: str
    tag: str


def parse_llvm_pin(path: str, text: str) -> LlvmPin:
    """The pin in `text`, the content of `path`: JSON where that ends in `.json`, else a bare
    commit. Raises PinError."""
    if path.endswith(".json"):
        return _parse_llvm_info(path, text)
    revision = _single_word(path, text, "LLVM's commit")
    return LlvmPin(path, _revision(path, "", revision))


def parse_nvidia_pin(text: str, path: str = NVIDIA_PATH) -> NvidiaPin:
    """The pin in `text`. A bare version (the generation of April 2024) stands for all of
    NVIDIA_COMPONENTS_OF_ONE_VERSION. Raises PinError.

    Components that nobody knows are kept: whether their archive is known is `archives`' affair.
    """
    if not path.endswith(".json") and not text.lstrip("\ufeff").lstrip().startswith("{"):
        version = _version(path, "", _single_word(path, text, "a version such as 12.4.99"))
        return NvidiaPin(path, tuple((name, version) for name in NVIDIA_COMPONENTS_OF_ONE_VERSION))
    record = _object(path, text)
    if not record:
        raise PinError(f"{path}: has no component: expected at least one, such as ptxas.")
    for name in record:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
            raise PinError(
                f"{path}: expected component names such as ptxas, got {shown_value(name)}."
            )
    return NvidiaPin(path, tuple((name, _version(path, name, v)) for name, v in record.items()))


def parse_json_pin(text: str, path: str = JSON_PATH) -> TagPin:
    """The release of nlohmann json. Raises PinError."""
    tag = _single_word(path, text, "a tag such as v3.11.3")
    if not re.fullmatch(r"v[0-9]+(\.[0-9]+){1,3}", tag):
        raise PinError(f"{path}: expected a tag such as v3.11.3, got {shown_value(tag)}.")
    return TagPin(path, tag)


def parse_pybind11_pin(text: str, path: str = PYBIND11_PATH) -> TagPin:
    """The release of pybind11. The file has the version, its tag a `v` before it. Raises
    PinError."""
    version = _single_word(path, text, "a version such as 2.13.1")
    return TagPin(path, "v" + _version(path, "", version))


def _parse_llvm_info(path: str, text: str) -> LlvmPin:
    record = _object(path, text)
    # `llvm-build-info.json` beside it asks upstream's CI for builds: not all were ever used.
    if "llvm_hash" in record and "sha256sum" not in record:
        raise PinError(
            f"{path}: has no sha256sum: expected {LLVM_INFO_PATH}, not the request for a build "
            "that lies beside it."
        )
    known = ("llvm_hash", "build_number", "sha256sum")
    for name in known:
        if name not in record:
            near = difflib.get_close_matches(name, list(record), n=1)
            hint = f" (there is {shown_value(near[0])})" if near else ""
            raise PinError(f"{path}: {name} is missing{hint}: expected {', '.join(known)}.")
    number = record["build_number"]
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 10**6:
        raise PinError(f"{path}: build_number: expected a whole number, got {shown_value(number)}.")
    digests = record["sha256sum"]
    if not isinstance(digests, dict) or not digests:
        raise PinError(
            f"{path}: sha256sum: expected an object of a digest a platform, got {shown_value(digests)}."
        )
    for suffix, digest in digests.items():
        if not re.fullmatch(r"[a-z0-9][a-z0-9.]*-[a-z0-9]+", suffix):
            raise PinError(
                f"{path}: sha256sum: expected platforms such as ubuntu-x64, got {shown_value(suffix)}."
            )
        if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise PinError(
                f"{path}: sha256sum: {suffix}: expected 64 lower-case hex digits, got "
                f"{shown_value(digest)}."
            )
    # A field of facebookexperimental/triton.
    store = record.get("release_base_url")
    if store is not None and not (
        isinstance(store, str)
        and re.fullmatch(r"https://[A-Za-z0-9.-]+(/[A-Za-z0-9._~-]+)*/?", store)
    ):
        raise PinError(
            f"{path}: release_base_url: expected an https: URL, got {shown_value(store)}."
        )
    revision = _revision(path, "llvm_hash", record["llvm_hash"])
    return LlvmPin(
        path, revision, number, tuple(sorted(digests.items())), store and store.rstrip("/")
    )


def _revision(path: str, name: str, value: object) -> str:
    # Archives are named by the first eight digits, and upstream has built with a commit cut to 32
    # of its 40 (April 2024), so a shorter one is no error.
    if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{8,40}", value):
        return value
    raise PinError(
        f"{path}: {name + ': ' if name else ''}expected LLVM's commit, 40 lower-case hex digits, "
        f"got {shown_value(value)}."
    )


def _version(path: str, name: str, value: object) -> str:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}", value):
        return value
    raise PinError(
        f"{path}: {name + ': ' if name else ''}expected a version such as 12.8.93, got "
        f"{shown_value(value)}."
    )


def _single_word(path: str, text: str, expected: str) -> str:
    words = text.lstrip("\ufeff").split()
    _no_conflict(path, text)
    if len(words) != 1:
        found = "nothing" if not words else f"{len(words)} words"
        raise PinError(f"{path}: expected {expected} and nothing else, got {found}.")
    return words[0]


def _object(path: str, text: str) -> dict[str, Any]:
    _no_conflict(path, text)
    try:
        value = json.loads(text.lstrip("\ufeff"), object_pairs_hook=_pairs)
    except _DuplicateKey as e:
        raise PinError(
            f"{path}: {shown_value(e.key)} occurs twice: expected each name once."
        ) from None
    except json.JSONDecodeError as e:
        raise PinError(
            f"{path}: line {e.lineno}, column {e.colno}: expected JSON: {e.msg}."
        ) from None
    except (ValueError, RecursionError):
        raise PinError(f"{path}: expected a small JSON object.") from None
    if not isinstance(value, dict):
        raise PinError(f"{path}: expected a JSON object, got {shown_value(value)}.")
    return value


class _DuplicateKey(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _pairs(pairs: Iterable[Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _DuplicateKey(key)
        result[key] = value
    return result


def _no_conflict(path: str, text: str) -> None:
    for number, line in enumerate(text.splitlines(), start=1):
        if re.match(r"(<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|)( |$)|=======$", line):
            raise PinError(
                f"{path}: line {number}: a merge conflict is not resolved: expected one version."
            )
