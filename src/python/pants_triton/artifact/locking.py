"""From the rows that the lock must have, and the lock as it is, to the new lock.

`plan` says which questions need an answer, `new_lock` makes the lock of the answers, `problems`
says what a lock that wasn't made anew is wrong in, and `find` takes from it what a host needs. All
agree on when a row is its slot's (`_fault`): when it was made from what the slot says now, and still
says so itself. So nothing that didn't change is asked again, nobody's row changes with another's, and
nobody's edit of the lock passes for a pin.

Nothing here uses the network.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from dataclasses import dataclass
from typing import Collection, Iterable, Mapping, Sequence, Type, TypeVar, Union

from packaging.tags import Tag
from packaging.utils import canonicalize_name, parse_wheel_filename

from pants_triton.artifact.archives import Archive, ArchiveError, url_entry
from pants_triton.artifact.declaration import (
    DebianQuestion,
    Question,
    Slot,
    UrlQuestion,
    WheelQuestion,
    refusal,
)
from pants_triton.artifact.lock import (
    ANY_PLATFORM,
    LOCK_COMMAND,
    DebianEntry,
    DebianPackage,
    Entry,
    Lock,
    LockError,
    Row,
    UrlEntry,
    WheelEntry,
    component_address,
    entry_for,
    make_lock,
)
from pants_triton.artifact.platforms import (
    PANTS_PLATFORMS,
    BuildHost,
    PlatformError,
    candidates,
    platform_suffix,
    suffix_platform,
)

_T = TypeVar("_T")


class LockingError(ValueError):
    """A row can't be made or found. The message names the target, the artifact, the platform and
    the way out; it is one line for each row."""


# --- answers ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class UrlAnswer:
    """Which location has the file. `size` is in bytes, None where it isn't known."""

    location: str
    sha256: str
    size: int | None


@dataclass(frozen=True)
class WheelFile:
    """A wheel that an index lists. `sha256` and `size` (bytes) are None where it doesn't say;
    `yanked` as in PEP 592."""

    filename: str
    sha256: str | None
    size: int | None
    yanked: bool = False


@dataclass(frozen=True)
class WheelAnswer:
    """All wheels of the version asked for, whatever their platform."""

    files: tuple[WheelFile, ...]


@dataclass(frozen=True)
class DebianAnswer:
    """The packages with their dependencies, in the order in which they are to be unpacked."""

    packages: tuple[DebianPackage, ...]


@dataclass(frozen=True)
class Absent:
    """Every location said that it has no such file. That one couldn't be asked is no answer.
    `reason` is a sentence for people."""

    reason: str


Answer = Union[UrlAnswer, WheelAnswer, DebianAnswer, Absent]


# --- making the lock -------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """`kept` are the old lock's rows that stay as they are, `asked` the slots to find answers for.
    Rows that are in neither are dropped."""

    kept: tuple[Row, ...]
    asked: tuple[Slot, ...]


def plan(slots: Iterable[Slot], lock: Lock, refresh: Collection[str] | None = ()) -> Plan:
    """What is left to do to `lock` for `slots`, those of all targets.

    `refresh` lists addresses of targets whose questions are all asked again; None is every target.

    An optional slot without a row isn't asked where a row of the same address is from the present
    pin: the lock was made for that pin then, and upstream didn't have this platform. To look again,
    refresh the target.
    """
    slots = tuple(slots)
    fresh = {slot.target for slot in slots} if refresh is None else set(refresh)
    state = _compare((slot for slot in slots if slot.target not in fresh), lock)
    open_slots = {*state.missing, *(slot for slot, _ in state.stale)}
    return Plan(
        kept=tuple(row for _, row in state.current),
        asked=tuple(slot for slot in slots if slot.target in fresh or slot in open_slots),
    )


def known_answer(slot: Slot) -> Answer | None:
    """The answer where no network is needed: the pin gives the sha256, and there is one location
    only. Its size is unknown. None where the question must be asked."""
    question = slot.question
    if isinstance(question, UrlQuestion) and question.sha256 and len(question.locations) == 1:
        return UrlAnswer(question.locations[0], question.sha256, None)
    return None


def row(slot: Slot, answer: Answer) -> Row:
    """The row of `slot`. Raises LockingError where the answer is no such file, or not one that
    serves the platform and can be verified."""
    if isinstance(answer, Absent):
        raise LockingError(
            f"{_shown(slot)} doesn't exist: {answer.reason.rstrip('.')}. Correct the target or its "
            f"pin, then run `{LOCK_COMMAND}`."
        )
    question = slot.question
    if isinstance(question, UrlQuestion) and isinstance(answer, UrlAnswer):
        entry = _url(slot, question, answer)
    elif isinstance(question, WheelQuestion) and isinstance(answer, WheelAnswer):
        entry = _wheel(slot, question, answer)
    elif isinstance(question, DebianQuestion) and isinstance(answer, DebianAnswer):
        entry = _debian(slot, question, answer)
    else:
        raise TypeError(f"{type(answer).__name__} is no answer to {type(question).__name__}")
    refused = refusal(slot.platform, entry)
    fault = _fault(slot, entry)
    if refused is None and fault is not None:
        refused = fault.edited, "is not what was asked for"
    if refused is not None:
        raise LockingError(
            f"{_shown(slot)} can't be locked as it was found: {': '.join(refused)}. That is a fault "
            "of what serves it: have it corrected, or declare another source."
        )
    return Row(slot.address, slot.platform, entry)


def new_lock(path: str, plan: Plan, answers: Mapping[Slot, Answer]) -> Lock:
    """The lock at `path` of `plan` and an answer for each slot in `plan.asked`.

    An optional slot that is Absent gets no row, but each address gets one. All or nothing: raises
    LockingError with a line for every slot that can't be locked, and KeyError where an answer is
    missing.
    """
    rows = list(plan.kept)
    absent: list[tuple[Slot, Absent]] = []
    errors: list[str] = []
    failed: set[str] = set()
    for slot in plan.asked:
        answer = answers[slot]
        if isinstance(answer, Absent) and slot.optional:
            absent.append((slot, answer))
            continue
        try:
            rows.append(row(slot, answer))
        except LockingError as e:
            errors.append(str(e))
            failed.add(slot.address)
    # Each address once, though all of its slots are absent; one that failed has its error already.
    there = {row.address for row in rows} | failed
    for slot, answer in absent:
        if slot.address not in there:
            there.add(slot.address)
            gone = [other for other, _ in absent if other.address == slot.address]
            errors.append(
                f"{_shown(*gone)} doesn't exist on any of these platforms: "
                f"{answer.reason.rstrip('.')}. Correct {slot.pin_path or 'the target'}, or name a "
                f"store that has it, then run `{LOCK_COMMAND}`."
            )
    if errors:
        raise LockingError("\n".join(errors))
    return make_lock(path, rows)


# --- judging the lock ------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with the lock. `target` is the address of the target that it is
    about, "" where there is no such target. The message is one line with the way out."""

    target: str
    message: str


def problems(slots: Iterable[Slot], lock: Lock) -> tuple[Problem, ...]:
    """What `lock` is wrong in for `slots`, those of all targets; nothing exactly where `plan` asks
    nothing and drops nothing. One for each address and fault, sorted."""
    slots = tuple(slots)
    state = _compare(slots, lock)
    found = [
        *_missing_problems(state.missing, lock),
        *_stale_problems(state.stale, lock),
        *_extra_problems(state.extra, slots, lock),
    ]
    return tuple(sorted(found, key=lambda problem: (problem.target, problem.message)))


@dataclass(frozen=True)
class Found:
    """What a host needs of a declaration: one entry of the lock. `platform` is the slot's, `any`
    included."""

    address: str
    artifact: str
    platform: str
    entry: Entry


def find(slots: Sequence[Slot], lock: Lock, host: BuildHost, suffix: str = "") -> tuple[Found, ...]:
    """The entries that `host` needs of `slots`, those of one declaration: one for each address, in
    the slots' order.

    `suffix` is one of upstream's (`ubuntu-x64`), "" for what suits the host; it matters to
    LLVM only.

    Raises PlatformError for a suffix that the declaration hasn't, LockingError where the
    declaration has nothing for the host, and LockError where the lock lacks the row or has another
    than what is declared. All name the target and the way out.
    """
    by_address: dict[str, list[Slot]] = {}
    for slot in slots:
        by_address.setdefault(slot.address, []).append(slot)
    found = []
    for address, choices in by_address.items():
        if suffix and choices[0].by_suffix:
            slot = _by_suffix(choices, suffix)
        else:
            slot = _for_host(choices, lock, host)
        entry = entry_for(lock, address, slot.platform, artifact=slot.artifact)
        fault = _fault(slot, entry)
        if fault is not None:
            raise LockError(f"{_shown(slot)} {fault.told(lock.path)}: run `{LOCK_COMMAND}`.")
        found.append(Found(address, slot.artifact, slot.platform, entry))
    return tuple(found)


# --- the old lock's rows ---------------------------------------------------------------------


@dataclass(frozen=True)
class _State:
    current: tuple[tuple[Slot, Row], ...]
    # With what is wrong in them.
    stale: tuple[tuple[Slot, _Fault], ...]
    # Without a row that they should have.
    missing: tuple[Slot, ...]
    # Of no slot.
    extra: tuple[Row, ...]


def _compare(slots: Iterable[Slot], lock: Lock) -> _State:
    rows = {(row.address, row.platform): row for row in lock.rows}
    current, stale, missing = [], [], []
    for slot in slots:
        row = rows.pop((slot.address, slot.platform), None)
        if row is None:
            missing.append(slot)
            continue
        fault = _fault(slot, row.entry)
        if fault is None:
            current.append((slot, row))
        else:
            stale.append((slot, fault))
    # These were asked about when their address's other rows were made.
    answered = {slot.address for slot, _ in current}
    missing = [slot for slot in missing if not (slot.optional and slot.address in answered)]
    return _State(tuple(current), tuple(stale), tuple(missing), tuple(rows.values()))


def _missing_problems(missing: Sequence[Slot], lock: Lock) -> Iterable[Problem]:
    for address in _distinct(slot.address for slot in missing):
        those = [slot for slot in missing if slot.address == address]
        yield Problem(
            those[0].target,
            f"{_shown(*those)} is not in {lock.path}: run `{LOCK_COMMAND}`.",
        )


def _stale_problems(stale: Sequence[tuple[Slot, _Fault]], lock: Lock) -> Iterable[Problem]:
    kinds = _distinct((slot.address, fault.edited) for slot, fault in stale)
    for address, edited in kinds:
        those = [(s, f) for s, f in stale if (s.address, f.edited) == (address, edited)]
        slot, fault = those[0]
        at = f" for {slot.platform}" if len(those) > 1 else ""
        yield Problem(
            slot.target,
            f"{_shown(*(slot for slot, _ in those))} {fault.told(lock.path, at)}: run "
            f"`{LOCK_COMMAND}`.",
        )


@dataclass(frozen=True)
class _Fault:
    """Why an entry isn't what its slot says. `edited` is the field that was changed by hand; "" where
    the entry is from another state of the pin or declaration."""

    pin: str
    then: str
    now: str
    edited: str = ""

    def told(self, path: str, at: str = "") -> str:
        if self.edited:
            return f"was edited in {path}: its `{self.edited}` is not what {self.pin} says{at}"
        return (
            f"is locked in {path} from another state of {self.pin} (then {self.then}, now "
            f"{self.now}{at})"
        )


def _fault(slot: Slot, entry: Entry) -> _Fault | None:
    """What is wrong with `entry`, which the lock has for `slot`; None where nothing is."""
    pin = f"its pin {slot.pin_path}" if slot.pin_path else "its declaration"
    fault = _Fault(pin, entry.pin_sha256[:12], slot.pin_sha256[:12])
    if entry.pin_sha256 != slot.pin_sha256:
        return fault
    edited = _edited(slot, entry)
    return dataclasses.replace(fault, edited=edited) if edited else None


def _edited(slot: Slot, entry: Entry) -> str:
    """The first field of `entry` that can't be from any answer to the slot's question, or ""."""
    question = slot.question
    if type(entry) is not _ENTRIES[type(question)]:
        return "kind"
    if entry.subset != slot.subset:
        return "subset"
    if not isinstance(entry, DebianEntry) and entry.strip != slot.strip:
        return "strip"
    if isinstance(question, UrlQuestion) and isinstance(entry, UrlEntry):
        if entry.location not in question.locations:
            return "location"
        if question.sha256 not in (None, entry.sha256):
            return "sha256"
        known = known_answer(slot)
        # What was locked without asking has nothing but what the pin says.
        return "size" if isinstance(known, UrlAnswer) and entry.size != known.size else ""
    if isinstance(question, WheelQuestion) and isinstance(entry, WheelEntry):
        if entry.name != question.distribution:
            return "name"
        if entry.version != question.version:
            return "version"
        return "" if _is_wheel_of(slot.platform, entry) else "filename"
    if isinstance(question, DebianQuestion) and isinstance(entry, DebianEntry):
        if entry.suite != question.suite:
            return "suite"
        return "packages" if _unfit_packages(slot, question, entry.packages) else ""
    return ""


_ENTRIES: Mapping[Type[Question], Type[Entry]] = {
    UrlQuestion: UrlEntry,
    WheelQuestion: WheelEntry,
    DebianQuestion: DebianEntry,
}


def _is_wheel_of(platform: str, entry: WheelEntry) -> bool:
    if not _fitting(platform, [WheelFile(entry.filename, None, None)]):
        return False
    return parse_wheel_filename(entry.filename)[0] == canonicalize_name(entry.name)


def _unfit_packages(
    slot: Slot, question: DebianQuestion, packages: Sequence[DebianPackage]
) -> list[str]:
    """Which packages an answer can't have, or lacks."""
    archs = _archs(slot, question)
    versions = {package.name: package.version for package in packages}
    lacking = []
    for wanted in question.packages:
        name, equals, version = wanted.partition("=")
        if name not in versions or (equals and versions[name] != version):
            lacking.append(wanted)
    return [*lacking, *(f"{p.name}:{p.arch}" for p in packages if p.arch not in archs)]


def _archs(slot: Slot, question: DebianQuestion) -> tuple[str, ...]:
    return ("all",) if slot.platform == ANY_PLATFORM else ("all", question.arch)


def _extra_problems(extra: Sequence[Row], slots: Sequence[Slot], lock: Lock) -> Iterable[Problem]:
    targets = _distinct(slot.target for slot in slots)
    addresses = {slot.address: slot.target for slot in slots}
    for address in _distinct(row.address for row in extra):
        platforms = ", ".join(row.platform for row in extra if row.address == address)
        owners = [target for target in targets if address.startswith(component_address(target, ""))]
        if address in addresses:
            target, why = addresses[address], "which it no longer has"
        elif owners:
            target = owners[-1]
            component = address[len(component_address(target, "")) :]
            why = f"but the target no longer has {component}"
        elif address in targets:
            target, why = address, "but the target has components now"
        else:
            target, why = "", "but no BUILD file declares that target"
        yield Problem(
            target,
            f"{address} is locked in {lock.path} for {platforms}, {why}: run `{LOCK_COMMAND}`.",
        )


def _distinct(values: Iterable[_T]) -> list[_T]:
    return list(dict.fromkeys(values))


def _shown(*slots: Slot) -> str:
    """`3rdparty/llvm:llvm: LLVM 0a1b2c3d for linux_arm64, linux_x86_64`, of slots of one
    target."""
    artifacts = _distinct(slot.artifact for slot in slots)
    return f"{slots[0].target}: " + ", ".join(
        f"{artifact} for "
        + ", ".join(sorted(slot.platform for slot in slots if slot.artifact == artifact))
        for artifact in artifacts
    )


# --- choosing for a host ---------------------------------------------------------------------


def _by_suffix(choices: Sequence[Slot], suffix: str) -> Slot:
    known = {platform_suffix(slot.platform): slot for slot in choices}
    if suffix in known:
        return known[suffix]
    some = choices[0]
    try:
        suffix_platform(suffix)
    except PlatformError as e:
        raise PlatformError(f"{some.target}: {e} Known here: {', '.join(known)}.") from None
    near = difflib.get_close_matches(suffix, list(known), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    pin = some.pin_path or "its declaration"
    raise PlatformError(
        f"{some.target}: {some.artifact} isn't built for the system suffix {suffix!r}: {pin} has "
        f"{', '.join(known)}.{hint}"
    )


def _for_host(choices: Sequence[Slot], lock: Lock, host: BuildHost) -> Slot:
    declared = {slot.platform: slot for slot in choices}
    wanted = [declared[platform] for platform in candidates(host) if platform in declared]
    if not wanted:
        some = choices[0]
        raise LockingError(
            f"{some.target}: {some.artifact} isn't declared for {host.platform} (it takes "
            f"{' or '.join(candidates(host))}), only for {', '.join(sorted(declared))}: add the "
            "platform to the target if the artifact exists for it, or declare another source."
        )
    # What upstream may not have is passed over where the lock says that it hasn't; all else is
    # missing from the lock, which its look-up reports.
    locked = lock.platforms(choices[0].address)
    return next(
        (slot for slot in wanted if slot.platform in locked or not slot.optional), wanted[0]
    )


# --- from an answer to an entry --------------------------------------------------------------


def _url(slot: Slot, question: UrlQuestion, answer: UrlAnswer) -> Entry:
    archive = Archive(
        component=slot.artifact,
        platform=slot.platform,
        locations=question.locations,
        strip=slot.strip,
        subset=slot.subset,
        sha256=question.sha256,
    )
    try:
        return url_entry(archive, answer.location, answer.sha256, answer.size, slot.pin_sha256)
    except ArchiveError as e:
        raise LockingError(
            f"{slot.target}: {e} Correct {slot.pin_path or 'the target'}, or ask who serves it."
        ) from None


def _debian(slot: Slot, question: DebianQuestion, answer: DebianAnswer) -> Entry:
    allowed = _archs(slot, question)
    others = [f"{p.name}:{p.arch}" for p in answer.packages if p.arch not in allowed]
    if others:
        raise LockingError(
            f"{_shown(slot)} would hold packages of another architecture than "
            f"{' or '.join(allowed)}: {_listed(others)}: name the platforms that it is for in "
            f"`platforms`, then run `{LOCK_COMMAND}`."
        )
    lacking = _unfit_packages(slot, question, answer.packages)
    if lacking:
        names = _listed([f"{p.name}={p.version}" for p in answer.packages])
        raise LockingError(
            f"{_shown(slot)} would not hold {_listed(lacking)}, which are names that others stand in "
            f"for; it would hold {names}: name the packages that are meant in `packages`, then run "
            f"`{LOCK_COMMAND}`."
        )
    return DebianEntry(question.suite, answer.packages, slot.pin_sha256, slot.subset)


def _wheel(slot: Slot, question: WheelQuestion, answer: WheelAnswer) -> Entry:
    file = _choose_wheel(slot, answer.files)
    if file.sha256 is None:
        raise LockingError(
            f"{_shown(slot)}: the package index gives no sha256 of {file.filename}, so what it "
            "serves can't be verified: use an index that does in `[python-repos].indexes`."
        )
    return WheelEntry(
        name=question.distribution,
        version=question.version,
        filename=file.filename,
        sha256=file.sha256,
        size=file.size,
        pin_sha256=slot.pin_sha256,
        strip=slot.strip,
        subset=slot.subset,
    )


# --- wheels ----------------------------------------------------------------------------------

#: What the older names of `manylinux` tags stand for (PEP 600).
_LEGACY_GLIBC: Mapping[str, tuple[int, int]] = {
    "manylinux1": (2, 5),
    "manylinux2010": (2, 12),
    "manylinux2014": (2, 17),
}
# `linux_x86_64` says nothing about the glibc it needs.
_UNKNOWN_GLIBC = (99, 0)

#: Of each platform: the machines in the tags of wheels that run there, the most specific first.
_LINUX_MACHINES: Mapping[str, str] = {"linux_x86_64": "x86_64", "linux_arm64": "aarch64"}
_MACOS_MACHINES: Mapping[str, tuple[str, ...]] = {
    "macos_x86_64": ("x86_64", "universal2"),
    "macos_arm64": ("arm64", "universal2"),
}

# The lower, the better: any other than `any` first, then the oldest system, then the machine's own.
_Rank = tuple[int, tuple[int, int], int]
_ANY_RANK: _Rank = (1, (0, 0), 0)


@dataclass(frozen=True)
class _Candidate:
    file: WheelFile
    rank: _Rank
    # The tags' interpreters and ABIs; empty where any Python 3 will do.
    pythons: frozenset[str]
    # PEP 427: of two that are alike else the higher one is newer.
    build: tuple[int, str]


def _choose_wheel(slot: Slot, files: Sequence[WheelFile]) -> WheelFile:
    found = _fitting(slot.platform, files)
    if not found:
        raise LockingError(f"{_shown(slot)} doesn't exist: {_elsewhere(files)}")
    # Who names a version exactly gets it though it was withdrawn.
    found = [candidate for candidate in found if not candidate.file.yanked] or found
    found = [candidate for candidate in found if not candidate.pythons] or found
    if len({candidate.pythons for candidate in found}) > 1:
        names = _listed(sorted(candidate.file.filename for candidate in found))
        raise LockingError(
            f"{_shown(slot)} is ambiguous, a wheel for each of several versions of Python: {names}: "
            "declare the one wanted as an archive_artifact by its URL."
        )
    best = min(candidate.rank for candidate in found)
    found = [candidate for candidate in found if candidate.rank == best]
    return max(found, key=lambda candidate: (candidate.build, candidate.file.filename)).file


def _fitting(platform: str, files: Iterable[WheelFile]) -> list[_Candidate]:
    found = []
    for file in files:
        try:
            _, _, build, tags = parse_wheel_filename(file.filename)
        except ValueError:
            # Indexes have files that were named before there were rules.
            continue
        ranks = {tag: _rank(platform, tag) for tag in tags}
        fitting = {tag: rank for tag, rank in ranks.items() if rank is not None}
        if not fitting:
            continue
        pythons = frozenset(f"{tag.interpreter}-{tag.abi}" for tag in fitting)
        generic = any(tag.interpreter.startswith("py3") and tag.abi == "none" for tag in fitting)
        found.append(
            _Candidate(
                file,
                rank=min(fitting.values()),
                pythons=frozenset() if generic else pythons,
                build=(int(build[0]), str(build[1])) if build else (-1, ""),
            )
        )
    return found


def _rank(platform: str, tag: Tag) -> _Rank | None:
    """How well a wheel's `tag` suits `platform`; None where it doesn't."""
    if tag.platform == "any":
        return _ANY_RANK
    if platform in _LINUX_MACHINES:
        glibc = _glibc(tag.platform, _LINUX_MACHINES[platform])
        return None if glibc is None else (0, glibc, 0)
    macos = re.fullmatch(r"macosx_([0-9]+)_([0-9]+)_(\w+)", tag.platform)
    machines = _MACOS_MACHINES.get(platform, ())
    if macos is None or macos.group(3) not in machines:
        return None
    return 0, (int(macos.group(1)), int(macos.group(2))), machines.index(macos.group(3))


def _glibc(tag: str, machine: str) -> tuple[int, int] | None:
    """The oldest glibc, (major, minor), that a wheel with this platform tag runs on; None where it
    is none for `machine` and glibc."""
    if not tag.endswith(f"_{machine}"):
        return None
    system = tag[: -len(machine) - 1]
    if system == "linux":
        return _UNKNOWN_GLIBC
    modern = re.fullmatch(r"manylinux_([0-9]+)_([0-9]+)", system)
    if modern is not None:
        return int(modern.group(1)), int(modern.group(2))
    return _LEGACY_GLIBC.get(system)


def _elsewhere(files: Sequence[WheelFile]) -> str:
    """What there is instead, and the way out."""
    if not files:
        return (
            "the package index has no wheel of that version: correct `distribution` or `version`, "
            "or add an index that has it to `[python-repos].indexes`."
        )
    platforms = [platform for platform in PANTS_PLATFORMS if _fitting(platform, files)]
    way_out = f"name any of {', '.join(platforms)} in `platforms`" if platforms else "take another"
    names = _listed(sorted(file.filename for file in files))
    return f"the package index has {names}: {way_out}, then run `{LOCK_COMMAND}`."


def _listed(names: Sequence[str]) -> str:
    """At most six of `names`."""
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + more
