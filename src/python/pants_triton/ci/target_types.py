"""`ci_lane`: one job of CI."""

from __future__ import annotations

from typing import Any, Optional

from pants.build_graph.address import Address
from pants.engine.target import (
    COMMON_TARGET_FIELDS,
    BoolField,
    DictStringToStringField,
    Field,
    IntField,
    InvalidFieldException,
    StringField,
    StringSequenceField,
    Target,
)
from pants.util.strutil import help_text

from pants_triton.ci.lane import (
    DEFAULT_WHEN,
    EVENTS,
    GOALS,
    MERGE_QUEUE,
    PULL_REQUEST,
    PUSH,
    SCHEDULE,
    TEST,
    Lane,
    LaneError,
    Runner,
    Trigger,
    check_lane,
    parse_runner,
    parse_triggers,
)


class LaneTitleField(StringField):
    alias = "title"
    help = help_text("What people see as the job's name. By default the target's name.")


class LaneWorkflowField(StringField):
    alias = "workflow"
    default = "ci"
    value: str
    help = help_text(
        """
        The workflow that the lane is a job of: `ci` is `.github/workflows/ci.yml`. All lanes of a
        workflow have the same branches in `when`.
        """
    )


class LaneGoalsField(StringSequenceField):
    alias = "goals"
    default = (TEST,)
    value: tuple[str, ...]
    help = help_text(
        f"""
        What the lane runs on all targets, of {", ".join(f"`{goal}`" for goal in GOALS)}. A lane
        without `{TEST}` runs whatever was changed, and waits for no other job.
        """
    )


class LaneTagExpressionField(StringSequenceField):
    alias = "tag_expression"
    default = ()
    value: tuple[str, ...]
    help = help_text(
        """
        Which tests the lane runs, as values of Pants' own `--tag`, all of which must match:
        `["cuda", "-slow"]` is `--tag=cuda --tag=-slow`. In a value, any of several tags will do
        (`"cuda,rocm"`), and with `-` none of them may be there (`"-cuda,rocm"`).

        A lane that selects no test is an error.
        """
    )


class _RunnerField(Field):
    default = None
    value: Optional[Runner]

    @classmethod
    def compute_value(cls, raw_value: Optional[Any], address: Address) -> Optional[Runner]:
        value = super().compute_value(raw_value, address)
        # Parsed already: `__defaults__` hand the value on to the BUILD files below theirs.
        if value is None or isinstance(value, Runner):
            return value
        try:
            return parse_runner(cls.alias, value)
        except LaneError as e:
            raise InvalidFieldException(f"{address}: {e}") from None


class LaneRunsOnField(_RunnerField):
    alias = "runs_on"
    required = True
    value: Runner
    help = help_text(
        """
        Which machines take the job: labels, all of which a machine must have
        (`["self-hosted", "gfx90a"]`), or a group (`{"group": "gpu", "labels": ["a100"]}`).
        """
    )


class LaneForkRunsOnField(_RunnerField):
    alias = "fork_runs_on"
    help = help_text(
        f"""
        Which machines take the job in a fork, which has no machines of its own: `["ubuntu-latest"]`,
        say. There, tests whose hardware is missing are skipped instead of failing, and the container
        gets no options. An empty list: forks don't run the lane.

        By default the same as `{LaneRunsOnField.alias}`. This is about runs *in* a fork. A pull request
        from a fork runs in this repository, on its machines: see GitHub's approval of workflow runs.

        Whether it is a fork is what GitHub says, or, if `[ci].repository` is set, whether it is
        another repository.
        """
    )


class LaneContainerImageField(StringField):
    alias = "container_image"
    default = ""
    value: str
    help = help_text("The image of the container that the job runs in. By default there is none.")


class LaneContainerOptionsField(StringSequenceField):
    alias = "container_options"
    default = ()
    value: tuple[str, ...]
    help = help_text(
        f"""
        Options for `docker create`, such as `["--device=/dev/kfd", "--device=/dev/dri"]`. Pants' own
        `docker_environment` takes no devices, so that a lane which needs them runs in a
        `{LaneContainerImageField.alias}` as a whole.
        """
    )


class LaneEnvField(DictStringToStringField):
    alias = "env"
    help = help_text(
        """
        Environment variables of the job, such as options of Pants (`{"PANTS_DYNAMIC_UI": "false"}`).
        They do not reach tests, whose environment is what their own targets say.
        """
    )


class LaneTimeoutField(IntField):
    alias = "timeout_minutes"
    default = 30
    value: int
    help = help_text(
        "After how many minutes the job is ended. Tests have timeouts of their own, in seconds."
    )


class LaneAllowedToFailField(BoolField):
    alias = "allowed_to_fail"
    default = False
    help = help_text("If true, the workflow succeeds though this lane failed.")


class LaneWhenField(Field):
    alias = "when"
    default = None
    value: tuple[Trigger, ...]
    help = help_text(
        f"""
        On which events the lane runs: {", ".join(f"`{event}`" for event in EVENTS)}, as a list, or as
        a dictionary that narrows some of them to branches:
        `{{"{PULL_REQUEST}": {{"branches_ignore": ["llvm-**"]}}, "{PUSH}": {{"branches": ["main"]}}}}`.

        The branches are those that are pushed to or would be merged into. A schedule has moments, in
        UTC, as lines of a crontab: `{{"{SCHEDULE}": {{"cron": ["30 3 * * *"]}}}}`. It runs the
        lane on the default branch, whatever was changed.

        By default on all events but schedules, and of pushes on those to `main`.
        """
    )

    @classmethod
    def compute_value(cls, raw_value: Optional[Any], address: Address) -> tuple[Trigger, ...]:
        value = super().compute_value(raw_value, address)
        # As with runners, from `__defaults__` of a BUILD file above.
        if isinstance(value, tuple) and value and isinstance(value[0], Trigger):
            return value
        try:
            return parse_triggers(cls.alias, DEFAULT_WHEN if value is None else value)
        except LaneError as e:
            raise InvalidFieldException(f"{address}: {e}") from None


class LaneCacheWriteField(StringSequenceField):
    alias = "cache_write"
    default = (PUSH,)
    value: tuple[str, ...]
    help = help_text(
        f"""
        The events of `{LaneWhenField.alias}` on which the lane may write the remote cache: `{PUSH}`,
        the default, `{MERGE_QUEUE}`, and `{SCHEDULE}`. On all others it only reads, and gets no token. An empty
        list: never.
        """
    )


class LaneSubmodulesField(BoolField):
    alias = "submodules"
    default = False
    help = help_text("Whether git's submodules are checked out, too.")


class LanePythonsField(StringSequenceField):
    alias = "pythons"
    default = ()
    value: tuple[str, ...]
    help = help_text(
        """
        The versions of Python that the job installs before it starts Pants, such as
        `["3.9", "3.11"]`: for machines and images that don't have them.
        """
    )


class LaneTarget(Target):
    alias = "ci_lane"
    core_fields = (
        *COMMON_TARGET_FIELDS,
        LaneTitleField,
        LaneWorkflowField,
        LaneGoalsField,
        LaneTagExpressionField,
        LaneRunsOnField,
        LaneForkRunsOnField,
        LaneContainerImageField,
        LaneContainerOptionsField,
        LaneEnvField,
        LaneTimeoutField,
        LaneAllowedToFailField,
        LaneWhenField,
        LaneCacheWriteField,
        LaneSubmodulesField,
        LanePythonsField,
    )
    help = help_text(
        """
        A lane: one job of CI, which runs one command of Pants.

        `./pants generate-workflows ::` writes GitHub's workflows from all lanes, and
        `./pants ci-matrix --changed-since=<commit>` says which of them a change affects.
        """
    )

    def validate(self) -> None:
        super().validate()
        try:
            check_lane(lane_of(self))
        except LaneError as e:
            raise InvalidFieldException(f"{self.address}: {e}") from None


def lane_of(target: Target) -> Lane:
    """The lane that a `ci_lane` declares, checked or not."""
    name = target.address.target_name
    return Lane(
        name=name,
        title=target[LaneTitleField].value or name,
        workflow=target[LaneWorkflowField].value,
        address=target.address.spec,
        goals=tuple(sorted(target[LaneGoalsField].value, key=_goal_order)),
        tag_expression=target[LaneTagExpressionField].value,
        runner=target[LaneRunsOnField].value,
        fork_runner=target[LaneForkRunsOnField].value,
        container_image=target[LaneContainerImageField].value,
        container_options=target[LaneContainerOptionsField].value,
        env=tuple((target[LaneEnvField].value or {}).items()),
        timeout_minutes=target[LaneTimeoutField].value,
        allowed_to_fail=target[LaneAllowedToFailField].value,
        triggers=target[LaneWhenField].value,
        cache_write=target[LaneCacheWriteField].value,
        submodules=target[LaneSubmodulesField].value,
        pythons=target[LanePythonsField].value,
    )


def _goal_order(goal: str) -> int:
    return GOALS.index(goal) if goal in GOALS else len(GOALS)
