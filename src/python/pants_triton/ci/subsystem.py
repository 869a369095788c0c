"""The options of the report of a run."""

from __future__ import annotations

import os
from enum import Enum

from pants.core.util_rules.distdir import DistDir
from pants.option.option_types import BoolOption, EnumListOption, IntOption, StrOption
from pants.option.subsystem import Subsystem
from pants.util.strutil import help_text


class ReportFormat(Enum):
    """The forms of a report, by the names that the option has for them."""

    HTML = "html"
    JSON = "json"
    MARKDOWN = "markdown"
    TRACE = "trace"


class RunReport(Subsystem):
    options_scope = "run-report"
    help = help_text(
        """
        The report that each `pants test` leaves: for each test and each edge of a native build
        whether it was executed, came from the local or the remote cache, or was skipped and why;
        the seconds spent and saved, the errors of caches, and the bytes moved.

        A run's report is a folder of its own, with `index.html` to look at, `report.json` for
        programs, `summary.md`, and `trace.json` for Perfetto (ui.perfetto.dev). `latest` is a link
        to the newest. On GitHub Actions, the summary is shown on the job's page.
        """
    )

    enabled = BoolOption(
        default=True,
        help="Whether to write a report. It never fails a run: what goes wrong with it is a warning.",
    )
    _dir = StrOption(
        "--dir",
        default="{distdir}/run-report",
        advanced=True,
        help="The folder of the reports. `{distdir}` stands for the folder of `[GLOBAL].pants_distdir`.",
    )
    formats = EnumListOption(
        default=list(ReportFormat),
        advanced=True,
        help=(
            "The forms to write to the folder. The file that GitHub's `$GITHUB_STEP_SUMMARY` names "
            "gets the Markdown in any case."
        ),
    )
    keep = IntOption(
        default=10,
        help="How many reports to keep. Older ones are removed; 0 keeps all.",
        advanced=True,
    )
    announce = BoolOption(
        default=False,
        help="Whether to say at the end of a run where its report is.",
    )

    def dir(self, distdir: DistDir) -> str:
        """The folder, relative to the build root or absolute."""
        return os.path.normpath(self._dir.replace("{distdir}", str(distdir.relpath)))
