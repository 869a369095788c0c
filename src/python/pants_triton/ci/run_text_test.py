from __future__ import annotations

import pytest

from pants_triton.ci import example_workunits as example
from pants_triton.ci.run_record import Transfer
from pants_triton.ci.run_text import (
    cache_line,
    errors_line,
    headline,
    shown_bytes,
    shown_seconds,
    sources_line,
)
from pants_triton.workunits import EDGE, work_metadata


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3_599.0, "59 min 59 s"),
        (7_500.0, "2 h 5 min"),
    ],
)
def test_seconds(seconds: float | None, text: str) -> None:
    assert shown_seconds(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "unknown"),
        (0, "0 B"),
        (999, "999 B"),
        (1_500, "1.5 kB"),
        (999_960, "1.0 MB"),
        (2_000_000_000, "2.0 GB"),
        (3_000_000_000_000, "3.0 TB"),
    ],
)
def test_bytes(count: int | None, text: str) -> None:
    assert shown_bytes(count) == text


def test_lines() -> None:
    goal = example.goal()
    rule = example.test_rule(goal, "t:a")
    record = example.record(
        example.process(rule, "Run a", "HitLocally", saved_ms=90_000),
        rule,
        goal,
        counters={"remote_cache_read_errors": 3},
        transfer=Transfer(1, 2_000_000, 0),
    )
    assert headline(record) == "1 test: 1 passed."
    assert sources_line(record) == "Tests: 1 local cache. Processes: 1 local cache."
    assert cache_line(record) == (
        "10 s in all; 0.0 s spent in processes, 1 min 30 s saved by caches. Remote cache: 2.0 MB "
        "downloaded, 0 B uploaded."
    )
    assert errors_line(record) == "Cache errors: 3 × remote_cache_read_errors."


def test_nothing_to_do() -> None:
    goal = example.goal()
    tests = [example.test_rule(goal, f"t:{i}") for i in range(1_200)]
    record = example.record(*tests, goal)
    assert headline(record) == (
        "Nothing to do. 1,200 tests: 1,200 passed, all from this daemon's memory."
    )
    assert errors_line(record) == ""


def test_what_was_built_came_out_the_same() -> None:
    goal = example.goal()
    test = example.test_rule(goal, "t:a")
    edge = example.workunit("run_edge", goal, metadata=work_metadata(EDGE, "src:project", "a.o"))
    looks = example.process(goal, "Find the devices")
    record = example.record(looks, test, goal)
    assert headline(record) == "Nothing to do. 1 test: 1 passed, all from this daemon's memory."
    record = example.record(looks, example.process(edge, "Building a.o"), edge, test, goal)
    assert not record.has_nothing_to_do
    assert headline(record) == (
        "1 test: 1 passed, all from this daemon's memory: what was built came out the same."
    )


def test_no_tests() -> None:
    assert headline(example.record(example.goal())) == "No tests."


def test_failed_before_the_tests() -> None:
    record = example.record(example.goal(), has_failed=True)
    assert headline(record) == "The run failed. No tests."


def test_interrupted() -> None:
    goal = example.goal(took=None)
    running = example.test_rule(goal, "t:slow", took=None)
    assert headline(example.record(started=(goal, running), has_failed=True)) == (
        "Interrupted. 1 test: 1 unfinished."
    )
