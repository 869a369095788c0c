"""The goal `generate-workflows`, and the linter that keeps workflows up to date."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from pants.base.build_environment import get_buildroot
from pants.core.goals.lint import LintResult, LintTargetsRequest
from pants.core.util_rules.partitions import PartitionerType
from pants.engine.console import Console
from pants.engine.fs import CreateDigest, Digest, DigestContents, FileContent, PathGlobs, Workspace
from pants.engine.goal import Goal, GoalSubsystem
from pants.engine.rules import Get, collect_rules, goal_rule, rule
from pants.engine.target import FieldSet
from pants.option.option_types import BoolOption
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel
from pants.util.strutil import help_text

from pants_triton.ci.lane import Runner
from pants_triton.ci.lane_rules import AllLanes
from pants_triton.ci.lane_subsystem import CiSubsystem, CiWorkflows
from pants_triton.ci.target_types import LaneTagExpressionField
from pants_triton.ci.workflow import (
    WORKFLOWS_FOLDER,
    WorkflowSettings,
    check_repository,
    parse_actions,
    render_workflows,
)
from pants_triton.ci.workflow_check import check_coverage, check_files, is_generated


class GenerateWorkflowsSubsystem(GoalSubsystem):
    name = "generate-workflows"
    help = help_text(
        """
        Write the workflows of GitHub Actions (`.github/workflows/*.yml`) that the `ci_lane` targets
        declare, and remove those that no lane makes any more: `./pants generate-workflows ::`.
        """
    )

    check = BoolOption(
        default=False,
        help="Write nothing, and fail if a workflow is not what the lanes declare.",
    )


class GenerateWorkflows(Goal):
    subsystem_cls = GenerateWorkflowsSubsystem
    environment_behavior = Goal.EnvironmentBehavior.LOCAL_ONLY


@dataclass(frozen=True)
class Workflows:
    """What workflow files there should be, and are.

    :param wanted: path -> text.
    :param found: path -> text, of those that are generated, or in the place of one that is.
    :param problems: of the lanes themselves.
    """

    wanted: FrozenDict[str, str]
    found: FrozenDict[str, str]
    problems: tuple[str, ...]


@rule(desc="Compare workflows with lanes", level=LogLevel.DEBUG)
async def compare_workflows(all_lanes: AllLanes, ci: CiSubsystem) -> Workflows:
    check_repository("The option `[ci].repository`", ci.repository)
    settings = WorkflowSettings(
        actions=parse_actions("The option `[ci].actions`", ci.actions),
        repository=ci.repository,
        config_files=tuple(ci.config_files),
        preparation_runner=Runner(tuple(ci.preparation_runs_on)),
        preparation_pythons=tuple(ci.preparation_pythons),
    )
    wanted = render_workflows((each.lane for each in all_lanes.lanes), settings)
    contents = await Get(DigestContents, PathGlobs([f"{WORKFLOWS_FOLDER}/*.yml"]))
    files = {file.path: file.content.decode("utf-8", "replace") for file in contents}
    found = {path: text for path, text in files.items() if path in wanted or is_generated(text)}
    return Workflows(
        FrozenDict(wanted),
        FrozenDict(found),
        tuple(check_coverage(all_lanes.lanes, all_lanes.untested)),
    )


def _ignored(workflows: Workflows) -> list[str]:
    """Workflows that are there, but that Pants doesn't see: its own default."""
    return sorted(
        path
        for path in workflows.wanted
        if path not in workflows.found and os.path.exists(os.path.join(get_buildroot(), path))
    )


def _unreadable(paths: list[str]) -> str:
    return (
        f"{paths[0]} can't be read, because Pants ignores folders whose name begins with a dot: add "
        '`pants_ignore.add = ["!/.github/"]` to `[GLOBAL]` in pants.toml.'
    )


@goal_rule
async def generate_workflows(
    console: Console,
    subsystem: GenerateWorkflowsSubsystem,
    workflows: Workflows,
    workspace: Workspace,
) -> GenerateWorkflows:
    ignored = _ignored(workflows)
    if ignored:
        console.print_stderr(_unreadable(ignored))
        return GenerateWorkflows(exit_code=1)
    problems = list(workflows.problems)
    if subsystem.check:
        problems += check_files(workflows.wanted, workflows.found)
    for problem in problems:
        console.print_stderr(problem)
    if problems:
        return GenerateWorkflows(exit_code=1)
    if not workflows.wanted and not workflows.found:
        console.print_stderr(
            "There is no lane: declare `ci_lane` targets, see `./pants help ci_lane`."
        )
        return GenerateWorkflows(exit_code=1)
    changed = {
        path: text for path, text in workflows.wanted.items() if workflows.found.get(path) != text
    }
    leftover = sorted(set(workflows.found) - set(workflows.wanted))
    digest = await Get(
        Digest,
        CreateDigest(FileContent(path, text.encode()) for path, text in sorted(changed.items())),
    )
    if changed or leftover:
        workspace.write_digest(digest, clear_paths=leftover)
    for path in sorted(workflows.wanted):
        console.print_stdout(f"{path} {'was written' if path in changed else 'is up to date'}.")
    for path in leftover:
        console.print_stdout(f"{path} was removed.")
    return GenerateWorkflows(exit_code=0)


@dataclass(frozen=True)
class LaneFieldSet(FieldSet):
    required_fields = (LaneTagExpressionField,)

    tag_expression: LaneTagExpressionField


class CiWorkflowsRequest(LintTargetsRequest):
    field_set_type = LaneFieldSet
    tool_subsystem = CiWorkflows
    partitioner_type = PartitionerType.DEFAULT_SINGLE_PARTITION


@rule(desc="Compare workflows with lanes", level=LogLevel.DEBUG)
async def lint_workflows(
    request: CiWorkflowsRequest.Batch[LaneFieldSet, Any], workflows: Workflows
) -> LintResult:
    ignored = _ignored(workflows)
    findings = [
        *workflows.problems,
        *([_unreadable(ignored)] if ignored else check_files(workflows.wanted, workflows.found)),
    ]
    return LintResult(
        exit_code=1 if findings else 0,
        stdout="\n".join(findings),
        stderr="",
        linter_name=CiWorkflows.name,
        partition_description=request.partition_metadata.description,
    )


def rules():
    return [*collect_rules(), *CiWorkflowsRequest.rules()]
