from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pants_triton.artifact.errors import (
    EXIT_THIS_HOST,
    LOCK_HINT,
    addressed,
    local_error,
    name_in,
    shown_size,
    shown_tries,
    shown_url,
)


def test_shown_url() -> None:
    assert shown_url("https://u:p@h.example:1/a/b?q=1#f") == "https://h.example:1/a/b"
    assert shown_url("https://[x") == "a malformed URL"
    assert name_in("https://h.example/a/b%2B1.tar.gz?q=/c") == "b+1.tar.gz"


def test_the_way_out_names_the_target() -> None:
    hint = "run `./pants lock-artifacts --refresh 3rdparty:llvm` and read the diff"
    assert addressed(LOCK_HINT, "3rdparty:llvm") == hint


def test_shown_tries() -> None:
    assert (shown_tries(1), shown_tries(2)) == ("1 try", "2 tries")


@pytest.mark.parametrize(
    "size, shown",
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (273_100_000, "273.1 MB"),
        (2**70, "1180591620.7 TB"),
    ],
)
def test_shown_size(size: int, shown: str) -> None:
    assert shown_size(size) == shown


@pytest.mark.parametrize(
    "e, told",
    [
        pytest.param(OSError(errno.ENOSPC, "No space"), "the disk is full. Make room (", id="full"),
        pytest.param(OSError(errno.EDQUOT, "Quota"), "quota. Make room (", id="quota"),
        pytest.param(OSError(errno.EROFS, "Read-only", "x"), "Read-only (x). Correct", id="other"),
    ],
)
def test_what_a_file_system_refuses(e: OSError, told: str, tmp_path: Path) -> None:
    error = local_error("can't write it", tmp_path, e)
    assert str(error).startswith("can't write it: ") and told in str(error)
    assert error.exit_code == EXIT_THIS_HOST
