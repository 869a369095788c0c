"""Remove what a run leaves behind: settings with credentials and, without a daemon, artifacts of
gigabytes in the temporary folder. What a killed run or daemon leaves is removed by the next that uses
artifacts."""

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
from pants_triton.artifact.settings_file import take_back

logger = logging.getLogger(__name__)


class RemoveLeftoversCallback(WorkunitsCallback):
    """At the end of a run, removes what was for that run only.

    :param daemon: whether this process goes on, and uses what it has materialised again.
    """

    def __init__(self, cache: Path, daemon: bool) -> None:
        self._cache = cache
        self._daemon = daemon

    @property
    def can_finish_async(self) -> bool:
        # Without a daemon this process ends with the run; with one, the next run writes anew.
        return False

    def __call__(
        self,
        *,
        started_workunits: tuple[Workunit, ...],
        completed_workunits: tuple[Workunit, ...],
        finished: bool,
        context: StreamingWorkunitContext,
    ) -> None:
        if not finished:
            return
        take_back(self._cache, os.getpid(), with_python=not self._daemon)
        if not self._daemon:
            folder = remove_own(self._cache, os.getpid())
            if folder:
                logger.debug(f"Removed {folder}")


class RemoveLeftoversRequest(WorkunitsCallbackFactoryRequest):
    pass


@rule
async def make_leftovers_callback(
    _: RemoveLeftoversRequest, global_options: GlobalOptions
) -> WorkunitsCallbackFactory:
    cache, daemon = cache_folder(global_options), global_options.pantsd
    return WorkunitsCallbackFactory(lambda: RemoveLeftoversCallback(cache, daemon))


def rules():
    return [*collect_rules(), UnionRule(WorkunitsCallbackFactoryRequest, RemoveLeftoversRequest)]
