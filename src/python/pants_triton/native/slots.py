"""The program that runs an edge when there is room for it: links that need gigabytes, and edges of
one of ninja's pools.

    slots --cache=DIR --edge=KEY -- COMMAND…

How many may run is what the Pants process leaves in a file named by its pid and the edge
(`leave_bounds`): in the arguments it would be part of the edge's key, so that a machine with more
memory had no hit of one with less. Processes of all Pants runs of a user share a folder of lock
files, one a slot. The command inherits the lock, so that the kernel frees the slot however the
command ends, and not before its last child has. Where the file isn't, as on a remote worker, nothing
is bounded.

A slot is taken when all that the edge needs has been made, so no holder waits for another's work;
and where an edge needs several, all edges take them in the same order.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import List, Sequence, Tuple

#: The modules of this program.
PROGRAM_MODULES = ("slots",)

#: Of this much memory there is one link, where nobody says how many: about what lld takes to link
#: Triton and all of LLVM into one library with debug information.
BYTES_A_LINK = 4 * 1024**3

#: The folder can't be used. 74 is EX_IOERR of sysexits.h.
EXIT_NO_SLOT = 74

#: What a kind of edges is called, and how many of it may run.
Bound = Tuple[str, int]

_FOLDER = "slots"
_POLL_S = 0.1

# Limits of a container, of cgroups' two versions: a number, or a word for none.
_CGROUP_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def main(argv: Sequence[str]) -> int:
    """Run the program: the command in the place of this process. Returns only if it can't."""
    parser = argparse.ArgumentParser(prog="slots")
    parser.add_argument("--cache", required=True, help="the folder that all runs share")
    parser.add_argument("--edge", required=True, help="the key that its bounds were left with")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args(list(argv))
    # Pants links it into the sandbox.
    cache = Path(os.path.realpath(args.cache))
    try:
        for name, count in read_bounds(cache, os.getppid(), args.edge):
            take(cache / _FOLDER / name, count)
    except OSError as e:
        sys.stderr.write(
            f"pants-triton: how many links run at once can't be bounded: {e.filename or cache}: "
            f"{e.strerror}. Correct that, or name another folder in `[GLOBAL].named_caches_dir`.\n"
        )
        return EXIT_NO_SLOT
    os.execvp(args.command[0], args.command)


def take(folder: Path, count: int) -> int:
    """Wait for one of the `count` slots of a folder, and keep it for as long as this process lives,
    and what it becomes or starts. Returns the file descriptor that holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        for number in range(count):
            descriptor = os.open(folder / f"{number}.lock", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as e:
                os.close(descriptor)
                if e.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
            else:
                os.set_inheritable(descriptor, True)
                return descriptor
        time.sleep(_POLL_S)


# --- how many ----------------------------------------------------------------------------------


def links_in(size: int) -> int:
    """How many links run at once in `size` bytes of memory."""
    return max(1, size // BYTES_A_LINK)


def memory(cgroup_limits: Sequence[str] = _CGROUP_LIMITS) -> int:
    """The memory that this machine or container has, in bytes."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in cgroup_limits:
        with contextlib.suppress(OSError, ValueError):
            found.append(int(Path(path).read_text()))
    return min(found)


def bounds_path(cache: Path, pid: int, edge: str) -> Path:
    """Where the bounds of an edge are written, a child of process `pid`."""
    return cache / _FOLDER / f"bounds-{pid}" / f"{edge}.json"


def read_bounds(cache: Path, pid: int, edge: str) -> List[Bound]:
    """What `leave_bounds` wrote; nothing if it didn't."""
    try:
        text = bounds_path(cache, pid, edge).read_text()
    except FileNotFoundError:
        return []
    return [(name, count) for name, count in json.loads(text)]


def leave_bounds(cache: Path, pid: int, edge: str, bounds: Sequence[Bound]) -> None:
    """Write down what bounds an edge that process `pid` may start. Cheap where it is there already.

    :param edge: its key, a file's name.
    :param bounds: in the order in which the edge takes its slots.

    Raises OSError.
    """
    path = bounds_path(cache, pid, edge)
    text = json.dumps(list(bounds))
    with contextlib.suppress(FileNotFoundError):
        if path.read_text() == text:
            return
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_those_of_the_dead(path.parent.parent)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with open(descriptor, "w") as file:
        file.write(text)
    os.replace(temporary, path)


def _remove_those_of_the_dead(folder: Path) -> None:
    for path in folder.iterdir():
        found = re.fullmatch(r"bounds-([0-9]+)", path.name)
        if found is None:
            continue
        try:
            os.kill(int(found.group(1)), 0)
        except ProcessLookupError:
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            # It is somebody else's.
            pass
