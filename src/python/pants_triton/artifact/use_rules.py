"""How Pants' own targets get at artifacts, and the lock's changes at them."""

from __future__ import annotations

from dataclasses import dataclass

from pants.backend.python.goals.pytest_runner import PytestPluginSetup, PytestPluginSetupRequest
from pants.backend.python.target_types import PythonTestSourceField
from pants.core.target_types import FileSourceField
from pants.engine.addresses import UnparsedAddressInputs
from pants.engine.fs import AddPrefix, Digest, DigestEntries, MergeDigests, Snapshot, SymlinkEntry
from pants.engine.internals.graph import Owners, OwnersRequest
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import (
    FieldSet,
    GeneratedSources,
    GenerateSourcesRequest,
    InferDependenciesRequest,
    InferredDependencies,
    Target,
    Targets,
)
from pants.engine.unions import UnionRule
from pants.util.logging import LogLevel

from pants_triton.artifact.links import links_to_own_parents
from pants_triton.artifact.places import trees_in_one_place
from pants_triton.artifact.rules import (
    ArtifactTree,
    ArtifactTreeRequest,
    ArtifactTrees,
    ArtifactTreesRequest,
)
from pants_triton.artifact.subsystem import ArtifactError, ArtifactSubsystem
from pants_triton.artifact.target_types import (
    ArtifactDependenciesField,
    ArtifactFilesSourceField,
    ArtifactsField,
    ArtifactSourceField,
)


class ArtifactsOfPythonTestRequest(PytestPluginSetupRequest):
    """Puts the artifacts that a `python_test` depends on into its sandbox. Pants gives such a
    set-up no immutable inputs: they are files, made anew for each test."""

    @classmethod
    def is_applicable(cls, target: Target) -> bool:
        return target.has_field(PythonTestSourceField)


@rule(desc="Get the artifacts of a Python test", level=LogLevel.DEBUG)
async def set_up_artifacts_of_python_test(
    request: ArtifactsOfPythonTestRequest,
) -> PytestPluginSetup:
    artifacts = await Get(ArtifactTrees, ArtifactTreesRequest((request.target.address,)))
    if artifacts.error:
        raise ArtifactError(f"{request.target.address} needs an artifact: {artifacts.error}")
    digests = await MultiGet(
        Get(Digest, AddPrefix(tree.digest, tree.path)) for tree in artifacts.trees
    )
    return PytestPluginSetup(await Get(Digest, MergeDigests(digests)))


class GenerateArtifactFilesRequest(GenerateSourcesRequest):
    """Makes trees ordinary files, for `artifact_files`."""

    input = ArtifactFilesSourceField
    output = FileSourceField
    # `export-codegen ::` would write gigabytes.
    exportable = False


@rule(desc="Lay out artifacts as files", level=LogLevel.DEBUG)
async def generate_artifact_files(request: GenerateArtifactFilesRequest) -> GeneratedSources:
    target = request.protocol_target
    parts = await Get(
        Targets, UnparsedAddressInputs, target[ArtifactsField].to_unparsed_address_inputs()
    )
    for part in parts:
        if not part.has_field(ArtifactSourceField):
            raise ArtifactError(f"{target.address}: {part.address} is no artifact.")
    trees = await MultiGet(Get(ArtifactTree, ArtifactTreeRequest(part.address)) for part in parts)
    problem = trees_in_one_place([(tree.address.spec, tree.path) for tree in trees])
    if problem:
        raise ArtifactError(f"{target.address}: {problem}")
    entries = await MultiGet(Get(DigestEntries, Digest, tree.digest) for tree in trees)
    for tree, tree_entries in zip(trees, entries):
        links = {e.path: e.target for e in tree_entries if isinstance(e, SymlinkEntry)}
        loops = links_to_own_parents(links)
        if loops:
            # Pants lists files through links: it would go on until there is no memory left.
            raise ArtifactError(
                f"{target.address}: {tree.address} can't be laid out as files, because it has "
                f"folders that link back to where they are in: {', '.join(loops[:3])}. Keep only "
                "what you need of it by `subset`. (`triton_tests` and `pants run` take it as it is.)"
            )
    digests = await MultiGet(Get(Digest, AddPrefix(tree.digest, tree.path)) for tree in trees)
    return GeneratedSources(await Get(Snapshot, MergeDigests(digests)))


@dataclass(frozen=True)
class ArtifactDependenciesFieldSet(FieldSet):
    required_fields = (ArtifactSourceField, ArtifactDependenciesField)

    source: ArtifactSourceField


class InferArtifactDependencies(InferDependenciesRequest):
    infer_from = ArtifactDependenciesFieldSet


@rule(desc="Find the owner of the lock of artifacts", level=LogLevel.DEBUG)
async def infer_artifact_dependencies(
    _: InferArtifactDependencies, artifact: ArtifactSubsystem
) -> InferredDependencies:
    # So that `--changed-since` sees what a new lock affects.
    owners = await Get(Owners, OwnersRequest((artifact.lock,)))
    return InferredDependencies(owners)


def rules():
    return [
        *collect_rules(),
        UnionRule(GenerateSourcesRequest, GenerateArtifactFilesRequest),
        UnionRule(InferDependenciesRequest, InferArtifactDependencies),
        UnionRule(PytestPluginSetupRequest, ArtifactsOfPythonTestRequest),
    ]
