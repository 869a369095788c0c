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
from pants_triton.native.edges import Step, make_step, may_read
from pants_triton.native.host_compiler import HostCompiler
from pants_triton.native.includes import Resolver, Scans
from pants_triton.native.layout import BUILD, ROOT_TOKEN, in_root
from pants_triton.native.manifest import Manifest, ManifestError, read_manifest
from pants_triton.native.subsystem import NativeError
from pants_triton.native.tools_rules import ProjectTools, ProjectToolsRequest

# Scans of sources, by content: what didn't change is not scanned again while a daemon lives.
_SCANS = Scans()


@dataclass(frozen=True)
class BuildGraphRequest(EngineAwareParameter):
    """Asks for what CMake wrote, read."""

    address: Address
    configured: ConfiguredProject

    def debug_hint(self) -> str:
        return self.address.spec


@dataclass(frozen=True)
class BuildGraph:
    """What CMake wrote, read: the same until CMake writes something else, whatever sources say.

    :param entries: the files that CMake wrote, by their paths below the sandbox's root.
    :param texts: their content, by the same paths.
    :param makers: the edge that makes a file, by the file's path.
    :param numbers: of each edge that isn't phony, by index, counted as ninja counts them.
    :param for_any: those of `entries` that any custom command may read; others are named.
    """

    configured: ConfiguredProject
    manifest: Manifest = field(compare=False, repr=False)
    entries: Mapping[str, FileEntry | SymlinkEntry] = field(compare=False, repr=False)
    texts: Mapping[str, bytes] = field(compare=False, repr=False)
    makers: Mapping[str, int] = field(compare=False, repr=False)
    numbers: Mapping[int, int] = field(compare=False, repr=False)
    for_any: frozenset[str] = field(compare=False, repr=False)
    _steps: dict[tuple[object, ...], Step] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def step(self, index: int, origin: str = "$ORIGIN", flags: tuple[str, ...] = ()) -> Step:
        """`make_step` of an edge, made once."""
        key = (index, origin, flags)
        if key not in self._steps:
            self._steps[key] = make_step(self.manifest.edges[index], origin, flags)
        return self._steps[key]


@rule(desc="Read a project's ninja manifest", level=LogLevel.DEBUG)
async def read_graph(request: BuildGraphRequest) -> BuildGraph:
    contents, entries = await MultiGet(
        Get(DigestContents, Digest, request.configured.digest),
        Get(DigestEntries, Digest, request.configured.digest),
    )
    texts = {file.path: file.content for file in contents}

    def manifest_text(name: str) -> str:
        return texts[f"{BUILD}/{name}"].decode("utf-8", "surrogateescape")

    try:
        manifest = read_manifest(manifest_text)
    except ManifestError as e:
        raise NativeError(f"{request.address}: {e}") from None
    makers = {
        path: index
        for index, edge in enumerate(manifest.edges)
        # The edge that would configure anew: that has been done.
        if not edge.is_phony and not edge.generator
        for path in (in_root(output) for output in edge.all_outputs)
        if path is not None
    }
    indices = {id(edge): index for index, edge in enumerate(manifest.edges)}
    ordered = [edge for edge in manifest.edges_for(manifest.default_targets) if not edge.is_phony]
    written = {e.path: e for e in entries if isinstance(e, (FileEntry, SymlinkEntry))}
    return BuildGraph(
        request.configured,
        manifest,
        written,
        texts,
        makers,
        {indices[id(edge)]: number for number, edge in enumerate(ordered, start=1)},
        frozenset(path for path in written if may_read("", path)),
    )


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
    :param generated: the content of what edges made, as far as others include it.
    """

    address: Address
    sources: Digest
    graph: BuildGraph
    trees: FrozenDict[str, Digest]
    host: HostCompiler | None
    compile_flags: tuple[str, ...]
    entries: Mapping[str, FileEntry | SymlinkEntry] = field(compare=False, repr=False)
    resolver: Resolver = field(compare=False, repr=False)
    generated: dict[str, bytes] = field(compare=False, repr=False)

    @property
    def configured(self) -> ConfiguredProject:
        return self.graph.configured

    @property
    def manifest(self) -> Manifest:
        return self.graph.manifest

    @property
    def makers(self) -> Mapping[str, int]:
        return self.graph.makers


@rule(desc="Find the files of a project", level=LogLevel.DEBUG)
async def read_project(request: NativeProjectRequest) -> NativeProject:
    address = request.address
    configured, sources, tools = await MultiGet(
        Get(ConfiguredProject, ConfiguredProjectRequest(address)),
        Get(ProjectSources, ProjectSourcesRequest(address)),
        Get(ProjectTools, ProjectToolsRequest(address)),
    )
    graph, contents, source_entries = await MultiGet(
        Get(BuildGraph, BuildGraphRequest(address, configured)),
        Get(DigestContents, Digest, sources.snapshot.digest),
        Get(DigestEntries, Digest, sources.snapshot.digest),
    )
    _check_configure_sources(address, graph.manifest, sources)
    known = {**{file.path: file.content for file in contents}, **graph.texts}
    entries = {
        **{e.path: e for e in source_entries if isinstance(e, (FileEntry, SymlinkEntry))},
        **graph.entries,
    }
    generated: dict[str, bytes] = {}
    resolver = Resolver(
        (*entries, *graph.makers),
        lambda path: known.get(path, generated.get(path)),
        outside=tools.trees,
        roots=(ROOT_TOKEN,),
        scans=_SCANS,
    )
    return NativeProject(
        address,
        sources.snapshot.digest,
        graph,
        tools.trees,
        tools.host,
        tools.compile_flags,
        entries,
        resolver,
        generated,
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
