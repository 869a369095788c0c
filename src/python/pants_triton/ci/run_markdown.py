"""A run as Markdown, for the summary page of a CI job: what failed first, then what took long."""

from __future__ import annotations

import re
from collections import Counter
from typing import Iterable

from pants_triton.ci.run_record import Outcome, RunRecord, Source
from pants_triton.ci.run_text import (
    SOURCE_NAMES,
    cache_line,
    errors_line,
    headline,
    shown_seconds,
    sources_line,
)

# Of GitHub, for all that one step writes.
STEP_SUMMARY_LIMIT = 1024 * 1024

# Whoever wants more has the page. 200 characters a cell keep the whole below 100 kB.
_MOST_FAILED = 100
_MOST_REASONS = 20
_MOST_SLOW = 10
_CELL_LIMIT = 200
# A command is of no use in part.
_COMMAND_LIMIT = 500

_SIGNIFICANT = re.compile(r"([\\`*_\[\]<>&|~@#])")


def prose(text: str) -> str:
    """The text as it is, on one line and without markup, for a cell of a table."""
    return _SIGNIFICANT.sub(r"\\\1", _one_line(text))


def code(text: str) -> str:
    """A name as code, for a cell of a table; "" for none."""
    # A bar ends a cell even in code. A backtick would end the code, and no name needs one.
    line = _one_line(text).replace("`", "'").replace("|", "\\|")
    return f"`{line}`" if line else ""


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _CELL_LIMIT else f"{line[: _CELL_LIMIT - 1]}…"


def render_markdown(record: RunRecord) -> str:
    """The summary, at most 100 kB."""
    lines = [f"### {headline(record)}", ""]
    for line in (sources_line(record), cache_line(record), errors_line(record)):
        if line:
            lines += [line, ""]
    for outcome in (Outcome.FAILED, Outcome.UNFINISHED):
        tests = [test for test in record.tests if test.outcome is outcome]
        if tests:
            rows = (
                (
                    code(test.name),
                    shown_seconds(test.process_s),
                    SOURCE_NAMES[test.source] if test.source else prose(test.reason) or "–",
                )
                for test in tests[:_MOST_FAILED]
            )
            lines += _table(outcome.value.capitalize(), ("Test", "Process", "From"), rows)
            lines += _more(len(tests) - _MOST_FAILED)
    lines += _repeats(record)
    builds = record.failed_builds
    if builds:
        built = ((code(p.description), code(p.address)) for p in builds[:_MOST_FAILED])
        lines += _table("Failed to build", ("Process", "For"), built)
        lines += _more(len(builds) - _MOST_FAILED)
    reasons = Counter(t.reason for t in record.tests if t.outcome is Outcome.SKIPPED)
    if reasons:
        counts = ((str(n), prose(reason)) for reason, n in reasons.most_common(_MOST_REASONS))
        lines += _table("Skipped", ("Tests", "Why"), counts)
        lines += _more(len(reasons) - _MOST_REASONS)
    executed = [p for p in record.processes if p.source is Source.EXECUTED]
    slowest = sorted(executed, key=lambda p: -p.duration_s)[:_MOST_SLOW]
    if slowest:
        rows = (
            (code(p.description), code(p.address), shown_seconds(p.duration_s)) for p in slowest
        )
        title = f"Slowest of {len(executed):,} executed"
        lines += _table(title, ("Process", "For", "Took"), rows)
    return "\n".join(lines).rstrip() + "\n"


def fitting(text: str, already: int, limit: int = STEP_SUMMARY_LIMIT) -> str:
    """As much of a summary as may be appended to a file of `already` bytes: all, its head, or "".

    GitHub shows nothing at all of a file that is too large.
    """
    head = text.partition("\n\n")[0] + "\n"
    for candidate in (text, head):
        if already + len(candidate.encode()) <= limit:
            return candidate
    return ""


def _table(title: str, heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [
        f"**{title}**",
        "",
        f"| {' | '.join(heads)} |",
        f"| {' | '.join('---' for _ in heads)} |",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]


def _repeats(record: RunRecord) -> list[str]:
    """A block of code with how to repeat each failed test, below the device that it ran on."""
    by_device: dict[str, dict[str, None]] = {}
    for test in [test for test in record.tests if test.repeat][:_MOST_FAILED]:
        assert test.repeat is not None
        command, device = test.repeat.command, _one_line(test.repeat.device)
        # Nor is one that ends the block, or begins another line.
        if len(command) <= _COMMAND_LIMIT and "\n" not in command and "```" not in command:
            by_device.setdefault(device, {})[command] = None
    if not by_device:
        return []
    lines = []
    for device, commands in by_device.items():
        lines += [f"# On {device}"] if device else []
        lines += commands
    title = f"Repeat it{f' (lane {prose(record.info.lane)})' if record.info.lane else ''}"
    return [f"**{title}**", "", "```sh", *lines, "```", ""]


def _more(count: int) -> list[str]:
    return [f"… and {count:,} more.", ""] if count > 0 else []
