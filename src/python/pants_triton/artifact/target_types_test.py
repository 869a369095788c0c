from __future__ import annotations

from typing import Any

import pytest
from pants.engine.addresses import Address
from pants.engine.target import InvalidFieldException, InvalidTargetException, Target

from pants_triton.artifact.archives import CONDA, NVIDIA_COMPONENTS, REDIST
from pants_triton.artifact.platforms import PANTS_PLATFORMS
from pants_triton.artifact.target_types import (
    ARTIFACT_TARGET_TYPES,
    ArchiveArtifactTarget,
    ArtifactFilesTarget,
    ArtifactLockTarget,
    ArtifactPartsField,
    ArtifactPathField,
    ArtifactPlatformsField,
    ArtifactSourceField,
    ArtifactSubsetField,
    ArtifactTreeTarget,
    DebianArtifactTarget,
    DebianPlatformsField,
    LlvmToolchainTarget,
    NvidiaArchivesField,
    NvidiaPlatformsField,
    NvidiaToolchainTarget,
    WheelArtifactTarget,
)

ADDRESS = Address("3rdparty/llvm", target_name="tree")

# All that a BUILD file must say of each type.
LEAST: dict[type[Target], dict[str, Any]] = {
    LlvmToolchainTarget: {"pin": "llvm-info.json"},
    NvidiaToolchainTarget: {"pin": "nvidia-toolchain-version.json"},
    ArchiveArtifactTarget: {},
    WheelArtifactTarget: {
        "distribution": "nvidia-cuda-nvcc-cu12",
        "version": "12.8.93",
        "platforms": ["linux_x86_64"],
    },
    DebianArtifactTarget: {"packages": ["clang-19"], "suite": "bookworm"},
    ArtifactTreeTarget: {"parts": [":ptxas"]},
    ArtifactFilesTarget: {"artifacts": [":tree"]},
    ArtifactLockTarget: {"source": "artifacts.lock.json"},
}


def a_target(target_type: type[Target], **fields: Any) -> Target:
    return target_type({**LEAST[target_type], **fields}, ADDRESS)


@pytest.mark.parametrize(
    ("target_type", "field"),
    [
        pytest.param(target_type, field, id=f"{target_type.alias}-{field}")
        for target_type, fields in LEAST.items()
        for field in fields
    ],
)
def test_required_fields(target_type: type[Target], field: str) -> None:
    fields = {name: value for name, value in LEAST[target_type].items() if name != field}
    a_target(target_type)
    with pytest.raises(InvalidTargetException, match=f"'{field}'.* 3rdparty/llvm:tree must be def"):
        target_type(fields, ADDRESS)


def test_this_test_knows_all_types() -> None:
    assert set(LEAST) == set(ARTIFACT_TARGET_TYPES)


def test_which_targets_are_artifacts() -> None:
    # The others are of artifacts, but none: nothing fetches them.
    others = {t for t in ARTIFACT_TARGET_TYPES if not a_target(t).has_field(ArtifactSourceField)}
    assert others == {ArtifactFilesTarget, ArtifactLockTarget}


# --- path ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "path"),
    [
        pytest.param(Address("3rdparty/llvm", target_name="tree"), "3rdparty/llvm/tree", id="name"),
        pytest.param(Address("3rdparty/llvm"), "3rdparty/llvm/llvm", id="name of the folder"),
        pytest.param(Address("", target_name="llvm"), "llvm", id="at the root"),
    ],
)
def test_by_default_a_tree_is_where_its_target_is(address: Address, path: str) -> None:
    assert ArtifactPathField(None, address).in_sandbox(address) == path


@pytest.mark.parametrize("path", ["llvm", "tools/llvm", ".llvm", "llvm-v1..2"])
def test_path(path: str) -> None:
    assert ArtifactPathField(path, ADDRESS).in_sandbox(ADDRESS) == path


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/opt/llvm", id="absolute"),
        pytest.param("../llvm", id="out of the sandbox"),
        pytest.param("tools/../llvm", id="up and down"),
        pytest.param(".", id="the sandbox itself"),
        pytest.param("./llvm", id="dot"),
        pytest.param("tools//llvm", id="two slashes"),
        pytest.param("llvm/", id="slash at the end"),
        pytest.param("", id="empty"),
    ],
)
def test_bad_path(path: str) -> None:
    with pytest.raises(InvalidFieldException) as error:
        ArtifactPathField(path, ADDRESS)
    assert str(error.value) == (
        "The `path` field of 3rdparty/llvm:tree must be a relative path without `.` and `..`, such "
        f"as `tools/llvm`, but is {path!r}."
    )


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        pytest.param("tools/{chroot}", "must be at most 200 printable characters", id="braces"),
        pytest.param("tools\\llvm", "must be at most 200 printable characters", id="backslash"),
        pytest.param("tools/a\nb", "must be at most 200 printable characters", id="control"),
        pytest.param("a" * 201, "must be at most 200 printable characters", id="long"),
        pytest.param(
            ".pants_triton_fetch", "must not start with `.pants_triton`", id="the backend's own"
        ),
    ],
)
def test_a_path_that_nothing_can_be_at(path: str, problem: str) -> None:
    with pytest.raises(InvalidFieldException) as error:
        ArtifactPathField(path, ADDRESS)
    assert str(error.value).startswith(f"The `path` field of 3rdparty/llvm:tree {problem}")
    assert "\n" not in str(error.value)


# --- subset ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subset", "pairs"),
    [
        pytest.param(None, (), id="everything"),
        pytest.param(
            ["include", "bin/opt"],
            (("include", "include"), ("bin/opt", "bin/opt")),
            id="a list keeps places",
        ),
        pytest.param(
            {"lib": "lib/cupti", "bin": ""}, (("lib", "lib/cupti"), ("bin", "")), id="a dict moves"
        ),
    ],
)
def test_subset(subset: Any, pairs: tuple[tuple[str, str], ...]) -> None:
    assert ArtifactSubsetField(subset, ADDRESS).value == pairs


@pytest.mark.parametrize(
    "subset",
    [
        pytest.param("include", id="text"),
        pytest.param(3, id="number"),
        pytest.param(["include", 3], id="a number in a list"),
        pytest.param([["lib", "lib64"]], id="pairs"),
        pytest.param({"lib": None}, id="nowhere"),
        pytest.param({"lib": ["a", "b"]}, id="two places"),
    ],
)
def test_bad_subset(subset: Any) -> None:
    with pytest.raises(InvalidFieldException) as error:
        ArtifactSubsetField(subset, ADDRESS)
    assert str(error.value).startswith(
        "The 'subset' field in target 3rdparty/llvm:tree must be a list of paths, or a dictionary "
        "from paths to paths, but was "
    )


# --- others ----------------------------------------------------------------------------------


def test_a_tree_of_no_parts_would_be_empty() -> None:
    with pytest.raises(InvalidFieldException, match="`parts` .*3rdparty/llvm:tree is empty: name"):
        ArtifactPartsField([], ADDRESS)


def test_default_platforms() -> None:
    nvidia, debian = a_target(NvidiaToolchainTarget), a_target(DebianArtifactTarget)
    assert nvidia[NvidiaPlatformsField].value == PANTS_PLATFORMS
    assert debian[DebianPlatformsField].value == ("linux_x86_64",)
    # All are the one field to those who don't care whose they are.
    assert nvidia.get(ArtifactPlatformsField).value == PANTS_PLATFORMS


@pytest.mark.parametrize("archives", [pytest.param(value, id=value) for value in (REDIST, CONDA)])
def test_archives_of_nvidia(archives: str) -> None:
    target = a_target(NvidiaToolchainTarget, archives=archives)
    assert target[NvidiaArchivesField].value == archives


def test_unknown_archives_of_nvidia() -> None:
    with pytest.raises(InvalidTargetException, match="'archives'.*'redist'"):
        a_target(NvidiaToolchainTarget, archives="pypi")


# --- help ------------------------------------------------------------------------------------


def help_of(subject: Any) -> str:
    text = subject.help
    return str(text() if callable(text) else text)


@pytest.mark.parametrize(
    "target_type", [pytest.param(t, id=t.alias) for t in sorted(LEAST, key=lambda t: t.alias)]
)
def test_every_type_and_field_has_help(target_type: type[Target]) -> None:
    assert help_of(target_type)
    for field in target_type.core_fields:
        # A field that is named `_…` is for Pants, not for people.
        assert field.alias.startswith("_") or help_of(field), field


@pytest.mark.parametrize(
    ("target_type", "mentioned"),
    [
        pytest.param(LlvmToolchainTarget, "[artifact].llvm_system_suffix", id="suffix of LLVM"),
        pytest.param(LlvmToolchainTarget, "lock-artifacts", id="how LLVM is locked"),
        pytest.param(NvidiaToolchainTarget, "help wheel_artifact", id="another way to NVIDIA's"),
        pytest.param(WheelArtifactTarget, "[python-repos].indexes", id="where wheels are from"),
        pytest.param(DebianArtifactTarget, "LD_LIBRARY_PATH", id="how Debian's programs are run"),
        pytest.param(ArtifactFilesTarget, "docker_image", id="what wants files"),
        pytest.param(ArtifactLockTarget, "--changed-since", id="what the lock's target is for"),
    ],
)
def test_help_says(target_type: type[Target], mentioned: str) -> None:
    assert mentioned in help_of(target_type)


def test_help_lists_what_can_be_written() -> None:
    (components,) = [f for f in NvidiaToolchainTarget.core_fields if f.alias == "components"]
    for name in NVIDIA_COMPONENTS:
        assert f"`{name}`" in help_of(components)
    for platform in PANTS_PLATFORMS:
        assert f"`{platform}`" in help_of(ArtifactPlatformsField)
