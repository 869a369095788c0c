"""What the backend offers Pants; nothing else."""

from pants_triton.hardware import rules as hardware_rules
from pants_triton.testing import lint_rules as testing_lint_rules
from pants_triton.testing import rules as testing_rules
from pants_triton.testing import summary_rules as testing_summary_rules
from pants_triton.testing import target_rules as testing_target_rules
from pants_triton.testing.target_types import TritonTestsGeneratorTarget, TritonTestTarget


def target_types():
    return [TritonTestTarget, TritonTestsGeneratorTarget]


def rules():
    return [
        *hardware_rules.rules(),
        *testing_rules.rules(),
        *testing_lint_rules.rules(),
        *testing_summary_rules.rules(),
        *testing_target_rules.rules(),
    ]
