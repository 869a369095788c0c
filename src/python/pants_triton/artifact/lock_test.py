from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pants_triton.artifact.lock import (
    ANY_PLATFORM,
    DebianEntry,
    DebianPackage,
    Entry,
    Lock,
    LockError,
    Row,
    UrlEntry,
    WheelEntry,
    component_address,
    diff_locks,
    entry_for,
    entry_json,
    make_lock,
    parse_entry,
    pin_digest,
    placed,
    read_lock,
    shown_size,
    write_lock,
)

PATH = "3rdparty/artifacts.lock"
A, B, C = "a" * 64, "b" * 64, "c" * 64
PIN, OTHER_PIN = "1" * 64, "2" * 64


def a_url(**changes: Any) -> UrlEntry:
    entry = UrlEntry(
        location="https://example.com/llvm/llvm-87717bf9-ubuntu-x64-1.tar.gz",
        sha256=A,
        size=412_000_000,
        pin_sha256=PIN,
        strip="llvm-87717bf9-ubuntu-x64-1",
    )
    return replace(entry, **changes)


def a_wheel(**changes: Any) -> WheelEntry:
    entry = WheelEntry(
        name="nvidia-cuda-nvcc-cu12",
        version="12.8.93",
        filename="nvidia_cuda_nvcc_cu12-12.8.93-py3-none-manylinux2010_x86_64.whl",
        sha256=B,
        size=40_676_000,
        pin_sha256=PIN,
        strip="nvidia/cuda_nvcc",
        subset=(("bin/ptxas", "bin/ptxas"),),
    )
    return replace(entry, **changes)


def a_package(name: str = "clang-19", version: str = "1:19.1.7-3~deb12u1", **changes: Any) -> Any:
    return replace(DebianPackage(name, version, "amd64", C, 98_000), **changes)


def a_debian(*packages: DebianPackage) -> DebianEntry:
    return DebianEntry("bookworm", packages or (a_package(), a_package("lld-19")), PIN)


def a_lock(*rows: Row) -> Lock:
    return make_lock(
        PATH,
        rows
        or (
            Row("3rdparty/llvm:llvm", "linux_x86_64-ubuntu", a_url()),
            Row("3rdparty/llvm:llvm", "macos_arm64", a_url(sha256=C)),
            Row("3rdparty/nvidia:nvidia#ptxas", "linux_x86_64", a_wheel()),
            Row("3rdparty/json:json", ANY_PLATFORM, a_url(strip="", size=None)),
            Row("3rdparty/llvm:sysroot", "linux_x86_64", a_debian()),
        ),
    )


GOLDEN = f"""\
{{
  "made_by": "./pants lock-artifacts",
  "format": 1,
  "artifacts": {{
    "3rdparty/llvm:sysroot": {{
      "linux_x86_64": {{
        "kind": "debian",
        "suite": "bookworm",
        "packages": [
          {{"name": "clang-19", "version": "1:19.1.7-3~deb12u1", "arch": "amd64", "sha256": "{C}", "size": 98000}},
          {{"name": "lld-19", "version": "1:19.1.7-3~deb12u1", "arch": "amd64", "sha256": "{C}", "size": 98000}}
        ],
        "pin_sha256": "{PIN}"
      }}
    }},
    "3rdparty/nvidia:nvidia#ptxas": {{
      "linux_x86_64": {{
        "kind": "wheel",
        "name": "nvidia-cuda-nvcc-cu12",
        "version": "12.8.93",
        "filename": "nvidia_cuda_nvcc_cu12-12.8.93-py3-none-manylinux2010_x86_64.whl",
        "sha256": "{B}",
        "size": 40676000,
        "strip": "nvidia/cuda_nvcc",
        "subset": [
          ["bin/ptxas", "bin/ptxas"]
        ],
        "pin_sha256": "{PIN}"
      }}
    }}
  }}
}}
"""


def test_the_file() -> None:
    lock = a_lock(
        Row("3rdparty/nvidia:nvidia#ptxas", "linux_x86_64", a_wheel()),
        Row("3rdparty/llvm:sysroot", "linux_x86_64", a_debian()),
    )
    assert write_lock(lock) == GOLDEN
    assert read_lock(GOLDEN, PATH) == lock


def test_an_empty_lock() -> None:
    text = write_lock(Lock(PATH))
    assert read_lock(text, PATH) == Lock(PATH)
    assert text.endswith("}\n")


def test_reading_tolerates_another_layout_and_order() -> None:
    lock = a_lock()
    shuffled = json.dumps(json.loads(write_lock(lock)), sort_keys=True)
    assert read_lock(shuffled.replace(": ", ":\r\n"), PATH) == lock
    # A byte order mark, as some editors write it.
    assert read_lock("\ufeff" + shuffled, PATH) == lock


def test_a_location_that_may_hold_a_secret_is_not_shown() -> None:
    for url in ("https://me:s3cret@example.com/a.zip", "https://example.com/a.zip?sig=s3cret"):
        with pytest.raises(LockError, match="without credentials, query and fragment") as e:
            make_lock(PATH, [Row("a:a", "any", a_url(location=url))])
        assert "s3cret" not in str(e.value) and "https://example.com/a.zip" in str(e.value)


# --- looking up ------------------------------------------------------------------------------


def test_entry_for() -> None:
    lock = a_lock()
    assert entry_for(lock, "3rdparty/llvm:llvm", "macos_arm64") == a_url(sha256=C)
    assert entry_for(lock, "3rdparty/json:json", "macos_arm64") == a_url(strip="", size=None)
    ptxas = component_address("3rdparty/nvidia:nvidia", "ptxas")
    assert entry_for(lock, ptxas, "linux_x86_64") == a_wheel()


@pytest.mark.parametrize(
    "address, platform, message",
    [
        pytest.param(
            *("3rdparty/lvm:llvm", "macos_arm64"),
            "3rdparty/lvm:llvm: LLVM for macos_arm64 is not in 3rdparty/artifacts.lock (it has "
            "3rdparty/llvm:llvm): run `./pants lock-artifacts`, which adds every artifact that a "
            "BUILD file declares.",
            id="missing, near another",
        ),
        pytest.param(
            *("elsewhere:tool", "macos_arm64"),
            "elsewhere:tool: LLVM for macos_arm64 is not in 3rdparty/artifacts.lock: run",
            id="missing",
        ),
        pytest.param(
            *("3rdparty/llvm:llvm", "linux_x86_64-unbuntu"),
            "3rdparty/llvm:llvm: LLVM for linux_x86_64-unbuntu is not in 3rdparty/artifacts.lock, "
            "which has this target for linux_x86_64-ubuntu, macos_arm64. Did you mean "
            "linux_x86_64-ubuntu? If the artifact exists for linux_x86_64-unbuntu, run "
            "`./pants lock-artifacts`.",
            id="unknown platform",
        ),
    ],
)
def test_what_is_not_in_the_lock(address: str, platform: str, message: str) -> None:
    with pytest.raises(LockError) as e:
        entry_for(a_lock(), address, platform, artifact="LLVM")
    assert str(e.value).startswith(message)
    assert "\n" not in str(e.value)


def test_nothing_is_in_an_empty_lock() -> None:
    with pytest.raises(LockError, match=r"which is empty.*run `\./pants lock-artifacts`"):
        entry_for(Lock(PATH), "a:a", "macos_arm64")


# --- the key of a fetch ----------------------------------------------------------------------


def test_the_key_has_what_fetching_needs_and_nothing_else() -> None:
    assert entry_json(a_wheel()) == (
        '{"filename":"nvidia_cuda_nvcc_cu12-12.8.93-py3-none-manylinux2010_x86_64.whl",'
        '"kind":"wheel","name":"nvidia-cuda-nvcc-cu12",'
        f'"sha256":"{B}","size":40676000,"strip":"nvidia/cuda_nvcc",'
        '"subset":[["bin/ptxas","bin/ptxas"]],"version":"12.8.93"}'
    )


def test_a_pin_that_moves_elsewhere_leaves_the_key() -> None:
    assert entry_json(a_url(pin_sha256=OTHER_PIN)) == entry_json(a_url())


@pytest.mark.parametrize("entry", [a_url(), a_url(size=None), a_wheel(), a_debian()])
def test_parse_entry_reads_the_key(entry: Entry) -> None:
    assert parse_entry(entry_json(entry), PIN) == entry


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"kind":"url"}', "[" * 100_000])
def test_malformed_keys(text: str) -> None:
    with pytest.raises(LockError, match="an entry of the lock"):
        parse_entry(text)


def test_pin_digest_tells_its_parts_apart() -> None:
    assert len({pin_digest("ab", "c"), pin_digest("a", "bc"), pin_digest("abc")}) == 3
    assert pin_digest("é") == pin_digest("é")


@pytest.mark.parametrize(
    "member, strip, subset, place",
    [
        pytest.param("bin/ptxas", "", (), "bin/ptxas", id="everything"),
        pytest.param("top/bin/ptxas", "top", (), "bin/ptxas", id="stripped"),
        pytest.param("top", "top", (), None, id="the stripped folder"),
        pytest.param("topper/bin", "top", (), None, id="outside of it"),
        pytest.param("bin/ptxas", "", (("bin/ptxas", "bin/x"),), "bin/x", id="a file"),
        pytest.param("bin/ptxas2", "", (("bin/ptxas", "bin/x"),), None, id="not that file"),
        pytest.param("t/lib/a/b", "t", (("lib", "lib/cupti"),), "lib/cupti/a/b", id="a folder"),
        pytest.param("lib/a", "", (("lib", ""),), "a", id="a folder, to the root"),
        pytest.param("lib", "", (("lib", ""),), None, id="the root"),
        pytest.param("lib/a", "", (("lib/a", "x"), ("lib", "y")), "x", id="the first decides"),
    ],
)
def test_placed(
    member: str, strip: str, subset: tuple[tuple[str, str], ...], place: str | None
) -> None:
    assert placed(member, strip, subset) == place


# --- broken locks ----------------------------------------------------------------------------


def broken(change: Callable[[Any], object]) -> str:
    document = json.loads(GOLDEN)
    change(document)
    return json.dumps(document)


def wheel(document: Any) -> Any:
    return document["artifacts"]["3rdparty/nvidia:nvidia#ptxas"]["linux_x86_64"]


def packages(document: Any) -> Any:
    return document["artifacts"]["3rdparty/llvm:sysroot"]["linux_x86_64"]["packages"]


AT_WHEEL = f"{PATH}: 3rdparty/nvidia:nvidia#ptxas: linux_x86_64: "
AT_DEBIAN = f"{PATH}: 3rdparty/llvm:sysroot: linux_x86_64: "


@pytest.mark.parametrize(
    "text, message",
    [
        pytest.param(
            GOLDEN.replace('    "3rdparty/nvidia', '<<<<<<< HEAD\n    "3rdparty/nvidia'),
            f"{PATH}: line 16: a merge conflict is not resolved (<<<<<<<): take either side whole, "
            "then run `./pants lock-artifacts`.",
            id="merge conflict",
        ),
        pytest.param("", f"{PATH}: line 1, column 1: not JSON", id="empty"),
        pytest.param(GOLDEN[:-5], f"{PATH}: line 31, column 2: not JSON", id="cut off"),
        pytest.param("[" * 100_000, f"{PATH}: not JSON that can be read", id="nested"),
        pytest.param("[]", f"{PATH}: expected an object, got []", id="a list"),
        pytest.param('{"format": NaN}', f"{PATH}: not JSON that can be read", id="NaN"),
        pytest.param(
            GOLDEN.replace('"version": "12.8.93",', '"version": "12.8.93", "version": "12.9.0",'),
            f'{PATH}: the key "version" occurs twice in one object',
            id="both sides of a merge",
        ),
        pytest.param(broken(lambda d: d.pop("format")), "the field 'format' is missing", id="head"),
        pytest.param(
            broken(lambda d: d.update(format=2)),
            f"{PATH}: format: this version of pants_triton reads format 1, got 2",
            id="later format",
        ),
        pytest.param(broken(lambda d: d.update(format=True)), "got true", id="not a number"),
        pytest.param(
            broken(lambda d: d.update(artifacts=[])),
            f"{PATH}: artifacts: expected an object, got []",
            id="artifacts",
        ),
        pytest.param(
            broken(lambda d: d["artifacts"].update({"a:a": 1})),
            f"{PATH}: a:a: expected an object, got 1",
            id="platforms",
        ),
        pytest.param(
            broken(lambda d: d["artifacts"].update({"a:a": {"x y": wheel(d)}})),
            f'{PATH}: a:a: x y: platform: expected a platform, got "x y"',
            id="platform",
        ),
        pytest.param(
            broken(lambda d: d["artifacts"].update({"a\n:a": {"x": wheel(d)}})),
            f'{PATH}: "a\\n:a": x: address: expected printable text, got "a\\n:a"',
            id="address",
        ),
        pytest.param(
            broken(lambda d: wheel(d).update(kind="weel")),
            AT_WHEEL + 'kind: expected one of url, wheel, debian, got "weel"',
            id="kind",
        ),
        pytest.param(
            broken(lambda d: wheel(d).update(kind=["wheel"])),
            AT_WHEEL + "kind: expected one of",
            id="kind's type",
        ),
        pytest.param(
            broken(lambda d: wheel(d).update(sise=1)),
            AT_WHEEL + "unknown field \"sise\" (did you mean 'size'?)",
            id="unknown field",
        ),
        pytest.param(
            broken(lambda d: wheel(d).pop("sha256")),
            AT_WHEEL + "the field 'sha256' is missing",
            id="missing field",
        ),
        pytest.param(
            broken(lambda d: wheel(d).update(sha256="B" * 64)),
            AT_WHEEL + "sha256: expected 64 lower-case hex digits, got",
            id="bad hex",
        ),
        pytest.param(
            broken(lambda d: wheel(d).update(size=-1)),
            AT_WHEEL + "size: expected a size in bytes, got -1",
            id="negative size",
        ),
        pytest.param(
            broken(lambda d: wheel(d).update(size="1")),
            AT_WHEEL + 'size: expected a size in bytes, got "1"',
            id="size's type",
        ),
        pytest.param(
            broken(lambda d: wheel(d).update(filename="../x.whl")),
            AT_WHEEL + "filename: expected a wheel's file name",
            id="path for a file name",
        ),
        pytest.param(
            broken(lambda d: wheel(d).update(strip="../x")),
            AT_WHEEL + "strip: expected a relative path",
            id="strip goes up",
        ),
        pytest.param(
            broken(lambda d: wheel(d).update(subset=[["bin/ptxas", "/bin/ptxas"]])),
            AT_WHEEL + "subset: expected a list of [member, path in the tree]",
            id="subset goes elsewhere",
        ),
        pytest.param(
            broken(lambda d: wheel(d).update(subset={"bin": "bin"})),
            AT_WHEEL + "subset: expected a list",
            id="subset's type",
        ),
        pytest.param(
            broken(lambda d: packages(d).clear()),
            AT_DEBIAN + "packages: expected a list of packages, not empty",
            id="no packages",
        ),
        pytest.param(
            broken(lambda d: packages(d)[1].update(size=-5)),
            AT_DEBIAN + "packages: lld-19: size: expected a size in bytes, got -5",
            id="package's size",
        ),
        pytest.param(
            broken(lambda d: packages(d)[1].pop("version")),
            AT_DEBIAN + "packages: number 2: the field 'version' is missing",
            id="package's field",
        ),
        pytest.param(
            broken(lambda d: packages(d)[1].update(name="clang-19")),
            AT_DEBIAN + "packages: clang-19: occurs twice",
            id="package twice",
        ),
    ],
)
def test_a_broken_lock_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(LockError) as e:
        read_lock(text, PATH)
    assert message in str(e.value)
    assert str(e.value).startswith(PATH)
    assert "`./pants lock-artifacts`" in str(e.value)
    assert "\n" not in str(e.value) and len(str(e.value)) < 400


@pytest.mark.parametrize(
    "location, ok",
    [
        ("https://example.com/a.tar.gz", True),
        ("http://127.0.0.1:8080/a.tar.gz", True),
        ("file:///srv/mirror/a.tar.gz", True),
        ("file://host/a.tar.gz", False),
        ("https://user:token@example.com/a", False),
        ("https://example.com:99999/a", False),
        ("https://[::1/a", False),
        ("ftp://example.com/a", False),
        ("/srv/a.tar.gz", False),
        ("https://example.com/a b", False),
        ("https://example.com/a#sha256=1", False),
        # It may hold a secret, as those of cloud stores do.
        ("https://example.com/a?sig=1", False),
        ("file:///srv/a?b", False),
        ("", False),
    ],
)
def test_locations(location: str, ok: bool) -> None:
    if ok:
        a_lock(Row("a:a", "any", a_url(location=location)))
        return
    with pytest.raises(LockError, match="location: expected an https:, http: or file: URL"):
        a_lock(Row("a:a", "any", a_url(location=location)))


def test_what_could_not_be_read_is_not_written() -> None:
    with pytest.raises(LockError, match="two entries"):
        a_lock(Row("a:a", "any", a_url()), Row("a:a", "any", a_wheel()))
    with pytest.raises(LockError, match="sha256: expected"):
        write_lock(Lock(PATH, (Row("a:a", "any", a_url(sha256="x")),)))


# --- the diff --------------------------------------------------------------------------------


def test_equal_locks_have_no_diff() -> None:
    assert diff_locks(a_lock(), a_lock()) == []


def test_a_diff() -> None:
    old = a_lock(
        Row("3rdparty/json:json", "any", a_url(strip="")),
        Row("3rdparty/llvm:llvm", "linux_x86_64-ubuntu", a_url()),
        Row("3rdparty/llvm:llvm", "macos_arm64", a_url()),
        Row("3rdparty/llvm:sysroot", "linux_x86_64", a_debian(a_package(), a_package("gone"))),
        Row("3rdparty/nvidia:nvidia#ptxas", "linux_x86_64", a_wheel()),
    )
    new = a_lock(
        Row(
            "3rdparty/llvm:llvm",
            "linux_x86_64-ubuntu",
            a_url(
                location="https://example.com/llvm/llvm-87717bf9-ubuntu-x64-2.tar.gz",
                strip="llvm-87717bf9-ubuntu-x64-2",
                sha256=B,
                size=None,
                pin_sha256=OTHER_PIN,
            ),
        ),
        Row("3rdparty/llvm:llvm", "macos_arm64", a_url(sha256=B)),
        Row(
            "3rdparty/llvm:sysroot",
            "linux_x86_64",
            a_debian(a_package(version="1:19.1.7-4"), a_package("new", size=500)),
        ),
        Row(
            "3rdparty/nvidia:nvidia#ptxas",
            "linux_x86_64",
            a_wheel(subset=(("bin/ptxas", "bin/ptxas"), ("nvvm", "")), strip=""),
        ),
        Row("3rdparty/python:lit", "any", a_debian()),
    )
    assert diff_locks(old, new) == [
        "- 3rdparty/json:json any: https://example.com/llvm/llvm-87717bf9-ubuntu-x64-1.tar.gz "
        "(412.0 MB, sha256 aaaaaaaaaaaa)",
        "~ 3rdparty/llvm:llvm linux_x86_64-ubuntu",
        "    location: https://example.com/llvm/llvm-87717bf9-ubuntu-x64-1.tar.gz -> "
        "https://example.com/llvm/llvm-87717bf9-ubuntu-x64-2.tar.gz",
        "    sha256: aaaaaaaaaaaa -> bbbbbbbbbbbb",
        "    size: 412.0 MB -> size unknown",
        "    pin: 111111111111 -> 222222222222",
        "    strip: llvm-87717bf9-ubuntu-x64-1 -> llvm-87717bf9-ubuntu-x64-2",
        "~ 3rdparty/llvm:llvm macos_arm64",
        "    sha256: aaaaaaaaaaaa -> bbbbbbbbbbbb (other bytes under the same name!)",
        "~ 3rdparty/llvm:sysroot linux_x86_64",
        "    ~ clang-19:amd64 1:19.1.7-3~deb12u1 -> 1:19.1.7-4",
        "    - gone:amd64 1:19.1.7-3~deb12u1 (98.0 kB)",
        "    + new:amd64 1:19.1.7-3~deb12u1 (500 bytes)",
        "~ 3rdparty/nvidia:nvidia#ptxas linux_x86_64",
        "    strip: nvidia/cuda_nvcc -> none",
        "    subset: + nvvm -> .",
        "+ 3rdparty/python:lit any: 2 packages of bookworm, 196.0 kB",
    ]


@pytest.mark.parametrize(
    "now, lines",
    [
        pytest.param(
            a_debian(a_package(sha256=A), a_package("lld-19")),
            [
                "    ~ clang-19:amd64 1:19.1.7-3~deb12u1: sha256 cccccccccccc -> aaaaaaaaaaaa "
                "(other bytes under the same name!)"
            ],
            id="package rebuilt under its version",
        ),
        pytest.param(
            a_debian(a_package("lld-19"), a_package()),
            ["    packages: in another order"],
            id="order",
        ),
        pytest.param(
            replace(a_debian(), suite="trixie"),
            ["    suite: bookworm -> trixie"],
            id="suite",
        ),
        pytest.param(
            a_wheel(),
            [
                "    2 packages of bookworm, 196.0 kB -> "
                "nvidia_cuda_nvcc_cu12-12.8.93-py3-none-manylinux2010_x86_64.whl "
                "(40.7 MB, sha256 bbbbbbbbbbbb)"
            ],
            id="another kind",
        ),
    ],
)
def test_a_diff_of_one_entry(now: Entry, lines: list[str]) -> None:
    old, new = a_lock(Row("a:a", "any", a_debian())), a_lock(Row("a:a", "any", now))
    assert diff_locks(old, new) == ["~ a:a any", *lines]


@pytest.mark.parametrize(
    "size, shown",
    [
        (None, "size unknown"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_960, "1.0 MB"),
        (273_100_000, "273.1 MB"),
        (2 * 10**15, "2000.0 TB"),
    ],
)
def test_shown_size(size: int | None, shown: str) -> None:
    assert shown_size(size) == shown


# --- any lock --------------------------------------------------------------------------------

hexes = st.text("0123456789abcdef", min_size=64, max_size=64)
sizes = st.integers(1, 2**63 - 1)
paths = st.lists(st.text("abc.-é_", min_size=1, max_size=4), min_size=1, max_size=3).map(
    lambda parts: "/".join(p + "x" for p in parts)
)
subsets = st.lists(st.tuples(paths, st.just("") | paths), max_size=3).map(tuple)
names = st.text("abcdefgh019+.-", min_size=1, max_size=6).map(lambda s: "p" + s)
locations = st.text("abc/.~%=", max_size=8).map(lambda text: f"https://example.com/{text}")
urls = st.builds(UrlEntry, locations, hexes, st.none() | sizes, hexes, st.just("") | paths, subsets)
debians = st.builds(
    DebianEntry,
    st.just("bookworm"),
    st.lists(
        st.builds(DebianPackage, names, st.just("1:2~3"), st.just("all"), hexes, sizes),
        min_size=1,
        max_size=4,
        unique_by=lambda p: p.name,
    ).map(tuple),
    hexes,
    subsets,
)
locks = st.lists(
    st.builds(Row, st.text("ab/:é#", min_size=1, max_size=5), names, urls | debians),
    max_size=4,
    unique_by=lambda row: (row.address, row.platform),
).map(lambda rows: make_lock(PATH, rows))


@given(locks)
@settings(deadline=None, max_examples=60)
def test_any_lock_survives_the_file(lock: Lock) -> None:
    text = write_lock(lock)
    again = read_lock(text, PATH)
    assert again == lock
    assert write_lock(again) == text
    assert diff_locks(lock, again) == []
    for row in lock.rows:
        assert parse_entry(entry_json(row.entry), row.entry.pin_sha256) == row.entry


@given(locks, locks)
@settings(deadline=None, max_examples=60)
def test_unequal_locks_have_a_diff(old: Lock, new: Lock) -> None:
    lines = diff_locks(old, new)
    assert bool(lines) == (old != new)
    assert all("\n" not in line for line in lines)


def refused_or_stable(text: str) -> None:
    try:
        lock = read_lock(text, PATH)
    except LockError as e:
        assert "\n" not in str(e) and str(e).startswith(PATH)
    else:
        assert read_lock(write_lock(lock), PATH) == lock


@given(st.text())
@settings(deadline=None)
def test_any_text(text: str) -> None:
    refused_or_stable(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def spots(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON document."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    found = [(value, key) for key in keys]
    for key in keys:
        if isinstance(value[key], (dict, list)):
            found += spots(value[key])
    return found


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_any_value_anywhere(data: st.DataObject) -> None:
    document = json.loads(GOLDEN)
    container, key = data.draw(st.sampled_from(spots(document)))
    container[key] = data.draw(json_values)
    refused_or_stable(json.dumps(document))


@given(st.integers(0, len(GOLDEN)), st.integers(0, 8), st.text(max_size=3))
@settings(deadline=None, max_examples=200)
def test_any_edit(at: int, cut: int, put: str) -> None:
    refused_or_stable(GOLDEN[:at] + put + GOLDEN[at + cut :])
