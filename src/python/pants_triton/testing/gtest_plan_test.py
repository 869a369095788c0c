from __future__ import annotations

from textwrap import dedent
from typing import Mapping

import pytest

from pants_triton.native.layout import ROOT_TOKEN
from pants_triton.native.manifest import read_manifest
from pants_triton.testing.gtest_plan import TestProgram as Program
from pants_triton.testing.gtest_plan import TestPrograms as Programs
from pants_triton.testing.gtest_plan import test_programs as programs_of

# What `gtest_discover_tests` of CMake 3.31 appends to a link, shortened.
DISCOVERY = (
    "cd @ROOT/_build/unittest && @ROOT/3rdparty/cmake/bin/cmake -D TEST_TARGET=it "
    "-D {program} -D TEST_EXECUTOR= -D TEST_WORKING_DIR=@ROOT/_build/unittest "
    "-D CTEST_FILE=@ROOT/_build/unittest/it[1]_tests.cmake "
    "-P @ROOT/3rdparty/cmake/share/cmake-3.31/Modules/GoogleTestAddTests.cmake"
)


def links(*names: str, **post_build: str) -> str:
    """A manifest that links these programs."""
    text = "rule LINK\n  command = clang++ $in -o $out && $POST_BUILD\n"
    for name in (*names, *post_build):
        text += f"build bin/{name}: LINK {name}.o\n  POST_BUILD = {post_build.get(name, ':')}\n"
    return text


def all_of(manifest: str, texts: Mapping[str, str] = {}) -> Programs:
    edges = read_manifest({"build.ninja": manifest.replace("@ROOT", ROOT_TOKEN)}).edges
    contents = {
        path: dedent(text).replace("@ROOT", ROOT_TOKEN).encode() for path, text in texts.items()
    }
    return programs_of(edges, contents)


def programs(manifest: str, texts: Mapping[str, str] = {}) -> tuple[str, ...]:
    """The paths of those without a wrapper."""
    found = all_of(manifest, texts).programs
    assert not any(program.wrapper for program in found)
    return tuple(program.path for program in found)


@pytest.mark.parametrize(
    "program",
    [
        "TEST_EXECUTABLE=@ROOT/_build/bin/it",
        '"TEST_EXECUTABLE=@ROOT/_build/bin/it"',
        "TEST_EXECUTABLE=@ROOT/_build/./bin/it",
    ],
)
def test_a_program_whose_tests_cmake_would_discover(program: str) -> None:
    assert programs(links("tool", it=DISCOVERY.format(program=program))) == ("_build/bin/it",)


def test_programs_that_ctest_knows() -> None:
    ctest = """\
        # CMake generated Testfile for
        # Source directory: @ROOT/demo/unittest
        include("@ROOT/_build/unittest/it[1]_include.cmake")
        add_test([=[plain]=] "@ROOT/_build/bin/plain" "--flag")
        set_tests_properties([=[plain]=] PROPERTIES  _BACKTRACE_TRIPLES "@ROOT/demo/CMakeLists.txt;5;add_test;")
        add_test([=[with a "quote" and space]=] "@ROOT/_build/bin/b")
        add_test(old "@ROOT/_build/bin/c")
        add_test([=[again]=] "@ROOT/_build/bin/b")
        # add_test([=[no]=] "@ROOT/_build/bin/commented")
        """
    names = ("plain", "b", "c", "commented", "not-a-test")
    assert programs(links(*names), {"_build/unittest/CTestTestfile.cmake": ctest}) == (
        "_build/bin/b",
        "_build/bin/c",
        "_build/bin/plain",
    )


def test_both_at_once_are_one_program() -> None:
    ctest = 'add_test([=[it]=] "@ROOT/_build/bin/it")\n'
    manifest = links(it=DISCOVERY.format(program="TEST_EXECUTABLE=@ROOT/_build/bin/it"))
    assert programs(manifest, {"_build/CTestTestfile.cmake": ctest}) == ("_build/bin/it",)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("@ROOT/3rdparty/llvm/bin/lit", id="an artifact's"),
        pytest.param("/usr/bin/python3", id="the host's"),
        pytest.param("@ROOT/demo/test.sh", id="a source"),
        pytest.param("@ROOT/_build/bin/unknown", id="what no edge makes"),
        pytest.param("it", id="a target of phony edges"),
    ],
)
def test_what_is_no_program_of_the_project(command: str) -> None:
    manifest = links("it") + "build _build/bin/it: phony bin/it\nbuild it: phony bin/it\n"
    ctest = f'add_test([=[x]=] "{command}")\n'
    found = all_of(manifest, {"_build/CTestTestfile.cmake": ctest})
    assert found == Programs((), (("x", command.replace("@ROOT/", "")),))


def test_ctests_own_files_only() -> None:
    ctest = 'add_test([=[x]=] "@ROOT/_build/bin/it")\n'
    others = {"demo/CTestTestfile.cmake": ctest, "_build/x.cmake": ctest}
    assert programs(links("it"), others) == ()


def test_nothing() -> None:
    assert programs("") == ()
    assert programs(links("tool"), {"_build/CTestTestfile.cmake": ""}) == ()


def test_text_that_is_none() -> None:
    edges = read_manifest({"build.ninja": links("it")}).edges
    content = b'\xff\xfe\nadd_test([=[\xff]=] "%s/_build/bin/it")\n' % ROOT_TOKEN.encode()
    found = programs_of(edges, {"_build/CTestTestfile.cmake": content})
    assert found == Programs((Program("_build/bin/it"),), ())


# --- behind a wrapper --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command, wrapper",
    [
        pytest.param(
            '"python3" "@ROOT/demo/run it.py" "@ROOT/_build/bin/it" "--flag"',
            ("python3", f"{ROOT_TOKEN}/demo/run it.py"),
            id="a script",
        ),
        pytest.param(
            '"/usr/bin/qemu" "-L" "/x;\\\\y" "../bin/it"',
            ("/usr/bin/qemu", "-L", "/x;\\y"),
            id="an emulator, relative to the folder",
        ),
        pytest.param('"../bin/it"', (), id="none"),
    ],
)
def test_a_wrapper(command: str, wrapper: tuple[str, ...]) -> None:
    texts = {"_build/unittest/CTestTestfile.cmake": f"add_test([=[x]=] {command})\n"}
    assert all_of(links("it"), texts) == Programs((Program("_build/bin/it", wrapper),), ())


@pytest.mark.parametrize(
    "executor, wrapper",
    [
        ('"TEST_EXECUTOR=/usr/bin/env;-i"', ("/usr/bin/env", "-i")),
        ("TEST_EXECUTOR=/usr/bin/qemu", ("/usr/bin/qemu",)),
        ("TEST_EXECUTOR=", ()),
    ],
)
def test_the_emulator_of_a_discovered_program(executor: str, wrapper: tuple[str, ...]) -> None:
    command = DISCOVERY.format(program="TEST_EXECUTABLE=@ROOT/_build/bin/it")
    found = all_of(links(it=command.replace("TEST_EXECUTOR=", executor)))
    assert found.programs == (Program("_build/bin/it", wrapper),)


# What CMake 3.31 writes for `DISCOVERY_MODE PRE_TEST`, shortened.
PRE_TEST = """\
    if(EXISTS "@ROOT/_build/bin/it")
        include("@ROOT/3rdparty/cmake/share/cmake-3.31/Modules/GoogleTestAddTests.cmake")
        gtest_discover_tests_impl(
          TEST_EXECUTABLE [==[@ROOT/_build/bin/it]==]
          TEST_EXECUTOR [==[{executor}]==]
          TEST_WORKING_DIR [==[@ROOT/_build/unittest]==]
        )
    else()
      add_test(it_NOT_BUILT it_NOT_BUILT)
    endif()
    """


@pytest.mark.parametrize("executor, wrapper", [("", ()), ("a;b", ("a", "b"))])
def test_a_program_whose_tests_ctest_would_discover(
    executor: str, wrapper: tuple[str, ...]
) -> None:
    texts = {
        "_build/unittest/it[1]_include.cmake": PRE_TEST.format(executor=executor),
        "_build/unittest/CTestTestfile.cmake": 'include("@ROOT/_build/unittest/it[1]_include.cmake")',
    }
    assert all_of(links("it"), texts) == Programs((Program("_build/bin/it", wrapper),), ())
