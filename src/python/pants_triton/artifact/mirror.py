"""A folder of verified files by their sha256, which is a `file:` mirror for others."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from pathlib import Path
from typing import BinaryIO

from pants_triton.artifact.download import Wanted, downloads, open_verified
from pants_triton.artifact.errors import Report, local_error, report_to_stderr


def add_to_mirror(
    file: BinaryIO, wanted: Wanted, cache: Path, mirror: Path, report: Report = report_to_stderr
) -> None:
    """Have `<mirror>/<sha256>`: a hard link to the cache's file if that can be, else a copy.

    :param file: the verified file, open at its start, as from `download.fetch`.

    A file that is there and good is left alone; nobody ever sees half of one. Raises FetchError.
    """
    target = mirror / wanted.sha256
    temporary = mirror / f".{wanted.sha256}.{secrets.token_hex(8)}"
    try:
        mirror.mkdir(parents=True, exist_ok=True)
        there = open_verified(wanted, target)
        if there is not None:
            there.close()
            return
        if os.path.lexists(target):
            report(f"{target} has other bytes than {wanted.name}: replacing it")
        try:
            if not _link(file, downloads(cache) / wanted.sha256, temporary):
                _copy(file, temporary)
            os.replace(temporary, target)
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
    except OSError as e:
        raise local_error(f"{wanted.name}: can't write the mirror {mirror}", mirror, e) from None


def _link(file: BinaryIO, path: Path, link: Path) -> bool:
    try:
        os.link(path, link)
    except OSError:
        # Another file system, or one without hard links.
        return False
    if os.path.samestat(os.fstat(file.fileno()), os.lstat(link)):
        return True
    # It isn't the file that was verified any more.
    link.unlink()
    return False


def _copy(file: BinaryIO, path: Path) -> None:
    with open(path, "xb") as copy:
        shutil.copyfileobj(file, copy, 1 << 20)
        os.fchmod(copy.fileno(), 0o444)
