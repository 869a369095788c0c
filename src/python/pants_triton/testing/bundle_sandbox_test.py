from __future__ import annotations

import hashlib
import os
from pathlib import Path

from pants_triton.testing.bundle_manifest import BundledTest, Manifest, TreeEntry
from pants_triton.testing.bundle_sandbox import (
    blob_path,
    remove,
    write_sandbox,
    write_shared_trees,
    write_tree,
)


def blob(bundle: Path, content: bytes) -> str:
    name = hashlib.sha256(content).hexdigest()
    path = bundle / blob_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return name


def test_a_tree(tmp_path: Path) -> None:
    tool = blob(tmp_path, b"#!/bin/sh\n")
    entries = (
        TreeEntry("bin/tool", tool, is_executable=True),
        TreeEntry("bin/text", tool),
        TreeEntry("lib/link", link="../bin/tool"),
        TreeEntry("empty/folder"),
    )
    write_tree(entries, tmp_path, tmp_path / "tree")
    assert (tmp_path / "tree/bin/tool").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "tree/bin/text").stat().st_mode & 0o777 == 0o644
    assert os.readlink(tmp_path / "tree/lib/link") == "../bin/tool"
    assert (tmp_path / "tree/empty/folder").is_dir()
    # What a test does to a file is not done to the bundle.
    (tmp_path / "tree/bin/text").write_text("other")
    assert (tmp_path / blob_path(tool)).read_bytes() == b"#!/bin/sh\n"


def test_a_sandbox(tmp_path: Path) -> None:
    content = blob(tmp_path, b"x")
    test = BundledTest("t/a", "t.a", "t/a", "cpu", "own", mounts={"3rdparty/llvm": "llvm"})
    trees = {"own": (TreeEntry("t/a", content),), "llvm": (TreeEntry("bin/opt", content),)}
    manifest = Manifest("t:b", (test,), trees, ())
    shared = write_shared_trees(manifest, [test], tmp_path, tmp_path / "trees")
    write_sandbox(manifest, test, tmp_path, shared, [".home"], tmp_path / "s")
    assert sorted(p.name for p in (tmp_path / "s").iterdir()) == [".home", "3rdparty", "t"]
    assert (tmp_path / "s/3rdparty/llvm").resolve() == tmp_path / "trees/llvm"
    remove(tmp_path / "s")
    assert (tmp_path / "trees/llvm/bin/opt").exists()


def test_what_a_test_made_unwritable_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "s/locked"
    folder.mkdir(parents=True)
    (folder / "file").touch()
    folder.chmod(0o500)
    remove(tmp_path / "s")
    assert not (tmp_path / "s").exists()
