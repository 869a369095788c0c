from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any, cast

import pytest
from pants.core.goals.test import TestSubsystem
from pants.core.util_rules import distdir
from pants.engine.streaming_workunit_handler import (
    StreamingWorkunitContext,
    WorkunitsCallbackFactory,
)
from pants.testutil.rule_runner import QueryRule, RuleRunner

from pants_triton.ci import example_workunits as example
from pants_triton.ci import report_rules
from pants_triton.ci.report_rules import ReportSettings, RunReportCallback, RunReportRequest
from pants_triton.ci.subsystem import ReportFormat
from pants_triton.testing import repeat_rules
from pants_triton.testing.repeat import Invocation


@pytest.fixture
def rule_runner() -> RuleRunner:
    return RuleRunner(
        rules=[
            *report_rules.rules(),
            *repeat_rules.rules(),
            *distdir.rules(),
            *TestSubsystem.rules(),
            QueryRule(WorkunitsCallbackFactory, [RunReportRequest]),
        ]
    )


def callback_of(rule_runner: RuleRunner, *args: str, **env: str) -> RunReportCallback | None:
    rule_runner.set_options(args, env=env, env_inherit={"PATH"})
    factory = rule_runner.request(WorkunitsCallbackFactory, [RunReportRequest()])
    return cast("RunReportCallback | None", factory.callback_factory())


def test_settings(rule_runner: RuleRunner) -> None:
    callback = callback_of(
        rule_runner,
        *("--run-report-dir={distdir}/a/b", "--run-report-formats=['json','trace']"),
        *("--run-report-keep=3", "--run-report-announce"),
        GITHUB_JOB="cpu",
        GITHUB_STEP_SUMMARY="/some/file",
    )
    assert callback is not None
    assert callback._settings == ReportSettings(
        build_root=Path(rule_runner.build_root),
        folder=Path(rule_runner.build_root, "dist/a/b"),
        formats=(ReportFormat.JSON, ReportFormat.TRACE),
        keep=3,
        announce=True,
        step_summary="/some/file",
        invocation=Invocation(executable="pants", lane="cpu"),
    )


def test_defaults(rule_runner: RuleRunner) -> None:
    callback = callback_of(rule_runner)
    assert callback is not None
    assert callback._settings == ReportSettings(
        build_root=Path(rule_runner.build_root),
        folder=Path(rule_runner.build_root, "dist/run-report"),
        formats=tuple(ReportFormat),
        keep=10,
        announce=False,
        step_summary="",
        invocation=Invocation(executable="pants"),
    )


@pytest.mark.parametrize(
    "option", ["--no-run-report-enabled", "--test-debug", "--test-debug-adapter"]
)
def test_no_report(rule_runner: RuleRunner, option: str) -> None:
    assert callback_of(rule_runner, option) is None


class Run:
    """What Pants tells of a run; as `context` and as its `run_tracker`."""

    def __init__(self, goals: list[str], problem: Exception | None = None) -> None:
        self.run_tracker = self
        self.goals = goals
        self._problem = problem

    def run_information(self) -> dict[str, Any]:
        return {
            "id": "pants_run_2023_11_14_22_13_20_0_0123456789abcdef0123456789abcdef",
            "timestamp": example.START,
            "cmd_line": "pants test ::",
            "version": "2.17.1",
            "outcome": "SUCCESS",
        }

    def get_cumulative_timings(self) -> list[dict[str, Any]]:
        return [{"label": "main", "timing": 9.5}]

    def get_metrics(self) -> dict[str, int]:
        if self._problem:
            raise self._problem
        return {"local_cache_requests": 1}

    def get_observation_histograms(self) -> dict[str, Any]:
        # Of what is no histogram, the bytes are unknown.
        return {"version": 0, "histograms": {"local_store_read_blob_size": b"?"}}


def reported(
    folder: Path, run: Run, *workunits: dict[str, Any] | None, step_summary: str = ""
) -> RunReportCallback:
    settings = ReportSettings(
        folder.parent, folder, tuple(ReportFormat), 10, True, step_summary, Invocation()
    )
    callback = RunReportCallback(settings)
    for finished in (False, True):
        callback(
            started_workunits=(),
            completed_workunits=() if finished else workunits,  # type: ignore[arg-type]
            finished=finished,
            context=cast(StreamingWorkunitContext, run),
        )
    return callback


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def test_writes_at_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    goal = example.goal()
    reported(tmp_path, Run(["lint", "test"]), example.test_rule(goal, "t:a"), goal)
    files = tmp_path / "latest"
    assert sorted(os.listdir(files)) == ["index.html", "report.json", "summary.md", "trace.json"]
    report = json.loads((files / "report.json").read_text())
    assert report["run"]["seconds"] == 9.5
    assert report["bytes"] == {"read_from_local_store": None, "downloaded": 0, "uploaded": 0}
    assert [record.getMessage() for record in caplog.records] == [
        "Nothing to do. 1 test: 1 passed, all from this daemon's memory. Run report: "
        f"{tmp_path.name}/20231114T221320Z-01234567/index.html"
    ]


@pytest.mark.parametrize(
    ("goals", "workunits"),
    [
        pytest.param(["lint"], (example.goal(),), id="another goal"),
        pytest.param(["test"], (example.workunit("parse"),), id="failed before the goal"),
    ],
)
def test_other_runs(tmp_path: Path, goals: list[str], workunits: tuple[dict[str, Any]]) -> None:
    reported(tmp_path, Run(goals), *workunits)
    assert os.listdir(tmp_path) == []


def test_a_bad_workunit_costs_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reported(tmp_path, Run(["test"]), None, {"name": "process"}, example.goal())
    report = json.loads((tmp_path / "latest/report.json").read_text())
    assert report["unreadable_workunits"] == 2
    assert not warnings(caplog)


def test_what_goes_wrong_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reported(tmp_path, Run(["test"], problem=RuntimeError("no metrics")), example.goal())
    assert warnings(caplog) == ["No report of this run was written: RuntimeError: no metrics"]
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full disk to test on")
def test_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reported(tmp_path, Run(["test"]), example.goal(), step_summary="/dev/full")
    assert warnings(caplog) == [
        "The summary of this run was not appended to $GITHUB_STEP_SUMMARY, /dev/full: No space "
        "left on device."
    ]
    assert (tmp_path / "latest/report.json").exists()
