"""Print which tests could not run, and how to repeat those that failed, when everything else has been
printed."""

from __future__ import annotations

import logging

from pants.engine.internals.scheduler import Workunit
from pants.engine.rules import collect_rules, rule
from pants.engine.streaming_workunit_handler import (
    StreamingWorkunitContext,
    WorkunitsCallback,
    WorkunitsCallbackFactory,
    WorkunitsCallbackFactoryRequest,
)
from pants.engine.unions import UnionRule

from pants_triton.testing.repeat import Invocation, closing_lines
from pants_triton.testing.repeat_rules import FailedTests
from pants_triton.testing.run_summary import PlannedTest, summarize_not_run, with_skips
from pants_triton.workunits import WORK

logger = logging.getLogger(__name__)

_PLAN_RULE = "pants_triton.testing.rules.plan_triton_tests"
# Their workunits are skips that only running, or configuring, a project showed.
_LIT_SKIP_RULE = "pants_triton.testing.lit_rules.report_skipped_lit_test"
_CTEST_SKIP_RULE = "pants_triton.testing.gtest_rules.report_skipped_ctest"


class NotRunSummaryCallback(WorkunitsCallback):
    """Collects the plans of a run's tests and, at its end, says what was not run and what failed.

    The plans come as workunits because a rule that summed the results up would have to stand
    between Pants' `test` goal and them.
    """

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._failed = FailedTests(invocation)
        self._tests: list[PlannedTest] = []
        self._lit_skips: dict[str, str] = {}
        self._ctest_skips: dict[str, str] = {}

    @property
    def can_finish_async(self) -> bool:
        # The last lines of a run must be on the console before Pants exits.
        return False

    def __call__(
        self,
        *,
        started_workunits: tuple[Workunit, ...],
        completed_workunits: tuple[Workunit, ...],
        finished: bool,
        context: StreamingWorkunitContext,
    ) -> None:
        self._failed.add(completed_workunits, context)
        for workunit in completed_workunits:
            if workunit["name"] == _PLAN_RULE:
                # A cancelled plan has no metadata of ours.
                tests = workunit.get("metadata", {}).get("tests", ())
                self._tests.extend(PlannedTest(**test) for test in tests)
            elif workunit["name"] == _LIT_SKIP_RULE:
                work = workunit.get("metadata", {}).get(WORK)
                if work is not None:
                    self._lit_skips[work["address"]] = work["detail"]
            elif workunit["name"] == _CTEST_SKIP_RULE:
                self._ctest_skips.update(workunit.get("metadata", {}).get("skipped", {}))
        if finished:
            tests = with_skips(self._tests, self._lit_skips)
            summary = summarize_not_run(tests, self._ctest_skips.values())
            if summary:
                logger.warning(summary)
            repeats = self._failed.repeats().values()
            if repeats:
                logger.error(closing_lines(repeats, self._invocation))


class NotRunSummaryRequest(WorkunitsCallbackFactoryRequest):
    pass


@rule
async def make_not_run_summary(
    _: NotRunSummaryRequest, invocation: Invocation
) -> WorkunitsCallbackFactory:
    return WorkunitsCallbackFactory(lambda: NotRunSummaryCallback(invocation))


def rules():
    return [*collect_rules(), UnionRule(WorkunitsCallbackFactoryRequest, NotRunSummaryRequest)]
