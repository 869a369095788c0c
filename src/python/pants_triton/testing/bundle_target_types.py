"""`triton_test_bundle`: tests to take to a machine that has neither Pants nor a network."""

from __future__ import annotations

from pants.core.goals.package import OutputPathField
from pants.engine.target import COMMON_TARGET_FIELDS, Dependencies, StringSequenceField, Target
from pants.util.docutil import bin_name
from pants.util.strutil import help_text

from pants_triton.testing.target_types import TritonTestTarget


class BundleTestsField(StringSequenceField):
    alias = "tests"
    help = help_text(
        f"""
        Where the tests are, as on the command line but from the build root: `["tests/kernels::"]`,
        `["tests/kernels/matmul_test.py"]`. By default in the BUILD file's folder and below.

        Of them, those are in the bundle that `tag_expression` selects and that are a
        `{TritonTestTarget.alias}`.
        """
    )


class BundleTagExpressionField(StringSequenceField):
    alias = "tag_expression"
    default = ()
    value: tuple[str, ...]
    help = help_text(
        f"""
        Which of `{BundleTestsField.alias}` are in the bundle, as values of Pants' own `--tag`, all of
        which must match: `["cuda", "-slow"]` is `--tag=cuda --tag=-slow`. In a value, any of several
        tags will do (`"cuda,rocm"`). By default all.

        The hardware need not be on the machine that makes the bundle. All tests of a bundle have one
        resolve.
        """
    )


class BundleProvidedField(StringSequenceField):
    alias = "provided"
    default = ()
    value: tuple[str, ...]
    help = help_text(
        """
        Packages that are not put into the bundle, because the machine that runs it has them:
        `["torch", "triton"]`. They are looked for there before any test is run, in the Python that
        the bundle is started with, or the one that `--python` names.

        What only they need can be left out as well, by a glob: `["torch", "nvidia-*"]`.
        """
    )


class BundleDependenciesField(Dependencies):
    help = help_text(
        f"""
        What each test of the bundle also has, such as `files`. The tests themselves are found by
        `{BundleTestsField.alias}`.
        """
    )


class TritonTestBundleTarget(Target):
    alias = "triton_test_bundle"
    core_fields = (
        *COMMON_TARGET_FIELDS,
        OutputPathField,
        BundleTestsField,
        BundleTagExpressionField,
        BundleProvidedField,
        BundleDependenciesField,
    )
    help = help_text(
        f"""
        Tests with all that they need in one PEX, to be run on a machine that has Python, but neither
        Pants nor a network.

        `{bin_name()} package` makes it. Run there, it looks for the hardware as Pants does, runs each
        test file in a pytest process of its own that holds its devices, skips what can't run, by name
        and reason, and writes JUnit reports. It is for the platform and Python that it was made with.
        """
    )
