"""The `[native]` options."""

from __future__ import annotations

from pants.option.option_types import IntOption, StrListOption, StrOption
from pants.option.subsystem import Subsystem
from pants.util.strutil import help_text, softwrap


class NativeError(Exception):
    """A project can't be built. The message names the target and the way out."""


class NativeSubsystem(Subsystem):
    """The `[native]` options: with what projects are configured and built."""

    options_scope = "native"
    help = help_text("How `cmake_project` targets are built.")

    toolchain = StrOption(
        default="3rdparty/llvm:llvm",
        help=softwrap(
            """
            The artifact with the compiler (clang) and linker (lld) of all projects. If it is a tree
            of Debian packages, it is the sysroot as well: nothing of the host is compiled in.
            """
        ),
    )
    cmake = StrOption(
        default="3rdparty/cmake:cmake",
        help="The artifact with `bin/cmake` and `bin/ninja`.",
    )
    build_type = StrOption(
        default=None,
        help=softwrap(
            """
            CMake's `CMAKE_BUILD_TYPE` of projects that don't say it themselves, by their `build_type`
            or `cache`.
            """
        ),
    )
    sanitizers = StrListOption(
        default=[],
        help=softwrap(
            """
            Sanitizers of projects that don't say it themselves, such as `["address", "undefined"]`:
            see the field `sanitizers` of `cmake_project`.
            """
        ),
    )
    max_links = IntOption(
        default=None,
        help=softwrap(
            """
            How many programs and shared libraries are linked at once, by all Pants runs of this user
            on this machine; 0 for any number. By default one for each 4 GiB of memory that the machine
            or container has. Pools of ninja (CMake's `JOB_POOLS`) bound their edges besides.

            It is part of no key. A link that waits holds one of the places of
            `[GLOBAL].process_execution_local_parallelism`.
            """
        ),
    )
