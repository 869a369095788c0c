"""Tests of what editors get: databases rewritten, folders kept in step with what they shall be."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pants_triton.native.editor import (
    USES,
    Command,
    DatabaseError,
    NotOurs,
    Places,
    place_database,
    read_database,
    render_database,
    sync_folder,
    unused_artifacts,
    write_file,
)
from pants_triton.native.layout import ROOT_TOKEN as R


def places() -> Places:
    trees = {"3rdparty/llvm/llvm": "/dist/artifacts/aa", "3rdparty/llvm": "/dist/artifacts/bb"}
    return Places("/home/me/triton", "/dist/p/build", trees)


# --- CMake's database --------------------------------------------------------------------------


def database(**fields: object) -> str:
    entry = {
        "directory": f"{R}/_build",
        "command": f"{R}/llvm/bin/clang++ '-DNAME=\"x y\"' -o CMakeFiles/a.o -c {R}/a.cpp",
        "file": f"{R}/a.cpp",
        "output": "CMakeFiles/a.o",
    }
    entry.update(fields)  # type: ignore[arg-type]
    return json.dumps([{name: value for name, value in entry.items() if value is not None}])


def test_a_command_is_words() -> None:
    (command,) = read_database(database())
    words = [f"{R}/llvm/bin/clang++", '-DNAME="x y"', "-o", "CMakeFiles/a.o", "-c", f"{R}/a.cpp"]
    assert list(command.arguments) == words
    assert (command.directory, command.file) == (f"{R}/_build", f"{R}/a.cpp")


@pytest.mark.parametrize(
    "fields, output",
    [
        pytest.param({}, "_build/CMakeFiles/a.o", id="told"),
        pytest.param({"output": None}, "_build/CMakeFiles/a.o", id="of the command"),
        pytest.param({"output": f"{R}/_build/a.o"}, "_build/a.o", id="absolute"),
        pytest.param({"directory": f"{R}/_build/sub"}, "_build/sub/CMakeFiles/a.o", id="folder"),
        pytest.param({"output": None, "command": "cc -c a.c"}, "", id="none"),
        pytest.param({"output": None, "command": "cc -c a.c -o"}, "", id="cut off"),
        pytest.param({"directory": "/elsewhere"}, "", id="elsewhere"),
    ],
)
def test_the_output_tells_the_edge(fields: dict[str, str], output: str) -> None:
    (command,) = read_database(database(**fields))
    assert command.output == output


@pytest.mark.parametrize(
    "text",
    ["", "{", "3", "[3]", '[{"file": "a"}]', '{"a": 1}', database(command="'")],
)
def test_a_damaged_database_is_refused(text: str) -> None:
    with pytest.raises(DatabaseError, match="compile_commands.json can't be understood"):
        read_database(text)


# --- places ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, expected",
    [
        pytest.param(f"{R}/lib/a.cpp", "/home/me/triton/lib/a.cpp", id="source"),
        pytest.param(R, "/home/me/triton", id="root"),
        pytest.param(f"-I{R}/_build/include", "-I/dist/p/build/include", id="generated"),
        pytest.param(f"-I{R}/_build", "-I/dist/p/build", id="the build folder"),
        pytest.param(f"-I{R}/_build2/x", "-I/home/me/triton/_build2/x", id="alike"),
        pytest.param(
            f"--sysroot={R}/3rdparty/llvm/llvm", "--sysroot=/dist/artifacts/aa", id="tree"
        ),
        pytest.param(f"{R}/3rdparty/llvm/x.h", "/dist/artifacts/bb/x.h", id="tree in a tree"),
        pytest.param(f"{R}/3rdparty/llvm2", "/home/me/triton/3rdparty/llvm2", id="tree alike"),
        pytest.param(f"-I{R}/_build/../inc", "-I/home/me/triton/inc", id="not normal"),
        pytest.param(f"{R}/../x", f"{R}/../x", id="out of the root"),
        pytest.param(f'-DX="{R}/a"', '-DX="/home/me/triton/a"', id="quoted"),
        pytest.param(f"{R}/a:{R}/_build/b", "/home/me/triton/a:/dist/p/build/b", id="list"),
        pytest.param(f"{R}/a b/c", "/home/me/triton/a b/c", id="space"),
        pytest.param(f"-I{R}/include/", "-I/home/me/triton/include/", id="slash at the end"),
        pytest.param("/usr/include/x.h", "/usr/include/x.h", id="the host's"),
    ],
)
def test_paths_get_their_place(text: str, expected: str) -> None:
    assert places().in_text(text) == expected


def test_the_artifacts_that_are_named_are_known() -> None:
    where = places()
    where.in_text(f"{R}/a {R}/_build/b")
    assert where.used == set()
    where.in_text(f"-I{R}/3rdparty/llvm/llvm/include")
    assert where.used == {"3rdparty/llvm/llvm"}


def test_a_database_for_this_machine() -> None:
    command = Command(
        f"{R}/_build",
        f"{R}/lib/a.cpp",
        (
            f"{R}/3rdparty/llvm/llvm/bin/clang++",
            f"-ffile-prefix-map={R}=.",
            "-I../include",
            "-isystem",
            "../3rdparty/llvm/include",
            "-Iinclude",
            "-c",
            f"{R}/lib/a.cpp",
        ),
        "",
    )
    (entry,) = json.loads(render_database([command], places()))
    assert entry == {
        "directory": "/dist/p/build",
        "file": "/home/me/triton/lib/a.cpp",
        "arguments": [
            "/dist/artifacts/aa/bin/clang++",
            "-I/home/me/triton/include",
            "-isystem",
            "/dist/artifacts/bb/include",
            "-Iinclude",
            "-c",
            "/home/me/triton/lib/a.cpp",
        ],
    }


# --- on disk -----------------------------------------------------------------------------------


def content(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text() if path.is_file() else "/"
        for path in folder.rglob("*")
    }


def test_a_folder_is_kept_in_step(tmp_path: Path) -> None:
    folder = tmp_path / "build"
    assert sync_folder(folder, {"include/a.h": b"a", "b.h": b"b"}) == 2
    assert content(folder) == {"include": "/", "include/a.h": "a", "b.h": "b"}
    # Something went, something came, a file became a folder and the other way round.
    assert sync_folder(folder, {"include": b"i", "b.h/c.h": b"c"}, ["empty/deep"]) == 4
    assert content(folder) == {
        **{"include": "i", "b.h": "/", "b.h/c.h": "c"},
        **{"empty": "/", "empty/deep": "/"},
    }
    assert sync_folder(folder, {}) == 2
    assert content(folder) == {}


def test_what_is_as_it_was_is_not_touched(tmp_path: Path) -> None:
    sync_folder(tmp_path, {"a.h": b"a", "b.h": b"b"})
    for name in ("a.h", "b.h"):
        os.utime(tmp_path / name, (1, 1))
    assert sync_folder(tmp_path, {"a.h": b"a", "b.h": b"other"}) == 1
    assert (tmp_path / "a.h").stat().st_mtime == 1
    assert (tmp_path / "b.h").stat().st_mtime > 1


def test_links_are_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/x.h").write_text("x")
    folder = tmp_path / "build"
    folder.mkdir()
    (folder / "folder").symlink_to("../elsewhere")
    (folder / "a.h").symlink_to("../elsewhere/x.h")
    sync_folder(folder, {"a.h": b"a"})
    assert content(folder) == {"a.h": "a"}
    assert (tmp_path / "elsewhere/x.h").read_text() == "x"


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_file(tmp_path / "a", b"old")
    with pytest.raises(TypeError):
        write_file(tmp_path / "a", "not bytes")  # type: ignore[arg-type]
    assert content(tmp_path) == {"a": "old"}


# --- beside the CMakeLists.txt -----------------------------------------------------------------


class Checkout:
    def __init__(self, root: Path) -> None:
        self.ours = root / "dist/compile-commands"
        self.database = self.ours / "projects/p/compile_commands.json"
        self.path = root / "p/compile_commands.json"
        self.path.parent.mkdir()
        self.write()

    def write(self, more: str = "") -> None:
        entry = {"directory": f"{self.ours}/projects/p/build", "file": f"a{more}.cpp"}
        write_file(self.database, json.dumps([entry]).encode())

    def place(self, copy: bool = False) -> bool:
        return place_database(self.path, self.database, self.ours, copy)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_link(checkout: Checkout) -> None:
    assert checkout.place()
    # A checkout may be moved.
    assert os.readlink(checkout.path) == "../dist/compile-commands/projects/p/compile_commands.json"
    assert not checkout.place()
    assert os.listdir(checkout.path.parent) == ["compile_commands.json"]


def test_a_copy_follows(checkout: Checkout) -> None:
    assert checkout.place(copy=True)
    assert not checkout.path.is_symlink()
    checkout.write("2")
    assert not checkout.place(copy=True)
    assert checkout.path.read_bytes() == checkout.database.read_bytes()


def test_a_link_becomes_a_copy_and_the_other_way_round(checkout: Checkout) -> None:
    for copy in (False, True, False):
        checkout.place(copy)
        assert checkout.path.is_symlink() != copy
        assert checkout.path.read_bytes() == checkout.database.read_bytes()


def test_a_link_of_ours_that_leads_nowhere_is_renewed(checkout: Checkout) -> None:
    checkout.path.symlink_to("../dist/compile-commands/projects/old/compile_commands.json")
    assert not checkout.place()
    assert checkout.path.read_bytes() == checkout.database.read_bytes()


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize(
    "text",
    ["[", "{}", '[{"directory": "/home/me/build", "file": "a.cpp"}]', '["a"]'],
)
def test_what_somebody_else_wrote_stays(checkout: Checkout, text: str, copy: bool) -> None:
    checkout.path.write_text(text)
    with pytest.raises(NotOurs):
        checkout.place(copy)
    assert checkout.path.read_text() == text


@pytest.mark.parametrize("copy", [False, True])
def test_a_link_of_somebody_else_stays(checkout: Checkout, copy: bool) -> None:
    checkout.path.symlink_to("build/compile_commands.json")
    with pytest.raises(NotOurs):
        checkout.place(copy)
    assert os.readlink(checkout.path) == "build/compile_commands.json"


# --- artifacts ---------------------------------------------------------------------------------


def test_unused_artifacts(tmp_path: Path) -> None:
    artifacts, projects = tmp_path / "artifacts", tmp_path / "projects"
    assert unused_artifacts(artifacts, projects) == []
    for name in ("aa", "bb", "cc", "dd.partial"):
        (artifacts / name).mkdir(parents=True)
    write_file(projects / "p" / USES, b"aa\nbb\n")
    write_file(projects / "q" / USES, b"bb\n")
    assert unused_artifacts(artifacts, projects) == ["cc", "dd.partial"]
