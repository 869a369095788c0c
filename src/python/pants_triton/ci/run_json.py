"""A run as JSON, for programs. `docs/run-report.md` describes it; a change that breaks a reader
raises VERSION."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any, Iterable, Mapping

from pants_triton.ci.run_record import Outcome, ProcessRecord, RunRecord, Source, TestRecord
from pants_triton.workunits import EDGE

VERSION = 1

# Made once: `json.dumps` makes one for each record.
_dumps = json.JSONEncoder(check_circular=False).encode

_OF_PROCESSES = (Source.EXECUTED, Source.LOCAL_HIT, Source.REMOTE_HIT)


def run_document(record: RunRecord) -> dict[str, Any]:
    """The document, of JSON's types alone. Times are in seconds, with milliseconds."""
    info = record.info
    edges = [process for process in record.processes if process.kind == EDGE]
    return {
        "version": VERSION,
        "run": {
            "id": info.id,
            "outcome": record.outcome.value,
            "started": datetime.fromtimestamp(info.started, timezone.utc).isoformat(
                timespec="milliseconds"
            ),
            "seconds": _seconds(info.seconds),
            "goals": list(info.goals),
            "command": info.command,
            "lane": info.lane or None,
            "pants_version": info.pants_version,
        },
        "totals": {
            "tests": _counts(Outcome, record.tests_by_outcome()),
            "tests_by_source": _counts(Source, record.tests_by_source()),
            "edges_by_source": _counts(_OF_PROCESSES, record.processes_by_source(EDGE)),
            "processes_by_source": _counts(_OF_PROCESSES, record.processes_by_source()),
            "seconds_spent": _seconds(record.spent_s),
            "seconds_saved": _seconds(record.saved_s),
            "cache_errors": sum(record.cache_errors.values()),
            "nothing_to_do": record.has_nothing_to_do,
        },
        "bytes": {
            "read_from_local_store": record.transfer.local_read,
            "downloaded": record.transfer.downloaded,
            "uploaded": record.transfer.uploaded,
        },
        "tests": [_test(test) for test in record.tests],
        "edges": [
            {"project": edge.address, "output": edge.output, **_process(edge)} for edge in edges
        ],
        "processes": [
            {"kind": process.kind, "address": process.address, **_process(process)}
            for process in record.processes
            if process.kind != EDGE
        ],
        "cache_errors": dict(record.cache_errors),
        "counters": dict(record.counters),
        "unreadable_workunits": record.unreadable,
    }


def render_json(document: Mapping[str, Any]) -> str:
    """The document as a file's content, a record a line."""
    # Not `indent`, which takes ten times as long because it is done in Python.
    members = []
    for key, value in document.items():
        if isinstance(value, list):
            records = ",\n    ".join(map(_dumps, value))
            text = f"[\n    {records}\n  ]" if value else "[]"
        else:
            text = _dumps(value)
        members.append(f"  {_dumps(key)}: {text}")
    return "{\n" + ",\n".join(members) + "\n}\n"


def _counts(kinds: Iterable[Any], counter: Mapping[Any, int]) -> dict[str, int]:
    return {kind.value: counter.get(kind, 0) for kind in kinds}


def _seconds(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _test(test: TestRecord) -> dict[str, Any]:
    return {
        "addresses": list(test.addresses),
        "outcome": test.outcome.value,
        "source": test.source.value if test.source else None,
        "reason": test.reason,
        "repeat": test.repeat.command if test.repeat else None,
        "device": test.repeat.device or None if test.repeat else None,
        "start": _seconds(test.start_s),
        "seconds": _seconds(test.duration_s),
        "seconds_process": _seconds(test.process_s),
        "seconds_saved": _seconds(test.saved_s),
    }


def _process(process: ProcessRecord) -> dict[str, Any]:
    return {
        "description": process.description,
        "source": process.source.value,
        "exit_code": process.exit_code,
        "start": _seconds(process.start_s),
        "seconds": _seconds(process.duration_s),
        "seconds_waited": _seconds(process.waited_s),
        "seconds_saved": _seconds(process.saved_s),
    }
