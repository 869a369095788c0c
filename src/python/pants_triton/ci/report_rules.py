"""Write a report at the end of each `pants test`, and let nothing that goes wrong with it matter."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

from pants.base.build_environment import get_buildroot
from pants.core.goals.test import TestSubsystem
from pants.core.util_rules.distdir import DistDir
from pants.engine.env_vars import EnvironmentVars, EnvironmentVarsRequest
from pants.engine.internals.scheduler import Workunit
from pants.engine.rules import Get, collect_rules, rule
from pants.engine.streaming_workunit_handler import (
    StreamingWorkunitContext,
    WorkunitsCallback,
    WorkunitsCallbackFactory,
    WorkunitsCallbackFactoryRequest,
)
from pants.engine.unions import UnionRule

from pants_triton.ci.histogram import HistogramError, histogram_sum
from pants_triton.ci.report_files import append_summary, report_name, write_report
from pants_triton.ci.run_html import render_html
from pants_triton.ci.run_json import render_json, run_document
from pants_triton.ci.run_markdown import fitting, render_markdown
from pants_triton.ci.run_record import Recorder, RunInfo, RunRecord, Transfer
from pants_triton.ci.run_text import headline
from pants_triton.ci.run_trace import render_trace
from pants_triton.ci.subsystem import ReportFormat, RunReport
from pants_triton.testing.repeat import Invocation
from pants_triton.testing.repeat_rules import FailedTests

logger = logging.getLogger(__name__)

_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


@dataclass(frozen=True)
class ReportSettings:
    """:param step_summary: a file to append the Markdown to, or "".
    :param invocation: how the run was started.
    """

    build_root: Path
    folder: Path
    formats: tuple[ReportFormat, ...]
    keep: int
    announce: bool
    step_summary: str
    invocation: Invocation


class RunReportCallback(WorkunitsCallback):
    """Collects what a run does, in a thread beside it, and writes the report when it is done."""

    def __init__(self, settings: ReportSettings) -> None:
        self._settings = settings
        self._recorder = Recorder()
        self._failed = FailedTests(settings.invocation)
        self._is_active: bool | None = None
        self._own_s = 0.0

    @property
    def can_finish_async(self) -> bool:
        # A CI job may end with Pants, and the daemon with it; and whoever is told where the report
        # is wants it to be there. It takes some milliseconds.
        return False

    def __call__(
        self,
        *,
        started_workunits: tuple[Workunit, ...],
        completed_workunits: tuple[Workunit, ...],
        finished: bool,
        context: StreamingWorkunitContext,
    ) -> None:
        if self._is_active is None:
            self._is_active = "test" in context.run_tracker.goals
        if not self._is_active:
            return
        begin = time.perf_counter()
        try:
            self._recorder.add(started_workunits, completed_workunits)
            self._failed.add(completed_workunits, context)
            if finished and self._recorder.has_tested:
                self._finish(context)
        except Exception as e:
            # Whatever it is: the tests were run, and that is what counts.
            self._is_active = False
            logger.warning(f"No report of this run was written: {type(e).__name__}: {e}")
            logger.debug("The report's error:", exc_info=True)
        self._own_s += time.perf_counter() - begin
        if finished:
            logger.debug(f"The report of this run took {self._own_s * 1000:.0f} ms.")

    def _finish(self, context: StreamingWorkunitContext) -> None:
        settings = self._settings
        record = self._recorder.record(
            _run_info(context, settings.invocation.lane),
            context.get_metrics(),
            _transfer(context),
            self._failed.repeats(),
        )
        if settings.formats:
            try:
                report = write_report(
                    settings.folder,
                    report_name(record.info.started, record.info.id),
                    rendered(record, settings.formats),
                    settings.keep,
                )
            except OSError as e:
                logger.warning(
                    f"No report of this run was written to {settings.folder}: {e.strerror}. Name "
                    "another folder with `[run-report].dir`, or switch reports off with "
                    "`[run-report].enabled`."
                )
            else:
                if settings.announce:
                    logger.info(
                        f"{headline(record)} Run report: {_shown(report, settings.build_root)}"
                    )
        if settings.step_summary:
            try:
                path = Path(settings.step_summary)
                already = path.stat().st_size if path.exists() else 0
                append_summary(path, fitting(render_markdown(record), already))
            except OSError as e:
                logger.warning(
                    f"The summary of this run was not appended to ${_STEP_SUMMARY}, "
                    f"{settings.step_summary}: {e.strerror}."
                )


def rendered(record: RunRecord, formats: tuple[ReportFormat, ...]) -> Mapping[str, str]:
    """The files of a report, by name."""
    files = {}
    if ReportFormat.HTML in formats:
        files["index.html"] = render_html(record)
    if ReportFormat.JSON in formats:
        files["report.json"] = render_json(run_document(record))
    if ReportFormat.MARKDOWN in formats:
        files["summary.md"] = render_markdown(record)
    if ReportFormat.TRACE in formats:
        files["trace.json"] = render_trace(record)
    return files


def _shown(report: Path, build_root: Path) -> str:
    """The page, or else the folder, relative to the build root if it is in it."""
    page = report / "index.html"
    path = page if page.exists() else report
    return str(path.relative_to(build_root) if build_root in path.parents else path)


def _run_info(context: StreamingWorkunitContext, lane: str) -> RunInfo:
    tracker = context.run_tracker
    information = tracker.run_information()
    started = information["timestamp"]
    [timing] = tracker.get_cumulative_timings()
    return RunInfo(
        id=information["id"],
        started=started,
        seconds=timing["timing"] or time.time() - started,
        goals=tuple(tracker.goals),
        command=information["cmd_line"],
        pants_version=information["version"],
        has_failed=information.get("outcome") != "SUCCESS",
        lane=lane,
    )


def _transfer(context: StreamingWorkunitContext) -> Transfer:
    histograms: dict[str, Any] = context.get_observation_histograms().get("histograms", {})

    def total(name: str) -> int | None:
        try:
            # One that nothing was observed for is left out.
            return histogram_sum(histograms[name]) if name in histograms else 0
        except HistogramError:
            return None

    return Transfer(
        local_read=total("local_store_read_blob_size"),
        downloaded=total("remote_store_blob_bytes_downloaded"),
        uploaded=total("remote_store_blob_bytes_uploaded"),
    )


class RunReportRequest(WorkunitsCallbackFactoryRequest):
    pass


@rule
async def make_run_report(
    _: RunReportRequest,
    options: RunReport,
    test: TestSubsystem,
    distdir: DistDir,
    invocation: Invocation,
) -> WorkunitsCallbackFactory:
    # What is run for a debugger is no run of tests to report.
    if not options.enabled or test.debug or test.debug_adapter:
        return WorkunitsCallbackFactory(lambda: None)
    # Under the daemon `os.environ` is not the user's.
    env = await Get(EnvironmentVars, EnvironmentVarsRequest((_STEP_SUMMARY,)))
    build_root = Path(get_buildroot())
    settings = ReportSettings(
        build_root=build_root,
        folder=build_root / options.dir(distdir),
        formats=tuple(options.formats),
        keep=options.keep,
        announce=options.announce,
        step_summary=env.get(_STEP_SUMMARY, ""),
        invocation=invocation,
    )
    return WorkunitsCallbackFactory(lambda: RunReportCallback(settings))


def rules():
    return [*collect_rules(), UnionRule(WorkunitsCallbackFactoryRequest, RunReportRequest)]
