"""The goal `ci-coverage`, on BUILD files."""

from __future__ import annotations

import json
from typing import Sequence

import pytest
from pants.backend.python import target_types_rules
from pants.backend.python.dependency_inference import rules as dependency_inference_rules
from pants.backend.python.subsystems.pytest import PyTest
from pants.backend.python.target_types import PythonTestsGeneratorTarget, PythonTestTarget
from pants.core.goals import test as core_test
from pants.core.target_types import rules as core_target_types_rules
from pants.engine.internals.parametrize import Parametrize
from pants.engine.target import (
    AllTargets,
    GenerateTargetsRequest,
    InferDependenciesRequest,
    Targets,
)
from pants.engine.unions import UnionRule
from pants.testutil.rule_runner import GoalRuleResult, QueryRule, RuleRunner

from pants_triton.ci import coverage_rules
from pants_triton.ci import coverage_seed as seed
from pants_triton.ci.coverage_rules import (
    CiCoverage,
    DeclaredWorkspace,
    DeclaredWorkspaceRequest,
)
from pants_triton.hardware.subsystem import HardwareSubsystem
from pants_triton.native import use_rules as native_use_rules
from pants_triton.native.target_types import NATIVE_TARGET_TYPES
from pants_triton.package import rules as package_rules
from pants_triton.package.target_types import TritonPackageTarget
from pants_triton.testing import lit_rules, target_rules
from pants_triton.testing.gtest_target_types import GTestTestsTarget
from pants_triton.testing.lit_target_types import LIT_TARGET_TYPES
from pants_triton.testing.target_types import TritonTestsGeneratorTarget, TritonTestTarget

ARGS = (
    # The BUILD files name all dependencies, and the parser would want an interpreter.
    "--no-python-infer-imports",
    "--no-python-infer-assets",
    "--python-interpreter-constraints=['CPython==3.9.*']",
    "--test-extra-env-vars=['TRITON_DISABLE_LINE_INFO=1', 'PROTON_SKIP_PC_SAMPLING_TEST=1']",
)
ENV_INHERIT = {"PATH", "PYENV_ROOT", "HOME"}


@pytest.fixture
def rule_runner() -> RuleRunner:
    rule_runner = RuleRunner(
        rules=[
            *core_target_types_rules(),
            *dependency_inference_rules.rules(),
            *target_types_rules.rules(),
            *target_rules.rules(),
            *coverage_rules.rules(),
            *(*HardwareSubsystem.rules(), *PyTest.rules()),
            *(*core_test.TestSubsystem.rules(), core_test.get_filtered_environment),
            # Of these, what makes targets and finds dependencies; nothing here is built or run.
            lit_rules.generate_lit_test_targets,
            lit_rules.infer_lit_test_dependencies,
            native_use_rules.infer_output_dependencies,
            package_rules.infer_package_dependencies,
            UnionRule(GenerateTargetsRequest, lit_rules.GenerateLitTestTargets),
            UnionRule(InferDependenciesRequest, lit_rules.InferLitTestDependencies),
            UnionRule(InferDependenciesRequest, native_use_rules.InferCMakeOutputDependencies),
            UnionRule(InferDependenciesRequest, package_rules.InferTritonPackageDependencies),
            QueryRule(AllTargets, ()),
            QueryRule(DeclaredWorkspace, (DeclaredWorkspaceRequest,)),
        ],
        target_types=[
            *(*LIT_TARGET_TYPES, *NATIVE_TARGET_TYPES, GTestTestsTarget, TritonPackageTarget),
            *(PythonTestsGeneratorTarget, PythonTestTarget),
            *(TritonTestsGeneratorTarget, TritonTestTarget),
        ],
        objects={"parametrize": Parametrize},
    )
    rule_runner.set_options(ARGS, env_inherit=ENV_INHERIT)
    return rule_runner


def write_seed(rule_runner: RuleRunner) -> None:
    rule_runner.write_files(
        {
            seed.PATH: seed.workflow_text(),
            **{file: "" for file in (*seed.FILES, "CMakeLists.txt", "python/triton/__init__.py")},
            **{f"{folder}/BUILD": text for folder, text in seed.BUILD_FILES.items() if folder},
            "BUILD": seed.BUILD_FILES[""],
        }
    )


def coverage(rule_runner: RuleRunner, *args: str, specs: Sequence[str] = ("::",)) -> GoalRuleResult:
    return rule_runner.run_goal_rule(
        CiCoverage,
        global_args=ARGS,
        args=[*args, *specs],
        env_inherit=ENV_INHERIT,
    )


def test_the_seeds_build_files_declare_what_the_pure_tests_compare(rule_runner: RuleRunner) -> None:
    write_seed(rule_runner)
    targets = Targets(rule_runner.request(AllTargets, []))
    declared = rule_runner.request(DeclaredWorkspace, [DeclaredWorkspaceRequest(targets)])
    expected = seed.workspace()
    assert declared.workspace.tests == expected.tests
    assert declared.workspace.builds == expected.builds
    assert set(declared.workspace.files) == {*expected.files, "python/triton/__init__.py"}


def test_on_the_seed_nothing_is_missing(rule_runner: RuleRunner) -> None:
    write_seed(rule_runner)
    result = coverage(rule_runner, f"--workflow={seed.PATH}")
    assert "Nothing is missing." in result.stdout
    assert result.exit_code == 0


def test_a_dropped_target_is_found(rule_runner: RuleRunner) -> None:
    write_seed(rule_runner)
    rule_runner.write_files({"third_party/amd/python/test/BUILD": ""})
    result = coverage(rule_runner, f"--workflow={seed.PATH}", "--format=json")
    assert result.exit_code == 1
    (missing,) = [r for r in json.loads(result.stdout)["rows"] if r["status"] == "missing"]
    assert missing["line"] == 407
    assert "1 missing." in result.stderr
    allow = "--allow={'test_extract_slice': 'AMD runs it elsewhere'}"
    assert coverage(rule_runner, f"--workflow={seed.PATH}", allow).exit_code == 0


def test_targets_that_are_named_are_all_that_count(rule_runner: RuleRunner) -> None:
    write_seed(rule_runner)
    args = (f"--workflow={seed.PATH}", "--format=json")
    result = coverage(rule_runner, *args, specs=["python::"])
    assert json.loads(result.stdout)["counts"]["missing"] > 0
    result = coverage(rule_runner, *args, specs=[])
    assert json.loads(result.stdout)["counts"]["missing"] == 23
    assert "No target is selected, so nothing is covered" in result.stderr


def test_pants_own_tests_count_as_tests_of_the_cpu(rule_runner: RuleRunner) -> None:
    rule_runner.write_files(
        {
            "ci.yml": "on: push\njobs: {a: {runs-on: ubuntu-latest, steps: [{run: A=1 B=2 TRITON_DISABLE_LINE_INFO=1 PROTON_SKIP_PC_SAMPLING_TEST=1 pytest t}]}}",
            "t/test_a.py": "",
            "t/BUILD": "python_tests(extra_env_vars=['A=1', 'B'])",
        }
    )
    result = rule_runner.run_goal_rule(
        CiCoverage,
        global_args=ARGS,
        args=["--workflow=ci.yml", "--format=json", "::"],
        env={"B": "2"},
        env_inherit=ENV_INHERIT,
    )
    (row,) = json.loads(result.stdout)["rows"]
    assert (row["status"], row["targets"]) == ("covered", ["t/test_a.py"])


def test_a_called_workflow_is_compared_if_it_is_named(rule_runner: RuleRunner) -> None:
    rule_runner.write_files(
        {
            "a.yml": "on: push\njobs: {a: {uses: ./b.yml}}",
            "b.yml": "on: workflow_call\njobs: {b: {runs-on: x, steps: [{run: rm x}]}}",
        }
    )
    alone = coverage(rule_runner, "--workflow=a.yml")
    assert alone.exit_code == 1
    assert "it calls the workflow b.yml: name that file with `--workflow` as well" in alone.stdout
    assert coverage(rule_runner, "--workflow=['a.yml', 'b.yml']").exit_code == 0


@pytest.mark.parametrize(
    "args,text,message",
    [
        pytest.param([], "", "Name the workflow to compare: `--workflow=", id="no workflow"),
        pytest.param(["--workflow=x.yml"], "", "There is no file x.yml. `--workflow` takes", id="no file"),
        pytest.param(["--workflow=."], "", ". can't be read: ", id="folder"),
        pytest.param(["--workflow=ci.yml"], "a: [", "ci.yml is not YAML, line 1: ", id="not YAML"),
        pytest.param(["--workflow=ci.yml"], "a: 1", "ci.yml is not a workflow of GitHub Actions", id="no workflow file"),
        pytest.param(["--workflow=ci.yml"], "on: push", "ci.yml has no jobs", id="no jobs"),
        pytest.param(["--workflow=ci.yml", "--allow={'x': 'y'}"], "jobs: {a: {steps: []}}", "`--allow` for 'x' fits nothing", id="allow"),
        pytest.param(["--workflow=ci.yml", "--runners={'x': 'y'}"], "jobs: {a: {steps: []}}", "A runner has the hardware `y`; known are", id="runners"),
    ],
)  # fmt: skip
def test_errors(rule_runner: RuleRunner, args: list[str], text: str, message: str) -> None:
    rule_runner.write_files({"ci.yml": text})
    result = coverage(rule_runner, *args)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert message in result.stderr
