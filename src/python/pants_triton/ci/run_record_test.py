from __future__ import annotations

import pytest

from pants_triton.ci import example_workunits as example
from pants_triton.ci.run_record import Outcome, Recorder, RunOutcome, Source
from pants_triton.workunits import EDGE, work_metadata


@pytest.mark.parametrize(
    ("pants", "source"),
    [
        pytest.param("Ran", Source.EXECUTED, id="executed"),
        pytest.param("HitLocally", Source.LOCAL_HIT, id="local hit"),
        pytest.param("HitRemotely", Source.REMOTE_HIT, id="remote hit"),
    ],
)
def test_a_test_is_from_where_its_process_is(pants: str, source: Source) -> None:
    goal = example.goal()
    rule = example.test_rule(goal, "t/a_test.py:t", at=1, took=4)
    setup = example.workunit("pants.build_pex", rule)
    record = example.record(
        example.process(setup, "Building pytest.pex", "HitLocally", saved_ms=9_000),
        setup,
        example.process(rule, "Run Pytest for t/a_test.py:t", pants, at=3, took=1.5, saved_ms=250),
        rule,
        goal,
    )
    [test] = record.tests
    assert (test.addresses, test.outcome, test.source) == (
        ("t/a_test.py:t",),
        Outcome.PASSED,
        source,
    )
    assert (test.start_s, test.duration_s, test.process_s, test.saved_s) == (1, 4, 1.5, 0.25)
    assert [(p.kind, p.address) for p in record.processes] == [
        ("other", "t/a_test.py:t"),
        ("test", "t/a_test.py:t"),
    ]
    assert record.processes[1].description == "Run Pytest for t/a_test.py:t"
    assert record.outcome is RunOutcome.SUCCEEDED


def test_a_test_without_process_is_from_memory() -> None:
    goal = example.goal()
    record = example.record(example.test_rule(goal, "t:a"), example.test_rule(goal, "t:b"), goal)
    assert [test.source for test in record.tests] == [Source.MEMORY, Source.MEMORY]
    assert record.has_nothing_to_do


def test_failed_and_skipped() -> None:
    goal = example.goal()
    failed = example.test_rule(goal, "t:failed", level="ERROR")
    skipped = example.test_rule(goal, "t:skipped", level="DEBUG")
    empty = example.test_rule(goal, "t:empty", level="DEBUG")
    unable = example.test_rule(goal, "t:unable", level="ERROR")
    record = example.record(
        example.process(failed, "Run it", exit_code=1),
        failed,
        example.skip(skipped, "needs cuda"),
        skipped,
        empty,
        example.skip(unable, "needs rocm"),
        unable,
        goal,
        has_failed=True,
    )
    assert [(t.name, t.outcome, t.source, t.reason) for t in record.tests] == [
        ("t:empty", Outcome.SKIPPED, None, "no tests found"),
        ("t:failed", Outcome.FAILED, Source.EXECUTED, ""),
        ("t:skipped", Outcome.SKIPPED, None, "needs cuda"),
        ("t:unable", Outcome.FAILED, None, "needs rocm"),
    ]
    assert record.outcome is RunOutcome.FAILED
    assert not record.has_nothing_to_do


def test_a_batch_is_one_test() -> None:
    goal = example.goal()
    [test] = example.record(example.test_rule(goal, "t:a", "t:b", "t:c"), goal).tests
    assert test.name == "t:a and 2 more"


def test_an_edge_is_told_by_the_rule_above_its_process() -> None:
    goal = example.goal()
    rule = example.test_rule(goal, "t:unit")
    edge = example.workunit(
        "run_edge", rule, metadata=work_metadata(EDGE, "src:project", "lib/a.o")
    )
    # What generates a header for it is asked for by its rule.
    inner = example.workunit(
        "run_edge", edge, metadata=work_metadata(EDGE, "src:project", "include/a.inc")
    )
    record = example.record(
        example.process(inner, "[1/2] Building a.inc...", "HitLocally", at=2),
        inner,
        example.process(edge, "[2/2] Building a.o", at=3),
        edge,
        rule,
        goal,
    )
    assert [(p.kind, p.address, p.output) for p in record.processes] == [
        (EDGE, "src:project", "include/a.inc"),
        (EDGE, "src:project", "lib/a.o"),
    ]
    # The test's own process is from memory, whatever was built for it.
    assert [test.source for test in record.tests] == [Source.MEMORY]
    assert record.processes_by_source(EDGE) == {Source.EXECUTED: 1, Source.LOCAL_HIT: 1}


def test_waiting_for_a_slot_is_not_executing() -> None:
    goal = example.goal()
    process = example.process(goal, "Compile", at=1, took=5)
    race = example.workunit("remote_cache_read_speculation", process, at=1, took=5)
    execution = example.workunit("run_local_process", race, at=3.5, took=2)
    [found] = example.record(execution, race, process, goal).processes
    assert (found.start_s, found.duration_s, found.waited_s) == (3.5, 2, 2.5)


def test_an_interrupted_run_has_unfinished_tests() -> None:
    goal = example.goal(took=None)
    running = example.test_rule(goal, "t:slow", at=4, took=None)
    record = example.record(
        example.test_rule(goal, "t:quick"), started=(goal, running), has_failed=True
    )
    assert record.outcome is RunOutcome.INTERRUPTED
    assert [(t.name, t.outcome, t.duration_s) for t in record.tests] == [
        ("t:quick", Outcome.PASSED, 1),
        ("t:slow", Outcome.UNFINISHED, 6),
    ]


def test_totals() -> None:
    goal = example.goal()
    record = example.record(
        example.process(goal, "a", at=1, took=2),
        example.process(goal, "b", at=1, took=0.5),
        example.process(goal, "c", "HitLocally", took=0.25, saved_ms=3_000),
        example.process(goal, "d", "HitRemotely", took=0.25, saved_ms=4_500),
        goal,
        counters={"remote_cache_read_errors": 2, "local_cache_read_errors": 0, "backtrack": 1},
    )
    assert (record.spent_s, record.saved_s) == (2.5, 7.5)
    assert record.cache_errors == {"remote_cache_read_errors": 2}


def test_a_workunit_that_is_not_understood_is_left_out() -> None:
    goal = example.goal()
    strange = [{}, {"name": "process"}, None, {**example.goal(), "start_secs": "noon"}]
    recorder = Recorder()
    recorder.add(strange, (*strange, goal))  # type: ignore[arg-type]
    assert recorder.has_tested
    record = recorder.record(example.record().info, {}, example.NO_TRANSFER)
    assert record.unreadable == 8
    assert record.tests == ()


def test_without_the_goal_there_was_no_test() -> None:
    recorder = Recorder()
    recorder.add((), (example.workunit("pants.something"),))
    assert not recorder.has_tested


def test_long_descriptions_are_cut() -> None:
    goal = example.goal()
    [process] = example.record(example.process(goal, "x" * 10_000), goal).processes
    assert len(process.description) == 160 and process.description.endswith("x…")
