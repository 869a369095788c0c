"""What a test bundle holds, as plain data: written by Pants' rules, read where the bundle is run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Mapping

#: Of the form below. A bundle carries the program that reads it, so older ones need no support.
VERSION = 1

#: Folders and files of a bundle, relative to where it is unpacked.
MANIFEST = "manifest.json"
BLOBS = "blobs"
PEXES = "pexes"
PROGRAM = "program"


class ManifestError(Exception):
    """A file is no manifest of ours."""


@dataclass(frozen=True)
class TreeEntry:
    """One thing in a tree: a file with the bytes of a blob, a link, or an empty folder.

    :param blob: the sha256 of a file's content, in hex.
    :param link: where a symbolic link leads.
    """

    path: str
    blob: str = ""
    is_executable: bool = False
    link: str = ""


@dataclass(frozen=True)
class BundledTest:
    """One test file with what it needs, as its target says.

    :param report: the name of its JUnit report, without `.xml`.
    :param path: the test file's, in its sandbox.
    :param timeout_s: in seconds; None for none.
    :param env: variables with their values.
    :param env_entries: `NAME=value`, or `NAME` for the value that it has where the bundle is run.
    :param source_roots: folders of the sandbox to import from, before the environment's packages.
    :param packages: further ones, behind those.
    :param tree: the sandbox's own files, by the name of a tree.
    :param mounts: trees that the sandbox has links to, by the place of the link.
    """

    address: str
    report: str
    path: str
    hardware: str
    tree: str
    arch: str | None = None
    devices: int | None = None
    exclusive_device: bool = False
    timeout_s: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    env_entries: tuple[str, ...] = ()
    pytest_args: tuple[str, ...] = ()
    workers: int = 0
    isolated: bool = False
    source_roots: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    mounts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HardwareSettings:
    """The options of `[hardware]`, of the workspace that the bundle was made in."""

    tool_search_path: tuple[str, ...] = ("<PATH>",)
    tool_timeout_s: int = 20
    torch_pythons: tuple[str, ...] = ("python3",)
    tests_per_device: int = 1


@dataclass(frozen=True)
class Manifest:
    """All of a bundle but the bytes of its files.

    :param pexes: names of files in `PEXES`: pytest, then what the tests import.
    :param provided: packages that are not in it: the machine has them.
    :param path: folders of programs for the tests; `<PATH>` stands for those of the machine.
    :param env_entries: of every test, as in `BundledTest`.
    :param pytest_args: of every test, behind those of its target.
    :param slot_variable: the variable that tells a test which of the parallel ones it is; "" for none.
    """

    address: str
    tests: tuple[BundledTest, ...]
    trees: Mapping[str, tuple[TreeEntry, ...]]
    pexes: tuple[str, ...]
    provided: tuple[str, ...] = ()
    path: tuple[str, ...] = ("<PATH>",)
    env_entries: tuple[str, ...] = ()
    pytest_args: tuple[str, ...] = ()
    slot_variable: str = ""
    hardware: HardwareSettings = HardwareSettings()

    @property
    def blobs(self) -> frozenset[str]:
        """The sha256 of all files."""
        return frozenset(
            entry.blob for entries in self.trees.values() for entry in entries if entry.blob
        )

    def to_json(self) -> str:
        """One line of UTF-8 that is the same for equal manifests."""
        data = {
            "version": VERSION,
            **vars(self),
            "tests": [vars(test) for test in self.tests],
            "hardware": vars(self.hardware),
            # By far the most of it.
            "trees": {
                name: [[e.path, e.blob, int(e.is_executable), e.link] for e in entries]
                for name, entries in self.trees.items()
            },
        }
        return json.dumps(data, default=dict, sort_keys=True, separators=(",", ":")) + "\n"


def manifest_from_json(text: str) -> Manifest:
    """The inverse of `Manifest.to_json`. Raises ManifestError on anything else."""
    try:
        data: dict[str, Any] = json.loads(text)
        version = data.pop("version")
        if version != VERSION:
            raise ManifestError(f"it has the version {version}, this program reads {VERSION}")
        tests = tuple(BundledTest(**_with_tuples(test)) for test in data.pop("tests"))
        trees = {
            name: tuple(
                TreeEntry(path, blob, bool(is_executable), link)
                for path, blob, is_executable, link in entries
            )
            for name, entries in data.pop("trees").items()
        }
        hardware = HardwareSettings(**_with_tuples(data.pop("hardware")))
        return Manifest(tests=tests, trees=trees, hardware=hardware, **_with_tuples(data))
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise ManifestError(f"{type(e).__name__}: {e}") from e


def _with_tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
