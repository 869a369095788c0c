"""What this program says to people: errors that are one line with the way out, URLs without their
secrets, sizes."""

from __future__ import annotations

import contextlib
import errno
import shutil
import sys
from pathlib import Path
from typing import Callable
from urllib.parse import unquote, urlsplit, urlunsplit

# Exit codes of the program, by what its user can do about it.
EXIT_UNREACHABLE = 3
EXIT_WRONG_BYTES = 4
EXIT_UNUSABLE = 5
EXIT_THIS_HOST = 6
EXIT_UNKNOWN = 7

#: Stands for the target's address where whoever raises doesn't know it: equal entries of the lock are
#: one process, whatever target they are for. See `addressed`.
TARGET = "<target>"

# Not without `--refresh`: what the lock says is what pin and BUILD file want already.
LOCK_HINT = f"run `./pants lock-artifacts --refresh {TARGET}` and read the diff"
MIRROR_HINT = "name a mirror that has it in `[artifact].mirrors`"

#: Begins a reported line that people should see though all went well.
WARNING = "warning: "

#: Takes a line that tells how it goes.
Report = Callable[[str], None]


class FetchError(Exception):
    """An artifact can't be had. The text is one line that names the file, what happened at which
    location, and the way out; it holds no credentials.

    :param exit_code: one of the EXIT_… constants.
    :param missing: every location answered, and said that it doesn't have the file.
    :param reason: the text without the way out, for who knows another; by default the text.
    """

    def __init__(
        self, text: str, exit_code: int, *, missing: bool = False, reason: str = ""
    ) -> None:
        super().__init__(text)
        self.exit_code = exit_code
        self.missing = missing
        self.reason = reason or text


def addressed(text: str, address: str) -> str:
    """An error of this program, with the target that it is about."""
    return text.replace(TARGET, address)


def local_error(what: str, place: Path, e: OSError) -> FetchError:
    """The FetchError for a file system that doesn't do what it should. `what` was being done."""
    if e.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        free = ""
        with contextlib.suppress(OSError):
            free = f" ({shown_size(shutil.disk_usage(place).free)} free)"
        reason = "the disk is full" if e.errno == errno.ENOSPC else os_reason(e).lower()
        hint = f"Make room{free}, and try again: what was downloaded is kept and resumed"
        return FetchError(f"{what}: {reason}. {hint}.", EXIT_THIS_HOST)
    return FetchError(
        f"{what}: {e.strerror or type(e).__name__}"
        f"{f' ({e.filename})' if e.filename else ''}. Correct that, and try again.",
        EXIT_THIS_HOST,
    )


def os_reason(e: Exception) -> str:
    """What the system says of `e`, without file names."""
    return str(getattr(e, "strerror", "") or type(e).__name__)


def report_to_stderr(line: str) -> None:
    print(f"pants-triton: {line}", file=sys.stderr, flush=True)


def name_in(url: str) -> str:
    """The file name that a URL ends in, without its escapes."""
    return unquote(urlsplit(url).path).rstrip("/").rpartition("/")[2]


def shown_url(url: str) -> str:
    """`url` as it may be printed: without user, password, query and fragment, any of which can be
    secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "a malformed URL"
    netloc = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, netloc, parts.path, "", "")) or "an empty URL"


def shown_tries(count: int) -> str:
    """`1 try`, `5 tries`."""
    return "1 try" if count == 1 else f"{count} tries"


def shown_size(size: int) -> str:
    """`273.1 MB` (decimal), for people."""
    if size < 1000:
        return f"{size} bytes"
    value, unit = size / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if value >= 999.95:
            value, unit = value / 1000, larger
    return f"{value:.1f} {unit}"
