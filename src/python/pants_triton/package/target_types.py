"""`triton_package`: a Python package assembled of sources and of what native builds make."""

from __future__ import annotations

import os
from typing import Optional, Tuple

from pants.core.goals.package import OutputPathField
from pants.engine.addresses import Address
from pants.engine.target import (
    COMMON_TARGET_FIELDS,
    Dependencies,
    DictStringToStringField,
    DictStringToStringSequenceField,
    InvalidFieldException,
    MultipleSourcesField,
    StringField,
    StringSequenceField,
    Target,
)
from pants.util.docutil import bin_name
from pants.util.strutil import help_text


def _checked_path(alias: str, value: str, address: Address) -> None:
    if value and (os.path.isabs(value) or os.path.normpath(value) != value or value[:2] == ".."):
        raise InvalidFieldException(
            f"The `{alias}` field of {address} must have relative paths without `.` and `..`, but "
            f"has {value!r}."
        )


class TritonPackageSourcesField(MultipleSourcesField):
    required = True
    uses_source_roots = False
    help = help_text(
        """
        The package's own files: `sources=["python/triton/**/*.py"]`. Pants' inference doesn't see
        them: what is imported of the package is what is assembled here.
        """
    )


class TritonPackageRootField(StringField):
    alias = "root"
    default = ""
    value: str
    help = help_text(
        """
        The folder, relative to the BUILD file, from which the package is imported: `python` for
        `python/triton/__init__.py`.
        """
    )

    @classmethod
    def compute_value(cls, raw_value: Optional[str], address: Address) -> Optional[str]:
        value = super().compute_value(raw_value, address)
        _checked_path(cls.alias, value or "", address)
        return value


class TritonPackageSourceFoldersField(DictStringToStringField):
    alias = "source_folders"
    help = help_text(
        f"""
        Folders of sources that are elsewhere in the package, relative to the BUILD file, and where each
        is there. What Triton's own set-up makes links of. The deepest folder decides; all other sources
        are below `{TritonPackageRootField.alias}`.

        Example: `{{"third_party/nvidia/backend": "triton/backends/nvidia"}}`
        """
    )

    @classmethod
    def compute_value(cls, raw_value, address: Address):
        value = super().compute_value(raw_value, address)
        for path in (path for pair in (value or {}).items() for path in pair):
            _checked_path(cls.alias, path, address)
        return value


class TritonPackagePartsField(DictStringToStringField):
    alias = "parts"
    help = help_text(
        """
        What else is in the package, by address, and the folder it is in: the files of a
        `cmake_output` without their folders, the whole tree of an artifact.

        Example: `{":libtriton": "triton/_C", "3rdparty/nvidia:nvidia": "triton/backends/nvidia"}`
        """
    )

    @classmethod
    def compute_value(cls, raw_value, address: Address):
        value = super().compute_value(raw_value, address)
        for folder in (value or {}).values():
            _checked_path(cls.alias, folder, address)
        return value

    @property
    def addresses(self) -> Tuple[str, ...]:
        return tuple(self.value or ())


class TritonPackagePathField(StringField):
    alias = "path"
    help = help_text(
        """
        Where the package's root is in the sandboxes of tests. By default the target's folder and
        name. It is on `sys.path` there.
        """
    )

    @classmethod
    def compute_value(cls, raw_value: Optional[str], address: Address) -> Optional[str]:
        value = super().compute_value(raw_value, address)
        _checked_path(cls.alias, value or "", address)
        return value

    def in_sandbox(self, address: Address) -> str:
        """The path itself, or the default for the target at `address`."""
        return self.value or os.path.join(address.spec_path, address.target_name)


class TritonPackageDependenciesField(Dependencies):
    pass


# --- its wheel -------------------------------------------------------------------------------


class WheelVersionField(StringField):
    alias = "version"
    help = help_text(
        """
        The version of the wheel that `package` makes; without it there is none. The option
        `[triton-wheel].version_suffix` puts something behind it.
        """
    )


class WheelDistributionField(StringField):
    alias = "distribution"
    help = help_text(
        """
        The name of the wheel, as in `pip install`. By default that of its one folder with an
        `__init__.py`.
        """
    )


class WheelRequiresPythonField(StringField):
    alias = "requires_python"
    help = "The Pythons that the wheel is for, as pip takes them: `>=3.9,<3.14`."


class WheelRequiresField(StringSequenceField):
    alias = "requires"
    help = 'What the wheel depends on, as pip takes it: `["numpy>=1.20"]`.'


class WheelExtrasField(DictStringToStringSequenceField):
    alias = "extras"
    help = 'What else it depends on, by extras: `{"tests": ["pytest", "scipy>=1.7.1"]}`.'


class WheelEntryPointsField(DictStringToStringSequenceField):
    alias = "entry_points"
    help = help_text(
        """
        Entry points by their groups, as in Triton's own set-up:
        `{"console_scripts": ["proton = triton.profiler.proton:main"],
        "triton.backends": ["nvidia = triton.backends.nvidia"]}`
        """
    )


class WheelMetadataField(DictStringToStringSequenceField):
    alias = "metadata"
    help = help_text(
        """
        What else is told about the wheel, by the names of core metadata:
        `{"Summary": ["A language and compiler"], "Classifier": ["…", "…"]}`
        """
    )


class WheelPythonTagField(StringField):
    alias = "python_tag"
    help = help_text(
        """
        The Python of the wheel's tag. By default that whose headers the project compiles with
        (`cp311`), or `py3` where it compiles with none.
        """
    )


class WheelAbiTagField(StringField):
    alias = "abi_tag"
    help = help_text(
        f"""
        The ABI of the wheel's tag: `abi3` for an extension with Python's limited API. By default as
        `{WheelPythonTagField.alias}`, or `none`.
        """
    )


class WheelPlatformTagField(StringField):
    alias = "platform_tag"
    help = help_text(
        """
        The platform of the wheel's tag. By default the oldest on which all that it needs is there:
        `any`, or for native code what auditwheel finds, such as `manylinux_2_36_x86_64`. If that is
        newer than what is said here, it is an error.

        With `linux_x86_64` or `linux_aarch64`, the wheel is what was built, without the libraries that
        it needs and without a check: for machines that have those.
        """
    )


class WheelLibrariesField(StringSequenceField):
    alias = "libraries"
    help = help_text(
        """
        Artifacts with shared libraries, such as `3rdparty/llvm:llvm`. Those that the package's native
        code needs are put into the wheel, where it finds them, under names that can't clash with
        others'. It runs on machines without the artifact then. Tests don't get them: they depend on
        the artifact itself.
        """
    )


class WheelSystemLibrariesField(StringSequenceField):
    alias = "system_libraries"
    help = help_text(
        """
        Shared libraries that the machines have where the wheel is installed, such as `libcuda.so.1`, by
        the names that they are loaded by; `*` stands for any part. They are not put into the wheel. The
        C and C++ libraries and what else every Linux has (PEP 600) need not be named.
        """
    )


WHEEL_FIELDS = (
    WheelAbiTagField,
    WheelDistributionField,
    WheelEntryPointsField,
    WheelExtrasField,
    WheelLibrariesField,
    WheelMetadataField,
    WheelPlatformTagField,
    WheelPythonTagField,
    WheelRequiresField,
    WheelRequiresPythonField,
    WheelSystemLibrariesField,
    WheelVersionField,
)


class TritonPackageTarget(Target):
    alias = "triton_package"
    core_fields = (
        *COMMON_TARGET_FIELDS,
        TritonPackageDependenciesField,
        TritonPackageSourcesField,
        TritonPackageRootField,
        TritonPackageSourceFoldersField,
        TritonPackagePartsField,
        TritonPackagePathField,
        *WHEEL_FIELDS,
        OutputPathField,
    )
    help = help_text(
        f"""
        Triton's Python package, assembled as its own set-up does: Python sources, the extension that
        a `cmake_project` builds, the tools of artifacts.

        `triton_tests` that depend on it import it from their sandbox; one of it serves the tests of
        all hardware. `{bin_name()} package` makes a wheel of it, if it has a
        `{WheelVersionField.alias}`.
        """
    )
