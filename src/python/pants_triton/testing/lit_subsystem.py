"""The `[lit]` options."""

from __future__ import annotations

from pants.option.option_types import ArgsListOption, SkipOption, StrOption
from pants.option.subsystem import Subsystem
from pants.util.strutil import help_text, softwrap


class LitOptionError(Exception):
    """An option of `[lit]`, or an argument behind `--`, can't be used. The message says which."""


class Lit(Subsystem):
    """The `[lit]` options: which lit runs `lit_tests`, and what it is told."""

    options_scope = "lit"
    name = "lit"
    help = help_text(
        "LLVM's test runner, which runs `lit_tests` targets (https://llvm.org/docs/CommandGuide/lit.html)."
    )

    lit = StrOption(
        default="3rdparty/lit:lit",
        help=softwrap(
            """
            The artifact with lit's Python package `lit`. Its version belongs to the tree that is
            tested: LLVM changes lit and its own tests together.
            """
        ),
    )
    args = ArgsListOption(
        example="--filter=Conversion -D key=value",
        passthrough=True,
        extra_help=softwrap(
            """
            It knows `--filter=REGEX` and `--filter-out=REGEX`, which are compared with a test's path
            in its suite (`Conversion/add.mlir`) and leave the results of the others as they are;
            `-D NAME=VALUE`, a parameter for `lit.cfg.py`; and `-a`, which shows the output of tests
            that pass.

            What stands behind `--` on the command line goes to the tools of all tests that are
            selected; with this option only lit gets it.
            """
        ),
    )
    skip = SkipOption("test")
