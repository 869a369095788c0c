from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Callable

import pytest

from pants_triton.artifact import local_tree
from pants_triton.artifact.errors import EXIT_THIS_HOST, FetchError
from pants_triton.artifact.local_tree import copy, stamp
from pants_triton.artifact.unpack import TIME, Limits

LIMITS = Limits(max_bytes=1_000_000, max_members=100, max_ratio=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An installed LLVM, or what is left of it."""
    folder = tmp_path / "llvm"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/opt").write_bytes(b"program")
    (folder / "bin/opt").chmod(0o700)
    (folder / "lib").mkdir()
    (folder / "lib/libLLVM.so.19").write_bytes(b"library")
    (folder / "lib/libLLVM.so.19").chmod(0o660)
    (folder / "lib/libLLVM.so").symlink_to("libLLVM.so.19")
    return folder


def copied(path: Path, expected: str = "", limits: Limits = LIMITS) -> dict[str, str]:
    """What is in a copy: `x` for a program, `-` for a file, its content; `->`, a link's target."""
    output = path.parent / "out"
    copy(path, output, limits, expected, lambda line: None)
    found: dict[str, str] = {}
    for item in sorted(output.rglob("*")):
        name = str(item.relative_to(output))
        if item.is_symlink():
            found[name] = f"-> {os.readlink(item)}"
        elif item.is_file():
            assert item.stat().st_nlink == 1
            kind = {0o755: "x", 0o644: "-"}[item.stat().st_mode & 0o777]
            found[name] = f"{kind} {item.read_text()}"
        assert item.lstat().st_mtime == TIME
    return found


def failure(path: Path, expected: str = "", limits: Limits = LIMITS) -> str:
    with pytest.raises(FetchError) as e:
        copied(path, expected, limits)
    assert e.value.exit_code == EXIT_THIS_HOST
    assert str(path) in str(e.value) and "`[artifact].local_trees`" in str(e.value)
    assert "\n" not in str(e.value)
    assert not any(item.name.startswith((".out", "out.")) for item in path.parent.iterdir())
    assert not (path.parent / "out").exists()
    return str(e.value)


PLAIN = {
    "bin/opt": "x program",
    "lib/libLLVM.so": "-> libLLVM.so.19",
    "lib/libLLVM.so.19": "- library",
}


def test_a_copy(folder: Path) -> None:
    assert copied(folder, stamp(folder, LIMITS).stamp) == PLAIN


def test_a_folder_by_way_of_a_link(folder: Path) -> None:
    (folder.parent / "current").symlink_to("llvm")
    assert stamp(folder.parent / "current", LIMITS) == stamp(folder, LIMITS)
    assert copied(folder.parent / "current") == PLAIN


@pytest.mark.parametrize(
    "link, target, expected",
    [
        pytest.param("bin/a", "../lib", "-> ../lib", id="folder"),
        pytest.param("bin/a", "../lib/libLLVM.so", "-> ../lib/libLLVM.so", id="another link"),
        pytest.param("bin/a", "{llvm}/lib/libLLVM.so", "-> ../lib/libLLVM.so", id="absolute"),
        pytest.param("a", "{llvm}", "-> .", id="root"),
        pytest.param("a", "bin/..", "-> .", id="root, in other words"),
        pytest.param("a", "../llvm/bin/opt", "-> bin/opt", id="out and in again"),
        pytest.param("a", "../file", "- outside", id="file outside"),
        pytest.param("a", "../chain", "- outside", id="link outside"),
        pytest.param("a", "../back", "-> bin/opt", id="link outside that leads in again"),
    ],
)
def test_links(folder: Path, link: str, target: str, expected: str) -> None:
    (folder.parent / "file").write_text("outside")
    (folder.parent / "chain").symlink_to("file")
    (folder.parent / "back").symlink_to("llvm/bin/opt")
    (folder / link).symlink_to(target.format(llvm=folder))
    found = copied(folder)
    assert found.pop(link) == expected
    assert found == PLAIN


def test_a_folder_outside_is_copied_with_its_own_links(folder: Path) -> None:
    outside = folder.parent / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "sub/libz.so.1").write_text("z")
    (outside / "libz.so").symlink_to("sub/libz.so.1")
    (outside / "opt").symlink_to(folder / "bin/opt")
    (folder / "deps").symlink_to("../outside")
    (folder / "lib/libz.so").symlink_to("../deps/libz.so")
    assert copied(folder) == {
        **PLAIN,
        "deps/libz.so": "-> sub/libz.so.1",
        "deps/opt": "-> ../bin/opt",
        "deps/sub/libz.so.1": "- z",
        # By way of what isn't a link in the copy any more: its content.
        "lib/libz.so": "- z",
    }


def test_links_to_nothing_are_left_out_and_told_of(folder: Path) -> None:
    (folder / "gone").symlink_to("nothing")
    (folder / "round").symlink_to("round")
    (folder / "under").symlink_to("bin/opt/x")
    told: list[str] = []
    copy(folder, folder.parent / "out", LIMITS, "", told.append)
    assert sorted(os.listdir(folder.parent / "out")) == ["bin", "lib"]
    assert told == [
        f"left out a link to nothing: {folder}/gone -> nothing",
        f"left out a link to nothing: {folder}/round -> round",
        f"left out a link to nothing: {folder}/under -> bin/opt/x",
    ]


def test_a_circle_of_folders(folder: Path) -> None:
    (folder / "lib/up").symlink_to("../..")
    assert "has a link that leads in a circle: lib/up/llvm" in failure(folder)
    (folder / "lib/up").unlink()
    (folder.parent / "a").mkdir()
    (folder.parent / "b").mkdir()
    (folder.parent / "a/b").symlink_to("../b")
    (folder.parent / "b/a").symlink_to("../a")
    (folder / "a").symlink_to("../a")
    # This one can be kept.
    assert copied(folder) == {**PLAIN, "a/b/a": "-> .."}


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as s:
        # Not by its whole name, which may be longer than such a name may be.
        before = os.getcwd()
        os.chdir(path.parent)
        try:
            s.bind(path.name)
        finally:
            os.chdir(before)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [a_pipe, a_socket, a_device])
def test_what_is_no_file(folder: Path, make: Callable[[Path], None]) -> None:
    make(folder / "bin/x")
    place = "/dev/zero" if make is a_device else f"{folder}/bin/x"
    assert f"a device, socket or pipe in it: {place}." in failure(folder)


def test_a_folder_that_is_none(folder: Path) -> None:
    assert "can't be read: No such file or directory." in failure(folder / "gone")
    assert "is no folder" in failure(folder / "bin/opt")
    (folder / "empty/sub").mkdir(parents=True)
    assert "has no file in it" in failure(folder / "empty")
    with pytest.raises(FetchError, match="No such file or directory"):
        stamp(folder / "gone", LIMITS)


def test_a_name_that_is_no_text(folder: Path) -> None:
    try:
        open(os.fsencode(folder) + b"/\xff", "w").close()
    except OSError:
        pytest.skip("this file system has no such names")
    assert "isn't UTF-8: " in failure(folder)


def test_what_can_not_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(local_tree.os, "listdir", refuse)
    assert "can't be read: Permission denied" in failure(folder)


def test_bounds(folder: Path) -> None:
    (folder / "big").write_bytes(bytes(2000))
    told = failure(folder, limits=Limits(max_bytes=2000, max_members=100, max_ratio=1))
    assert "has more than 2.0 kB, which `[artifact].max_tree_size` allows" in told
    told = failure(folder, limits=Limits(max_bytes=10_000, max_members=3, max_ratio=1))
    assert "has more than 3 files, folders and links" in told


# -- stamps ---------------------------------------------------------------------------------------


def rewrite(folder: Path) -> None:
    (folder / "bin/opt").write_bytes(b"changed")


def rewrite_in_the_same_moment(folder: Path) -> None:
    file = folder / "bin/opt"
    before = file.stat()
    file.write_bytes(b"changed")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(folder: Path) -> None:
    before = (folder / "bin/opt").stat()
    (folder / "bin/new").write_bytes(b"changed")
    os.utime(folder / "bin/new", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(folder / "bin/new", folder / "bin/opt")


def relink(folder: Path) -> None:
    (folder / "lib/libLLVM.so").unlink()
    (folder / "lib/libLLVM.so").symlink_to("../bin/opt")


def change_outside(folder: Path) -> None:
    (folder.parent / "outside").write_text("other")


CHANGES = [
    pytest.param(rewrite, id="content"),
    pytest.param(rewrite_in_the_same_moment, id="content, times set back"),
    pytest.param(replace, id="another file"),
    pytest.param(lambda folder: (folder / "bin/opt").chmod(0o600), id="permissions"),
    pytest.param(lambda folder: (folder / "bin/llc").touch(), id="one more"),
    pytest.param(lambda folder: (folder / "bin/opt").unlink(), id="one less"),
    pytest.param(lambda folder: (folder / "bin").rename(folder / "sbin"), id="name"),
    pytest.param(relink, id="link"),
    pytest.param(change_outside, id="what a link leads to"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_stamp_tells_every_change(folder: Path, change: Callable[[Path], object]) -> None:
    (folder.parent / "outside").write_text("x")
    (folder / "link").symlink_to("../outside")
    before = stamp(folder, LIMITS)
    assert (before.files, before.bytes) == (3, 15)
    (folder / "bin/opt").read_bytes()
    assert stamp(folder, LIMITS) == before
    # File systems have clocks that are this coarse.
    time.sleep(0.02)
    change(folder)
    assert stamp(folder, LIMITS).stamp != before.stamp
    assert "changed while it was read; try again" in failure(folder, before.stamp)


def test_a_change_while_it_is_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = local_tree._copy_file

    def copy_and_change(path: Path, entry: local_tree._Entry, target: Path) -> None:
        original(path, entry, target)
        (folder / "lib/new").touch()

    monkeypatch.setattr(local_tree, "_copy_file", copy_and_change)
    assert "changed while it was read; try again" in failure(folder, stamp(folder, LIMITS).stamp)


@pytest.mark.parametrize("change", [replace, lambda folder: os.truncate(folder / "bin/opt", 3)])
def test_a_change_between_the_look_and_the_copy(
    folder: Path, change: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = local_tree._copy_file

    def change_and_copy(path: Path, entry: local_tree._Entry, target: Path) -> None:
        change(folder)
        original(path, entry, target)

    monkeypatch.setattr(local_tree, "_copy_file", change_and_copy)
    assert "changed while it was read; try again" in failure(folder)
