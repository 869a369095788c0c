from __future__ import annotations

from textwrap import dedent

import pytest
from pants.backend.python import target_types_rules
from pants.backend.python.dependency_inference import rules as dependency_inference_rules
from pants.backend.python.lint.black import skip_field as black_skip_field
from pants.backend.python.lint.black.skip_field import SkipBlackField
from pants.backend.python.target_types import (
    PythonRequirementTarget,
    PythonSourcesGeneratorTarget,
    PythonTestUtilsGeneratorTarget,
)
from pants.core.target_types import rules as core_target_types_rules
from pants.engine.addresses import Address, Addresses
from pants.engine.internals.parametrize import Parametrize
from pants.engine.internals.scheduler import ExecutionError
from pants.engine.target import AllTargets, Dependencies, DependenciesRequest, Tags, Target
from pants.testutil.rule_runner import QueryRule, RuleRunner

from pants_triton.hardware.subsystem import HardwareSubsystem
from pants_triton.testing import target_rules
from pants_triton.testing.target_types import (
    TritonTestEnvField,
    TritonTestResolveField,
    TritonTestsGeneratorTarget,
    TritonTestTarget,
)


@pytest.fixture
def rule_runner() -> RuleRunner:
    rule_runner = RuleRunner(
        rules=[
            *core_target_types_rules(),
            *dependency_inference_rules.rules(),
            *target_types_rules.rules(),
            *target_rules.rules(),
            *black_skip_field.rules(),
            *HardwareSubsystem.rules(),
            QueryRule(AllTargets, ()),
            QueryRule(Addresses, (DependenciesRequest,)),
        ],
        target_types=[
            PythonRequirementTarget,
            PythonSourcesGeneratorTarget,
            PythonTestUtilsGeneratorTarget,
            TritonTestsGeneratorTarget,
            TritonTestTarget,
        ],
        objects={"parametrize": Parametrize},
    )
    rule_runner.set_options(
        [
            "--python-enable-resolves",
            "--python-resolves={'default': 'a.lock', 'triton': 'b.lock', 'cuda': 'c.lock'}",
            "--python-default-resolve=default",
            "--python-infer-use-rust-parser",
            "--hardware-resolves={'cpu': 'triton', 'cuda': 'cuda'}",
        ],
        env_inherit={"PATH", "PYENV_ROOT", "HOME"},
    )
    return rule_runner


def targets_by_spec(rule_runner: RuleRunner, build_file: str) -> dict[str, Target]:
    rule_runner.write_files({"t/BUILD": dedent(build_file), "t/a_test.py": "", "t/b_test.py": ""})
    targets = rule_runner.request(AllTargets, [])
    return {t.address.spec: t for t in targets if isinstance(t, TritonTestTarget)}


def test_hardware_is_a_tag_and_picks_the_resolve(rule_runner: RuleRunner) -> None:
    targets = targets_by_spec(
        rule_runner,
        """\
        triton_tests(
            sources=["a_test.py"],
            hardware=parametrize("cpu", "cuda", "rocm"),
            tags=["slow"],
        )
        """,
    )
    assert {
        spec: (t[Tags].value, t[TritonTestResolveField].value) for spec, t in targets.items()
    } == {
        "t/a_test.py@hardware=cpu": (("slow", "cpu"), "triton"),
        "t/a_test.py@hardware=cuda": (("slow", "cuda"), "cuda"),
        # No resolve is configured for `rocm`: it is Pants' default one.
        "t/a_test.py@hardware=rocm": (("slow", "rocm"), None),
    }


def test_defaults(rule_runner: RuleRunner) -> None:
    [target] = targets_by_spec(rule_runner, "triton_tests(sources=['a_test.py'])").values()
    assert target[Tags].value == ("cpu",)
    assert target[TritonTestResolveField].value == "triton"


def test_explicit_values_win(rule_runner: RuleRunner) -> None:
    [target] = targets_by_spec(
        rule_runner,
        "triton_tests(sources=['a_test.py'], hardware='cuda', tags=['cuda'], resolve='default')",
    ).values()
    assert target[Tags].value == ("cuda",)
    assert target[TritonTestResolveField].value == "default"


def test_overrides_may_change_the_hardware(rule_runner: RuleRunner) -> None:
    targets = targets_by_spec(
        rule_runner,
        """\
        triton_tests(
            overrides={
                "a_*.py": {"hardware": parametrize("cuda", "rocm"), "arch": None},
                "b_test.py": {"env": {"TRITON_INTERPRET": "1"}},
            },
        )
        """,
    )
    assert {
        spec: (
            t[Tags].value,
            t[TritonTestResolveField].value,
            dict(t[TritonTestEnvField].value or {}),
        )
        for spec, t in targets.items()
    } == {
        "t/a_test.py@hardware=cuda": (("cuda",), "cuda", {}),
        "t/a_test.py@hardware=rocm": (("rocm",), None, {}),
        "t/b_test.py": (("cpu",), "triton", {"TRITON_INTERPRET": "1"}),
    }


def test_skip_fields_of_linters_reach_the_tests(rule_runner: RuleRunner) -> None:
    targets = targets_by_spec(
        rule_runner,
        """\
        triton_tests(skip_black=True, overrides={"b_test.py": {"skip_black": False}})
        """,
    )
    assert {spec: t[SkipBlackField].value for spec, t in targets.items()} == {
        "t/a_test.py": True,
        "t/b_test.py": False,
    }


def test_a_single_target_is_tagged_too(rule_runner: RuleRunner) -> None:
    targets = targets_by_spec(
        rule_runner, "triton_test(name='one', source='a_test.py', hardware='macos')"
    )
    assert targets["t:one"][Tags].value == ("macos",)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param("hardware='cdua'", "Did you mean 'cuda'?", id="misspelt hardware"),
        pytest.param("hardware='rocm', arch='sm_90'", "belongs to hardware `cuda`", id="vendor"),
        pytest.param("hardware='cuda', devices=0", "at least 1", id="no devices"),
        pytest.param("hardware='cpu', devices=2", "takes no devices", id="devices of a cpu"),
        pytest.param("hardware='cpu', tags=['cuda']", "has the tag `cuda`", id="other's tag"),
        pytest.param("hardware=['cuda', 'rocm']", "parametrize(", id="a list of hardware"),
        pytest.param(
            "hardware=parametrize('cuda', 'rocm'), overrides={'a_test.py': {'hardware': 'cuda'}}",
            "target of their own",
            id="override of a parametrized hardware",
        ),
        pytest.param(
            "env={'CUDA_VISIBLE_DEVICES': '0'}", "the lease's to set", id="devices in env"
        ),
        pytest.param("sources=['conftest.py']", "python_test_utils", id="conftest"),
        pytest.param("overrides={'c_test.py': {'timeout': 1}}", "c_test.py", id="unused override"),
        pytest.param("overides={}", "Unrecognized field `overides", id="unknown field"),
    ],
)
def test_bad_fields_name_the_target(rule_runner: RuleRunner, fields: str, message: str) -> None:
    rule_runner.write_files({"t/conftest.py": ""})
    with pytest.raises(ExecutionError, match=r"t:t|t/a_test.py|t/b_test.py") as error:
        targets_by_spec(rule_runner, f"triton_tests({fields})")
    assert message in str(error.value)


def test_imports_and_conftests_are_dependencies(rule_runner: RuleRunner) -> None:
    rule_runner.write_files(
        {
            "BUILD": "python_test_utils(name='conftest', resolve=parametrize('triton', 'cuda'))",
            "conftest.py": "",
            "t/BUILD": "python_sources(resolve='triton')\ntriton_tests(name='tests')",
            "t/lib.py": "",
            "t/a_test.py": "import t.lib",
        }
    )
    target = rule_runner.get_target(
        Address("t", target_name="tests", relative_file_path="a_test.py")
    )
    dependencies = rule_runner.request(Addresses, [DependenciesRequest(target[Dependencies])])
    assert [a.spec for a in dependencies] == [
        "//conftest.py:conftest@resolve=triton",
        "t/lib.py",
    ]


def test_resolves_of_unknown_hardware(rule_runner: RuleRunner) -> None:
    rule_runner.set_options(["--hardware-resolves={'cdua': 'cuda'}"], env_inherit={"PATH"})
    with pytest.raises(ExecutionError, match="names the hardware `cdua`, which is unknown"):
        targets_by_spec(rule_runner, "triton_tests()")
