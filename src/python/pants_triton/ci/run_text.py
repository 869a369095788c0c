"""How figures of a run are said, in all forms for people."""

from __future__ import annotations

from typing import Iterable

from pants_triton.ci.run_record import Outcome, RunOutcome, RunRecord, Source

SOURCE_NAMES = {
    Source.EXECUTED: "executed",
    Source.LOCAL_HIT: "local cache",
    Source.REMOTE_HIT: "remote cache",
    Source.MEMORY: "daemon's memory",
}


def shown_seconds(seconds: float | None) -> str:
    """Such as `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds is None:
        return "–"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def shown_bytes(count: int | None) -> str:
    """Such as `13 B`, `1.5 kB`, `2.0 GB`: decimal."""
    if count is None:
        return "unknown"
    if count < 1000:
        return f"{count} B"
    size = float(count)
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"


def shown_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _listed(parts: Iterable[tuple[int, str]]) -> str:
    return ", ".join(f"{count:,} {name}" for count, name in parts if count)


def headline(record: RunRecord) -> str:
    """What became of the tests, in one line."""
    counts = record.tests_by_outcome()
    said = _listed((counts[outcome], outcome.value) for outcome in Outcome)
    text = f"{shown_count(len(record.tests), 'test')}: {said}" if said else "No tests"
    if record.outcome is RunOutcome.INTERRUPTED:
        text = f"Interrupted. {text}"
    elif record.has_nothing_to_do:
        text = f"Nothing to do. {text}, all from this daemon's memory"
    elif record.is_all_from_memory:
        # Such as after an edit of a comment.
        text = f"{text}, all from this daemon's memory: what was built came out the same"
    elif record.outcome is RunOutcome.FAILED and not counts[Outcome.FAILED]:
        # Such as a target that can't be resolved.
        text = f"The run failed. {text}"
    return f"{text}."


def sources_line(record: RunRecord) -> str:
    """Where the results came from, in one line; "" if there are none."""
    tests, processes = record.tests_by_source(), record.processes_by_source()
    lines = []
    for what, counts in (("Tests", tests), ("Processes", processes)):
        said = _listed((counts[source], SOURCE_NAMES[source]) for source in Source)
        if said:
            lines.append(f"{what}: {said}.")
    return " ".join(lines)


def cache_line(record: RunRecord) -> str:
    """Seconds and bytes, in one line."""
    transfer = record.transfer
    remote = ""
    if transfer.downloaded or transfer.uploaded:
        remote = (
            f" Remote cache: {shown_bytes(transfer.downloaded)} downloaded, "
            f"{shown_bytes(transfer.uploaded)} uploaded."
        )
    return (
        f"{shown_seconds(record.info.seconds)} in all; {shown_seconds(record.spent_s)} spent in "
        f"processes, {shown_seconds(record.saved_s)} saved by caches.{remote}"
    )


def errors_line(record: RunRecord) -> str:
    """What the caches could not do, in one line; "" if nothing."""
    if not record.cache_errors:
        return ""
    said = ", ".join(f"{count:,} × {name}" for name, count in record.cache_errors.items())
    return f"Cache errors: {said}."
