"""The options of workflows and of what a change affects."""

from __future__ import annotations

from pants.option.option_types import DictOption, SkipOption, StrListOption, StrOption
from pants.option.subsystem import Subsystem
from pants.util.strutil import help_text, softwrap

from pants_triton.ci.workflow import CHECKOUT, SETUP_PYTHON, UPLOAD_ARTIFACT


class CiSubsystem(Subsystem):
    options_scope = "ci"
    help = help_text(
        """
        CI from `ci_lane` targets: `generate-workflows` writes GitHub's workflows, and `ci-matrix` says
        which lanes a change affects.
        """
    )

    repository = StrOption(
        default="",
        help=softwrap(
            """
            The repository that is not a fork, as `owner/name`: any other is one (see the field
            `fork_runs_on` of `ci_lane`). By default GitHub is asked whether a repository is a fork,
            which it doesn't know of a copy that was pushed to a new repository.
            """
        ),
    )
    config_files = StrListOption(
        default=["pants.ci.toml"],
        help="What Pants reads in all lanes, besides pants.toml.",
    )
    preparation_runs_on = StrListOption(
        default=["ubuntu-latest"],
        help="The labels of the machine that finds out which lanes are affected. It needs no device.",
    )
    preparation_pythons = StrListOption(
        default=[],
        help=softwrap(
            """
            The versions of Python that this machine installs first, as the field `pythons` of
            `ci_lane` does for a lane.
            """
        ),
    )
    actions = DictOption[str](
        default={
            CHECKOUT: "3d3c42e5aac5ba805825da76410c181273ba90b1 v7.0.1",
            SETUP_PYTHON: "5fda3b95a4ea91299a34e894583c3862153e4b97 v7.0.0",
            UPLOAD_ARTIFACT: "bbbca2ddaa5d8feaa63e36b76fdaad77386f024f v7.0.0",
        },
        advanced=True,
        help=softwrap(
            """
            The commit of each action that workflows use, in 40 hex digits, and the release that it is.
            `git ls-remote --tags` on an action's repository says which commit a release is.
            """
        ),
    )
    affects_all = StrListOption(
        default=[
            ".github/workflows/*",
            "BUILD",
            "BUILD.*",
            "**/BUILD",
            "**/BUILD.*",
            "pants",
            "pants.toml",
            "pants.*.toml",
        ],
        help=softwrap(
            """
            Files whose change affects all lanes though targets may own them, as globs from the build
            root: what decides how everything is built. Globs with a leading `!` take files out again.
            The locks of `[python.resolves]` are always among them.
            """
        ),
    )


class CiWorkflows(Subsystem):
    options_scope = "ci-workflows"
    name = "ci-workflows"
    help = help_text(
        """
        A linter that compares GitHub's workflows with the `ci_lane` targets, and looks for lanes that
        select no test and tests that no lane selects. `./pants generate-workflows ::` writes the
        workflows.
        """
    )

    skip = SkipOption("lint")
