"""Projects built by the real engine and the real CMake; what compiles is this host's GCC.

Each test has a project of its own in a workspace that all share, so that the tools are fetched once.
"""

from __future__ import annotations

import os
import re
import subprocess
import warnings
from pathlib import Path

import pytest
from pants.engine.fs import DigestEntries, SymlinkEntry

from pants_triton.native.fake_tools import CONFIGURE, Project, Runner, missing_tools
from pants_triton.native.subsystem import NativeError

if missing_tools():
    warnings.warn(f"NOT TESTED: the build of projects; not here: {missing_tools()}", stacklevel=1)
pytestmark = pytest.mark.skipif(bool(missing_tools()), reason=f"not here: {missing_tools()}")


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(tmp_path_factory.mktemp("native"))


@pytest.fixture
def project(runner: Runner, request: pytest.FixtureRequest) -> Project:
    runner.begin()
    return runner.project("src/" + re.sub(r"\W+", "_", request.node.name))


def error_of(project: Project, name: str = "tool") -> str:
    """Why it can't be built: a message for people."""
    with pytest.raises(Exception) as caught:
        project.build(name)
    (cause,) = caught.value.wrapped_exceptions  # type: ignore[attr-defined]
    assert isinstance(cause, NativeError)
    return str(cause)


# --- what is built -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "output, files",
    [
        pytest.param("bin/tool", ("bin/tool",), id="a file"),
        pytest.param("tool", ("bin/tool",), id="a target of CMake"),
        pytest.param("core", ("libcore.a",), id="a static library"),
        pytest.param("include/demo/version.h", ("include/demo/version.h",), id="generated"),
        pytest.param("version", ("include/demo/version.h",), id="a custom target"),
        pytest.param("CMakeFiles/core.dir/lib/core.cpp.o", None, id="an object"),
        pytest.param("./bin/../bin/tool", ("bin/tool",), id="not normal"),
    ],
)
def test_an_output(project: Project, output: str, files: tuple[str, ...] | None) -> None:
    project.write(
        {
            "BUILD": 'cmake_project(name="project")\n'
            f'cmake_output(name="it", project=":project", outputs=["{output}"])\n'
        }
    )
    built = project.build("it")
    assert built.files == (files or (output,))
    assert set(built.files) <= set(project.runner.contents(built.digest))
    assert (built.path, built.library_path) == (f"{project.name}/it", "")


def test_a_program_comes_with_the_projects_own_libraries(project: Project) -> None:
    """Its search path is relative to itself, and a library with a version is links to a file."""
    built = project.build()
    assert built.files == ("bin/tool",)
    folder = f"dist/{project.name}"
    project.runner.scheduler.write_digest(built.digest, path_prefix=folder)
    root = Path(project.runner.build_root, folder)
    assert subprocess.run([root / "bin/tool"]).returncode == 2
    assert os.readlink(root / "lib/libshared.so.1") == "libshared.so.1.2"


def test_a_library_by_a_link_to_it(project: Project) -> None:
    project.edit("BUILD", '["bin/tool"]', '["lib/libshared.so"]')
    entries = project.runner.request(DigestEntries, [project.build().digest])
    found = {e.path: e.target if isinstance(e, SymlinkEntry) else "" for e in entries}
    assert found == {
        "lib/libshared.so": "libshared.so.1",
        "lib/libshared.so.1": "libshared.so.1.2",
        "lib/libshared.so.1.2": "",
    }


def test_several_files_of_one_project_configure_once(project: Project) -> None:
    project.edit("BUILD", '["bin/tool"]', '["bin/tool", "lib/libshared.so.1.2", "core"]')
    # Unlike that of any other test.
    project.edit("CMakeLists.txt", "project(demo", "# Once.\nproject(demo")
    assert project.ran().count(CONFIGURE) == 1
    assert project.build().files == ("bin/tool", "lib/libshared.so.1.2", "libcore.a")


def test_two_checkouts_give_the_same_bytes(tmp_path: Path) -> None:
    digests = []
    for name in ("one", "another/with/a/longer/name"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        # With nothing in common but the host: no store, no caches, other folders.
        runner = Runner(folder)
        runner.begin()
        project = runner.project("src/demo")
        project.write(
            {
                "BUILD": """\
                cmake_project(name="project", cache={"CMAKE_BUILD_TYPE": "Debug"})
                cmake_output(
                    name="tool",
                    project=":project",
                    outputs=["bin/tool", "lib/libshared.so.1.2", "libcore.a"],
                )
                """,
                # Where it says what it is called itself.
                "lib/core.cpp": "const char* where() { return __FILE__; }\nint core() { return 1; }",
            }
        )
        built = project.build()
        contents = runner.contents(built.digest)
        assert runner.build_root.encode() not in b"".join(contents.values())
        assert str(folder).encode() not in b"".join(contents.values())
        assert b"pants-sandbox" not in b"".join(contents.values())
        assert b"$ORIGIN/../lib" in contents["bin/tool"]
        digests.append(built.digest)
    assert digests[0] == digests[1]


# --- what is run again -------------------------------------------------------------------------


def test_what_an_edit_runs(project: Project) -> None:
    # One project and one test: each step begins where the one before it ended.
    project.edit("lib/core.cpp", "return 1", "return 100")
    first = project.ran()
    assert {CONFIGURE, "core.cpp.o", "libcore.a", "tool"} <= set(first)
    assert project.ran() == []

    project.edit("lib/core.cpp", "return 100", "return 101")
    assert project.ran() == ["core.cpp.o", "libcore.a", "tool"]

    # The object is the same, so nothing after it is run.
    project.edit("lib/core.cpp", "int core", "/* A comment. */ int core")
    assert project.ran() == ["core.cpp.o"]

    # Back to what it was.
    project.edit("lib/core.cpp", "/* A comment. */ int core", "int core")
    assert project.ran() == []

    # Those that include it, and no other.
    project.edit("include/demo/core.h", "int core", "/* A comment. */ int core")
    assert project.ran() == ["core.cpp.o", "main.cpp.o"]

    project.edit("CMakeLists.txt", "project(demo", "# A comment.\nproject(demo")
    assert project.ran() == [CONFIGURE]

    # It is new to CMake and to the archive; a custom command has no part in it.
    project.write({"lib/third.cpp": "int third() { return 3; }\n"})
    project.edit("CMakeLists.txt", "lib/other.cpp", "lib/other.cpp lib/third.cpp")
    assert project.ran() == [CONFIGURE, "libcore.a", "third.cpp.o", "tool"]

    # A generated header, its includer, and what that goes into.
    project.edit("version.txt", "1", "2")
    assert project.ran() == [
        "libshared.so",
        "libshared.so.1.2",
        "shared.cpp.o",
        "tool",
        "version.h",
    ]

    # What generates it changes, but not what comes out.
    project.edit("version.sh", "echo", "true\necho")
    assert project.ran() == ["version.h"]


def test_a_new_file_configures_anew_but_compiles_nothing(project: Project) -> None:
    # A `file(GLOB)` may see it.
    project.build()
    project.write({"lib/unused.cpp": "this is no C++\n", "include/demo/unused.h": "nor this\n"})
    assert project.ran() == [CONFIGURE]


def test_a_header_that_hides_another(project: Project) -> None:
    project.write({"lib/shadow.h": "", "include/demo/shadow.h": ""})
    project.edit("lib/core.cpp", '#include "demo/core.h"', '#include "demo/shadow.h"')
    project.build()
    # Beside the source it is found first.
    project.write({"lib/demo/shadow.h": "#define core nothing_calls_this\n"})
    assert "undefined reference to `core()'" in error_of(project)


# --- what can't be built -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "output, hint",
    [
        ("tool.exe", "`tool`"),
        ("lib/tool", "`bin/tool`"),
        ("bin/tol", "`bin/tool`"),
    ],
)
def test_an_unknown_output(project: Project, output: str, hint: str) -> None:
    project.edit("BUILD", "bin/tool", output)
    error = error_of(project)
    assert (
        f"{project.address('tool')}: {project.address('project')} has no output `{output}`."
        in error
    )
    assert "Did you mean" in error and hint in error


def test_an_output_like_no_other(project: Project) -> None:
    project.edit("BUILD", "bin/tool", "zzzzzzzzzzzzzzz")
    assert "Did you mean" not in error_of(project)


def test_no_cmake_lists(project: Project) -> None:
    project.remove("CMakeLists.txt")
    error = error_of(project)
    assert f"{project.address('project')}: there is no {project.name}/CMakeLists.txt" in error


def test_a_project_that_is_none(project: Project) -> None:
    project.edit("BUILD", 'project=":project"', 'project="3rdparty:cmake"')
    assert error_of(project) == "3rdparty:cmake is no `cmake_project` but a `archive_artifact`."


def test_sandboxes_in_a_folder_with_a_space(tmp_path: Path) -> None:
    folder = tmp_path / "my folder"
    folder.mkdir()
    runner = Runner(folder)
    runner.begin(f"--local-execution-root-dir={runner.sandboxes}")
    project = runner.project("src/demo")
    assert error_of(project) == (
        f"{project.address('project')} can't be built in {runner.sandboxes}, where Pants makes its "
        "sandboxes: compilers' flags can't name a folder with ' ' in its path. Name another in "
        "`[GLOBAL].local_execution_root_dir`."
    )


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("configure_file(version.txt v.txt)", id="configure_file"),
        pytest.param("file(READ ${CMAKE_CURRENT_SOURCE_DIR}/version.txt V)", id="file(READ)"),
        pytest.param("file(STRINGS version.txt V)", id="file(STRINGS), relative"),
        pytest.param("file(COPY version.txt DESTINATION ${CMAKE_BINARY_DIR})", id="file(COPY)"),
        pytest.param(
            "execute_process(COMMAND cat ${CMAKE_CURRENT_SOURCE_DIR}/version.txt OUTPUT_VARIABLE V)",
            id="execute_process",
        ),
    ],
)
def test_a_file_that_configuring_reads_must_be_named(project: Project, code: str) -> None:
    project.edit("CMakeLists.txt", "project(demo CXX)", f"project(demo CXX)\n{code}")
    error = error_of(project)
    assert f"configuring reads {project.name}/version.txt, which it saw as an empty file" in error
    assert "`configure_sources`" in error
    project.edit("BUILD", '"project"', '"project", configure_sources=["CMakeLists.txt", "*.txt"]')
    project.build()


def test_a_project_that_cmake_refuses(project: Project) -> None:
    project.edit("CMakeLists.txt", "project(demo", "no_such_command()\nproject(demo")
    error = error_of(project)
    assert f"{project.address('project')} can't be configured:\n" in error
    assert 'Unknown CMake command "no_such_command"' in error
    assert f"CMake Error at {project.name}/CMakeLists.txt:2" in error.replace(
        "at CMakeLists", f"at {project.name}/CMakeLists"
    )
    assert "pants-sandbox" not in error


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            "file(DOWNLOAD https://example.org/some-archive.zip ${CMAKE_BINARY_DIR}/x.zip)",
            id="file(DOWNLOAD)",
        ),
        pytest.param(
            "file(DOWNLOAD https://example.org/some-archive.zip x.zip STATUS nobody_looks)",
            id="file(DOWNLOAD) that doesn't mind",
        ),
        pytest.param(
            "include(FetchContent)\n"
            "FetchContent_Declare(some-archive URL https://example.org/some-archive.zip)\n"
            "FetchContent_MakeAvailable(some-archive)\n"
            "target_link_libraries(tool PRIVATE some-archive::it)",
            id="FetchContent",
        ),
    ],
)
def test_a_download_fails_by_name(project: Project, code: str) -> None:
    project.write({"CMakeLists.txt": f"{(project.file('CMakeLists.txt')).read_text()}\n{code}\n"})
    error = error_of(project)
    assert "can't be configured" in error and "some-archive" in error
    assert "trace" not in error


# Says which ways out of the machine there are, but for the one to itself.
NETWORKS = "tail -n +3 /proc/net/dev | grep -v ' lo:' > networks.txt || true"


def with_a_look_at_the_network(project: Project, env: str = "{}") -> None:
    project.write(
        {
            "BUILD": f"""\
            cmake_project(name="project", env={env})
            cmake_output(name="tool", project=":project", outputs=["networks.txt"])
            """,
            "networks.sh": NETWORKS,
        }
    )
    project.edit(
        "CMakeLists.txt",
        "add_custom_target(version",
        "add_custom_command(OUTPUT networks.txt COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/networks.sh)\n"
        "add_custom_target(networks DEPENDS networks.txt)\nadd_custom_target(version",
    )


def test_a_custom_command_has_no_network(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    with_a_look_at_the_network(project)
    if subprocess.run(["unshare", "--map-root-user", "--net", "true"]).returncode != 0:
        pytest.skip("this host forbids `unshare`")
    assert set(project.runner.contents(project.build().digest).values()) == {b""}
    assert "with the network at hand" not in caplog.text


def test_where_the_network_cant_be_cut_off_it_is_said_once(
    project: Project, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tool = tmp_path / "unshare"
    tool.write_text("#!/bin/sh\nexit 1\n")
    tool.chmod(0o755)
    with_a_look_at_the_network(project, f"{{'PATH': '{tmp_path}:/usr/bin:/bin'}}")
    project.edit("BUILD", '"networks.txt"', '"networks.txt", "bin/tool"')
    project.build()
    said = [r.getMessage() for r in caplog.records if "network at hand" in r.getMessage()]
    assert len(said) == 1 and said[0].startswith(f"{project.address('project')} is built with the")
    # It is no part of what failed.
    project.edit("networks.sh", "tail", "exit 1; tail")
    assert "pants-triton:" not in error_of(project)


def test_all_that_fails_is_reported(project: Project) -> None:
    project.edit("lib/core.cpp", "return 1", "return first_mistake")
    project.edit("lib/shared.cpp", "return VERSION", "return second_mistake")
    error = error_of(project)
    assert error.startswith(f"{project.address('tool')} can't be built: 2 edges failed.\n")
    for name, mistake in (("core", "first_mistake"), ("shared", "second_mistake")):
        assert f"FAILED: Building CXX object CMakeFiles/{name}.dir/lib/{name}.cpp.o\n" in error
        assert re.search(
            rf"^{project.name}/lib/{name}.cpp:.*'{mistake}' was not declared", error, re.M
        )
        assert f"-c $ROOT/{project.name}/lib/{name}.cpp" in error
    assert "pants-sandbox" not in error and "Linking" not in error
    # Mended, it is built.
    project.edit("lib/core.cpp", "first_mistake", "1")
    project.edit("lib/shared.cpp", "second_mistake", "1")
    project.build()


def test_the_command_to_repeat_works_in_the_kept_sandbox(project: Project) -> None:
    project.edit("lib/core.cpp", "return 1", "return to_be_repeated")
    before = set(project.runner.sandboxes.iterdir())
    command = error_of(project).rpartition("\n")[2].strip()
    (sandbox,) = (
        folder
        for folder in set(project.runner.sandboxes.iterdir()) - before
        if "core.cpp.o" in (folder / "__run.sh").read_text()
    )
    result = subprocess.run(
        ["/bin/sh", "-c", command], cwd=sandbox, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert result.returncode == 1 and b"'to_be_repeated' was not declared" in result.stdout


def test_a_header_that_is_gone(project: Project) -> None:
    project.build()
    project.remove("include/demo/core.h")
    error = error_of(project)
    assert "2 edges failed" in error and "demo/core.h: No such file or directory" in error


def test_a_source_that_is_gone(project: Project) -> None:
    project.build()
    project.remove("lib/other.cpp")
    error = error_of(project)
    assert "can't be configured" in error and "lib/other.cpp" in error


def test_a_header_that_no_target_declares(project: Project) -> None:
    # It is there, in the checkout.
    project.edit("BUILD", '"project"', '"project", sources=["**/*", "!include/demo/core.h"]')
    assert "demo/core.h: No such file or directory" in error_of(project)


def test_a_header_of_the_host(project: Project, tmp_path: Path) -> None:
    header = tmp_path / "host.h"
    header.write_text("")
    project.edit("lib/core.cpp", '"demo/core.h"', f'"{header}"')
    error = error_of(project)
    assert "1 edge failed" in error
    assert f"It reads files of this host, which no target declares:\n  {header}\n" in error


def test_a_header_reached_by_a_macro(project: Project) -> None:
    project.write({"include/demo/by_macro.h": "#define ONE 1\n"})
    project.edit(
        "lib/core.cpp", "\n", "\n#define HEADER(x) <demo/x.h>\n#include HEADER(by_macro)\n"
    )
    project.edit("lib/core.cpp", "return 1", "return ONE")
    project.build()


def test_a_library_that_is_nowhere(project: Project) -> None:
    project.edit("CMakeLists.txt", "core shared)", "core shared no_such_library)")
    error = error_of(project)
    assert "FAILED: Linking CXX executable bin/tool" in error and "no_such_library" in error


def test_a_custom_command_that_makes_nothing(project: Project) -> None:
    project.edit("BUILD", "bin/tool", "include/demo/version.h")
    project.edit("CMakeLists.txt", "version.txt > include/demo/version.h", "version.txt")
    error = error_of(project)
    assert "the edges of _build/include/demo/version.h ran, but didn't make it" in error


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("version.in", id="a source"),
        pytest.param("../../_build/other.h", id="a generated file"),
    ],
)
def test_a_custom_command_reads_what_it_declares(project: Project, path: str) -> None:
    # `version.sh` reads a file that no `DEPENDS` names.
    # It runs in the build folder.
    project.edit("version.sh", "echo", f"cat ../{project.name}/{path} >&2 && echo")
    project.write({"version.in": "1\n"})
    project.edit(
        "CMakeLists.txt",
        "add_custom_target(version",
        "add_custom_command(OUTPUT other.h COMMAND echo > other.h)\n"
        "add_custom_target(other DEPENDS other.h)\nadd_custom_target(version",
    )
    error = error_of(project)
    assert "FAILED: Generating include/demo/version.h" in error
    shown = "_build/other.h" if "_build" in path else f"{project.name}/version.in"
    assert f"The project has {shown}, but this command sees only what it declares" in error
    # Where it is declared, it is there.
    project.edit("CMakeLists.txt", "version.txt)", f"version.txt {path.rpartition('/')[2]})")
    project.build()


def test_a_custom_command_reads_the_host_unseen(project: Project, tmp_path: Path) -> None:
    """What the docs say it may, and what no key knows of."""
    file = tmp_path / "host.txt"
    file.write_text("3\n")
    project.edit("version.sh", "cat $1", f"cat {file}")
    project.build()
    file.write_text("4\n")
    assert project.ran() == []


def test_a_custom_command_sees_what_configuring_wrote(project: Project) -> None:
    project.edit(
        "CMakeLists.txt",
        "project(demo CXX)",
        """project(demo CXX)
file(WRITE ${CMAKE_BINARY_DIR}/sub/written.txt 5)""",
    )
    project.edit("version.sh", "cat $1", "cat sub/written.txt")
    project.build()


def test_a_command_of_300_kib(project: Project) -> None:
    project.edit("BUILD", "bin/tool", "long.txt")
    project.edit(
        "CMakeLists.txt",
        "add_custom_target(version",
        """\
string(REPEAT "${CMAKE_CURRENT_SOURCE_DIR}/word " 15000 words)
separate_arguments(words)
add_custom_command(OUTPUT long.txt COMMAND echo ${words} > long.txt)
add_custom_target(long DEPENDS long.txt)
add_custom_target(version""",
    )
    (text,) = project.runner.contents(project.build().digest).values()
    assert len(text) > 300 * 1024 and text.count(f"{project.name}/word".encode()) == 15_000


# --- in which way it is built ------------------------------------------------------------------

WAYS = """\
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE none)
endif()
file(WRITE ${CMAKE_BINARY_DIR}/way.txt "${CMAKE_BUILD_TYPE} ${CMAKE_CXX_FLAGS}")
add_custom_command(OUTPUT out.txt COMMAND cat way.txt > out.txt DEPENDS ${CMAKE_BINARY_DIR}/way.txt)
"""


def way_of(project: Project, name: str = "tool") -> str:
    (text,) = project.runner.contents(project.build(name).digest).values()
    return text.decode()


def tells_its_way(project: Project, fields: str = "") -> None:
    project.edit("BUILD", '"project"', f'"project", {fields}')
    project.edit("BUILD", "bin/tool", "out.txt")
    project.edit("CMakeLists.txt", "project(demo CXX)", f"project(demo CXX)\n{WAYS}")
    project.edit(
        "CMakeLists.txt", "version.txt)\n", "version.txt)\nadd_custom_target(out DEPENDS out.txt)\n"
    )


@pytest.mark.parametrize(
    "fields, option, expected",
    [
        pytest.param("", "", "none", id="nothing"),
        pytest.param('build_type="Debug"', "", "Debug", id="the field"),
        pytest.param("", "Release", "Release", id="the option"),
        pytest.param('build_type="Debug"', "Release", "Debug", id="both"),
        pytest.param('cache={"CMAKE_BUILD_TYPE": "Debug"}', "Release", "Debug", id="the cache"),
    ],
)
def test_build_types(project: Project, fields: str, option: str, expected: str) -> None:
    tells_its_way(project, fields)
    if option:
        project.runner.begin(f"--native-build-type={option}")
    assert way_of(project).split()[0] == expected


@pytest.mark.parametrize(
    "fields, code",
    [
        pytest.param('cache={"CMAKE_CXX_FLAGS": "-Wall"}', "", id="in its cache"),
        pytest.param("", 'set(CMAKE_CXX_FLAGS "-Wall")', id="in its lists"),
    ],
)
def test_a_projects_own_flags_let_no_path_in(project: Project, fields: str, code: str) -> None:
    project.edit("BUILD", '"project"', f'"project", {fields}')
    project.edit("CMakeLists.txt", "project(demo CXX)", f"project(demo CXX)\n{code}")
    project.write(
        {"lib/core.cpp": "const char* where() { return __FILE__; }\nint core() {return 1;}"}
    )
    content = project.runner.contents(project.build().digest)["bin/tool"]
    assert b"lib/core.cpp" in content and b"pants-sandbox" not in content


def test_two_ways_of_one_project(project: Project) -> None:
    tells_its_way(project, 'build_type=parametrize("Release", "TritonBuildWithO1")')
    project.write(
        {
            "BUILD": project.file("BUILD").read_text()
            + """
for type in ["Release", "TritonBuildWithO1"]:
    cmake_output(name=type, project=f":project@build_type={type}", outputs=["out.txt"])
"""
        }
    )
    for name in ("Release", "TritonBuildWithO1"):
        assert way_of(project, name).split()[0] == name


def test_two_build_types(project: Project) -> None:
    project.edit("BUILD", '"project"', '"project", build_type="A", cache={"CMAKE_BUILD_TYPE": "B"}')
    assert error_of(project) == (
        f"{project.address('project')} has a `build_type`, and CMAKE_BUILD_TYPE in its `cache`: "
        "remove one of them."
    )


@pytest.mark.parametrize(
    "fields, option, expected",
    [
        pytest.param('sanitizers=["undefined"]', "", True, id="the field"),
        pytest.param("", "undefined", True, id="the option"),
        pytest.param("sanitizers=[]", "undefined", False, id="not this one"),
    ],
)
def test_sanitizers(project: Project, fields: str, option: str, expected: bool) -> None:
    tells_its_way(project, fields)
    if option:
        project.runner.begin(f"--native-sanitizers={option}")
    assert ("-fsanitize=undefined" in way_of(project).split()) is expected


def test_flags_of_the_cache_come_to_ours(project: Project) -> None:
    # Those of a toolchain file count only where the user gives none.
    tells_its_way(project, 'sanitizers=["undefined"], cache={"CMAKE_CXX_FLAGS": "-DMINE=1"}')
    flags = way_of(project).split()
    assert {"-fsanitize=undefined", "-no-canonical-prefixes", "-DMINE=1"} <= set(flags)
    assert [flag.endswith("=.") for flag in flags if "-prefix-map=" in flag] == [True]


def test_no_sanitizer(project: Project) -> None:
    project.runner.begin("--native-sanitizers=addres")
    assert error_of(project) == (
        "The option `[native].sanitizers` has addres, but there are only address, leak, memory, "
        "thread, undefined."
    )


def test_a_toolchain_without_sanitizers(project: Project) -> None:
    # As lld says it.
    code = 'message(FATAL_ERROR "cannot open /x/libclang_rt.asan.a: No such file")'
    project.edit("CMakeLists.txt", "project(demo CXX)", f"project(demo CXX)\n{code}")
    assert "libclang-rt-19-dev" not in error_of(project)
    project.edit("BUILD", '"project"', '"project", sanitizers=["undefined"]')
    assert "3rdparty:toolchain, which the option `[native].toolchain` names, has no" in (
        error := error_of(project)
    )
    assert "add `libclang-rt-19-dev` to its `packages`" in error


# --- how many at once --------------------------------------------------------------------------

TOOLS = [f"tool{number}" for number in range(6)]


def with_many_tools(project: Project, log: Path, code: str = "") -> None:
    """Let it have programs whose links are logged, and which need nothing of each other."""
    project.write(
        {
            "BUILD": f"""\
            cmake_project(name="project", env={{"LINK_LOG": "{log}"}})
            cmake_output(name="tool", project=":project", outputs={TOOLS})
            """,
            "CMakeLists.txt": f"""\
            cmake_minimum_required(VERSION 3.20)
            project(demo CXX)
            {code}
            foreach(name {" ".join(TOOLS)})
              add_executable(${{name}} bin/main.cpp)
            endforeach()
            """,
            "bin/main.cpp": "int main() { return 0; }\n",
        }
    )


def most_links_at_once(log: Path) -> int:
    text = log.read_text()
    running = most = 0
    for line in text.split():
        running += 1 if line == "+" else -1
        most = max(most, running)
    assert running == 0
    # One more links what CMake tries the compiler with.
    assert text.count("+") >= len(TOOLS)
    return most


@pytest.mark.parametrize(
    "option, code, expected",
    [
        pytest.param(1, "", 1, id="an option"),
        pytest.param(2, "", 2, id="an option, two"),
        pytest.param(0, "", 4, id="none"),
        pytest.param(
            0,
            "set_property(GLOBAL APPEND PROPERTY JOB_POOLS heavy=1)\nset(CMAKE_JOB_POOL_LINK heavy)",
            1,
            id="a pool",
        ),
    ],
)
def test_how_many_links_run_at_once(
    project: Project, tmp_path: Path, option: int, code: str, expected: int
) -> None:
    project.runner.begin(f"--native-max-links={option}")
    with_many_tools(project, tmp_path / "log", code)
    project.build()
    assert most_links_at_once(tmp_path / "log") == expected


def test_how_many_custom_commands_of_a_pool_run_at_once(project: Project, tmp_path: Path) -> None:
    outputs = [f"made{number}.txt" for number in range(4)]
    project.write(
        {
            "BUILD": f"""\
            cmake_project(name="project")
            cmake_output(name="tool", project=":project", outputs={outputs})
            """,
            "CMakeLists.txt": f"""\
            cmake_minimum_required(VERSION 3.20)
            project(demo CXX)
            set_property(GLOBAL PROPERTY JOB_POOLS heavy=1)
            foreach(name {" ".join(outputs)})
              add_custom_command(OUTPUT ${{name}} JOB_POOL heavy VERBATIM COMMAND sh -c
                "echo + >> {tmp_path}/log; sleep 0.3; echo - >> {tmp_path}/log; echo > ${{name}}")
              add_custom_target(make_${{name}} DEPENDS ${{name}})
            endforeach()
            """,
        }
    )
    project.build()
    assert (tmp_path / "log").read_text().split() == ["+", "-"] * 4


def test_a_bound_is_part_of_no_key(project: Project, tmp_path: Path) -> None:
    project.runner.begin("--native-max-links=2")
    with_many_tools(project, tmp_path / "log")
    project.build()
    before = set(project.runner.sandboxes.iterdir())
    project.runner.begin("--native-max-links=1")
    project.build()
    pool = "set_property(GLOBAL PROPERTY JOB_POOLS heavy=1)\nset(CMAKE_JOB_POOL_LINK heavy)"
    with_many_tools(project, tmp_path / "log", pool)
    project.runner.begin()
    project.build()
    ran = [
        script.read_text()
        for folder in set(project.runner.sandboxes.iterdir()) - before
        for script in folder.glob("__run.sh")
    ]
    assert len(ran) == 1 and ".pants_triton_configure" in ran[0]


def test_no_number_of_links(project: Project) -> None:
    project.runner.begin("--native-max-links=-1")
    assert error_of(project) == (
        "The option `[native].max_links` must be a number of links, or 0 for any number, but is -1."
    )


# --- of other kinds ----------------------------------------------------------------------------


def test_objects_alone_and_response_files(project: Project) -> None:
    """A link whose own folder has nothing in it, and whose command is in a file."""
    project.write(
        {
            "CMakeLists.txt": """\
            cmake_minimum_required(VERSION 3.20)
            project(demo CXX)
            set(CMAKE_NINJA_FORCE_RESPONSE_FILE ON)
            add_subdirectory(lib)
            add_executable(tool $<TARGET_OBJECTS:objects>)
            target_link_libraries(tool PRIVATE shared)
            """,
            "lib/CMakeLists.txt": """\
            include_directories(../include)
            add_library(objects OBJECT ../bin/main.cpp core.cpp)
            add_library(shared SHARED shared.cpp)
            """,
            "lib/shared.cpp": "int shared() { return 1; }\n",
        }
    )
    project.edit("BUILD", "bin/tool", "tool")
    contents = project.runner.contents(project.build().digest)
    assert b"$ORIGIN/lib" in contents["tool"] and b"pants-sandbox" not in contents["tool"]


def test_a_search_path_that_the_project_chose(project: Project) -> None:
    project.edit(
        "CMakeLists.txt",
        "target_link_libraries(tool",
        "set_target_properties(tool PROPERTIES BUILD_WITH_INSTALL_RPATH ON "
        'INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN/x")\ntarget_link_libraries(tool',
    )
    contents = project.runner.contents(project.build().digest)
    assert b"$ORIGIN/../lib:$ORIGIN/x\0" in contents["bin/tool"]


def test_a_project_in_the_root(runner: Runner) -> None:
    runner.begin()
    project = runner.project(
        "",
        {
            "BUILD": 'cmake_project(name="project", sources=["CMakeLists.txt", "main.cpp"])\n'
            'cmake_output(name="tool", project=":project", outputs=["tool"])\n',
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.20)\nproject(demo CXX)\n"
            "add_executable(tool main.cpp)\n",
            "main.cpp": "int main() { return 0; }\n",
        },
    )
    assert runner.contents(project.build().digest).keys() == {"tool"}


def test_variables_and_options_of_a_project(project: Project) -> None:
    project.edit(
        "BUILD",
        '"project"',
        '"project", cache={"WHAT": "a b;c"}, env={"WHO": "me {chroot}"}',
    )
    project.edit(
        "CMakeLists.txt",
        "project(demo CXX)",
        'project(demo CXX)\nfile(WRITE ${CMAKE_BINARY_DIR}/what.txt "${WHAT} $ENV{WHO}")\n'
        "add_custom_command(OUTPUT out.txt COMMAND cat what.txt > out.txt && echo $$WHO >> out.txt"
        " DEPENDS ${CMAKE_BINARY_DIR}/what.txt)\nadd_custom_target(out DEPENDS out.txt)",
    )
    project.edit("BUILD", "bin/tool", "out.txt")
    (text,) = project.runner.contents(project.build().digest).values()
    print(text)
    assert text.startswith(b"a b;c me /")
