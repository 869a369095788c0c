from __future__ import annotations

import gzip
import io
import lzma
import os
import random
import shutil
import stat
import struct
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Callable, Sequence

import pytest

from pants_triton.artifact import unpack
from pants_triton.artifact.errors import EXIT_THIS_HOST, EXIT_UNUSABLE, FetchError
from pants_triton.artifact.unpack import TIME, Limits, Tree, no_archive, plain_deb, staged

LIMITS = Limits(max_bytes=1 << 30, max_members=1000, max_ratio=200.0)


# -- archives to test with ------------------------------------------------------------------------


def entry(name: str, data: bytes = b"", **attributes: Any) -> tuple[tarfile.TarInfo, bytes]:
    """A member of a tar: a file with `data`, unless `type` says otherwise."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in attributes.items():
        setattr(info, key, value)
    return info, data


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=kind, linkname=target)


def tar(*members: tuple[tarfile.TarInfo, bytes], mode: Any = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def zipped(*members: tuple[str, bytes, int], system: int = 3) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in members:
            info = zipfile.ZipInfo(name)
            info.create_system = system
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = mode << 16
            archive.writestr(info, data)
    return buffer.getvalue()


def deb(data: bytes, member: str = "data.tar.xz") -> bytes:
    def part(name: str, content: bytes) -> bytes:
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n"
        return header.encode() + content + b"\n" * (len(content) % 2)

    parts = (("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), (member, data))
    return b"!<arch>\n" + b"".join(part(*p) for p in parts)


# -- unpacking ------------------------------------------------------------------------------------


def unpack_to(
    output: Path,
    content: bytes,
    name: str = "x.tar.gz",
    limits: Limits = LIMITS,
    told: list[str] | None = None,
    **options: Any,
) -> None:
    archive = output.parent / "archive"
    archive.write_bytes(content)
    with staged(output) as root, open(archive, "rb") as file:
        tree = Tree(root, limits, report=(told if told is not None else []).append, **options)
        tree.add_archive(file, name)
        tree.finish()


def unpack_debs(output: Path, *packages: bytes, **options: Any) -> None:
    archive = output.parent / "archive"
    with staged(output) as root:
        tree = Tree(root, LIMITS, system=True, report=lambda line: None, **options)
        for i, package in enumerate(packages):
            archive.write_bytes(package)
            with open(archive, "rb") as file:
                tree.add_deb(plain_deb(file, f"{i}.deb", LIMITS, output.parent))
        tree.finish()


def listing(folder: Path) -> dict[str, object]:
    """Path -> contents, `*` before those of an executable, `-> target`, or None for a folder."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_dir():
            found[name] = None
        else:
            executable = "*" if path.stat().st_mode & 0o100 else ""
            found[name] = executable + path.read_text()
    return found


def refusal(tmp_path: Path, content: bytes, **options: Any) -> str:
    """What the error says; also that nothing was left, here or anywhere."""
    output = tmp_path / "a" / "b" / "out"
    output.parent.mkdir(parents=True, exist_ok=True)
    with pytest.raises(FetchError) as e:
        unpack_to(output, content, **options)
    assert e.value.exit_code == EXIT_UNUSABLE
    assert os.listdir(output.parent) == ["archive"]
    assert os.listdir(tmp_path) == ["a"] and os.listdir(tmp_path / "a") == ["b"]
    return str(e.value)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out"


MEMBERS = (
    entry("./", type=tarfile.DIRTYPE, mode=0o700),
    entry("./llvm/bin/", type=tarfile.DIRTYPE, mode=0o700),
    entry("./llvm/bin/clang-19", b"clang", mode=0o4711, mtime=99),
    link("./llvm/bin/clang", "clang-19"),
    link("./llvm/bin/clang++", "./llvm/bin/clang-19", tarfile.LNKTYPE),
    entry("./llvm/include/a.h", b"header", mode=0o600),
    entry("./llvm/empty/", type=tarfile.DIRTYPE),
    link("./llvm/lib64", "../llvm/lib"),
    entry("./llvm/lib/" + "long" * 60 + "/é", b"long"),
    link("./llvm/nowhere", "to/be/found"),
)
TREE = {
    "bin": None,
    "bin/clang": "-> clang-19",
    "bin/clang++": "*clang",
    "bin/clang-19": "*clang",
    "empty": None,
    "include": None,
    "include/a.h": "header",
    "lib": None,
    "lib/" + "long" * 60: None,
    "lib/" + "long" * 60 + "/é": "long",
    "lib64": "-> lib",
    "nowhere": "-> to/be/found",
}


@pytest.mark.parametrize(
    "mode, name",
    [
        ("w", "x.tar"),
        ("w:gz", "x.tgz"),
        ("w:xz", "x.tar.xz"),
        ("w:bz2", "x.tar.bz2"),
        ("w:gz", "a-name-that-says-nothing"),
    ],
)
def test_a_tar(output: Path, mode: str, name: str) -> None:
    unpack_to(output, tar(*MEMBERS, mode=mode), name, strip="llvm")
    assert listing(output) == TREE


@pytest.mark.skipif(shutil.which("zstd") is None, reason="the program zstd isn't there")
def test_a_tar_in_zstd(output: Path) -> None:
    plain = tar(*MEMBERS, mode="w")
    packed = subprocess.run(["zstd", "-cq"], input=plain, stdout=subprocess.PIPE).stdout
    unpack_to(output, packed, "x.tar.zst", strip="llvm")
    assert listing(output) == TREE


def test_without_zstd_it_says_so(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(FetchError, match="`zstd` isn't there.*install it") as e:
        unpack_to(output, b"\x28\xb5\x2f\xfd....", "x.tar.zst")
    assert e.value.exit_code == EXIT_THIS_HOST


def test_a_zip(output: Path) -> None:
    members = (
        ("nvidia/bin/ptxas", b"ptxas", 0o100755),
        ("nvidia/include/", b"", 0o040755),
        ("nvidia/include/cuda.h", b"header", 0o100644),
        ("nvidia/no type.txt", b"text", 0o644),
        ("nvidia/lib", b"include", 0o120777),
    )
    unpack_to(output, zipped(*members), "x-1-py3-none-any.whl", strip="nvidia")
    assert listing(output) == {
        "bin": None,
        "bin/ptxas": "*ptxas",
        "include": None,
        "include/cuda.h": "header",
        "lib": "-> include",
        "no type.txt": "text",
    }


def test_a_zip_of_another_system(output: Path) -> None:
    unpack_to(output, zipped(("a", b"a", 0o100755), system=0), "x.zip")
    assert listing(output) == {"a": "a"}


@pytest.mark.parametrize(
    "content, name", [(b"{}", "json.hpp"), (b"", "empty"), (gzip.compress(b"text" * 999), "a.gz")]
)
def test_any_other_file_is_the_tree(output: Path, content: bytes, name: str) -> None:
    unpack_to(output, content, name)
    assert (output / name).read_bytes() == content
    assert os.listdir(output) == [name]


def test_a_subset_is_put_where_it_is_wanted(output: Path) -> None:
    members = (
        entry("p/bin/ptxas", b"ptxas", mode=0o755),
        link("p/bin/assembler", "ptxas"),
        entry("p/targets/lib/libcupti.so.12", b"cupti"),
        link("p/targets/lib/libcupti.so", "libcupti.so.12"),
        link("p/lib64", "targets/lib"),
        link("p/lib/libcupti.so", "../targets/lib/libcupti.so.12"),
        link("p/lib/more", "../doc/more"),
        entry("p/doc/more", b"more"),
        link("p/lib/hard", "p/doc/more", tarfile.LNKTYPE),
    )
    subset = (
        ("bin", "backend/bin"),
        ("targets/lib", "backend/lib/cupti"),
        ("lib64", "lib64"),
        ("lib", ""),
    )
    told: list[str] = []
    unpack_to(output, tar(*members), strip="p", subset=subset, told=told)
    assert listing(output) == {
        "backend": None,
        "backend/bin": None,
        "backend/bin/assembler": "-> ptxas",
        "backend/bin/ptxas": "*ptxas",
        "backend/lib": None,
        "backend/lib/cupti": None,
        "backend/lib/cupti/libcupti.so": "-> libcupti.so.12",
        "backend/lib/cupti/libcupti.so.12": "cupti",
        # The original of this hard link is left out, its bytes are not.
        "hard": "more",
        "lib64": "-> backend/lib/cupti",
        "libcupti.so": "-> backend/lib/cupti/libcupti.so.12",
    }
    assert told == ["left out links to what isn't in the tree: p/lib/more -> ../doc/more"]


@pytest.mark.parametrize(
    "options, text",
    [
        pytest.param(
            {"subset": (("bin", "bin"), ("lid", "lib"))}, "names isn't in it: lid", id="sub"
        ),
        pytest.param({"strip": "llvm-19"}, "there is nothing in it below llvm-19", id="strip"),
    ],
)
def test_what_is_wanted_must_be_there(tmp_path: Path, options: Any, text: str) -> None:
    told = refusal(tmp_path, tar(entry("bin/a"), entry("lib/b")), **options)
    assert text in told and "run `./pants lock-artifacts`" in told


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_tree_is_the_same_everywhere(tmp_path: Path, umask: int) -> None:
    def facts(folder: Path) -> list[object]:
        return [
            (
                str(p.relative_to(folder)),
                oct(s.st_mode),
                s.st_mtime,
                s.st_nlink if p.is_file() else 1,
            )
            for p in [folder, *sorted(folder.rglob("*"))]
            for s in [p.lstat()]
        ]

    unpack_to(tmp_path / "first", tar(*MEMBERS), strip="llvm")
    before = os.umask(umask)
    try:
        shuffled = list(MEMBERS[:5])
        random.Random(1).shuffle(shuffled)
        originals_first = sorted(shuffled, key=lambda m: m[0].islnk())
        unpack_to(tmp_path / "second", tar(*originals_first, *MEMBERS[5:]), strip="llvm")
    finally:
        os.umask(before)
    assert facts(tmp_path / "first") == facts(tmp_path / "second")
    modes = {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "second").rglob("[bi]*")}
    assert modes == {0o755}
    assert {p.lstat().st_mtime for p in (tmp_path / "second").rglob("*")} == {TIME}


# -- hostile archives -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "members, text",
    [
        pytest.param([entry("/etc/x")], "the name /etc/x is absolute", id="absolute"),
        pytest.param([entry("../x")], "the name ../x has a `..`", id="parent"),
        pytest.param([entry("a/../../x")], "has a `..`", id="parent inside"),
        pytest.param([entry("a/../x")], "has a `..`", id="harmless parent"),
        pytest.param([entry("a\nb")], "the name a\\nb has characters", id="line break"),
        pytest.param([entry("a\udcffb")], "has characters that no file name", id="no UTF-8"),
        pytest.param([entry("a" * 300)], "too long for this file system", id="long name"),
        pytest.param(
            [link("x", "/etc")], "x is a link out of the tree, to /etc", id="link absolute"
        ),
        pytest.param([link("x", "..")], "x is a link out of the tree, to ..", id="link up"),
        pytest.param([link("a/x", "../../y")], "a/x is a link out of the tree", id="link far up"),
        pytest.param([link("a/x", "b/../../../y")], "out of the tree", id="link there and up"),
        pytest.param(
            [link("x/y/d", "../.."), link("x/y/e", "d/..")],
            "x/y/e is a link out",
            id="link of links",
        ),
        pytest.param(
            [link("x", "a"), entry("a/b"), entry("x/y", b"!")],
            "also a file or a link",
            id="through",
        ),
        pytest.param([entry("x/y"), link("x", "/tmp")], "out of the tree", id="link for a folder"),
        pytest.param([entry("x/y"), link("x", "z")], "x is there twice", id="link on a folder"),
        pytest.param([entry("x"), entry("x/y")], "also a file or a link", id="file as a folder"),
        pytest.param([entry("x"), link("x", "y")], "x is there twice", id="link on a file"),
        pytest.param([link("x", "y"), entry("x")], "x is there twice", id="file on a link"),
        pytest.param([entry("x"), entry("./x")], "x is there twice", id="twice"),
        pytest.param([link("x", "")], "the link x has no usable target", id="link to nothing"),
        pytest.param(
            [link("x", "../y", tarfile.LNKTYPE)], "target ../y has a `..`", id="hard link up"
        ),
        pytest.param(
            [link("x", "/etc/shadow", tarfile.LNKTYPE)], "is absolute", id="hard link absolute"
        ),
        pytest.param(
            [link("x", "y", tarfile.LNKTYPE)], "hard link out of the archive, to y", id="hard link"
        ),
        pytest.param(
            [link("s", "."), link("x", "s", tarfile.LNKTYPE)], "hard link out", id="hard on soft"
        ),
        pytest.param([entry("x", type=tarfile.CHRTYPE)], "x is a device", id="character device"),
        pytest.param([entry("x", type=tarfile.BLKTYPE)], "x is a device", id="block device"),
        pytest.param([entry("x", type=tarfile.FIFOTYPE)], "x is a device or another", id="fifo"),
        pytest.param(
            [entry("x", type=b"Z")], "x is a device or another special", id="unknown type"
        ),
    ],
)
def test_hostile_tars(
    tmp_path: Path, members: Sequence[tuple[tarfile.TarInfo, bytes]], text: str
) -> None:
    told = refusal(tmp_path, tar(*members))
    assert text in told
    assert told.startswith("x.tar.gz can't be unpacked: ")


@pytest.mark.parametrize(
    "members, text",
    [
        pytest.param([("/x", b"", 0o644)], "the name /x is absolute", id="absolute"),
        pytest.param([("a/../../x", b"", 0o644)], "has a `..`", id="parent"),
        pytest.param([("..\\x", b"", 0o644)], "has a backslash", id="backslash"),
        pytest.param([("x", b"../y", 0o120777)], "is a link out of the tree", id="link up"),
        pytest.param([("x", b"/y", 0o120777)], "is a link out of the tree", id="link absolute"),
        pytest.param([("x", b"y" * 5000, 0o120777)], "a link that is too long", id="long link"),
        pytest.param([("x", b"\xff", 0o120777)], "no usable target", id="link to no UTF-8"),
        pytest.param([("x", b"", 0o020644)], "is a device", id="device"),
        pytest.param([("x", b"", 0o010644)], "is a device or another special file", id="fifo"),
        pytest.param(
            [("x", b".", 0o120777), ("x/y", b"", 0o644)], "also a file or a link", id="through"
        ),
    ],
)
def test_hostile_zips(tmp_path: Path, members: Sequence[tuple[str, bytes, int]], text: str) -> None:
    assert text in refusal(tmp_path, zipped(*members), name="x.zip")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_zip_with_a_name_twice(tmp_path: Path) -> None:
    content = zipped(("x", b"1", 0o644), ("x", b"2", 0o644))
    assert "x is there twice" in refusal(tmp_path, content, name="x.zip")


def test_an_encrypted_zip(tmp_path: Path) -> None:
    content = bytearray(zipped(("x", b"1", 0o644)))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    assert "x is encrypted" in refusal(tmp_path, bytes(content), name="x.zip")


def test_circles_of_links_lead_nowhere(output: Path) -> None:
    unpack_to(output, tar(entry("f"), link("a", "b"), link("b", "a"), link("c", "c/x")))
    assert sorted(os.listdir(output)) == ["a", "b", "c", "f"]


def test_links_that_multiply(tmp_path: Path) -> None:
    doubled = [link(f"l{i}", f"l{i - 1}/l{i - 1}") for i in range(1, 60)]
    # They would take 2 ** 59 steps to follow; it gives up after as many as an operating system.
    unpack_to(tmp_path / "out", tar(link("l0", "."), entry("f"), *doubled))
    assert len(os.listdir(tmp_path / "out")) == 61


ZEROS = bytes(1 << 20)


@pytest.mark.parametrize(
    "pack",
    [
        pytest.param(lambda m: tar(*m), id="tar"),
        pytest.param(lambda m: tar(*m, mode="w:xz"), id="xz"),
        pytest.param(lambda m: zipped(*((i.name, d, 0o644) for i, d in m)), id="zip"),
    ],
)
def test_bombs(
    tmp_path: Path, pack: Callable[[Any], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    members = [entry(str(i), ZEROS) for i in range(3)]
    bound = Limits(max_bytes=(2 << 20) + 1, max_members=1000, max_ratio=1e9)
    assert "bigger than 2.1 MB" in refusal(tmp_path, pack(members), limits=bound)

    shutil.rmtree(tmp_path / "a")
    few = Limits(max_bytes=1 << 30, max_members=2, max_ratio=1e9)
    assert "more than 2 members" in refusal(tmp_path, pack(members), limits=few)

    shutil.rmtree(tmp_path / "a")
    monkeypatch.setattr(unpack, "_RATIO_FLOOR", 1 << 20)
    ratio = Limits(max_bytes=1 << 30, max_members=9, max_ratio=20.0)
    assert "more than 20 times bigger" in refusal(tmp_path, pack(members), limits=ratio)


def test_a_bomb_in_what_is_left_out(tmp_path: Path) -> None:
    members = [entry("keep/a", b"a"), *(entry(f"b/{i}", ZEROS) for i in range(10))]
    limits = Limits(max_bytes=1 << 20, max_members=1, max_ratio=1e9)
    content = tar(*members)
    monstrous = Limits(max_bytes=1 << 20, max_members=100, max_ratio=1e9)
    options: dict[str, Any] = {"subset": (("keep", "keep"),)}
    assert "too big" in refusal(tmp_path, content, limits=monstrous, **options)
    shutil.rmtree(tmp_path / "a")
    assert "more than 1 members" in refusal(tmp_path, content, limits=limits, **options)


def header(name: bytes, size: bytes, kind: bytes) -> bytes:
    """A tar header with any nonsense in it."""
    block = bytearray(512)
    block[: len(name)] = name
    block[100:108] = b"0000644\0"
    block[124 : 124 + len(size)] = size
    block[156:157] = kind
    block[257:265] = b"ustar\x0000"
    block[148:156] = b"%06o\0 " % (sum(block) + 8 * 32)
    return bytes(block)


@pytest.mark.parametrize("kind", [pytest.param(b"x", id="pax"), pytest.param(b"L", id="long name")])
def test_headers_that_would_fill_the_memory(tmp_path: Path, kind: bytes) -> None:
    content = gzip.compress(header(b"x", b"77777777777\0", kind) + bytes(1 << 20))
    assert "a header in it is too big" in refusal(tmp_path, content)


@pytest.mark.parametrize("kind", [b"0", b"x", b"L"])
def test_sizes_below_zero(tmp_path: Path, kind: bytes) -> None:
    # -4096 in base 256: it would lead tarfile back to where it was.
    content = header(b"x", b"\xff" * 10 + b"\xf0\x00", kind) + header(b"y", b"0\0", b"0")
    refusal(tmp_path, gzip.compress(content + bytes(4096)))


@pytest.mark.parametrize(
    "content, name, text",
    [
        pytest.param(tar(*MEMBERS)[:-200], "x.tar.gz", "it is damaged", id="cut off"),
        pytest.param(b"<html>", "x.tar.gz", "no tar archive, though its name", id="no tar"),
        pytest.param(b"<html>", "x.whl", "no zip archive, though its name", id="no zip"),
        pytest.param(gzip.compress(b"text"), "x.tgz", "no tar archive", id="compressed text"),
        pytest.param(zipped(("x", b"x" * 99, 0o644))[:60], "x.zip", "damaged", id="zip cut off"),
        pytest.param(b"\x28\xb5\x2f\xfd?", "x.tar.zst", "damaged (zstd)", id="zstd"),
    ],
)
def test_damaged_archives(tmp_path: Path, content: bytes, name: str, text: str) -> None:
    if "zstd" in text and shutil.which("zstd") is None:
        pytest.skip("the program zstd isn't there")
    assert text in refusal(tmp_path, content, name=name)


@pytest.mark.parametrize(
    "content, name, problem",
    [
        pytest.param(tar(*MEMBERS), "x.tar.gz", "", id="archive"),
        pytest.param(b"text", "x.h", "", id="file"),
        pytest.param(b"<html></html>", "x.html", "", id="page that is named so"),
        pytest.param(b"\n<!DOCTYPE html>", "x.tar.gz", "it is a page of HTML", id="page"),
        pytest.param(b"<html>", "download", "it is a page of HTML", id="page of any name"),
        pytest.param(b"404", "x.tgz", "it is no tar archive, though its name says so", id="text"),
    ],
)
def test_no_archive(content: bytes, name: str, problem: str) -> None:
    file = io.BytesIO(content)
    assert no_archive(file, name) == problem


@pytest.mark.parametrize("seed", range(8))
def test_random_damage_never_gets_out(tmp_path: Path, seed: int) -> None:
    """Whatever is in an archive, there is a tree or one clear error, and nothing beside it."""
    chance = random.Random(seed)
    plain = {"x.tar": tar(*MEMBERS, mode="w"), "x.zip": zipped(("a/b", b"b" * 50, 0o755))}
    limits = Limits(max_bytes=1 << 22, max_members=100, max_ratio=200.0)
    for number in range(40):
        name = chance.choice(list(plain))
        content = bytearray(plain[name])
        for _ in range(chance.choice([1, 2, 8])):
            content[chance.randrange(min(len(content), 6000))] = chance.randrange(256)
        work = tmp_path / str(number) / "work"
        work.mkdir(parents=True)
        try:
            unpack_to(work / "out", bytes(content), name, limits)
        except FetchError as e:
            assert e.exit_code == EXIT_UNUSABLE and "\n" not in str(e)
            assert os.listdir(work) == ["archive"]
        assert set(os.listdir(work)) <= {"archive", "out"}
        assert os.listdir(work.parent) == ["work"]
        for path in (work / "out").rglob("*"):
            if path.is_symlink():
                inside = os.path.realpath(work / "out")
                assert os.path.realpath(path).startswith(inside)
        shutil.rmtree(work.parent)


# -- the output folder ----------------------------------------------------------------------------


def test_an_empty_folder_may_be_there(output: Path) -> None:
    output.mkdir()
    unpack_to(output, tar(entry("a")))
    assert os.listdir(output) == ["a"]


@pytest.mark.parametrize("kind", ["full", "file", "link"])
def test_nothing_is_overwritten(output: Path, tmp_path: Path, kind: str) -> None:
    if kind == "full":
        (output / "mine").mkdir(parents=True)
    elif kind == "file":
        output.touch()
    else:
        output.symlink_to(tmp_path)
    with pytest.raises(FetchError, match="exists already"):
        unpack_to(output, tar(entry("a")))


def test_a_folder_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FetchError, match="Can't write the tree") as e:
        with staged(tmp_path / "file" / "out"):
            pass
    assert e.value.exit_code == EXIT_THIS_HOST


def test_what_is_half_done_is_removed(output: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        with staged(output) as root:
            (root / "x").touch()
            raise KeyboardInterrupt
    assert os.listdir(output.parent) == []


# -- packages of Debian ---------------------------------------------------------------------------


def test_packages_share_a_tree(output: Path) -> None:
    first = tar(
        entry("./usr/", type=tarfile.DIRTYPE),
        entry("./usr/lib/", type=tarfile.DIRTYPE),
        link("./lib", "usr/lib"),
        link("./lib64", "/usr/lib"),
        mode="w:xz",
    )
    second = tar(
        entry("./lib/", type=tarfile.DIRTYPE),
        entry("./lib/libc.so.6", b"libc", mode=0o755),
        link("./lib64/ld.so", "/lib/libc.so.6"),
        link("./etc/alternatives/cc", "/usr/bin/gcc"),
        link("./usr/bin/up", "../../../../lib/libc.so.6"),
        link("./etc/mtab", "/proc/self/mounts"),
        mode="w:gz",
    )
    unpack_debs(output, deb(first), deb(second, "data.tar.gz"))
    assert listing(output) == {
        "etc": None,
        "etc/alternatives": None,
        "etc/alternatives/cc": "-> ../../usr/bin/gcc",
        "lib": "-> usr/lib",
        "lib64": "-> usr/lib",
        "usr": None,
        "usr/bin": None,
        "usr/bin/up": "-> ../../lib/libc.so.6",
        "usr/lib": None,
        "usr/lib/ld.so": "-> ../../lib/libc.so.6",
        "usr/lib/libc.so.6": "*libc",
    }
    assert (output / "lib64/ld.so").read_text() == "libc"


def test_a_file_of_two_packages(output: Path) -> None:
    package = deb(tar(entry("./etc/x"), mode="w:xz"))
    with pytest.raises(FetchError, match="1.deb can't be unpacked: etc/x is there twice"):
        unpack_debs(output, package, package)


@pytest.mark.parametrize(
    "content, text",
    [
        pytest.param(b"<html>", "it is no Debian package", id="page"),
        pytest.param(b"!<arch>\n", "a Debian package without files", id="empty"),
        pytest.param(deb(b"", "data.tar.br"), "whose files are data.tar.br", id="compression"),
        pytest.param(deb(b"?"), "it is damaged", id="no xz"),
        pytest.param(deb(lzma.compress(b"?")), "it is damaged", id="no tar"),
        pytest.param(
            deb(tar(link("./x", "../../../x"), entry("./x/y"), mode="w:xz")), "a link", id="through"
        ),
        pytest.param(deb(tar(entry("./../x"), mode="w:xz")), "has a `..`", id="parent"),
        pytest.param(deb(tar(entry("./x", type=tarfile.CHRTYPE), mode="w:xz")), "device", id="dev"),
    ],
)
def test_packages_that_are_none(output: Path, content: bytes, text: str) -> None:
    with pytest.raises(FetchError, match="0.deb can't be unpacked") as e:
        unpack_debs(output, content)
    assert text in str(e.value)
    assert os.listdir(output.parent) == ["archive"]


def test_a_package_that_is_a_bomb(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "_RATIO_FLOOR", 1 << 20)
    package = deb(tar(*(entry(str(i), ZEROS) for i in range(8)), mode="w:xz"))
    with pytest.raises(FetchError, match="0.deb can't be unpacked: its content is too big"):
        unpack_debs(output, package)


def test_a_zip_has_no_more_in_it_than_it_says(tmp_path: Path) -> None:
    content = bytearray(zipped(("x", b"x" * 5000, 0o644)))
    central = content.index(b"PK\x01\x02")
    for at in (22, central + 24):
        content[at : at + 4] = struct.pack("<I", 10)
    refusal(tmp_path, bytes(content), name="x.zip")
