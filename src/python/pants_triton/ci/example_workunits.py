"""Workunits as Pants 2.17.1 reports them, for tests."""

from __future__ import annotations

import itertools
from types import MappingProxyType
from typing import Any, Mapping

from pants_triton.ci.run_record import Recorder, RunInfo, RunRecord, Transfer
from pants_triton.testing.repeat import Repeat
from pants_triton.workunits import NOT_RUN, work_metadata

START = 1_700_000_000.0
NO_TRANSFER = Transfer(0, 0, 0)

_NO_COUNTERS: Mapping[str, int] = MappingProxyType({})

_TEST_GOAL = "pants.core.goals.test.run_tests"
_ids = itertools.count(1)


def workunit(
    name: str,
    parent: dict[str, Any] | None = None,
    *,
    at: float = 1.0,
    took: float | None = 1.0,
    level: str = "DEBUG",
    description: str | None = None,
    metadata: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """:param at: seconds since the start of the run. :param took: None for one that is running."""
    result: dict[str, Any] = {
        "name": name,
        "span_id": f"{next(_ids):016x}",
        "level": level,
        "parent_ids": [parent["span_id"]] if parent else [],
        "start_secs": int(START + at),
        "start_nanos": round((START + at) % 1 * 1e9),
        "metadata": metadata or {},
        "artifacts": {},
    }
    if parent:
        result["parent_id"] = parent["span_id"]
    if description is not None:
        result["description"] = description
    if took is not None:
        result["duration_secs"] = int(took)
        result["duration_nanos"] = round(took % 1 * 1e9)
    return result


def goal(took: float | None = 9.0) -> dict[str, Any]:
    return workunit(_TEST_GOAL, at=0.5, took=took, description="`test` goal")


def test_rule(
    goal: dict[str, Any], *addresses: str, level: str = "INFO", **times: Any
) -> dict[str, Any]:
    """A rule that runs a test."""
    return workunit(
        "pants_triton.testing.rules.run_triton_tests",
        goal,
        level=level,
        description=f"Run Triton tests with Pytest - {addresses[0]}",
        metadata={"addresses": list(addresses), "partition_description": None},
        **times,
    )


def skip(test: dict[str, Any], reason: str) -> dict[str, Any]:
    [address] = test["metadata"]["addresses"]
    return workunit(
        "pants_triton.testing.rules.report_test_not_run",
        test,
        level="WARN",
        metadata=work_metadata(NOT_RUN, address, reason),
    )


def process(
    parent: dict[str, Any],
    description: str,
    source: str = "Ran",
    *,
    exit_code: int = 0,
    saved_ms: int | None = None,
    **times: Any,
) -> dict[str, Any]:
    """:param source: `Ran`, `HitLocally` or `HitRemotely`."""
    metadata: dict[str, Any] = {
        "definition": '{"argv":["/bin/true"],"env":{"TOKEN":"secret"}}',
        "source": source,
        "exit_code": exit_code,
        "environment_type": "local",
        "total_elapsed_ms": 500,
    }
    if saved_ms is not None:
        metadata["saved_by_cache_ms"] = saved_ms
    return workunit(
        "process",
        parent,
        description=f"Scheduling: {description}",
        metadata=metadata,
        **times,
    )


def record(
    *workunits: dict[str, Any],
    started: tuple[dict[str, Any], ...] = (),
    has_failed: bool = False,
    counters: Mapping[str, int] = _NO_COUNTERS,
    transfer: Transfer = NO_TRANSFER,
    repeats: Mapping[tuple[str, ...], Repeat] = MappingProxyType({}),
    lane: str = "",
) -> RunRecord:
    """The record of a run of ten seconds that did this."""
    recorder = Recorder()
    recorder.add((*started, *workunits), workunits)
    info = RunInfo(
        id="pants_run_2023_11_14_22_13_20_0_0123456789abcdef0123456789abcdef",
        started=START,
        seconds=10.0,
        goals=("test",),
        command="pants test ::",
        pants_version="2.17.1",
        has_failed=has_failed,
        lane=lane,
    )
    return recorder.record(info, counters, transfer, repeats)
