"""What the workspace declares of artifacts."""

from __future__ import annotations

from dataclasses import dataclass

from pants.engine.addresses import Address, Addresses, UnparsedAddressInputs
from pants.engine.engine_aware import EngineAwareParameter
from pants.engine.fs import Digest, DigestContents
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import (
    AllTargets,
    HydratedSources,
    HydrateSourcesRequest,
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
    if not target[field_type].value:
        return None
    sources = await Get(HydratedSources, HydrateSourcesRequest(target[field_type]))
    (content,) = await Get(DigestContents, Digest, sources.snapshot.digest)
    return PinFile(content.path, content.content.decode("utf-8", "replace"))


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
        parts = await Get(
            Targets, UnparsedAddressInputs, target[ArtifactPartsField].to_unparsed_address_inputs()
        )
        for part in parts:
            if not part.has_field(ArtifactSourceField):
                return ArtifactDeclaration(
                    request.address,
                    path,
                    error=(
                        f"{request.address}: its part {part.address} is no artifact but a "
                        f"`{part.alias}`. Name targets such as `wheel_artifact`."
                    ),
                )
        return ArtifactDeclaration(
            request.address, path, parts=Addresses(part.address for part in parts)
        )
    pin = None
    for field_type in (LlvmPinField, NvidiaPinField, ArchivePinField):
        if target.has_field(field_type):
            pin = await _pin_file(target, field_type)
    try:
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
