"""The `[gtest]` options."""

from __future__ import annotations

from pants.option.option_types import ArgsListOption, SkipOption
from pants.option.subsystem import Subsystem
from pants.util.strutil import help_text


class GTest(Subsystem):
    options_scope = "gtest"
    name = "gtest"
    help = help_text("GoogleTest, the framework of C++ tests: how `gtest_tests` are run.")

    args = ArgsListOption(example="--gtest_filter=Fold* --gtest_repeat=10", passthrough=True)
    skip = SkipOption("test")
