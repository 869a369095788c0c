"""What a lane is: one job of CI, as it is declared, checked, and not yet written for any CI system."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterable, Mapping, Sequence

from pants_triton.testing.selection import selects

TEST = "test"

# The goals that a lane may run, in the order in which it does.
GOALS = ("lint", "check", TEST)

# Events by our names: a pull request, its turn in the merge queue, a push to a branch, a person's click,
# a moment, such as each night.
PULL_REQUEST = "pull_request"
MERGE_QUEUE = "merge_queue"
PUSH = "push"
DISPATCH = "dispatch"
SCHEDULE = "schedule"
EVENTS = (PULL_REQUEST, MERGE_QUEUE, PUSH, DISPATCH, SCHEDULE)

#: When a lane runs that doesn't say it.
DEFAULT_WHEN: Mapping[str, Mapping[str, Sequence[str]]] = {
    PULL_REQUEST: {},
    MERGE_QUEUE: {},
    PUSH: {"branches": ["main"]},
    DISPATCH: {},
}

# The variables that generated workflows set themselves.
RESERVED_VARIABLES = frozenset(
    {
        "PANTS_CHANGED_SINCE",
        "PANTS_CONFIG_FILES",
        "PANTS_HARDWARE_MISSING",
        "PANTS_REMOTE_CACHE_READ",
        "PANTS_REMOTE_CACHE_WRITE",
        "PANTS_REMOTE_STORE_ADDRESS",
        "PANTS_REMOTE_STORE_HEADERS",
    }
)

# GitHub ends any job after five days.
_MAX_MINUTES = 5 * 24 * 60

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What needs no quotes in a shell, so that a command stays what it looks like.
_TAGS = re.compile(r"[+-]?[A-Za-z0-9_.][A-Za-z0-9_.-]*(,[A-Za-z0-9_.][A-Za-z0-9_.-]*)*")
# Minute, hour, day, month and weekday, as GitHub takes them: numbers, names, `*`, and `,`, `-` and `/`
# between them.
_CRON = re.compile(r"[0-9*][0-9*,/-]*( [0-9*][0-9*,/-]*){2}( [0-9A-Za-z*][0-9A-Za-z*,/-]*){2}")
_PYTHON = re.compile(r"3\.[0-9]+(\.[0-9]+)?")


class LaneError(ValueError):
    """A lane that can't be; one sentence that names the field and the way out."""


@dataclass(frozen=True)
class Runner:
    """Which machines take a lane's job.

    :param labels: a machine must have all of them.
    :param group: the group that it must be in, or "".
    """

    labels: tuple[str, ...]
    group: str = ""


@dataclass(frozen=True)
class Trigger:
    """An event that starts a lane.

    :param branches: only these, all if empty: the branch that is pushed to or would be merged into.
    :param branches_ignore: all but these. At most one of the two is given.
    :param cron: the moments, in UTC, as lines of a crontab; of a schedule only.
    """

    event: str
    branches: tuple[str, ...] = ()
    branches_ignore: tuple[str, ...] = ()
    cron: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lane:
    """One job of CI.

    :param name: its identifier, unique in the workspace.
    :param title: what people see.
    :param workflow: the name of the workflow file that it is a job of, without `.yml`.
    :param address: of the target that declares it.
    :param goals: see `GOALS`.
    :param tag_expression: values of `--tag`, all of which a target must match.
    :param fork_runner: where forks run it; None: as here; no labels: not at all.
    :param container_image: "" for none.
    :param timeout_minutes: for the whole job.
    :param cache_write: the events on which it may write the remote cache.
    :param pythons: versions that the job installs before it starts Pants.
    """

    name: str
    title: str
    workflow: str
    address: str
    goals: tuple[str, ...]
    tag_expression: tuple[str, ...]
    runner: Runner
    fork_runner: Runner | None
    container_image: str
    container_options: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    timeout_minutes: int
    allowed_to_fail: bool
    triggers: tuple[Trigger, ...]
    cache_write: tuple[str, ...]
    submodules: bool
    pythons: tuple[str, ...]

    @property
    def runs_tests(self) -> bool:
        return TEST in self.goals

    @property
    def command(self) -> str:
        """What the job runs, to be repeated by a person."""
        tags = "".join(f"--tag={value} " for value in self.tag_expression)
        return f"./pants {' '.join(self.goals)} {tags}::"

    def selects(self, tags: Iterable[str]) -> bool:
        """Whether `--tag` with this lane's values selects a target that has these tags."""
        return selects(self.tag_expression, tags)


def parse_runner(field: str, value: object) -> Runner:
    """What a BUILD file says of machines: a label, labels, or a group with or without labels."""
    labels: object
    group: object = ""
    if isinstance(value, Mapping):
        unknown = sorted(set(map(str, value)) - {"group", "labels"})
        if unknown or not value.get("group"):
            what = f"has the key `{unknown[0]}`" if unknown else "names no group"
            raise LaneError(
                f'`{field}` {what}: write labels, such as `["self-hosted", "gfx90a"]`, or '
                '`{"group": "gpu", "labels": ["a100"]}`.'
            )
        group, labels = value["group"], value.get("labels", ())
    else:
        labels = value
    if isinstance(labels, str):
        labels = (labels,)
    if not (
        isinstance(group, str)
        and isinstance(labels, (list, tuple))
        and all(isinstance(label, str) and label.strip() for label in labels)
    ):
        raise LaneError(
            f"`{field}` must be labels, which are strings, or a group, but is {value!r}: write "
            '`["self-hosted", "gfx90a"]` or `{"group": "gpu", "labels": ["a100"]}`.'
        )
    for text in (group, *labels):
        check_text(field, text)
    return Runner(tuple(labels), group)


def parse_triggers(field: str, value: object) -> tuple[Trigger, ...]:
    """What a BUILD file says of events: their names, or a dictionary that narrows some to branches, or
    says at which moments."""
    if isinstance(value, (list, tuple)):
        value = {event: {} for event in value}
    if not isinstance(value, Mapping) or not value:
        raise LaneError(
            f"`{field}` must say on which events the lane runs, but is {value!r}: write "
            f'`["{PULL_REQUEST}"]` or `{{"{PUSH}": {{"branches": ["main"]}}}}`.'
        )
    unknown = [event for event in value if event not in EVENTS]
    if unknown:
        raise LaneError(
            f"`{field}` has the event {unknown[0]!r}. The events are: "
            f"{', '.join(f'`{event}`' for event in EVENTS)}."
        )
    return tuple(_parse_trigger(field, event, value[event]) for event in EVENTS if event in value)


def _parse_trigger(field: str, event: str, value: object) -> Trigger:
    if event == SCHEDULE:
        return Trigger(event, cron=_parse_cron(field, value))
    filters: dict[str, tuple[str, ...]] = {"branches": (), "branches_ignore": ()}
    keys = sorted(filters) if event != DISPATCH else []
    if not isinstance(value, Mapping) or not set(value) <= set(keys):
        allowed = " or ".join(f"`{key}`" for key in keys)
        raise LaneError(
            f"`{field}` has {value!r} for `{event}`: "
            + (f"it may have {allowed}, a list of branches." if allowed else "write `{}` for it.")
        )
    for key, branches in value.items():
        if (
            not isinstance(branches, (list, tuple))
            or not branches
            or not all(isinstance(branch, str) and branch for branch in branches)
        ):
            raise LaneError(
                f"`{field}` has {branches!r} for `{key}` of `{event}`: write a list of branches, "
                'such as `["main", "release/**"]`.'
            )
        for branch in branches:
            check_text(field, branch)
        filters[key] = tuple(branches)
    if filters["branches"] and filters["branches_ignore"]:
        raise LaneError(
            f"`{field}` has both `branches` and `branches_ignore` for `{event}`, of which a workflow "
            "takes one: leave out `branches_ignore`, and name the wanted ones only."
        )
    return Trigger(event, **filters)


def _parse_cron(field: str, value: object) -> tuple[str, ...]:
    lines = value.get("cron") if isinstance(value, Mapping) and set(value) == {"cron"} else None
    if not isinstance(lines, (list, tuple)) or not lines:
        raise LaneError(
            f"`{field}` has {value!r} for `{SCHEDULE}`: say at which moments, in UTC, such as "
            f'`{{"{SCHEDULE}": {{"cron": ["30 3 * * *"]}}}}` for each night at 3:30.'
        )
    for line in lines:
        if not isinstance(line, str) or not _CRON.fullmatch(line):
            raise LaneError(
                f"`{field}` has {line!r} for `cron`: write minute, hour, day, month and weekday with "
                'a space between them, such as `"30 3 * * 1-5"`.'
            )
    return tuple(lines)


def check_text(field: str, text: str) -> None:
    """Refuse what a CI system would evaluate, or what could break out of its line."""
    if "${{" in text:
        raise LaneError(
            f"`{field}` has the expression {text!r}: what a workflow evaluates is generated, so that "
            "nothing that a stranger writes gets into it. Write the value itself."
        )
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise LaneError(f"`{field}` has a control character in {text!r}: take it out.")


def check_lane(lane: Lane) -> None:
    """Raise LaneError for what no single field sees."""
    for field, name in (("name", lane.name), ("workflow", lane.workflow)):
        if not _NAME.fullmatch(name):
            raise LaneError(
                f"`{field}` is {name!r}, which is no identifier of a job: use letters, digits, `-` "
                "and `_`, and a letter first."
            )
    _check_choices("goals", lane.goals, GOALS)
    for field, texts in (
        ("title", (lane.title,)),
        ("container_image", (lane.container_image,)),
        ("container_options", lane.container_options),
        ("env", tuple(text for pair in lane.env for text in pair)),
    ):
        for text in texts:
            check_text(field, text)
    if not lane.goals:
        raise LaneError(f"`goals` is empty: name some of {', '.join(GOALS)}.")
    if lane.runs_tests and not lane.tag_expression:
        raise LaneError(
            "`tag_expression` is empty, so that the lane's machine would run the tests of all "
            'hardware: write which, such as `["cuda"]`.'
        )
    for value in lane.tag_expression:
        if not _TAGS.fullmatch(value):
            raise LaneError(
                f"`tag_expression` has {value!r}, which is no value of `--tag`: write tags with "
                "commas between them, any of which will do, and `-` before them all for none of them."
            )
    if not (lane.runner.labels or lane.runner.group):
        raise LaneError(
            '`runs_on` is empty: name the labels of a runner, such as `["ubuntu-latest"]`.'
        )
    if lane.container_options and not lane.container_image:
        raise LaneError(
            "`container_options` are given without a `container_image`: name the image, or leave "
            "them out."
        )
    for name, _ in lane.env:
        if not _VARIABLE.fullmatch(name):
            raise LaneError(f"`env` has {name!r}, which is no name of an environment variable.")
        if name in RESERVED_VARIABLES:
            raise LaneError(
                f"`env` sets {name}, which generated workflows set themselves: leave it out; see "
                "`cache_write`, `fork_runs_on` and pants.ci.toml."
            )
    if not 1 <= lane.timeout_minutes <= _MAX_MINUTES:
        raise LaneError(
            f"`timeout_minutes` is {lane.timeout_minutes}: it must be from 1 to {_MAX_MINUTES}, and "
            "GitHub's own machines stop at 360."
        )
    for version in lane.pythons:
        if not _PYTHON.fullmatch(version):
            raise LaneError(f"`pythons` has {version!r}: write versions such as `3.11`.")
    _check_cache_write(lane)


def _check_cache_write(lane: Lane) -> None:
    for event, why in (
        (PULL_REQUEST, "whatever a stranger proposes"),
        (DISPATCH, "whatever is on any branch"),
    ):
        if event in lane.cache_write:
            raise LaneError(
                f"`cache_write` has `{event}`: {why} could then put results into everybody's cache. "
                f"Leave it out: all read what `{PUSH}` wrote."
            )
    # A schedule runs what is on the default branch.
    _check_choices("cache_write", lane.cache_write, (MERGE_QUEUE, PUSH, SCHEDULE))
    by_event = {trigger.event: trigger for trigger in lane.triggers}
    push = by_event.get(PUSH)
    if PUSH in lane.cache_write and push is not None and not push.branches:
        raise LaneError(
            f"`cache_write` has `{PUSH}`, but `when` runs the lane on a push to any branch: name the "
            f'trusted ones there, `"{PUSH}": {{"branches": ["main"]}}`, or set `cache_write=[]`.'
        )


def _check_choices(field: str, values: Sequence[str], choices: Sequence[str]) -> None:
    unknown = [value for value in values if value not in choices]
    if unknown:
        listing = ", ".join(f"`{choice}`" for choice in choices)
        raise LaneError(f"`{field}` has {unknown[0]!r}. There are: {listing}.")


def check_lanes(lanes: Iterable[Lane]) -> None:
    """Raise LaneError for what no single lane sees; names the addresses."""
    by_name: dict[str, Lane] = {}
    for lane in sorted(lanes, key=lambda lane: lane.address):
        first = by_name.setdefault(lane.name, lane)
        if first is not lane:
            raise LaneError(
                f"{lane.address}: {first.address} is a lane of the name `{lane.name}` already: rename "
                "one, since `ci-matrix` and the checks of a pull request know lanes by name."
            )
