"""Projects built by the real engine with the compilers that this host has."""

from __future__ import annotations

import re
import shutil
import subprocess
import warnings
from pathlib import Path
from textwrap import dedent
from typing import Iterator

import pytest

from pants_triton.native.fake_tools import (
    CONFIGURE,
    OPTIONS,
    Project,
    Runner,
    missing_tools,
    what_ran,
)
from pants_triton.native.host_probe import Hasher, observe, shared_libraries
from pants_triton.native.subsystem import NativeError

if missing_tools():
    warnings.warn(f"NOT TESTED: this host's compilers; not here: {missing_tools()}", stacklevel=1)
pytestmark = pytest.mark.skipif(bool(missing_tools()), reason=f"not here: {missing_tools()}")

HOST = "--native-compiler=host"

# Unlike that of the other tests, it uses the headers and libraries of C and C++.
FILES = {
    "lib/core.cpp": (
        '#include "demo/core.h"\n#include <map>\n#include <string>\n'
        "int core() { std::map<std::string, int> m{{std::string(100, 'x'), 1}}; "
        "return m.begin()->second; }\n"
    ),
    "bin/main.cpp": (
        '#include "demo/core.h"\n#include "demo/shared.h"\n#include <iostream>\n'
        'int main() { std::cout << "The sum is " << core() + shared() << ".\\n"; }\n'
    ),
}
EDGES = [
    CONFIGURE,
    *("core.cpp.o", "libcore.a", "libshared.so", "libshared.so.1.2", "main.cpp.o", "other.cpp.o"),
    *("shared.cpp.o", "tool", "version.h"),
]


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(tmp_path_factory.mktemp("native"))


@pytest.fixture
def project(runner: Runner, request: pytest.FixtureRequest) -> Project:
    runner.begin()
    return runner.project("src/" + re.sub(r"\W+", "_", request.node.name), FILES)


def says(project: Project, program: str = "bin/tool") -> str:
    """What the project's program prints."""
    built = project.build()
    folder = f"dist/{project.name}"
    project.runner.scheduler.write_digest(built.digest, path_prefix=folder)
    path = Path(project.runner.build_root, folder, program)
    return subprocess.run([path], check=True, stdout=subprocess.PIPE, text=True).stdout


def error_of(project: Project, *options: str) -> str:
    project.runner.begin(HOST, *options)
    with pytest.raises(Exception) as caught:
        project.build()
    (cause,) = caught.value.wrapped_exceptions  # type: ignore[attr-defined]
    assert isinstance(cause, NativeError)
    return str(cause)


@pytest.fixture
def compiler(tmp_path: Path) -> Iterator[Path]:
    """A folder with `cc` and `c++`, which are small programs of their own before this host's."""
    folder = tmp_path / "compiler"
    folder.mkdir()
    (folder / "include").mkdir()
    (folder / "include/vendor.h").write_text("#define VENDOR 1\n")
    for name, program in (("cc", "gcc"), ("c++", "g++")):
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {shutil.which(program)} -isystem {folder}/include "$@"\n')
        path.chmod(0o755)
    yield folder


@pytest.mark.parametrize("cc, cxx", [("gcc", "g++"), ("clang", "clang++")])
def test_a_program_is_built(project: Project, cc: str, cxx: str) -> None:
    if shutil.which(cxx, path="/usr/bin:/bin") is None:
        warnings.warn(f"NOT TESTED: a build with the host's {cxx}, which isn't here", stacklevel=1)
        pytest.skip(f"no {cxx}")
    options = (HOST, f"--native-host-cc=['{cc}']", f"--native-host-cxx=['{cxx}']")
    project.runner.begin(*options)
    assert says(project) == "The sum is 2.\n"
    # There is no artifact in it, whose compiler it could be.
    assert set(project.build().trees) == set()
    # What is remembered is so in the next run, too.
    project.runner.begin(*options)
    assert says(project) == "The sum is 2.\n"


def ran(project: Project, compiler: Path, *options: str) -> list[str]:
    """What is run in a new run of Pants with `compiler`."""
    before = set(project.runner.sandboxes.iterdir())
    project.runner.begin(HOST, f"--native-host-search-path=['{compiler}']", *options)
    project.build()
    scripts = [
        (folder / "__run.sh").read_text()
        for folder in set(project.runner.sandboxes.iterdir()) - before
        if (folder / "__run.sh").exists()
    ]
    # Others are the probe, which is never remembered, and what it is run with.
    return sorted(
        what_ran(script)
        for script in scripts
        if "cd _build" in script or ".pants_triton_configure" in script
    )


def test_a_compiler_that_changes_under_its_path(project: Project, compiler: Path) -> None:
    assert ran(project, compiler) == EDGES
    assert ran(project, compiler) == []

    script = (compiler / "c++").read_text()
    (compiler / "c++").write_text(script.replace('"$@"', '-DVENDOR_PATCH "$@"'))
    assert ran(project, compiler) == EDGES
    assert ran(project, compiler) == []

    # A header of its own.
    (compiler / "include/vendor.h").write_text("#define VENDOR 2\n")
    assert ran(project, compiler) == EDGES

    # As it was at first.
    (compiler / "c++").write_text(script)
    (compiler / "include/vendor.h").write_text("#define VENDOR 1\n")
    assert ran(project, compiler) == []


def test_another_compiler_of_the_same_bytes_elsewhere_is_another(
    project: Project, compiler: Path, tmp_path: Path
) -> None:
    # Its path is in commands, and may be in what it makes.
    assert ran(project, compiler) == EDGES
    shutil.copytree(compiler, tmp_path / "elsewhere")
    assert ran(project, tmp_path / "elsewhere") == EDGES


def test_a_header_of_the_compiler(project: Project, compiler: Path) -> None:
    project.edit("lib/core.cpp", "\n", "\n#include <vendor.h>\nstatic_assert(VENDOR == 1);\n")
    ran(project, compiler)
    (compiler / "include/vendor.h").write_text("#define VENDOR 2\n")
    error = error_of(project, f"--native-host-search-path=['{compiler}']")
    assert "VENDOR == 1" in error and "1 edge failed" in error


def test_a_header_that_is_none_of_the_compilers(project: Project, tmp_path: Path) -> None:
    header = tmp_path / "host.h"
    header.write_text("#define FROM_HOST 1\n")
    project.edit("lib/core.cpp", "\n", f'\n#include "{header}"\n')
    error = error_of(project)
    assert f"It reads files of this host, which no target declares:\n  {header}\n" in error
    assert "`[native].host_files`" in error

    for allowed in (header, tmp_path):
        project.runner.begin(HOST, f"--native-host-files=['{allowed}']")
        assert says(project) == "The sum is 2.\n"
    header.write_text("#error It has changed.\n")
    assert "It has changed." in error_of(project, f"--native-host-files=['{header}']")


@pytest.mark.parametrize("suffix", ["a", "so"])
def test_a_library_that_is_none_of_the_compilers(
    project: Project, tmp_path: Path, suffix: str
) -> None:
    library = tmp_path / f"libhost.{suffix}"

    def make(value: int) -> None:
        (tmp_path / "host.c").write_text(f"int host() {{ return {value}; }}\n")
        if suffix == "so":
            command = ["gcc", "-shared", "-fPIC", "host.c", "-o", str(library)]
            subprocess.run(command, cwd=tmp_path, check=True)
        else:
            subprocess.run(["gcc", "-fPIC", "-c", "host.c"], cwd=tmp_path, check=True)
            subprocess.run(["ar", "rcs", library, "host.o"], cwd=tmp_path, check=True)

    make(1)
    project.edit("CMakeLists.txt", "core shared)", f"core shared {library})")
    project.edit("bin/main.cpp", "int main() {", 'extern "C" int host();\nint main() {')
    project.edit("bin/main.cpp", "core() +", "host() + core() +")
    error = error_of(project)
    assert "FAILED: Linking CXX executable bin/tool" in error
    assert f"It reads files of this host, which no target declares:\n  {library}\n" in error
    assert "none of the compiler's own libraries. Name them in `[native].host_files`" in error

    project.runner.begin(HOST, f"--native-host-files=['{library}']")
    project.build()
    if suffix == "a":
        assert says(project) == "The sum is 3.\n"
        make(100)
        project.runner.begin(HOST, f"--native-host-files=['{library}']")
        assert says(project) == "The sum is 102.\n"


@pytest.mark.parametrize(
    "cc, cxx, program", [("gcc", "g++", "cc1plus"), ("clang", "clang++", "clang")]
)
@pytest.mark.parametrize("linker", ["", "gold"])
def test_what_is_in_the_fingerprint(cc: str, cxx: str, program: str, linker: str) -> None:
    for name in (cxx, f"ld.{linker}" if linker else "ld"):
        if shutil.which(name) is None:
            pytest.skip(f"this host has no {name}")
    record = observe([cc], [cxx], ["/usr/bin"], hasher=Hasher(), linker=linker)
    names = {path.rpartition("/")[2] for path in record["files"]}
    assert {cc, cxx, program, "as", f"ld.{linker}" if linker else "ld"} <= names
    assert {"crti.o", "crtbeginS.o", "libc.so.6", "libstdc++.so", "libstdc++.a"} <= names
    # What the compiler's own programs are made of.
    libraries = subprocess.run(
        ["ldd", shutil.which(cxx) or ""], stdout=subprocess.PIPE, text=True
    ).stdout
    assert set(shared_libraries(libraries)) <= set(record["files"])
    assert all(len(digest) == 64 for digest in record["files"].values())
    assert "/usr/include" in record["folders"]
    assert not [folder for folder in record["c++"]["folders"] if folder not in record["folders"]]


# --- what isn't there --------------------------------------------------------------------------


def test_no_compiler(project: Project, tmp_path: Path) -> None:
    error = error_of(project, f"--native-host-search-path=['{tmp_path}', '/nowhere']")
    assert error == (
        f"This host has no C compiler: `cc` or `gcc` or `clang` is not in {tmp_path}, /nowhere. "
        "Install one, or name it in `[native].host_cc`, name its folder in "
        "`[native].host_search_path`, or use the compiler of an artifact: "
        '`[native].compiler = "toolchain"`.'
    )


def test_a_compiler_cache_is_passed_over(project: Project, compiler: Path, tmp_path: Path) -> None:
    (tmp_path / "ccache").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "ccache").chmod(0o755)
    for name in ("cc", "c++"):
        (tmp_path / name).symlink_to("ccache")
    error = error_of(
        project, f"--native-host-search-path=['{tmp_path}']", "--native-host-cc=['cc']"
    )
    assert f"{tmp_path}/cc was passed over: it is a compiler cache" in error
    project.runner.begin(HOST, f"--native-host-search-path=['{tmp_path}', '{compiler}']")
    assert says(project) == "The sum is 2.\n"


def test_a_compiler_that_does_not_work(project: Project, compiler: Path) -> None:
    (compiler / "c++").write_text("#!/bin/sh\necho 'license expired' >&2\nexit 1\n")
    error = error_of(project, f"--native-host-search-path=['{compiler}']")
    assert error == (
        f"This host's compiler doesn't work: `{compiler}/c++ --version` failed:\nlicense expired\n"
        "Repair it, or name another in `[native].host_cc` and `[native].host_cxx`."
    )


def test_no_such_linker(project: Project) -> None:
    if shutil.which("ld.mold"):
        pytest.skip("this host has mold")
    error = error_of(project, "--native-linker=mold")
    assert error.startswith("This host's compiler can't link with mold, which the option")
    assert '`[native].linker = "default"`' in error


def test_a_linker(project: Project) -> None:
    if shutil.which("ld.gold") is None:
        pytest.skip("this host has no gold")
    project.runner.begin(HOST, "--native-linker=gold")
    assert says(project) == "The sum is 2.\n"


@pytest.mark.parametrize("path", ["/nowhere/x.h", "relative"])
def test_host_files_that_are_not_there(project: Project, path: str) -> None:
    error = error_of(project, f"--native-host-files=['{path}']")
    assert f"The option `[native].host_files` names '{path}', which is not there." in error


# --- parts of a toolchain ----------------------------------------------------------------------


def test_the_toolchains_compiler_with_the_hosts_headers(project: Project) -> None:
    project.edit("version.txt", "1", "7")
    project.edit("lib/shared.cpp", "\n", "\n#include <stdio.h>\n")
    project.edit("BUILD", "bin/tool", "lib/libshared.so.1.2")
    # The artifact has no sysroot, and nobody allowed the host's.
    project.runner.begin()
    with pytest.raises(Exception) as caught:
        project.build()
    error = str(caught.value)
    assert "It reads files of this host" in error and "/usr/include/stdio.h" in error
    assert "`[native].sysroot`" in error

    project.runner.begin("--native-sysroot=host")
    built = project.build()
    (library,) = built.files
    assert b"pants-sandbox" not in project.runner.contents(built.digest)[library]


def test_a_linker_that_the_toolchain_lacks(project: Project) -> None:
    project.runner.begin("--native-linker=mold")
    with pytest.raises(Exception) as caught:
        project.build()
    error = str(caught.value)
    assert (
        "3rdparty:toolchain, which the option `[native].toolchain` names, has no `ld.mold`" in error
    )


@pytest.mark.parametrize("option", ["compiler", "sysroot", "linker"])
def test_a_value_that_nobody_knows(project: Project, option: str) -> None:
    project.runner.begin(f"--native-{option}=hots")
    with pytest.raises(Exception) as caught:
        project.build()
    error = str(caught.value)
    assert "hots" in error and ("mold" if option == "linker" else "toolchain") in error


def test_an_llvm_without_a_compiler(project: Project, tmp_path: Path) -> None:
    """As upstream builds it for Triton: static libraries, TableGen and CMake's package; neither
    clang nor a libc."""
    tree = tmp_path / "llvm"
    files = {
        "include/llvm/Answer.h": "#include <string>\nstd::string answer();\n",
        "lib/cmake/llvm/LLVMConfig.cmake": """\
            get_filename_component(prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
            set(LLVM_INCLUDE_DIRS "${prefix}/include")
            set(LLVM_TABLEGEN "${prefix}/bin/llvm-tblgen")
            add_library(LLVMSupport STATIC IMPORTED)
            set_target_properties(LLVMSupport PROPERTIES
              IMPORTED_LOCATION "${prefix}/lib/libLLVMSupport.a"
              INTERFACE_LINK_LIBRARIES "m;-lpthread;${CMAKE_DL_LIBS}")
            """,
        "answer.cpp": """\
            #include "llvm/Answer.h"
            #include <pthread.h>
            std::string answer() { return std::to_string(pthread_self() ? ANSWER : 0); }
            """,
        "tblgen.cpp": """\
            #include <fstream>
            int main(int count, char** words) {
              std::ifstream in(words[1]);
              std::ofstream(words[count - 1]) << "#define GENERATED " << in.rdbuf();
            }
            """,
    }
    for path, content in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(dedent(content))
    (tree / "bin").mkdir()
    for command in (
        "g++ -fPIC -DANSWER=42 -Iinclude -c answer.cpp",
        "ar rcs lib/libLLVMSupport.a answer.o",
        "g++ -static tblgen.cpp -o bin/llvm-tblgen",
    ):
        subprocess.run(command.split(), cwd=tree, check=True)

    project.write(
        {
            "BUILD": f"""\
            archive_artifact(name="llvm", url="https://example.org/llvm.tar.gz")
            cmake_project(
                name="project",
                dependencies=[":llvm"],
                cache={{"LLVM_DIR": "{{chroot}}/{project.name}/llvm/lib/cmake/llvm"}},
            )
            cmake_output(name="tool", project=":project", outputs=["tool"])
            """,
            "CMakeLists.txt": """\
            cmake_minimum_required(VERSION 3.20)
            project(demo C CXX)
            find_package(LLVM REQUIRED CONFIG)
            include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${CMAKE_CURRENT_BINARY_DIR})
            add_custom_command(OUTPUT Ops.inc
              COMMAND ${LLVM_TABLEGEN} ${CMAKE_CURRENT_SOURCE_DIR}/Ops.td -o Ops.inc DEPENDS Ops.td)
            add_executable(tool bin/main.cpp Ops.inc)
            target_link_libraries(tool PRIVATE LLVMSupport)
            """,
            "Ops.td": "7\n",
            "bin/main.cpp": '#include "Ops.inc"\n#include <iostream>\n#include <llvm/Answer.h>\n'
            'int main() { std::cout << answer() << " " << GENERATED << "\\n"; }\n',
        }
    )
    trees = f"--artifact-local-trees={{'{project.name}:llvm': '{tree}'}}"
    project.runner.begin(HOST, trees)
    assert says(project, "tool") == "42 7\n"

    # It is no toolchain, and that is said with the way out.
    project.runner.set_options(
        [
            f"--native-toolchain={project.name}:llvm",
            *(option for option in OPTIONS if "toolchain" not in option),
            *project.runner.caches,
            trees,
        ],
        env_inherit={"PATH"},
    )
    with pytest.raises(Exception) as caught:
        project.build()
    error = str(caught.value)
    assert "has no `bin/clang++`" in error and '`[native].compiler = "host"`' in error
