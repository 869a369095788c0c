from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from pants_triton.native import configure
from pants_triton.native.configure import main, read_trace, replace_paths
from pants_triton.native.layout import BUILD, ROOT_TOKEN

# Does what CMake does, as far as that matters: it writes the sandbox's path all over.
FAKE_CMAKE = """\
#!/bin/sh
root=$PWD
mkdir -p _build/CMakeFiles/3.31.10 _build/CMakeFiles/pkgRedirects _build/Testing _build/.cmake/api
for argument; do case "$argument" in --trace*) continue ;; esac; printf '%s\\n' "$argument"; done > "$root/arguments"
echo "-- The compiler is $root/tools/llvm/bin/clang++"
echo "CMake is in $(cd "$root/tools/cmake" && pwd -P)/share"
echo "CMake Warning at $root/demo/CMakeLists.txt:1" >&2
cd _build
for file in CMakeCache.txt .ninja_log .ninja_deps CMakeFiles/CMakeConfigureLog.yaml \\
    CMakeFiles/TargetDirectories.txt CMakeFiles/cmake.check_cache CMakeFiles/3.31.10/a.cmake \\
    CMakeFiles/pkgRedirects/x Testing/x .cmake/api/x; do echo "$root" > $file; done
ln -s CMakeCache.txt CMakeFiles/CMakeError.log
{
  echo "build a.o: CXX $root/demo/a.cpp | $(cd "$root/tools/llvm" && pwd -P)/lib/x.a"
  echo "build $root/tools/llvm/y $(cd "$root/tools/llvm" && pwd -P)/y plain: phony"
  echo "build z: phony z z"
} > build.ninja
echo "nothing of the kind" > config.h
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sandbox in which the tool's trees are links, as Pants makes them; we are in it."""
    store = tmp_path / "store"
    for name in ("cmake", "llvm"):
        (store / name / "bin").mkdir(parents=True)
    for name in ("cmake", "ninja"):
        tool = store / "cmake/bin" / name
        tool.write_text(FAKE_CMAKE)
        tool.chmod(0o755)
    root = tmp_path / "sandbox"
    (root / "tools").mkdir(parents=True)
    (root / "demo").mkdir()
    for name in ("cmake", "llvm"):
        (root / "tools" / name).symlink_to(store / name)
    (root / "toolchain.cmake").write_text(f'set(X "{ROOT_TOKEN}/tools/llvm/bin/clang")\n')
    monkeypatch.chdir(root)
    return root


ARGV = (
    *("--project=demo", "--cmake=tools/cmake", "--toolchain-file=toolchain.cmake"),
    *("--tree=tools/cmake", "--tree=tools/llvm", "--record=record.json", "--", "-DA=b c"),
)


def fake_unshare(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let `unshare` be this script."""
    folder.mkdir()
    tool = folder / "unshare"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_the_sandboxs_path_is_nowhere(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(ARGV) == 0
    build = root / BUILD
    files = sorted(p.relative_to(build).as_posix() for p in build.rglob("*") if p.is_file())
    # Caches, logs and checks of the compiler are of no use, and hold the path.
    assert files == ["build.ninja", "config.h"]
    assert (build / "build.ninja").read_text() == dedent(
        f"""\
        build a.o: CXX {ROOT_TOKEN}/demo/a.cpp | {ROOT_TOKEN}/tools/llvm/lib/x.a
        build {ROOT_TOKEN}/tools/llvm/y plain: phony
        build z: phony z z
        """
    )
    assert json.loads((root / "record.json").read_text())["with_token"] == ["build.ninja"]
    output = capfd.readouterr().err
    assert "-- The compiler is tools/llvm/bin/clang++\n" in output
    assert "CMake Warning at demo/CMakeLists.txt:1\n" in output
    assert "CMake is in tools/cmake/share\n" in output


def test_how_cmake_is_called(root: Path) -> None:
    assert main(ARGV) == 0
    assert (root / "arguments").read_text().splitlines() == [
        "-GNinja",
        f"-S{root}/demo",
        f"-B{root}/_build",
        f"-DCMAKE_MAKE_PROGRAM={root}/tools/cmake/bin/ninja",
        f"-DCMAKE_TOOLCHAIN_FILE={root}/toolchain.cmake",
        "-DA=b c",
    ]
    # CMake itself needs the real path.
    assert (root / "toolchain.cmake").read_text() == f'set(X "{root}/tools/llvm/bin/clang")\n'


def test_a_project_in_the_root(root: Path) -> None:
    assert main(["--project=", *ARGV[1:]]) == 0
    assert f"-S{root}\n" in (root / "arguments").read_text()


def test_cmake_fails(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (root / "tools/cmake/bin/cmake").write_text('#!/bin/sh\necho "no $PWD/demo/x"; exit 7\n')
    assert main(ARGV) == 7
    assert not (root / "record.json").exists()
    assert capfd.readouterr().err == "no demo/x\n"


def test_output_that_is_no_text(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (root / "tools/cmake/bin/cmake").write_text("#!/bin/sh\nprintf 'a\\377b\\n'; exit 1\n")
    assert main(ARGV) == 1
    assert capfd.readouterr().err == "a\ufffdb\n"


@pytest.mark.parametrize(
    "script, network",
    [
        pytest.param('echo "$@" >> calls; shift 2; exec "$@"', False, id="works"),
        pytest.param("echo 'not permitted' >&2; exit 1", True, id="forbidden"),
    ],
)
def test_the_network_is_cut_off_where_the_host_can(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    script: str,
    network: bool,
) -> None:
    fake_unshare(tmp_path / "bin", monkeypatch, script)
    assert main(ARGV) == 0
    assert json.loads((root / "record.json").read_text())["network"] is network
    assert "not permitted" not in capfd.readouterr().err
    if network:
        return
    first, second = (root / "calls").read_text().splitlines()
    assert first == "--map-root-user --net true"
    assert second.startswith(f"--map-root-user --net {root}/tools/cmake/bin/cmake --trace-expand ")


def test_no_unshare(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As on macOS.
    bin = tmp_path / "bin"
    bin.mkdir()
    for name in ("sh", "mkdir", "ln"):
        (bin / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(bin))
    assert main(ARGV) == 0
    assert json.loads((root / "record.json").read_text())["network"] is True


def test_it_runs_alone_in_an_isolated_python(root: Path, tmp_path: Path) -> None:
    """The program is these modules and Python's own."""
    package = tmp_path / "program/pants_triton/native"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    source = Path(configure.__file__).parent
    for name in configure.PROGRAM_MODULES:
        (package / f"{name}.py").write_text((source / f"{name}.py").read_text())
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from pants_triton.native.configure"
    result = subprocess.run(
        [sys.executable, "-sE", "-c", f"{code} import main; sys.exit(main(sys.argv[1:]))"]
        + [str(tmp_path / "program"), *ARGV],
        env={"PATH": "/usr/bin:/bin"},
    )
    assert result.returncode == 0 and (root / "record.json").exists()


# --- read_trace --------------------------------------------------------------------------------


def call(command: str, *arguments: str, file: str = "demo/CMakeLists.txt") -> str:
    """A line of CMake's trace; `@` is the sandbox's root."""
    record = {"args": arguments, "cmd": command, "file": f"@/{file}", "frame": 1, "line": 3}
    return json.dumps(record, separators=(",", ":"))


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for name in ("demo/a.txt", "demo/sub/b.txt", f"{BUILD}/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    "line, reads",
    [
        pytest.param(call("file", "READ", "@/demo/a.txt", "V"), ["demo/a.txt"], id="READ"),
        pytest.param(call("file", "strings", "a.txt", "V"), ["demo/a.txt"], id="relative"),
        pytest.param(call("file", "SHA256", "../demo/a.txt", "V"), ["demo/a.txt"], id="a digest"),
        pytest.param(
            call("file", "COPY", "@/demo/sub", "a.txt", "DESTINATION", f"@/{BUILD}"),
            ["demo/a.txt", "demo/sub"],
            id="a folder copied",
        ),
        pytest.param(
            call("file", "GENERATE", "OUTPUT", "x", "INPUT", "@/demo/a.txt"),
            ["demo/a.txt"],
            id="GENERATE",
        ),
        pytest.param(
            call("execute_process", "COMMAND", "sh", "sub/b.txt", "WORKING_DIRECTORY", "@/demo"),
            ["demo/sub/b.txt"],
            id="a command",
        ),
        pytest.param(call("try_compile", "V", "x", "a.txt"), ["demo/a.txt"], id="try_compile"),
        pytest.param(call("file", "GLOB", "V", "@/demo/a.txt"), [], id="GLOB"),
        pytest.param(call("file", "WRITE", "@/demo/a.txt", "x"), [], id="WRITE"),
        pytest.param(call("file", "READ", "@/demo/gone.txt", "V"), [], id="not there"),
        pytest.param(call("file", "READ", f"@/{BUILD}/c.txt", "V"), [], id="of the build folder"),
        pytest.param(call("file", "READ", "/etc/passwd", "V"), [], id="of the host"),
        pytest.param(call("file", "READ", "@/demo/sub", "V"), [], id="a folder that isn't copied"),
        pytest.param(call("message", "a.txt"), [], id="another command"),
        pytest.param(call("file"), [], id="no argument"),
        pytest.param('{"version":{"major":1,"minor":2}}', [], id="the first line"),
        pytest.param('{"args":["READ","a.txt"],"cmd":"file","fi', [], id="broken off"),
        pytest.param("", [], id="empty"),
    ],
)
def test_what_configuring_read(sources: Path, line: str, reads: list[str]) -> None:
    assert read_trace([line.replace("@", str(sources))], str(sources)) == (reads, {})


def test_what_configuring_downloaded(sources: Path) -> None:
    lines = [
        call("file", "DOWNLOAD", "https://example.org/x.zip", "@/demo/a.txt", "STATUS", "S"),
        call("file", "DOWNLOAD", "file:///x.zip", "y.zip", file="demo/sub/CMakeLists.txt"),
    ]
    found = read_trace([line.replace("@", str(sources)) for line in lines], str(sources))
    assert found == ([], {"demo/CMakeLists.txt:3": "https://example.org/x.zip"})


# --- replace_paths -----------------------------------------------------------------------------


def test_replace_paths(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    (folder / "sub").mkdir(parents=True)
    contents = {
        "b.txt": b"/s/x and /s/tree/y",
        "a.txt": b"/s",
        "sub/latin.txt": b"\xe9 /s/z",
        "binary": b"\0/s/x",
        "no-path.bin": b"\0",
        "other.txt": b"/t",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "link").symlink_to(tmp_path / "outside.txt")
    (tmp_path / "outside.txt").write_bytes(b"/s")
    os.chmod(folder / "a.txt", 0o755)

    pairs = [("/s/tree", "TREE"), ("/s", "ROOT")]
    assert replace_paths(folder, pairs) == (["a.txt", "b.txt", "sub/latin.txt"], ["binary"])
    found = {name: (folder / name).read_bytes() for name in contents}
    assert found == {
        **contents,
        # The earlier pair goes first.
        "b.txt": b"ROOT/x and TREE/y",
        "a.txt": b"ROOT",
        "sub/latin.txt": b"\xe9 ROOT/z",
    }
    assert (tmp_path / "outside.txt").read_bytes() == b"/s"
    assert os.stat(folder / "a.txt").st_mode & 0o777 == 0o755
    assert replace_paths(folder, pairs) == ([], ["binary"])


def test_replace_paths_in_nothing(tmp_path: Path) -> None:
    assert replace_paths(tmp_path, [("/s", "ROOT")]) == ([], [])


@pytest.mark.parametrize(
    "manifest, expected",
    [
        pytest.param("build a b a: phony", "build a b: phony", id="one twice"),
        pytest.param("build a$ b a b: phony", "build a$ b a b: phony", id="a space in a name"),
        pytest.param("build a a: phony x", "build a a: phony x", id="stands for something"),
        pytest.param("build a a: CXX x", "build a a: CXX x", id="another rule"),
        pytest.param(
            "build x: phony \nbuild a a: phony\n  k = v", "build x: phony\nbuild a: phony\n  k = v"
        ),
    ],
)
def test_files_that_had_two_paths_are_named_once(manifest: str, expected: str) -> None:
    assert configure._without_doubles(manifest) == expected
