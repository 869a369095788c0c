"""The lock: for every artifact and platform what its bytes are, made from the pins by a goal.

It is one JSON file, written by `write_lock` and read by `read_lock`. An entry says how the bytes
are found, and their sha256. Files that a registry or mirror of the host's choice serves (wheels,
Debian packages) are named by their coordinates, never by that registry's host.

`entry_json` gives what fetching one entry needs, and nothing else: it is the key of one process.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, Sequence, Tuple, Type, Union
from urllib.parse import urlsplit

from pants_triton.artifact.errors import shown_url

#: What makes the lock. Written at its top and at the end of every error.
LOCK_COMMAND = "./pants lock-artifacts"

#: The platform of an entry that is the same everywhere, such as a header archive.
ANY_PLATFORM = "any"

#: The format that `write_lock` writes; `read_lock` knows no other.
FORMAT = 1


class LockError(ValueError):
    """The lock is malformed, or lacks or contradicts what is asked of it. The message is one line
    that names the place and the way out."""


@dataclass(frozen=True)
class UrlEntry:
    """An archive or file at a URL (`https:`, `http:` or `file:`, without credentials).

    `size` is in bytes, None where it isn't known. `strip` is the archive's folder that is left out,
    "" for none. `subset` lists (member after `strip`, path in the tree): what is kept and where it
    goes. A folder stands for all below it. Empty keeps everything in place. See `placed`.

    `pin_sha256` is the digest of the pin or declaration that the entry was made from. It is no part
    of `entry_json`: a pin that moves in one component leaves the others' cached trees valid.
    """

    location: str
    sha256: str
    size: int | None
    pin_sha256: str
    strip: str = ""
    subset: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class WheelEntry:
    """Files out of one wheel that the workspace's package indexes serve.

    `filename` is the whole wheel's; `size`, `strip`, `subset` and `pin_sha256` are as in UrlEntry.
    """

    name: str
    version: str
    filename: str
    sha256: str
    size: int | None
    pin_sha256: str
    strip: str = ""
    subset: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class DebianPackage:
    """One exact package. `size` is the `.deb` file's, in bytes; `arch` is Debian's (`amd64`,
    `all`)."""

    name: str
    version: str
    arch: str
    sha256: str
    size: int


@dataclass(frozen=True)
class DebianEntry:
    """A tree unpacked from Debian packages of one suite, in the order listed, dependencies
    included."""

    suite: str
    packages: tuple[DebianPackage, ...]
    pin_sha256: str
    subset: tuple[tuple[str, str], ...] = ()


Entry = Union[UrlEntry, WheelEntry, DebianEntry]

#: The `kind` of each entry in the file.
KINDS: Mapping[str, Type[Entry]] = {"url": UrlEntry, "wheel": WheelEntry, "debian": DebianEntry}


@dataclass(frozen=True)
class Row:
    """One entry and what it is for. A target of several archives has a row for each, whose address
    ends in `#` and the component's name: `3rdparty/nvidia:nvidia#ptxas`."""

    address: str
    platform: str
    entry: Entry


@dataclass(frozen=True)
class Lock:
    """A whole lock. `path` is where it lies, for messages. Make it with `make_lock` or
    `read_lock`, which sort the rows and validate them."""

    path: str
    rows: tuple[Row, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every address once, sorted."""
        return tuple(sorted({row.address for row in self.rows}))

    def platforms(self, address: str) -> tuple[str, ...]:
        """The platforms that `address` is locked for, sorted."""
        return tuple(row.platform for row in self.rows if row.address == address)

    def get(self, address: str, platform: str) -> Entry | None:
        """The entry of exactly this platform, without the fall-back of `entry_for`."""
        for row in self.rows:
            if (row.address, row.platform) == (address, platform):
                return row.entry
        return None


def pin_digest(*parts: str) -> str:
    """The `pin_sha256` of an entry made from `parts`: the pin's text, fields of the target."""
    # JSON keeps ("a", "bc") and ("ab", "c") apart.
    return hashlib.sha256(json.dumps(parts).encode("ascii")).hexdigest()


def component_address(address: str, component: str) -> str:
    """The address in the lock of one archive of a target that has several."""
    return f"{address}#{component}"


def make_lock(path: str, rows: Iterable[Row]) -> Lock:
    """A lock with `rows` in the file's order. Raises LockError on an invalid or a doubled one."""
    ordered = sorted(rows, key=lambda row: (row.address, row.platform))
    seen: set[tuple[str, str]] = set()
    for row in ordered:
        place = _place(path, row.address, row.platform)
        _check(_text, row.address, f"{place}: address")
        _check(_platform, row.platform, f"{place}: platform")
        if (row.address, row.platform) in seen:
            raise LockError(f"{place}: there are two entries for this.")
        seen.add((row.address, row.platform))
        for name in _FIELDS[type(row.entry)]:
            _check_field(type(row.entry), name, _field(row.entry, name), place)
    return Lock(path, tuple(ordered))


def read_lock(text: str, path: str) -> Lock:
    """The lock in `text`. `path` is for messages.

    Raises LockError, and nothing else, on anything that `write_lock` doesn't write up to white
    space and the order of keys.
    """
    # What some editors write at the start of a file.
    text = text.lstrip("\ufeff")
    _no_conflict_markers(text, path)
    try:
        data = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except json.JSONDecodeError as e:
        raise _broken(path, f"line {e.lineno}, column {e.colno}: not JSON: {e.msg}") from None
    except _DuplicateKey as e:
        raise _broken(path, f"the key {shown_value(e.key)} occurs twice in one object") from None
    except (ValueError, RecursionError) as e:
        # Python bounds how long a number and how deep a nest it reads.
        raise _broken(path, f"not JSON that can be read: {type(e).__name__}") from None
    top = _record(data, {"format", "made_by", "artifacts"}, (), path)
    if top["format"] != FORMAT or isinstance(top["format"], bool):
        raise LockError(
            f"{path}: format: this version of pants_triton reads format {FORMAT}, got "
            f"{shown_value(top['format'])}: use the version that wrote it, or run `{LOCK_COMMAND}`."
        )
    rows = []
    for address, platforms in _mapping(top["artifacts"], f"{path}: artifacts").items():
        place = f"{path}: {_shown_key(address)}"
        for platform, entry in _mapping(platforms, place).items():
            rows.append(Row(address, platform, _entry(entry, _place(path, address, platform))))
    return make_lock(path, rows)


def write_lock(lock: Lock) -> str:
    """The text of the lock file: equal locks give equal bytes, and `read_lock` gives them back.

    One field a line and one Debian package a line, so that a diff of the file shows what changed.
    Raises LockError where `lock` holds what `read_lock` would refuse.
    """
    lock = make_lock(lock.path, lock.rows)
    artifacts: dict[str, dict[str, object]] = {}
    for row in lock.rows:
        record: dict[str, object] = {**_entry_record(row.entry), "pin_sha256": row.entry.pin_sha256}
        artifacts.setdefault(row.address, {})[row.platform] = record
    # The order of keys here is the file's.
    document = {"made_by": LOCK_COMMAND, "format": FORMAT, "artifacts": artifacts}
    return _render(document, "") + "\n"


def entry_for(
    lock: Lock,
    address: str,
    platform: str,
    *,
    artifact: str = "artifact",
) -> Entry:
    """The entry of `address` for `platform`, or else the one for ANY_PLATFORM.

    `artifact` is what the messages call it (`LLVM`). Whether the entry is of what is declared now is
    `locking`'s affair. Raises LockError, which names the target, the artifact, the platform, the lock
    and the way out.
    """
    what = f"{address}: {artifact} for {platform}"
    known = lock.platforms(address)
    if not known:
        addresses = lock.addresses
        near = difflib.get_close_matches(address, addresses, n=1, cutoff=0.75)
        hint = f" (it has {near[0]})" if near else "" if addresses else " (which is empty)"
        raise LockError(
            f"{what} is not in {lock.path}{hint}: run `{LOCK_COMMAND}`, which adds every artifact "
            "that a BUILD file declares."
        )
    entry = lock.get(address, platform) or lock.get(address, ANY_PLATFORM)
    if entry is None:
        near = difflib.get_close_matches(platform, known, n=1, cutoff=0.75)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise LockError(
            f"{what} is not in {lock.path}, which has this target for {', '.join(known)}.{hint} "
            f"If the artifact exists for {platform}, run `{LOCK_COMMAND}`."
        )
    return entry


def entry_json(entry: Entry) -> str:
    """One line of ASCII with all that fetching `entry` needs, the same for equal bytes to be had
    in equal places: no pin, no target, no other entry. `parse_entry` reads it back."""
    return json.dumps(_entry_record(entry), sort_keys=True, separators=(",", ":"))


def parse_entry(text: str, pin_sha256: str = "0" * 64) -> Entry:
    """The entry in what `entry_json` wrote, with the given `pin_sha256`. Raises LockError."""
    try:
        record = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        raise LockError(f"not an entry of the lock: not JSON: {type(e).__name__}") from None
    if isinstance(record, dict):
        record["pin_sha256"] = pin_sha256
    return _entry(record, "an entry of the lock")


def placed(member: str, strip: str, subset: Sequence[tuple[str, str]]) -> str | None:
    """Where an archive's `member` goes in the tree; None where it is left out.

    All three hold relative `/` paths without `.` or `..`. What isn't below `strip` is left out. Of
    `subset`, the first pair that is the member, or a folder above it, decides; a path in the tree
    of "" is its root.
    """
    if strip:
        if not member.startswith(strip + "/"):
            return None
        member = member[len(strip) + 1 :]
    if not subset:
        return member or None
    for source, destination in subset:
        if member == source:
            return destination or None
        if member.startswith(source + "/"):
            rest = member[len(source) + 1 :]
            return f"{destination}/{rest}" if destination else rest
    return None


def diff_locks(old: Lock, new: Lock) -> list[str]:
    """What changes from `old` to `new`, as lines for people; none where nothing does.

    `+` is new, `-` is gone, `~` is changed, with the fields below. Bytes that changed under an
    unchanged name are said to have: that is a re-upload or an attack, not an update.
    """
    before = {(row.address, row.platform): row.entry for row in old.rows}
    after = {(row.address, row.platform): row.entry for row in new.rows}
    lines: list[str] = []
    for address, platform in sorted({*before, *after}):
        title = f"{address} {platform}"
        was, now = before.get((address, platform)), after.get((address, platform))
        if was is None and now is not None:
            lines.append(f"+ {title}: {_summary(now)}")
        elif now is None and was is not None:
            lines.append(f"- {title}: {_summary(was)}")
        elif was is not None and now is not None and was != now:
            if type(was) is not type(now):
                lines += [f"~ {title}", f"    {_summary(was)} -> {_summary(now)}"]
            else:
                lines += [f"~ {title}", *(f"    {line}" for line in _changes(was, now))]
    return lines


def shown_size(size: int | None) -> str:
    """`273.1 MB` (decimal), `512 bytes`, or `size unknown`."""
    if size is None:
        return "size unknown"
    if size < 1000:
        return f"{size} bytes"
    value = float(size)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.95 or unit == "TB":
            break
    return f"{value:.1f} {unit}"


# --- the file's form -------------------------------------------------------------------------


def _entry_record(entry: Entry) -> dict[str, object]:
    # Empty fields are left out: a field added later doesn't change the keys of cached entries.
    (kind,) = (kind for kind, cls in KINDS.items() if cls is type(entry))
    record: dict[str, object] = {"kind": kind}
    for item in dataclasses.fields(entry):
        value = _field(entry, item.name)
        if item.name != "pin_sha256" and value not in (None, "", []):
            record[item.name] = value
    return record


def _field(entry: Entry, name: str) -> Any:
    # As JSON has it: lists and dicts.
    value = getattr(entry, name)
    if name == "packages":
        return [dataclasses.asdict(package) for package in value]
    if name == "subset":
        return [list(pair) for pair in value]
    return value


def _render(value: object, indent: str) -> str:
    # Like json.dumps(indent=2), but what stands in a list stays on its line.
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        items = [f"{deeper}{json.dumps(key)}: {_render(v, deeper)}" for key, v in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(deeper + json.dumps(v) for v in value) + f"\n{indent}]"
    return json.dumps(value)


def _entry(record: object, place: str) -> Entry:
    kind = _mapping(record, place).get("kind")
    cls = KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise _broken(place, f"kind: expected one of {', '.join(KINDS)}, got {shown_value(kind)}")
    fields = dataclasses.fields(cls)
    optional = [f.name for f in fields if f.default is not dataclasses.MISSING or f.name == "size"]
    required = {f.name for f in fields} - set(optional) | {"kind"}
    values = _record(record, required, optional, place)
    values.pop("kind")
    for name, value in values.items():
        _check_field(cls, name, value, place)
    values.setdefault("size", None)
    if "subset" in values:
        values["subset"] = tuple((source, to) for source, to in values["subset"])
    if cls is DebianEntry:
        values.pop("size")
        values["packages"] = tuple(DebianPackage(**package) for package in values["packages"])
    entry: Entry = cls(**values)
    return entry


def _record(data: object, required: set[str], optional: Sequence[str], place: str) -> dict:
    record = _mapping(data, place)
    known = required | set(optional)
    for name in record:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise _broken(place, f"unknown field {shown_value(name)}{hint}")
    for name in sorted(required):
        if name not in record:
            raise _broken(place, f"the field {name!r} is missing")
    return dict(record)


def _mapping(data: object, place: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _broken(place, f"expected an object, got {shown_value(data)}")
    return data


class _DuplicateKey(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _object(pairs: list[Tuple[str, Any]]) -> dict[str, Any]:
    # json would keep the last of two equal keys, which is how a bad merge goes unseen.
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _DuplicateKey(key)
        result[key] = value
    return result


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _no_conflict_markers(text: str, path: str) -> None:
    for number, line in enumerate(text.splitlines(), start=1):
        if re.match(r"(<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|)( |$)|=======$", line):
            raise LockError(
                f"{path}: line {number}: a merge conflict is not resolved ({line[:7]}): take "
                f"either side whole, then run `{LOCK_COMMAND}`."
            )


def _place(path: str, address: str, platform: str) -> str:
    return f"{path}: {_shown_key(address)}: {_shown_key(platform)}"


def _shown_key(key: str) -> str:
    return key if key.isprintable() and 0 < len(key) <= 200 else shown_value(key)


def shown_value(value: object) -> str:
    """A value of a broken file as it is shown in a message: ASCII, one line, at most 60 characters,
    so that it can't break the line it stands in."""
    try:
        text = json.dumps(value)
    except RecursionError:
        text = f"a deeply nested {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def _broken(place: str, problem: str) -> LockError:
    return LockError(
        f"{place}: {problem}. Restore the file, or delete it, and run `{LOCK_COMMAND}`."
    )


# --- fields ----------------------------------------------------------------------------------

# A validator gets plain JSON data and returns what was expected, or None where the value is it.
_Validator = Callable[[Any], Union[str, None]]


def _check(validate: _Validator, value: object, place: str) -> None:
    expected = validate(value)
    if expected is not None:
        # What a URL must not have may be a secret.
        shown = shown_url(value) if validate is _location and isinstance(value, str) else value
        raise _broken(place, f"expected {expected}, got {shown_value(shown)}")


def _check_field(cls: type, name: str, value: Any, place: str) -> None:
    if name == "packages":
        _check_packages(value, f"{place}: {name}")
    else:
        _check(_FIELDS[cls][name], value, f"{place}: {name}")


def _check_packages(value: object, place: str) -> None:
    _check(_packages, value, place)
    assert isinstance(value, list)
    seen: set[tuple[str, str]] = set()
    for number, package in enumerate(value, start=1):
        package = _record(package, set(_PACKAGE), (), f"{place}: number {number}")
        at = f"{place}: {_shown_key(str(package['name']))}"
        for name, validate in _PACKAGE.items():
            _check(validate, package[name], f"{at}: {name}")
        key = (package["name"], package["arch"])
        if key in seen:
            raise _broken(at, "occurs twice")
        seen.add(key)


def _text(value: object) -> str | None:
    if isinstance(value, str) and value.isprintable() and value.strip() == value and value:
        return None
    return "printable text"


def _word(pattern: str, expected: str) -> _Validator:
    def validate(value: object) -> str | None:
        return None if isinstance(value, str) and re.fullmatch(pattern, value) else expected

    return validate


_platform = _word(r"[a-z0-9][a-z0-9_.+-]*", "a platform")
_sha256 = _word(r"[0-9a-f]{64}", "64 lower-case hex digits")


def _size(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63:
        return None
    return "a size in bytes"


def _size_or_none(value: object) -> str | None:
    return None if value is None else _size(value)


def _location(value: object) -> str | None:
    expected = "an https:, http: or file: URL without credentials, query and fragment"
    if not isinstance(value, str) or not re.fullmatch(r"[\x21-\x7e]+", value):
        return expected
    try:
        url = urlsplit(value)
        port = url.port
    except ValueError:
        return expected
    if url.scheme == "file":
        # Another host's files aren't ours to read.
        plain = url.netloc == "" and not (url.query or url.fragment)
        return None if url.path.startswith("/") and plain else expected
    if url.scheme not in ("https", "http") or not url.hostname or "@" in url.netloc or port == 0:
        return expected
    return expected if url.query or url.fragment else None


def is_relative_path(value: object) -> bool:
    """Whether it is a path below some folder, as `strip` and `subset` take it: not empty."""
    if not isinstance(value, str) or not value.isprintable() or "\\" in value:
        return False
    return not any(part in ("", ".", "..") for part in value.split("/"))


def _path_or_empty(value: object) -> str | None:
    return (
        None if value == "" or is_relative_path(value) else "a relative path without `.` and `..`"
    )


def _subset(value: object) -> str | None:
    expected = "a list of [member, path in the tree], both relative paths"
    if not isinstance(value, list):
        return expected
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2 or not is_relative_path(pair[0]):
            return expected
        if _path_or_empty(pair[1]) is not None:
            return expected
    return None


# Debian Policy 5.6.1, 5.6.12 and 5.6.8.
_PACKAGE: Mapping[str, _Validator] = {
    "name": _word(r"[a-z0-9][a-z0-9+.-]+", "a Debian package's name"),
    "version": _word(r"[0-9][A-Za-z0-9.+:~-]*", "a Debian package's version"),
    "arch": _word(r"[a-z0-9][a-z0-9-]*", "a Debian architecture"),
    "sha256": _sha256,
    "size": _size,
}


def _packages(value: object) -> str | None:
    # Its items are `_check_packages`' affair: they have places of their own.
    return None if isinstance(value, list) and value else "a list of packages, not empty"


_FILES: Mapping[str, _Validator] = {
    "sha256": _sha256,
    "size": _size_or_none,
    "pin_sha256": _sha256,
    "strip": _path_or_empty,
    "subset": _subset,
}

_FIELDS: Mapping[type, Mapping[str, _Validator]] = {
    UrlEntry: {"location": _location, **_FILES},
    WheelEntry: {
        "name": _word(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", "a Python project's name"),
        "version": _word(r"[A-Za-z0-9][A-Za-z0-9.!+_-]*", "a Python version"),
        "filename": _word(r"[A-Za-z0-9][A-Za-z0-9._+!-]*\.whl", "a wheel's file name"),
        **_FILES,
    },
    DebianEntry: {
        "suite": _word(r"[a-z0-9][a-z0-9./-]*", "a Debian suite"),
        "packages": _packages,
        "pin_sha256": _sha256,
        "subset": _subset,
    },
}


# --- the diff --------------------------------------------------------------------------------


def _summary(entry: Entry) -> str:
    if isinstance(entry, DebianEntry):
        total = sum(package.size for package in entry.packages)
        count = len(entry.packages)
        return f"{count} package{'s' * (count != 1)} of {entry.suite}, {shown_size(total)}"
    name = entry.location if isinstance(entry, UrlEntry) else entry.filename
    return f"{name} ({shown_size(entry.size)}, sha256 {entry.sha256[:12]})"


def _changes(was: Entry, now: Entry) -> list[str]:
    lines: list[str] = []
    same_name = {
        UrlEntry: lambda e: e.location,
        WheelEntry: lambda e: e.filename,
        DebianEntry: lambda e: None,
    }[type(was)]
    for item in dataclasses.fields(was):
        old, new = getattr(was, item.name), getattr(now, item.name)
        if old == new:
            continue
        if item.name == "packages":
            lines += _package_changes(old, new)
        elif item.name == "sha256":
            warning = (
                " (other bytes under the same name!)" if same_name(was) == same_name(now) else ""
            )
            lines.append(f"sha256: {old[:12]} -> {new[:12]}{warning}")
        elif item.name == "pin_sha256":
            lines.append(f"pin: {old[:12]} -> {new[:12]}")
        elif item.name == "size":
            lines.append(f"size: {shown_size(old)} -> {shown_size(new)}")
        elif item.name == "subset":
            lines += [f"subset: - {a} -> {b or '.'}" for a, b in old if (a, b) not in new]
            added = [f"subset: + {a} -> {b or '.'}" for a, b in new if (a, b) not in old]
            lines += added
            if sorted(old) == sorted(new):
                lines.append("subset: in another order")
        else:
            lines.append(f"{item.name}: {old or 'none'} -> {new or 'none'}")
    return lines


def _package_changes(old: Sequence[DebianPackage], new: Sequence[DebianPackage]) -> list[str]:
    was = {(p.name, p.arch): p for p in old}
    now = {(p.name, p.arch): p for p in new}
    lines: list[str] = []
    for key in sorted({*was, *now}):
        name = f"{key[0]}:{key[1]}"
        a, b = was.get(key), now.get(key)
        if a is None and b is not None:
            lines.append(f"+ {name} {b.version} ({shown_size(b.size)})")
        elif b is None and a is not None:
            lines.append(f"- {name} {a.version} ({shown_size(a.size)})")
        elif a is not None and b is not None and a != b:
            if a.version != b.version:
                lines.append(f"~ {name} {a.version} -> {b.version}")
            else:
                lines.append(
                    f"~ {name} {a.version}: sha256 {a.sha256[:12]} -> {b.sha256[:12]} "
                    "(other bytes under the same name!)"
                )
    return lines or ["packages: in another order"]
