"""Commands here are those of CMake 3.31 with clang 19, shortened in their folders only."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest

from pants_triton.native.edges import (
    WITH_NETWORK,
    Step,
    declared_inputs,
    edge_process,
    make_step,
    may_read,
    named_paths,
    offline,
    relocatable_rpaths,
    shell_script,
    shown_command,
)
from pants_triton.native.layout import BUILD, CHROOT, ROOT_TOKEN
from pants_triton.native.manifest import Edge, Manifest, read_manifest

LLVM = f"{ROOT_TOKEN}/3rdparty/llvm/bin"
CMAKE = f"{ROOT_TOKEN}/3rdparty/cmake/bin/cmake"
FLAGS = f"-no-canonical-prefixes -ffile-prefix-map={ROOT_TOKEN}=."
# Spelled by name, so that the manifests below are raw text without `{}` of Python.
NAMES = {"@ROOT": ROOT_TOKEN, "@LLVM": LLVM, "@CMAKE": CMAKE, "@FLAGS": FLAGS}


def named(text: str) -> str:
    for name, value in NAMES.items():
        text = text.replace(name, value)
    return text


def manifest_of(text: str) -> Manifest:
    return read_manifest({"build.ninja": named(dedent(text))})


def step_of(text: str) -> Step:
    (edge,) = (edge for edge in manifest_of(text).edges if not edge.is_phony)
    return make_step(edge)


# --- compiles ----------------------------------------------------------------------------------

COMPILE = r"""
rule CXX_COMPILER__core_unscanned_
  depfile = $DEP_FILE
  deps = gcc
  command = ${LAUNCHER}${CODE_CHECK}@LLVM/clang++ --sysroot=@ROOT/3rdparty/llvm $DEFINES $INCLUDES $FLAGS -MD -MT $out -MF $DEP_FILE -o $out -c $in
  description = Building CXX object $out

build CMakeFiles/core.dir/lib/core.cpp.o: CXX_COMPILER__core_unscanned_ @ROOT/demo/lib/core.cpp || cmake_object_order_depends_target_core
  DEFINES = -Dcore_EXPORTS
  DEP_FILE = CMakeFiles/core.dir/lib/core.cpp.o.d
  FLAGS = @FLAGS -fPIC
  INCLUDES = -I@ROOT/demo/include -I@ROOT/_build/include -isystem @ROOT/3rdparty/llvm/include
build cmake_object_order_depends_target_core: phony || .
"""


def test_a_compile() -> None:
    step = step_of(COMPILE)
    assert step.description == "Building CXX object CMakeFiles/core.dir/lib/core.cpp.o"
    assert step.outputs == ("_build/CMakeFiles/core.dir/lib/core.cpp.o",)
    assert step.folders == ("_build/CMakeFiles/core.dir/lib",)
    assert step.depfile == "CMakeFiles/core.dir/lib/core.cpp.o.d"
    assert step.compile is not None and step.tablegen is None
    assert step.compile.source == "demo/lib/core.cpp"
    assert step.compile.include_dirs == ("demo/include", "_build/include")
    assert step.compile.system_dirs == ("3rdparty/llvm/include",)
    assert step.compile.directory == BUILD
    assert (step.rspfile, step.rspfile_content) == ("", "")


def test_a_compile_with_a_response_file() -> None:
    # CMAKE_NINJA_FORCE_RESPONSE_FILE, or a long command.
    step = step_of(
        r"""
        rule CXX_COMPILER__core_unscanned_
          depfile = $DEP_FILE
          command = @LLVM/clang++ @$RSP_FILE -MD -MT $out -MF $DEP_FILE -o $out -c $in
          rspfile = $RSP_FILE
          rspfile_content =  $DEFINES $INCLUDES $FLAGS

        build a/core.cpp.o: CXX_COMPILER__core_unscanned_ @ROOT/demo/core.cpp
          DEP_FILE = a/core.cpp.o.d
          INCLUDES = -I@ROOT/demo/include
          RSP_FILE = CMakeFiles/core.rsp
        """
    )
    assert step.rspfile == "CMakeFiles/core.rsp"
    assert step.rspfile_content.split() == [f"-I{ROOT_TOKEN}/demo/include"]
    assert step.compile is not None and step.compile.include_dirs == ("demo/include",)
    # Where it is written there may be nothing else.
    assert step.folders == ("_build/a", "_build/CMakeFiles")


# --- links -------------------------------------------------------------------------------------


def test_a_static_library() -> None:
    step = step_of(
        r"""
        rule CXX_STATIC_LIBRARY_LINKER__core_
          command = $PRE_LINK && @CMAKE -E rm -f $TARGET_FILE && @LLVM/llvm-ar qc $TARGET_FILE $LINK_FLAGS $in && @LLVM/llvm-ranlib $TARGET_FILE && $POST_BUILD
          description = Linking CXX static library $TARGET_FILE
          restat = $RESTAT

        build lib/libcore.a: CXX_STATIC_LIBRARY_LINKER__core_ core.dir/a.cpp.o core.dir/b.cpp.o
          POST_BUILD = :
          PRE_LINK = :
          TARGET_FILE = lib/libcore.a
        """
    )
    assert step.command == (
        f": && {CMAKE} -E rm -f lib/libcore.a && {LLVM}/llvm-ar qc lib/libcore.a  "
        f"core.dir/a.cpp.o core.dir/b.cpp.o && {LLVM}/llvm-ranlib lib/libcore.a && :"
    )
    assert (step.outputs, step.folders) == (("_build/lib/libcore.a",), ("_build/lib",))
    assert (step.compile, step.tablegen, step.depfile) == (None, None, "")


EXECUTABLE = r"""
rule CXX_EXECUTABLE_LINKER__tool_
  depfile = $DEP_FILE
  deps = gcc
  command = $PRE_LINK && @LLVM/clang++ $FLAGS $LINK_FLAGS $in -o $TARGET_FILE $LINK_PATH $LINK_LIBRARIES && $POST_BUILD
  description = Linking CXX executable $TARGET_FILE
  restat = $RESTAT

build bin/tool: CXX_EXECUTABLE_LINKER__tool_ tool.dir/main.cpp.o | lib/libshared.so lib/libcore.a @ROOT/3rdparty/llvm/lib/libLLVM.so.1 || lib/libshared.so td/OpsIncGen
  DEP_FILE = CMakeFiles/tool.dir/link.d
  FLAGS = @FLAGS
  LINK_FLAGS = -fuse-ld=lld -Xlinker --dependency-file=CMakeFiles/tool.dir/link.d
  LINK_LIBRARIES = -Wl,-rpath,@ROOT/_build/lib:@ROOT/3rdparty/llvm/lib  lib/libshared.so  lib/libcore.a
  POST_BUILD = :
  PRE_LINK = :
  TARGET_FILE = bin/tool
"""


def test_a_program() -> None:
    step = step_of(EXECUTABLE)
    words = shlex.split(step.command)
    assert "-Wl,-rpath,$ORIGIN/../lib" in words
    assert not [word for word in words if "rpath" in word and ROOT_TOKEN in word]
    assert step.outputs == ("_build/bin/tool",)
    # The linker writes a depfile, too, where there may be nothing else.
    assert step.folders == ("_build/bin", "_build/CMakeFiles/tool.dir")
    assert (step.compile, step.depfile) == (None, "")


def test_a_program_linked_by_a_response_file() -> None:
    step = step_of(
        r"""
        rule CXX_EXECUTABLE_LINKER__tool_
          command = $PRE_LINK && @LLVM/clang++ $FLAGS @$RSP_FILE -o $TARGET_FILE && $POST_BUILD
          rspfile = $RSP_FILE
          rspfile_content = $in_newline $LINK_PATH $LINK_LIBRARIES

        build bin/tool: CXX_EXECUTABLE_LINKER__tool_ tool.dir/main.cpp.o tool.dir/b.cpp.o
          LINK_LIBRARIES = -Wl,-rpath,@ROOT/_build/lib:@ROOT/3rdparty/llvm/lib  lib/libshared.so
          POST_BUILD = :
          PRE_LINK = :
          RSP_FILE = CMakeFiles/tool.rsp
          TARGET_FILE = bin/tool
        """
    )
    assert step.rspfile_content == (
        "tool.dir/main.cpp.o\ntool.dir/b.cpp.o  '-Wl,-rpath,$ORIGIN/../lib'  lib/libshared.so"
    )
    assert step.folders == ("_build/bin", "_build/CMakeFiles")


def test_the_links_of_a_library_with_a_version() -> None:
    step = step_of(
        r"""
        rule CMAKE_SYMLINK_LIBRARY
          command = @CMAKE -E cmake_symlink_library $in $SONAME $out && $POST_BUILD

        build lib/libv.so.1 lib/libv.so: CMAKE_SYMLINK_LIBRARY lib/libv.so.1.2
          POST_BUILD = :
        """
    )
    assert step.outputs == ("_build/lib/libv.so.1", "_build/lib/libv.so")


DISCOVERY = (
    "cd @ROOT/_build/unittest && @CMAKE -D TEST_TARGET=core_test "
    "-D TEST_EXECUTABLE=@ROOT/_build/bin/core_test -D TEST_EXECUTOR= -D TEST_PROPERTIES= "
    "-D CTEST_FILE=@ROOT/_build/unittest/core_test[1]_tests.cmake -D TEST_DISCOVERY_TIMEOUT=5 "
    "-P @ROOT/3rdparty/cmake/share/cmake-3.31/Modules/GoogleTestAddTests.cmake"
)


@pytest.mark.parametrize(
    "before, after", [("", ""), (":", ": && "), ("echo linked", "echo linked && ")]
)
def test_tests_are_not_discovered_by_running_the_program(before: str, after: str) -> None:
    post_build = f"{before} && {DISCOVERY}" if before else DISCOVERY
    step = step_of(
        rf"""
        rule CXX_EXECUTABLE_LINKER__core_test_
          command = $PRE_LINK && @LLVM/clang++ $in -o $TARGET_FILE $LINK_LIBRARIES && $POST_BUILD

        build bin/core_test unittest/core_test[1]_tests.cmake | ${{w}}unittest/core_test[1]_tests.cmake: CXX_EXECUTABLE_LINKER__core_test_ a.o
          LINK_LIBRARIES = lib/libgtest.a
          POST_BUILD = {post_build}
          PRE_LINK = :
          TARGET_FILE = bin/core_test
        """.replace(
            "${w}", f"{ROOT_TOKEN}/{BUILD}/"
        )
    )
    assert step.command == (
        f": && {LLVM}/clang++ a.o -o bin/core_test lib/libgtest.a && "
        f"{after}cd {ROOT_TOKEN}/_build/unittest"
    )
    assert step.outputs == ("_build/bin/core_test",)


@pytest.mark.parametrize(
    "words, expected",
    [
        pytest.param("-Wl,-rpath,@ROOT/_build/lib", "'-Wl,-rpath,$ORIGIN/../lib'", id="a sibling"),
        pytest.param("-Wl,-rpath,@ROOT/_build/bin", "'-Wl,-rpath,$ORIGIN'", id="its own folder"),
        pytest.param("-Wl,-rpath,@ROOT/_build", "'-Wl,-rpath,$ORIGIN/..'", id="the build folder"),
        pytest.param(
            "-Wl,-rpath,@ROOT/_build/lib:::::", "'-Wl,-rpath,$ORIGIN/../lib'", id="padding"
        ),
        pytest.param("a -Wl,-rpath,@ROOT/3rdparty/llvm/lib b", "a  b", id="an artifact's alone"),
        pytest.param("-Wl,-rpath,@ROOT/demo/lib:", "", id="a source folder's alone"),
        pytest.param("-Wl,-rpath,/opt/rocm/lib", "-Wl,-rpath,/opt/rocm/lib", id="the host's"),
        pytest.param(
            '-Wl,-rpath,"\\$ORIGIN/../lib:\\$ORIGIN"',
            "'-Wl,-rpath,$ORIGIN/../lib:$ORIGIN'",
            id="INSTALL_RPATH",
        ),
        pytest.param(
            '"-Wl,-rpath,@ROOT/_build/my lib"', "'-Wl,-rpath,$ORIGIN/../my lib'", id="a space"
        ),
        pytest.param(
            "-Wl,-rpath,@ROOT/_build/lib:/opt/x:\\$ORIGIN/y:@ROOT/3rdparty/z",
            "'-Wl,-rpath,$ORIGIN/../lib:/opt/x:$ORIGIN/y'",
            id="some of several",
        ),
        pytest.param(
            "-Wl,-z,now,-rpath,@ROOT/_build/bin,-rpath,@ROOT/3rdparty/x,-s",
            "'-Wl,-z,now,-rpath,$ORIGIN,-s'",
            id="among other options",
        ),
        pytest.param("-Wl,--rpath,@ROOT/_build/bin", "'-Wl,--rpath,$ORIGIN'", id="two dashes"),
        pytest.param(
            "-Wl,-rpath-link,@ROOT/_build/lib", "-Wl,-rpath-link,@ROOT/_build/lib", id="no rpath"
        ),
        pytest.param(
            "-Wl,-rpath,@loader_path/../lib", "-Wl,-rpath,@loader_path/../lib", id="macOS"
        ),
        pytest.param(
            'clang++ -D\'X="a b"\' "q\\"r" -Wl,-rpath,@ROOT/_build/bin -lfoo',
            'clang++ -D\'X="a b"\' "q\\"r" \'-Wl,-rpath,$ORIGIN\' -lfoo',
            id="words around it stay as they are",
        ),
        pytest.param("echo '-Wl,-rpath", "echo '-Wl,-rpath", id="an open quote"),
        pytest.param("-Wl,-rpath,", "", id="nothing"),
        pytest.param("-Wl,-rpath=@ROOT/_build/lib", "'-Wl,-rpath,$ORIGIN/../lib'", id="equals"),
        pytest.param(
            "-Wl,-rpath=@ROOT/demo,--defsym=a=b", "-Wl,--defsym=a=b", id="equals of others"
        ),
        pytest.param(
            "a -Xlinker -rpath -Xlinker @ROOT/_build/lib b",
            "a '-Wl,-rpath,$ORIGIN/../lib' b",
            id="-Xlinker",
        ),
        pytest.param(
            "-Xlinker --rpath=@ROOT/_build/bin", "'-Wl,-rpath,$ORIGIN'", id="-Xlinker, equals"
        ),
        pytest.param(
            "-Xlinker -rpath -Xlinker '@ROOT/_build/my lib':\\$ORIGIN -Xlinker -z",
            "'-Wl,-rpath,$ORIGIN/../my lib:$ORIGIN' -Xlinker -z",
            id="-Xlinker, quoted",
        ),
        pytest.param(
            "a -Xlinker -rpath -Xlinker @ROOT/3rdparty/llvm b", "a  b", id="-Xlinker, an artifact's"
        ),
        pytest.param(
            "-Xlinker -rpath -Xlinker '/a, b'", "-Xlinker -rpath -Xlinker '/a, b'", id="a comma"
        ),
        pytest.param(
            "-Xlinker -rpath-link -Xlinker @ROOT/_build",
            "-Xlinker -rpath-link -Xlinker @ROOT/_build",
            id="-Xlinker, no rpath",
        ),
    ],
)
def test_relocatable_rpaths(words: str, expected: str) -> None:
    result = relocatable_rpaths(named(words), "_build/bin")
    assert result.strip() == named(expected)


# --- TableGen and other commands ---------------------------------------------------------------


def test_a_tablegen_run_without_the_depfile_for_ninja() -> None:
    # From `tablegen()` in LLVM's TableGen.cmake.
    tablegen = (
        f"cd {ROOT_TOKEN}/_build && {LLVM}/mlir-tblgen -gen-op-decls -I{ROOT_TOKEN}/demo/td "
        f"-I {ROOT_TOKEN}/demo/include {ROOT_TOKEN}/demo/td/Ops.td --write-if-changed "
        "-o td/Ops.h.inc -d td/Ops.h.inc.d"
    )
    step = step_of(
        rf"""
        rule CUSTOM_COMMAND
          command = $COMMAND
          description = $DESC

        build td/Ops.h.inc | @ROOT/_build/td/Ops.h.inc: CUSTOM_COMMAND @LLVM/mlir-tblgen @ROOT/demo/td/Ops.td
          COMMAND = {tablegen} && @CMAKE -E cmake_transform_depfile Ninja gccdepfile @ROOT/demo @ROOT/demo/td @ROOT/_build @ROOT/_build/td @ROOT/_build/td/Ops.h.inc.d @ROOT/_build/CMakeFiles/d/df1f.d
          DESC = Building @ROOT/_build/td/Ops.h.inc...
          depfile = CMakeFiles/d/df1f.d
          deps = gcc
          restat = 1
        """
    )
    assert step.command == tablegen
    assert step.outputs == ("_build/td/Ops.h.inc",)
    assert step.description == "Building td/Ops.h.inc..."
    assert step.compile is None and step.tablegen is not None
    assert step.tablegen.source == "demo/td/Ops.td"
    assert step.tablegen.include_dirs == ("demo/td", "demo/include")
    assert step.depfile == ""


def test_a_custom_command() -> None:
    command = f"cd {ROOT_TOKEN}/_build/x && sed -e s/@X@/1/ {ROOT_TOKEN}/demo/a.in > a.h"
    step = step_of(
        f"""
        rule CUSTOM_COMMAND
          command = $COMMAND
        build x/a.h: CUSTOM_COMMAND @ROOT/demo/a.in
          COMMAND = {command}
        """
    )
    assert step.command == command
    assert step.description == "x/a.h"
    assert (step.compile, step.tablegen) == (None, None)


def test_flags_that_a_compile_must_have() -> None:
    edge = Edge(("a.o",), rule="r", bindings={"command": "/x/g++ -O2 -o a.o -c ../a.cpp"})
    assert make_step(edge, flags=("-O2", "-g")).command == "/x/g++ -g -O2 -o a.o -c ../a.cpp"
    edge = Edge(("a",), rule="r", bindings={"command": "/x/g++ a.o -o a"})
    assert make_step(edge, flags=("-g",)).command == "/x/g++ a.o -o a"


def test_an_output_outside_the_sandbox_is_none() -> None:
    step = make_step(Edge(("/elsewhere/a", "b"), rule="r", bindings={"command": "touch b"}))
    assert step.outputs == ("_build/b",)


# --- inputs ------------------------------------------------------------------------------------


def test_declared_inputs_see_through_phony_edges() -> None:
    manifest = manifest_of(
        """
        rule r
          command = x
        build a: r @ROOT/demo/a.in | group /usr/bin/tool @ROOT/3rdparty/x/tool || later
        build group: phony b @ROOT/demo/c.in
        build later: phony d
        build b: r
        build d: r
        """
    )
    edge = manifest.edge_of("a")
    assert edge is not None
    # Those of artifacts are named too: nothing is known of artifacts here.
    without = ["demo/a.in", "_build/b", "demo/c.in", "3rdparty/x/tool"]
    assert declared_inputs(manifest, edge, order_only=False) == without
    assert declared_inputs(manifest, edge, order_only=True) == [*without, "_build/d"]


@pytest.mark.parametrize(
    "command, expected",
    [
        pytest.param("cat @ROOT/a/b.txt", ["a/b.txt"], id="a word"),
        pytest.param("x --in=@ROOT/a -I@ROOT/b -D X=@ROOT/c", ["a", "b", "c"], id="options"),
        pytest.param("x '@ROOT/a b/c'", ["a b/c"], id="quoted"),
        pytest.param("x @ROOT/a\\ b", ["a b"], id="escaped"),
        pytest.param("x -DL='@ROOT/a;@ROOT/b'", ["a;@ROOT/b", "a", "b"], id="a list of CMake's"),
        pytest.param("P=@ROOT/a:@ROOT/b x", ["a:@ROOT/b", "a", "b"], id="a search path"),
        pytest.param("cd @ROOT/_build/x && y > @ROOT/_build/z", ["_build/x", "_build/z"], id="cd"),
        pytest.param(
            "x @ROOT/a/../b @ROOT/../etc @ROOT", ["b"], id="not normal, outside, the root"
        ),
        pytest.param("x /usr/a relative/b", [], id="none"),
        pytest.param("x 'open @ROOT/a", ["a"], id="an open quote"),
    ],
)
def test_named_paths(command: str, expected: list[str]) -> None:
    # A path may have such a separator in it, so that the whole word is one, too.
    assert named_paths(named(command)) == [named(path).replace("//", "/") for path in expected]


@pytest.mark.parametrize(
    "path, expected",
    [
        ("_build/include/config.h", True),
        ("_build/generate.cmake", True),
        ("_build/build.ninja", False),
        ("_build/CMakeFiles/rules.ninja", False),
        ("_build/cmake_install.cmake", False),
        ("_build/unittest/CTestTestfile.cmake", False),
        ("_build/unittest/core_test[1]_include.cmake", False),
        ("_build/compile_commands.json", False),
        ("_build/tablegen_compile_commands.yml", False),
    ],
)
def test_custom_commands_do_not_depend_on_how_the_build_is_described(
    path: str, expected: bool
) -> None:
    assert may_read("python3 generate.py", path) is expected
    assert may_read(f"python3 use.py {path[len(BUILD) + 1:]}", path)


# --- run ---------------------------------------------------------------------------------------


def run(root: Path, step: Step, *expand: str) -> subprocess.CompletedProcess[str]:
    """As Pants does it in a sandbox at `root`."""
    (root / BUILD).mkdir(exist_ok=True)
    for folder in step.folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
    argv, files = edge_process(step, expand)
    for name, content in files.items():
        (root / name).write_bytes(content)
    return subprocess.run(
        [argument.replace(CHROOT, str(root)) for argument in argv],
        cwd=root,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def a_step(command: str, **rest: str) -> Step:
    return Step("It", named(command), (), **rest)  # type: ignore[arg-type]


def test_the_command_runs_in_the_build_folder_and_knows_the_root(tmp_path: Path) -> None:
    result = run(tmp_path, a_step("pwd; echo @ROOT/demo"))
    assert result.stdout == f"{tmp_path}/{BUILD}\n{tmp_path}/demo\n"
    assert (result.returncode, result.stderr) == (0, "")


def test_the_root_is_no_part_of_the_key() -> None:
    argv = shell_script(a_step("echo @ROOT/demo"))
    assert argv[:2] == ("/bin/sh", "-c") and argv[-1] == CHROOT
    assert ROOT_TOKEN not in "".join(argv)


@pytest.mark.parametrize(
    "command, code",
    [("exit 3", 3), ("false && echo no", 1), ("true || false", 0), ("kill -9 $$", -9)],
)
def test_exit_codes_are_the_commands_own(tmp_path: Path, command: str, code: int) -> None:
    assert run(tmp_path, a_step(command)).returncode == code


def test_without_the_build_folder_nothing_runs(tmp_path: Path) -> None:
    argv = shell_script(a_step("echo ran"))
    result = subprocess.run(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert result.returncode != 0 and result.stdout == b""


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="empty"),
        pytest.param(
            'a.o\nb.o  \'-Wl,-rpath,$ORIGIN\' "x\\"y" %s \\n `z`', id="of the shell's meaning"
        ),
        pytest.param("é€😀" * 100_000, id="1 MB of wide characters"),
        pytest.param("\n".join(f"@ROOT/lib/{i}.a" for i in range(20_000)), id="paths, 600 KB"),
    ],
)
def test_response_files(tmp_path: Path, content: str) -> None:
    step = a_step("cat r.rsp", rspfile="r.rsp", rspfile_content=named(content))
    argv = shell_script(step)
    assert max(len(argument.encode()) for argument in argv) < 128 * 1024
    result = run(tmp_path, step)
    assert result.stderr == ""
    written = (tmp_path / BUILD / "r.rsp").read_text(encoding="utf-8")
    assert written == named(content).replace(ROOT_TOKEN, str(tmp_path))


# 300 KB, within quotes of both kinds, with what means something to `sed` and the shell.
LONG = " ".join(f"'@ROOT/{i}'" for i in range(10_000)) + " 'a&b|c\\d' \"$(echo \\$x)\" 'é{chroot'"


@pytest.mark.parametrize("rsp", ["", "@ROOT/x\n", "r" * 2_000_000 + "@ROOT/x"])
def test_a_command_that_is_no_argument(tmp_path: Path, rsp: str) -> None:
    step = a_step(
        f'for word in {LONG}; do echo "$word"; done > all; cat r.rsp >> all; pwd; exit 5',
        **({"rspfile": "r.rsp", "rspfile_content": named(rsp)} if rsp else {}),
    )
    argv, files = edge_process(step)
    assert sum(map(len, argv)) < 1000 and CHROOT in argv
    assert str(tmp_path).encode() not in b"".join(files.values())
    result = run(tmp_path, step)
    assert (result.returncode, result.stdout) == (5, f"{tmp_path}/{BUILD}\n")
    assert result.stderr == ("" if rsp else "cat: r.rsp: No such file or directory\n")
    lines = (tmp_path / BUILD / "all").read_text(encoding="utf-8").split("\n", 10_003)
    assert lines[:10_000] == [f"{tmp_path}/{i}" for i in range(10_000)]
    assert lines[10_000:10_003] == ["a&b|c\\d", "$x", "é{chroot"]
    assert "\n".join(lines[10_003:]) == rsp.replace("@ROOT", str(tmp_path))


def test_a_response_file_that_is_no_argument(tmp_path: Path) -> None:
    content = "\n".join(f"@ROOT/lib/{i}.a" for i in range(200_000))
    step = a_step("echo ran", rspfile="r.rsp", rspfile_content=named(content))
    assert sum(map(len, edge_process(step)[0])) < 1000
    assert run(tmp_path, step).stdout == "ran\n"
    written = (tmp_path / BUILD / "r.rsp").read_text()
    assert written == content.replace("@ROOT", str(tmp_path))


def test_a_command_of_usual_length_needs_no_file() -> None:
    assert edge_process(a_step("true"))[1] == {}


@pytest.mark.parametrize("shift", range(0, len(ROOT_TOKEN), 3))
def test_a_token_across_two_arguments(tmp_path: Path, shift: int) -> None:
    content = "x" * (32_000 - shift) + f"{ROOT_TOKEN}/a"
    run(tmp_path, a_step("true", rspfile="r.rsp", rspfile_content=content))
    assert (tmp_path / BUILD / "r.rsp").read_text().endswith(f"x{tmp_path}/a")


def test_a_response_file_that_cant_be_written(tmp_path: Path) -> None:
    result = run(tmp_path, a_step("echo ran", rspfile="no/r.rsp", rspfile_content="x"))
    assert result.returncode != 0 and "ran" not in result.stdout


def test_files_that_know_the_root(tmp_path: Path) -> None:
    build = tmp_path / BUILD
    (build / "sub").mkdir(parents=True)
    names = ["a.cmake", "sub/b c.cmake", "it's.cmake"]
    for name in names:
        (build / name).write_text(f"{ROOT_TOKEN}/x {ROOT_TOKEN}/y\n")
    script = build / "sub/b c.cmake"
    script.chmod(0o755)
    (build / "other").write_text(f"{ROOT_TOKEN}/x\n")
    assert run(tmp_path, a_step("true"), *names).returncode == 0
    for name in names:
        assert (build / name).read_text() == f"{tmp_path}/x {tmp_path}/y\n"
    assert script.stat().st_mode & 0o777 == 0o755
    assert (build / "other").read_text() == f"{ROOT_TOKEN}/x\n"
    assert not list(build.rglob("*.expanded"))


def test_a_file_that_should_know_the_root_but_is_not_there(tmp_path: Path) -> None:
    result = run(tmp_path, a_step("echo ran"), "gone.cmake")
    assert result.returncode != 0 and "ran" not in result.stdout


# --- what a compile has read -------------------------------------------------------------------


def compiled(root: Path, depfile: str, command: str = "true") -> subprocess.CompletedProcess[str]:
    """A compile that has written this depfile."""
    (root / BUILD).mkdir(exist_ok=True)
    (root / BUILD / "a.d").write_text(depfile.replace("@ROOT", str(root)))
    compile = step_of(COMPILE).compile
    return run(root, Step("It", command, (), compile=compile, depfile="a.d"))


@pytest.mark.parametrize(
    "depfile",
    [
        pytest.param("a.o: \\\n  @ROOT/demo/a.cpp \\\n  @ROOT/demo/a.h\n", id="lines"),
        pytest.param("a.o: ../demo/a.cpp include/b.h\n", id="relative"),
        pytest.param(
            "a.o: @ROOT/3rdparty/llvm/lib/gcc/12/../../../include/c++/12/v\n", id="of GCC"
        ),
        pytest.param("a.o: @ROOT/demo/my\\ file.h ../demo/it\\#s.h $$.h\n", id="escaped"),
        pytest.param("a.o: @ROOT//demo/./a.h ././b.h ./../demo/c.h\n", id="not normal"),
        pytest.param("", id="empty"),
        pytest.param("a.o:", id="nothing"),
    ],
)
def test_a_compile_reads_what_is_in_its_sandbox(tmp_path: Path, depfile: str) -> None:
    result = compiled(tmp_path, depfile)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "path, shown",
    [
        pytest.param("/usr/include/stdio.h", "/usr/include/stdio.h", id="absolute"),
        pytest.param("@ROOT2/a.h", "@ROOT2/a.h", id="beside the sandbox"),
        pytest.param("@ROOT/demo/../../other/a.h", "other/a.h", id="out by dots"),
        pytest.param("../../other/a.h", "other/a.h", id="out by dots, relative"),
        pytest.param("x/./../.././../other/a.h", "other/a.h", id="out by many dots"),
        pytest.param("../" * 30 + "etc/a.h", "/etc/a.h", id="to the file system's root"),
    ],
)
def test_a_compile_that_read_the_hosts_files_fails(tmp_path: Path, path: str, shown: str) -> None:
    result = compiled(tmp_path, f"a.o: @ROOT/demo/a.cpp \\\n {path} \\\n @ROOT/demo/b.h\n")
    assert result.returncode == 1
    first, listed, *_ = result.stderr.splitlines()
    assert first == "It reads files of this host, which no target declares:"
    assert listed.startswith("  /") and listed.endswith(shown.replace("@ROOT", str(tmp_path)))
    assert "demo" not in result.stderr
    assert "Add what has them as an artifact" in result.stderr


def test_a_failing_compile_is_its_own_failure(tmp_path: Path) -> None:
    result = compiled(tmp_path, "a.o: /etc/passwd", "echo 'a.cpp:1: error' >&2; exit 4")
    assert (result.returncode, result.stderr) == (4, "a.cpp:1: error\n")


def test_other_commands_are_not_checked(tmp_path: Path) -> None:
    (tmp_path / BUILD).mkdir()
    (tmp_path / BUILD / "a.d").write_text("a: /etc/passwd")
    assert run(tmp_path, a_step("true", depfile="a.d")).returncode == 0


# --- without a network -------------------------------------------------------------------------


def run_offline(folder: Path, unshare: str | None) -> subprocess.CompletedProcess[str]:
    """On a host whose `unshare` is this script, or that has none."""
    tools = folder / "bin"
    tools.mkdir()
    (tools / "true").symlink_to("/bin/true")
    if unshare is not None:
        tool = tools / "unshare"
        tool.write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls\n{unshare}\n')
        tool.chmod(0o755)
    return subprocess.run(
        offline(("/bin/sh", "-c", 'echo "ran $1"; echo err >&2; exit 3', "sh", "a  b")),
        env={"PATH": str(tools)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    "unshare, calls",
    [
        pytest.param('shift; exec "$@"', ["--net true", "--net /bin/sh -c"], id="root"),
        pytest.param(
            'echo no >&2; [ "$1" = --map-current-user ] || exit 1; shift 2; exec "$@" 2>&1',
            ["--net true", "--map-current-user --net true", "--map-current-user --net /bin/sh -c"],
            id="a user",
        ),
        pytest.param(
            '[ "$1" = --map-root-user ] || exit 1; shift 2; exec "$@"',
            [
                *("--net true", "--map-current-user --net true", "--map-root-user --net true"),
                "--map-root-user --net /bin/sh -c",
            ],
            id="an older one",
        ),
    ],
)
def test_the_network_is_cut_off(tmp_path: Path, unshare: str, calls: list[str]) -> None:
    result = run_offline(tmp_path, unshare)
    assert result.returncode == 3 and result.stdout.startswith("ran a  b\n")
    assert WITH_NETWORK not in result.stderr
    made = (tmp_path / "calls").read_text().splitlines()
    assert made[:-1] == calls[:-1] and made[-1].startswith(calls[-1])


@pytest.mark.parametrize("unshare", [None, "echo 'not permitted' >&2; exit 1"])
def test_a_network_that_cant_be_cut_off_is_told(tmp_path: Path, unshare: str | None) -> None:
    result = run_offline(tmp_path, unshare)
    assert (result.returncode, result.stdout) == (3, "ran a  b\n")
    assert result.stderr == f"{WITH_NETWORK}\nerr\n"


def test_the_command_that_a_person_repeats(tmp_path: Path) -> None:
    step = a_step("cd @ROOT/_build/sub && echo $L $Q && cat @ROOT/a.txt")
    shown = shown_command(step, [("PATH", "/usr/bin:/bin"), ("L", f"{CHROOT}/lib:x"), ("Q", "a b")])
    assert shown == (
        "ROOT=$PWD; export PATH=/usr/bin:/bin; export L=\"$ROOT\"'/lib:x'; export Q='a b'; "
        "cd _build; cd $ROOT/_build/sub && echo $L $Q && cat $ROOT/a.txt"
    )
    (tmp_path / BUILD / "sub").mkdir(parents=True)
    (tmp_path / "a.txt").write_text("text\n")
    result = subprocess.run(["/bin/sh", "-c", shown], cwd=tmp_path, stdout=subprocess.PIPE)
    assert result.stdout.decode() == f"{tmp_path}/lib:x a b\ntext\n"
