"""`lit_tests` and `lit_test`: files that LLVM's test runner lit runs."""

from __future__ import annotations

import os
from typing import Optional, Tuple

from pants.core.goals.test import TestTimeoutField
from pants.engine.addresses import Address
from pants.engine.target import (
    COMMON_TARGET_FIELDS,
    Dependencies,
    DictStringToStringField,
    InvalidFieldException,
    MultipleSourcesField,
    OverridesField,
    SingleSourceField,
    StringField,
    StringSequenceField,
    Target,
    TargetGenerator,
    generate_file_based_overrides_field_help_message,
    generate_multiple_sources_field_help_message,
)
from pants.util.docutil import bin_name
from pants.util.strutil import help_text

from pants_triton.hardware.requirement import RequirementError, parse_requirement
from pants_triton.hardware.target_types import (
    ArchField,
    DevicesField,
    ExclusiveDeviceField,
    HardwareField,
    tag_by_hardware,
)
from pants_triton.testing.lit_plan import LitPlanError, path_in_suite, suite_root
from pants_triton.testing.target_types import RESERVED_VARIABLES


class LitTestSourceField(SingleSourceField):
    uses_source_roots = False


class LitTestsGeneratingSourcesField(MultipleSourcesField):
    uses_source_roots = False
    default = ("**/*.mlir", "**/*.ll", "**/*.test", "!**/Inputs/**")
    help = generate_multiple_sources_field_help_message(
        "Example: `sources=['test/**/*.mlir', '!test/Analysis/**']`. By default, the files below "
        "`root` with the usual endings."
    )


class _RelativePathField(StringField):
    @classmethod
    def compute_value(cls, raw_value: Optional[str], address: Address) -> Optional[str]:
        value = super().compute_value(raw_value, address)
        if value is None:
            return None
        normal = os.path.normpath(value)
        if os.path.isabs(value) or normal.split("/")[0] == "..":
            raise InvalidFieldException(
                f"The `{cls.alias}` field of {address} must be a relative path without `..`, but is "
                f"{value!r}."
            )
        return "" if normal == "." else normal


class LitRootField(_RelativePathField):
    alias = "root"
    help = help_text(
        """
        The folder of the suite, which has its `lit.cfg.py`, relative to the BUILD file: `root="test"`.
        By default the BUILD file's own.
        """
    )


class LitProjectField(StringField):
    alias = "project"
    required = True
    value: str
    help = help_text(
        """
        The address of the `cmake_project` whose CMake files configure the suite, with
        `configure_lit_site_cfg(…)`. What of it is to be built is said by `tools`.
        """
    )


class LitSiteConfigField(_RelativePathField):
    alias = "site_config"
    help = help_text(
        f"""
        The `lit.site.cfg.py` that configuring `{LitProjectField.alias}` writes, relative to the build
        folder. By default it is where the suite's `{LitRootField.alias}` is in the project:
        `test/lit.site.cfg.py`.
        """
    )

    @classmethod
    def compute_value(cls, raw_value: Optional[str], address: Address) -> Optional[str]:
        value = super().compute_value(raw_value, address)
        if value is not None and os.path.basename(value) not in LIT_SITE_CONFIGS:
            raise InvalidFieldException(
                f"The `{cls.alias}` field of {address} must end in `{LIT_SITE_CONFIGS[0]}`, which is "
                f"what lit looks for, but is {value!r}."
            )
        return value


#: What lit calls a suite's configuration, and the one in the build folder that loads it.
LIT_CONFIGS = ("lit.cfg.py", "lit.cfg")
LIT_SITE_CONFIGS = ("lit.site.cfg.py", "lit.site.cfg")


class LitToolsField(StringSequenceField):
    alias = "tools"
    help = help_text(
        f"""
        The addresses of the `cmake_output`s of `{LitProjectField.alias}` that the tests run, such as
        `bin/triton-opt`. They are in the sandbox where CMake builds them.

        Artifacts that the tests use may be named too. The one with `FileCheck` need not be: those of
        the project that `lit.site.cfg.py` names are there.
        """
    )


class LitConfigsField(StringSequenceField):
    alias = "configs"
    default = ("**/lit.cfg*", "**/lit.local.cfg*", "**/Inputs/**")
    value: Tuple[str, ...]
    help = help_text(
        f"""
        The files that all tests of the suite see, as globs relative to `{LitRootField.alias}`: its
        configuration, and what tests read beside themselves. A change of one runs all tests anew.
        """
    )


class LitTestEnvField(DictStringToStringField):
    alias = "env"
    help = help_text(
        """
        Environment variables of lit, such as `env={"TRITON_PTXAS_PATH":
        "{chroot}/3rdparty/nvidia/nvidia/bin/ptxas"}`; `{chroot}` stands for the root of the sandbox.
        Their values are part of the cache key.

        lit hands few variables on to what tests run (`FILECHECK_OPTS`, for one). Others are for
        `lit.cfg.py` to read in `os.environ` and put into `config.environment`.
        """
    )


class LitTestTimeoutField(TestTimeoutField):
    help = help_text(
        """
        A timeout in seconds for each test file.

        If unset, `[test].timeout_default` applies; never more than `[test].timeout_maximum`. Only
        applies if `[test].timeouts` is true, the default.
        """
    )


class LitTestDependenciesField(Dependencies):
    help = help_text(
        f"""
        What else the tests need: `files` and artifacts. `{LitProjectField.alias}` and
        `{LitToolsField.alias}` are dependencies without being named here.
        """
    )


_MOVED_FIELDS = (
    HardwareField,
    ArchField,
    DevicesField,
    ExclusiveDeviceField,
    LitRootField,
    LitProjectField,
    LitSiteConfigField,
    LitToolsField,
    LitConfigsField,
    LitTestEnvField,
    LitTestTimeoutField,
    LitTestDependenciesField,
)


class LitTestTarget(Target):
    alias = "lit_test"
    core_fields = (*COMMON_TARGET_FIELDS, *_MOVED_FIELDS, LitTestSourceField)
    help = help_text(
        f"""
        One file that LLVM's test runner lit runs, cached by what it reads: itself, the `configs` of
        its suite, and the `tools`.

        lit reads the file's `RUN:`, `REQUIRES:`, `UNSUPPORTED:` and `XFAIL:` lines and the suite's
        `lit.cfg.py` and `lit.local.cfg` as ever. A test that lit calls unsupported is reported as
        skipped, with the reason. See `{bin_name()} help lit` for arguments.
        """
    )

    def validate(self) -> None:
        super().validate()
        try:
            parse_requirement(
                self[HardwareField].value, self[ArchField].value, self[DevicesField].value
            )
        except RequirementError as e:
            raise InvalidFieldException(f"In target {self.address}: {e}") from None
        ours = [name for name in self[LitTestEnvField].value or () if name in RESERVED_VARIABLES]
        if ours:
            raise InvalidFieldException(
                f"In target {self.address}, `{LitTestEnvField.alias}` sets {ours[0]}, which is "
                f"the lease's to set. Ask for devices with `{ArchField.alias}` and "
                f"`{DevicesField.alias}`."
            )
        root = self[LitRootField]
        try:
            path_in_suite(
                self.address.spec,
                suite_root(self.address.spec_path, root.value),
                self[LitTestSourceField].file_path,
            )
        except LitPlanError as e:
            raise InvalidFieldException(str(e)) from None
        tag_by_hardware(self, self[HardwareField].value)


class LitTestsOverridesField(OverridesField):
    help = generate_file_based_overrides_field_help_message(
        LitTestTarget.alias,
        """
        overrides={
            "test/TritonGPU/ptxas.mlir": {"tools": [":opt", "3rdparty/nvidia:nvidia"]},
            "test/Analysis/slow.mlir": {"timeout": 300},
        }
        """,
    )


class LitTestsGeneratorTarget(TargetGenerator):
    # Not a `TargetFilesGenerator`: Pants generates those targets by itself, and knows nothing of
    # `root` and `#suite`.
    alias = "lit_tests"
    core_fields = (
        *COMMON_TARGET_FIELDS,
        LitTestsGeneratingSourcesField,
        LitTestsOverridesField,
    )
    generated_target_cls = LitTestTarget
    copied_fields = COMMON_TARGET_FIELDS
    moved_fields = _MOVED_FIELDS
    help = help_text(
        f"""
        Generate a `{LitTestTarget.alias}` target for each file in the `sources` field: a suite of
        LLVM's test runner lit, each file with a result of its own.

        Example: `lit_tests(name="lit", root="test", project=":triton", tools=[":triton-opt"])`
        """
    )


# --- what a suite has in common ----------------------------------------------------------------


class LitSuiteConfigsField(MultipleSourcesField):
    uses_source_roots = False


class LitSuiteTarget(Target):
    # Nobody writes one: `lit_tests` generates it, and Pants leaves it out of its help.
    alias = "_lit_suite"
    core_fields = (*COMMON_TARGET_FIELDS, LitSuiteConfigsField)
    help = help_text(
        """
        The owner of a suite's `configs`, on which all its tests depend, so that a change of one is
        a change of theirs.
        """
    )


LIT_TARGET_TYPES = (LitSuiteTarget, LitTestTarget, LitTestsGeneratorTarget)
