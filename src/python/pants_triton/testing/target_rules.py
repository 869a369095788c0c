"""How `triton_tests` becomes targets, and what those depend on without saying so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

from pants.backend.python.dependency_inference.rules import (
    ConftestDependenciesInferenceFieldSet,
    InferConftestDependencies,
)
from pants.backend.python.lint.add_trailing_comma.skip_field import SkipAddTrailingCommaField
from pants.backend.python.lint.autoflake.skip_field import SkipAutoflakeField
from pants.backend.python.lint.bandit.skip_field import SkipBanditField
from pants.backend.python.lint.black.skip_field import SkipBlackField
from pants.backend.python.lint.docformatter.skip_field import SkipDocformatterField
from pants.backend.python.lint.flake8.skip_field import SkipFlake8Field
from pants.backend.python.lint.isort.skip_field import SkipIsortField
from pants.backend.python.lint.pydocstyle.skip_field import SkipPydocstyleField
from pants.backend.python.lint.pylint.skip_field import SkipPylintField
from pants.backend.python.lint.pyupgrade.skip_field import SkipPyUpgradeField
from pants.backend.python.lint.ruff.skip_field import SkipRuffField
from pants.backend.python.lint.yapf.skip_field import SkipYapfField
from pants.backend.python.typecheck.mypy.skip_field import SkipMyPyField
from pants.backend.python.typecheck.pyright.skip_field import SkipPyrightField
from pants.engine.addresses import Address
from pants.engine.fs import PathGlobs, Paths
from pants.engine.internals.parametrize import Parametrize
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import (
    FieldSet,
    GeneratedTargets,
    GenerateTargetsRequest,
    InferDependenciesRequest,
    InferredDependencies,
    InvalidFieldException,
    OverridesField,
    SourcesPaths,
    SourcesPathsRequest,
    _generate_file_level_targets,
)
from pants.engine.unions import UnionMembership, UnionRule
from pants.option.global_options import UnmatchedBuildFileGlobs
from pants.util.logging import LogLevel

from pants_triton.hardware.device import HARDWARE
from pants_triton.hardware.subsystem import HardwareOptionError, HardwareSubsystem
from pants_triton.hardware.target_types import HardwareField
from pants_triton.testing.target_types import (
    TritonTestResolveField,
    TritonTestsGeneratingSourcesField,
    TritonTestsGeneratorTarget,
    TritonTestSourceField,
    TritonTestsOverridesField,
    TritonTestTarget,
)

# Pants registers these on `python_tests`; they are looked up by class, and ours can't subclass it.
_GENERATOR_SKIP_FIELDS = (
    SkipAddTrailingCommaField,
    SkipAutoflakeField,
    SkipBanditField,
    SkipBlackField,
    SkipDocformatterField,
    SkipFlake8Field,
    SkipIsortField,
    SkipMyPyField,
    SkipPyUpgradeField,
    SkipPydocstyleField,
    SkipPylintField,
    SkipPyrightField,
    SkipRuffField,
    SkipYapfField,
)


class GenerateTritonTestTargets(GenerateTargetsRequest):
    generate_from = TritonTestsGeneratorTarget


def _with_resolve_of_hardware(
    address: Address,
    fields: Mapping[str, Any],
    inherited: Mapping[str, Any],
    resolves: Mapping[str, str],
) -> dict[str, Any]:
    """Add the resolve of the fields' hardware to `fields`, unless one is set.

    :param inherited: the generator's fields, which `fields` override.
    :param resolves: `[hardware].resolves`, hardware -> resolve.
    """
    effective = {**inherited, **fields}
    if effective.get(TritonTestResolveField.alias) is not None:
        return dict(fields)
    hardware = effective.get(HardwareField.alias, HardwareField.default)
    if not isinstance(hardware, str):
        raise InvalidFieldException(
            f"The field `{HardwareField.alias}` of {address.spec_path}:{address.target_name} must be one hardware, but is "
            f"{hardware!r}. For several, write `{HardwareField.alias}=parametrize(...)`, such as "
            '`parametrize("cuda", "rocm")`.'
        )
    return {**fields, TritonTestResolveField.alias: resolves.get(hardware)}


@rule
async def generate_triton_test_targets(
    request: GenerateTritonTestTargets,
    hardware: HardwareSubsystem,
    union_membership: UnionMembership,
    unmatched_build_file_globs: UnmatchedBuildFileGlobs,
) -> GeneratedTargets:
    generator = request.generator
    # Without the parameters: what is wrong is in the BUILD file's one target.
    address = generator.address.maybe_convert_to_target_generator()
    unknown = sorted(set(hardware.resolves) - set(HARDWARE))
    if unknown:
        raise HardwareOptionError(
            f"The option `[hardware].resolves` names the hardware `{unknown[0]}`, which is unknown. "
            f"Known: {', '.join(HARDWARE)}."
        )
    overrides_by_glob = generator[TritonTestsOverridesField].flatten()
    override_globs = OverridesField.to_path_globs(
        address, overrides_by_glob, unmatched_build_file_globs
    )
    sources, *override_paths = await MultiGet(
        Get(SourcesPaths, SourcesPathsRequest(generator[TritonTestsGeneratingSourcesField])),
        *(Get(Paths, PathGlobs, globs) for globs in override_globs),
    )
    if HardwareField.alias in request.template_address.parameters and any(
        HardwareField.alias in override for override in overrides_by_glob.values()
    ):
        # It would apply to each of the parametrized targets, so that `@hardware=rocm` ran on cuda.
        raise InvalidFieldException(
            f"In target {address.spec_path}:{address.target_name}, `{HardwareField.alias}` is parametrized, so `overrides` can't "
            f"set it. Declare the files that need other hardware in a `{generator.alias}` target "
            "of their own, and exclude them here with `!` in `sources`."
        )
    overrides_by_path = OverridesField.flatten_paths(
        address, zip(override_paths, override_globs, overrides_by_glob.values())
    )
    return _generate_file_level_targets(
        TritonTestTarget,
        generator,
        sources.files,
        request.template_address,
        _with_resolve_of_hardware(address, request.template, {}, hardware.resolves),
        {
            path: {
                override_address: _with_resolve_of_hardware(
                    address, fields, request.template, hardware.resolves
                )
                for override_address, fields in Parametrize.expand(
                    request.template_address, override
                )
            }
            for path, override in overrides_by_path.items()
        },
        union_membership,
        add_dependencies_on_all_siblings=False,
    )


@dataclass(frozen=True)
class TritonTestConftestsFieldSet(FieldSet):
    required_fields = (TritonTestSourceField, TritonTestResolveField)

    source: TritonTestSourceField
    resolve: TritonTestResolveField


class InferTritonTestConftests(InferDependenciesRequest):
    infer_from = TritonTestConftestsFieldSet


@rule(desc="Infer dependencies on `conftest.py` files", level=LogLevel.DEBUG)
async def infer_conftests(request: InferTritonTestConftests) -> InferredDependencies:
    # Pants' own rule does the work; it only looks at sources of a class that ours can't have
    # (see `TritonTestSourceField`).
    field_set = request.field_set
    return await Get(
        InferredDependencies,
        InferConftestDependencies(
            ConftestDependenciesInferenceFieldSet(
                address=field_set.address, source=field_set.source, resolve=field_set.resolve
            )
        ),
    )


def rules():
    return [
        *collect_rules(),
        *(TritonTestsGeneratorTarget.register_plugin_field(f) for f in _GENERATOR_SKIP_FIELDS),
        UnionRule(GenerateTargetsRequest, GenerateTritonTestTargets),
        UnionRule(InferDependenciesRequest, InferTritonTestConftests),
    ]
