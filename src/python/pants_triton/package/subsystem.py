"""The `[triton-wheel]` options."""

from __future__ import annotations

from pants.option.option_types import StrOption
from pants.option.subsystem import Subsystem
from pants.util.strutil import help_text, softwrap


class TritonPackageSubsystem(Subsystem):
    """The `[triton-wheel]` options: how wheels are made."""

    options_scope = "triton-wheel"
    help = help_text("How `triton_package` targets become wheels.")

    version_suffix = StrOption(
        default="",
        help=softwrap(
            """
            What is put behind the version of every wheel: `+git1a2b3c`, `.dev20240815`. Upstream's
            set-up has TRITON_WHEEL_VERSION_SUFFIX for it.
            """
        ),
    )
    auditwheel = StrOption(
        default="3rdparty/auditwheel:auditwheel",
        help=softwrap(
            """
            The artifact with auditwheel and all that it needs: `auditwheel`, `elftools` and
            `packaging` as Python has them, and `bin/patchelf`.
            """
        ),
    )
