"""How the engine builds a CMake project: configured once, then an edge a process."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from pants.engine.addresses import Address, Addresses, UnparsedAddressInputs
from pants.engine.engine_aware import EngineAwareParameter
from pants.engine.fs import (
    EMPTY_DIGEST,
    Digest,
    DigestSubset,
    MergeDigests,
    PathGlobs,
    RemovePrefix,
    Snapshot,
)
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import (
    TransitiveTargets,
    TransitiveTargetsRequest,
    WrappedTarget,
    WrappedTargetRequest,
)
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.native import (
    compiler_rules,
    configure_rules,
    edge_rules,
    limit_rules,
    project_rules,
    tools_rules,
)
from pants_triton.native.edge_rules import EdgeRequest, EdgeResult, failures_of
from pants_triton.native.edges import run_time_files
from pants_triton.native.layout import BUILD, in_root
from pants_triton.native.project_rules import NativeProject, NativeProjectRequest
from pants_triton.native.subsystem import NativeError
from pants_triton.native.target_types import (
    CMakeOutputOutputsField,
    CMakeOutputPathField,
    CMakeOutputProjectField,
    CMakeOutputSourceField,
)
from pants_triton.native.tools_rules import ProjectTools, ProjectToolsRequest


@dataclass(frozen=True)
class BuiltFilesRequest:
    """Asks for files that edges of a project make.

    :param files: below the sandbox's root.
    """

    project: Address
    files: tuple[str, ...]


@dataclass(frozen=True)
class BuiltFiles:
    """The files, by their paths in BUILD, and the project's shared libraries that they run with; or
    all that failed on the way, for people."""

    digest: Digest
    error: str = ""


@rule(desc="Build files of a project", level=LogLevel.DEBUG)
async def build_files(request: BuiltFilesRequest) -> BuiltFiles:
    project = await Get(NativeProject, NativeProjectRequest(request.project))
    wanted = run_time_files(project.manifest, project.makers, request.files)
    results = await MultiGet(
        Get(EdgeResult, EdgeRequest(project.address, index))
        for index in sorted({project.makers[file] for file in wanted})
    )
    failures = failures_of(results)
    if failures:
        shown = "\n\n".join(f"FAILED: {f.description}\n{f.message}" for f in failures)
        count = f"{len(failures)} edge{'s' * (len(failures) != 1)} failed"
        return BuiltFiles(EMPTY_DIGEST, f"{count}.\n\n{shown}")
    merged = await Get(Digest, MergeDigests(result.digest for result in results))
    kept = await Get(Snapshot, DigestSubset(merged, PathGlobs(wanted)))
    absent = sorted(set(request.files) - set(kept.files))
    if absent:
        return BuiltFiles(
            EMPTY_DIGEST, f"the edges of {', '.join(absent)} ran, but didn't make it."
        )
    return BuiltFiles(await Get(Digest, RemovePrefix(kept.digest, BUILD)))


@dataclass(frozen=True)
class BuiltOutputRequest(EngineAwareParameter):
    """Asks for the files of a `cmake_output`. Fails with a NativeError."""

    address: Address

    def debug_hint(self) -> str:
        return self.address.spec


@dataclass(frozen=True)
class BuiltOutput:
    """Files by their paths in the build folder.

    :param path: where they are to be in sandboxes.
    :param library_path: for LD_LIBRARY_PATH of whoever runs them, with CHROOT; "" for none.
    :param trees: the artifacts that have those libraries, as immutable inputs.
    """

    address: Address
    path: str
    files: tuple[str, ...]
    digest: Digest
    library_path: str
    trees: FrozenDict[str, Digest]


@rule(desc="Build an output of a project", level=LogLevel.DEBUG)
async def build_output(request: BuiltOutputRequest) -> BuiltOutput:
    wrapped = await Get(WrappedTarget, WrappedTargetRequest(request.address, "<infallible>"))
    target = wrapped.target
    projects = await Get(
        Addresses,
        UnparsedAddressInputs(
            (target[CMakeOutputProjectField].value,),
            owning_address=request.address,
            description_of_origin=f"the `{CMakeOutputProjectField.alias}` of {request.address}",
        ),
    )
    project_address = projects[0]
    project, tools = await MultiGet(
        Get(NativeProject, NativeProjectRequest(project_address)),
        Get(ProjectTools, ProjectToolsRequest(project_address)),
    )
    files: dict[str, None] = {}
    for output in target[CMakeOutputOutputsField].value:
        behind = _files_of(project, output)
        if not behind:
            raise NativeError(_unknown_output(request.address, project, output))
        files.update(dict.fromkeys(behind))
    built = await Get(BuiltFiles, BuiltFilesRequest(project.address, tuple(files)))
    if built.error:
        raise NativeError(f"{request.address} can't be built: {built.error}")
    return BuiltOutput(
        request.address,
        target[CMakeOutputPathField].in_sandbox(request.address),
        tuple(file[len(BUILD) + 1 :] for file in files),
        built.digest,
        tools.library_path,
        tools.runtime_trees,
    )


def _files_of(project: NativeProject, output: str) -> list[str]:
    edge = project.manifest.edge_of(output)
    if edge is None:
        return []
    found = map(in_root, project.manifest.resolve_phony(output))
    return [path for path in found if path is not None and path in project.makers]


def _unknown_output(address: Address, project: NativeProject, output: str) -> str:
    names = [path for edge in project.manifest.edges for path in edge.all_outputs]
    near = difflib.get_close_matches(output, names, n=3, cutoff=0.5)
    same_name = [n for n in names if n.rpartition("/")[2] == output.rpartition("/")[2]][:3]
    hint = " or ".join(f"`{name}`" for name in dict.fromkeys([*same_name, *near]))
    return (
        f"{address}: {project.address} has no output `{output}`."
        + (f" Did you mean {hint}?" if hint else "")
        + " Outputs are files relative to the build folder, or targets of CMake."
    )


@dataclass(frozen=True)
class BuiltOutputsRequest:
    """Asks for all `cmake_output`s that targets depend on, transitively."""

    addresses: tuple[Address, ...]


@dataclass(frozen=True)
class BuiltOutputs:
    """The outputs, or why one of them can't be had, so that only what needs it fails."""

    outputs: tuple[BuiltOutput, ...]
    error: str = ""

    @property
    def immutable_input_digests(self) -> FrozenDict[str, Digest]:
        trees: dict[str, Digest] = {}
        for output in self.outputs:
            trees.update(output.trees)
            trees[output.path] = output.digest
        return FrozenDict(trees)


@rule(desc="Build what targets depend on", level=LogLevel.DEBUG)
async def build_outputs(request: BuiltOutputsRequest) -> BuiltOutputs:
    transitive = await Get(TransitiveTargets, TransitiveTargetsRequest(request.addresses))
    addresses = [t.address for t in transitive.closure if t.has_field(CMakeOutputSourceField)]
    try:
        outputs = await MultiGet(
            Get(BuiltOutput, BuiltOutputRequest(address)) for address in addresses
        )
    except NativeError as e:
        return BuiltOutputs((), str(e))
    return BuiltOutputs(outputs)


def rules():
    return [
        *collect_rules(),
        *compiler_rules.rules(),
        *configure_rules.rules(),
        *edge_rules.rules(),
        *limit_rules.rules(),
        *project_rules.rules(),
        *tools_rules.rules(),
    ]
