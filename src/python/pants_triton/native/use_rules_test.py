from __future__ import annotations

import re
import subprocess
import warnings
from pathlib import Path

import pytest
from pants.build_graph.address import Address
from pants.core.goals.package import BuiltPackage
from pants.core.goals.run import RunRequest
from pants.engine.addresses import Addresses
from pants.engine.target import Dependencies, DependenciesRequest
from pants.testutil.rule_runner import QueryRule, engine_error

from pants_triton.native import use_rules
from pants_triton.native.fake_tools import Project, Runner, missing_tools
from pants_triton.native.subsystem import NativeError
from pants_triton.native.use_rules import CMakeOutputPackageFieldSet, CMakeOutputRunFieldSet

if missing_tools():
    warnings.warn(f"NOT TESTED: use of projects; not here: {missing_tools()}", stacklevel=1)
pytestmark = pytest.mark.skipif(bool(missing_tools()), reason=f"not here: {missing_tools()}")


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(
        tmp_path_factory.mktemp("native"),
        rules=[
            *use_rules.rules(),
            QueryRule(Addresses, (DependenciesRequest,)),
            QueryRule(BuiltPackage, (CMakeOutputPackageFieldSet,)),
            QueryRule(RunRequest, (CMakeOutputRunFieldSet,)),
        ],
    )


@pytest.fixture
def project(runner: Runner, request: pytest.FixtureRequest) -> Project:
    runner.begin()
    return runner.project("src/" + re.sub(r"\W+", "_", request.node.name))


def package(project: Project) -> BuiltPackage:
    target = project.runner.get_target(project.address("tool"))
    return project.runner.request(BuiltPackage, [CMakeOutputPackageFieldSet.create(target)])


def run_request(project: Project) -> RunRequest:
    target = project.runner.get_target(project.address("tool"))
    return project.runner.request(RunRequest, [CMakeOutputRunFieldSet.create(target)])


def test_a_package_is_its_files_in_a_folder(project: Project) -> None:
    project.edit("BUILD", '["bin/tool"]', '["bin/tool", "libcore.a"]')
    built = package(project)
    folder = project.name.replace("/", ".") + "/tool"
    assert [artifact.relpath for artifact in built.artifacts] == [
        f"{folder}/bin/tool",
        f"{folder}/libcore.a",
    ]
    # With the libraries that it runs with.
    assert sorted(project.runner.contents(built.digest)) == [
        f"{folder}/bin/tool",
        f"{folder}/lib/libshared.so",
        f"{folder}/lib/libshared.so.1",
        f"{folder}/lib/libshared.so.1.2",
        f"{folder}/libcore.a",
    ]


def test_a_package_in_a_folder_of_ones_choice(project: Project) -> None:
    project.edit("BUILD", 'name="tool",', 'name="tool", output_path="here",')
    assert [artifact.relpath for artifact in package(project).artifacts] == ["here/bin/tool"]


def test_a_program_is_run(project: Project) -> None:
    request = run_request(project)
    assert request.args == (f"{{chroot}}/{project.name}/tool/bin/tool",)
    assert dict(request.extra_env) == {}
    folder = f"dist/run/{project.name}"
    project.runner.scheduler.write_digest(request.digest, path_prefix=folder)
    root = Path(project.runner.build_root, folder)
    (program,) = (argument.format(chroot=root) for argument in request.args)
    assert subprocess.run([program]).returncode == 2


def test_two_files_are_no_program(project: Project) -> None:
    project.edit("BUILD", '["bin/tool"]', '["bin/tool", "core"]')
    message = f"{project.address('tool')} is not one program but bin/tool, libcore.a. Declare a"
    with engine_error(NativeError, contains=message):
        run_request(project)


def test_dependencies_are_known_without_building(project: Project) -> None:
    def of(name: str) -> set[Address]:
        target = project.runner.get_target(project.address(name))
        request = DependenciesRequest(target[Dependencies])
        return set(project.runner.request(Addresses, [request]))

    # That it can't be configured doesn't matter.
    project.edit("CMakeLists.txt", "project(", "no_project(")
    assert of("tool") == {project.address("project")}
    tools = {Address("3rdparty", target_name=name) for name in ("toolchain", "cmake")}
    assert of("project") == tools
