"""A C++ project under the real Pants, with the toolchain and the CMake that this repository locks.

All tests share one workspace and its daemon, because the first build unpacks LLVM. Its downloads
are those of the user: the first run on a machine fetches 280 MB.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

import pytest

from e2e.workspace import REPOSITORY, PantsRun, Workspace, workspace

# Debian's packages are for Linux.
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the toolchain is Linux's")

PROJECT = {
    "demo/BUILD": """\
        cmake_project(
            name="demo",
            dependencies=["3rdparty/googletest:googletest", "3rdparty/llvm:llvm"],
            cache={
                "CMAKE_BUILD_TYPE": "RelWithDebInfo",
                "FETCHCONTENT_SOURCE_DIR_GOOGLETEST": "{chroot}/3rdparty/googletest/googletest",
                "LLVM_DIR": "{chroot}/3rdparty/llvm/llvm/usr/lib/llvm-19/lib/cmake/llvm",
            },
        )
        cmake_output(name="tool", project=":demo", outputs=["bin/demo-tool"])
        gtest_tests(name="unit", project=":demo")
        """,
    "demo/CMakeLists.txt": """\
        cmake_minimum_required(VERSION 3.20)
        project(demo C CXX)
        set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
        set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
        find_package(LLVM REQUIRED CONFIG)
        list(APPEND CMAKE_MODULE_PATH ${LLVM_CMAKE_DIR})
        include(AddLLVM)
        include(TableGen)
        include_directories(include ${CMAKE_CURRENT_BINARY_DIR}/include ${LLVM_INCLUDE_DIRS})

        set(LLVM_TABLEGEN_EXE ${LLVM_TOOLS_BINARY_DIR}/llvm-tblgen)
        set(LLVM_TARGET_DEFINITIONS td/Colours.td)
        tablegen(LLVM include/demo/Colours.inc -gen-searchable-tables -I${CMAKE_CURRENT_SOURCE_DIR}/td)
        add_public_tablegen_target(ColoursIncGen)

        add_library(colours SHARED lib/colours.cpp)
        add_dependencies(colours ColoursIncGen)
        add_executable(demo-tool bin/main.cpp)
        target_link_libraries(demo-tool PRIVATE colours)

        include(FetchContent)
        FetchContent_Declare(googletest URL https://example.org/googletest.zip)
        set(BUILD_GMOCK OFF)
        set(INSTALL_GTEST OFF)
        set(CMAKE_DISABLE_FIND_PACKAGE_Python ON)
        FetchContent_MakeAvailable(googletest)
        enable_testing()
        include(GoogleTest)
        add_executable(demo_test unittest/demo_test.cpp)
        target_link_libraries(demo_test PRIVATE colours GTest::gtest_main)
        gtest_discover_tests(demo_test)
        """,
    "demo/td/Colours.td": """\
        include "llvm/TableGen/SearchableTable.td"
        include "Kinds.td"
        def Red : Colour<4>;
        def Blue : Colour<38>;
        """,
    "demo/td/Kinds.td": """\
        class Colour<bits<8> value> { string Name = NAME; bits<8> Value = value; }
        def Colours : GenericTable {
          let FilterClass = "Colour";
          let Fields = ["Name", "Value"];
        }
        """,
    "demo/include/demo/colours.h": """\
        #pragma once
        int sum_of_colours();
        const char* file_of_colours();
        """,
    "demo/lib/colours.cpp": """\
        #include "demo/colours.h"
        #include <string>
        struct Colour { const char* Name; int Value; };
        #define GET_Colours_IMPL
        #include "demo/Colours.inc"
        int sum_of_colours() {
          int sum = 0;
          for (const Colour& colour : Colours) sum += colour.Value;
          return sum;
        }
        const char* file_of_colours() { return __FILE__; }
        """,
    "demo/bin/main.cpp": """\
        #include "demo/colours.h"
        #include <cstdio>
        int main(int count, char** arguments) {
          std::printf("The sum is %d.\\n", sum_of_colours());
          for (int i = 1; i < count; ++i) std::printf("argument %s\\n", arguments[i]);
          return count > 3 ? 7 : 0;
        }
        """,
    "demo/unittest/demo_test.cpp": """\
        #include "demo/colours.h"
        #include <gtest/gtest.h>
        TEST(Colours, Sum) { EXPECT_EQ(sum_of_colours(), 42); }
        TEST(Colours, File) { EXPECT_STREQ(file_of_colours(), "demo/lib/colours.cpp"); }
        TEST(Colours, IsWrong) { EXPECT_EQ(sum_of_colours(), 43); }
        """,
}
_THIRD_PARTY = ("BUILD", "artifacts.lock.json", "auditwheel", "cmake", "googletest", "llvm")
# All but the test that fails.
PASSING = "--gtest_filter=-*.IsWrong"


@dataclass
class User:
    ws: Workspace
    sandboxes: Path
    store: Path

    def file(self, path: str) -> Path:
        return self.ws.root / "demo" / path

    @contextlib.contextmanager
    def edited(self, path: str, old: str, new: str) -> Iterator[None]:
        """The file so, for a while."""
        content = self.file(path).read_text()
        assert old in content
        self.file(path).write_text(content.replace(old, new, 1))
        try:
            yield
        finally:
            self.file(path).write_text(content)

    def ran(self, *args: str) -> list[str]:
        """Run Pants; returns the edges and test programs that were run for it."""
        before = set(self.sandboxes.iterdir())
        succeeds(self.ws.pants(*args))
        return self.edges(set(self.sandboxes.iterdir()) - before)

    def edges(self, sandboxes: set[Path]) -> list[str]:
        scripts = (s / "__run.sh" for s in sandboxes)
        found = [name_of(script.read_text()) for script in scripts if script.exists()]
        return sorted(name for name in found if name)


def name_of(script: str) -> str:
    """What a process is: its output's name; "" for one that isn't of the project."""
    if ".pants_triton_configure" in script:
        return "configure"
    found = re.search(r" -o (\S+/[^/\s]+)", script) if "_build" in script else None
    if found:
        return found.group(1).rpartition("/")[2]
    return "test" if "--gtest_output" in script else ""


def succeeds(run: PantsRun) -> str:
    assert run.exit_code == 0, run.output
    return run.output


@contextlib.contextmanager
def new_user(folder: Path, store: Path, checkout: str = "workspace") -> Iterator[User]:
    """A user with a checkout of that name."""
    sandboxes = folder / "sandboxes"
    sandboxes.mkdir(parents=True)
    (folder / checkout).mkdir()
    env = {
        "PANTS_KEEP_SANDBOXES": "always",
        "PANTS_LOCAL_EXECUTION_ROOT_DIR": str(sandboxes),
        "PANTS_LOCAL_STORE_DIR": str(store),
    }
    try:
        with workspace(folder / checkout, env) as ws:
            ws.write(PROJECT)
            ws.add_launcher()
            for name in _THIRD_PARTY:
                source, target = REPOSITORY / "3rdparty" / name, ws.root / "3rdparty" / name
                target.parent.mkdir(exist_ok=True)
                if source.is_dir():
                    shutil.copytree(source, target)
                else:
                    shutil.copy(source, target)
            yield User(ws, sandboxes, store)
    finally:
        # An LLVM.
        shutil.rmtree(sandboxes, ignore_errors=True)


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    folder = tmp_path_factory.mktemp("native")
    store = folder / "store"
    try:
        with new_user(folder / "user", store) as user:
            yield user
    finally:
        shutil.rmtree(store, ignore_errors=True)


def packaged(ws: Workspace) -> dict[str, bytes]:
    """What `package` wrote, by path."""
    folder = ws.root / "dist/demo/tool"
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_package(user: User) -> None:
    output = succeeds(user.ws.pants("package", "demo:tool"))
    assert "Wrote dist/demo/tool/bin/demo-tool" in output
    assert sorted(packaged(user.ws)) == ["bin/demo-tool", "lib/libcolours.so"]
    # Again, there is nothing to do.
    assert user.ran("package", "demo:tool") == []


def test_run(user: User) -> None:
    run = user.ws.pants("run", "demo:tool", "--", "one", "two words")
    assert "The sum is 42.\nargument one\nargument two words\n" in succeeds(run)
    failed = user.ws.pants("run", "demo:tool", "--", "1", "2", "3")
    assert (failed.exit_code, "argument 3\n" in failed.output) == (7, True)


def test_test(user: User) -> None:
    output = succeeds(user.ws.pants("test", "demo:unit", "--", PASSING))
    assert "✓ demo:unit#bin/demo_test succeeded" in output
    assert user.ran("test", "demo:unit", "--", PASSING) == []

    failed = user.ws.pants("test", "demo:unit")
    assert failed.exit_code == 1
    assert "✕ demo:unit#bin/demo_test failed" in failed.output
    assert "[  FAILED  ] Colours.IsWrong" in failed.output
    assert "[       OK ] Colours.Sum" in failed.output


def test_repeating_a_failure(user: User) -> None:
    failed = user.ws.pants("test", "demo:unit")
    [line] = failed.repeats()
    assert line == "./pants test demo:unit -- --gtest_filter=Colours.IsWrong"
    again = user.ws.shell(line)
    assert again.exit_code == 1
    assert "Running 1 test from 1 test suite." in again.output
    assert again.repeats() == [line]


def test_repeating_a_failure_of_a_random_order(user: User) -> None:
    """The seed is the program's own, and the order is that of all its tests."""
    failed = user.ws.pants("test", "demo:unit", "--", "--gtest_shuffle")
    [line] = failed.repeats()
    assert re.fullmatch(
        r"\./pants test demo:unit -- --gtest_shuffle --gtest_random_seed=[0-9]+", line
    )
    again = user.ws.shell(line)
    assert again.exit_code == 1
    assert again.repeats() == [line]

    def order(run: PantsRun) -> list[str]:
        return re.findall(r"^\[ RUN +\] (\S+)", run.output, re.MULTILINE)

    assert order(again) == order(failed)
    assert sorted(order(again)) == ["Colours.File", "Colours.IsWrong", "Colours.Sum"]


def test_what_an_edit_runs(user: User) -> None:
    succeeds(user.ws.pants("package", "demo:tool"))
    with user.edited("lib/colours.cpp", "int sum = 0;", "int sum = 1;"):
        assert user.ran("package", "demo:tool") == ["colours.cpp.o", "demo-tool", "libcolours.so"]
    with user.edited("bin/main.cpp", "\n  return", "  // A comment.\n  return"):
        # With debug information, but on the same lines.
        assert user.ran("package", "demo:tool") == ["main.cpp.o"]
    # It is included by the one that is processed.
    with user.edited("td/Kinds.td", "class Colour", "// A comment.\nclass Colour"):
        assert user.ran("package", "demo:tool") == ["Colours.inc"]
    with user.edited("td/Colours.td", "<4>", "<6>"):
        ran = ["Colours.inc", "colours.cpp.o", "demo-tool", "libcolours.so"]
        assert user.ran("package", "demo:tool") == ran
        assert "The sum is 44." in succeeds(user.ws.pants("run", "demo:tool"))
    with user.edited("CMakeLists.txt", "project(", "# A comment.\nproject("):
        assert user.ran("package", "demo:tool") == ["configure"]
    # All as it was.
    assert user.ran("package", "demo:tool") == []


def test_the_report_tells_each_edge(user: User) -> None:
    succeeds(user.ws.pants("test", "demo:unit", "--", PASSING))
    with user.edited("lib/colours.cpp", "int sum = 0;", "int sum = 0 + 0 * 7;"):
        succeeds(user.ws.pants("test", "demo:unit", "--", PASSING))
        edited = user.ws.report()
    # Another machine with the same cache, as it were: what the daemon knows is gone.
    user.ws.stop_daemon()
    succeeds(user.ws.pants("test", "demo:unit", "--", PASSING))
    cached = user.ws.report()

    source = "CMakeFiles/colours.dir/lib/colours.cpp.o"
    assert {(e["project"], e["output"]): e["source"] for e in edited["edges"]}[
        "demo:demo", source
    ] == "executed"
    assert {edge["source"] for edge in cached["edges"]} == {"local_hit"}
    outputs = {edge["output"] for edge in cached["edges"]}
    assert {source, "include/demo/Colours.inc", "lib/libcolours.so", "bin/demo_test"} <= outputs
    kinds = {(p["kind"], p["address"], p["source"]) for p in cached["processes"]}
    assert {
        ("artifact", "3rdparty/llvm:llvm", "local_hit"),
        ("configure", "demo:demo", "local_hit"),
        ("test", "demo:unit#bin/demo_test", "local_hit"),
    } <= kinds


def test_a_mistake_is_shown_as_the_compiler_says_it(user: User) -> None:
    with user.edited("bin/main.cpp", "count > 3", "cuont > 3"):
        with user.edited("lib/colours.cpp", "int sum = 0;", "int smu = 0;"):
            run = user.ws.pants("package", "demo:tool")
    assert run.exit_code == 1
    assert "2 edges failed." in run.output
    assert "demo/bin/main.cpp:6:10: error: use of undeclared identifier 'cuont'" in run.output
    assert "demo/lib/colours.cpp:8:" in run.output
    # Our own wish to keep sandboxes is told.
    output = re.sub(r".* Preserving local process execution dir .*\n", "", run.output)
    assert "pants-sandbox" not in output and "Traceback" not in output


def test_compile_commands(user: User) -> None:
    """The toolchain's own compiler understands every file of the checkout by them."""
    output = succeeds(user.ws.pants("compile-commands", "demo:tool"))
    assert "Linked it to demo/compile_commands.json" in output
    commands = json.loads(user.file("compile_commands.json").read_text())
    ours = [entry for entry in commands if entry["file"].startswith(f"{user.file('.')}/")]
    assert {Path(entry["file"]).name for entry in ours} == {
        *("colours.cpp", "demo_test.cpp", "main.cpp")
    }

    def checked(entry: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        compiler = entry["arguments"][0]
        tree = compiler[: compiler.index("/usr/")]
        return subprocess.run(
            [*entry["arguments"], "-fsyntax-only"],
            cwd=entry["directory"],
            env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": f"{tree}/.libraries"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    for entry in commands:
        result = checked(entry)
        assert (result.returncode, result.stdout) == (0, ""), entry
    # They are for the files that one edits.
    with user.edited("lib/colours.cpp", "int sum = 0;", "int smu = 0;"):
        (entry,) = [e for e in ours if e["file"].endswith("colours.cpp")]
        failed = checked(entry)
    assert (failed.returncode, f"{user.file('lib/colours.cpp')}:8:" in failed.stdout) == (1, True)


def test_a_header_of_the_host_is_not_seen(user: User) -> None:
    """The sysroot is the toolchain's: what only this host has isn't there."""
    with user.edited("bin/main.cpp", "<cstdio>", "<cstdio>\n#include </usr/include/stdio.h>"):
        run = user.ws.pants("package", "demo:tool")
    assert run.exit_code == 1
    if Path("/usr/include/stdio.h").exists():
        assert "It reads files of this host, which no target declares:" in run.output
    assert "/usr/include/stdio.h" in run.output


@pytest.mark.parametrize("option", ["--native-compiler=host", "--native-sysroot=host"])
def test_what_is_of_the_host(user: User, option: str) -> None:
    """With LLVM as an artifact: the host's compiler, or the artifact's with the host's headers and
    libraries."""
    if shutil.which("g++", path="/usr/bin") is None:
        warnings.warn("NOT TESTED: the host's compiler, which isn't here", stacklevel=1)
        pytest.skip("no g++")
    assert "The sum is 42." in succeeds(user.ws.pants(option, "run", "demo:tool"))
    assert user.ran(option, "package", "demo:tool") == []
    with user.edited("bin/main.cpp", "<cstdio>", "<cstdio>\n#include </usr/include/stdio.h>"):
        # That header is in the fingerprint now. (The lines that follow have moved: so they have in
        # what is for the debugger.)
        assert user.ran(option, "package", "demo:tool") == ["demo-tool", "main.cpp.o"]


# An extension that is linked with LLVM's shared library, for every Python from 3.9 on.
EXTENSION = {
    "wheel/BUILD": """\
        cmake_project(
            name="project",
            cache={
                "CMAKE_PREFIX_PATH": "{chroot}/3rdparty/llvm/llvm/usr/lib/llvm-19",
                "PYTHON_HEADERS": "{chroot}/3rdparty/llvm/llvm/usr/include/python3.11",
            },
        )
        cmake_output(name="extension", project=":project", outputs=["native.abi3.so"])
        PACKAGE = dict(
            sources=["python/**/*.py"],
            root="python",
            parts={":extension": "demo"},
            version="1.0",
            python_tag="cp39",
            abi_tag="abi3",
        )
        triton_package(
            name="package",
            libraries=["3rdparty/llvm:llvm"],
            entry_points={"console_scripts": ["demo-triple = demo:main"]},
            **PACKAGE,
        )
        triton_package(name="without", **PACKAGE)
        triton_package(
            name="old", libraries=["3rdparty/llvm:llvm"], platform_tag="manylinux2014_x86_64", **PACKAGE
        )
        """,
    "wheel/CMakeLists.txt": """\
        cmake_minimum_required(VERSION 3.20)
        project(wheel C CXX)
        find_package(LLVM REQUIRED CONFIG)
        add_library(native MODULE native.c)
        target_include_directories(native SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS} ${PYTHON_HEADERS})
        target_link_libraries(native PRIVATE LLVM)
        set_target_properties(native PROPERTIES PREFIX "" SUFFIX ".abi3.so" SKIP_BUILD_RPATH ON)
        """,
    "wheel/native.c": """\
        #define Py_LIMITED_API 0x03090000
        #include <Python.h>
        #include <llvm-c/Core.h>
        #include <llvm-c/TargetMachine.h>
        static PyObject* triple(PyObject* self, PyObject* none) {
          char* text = LLVMGetDefaultTargetTriple();
          PyObject* found = PyUnicode_FromString(text);
          LLVMDisposeMessage(text);
          return found;
        }
        static PyMethodDef methods[] = {{"triple", triple, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
        static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "native", NULL, -1, methods};
        PyMODINIT_FUNC PyInit_native(void) { return PyModule_Create(&module); }
        """,
    "wheel/python/demo/__init__.py": """\
        from demo import native

        def main() -> None:
            print(native.triple())
        """,
}


def test_a_wheel(user: User, tmp_path: Path) -> None:
    """Pip installs it, and it runs where there is no artifact."""
    user.ws.write(EXTENSION)
    output = succeeds(user.ws.pants("package", "wheel:package"))
    found = re.search(r"Wrote (dist/demo-1\.0-cp39-abi3-manylinux_2_\d+_\w+\.whl)", output)
    assert found is not None, output
    wheel = user.ws.root / found.group(1)
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    assert [name for name in names if name.startswith("demo/")] == [
        *("demo/__init__.py", "demo/native.abi3.so")
    ]
    libraries = [name for name in names if name.startswith("demo.libs/")]
    assert any(re.fullmatch(r"demo\.libs/libLLVM-[0-9a-f]+\.so\.19\.1", n) for n in libraries)
    assert len(libraries) + 2 == len(names)

    venv = tmp_path / "venv"
    # Without a trace of this process' own.
    alone = {"PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-m", "venv", str(venv)], env=alone, check=True)
    pip = [str(venv / "bin/python"), "-m", "pip", "install", "--no-index", str(wheel)]
    subprocess.run(pip, env={**alone, "PIP_CONFIG_FILE": os.devnull}, check=True)
    command = [venv / "bin/demo-triple"]
    result = subprocess.run(command, env=alone, stdout=subprocess.PIPE, text=True, check=True)
    assert re.fullmatch(r"\w+-pc-linux-gnu\n", result.stdout)
    # It is its own LLVM that it has.
    loaded = subprocess.run(
        [venv / "bin/python", "-c", "import demo; print(open('/proc/self/maps').read())"],
        env=alone,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    paths = {line.split()[-1] for line in loaded.splitlines() if "libLLVM" in line}
    assert paths and all(path.startswith(f"{venv.resolve()}/") for path in paths)


def test_a_wheel_that_would_not_run(user: User) -> None:
    user.ws.write(EXTENSION)
    without = user.ws.pants("package", "wheel:without")
    assert without.exit_code == 1
    assert "wheel:without: no wheel can be made of it. It needs libLLVM.so.19.1" in without.output
    old = user.ws.pants("package", "wheel:old")
    assert old.exit_code == 1
    assert "wheel:old: no wheel can be made of it." in old.output
    assert "manylinux2014_x86_64" in old.output
    for run in (without, old):
        assert "Traceback" not in run.output


def test_another_folder(user: User, tmp_path: Path) -> None:
    succeeds(user.ws.pants("package", "demo:tool"))
    mine = packaged(user.ws)
    assert str(user.ws.root.parent).encode() not in b"".join(mine.values())
    with new_user(tmp_path, user.store, "a checkout of somebody else") as other:
        # With the same cache nothing is built, ...
        assert other.ran("package", "demo:tool") == []
        assert packaged(other.ws) == mine
        # ... and with other keys everything, to the same bytes.
        with other.edited("BUILD", "cache={", 'env={"SOMETHING": "else"}, cache={'):
            assert other.ran("package", "demo:tool") == [
                *("Colours.inc", "colours.cpp.o", "configure", "demo-tool"),
                *("libcolours.so", "main.cpp.o"),
            ]
        assert packaged(other.ws) == mine


def test_a_sanitizer(user: User) -> None:
    """Clang's own, which names the line: what is read past its end is passed over otherwise."""
    past_the_end = "volatile int n[2] = {0, 0}, i = 2; int sum = n[i]; sum = 0;"
    with user.edited("lib/colours.cpp", "int sum = 0;", past_the_end):
        succeeds(user.ws.pants("test", "demo:unit", "--", PASSING))
        sanitizers = "--native-sanitizers=['address']"
        failed = user.ws.pants(sanitizers, "test", "demo:unit", "--", PASSING)
    assert failed.exit_code == 1
    assert "ERROR: AddressSanitizer: stack-buffer-overflow" in failed.output
    assert re.search(r"in sum_of_colours\(\) \S*demo/lib/colours\.cpp:7", failed.output)


OFFLINE = ("unshare", "--map-root-user", "--net")


def test_offline(user: User) -> None:
    """What has been fetched once is all that it takes."""
    if subprocess.run([*OFFLINE, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        warnings.warn(
            "NOT TESTED: builds without a network; this host forbids `unshare`", stacklevel=1
        )
        pytest.skip("this host forbids `unshare`")
    succeeds(user.ws.pants("package", "demo:tool"))
    with user.edited("lib/colours.cpp", "int sum = 0;", "int sum = 100;"):
        # The daemon has a network.
        process = subprocess.run(
            [*OFFLINE, str(REPOSITORY / "pants"), "--no-pantsd", "run", "demo:tool"],
            cwd=user.ws.root,
            env={**user.ws._env, "PWD": str(user.ws.root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
    assert "The sum is 142." in process.stdout, process.stdout
