"""Remove what a Pants without its daemon leaves behind: artifacts of gigabytes, in the temporary
folder. What a killed one or a killed daemon leaves is removed by the next that uses artifacts."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from pants.engine.internals.scheduler import Workunit
from pants.engine.rules import collect_rules, rule
from pants.engine.streaming_workunit_handler import (
    StreamingWorkunitContext,
    WorkunitsCallback,
    WorkunitsCallbackFactory,
    WorkunitsCallbackFactoryRequest,
)
from pants.engine.unions import UnionRule
from pants.option.global_options import GlobalOptions

from pants_triton.artifact.fetch_rules import cache_folder
from pants_triton.artifact.leftovers import remove_own

logger = logging.getLogger(__name__)


class RemoveLeftoversCallback(WorkunitsCallback):
    """At the end of a run, removes the immutable inputs that this process has materialised."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache

    @property
    def can_finish_async(self) -> bool:
        # This process ends with the run.
        return False

    def __call__(
        self,
        *,
        started_workunits: tuple[Workunit, ...],
        completed_workunits: tuple[Workunit, ...],
        finished: bool,
        context: StreamingWorkunitContext,
    ) -> None:
        if finished:
            folder = remove_own(self._cache, os.getpid())
            if folder:
                logger.debug(f"Removed {folder}")


class RemoveLeftoversRequest(WorkunitsCallbackFactoryRequest):
    pass


@rule
async def make_leftovers_callback(
    _: RemoveLeftoversRequest, global_options: GlobalOptions
) -> WorkunitsCallbackFactory:
    # A daemon uses them again in its next run.
    if global_options.pantsd:
        return WorkunitsCallbackFactory(lambda: None)
    cache = cache_folder(global_options)
    return WorkunitsCallbackFactory(lambda: RemoveLeftoversCallback(cache))


def rules():
    return [*collect_rules(), UnionRule(WorkunitsCallbackFactoryRequest, RemoveLeftoversRequest)]
