"""Who imports a module of an assembled package depends on that package."""

from __future__ import annotations

from collections import defaultdict

from pants.backend.python.dependency_inference.module_mapper import (
    FirstPartyPythonMappingImpl,
    FirstPartyPythonMappingImplMarker,
    ModuleProvider,
    ModuleProviderType,
)
from pants.backend.python.subsystems.setup import PythonSetup
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import AllTargets, SourcesPaths, SourcesPathsRequest
from pants.engine.unions import UnionRule
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.package.modules import modules_of, places_of
from pants_triton.package.target_types import (
    TritonPackageRootField,
    TritonPackageSourceFoldersField,
    TritonPackageSourcesField,
)


class TritonPackageMappingMarker(FirstPartyPythonMappingImplMarker):
    pass


@rule(desc="Find the modules of assembled packages", level=LogLevel.DEBUG)
async def map_package_modules(
    _: TritonPackageMappingMarker, all_targets: AllTargets, python_setup: PythonSetup
) -> FirstPartyPythonMappingImpl:
    targets = [t for t in all_targets if t.has_field(TritonPackageSourcesField)]
    sources = await MultiGet(
        Get(SourcesPaths, SourcesPathsRequest(target[TritonPackageSourcesField]))
        for target in targets
    )
    providers: dict[str, list[ModuleProvider]] = defaultdict(list)
    for target, paths in zip(targets, sources):
        places = places_of(
            paths.files,
            target.address.spec_path,
            target[TritonPackageRootField].value,
            target[TritonPackageSourceFoldersField].value or FrozenDict(),
        )
        for module in modules_of(place for place in places.values() if place):
            providers[module].append(ModuleProvider(target.address, ModuleProviderType.IMPL))
    # One package serves the tests of all hardware, whatever their resolve.
    return FirstPartyPythonMappingImpl.create(
        {resolve: providers for resolve in python_setup.resolves}
    )


def rules():
    return [
        *collect_rules(),
        UnionRule(FirstPartyPythonMappingImplMarker, TritonPackageMappingMarker),
    ]
