"""Wheels by the real engine. What auditwheel adds to native code is tested in tests/e2e: here it is
not run, and something else stands for it."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pants.core.goals.package import BuiltPackage
from pants.core.target_types import FileTarget
from pants.testutil.rule_runner import QueryRule, engine_error

from pants_triton.native.fake_tools import CMAKE_LISTS, Project, Runner, missing_tools
from pants_triton.package import rules as package_rules
from pants_triton.package import wheel_rules
from pants_triton.package.rules import PackageError
from pants_triton.package.target_types import TritonPackageTarget
from pants_triton.package.wheel_rules import TritonPackagePackageFieldSet

OPTIONS = ["--triton-wheel-auditwheel=3rdparty:cmake"]


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(
        tmp_path_factory.mktemp("package"),
        rules=[
            *package_rules.rules(),
            *wheel_rules.rules(),
            QueryRule(BuiltPackage, (TritonPackagePackageFieldSet,)),
        ],
        target_types=[FileTarget, TritonPackageTarget],
    )


@pytest.fixture
def project(runner: Runner, request: pytest.FixtureRequest) -> Project:
    runner.begin(*OPTIONS)
    project = Project(runner, "src/" + re.sub(r"\W+", "_", request.node.name))
    project.write({"python/demo/__init__.py": "ANSWER = 42\n", "python/demo/a.py": ""})
    return project


def declare(project: Project, **fields: object) -> None:
    known: dict[str, object] = {
        **{"sources": ["python/**/*.py"], "root": "python", "version": "1.0"},
        **fields,
    }
    text = "".join(f"{name}={value!r}, " for name, value in known.items() if value is not None)
    project.write({"BUILD": f'triton_package(name="package", {text})\n'})


def package(project: Project) -> BuiltPackage:
    target = project.runner.get_target(project.address("package"))
    assert TritonPackagePackageFieldSet.is_applicable(target)
    return project.runner.request(BuiltPackage, [TritonPackagePackageFieldSet.create(target)])


def wheel(project: Project) -> tuple[str, zipfile.ZipFile]:
    """Its name, and what is in it."""
    built = package(project)
    ((name, content),) = project.runner.contents(built.digest).items()
    assert [artifact.relpath for artifact in built.artifacts] == [name]
    return name, zipfile.ZipFile(io.BytesIO(content))


def members(project: Project) -> set[str]:
    return {name for name in wheel(project)[1].namelist() if ".dist-info/" not in name}


def test_a_wheel(project: Project, tmp_path: Path) -> None:
    declare(
        project,
        entry_points={"console_scripts": ["demo = demo.a:main"]},
        metadata={"Summary": ["A demo"]},
        requires=["numpy>=1.20"],
    )
    name, archive = wheel(project)
    assert name == "demo-1.0-py3-none-any.whl"
    info = "demo-1.0.dist-info"
    assert archive.namelist() == [
        *("demo/__init__.py", "demo/a.py", f"{info}/METADATA", f"{info}/entry_points.txt"),
        *(f"{info}/WHEEL", f"{info}/RECORD"),
    ]
    text = archive.read(f"{info}/METADATA").decode()
    assert "\nSummary: A demo\nRequires-Dist: numpy>=1.20\n" in text
    points = archive.read(f"{info}/entry_points.txt").decode()
    assert points == "[console_scripts]\ndemo = demo.a:main\n"


def test_pip_installs_it(project: Project, tmp_path: Path) -> None:
    declare(project)
    built = package(project)
    project.runner.scheduler.write_digest(built.digest, path_prefix="dist")
    path = Path(project.runner.build_root, "dist/demo-1.0-py3-none-any.whl")
    # This process' own Python need not have pip.
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    target = tmp_path / "site"
    pip = [str(venv / "bin/python"), "-m", "pip", "install", "--no-index", f"--target={target}"]
    subprocess.run([*pip, str(path)], check=True, stdout=subprocess.DEVNULL)
    run = [sys.executable, "-c", "import demo; print(demo.ANSWER)"]
    env = {"PYTHONPATH": str(target)}
    assert subprocess.run(run, env=env, check=True, stdout=subprocess.PIPE).stdout == b"42\n"


@pytest.mark.parametrize(
    "fields, name",
    [
        pytest.param({"distribution": "A.demo"}, "a_demo-1.0-py3-none-any.whl", id="name"),
        pytest.param({"version": "1.0+a-b"}, "demo-1.0+a.b-py3-none-any.whl", id="version"),
        pytest.param({"python_tag": "cp311"}, "demo-1.0-cp311-cp311-any.whl", id="python"),
        pytest.param(
            {"python_tag": "cp39", "abi_tag": "abi3", "platform_tag": "linux_x86_64"},
            "demo-1.0-cp39-abi3-linux_x86_64.whl",
            id="all tags",
        ),
        pytest.param({"output_path": "x/y"}, "x/y/demo-1.0-py3-none-any.whl", id="folder"),
    ],
)
def test_its_name(project: Project, fields: dict[str, str], name: str) -> None:
    declare(project, **fields)
    assert wheel(project)[0] == name


def test_a_suffix_of_the_version(project: Project) -> None:
    declare(project)
    project.runner.begin(*OPTIONS, "--triton-wheel-version-suffix=+git1a2b")
    name, archive = wheel(project)
    assert name == "demo-1.0+git1a2b-py3-none-any.whl"
    text = archive.read("demo-1.0+git1a2b.dist-info/METADATA").decode()
    assert "\nVersion: 1.0+git1a2b\n" in text


def test_without_a_version_there_is_none(project: Project) -> None:
    """So that `package ::` doesn't ask for what nobody wants."""
    declare(project, version=None)
    target = project.runner.get_target(project.address("package"))
    assert not TritonPackagePackageFieldSet.is_applicable(target)


def test_sources_from_several_folders(project: Project) -> None:
    """As Triton's own set-up links them."""
    declare(
        project,
        sources=["python/**/*.py", "third_party/*/backend/**/*", "third_party/proton/proton/**"],
        source_folders={
            "third_party/amd/backend": "demo/backends/amd",
            "third_party/nvidia/backend": "demo/backends/nvidia",
            "third_party/proton/proton": "demo/profiler",
        },
    )
    project.write(
        {
            "third_party/amd/backend/driver.py": "",
            "third_party/amd/backend/lib/x.bc": "",
            "third_party/amd/python/not_this.py": "",
            "third_party/nvidia/backend/driver.py": "",
            "third_party/proton/proton/__init__.py": "",
        }
    )
    assert members(project) == {
        *("demo/__init__.py", "demo/a.py", "demo/backends/amd/driver.py"),
        *("demo/backends/amd/lib/x.bc", "demo/backends/nvidia/driver.py"),
        "demo/profiler/__init__.py",
    }


NATIVE = pytest.mark.skipif(bool(missing_tools()), reason=f"not here: {missing_tools()}")


@NATIVE
@pytest.mark.parametrize(
    "includes, tags",
    [
        pytest.param("", "py3-none", id="no Python"),
        pytest.param("include_directories(/opt/include/python3.11)", "cp311-cp311", id="Python"),
    ],
)
def test_native_code(project: Project, includes: str, tags: str) -> None:
    declare(project, parts={":tool": "demo/bin"}, platform_tag="linux_x86_64")
    build = project.file("BUILD").read_text()
    project.runner.project(
        project.name,
        {
            "BUILD": 'cmake_project(name="project")\n'
            'cmake_output(name="tool", project=":project", outputs=["bin/tool"])\n' + build,
            "CMakeLists.txt": f"{CMAKE_LISTS}\n{includes}\n".replace(
                "include_directories(include", f"{includes}\ninclude_directories(include"
            ),
        },
    )
    name, archive = wheel(project)
    assert name == f"demo-1.0-{tags}-linux_x86_64.whl"
    assert archive.getinfo("demo/bin/tool").external_attr >> 16 == 0o100755


# --- what goes wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields, message",
    [
        pytest.param({"version": "one"}, "The version 'one' is none that pip understands", id="v"),
        pytest.param(
            {"sources": ["other/*.py", "python/**/*.py"]},
            "other/a.py is not below its `root`: correct that or `sources`, or say by "
            "`source_folders` where in the package it is.",
            id="outside",
        ),
        pytest.param(
            {"sources": ["other/sub/*", "python/**/*.py"], "source_folders": {"other": ""}},
            "has the packages demo, sub in it: say by `distribution` what its wheel is called",
            id="two packages",
        ),
        pytest.param(
            {"sources": ["python/demo/a.py"]},
            "has no package in it: say by `distribution` what its wheel is called",
            id="no package",
        ),
        pytest.param(
            {"sources": ["other/*.py", "python/**/*.py"], "source_folders": {"other": "demo"}},
            "are both demo/a.py in it",
            id="twice",
        ),
        pytest.param(
            {"libraries": [":file"]}, "is a `file`. Name artifacts in `libraries`", id="libraries"
        ),
    ],
)
def test_errors(project: Project, fields: dict[str, object], message: str) -> None:
    declare(project, **fields)
    build = project.file("BUILD").read_text()
    project.write(
        {
            "BUILD": build + 'file(name="file", source="BUILD")\n',
            "other/a.py": "",
            "other/sub/__init__.py": "",
        }
    )
    with engine_error(PackageError, contains=message):
        package(project)
