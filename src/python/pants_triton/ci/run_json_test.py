from __future__ import annotations

import json

from pants_triton.ci import example_workunits as example
from pants_triton.ci.run_json import render_json, run_document
from pants_triton.ci.run_record import Transfer
from pants_triton.testing.repeat import Repeat
from pants_triton.workunits import EDGE, work_metadata


def test_document() -> None:
    goal = example.goal()
    passed = example.test_rule(goal, "t:passed", at=1, took=3)
    skipped = example.test_rule(goal, "t:skipped", level="DEBUG", at=1, took=0.0625)
    edge = example.workunit("run_edge", passed, metadata=work_metadata(EDGE, "p:p", "a.o"))
    record = example.record(
        example.process(edge, "Compile a", at=1.5, took=1),
        edge,
        example.process(passed, "Run t:passed", "HitRemotely", at=2.5, took=0.125, saved_ms=1_250),
        passed,
        example.skip(skipped, "needs cuda"),
        skipped,
        goal,
        counters={"remote_cache_read_errors": 1, "remote_cache_requests": 2},
        transfer=Transfer(local_read=10, downloaded=2_000, uploaded=None),
    )
    process = {"exit_code": 0, "seconds_waited": 0.0}
    assert json.loads(render_json(run_document(record))) == {
        "version": 1,
        "run": {
            "id": "pants_run_2023_11_14_22_13_20_0_0123456789abcdef0123456789abcdef",
            "outcome": "succeeded",
            "started": "2023-11-14T22:13:20.000+00:00",
            "seconds": 10.0,
            "goals": ["test"],
            "command": "pants test ::",
            "lane": None,
            "pants_version": "2.17.1",
        },
        "totals": {
            "tests": {"passed": 1, "failed": 0, "skipped": 1, "unfinished": 0},
            "tests_by_source": {"executed": 0, "local_hit": 0, "remote_hit": 1, "memory": 0},
            "edges_by_source": {"executed": 1, "local_hit": 0, "remote_hit": 0},
            "processes_by_source": {"executed": 1, "local_hit": 0, "remote_hit": 1},
            "seconds_spent": 1.0,
            "seconds_saved": 1.25,
            "cache_errors": 1,
            "nothing_to_do": False,
        },
        "bytes": {"read_from_local_store": 10, "downloaded": 2_000, "uploaded": None},
        "tests": [
            {
                "addresses": ["t:passed"],
                "outcome": "passed",
                "source": "remote_hit",
                "reason": "",
                "repeat": None,
                "device": None,
                "start": 1.0,
                "seconds": 3.0,
                "seconds_process": 0.125,
                "seconds_saved": 1.25,
            },
            {
                "addresses": ["t:skipped"],
                "outcome": "skipped",
                "source": None,
                "reason": "needs cuda",
                "repeat": None,
                "device": None,
                "start": 1.0,
                "seconds": 0.062,
                "seconds_process": None,
                "seconds_saved": None,
            },
        ],
        "edges": [
            {
                "project": "p:p",
                "output": "a.o",
                "description": "Compile a",
                "source": "executed",
                "start": 1.5,
                "seconds": 1.0,
                "seconds_saved": 0.0,
                **process,
            }
        ],
        "processes": [
            {
                "kind": "test",
                "address": "t:passed",
                "description": "Run t:passed",
                "source": "remote_hit",
                "start": 2.5,
                "seconds": 0.125,
                "seconds_saved": 1.25,
                **process,
            }
        ],
        "cache_errors": {"remote_cache_read_errors": 1},
        "counters": {"remote_cache_read_errors": 1, "remote_cache_requests": 2},
        "unreadable_workunits": 0,
    }


def test_how_to_repeat_a_failure() -> None:
    goal = example.goal()
    rule = example.test_rule(goal, "t:a", level="ERROR")
    repeat = Repeat("./pants test t:a", "sm_90 NVIDIA H100 80GB HBM3, driver 550.54.15")
    record = example.record(rule, goal, repeats={("t:a",): repeat}, lane="cuda-h100")
    document = run_document(record)
    assert document["run"]["lane"] == "cuda-h100"
    [test] = document["tests"]
    assert (test["repeat"], test["device"]) == (repeat.command, repeat.device)


def test_the_environment_of_processes_stays_out() -> None:
    goal = example.goal()
    record = example.record(example.process(goal, "a"), goal)
    assert "secret" not in render_json(run_document(record))
