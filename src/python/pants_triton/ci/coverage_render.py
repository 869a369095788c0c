"""Show a coverage: as a table for people, as JSON for scripts."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from itertools import groupby
from typing import Iterable

from pants_triton.ci.coverage import (
    ALLOWED,
    COVERED,
    DIFFERENTLY,
    MISSING,
    NOT_UNDERSTOOD,
    REPLACED,
    Coverage,
    Difference,
    Row,
)

_STATUSES = (COVERED, DIFFERENTLY, REPLACED, ALLOWED, MISSING, NOT_UNDERSTOOD)
# So wide that a common command fits, and so narrow that a terminal does.
_WIDTH = 100
_MARKS = {
    COVERED: "ok",
    DIFFERENTLY: "differs",
    REPLACED: "replaced",
    ALLOWED: "allowed",
    MISSING: "MISSING",
    NOT_UNDERSTOOD: "UNKNOWN",
}
_MARK_WIDTH = max(map(len, _MARKS.values()))
# As many files and targets of one row are named; JSON names all.
_NAMED = 3


def render_json(coverage: Coverage) -> str:
    """All there is, for scripts. The form is part of the interface: fields are added, not changed."""
    return json.dumps(
        {
            "workflows": list(dict.fromkeys(row.path for row in coverage.rows)),
            "passes": not coverage.failing,
            "counts": {status: count for status, count in _counts(coverage).items()},
            "taken": list(coverage.taken),
            "rows": [_row_json(row) for row in coverage.rows],
            "also": list(coverage.also),
        },
        indent=2,
    )


def _row_json(row: Row) -> dict[str, object]:
    return {
        "workflow": row.path,
        "job": row.job,
        "step": row.step,
        "line": row.line,
        "what": row.what,
        "status": row.status,
        "hardware": row.hardware,
        "runners": list(row.runners),
        "targets": list(row.targets),
        "differences": [
            {"text": d.text, "files": list(d.files), "lost": d.lost} for d in row.differences
        ],
        "reason": row.reason,
    }


def render_table(coverage: Coverage) -> str:
    """A block for each step, a line for each thing it did, and the counts at the end."""
    lines: list[str] = []
    for (path, job), rows in groupby(coverage.rows, key=lambda row: (row.path, row.job)):
        lines += [f"{path}: job {job}", ""]
        # Jobs may have several steps of one name.
        for step, its_rows in groupby(rows, key=lambda row: row.step):
            lines.append(f"  {step}")
            for row in its_rows:
                lines += _row_lines(row)
        lines.append("")
    if coverage.also:
        lines.append("Tests that no step of the old workflow ran in that way:")
        lines += [f"  {address}" for address in coverage.also] + [""]
    lines += [*coverage.taken, *([""] if coverage.taken else [])]
    return "\n".join([*lines, summary(coverage)]) + "\n"


def summary(coverage: Coverage) -> str:
    """One sentence with the counts, and one with the way out where something fails."""
    counts = _counts(coverage)
    parts = [f"{count} {status}" for status, count in counts.items() if count]
    text = f"{', '.join(parts) or 'nothing'}.".capitalize()
    if not counts[MISSING]:
        text += " Nothing is missing." if not counts[NOT_UNDERSTOOD] else ""
    if coverage.failing:
        text += (
            "\nDeclare targets for what is missing, or say by `--allow=\"{'part of the command or the "
            "step': 'why it is not needed'}\"` that it may be."
        )
    return text


def _counts(coverage: Coverage) -> dict[str, int]:
    found = Counter(row.status for row in coverage.rows)
    return {status: found[status] for status in _STATUSES}


def _row_lines(row: Row) -> list[str]:
    place = f" [{row.hardware}]" if row.hardware else ""
    lines = _wrapped(f"{row.line}: {row.what}{place}", f"    {_MARKS[row.status]:<{_MARK_WIDTH}} ")
    details = [_difference_text(d) for d in row.differences]
    if row.reason:
        details.append(f"-> {row.reason}")
    if row.targets:
        details.append(f"-> {_some(row.targets, 'targets')}")
    indent = " " * (_MARK_WIDTH + 7)
    for detail in details:
        lines += _wrapped(detail, indent)
    return lines


def _difference_text(difference: Difference) -> str:
    mark = "lost: " if difference.lost else "differs: "
    if not difference.files:
        return f"{mark}{difference.text}"
    return f"{mark}{difference.text} ({_some(difference.files, 'files')})"


def _some(names: Iterable[str], of: str) -> str:
    listed = list(names)
    shown = ", ".join(listed[:_NAMED])
    more = len(listed) - _NAMED
    return f"{shown} and {more} more {of}" if more > 0 else shown


def _wrapped(text: str, start: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=start,
        subsequent_indent=" " * (len(start) + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
