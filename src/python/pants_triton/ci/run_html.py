"""A run as one self-contained page for people: totals, failures, a timeline and tables.

The page is `run_html.mustache`. What is long (the timeline, the tables) is drawn by the browser from
data in it, so that a page costs the run next to nothing; the rest is there without scripts as well.
"""

from __future__ import annotations

import json
import pkgutil
from collections import Counter
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, Mapping

import chevron

from pants_triton.ci.rows import assign_rows
from pants_triton.ci.run_record import Outcome, RunRecord, Source
from pants_triton.ci.run_text import (
    SOURCE_NAMES,
    headline,
    shown_bytes,
    shown_count,
    shown_seconds,
)

_MOST_FAILED = 200
_MOST_REASONS = 50


def render_html(record: RunRecord) -> str:
    """The page: below 2 MB for 5,000 processes and as many tests."""
    assert __package__ is not None
    return chevron.render(_template(), _context(record))


@lru_cache(maxsize=1)
def _template() -> str:
    content = pkgutil.get_data(__package__ or "", "run_html.mustache")
    assert content is not None
    return content.decode()


def _context(record: RunRecord) -> dict[str, Any]:
    outcomes, transfer = record.tests_by_outcome(), record.transfer
    test_sources, process_sources = record.tests_by_source(), record.processes_by_source()
    failed = [t for t in record.tests if t.outcome in (Outcome.FAILED, Outcome.UNFINISHED)]
    reasons = Counter(t.reason for t in record.tests if t.outcome is Outcome.SKIPPED)
    errors = [{"name": name, "count": f"{count:,}"} for name, count in record.cache_errors.items()]
    return {
        "headline": headline(record),
        "outcome": record.outcome.value,
        "command": record.info.command,
        "lane": record.info.lane,
        "started": datetime.fromtimestamp(record.info.started, timezone.utc).strftime(
            "%Y-%m-%d %H:%M:%S UTC"
        ),
        "id": record.info.id,
        "version": record.info.pants_version,
        "wall": shown_seconds(record.info.seconds),
        "spent": shown_seconds(record.spent_s),
        "saved": shown_seconds(record.saved_s),
        "downloaded": shown_bytes(transfer.downloaded),
        "uploaded": shown_bytes(transfer.uploaded),
        "local_read": shown_bytes(transfer.local_read),
        "test_count": shown_count(len(record.tests), "test"),
        "outcomes": _shares({outcome.value: outcomes[outcome] for outcome in Outcome}),
        "test_sources": _shares(
            {SOURCE_NAMES[s]: test_sources[s] for s in Source},
            {SOURCE_NAMES[s]: s.value for s in Source},
        ),
        "results": f"{sum(test_sources.values()):,}",
        "cached": f"{sum(test_sources.values()) - test_sources[Source.EXECUTED]:,}",
        "process_count": f"{len(record.processes):,}",
        "process_sources": _shares(
            {SOURCE_NAMES[s]: process_sources[s] for s in Source},
            {SOURCE_NAMES[s]: s.value for s in Source},
        ),
        "error_count": f"{sum(record.cache_errors.values()):,}",
        "has_errors": bool(errors),
        "errors": errors,
        "has_failed_builds": bool(record.failed_builds),
        "failed_builds": [
            {"name": p.description, "for": p.address, "time": shown_seconds(p.duration_s)}
            for p in record.failed_builds[:_MOST_FAILED]
        ],
        "has_failed": bool(failed),
        "failed": [
            {
                "name": test.name,
                "outcome": test.outcome.value,
                "why": test.reason
                or (SOURCE_NAMES[test.source] if test.source is not None else ""),
                "time": shown_seconds(test.process_s or test.duration_s),
                "repeat": test.repeat.command if test.repeat else "",
                "device": test.repeat.device if test.repeat else "",
            }
            for test in failed[:_MOST_FAILED]
        ],
        "more_failed": f"{len(failed) - _MOST_FAILED:,}" if len(failed) > _MOST_FAILED else "",
        "has_skipped": bool(reasons),
        "skipped": [
            {"count": f"{count:,}", "reason": reason}
            for reason, count in reasons.most_common(_MOST_REASONS)
        ],
        # `<` could end the element that it is in.
        "data": json.dumps(_data(record), separators=(",", ":")).replace("<", "\\u003c"),
    }


def _shares(counts: Mapping[str, int], keys: Mapping[str, str] = {}) -> list[dict[str, Any]]:
    """The parts of a bar: those above zero, with their widths in percent."""
    total = sum(counts.values())
    return [
        {
            "name": name,
            "key": keys.get(name, name),
            "count": f"{count:,}",
            "percent": f"{100 * count / total:.2f}",
        }
        for name, count in counts.items()
        if count
    ]


def _data(record: RunRecord) -> dict[str, Any]:
    """What the page's script draws; rows in the order that it expects."""
    addresses: dict[str, int] = {}
    kinds: dict[str, int] = {}
    sources = list(Source)
    rows = []
    for source_group in ((Source.EXECUTED,), (Source.LOCAL_HIT, Source.REMOTE_HIT)):
        group = [p for p in record.processes if p.source in source_group]
        spans = [(p.start_s, p.start_s + p.duration_s) for p in group]
        for p, row in zip(group, assign_rows(spans)):
            rows.append(
                [
                    p.output or p.description,
                    addresses.setdefault(p.address, len(addresses)),
                    kinds.setdefault(p.kind, len(kinds)),
                    sources.index(p.source),
                    p.exit_code,
                    round(p.start_s, 3),
                    round(p.duration_s, 3),
                    round(p.waited_s, 2),
                    round(p.saved_s, 2),
                    row,
                ]
            )
    outcomes = list(Outcome)
    return {
        "seconds": round(record.info.seconds, 3),
        "sources": [[source.value, SOURCE_NAMES[source]] for source in sources],
        "outcomes": [outcome.value for outcome in outcomes],
        "addresses": list(addresses),
        "kinds": list(kinds),
        "processes": rows,
        "tests": [
            [
                t.name,
                outcomes.index(t.outcome),
                sources.index(t.source) if t.source else -1,
                t.reason,
                round(t.duration_s, 3),
                None if t.process_s is None else round(t.process_s, 3),
                None if t.saved_s is None else round(t.saved_s, 2),
            ]
            for t in record.tests
        ],
    }
