"""Which lanes a change affects."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Collection, Iterable, Sequence

from pants_triton.ci.lane import Lane
from pants_triton.ci.workflow import runner_json


@dataclass(frozen=True)
class ChangedFile:
    """A file that differs from the commit that is compared with.

    :param path: relative to the build root. A renamed file is two: one deleted, one added.
    """

    path: str
    deleted: bool


@dataclass(frozen=True)
class OwnedFile:
    """A changed file and the targets that own it.

    :param owners: addresses.
    :param affects_all: by what was configured, see `[ci].affects_all`.
    :param dependents_are_known: whether all that depends on the file still says so. Of a deleted file
        that was a target by itself, what imported it doesn't any more.
    """

    file: ChangedFile
    owners: tuple[str, ...]
    affects_all: bool
    dependents_are_known: bool


@dataclass(frozen=True)
class LaneTests:
    """A lane and the addresses of all test targets that it selects."""

    lane: Lane
    tests: frozenset[str]


@dataclass(frozen=True)
class Affected:
    """The lanes that a change affects.

    :param lanes: sorted by name.
    :param said: what to tell people, line by line.
    """

    lanes: tuple[Lane, ...]
    said: tuple[str, ...]


def why_all(owned: OwnedFile) -> str | None:
    """Why this file's change affects all lanes; None if it affects what depends on its owners."""
    path = owned.file.path
    if owned.affects_all:
        return f"{path} decides how everything is built"
    if owned.file.deleted and not (owned.owners and owned.dependents_are_known):
        return f"{path} was deleted or renamed, and what depended on it can't be known any more"
    if not owned.owners:
        return f"{path} is owned by no target, which would say what depends on it"
    return None


def affected_lanes(
    lanes: Iterable[LaneTests], changes: Sequence[OwnedFile], affected: Collection[str]
) -> Affected:
    """The lanes that have affected tests; all of them if a file forces it.

    A lane without tests (formatting, say) is affected by any change.

    :param affected: the addresses of all that depends on the changed files' owners, and of these.
    """
    lanes = sorted(lanes, key=lambda each: each.lane.name)
    reasons = [reason for reason in map(why_all, changes) if reason]
    if reasons:
        said = [f"All lanes are affected: {reason}." for reason in reasons]
        return Affected(tuple(each.lane for each in lanes), tuple(said))
    if not changes:
        return Affected((), ("No lane is affected: no file was changed.",))
    chosen, said = [], []
    for each in lanes:
        count = len(each.tests & frozenset(affected))
        if each.lane.runs_tests:
            said.append(
                f"{each.lane.name}: {count} of {len(each.tests)} test targets are affected."
            )
        else:
            said.append(f"{each.lane.name}: runs on any change.")
        if count or not each.lane.runs_tests:
            chosen.append(each.lane)
    return Affected(tuple(chosen), tuple(said))


def matrix_json(lanes: Iterable[Lane]) -> str:
    """The matrix of a job on GitHub, one line.

    GitHub refuses a matrix of nothing: a job that has one needs a condition, such as
    `if: ${{ fromJSON(needs.….outputs.matrix).include[0] }}`.
    """
    return json.dumps({"include": [_matrix_entry(lane) for lane in lanes]})


def _matrix_entry(lane: Lane) -> dict[str, object]:
    entry: dict[str, object] = {
        "lane": lane.name,
        "title": lane.title,
        "runs-on": runner_json(lane.runner),
        "command": lane.command,
        "tag-expression": list(lane.tag_expression),
        "env": dict(lane.env),
        "timeout-minutes": lane.timeout_minutes,
        "continue-on-error": lane.allowed_to_fail,
    }
    if lane.container_image:
        # As the key `container` of a job wants it.
        options = " ".join(lane.container_options)
        entry["container"] = {"image": lane.container_image, "options": options}
    return entry
