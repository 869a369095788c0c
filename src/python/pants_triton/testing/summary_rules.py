"""Print which tests could not run when everything else has been printed."""

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

from pants_triton.testing.run_summary import PlannedTest, summarize_not_run

logger = logging.getLogger(__name__)

_PLAN_RULE = "pants_triton.testing.rules.plan_triton_tests"


class NotRunSummaryCallback(WorkunitsCallback):
    """Collects the plans of a run's tests and, at its end, says what was not run.

    The plans come as workunits because a rule that summed the results up would have to stand
    between Pants' `test` goal and them.
    """

    def __init__(self) -> None:
        self._tests: list[PlannedTest] = []

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
        for workunit in completed_workunits:
            if workunit["name"] == _PLAN_RULE:
                # A cancelled plan has no metadata of ours.
                tests = workunit.get("metadata", {}).get("tests", ())
                self._tests.extend(PlannedTest(**test) for test in tests)
        if finished:
            summary = summarize_not_run(self._tests)
            if summary:
                logger.warning(summary)


class NotRunSummaryRequest(WorkunitsCallbackFactoryRequest):
    pass


@rule
async def make_not_run_summary(_: NotRunSummaryRequest) -> WorkunitsCallbackFactory:
    return WorkunitsCallbackFactory(NotRunSummaryCallback)


def rules():
    return [*collect_rules(), UnionRule(WorkunitsCallbackFactoryRequest, NotRunSummaryRequest)]
