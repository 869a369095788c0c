"""The `[hardware]` options, which are also those of the goal `hardware`."""

from __future__ import annotations

from enum import Enum

from pants.engine.goal import GoalSubsystem, Outputting
from pants.option.option_types import DictOption, EnumOption, IntOption, StrListOption
from pants.util.strutil import help_text, softwrap


class HardwareOptionError(ValueError):
    """An option of `[hardware]` has a value that can't be understood."""


class MissingHardware(Enum):
    """What to do with a test whose hardware this host lacks."""

    SKIP = "skip"
    ERROR = "error"


class ReportFormat(Enum):
    """How the goal `hardware` prints what it found."""

    TEXT = "text"
    JSON = "json"


class HardwareSubsystem(Outputting, GoalSubsystem):
    """The `[hardware]` options: how devices are found, shared and insisted on."""

    name = "hardware"
    help = help_text(
        """
        Show this host's accelerators and which hardware tags can run here, or why not.

        The options of this scope also say which tests may use the devices, and what happens to
        tests whose hardware is not there.
        """
    )

    format = EnumOption(
        default=ReportFormat.TEXT,
        help="How the goal `hardware` prints: a table for people, or JSON for scripts.",
    )
    missing = EnumOption(
        default=MissingHardware.SKIP,
        help=softwrap(
            """
            What to do with a selected test whose hardware this host lacks.

            With `skip`, the test is reported as skipped, by name and with the reason, and nothing
            is built for it. With `error` (for CI), the run fails, so that a lost GPU never turns a
            lane green; a run that selects no test, and a `--tag` that no target has, fail too.
            """
        ),
    )
    assume = StrListOption(
        help=softwrap(
            """
            Devices to plan for as if this host had them, such as `cuda:sm_90` or `rocm:gfx942x8`
            (eight of them).

            `hardware` shows what could run there. A test is never run on an assumed device.
            """
        ),
    )
    tests_per_device = IntOption(
        default=1,
        help=softwrap(
            """
            How many test processes may share one device at the same time, over all Pants runs of
            this user on this host.

            A target with `exclusive_device=True` never shares. The unit is test processes, not
            tests: a process with `workers=8` counts once.
            """
        ),
    )
    resolves = DictOption[str](
        default={},
        help=softwrap(
            """
            The resolve from `[python].resolves` that each hardware's tests use, such as
            `{"cpu": "triton", "cuda": "cuda", "rocm": "triton"}`.

            It applies to `triton_tests` targets that do not set `resolve`. It is an option because
            Pants can't parametrize two fields of a target together. Hardware that is not named
            uses `[python].default_resolve`.
            """
        ),
    )
    tool_search_path = StrListOption(
        default=["<PATH>", "/opt/rocm/bin", "/usr/lib/wsl/lib"],
        advanced=True,
        help=softwrap(
            """
            Where the vendors' tools (`nvidia-smi`, `amd-smi`, `rocminfo`) are looked for.
            `<PATH>` stands for the entries of the `PATH` variable.
            """
        ),
    )
    tool_timeout = IntOption(
        default=20,
        advanced=True,
        help=softwrap(
            """
            After how many seconds a vendor's tool is given up on. `nvidia-smi` can hang on a broken
            driver; the devices it would have listed then count as missing, with that reason.
            """
        ),
    )
    torch_pythons = StrListOption(
        default=["python3"],
        advanced=True,
        help=softwrap(
            """
            The interpreters asked for the machine's own `torch` on a host with an AMD device, in
            this order. That torch is put on the path of `rocm` tests, and its version is part of
            their fingerprint, because package registries only serve torch's CUDA build.
            """
        ),
    )
