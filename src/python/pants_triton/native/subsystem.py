"""The `[native]` options."""

from __future__ import annotations

from enum import Enum

from pants.option.option_types import EnumOption, IntOption, StrListOption, StrOption
from pants.option.subsystem import Subsystem
from pants.util.strutil import help_text, softwrap


class NativeError(Exception):
    """A project can't be built. The message names the target and the way out."""


class CompilerSource(Enum):
    """Whose compiler, or whose headers and libraries of C and C++, projects are built with."""

    TOOLCHAIN = "toolchain"
    HOST = "host"


class Linker(Enum):
    """What links: the names that compilers understand after `-fuse-ld=`."""

    DEFAULT = "default"
    BFD = "bfd"
    GOLD = "gold"
    LLD = "lld"
    MOLD = "mold"


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

            It isn't used with `[native].compiler = "host"`: an LLVM that a project links with is
            one of its own `dependencies`.
            """
        ),
    )
    compiler = EnumOption(
        default=CompilerSource.TOOLCHAIN,
        help=softwrap(
            """
            The compiler of all projects: that of the artifact `[native].toolchain`, or this host's
            own.

            The host's is part of every key by a fingerprint: its version, target and search paths,
            and the content of its programs, of all headers in its search paths, and of the
            libraries that it links by itself. Hosts on which these are the same share results; where
            one of them changes, everything is built anew.
            """
        ),
    )
    sysroot = EnumOption(
        default=CompilerSource.TOOLCHAIN,
        help=softwrap(
            """
            Where the toolchain's compiler finds the headers and libraries of C and C++: in its own
            artifact, or on this host, for a toolchain that has none. The host's are part of every key
            by a fingerprint, as with `[native].compiler = "host"`, which always uses the host's.
            """
        ),
    )
    linker = EnumOption(
        default=Linker.DEFAULT,
        help=softwrap(
            """
            What links. By default it is lld with the toolchain's compiler, and whatever the compiler
            itself uses with the host's.
            """
        ),
    )
    host_cc = StrListOption(
        default=["cc", "gcc", "clang"],
        help=softwrap(
            """
            The names or absolute paths of this host's C compiler, of which the first that is there
            is taken. It is used with `[native].compiler = "host"`. Set `[native].host_cxx` with it.
            """
        ),
    )
    host_cxx = StrListOption(
        default=["c++", "g++", "clang++"],
        help="The same of this host's C++ compiler, which also links.",
    )
    host_search_path = StrListOption(
        default=["<PATH>"],
        advanced=True,
        help=softwrap(
            """
            The folders in which the host's compilers are looked for. `<PATH>` stands for the entries
            of the `PATH` variable. Compiler caches (`ccache` and the like) are passed over.
            """
        ),
    )
    host_files = StrListOption(
        default=[],
        help=softwrap(
            """
            What else of this host projects may include and link with the host's compiler or
            sysroot: absolute paths of files, and of folders with all that is in them, such as
            `/opt/rocm/include` or `/usr/lib/x86_64-linux-gnu/libz.so`. Their content is part of the
            fingerprint.
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
