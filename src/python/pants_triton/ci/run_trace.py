"""A run in the Trace Event Format, which Perfetto (ui.perfetto.dev) and Chrome's tracing page open.

The format is described in "Trace Event Format" by the Chromium project. Of it, complete events
(`X`) and the names of processes and threads (`M`) are written; times are in microseconds.
"""

from __future__ import annotations

import json
from typing import Any, Sequence

from pants_triton.ci.rows import assign_rows
from pants_triton.ci.run_record import RunRecord, Source
from pants_triton.ci.run_text import SOURCE_NAMES

# What the format calls a process is a group of rows, and a thread a row.
_EXECUTED, _CACHED, _TESTS = 1, 2, 3


def render_trace(record: RunRecord) -> str:
    """The trace, an event a line."""
    executed = [p for p in record.processes if p.source is Source.EXECUTED]
    cached = [p for p in record.processes if p.source is not Source.EXECUTED]
    events: list[dict[str, Any]] = []
    for group, name, processes in (
        (_EXECUTED, "Executed processes", executed),
        (_CACHED, "Results from caches", cached),
    ):
        rows = assign_rows([(p.start_s, p.start_s + p.duration_s) for p in processes])
        events += _names(group, name, rows)
        for process, row in zip(processes, rows):
            args = {
                "for": process.address,
                "output": process.output,
                "from": SOURCE_NAMES[process.source],
                "exit_code": process.exit_code,
                "waited_s": round(process.waited_s, 3),
                "saved_s": round(process.saved_s, 3),
            }
            events.append(
                _event(
                    *(process.description or process.kind, process.kind, group, row),
                    *(process.start_s, process.duration_s, args),
                )
            )
    tests = sorted(record.tests, key=lambda test: test.start_s)
    rows = assign_rows([(t.start_s, t.start_s + t.duration_s) for t in tests])
    events += _names(_TESTS, "Tests, from when they are prepared", rows)
    for test, row in zip(tests, rows):
        args = {
            "outcome": test.outcome.value,
            "from": SOURCE_NAMES[test.source] if test.source else "",
            "reason": test.reason,
        }
        events.append(
            _event(
                *(test.name, test.outcome.value, _TESTS, row, test.start_s, test.duration_s, args)
            )
        )
    lines = ",\n".join(json.dumps(event) for event in events)
    other = json.dumps({"run": record.info.id, "outcome": record.outcome.value})
    return f'{{"displayTimeUnit": "ms", "otherData": {other}, "traceEvents": [\n{lines}\n]}}\n'


def _names(group: int, name: str, rows: Sequence[int]) -> list[dict[str, Any]]:
    if not rows:
        return []
    named = [("process_name", 0, name)]
    named += [("thread_name", row, f"row {row + 1}") for row in range(max(rows) + 1)]
    return [
        {"ph": "M", "name": kind, "pid": group, "tid": row, "ts": 0, "args": {"name": text}}
        for kind, row, text in named
    ]


def _event(
    name: str,
    category: str,
    group: int,
    row: int,
    start_s: float,
    duration_s: float,
    args: dict[str, Any],
) -> dict[str, Any]:
    # Ends are rounded, not durations: what follows at once must not begin before.
    start, end = round(start_s * 1e6), round((start_s + duration_s) * 1e6)
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": group,
        "tid": row,
        "ts": start,
        "dur": end - start,
        "args": args,
    }
