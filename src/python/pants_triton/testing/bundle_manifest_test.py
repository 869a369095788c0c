from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType

import pytest

from pants_triton.testing.bundle_manifest import (
    BundledTest,
    HardwareSettings,
    Manifest,
    ManifestError,
    TreeEntry,
    manifest_from_json,
)

A = "a" * 64
B = "b" * 64

MANIFEST = Manifest(
    address="t:bundle",
    tests=(
        BundledTest(
            address="t/a_test.py:device@hardware=cuda",
            report="t.a_test.py.device@@hardware=cuda",
            path="t/a_test.py",
            hardware="cuda",
            tree="0",
            arch=">=sm_80",
            devices=2,
            exclusive_device=True,
            timeout_s=60,
            env={"A": "1"},
            env_entries=("B=2", "HOME"),
            pytest_args=("-m", "x"),
            workers=8,
            isolated=True,
            source_roots=("t",),
            packages=("python/triton",),
            mounts={"llvm": "1"},
        ),
        BundledTest(
            address="t/b_test.py", report="t.b", path="t/b_test.py", hardware="cpu", tree="0"
        ),
    ),
    trees={
        "0": (
            TreeEntry("t/a_test.py", blob=A),
            TreeEntry("t/link", link="a_test.py"),
            TreeEntry("t/empty"),
        ),
        "1": (TreeEntry("bin/opt", blob=B, is_executable=True),),
    },
    pexes=("pytest.pex", "requirements.pex"),
    provided=("torch",),
    path=("/usr/bin", "<PATH>"),
    env_entries=("LANG=C.UTF-8",),
    pytest_args=("--strict-markers",),
    slot_variable="SLOT",
    hardware=HardwareSettings(("<PATH>", "/opt/rocm/bin"), 10, ("python3",), 2),
)


def test_json_and_back() -> None:
    assert manifest_from_json(MANIFEST.to_json()) == MANIFEST


def test_any_mapping_will_do() -> None:
    # Such as Pants' own, of which results of rules are made.
    test = replace(MANIFEST.tests[0], env=MappingProxyType({"A": "1"}))
    manifest = replace(MANIFEST, tests=(test, *MANIFEST.tests[1:]))
    assert manifest.to_json() == MANIFEST.to_json()


def test_equal_manifests_are_equal_bytes() -> None:
    assert MANIFEST.to_json() == manifest_from_json(MANIFEST.to_json()).to_json()


def test_blobs_are_those_of_files() -> None:
    assert MANIFEST.blobs == {A, B}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("[]", id="no object"),
        pytest.param("{}", id="no version"),
        pytest.param(json.dumps({"version": 2}), id="another version"),
        pytest.param(
            json.dumps({**json.loads(MANIFEST.to_json()), "unknown": 1}), id="unknown field"
        ),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ManifestError):
        manifest_from_json(text)
