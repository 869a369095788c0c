"""How `package` makes a wheel of an assembled package."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Iterable

from pants.core.goals.package import (
    BuiltPackage,
    BuiltPackageArtifact,
    OutputPathField,
    PackageFieldSet,
)
from pants.engine.addresses import Address, Addresses, UnparsedAddressInputs
from pants.engine.fs import (
    AddPrefix,
    CreateDigest,
    Digest,
    DigestEntries,
    FileContent,
    MergeDigests,
    RemovePrefix,
    Snapshot,
)
from pants.engine.process import Process
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import Target, Targets, WrappedTarget, WrappedTargetRequest
from pants.engine.unions import UnionRule
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.artifact.fetch_rules import HOST_CACHE, FetchSettings, start_script
from pants_triton.artifact.rules import ArtifactTree, ArtifactTreeRequest, run_with_trees
from pants_triton.artifact.target_types import ArtifactSourceField
from pants_triton.native.editor import DATABASE
from pants_triton.native.layout import BUILD
from pants_triton.native.project_rules import NativeProject, NativeProjectRequest
from pants_triton.native.target_types import CMakeOutputProjectField, CMakeOutputSourceField
from pants_triton.package.metadata import Metadata, MetadataError, python_tags
from pants_triton.package.rules import AssembledPackage, AssembledPackageRequest, PackageError
from pants_triton.package.subsystem import TritonPackageSubsystem
from pants_triton.package.target_types import (
    TritonPackagePartsField,
    TritonPackageSourcesField,
    WheelAbiTagField,
    WheelDistributionField,
    WheelEntryPointsField,
    WheelExtrasField,
    WheelLibrariesField,
    WheelMetadataField,
    WheelPlatformTagField,
    WheelPythonTagField,
    WheelRequiresField,
    WheelRequiresPythonField,
    WheelSystemLibrariesField,
    WheelVersionField,
)
from pants_triton.package.wheel import PROGRAM_MODULES
from pants_triton.program.rules import Program, ProgramRequest

_PROGRAM = ".pants_triton_wheel"
_TREE = "tree"
_OUTPUT = "wheel"
_AUDITWHEEL = ".auditwheel"
_LIBRARIES = ".libraries"


@dataclass(frozen=True)
class TritonPackagePackageFieldSet(PackageFieldSet):
    required_fields = (TritonPackageSourcesField, WheelVersionField)

    sources: TritonPackageSourcesField
    output_path: OutputPathField

    @classmethod
    def opt_out(cls, tgt: Target) -> bool:
        return tgt[WheelVersionField].value is None


# The engine finds the `Get`s of helpers only where they stand above the rules that call them.


async def _targets(owner: Address, specs: tuple[str, ...], alias: str) -> Targets:
    return await Get(
        Targets,
        UnparsedAddressInputs(
            specs, owning_address=owner, description_of_origin=f"the `{alias}` of {owner}"
        ),
    )


async def _python_of_parts(target: Target) -> str:
    """The tag of the Python that the parts are compiled for, "" for none."""
    field = target[TritonPackagePartsField]
    parts = await _targets(target.address, field.addresses, field.alias)
    found: set[str] = set()
    for part in parts:
        if not part.has_field(CMakeOutputSourceField):
            continue
        of = part[CMakeOutputProjectField]
        projects = await Get(
            Addresses,
            UnparsedAddressInputs(
                (of.value,),
                owning_address=part.address,
                description_of_origin=f"the `{of.alias}` of {part.address}",
            ),
        )
        project = await Get(NativeProject, NativeProjectRequest(projects[0]))
        commands = project.graph.texts.get(f"{BUILD}/{DATABASE}", b"")
        found.update(python_tags(commands.decode("utf-8", "replace")))
    if len(found) > 1:
        raise PackageError(
            f"{target.address}: its parts are compiled with headers of several Pythons "
            f"({', '.join(sorted(found))}): say by `{WheelPythonTagField.alias}` which it is for."
        )
    return found.pop() if found else ""


async def _library_folders(target: Target) -> dict[str, Digest]:
    """The trees that its libraries are taken from, by their paths in the sandbox."""
    field = target[WheelLibrariesField]
    found: dict[str, Digest] = {}
    for each in await _targets(target.address, field.value or (), field.alias):
        if not each.has_field(ArtifactSourceField):
            raise PackageError(
                f"{target.address}: {each.address} is a `{each.alias}`. Name artifacts in "
                f"`{field.alias}`."
            )
        tree = await Get(ArtifactTree, ArtifactTreeRequest(each.address))
        found[f"{_LIBRARIES}/{tree.path}"] = tree.digest
    return found


@rule(desc="Package a wheel", level=LogLevel.DEBUG)
async def package_wheel(
    field_set: TritonPackagePackageFieldSet,
    options: TritonPackageSubsystem,
    settings: FetchSettings,
) -> BuiltPackage:
    assert __package__ is not None
    address = field_set.address
    wrapped = await Get(WrappedTarget, WrappedTargetRequest(address, "<infallible>"))
    target = wrapped.target
    package = await Get(AssembledPackage, AssembledPackageRequest(address))
    entries = await Get(DigestEntries, Digest, package.digest)
    metadata = Metadata(
        name=target[WheelDistributionField].value
        or _only_package(address, [entry.path for entry in entries]),
        version=f"{target[WheelVersionField].value}{options.version_suffix}",
        requires_python=target[WheelRequiresPythonField].value or "",
        requires=target[WheelRequiresField].value or (),
        extras=target[WheelExtrasField].value or FrozenDict(),
        entry_points=target[WheelEntryPointsField].value or FrozenDict(),
        headers=target[WheelMetadataField].value or FrozenDict(),
    )
    try:
        name, text = metadata.escaped, metadata.rendered()
        points = metadata.rendered_entry_points()
    except MetadataError as e:
        raise PackageError(f"{address}: {e}") from None
    python = target[WheelPythonTagField].value or await _python_of_parts(target)
    abi = target[WheelAbiTagField].value or (python if python.startswith("cp") else "none")

    libraries = await _library_folders(target)
    auditwheel, program, start, info, tree = await MultiGet(
        Get(
            Targets,
            UnparsedAddressInputs(
                (options.auditwheel,),
                owning_address=None,
                description_of_origin="the option `[triton-wheel].auditwheel`",
            ),
        ),
        Get(Program, ProgramRequest(__package__, PROGRAM_MODULES, main="wheel")),
        Get(Digest, CreateDigest([FileContent("run.sh", start_script(_PROGRAM).encode())])),
        Get(
            Digest,
            CreateDigest(
                FileContent(f"{_TREE}/{name}.dist-info/{file}", content.encode())
                for file, content in (("METADATA", text), ("entry_points.txt", points))
                if content
            ),
        ),
        Get(Digest, AddPrefix(package.digest, _TREE)),
    )
    platform_tag = target[WheelPlatformTagField].value or ""
    auditwheel_tree = await Get(
        ArtifactTree, ArtifactTreeRequest(auditwheel.expect_single().address)
    )
    program_digest, input_digest = await MultiGet(
        Get(Digest, MergeDigests((program.digest, start))),
        Get(Digest, MergeDigests((tree, info))),
    )
    folders = []
    for path, digest in sorted(libraries.items()):
        members = await Get(DigestEntries, Digest, digest)
        folders += [f"{path}/{folder}" for folder in _library_path(e.path for e in members)]
    settings.leave()
    result = await run_with_trees(
        Process(
            argv=(
                "/bin/sh",
                f"{_PROGRAM}/run.sh",
                f"--tree={_TREE}",
                f"--dist-info={name}",
                f"--python-tag={python or 'py3'}",
                f"--abi-tag={abi}",
                f"--platform-tag={platform_tag}",
                f"--auditwheel={_AUDITWHEEL}",
                *(f"--libraries={folder}" for folder in folders),
                *(f"--exclude={n}" for n in target[WheelSystemLibrariesField].value or ()),
                f"--output={_OUTPUT}",
            ),
            env=FrozenDict({"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}),
            input_digest=input_digest,
            immutable_input_digests={
                **libraries,
                _PROGRAM: program_digest,
                _AUDITWHEEL: auditwheel_tree.digest,
            },
            append_only_caches=HOST_CACHE,
            output_directories=(_OUTPUT,),
            description=f"Package a wheel of {address}",
            level=LogLevel.INFO,
        ),
        (address,),
    )
    if result.exit_code != 0:
        message = result.stderr.decode("utf-8", "replace").strip()
        raise PackageError(f"{address}: no wheel can be made of it. {message}")
    digest = await Get(Digest, RemovePrefix(result.output_digest, _OUTPUT))
    made = await Get(Snapshot, Digest, digest)
    folder = field_set.output_path.value or ""
    if folder:
        digest = await Get(Digest, AddPrefix(digest, folder))
    return BuiltPackage(
        digest,
        tuple(BuiltPackageArtifact(os.path.join(folder, file)) for file in made.files),
    )


def _only_package(address: Address, files: list[str]) -> str:
    found = sorted(
        {f.split("/")[0] for f in files if f.count("/") == 1 and f.endswith("/__init__.py")}
    )
    if len(found) != 1:
        shown = f"the packages {', '.join(found)}" if found else "no package"
        raise PackageError(
            f"{address} has {shown} in it: say by `{WheelDistributionField.alias}` what its wheel is "
            "called."
        )
    return found[0]


def _library_path(members: Iterable[str]) -> list[str]:
    """The folders of a tree with shared libraries: the one that a tree of Debian packages has for it,
    or any."""
    folders = {os.path.dirname(m) for m in members if ".so" in os.path.basename(m)}
    return [".libraries"] if ".libraries" in folders else sorted(folders)


def rules():
    return [
        *collect_rules(),
        UnionRule(PackageFieldSet, TritonPackagePackageFieldSet),
    ]
