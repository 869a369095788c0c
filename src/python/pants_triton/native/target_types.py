"""The targets that declare native code: a CMake project, and what is used of what it builds."""

from __future__ import annotations

import os
from typing import ClassVar, Optional, Tuple

from pants.core.goals.package import OutputPathField
from pants.engine.addresses import Address
from pants.engine.target import (
    COMMON_TARGET_FIELDS,
    Dependencies,
    DictStringToStringField,
    InvalidFieldException,
    MultipleSourcesField,
    OptionalSingleSourceField,
    StringField,
    StringSequenceField,
    Target,
)
from pants.util.docutil import bin_name
from pants.util.strutil import help_text

from pants_triton.native.sanitizers import SANITIZERS

# --- cmake_project ---------------------------------------------------------------------------


class CMakeProjectSourcesField(MultipleSourcesField):
    # The database is the goal `compile-commands`' own.
    default = ("**/*", "!compile_commands.json")
    uses_source_roots = False
    help = help_text(
        """
        All files of the project, relative to the BUILD file, beside which the `CMakeLists.txt` of
        its root is: sources, headers, TableGen files, CMake files, templates.

        Example: `sources=["**/*", "!python/**/*.py"]`
        """
    )


class CMakeProjectDependenciesField(Dependencies):
    help = help_text(
        """
        The artifacts that the build uses, such as `3rdparty/llvm:llvm`. Each is in the build's
        sandboxes at its `path`; in `cache` and `env`, write `{chroot}/3rdparty/llvm/llvm` for it.

        The toolchain and CMake itself come from the options of `[native]`.
        """
    )


class CMakeConfigureSourcesField(StringSequenceField):
    alias = "configure_sources"
    default = (
        *("CMakeLists.txt", "**/CMakeLists.txt", "**/*.cmake", "**/*.in", "**/*.inc.in"),
        "cmake/**/*",
    )
    value: Tuple[str, ...]
    help = help_text(
        """
        Which of the sources configuring reads, as globs like those of `sources`. It sees all others
        as empty files, so that a change of them does not configure anew. Where a `CMakeLists.txt`
        reads another file (`file(READ …)`), add it here.
        """
    )


class CMakeCacheField(DictStringToStringField):
    alias = "cache"
    help = help_text(
        """
        CMake's cache variables: `{"CMAKE_BUILD_TYPE": "Release"}` is
        `cmake -DCMAKE_BUILD_TYPE=Release`. `{chroot}` stands for the root of the sandbox. Flags
        (`CMAKE_CXX_FLAGS`, `CMAKE_EXE_LINKER_FLAGS`) come after those that make outputs the same
        everywhere.
        """
    )


class CMakeEnvField(DictStringToStringField):
    alias = "env"
    help = help_text(
        """
        Environment variables of configuring and of every edge, beside `PATH`, which has the host's
        `/usr/bin` and `/bin` only. Their values are part of every key.
        """
    )


class CMakeBuildTypeField(StringField):
    alias = "build_type"
    help = help_text(
        """
        CMake's `CMAKE_BUILD_TYPE`: `Release`, `RelWithDebInfo`, `Debug`, or one that the project
        defines, such as Triton's `TritonRelBuildWithAsserts` and `TritonBuildWithO1`. By default
        `[native].build_type`, unless `cache` has it.

        A project that is built in two ways is parametrized:
        `build_type=parametrize("Release", "TritonBuildWithO1")` makes `:triton@build_type=Release`
        and another, to name in the `project` of outputs and tests.
        """
    )


class CMakeSanitizersField(StringSequenceField):
    alias = "sanitizers"
    valid_choices = tuple(SANITIZERS)
    help = help_text(
        """
        Sanitizers to compile and link everything with, as `-fsanitize=` names them:
        `["address", "undefined"]`. By default `[native].sanitizers`. What one of them finds ends the
        program, so that its test fails. Options for tests, such as `ASAN_OPTIONS`, go into their
        `env`.

        The toolchain must have their libraries: of Debian's packages that is `libclang-rt-19-dev`.
        A library for Python has them only where Python preloads them, so test tools and GoogleTest
        programs with them. For two builds side by side:
        `sanitizers=parametrize(plain=[], asan=["address"])`.
        """
    )


class CMakeProjectTarget(Target):
    alias = "cmake_project"
    core_fields = (
        *COMMON_TARGET_FIELDS,
        CMakeProjectSourcesField,
        CMakeProjectDependenciesField,
        CMakeConfigureSourcesField,
        CMakeBuildTypeField,
        CMakeSanitizersField,
        CMakeCacheField,
        CMakeEnvField,
    )
    help = help_text(
        """
        A CMake project, built edge by edge: CMake configures it for ninja, and every edge of the
        manifest that something needs (a compile, a TableGen run, a link) is a process of its own,
        cached by what it reads.

        Nothing is built for this target itself: declare a `cmake_output` for what is used of it.
        """
    )


# --- cmake_output ----------------------------------------------------------------------------


class CMakeOutputSourceField(OptionalSingleSourceField):
    """Makes a target a `cmake_output`; there is no source."""

    alias = "_source"
    uses_source_roots = False
    expected_num_files: ClassVar[int | range] = 0


class CMakeOutputProjectField(StringField):
    alias = "project"
    required = True
    value: str
    help = "The address of the `cmake_project`."


class CMakeOutputOutputsField(StringSequenceField):
    alias = "outputs"
    required = True
    value: Tuple[str, ...]
    help = help_text(
        """
        The files to build, relative to the build folder: `["bin/triton-opt", "libtriton.so"]`. A
        ninja target that stands for files, such as a CMake target's name, means those files.
        """
    )


class CMakeOutputPathField(StringField):
    alias = "path"
    help = help_text(
        """
        Where the files are in the sandboxes of what depends on this target, each under its path in
        the build folder. By default the target's folder and name:
        `python/build/bin/triton-opt` for `python:build` and `bin/triton-opt`.
        """
    )

    @classmethod
    def compute_value(cls, raw_value: Optional[str], address: Address) -> Optional[str]:
        value = super().compute_value(raw_value, address)
        if value is not None and (
            value in ("", ".")
            or os.path.isabs(value)
            or os.path.normpath(value) != value
            or value.split("/")[0] == ".."
        ):
            raise InvalidFieldException(
                f"The `{cls.alias}` field of {address} must be a relative path without `.` and "
                f"`..`, but is {value!r}."
            )
        return value

    def in_sandbox(self, address: Address) -> str:
        """The path itself, or the default for the target at `address`."""
        return self.value or os.path.join(address.spec_path, address.target_name)


class CMakeOutputDependenciesField(Dependencies):
    pass


class CMakeOutputTarget(Target):
    alias = "cmake_output"
    core_fields = (
        *COMMON_TARGET_FIELDS,
        CMakeOutputDependenciesField,
        CMakeOutputSourceField,
        CMakeOutputProjectField,
        CMakeOutputOutputsField,
        CMakeOutputPathField,
        OutputPathField,
    )
    help = help_text(
        f"""
        Files that a `cmake_project` builds: a library, a tool.

        Tests depend on it; `{bin_name()} package` writes it to `dist/`; `{bin_name()} run` runs it, if
        it is one program.
        """
    )


NATIVE_TARGET_TYPES = (CMakeOutputTarget, CMakeProjectTarget)
