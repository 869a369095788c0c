"""`compile-commands` by the real engine and the real CMake; what compiles is this host's GCC."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest
from pants.core.target_types import GenericTarget
from pants.core.util_rules import distdir
from pants.testutil.rule_runner import GoalRuleResult

from pants_triton.native import editor_rules, use_rules
from pants_triton.native.editor_rules import CompileCommands
from pants_triton.native.fake_tools import OPTIONS, Project, Runner, missing_tools

if missing_tools():
    warnings.warn(f"NOT TESTED: compile commands; not here: {missing_tools()}", stacklevel=1)
pytestmark = pytest.mark.skipif(bool(missing_tools()), reason=f"not here: {missing_tools()}")


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(
        tmp_path_factory.mktemp("native"),
        rules=[*editor_rules.rules(), *use_rules.rules(), *distdir.rules()],
        target_types=[GenericTarget],
    )


@pytest.fixture
def project(runner: Runner, request: pytest.FixtureRequest) -> Project:
    runner.begin()
    shutil.rmtree(root(runner) / "dist", ignore_errors=True)
    return runner.project("src/" + re.sub(r"\W+", "_", request.node.name))


def root(runner: Runner) -> Path:
    return Path(runner.build_root)


def run(project: Project, *args: str) -> GoalRuleResult:
    runner = project.runner
    runner.begin()
    return runner.run_goal_rule(
        CompileCommands,
        global_args=[*OPTIONS, *runner.caches],
        args=args or [f"{project.name}:project"],
        env_inherit={"PATH"},
    )


def succeeds(result: GoalRuleResult) -> str:
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def folder(project: Project, name: str = "project") -> Path:
    address = project.address(name)
    return root(project.runner) / "dist/compile-commands/projects" / address.path_safe_spec


def artifacts(project: Project) -> list[str]:
    return sorted(os.listdir(root(project.runner) / "dist/compile-commands/artifacts"))


def database(project: Project) -> list[dict[str, Any]]:
    """As an editor finds it."""
    return json.loads(project.file("compile_commands.json").read_text())


def compile_all(project: Project) -> None:
    for entry in database(project):
        subprocess.run([*entry["arguments"], "-fsyntax-only"], cwd=entry["directory"], check=True)


def test_every_command_works(project: Project) -> None:
    stdout = succeeds(run(project))
    assert "4 commands, 1 generated files\n" in stdout
    assert f"Linked it to {project.name}/compile_commands.json." in stdout
    assert "add `compile_commands.json` and `.cache/` to .gitignore" in stdout
    names = ["core.cpp", "main.cpp", "other.cpp", "shared.cpp"]
    files = [Path(entry["file"]) for entry in database(project)]
    assert sorted(file.name for file in files) == names
    assert all(project.file(f"{file.parent.name}/{file.name}") == file for file in files)
    compile_all(project)
    # What the compiler wrote would be in its working folder.
    files = [path for path in folder(project).rglob("*") if path.is_file()]
    assert {path.name for path in files} == {
        *("artifacts.txt", "compile_commands.json", "version.h")
    }


def test_nothing_is_compiled_for_it(project: Project) -> None:
    project.edit("lib/core.cpp", "return 1", "return nonsense of_nobody")
    succeeds(run(project))
    with pytest.raises(subprocess.CalledProcessError):
        compile_all(project)


def test_what_did_not_change_is_not_touched(project: Project) -> None:
    succeeds(run(project))
    header = folder(project) / "build/include/demo/version.h"
    (artifact,) = artifacts(project)
    kept = root(project.runner) / "dist/compile-commands/artifacts" / artifact
    for path in (header, folder(project) / "compile_commands.json", kept / "bin/clang++"):
        os.utime(path, (1, 1))
    assert succeeds(run(project)).startswith("Unchanged: dist/compile-commands/projects/")
    assert header.stat().st_mtime == 1
    assert (kept / "bin/clang++").stat().st_mtime == 1

    project.write({"version.txt": "2\n"})
    assert succeeds(run(project)).startswith("Wrote dist/compile-commands/projects/")
    assert header.read_text() == "#define VERSION 2\n"
    assert (folder(project) / "compile_commands.json").stat().st_mtime == 1


def test_a_source_that_goes(project: Project) -> None:
    project.edit("CMakeLists.txt", " lib/other.cpp", "")
    succeeds(run(project))
    assert "other.cpp" not in json.dumps(database(project))


def test_files_that_configuring_writes(project: Project) -> None:
    """A header with a path in it has the one that is right here; what nothing includes isn't there."""
    project.edit(
        "CMakeLists.txt",
        "add_custom_command(",
        "configure_file(paths.h.in include/demo/paths.h)\n"
        "configure_file(paths.h.in include/demo/nobody.h)\nadd_custom_command(",
    )
    project.write(
        {
            "paths.h.in": '#define SOURCES "@CMAKE_CURRENT_SOURCE_DIR@"\n'
            '#define BUILD "@CMAKE_BINARY_DIR@/x"\n',
            "lib/core.cpp": '#include "demo/paths.h"\nint core() { return sizeof(SOURCES); }\n',
        }
    )
    succeeds(run(project))
    written = (folder(project) / "build/include/demo/paths.h").read_text()
    assert written == (
        f'#define SOURCES "{root(project.runner) / project.name}"\n'
        f'#define BUILD "{folder(project)}/build/x"\n'
    )
    assert not (folder(project) / "build/include/demo/nobody.h").exists()
    compile_all(project)


def test_a_source_that_is_generated(project: Project) -> None:
    project.edit(
        "CMakeLists.txt",
        "add_library(core STATIC",
        "add_custom_command(OUTPUT made.cpp COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/made.sh > made.cpp)\n"
        "add_library(core STATIC made.cpp",
    )
    project.write({"made.sh": "echo '#include \"demo/core.h\"'"})
    succeeds(run(project))
    assert str(folder(project) / "build/made.cpp") in [e["file"] for e in database(project)]
    compile_all(project)


def test_an_artifact_that_nothing_uses_any_more_goes(project: Project) -> None:
    succeeds(run(project))
    place = root(project.runner) / "dist/compile-commands/artifacts"
    (used,) = artifacts(project)
    (place / "0123.partial/usr").mkdir(parents=True)
    assert "Removed dist/compile-commands/artifacts/0123.partial" in succeeds(run(project))
    assert artifacts(project) == [used]


def test_two_projects_share_artifacts(project: Project) -> None:
    other = project.runner.project(f"{project.name}/nested")
    stdout = succeeds(run(project, f"{project.name}::"))
    assert len(artifacts(project)) == 1
    assert stdout.count("4 commands") == 2
    compile_all(project)
    compile_all(other)


def test_two_projects_in_one_folder(project: Project) -> None:
    project.write(
        {
            "BUILD": 'cmake_project(name="project")\n'
            'cmake_project(name="debug", cache={"CMAKE_BUILD_TYPE": "Debug"})\n'
        }
    )
    link = project.file("compile_commands.json")
    stdout = succeeds(run(project, f"{project.name}:"))
    assert f"is that of {project.address('debug')}, not of {project.address('project')}" in stdout
    assert folder(project, "debug") == link.resolve().parent
    assert "-g" in database(project)[0]["arguments"]
    # Who names one gets that.
    succeeds(run(project))
    assert folder(project) == link.resolve().parent
    assert "-g" not in database(project)[0]["arguments"]


@pytest.mark.parametrize("name", ["tool", "of_tool"])
def test_the_project_of_a_target(project: Project, name: str) -> None:
    project.write(
        {
            "BUILD": """\
            cmake_project(name="project")
            cmake_output(name="tool", project=":project", outputs=["bin/tool"])
            target(name="of_tool", dependencies=[":tool"])
            """
        }
    )
    succeeds(run(project, f"{project.name}:{name}"))
    assert len(database(project)) == 4


def test_a_copy_and_nothing(project: Project) -> None:
    succeeds(run(project, "--place=none", f"{project.name}:project"))
    assert not project.file("compile_commands.json").exists()
    assert (folder(project) / "compile_commands.json").exists()
    stdout = succeeds(run(project, "--place=copy", f"{project.name}:project"))
    assert f"Copied it to {project.name}/compile_commands.json." in stdout
    assert not project.file("compile_commands.json").is_symlink()
    compile_all(project)


def test_the_link_is_no_source(project: Project) -> None:
    """Else writing it would configure anew."""
    succeeds(run(project))
    link = f"{project.name}/compile_commands.json"
    project.runner.scheduler.scheduler.invalidate_files({link})
    before = set(project.runner.sandboxes.iterdir())
    succeeds(run(project))
    assert set(project.runner.sandboxes.iterdir()) == before


# --- what goes wrong ---------------------------------------------------------------------------


def fails(result: GoalRuleResult) -> str:
    assert result.exit_code == 1
    return result.stderr


@pytest.mark.parametrize("named", [True, False])
def test_no_project(project: Project, named: bool) -> None:
    project.write({"BUILD": 'target(name="other")'})
    stderr = fails(run(project, "--place=link", *([f"{project.name}:other"] * named)))
    assert "No `cmake_project` is named, and no target that is named depends on one" in stderr


def test_a_database_of_somebody_else_stays(project: Project) -> None:
    project.file("compile_commands.json").write_text("[]x")
    stderr = fails(run(project))
    assert (
        f"{project.name}/compile_commands.json is not this goal's, so it stays as it is" in stderr
    )
    assert "`--compile-commands-place=none`" in stderr
    assert project.file("compile_commands.json").read_text() == "[]x"


def test_dist_cannot_be_written(project: Project) -> None:
    (root(project.runner) / "dist").write_text("a file")
    try:
        stderr = fails(run(project))
    finally:
        (root(project.runner) / "dist").unlink()
    assert stderr.startswith("dist/compile-commands can't be written: ")


def test_a_generator_that_fails(project: Project) -> None:
    succeeds(run(project))
    before = (folder(project) / "build/include/demo/version.h").read_text()
    project.write({"version.sh": "echo 'This is wrong.' >&2; exit 3\n"})
    stderr = fails(run(project))
    assert f"{project.address('project')}: what its sources include can't be generated." in stderr
    assert "This is wrong." in stderr
    # What was there is of more use than nothing.
    assert (folder(project) / "build/include/demo/version.h").read_text() == before


def test_one_of_two_projects_fails(project: Project) -> None:
    other = project.runner.project(f"{project.name}/nested")
    project.write({"CMakeLists.txt": "message(FATAL_ERROR broken)\n"})
    stderr = fails(run(project, f"{project.name}::"))
    assert f"{project.address('project')} can't be configured:" in stderr
    compile_all(other)


def test_a_project_without_a_database(project: Project) -> None:
    project.edit(
        "CMakeLists.txt",
        "add_custom_command(",
        "unset(CMAKE_EXPORT_COMPILE_COMMANDS)\n"
        "set(CMAKE_EXPORT_COMPILE_COMMANDS OFF)\nadd_custom_command(",
    )
    stderr = fails(run(project))
    assert f"{project.address('project')}: CMake wrote no compile_commands.json" in stderr
