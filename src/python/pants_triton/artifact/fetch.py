"""The program that fetches artifacts outside Pants: one lock entry, one process, one tree.

    fetch --entry=FILE --output=DIR --cache=DIR --platform=linux_x86_64 --address=3rdparty:llvm
    download --entry=FILE --cache=DIR [--mirror=DIR]
    status --entry=FILE --cache=DIR
    listing --of=FILE --output=DIR --cache=DIR --platform=linux_x86_64

and, for who makes the lock, what is there to be locked, as JSON:

    digest --url=URL [--url=URL…] --cache=DIR
    wheels --name=NAME --version=VERSION --cache=DIR
    debian --suite=bookworm --arch=amd64 --cache=DIR PACKAGE…

a folder of this host in the place of an artifact, and what Pants leaves behind:

    stamp --path=DIR --cache=DIR
    copy --path=DIR --output=DIR --cache=DIR [--stamp=HEX]
    register --cache=DIR

It runs with whatever Python 3.8 or newer the host has, and imports nothing but its siblings. The
tree depends on the entry alone; where and how its bytes were had is in the cache folder's settings.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any, Iterator, Sequence

from pants_triton.artifact import debian, leftovers, local_tree, wheel_index
from pants_triton.artifact.download import Wanted, cached, downloads, fetch, fetch_unknown
from pants_triton.artifact.errors import (
    EXIT_UNKNOWN,
    EXIT_UNUSABLE,
    EXIT_WRONG_BYTES,
    FetchError,
    addressed,
    name_in,
    os_reason,
    shown_url,
)
from pants_triton.artifact.libraries import link_libraries
from pants_triton.artifact.listing import LISTING, listing_path
from pants_triton.artifact.lock import (
    DebianEntry,
    Entry,
    LockError,
    UrlEntry,
    WheelEntry,
    parse_entry,
)
from pants_triton.artifact.machine_code import mismatch
from pants_triton.artifact.mirror import add_to_mirror
from pants_triton.artifact.settings import Settings, apply_environment, load_settings
from pants_triton.artifact.unpack import Limits, Tree, no_archive, staged

#: All modules of `pants_triton.artifact` that this program consists of.
PROGRAM_MODULES: tuple[str, ...] = (
    "connection",
    "credentials",
    "debian",
    "download",
    "errors",
    "fetch",
    "leftovers",
    "libraries",
    "listing",
    "local_tree",
    "lock",
    "machine_code",
    "mirror",
    "settings",
    "unpack",
    "wheel_index",
)


def main(argv: Sequence[str]) -> int:
    """Run the program; returns the exit code: 0, 2 for wrong arguments, or an EXIT_… of `download`
    after one line on stderr."""
    args = _parser().parse_args(list(argv))
    # So that what is half done gets removed.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        settings = load_settings(args.cache)
        apply_environment(settings)
        answer = args.run(args, settings)
        if answer is not None:
            print(json.dumps(answer))
        return 0
    except FetchError as e:
        address = getattr(args, "address", "")
        text = f"{address}: {addressed(str(e), address)}" if address else str(e)
        print(f"pants-triton: {text}", file=sys.stderr)
        return e.exit_code


def fetch_tree(entry: Entry, output: Path, platform: str, settings: Settings, cache: Path) -> None:
    """Make `output`, which must not exist or be empty, the tree of `entry`: the same bytes
    everywhere, or nothing at all. Raises FetchError."""
    limits = Limits.of(settings)
    if isinstance(entry, DebianEntry):
        debian.fetch_packages(entry.packages, entry.suite, settings, cache)
        with staged(output) as root:
            tree = Tree(root, limits, subset=entry.subset, system=True)
            debian.unpack_packages(tree, entry.packages, settings, cache, root.parent)
            tree.finish()
            if not entry.subset:
                link_libraries(root)
            _check_machine(root, platform, f"{len(entry.packages)} packages of {entry.suite}")
        return
    wanted = wanted_file(entry, settings)
    with fetch(wanted, settings, cache) as file, _located(entry), staged(output) as root:
        tree = Tree(root, limits, strip=entry.strip, subset=entry.subset)
        tree.add_archive(file, wanted.name)
        tree.finish()
        _check_machine(root, platform, wanted.name)


@contextlib.contextmanager
def _located(entry: UrlEntry | WheelEntry) -> Iterator[None]:
    """Adds to errors where the archive is from: who unpacks it knows its name only."""
    try:
        yield
    except FetchError as e:
        if isinstance(entry, UrlEntry) and entry.location not in str(e):
            raise FetchError(f"{e} It is {shown_url(entry.location)}.", e.exit_code) from None
        raise


def wanted_file(entry: UrlEntry | WheelEntry, settings: Settings) -> Wanted:
    """The file that `entry` is unpacked from."""
    if isinstance(entry, UrlEntry):
        name = name_in(entry.location) or "download"
        return Wanted(name, entry.sha256, entry.size, (entry.location,))
    wheel = entry
    return Wanted(
        wheel.filename,
        wheel.sha256,
        wheel.size,
        find=lambda: wheel_index.locate(wheel.name, wheel.filename, wheel.sha256, settings),
    )


def wanted_files(entry: Entry, settings: Settings) -> tuple[Wanted, ...]:
    """All files that `entry` is unpacked from."""
    if isinstance(entry, DebianEntry):
        return tuple(debian.wanted_deb(package) for package in entry.packages)
    return (wanted_file(entry, settings),)


def _check_machine(root: Path, platform: str, name: str) -> None:
    wrong = mismatch(root, platform)
    if wrong is not None:
        raise FetchError(
            f"{name} is for the wrong machine: {wrong}. Its bytes are those that are locked, so the "
            f"lock has the wrong archive for {platform}: correct its pin or location, and run "
            "`./pants lock-artifacts`.",
            EXIT_UNUSABLE,
        )


# --- commands --------------------------------------------------------------------------------


def _tree(args: argparse.Namespace, settings: Settings) -> None:
    fetch_tree(_entry(args.entry), args.output, args.platform, settings, args.cache)


def _download(args: argparse.Namespace, settings: Settings) -> Any:
    entry = _entry(args.entry)
    new: set[str] = set()

    def downloaded(wanted: Wanted) -> None:
        new.add(wanted.sha256)

    if isinstance(entry, DebianEntry):
        debian.fetch_packages(
            entry.packages, entry.suite, settings, args.cache, downloaded=downloaded
        )
    told = []
    for wanted in wanted_files(entry, settings):
        with fetch(wanted, settings, args.cache, downloaded=downloaded) as file:
            size = os.fstat(file.fileno()).st_size
            if args.mirror is not None:
                add_to_mirror(file, wanted, args.cache, args.mirror)
        told.append(_told(wanted, size, wanted.sha256 not in new))
    return told


def _status(args: argparse.Namespace, settings: Settings) -> Any:
    return [
        _told(wanted, wanted.size, cached(wanted, args.cache))
        for wanted in wanted_files(_entry(args.entry), settings)
    ]


def _listing(args: argparse.Namespace, settings: Settings) -> None:
    # Who has the tree leaves its listing for the length of this process; this is how the listing gets
    # into the caches of others, under a key that they know without the tree.
    path = listing_path(args.cache, os.getppid(), args.of.read_text("ascii"), args.platform)
    try:
        args.output.mkdir(exist_ok=True)
        shutil.copyfile(path, args.output / LISTING)
    except OSError as e:
        raise FetchError(f"no listing is there: {os_reason(e)}.", EXIT_UNKNOWN) from None


def _told(wanted: Wanted, size: int | None, cached: bool) -> dict[str, Any]:
    return {"name": wanted.name, "sha256": wanted.sha256, "size": size, "cached": cached}


def _digest(args: argparse.Namespace, settings: Settings) -> Any:
    # The first that has it; that none has it is an answer too, but not that one can't be asked.
    missing = []
    for url in args.url:
        try:
            digested = fetch_unknown(url, settings, args.cache)
        except FetchError as e:
            if not e.missing:
                raise
            missing.append(e.reason)
            continue
        _check_archive(url, downloads(args.cache) / digested.sha256)
        return {"location": url, **dataclasses.asdict(digested)}
    return {"absent": "; ".join(missing)}


def _check_archive(url: str, path: Path) -> None:
    """A server may have a page for whoever is to log in, or for what isn't there any more."""
    name = name_in(url) or "download"
    with open(path, "rb") as file:
        problem = no_archive(file, name)
    if problem:
        raise FetchError(
            f"what {shown_url(url)} serves is not what it is named: {problem}. Look at it in a "
            "browser: it may have moved, or want a login. Correct the location, or give credentials "
            "by ~/.netrc or `[artifact].credentials`.",
            EXIT_WRONG_BYTES,
        )


def _wheels(args: argparse.Namespace, settings: Settings) -> Any:
    # Not where they are: that is this user's business, and may hold a password.
    return [
        {"filename": f.filename, "sha256": f.sha256, "size": f.size, "yanked": f.yanked}
        for f in wheel_index.list_wheels(args.name, args.version, settings)
    ]


def _debian(args: argparse.Namespace, settings: Settings) -> Any:
    found = debian.resolve(args.packages, args.suite, args.arch, settings, args.cache)
    return [dataclasses.asdict(package) for package in found]


def _stamp(args: argparse.Namespace, settings: Settings) -> Any:
    return dataclasses.asdict(local_tree.stamp(args.path, Limits.of(settings)))


def _copy(args: argparse.Namespace, settings: Settings) -> None:
    local_tree.copy(args.path, args.output, Limits.of(settings), args.stamp)


def _register(args: argparse.Namespace, settings: Settings) -> Any:
    return leftovers.register(args.cache, Path(__file__), os.getppid())


def _entry(path: Path) -> Entry:
    try:
        return parse_entry(path.read_text(encoding="ascii"))
    except (OSError, UnicodeError, LockError) as e:
        raise FetchError(f"{path} can't be used: {e}", EXIT_UNUSABLE) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="artifacts", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, run: Any, help: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help)
        added.set_defaults(run=run)
        added.add_argument("--cache", type=Path, required=True, help="append-only cache folder")
        return added

    tree = command("fetch", _tree, "fetch, verify and unpack one entry")
    tree.add_argument("--output", type=Path, required=True, help="the folder to make")
    tree.add_argument("--platform", default="any", help="that its programs must be for")
    download = command("download", _download, "have the files in the cache; what was is printed")
    download.add_argument("--mirror", type=Path, help="a folder to have them in too, by sha256")
    status = command("status", _status, "whether the files are in the cache")
    for added in (tree, download, status):
        added.add_argument("--entry", type=Path, required=True, help="file with the entry's JSON")
        added.add_argument("--address", default="", help="of the target, for messages")

    listing = command("listing", _listing, "what is in the tree of an entry, where that is known")
    listing.add_argument("--of", type=Path, required=True, help="file with the entry's JSON")
    listing.add_argument("--output", type=Path, required=True, help="the folder to make")
    listing.add_argument("--platform", required=True, help="that the tree's programs are for")

    digest = command("digest", _digest, "the sha256 and size of what a location has now")
    digest.add_argument("--url", required=True, action="append", help="tried in this order")

    wheels = command("wheels", _wheels, "the wheels that an index has of one version")
    wheels.add_argument("--name", required=True)
    wheels.add_argument("--version", required=True)

    resolve = command("debian", _debian, "packages of Debian with all that they depend on")
    resolve.add_argument("--suite", required=True)
    resolve.add_argument("--arch", required=True, help="Debian's name for it, such as amd64")
    resolve.add_argument("packages", nargs="+")

    stamp = command("stamp", _stamp, "the state of a local folder, without reading its files")
    copy = command("copy", _copy, "a tree from a local folder")
    copy.add_argument("--output", type=Path, required=True, help="the folder to make")
    copy.add_argument("--stamp", default="", help="that the folder must have")
    for added in (stamp, copy):
        added.add_argument("--path", type=Path, required=True, help="the local folder")
        added.add_argument("--address", default="", help="of the target, for messages")

    command("register", _register, "remove what ended Pants processes left, and this one's later")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
