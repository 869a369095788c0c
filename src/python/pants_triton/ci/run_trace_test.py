from __future__ import annotations

import json
from collections import defaultdict

from pants_triton.ci import example_workunits as example
from pants_triton.ci.run_trace import render_trace


def test_trace() -> None:
    goal = example.goal()
    rule = example.test_rule(goal, "t:a", at=1, took=3)
    record = example.record(
        example.process(rule, "Run a", at=1.5, took=0.25, exit_code=3),
        example.process(goal, "Compile", at=1.5, took=2),
        example.process(goal, "Fetch", "HitLocally", at=1, took=0.5, saved_ms=8_000),
        rule,
        goal,
    )
    trace = json.loads(render_trace(record))
    assert set(trace) == {"displayTimeUnit", "otherData", "traceEvents"}
    # As the format's description asks of events of these two kinds.
    for event in trace["traceEvents"]:
        assert event["ph"] in ("X", "M")
        assert all(type(event[key]) is int for key in ("pid", "tid", "ts"))
        assert event["ph"] == "M" or (type(event["dur"]) is int and event["dur"] >= 0)
    groups = {
        e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"
    }
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert [(groups[e["pid"]], e["tid"], e["name"], e["ts"], e["dur"]) for e in spans] == [
        ("Executed processes", 0, "Run a", 1_500_000, 250_000),
        ("Executed processes", 1, "Compile", 1_500_000, 2_000_000),
        ("Results from caches", 0, "Fetch", 1_000_000, 500_000),
        ("Tests, from when they are prepared", 0, "t:a", 1_000_000, 3_000_000),
    ]
    assert spans[0]["args"]["exit_code"] == 3 and spans[2]["args"]["saved_s"] == 8


def test_spans_of_a_row_do_not_overlap() -> None:
    goal = example.goal()
    processes = [
        example.process(goal, str(i), at=1 + i * 0.0137, took=0.0299 + i % 3) for i in range(100)
    ]
    events = json.loads(render_trace(example.record(*processes, goal)))["traceEvents"]
    rows = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            rows[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in rows.values():
        spans.sort()
        assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:]))
