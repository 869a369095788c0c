"""The `[artifact]` options, and those of the linter of the lock."""

from __future__ import annotations

from pants.option.option_types import (
    DictOption,
    FloatOption,
    IntOption,
    SkipOption,
    StrListOption,
    StrOption,
)
from pants.option.subsystem import Subsystem
from pants.util.strutil import help_text, softwrap


class ArtifactOptionError(ValueError):
    """An option of `[artifact]` has a value that can't be understood."""


class ArtifactError(Exception):
    """An artifact can't be had. The message names the target and the way out."""


class ArtifactSubsystem(Subsystem):
    """The `[artifact]` options. But for `lock`, `llvm_system_suffix` and `local_trees`, none of them is in a
    process' key: they say how bytes are had, and the lock says which."""

    options_scope = "artifact"
    help = help_text(
        """
        Where the files that artifacts are unpacked from are had: targets like `llvm_toolchain` and
        `wheel_artifact`.
        """
    )

    lock = StrOption(
        default="3rdparty/artifacts.lock.json",
        help=softwrap(
            """
            The lock of all artifacts, relative to the build root. `./pants lock-artifacts`
            makes it; an `artifact_lock` target owns it.
            """
        ),
    )
    mirrors = StrListOption(
        help=softwrap(
            """
            Folders (`file:`, `https:` or `http:` URLs) that may have the files under their sha256,
            or else under their own name, tried in this order before the location in the lock. What
            they have is verified like everything else. `fetch-artifacts --mirror` makes such a
            folder.
            """
        ),
    )
    debian_mirror = StrOption(
        default="",
        help=softwrap(
            """
            The mirror that Debian's packages are fetched from, such as
            `https://mirror.example.org/debian`. By default the one in the host's own apt sources.
            """
        ),
    )
    credentials = DictOption[str](
        default={},
        help=softwrap(
            """
            The environment variable that holds the credentials of each private mirror's or index's
            host, such as `{"mirror.example.org": "MIRROR_TOKEN"}`: a bearer token, or
            `user:password`. Other hosts' come from netrc. Credentials are in no process' key, and in
            no output.
            """
        ),
    )
    local_trees = DictOption[str](
        default={},
        help=softwrap(
            """
            Folders of this machine to be taken instead of artifacts, by the artifact's address:
            `{"3rdparty/llvm:llvm": "/home/me/llvm-project/install"}`, like Triton's `LLVM_SYSPATH`.
            Such a tree is digested, so that results still depend on its content, but nobody else has
            it: each run says that it is not hermetic.
            """
        ),
    )
    llvm_system_suffix = StrOption(
        default="",
        help=softwrap(
            """
            The build of LLVM that `llvm_toolchain` takes, such as `almalinux-x64`, instead of the
            one for this host; like Triton's `TRITON_LLVM_SYSTEM_SUFFIX`.
            """
        ),
    )
    tries = IntOption(
        default=5,
        advanced=True,
        help=softwrap(
            """
            How often a download is tried before the next location is, if it failed in a way that can
            heal: a stall, a broken body, too many requests, a server's error.
            """
        ),
    )
    stall_timeout = FloatOption(
        default=60.0,
        advanced=True,
        help="After how many seconds without a byte a connection is given up.",
    )
    cache_head_start = FloatOption(
        default=60.0,
        advanced=True,
        help=softwrap(
            """
            For how many seconds a remote cache may send an artifact's tree before the artifact is also
            downloaded from where it is published; what is there first counts. More spares the publisher
            where the cache is slow, less helps where it is slower than the publisher. A cache that is
            down, or doesn't have it, is not waited for.
            """
        ),
    )
    max_tree_size = IntOption(
        default=20 << 30,
        advanced=True,
        help=softwrap(
            """
            The size in bytes that no tree, and no download of unknown size, may exceed. It keeps a
            hostile archive from filling the disk.
            """
        ),
    )


class ArtifactPins(Subsystem):
    options_scope = "artifact-pins"
    name = "artifact-pins"
    help = help_text(
        """
        A linter that compares the lock of artifacts with what BUILD files and pins declare: a pin
        that moved without its lock is an error. `./pants lock-artifacts` corrects it.
        """
    )

    skip = SkipOption("lint")
