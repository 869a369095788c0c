"""How the engine gets an artifact's tree: declared, found in the lock, fetched, laid out."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from pants.engine.addresses import Address
from pants.engine.engine_aware import EngineAwareParameter, EngineAwareReturnType
from pants.engine.fs import (
    CreateDigest,
    Digest,
    DigestEntries,
    FileEntry,
    MergeDigests,
    SymlinkEntry,
)
from pants.engine.process import FallibleProcessResult, Process
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import TransitiveTargets, TransitiveTargetsRequest
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.artifact import declaration_rules, fetch_rules, lock_rules
from pants_triton.artifact.declaration_rules import ArtifactDeclaration, ArtifactDeclarationRequest
from pants_triton.artifact.errors import addressed
from pants_triton.artifact.fetch_rules import (
    FetchedEntry,
    FetchedEntryRequest,
    ListedEntryRequest,
    LocalTreeRequest,
    MaterialisedFolder,
)
from pants_triton.artifact.lock import UrlEntry, WheelEntry, shown_size
from pants_triton.artifact.lock_rules import LocatedArtifact, LocatedArtifactRequest
from pants_triton.artifact.locking import Found
from pants_triton.artifact.overlay import lay_over
from pants_triton.artifact.places import trees_in_one_place
from pants_triton.artifact.subsystem import ArtifactError, ArtifactSubsystem
from pants_triton.artifact.target_types import ArtifactSourceField
from pants_triton.workunits import ARTIFACT, work_metadata

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OverlayRequest:
    """Asks for trees laid over each other, where of two files with the same path the later one's
    tree wins, as when Triton's own set-up copies them."""

    digests: tuple[Digest, ...]


@dataclass(frozen=True)
class Overlay:
    digest: Digest


@rule(desc="Lay trees over each other", level=LogLevel.DEBUG)
async def overlay_trees(request: OverlayRequest) -> Overlay:
    if len(request.digests) < 2:
        return Overlay(await Get(Digest, MergeDigests(request.digests)))
    # Not as Snapshots: those list through links, see `generate_artifact_files`.
    trees = await MultiGet(Get(DigestEntries, Digest, digest) for digest in request.digests)
    seen = lay_over(
        [
            {e.path: e for e in entries if isinstance(e, (FileEntry, SymlinkEntry))}
            for entries in trees
        ]
    )
    return Overlay(await Get(Digest, CreateDigest(seen.values())))


@dataclass(frozen=True)
class ArtifactTreeRequest(EngineAwareParameter):
    """Asks for the tree of an artifact on this host. Fails with an ArtifactError.

    :param with_content: whether its files' content must be here. Else only what is in it is known for
        sure, and a process that has it among its inputs is run by `run_with_trees`.
    """

    address: Address
    with_content: bool = True

    def debug_hint(self) -> str:
        return self.address.spec

    def metadata(self) -> dict[str, Any]:
        return work_metadata(ARTIFACT, self.address.spec)


@dataclass(frozen=True)
class ArtifactTree(EngineAwareReturnType):
    """A tree, to be used as `immutable_input_digests={tree.path: tree.digest}`.

    :param path: where it is to be in sandboxes.
    :param local_path: of the folder of this machine that it is instead of the artifact, or "".
    """

    address: Address
    path: str
    digest: Digest
    local_path: str = ""

    def level(self) -> LogLevel | None:
        return LogLevel.WARN if self.local_path else None

    def message(self) -> str | None:
        if not self.local_path:
            return None
        return (
            f"{self.address} is not hermetic: `[artifact].local_trees` takes {self.local_path} "
            "instead of what is locked."
        )

    def cacheable(self) -> bool:
        """Whether it need not be said again in a daemon's next run."""
        return not self.local_path


def _fetch_description(address: Address, found: Found) -> str:
    entry = found.entry
    if isinstance(entry, (UrlEntry, WheelEntry)):
        size: int | None = entry.size
    else:
        size = sum(package.size for package in entry.packages)
    known = f" ({shown_size(size)})" if size is not None else ""
    return f"Fetch {address}: {found.artifact} for {found.platform}{known}"


@rule(desc="Get an artifact", level=LogLevel.DEBUG)
async def get_artifact_tree(
    request: ArtifactTreeRequest, artifact: ArtifactSubsystem
) -> ArtifactTree:
    address = request.address
    declared, _ = await MultiGet(
        Get(ArtifactDeclaration, ArtifactDeclarationRequest(address)), Get(MaterialisedFolder)
    )
    if declared.error:
        raise ArtifactError(declared.error)
    local_path = artifact.local_trees.get(address.spec, "")
    if local_path:
        tree = await Get(FetchedEntry, LocalTreeRequest(address, local_path))
        if tree.error:
            raise ArtifactError(f"{address}: {tree.error}")
        return ArtifactTree(address, declared.path, tree.digest, local_path)
    if declared.parts:
        parts = await MultiGet(
            Get(ArtifactTree, ArtifactTreeRequest(part, request.with_content))
            for part in declared.parts
        )
        overlay = await Get(Overlay, OverlayRequest(tuple(part.digest for part in parts)))
        return ArtifactTree(address, declared.path, overlay.digest)
    located = await Get(LocatedArtifact, LocatedArtifactRequest(address))
    requests = [
        FetchedEntryRequest(found.entry, found.platform, _fetch_description(address, found))
        for found in located.found
    ]
    fetched = await MultiGet(
        Get(FetchedEntry, FetchedEntryRequest, each)
        if request.with_content
        else Get(FetchedEntry, ListedEntryRequest(each))
        for each in requests
    )
    errors = [
        f"{address}: {found.artifact} for {found.platform}: {addressed(entry.error, address.spec)}"
        for found, entry in zip(located.found, fetched)
        if entry.error
    ]
    if errors:
        raise ArtifactError("\n\n".join(errors))
    overlay = await Get(Overlay, OverlayRequest(tuple(entry.digest for entry in fetched)))
    return ArtifactTree(address, declared.path, overlay.digest)


@dataclass(frozen=True)
class ArtifactTreesRequest:
    """Asks for the trees of all artifacts that targets depend on, transitively.

    :param with_content: as of an `ArtifactTreeRequest`.
    """

    addresses: tuple[Address, ...]
    with_content: bool = True


@dataclass(frozen=True)
class ArtifactTrees:
    """The trees, or why one of them can't be had, so that only what needs it fails."""

    trees: tuple[ArtifactTree, ...]
    error: str = ""

    @property
    def immutable_input_digests(self) -> FrozenDict[str, Digest]:
        return FrozenDict({tree.path: tree.digest for tree in self.trees})


@rule(desc="Get the artifacts of targets", level=LogLevel.DEBUG)
async def get_artifact_trees(request: ArtifactTreesRequest) -> ArtifactTrees:
    transitive = await Get(TransitiveTargets, TransitiveTargetsRequest(request.addresses))
    addresses = [t.address for t in transitive.closure if t.has_field(ArtifactSourceField)]
    try:
        trees = await MultiGet(
            Get(ArtifactTree, ArtifactTreeRequest(address, request.with_content))
            for address in addresses
        )
    except ArtifactError as e:
        return ArtifactTrees((), str(e))
    problem = trees_in_one_place([(tree.address.spec, tree.path) for tree in trees])
    return ArtifactTrees((), problem) if problem else ArtifactTrees(trees)


async def run_with_trees(process: Process, addresses: tuple[Address, ...]) -> FallibleProcessResult:
    """Run a process with trees whose content may not be here: where no cache has its result, what it is
    run with is fetched.

    :param addresses: of targets that depend on all the artifacts.
    """
    try:
        return await Get(FallibleProcessResult, Process, process)
    except Exception as e:
        # Mostly a missing blob, for whose lack the sandbox couldn't be made. What a process itself does
        # wrong is no exception. Fetching asks the remote cache first, as any process does.
        logger.debug(f"{process.description}: its inputs are fetched anew, because of {e}")
        trees = await Get(ArtifactTrees, ArtifactTreesRequest(addresses))
        if trees.error:
            raise ArtifactError(trees.error) from None
    return await Get(FallibleProcessResult, Process, process)


def rules():
    return [
        *collect_rules(),
        *declaration_rules.rules(),
        *fetch_rules.rules(),
        *lock_rules.rules(),
    ]
