"""Whether workflow files are what the lanes declare, and the lanes what the tests need."""

from __future__ import annotations

import difflib
from typing import Iterable, Mapping, Sequence

from pants_triton.ci.matrix import LaneTests
from pants_triton.ci.workflow import HEADER

_COMMAND = "run `./pants generate-workflows ::`"


def is_generated(text: str) -> bool:
    """Whether a workflow file is one that was generated."""
    return text.startswith(f"# {HEADER}")


def check_files(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """What is wrong with workflow files, path -> text; a line each, with the first difference."""
    problems = []
    for path, text in sorted(wanted.items()):
        if path not in found:
            problems.append(f"{path} is missing: {_COMMAND}.")
        elif found[path] != text:
            problems.append(
                f"{path} is not what the lanes declare ({_difference(found[path], text)}): "
                f"change the `ci_lane` targets instead of the file, and {_COMMAND}."
            )
    for path in sorted(set(found) - set(wanted)):
        problems.append(f"{path} was generated, but no lane makes it any more: {_COMMAND}.")
    return problems


def _difference(found: str, wanted: str) -> str:
    pairs = difflib.ndiff(found.splitlines(), wanted.splitlines())
    line = next((pair for pair in pairs if pair[:2] in ("- ", "+ ")), None)
    if line is None:
        return "it has other line ends"
    return f"it {'has' if line[0] == '-' else 'lacks'} `{line[2:].strip()}`"


def check_coverage(lanes: Sequence[LaneTests], untested: Iterable[str]) -> list[str]:
    """What is wrong with lanes: those that select no test, and tests that no lane selects."""
    problems = [
        f"{each.lane.address}: `tag_expression` selects no test, so that the lane would test nothing: "
        f"`./pants list {each.lane.command.split(' ', 2)[2]}` shows what has its tags."
        for each in lanes
        if each.lane.runs_tests and not each.tests
    ]
    dropped = sorted(untested)
    # Without lanes, nobody expects one to run them.
    if lanes and dropped:
        others = f" and {len(dropped) - 1} more" if dropped[1:] else ""
        problems.append(
            f"{dropped[0]}{others}: no lane runs it: change the `tag_expression` of one, or declare a "
            "lane for it."
        )
    return problems
