"""Which tests of a run failed, and how to repeat each: from workunits, which have all kinds of tests,
those of Pants' own and of other plugins included."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import Any, Iterable, Mapping

from pants.base.build_environment import get_buildroot
from pants.core.goals.test import TestSubsystem
from pants.engine.env_vars import EnvironmentVars, EnvironmentVarsRequest
from pants.engine.fs import FileDigest
from pants.engine.internals.options_parsing import _Options
from pants.engine.rules import Get, collect_rules, rule
from pants.engine.streaming_workunit_handler import StreamingWorkunitContext

from pants_triton.testing.repeat import (
    EXTRA_VARIABLE,
    LANE_VARIABLE,
    Failure,
    Invocation,
    Repeat,
    Runner,
    read_failure,
    relevant_flags,
    relevant_variables,
    repeat,
)
from pants_triton.workunits import NOT_RUN, WORK

logger = logging.getLogger(__name__)

_PLAN_RULE = "pants_triton.testing.rules.plan_triton_tests"

_RUNNERS = {
    "pants.backend.python.goals.pytest_runner.run_python_tests": Runner.PYTEST,
    "pants_triton.testing.rules.run_triton_tests": Runner.PYTEST,
    "pants_triton.testing.gtest_rules.run_gtest": Runner.GTEST,
}


@rule
async def observe_invocation(
    parsed_options: _Options, environment_aware: TestSubsystem.EnvironmentAware
) -> Invocation:
    bootstrapper, options = parsed_options.options_bootstrapper, parsed_options.options
    args = bootstrapper.args
    inherited = [entry for entry in environment_aware.extra_env_vars if "=" not in entry]
    # Under the daemon `os.environ` is not the user's.
    env = await Get(
        EnvironmentVars, EnvironmentVarsRequest((LANE_VARIABLE, EXTRA_VARIABLE, *inherited))
    )
    build_root = get_buildroot()
    return Invocation(
        # Ours, which a workspace has a link to, or Pants' own on PATH.
        executable="./pants" if os.path.exists(f"{build_root}/pants") else "pants",
        variables=relevant_variables(dict(bootstrapper.env_tuples), build_root),
        flags=relevant_flags(options.scope_to_flags, options.goals),
        passthrough=args[args.index("--") + 1 :] if "--" in args else (),
        lane=env.get(LANE_VARIABLE, ""),
        inherited=tuple(sorted(name for name in {EXTRA_VARIABLE, *inherited} if name in env)),
    )


class FailedTests:
    """Collects the failed tests of one run from its workunits."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._failures: list[Failure] = []
        self._fingerprints: dict[str, str] = {}
        self._not_run: set[str] = set()

    def add(
        self, completed: Iterable[Mapping[str, Any]], context: StreamingWorkunitContext
    ) -> None:
        """Take what Pants reports at one time. Never raises on a workunit."""
        for workunit in completed:
            # Another release of Pants may say it otherwise.
            with contextlib.suppress(AttributeError, KeyError, TypeError):
                self._add(workunit, context)

    def _add(self, workunit: Mapping[str, Any], context: StreamingWorkunitContext) -> None:
        metadata = workunit.get("metadata") or {}
        if workunit["name"] == _PLAN_RULE:
            for test in metadata.get("tests", ()):
                self._fingerprints[test["address"]] = test["fingerprint"]
        work = metadata.get(WORK)
        if work and work["kind"] == NOT_RUN:
            # Which may fail a run, but there is nothing to repeat.
            self._not_run.add(work["address"])
        # Of `TestRequest.Batch` and `TestResult`, and of nothing else.
        is_test = "addresses" in metadata and "partition_description" in metadata
        if is_test and workunit.get("level") == "ERROR":
            runner = _RUNNERS.get(workunit["name"], Runner.OTHER)
            artifacts = workunit.get("artifacts") or {}
            stdout, stderr = (_text(artifacts.get(n), context) for n in ("stdout", "stderr"))
            self._failures.append(read_failure(metadata["addresses"], runner, stdout, stderr))

    def repeats(self) -> dict[tuple[str, ...], Repeat]:
        """How to repeat each, by the addresses of its result."""
        return {
            failure.addresses: repeat(
                failure, self._invocation, self._fingerprints.get(failure.addresses[0], "")
            )
            for failure in self._failures
            if failure.addresses[0] not in self._not_run
        }


def _text(digest: object, context: StreamingWorkunitContext) -> str:
    if not isinstance(digest, FileDigest):
        return ""
    try:
        [content] = context.single_file_digests_to_bytes([digest])
    except Exception as e:
        # Whatever the store's trouble is: the command is worth having without its seed.
        logger.debug(f"The output of a failed test can't be read: {e}")
        return ""
    return content.decode("utf-8", "replace")


def rules():
    return collect_rules()
