"""The goal `compile-commands`: what clangd needs of a project."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Iterator

from pants.base.build_root import BuildRoot
from pants.core.util_rules.distdir import DistDir
from pants.engine.addresses import Address
from pants.engine.console import Console
from pants.engine.engine_aware import EngineAwareParameter
from pants.engine.fs import (
    EMPTY_DIGEST,
    Digest,
    DigestContents,
    DigestEntries,
    Directory,
    MergeDigests,
    Workspace,
)
from pants.engine.goal import Goal, GoalSubsystem
from pants.engine.rules import Get, MultiGet, collect_rules, goal_rule, rule
from pants.engine.target import FilteredTargets, TransitiveTargets, TransitiveTargetsRequest
from pants.option.option_types import EnumOption
from pants.util.docutil import bin_name
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel
from pants.util.strutil import help_text, softwrap

from pants_triton.artifact.rules import ArtifactTrees, ArtifactTreesRequest
from pants_triton.native.edge_rules import GeneratedInputs, GeneratedInputsRequest
from pants_triton.native.editor import (
    DATABASE,
    USES,
    Command,
    DatabaseError,
    NotOurs,
    Places,
    place_database,
    read_database,
    render_database,
    sync_folder,
    unused_artifacts,
    write_file,
)
from pants_triton.native.layout import BUILD
from pants_triton.native.project_rules import NativeProject, NativeProjectRequest
from pants_triton.native.subsystem import NativeError
from pants_triton.native.target_types import CMakeProjectSourcesField


class Place(Enum):
    link = "link"
    copy = "copy"
    none = "none"


class CompileCommandsSubsystem(GoalSubsystem):
    name = "compile-commands"
    help = help_text(
        f"""
        Write what clangd, or another language server, needs of `cmake_project`s: their
        `{DATABASE}`, the headers that their build generates, and the artifacts that their compiles
        read, all below `dist/compile-commands`.

        Nothing is compiled for it: a project is configured, and TableGen and the like are run as far
        as compiles include what they make. Run it again when such a file or a `CMakeLists.txt` changed;
        what is as it was is not touched.

        Takes the `cmake_project`s that are named, or, where none is, those that the named targets
        depend on: `{bin_name()} compile-commands ::`.
        """
    )

    place = EnumOption(
        default=Place.link,
        help=softwrap(
            f"""
            How `{DATABASE}` comes to be beside the project's root `CMakeLists.txt`, where clangd finds
            it: as a link, as a copy, or not at all. Then tell clangd in the file `.clangd` there:
            `CompileFlags: {{CompilationDatabase: …}}`, with the folder that is printed.
            """
        ),
    )


class CompileCommands(Goal):
    subsystem_cls = CompileCommandsSubsystem
    environment_behavior = Goal.EnvironmentBehavior.LOCAL_ONLY


@dataclass(frozen=True)
class ProjectCommandsRequest(EngineAwareParameter):
    """Asks for a project's compiles, and what is generated for them."""

    address: Address

    def debug_hint(self) -> str:
        return self.address.spec


@dataclass(frozen=True)
class ProjectCommands:
    """The compiles of a project, or why they can't be had.

    :param generated: in BUILD, what compiles open there.
    :param with_token: which of those have ROOT_TOKEN in them, by their paths in BUILD.
    :param trees: the artifacts, by their paths in sandboxes.
    """

    address: Address
    commands: tuple[Command, ...] = ()
    generated: Digest = EMPTY_DIGEST
    with_token: tuple[str, ...] = ()
    trees: FrozenDict[str, Digest] = FrozenDict()
    error: str = ""


@rule(desc="Find what the compiles of a project read", level=LogLevel.DEBUG)
async def find_project_commands(request: ProjectCommandsRequest) -> ProjectCommands:
    address = request.address
    try:
        project = await Get(NativeProject, NativeProjectRequest(address))
        text = project.graph.texts.get(f"{BUILD}/{DATABASE}")
        if text is None:
            raise DatabaseError(
                f"CMake wrote no {DATABASE}: the project switches CMAKE_EXPORT_COMPILE_COMMANDS off"
            )
        commands = read_database(text.decode("utf-8", "surrogateescape"))
    except (NativeError, DatabaseError) as e:
        prefix = "" if str(address) in str(e) else f"{address}: "
        return ProjectCommands(address, error=f"{prefix}{e}")
    edges = sorted({project.makers[c.output] for c in commands if c.output in project.makers})
    results = await MultiGet(
        Get(GeneratedInputs, GeneratedInputsRequest(address, index)) for index in edges
    )
    failures = dict.fromkeys(failure for result in results for failure in result.failures)
    if failures:
        shown = "\n\n".join(f"FAILED: {f.description}\n{f.message}" for f in failures)
        return ProjectCommands(
            address, error=f"{address}: what its sources include can't be generated.\n\n{shown}"
        )
    # They are to be folders on disk.
    artifacts = await Get(ArtifactTrees, ArtifactTreesRequest((address,)))
    if artifacts.error:
        return ProjectCommands(address, error=f"{address} needs an artifact: {artifacts.error}")
    generated = await Get(Digest, MergeDigests(result.digest for result in results))
    return ProjectCommands(
        address, commands, generated, project.configured.with_token, project.trees
    )


@goal_rule
async def write_compile_commands(
    console: Console,
    subsystem: CompileCommandsSubsystem,
    targets: FilteredTargets,
    workspace: Workspace,
    build_root: BuildRoot,
    dist_dir: DistDir,
) -> CompileCommands:
    projects = [t.address for t in targets if t.has_field(CMakeProjectSourcesField)]
    if not projects:
        transitive = await Get(
            TransitiveTargets, TransitiveTargetsRequest([t.address for t in targets])
        )
        projects = [t.address for t in transitive.closure if t.has_field(CMakeProjectSourcesField)]
    if not projects:
        console.print_stderr(
            "No `cmake_project` is named, and no target that is named depends on one: say which, as "
            f"in `{bin_name()} compile-commands ::`."
        )
        return CompileCommands(exit_code=1)
    results = await MultiGet(
        Get(ProjectCommands, ProjectCommandsRequest(address)) for address in sorted(projects)
    )
    errors = [result.error for result in results if result.error]
    found = [result for result in results if not result.error]
    folder = dist_dir.relpath / "compile-commands"
    root = build_root.pathlib_path
    artifacts = root / folder / "artifacts"

    # What each project has on disk, in its folder and of artifacts.
    written: dict[Address, tuple[bytes, dict[str, bytes], list[str]]] = {}
    counts: dict[Address, int] = {}
    digests: dict[str, Digest] = {}
    shown: dict[str, str] = {}
    folders: dict[Address, list[str]] = {}
    for result in found:
        contents = await Get(DigestContents, Digest, result.generated)
        entries = await Get(DigestEntries, Digest, result.generated)
        folders[result.address] = [
            entry.path[len(BUILD) + 1 :] for entry in entries if isinstance(entry, Directory)
        ]
        places = Places(
            checkout=str(root),
            build=str(_project_folder(root / folder, result.address) / BUILD_NAME),
            trees={path: str(artifacts / d.fingerprint) for path, d in result.trees.items()},
        )
        database = render_database(result.commands, places)
        generated = {file.path[len(BUILD) + 1 :]: file.content for file in contents}
        for name in result.with_token:
            if name in generated:
                text = generated[name].decode("utf-8", "surrogateescape")
                generated[name] = places.in_text(text).encode("utf-8", "surrogateescape")
        for path in places.used:
            digests[result.trees[path].fingerprint] = result.trees[path]
            shown[result.trees[path].fingerprint] = path
        uses = sorted({result.trees[path].fingerprint for path in places.used})
        written[result.address] = (database, generated, uses)
        counts[result.address] = len(result.commands)

    try:
        with _alone(root / folder):
            artifacts.mkdir(exist_ok=True)
            for name, digest in sorted(digests.items()):
                if not (artifacts / name).is_dir():
                    # Whole or not at all: what an interrupted run leaves has another name.
                    partial = artifacts / f"{name}.partial"
                    shutil.rmtree(partial, ignore_errors=True)
                    _write(workspace, digest, str(partial.relative_to(root)))
                    os.rename(partial, artifacts / name)
                    console.print_stdout(f"Wrote {folder}/artifacts/{name}: {shown[name]}")
            for address, (database, generated, uses) in written.items():
                place = _project_folder(root / folder, address)
                # Sweeping goes by it, so it names what is used before something uses it.
                write_file(place / USES, "".join(f"{name}\n" for name in uses).encode())
                count = sync_folder(place / BUILD_NAME, generated, folders[address])
                changed = write_file(place / DATABASE, database)
                console.print_stdout(
                    f"{'Wrote' if changed or count else 'Unchanged:'} {place.relative_to(root)}: "
                    f"{counts[address]} commands, {len(generated)} generated files"
                )
            for name in unused_artifacts(artifacts, root / folder / "projects"):
                shutil.rmtree(artifacts / name)
                console.print_stdout(f"Removed {folder}/artifacts/{name}, which nothing uses now.")
            if subsystem.place != Place.none:
                errors += _place_databases(
                    console, root, folder, list(written), subsystem.place == Place.copy
                )
    except (OSError, _WriteError) as e:
        errors.append(f"{folder} can't be written: {e}")
    for error in errors:
        console.print_stderr(error)
    return CompileCommands(exit_code=1 if errors else 0)


#: What is generated is here in a project's folder.
BUILD_NAME = "build"


def _project_folder(folder: Path, address: Address) -> Path:
    return folder / "projects" / address.path_safe_spec


class _WriteError(Exception):
    pass


def _write(workspace: Workspace, digest: Digest, path: str) -> None:
    try:
        workspace.write_digest(digest, path_prefix=path)
    except Exception as e:
        # The engine has no other type for a full disk and the like.
        raise _WriteError(str(e)) from None


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other runs out of `folder`. Pants itself lets several into a workspace only when it is told
    to (`--concurrent`)."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _WriteError("another run does that now; run this again after it") from None
        yield


def _place_databases(
    console: Console, root: Path, folder: Path, addresses: list[Address], copy: bool
) -> list[str]:
    """Put each beside its project's CMakeLists.txt; returns what went wrong."""
    errors = []
    of_folder: dict[str, list[Address]] = defaultdict(list)
    for address in addresses:
        of_folder[address.spec_path].append(address)
    for spec_path, here in of_folder.items():
        path = root / spec_path / DATABASE
        first, *others = here
        database = _project_folder(root / folder, first) / DATABASE
        try:
            is_new = place_database(path, database, root / folder, copy)
        except NotOurs:
            errors.append(
                f"{path.relative_to(root)} is not this goal's, so it stays as it is, and clangd takes "
                f"it. Remove it and run this again, or pass `--compile-commands-place=none`."
            )
            continue
        except OSError as e:
            errors.append(f"{path.relative_to(root)} can't be written: {e}")
            continue
        if is_new:
            console.print_stdout(
                f"{'Copied' if copy else 'Linked'} it to {path.relative_to(root)}. Keep that and "
                f"clangd's index out of git: add `{DATABASE}` and `.cache/` to .gitignore."
            )
        if others:
            console.print_stdout(
                f"{path.relative_to(root)} is that of {first}, not of "
                f"{', '.join(map(str, others))}: name one project to have its."
            )
    return errors


def rules():
    return collect_rules()
