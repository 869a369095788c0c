"""The options of the linter `hardware-markers`."""

from __future__ import annotations

from pants.option.option_types import SkipOption
from pants.option.subsystem import Subsystem
from pants.util.strutil import help_text


class HardwareMarkers(Subsystem):
    options_scope = "hardware-markers"
    name = "hardware-markers"
    help = help_text(
        """
        A linter that compares what the tests of a file ask for in their code (skip conditions such
        as `not is_hip()`, markers such as `pytest.mark.interpreter`) with the tags of all targets
        that own the file, and reports tests that would run nowhere.
        """
    )

    skip = SkipOption("lint")
