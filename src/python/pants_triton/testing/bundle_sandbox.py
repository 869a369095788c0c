"""The folders that a bundle's tests run in."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Iterable, Mapping

from pants_triton.testing.bundle_manifest import BLOBS, BundledTest, Manifest, TreeEntry


def blob_path(blob: str) -> str:
    """Where the content with this sha256 is in a bundle. In many folders, because some file systems
    are slow with thousands of files in one."""
    return f"{BLOBS}/{blob[:2]}/{blob}"


def write_tree(entries: Iterable[TreeEntry], bundle: Path, folder: Path) -> None:
    """Make the tree in `folder`, which may exist. Files are copies, so that what a test does to them
    stays in its sandbox. Raises OSError."""
    for entry in entries:
        path = folder / entry.path
        if entry.link:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(entry.link)
        elif entry.blob:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(bundle / blob_path(entry.blob), path)
            path.chmod(0o755 if entry.is_executable else 0o644)
        else:
            path.mkdir(parents=True, exist_ok=True)


def write_shared_trees(
    manifest: Manifest, tests: Iterable[BundledTest], bundle: Path, folder: Path
) -> dict[str, Path]:
    """Make each tree once that several tests may have links to; by name, where it is."""
    names = sorted({tree for test in tests for tree in test.mounts.values()})
    for name in names:
        write_tree(manifest.trees[name], bundle, folder / name)
    return {name: folder / name for name in names}


def write_sandbox(
    manifest: Manifest,
    test: BundledTest,
    bundle: Path,
    shared: Mapping[str, Path],
    folders: Iterable[str],
    sandbox: Path,
) -> None:
    """Make a test's sandbox: its files, links to shared trees, and empty `folders`. Raises OSError."""
    sandbox.mkdir(parents=True)
    write_tree(manifest.trees[test.tree], bundle, sandbox)
    for place, name in test.mounts.items():
        link = sandbox / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(shared[name])
    for folder in folders:
        (sandbox / folder).mkdir(parents=True, exist_ok=True)


def remove(folder: Path) -> None:
    """Remove a folder, even if a test took away its own right to."""

    def make_writable_and_retry(function, path, _) -> None:
        parent = os.path.dirname(path)
        try:
            os.chmod(parent, 0o700)
            os.chmod(path, 0o700)
            function(path)
        except OSError:
            pass

    shutil.rmtree(folder, onerror=make_writable_and_retry)
