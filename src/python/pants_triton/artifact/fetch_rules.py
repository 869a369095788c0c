"""How the program that fetches is run: one cached process an entry of the lock."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

from pants.backend.python.subsystems.repos import PythonRepos
from pants.engine.addresses import Address
from pants.engine.env_vars import EnvironmentVars, EnvironmentVarsRequest
from pants.engine.fs import (
    CreateDigest,
    Digest,
    DigestContents,
    DigestEntries,
    Directory,
    FileContent,
    FileDigest,
    FileEntry,
    MergeDigests,
    RemovePrefix,
    SymlinkEntry,
)
from pants.engine.internals.session import RunId
from pants.engine.process import (
    FallibleProcessResult,
    Process,
    ProcessCacheScope,
    ProcessResultMetadata,
)
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.option.global_options import GlobalOptions
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.artifact.errors import WARNING
from pants_triton.artifact.fetch import PROGRAM_MODULES
from pants_triton.artifact.listing import (
    ListedFile,
    Listing,
    ListingError,
    listing_path,
    listing_text,
    read_listing,
)
from pants_triton.artifact.lock import Entry, entry_json, shown_size
from pants_triton.artifact.settings import Settings
from pants_triton.artifact.settings_file import leave_python, lent_listing, lent_settings
from pants_triton.artifact.subsystem import ArtifactError, ArtifactOptionError, ArtifactSubsystem
from pants_triton.program.rules import Program, ProgramRequest

logger = logging.getLogger(__name__)

# Downloads are kept for all Pants runs of a user, under a name that says what they are: the folder
# `downloads` in it is a mirror for others.
CACHE_NAME = "pants_triton_artifacts"
_SANDBOX_CACHE = ".pants_triton_artifacts"
HOST_CACHE = FrozenDict({CACHE_NAME: _SANDBOX_CACHE})

_SANDBOX_PROGRAM = ".pants_triton_fetch"
_RUN_PROGRAM = "run.sh"

#: A remote cache is asked this long before a process of ours is begun here: else a quick one would win
#: over the hit, and a slow one be started for nothing. As long as pants.ci.toml lets a look-up take,
#: which a server that many machines ask at once does take. A tree takes longer to come: for that there
#: is an option.
CACHE_HEAD_START_MS = 5_000

# Before every line of the program's, see `errors.report_to_stderr`.
_MESSAGE_PREFIX = "pants-triton: "

# What of the user's environment says how the network is reached.
_NETWORK_VARIABLES = (
    *("HOME", "NETRC", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
)


def start_script(program: str) -> str:
    """What starts the program in the folder `program` with this host's Python.

    The Python must not be in the process' key: other hosts have it elsewhere. Pants' own process
    leaves its path in the cache folder, see `FetchSettings`; the process needs HOST_CACHE.
    """
    return f"""\
#!/bin/sh
cache={_SANDBOX_CACHE}
python=python3
for file in "$cache/python-$PPID" "$cache/python"; do
  if [ -f "$file" ]; then
    IFS= read -r python < "$file"
    break
  fi
done
exec "$python" -sE {program} "$@"
"""


@dataclass(frozen=True)
class FetchProgram:
    """The program that fetches artifacts, with what starts it."""

    digest: Digest


@rule
async def pack_fetch_program() -> FetchProgram:
    assert __package__ is not None
    program, start = await MultiGet(
        Get(Program, ProgramRequest(__package__, PROGRAM_MODULES, main="fetch")),
        Get(
            Digest,
            CreateDigest([FileContent(_RUN_PROGRAM, start_script(_SANDBOX_PROGRAM).encode())]),
        ),
    )
    return FetchProgram(await Get(Digest, MergeDigests((program.digest, start))))


@dataclass(frozen=True)
class FetchSettings:
    """How this user's downloads are done, and with which Python: both kept out of every process' key.

    :param python: Pants' own. It is there, which a search of the host would take seconds to say where
        many are installed.
    :param head_start_s: for how many seconds a remote cache may send a tree before it is fetched, too.
    """

    settings: Settings = field(repr=False)
    python: str
    cache: str
    head_start_s: float = 0

    def leave(self) -> None:
        """Write the path of the Python for the processes that this one starts by `start_script`.
        Cheap, and done before each of them: who empties the cache folder of a running daemon finds it
        working."""
        try:
            leave_python(Path(self.cache), os.getpid(), self.python)
        except OSError as e:
            raise self._error(e) from None

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """While this lasts, the program finds both. Credentials are on disk no longer than that."""
        self.leave()
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(lent_settings(Path(self.cache), os.getpid(), self.settings))
            except OSError as e:
                raise self._error(e) from None
            yield

    def _error(self, e: OSError) -> ArtifactError:
        place = e.filename or self.cache
        return ArtifactError(
            f"How artifacts are fetched can't be told to the program that does it: {place}: "
            f"{e.strerror}. Correct that, or name other folders in `[GLOBAL].named_caches_dir` (for "
            "downloads) and the variable XDG_RUNTIME_DIR or TMPDIR (for the time of a run)."
        )


def cache_folder(global_options: GlobalOptions) -> Path:
    """Where HOST_CACHE is on this machine."""
    return Path(os.path.abspath(global_options.named_caches_dir), CACHE_NAME)


@rule
async def make_fetch_settings(
    artifact: ArtifactSubsystem,
    python_repos: PythonRepos,
    global_options: GlobalOptions,
) -> FetchSettings:
    for name, value in (("tries", artifact.tries), ("stall_timeout", artifact.stall_timeout)):
        if value <= 0:
            raise ArtifactOptionError(
                f"The option `[artifact].{name}` must be above 0, but is {value}."
            )
    if artifact.cache_head_start < 0:
        raise ArtifactOptionError(
            "The option `[artifact].cache_head_start` must be 0 or more, but is "
            f"{artifact.cache_head_start}."
        )
    if artifact.max_tree_size < 1:
        raise ArtifactOptionError(
            f"The option `[artifact].max_tree_size` must be above 0, but is {artifact.max_tree_size}."
        )
    for mirror in artifact.mirrors:
        if not mirror.startswith(("file:", "https:", "http:")):
            raise ArtifactOptionError(
                f"The option `[artifact].mirrors` has {mirror!r}, which is no `file:`, `https:` or "
                "`http:` URL."
            )
    variables = await Get(
        EnvironmentVars,
        EnvironmentVarsRequest([*_NETWORK_VARIABLES, *artifact.credentials.values()]),
    )
    environment = dict(variables)
    # What Pants itself trusts, this trusts.
    if global_options.ca_certs_path and "SSL_CERT_FILE" not in environment:
        environment["SSL_CERT_FILE"] = global_options.ca_certs_path
    return FetchSettings(
        Settings(
            mirrors=tuple(artifact.mirrors),
            indexes=tuple(python_repos.indexes),
            debian_mirror=artifact.debian_mirror,
            environment=FrozenDict(environment),
            credentials=FrozenDict(artifact.credentials),
            tries=artifact.tries,
            stall_timeout_s=artifact.stall_timeout,
            max_bytes=artifact.max_tree_size,
        ),
        sys.executable,
        str(cache_folder(global_options)),
        artifact.cache_head_start,
    )


@dataclass(frozen=True)
class FetchProcess:
    """A process of the program.

    :param argv: a command of the program and its arguments, without the cache folder.
    :param entry: of the lock, as text, at `ENTRY` in the sandbox.
    :param attempt: makes an equal process another one to the engine, which otherwise remembers for the
        whole run that it failed; to caches they are the same.
    :param is_tree: it makes an artifact's tree, which a cache gets more time for.
    """

    argv: tuple[str, ...]
    description: str = field(compare=False)
    entry: str = ""
    output: str = ""
    cache_scope: ProcessCacheScope = ProcessCacheScope.PER_SESSION
    level: LogLevel = LogLevel.INFO
    attempt: int = 0
    is_tree: bool = False


ENTRY = "entry.json"
_TREE = "tree"


@dataclass(frozen=True)
class FetchResult:
    """What the program did. `error` is its message, "" if it did what it was asked."""

    error: str
    stdout: str
    output_digest: Digest


def _warnings(stderr: str) -> list[str]:
    start = f"{_MESSAGE_PREFIX}{WARNING}"
    return [line[len(start) :] for line in stderr.splitlines() if line.startswith(start)]


@rule
async def run_fetch_program(
    request: FetchProcess, program: FetchProgram, settings: FetchSettings
) -> FetchResult:
    inputs = [FileContent(ENTRY, request.entry.encode())] if request.entry else []
    input_digest = await Get(Digest, CreateDigest(inputs))
    head_start_ms = int(settings.head_start_s * 1000) if request.is_tree else CACHE_HEAD_START_MS
    with settings.lent():
        result = await Get(
            FallibleProcessResult,
            Process(
                argv=(
                    "/bin/sh",
                    f"{_SANDBOX_PROGRAM}/{_RUN_PROGRAM}",
                    *request.argv,
                    f"--cache={_SANDBOX_CACHE}",
                ),
                input_digest=input_digest,
                immutable_input_digests={_SANDBOX_PROGRAM: program.digest},
                append_only_caches=HOST_CACHE,
                output_directories=(request.output,) if request.output else (),
                description=request.description,
                level=request.level,
                cache_scope=request.cache_scope,
                remote_cache_speculation_delay_millis=head_start_ms + request.attempt,
            ),
        )
    # What a cache remembers of another day is no news.
    source = result.metadata.source(RunId(result.metadata.source_run_id))
    if source is ProcessResultMetadata.Source.RAN:
        for line in _warnings(result.stderr.decode("utf-8", "replace")):
            logger.warning(f"{request.description}: {line}")
    stderr = result.stderr.decode("utf-8", "replace").strip()
    error = ""
    if result.exit_code != 0:
        # Before its error, the program reports progress.
        error = (stderr.splitlines() or [f"it ended with {result.exit_code}"])[-1]
        error = error[len(_MESSAGE_PREFIX) :] if error.startswith(_MESSAGE_PREFIX) else stderr
    elif stderr:
        logger.debug(f"{request.description}: {stderr}")
    return FetchResult(error, result.stdout.decode("utf-8", "replace"), result.output_digest)


@dataclass(frozen=True)
class FetchedEntryRequest:
    """Asks for the tree of one entry of the lock.

    Neither the pin nor the target is in it: equal entries are one process.

    :param platform: that its programs must be for.
    """

    entry: Entry
    platform: str
    description: str = field(compare=False)


@dataclass(frozen=True)
class FetchedEntry:
    """The tree, or why there is none."""

    digest: Digest
    error: str


@rule
async def fetch_entry(request: FetchedEntryRequest) -> FetchedEntry:
    # One process that downloads, verifies and unpacks, and is cached by its entry: should a cache lose
    # the tree, Pants runs just this again.
    result = await Get(
        FetchResult,
        FetchProcess(
            argv=(
                "fetch",
                f"--entry={ENTRY}",
                f"--output={_TREE}",
                f"--platform={request.platform}",
            ),
            description=request.description,
            entry=entry_json(request.entry),
            output=_TREE,
            cache_scope=ProcessCacheScope.SUCCESSFUL,
            is_tree=True,
        ),
    )
    if result.error:
        return FetchedEntry(result.output_digest, result.error)
    return FetchedEntry(await Get(Digest, RemovePrefix(result.output_digest, _TREE)), "")


@dataclass(frozen=True)
class ListedEntryRequest:
    """Asks for the same tree by its listing, if a cache has that: its files may then be nowhere on
    this machine, and a process that has it among its inputs is run by `run_with_trees`."""

    fetch: FetchedEntryRequest


def _tree_entries(listing: Listing) -> Iterator[FileEntry | SymlinkEntry | Directory]:
    for path, file in listing.files.items():
        yield FileEntry(path, FileDigest(file.sha256, file.size), file.is_executable)
    for path, target in listing.links.items():
        yield SymlinkEntry(path, target)
    for path in listing.folders:
        yield Directory(path)


def listing_of(digest: Digest, entries: DigestEntries) -> Listing:
    return Listing(
        digest.fingerprint,
        digest.serialized_bytes_length,
        {
            e.path: ListedFile(
                e.file_digest.fingerprint, e.file_digest.serialized_bytes_length, e.is_executable
            )
            for e in entries
            if isinstance(e, FileEntry)
        },
        {e.path: e.target for e in entries if isinstance(e, SymlinkEntry)},
        tuple(e.path for e in entries if isinstance(e, Directory)),
    )


async def _listed_tree(result: FetchResult) -> Digest | None:
    """The tree that a listing is of, if there is a listing, and it is a good one."""
    if result.error:
        return None
    contents = await Get(DigestContents, Digest, result.output_digest)
    try:
        (file,) = contents
        listing = read_listing(file.content.decode())
        tree = await Get(Digest, CreateDigest(_tree_entries(listing)))
    except (ListingError, ValueError):
        return None
    return tree if tree == Digest(listing.sha256, listing.size) else None


# What this saves is in docs/remote-cache.md, and why it isn't Pants' `cache_content_behavior`.
@rule
async def list_entry(
    request: ListedEntryRequest, settings: FetchSettings, global_options: GlobalOptions
) -> FetchedEntry:
    fetch = request.fetch
    if not global_options.remote_cache_read:
        # It would be one process more for nothing.
        return await Get(FetchedEntry, FetchedEntryRequest, fetch)
    text = entry_json(fetch.entry)
    process = FetchProcess(
        # Not by `--entry`: this process fetches nothing.
        argv=("listing", f"--of={ENTRY}", f"--output={_TREE}", f"--platform={fetch.platform}"),
        description=f"List: {fetch.description}",
        entry=text,
        output=_TREE,
        cache_scope=ProcessCacheScope.SUCCESSFUL,
        level=LogLevel.DEBUG,
    )
    # It fails unless a cache has it.
    known = await Get(FetchResult, FetchProcess, process)
    listed = await _listed_tree(known)
    if listed is not None:
        return FetchedEntry(listed, "")
    fetched = await Get(FetchedEntry, FetchedEntryRequest, fetch)
    if fetched.error:
        return fetched
    listing = listing_of(fetched.digest, await Get(DigestEntries, Digest, fetched.digest))
    path = listing_path(Path(settings.cache), os.getpid(), text, fetch.platform)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lent_listing(path, listing_text(listing)))
        except OSError as e:
            logger.debug(f"{path} can't be written: {e}")
            return fetched
        # Now it succeeds, and is cached: for the next run, and for other machines.
        await Get(FetchResult, FetchProcess, dataclasses.replace(process, attempt=1))
    return fetched


@dataclass(frozen=True)
class LocalTreeRequest:
    """Asks for a folder of this machine as a tree."""

    address: Address
    path: str


@rule(desc="Read a local tree", level=LogLevel.DEBUG)
async def read_local_tree(request: LocalTreeRequest) -> FetchedEntry:
    if not os.path.isabs(request.path):
        raise ArtifactOptionError(
            f"The option `[artifact].local_trees` must name absolute paths, but has "
            f"{request.path!r} for {request.address}."
        )
    # Looking for changes is done in every run, reading it all only after one.
    stamp = await Get(
        FetchResult,
        FetchProcess(
            argv=("stamp", f"--path={request.path}"),
            description=f"Look for changes in {request.path}",
            level=LogLevel.DEBUG,
        ),
    )
    if stamp.error:
        return FetchedEntry(stamp.output_digest, stamp.error)
    found = json.loads(stamp.stdout)
    result = await Get(
        FetchResult,
        FetchProcess(
            argv=(
                "copy",
                f"--path={request.path}",
                f"--stamp={found['stamp']}",
                f"--output={_TREE}",
            ),
            description=(
                f"Read {request.address} from {request.path} ({shown_size(found['bytes'])})"
            ),
            output=_TREE,
            cache_scope=ProcessCacheScope.SUCCESSFUL,
        ),
    )
    if result.error:
        return FetchedEntry(result.output_digest, result.error)
    return FetchedEntry(await Get(Digest, RemovePrefix(result.output_digest, _TREE)), "")


@dataclass(frozen=True)
class MaterialisedFolder:
    """Where this Pants process puts immutable inputs is written down: see `leftovers.py`."""


@rule
async def register_materialised_folder() -> MaterialisedFolder:
    result = await Get(
        FetchResult,
        FetchProcess(
            argv=("register",),
            description="Note where artifacts are put",
            cache_scope=ProcessCacheScope.PER_RESTART_SUCCESSFUL,
            level=LogLevel.DEBUG,
        ),
    )
    if result.error:
        logger.warning(f"Artifacts may stay in the temporary folder: {result.error}")
    return MaterialisedFolder()


def rules():
    return collect_rules()
