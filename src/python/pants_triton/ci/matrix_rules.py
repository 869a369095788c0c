"""The goal `ci-matrix`."""

from __future__ import annotations

import os
from pathlib import PurePath

from pants.backend.project_info.dependents import Dependents, DependentsRequest
from pants.backend.python.subsystems.setup import PythonSetup
from pants.base.build_environment import get_buildroot
from pants.core.target_types import FilesGeneratorTarget
from pants.core.util_rules.system_binaries import GitBinary, GitBinaryException, MaybeGitBinary
from pants.engine.addresses import Addresses
from pants.engine.console import Console
from pants.engine.env_vars import EnvironmentVars, EnvironmentVarsRequest
from pants.engine.goal import Goal, GoalSubsystem
from pants.engine.internals.graph import Owners, OwnersRequest
from pants.engine.internals.options_parsing import _Options
from pants.engine.rules import Get, MultiGet, collect_rules, goal_rule
from pants.engine.target import TargetGenerator, UnexpandedTargets
from pants.option.option_types import BoolOption
from pants.source.filespec import FilespecMatcher
from pants.util.strutil import help_text, softwrap
from pants.vcs.changed import ChangedOptions

from pants_triton.ci.lane_rules import AllLanes
from pants_triton.ci.lane_subsystem import CiSubsystem
from pants_triton.ci.matrix import (
    Affected,
    ChangedFile,
    OwnedFile,
    affected_lanes,
    matrix_json,
)


class CiMatrixSubsystem(GoalSubsystem):
    name = "ci-matrix"
    help = help_text(
        """
        Print which lanes a change affects, as JSON for the matrix of a job on GitHub:
        `./pants ci-matrix --changed-since=origin/main`.

        A lane is affected if one of its tests depends on a changed file. A file that no target owns,
        and one that decides how everything is built (`[ci].affects_all`), affects all lanes; so does a
        deleted or renamed one, unless a target that depends on it whole still names it. What was found
        is said on stderr, file by file.

        Dependents are followed all the way, whatever `--changed-dependents` says. Without
        `--changed-since` or `--changed-diffspec` all lanes are affected.
        """
    )

    github_output = BoolOption(
        default=False,
        help=softwrap(
            """
            Also write `matrix=<JSON>` to the file that `$GITHUB_OUTPUT` names, for the jobs that need
            this one.
            """
        ),
    )


class CiMatrix(Goal):
    subsystem_cls = CiMatrixSubsystem
    environment_behavior = Goal.EnvironmentBehavior.LOCAL_ONLY


def _changed_files(changed: ChangedOptions, binary: GitBinary) -> list[ChangedFile]:
    """As `ChangedOptions.changed_files`, which hides the old names of renamed files, and takes names
    with a space apart."""

    def names(*args: str) -> tuple[str, ...]:
        # In the build root, which may be a folder of the repository: paths are relative to it.
        output = binary._invoke_unsandboxed(["-C", get_buildroot(), *args])
        return tuple(path for path in output.split("\0") if path)

    shown = ("--name-only", "-z", "--no-renames", "--relative")
    if changed.diffspec:
        found = names("diff-tree", "--no-commit-id", "-r", *shown, changed.diffspec)
    else:
        found = (
            *names("diff", *shown, f"{changed.since}...HEAD"),
            *names("diff", *shown, "HEAD"),
            *names("ls-files", "--other", "--exclude-standard", "-z"),
        )
    # What the working tree has is what counts: it may have a file again that a commit deleted.
    return [
        ChangedFile(path, deleted=not os.path.lexists(os.path.join(get_buildroot(), path)))
        for path in sorted(set(found))
    ]


@goal_rule
async def ci_matrix(
    console: Console,
    subsystem: CiMatrixSubsystem,
    ci: CiSubsystem,
    python_setup: PythonSetup,
    all_lanes: AllLanes,
    parsed_options: _Options,
) -> CiMatrix:
    changed = ChangedOptions.from_options(parsed_options.options.for_scope("changed"))
    if not all_lanes.lanes:
        console.print_stderr(
            "There is no lane: declare `ci_lane` targets, see `./pants help ci_lane`."
        )
        return CiMatrix(exit_code=1)
    if parsed_options.options.specs:
        console.print_stderr(
            f"`ci-matrix` takes no targets, but got `{parsed_options.options.specs[0]}`: say what was "
            "changed by `--changed-since=<commit>`."
        )
        return CiMatrix(exit_code=1)
    if not changed.provided:
        lanes = sorted((each.lane for each in all_lanes.lanes), key=lambda lane: lane.name)
        affected = Affected(
            tuple(lanes), ("All lanes are affected: no commit to compare with was given.",)
        )
    else:
        maybe_git = await Get(MaybeGitBinary)
        if maybe_git.git_binary is None:
            console.print_stderr("git was not found, which says what was changed: install it.")
            return CiMatrix(exit_code=1)
        try:
            files = _changed_files(changed, maybe_git.git_binary)
        except GitBinaryException as e:
            console.print_stderr(f"git can't say what was changed: {str(e).strip()}")
            return CiMatrix(exit_code=1)
        every_owner = await MultiGet(
            Get(
                Owners,
                OwnersRequest((file.path,), match_if_owning_build_file_included_in_sources=True),
            )
            for file in files
        )
        generators = await MultiGet(
            Get(UnexpandedTargets, Addresses(owners)) for owners in every_owner
        )
        matcher = FilespecMatcher(
            includes=[glob for glob in ci.affects_all if not glob.startswith("!")],
            excludes=[glob[1:] for glob in ci.affects_all if glob.startswith("!")],
        )
        everything = {
            *matcher.matches([file.path for file in files]),
            *(os.path.normpath(lock) for lock in python_setup.resolves.values()),
        }
        owned = [
            OwnedFile(
                file,
                tuple(sorted(address.spec for address in owners)),
                affects_all=file.path in everything,
                dependents_are_known=not file.deleted
                or not any(
                    # Of `files`, whoever depends on them says so in a BUILD file, which changed too.
                    isinstance(target, TargetGenerator)
                    and not isinstance(target, FilesGeneratorTarget)
                    for target in targets
                ),
            )
            for file, owners, targets in zip(files, every_owner, generators)
        ]
        roots = {address for owners in every_owner for address in owners}
        dependents = await Get(
            Dependents, DependentsRequest(roots, transitive=True, include_roots=True)
        )
        affected = affected_lanes(all_lanes.lanes, owned, {address.spec for address in dependents})
    for line in affected.said:
        console.print_stderr(line)
    matrix = matrix_json(affected.lanes)
    console.print_stdout(matrix)
    if not subsystem.github_output:
        return CiMatrix(exit_code=0)
    env = await Get(EnvironmentVars, EnvironmentVarsRequest(["GITHUB_OUTPUT"]))
    path = env.get("GITHUB_OUTPUT")
    if not path:
        console.print_stderr(
            "`--github-output` is for a step on GitHub, which has the variable GITHUB_OUTPUT: leave it "
            "out elsewhere."
        )
        return CiMatrix(exit_code=1)
    # A file of GitHub's outside of the build root, which a digest can't be written to.
    with open(PurePath(get_buildroot(), path), "a") as output:
        output.write(f"matrix={matrix}\n")
    return CiMatrix(exit_code=0)


def rules():
    return collect_rules()
