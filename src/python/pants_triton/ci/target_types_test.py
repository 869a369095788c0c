"""`ci_lane` in BUILD files."""

from __future__ import annotations

import re

import pytest
from pants.engine.addresses import Address
from pants.engine.internals.scheduler import ExecutionError
from pants.testutil.rule_runner import RuleRunner

from pants_triton.ci.lane import Lane, Runner, Trigger
from pants_triton.ci.target_types import LaneTarget, lane_of


@pytest.fixture
def rule_runner() -> RuleRunner:
    return RuleRunner(target_types=[LaneTarget])


def lane(rule_runner: RuleRunner, fields: str) -> Lane:
    rule_runner.write_files({"ci/BUILD": f"ci_lane(name='rocm', {fields})"})
    return lane_of(rule_runner.get_target(Address("ci", target_name="rocm")))


def test_what_is_declared(rule_runner: RuleRunner) -> None:
    assert (
        lane(
            rule_runner,
            """
        title="ROCm on MI300X",
        workflow="integration-tests",
        goals=["test", "lint"],
        tag_expression=["rocm", "-slow"],
        runs_on={"group": "amd", "labels": ["gfx942"]},
        fork_runs_on="ubuntu-latest",
        container_image="rocm/pytorch:latest",
        container_options=["--device=/dev/kfd"],
        env={"PANTS_LEVEL": "debug"},
        timeout_minutes=45,
        allowed_to_fail=True,
        when={"push": {"branches": ["main"]}, "merge_queue": {}},
        cache_write=["merge_queue"],
        submodules=True,
        pythons=["3.9"],
        """,
        )
        == Lane(
            name="rocm",
            title="ROCm on MI300X",
            workflow="integration-tests",
            address="ci:rocm",
            goals=("lint", "test"),
            tag_expression=("rocm", "-slow"),
            runner=Runner(("gfx942",), "amd"),
            fork_runner=Runner(("ubuntu-latest",)),
            container_image="rocm/pytorch:latest",
            container_options=("--device=/dev/kfd",),
            env=(("PANTS_LEVEL", "debug"),),
            timeout_minutes=45,
            allowed_to_fail=True,
            triggers=(Trigger("merge_queue"), Trigger("push", branches=("main",))),
            cache_write=("merge_queue",),
            submodules=True,
            pythons=("3.9",),
        )
    )


def test_defaults_of_a_folder_above(rule_runner: RuleRunner) -> None:
    rule_runner.write_files(
        {
            "BUILD": """
__defaults__(
    {ci_lane: dict(when={"push": {"branches": ["main"]}}, runs_on=["a100"], fork_runs_on=["ubuntu"])}
)
""",
            "ci/BUILD": "ci_lane(name='cuda', tag_expression=['cuda'])",
            # Whatever is there, Pants computes the defaults once more.
            "ci/images/BUILD": "ci_lane(name='rocm', tag_expression=['rocm'])",
        }
    )
    for address in (Address("ci", target_name="cuda"), Address("ci/images", target_name="rocm")):
        found = lane_of(rule_runner.get_target(address))
        assert found.triggers == (Trigger("push", branches=("main",)),)
        assert found.runner == Runner(("a100",))
        assert found.fork_runner == Runner(("ubuntu",))


def test_what_is_not_declared(rule_runner: RuleRunner) -> None:
    declared = lane(rule_runner, "tag_expression=['rocm'], runs_on=['gfx942']")
    assert declared.title == "rocm"
    assert declared.workflow == "ci"
    assert declared.goals == ("test",)
    assert declared.fork_runner is None
    assert declared.triggers == (
        Trigger("pull_request"),
        Trigger("merge_queue"),
        Trigger("push", branches=("main",)),
        Trigger("dispatch"),
    )
    assert declared.cache_write == ("push",)


def test_no_fork_runs_it(rule_runner: RuleRunner) -> None:
    declared = lane(rule_runner, "tag_expression=['rocm'], runs_on=['gfx942'], fork_runs_on=[]")
    assert declared.fork_runner == Runner(())


@pytest.mark.parametrize(
    "fields, message",
    [
        ("tag_expression=['rocm']", "'runs_on' field in target ci:rocm must be defined"),
        ("tag_expression=['rocm'], runs_on=5", "ci:rocm: `runs_on` must be labels"),
        ("tag_expression=['rocm'], runs_on='a', when=['tag']", "ci:rocm: `when` has the event"),
        ("runs_on='gfx942'", "ci:rocm: `tag_expression` is empty"),
    ],
)
def test_mistakes_name_the_target(rule_runner: RuleRunner, fields: str, message: str) -> None:
    with pytest.raises(ExecutionError, match=re.escape(message)):
        lane(rule_runner, fields)
