from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from pants_triton.artifact.download import Wanted, fetch
from pants_triton.artifact.errors import EXIT_THIS_HOST, FetchError
from pants_triton.artifact.mirror import add_to_mirror
from pants_triton.artifact.settings import Settings

DATA = b"some archive"
SHA256 = hashlib.sha256(DATA).hexdigest()


def quiet(line: str) -> None:
    pass


def publish(tmp_path: Path) -> list[str]:
    """Add the file to the mirror; returns what is told."""
    source = tmp_path / "llvm.tar.gz"
    source.write_bytes(DATA)
    wanted = Wanted(source.name, SHA256, len(DATA), (source.as_uri(),))
    told: list[str] = []
    with fetch(wanted, Settings(), tmp_path / "cache", quiet) as file:
        add_to_mirror(file, wanted, tmp_path / "cache", tmp_path / "some/mirror", told.append)
    return told


def files(tmp_path: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (tmp_path / "some/mirror").iterdir()}


def test_a_file_takes_no_room_twice(tmp_path: Path) -> None:
    assert publish(tmp_path) == []
    assert files(tmp_path) == {SHA256: DATA}
    mirrored = tmp_path / "some/mirror" / SHA256
    assert mirrored.samefile(tmp_path / "cache/downloads" / SHA256)
    # And is left alone if it is good.
    assert publish(tmp_path) == []
    assert files(tmp_path) == {SHA256: DATA}


def test_a_mirror_on_another_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    assert publish(tmp_path) == []
    assert files(tmp_path) == {SHA256: DATA}
    mirrored = tmp_path / "some/mirror" / SHA256
    assert mirrored.stat().st_nlink == 1 and mirrored.stat().st_mode & 0o777 == 0o444


def test_other_bytes_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "some/mirror").mkdir(parents=True)
    (tmp_path / "some/mirror" / SHA256).write_bytes(b"other")
    told = publish(tmp_path)
    assert len(told) == 1 and SHA256 in told[0] and "other bytes than llvm.tar.gz" in told[0]
    assert files(tmp_path) == {SHA256: DATA}


def test_what_others_made_of_the_cache_meanwhile_is_not_mirrored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link_another(path: Path, link: Path) -> None:
        Path(link).write_bytes(b"other")

    monkeypatch.setattr(os, "link", link_another)
    publish(tmp_path)
    assert files(tmp_path) == {SHA256: DATA}


@pytest.mark.parametrize("place", ["some", f"some/mirror/{SHA256}/folder"])
def test_a_mirror_that_can_not_be_written(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).touch()
    with pytest.raises(
        FetchError, match="llvm.tar.gz: can't write the mirror .*/some/mirror: "
    ) as e:
        publish(tmp_path)
    assert e.value.exit_code == EXIT_THIS_HOST
