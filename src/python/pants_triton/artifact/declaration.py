"""What BUILD targets declare, and which rows the lock must have for it.

A declaration becomes slots, one for each row. A slot holds the question whose answer, found over
the network when the lock is made, completes the row, and the digest of all that decides the row:
while that stands, the row in the lock is the declaration's.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
from dataclasses import dataclass
from typing import Callable, Iterable, Mapping, Sequence, Type, Union
from urllib.parse import urlsplit

from pants_triton.artifact.archives import (
    LLVM_HASH_SUFFIXES,
    Archive,
    ArchiveError,
    llvm_archives,
    nvidia_archives,
)
from pants_triton.artifact.lock import (
    ANY_PLATFORM,
    LOCK_COMMAND,
    DebianEntry,
    DebianPackage,
    Entry,
    LockError,
    Row,
    UrlEntry,
    WheelEntry,
    component_address,
    is_relative_path,
    make_lock,
    pin_digest,
    shown_value,
)
from pants_triton.artifact.pins import PinError, parse_llvm_pin, parse_nvidia_pin
from pants_triton.artifact.platforms import PANTS_PLATFORMS, PlatformError, suffix_platform

#: Stands in an archive's URL and `strip` for the one word of its pin file.
PIN = "{pin}"

#: The same without the `v` before a number: `3.11.3` of `v3.11.3`.
PIN_VERSION = "{pin_version}"

#: Debian's word for the architecture of each platform. A tree for ANY_PLATFORM has only packages of
#: the architecture `all`, which every architecture's list has.
DEBIAN_ARCHS: Mapping[str, str] = {
    "linux_x86_64": "amd64",
    "linux_arm64": "arm64",
    ANY_PLATFORM: "amd64",
}

# An archive may be for one distribution, where that is among those by which a host chooses.
_ARCHIVE_PLATFORMS: tuple[str, ...] = (
    *(ANY_PLATFORM, *PANTS_PLATFORMS),
    *(suffix_platform(s) for s in LLVM_HASH_SUFFIXES if not s.startswith("macos-")),
)
_WHEEL_PLATFORMS: tuple[str, ...] = (ANY_PLATFORM, *PANTS_PLATFORMS)


class DeclarationError(ValueError):
    """A target's declaration can't be locked. The message is one line: the target's address, the
    field or pin file, what is wrong, the way out."""


# --- what targets declare --------------------------------------------------------------------


@dataclass(frozen=True)
class PinFile:
    """One of upstream's version files, by its path in the workspace and its content."""

    path: str
    text: str


@dataclass(frozen=True)
class LlvmDeclaration:
    """The LLVM that `pin` wants, for every platform upstream builds it for.

    `stores` are URLs of folders to look in; empty is the pin's own, else upstream's.
    """

    address: str
    pin: PinFile
    stores: tuple[str, ...] = ()


@dataclass(frozen=True)
class NvidiaDeclaration:
    """NVIDIA's tools and headers in the versions that `pin` wants.

    `components` narrows them; empty is all. `source` is `archives.REDIST` or `archives.CONDA`; None
    is where upstream had them from.
    """

    address: str
    pin: PinFile
    platforms: tuple[str, ...]
    components: tuple[str, ...] = ()
    source: str | None = None


@dataclass(frozen=True)
class ArchiveDeclaration:
    """An archive by its URL.

    `urls` lists (platform, URL). PIN and PIN_VERSION may stand in a URL and in `strip`. `strip` and
    `subset` are as in `lock.UrlEntry`.
    """

    address: str
    urls: tuple[tuple[str, str], ...]
    pin: PinFile | None = None
    strip: str = ""
    subset: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class WheelDeclaration:
    """Files out of a wheel that the workspace's package indexes serve, one of exactly `version`."""

    address: str
    distribution: str
    version: str
    platforms: tuple[str, ...]
    strip: str = ""
    subset: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class DebianDeclaration:
    """A tree of Debian packages and all that they depend on. `packages` are `name` or
    `name=version`; `platforms` are keys of DEBIAN_ARCHS."""

    address: str
    suite: str
    packages: tuple[str, ...]
    platforms: tuple[str, ...]
    subset: tuple[tuple[str, str], ...] = ()


Declaration = Union[
    LlvmDeclaration,
    NvidiaDeclaration,
    ArchiveDeclaration,
    WheelDeclaration,
    DebianDeclaration,
]

# --- what the lock must have -----------------------------------------------------------------


@dataclass(frozen=True)
class UrlQuestion:
    """Which of `locations`, tried in order, has the file, and what are its sha256 and size?

    `sha256` is what it must be, None where the pin doesn't say.
    """

    locations: tuple[str, ...]
    sha256: str | None = None


@dataclass(frozen=True)
class WheelQuestion:
    """Which wheels of this version have the workspace's indexes?"""

    distribution: str
    version: str


@dataclass(frozen=True)
class DebianQuestion:
    """Which exact packages are `packages` (`name` or `name=version`) with their dependencies?
    `arch` is Debian's."""

    suite: str
    arch: str
    packages: tuple[str, ...]


Question = Union[UrlQuestion, WheelQuestion, DebianQuestion]


@dataclass(frozen=True)
class Slot:
    """One row that the lock must have.

    :param target: the target's address.
    :param address: the row's: the target's, with `#` and the component where there are several.
    :param artifact: what messages call it: `LLVM 0a1b2c3d`, `ptxas 12.8.93`.
    :param pin_path: the pin file that the row is made from, "" where it is BUILD's text alone.
    :param pin_sha256: the digest of all that decides the row. Of a pin file it covers what concerns
        this row only: a pin that moves in one component leaves the others' rows valid.
    :param optional: nobody knows whether upstream has it. Of all slots of one address at least one
        must exist.
    :param by_suffix: `TRITON_LLVM_SYSTEM_SUFFIX` may choose the platform.
    """

    target: str
    address: str
    platform: str
    artifact: str
    question: Question
    pin_path: str
    pin_sha256: str
    strip: str = ""
    subset: tuple[tuple[str, str], ...] = ()
    optional: bool = False
    by_suffix: bool = False


def slots(declaration: Declaration) -> tuple[Slot, ...]:
    """The rows that the lock must have for `declaration`, at least one, in its order.

    Raises DeclarationError, also for what is wrong with the pin.
    """
    try:
        found = _SLOTS[type(declaration)](declaration)
    except (PinError, ArchiveError, PlatformError) as e:
        raise DeclarationError(f"{declaration.address}: {e}") from e
    for slot in found:
        _check_lockable(slot)
    return tuple(found)


def refusal(platform: str, entry: Entry) -> tuple[str, str] | None:
    """Why the lock wouldn't take `entry`: the name of the target's field, and what is wrong with
    it. None where it would. `platform` must be a known one."""
    try:
        make_lock("lock", [Row("target", platform, entry)])
    except LockError as e:
        # The lock's own way out is to make it anew, which is what failed.
        message = str(e)[len(f"lock: target: {platform}: ") :]
        message = message.partition(". Restore the file, ")[0]
        field, _, problem = message.partition(": ")
        return {"name": "distribution"}.get(field, field), problem
    return None


def _llvm(declaration: LlvmDeclaration) -> list[Slot]:
    # A folder's URL is the same with and without a slash at its end.
    stores = tuple(store.rstrip("/") for store in declaration.stores)
    _check_distinct(declaration.address, "stores", stores)
    for store in stores:
        _check_url(declaration.address, "stores", store)
    pin = parse_llvm_pin(declaration.pin.path, declaration.pin.text)
    return [
        _archive_slot(
            declaration.address,
            declaration.address,
            f"LLVM {pin.short_revision}",
            archive,
            pin_path=declaration.pin.path,
            optional=archive.sha256 is None,
            by_suffix=True,
        )
        for archive in llvm_archives(pin, stores or None)
    ]


def _nvidia(declaration: NvidiaDeclaration) -> list[Slot]:
    address = declaration.address
    _check_platforms(address, "platforms", declaration.platforms, PANTS_PLATFORMS)
    _check_distinct(address, "components", declaration.components)
    pin = parse_nvidia_pin(declaration.pin.text, declaration.pin.path)
    found = [
        _archive_slot(
            address,
            component_address(address, archive.component),
            f"{archive.component} {pin.version(archive.component)}",
            archive,
            pin_path=declaration.pin.path,
        )
        for platform in declaration.platforms
        for archive in nvidia_archives(
            pin, platform, declaration.components or None, declaration.source
        )
    ]
    if not found:
        raise DeclarationError(
            f"{address}: {pin.path} has only components for other systems "
            f"({', '.join(name for name, _ in pin.components)}): delete the target."
        )
    return found


def _archive(declaration: ArchiveDeclaration) -> list[Slot]:
    address, pin = declaration.address, declaration.pin
    platforms = [platform for platform, _ in declaration.urls]
    # A target has either field: the one for every platform, or the other.
    field = "url" if platforms == [ANY_PLATFORM] else "urls"
    _check_platforms(address, field, platforms, _ARCHIVE_PLATFORMS)
    _check_subset(address, declaration.subset)
    for _, template in declaration.urls:
        _check_no_secret(address, field, template)
    templates = (*(url for _, url in declaration.urls), declaration.strip)
    if pin is not None and not any(map(_takes_pin, templates)):
        raise DeclarationError(
            f"{address}: pin: {pin.path} has no effect: write `{PIN}` or `{PIN_VERSION}` in `{field}` "
            "or `strip` where its word belongs, or leave `pin` out."
        )
    strip = _filled(address, "strip", declaration.strip, pin)
    found = []
    for platform, template in declaration.urls:
        url = _filled(address, field, template, pin)
        _check_url(address, field, url)
        archive = Archive("archive", platform, (url,), strip, declaration.subset)
        pinned = pin is not None and (_takes_pin(template) or _takes_pin(declaration.strip))
        found.append(
            _archive_slot(
                address,
                address,
                f"the archive {archive.filename or url}",
                archive,
                pin_path=pin.path if pin is not None and pinned else "",
            )
        )
    return found


def _wheel(declaration: WheelDeclaration) -> list[Slot]:
    address = declaration.address
    _check_platforms(address, "platforms", declaration.platforms, _WHEEL_PLATFORMS)
    _check_subset(address, declaration.subset)
    question = WheelQuestion(declaration.distribution, declaration.version)
    return [
        _slot(
            address,
            address,
            platform,
            f"the wheel of {declaration.distribution} {declaration.version}",
            question,
            strip=declaration.strip,
            subset=declaration.subset,
        )
        for platform in declaration.platforms
    ]


def _debian(declaration: DebianDeclaration) -> list[Slot]:
    address = declaration.address
    _check_platforms(address, "platforms", declaration.platforms, list(DEBIAN_ARCHS))
    _check_subset(address, declaration.subset)
    shown = ", ".join(declaration.packages[:3])
    if len(declaration.packages) > 3:
        shown += f" and {len(declaration.packages) - 3} more"
    return [
        _slot(
            address,
            address,
            platform,
            f"the tree of {declaration.suite}'s {shown}",
            DebianQuestion(declaration.suite, DEBIAN_ARCHS[platform], declaration.packages),
            subset=declaration.subset,
        )
        for platform in declaration.platforms
    ]


_SLOTS: Mapping[Type[Declaration], Callable[..., Sequence[Slot]]] = {
    LlvmDeclaration: _llvm,
    NvidiaDeclaration: _nvidia,
    ArchiveDeclaration: _archive,
    WheelDeclaration: _wheel,
    DebianDeclaration: _debian,
}

_KINDS: Mapping[Type[Question], str] = {
    UrlQuestion: "url",
    WheelQuestion: "wheel",
    DebianQuestion: "debian",
}


def _archive_slot(
    target: str,
    address: str,
    artifact: str,
    archive: Archive,
    *,
    pin_path: str,
    optional: bool = False,
    by_suffix: bool = False,
) -> Slot:
    return _slot(
        target,
        address,
        archive.platform,
        artifact,
        UrlQuestion(archive.locations, archive.sha256),
        pin_path=pin_path,
        strip=archive.strip,
        subset=archive.subset,
        optional=optional,
        by_suffix=by_suffix,
    )


def _slot(
    target: str,
    address: str,
    platform: str,
    artifact: str,
    question: Question,
    *,
    pin_path: str = "",
    strip: str = "",
    subset: tuple[tuple[str, str], ...] = (),
    optional: bool = False,
    by_suffix: bool = False,
) -> Slot:
    digest = pin_digest(
        _KINDS[type(question)],
        # A wheel's question is the same for every platform, its row isn't.
        platform,
        json.dumps(dataclasses.asdict(question), sort_keys=True),
        strip,
        json.dumps(subset),
    )
    return Slot(
        target=target,
        address=address,
        platform=platform,
        artifact=artifact,
        question=question,
        pin_path=pin_path,
        pin_sha256=digest,
        strip=strip,
        subset=subset,
        optional=optional,
        by_suffix=by_suffix,
    )


# --- {pin} -----------------------------------------------------------------------------------


def _takes_pin(template: str) -> bool:
    return PIN in template or PIN_VERSION in template


def _filled(address: str, field: str, template: str, pin: PinFile | None) -> str:
    rest = template.replace(PIN, "").replace(PIN_VERSION, "")
    if "{" in rest or "}" in rest:
        raise DeclarationError(
            f"{address}: {field}: only `{PIN}` and `{PIN_VERSION}` may stand in braces, got "
            f"{shown_value(template)}: write another brace as %7B or %7D, or correct it."
        )
    if not _takes_pin(template):
        return template
    if pin is None:
        raise DeclarationError(
            f"{address}: {field}: {shown_value(template)} wants the word of a pin file, but the "
            "target has none: name one in `pin`, or write the version out."
        )
    word = _pin_word(address, pin)
    version = word[1:] if re.match(r"v[0-9]", word) else word
    return template.replace(PIN_VERSION, version).replace(PIN, word)


def _pin_word(address: str, pin: PinFile) -> str:
    words = pin.text.lstrip("\ufeff").split()
    if len(words) == 1 and re.fullmatch(r"[A-Za-z0-9._+-]+", words[0]):
        return words[0]
    got = shown_value(words[0]) if len(words) == 1 else f"{len(words) or 'no'} words"
    raise DeclarationError(
        f"{address}: {pin.path}: expected one word such as v3.11.3 for `{PIN}`, got {got}: correct "
        "the file, or name another in `pin`."
    )


# --- checks ----------------------------------------------------------------------------------


def _check_distinct(address: str, field: str, values: Sequence[str]) -> None:
    for number, value in enumerate(values):
        if value in values[:number]:
            raise DeclarationError(
                f"{address}: {field}: {shown_value(value)} occurs twice: leave one out."
            )


def _check_platforms(
    address: str, field: str, platforms: Sequence[str], known: Sequence[str]
) -> None:
    if not platforms:
        raise DeclarationError(
            f"{address}: {field}: is empty: name at least one of {', '.join(known)}."
        )
    for platform in platforms:
        if platform not in known:
            near = difflib.get_close_matches(platform, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise DeclarationError(
                f"{address}: {field}: there is no platform {shown_value(platform)} for this "
                f"target: name any of {', '.join(known)}.{hint}"
            )
    _check_distinct(address, field, platforms)


def _check_subset(address: str, subset: Iterable[tuple[str, str]]) -> None:
    for member, place in subset:
        for path in (member, place):
            # Only the tree's root has no name.
            if not is_relative_path(path) and (path or path is member):
                raise DeclarationError(
                    f"{address}: subset: expected relative paths without `.` and `..`, got "
                    f"{shown_value(path)}: correct it."
                )
    # Of two pairs for one member the second would never hold.
    _check_distinct(address, "subset", [member for member, _ in subset])


def _check_no_secret(address: str, field: str, url: str) -> None:
    """What may be a secret isn't shown: messages end up in public CI logs."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    if "@" in parts.netloc:
        raise DeclarationError(
            f"{address}: {field}: a URL has credentials in it, which the lock would publish: take "
            "them out, and give them in ~/.netrc or by `[artifact].credentials`."
        )
    if parts.query:
        raise DeclarationError(
            f"{address}: {field}: a URL has a query (`?…`), where signatures and tokens are, and the "
            "lock would publish it: name the file by a URL without one (credentials go into ~/.netrc "
            "or `[artifact].credentials`), or put it where it has such a URL."
        )


def _check_url(address: str, field: str, url: str) -> None:
    _check_no_secret(address, field, url)
    refused = refusal(ANY_PLATFORM, UrlEntry(url, "0" * 64, None, "0" * 64))
    if refused is not None:
        raise DeclarationError(f"{address}: {field}: {refused[1]}: correct the URL.")


def _check_lockable(slot: Slot) -> None:
    refused = refusal(slot.platform, _specimen(slot))
    if refused is not None:
        field, problem = refused
        raise DeclarationError(
            f"{slot.target}: {field}: {problem}: correct the BUILD file, then run `{LOCK_COMMAND}`."
        )


def _specimen(slot: Slot) -> Entry:
    # What the row will be, with stand-ins for the answer.
    question, nothing = slot.question, "0" * 64
    if isinstance(question, UrlQuestion):
        return UrlEntry(
            location=question.locations[0],
            sha256=nothing,
            size=None,
            pin_sha256=slot.pin_sha256,
            strip=slot.strip,
            subset=slot.subset,
        )
    if isinstance(question, WheelQuestion):
        return WheelEntry(
            name=question.distribution,
            version=question.version,
            filename="specimen.whl",
            sha256=nothing,
            size=None,
            pin_sha256=slot.pin_sha256,
            strip=slot.strip,
            subset=slot.subset,
        )
    packages = []
    for package in question.packages:
        name, equals, version = package.partition("=")
        packages.append(
            DebianPackage(name, version if equals else "0", question.arch, nothing, size=1)
        )
    return DebianEntry(question.suite, tuple(packages), slot.pin_sha256, slot.subset)
