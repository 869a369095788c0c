"""`triton_package`: a Python package assembled of sources and of what native builds make."""

from __future__ import annotations

import os
from typing import Optional, Tuple

from pants.engine.addresses import Address
from pants.engine.target import (
    COMMON_TARGET_FIELDS,
    Dependencies,
    DictStringToStringField,
    InvalidFieldException,
    MultipleSourcesField,
    StringField,
    Target,
)
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


class TritonPackageTarget(Target):
    alias = "triton_package"
    core_fields = (
        *COMMON_TARGET_FIELDS,
        TritonPackageDependenciesField,
        TritonPackageSourcesField,
        TritonPackageRootField,
        TritonPackagePartsField,
        TritonPackagePathField,
    )
    help = help_text(
        """
        Triton's Python package, assembled as its own set-up does: Python sources, the extension that
        a `cmake_project` builds, the tools of artifacts.

        `triton_tests` that depend on it import it from their sandbox; one of it serves the tests of
        all hardware.
        """
    )
