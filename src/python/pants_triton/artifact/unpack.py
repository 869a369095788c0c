"""Unpack archives that nobody needs to trust into trees that are the same everywhere.

Contents and symlinks are kept, permissions as executable or not, and times are set to one moment.
Whatever would touch something outside the tree, or isn't a file, folder or link, is an error, and
so is an archive far bigger than it looks; then there is no tree at all.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import lzma
import os
import re
import shutil
import stat
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, Callable, Iterable, Iterator, Sequence, cast

from pants_triton.artifact.errors import (
    EXIT_THIS_HOST,
    EXIT_UNUSABLE,
    FetchError,
    Report,
    local_error,
    report_to_stderr,
    shown_size,
)
from pants_triton.artifact.lock import placed
from pants_triton.artifact.settings import Settings

#: What every time in a tree is set to, in seconds: 1980-01-01, the first that a zip can hold.
TIME = 315532800

_CHUNK = 1 << 20
# A pax header or a long name is read at once: more than this in it is an attack.
_MAX_READ = 16 << 20
# Below this size no ratio is suspicious: a small file of zeros packs very well.
_RATIO_FLOOR = 256 << 20
# What is decompressed of a package is in memory up to this size.
_IN_MEMORY = 16 << 20
# Links that lead to links are followed this far, as Linux does.
_MAX_LINKS = 40
_MAX_STEPS = 10_000

_TAR_SUFFIXES = (
    ".tar",
    ".tgz",
    ".txz",
    ".tbz",
    ".tbz2",
    ".tar.gz",
    ".tar.xz",
    ".tar.bz2",
    ".tar.zst",
)
_ZIP_SUFFIXES = (".zip", ".whl")
# Absolute links there name the machine that runs, not the tree.
_HOST_FOLDERS = ("dev", "proc", "run", "sys")

# What the standard library's readers raise on a damaged archive, or on one of a kind they can't read
# (zipfile says NotImplementedError to a compression it doesn't know, RuntimeError to encryption).
_BROKEN_ARCHIVE = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError, gzip.BadGzipFile),
)


class _Hostile(Exception):
    """What is wrong with an archive's content."""


class _Absent(Exception):
    """What an archive doesn't have."""


@dataclass(frozen=True)
class Limits:
    """Bounds on a tree and the archives it is from; see Settings for the fields."""

    max_bytes: int
    max_members: int
    max_ratio: float

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        return cls(settings.max_bytes, settings.max_members, settings.max_ratio)


@contextlib.contextmanager
def staged(output: Path) -> Iterator[Path]:
    """A new folder that becomes `output` if nothing is raised, and is removed else.

    Raises FetchError where `output` is there already and isn't an empty folder, and for whatever
    the file system refuses.
    """
    temporary: Path | None = None
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        if output.is_symlink() or (output.exists() and not _is_empty_folder(output)):
            raise FetchError(
                f"{output} exists already. Name a folder that doesn't.", EXIT_THIS_HOST
            )
        temporary = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
        yield temporary
        os.chmod(temporary, 0o755)
        os.rename(temporary, output)
    except OSError as e:
        raise local_error(f"Can't write the tree {output}", output.parent, e) from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


class Tree:
    """A tree that archives are unpacked into, one after the other; `finish` completes it.

    :param root: an empty folder.
    :param strip, subset: what is kept of each archive, and where: see `lock.placed`.
    :param system: the tree is a system's root: absolute links are meant from there, and a package
        may name its files by way of another one's links (`/lib` of a merged `/usr`).

    The methods raise FetchError; what was written by then is incomplete.
    """

    def __init__(
        self,
        root: Path,
        limits: Limits,
        *,
        strip: str = "",
        subset: Sequence[tuple[str, str]] = (),
        system: bool = False,
        report: Report = report_to_stderr,
    ) -> None:
        self._root = root
        self._limits = limits
        self._strip = strip
        self._subset = subset
        self._system = system
        self._report = report
        # What is where in the tree: a folder, a file, or a link with its target. Links are created
        # last, so that nothing can be written through one.
        self._folders: set[str] = {""}
        self._files: set[str] = set()
        self._links: dict[str, str] = {}
        self._dropped: list[str] = []
        self._matched: set[str] = set()
        self._bytes = 0
        self._members = 0
        self._archive = ""
        self._packed = 0

    @property
    def size(self) -> int:
        """Of the files so far, in bytes."""
        return self._bytes

    def add_archive(self, archive: BinaryIO, name: str) -> None:
        """Unpack a tar (plain, gz, xz, bz2 or zst) or zip, at whose start `archive` is; any other
        file is put into the tree as `name`."""
        with self._errors(name, os.fstat(archive.fileno()).st_size):
            kind = _archive_kind(archive, name)
            if kind == "zip":
                self._add_zip(archive)
            elif kind:
                with _decompressed(archive, kind, self._limits) as stream:
                    self._add_tar(stream)
            else:
                size = os.fstat(archive.fileno()).st_size
                self._add_file(
                    self._count(name), size, False, iter(lambda: archive.read(_CHUNK), b"")
                )

    def add_deb(self, package: PlainDeb) -> None:
        """Unpack a Debian package."""
        with self._errors(package.name, package.packed), package.tar as tar:
            self._add_tar(_Bounded(tar, self._limits))

    def finish(self) -> None:
        """Check and create the links, and set all times. Raises FetchError."""
        try:
            for path in sorted(self._links):
                self._resolve(path, path)
            missing = [source for source, _ in self._subset if source not in self._matched]
            if missing:
                raise _Absent(f"what the subset names isn't in it: {', '.join(missing)}")
            if not (self._files or self._links):
                below = f" below {self._strip}" if self._strip else ""
                raise _Absent(f"there is nothing in it{below}")
        except _Absent as e:
            raise FetchError(
                f"{self._archive} can't be unpacked: {e}. Correct `strip` and `subset` of the "
                "target, or the pin, and run `./pants lock-artifacts`.",
                EXIT_UNUSABLE,
            ) from None
        except _Hostile as e:
            raise _unusable(self._archive, e) from None
        if self._dropped:
            some = ", ".join(sorted(self._dropped)[:3])
            more = f" and {len(self._dropped) - 3} more" if len(self._dropped) > 3 else ""
            self._report(f"left out links to what isn't in the tree: {some}{more}")
        for path, target in sorted(self._links.items()):
            os.symlink(target, self._root / path)
            if os.utime in os.supports_follow_symlinks:
                os.utime(self._root / path, (TIME, TIME), follow_symlinks=False)
        for folder in sorted(self._folders, reverse=True):
            os.utime(self._root / folder, (TIME, TIME))

    # --- archives ---

    @contextlib.contextmanager
    def _errors(self, name: str, packed: int) -> Iterator[None]:
        self._archive = name
        self._packed += packed
        with _archive_errors(name):
            yield

    def _add_tar(self, stream: _Bounded) -> None:
        previous = -1
        with tarfile.open(
            fileobj=cast(Any, stream), mode="r:", encoding="utf-8", errors="surrogateescape"
        ) as tar:
            for member in tar:
                if member.offset <= previous or member.size < 0:
                    raise _Hostile("its headers lead in a circle")
                previous = member.offset
                self._add_tar_member(tar, member)

    def _add_tar_member(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        name = self._count(member.name)
        if member.isdir():
            self._add_folder(name)
        elif member.issym():
            self._add_link(name, member.linkname)
        elif member.islnk():
            self._add_hard_link(tar, member, name)
        elif member.isreg() and member.type in tarfile.SUPPORTED_TYPES:
            self._add_file(
                name, member.size, bool(member.mode & 0o111), _chunks(tar.extractfile(member))
            )
        else:
            raise _Hostile(f"{_show(member.name)} is a device or another special file")

    def _add_hard_link(self, tar: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> None:
        target = _clean(member.linkname, "the hard link's target")
        if self._placed(name) is None:
            return
        try:
            # An earlier member, by the archive's own names.
            original = tar._find_link_target(member)  # type: ignore[attr-defined]
        except KeyError:
            original = None
        if original is None or not original.isreg():
            raise _Hostile(
                f"{_show(member.name)} is a hard link out of the archive, to {_show(target)}"
            )
        # A copy: what is written to one of the two later doesn't change the other.
        self._add_file(
            name, original.size, bool(original.mode & 0o111), _chunks(tar.extractfile(original))
        )

    def _add_zip(self, archive: BinaryIO) -> None:
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if "\\" in info.filename or "\\" in getattr(info, "orig_filename", ""):
                    raise _Hostile(f"the name {_show(info.filename)} has a backslash")
                name = self._count(info.filename)
                if info.flag_bits & 0x1:
                    raise _Hostile(f"{_show(info.filename)} is encrypted")
                mode = info.external_attr >> 16
                kind = stat.S_IFMT(mode)
                if info.is_dir() or kind == stat.S_IFDIR:
                    self._add_folder(name)
                elif kind == stat.S_IFLNK:
                    if info.file_size > 4096:
                        raise _Hostile(f"{_show(info.filename)} is a link that is too long")
                    self._add_link(name, os.fsdecode(packed.read(info)))
                elif kind in (0, stat.S_IFREG):
                    # Other systems' attributes (create_system) aren't permissions.
                    executable = info.create_system == 3 and bool(mode & 0o111)
                    with packed.open(info) as content:
                        self._add_file(name, info.file_size, executable, _chunks(content))
                else:
                    raise _Hostile(f"{_show(info.filename)} is a device or another special file")

    # --- members ---

    def _count(self, name: str) -> str:
        self._members += 1
        if self._members > self._limits.max_members:
            raise _Hostile(f"it has more than {self._limits.max_members} members")
        return _clean(name, "the name")

    def _placed(self, name: str) -> str | None:
        for source, _ in self._subset:
            member = name[len(self._strip) + 1 :] if self._strip else name
            if member == source or member.startswith(source + "/"):
                self._matched.add(source)
        return placed(name, self._strip, self._subset)

    def _add_folder(self, name: str) -> None:
        path = self._placed(name) if name else None
        if path is None:
            return
        path = self._through_links(path)
        if path in self._links and self._system:
            return
        self._make_folder(path)

    def _add_file(self, name: str, size: int, executable: bool, chunks: Iterable[bytes]) -> None:
        path = self._placed(name)
        if path is None:
            return
        path = self._new(path, name)
        self._charge(size)
        mode = 0o755 if executable else 0o644
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(self._root / path, flags, mode)
        except FileExistsError:
            raise _Hostile(
                f"{_show(name)} is there twice, in names that this file system doesn't tell apart"
            ) from None
        with os.fdopen(fd, "wb") as file:
            left = size
            for chunk in chunks:
                left -= len(chunk)
                if left < 0:
                    raise _Hostile(f"{_show(name)} is bigger than it says")
                file.write(chunk)
            if left:
                raise _Hostile(f"{_show(name)} is smaller than it says")
            file.flush()
            # The mode above was narrowed by the umask.
            os.fchmod(fd, mode)
            os.utime(fd if os.utime in os.supports_fd else self._root / path, (TIME, TIME))
        self._files.add(path)

    def _add_link(self, name: str, target: str) -> None:
        path = self._placed(name)
        if path is None:
            return
        if not target or "\0" in target or not _is_utf8(target):
            raise _Hostile(f"the link {_show(name)} has no usable target")
        if target.startswith("/"):
            if not self._system:
                raise _Hostile(f"{_show(name)} is a link out of the tree, to {_show(target)}")
            parts = [part for part in target.split("/") if part not in ("", ".")]
            if parts and parts[0] in _HOST_FOLDERS:
                self._dropped.append(f"{name} -> {target}")
                return
            base: list[str] = []
        else:
            parts = target.split("/")
            base = name.split("/")[:-1]
        for part in parts:
            if part == "..":
                if not base:
                    if self._system:
                        continue
                    raise _Hostile(f"{_show(name)} is a link out of the tree, to {_show(target)}")
                base.pop()
            elif part not in ("", "."):
                base.append(part)
        path = self._new(path, name)
        # Where the target goes in the tree: stripping and moving folders about moves both ends.
        there = self._placed("/".join(base)) if base else self._placed_root()
        if there is None:
            if self._subset:
                self._dropped.append(f"{name} -> {target}")
                return
            raise _Hostile(f"{_show(name)} is a link out of the tree, to {_show(target)}")
        if target.startswith("/") or self._strip or self._subset or self._system:
            here = path.rpartition("/")[0]
            moved = os.path.relpath("/" + there, "/" + here)
            # The archive's own words where they mean the same.
            if target.startswith("/") or os.path.normpath(target) != moved:
                target = moved
        self._links[path] = target

    def _placed_root(self) -> str | None:
        return None if self._strip or self._subset else ""

    def _new(self, path: str, name: str) -> str:
        path = self._through_links(path)
        if path in self._files or path in self._links or path in self._folders:
            raise _Hostile(f"{_show(name)} is there twice")
        self._make_folder(path.rpartition("/")[0])
        return path

    def _make_folder(self, path: str) -> None:
        if path in self._folders:
            return
        self._make_folder(path.rpartition("/")[0])
        if path in self._links or path in self._files:
            raise _Hostile(f"{_show(path)} is a folder and also a file or a link")
        try:
            os.mkdir(self._root / path)
        except FileExistsError:
            raise _Hostile(
                f"{_show(path)} is there twice, in names that this file system doesn't tell apart"
            ) from None
        os.chmod(self._root / path, 0o755)
        self._folders.add(path)

    def _charge(self, size: int) -> None:
        self._bytes += size
        limit = self._limits
        if self._bytes > limit.max_bytes:
            raise _Hostile(f"its content is bigger than {shown_size(limit.max_bytes)}")
        if self._bytes > max(_RATIO_FLOOR, limit.max_ratio * self._packed):
            raise _Hostile(
                f"its content is more than {limit.max_ratio:g} times bigger than the archive"
            )

    def _through_links(self, path: str) -> str:
        """In a system's tree, `path` with its folders' links followed."""
        if not self._system or not self._links:
            return path
        folder, _, last = path.rpartition("/")
        resolved = self._resolve(folder, path) if folder else ""
        return f"{resolved}/{last}" if resolved else last

    def _resolve(self, path: str, name: str) -> str:
        """Where `path` leads when links are followed. Raises _Hostile where that is outside."""
        todo = [part for part in reversed(path.split("/"))]
        done: list[str] = []
        links = steps = 0
        while todo:
            steps += 1
            if steps > _MAX_STEPS:
                raise _Hostile(f"the link {_show(name)} is too entangled")
            part = todo.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not done:
                    raise _Hostile(f"{_show(name)} is a link out of the tree")
                done.pop()
                continue
            done.append(part)
            target = self._links.get("/".join(done))
            if target is not None:
                links += 1
                if links > _MAX_LINKS:
                    # It leads in a circle, so nowhere, and in particular not outside.
                    return "/".join(done)
                done.pop()
                todo.extend(reversed(target.split("/")))
        return "/".join(done)


@contextlib.contextmanager
def _archive_errors(name: str) -> Iterator[None]:
    try:
        yield
    except _Hostile as e:
        raise _unusable(name, e) from None
    except OSError as e:
        # Damaged headers seek to where nothing can be.
        if isinstance(e, gzip.BadGzipFile) or e.errno in (None, errno.EINVAL):
            raise _unusable(name, f"it is damaged ({e})") from None
        if e.errno == errno.ENAMETOOLONG:
            raise _unusable(name, "a name in it is too long for this file system") from None
        raise
    except _BROKEN_ARCHIVE as e:
        raise _unusable(name, f"it is damaged or of an unknown kind ({e})") from None


def _unusable(name: str, problem: object) -> FetchError:
    return FetchError(
        f"{name} can't be unpacked: {problem}. Its bytes are those that are locked: see where they "
        "came from before you lock others.",
        EXIT_UNUSABLE,
    )


def _chunks(content: IO[bytes] | None) -> Iterator[bytes]:
    if content is None:
        raise _Hostile("a file in it has no content")
    read = content.read
    return iter(lambda: read(_CHUNK), b"")


def _clean(name: str, what: str) -> str:
    """`name` without empty and `.` parts; "" is the root. Raises _Hostile."""
    if name.startswith("/"):
        raise _Hostile(f"{what} {_show(name)} is absolute")
    if not _is_utf8(name) or re.search(r"[\x00-\x1f\x7f]", name):
        raise _Hostile(f"{what} {_show(name)} has characters that no file name should have")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise _Hostile(f"{what} {_show(name)} has a `..`")
    return "/".join(parts)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeError:
        return False
    return True


def _show(name: str) -> str:
    text = ascii(name)[1:-1]
    return text if len(text) <= 120 else f"{text[:100]}..."


# --- compression -----------------------------------------------------------------------------


class _Bounded:
    """A decompressed tar, as far as `tarfile` reads one, that ends a bomb's expansion."""

    def __init__(self, stream: Any, limits: Limits) -> None:
        self._stream = stream
        # Headers, padding and what is read twice are besides the content.
        self._left = 4 * limits.max_bytes + 2048 * limits.max_members

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _MAX_READ:
            raise _Hostile("a header in it is too big")
        data: bytes = self._stream.read(size)
        self._charge(len(data))
        return data

    def seek(self, position: int) -> int:
        if position < 0:
            raise _Hostile("its headers lead in a circle")
        # Bounded before it is done: this decompresses all that is skipped.
        self._charge(max(0, position - self._stream.tell()))
        return int(self._stream.seek(position))

    def tell(self) -> int:
        return int(self._stream.tell())

    def _charge(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise _Hostile("its content is too big")


_MAGIC = {
    b"\x1f\x8b": "gz",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "zst",
}
_OPEN: dict[str, Callable[[BinaryIO], Any]] = {
    "gz": lambda file: gzip.GzipFile(fileobj=file, mode="rb"),
    "xz": lambda file: lzma.LZMAFile(file),
    "bz2": lambda file: bz2.BZ2File(file),
    "tar": lambda file: file,
}


def _archive_kind(archive: BinaryIO, name: str) -> str:
    """`zip`, `tar`, the compression of a tar, or "" for a plain file. Leaves `archive` at its
    start."""
    named_so = name.lower().endswith(_TAR_SUFFIXES)
    start = archive.read(6)
    archive.seek(0)
    if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return "zip"
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "tar")
    if kind == "zst" and (named_so or ".tar." in name):
        return kind
    if kind != "zst":
        with contextlib.suppress(*_BROKEN_ARCHIVE, OSError):
            header = _OPEN[kind](archive).read(512)
            if header[257:262] == b"ustar":
                archive.seek(0)
                return kind
        archive.seek(0)
    if named_so:
        raise _Hostile("it is no tar archive, though its name says so")
    if name.lower().endswith(_ZIP_SUFFIXES):
        raise _Hostile("it is no zip archive, though its name says so")
    return ""


def no_archive(file: BinaryIO, name: str) -> str:
    """Why the file, at whose start `file` is, can't be unpacked as its name promises; "" if it seems
    that it can. A page of HTML is taken for a file only if it is named so."""
    start = file.read(512).lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    file.seek(0)
    is_page = start.startswith((b"<!doctype html", b"<html"))
    if is_page and not name.lower().endswith((".html", ".htm")):
        return "it is a page of HTML"
    try:
        _archive_kind(file, name)
    except _Hostile as e:
        return str(e)
    return ""


@contextlib.contextmanager
def _decompressed(file: BinaryIO, kind: str, limits: Limits) -> Iterator[_Bounded]:
    if kind == "zst":
        with _from_zstd(file, limits) as plain:
            yield _Bounded(plain, limits)
        return
    yield _Bounded(_OPEN[kind](file), limits)


@contextlib.contextmanager
def _from_zstd(file: BinaryIO, limits: Limits) -> Iterator[BinaryIO]:
    # The standard library has no zstd before Python 3.14.
    program = shutil.which("zstd") or shutil.which("zstd", path=os.defpath)
    if program is None:
        raise FetchError(
            "An archive is compressed with zstd, and the program `zstd` isn't there to read it: "
            "install it.",
            EXIT_THIS_HOST,
        )
    # It leaves a descriptor's offset alone only if it gets it by a pipe.
    with tempfile.TemporaryFile() as plain:
        process = subprocess.Popen(
            [program, "-dcq", "--memory=256MiB"],
            stdin=subprocess.PIPE,
            stdout=plain,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                for chunk in iter(lambda: file.read(_CHUNK), b""):
                    process.stdin.write(chunk)
                    if os.fstat(plain.fileno()).st_size > 2 * limits.max_bytes:
                        raise _Hostile("its content is too big")
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            if process.wait() != 0:
                raise _Hostile("it is damaged (zstd)")
        finally:
            process.kill()
            process.wait()
        plain.seek(0)
        yield cast(BinaryIO, plain)


# --- Debian packages -------------------------------------------------------------------------


@dataclass(frozen=True)
class PlainDeb:
    """A Debian package's files as a plain tar.

    :param packed: the package's size in bytes.
    """

    name: str
    packed: int
    tar: BinaryIO


def plain_deb(package: BinaryIO, name: str, limits: Limits, folder: Path) -> PlainDeb:
    """Decompress the Debian package (deb(5)) at whose start `package` is, into memory or, a big
    one, an unnamed file in `folder`: most of the work of unpacking, and what threads can share.
    Raises FetchError."""
    packed = os.fstat(package.fileno()).st_size
    left = 2 * min(limits.max_bytes, int(max(_RATIO_FLOOR, limits.max_ratio * packed)))
    tar = cast(BinaryIO, tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, dir=str(folder)))
    try:
        with _archive_errors(name):
            member, kind = _deb_data(package)
            with _decompressed(member, kind, limits) as stream:
                for chunk in iter(lambda: stream.read(_CHUNK), b""):
                    left -= len(chunk)
                    if left < 0:
                        raise _Hostile("its content is too big")
                    tar.write(chunk)
        tar.seek(0)
    except BaseException:
        tar.close()
        raise
    return PlainDeb(name, packed, tar)


class _Part:
    """A part of a file, as a file of its own."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file = file
        self._start = start
        self._size = size
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        left = self._size - self._at
        size = left if size < 0 else min(size, left)
        self._file.seek(self._start + self._at)
        data = self._file.read(size)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, min(base + offset, self._size))
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _deb_data(package: BinaryIO) -> tuple[Any, str]:
    """The part of a package that holds its files, and how it is compressed (ar(5), deb(5))."""
    if package.read(8) != b"!<arch>\n":
        raise _Hostile("it is no Debian package")
    while True:
        header = package.read(60)
        if len(header) < 60 or header[58:] != b"`\n":
            raise _Hostile("it is a Debian package without files")
        name = header[:16].decode("ascii", "replace").rstrip(" /")
        try:
            size = int(header[48:58])
        except ValueError:
            raise _Hostile("it is a damaged Debian package") from None
        start = package.tell()
        if name.startswith("data.tar"):
            kind = name[len("data.tar") :].lstrip(".") or "tar"
            if kind not in (*_OPEN, "zst"):
                raise _Hostile(f"it is a Debian package whose files are {_show(name)}")
            return _Part(package, start, size), kind
        package.seek(start + size + size % 2)
