"""What a lane may be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pants_triton.ci.lane import (
    DISPATCH,
    MERGE_QUEUE,
    PULL_REQUEST,
    PUSH,
    SCHEDULE,
    Lane,
    LaneError,
    Runner,
    Trigger,
    check_lane,
    check_lanes,
    parse_runner,
    parse_triggers,
)

LANE = Lane(
    name="cuda-a100",
    title="CUDA on A100",
    workflow="ci",
    address="ci:cuda-a100",
    goals=("test",),
    tag_expression=("cuda",),
    runner=Runner(("a100-runner-set",)),
    fork_runner=None,
    container_image="",
    container_options=(),
    env=(),
    timeout_minutes=30,
    allowed_to_fail=False,
    triggers=(Trigger(PULL_REQUEST), Trigger(PUSH, branches=("main",))),
    cache_write=(PUSH,),
    submodules=False,
    pythons=(),
)


def test_command() -> None:
    assert LANE.command == "./pants test --tag=cuda ::"
    assert replace(LANE, tag_expression=("cuda", "-slow,flaky")).command == (
        "./pants test --tag=cuda --tag=-slow,flaky ::"
    )
    formatting = replace(LANE, goals=("lint", "check"), tag_expression=())
    assert formatting.command == "./pants lint check ::"


@pytest.mark.parametrize(
    "value, runner",
    [
        ("ubuntu-latest", Runner(("ubuntu-latest",))),
        (["self-hosted", "gfx90a"], Runner(("self-hosted", "gfx90a"))),
        ({"group": "gpu"}, Runner((), "gpu")),
        ({"group": "gpu", "labels": "a100"}, Runner(("a100",), "gpu")),
        ({"group": "gpu", "labels": ["a100", "big"]}, Runner(("a100", "big"), "gpu")),
        ([], Runner(())),
    ],
)
def test_runner(value: object, runner: Runner) -> None:
    assert parse_runner("runs_on", value) == runner


@pytest.mark.parametrize(
    "value, message",
    [
        (5, "`runs_on` must be labels"),
        (["a", 5], "`runs_on` must be labels"),
        ([""], "`runs_on` must be labels"),
        ({"labels": ["a100"]}, "`runs_on` names no group"),
        ({"group": "gpu", "label": "a100"}, "`runs_on` has the key `label`"),
        ("${{ matrix.runner }}", "`runs_on` has the expression"),
        (["a\nb"], "`runs_on` has a control character"),
    ],
)
def test_no_runner(value: object, message: str) -> None:
    with pytest.raises(LaneError, match=message):
        parse_runner("runs_on", value)


def test_triggers() -> None:
    assert parse_triggers("when", ["push", "pull_request"]) == (
        Trigger(PULL_REQUEST),
        Trigger(PUSH),
    )
    assert parse_triggers(
        "when",
        {
            "schedule": {"cron": ["30 3 * * *", "0 12 1 JAN-MAR MON-FRI"]},
            "dispatch": {},
            "merge_queue": {"branches": ["main", "dev-**"]},
            "pull_request": {"branches_ignore": ["llvm-**"]},
        },
    ) == (
        Trigger(PULL_REQUEST, branches_ignore=("llvm-**",)),
        Trigger(MERGE_QUEUE, branches=("main", "dev-**")),
        Trigger(DISPATCH),
        Trigger(SCHEDULE, cron=("30 3 * * *", "0 12 1 JAN-MAR MON-FRI")),
    )


@pytest.mark.parametrize(
    "value, message",
    [
        ([], "`when` must say on which events"),
        ("push", "`when` must say on which events"),
        (["merge_group"], "`when` has the event 'merge_group'. The events are: `pull_request`, "),
        ({"push": ["main"]}, "`when` has .* for `push`: it may have `branches` or `branches_ign"),
        ({"push": {"tags": ["v1"]}}, "`when` has .* for `push`: it may have"),
        ({"push": {"branches": []}}, r"`when` has \[\] for `branches` of `push`"),
        ({"push": {"branches": "main"}}, "`when` has 'main' for `branches` of `push`"),
        ({"dispatch": {"branches": ["main"]}}, "`when` has .* for `dispatch`: write `{}` for it"),
        (["schedule"], "`when` has {} for `schedule`: say at which moments, in UTC, such as"),
        ({"schedule": {"branches": ["main"]}}, "for `schedule`: say at which moments"),
        ({"schedule": {"cron": "0 3 * * *"}}, "for `schedule`: say at which moments"),
        (
            {"schedule": {"cron": ["0 3 * *"]}},
            "`when` has '0 3 . .' for `cron`: write minute, hour",
        ),
        ({"schedule": {"cron": ["@daily"]}}, "`when` has '@daily' for `cron`: write minute, hour"),
        (
            {"push": {"branches": ["main"], "branches_ignore": ["a"]}},
            "`when` has both `branches` and `branches_ignore` for `push`",
        ),
        ({"push": {"branches": ["${{ x }}"]}}, "`when` has the expression"),
    ],
)
def test_no_triggers(value: object, message: str) -> None:
    with pytest.raises(LaneError, match=message):
        parse_triggers("when", value)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(name="a b"), "`name` is 'a b', which is no identifier of a job"),
        (dict(workflow="../ci"), "`workflow` is '../ci'"),
        (dict(goals=()), "`goals` is empty: name some of lint, check, test"),
        (dict(goals=("run",)), "`goals` has 'run'. There are: `lint`, `check`, `test`"),
        (dict(tag_expression=()), "`tag_expression` is empty"),
        (dict(tag_expression=("cuda; rm -rf /",)), "which is no value of `--tag`"),
        (dict(tag_expression=("$(id)",)), "which is no value of `--tag`"),
        (dict(tag_expression=("cuda,",)), "which is no value of `--tag`"),
        (dict(tag_expression=("--help",)), "which is no value of `--tag`"),
        (dict(runner=Runner(())), "`runs_on` is empty"),
        (dict(title="${{ github.head_ref }}"), "`title` has the expression"),
        (dict(container_image="a\nb"), "`container_image` has a control character"),
        (dict(container_options=("--user=root",)), "without a `container_image`"),
        (dict(env=(("A-B", "1"),)), "`env` has 'A-B'"),
        (dict(env=(("A", "${{ secrets.TOKEN }}"),)), "`env` has the expression"),
        (dict(env=(("PANTS_CONFIG_FILES", "x"),)), "`env` sets PANTS_CONFIG_FILES"),
        (dict(timeout_minutes=0), "`timeout_minutes` is 0"),
        (dict(timeout_minutes=7201), "`timeout_minutes` is 7201"),
        (dict(pythons=("python3",)), "`pythons` has 'python3'"),
        (dict(cache_write=(PULL_REQUEST,)), "whatever a stranger proposes"),
        (dict(cache_write=(DISPATCH,)), "whatever is on any branch"),
        (dict(cache_write=("tag",)), "`cache_write` has 'tag'. There are: `merge_queue`, `push`"),
        (dict(triggers=(Trigger(PUSH),)), "`when` runs the lane on a push to any branch"),
    ],
)
def test_no_lane(change: dict[str, Any], message: str) -> None:
    check_lane(LANE)
    with pytest.raises(LaneError, match=message):
        check_lane(replace(LANE, **change))


def test_names_are_unique() -> None:
    other = replace(LANE, address="b:cuda-a100")
    with pytest.raises(
        LaneError, match="^ci:cuda-a100: b:cuda-a100 is a lane of the name `cuda-a100`"
    ):
        check_lanes([LANE, other])
