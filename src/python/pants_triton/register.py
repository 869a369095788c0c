"""What the backend offers Pants; nothing else."""

from pants_triton.artifact import goal_rules as artifact_goal_rules
from pants_triton.artifact import leftover_rules as artifact_leftover_rules
from pants_triton.artifact import lint_rules as artifact_lint_rules
from pants_triton.artifact import rules as artifact_rules
from pants_triton.artifact import run_rules as artifact_run_rules
from pants_triton.artifact import use_rules as artifact_use_rules
from pants_triton.artifact.target_types import ARTIFACT_TARGET_TYPES
from pants_triton.ci import coverage_rules as ci_coverage_rules
from pants_triton.ci import lane_rules as ci_lane_rules
from pants_triton.ci import matrix_rules as ci_matrix_rules
from pants_triton.ci import report_rules as ci_report_rules
from pants_triton.ci import workflow_rules as ci_workflow_rules
from pants_triton.ci.target_types import LaneTarget
from pants_triton.hardware import rules as hardware_rules
from pants_triton.kernel_cache import rules as kernel_cache_rules
from pants_triton.native import editor_rules as native_editor_rules
from pants_triton.native import rules as native_rules
from pants_triton.native import use_rules as native_use_rules
from pants_triton.native.target_types import NATIVE_TARGET_TYPES
from pants_triton.package import inference_rules as package_inference_rules
from pants_triton.package import rules as package_rules
from pants_triton.package import wheel_rules as package_wheel_rules
from pants_triton.package.target_types import TritonPackageTarget
from pants_triton.program import rules as program_rules
from pants_triton.testing import bundle_rules as testing_bundle_rules
from pants_triton.testing import gtest_rules as testing_gtest_rules
from pants_triton.testing import kernel_cache_rules as testing_kernel_cache_rules
from pants_triton.testing import lint_rules as testing_lint_rules
from pants_triton.testing import lit_rules as testing_lit_rules
from pants_triton.testing import repeat_rules as testing_repeat_rules
from pants_triton.testing import rules as testing_rules
from pants_triton.testing import shim_rules as testing_shim_rules
from pants_triton.testing import summary_rules as testing_summary_rules
from pants_triton.testing import target_rules as testing_target_rules
from pants_triton.testing.bundle_target_types import TritonTestBundleTarget
from pants_triton.testing.gtest_target_types import GTestTestsTarget
from pants_triton.testing.lit_target_types import LIT_TARGET_TYPES
from pants_triton.testing.target_types import TritonTestsGeneratorTarget, TritonTestTarget


def target_types():
    return [
        *ARTIFACT_TARGET_TYPES,
        *LIT_TARGET_TYPES,
        *NATIVE_TARGET_TYPES,
        GTestTestsTarget,
        LaneTarget,
        TritonPackageTarget,
        TritonTestBundleTarget,
        TritonTestTarget,
        TritonTestsGeneratorTarget,
    ]


def rules():
    return [
        *artifact_rules.rules(),
        *artifact_goal_rules.rules(),
        *artifact_leftover_rules.rules(),
        *artifact_lint_rules.rules(),
        *artifact_run_rules.rules(),
        *artifact_use_rules.rules(),
        *ci_coverage_rules.rules(),
        *ci_lane_rules.rules(),
        *ci_matrix_rules.rules(),
        *ci_report_rules.rules(),
        *ci_workflow_rules.rules(),
        *hardware_rules.rules(),
        *kernel_cache_rules.rules(),
        *native_rules.rules(),
        *native_editor_rules.rules(),
        *native_use_rules.rules(),
        *package_rules.rules(),
        *package_inference_rules.rules(),
        *package_wheel_rules.rules(),
        *program_rules.rules(),
        *testing_rules.rules(),
        *testing_bundle_rules.rules(),
        *testing_gtest_rules.rules(),
        *testing_kernel_cache_rules.rules(),
        *testing_lint_rules.rules(),
        *testing_lit_rules.rules(),
        *testing_repeat_rules.rules(),
        *testing_shim_rules.rules(),
        *testing_summary_rules.rules(),
        *testing_target_rules.rules(),
    ]
