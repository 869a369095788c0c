"""The last lines of a run in which tests could not run: how many, on what hardware, and why."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import Iterable, Mapping


@dataclass(frozen=True)
class PlannedTest:
    """A selected test.

    :param fingerprint: of the devices it runs on; "" for none.
    :param not_run_reason: why it could not run here, one line; None for one that ran or was served
        from a cache.
    """

    address: str
    hardware: str
    not_run_reason: str | None
    fingerprint: str = ""


def with_skips(tests: Iterable[PlannedTest], reasons: Mapping[str, str]) -> list[PlannedTest]:
    """`tests`, of which some turned out not to run only when they were run.

    :param reasons: by address, one line each; those of tests that weren't planned count for nothing.
    """
    return [
        replace(test, not_run_reason=test.not_run_reason or reasons.get(test.address))
        for test in tests
    ]


def summarize_not_run(tests: Iterable[PlannedTest], not_programs: Iterable[str] = ()) -> str | None:
    """Say what was not run, and aloud where nothing of a hardware was.

    :param not_programs: why a test of CTest is none of ours, one line for each.
    :return: lines without a newline at the end; None if every test could run.
    """
    by_hardware: dict[str, list[PlannedTest]] = defaultdict(list)
    for test in tests:
        by_hardware[test.hardware].append(test)
    lines = []
    for hardware, planned in sorted(by_hardware.items()):
        reasons = Counter(t.not_run_reason for t in planned if t.not_run_reason is not None)
        not_run = sum(reasons.values())
        if not not_run:
            continue
        files = f"{len(planned)} test file{'s' if len(planned) > 1 else ''}"
        lines.append(
            f"{hardware}: NONE of {files} run."
            if not_run == len(planned)
            else f"{hardware}: {not_run} of {files} not run."
        )
        lines.extend(f"  {count} x {reason}" for reason, count in sorted(reasons.items()))
    others = Counter(not_programs)
    if others:
        count = sum(others.values())
        lines.append(f"CTest: {count} test{'s' if count > 1 else ''} not run.")
        lines.extend(f"  {count} x {reason}" for reason, count in sorted(others.items()))
    return "\n".join(lines) or None
