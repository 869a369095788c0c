"""The platforms that artifacts are locked for, and which of them suits a host.

A platform is Pants' name (`linux_x86_64`), or that and the distribution an archive was built on
(`linux_x86_64-almalinux`) where upstream offers several. Upstream's own names for the latter, as in
`TRITON_LLVM_SYSTEM_SUFFIX`, are suffixes: `almalinux-x64`.

Nothing here looks at the machine.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Sequence

from pants_triton.artifact.lock import ANY_PLATFORM

#: The platforms that Pants runs on.
PANTS_PLATFORMS: tuple[str, ...] = (
    "linux_x86_64",
    "linux_arm64",
    "macos_x86_64",
    "macos_arm64",
)

# Upstream's word for each architecture. Windows has archives though Pants doesn't run there: a lock
# that lists them serves Triton's own builds too.
_ARCHS = {"x64": "x86_64", "arm64": "arm64"}
_OWN_SYSTEMS = ("macos", "windows")

# The newest glibc of hosts that get the archive built on the older distribution: AlmaLinux 8 and
# manylinux_2_28 have 2.28, CentOS 7 and manylinux2014 have 2.17.
_ALMALINUX_GLIBC = (2, 28)
_CENTOS_GLIBC = (2, 17)


class PlatformError(ValueError):
    """A platform, suffix or host fact is unknown or malformed. The message says what is known and
    suggests."""


@dataclass(frozen=True)
class BuildHost:
    """What selects an archive, of the machine that will use it.

    `platform` is Pants' name, `glibc` is (major, minor), None where there is none (macOS, musl) or
    it isn't known. `distribution` is the `ID` of `/etc/os-release` (`ubuntu`), "" without one. Make
    it with `build_host`.
    """

    platform: str
    glibc: tuple[int, int] | None = None
    distribution: str = ""


def build_host(platform: str, libc_version: str = "", os_release: str = "") -> BuildHost:
    """The host of these observations: Pants' platform name, the version in `platform.libc_ver()`
    (`2.36`, "" where there is none), the text of `/etc/os-release` ("" where there is none).

    Raises PlatformError for an unknown platform or a malformed version.
    """
    if platform not in PANTS_PLATFORMS:
        raise PlatformError(_unknown("platform", platform, PANTS_PLATFORMS))
    glibc = None
    if libc_version.strip():
        # Distributions append to it: `2.39.9000` of Fedora's development branch.
        numbers = re.match(r"\s*([0-9]{1,4})\.([0-9]{1,4})(?![0-9])", libc_version)
        if numbers is None:
            raise PlatformError(f"the version of glibc is like `2.36`, got {libc_version!r}.")
        glibc = (int(numbers.group(1)), int(numbers.group(2)))
    found = re.search(r"^\s*ID=([\"']?)([A-Za-z0-9._-]+)\1\s*$", os_release, re.MULTILINE)
    return BuildHost(platform, glibc, found.group(2).lower() if found else "")


def platform_for(host: BuildHost, known: Sequence[str]) -> str:
    """The platform of `known` (what an artifact is locked for) that suits `host` best.

    Picks as Triton's own set-up does (setup.py from November 2023, python/build_helpers.py from
    February 2026). It changed which archives exist, but never the choice among those of a day:

    | host | choice |
    |---|---|
    | x86-64, glibc over 2.28 | ubuntu |
    | x86-64, glibc 2.18 to 2.28 | almalinux (since April 2024); ubuntu before |
    | x86-64, glibc up to 2.17 | centos (until October 2025); almalinux since |
    | arm64 AlmaLinux | almalinux (since March 2025); ubuntu before |
    | arm64 else | ubuntu |
    | macOS | the only one |

    Where none suits, the answer is the first choice, so that looking it up in the lock fails with
    the list of what is there.
    """
    wanted = candidates(host)
    return next((platform for platform in wanted if platform in known), wanted[0])


def candidates(host: BuildHost) -> tuple[str, ...]:
    """The platforms whose archives suit `host`, the best first."""
    return (
        *(f"{host.platform}-{name}" for name in _distributions(host)),
        host.platform,
        ANY_PLATFORM,
    )


def suffix_platform(suffix: str) -> str:
    """The platform of one of upstream's suffixes: `ubuntu-x64` -> `linux_x86_64-ubuntu`,
    `macos-arm64` -> `macos_arm64`. Raises PlatformError."""
    system, dash, arch = suffix.rpartition("-")
    if not dash or arch not in _ARCHS or not re.fullmatch(r"[a-z0-9][a-z0-9.]*", system):
        raise PlatformError(
            f"a system suffix is `<system>-<arch>`, arch one of {', '.join(_ARCHS)}, such as "
            f"`ubuntu-x64` or `macos-arm64`; got {suffix!r}."
        )
    if system in _OWN_SYSTEMS:
        return f"{system}_{_ARCHS[arch]}"
    return f"linux_{_ARCHS[arch]}-{system}"


def platform_suffix(platform: str) -> str:
    """The inverse of `suffix_platform`. Raises PlatformError where upstream has no suffix for it:
    Linux without a distribution, unknown systems."""
    found = re.fullmatch(r"([a-z]+)_(x86_64|arm64)(?:-([a-z0-9][a-z0-9.]*))?", platform)
    if found is not None:
        system, arch, distribution = found.groups()
        word = {ours: theirs for theirs, ours in _ARCHS.items()}[arch]
        if system in _OWN_SYSTEMS and distribution is None:
            return f"{system}-{word}"
        if system == "linux" and distribution is not None and distribution not in _OWN_SYSTEMS:
            return f"{distribution}-{word}"
    raise PlatformError(
        f"upstream has no suffix for the platform {platform!r}: on Linux name the distribution too, "
        "such as `linux_x86_64-ubuntu`."
    )


def base_platform(platform: str) -> str:
    """`platform` without the distribution: `linux_x86_64-ubuntu` -> `linux_x86_64`."""
    return platform.partition("-")[0]


def _distributions(host: BuildHost) -> tuple[str, ...]:
    if host.platform == "linux_arm64":
        return ("almalinux", "ubuntu") if host.distribution == "almalinux" else ("ubuntu",)
    # Without a glibc (musl) nothing upstream built runs.
    if host.platform != "linux_x86_64" or host.glibc is None:
        return ()
    if host.glibc > _ALMALINUX_GLIBC:
        return ("ubuntu",)
    if host.glibc > _CENTOS_GLIBC:
        return ("almalinux", "ubuntu")
    return ("centos", "almalinux")


def _unknown(what: str, given: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(given, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"unknown {what} {given!r}.{hint} Known: {', '.join(known)}."
