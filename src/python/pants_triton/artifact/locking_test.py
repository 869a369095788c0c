from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pants_triton.artifact.declaration import (
    ArchiveDeclaration,
    DebianDeclaration,
    LlvmDeclaration,
    NvidiaDeclaration,
    PinFile,
    Slot,
    UrlQuestion,
    WheelDeclaration,
    WheelQuestion,
    slots,
)
from pants_triton.artifact.lock import (
    DebianEntry,
    DebianPackage,
    Lock,
    LockError,
    Row,
    UrlEntry,
    WheelEntry,
    make_lock,
    read_lock,
    write_lock,
)
from pants_triton.artifact.locking import (
    Absent,
    Answer,
    DebianAnswer,
    Found,
    LockingError,
    Plan,
    Problem,
    UrlAnswer,
    WheelAnswer,
    WheelFile,
    find,
    known_answer,
    new_lock,
    plan,
    problems,
    row,
)
from pants_triton.artifact.pins import LLVM_HASH_PATH, LLVM_INFO_PATH, NVIDIA_PATH
from pants_triton.artifact.platforms import BuildHost, PlatformError

PATH = "3rdparty/artifacts.lock"
A, B = "a" * 64, "b" * 64
REVISION, NEXT_REVISION = "62b7cf9623fc310525f39ed69aaecc318a909731", "0" * 40
LLVM, NVIDIA = "3rdparty/llvm:llvm", "3rdparty/nvidia:nvidia"
JSON, PTXAS, SYSROOT = "3rdparty/json:json", "3rdparty/nvidia:ptxas", "3rdparty/cc:sysroot"

UBUNTU = BuildHost("linux_x86_64", (2, 39), "ubuntu")
ALMALINUX = BuildHost("linux_x86_64", (2, 28), "almalinux")
MAC = BuildHost("macos_arm64")


def an_llvm(revision: str = REVISION) -> tuple[Slot, ...]:
    """Of the pin that doesn't say which platforms upstream built."""
    return slots(LlvmDeclaration(LLVM, PinFile(LLVM_HASH_PATH, revision)))


def an_llvm_info(stores: tuple[str, ...] = (), **digests: str) -> tuple[Slot, ...]:
    """Of the pin that does, with the digests."""
    sha256 = {name.replace("_", "-"): digest for name, digest in digests.items()}
    pin = {"llvm_hash": REVISION, "build_number": 2, "sha256sum": sha256}
    return slots(LlvmDeclaration(LLVM, PinFile(LLVM_INFO_PATH, json.dumps(pin)), stores))


def an_nvidia(
    platforms: tuple[str, ...] = ("linux_x86_64", "linux_arm64"), **versions: str
) -> tuple[Slot, ...]:
    pin = versions or {"ptxas": "12.8.93", "cudart": "12.8.57"}
    return slots(NvidiaDeclaration(NVIDIA, PinFile(NVIDIA_PATH, json.dumps(pin)), platforms))


def an_archive(url: str = "https://example.com/include.zip") -> tuple[Slot, ...]:
    return slots(ArchiveDeclaration(JSON, (("any", url),)))


def a_wheel(*platforms: str) -> tuple[Slot, ...]:
    return slots(WheelDeclaration(PTXAS, "nvcc", "12.8", platforms or ("linux_x86_64",)))


def a_debian(*platforms: str) -> tuple[Slot, ...]:
    return slots(
        DebianDeclaration(SYSROOT, "bookworm", ("clang-19",), platforms or ("linux_x86_64",))
    )


def everything() -> tuple[Slot, ...]:
    return (*an_llvm(), *an_nvidia(), *an_archive(), *a_wheel(), *a_debian())


def an_answer(slot: Slot) -> Answer:
    """What a world in which everything exists says."""
    known = known_answer(slot)
    if known is not None:
        return known
    if isinstance(slot.question, UrlQuestion):
        return UrlAnswer(slot.question.locations[-1], slot.question.sha256 or A, 1000)
    if isinstance(slot.question, WheelQuestion):
        return WheelAnswer(files("nvcc-12.8-py3-none-manylinux2014_x86_64.whl"))
    return DebianAnswer((DebianPackage("clang-19", "1:19", slot.question.arch, A, 1000),))


def a_lock(slots: Iterable[Slot]) -> Lock:
    return make_lock(PATH, [row(slot, an_answer(slot)) for slot in slots])


def files(*names: str) -> tuple[WheelFile, ...]:
    return tuple(WheelFile(name, A, 1000) for name in names)


def on(slots: Iterable[Slot], *platforms: str) -> tuple[Slot, ...]:
    return tuple(slot for slot in slots if slot.platform in platforms)


def error_of(slots: Sequence[Slot], answer: Answer) -> str:
    """Of the only slot. All errors name the target, once, in one line."""
    (slot,) = slots
    with pytest.raises(LockingError) as e:
        row(slot, answer)
    text = str(e.value)
    assert text.startswith(f"{slot.target}: ")
    assert text.count(slot.target) == 1
    assert "\n" not in text
    return text


# --- planning --------------------------------------------------------------------------------


def test_the_first_lock_asks_everything() -> None:
    assert plan(everything(), Lock(PATH)) == Plan(kept=(), asked=everything())


def test_a_lock_that_is_right_stays_as_it_is() -> None:
    lock = a_lock(everything())
    todo = plan(everything(), lock)
    assert todo.asked == ()
    assert new_lock(PATH, todo, {}) == lock


def test_one_component_moves() -> None:
    lock = a_lock(everything())
    moved = an_nvidia(ptxas="12.9.86", cudart="12.8.57")
    todo = plan((*an_llvm(), *moved, *an_archive(), *a_wheel(), *a_debian()), lock)
    assert [(slot.artifact, slot.platform) for slot in todo.asked] == [
        ("ptxas 12.9.86", "linux_x86_64"),
        ("ptxas 12.9.86", "linux_arm64"),
    ]
    assert set(todo.kept) == {row for row in lock.rows if row.address != f"{NVIDIA}#ptxas"}
    new = new_lock(PATH, todo, {slot: an_answer(slot) for slot in todo.asked})
    assert [a == b for a, b in zip(lock.rows, new.rows)].count(False) == 2


def test_what_no_target_declares_any_more_is_dropped() -> None:
    lock = a_lock(everything())
    todo = plan((*an_archive(), *on(an_nvidia(), "linux_arm64")), lock)
    assert todo.asked == ()
    assert [(row.address, row.platform) for row in new_lock(PATH, todo, {}).rows] == [
        (JSON, "any"),
        (f"{NVIDIA}#cudart", "linux_arm64"),
        (f"{NVIDIA}#ptxas", "linux_arm64"),
    ]


def test_refresh() -> None:
    lock = a_lock(everything())
    assert plan(everything(), lock, refresh=None) == Plan((), everything())
    todo = plan(everything(), lock, refresh=[NVIDIA])
    assert todo.asked == an_nvidia()
    assert len(todo.kept) == len(lock.rows) - len(todo.asked)


def test_a_platform_that_upstream_does_not_have_is_asked_once() -> None:
    """Of a pin without digests. It's asked again for the next pin, and on request."""
    answers = {
        slot: an_answer(slot) if slot.platform == "macos_arm64" else Absent("404")
        for slot in an_llvm()
    }
    lock = new_lock(PATH, plan(an_llvm(), Lock(PATH)), answers)
    assert lock.platforms(LLVM) == ("macos_arm64",)
    assert plan(an_llvm(), lock) == Plan(lock.rows, ())
    assert problems(an_llvm(), lock) == ()
    assert plan(an_llvm(NEXT_REVISION), lock) == Plan((), an_llvm(NEXT_REVISION))
    assert plan(an_llvm(), lock, [LLVM]) == Plan((), an_llvm())


def test_half_of_a_merge() -> None:
    """A row of another pin is asked again, though the rest is of the present one."""
    now, then = an_llvm(), an_llvm(NEXT_REVISION)
    lock = a_lock([*on(now, "macos_arm64"), *on(then, "macos_x86_64")])
    todo = plan(now, lock)
    assert todo.asked == on(now, "macos_x86_64")
    new = new_lock(PATH, todo, {todo.asked[0]: Absent("404")})
    assert new == a_lock(on(now, "macos_arm64"))


_STATES = {
    "present": everything(),
    "past": (
        *an_llvm(NEXT_REVISION),
        *an_nvidia(ptxas="11.0.1", cudart="12.8.57", nvdisasm="11.0.1"),
        *an_archive("https://example.com/other.zip"),
    ),
}


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_old_lock(data: st.DataObject) -> None:
    """Rows of the present, of the past, and none, in any mixture; some targets gone."""
    rows: dict[tuple[str, str], Row] = {}
    for state in ("past", "present"):
        for slot in data.draw(st.lists(st.sampled_from(_STATES[state]), unique=True)):
            rows[slot.address, slot.platform] = row(slot, an_answer(slot))
    lock = make_lock(PATH, rows.values())
    gone = data.draw(st.sampled_from(["", LLVM, NVIDIA, JSON]))
    wanted = tuple(slot for slot in everything() if slot.target != gone)

    todo = plan(wanted, lock)
    digests = {(slot.address, slot.platform): slot.pin_sha256 for slot in wanted}
    # What is kept are exactly the rows that the slots would give.
    assert set(todo.kept) == {
        row for row in lock.rows if digests.get((row.address, row.platform)) == row.entry.pin_sha256
    }
    kept = {(row.address, row.platform) for row in todo.kept}
    assert not kept & {(slot.address, slot.platform) for slot in todo.asked}
    open_keys = set(digests) - kept - {(slot.address, slot.platform) for slot in todo.asked}
    assert all(address == LLVM and LLVM in lock.addresses for address, _ in open_keys)

    # The check is red exactly when the goal would change something.
    changes = bool(todo.asked) or len(todo.kept) < len(lock.rows)
    assert bool(problems(wanted, lock)) == changes

    # The goal repairs whatever it was, and once is enough.
    new = new_lock(PATH, todo, {slot: an_answer(slot) for slot in todo.asked})
    assert problems(wanted, new) == ()
    again = plan(wanted, new)
    assert (set(again.kept), again.asked) == (set(new.rows), ())
    assert read_lock(write_lock(new), PATH) == new


# --- answers ---------------------------------------------------------------------------------


def test_what_the_pin_knows_needs_no_network() -> None:
    (slot,) = an_llvm_info(ubuntu_x64=A)
    assert isinstance(slot.question, UrlQuestion)
    assert known_answer(slot) == UrlAnswer(slot.question.locations[0], A, None)
    assert row(slot, UrlAnswer(slot.question.locations[0], A, None)).entry == UrlEntry(
        location=slot.question.locations[0],
        sha256=A,
        size=None,
        pin_sha256=slot.pin_sha256,
        strip="llvm-62b7cf96-ubuntu-x64-2",
    )


@pytest.mark.parametrize(
    "slot",
    [
        pytest.param(an_llvm()[0], id="no sha256"),
        pytest.param(
            an_llvm_info(("https://h/a", "https://h/b"), ubuntu_x64=A)[0], id="which of two stores"
        ),
        pytest.param(a_wheel()[0], id="wheel"),
        pytest.param(a_debian()[0], id="Debian packages"),
    ],
)
def test_what_must_be_asked(slot: Slot) -> None:
    assert known_answer(slot) is None


def test_an_archive_that_is_not_the_one_in_the_pin() -> None:
    found = an_llvm_info(ubuntu_x64=A)
    assert isinstance(found[0].question, UrlQuestion)
    (location,) = found[0].question.locations
    assert error_of(found, UrlAnswer(location, B, 1)) == (
        f"{LLVM}: {location} has the sha256 {B}, but the pin wants {A} for LLVM 62b7cf96 on "
        "linux_x86_64-ubuntu: the archive isn't the one upstream built. Correct "
        "cmake/llvm-info.json, or ask who serves it."
    )


def test_a_file_that_does_not_exist() -> None:
    assert error_of(an_archive(), Absent("https://example.com/include.zip: 404 Not Found.")) == (
        f"{JSON}: the archive include.zip for any doesn't exist: https://example.com/include.zip: "
        "404 Not Found. Correct the target or its pin, then run `./pants lock-artifacts`."
    )


def test_an_answer_that_the_lock_would_not_take() -> None:
    assert error_of(an_archive(), UrlAnswer("https://example.com/include.zip", "A", 1)) == (
        f"{JSON}: the archive include.zip for any can't be locked as it was found: sha256: expected "
        '64 lower-case hex digits, got "A". That is a fault of what serves it: have it corrected, '
        "or declare another source."
    )


def test_the_answer_to_another_question() -> None:
    with pytest.raises(TypeError, match="WheelAnswer is no answer to UrlQuestion"):
        row(an_archive()[0], WheelAnswer(()))


def test_debian_packages() -> None:
    (slot,) = a_debian()
    packages = (
        DebianPackage("base-files", "12.4", "amd64", B, 1),
        DebianPackage("clang-19", "1:19", "all", A, 1),
    )
    entry = row(slot, DebianAnswer(packages)).entry
    assert entry == DebianEntry("bookworm", packages, slot.pin_sha256)


def test_a_debian_tree_for_every_platform_has_nothing_for_one() -> None:
    packages = (
        DebianPackage("libstdc++-12-dev", "12.2", "amd64", B, 1),
        DebianPackage("clang-19", "1:19", "all", A, 1),
    )
    assert error_of(a_debian("any"), DebianAnswer(packages)) == (
        f"{SYSROOT}: the tree of bookworm's clang-19 for any would hold packages of another "
        "architecture than all: libstdc++-12-dev:amd64: name the platforms that it is for in "
        "`platforms`, then run `./pants lock-artifacts`."
    )
    assert row(a_debian("any")[0], DebianAnswer(packages[1:])).platform == "any"
    # A name that only stands for others, such as `awk` for `mawk`.
    assert error_of(a_debian(), DebianAnswer((DebianPackage("clang", "19", "amd64", A, 1),))) == (
        f"{SYSROOT}: the tree of bookworm's clang-19 for linux_x86_64 would not hold clang-19, which "
        "are names that others stand in for; it would hold clang=19: name the packages that are "
        "meant in `packages`, then run `./pants lock-artifacts`."
    )
    assert "clang-19:arm64" in error_of(
        a_debian(), DebianAnswer((DebianPackage("clang-19", "1:19", "arm64", A, 1),))
    )


# --- the new lock ----------------------------------------------------------------------------


def test_all_or_nothing() -> None:
    """One line for each thing that is wrong, so that one run shows them all."""
    wanted = (*an_llvm(), *an_archive(), *a_wheel())
    answers: dict[Slot, Answer] = {slot: Absent("No store has it.") for slot in an_llvm()}
    answers[an_archive()[0]] = Absent("404")
    answers[a_wheel()[0]] = an_answer(a_wheel()[0])
    with pytest.raises(LockingError) as e:
        new_lock(PATH, Plan((), wanted), answers)
    assert str(e.value).splitlines() == [
        f"{JSON}: the archive include.zip for any doesn't exist: 404. Correct the target or its "
        "pin, then run `./pants lock-artifacts`.",
        f"{LLVM}: LLVM 62b7cf96 for linux_arm64-almalinux, linux_arm64-ubuntu, "
        "linux_x86_64-almalinux, linux_x86_64-centos, linux_x86_64-ubuntu, macos_arm64, "
        "macos_x86_64 doesn't exist on any of these platforms: No store has it. Correct "
        "cmake/llvm-hash.txt, or name a store that has it, then run `./pants lock-artifacts`.",
    ]


def test_every_question_needs_an_answer() -> None:
    with pytest.raises(KeyError):
        new_lock(PATH, Plan((), an_archive()), {})


# --- wheels ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "platform, names, chosen",
    [
        pytest.param(
            "linux_x86_64",
            [
                "nvcc-12.8-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
                "nvcc-12.8-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
                "nvcc-12.8-py3-none-win_amd64.whl",
            ],
            0,
            id="NVIDIA's wheels, x86-64",
        ),
        pytest.param(
            "linux_arm64",
            [
                "nvcc-12.8-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
                "nvcc-12.8-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
                "nvcc-12.8-py3-none-win_amd64.whl",
            ],
            1,
            id="NVIDIA's wheels, arm64",
        ),
        pytest.param(
            "linux_x86_64",
            ["nvcc-12.8-py3-none-manylinux_2_28_x86_64.whl", "nvcc-12.8-py3-none-any.whl"],
            0,
            id="the platform's own before any's",
        ),
        pytest.param("macos_arm64", ["nvcc-12.8-py2.py3-none-any.whl"], 0, id="any serves all"),
        pytest.param(
            "any",
            ["nvcc-12.8-py3-none-manylinux_2_28_x86_64.whl", "nvcc-12.8-py3-none-any.whl"],
            1,
            id="any wants any",
        ),
        pytest.param(
            "linux_x86_64",
            [
                "nvcc-12.8-py3-none-manylinux_2_28_x86_64.whl",
                "nvcc-12.8-py3-none-manylinux2014_x86_64.whl",
                "nvcc-12.8-py3-none-manylinux_2_5_x86_64.manylinux1_x86_64.whl",
                "nvcc-12.8-py3-none-linux_x86_64.whl",
                "nvcc-12.8-py3-none-musllinux_1_1_x86_64.whl",
            ],
            2,
            id="the oldest glibc",
        ),
        pytest.param(
            "linux_x86_64", ["nvcc-12.8-py3-none-linux_x86_64.whl"], 0, id="of unknown glibc"
        ),
        pytest.param(
            "macos_arm64",
            [
                "nvcc-12.8-py3-none-macosx_10_9_x86_64.whl",
                "nvcc-12.8-py3-none-macosx_11_0_universal2.whl",
                "nvcc-12.8-py3-none-macosx_11_0_arm64.whl",
            ],
            2,
            id="the machine's own before both machines'",
        ),
        pytest.param(
            "macos_x86_64",
            [
                "nvcc-12.8-py3-none-macosx_11_0_arm64.whl",
                "nvcc-12.8-py3-none-macosx_10_9_universal2.whl",
            ],
            1,
            id="both machines'",
        ),
        pytest.param(
            "linux_x86_64",
            [
                "nvcc-12.8-cp312-cp312-manylinux1_x86_64.whl",
                "nvcc-12.8-py2.py3-none-manylinux2014_x86_64.whl",
                "nvcc-12.8-cp311-cp311-manylinux1_x86_64.whl",
            ],
            1,
            id="of any Python",
        ),
        pytest.param(
            "linux_x86_64",
            [
                "nvcc-12.8-cp39-abi3-manylinux2014_x86_64.whl",
                "nvcc-12.8-cp39-abi3-manylinux1_x86_64.whl",
            ],
            1,
            id="of one Python only",
        ),
        pytest.param(
            "any",
            ["nvcc-12.8-2-py3-none-any.whl", "nvcc-12.8-10-py3-none-any.whl"],
            1,
            id="the later build",
        ),
        pytest.param(
            "any",
            ["nvcc-12.8.whl", "nvcc-x-py3-none-any.whl", "nvcc-12.8-py3-none-any.whl"],
            2,
            id="names that break the rules",
        ),
    ],
)
def test_the_wheel_of_a_platform(platform: str, names: list[str], chosen: int) -> None:
    (slot,) = a_wheel(platform)
    for order in (names, names[::-1]):
        entry = row(slot, WheelAnswer(files(*order))).entry
        assert entry == WheelEntry("nvcc", "12.8", names[chosen], A, 1000, slot.pin_sha256)


def test_a_yanked_wheel() -> None:
    """Who names it exactly gets it, where there is no other."""
    (slot,) = a_wheel("any")
    yanked = WheelFile("nvcc-12.8-10-py3-none-any.whl", A, 1, yanked=True)
    other = WheelFile("nvcc-12.8-py3-none-any.whl", B, 1)
    for answer, chosen in (((yanked,), yanked), ((yanked, other), other)):
        entry = row(slot, WheelAnswer(answer)).entry
        assert isinstance(entry, WheelEntry)
        assert entry.filename == chosen.filename


@pytest.mark.parametrize(
    "platform, found, message",
    [
        pytest.param(
            "linux_x86_64",
            (),
            "the wheel of nvcc 12.8 for linux_x86_64 doesn't exist: the package index has no wheel "
            "of that version: correct `distribution` or `version`, or add an index that has it to "
            "`[python-repos].indexes`.",
            id="none at all",
        ),
        pytest.param(
            "macos_arm64",
            files(
                "nvcc-12.8-py3-none-manylinux2010_x86_64.whl",
                "nvcc-12.8-py3-none-manylinux2014_aarch64.whl",
            ),
            "the wheel of nvcc 12.8 for macos_arm64 doesn't exist: the package index has "
            "nvcc-12.8-py3-none-manylinux2010_x86_64.whl, "
            "nvcc-12.8-py3-none-manylinux2014_aarch64.whl: name any of linux_x86_64, linux_arm64 "
            "in `platforms`, then run `./pants lock-artifacts`.",
            id="other platforms",
        ),
        pytest.param(
            "any",
            files("nvcc-12.8-py3-none-macosx_11_0_arm64.whl"),
            "name any of macos_arm64 in `platforms`",
            id="any where there is one",
        ),
        pytest.param(
            "linux_x86_64",
            files(*(f"nvcc-12.8-{n}-py3-none-win_amd64.whl" for n in range(1, 9))),
            "nvcc-12.8-6-py3-none-win_amd64.whl and 2 more: take another, then run",
            id="many",
        ),
        pytest.param(
            "linux_x86_64",
            files("nvcc-12.8-py3-none-musllinux_1_1_x86_64.whl"),
            "the package index has nvcc-12.8-py3-none-musllinux_1_1_x86_64.whl: take another",
            id="musl",
        ),
        pytest.param(
            "linux_x86_64",
            files(
                "nvcc-12.8-cp312-cp312-manylinux1_x86_64.whl",
                "nvcc-12.8-cp311-cp311-manylinux1_x86_64.whl",
            ),
            "the wheel of nvcc 12.8 for linux_x86_64 is ambiguous, a wheel for each of several "
            "versions of Python: nvcc-12.8-cp311-cp311-manylinux1_x86_64.whl, "
            "nvcc-12.8-cp312-cp312-manylinux1_x86_64.whl: declare the one wanted as an "
            "archive_artifact by its URL.",
            id="one for each Python",
        ),
        pytest.param(
            "any",
            (WheelFile("nvcc-12.8-py3-none-any.whl", None, None),),
            "the package index gives no sha256 of nvcc-12.8-py3-none-any.whl, so what it serves "
            "can't be verified: use an index that does in `[python-repos].indexes`.",
            id="no digest",
        ),
    ],
)
def test_no_wheel(platform: str, found: tuple[WheelFile, ...], message: str) -> None:
    assert message in error_of(a_wheel(platform), WheelAnswer(found))


# --- judging a lock --------------------------------------------------------------------------


def now_and_then(address: str, platform: str, now: Iterable[Slot], lock: Lock) -> str:
    (slot,) = (s for s in now if (s.address, s.platform) == (address, platform))
    entry = lock.get(address, platform)
    assert entry is not None
    return f"then {entry.pin_sha256[:12]}, now {slot.pin_sha256[:12]}"


def test_what_is_missing_is_said_once_for_all_platforms() -> None:
    assert problems((*an_llvm(), *an_archive()), Lock(PATH)) == (
        Problem(
            JSON,
            f"{JSON}: the archive include.zip for any is not in {PATH}: run "
            "`./pants lock-artifacts`.",
        ),
        Problem(
            LLVM,
            f"{LLVM}: LLVM 62b7cf96 for linux_arm64-almalinux, linux_arm64-ubuntu, "
            "linux_x86_64-almalinux, linux_x86_64-centos, linux_x86_64-ubuntu, macos_arm64, "
            f"macos_x86_64 is not in {PATH}: run `./pants lock-artifacts`.",
        ),
    )


def test_a_pin_that_moved() -> None:
    lock = a_lock(an_nvidia())
    moved = an_nvidia(ptxas="12.9.86", cudart="12.8.57")
    shown = now_and_then(f"{NVIDIA}#ptxas", "linux_x86_64", moved, lock)
    assert problems(moved, lock) == (
        Problem(
            NVIDIA,
            f"{NVIDIA}: ptxas 12.9.86 for linux_arm64, linux_x86_64 is locked in {PATH} from "
            f"another state of its pin {NVIDIA_PATH} ({shown} for linux_x86_64): run "
            "`./pants lock-artifacts`.",
        ),
    )


def test_a_declaration_that_changed() -> None:
    lock = a_lock(an_archive())
    changed = an_archive("https://example.com/json.zip")
    shown = now_and_then(JSON, "any", changed, lock)
    assert problems(changed, lock) == (
        Problem(
            JSON,
            f"{JSON}: the archive json.zip for any is locked in {PATH} from another state of its "
            f"declaration ({shown}): run `./pants lock-artifacts`.",
        ),
    )


def edited(lock: Lock, **changes: Any) -> Lock:
    """As by hand: all rows with other values, the digest of their pin left as it is."""
    return make_lock(PATH, [replace(row, entry=replace(row.entry, **changes)) for row in lock.rows])


@pytest.mark.parametrize(
    "now, field, value",
    [
        pytest.param(an_llvm_info(ubuntu_x64=A), "sha256", B, id="sha256 that the pin knows"),
        pytest.param(an_llvm_info(ubuntu_x64=A), "size", 5, id="size that nobody was asked for"),
        pytest.param(an_llvm_info(ubuntu_x64=A), "strip", "llvm", id="strip"),
        pytest.param(an_archive(), "location", "https://evil.example/a.zip", id="location"),
        pytest.param(an_archive(), "subset", (("include", "include"),), id="subset"),
        pytest.param(a_wheel(), "name", "other", id="wheel's name"),
        pytest.param(a_wheel(), "version", "12.9", id="wheel's version"),
        pytest.param(
            a_wheel(), "filename", "nvcc-12.8-py3-none-manylinux1_aarch64.whl", id="other machine's"
        ),
        pytest.param(
            a_wheel(), "filename", "other-12.8-py3-none-manylinux1_x86_64.whl", id="other's wheel"
        ),
        pytest.param(a_debian(), "suite", "trixie", id="suite"),
        pytest.param(
            a_debian(),
            "packages",
            (DebianPackage("clang-18", "1:18", "amd64", A, 1),),
            id="without a package that BUILD names",
        ),
        pytest.param(
            a_debian(),
            "packages",
            (DebianPackage("clang-19", "1:19", "arm64", A, 1),),
            id="packages of another architecture",
        ),
    ],
)
def test_an_edited_lock(now: tuple[Slot, ...], field: str, value: object) -> None:
    """What pin and BUILD decide isn't the lock's to say."""
    lock = edited(a_lock(now), **{field: value})
    (slot,) = now
    pin = f"its pin {slot.pin_path}" if slot.pin_path else "its declaration"
    message = (
        f"{slot.target}: {slot.artifact} for {slot.platform} was edited in {PATH}: its `{field}` is "
        f"not what {pin} says: run `./pants lock-artifacts`."
    )
    assert problems(now, lock) == (Problem(slot.target, message),)
    with pytest.raises(LockError) as e:
        find(now, lock, UBUNTU)
    assert str(e.value) == message
    # Locking anew is what corrects it.
    todo = plan(now, lock)
    assert todo == Plan((), now)
    assert new_lock(PATH, todo, {slot: an_answer(slot)}) == a_lock(now)


def test_what_only_upstream_knows_is_not_judged() -> None:
    lock = edited(a_lock(an_archive()), sha256=B, size=5)
    assert problems(an_archive(), lock) == ()


def test_an_entry_of_another_kind() -> None:
    (slot,) = an_archive()
    entry = replace(a_lock(a_wheel()).rows[0].entry, pin_sha256=slot.pin_sha256)
    (problem,) = problems((slot,), make_lock(PATH, [Row(slot.address, "any", entry)]))
    assert "its `kind` is not what its declaration says" in problem.message


@pytest.mark.parametrize(
    "now, problem",
    [
        pytest.param(
            an_archive(),
            Problem(
                "",
                f"{NVIDIA}#ptxas is locked in {PATH} for linux_arm64, linux_x86_64, but no BUILD "
                "file declares that target: run `./pants lock-artifacts`.",
            ),
            id="target",
        ),
        pytest.param(
            an_nvidia(cudart="12.8.57"),
            Problem(
                NVIDIA,
                f"{NVIDIA}#ptxas is locked in {PATH} for linux_arm64, linux_x86_64, but the "
                "target no longer has ptxas: run `./pants lock-artifacts`.",
            ),
            id="component",
        ),
        pytest.param(
            an_nvidia(platforms=("linux_arm64",)),
            Problem(
                NVIDIA,
                f"{NVIDIA}#ptxas is locked in {PATH} for linux_x86_64, which it no longer has: run "
                "`./pants lock-artifacts`.",
            ),
            id="platform",
        ),
    ],
)
def test_what_is_no_longer_declared(now: tuple[Slot, ...], problem: Problem) -> None:
    assert problem in problems(now, a_lock((*an_nvidia(), *an_archive())))


def test_a_target_that_has_components_now() -> None:
    lock = make_lock(PATH, [Row(NVIDIA, "any", row(*_answered(an_archive())).entry)])
    messages = [problem.message for problem in problems(an_nvidia(), lock)]
    assert (
        f"{NVIDIA} is locked in {PATH} for any, but the target has components now: run "
        "`./pants lock-artifacts`." in messages
    )


def _answered(slots: Sequence[Slot]) -> tuple[Slot, Answer]:
    return slots[0], an_answer(slots[0])


# --- finding what a host needs ---------------------------------------------------------------


@pytest.mark.parametrize(
    "host, suffix, platform",
    [
        pytest.param(UBUNTU, "", "linux_x86_64-ubuntu", id="Ubuntu"),
        pytest.param(ALMALINUX, "", "linux_x86_64-almalinux", id="AlmaLinux"),
        pytest.param(MAC, "", "macos_arm64", id="macOS"),
        pytest.param(UBUNTU, "almalinux-x64", "linux_x86_64-almalinux", id="by its suffix"),
    ],
)
def test_find_llvm(host: BuildHost, suffix: str, platform: str) -> None:
    lock = a_lock(an_llvm())
    entry = lock.get(LLVM, platform)
    assert entry is not None
    assert find(an_llvm(), lock, host, suffix) == (Found(LLVM, "LLVM 62b7cf96", platform, entry),)


def test_find_what_upstream_had_then() -> None:
    """Without an AlmaLinux build, a host of that takes Ubuntu's."""
    lock = a_lock(on(an_llvm(), "linux_x86_64-ubuntu", "macos_arm64"))
    (found,) = find(an_llvm(), lock, ALMALINUX)
    assert found.platform == "linux_x86_64-ubuntu"
    # Who asks for the other isn't given it.
    with pytest.raises(LockError, match="for linux_x86_64-almalinux is not in 3rdparty"):
        find(an_llvm(), lock, ALMALINUX, "almalinux-x64")


def test_find_each_component() -> None:
    lock = a_lock(everything())
    found = find(an_nvidia(), lock, UBUNTU, suffix="almalinux-x64")
    assert [(item.address, item.platform) for item in found] == [
        (f"{NVIDIA}#ptxas", "linux_x86_64"),
        (f"{NVIDIA}#cudart", "linux_x86_64"),
    ]
    assert [item.platform for item in find(an_archive(), lock, MAC)] == ["any"]


@pytest.mark.parametrize(
    "suffix, message",
    [
        pytest.param(
            "ubunto-x64",
            f"{LLVM}: LLVM 62b7cf96 isn't built for the system suffix 'ubunto-x64': "
            "cmake/llvm-info.json has macos-arm64, ubuntu-x64. Did you mean 'ubuntu-x64'?",
            id="unknown",
        ),
        pytest.param(
            "linux_x86_64",
            f"{LLVM}: a system suffix is `<system>-<arch>`, arch one of x64, arm64, such as "
            "`ubuntu-x64` or `macos-arm64`; got 'linux_x86_64'. Known here: macos-arm64, "
            "ubuntu-x64.",
            id="malformed",
        ),
    ],
)
def test_a_suffix_that_is_none(suffix: str, message: str) -> None:
    found = an_llvm_info(macos_arm64=A, ubuntu_x64=B)
    with pytest.raises(PlatformError) as e:
        find(found, a_lock(found), UBUNTU, suffix)
    assert str(e.value) == message


def test_a_host_that_the_target_does_not_serve() -> None:
    """Also where the lock still has it."""
    lock = a_lock(an_nvidia())
    for state in (lock, Lock(PATH)):
        with pytest.raises(LockingError) as e:
            find(an_nvidia(platforms=("linux_arm64",)), state, UBUNTU)
        assert str(e.value) == (
            f"{NVIDIA}: ptxas 12.8.93 isn't declared for linux_x86_64 (it takes "
            "linux_x86_64-ubuntu or linux_x86_64 or any), only for linux_arm64: add the platform "
            "to the target if the artifact exists for it, or declare another source."
        )


@pytest.mark.parametrize(
    "lock, message",
    [
        pytest.param(
            Lock(PATH),
            f"{NVIDIA}#ptxas: ptxas 12.8.93 for linux_x86_64 is not in {PATH} (which is empty): run",
            id="not locked",
        ),
        pytest.param(
            a_lock(on(an_nvidia(), "linux_arm64")),
            f"{NVIDIA}#ptxas: ptxas 12.8.93 for linux_x86_64 is not in {PATH}, which has this "
            "target for linux_arm64.",
            id="not for this platform",
        ),
        pytest.param(
            a_lock(an_nvidia(ptxas="11.0.1", cudart="12.8.57")),
            f"{NVIDIA}: ptxas 12.8.93 for linux_x86_64 is locked in {PATH} from another state of its "
            f"pin {NVIDIA_PATH} (then ",
            id="of another pin",
        ),
    ],
)
def test_a_lock_that_is_behind(lock: Lock, message: str) -> None:
    with pytest.raises(LockError) as e:
        find(an_nvidia(), lock, UBUNTU)
    assert str(e.value).startswith(message)
    assert "`./pants lock-artifacts`" in str(e.value)
