"""`triton_tests` and `triton_test`: pytest files that need hardware."""

from __future__ import annotations

import os
from typing import Sequence

from pants.backend.python.target_types import (
    InterpreterConstraintsField,
    PythonGeneratingSourcesBase,
    PythonResolveField,
    PythonRunGoalUseSandboxField,
    PythonSourceField,
    PythonTestsBatchCompatibilityTagField,
    PythonTestsDependenciesField,
    PythonTestsExtraEnvVarsField,
    PythonTestsTimeoutField,
    PythonTestTarget,
    SkipPythonTestsField,
)
from pants.core.goals.test import RuntimePackageDependenciesField
from pants.core.util_rules.environments import EnvironmentField
from pants.engine.target import (
    COMMON_TARGET_FIELDS,
    BoolField,
    DictStringToStringField,
    IntField,
    InvalidFieldException,
    OverridesField,
    StringSequenceField,
    TargetGenerator,
    ValidNumbers,
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

# What says which devices a test has; with other values, it would say it wrongly.
RESERVED_VARIABLES = frozenset(
    {
        *("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
        *("PANTS_TRITON_HARDWARE", "PANTS_TRITON_FINGERPRINT"),
    }
)


class TritonTestSourceField(PythonSourceField):
    # Not a subclass of `PythonTestSourceField`: Pants' own pytest runner would then claim the
    # target as well and run it a second time, without its devices.
    expected_file_extensions = (".py",)

    def validate_resolved_files(self, files: Sequence[str]) -> None:
        super().validate_resolved_files(files)
        _refuse_conftests(self, files)


class TritonTestsGeneratingSourcesField(PythonGeneratingSourcesBase):
    expected_file_extensions = (".py",)
    default = ("test_*.py", "*_test.py")
    help = generate_multiple_sources_field_help_message(
        "Example: `sources=['test_*.py', '!test_line_info.py']`"
    )

    def validate_resolved_files(self, files: Sequence[str]) -> None:
        super().validate_resolved_files(files)
        _refuse_conftests(self, files)


def _refuse_conftests(
    field: TritonTestSourceField | TritonTestsGeneratingSourcesField, files: Sequence[str]
) -> None:
    conftests = [f for f in files if os.path.basename(f) == "conftest.py"]
    if conftests:
        raise InvalidFieldException(
            f"The `{field.alias}` field in target {field.address} should not include "
            f"{', '.join(conftests)}: declare it with a `python_test_utils` target, and it becomes "
            "a dependency of the tests beside and below it."
        )


class TritonTestsDependenciesField(PythonTestsDependenciesField):
    pass


class TritonTestEnvField(DictStringToStringField):
    alias = "env"
    help = help_text(
        f"""
        Environment variables of the test process, such as
        `env={{"TRITON_DISABLE_LINE_INFO": "0"}}`. Their values are part of the cache key.

        They win over `[test].extra_env_vars`. To copy a variable from the environment that Pants
        runs in, use `{PythonTestsExtraEnvVarsField.alias}`.
        """
    )


class TritonTestWorkersField(IntField):
    alias = "workers"
    value: int
    valid_numbers = ValidNumbers.positive_and_zero
    default = 0
    help = help_text(
        """
        How many worker processes `pytest-xdist` spreads the tests of one file over. They share the
        devices of the test process. Pants gives fewer where the machine has fewer cores free. With
        `--debug` there are none, and `-- -n0` turns them off.

        `0`, the default, runs the tests in the test process itself.
        """
    )


class TritonTestIsolatedField(BoolField):
    alias = "isolated"
    default = False
    help = help_text(
        """
        If true, each test runs in a forked process of its own (`pytest-forked`), so that a test
        that ends its process, by a device-side assert for instance, takes no other test with it.
        Not with `--debug`.
        """
    )


class TritonTestPytestArgsField(StringSequenceField):
    alias = "pytest_args"
    help = help_text(
        f"""
        Arguments for pytest, such as `["-m", "interpreter"]`. They come before `[pytest].args` and
        what is given on the command line behind `--`, so that those win.

        `-n` belongs in `{TritonTestWorkersField.alias}` and `--forked` in
        `{TritonTestIsolatedField.alias}`.
        """
    )


class TritonTestTimeoutField(PythonTestsTimeoutField):
    help = help_text(
        f"""
        A timeout in seconds for each test file of this target, counted from when its devices are
        held, so that waiting for a busy GPU does not use it up.

        If unset, `[test].timeout_default` applies; never more than `[test].timeout_maximum`. Only
        applies if `[test].timeouts` is true, the default. See also `{DevicesField.alias}`.
        """
    )


class TritonTestResolveField(PythonResolveField):
    help = help_text(
        f"""
        The resolve from `[python].resolves` to use. If unset, `triton_tests` takes the one that
        `[hardware].resolves` names for the target's `{HardwareField.alias}`, and
        `[python].default_resolve` where it names none.
        """
    )


class SkipTritonTestsField(SkipPythonTestsField):
    pass


_MOVED_FIELDS = (
    HardwareField,
    ArchField,
    DevicesField,
    ExclusiveDeviceField,
    TritonTestEnvField,
    TritonTestPytestArgsField,
    TritonTestWorkersField,
    TritonTestIsolatedField,
    TritonTestTimeoutField,
    TritonTestResolveField,
    TritonTestsDependenciesField,
    PythonRunGoalUseSandboxField,
    PythonTestsBatchCompatibilityTagField,
    RuntimePackageDependenciesField,
    PythonTestsExtraEnvVarsField,
    InterpreterConstraintsField,
    SkipTritonTestsField,
    EnvironmentField,
)


class TritonTestTarget(PythonTestTarget):
    # A subclass of `PythonTestTarget` because linters and formatters register their `skip_<tool>`
    # fields on that.
    alias = "triton_test"
    core_fields = (  # type: ignore[assignment]
        *COMMON_TARGET_FIELDS,
        *_MOVED_FIELDS,
        TritonTestSourceField,
    )
    help = help_text(
        f"""
        One pytest file that tests Triton kernels or Triton itself, tagged by the hardware it needs.

        It runs where that hardware is, holding its devices while it does, and is reported as
        skipped elsewhere. See the fields `{HardwareField.alias}` and `{ArchField.alias}`,
        `{bin_name()} hardware` for what this host can run, and `{bin_name()} help hardware` for
        what a host without the hardware does.
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
        ours = [name for name in self[TritonTestEnvField].value or () if name in RESERVED_VARIABLES]
        if ours:
            raise InvalidFieldException(
                f"In target {self.address}, `{TritonTestEnvField.alias}` sets {ours[0]}, which is "
                f"the lease's to set. Ask for devices with `{ArchField.alias}` and "
                f"`{DevicesField.alias}`."
            )
        tag_by_hardware(self, self[HardwareField].value)


class TritonTestsOverridesField(OverridesField):
    help = generate_file_based_overrides_field_help_message(
        TritonTestTarget.alias,
        """
        overrides={
            "test_line_info.py": {"env": {"TRITON_DISABLE_LINE_INFO": "0"}},
            "test_flash_attention.py": {"exclusive_device": True, "arch": ">=sm_90"},
            ("test_core.py", "test_random.py"): {"workers": 8},
        }
        """,
    )


class TritonTestsGeneratorTarget(TargetGenerator):
    # Not a `TargetFilesGenerator`: Pants generates those targets by itself and lets nobody set
    # a field, while ours take their resolve from the hardware.
    alias = "triton_tests"
    core_fields = (
        *COMMON_TARGET_FIELDS,
        TritonTestsGeneratingSourcesField,
        TritonTestsOverridesField,
    )
    generated_target_cls = TritonTestTarget
    copied_fields = COMMON_TARGET_FIELDS
    moved_fields = _MOVED_FIELDS
    help = help_text(
        f"""
        Generate a `{TritonTestTarget.alias}` target for each file in the `sources` field.

        The same files may be declared several times, once for each way to run them: on `cuda` and
        `rocm` devices with `hardware=parametrize("cuda", "rocm")`, and through Triton's
        interpreter with `env={{"TRITON_INTERPRET": "1"}}`.
        """
    )
