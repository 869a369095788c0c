"""Find a wheel on the package indexes of this workspace (the simple repository API).

An index answers in JSON (PEP 691) or HTML (PEP 503); both are understood. The lock names a wheel by
its coordinates and digest only, so it holds wherever an index has the same file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from pants_triton.artifact.connection import read_url
from pants_triton.artifact.errors import (
    EXIT_UNREACHABLE,
    EXIT_WRONG_BYTES,
    LOCK_HINT,
    FetchError,
    Report,
    name_in,
    report_to_stderr,
    shown_url,
)
from pants_triton.artifact.settings import Settings

_ACCEPT = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.1"
)
# A project with many releases has a page of some MB.
_MAX_PAGE = 256 << 20


@dataclass(frozen=True)
class IndexFile:
    """A file that an index lists.

    :param url: without credentials, unless it is on the index's own host and that has some.
    :param sha256: as the index says, lower-case hex; None if it doesn't.
    :param size: in bytes, None if the index doesn't say.
    :param yanked: withdrawn by its authors (PEP 592): still had by who names it exactly.
    """

    filename: str
    url: str
    sha256: str | None
    size: int | None
    yanked: bool = False


def normalized(name: str) -> str:
    """A project's name as indexes spell it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def list_wheels(
    name: str, version: str, settings: Settings, report: Report = report_to_stderr
) -> tuple[IndexFile, ...]:
    """The wheels of one version, of the first index that has any, by file name.

    Raises FetchError where no index is known, none has it, or one doesn't answer: what another one
    has then wouldn't be what a working day's lock has.
    """
    what = f"the wheels of {name} {version}"
    if not settings.indexes:
        raise _no_index(what)
    for index in settings.indexes:
        files = [
            file
            for file in _files(index, name, settings, report)
            if _version_of(file.filename) == _canonical(version)
        ]
        if files:
            return tuple(sorted(files, key=lambda file: file.filename))
    raise FetchError(
        f"None of the package indexes has {what}: {_shown_indexes(settings)}. Correct the name and "
        "version of the target, or add an index that has it to `[python-repos].indexes`.",
        EXIT_UNREACHABLE,
    )


def locate(
    name: str,
    filename: str,
    sha256: str,
    settings: Settings,
    report: Report = report_to_stderr,
) -> tuple[str, ...]:
    """The URLs of the wheel `filename` with the digest `sha256` on all indexes, in their order.

    An index that lists the file without a digest counts: the download is verified anyway. Raises
    FetchError where there is none.
    """
    if not settings.indexes:
        raise _no_index(filename)
    urls: list[str] = []
    problems: list[str] = []
    others: list[str] = []
    for index in settings.indexes:
        try:
            files = _files(index, name, settings, report)
        except FetchError as e:
            # Another index may have it, and the digest says which file is meant.
            problems.append(str(e))
            continue
        for file in files:
            if file.filename != filename:
                continue
            if file.sha256 in (sha256, None):
                urls.append(file.url)
            else:
                others.append(f"{shown_url(index)} has it with sha256 {file.sha256}")
    if urls:
        return tuple(urls)
    if others:
        raise FetchError(
            f"{filename}: {'; '.join(others)}, but locked is {sha256}. If the change is known and "
            f"good, {LOCK_HINT}; else ask who serves it.",
            EXIT_WRONG_BYTES,
        )
    if problems:
        raise FetchError(f"{filename} can't be looked up: {' '.join(problems)}", EXIT_UNREACHABLE)
    raise FetchError(
        f"None of the package indexes has {filename}: {_shown_indexes(settings)}. Add one that has "
        "it to `[python-repos].indexes`, or name a mirror that has it in `[artifact].mirrors`.",
        EXIT_UNREACHABLE,
    )


def _no_index(what: str) -> FetchError:
    return FetchError(
        f"No package index is known that could have {what}. Name one in `[python-repos].indexes`, "
        "or a mirror that has the file in `[artifact].mirrors`.",
        EXIT_UNREACHABLE,
    )


def _shown_indexes(settings: Settings) -> str:
    return ", ".join(shown_url(index) for index in settings.indexes)


def _files(index: str, name: str, settings: Settings, report: Report) -> tuple[IndexFile, ...]:
    page = f"{index.rstrip('/')}/{quote(normalized(name))}/"
    if urlsplit(index).scheme == "file":
        return _local_files(page)
    try:
        url, media_type, body = read_url(page, settings, {"Accept": _ACCEPT}, _MAX_PAGE, report)
    except FileNotFoundError:
        return ()
    files = parse_page(url, media_type, body.decode("utf-8", "replace"))
    return tuple(_with_credentials(file, index) for file in files)


def _local_files(page: str) -> tuple[IndexFile, ...]:
    folder = Path(unquote(urlsplit(page).path))
    for name, media_type in (("index.html", "text/html"), ("index.json", "application/json")):
        try:
            text = (folder / name).read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as e:
            raise FetchError(
                f"{shown_url(page)}: can't read it: {e.strerror}. Correct that.", EXIT_UNREACHABLE
            ) from None
        return parse_page(page, media_type, text)
    return ()


def _with_credentials(file: IndexFile, index: str) -> IndexFile:
    """A password in an index's own URL holds for the files on the same host, as for pip."""
    ours, theirs = urlsplit(index), urlsplit(file.url)
    userinfo, at, host = ours.netloc.rpartition("@")
    if not at or (host, ours.scheme) != (theirs.netloc, theirs.scheme):
        return file
    url = theirs._replace(netloc=f"{userinfo}@{host}").geturl()
    return IndexFile(file.filename, url, file.sha256, file.size, file.yanked)


def parse_page(url: str, media_type: str, text: str) -> tuple[IndexFile, ...]:
    """The wheels on a project's page at `url`. Raises FetchError where it can't be understood."""
    try:
        files = _parse_json(url, text) if media_type.endswith("json") else _parse_html(url, text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise FetchError(
            f"{shown_url(url)} isn't a package index's page ({type(e).__name__}). Correct "
            "`[python-repos].indexes`.",
            EXIT_UNREACHABLE,
        ) from None
    return tuple(file for file in files if file.filename.endswith(".whl"))


def _parse_json(url: str, text: str) -> list[IndexFile]:
    data: dict[str, Any] = json.loads(text)
    files = []
    for file in data["files"]:
        sha256 = file.get("hashes", {}).get("sha256")
        size = file.get("size")
        files.append(
            IndexFile(
                str(file["filename"]),
                urljoin(url, str(file["url"])).partition("#")[0],
                str(sha256).lower() if sha256 else None,
                size if isinstance(size, int) else None,
                bool(file.get("yanked", False)),
            )
        )
    return files


def _parse_html(url: str, text: str) -> list[IndexFile]:
    parser = _Anchors(url)
    parser.feed(text)
    parser.close()
    return parser.files


class _Anchors(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__()
        self._base = base
        self.files: list[IndexFile] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        href = values.get("href")
        if not href:
            return
        if tag == "base":
            self._base = urljoin(self._base, href)
        elif tag == "a":
            url, _, fragment = urljoin(self._base, href).partition("#")
            digest = re.search(r"(?:^|&)sha256=([0-9A-Fa-f]{64})(?:&|$)", fragment)
            self.files.append(
                IndexFile(
                    name_in(url),
                    url,
                    digest.group(1).lower() if digest else None,
                    None,
                    "data-yanked" in values,
                )
            )


def _version_of(filename: str) -> str:
    parts = filename[: -len(".whl")].split("-")
    return _canonical(parts[1]) if len(parts) >= 5 else ""


def _canonical(version: str) -> str:
    # What of PEP 440's normal form occurs between a pin and a file name.
    version = re.sub(r"^v", "", version.strip().lower()).replace("_", "-")
    public, plus, local = version.partition("+")
    # 2.0rc1 is 2rc1, but 2.0.1 isn't 2.1.
    public = re.sub(r"^((?:[0-9]+!)?[0-9]+(?:\.[0-9]+)*?)(?:\.0)+(?!\.?[0-9])", r"\1", public)
    return public + plus + re.sub(r"[-_]", ".", local)
