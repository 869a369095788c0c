"""What the workspace declares of artifacts."""

from __future__ import annotations

from dataclasses import dataclass

from pants.engine.addresses import Address, Addresses, UnparsedAddressInputs
from pants.engine.engine_aware import EngineAwareParameter
from pants.engine.fs import DigestContents, PathGlobs
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import (
    AllTargets,
    Target,
    Targets,
    WrappedTarget,
    WrappedTargetRequest,
)
from pants.util.logging import LogLevel

from pants_triton.artifact.declaration import (
    ArchiveDeclaration,
    DebianDeclaration,
    Declaration,
    DeclarationError,
    LlvmDeclaration,
    NvidiaDeclaration,
    PinFile,
    Slot,
    WheelDeclaration,
    slots,
)
from pants_triton.artifact.lock import ANY_PLATFORM
from pants_triton.artifact.target_types import (
    ArchivePinField,
    ArchiveUrlField,
    ArchiveUrlsField,
    ArtifactPartsField,
    ArtifactPathField,
    ArtifactPlatformsField,
    ArtifactSourceField,
    ArtifactStripField,
    ArtifactSubsetField,
    DebianPackagesField,
    DebianSuiteField,
    LlvmPinField,
    LlvmStoresField,
    NvidiaArchivesField,
    NvidiaComponentsField,
    NvidiaPinField,
    WheelDistributionField,
    WheelVersionField,
)


@dataclass(frozen=True)
class ArtifactDeclarationRequest(EngineAwareParameter):
    """Asks what the BUILD file and the pin of one artifact declare."""

    address: Address

    def debug_hint(self) -> str:
        return self.address.spec


@dataclass(frozen=True)
class ArtifactDeclaration:
    """What is declared.

    :param path: where the tree is in sandboxes.
    :param slots: what the lock must have for it; none for an `artifact_tree`.
    :param parts: of an `artifact_tree`.
    :param error: why it can't be understood, "" if it can. What needs the artifact fails with it,
        and what looks at all artifacts goes on with the others.
    """

    address: Address
    path: str
    slots: tuple[Slot, ...] = ()
    parts: Addresses = Addresses()
    error: str = ""


async def _pin_file(target: Target, field_type: type[ArtifactSourceField]) -> PinFile | None:
    """Raises DeclarationError where there is no such file."""
    path = target[field_type].file_path
    if path is None:
        return None
    # Not as hydrated sources: where the file is missing, these fail without naming it, and with them
    # whatever looks at all artifacts.
    contents = await Get(DigestContents, PathGlobs([path]))
    if len(contents) != 1:
        raise DeclarationError(
            f"{target.address}: {field_type.alias}: {path} doesn't exist, or Pants ignores it "
            "(.gitignore, `[GLOBAL].pants_ignore`): correct the name, or have Pants see the file."
        )
    return PinFile(contents[0].path, contents[0].content.decode("utf-8", "replace"))


async def _parts(target: Target) -> Targets:
    return await Get(
        Targets, UnparsedAddressInputs, target[ArtifactPartsField].to_unparsed_address_inputs()
    )


async def _cycle(target: Target, parts: Targets) -> list[Address]:
    """The way from an `artifact_tree` by its parts to itself, if there is one. Whoever asked for its
    tree would wait for ever."""
    # From each tree that was reached to the one that it was reached from.
    reached_from: dict[Address, Address] = {}
    todo = [(target.address, parts)]
    while todo:
        parent, children = todo.pop()
        for child in children:
            if child.address == target.address:
                way = [child.address, parent]
                while way[-1] != target.address:
                    way.append(reached_from[way[-1]])
                return way[::-1]
            if child.has_field(ArtifactPartsField) and child.address not in reached_from:
                reached_from[child.address] = parent
                todo.append((child.address, await _parts(child)))
    return []


def _declaration(target: Target, pin: PinFile | None) -> Declaration:
    address = target.address.spec
    subset = target.get(ArtifactSubsetField).value
    strip = target.get(ArtifactStripField).value
    platforms = tuple(target.get(ArtifactPlatformsField).value or ())
    if target.has_field(LlvmPinField):
        assert pin is not None
        return LlvmDeclaration(address, pin, tuple(target[LlvmStoresField].value or ()))
    if target.has_field(NvidiaPinField):
        assert pin is not None
        return NvidiaDeclaration(
            address,
            pin,
            platforms,
            tuple(target[NvidiaComponentsField].value or ()),
            target[NvidiaArchivesField].value,
        )
    if target.has_field(ArchiveUrlField):
        url, urls = target[ArchiveUrlField].value, target[ArchiveUrlsField].value
        if (url is None) == (urls is None):
            raise DeclarationError(
                f"{address}: set either `{ArchiveUrlField.alias}` or `{ArchiveUrlsField.alias}`: "
                "the one where the archive serves every platform, the other where it doesn't."
            )
        pairs = ((ANY_PLATFORM, url),) if url is not None else tuple((urls or {}).items())
        return ArchiveDeclaration(address, pairs, pin, strip, subset)
    if target.has_field(WheelDistributionField):
        distribution, version = target[WheelDistributionField], target[WheelVersionField]
        return WheelDeclaration(
            address, distribution.value, version.value, platforms, strip, subset
        )
    return DebianDeclaration(
        address,
        target[DebianSuiteField].value,
        tuple(target[DebianPackagesField].value),
        platforms,
        subset,
    )


@rule(desc="Read the declaration of an artifact", level=LogLevel.DEBUG)
async def declare_artifact(request: ArtifactDeclarationRequest) -> ArtifactDeclaration:
    wrapped = await Get(WrappedTarget, WrappedTargetRequest(request.address, "<infallible>"))
    target = wrapped.target
    path = target[ArtifactPathField].in_sandbox(target.address)
    if target.has_field(ArtifactPartsField):
        parts = await _parts(target)
        for part in parts:
            if not part.has_field(ArtifactSourceField):
                return ArtifactDeclaration(
                    request.address,
                    path,
                    error=(
                        f"{request.address}: {ArtifactPartsField.alias}: {part.address} is a target "
                        f"of the type `{part.alias}`, and no artifact: name targets such as "
                        "`wheel_artifact`."
                    ),
                )
        cycle = await _cycle(target, parts)
        if cycle:
            way = " -> ".join(address.spec for address in cycle)
            return ArtifactDeclaration(
                request.address,
                path,
                error=(
                    f"{request.address}: {ArtifactPartsField.alias}: it contains itself ({way}): "
                    "leave one out."
                ),
            )
        return ArtifactDeclaration(
            request.address, path, parts=Addresses(part.address for part in parts)
        )
    try:
        pin = None
        for field_type in (LlvmPinField, NvidiaPinField, ArchivePinField):
            if target.has_field(field_type):
                pin = await _pin_file(target, field_type)
        return ArtifactDeclaration(request.address, path, slots(_declaration(target, pin)))
    except DeclarationError as e:
        return ArtifactDeclaration(request.address, path, error=str(e))


@dataclass(frozen=True)
class AllArtifacts:
    """What all artifacts of the workspace declare."""

    declarations: tuple[ArtifactDeclaration, ...]

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(slot for declared in self.declarations for slot in declared.slots)


@rule(desc="Find all artifacts", level=LogLevel.DEBUG)
async def find_all_artifacts(all_targets: AllTargets) -> AllArtifacts:
    return AllArtifacts(
        await MultiGet(
            Get(ArtifactDeclaration, ArtifactDeclarationRequest(target.address))
            for target in all_targets
            if target.has_field(ArtifactSourceField)
        )
    )


def rules():
    return collect_rules()
