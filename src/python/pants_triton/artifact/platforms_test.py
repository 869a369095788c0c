from __future__ import annotations

from typing import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pants_triton.artifact.lock import ANY_PLATFORM
from pants_triton.artifact.platforms import (
    BuildHost,
    PlatformError,
    base_platform,
    build_host,
    candidates,
    platform_for,
    platform_suffix,
    suffix_platform,
)

ALMALINUX_8 = (
    'NAME="AlmaLinux"\nVERSION="8.10 (Cerulean Leopard)"\nID="almalinux"\nID_LIKE="rhel"\n'
)
UBUNTU_22 = 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\nVERSION_ID="22.04"\nID=ubuntu\nID_LIKE=debian\n'

# What upstream built for, by when: the suffixes a tree of that day could choose from.
IN_2023 = ("centos-x64", "macos-arm64", "macos-x64", "ubuntu-arm64", "ubuntu-x64")
IN_2024 = ("almalinux-x64", *IN_2023)
IN_2025 = ("almalinux-arm64", *IN_2024)
SINCE_OCTOBER_2025 = tuple(suffix for suffix in IN_2025 if suffix != "centos-x64")


@pytest.mark.parametrize(
    "platform, libc, os_release, host",
    [
        pytest.param("linux_x86_64", "2.35", UBUNTU_22, ((2, 35), "ubuntu"), id="Ubuntu"),
        pytest.param("linux_arm64", "2.28", ALMALINUX_8, ((2, 28), "almalinux"), id="quoted ID"),
        pytest.param("linux_x86_64", "2.39.9000", "", ((2, 39), ""), id="development glibc"),
        pytest.param("linux_x86_64", "", "ID='alpine'\n", (None, "alpine"), id="no glibc"),
        pytest.param("macos_arm64", "", "", (None, ""), id="macOS"),
    ],
)
def test_a_host_from_what_was_observed(
    platform: str, libc: str, os_release: str, host: tuple[tuple[int, int] | None, str]
) -> None:
    assert build_host(platform, libc, os_release) == BuildHost(platform, *host)


@pytest.mark.parametrize(
    "platform, libc, message",
    [
        pytest.param("linux_x86", "2.35", "Did you mean 'linux_x86_64'?", id="misspelt"),
        pytest.param("windows_x86_64", "", "unknown platform", id="Pants runs elsewhere"),
        pytest.param("linux_x86_64", "two", "like `2.36`, got 'two'", id="version"),
    ],
)
def test_malformed_hosts(platform: str, libc: str, message: str) -> None:
    with pytest.raises(PlatformError) as e:
        build_host(platform, libc)
    assert message in str(e.value)


# What setup.py or build_helpers.py of the day chose on such a host.
@pytest.mark.parametrize(
    "built, platform, libc, os_release, suffix",
    [
        pytest.param(IN_2023, "linux_x86_64", "2.35", "", "ubuntu-x64", id="2023, Ubuntu 22"),
        pytest.param(IN_2023, "linux_x86_64", "2.28", "", "ubuntu-x64", id="2023, AlmaLinux 8"),
        pytest.param(IN_2023, "linux_x86_64", "2.17", "", "centos-x64", id="2023, CentOS 7"),
        pytest.param(IN_2023, "linux_arm64", "2.31", "", "ubuntu-arm64", id="2023, arm64"),
        pytest.param(IN_2024, "linux_x86_64", "2.39", "", "ubuntu-x64", id="2024, Ubuntu 24"),
        pytest.param(IN_2024, "linux_x86_64", "2.29", "", "ubuntu-x64", id="2024, just newer"),
        pytest.param(IN_2024, "linux_x86_64", "2.28", "", "almalinux-x64", id="2024, AlmaLinux 8"),
        pytest.param(IN_2024, "linux_x86_64", "2.18", "", "almalinux-x64", id="2024, oldest"),
        pytest.param(IN_2024, "linux_x86_64", "2.17", "", "centos-x64", id="2024, CentOS 7"),
        pytest.param(IN_2024, "linux_arm64", "2.28", ALMALINUX_8, "ubuntu-arm64", id="2024, arm64"),
        pytest.param(
            IN_2025, "linux_arm64", "2.28", ALMALINUX_8, "almalinux-arm64", id="2025, AlmaLinux"
        ),
        pytest.param(IN_2025, "linux_arm64", "2.35", UBUNTU_22, "ubuntu-arm64", id="2025, Ubuntu"),
        pytest.param(
            SINCE_OCTOBER_2025, "linux_x86_64", "2.28", "", "almalinux-x64", id="2026, AlmaLinux 8"
        ),
        pytest.param(
            SINCE_OCTOBER_2025, "linux_x86_64", "2.17", "", "almalinux-x64", id="2026, CentOS 7"
        ),
        pytest.param(SINCE_OCTOBER_2025, "linux_x86_64", "2.36", "", "ubuntu-x64", id="2026"),
        pytest.param(SINCE_OCTOBER_2025, "macos_x86_64", "", "", "macos-x64", id="macOS, Intel"),
        pytest.param(SINCE_OCTOBER_2025, "macos_arm64", "", "", "macos-arm64", id="macOS, Apple"),
    ],
)
def test_the_archive_that_upstream_chose(
    built: tuple[str, ...], platform: str, libc: str, os_release: str, suffix: str
) -> None:
    known = [suffix_platform(s) for s in built]
    chosen = platform_for(build_host(platform, libc, os_release), known)
    assert platform_suffix(chosen) == suffix


def test_artifacts_without_distributions() -> None:
    host = build_host("linux_x86_64", "2.36")
    assert platform_for(host, ["linux_arm64", "linux_x86_64"]) == "linux_x86_64"
    assert platform_for(host, [ANY_PLATFORM]) == ANY_PLATFORM


def test_where_nothing_suits_the_first_choice_is_asked_for() -> None:
    assert platform_for(build_host("linux_x86_64", "2.36"), ["macos_arm64"]) == (
        "linux_x86_64-ubuntu"
    )
    assert platform_for(build_host("macos_arm64"), ["linux_x86_64"]) == "macos_arm64"


def test_musl_gets_nothing_that_needs_glibc() -> None:
    assert candidates(build_host("linux_x86_64")) == ("linux_x86_64", ANY_PLATFORM)


@pytest.mark.parametrize(
    "suffix, platform",
    [
        ("ubuntu-x64", "linux_x86_64-ubuntu"),
        ("almalinux-arm64", "linux_arm64-almalinux"),
        ("macos-arm64", "macos_arm64"),
        ("windows-x64", "windows_x86_64"),
    ],
)
def test_suffixes_and_platforms_are_each_others_inverse(suffix: str, platform: str) -> None:
    assert suffix_platform(suffix) == platform
    assert platform_suffix(platform) == suffix


@pytest.mark.parametrize("suffix", ["", "ubuntu", "ubuntu-x86_64", "-x64", "Ubuntu-x64", "a/b-x64"])
def test_malformed_suffixes(suffix: str) -> None:
    with pytest.raises(PlatformError, match="`<system>-<arch>`"):
        suffix_platform(suffix)


@pytest.mark.parametrize("platform", ["linux_x86_64", "macos_arm64-ubuntu", "linux_x64-ubuntu", ""])
def test_platforms_that_upstream_has_no_suffix_for(platform: str) -> None:
    with pytest.raises(PlatformError, match="upstream has no suffix"):
        platform_suffix(platform)


def test_base_platform() -> None:
    assert base_platform("linux_x86_64-ubuntu") == "linux_x86_64"
    assert base_platform("macos_arm64") == "macos_arm64"


@given(st.text(max_size=20))
def test_any_text_is_a_platform_or_an_error(text: str) -> None:
    parsers: tuple[Callable[[str], object], ...] = (suffix_platform, platform_suffix, build_host)
    for parse in parsers:
        try:
            parse(text)
        except PlatformError as e:
            assert "\n" not in str(e)
