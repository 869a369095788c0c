"""`gtest_tests`: the GoogleTest programs of a CMake project."""

from __future__ import annotations

from typing import ClassVar

from pants.core.goals.test import TestTimeoutField
from pants.engine.target import (
    COMMON_TARGET_FIELDS,
    DictStringToStringField,
    IntField,
    OptionalSingleSourceField,
    Target,
    ValidNumbers,
)
from pants.util.strutil import help_text

from pants_triton.hardware.target_types import tag_by_hardware
from pants_triton.native.target_types import (
    CMakeOutputDependenciesField,
    CMakeOutputProjectField,
)


class GTestSourceField(OptionalSingleSourceField):
    """Makes a target `gtest_tests`; there is no source."""

    alias = "_source"
    uses_source_roots = False
    expected_num_files: ClassVar[int | range] = 0


class GTestDependenciesField(CMakeOutputDependenciesField):
    """Depends on its `project` as a `cmake_output` does."""


class GTestEnvField(DictStringToStringField):
    alias = "env"
    help = help_text(
        """
        Environment variables of the test programs, beside those of `[test].extra_env_vars`. Their values
        are part of the cache key.
        """
    )


class GTestShardsField(IntField):
    alias = "shards"
    default = 1
    value: int
    valid_numbers = ValidNumbers.positive_only
    help = help_text(
        """
        In how many processes each program's tests run, side by side (`GTEST_TOTAL_SHARDS`).
        """
    )


class GTestTimeoutField(TestTimeoutField):
    help = help_text(
        """
        After how many seconds a program is ended. By default `[test].timeout_default`.
        """
    )


class GTestTestsTarget(Target):
    alias = "gtest_tests"
    core_fields = (
        *COMMON_TARGET_FIELDS,
        CMakeOutputProjectField,
        GTestDependenciesField,
        GTestSourceField,
        GTestEnvField,
        GTestShardsField,
        GTestTimeoutField,
    )
    help = help_text(
        """
        All GoogleTest programs of a `cmake_project`: those that CTest would run, each built and run
        as a process of its own. They are found when tests are run, and not listed as targets.

        A program that CTest starts by another command (`add_test(COMMAND wrapper program)`, CMake's
        `CROSSCOMPILING_EMULATOR`) is started by it here, too, with what the command's words name. A
        test of CTest without a program of the project is not run, and reported by name.

        They run on the CPU and have the tag `cpu`. Select tests with `-- --gtest_filter=…`.
        """
    )

    def validate(self) -> None:
        super().validate()
        tag_by_hardware(self, "cpu")
