"""A configured project as a graph of edges, with what is known of its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping

from pants.engine.addresses import Address
from pants.engine.engine_aware import EngineAwareParameter
from pants.engine.fs import Digest, DigestContents, DigestEntries, FileEntry, SymlinkEntry
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.native.configure_rules import (
    ConfiguredProject,
    ConfiguredProjectRequest,
    ProjectSources,
    ProjectSourcesRequest,
    refuse_unseen,
)
from pants_triton.native.host_compiler import HostCompiler
from pants_triton.native.includes import Resolver, Scans
from pants_triton.native.layout import BUILD, ROOT_TOKEN, in_root
from pants_triton.native.manifest import Manifest, ManifestError, read_manifest
from pants_triton.native.subsystem import NativeError
from pants_triton.native.tools_rules import ProjectTools, ProjectToolsRequest

# Scans of sources, by content: what didn't change is not scanned again while a daemon lives.
_SCANS = Scans()


@dataclass(frozen=True)
class NativeProjectRequest(EngineAwareParameter):
    """Asks for a project, ready to run its edges."""

    address: Address

    def debug_hint(self) -> str:
        return self.address.spec


@dataclass(frozen=True)
class NativeProject:
    """A project in one state of its files.

    :param entries: all files that no edge makes, by their paths below the sandbox's root.
    :param texts: the content of the files that CMake wrote, by the same paths.
    :param generated: the content of what edges made, as far as others include it.
    :param numbers: of each edge that isn't phony, by index, counted as ninja counts them.
    """

    address: Address
    sources: Digest
    configured: ConfiguredProject
    trees: FrozenDict[str, Digest]
    host: HostCompiler | None
    compile_flags: tuple[str, ...]
    manifest: Manifest = field(compare=False, repr=False)
    entries: Mapping[str, FileEntry | SymlinkEntry] = field(compare=False, repr=False)
    texts: Mapping[str, bytes] = field(compare=False, repr=False)
    resolver: Resolver = field(compare=False, repr=False)
    generated: dict[str, bytes] = field(compare=False, repr=False)
    makers: Mapping[str, int] = field(compare=False, repr=False)
    numbers: Mapping[int, int] = field(compare=False, repr=False)


@rule(desc="Read a project's ninja manifest", level=LogLevel.DEBUG)
async def read_project(request: NativeProjectRequest) -> NativeProject:
    address = request.address
    configured, sources, tools = await MultiGet(
        Get(ConfiguredProject, ConfiguredProjectRequest(address)),
        Get(ProjectSources, ProjectSourcesRequest(address)),
        Get(ProjectTools, ProjectToolsRequest(address)),
    )
    contents, source_entries, configured_contents, configured_entries = await MultiGet(
        Get(DigestContents, Digest, sources.snapshot.digest),
        Get(DigestEntries, Digest, sources.snapshot.digest),
        Get(DigestContents, Digest, configured.digest),
        Get(DigestEntries, Digest, configured.digest),
    )
    known = {file.path: file.content for file in (*contents, *configured_contents)}

    def manifest_text(name: str) -> str:
        return known[f"{BUILD}/{name}"].decode("utf-8", "surrogateescape")

    try:
        manifest = read_manifest(manifest_text)
    except ManifestError as e:
        raise NativeError(f"{address}: {e}") from None
    _check_configure_sources(address, manifest, sources)
    makers = {
        path: index
        for index, edge in enumerate(manifest.edges)
        # The edge that would configure anew: that has been done.
        if not edge.is_phony and not edge.generator
        for path in (in_root(output) for output in edge.all_outputs)
        if path is not None
    }
    entries = {
        entry.path: entry
        for entry in (*source_entries, *configured_entries)
        if isinstance(entry, (FileEntry, SymlinkEntry))
    }
    generated: dict[str, bytes] = {}
    resolver = Resolver(
        (*entries, *makers),
        lambda path: known.get(path, generated.get(path)),
        outside=tools.trees,
        roots=(ROOT_TOKEN,),
        scans=_SCANS,
    )
    indices = {id(edge): index for index, edge in enumerate(manifest.edges)}
    ordered = [edge for edge in manifest.edges_for(manifest.default_targets) if not edge.is_phony]
    numbers = {indices[id(edge)]: number for number, edge in enumerate(ordered, start=1)}
    return NativeProject(
        address,
        sources.snapshot.digest,
        configured,
        tools.trees,
        tools.host,
        tools.compile_flags,
        manifest,
        entries,
        {file.path: file.content for file in configured_contents},
        resolver,
        generated,
        makers,
        numbers,
    )


def _check_configure_sources(address: Address, manifest: Manifest, sources: ProjectSources) -> None:
    # CMake writes down all that it read, as what its own edge depends on.
    edge = manifest.edge_of("build.ninja")
    inputs = edge.all_inputs if edge is not None else ()
    read = {path for path in map(in_root, inputs) if path is not None}
    refuse_unseen(
        address, sorted((read & set(sources.snapshot.files)) - set(sources.configure.files))
    )


def rules():
    return collect_rules()
