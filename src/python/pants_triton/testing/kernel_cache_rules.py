"""Tests that share compiled kernels depend on the packages that this takes."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pants.backend.python.dependency_inference.module_mapper import (
    PythonModuleOwners,
    PythonModuleOwnersRequest,
)
from pants.backend.python.subsystems.setup import PythonSetup
from pants.engine.addresses import Address
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import FieldSet, InferDependenciesRequest, InferredDependencies
from pants.engine.unions import UnionRule
from pants.util.logging import LogLevel

from pants_triton.kernel_cache.subsystem import KernelCacheMode, KernelCacheSubsystem
from pants_triton.testing.target_types import TritonTestResolveField, TritonTestSourceField

logger = logging.getLogger(__name__)

# Module -> the package that has it.
_NEEDED = {"h2": "h2", "google.protobuf": "protobuf"}


@dataclass(frozen=True)
class KernelCachePackagesRequest:
    """Asks what tests of a resolve must depend on to share kernels."""

    resolve: str


@dataclass(frozen=True)
class KernelCachePackages:
    """None if the cache is off, or the resolve has not all of it."""

    addresses: tuple[Address, ...]


@rule(desc="Find the packages of the kernel cache", level=LogLevel.DEBUG)
async def find_kernel_cache_packages(
    request: KernelCachePackagesRequest, kernel_cache: KernelCacheSubsystem
) -> KernelCachePackages:
    if kernel_cache.mode is KernelCacheMode.OFF:
        return KernelCachePackages(())
    triton, *owners = await MultiGet(
        Get(PythonModuleOwners, PythonModuleOwnersRequest(module, resolve=request.resolve))
        for module in ("triton", *_NEEDED)
    )
    missing = [package for package, owner in zip(_NEEDED.values(), owners) if not owner.unambiguous]
    if missing:
        # A resolve without Triton is none of ours.
        if triton.unambiguous or triton.ambiguous:
            logger.warning(
                f"`[kernel-cache].mode` is `{kernel_cache.mode.value}`, but the resolve "
                f"`{request.resolve}` has not one package {' and one package '.join(missing)}: its tests "
                "compile without the cache. Add what is missing to its requirements and its lock."
            )
        return KernelCachePackages(())
    return KernelCachePackages(tuple(a for owner in owners for a in owner.unambiguous))


@dataclass(frozen=True)
class KernelCacheFieldSet(FieldSet):
    required_fields = (TritonTestSourceField, TritonTestResolveField)

    resolve: TritonTestResolveField


class InferKernelCachePackages(InferDependenciesRequest):
    infer_from = KernelCacheFieldSet


@rule(desc="Infer dependencies on the kernel cache's packages", level=LogLevel.DEBUG)
async def infer_kernel_cache_packages(
    request: InferKernelCachePackages, python_setup: PythonSetup
) -> InferredDependencies:
    resolve = request.field_set.resolve.normalized_value(python_setup)
    packages = await Get(KernelCachePackages, KernelCachePackagesRequest(resolve))
    return InferredDependencies(packages.addresses)


def rules():
    return [
        *collect_rules(),
        UnionRule(InferDependenciesRequest, InferKernelCachePackages),
    ]
