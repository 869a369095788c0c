"""Edges of a project, a process each, with the inputs that each needs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pants.engine.addresses import Address
from pants.engine.engine_aware import EngineAwareParameter, EngineAwareReturnType
from pants.engine.fs import (
    EMPTY_DIGEST,
    CreateDigest,
    Digest,
    DigestContents,
    Directory,
    FileContent,
    MergeDigests,
)
from pants.engine.process import Process
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.util.logging import LogLevel

from pants_triton.artifact.fetch_rules import CACHE_HEAD_START_MS
from pants_triton.artifact.rules import run_with_trees
from pants_triton.native.edges import (
    WITH_NETWORK,
    HostReads,
    Step,
    declared_inputs,
    edge_process,
    is_program_link,
    may_read,
    named_paths,
    offline,
    pool_of,
    shown_command,
)
from pants_triton.native.host_compiler import HostCompiler, traced_link
from pants_triton.native.layout import BUILD, below, leaf_folders
from pants_triton.native.limit_rules import EdgeLimits
from pants_triton.native.project_rules import NativeProject, NativeProjectRequest
from pants_triton.native.tools_rules import (
    NetworkNotice,
    NetworkNoticeRequest,
)
from pants_triton.native.undeclared import undeclared_reads
from pants_triton.workunits import EDGE, work_metadata

_HEADER = re.compile(r"\.(?:h|hh|hpp|hxx|inc|inl|ipp|def|td|cuh|H)$")


@dataclass(frozen=True)
class EdgeRequest(EngineAwareParameter):
    """Asks for what one edge of a project makes."""

    project: Address
    index: int

    def debug_hint(self) -> str:
        return f"{self.project} edge {self.index}"

    def metadata(self) -> dict[str, Any]:
        return work_metadata(EDGE, self.project.spec)


@dataclass(frozen=True)
class EdgeFailure:
    """An edge whose command failed: what it was doing, and all that a person needs to see."""

    description: str
    message: str


@dataclass(frozen=True)
class EdgeResult(EngineAwareReturnType):
    """What an edge made, by paths below the sandbox's root; or the failures that are in the way,
    its own or those of the edges that it needs."""

    project: Address
    output: str
    digest: Digest
    failures: tuple[EdgeFailure, ...] = ()

    def metadata(self) -> dict[str, Any]:
        return work_metadata(EDGE, self.project.spec, self.output)


def failures_of(results: tuple[EdgeResult, ...]) -> tuple[EdgeFailure, ...]:
    return tuple(dict.fromkeys(failure for result in results for failure in result.failures))


# The engine finds the `Get`s of helpers only where they stand above the rules that call them.


async def _included_inputs(
    project: NativeProject, step: Step
) -> tuple[set[str], set[str], dict[int, EdgeResult]]:
    """The files and folders that a compile or TableGen run may open, and the edges that make those
    which are generated, run as far as that takes."""
    built: dict[int, EdgeResult] = {}
    files: set[str] = set()
    folders: set[str] = set()
    while True:
        if step.compile is not None:
            closure = project.resolver.compile_closure(step.compile.source, step.compile.search)
        else:
            assert step.tablegen is not None
            closure = project.resolver.tablegen_closure(step.tablegen.source, step.tablegen.search)
        files, folders = set(closure.files), set(closure.folders)
        if closure.unknown:
            # Nobody knows what is included: rather too much than too little.
            files.update(path for path in project.entries if _HEADER.search(path))
            files.update(path for path in project.makers if _HEADER.search(path))
        needed = {project.makers[path] for path in files if path in project.makers}
        todo = sorted(needed - set(built))
        if not todo:
            return files, folders, built
        results = await MultiGet(
            Get(EdgeResult, EdgeRequest(project.address, index)) for index in todo
        )
        built.update(zip(todo, results))
        if failures_of(results):
            return files, folders, built
        contents = await MultiGet(Get(DigestContents, Digest, result.digest) for result in results)
        for each in contents:
            project.generated.update({file.path: file.content for file in each})


async def _declared(
    project: NativeProject, index: int, step: Step
) -> tuple[set[str], dict[int, EdgeResult]]:
    """The files that the manifest names as inputs of an edge which isn't understood further."""
    edge = project.manifest.edges[index]
    is_link = "LINKER" in edge.rule or "LIBRARY" in edge.rule
    files = set(declared_inputs(project.manifest, edge, order_only=not is_link))
    if not is_link:
        # A custom command may read what its words name, and all in the folders that they name.
        for path in named_paths(step.command):
            if path in project.entries or path in project.makers:
                files.add(path)
            elif path not in ("", BUILD):
                files.update(e for e in project.entries if e.startswith(f"{path}/"))
        graph = project.graph
        files.update(graph.for_any)
        files.update(
            path for path in graph.entries.keys() - graph.for_any if may_read(step.command, path)
        )
    files -= set(step.outputs)
    needed = sorted({project.makers[path] for path in files if path in project.makers} - {index})
    results = await MultiGet(
        Get(EdgeResult, EdgeRequest(project.address, index)) for index in needed
    )
    return files, dict(zip(needed, results))


async def _declared_of_understood(
    project: NativeProject, index: int
) -> tuple[set[str], dict[int, EdgeResult]]:
    """Inputs beyond what is included: an object may depend on a file that its command names."""
    edge = project.manifest.edges[index]
    files = set(declared_inputs(project.manifest, edge, order_only=False))
    needed = sorted({project.makers[path] for path in files if path in project.makers} - {index})
    results = await MultiGet(
        Get(EdgeResult, EdgeRequest(project.address, index)) for index in needed
    )
    return files, dict(zip(needed, results))


@rule(desc="Run an edge", level=LogLevel.DEBUG)
async def run_edge(request: EdgeRequest) -> EdgeResult:
    project = await Get(NativeProject, NativeProjectRequest(request.project))
    edge = project.manifest.edges[request.index]
    host = project.host
    step = project.graph.step(
        request.index, host.origin if host else "$ORIGIN", project.compile_flags
    )
    if host:
        step = traced_link(step, edge.rule, host)
    output = next((path[len(BUILD) + 1 :] for path in step.outputs if below(path, [BUILD])), "")
    folders: set[str] = set()
    if step.compile is not None or step.tablegen is not None:
        files, folders, built = await _included_inputs(project, step)
        also, more = await _declared_of_understood(project, request.index)
        files |= also
        built = {**more, **built}
    else:
        files, built = await _declared(project, request.index, step)
    results = tuple(built.values())
    failures = failures_of(results)
    if failures:
        return EdgeResult(project.address, output, results[0].digest, failures)

    # Unity files, scripts and the like name others by the sandbox's path.
    expand = [path for path in project.configured.with_token if f"{BUILD}/{path}" in files]
    missing = sorted(
        file
        for file in files
        if file not in project.entries
        and file not in project.makers
        and not below(file, project.trees)
    )
    entries = [project.entries[path] for path in files if path in project.entries]
    made_folders = {BUILD, *step.folders, *folders}
    leaves = leaf_folders(made_folders, [entry.path for entry in entries])
    argv, long_files = edge_process(step, expand, _host_reads(step, host))
    is_link = is_program_link(edge)
    if step.compile is None and step.tablegen is None:
        # Those two are one run of a program that is known to open no connection.
        argv = offline(argv)
    own = await Get(
        Digest,
        CreateDigest(
            [
                *entries,
                *(Directory(path) for path in leaves),
                *(FileContent(path, content) for path, content in long_files.items()),
            ]
        ),
    )
    input_digest = await Get(Digest, MergeDigests((own, *(result.digest for result in results))))
    numbers = project.graph.numbers
    number = numbers.get(request.index)
    count = f"[{number}/{len(numbers)}] " if number else ""
    process = Process(
        argv=argv,
        env=project.configured.env,
        input_digest=input_digest,
        immutable_input_digests=project.trees,
        output_files=step.outputs,
        description=f"{count}{step.description}",
        remote_cache_speculation_delay_millis=CACHE_HEAD_START_MS,
    )
    pool = pool_of(project.manifest, edge)
    if is_link or pool is not None:
        limits = await Get(EdgeLimits)
        process = limits.bounded(process, limits.bounds(is_link, pool))
    result = await run_with_trees(process, (request.project,))
    stderr = result.stderr.decode("utf-8", "replace")
    if WITH_NETWORK in stderr:
        await Get(NetworkNotice, NetworkNoticeRequest(request.project))
        stderr = stderr.replace(f"{WITH_NETWORK}\n", "", 1)
    if result.exit_code == 0:
        return EdgeResult(project.address, output, result.output_digest)
    said = _without_sandbox(f"{result.stdout.decode('utf-8', 'replace')}\n{stderr}")
    hint = f"\nThese inputs are nowhere: {', '.join(missing)}." if missing else ""
    if step.compile is None and step.tablegen is None and not is_link:
        known = (*project.entries, *project.makers)
        undeclared = undeclared_reads(said, known, {*files, *step.outputs})
        if undeclared:
            hint += (
                f"\nThe project has {', '.join(undeclared)}, but this command sees only what it "
                "declares and names: add it to the `DEPENDS` of its `add_custom_command`."
            )
    return EdgeResult(
        project.address,
        output,
        result.output_digest,
        (
            EdgeFailure(
                step.description,
                f"{said.strip()}{hint}\n"
                f"To repeat it in a sandbox that `--keep-sandboxes=on_failure` keeps:\n"
                f"  {shown_command(step, project.configured.env.items())}",
            ),
        ),
    )


def _host_reads(step: Step, host: HostCompiler | None) -> HostReads:
    if host is None:
        return HostReads()
    return host.link_reads if step.link_depfile else host.compile_reads


@dataclass(frozen=True)
class GeneratedInputsRequest(EngineAwareParameter):
    """Asks for what a compile opens in the build folder; the compile itself is not run."""

    project: Address
    index: int

    def debug_hint(self) -> str:
        return f"{self.project} edge {self.index}"


@dataclass(frozen=True)
class GeneratedInputs:
    """Files below the sandbox's root, or what failed."""

    digest: Digest
    failures: tuple[EdgeFailure, ...] = ()


@rule
async def find_generated_inputs(request: GeneratedInputsRequest) -> GeneratedInputs:
    project = await Get(NativeProject, NativeProjectRequest(request.project))
    step = project.graph.step(request.index)
    folders: set[str] = set()
    if step.compile is not None:
        files, folders, built = await _included_inputs(project, step)
    else:
        files, built = await _declared(project, request.index, step)
    results = tuple(built.values())
    failures = failures_of(results)
    if failures:
        return GeneratedInputs(EMPTY_DIGEST, failures)
    entries = [project.entries[path] for path in files if path in project.entries]
    configured = [entry for entry in entries if below(entry.path, [BUILD])]
    leaves = leaf_folders(
        [path for path in folders if below(path, [BUILD])], [entry.path for entry in configured]
    )
    own = await Get(Digest, CreateDigest([*configured, *(Directory(path) for path in leaves)]))
    merged = await Get(Digest, MergeDigests((own, *(result.digest for result in results))))
    return GeneratedInputs(merged)


def _without_sandbox(text: str) -> str:
    return re.sub(r"/[^\s:'\"]*/pants-sandbox-[A-Za-z0-9]+/(?:_build/\.\./)?", "", text)


def rules():
    return collect_rules()
