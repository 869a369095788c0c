"""The targets that declare artifacts: trees of files that others made, known by their digests."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Iterable, Mapping, Optional, Tuple

from pants.engine.addresses import Address
from pants.engine.target import (
    COMMON_TARGET_FIELDS,
    Dependencies,
    DictStringToStringField,
    Field,
    InvalidFieldException,
    InvalidFieldTypeException,
    OptionalSingleSourceField,
    SpecialCasedDependencies,
    StringField,
    StringSequenceField,
    Target,
)
from pants.util.strutil import help_text

from pants_triton.artifact.archives import CONDA, NVIDIA_COMPONENTS, REDIST
from pants_triton.artifact.lock import ANY_PLATFORM
from pants_triton.artifact.platforms import PANTS_PLATFORMS

_PLATFORMS_HELP = f"{', '.join(f'`{p}`' for p in PANTS_PLATFORMS)} or `{ANY_PLATFORM}`"


# What this backend's own files in sandboxes start with.
_RESERVED = ".pants_triton"


# --- fields of all artifacts -----------------------------------------------------------------


class ArtifactLintedField(OptionalSingleSourceField):
    """What the linter `artifact-pins` looks at: a pin, or the lock."""


class ArtifactSourceField(ArtifactLintedField):
    """Makes a target an artifact. Where it has a pin, that is the source; else there is none."""

    alias = "_source"
    uses_source_roots = False
    expected_num_files: ClassVar[int | range] = 0


class ArtifactPinField(ArtifactSourceField):
    alias = "pin"
    # That a required one is there is told by the rule that reads it: Pants would stop at it.
    expected_num_files: ClassVar[int | range] = range(0, 2)


class ArtifactDependenciesField(Dependencies):
    pass


class ArtifactPathField(StringField):
    alias = "path"
    help = help_text(
        """
        Where the tree is in the sandboxes of what depends on this target, relative to their root.

        By default that is the target's folder and name: `3rdparty/llvm/tree` for
        `3rdparty/llvm:tree`. In `env` of a test, write `{chroot}/3rdparty/llvm/tree` for it.
        """
    )

    @classmethod
    def compute_value(cls, raw_value: Optional[str], address: Address) -> Optional[str]:
        value = super().compute_value(raw_value, address)
        if value is None:
            return None
        if any(part in ("", ".", "..") for part in value.split("/")):
            raise InvalidFieldException(
                f"The `{cls.alias}` field of {address} must be a relative path without `.` and "
                f"`..`, such as `tools/llvm`, but is {value!r}."
            )
        # Braces are what `{chroot}` in a test's `env` is filled in by.
        if len(value) > 200 or not value.isprintable() or set(value) & set("{}\\"):
            raise InvalidFieldException(
                f"The `{cls.alias}` field of {address} must be at most 200 printable characters "
                f"without `{{`, `}}` and `\\`, such as `tools/llvm`, but is {value[:200]!r}."
            )
        if value.startswith(_RESERVED):
            raise InvalidFieldException(
                f"The `{cls.alias}` field of {address} must not start with `{_RESERVED}`, which this "
                f"backend's own files do, but is {value!r}: name another, such as `tools/llvm`."
            )
        return value

    def in_sandbox(self, address: Address) -> str:
        """The path itself, or the default for the target at `address`."""
        return self.value or os.path.join(address.spec_path, address.target_name)


class ArtifactSubsetField(Field):
    alias = "subset"
    help = help_text(
        """
        Which files and folders are kept, after `strip`; a folder stands for all below it.

        A list keeps them in place: `["include"]`. A dictionary also says where each goes in the
        tree: `{"bin/ptxas": "bin/ptxas-blackwell", "lib": "lib/cupti"}`; the empty path is the
        tree's root. Without it, everything is kept.
        """
    )
    value: Tuple[Tuple[str, str], ...]
    default = ()

    @classmethod
    def compute_value(cls, raw_value: Any, address: Address) -> Tuple[Tuple[str, str], ...]:
        value = super().compute_value(raw_value, address)
        if isinstance(value, Mapping):
            pairs = tuple(value.items())
        elif isinstance(value, Iterable) and not isinstance(value, str):
            pairs = tuple((member, member) for member in value)
        else:
            pairs = ((None, None),)
        if not all(isinstance(text, str) for pair in pairs for text in pair):
            raise InvalidFieldTypeException(
                address,
                cls.alias,
                raw_value,
                expected_type="a list of paths, or a dictionary from paths to paths",
            )
        return pairs


class ArtifactStripField(StringField):
    alias = "strip"
    default = ""
    value: str
    help = help_text(
        """
        The folder that all of the archive is in, left out of the tree: `googletest-1.17.0`. What
        is beside it is left out.
        """
    )


class ArtifactPlatformsField(StringSequenceField):
    alias = "platforms"
    value: Tuple[str, ...]
    help = help_text(
        f"""
        The platforms to lock the artifact for: {_PLATFORMS_HELP}, which is for files that are the
        same everywhere.
        """
    )


_COMMON = (
    *COMMON_TARGET_FIELDS,
    ArtifactDependenciesField,
    ArtifactPathField,
)


# --- llvm_toolchain --------------------------------------------------------------------------


class LlvmPinField(ArtifactPinField):
    required = True
    help = help_text(
        """
        Triton's `cmake/llvm-info.json` (since May 2026) or `cmake/llvm-hash.txt` (before), relative
        to the BUILD file, which stands in the same folder or above.
        """
    )


class LlvmStoresField(StringSequenceField):
    alias = "stores"
    help = help_text(
        """
        URLs of the folders that have the archives, tried in order when the lock is made. By default
        those of Triton's upstream, or what the pin itself names.
        """
    )


class LlvmToolchainTarget(Target):
    alias = "llvm_toolchain"
    core_fields = (*_COMMON, LlvmPinField, LlvmStoresField)
    help = help_text(
        """
        The LLVM that Triton's upstream builds for itself, by Triton's own pin.

        The archive is picked as Triton's own set-up does: by operating system, architecture and,
        on Linux, the version of glibc. `[artifact].llvm_system_suffix` picks another, like Triton's
        `TRITON_LLVM_SYSTEM_SUFFIX`.

        Run `./pants lock-artifacts` when the pin moves.
        """
    )


# --- nvidia_toolchain ------------------------------------------------------------------------


class NvidiaPinField(ArtifactPinField):
    required = True
    help = help_text(
        """
        Triton's `cmake/nvidia-toolchain-version.json` of any generation, relative to the BUILD
        file, which stands in the same folder or above.
        """
    )


class NvidiaComponentsField(StringSequenceField):
    alias = "components"
    help = help_text(
        f"""
        Which of the pin's components to take, by default all. Known are
        {', '.join(f'`{name}`' for name in NVIDIA_COMPONENTS)}.
        """
    )


class NvidiaArchivesField(StringField):
    alias = "archives"
    valid_choices = (REDIST, CONDA)
    help = help_text(
        f"""
        Where the archives come from: `{REDIST}`, NVIDIA's redistributables, or `{CONDA}`, its conda
        packages. By default what Triton used for the pin's versions: `{CONDA}` until CUDA 12.4.
        """
    )


class NvidiaPlatformsField(ArtifactPlatformsField):
    default = PANTS_PLATFORMS
    help = help_text(
        f"""
        The platforms to lock the tools for, of {', '.join(f'`{p}`' for p in PANTS_PLATFORMS)}. On
        macOS these are Linux's archives, as Triton has it, for the headers.
        """
    )


class NvidiaToolchainTarget(Target):
    alias = "nvidia_toolchain"
    core_fields = (
        *_COMMON,
        NvidiaPinField,
        NvidiaComponentsField,
        NvidiaArchivesField,
        NvidiaPlatformsField,
    )
    help = help_text(
        """
        NVIDIA's tools and headers by Triton's own pin, laid out as Triton's `third_party/nvidia/backend`
        wants them: `bin/ptxas`, `include/cuda.h`, `lib/cupti`.

        Where NVIDIA's archives can't be reached, a package index has the same parts: see
        `./pants help wheel_artifact`.

        Run `./pants lock-artifacts` when the pin moves.
        """
    )


# --- archive_artifact ------------------------------------------------------------------------


class ArchivePinField(ArtifactPinField):
    help = help_text(
        """
        A file with the archive's version and nothing else, such as Triton's
        `cmake/json-version.txt`, relative to the BUILD file. In `url`, `urls` and `strip`, `{pin}`
        stands for its content, and `{pin_version}` for that without a leading `v`.
        """
    )


class ArchiveUrlField(StringField):
    alias = "url"
    help = help_text(
        """
        The archive's `https:`, `http:` or `file:` URL, without credentials (those come from netrc or
        `[artifact].credentials`) and without a query, which the lock would publish as well. A `.tar` with any usual compression, or a `.zip`. For archives
        that differ by platform, use `urls`.
        """
    )


class ArchiveUrlsField(DictStringToStringField):
    alias = "urls"
    help = help_text(
        f"""
        The archive's URL for each platform, of {_PLATFORMS_HELP}; see `{ArchiveUrlField.alias}`.
        """
    )


class ArchiveArtifactTarget(Target):
    alias = "archive_artifact"
    core_fields = (
        *_COMMON,
        ArchiveUrlField,
        ArchiveUrlsField,
        ArchivePinField,
        ArtifactStripField,
        ArtifactSubsetField,
    )
    help = help_text(
        """
        The content of an archive at a URL.

        Its digest is in the lock: run `./pants lock-artifacts` after a change.
        """
    )


# --- wheel_artifact --------------------------------------------------------------------------


class WheelDistributionField(StringField):
    alias = "distribution"
    required = True
    value: str
    help = "The project's name on the package index, such as `nvidia-cuda-nvcc-cu12`."


class WheelVersionField(StringField):
    alias = "version"
    required = True
    value: str
    help = "The exact version, such as `12.8.93`."


class WheelPlatformsField(ArtifactPlatformsField):
    required = True


class WheelArtifactTarget(Target):
    alias = "wheel_artifact"
    core_fields = (
        *_COMMON,
        ArtifactSourceField,
        WheelDistributionField,
        WheelVersionField,
        WheelPlatformsField,
        ArtifactStripField,
        ArtifactSubsetField,
    )
    help = help_text(
        """
        Files out of a wheel that the package indexes of `[python-repos].indexes` serve.

        NVIDIA publishes its tools as wheels too, which is how they are had where only a package
        index can be reached. Nothing is installed: the wheel is an archive like another.

        Its digest is in the lock: run `./pants lock-artifacts` after a change.
        """
    )


# --- debian_artifact -------------------------------------------------------------------------


class DebianPackagesField(StringSequenceField):
    alias = "packages"
    required = True
    value: Tuple[str, ...]
    help = help_text(
        """
        The packages, as `name` or `name=version`. All that they depend on is taken too, as of when
        the lock was made; what they merely recommend is not.
        """
    )


class DebianSuiteField(StringField):
    alias = "suite"
    required = True
    value: str
    help = help_text(
        """
        The suite of Debian, such as `bookworm`. An old one is best: it is frozen, so that its
        versions stay served, and its programs run on every newer distribution.
        """
    )


class DebianPlatformsField(ArtifactPlatformsField):
    default = ("linux_x86_64",)
    help = help_text(
        f"""
        The platforms to lock the packages for: `linux_x86_64`, `linux_arm64`, or `{ANY_PLATFORM}`,
        if neither the packages nor what they depend on have programs (Debian's architecture `all`).
        """
    )


class DebianArtifactTarget(Target):
    alias = "debian_artifact"
    core_fields = (
        *_COMMON,
        ArtifactSourceField,
        DebianPackagesField,
        DebianSuiteField,
        DebianPlatformsField,
        ArtifactSubsetField,
    )
    help = help_text(
        """
        Debian packages and all that they depend on, unpacked into one tree: a sysroot, a compiler.

        They are fetched with apt from the mirror in the host's own apt sources (or
        `[artifact].debian_mirror`), without root, without installing anything, and with Debian's
        signatures checked; their exact versions and digests are in the lock: run
        `./pants lock-artifacts` after a change.

        In the tree, `.libraries` has links to all shared libraries but libc's own, to be named in
        `LD_LIBRARY_PATH` when its programs are run.
        """
    )


# --- artifact_tree ---------------------------------------------------------------------------


class ArtifactPartsField(SpecialCasedDependencies):
    alias = "parts"
    required = True
    value: Optional[Tuple[str, ...]]
    help = help_text(
        """
        The addresses of the artifacts to lay over each other. Where two have the same file, the
        later one's is taken.
        """
    )

    @classmethod
    def compute_value(
        cls, raw_value: Optional[Iterable[str]], address: Address
    ) -> Optional[Tuple[str, ...]]:
        value = super().compute_value(raw_value, address)
        if not value:
            raise InvalidFieldException(
                f"The `{cls.alias}` field of {address} is empty: name at least one artifact."
            )
        return value


class ArtifactTreeTarget(Target):
    alias = "artifact_tree"
    core_fields = (*_COMMON, ArtifactSourceField, ArtifactPartsField)
    help = help_text(
        """
        Several artifacts in one tree, such as all of NVIDIA's tools, each of which is a wheel of its
        own.
        """
    )


# --- artifact_files --------------------------------------------------------------------------


class ArtifactsField(SpecialCasedDependencies):
    alias = "artifacts"
    required = True
    help = "The addresses of the artifacts."


class ArtifactFilesSourceField(OptionalSingleSourceField):
    # Code is generated from sources: this is what makes Pants ask for it.
    alias = "_source"
    uses_source_roots = False
    expected_num_files = 0


class ArtifactFilesTarget(Target):
    alias = "artifact_files"
    core_fields = (*COMMON_TARGET_FIELDS, ArtifactsField, ArtifactFilesSourceField)
    help = help_text(
        f"""
        Artifacts as ordinary files, like those of a `files` target, for Pants' own targets:
        `docker_image`, `archive`, `adhoc_tool` and the like. Each is at its
        `{ArtifactPathField.alias}`.

        `triton_tests` and `python_tests` need no such target: they depend on the artifact itself.
        """
    )


# --- artifact_lock ---------------------------------------------------------------------------


class ArtifactLockSourceField(ArtifactLintedField):
    required = True
    # There is none before `lock-artifacts` ran for the first time.
    expected_num_files: ClassVar[int | range] = range(0, 2)
    uses_source_roots = False
    help = help_text(
        """
        The lock's file, which `[artifact].lock` names as well. `./pants lock-artifacts` makes
        it.
        """
    )


class ArtifactLockTarget(Target):
    alias = "artifact_lock"
    core_fields = (*COMMON_TARGET_FIELDS, Dependencies, ArtifactLockSourceField)
    help = help_text(
        """
        The lock of all artifacts of this workspace: where each is found, and its digests.

        Every artifact depends on it by itself, so that `--changed-since` with
        `--changed-dependents` sees what a new lock affects.
        """
    )


ARTIFACT_TARGET_TYPES = (
    ArchiveArtifactTarget,
    ArtifactFilesTarget,
    ArtifactLockTarget,
    ArtifactTreeTarget,
    DebianArtifactTarget,
    LlvmToolchainTarget,
    NvidiaToolchainTarget,
    WheelArtifactTarget,
)
