"""How a Python package is assembled, once for all tests that import it."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Mapping

from pants.engine.addresses import Address, Addresses, UnparsedAddressInputs
from pants.engine.engine_aware import EngineAwareParameter
from pants.engine.fs import (
    AddPrefix,
    CreateDigest,
    Digest,
    DigestEntries,
    FileEntry,
    MergeDigests,
    SymlinkEntry,
)
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import (
    FieldSet,
    HydratedSources,
    HydrateSourcesRequest,
    InferDependenciesRequest,
    InferredDependencies,
    Target,
    Targets,
    TransitiveTargets,
    TransitiveTargetsRequest,
    WrappedTarget,
    WrappedTargetRequest,
)
from pants.engine.unions import UnionRule
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.artifact.rules import ArtifactTree, ArtifactTreeRequest
from pants_triton.artifact.subsystem import ArtifactError
from pants_triton.artifact.target_types import ArtifactSourceField
from pants_triton.native.rules import BuiltOutput, BuiltOutputRequest
from pants_triton.native.subsystem import NativeError
from pants_triton.native.target_types import CMakeOutputSourceField
from pants_triton.package.modules import places_of
from pants_triton.package.target_types import (
    TritonPackageDependenciesField,
    TritonPackagePartsField,
    TritonPackagePathField,
    TritonPackageRootField,
    TritonPackageSourceFoldersField,
    TritonPackageSourcesField,
)


class PackageError(Exception):
    """A package can't be assembled. The message names the target and the way out."""


@dataclass(frozen=True)
class AssembledPackageRequest(EngineAwareParameter):
    """Asks for a package. Fails with a PackageError, NativeError or ArtifactError."""

    address: Address

    def debug_hint(self) -> str:
        return self.address.spec


@dataclass(frozen=True)
class AssembledPackage:
    """A folder to import from.

    :param path: where it is to be in sandboxes.
    """

    address: Address
    path: str
    digest: Digest


# The engine finds the `Get`s of helpers only where they stand above the rules that call them.


async def _part(owner: Address, target: Target, folder: str) -> Digest:
    if target.has_field(ArtifactSourceField):
        tree = await Get(ArtifactTree, ArtifactTreeRequest(target.address, with_content=False))
        return await Get(Digest, AddPrefix(tree.digest, folder))
    if target.has_field(CMakeOutputSourceField):
        output = await Get(BuiltOutput, BuiltOutputRequest(target.address))
        entries = await Get(DigestEntries, Digest, output.digest)
        flat: list[FileEntry | SymlinkEntry] = []
        for entry in entries:
            path = posixpath.join(folder, posixpath.basename(entry.path))
            if isinstance(entry, FileEntry):
                flat.append(FileEntry(path, entry.file_digest, entry.is_executable))
            elif isinstance(entry, SymlinkEntry):
                flat.append(SymlinkEntry(path, entry.target))
        return await Get(Digest, CreateDigest(flat))
    raise PackageError(
        f"{owner}: its part {target.address} is a `{target.alias}`. Name `cmake_output`s and "
        "artifacts."
    )


async def _placed(owner: Address, sources: Digest, places: Mapping[str, str | None]) -> Digest:
    outside = [file for file, place in places.items() if place is None]
    if outside:
        raise PackageError(
            f"{owner}: {outside[0]} is not below its `{TritonPackageRootField.alias}`: correct that or "
            f"`{TritonPackageSourcesField.alias}`, or say by "
            f"`{TritonPackageSourceFoldersField.alias}` where in the package it is."
        )
    of_place: dict[str, str] = {}
    for file, place in places.items():
        assert place is not None
        if place in of_place:
            raise PackageError(f"{owner}: {of_place[place]} and {file} are both {place} in it.")
        of_place[place] = file
    moved: list[FileEntry | SymlinkEntry] = []
    for entry in await Get(DigestEntries, Digest, sources):
        place = places.get(entry.path)
        if isinstance(entry, FileEntry) and place:
            moved.append(FileEntry(place, entry.file_digest, entry.is_executable))
        elif isinstance(entry, SymlinkEntry) and place:
            moved.append(SymlinkEntry(place, entry.target))
    return await Get(Digest, CreateDigest(moved))


@rule(desc="Assemble a Python package", level=LogLevel.DEBUG)
async def assemble_package(request: AssembledPackageRequest) -> AssembledPackage:
    address = request.address
    wrapped = await Get(WrappedTarget, WrappedTargetRequest(address, "<infallible>"))
    target = wrapped.target
    field = target[TritonPackagePartsField]
    sources = await Get(HydratedSources, HydrateSourcesRequest(target[TritonPackageSourcesField]))
    places = places_of(
        sources.snapshot.files,
        address.spec_path,
        target[TritonPackageRootField].value,
        target[TritonPackageSourceFoldersField].value or FrozenDict(),
    )
    digests = [await _placed(address, sources.snapshot.digest, places)]
    for spec, folder in (field.value or {}).items():
        parts = await Get(
            Targets,
            UnparsedAddressInputs(
                (spec,),
                owning_address=address,
                description_of_origin=f"the `{field.alias}` of {address}",
            ),
        )
        digests.append(await _part(address, parts.expect_single(), folder))
    merged = await Get(Digest, MergeDigests(digests))
    return AssembledPackage(address, target[TritonPackagePathField].in_sandbox(address), merged)


@dataclass(frozen=True)
class AssembledPackagesRequest:
    """Asks for all packages that targets depend on, transitively."""

    addresses: tuple[Address, ...]


@dataclass(frozen=True)
class AssembledPackages:
    """The packages, or why one of them can't be had, so that only what needs it fails."""

    packages: tuple[AssembledPackage, ...]
    error: str = ""

    @property
    def immutable_input_digests(self) -> FrozenDict[str, Digest]:
        return FrozenDict({package.path: package.digest for package in self.packages})


@rule(desc="Assemble the packages of targets", level=LogLevel.DEBUG)
async def assemble_packages(request: AssembledPackagesRequest) -> AssembledPackages:
    transitive = await Get(TransitiveTargets, TransitiveTargetsRequest(request.addresses))
    addresses = [t.address for t in transitive.closure if t.has_field(TritonPackageSourcesField)]
    try:
        packages = await MultiGet(
            Get(AssembledPackage, AssembledPackageRequest(address)) for address in addresses
        )
    except (ArtifactError, NativeError, PackageError) as e:
        return AssembledPackages((), str(e))
    return AssembledPackages(packages)


@dataclass(frozen=True)
class TritonPackageFieldSet(FieldSet):
    required_fields = (TritonPackagePartsField, TritonPackageDependenciesField)

    parts: TritonPackagePartsField


class InferTritonPackageDependencies(InferDependenciesRequest):
    infer_from = TritonPackageFieldSet


@rule(desc="Find the parts of a package", level=LogLevel.DEBUG)
async def infer_package_dependencies(
    request: InferTritonPackageDependencies,
) -> InferredDependencies:
    field = request.field_set.parts
    parts = await Get(
        Addresses,
        UnparsedAddressInputs(
            field.addresses,
            owning_address=request.field_set.address,
            description_of_origin=f"the `{field.alias}` of {request.field_set.address}",
        ),
    )
    return InferredDependencies(parts)


def rules():
    return [
        *collect_rules(),
        UnionRule(InferDependenciesRequest, InferTritonPackageDependencies),
    ]
