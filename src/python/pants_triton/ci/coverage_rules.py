"""The goal `ci-coverage`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from typing import Iterable, Mapping

from pants.backend.python.subsystems.pytest import PyTest
from pants.backend.python.target_types import (
    PythonTestsExtraEnvVarsField,
    PythonTestSourceField,
    SkipPythonTestsField,
)
from pants.base.build_environment import get_buildroot
from pants.core.goals.test import TestExtraEnv
from pants.engine.console import Console
from pants.engine.env_vars import EnvironmentVars, EnvironmentVarsRequest
from pants.engine.fs import PathGlobs, Paths
from pants.engine.goal import Goal, GoalSubsystem, Outputting
from pants.engine.rules import Get, MultiGet, collect_rules, goal_rule, rule
from pants.engine.target import (
    AllTargets,
    FilteredTargets,
    Target,
    Targets,
    TransitiveTargets,
    TransitiveTargetsRequest,
)
from pants.option.option_types import DictOption, EnumOption, StrListOption
from pants.util.logging import LogLevel
from pants.util.strutil import help_text, softwrap

from pants_triton.ci.coverage import (
    CoverageOptionError,
    DeclaredBuild,
    DeclaredTest,
    Workspace,
    cover,
)
from pants_triton.ci.coverage_render import render_json, render_table, summary
from pants_triton.ci.workflow_steps import Workflow, WorkflowError, parse_workflow
from pants_triton.hardware.target_types import ArchField, DevicesField, HardwareField
from pants_triton.native.target_types import (
    CMakeCacheField,
    CMakeEnvField,
    CMakeOutputSourceField,
    CMakeProjectSourcesField,
)
from pants_triton.package.target_types import TritonPackageSourcesField
from pants_triton.testing.gtest_target_types import GTestEnvField, GTestSourceField
from pants_triton.testing.lit_plan import suite_root
from pants_triton.testing.lit_target_types import LitRootField, LitTestEnvField, LitTestSourceField
from pants_triton.testing.target_types import (
    SkipTritonTestsField,
    TritonTestEnvField,
    TritonTestIsolatedField,
    TritonTestPytestArgsField,
    TritonTestSourceField,
    TritonTestWorkersField,
)


class CoverageFormat(Enum):
    """How the goal `ci-coverage` prints what it found."""

    TEXT = "text"
    JSON = "json"


class CoverageSubsystem(Outputting, GoalSubsystem):
    name = "ci-coverage"
    help = help_text(
        """
        Compare a workflow of GitHub Actions with the targets that take its place.

        Reads what each step runs (pytest, lit, CTest, builds of Triton), with paths, options, environment,
        conditions and matrix, and says which targets do it now: covered, covered differently and how,
        or missing. Fails if anything is missing, or isn't understood and not allowed.

        Example: `./pants ci-coverage --workflow=.github/workflows/integration-tests.yml ::`. Only the
        targets that are named count, so `--tag=cuda` leaves out what the lane of that tag doesn't run.
        """
    )

    workflow = StrListOption(
        metavar="<file>",
        help=softwrap(
            """
            The workflow files to compare, relative to the build root. Name those that they call as well.
            """
        ),
    )
    format = EnumOption(
        default=CoverageFormat.TEXT,
        help="A table for people, or JSON with all targets and files for scripts.",
    )
    runners = DictOption[str](
        help=softwrap(
            """
            The hardware of runners whose labels don't say it, by label: `{"big-box": "cuda"}`. Labels
            such as `a100-runner-set`, `gfx942` and `macos-latest` are known.
            """
        ),
    )
    context = DictOption[str](
        help=softwrap(
            """
            What is to be taken for given of GitHub's contexts, such as
            `{"github.repository": "me/triton", "github.event_name": "push"}`, or an output that only a
            run knows: `{"needs.prepare.outputs.matrix": '[["a100"]]'}`.
            """
        ),
    )
    allow = DictOption[str](
        help=softwrap(
            """
            What may be missing or not understood, and why: part of the command or of the step's name, or
            a glob for either, and the reason. Example: `{"make docs": "documentation has a workflow of its
            own"}`. One that fits nothing is an error, so that none outlives what it was for.
            """
        ),
    )


class CiCoverage(Goal):
    subsystem_cls = CoverageSubsystem
    environment_behavior = Goal.EnvironmentBehavior.LOCAL_ONLY


# --- what the workspace declares -----------------------------------------------------------------

# All that could be a test, and what makes a folder a suite of lit.
_FILES = ("**/*.py", "**/lit.cfg", "**/*.mlir", "**/*.ll", "**/*.test")


@dataclass(frozen=True)
class DeclaredWorkspaceRequest:
    targets: Targets


@dataclass(frozen=True)
class DeclaredWorkspace:
    workspace: Workspace


@dataclass(frozen=True)
class _Closures:
    """By the spec of each test or build: the targets it depends on."""

    by_spec: Mapping[str, tuple[Target, ...]]

    def builds(self, target: Target) -> tuple[str, ...]:
        closure = self.by_spec[target.address.spec]
        return tuple(sorted(t.address.spec for t in closure if _is_build(t)))

    def project_folder(self, target: Target) -> str:
        for dependency in self.by_spec[target.address.spec]:
            if dependency.has_field(CMakeProjectSourcesField):
                return dependency.address.spec_path
        return ""

    def build_env(self, target: Target) -> dict[str, str]:
        env: dict[str, str] = {}
        for dependency in self.by_spec[target.address.spec]:
            if dependency.has_field(CMakeProjectSourcesField):
                env.update(dependency[CMakeCacheField].value or {})
                env.update(dependency[CMakeEnvField].value or {})
        return env


def _is_build(target: Target) -> bool:
    return target.has_field(CMakeOutputSourceField) or target.has_field(TritonPackageSourcesField)


_TEST_FIELDS = (TritonTestSourceField, PythonTestSourceField, LitTestSourceField, GTestSourceField)


@rule(desc="Read what tests and builds are declared", level=LogLevel.DEBUG)
async def declared_workspace(
    request: DeclaredWorkspaceRequest,
    all_targets: AllTargets,
    extra_env: TestExtraEnv,
    pytest: PyTest,
) -> DeclaredWorkspace:
    tests = [t for t in request.targets if any(t.has_field(field) for field in _TEST_FIELDS)]
    builds = [target for target in all_targets if _is_build(target)]
    copied = sorted(
        {
            variable
            for test in tests
            for variable in test.get(PythonTestsExtraEnvVarsField).value or ()
            if "=" not in variable
        }
    )
    files, environment, *transitive = await MultiGet(
        Get(Paths, PathGlobs(_FILES)),
        Get(EnvironmentVars, EnvironmentVarsRequest(copied)),
        *(
            Get(TransitiveTargets, TransitiveTargetsRequest([target.address]))
            for target in (*tests, *builds)
        ),
    )
    closures = _Closures(
        {
            target.address.spec: tuple(found.closure)
            for target, found in zip((*tests, *builds), transitive)
        }
    )
    declared = [
        _declared(test, closures, extra_env.env, environment, pytest.args) for test in tests
    ]
    return DeclaredWorkspace(
        Workspace(
            tests=tuple(sorted(declared, key=lambda test: test.address)),
            builds=tuple(
                DeclaredBuild(
                    address=build.address.spec,
                    folder=build.address.spec_path,
                    whole=build.has_field(TritonPackageSourcesField),
                    env=_pairs(closures.build_env(build)),
                )
                for build in sorted(builds, key=lambda build: build.address.spec)
            ),
            files=files.files,
        )
    )


def _declared(
    target: Target,
    closures: _Closures,
    extra_env: Mapping[str, str],
    environment: Mapping[str, str],
    pytest_args: Iterable[str],
) -> DeclaredTest:
    address = target.address
    builds = closures.builds(target)
    if target.has_field(GTestSourceField):
        folder = closures.project_folder(target)
        gtest_env = target[GTestEnvField].value
        return DeclaredTest(
            address=address.spec,
            tool="gtest",
            path=folder,
            env=_pairs(gtest_env) if gtest_env else (),
            project=folder,
            builds=builds,
        )
    hardware = target.get(HardwareField).value or HardwareField.default
    if target.has_field(LitTestSourceField):
        return DeclaredTest(
            address=address.spec,
            tool="lit",
            path=target[LitTestSourceField].file_path,
            hardware=hardware,
            env=_pairs({**extra_env, **(target[LitTestEnvField].value or {})}),
            arch=target[ArchField].value,
            suite=suite_root(address.spec_path, target[LitRootField].value),
            builds=builds,
        )
    own = target.get(PythonTestsExtraEnvVarsField).value or ()
    extra = {name: environment[name] for name in own if name in environment}
    extra.update(dict(entry.split("=", 1) for entry in own if "=" in entry))
    source = TritonTestSourceField if target.has_field(TritonTestSourceField) else None
    return DeclaredTest(
        address=address.spec,
        tool="pytest",
        path=target[source or PythonTestSourceField].file_path,
        hardware=hardware,
        env=_pairs({**extra_env, **extra, **(target.get(TritonTestEnvField).value or {})}),
        args=(*(target.get(TritonTestPytestArgsField).value or ()), *pytest_args),
        workers=target.get(TritonTestWorkersField).value or 0,
        isolated=target.get(TritonTestIsolatedField).value,
        arch=target.get(ArchField).value,
        devices=target.get(DevicesField).value,
        builds=builds,
        skipped=any(target.get(f).value for f in (SkipTritonTestsField, SkipPythonTestsField)),
    )


def _pairs(env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(env.items()))


# --- the goal ------------------------------------------------------------------------------------


def _read(path: str, context: Mapping[str, str]) -> Workflow:
    """Read a workflow of the checkout.

    Not by the engine: Pants ignores the folder that workflows are in. A goal's rule isn't remembered,
    so reading the file itself is no harm.
    """
    try:
        with open(os.path.join(get_buildroot(), path), encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        raise WorkflowError(
            f"There is no file {path}. `--workflow` takes a path relative to the build root, such as "
            "`.github/workflows/integration-tests.yml`."
        ) from None
    except (OSError, UnicodeDecodeError) as e:
        raise WorkflowError(f"{path} can't be read: {e}.") from None
    return parse_workflow(text, path, context=context)


@goal_rule
async def ci_coverage(
    console: Console,
    subsystem: CoverageSubsystem,
    targets: FilteredTargets,
) -> CiCoverage:
    if not subsystem.workflow:
        console.print_stderr(
            "Name the workflow to compare: `--workflow=.github/workflows/integration-tests.yml`."
        )
        return CiCoverage(exit_code=1)
    try:
        workflows = [_read(path, subsystem.context) for path in subsystem.workflow]
    except WorkflowError as e:
        console.print_stderr(str(e))
        return CiCoverage(exit_code=1)
    if not targets:
        console.print_stderr(
            "No target is selected, so nothing is covered: name some, such as `::`."
        )
    declared = await Get(DeclaredWorkspace, DeclaredWorkspaceRequest(Targets(targets)))
    try:
        coverage = cover(
            workflows, declared.workspace, runners=subsystem.runners, allow=subsystem.allow
        )
    except CoverageOptionError as e:
        console.print_stderr(str(e))
        return CiCoverage(exit_code=1)
    render = render_json if subsystem.format is CoverageFormat.JSON else render_table
    with subsystem.output(console) as write:
        write(render(coverage))
    if subsystem.output_file or subsystem.format is CoverageFormat.JSON:
        console.print_stderr(summary(coverage))
    return CiCoverage(exit_code=1 if coverage.failing else 0)


def rules():
    return collect_rules()
