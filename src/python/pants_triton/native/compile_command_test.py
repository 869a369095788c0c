from __future__ import annotations

import shlex

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pants_triton.native.compile_command import (
    CompileCommand,
    TableGenCommand,
    parse_compile,
    parse_tablegen,
)
from pants_triton.native.includes import Search


def test_a_compile_as_cmake_writes_it() -> None:
    command = (
        r'/usr/bin/c++ -DX="\"a b\"" -DZ="a\$b" -I"{chroot}/p/inc dir" -I{chroot}/p/inc -Ilocal '
        "-isystem {chroot}/llvm/include --sysroot=/sys -O3 -std=gnu++17 -include {chroot}/p/all.h "
        "-MD -MT lib/a.cpp.o -MF lib/a.cpp.o.d -o lib/a.cpp.o -c '{chroot}/p/sub dir/a.cpp'"
    )
    parsed = parse_compile(command)
    assert parsed == CompileCommand(
        compiler="/usr/bin/c++",
        language="c++",
        source="{chroot}/p/sub dir/a.cpp",
        output="lib/a.cpp.o",
        include_dirs=("{chroot}/p/inc dir", "{chroot}/p/inc", "local"),
        system_dirs=("{chroot}/llvm/include",),
        forced=("{chroot}/p/all.h",),
        mentioned=("gnu++17",),
        defines=('X="a b"', "Z=a$b"),
        sysroot="/sys",
        depfile="lib/a.cpp.o.d",
    )
    assert parsed is not None
    placed = parsed.at("{chroot}", "build")
    assert (placed.source, placed.output) == ("p/sub dir/a.cpp", "build/lib/a.cpp.o")
    assert placed.search == Search(
        directory="build",
        include=("p/inc dir", "p/inc", "build/local"),
        system=("llvm/include",),
        forced=("{chroot}/p/all.h",),
        mentioned=("build/gnu++17",),
        defines=('X="a b"', "Z=a$b"),
    )


def parsed(command: str, **rsp: str) -> CompileCommand:
    found = parse_compile(command, rsp)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("cc -Iinc -c a.c", id="plain"),
        pytest.param(": && cc -Iinc -c a.c && :", id="in the frame of links"),
        pytest.param("cmake -E touch x && cc -Iinc -c a.c", id="with CMake's helpers"),
        pytest.param("ccache cc -Iinc -c a.c", id="with a launcher"),
        pytest.param("LANG=C TZ='' cc -Iinc -c a.c", id="with variables"),
        pytest.param("/usr/bin/cmake -E env LANG=C cc -Iinc -c a.c", id="with CMake's variables"),
        pytest.param("cc @inc.rsp -c a.c", id="with a response file"),
        pytest.param("cc -Iinc -M -MF x a.c && cc -Iinc -c a.c", id="with the depfile first"),
        pytest.param("cc '-I' \"inc\" -c a\\.c", id="in quotes"),
    ],
)
def test_frames(command: str) -> None:
    found = parse_compile(command, {"inc.rsp": "-Iinc"})
    assert found == CompileCommand(compiler="cc", language="c", source="a.c", include_dirs=("inc",))


def test_where_a_command_runs() -> None:
    found = parsed("cd {chroot}/build/sub && cc -I. -include b.h -o ../a.o -c ../a.c")
    assert found.directory == "{chroot}/build/sub"
    placed = found.at("{chroot}", "build")
    assert placed.directory == "build/sub"
    assert placed.include_dirs == ("build/sub/.",)
    assert (placed.source, placed.output) == ("build/sub/../a.c", "build/sub/../a.o")
    # It is looked for.
    assert placed.forced == ("b.h",)
    assert parsed("cd sub && cc -c a.c").at("/r", "build").source == "build/sub/a.c"
    assert parsed("cc -I/usr/x -I/r -I/r/y -c a.c").at("/r", "").include_dirs == ("/usr/x", "", "y")


@pytest.mark.parametrize(
    ("options", "field", "expected"),
    [
        pytest.param("-Ia -I b -I a", "include_dirs", ("a", "b", "a"), id="-I"),
        pytest.param("--include-directory=a", "include_dirs", ("a",), id="--include-directory"),
        pytest.param("-iquote a -iquoteb", "quote_dirs", ("a", "b"), id="-iquote"),
        pytest.param("-isystem a -isystemb", "system_dirs", ("a", "b"), id="-isystem"),
        pytest.param("-idirafter a", "after_dirs", ("a",), id="-idirafter"),
        pytest.param("-I=/a --sysroot /s", "include_dirs", ("/s/a",), id="in the sysroot"),
        pytest.param("-Fa -iframework b", "framework_dirs", ("a", "b"), id="frameworks"),
        pytest.param("--embed-dir=a", "embed_dirs", ("a",), id="--embed-dir"),
        pytest.param("-include a -imacros b", "forced", ("a", "b"), id="-include"),
        pytest.param("-Xclang -include -Xclang a", "forced", ("a",), id="-Xclang"),
        pytest.param("-Xclang -include-pch -Xclang a", "mentioned", ("a",), id="-include-pch"),
        pytest.param("-fplugin=a -std=c99", "mentioned", ("a", "c99"), id="values"),
        pytest.param("-DA -D B=1 -UA", "defines", ("A", "B=1"), id="-D"),
        pytest.param("-Wp,-MD,a.d", "depfile", "a.d", id="-Wp"),
        pytest.param("-x c++", "language", "c++", id="-x"),
        pytest.param("-xassembler-with-cpp", "language", "asm-cpp", id="-x of another name"),
        pytest.param("-isysroot /s -arch arm64 -Xarch_host -O2", "sysroot", "/s", id="macOS"),
        pytest.param("-target a -mllvm b --param c -Xlinker d", "include_dirs", (), id="ignored"),
    ],
)
def test_options(options: str, field: str, expected: object) -> None:
    assert getattr(parsed(f"clang++-19 {options} -o a.o -c a.c"), field) == expected


@pytest.mark.parametrize(
    ("source", "language"),
    [("a.c", "c"), ("a.cc", "c++"), ("a.C", "c++"), ("a.cu", "cuda"), ("a.S", "asm-cpp")]
    + [("a.s", "asm"), ("a.mm", "objc++"), ("x.y/a.cpp", "c++")],
)
def test_languages(source: str, language: str) -> None:
    assert parsed(f"gcc -c {source}").language == language


def test_nvcc() -> None:
    found = parsed(
        "/cuda/bin/nvcc -forward-unknown-to-host-compiler -ccbin=/usr/bin/g++ --options-file i.rsp "
        '"--generate-code=arch=compute_80,code=[compute_80,sm_80]" -Xcompiler=-fPIC,-include,f.h '
        "-isystem=c,d -MD -MT a.o -MF a.o.d -x cu -dc a.txt -o a.o",
        **{"i.rsp": '-Ia -I"b c"\n'},
    )
    assert (found.language, found.source, found.depfile) == ("cuda", "a.txt", "a.o.d")
    assert found.include_dirs == ("a", "b c")
    assert found.system_dirs == ("c", "d")
    assert found.forced == ("f.h",)


def test_folders_in_the_environment() -> None:
    found = parsed("CPATH=a:b C_INCLUDE_PATH=c CPLUS_INCLUDE_PATH=d cc -Ix -isystem y -c a.c")
    assert found.include_dirs == ("x", "a", "b")
    assert found.system_dirs == ("y", "c")
    assert parse_compile("C_INCLUDE_PATH=c nvcc -c a.cu") is None


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("", id="nothing"),
        pytest.param(": && :", id="nothing that is run"),
        pytest.param("cc -o a a.o", id="a link"),
        pytest.param("cc -c a.c b.c", id="two sources"),
        pytest.param("cc -c a.c && cc -c b.c", id="two compiles"),
        pytest.param("cc -c a.c && python3 x.py", id="another program"),
        pytest.param("python3 -c a.c", id="no compiler"),
        pytest.param("cc -c a.c > log", id="redirect"),
        pytest.param("cc -E -c a.c | cat", id="pipe"),
        pytest.param("cc -c a.c || true", id="or"),
        pytest.param("cc -c a.c; true", id="two commands"),
        pytest.param("(cc -c a.c)", id="subshell"),
        pytest.param("cc -I$X -c a.c", id="variable"),
        pytest.param('cc "-I$(pwd)" -c a.c', id="command's output"),
        pytest.param("cc -c *.c", id="glob"),
        pytest.param("cc -c ~/a.c", id="home folder"),
        pytest.param("cc -c 'a.c", id="a quote too few"),
        pytest.param("cc -c", id="no source"),
        pytest.param("cc -c a.c -I", id="no value"),
        pytest.param("cc -x c -c -", id="from stdin"),
        pytest.param("cc @x.rsp -c a.c", id="unknown response file"),
        pytest.param("cc -unknown value -c a.c", id="an unknown option with a value"),
        pytest.param("clang -fmodules -c a.c", id="modules"),
        pytest.param("clang -ivfsoverlay x -c a.c", id="a file system of its own"),
        pytest.param("clang -Xclang -internal-isystem -Xclang x -c a.c", id="inner folders"),
        pytest.param("gcc -I- -c a.c", id="-I-"),
        pytest.param("cc -c a.f90", id="another language"),
        pytest.param("cmake -E __run_co_compile --tidy=x -- cc -c a.c", id="clang-tidy"),
    ],
)
def test_what_is_not_understood(command: str) -> None:
    assert parse_compile(command) is None


def test_tablegen_as_cmake_writes_it() -> None:
    command = (
        "cd {chroot}/build && {chroot}/llvm/bin/mlir-tblgen -gen-op-decls -dialect=tt "
        "-I {chroot}/p/include -Iinclude {chroot}/p/include/Ops.td --write-if-changed "
        "-o include/Ops.h.inc -d include/Ops.h.inc.d "
        "&& /usr/bin/cmake -E cmake_transform_depfile Ninja gccdepfile a b c d e f"
    )
    parsed = parse_tablegen(command)
    assert parsed is not None
    assert parsed.at("{chroot}", "build") == TableGenCommand(
        tool="{chroot}/llvm/bin/mlir-tblgen",
        source="p/include/Ops.td",
        output="build/include/Ops.h.inc",
        directory="build",
        include_dirs=("p/include", "build/include"),
        mentioned=("build/tt",),
        depfile="build/include/Ops.h.inc.d",
    )


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("x-tblgen a.td -o=b -d=c -I=i", id="="),
        pytest.param("x-tblgen --o b --d c -Ii a.td", id="--"),
        pytest.param("x-tblgen @r -debug a.td", id="response file"),
    ],
)
def test_tablegen_options(command: str) -> None:
    found = parse_tablegen(command, {"r": "-o b -d c -I i"})
    assert found == TableGenCommand("x-tblgen", "a.td", "b", "", ("i",), (), "c")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("", id="nothing"),
        pytest.param("mlir-tblgen -gen-x", id="no source"),
        pytest.param("mlir-tblgen a.td b.td", id="two sources"),
        pytest.param("mlir-tblgen - < a.td", id="from stdin"),
        pytest.param("mlir-tblgen a.td && mlir-tblgen a.td", id="two runs"),
        pytest.param("mlir-tblgen a.td | sed s/a/b/", id="pipe"),
        pytest.param("mlir-pdll a.td", id="another tool"),
        pytest.param("mlir-tblgen a.td -I", id="no value"),
        pytest.param("mlir-tblgen @r a.td", id="unknown response file"),
    ],
)
def test_what_is_no_run_of_tablegen(command: str) -> None:
    assert parse_tablegen(command) is None


@given(st.text(st.characters(blacklist_characters="\n\r\0", blacklist_categories=["Cs"])))
def test_words_are_a_shells(word: str) -> None:
    # Those stand for words in a file. Hypothesis finds such names in the source.
    assume(not word.startswith(("@", "--options-file", "-optf")))
    for quoted in (shlex.quote(word), shlex.quote("") + shlex.quote(word)):
        found = parse_compile(f"cc -D {quoted} -c a.c")
        assert found is not None
        assert found.defines == (word,)


@given(
    st.one_of(
        st.text(),
        st.lists(
            st.sampled_from(
                ["cc", "-c", "a.c", "-I", "-x", "&&", "'", '"', "\\", "$", "@r", ":", "cd", " "]
                + ["cmake", "-E", "env", "A=b", "x-tblgen", "a.td", "-o", "-Xclang", "-Wp,-MD", "-"]
            ),
            max_size=12,
        ).map(" ".join),
    ),
    st.text(),
)
def test_any_command_is_parsed(command: str, content: str) -> None:
    for parse in (parse_compile, parse_tablegen):
        found = parse(command, {"r": content})
        assert found is None or found.at("/r", "b")
