"""How outputs of projects are packaged and run, and what they depend on."""

from __future__ import annotations

from dataclasses import dataclass

from pants.core.goals.package import (
    BuiltPackage,
    BuiltPackageArtifact,
    OutputPathField,
    PackageFieldSet,
)
from pants.core.goals.run import RunFieldSet, RunInSandboxBehavior, RunRequest
from pants.engine.addresses import Addresses, UnparsedAddressInputs
from pants.engine.fs import AddPrefix, Digest
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import FieldSet, InferDependenciesRequest, InferredDependencies
from pants.engine.unions import UnionRule
from pants.util.logging import LogLevel

from pants_triton.artifact.rules import ArtifactTrees, ArtifactTreesRequest
from pants_triton.native.layout import CHROOT
from pants_triton.native.rules import BuiltOutput, BuiltOutputRequest
from pants_triton.native.subsystem import CompilerSource, NativeError, NativeSubsystem
from pants_triton.native.target_types import (
    CMakeOutputDependenciesField,
    CMakeOutputOutputsField,
    CMakeOutputProjectField,
    CMakeOutputSourceField,
    CMakeProjectDependenciesField,
    CMakeProjectSourcesField,
)


@dataclass(frozen=True)
class CMakeOutputPackageFieldSet(PackageFieldSet):
    required_fields = (CMakeOutputSourceField,)

    source: CMakeOutputSourceField
    output_path: OutputPathField


@rule(desc="Package an output of a project", level=LogLevel.DEBUG)
async def package_output(field_set: CMakeOutputPackageFieldSet) -> BuiltPackage:
    output = await Get(BuiltOutput, BuiltOutputRequest(field_set.address))
    folder = field_set.output_path.value_or_default(file_ending=None)
    digest = await Get(Digest, AddPrefix(output.digest, folder))
    return BuiltPackage(
        digest, tuple(BuiltPackageArtifact(f"{folder}/{file}") for file in output.files)
    )


@dataclass(frozen=True)
class CMakeOutputRunFieldSet(RunFieldSet):
    required_fields = (CMakeOutputSourceField,)
    run_in_sandbox_behavior = RunInSandboxBehavior.RUN_REQUEST_HERMETIC

    source: CMakeOutputSourceField


@rule(desc="Set up an output of a project to run", level=LogLevel.DEBUG)
async def run_output(field_set: CMakeOutputRunFieldSet) -> RunRequest:
    output = await Get(BuiltOutput, BuiltOutputRequest(field_set.address))
    if len(output.files) != 1:
        raise NativeError(
            f"{field_set.address} is not one program but {', '.join(output.files)}. Declare a "
            f"`cmake_output` whose `{CMakeOutputOutputsField.alias}` has that program alone."
        )
    # Pants lays out what such a process reads without asking anybody again.
    artifacts = await Get(ArtifactTrees, ArtifactTreesRequest((field_set.address,)))
    if artifacts.error:
        raise NativeError(f"{field_set.address} needs an artifact: {artifacts.error}")
    env = {"LD_LIBRARY_PATH": output.library_path} if output.library_path else {}
    return RunRequest(
        digest=await Get(Digest, AddPrefix(output.digest, output.path)),
        args=(f"{CHROOT}/{output.path}/{output.files[0]}",),
        extra_env=env,
        immutable_input_digests=output.trees,
    )


@dataclass(frozen=True)
class CMakeProjectDependenciesFieldSet(FieldSet):
    required_fields = (CMakeProjectSourcesField, CMakeProjectDependenciesField)

    sources: CMakeProjectSourcesField


class InferCMakeProjectDependencies(InferDependenciesRequest):
    infer_from = CMakeProjectDependenciesFieldSet


@rule(desc="Find the tools that a project depends on", level=LogLevel.DEBUG)
async def infer_project_dependencies(
    _: InferCMakeProjectDependencies, native: NativeSubsystem
) -> InferredDependencies:
    options = {"cmake": native.cmake}
    if native.compiler is CompilerSource.TOOLCHAIN:
        options["toolchain"] = native.toolchain
    tools = await MultiGet(
        Get(
            Addresses,
            UnparsedAddressInputs(
                (spec,), owning_address=None, description_of_origin=f"the option `[native].{name}`"
            ),
        )
        for name, spec in options.items()
    )
    return InferredDependencies(address for addresses in tools for address in addresses)


@dataclass(frozen=True)
class CMakeOutputDependenciesFieldSet(FieldSet):
    required_fields = (CMakeOutputProjectField, CMakeOutputDependenciesField)

    project: CMakeOutputProjectField


class InferCMakeOutputDependencies(InferDependenciesRequest):
    infer_from = CMakeOutputDependenciesFieldSet


@rule(desc="Find the project of an output", level=LogLevel.DEBUG)
async def infer_output_dependencies(request: InferCMakeOutputDependencies) -> InferredDependencies:
    field = request.field_set.project
    projects = await Get(
        Addresses,
        UnparsedAddressInputs(
            (field.value,),
            owning_address=request.field_set.address,
            description_of_origin=f"the `{field.alias}` of {request.field_set.address}",
        ),
    )
    return InferredDependencies(projects)


def rules():
    return [
        *collect_rules(),
        *CMakeOutputRunFieldSet.rules(),
        UnionRule(InferDependenciesRequest, InferCMakeOutputDependencies),
        UnionRule(InferDependenciesRequest, InferCMakeProjectDependencies),
        UnionRule(PackageFieldSet, CMakeOutputPackageFieldSet),
    ]
