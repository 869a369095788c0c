from __future__ import annotations

import pytest
from pants.backend.python import target_types_rules
from pants.backend.python.dependency_inference import rules as dependency_inference_rules
from pants.backend.python.target_types import PythonRequirementTarget
from pants.core.target_types import rules as core_target_types_rules
from pants.testutil.rule_runner import QueryRule, RuleRunner

from pants_triton.kernel_cache.subsystem import KernelCacheSubsystem
from pants_triton.testing import kernel_cache_rules
from pants_triton.testing.kernel_cache_rules import KernelCachePackages, KernelCachePackagesRequest

BUILD = """\
python_requirement(name="triton", requirements=["triton"], resolve="full")
python_requirement(name="h2", requirements=["h2"], resolve="full")
python_requirement(name="protobuf", requirements=["protobuf"], resolve="full")
python_requirement(name="triton2", requirements=["triton"], resolve="lacking")
python_requirement(name="h22", requirements=["h2"], resolve="lacking")
"""
ON = ("--kernel-cache-mode=read", "--kernel-cache-address=grpc://cache:1")


@pytest.fixture
def runner() -> RuleRunner:
    made = RuleRunner(
        rules=[
            *kernel_cache_rules.rules(),
            *core_target_types_rules(),
            *dependency_inference_rules.rules(),
            *target_types_rules.rules(),
            *KernelCacheSubsystem.rules(),
            QueryRule(KernelCachePackages, (KernelCachePackagesRequest,)),
        ],
        target_types=[PythonRequirementTarget],
    )
    made.write_files({"BUILD": BUILD})
    return made


def packages(runner: RuleRunner, resolve: str, *options: str) -> list[str]:
    runner.set_options(
        [
            "--python-enable-resolves",
            "--python-resolves={'full': 'a', 'lacking': 'b', 'without': 'c', "
            "'python-default': 'd'}",
            *options,
        ]
    )
    found = runner.request(KernelCachePackages, [KernelCachePackagesRequest(resolve)])
    return sorted(address.spec for address in found.addresses)


def test_nothing_while_off(runner: RuleRunner) -> None:
    assert packages(runner, "full") == []


def test_what_the_client_imports(runner: RuleRunner) -> None:
    assert packages(runner, "full", *ON) == ["//:h2", "//:protobuf"]


def test_a_resolve_that_lacks_one_is_told(
    runner: RuleRunner, caplog: pytest.LogCaptureFixture
) -> None:
    assert packages(runner, "lacking", *ON) == []
    assert "the resolve `lacking` has not one package protobuf: its tests compile" in caplog.text


def test_a_resolve_without_triton_is_no_business_of_ours(
    runner: RuleRunner, caplog: pytest.LogCaptureFixture
) -> None:
    assert packages(runner, "without", *ON) == []
    assert caplog.text == ""
