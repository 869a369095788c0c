"""How the engine gets an artifact's tree: declared, found in the lock, fetched by one process."""

from __future__ import annotations

import json
import logging
import os
import platform as host_platform
import re
from dataclasses import dataclass, field
from pathlib import Path

from pants.backend.python.goals.pytest_runner import PytestPluginSetup, PytestPluginSetupRequest
from pants.backend.python.subsystems.repos import PythonRepos
from pants.backend.python.target_types import PythonTestSourceField
from pants.core.target_types import FileSourceField
from pants.engine.addresses import Address, Addresses, UnparsedAddressInputs
from pants.engine.engine_aware import EngineAwareParameter, EngineAwareReturnType
from pants.engine.env_vars import EnvironmentVars, EnvironmentVarsRequest
from pants.engine.fs import (
    AddPrefix,
    CreateDigest,
    Digest,
    DigestContents,
    DigestEntries,
    DigestSubset,
    FileContent,
    MergeDigests,
    PathGlobs,
    RemovePrefix,
    Snapshot,
    SymlinkEntry,
)
from pants.engine.internals.graph import Owners, OwnersRequest
from pants.engine.platform import Platform
from pants.engine.process import FallibleProcessResult, Process, ProcessCacheScope
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import (
    AllTargets,
    FieldSet,
    GeneratedSources,
    GenerateSourcesRequest,
    HydratedSources,
    HydrateSourcesRequest,
    InferDependenciesRequest,
    InferredDependencies,
    Target,
    Targets,
    TransitiveTargets,
    TransitiveTargetsRequest,
    WrappedTarget,
    WrappedTargetRequest,
)
from pants.engine.unions import UnionRule
from pants.option.global_options import GlobalOptions
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.artifact.declaration import (
    ArchiveDeclaration,
    DebianDeclaration,
    Declaration,
    DeclarationError,
    LlvmDeclaration,
    NvidiaDeclaration,
    PinFile,
    Slot,
    WheelDeclaration,
    slots,
)
from pants_triton.artifact.fetch import PROGRAM_MODULES
from pants_triton.artifact.links import links_to_own_parents
from pants_triton.artifact.lock import (
    ANY_PLATFORM,
    Entry,
    Lock,
    UrlEntry,
    WheelEntry,
    entry_json,
    read_lock,
    shown_size,
)
from pants_triton.artifact.locking import Found, find
from pants_triton.artifact.platforms import BuildHost, build_host
from pants_triton.artifact.settings import Settings
from pants_triton.artifact.settings_file import leave_settings
from pants_triton.artifact.subsystem import ArtifactOptionError, ArtifactSubsystem
from pants_triton.artifact.target_types import (
    ArchivePinField,
    ArchiveUrlField,
    ArchiveUrlsField,
    ArtifactDependenciesField,
    ArtifactFilesSourceField,
    ArtifactPartsField,
    ArtifactPathField,
    ArtifactPlatformsField,
    ArtifactsField,
    ArtifactSourceField,
    ArtifactStripField,
    ArtifactSubsetField,
    DebianPackagesField,
    DebianSuiteField,
    LlvmPinField,
    LlvmStoresField,
    NvidiaArchivesField,
    NvidiaComponentsField,
    NvidiaPinField,
    WheelDistributionField,
    WheelVersionField,
)
from pants_triton.program.rules import Program, ProgramPython, ProgramRequest

logger = logging.getLogger(__name__)

# Downloads are kept for all Pants runs of a user, under a name that says what they are: the folder
# `downloads` in it is a mirror for others.
CACHE_NAME = "pants_triton_artifacts"
_SANDBOX_CACHE = ".pants_triton_artifacts"
_CACHE = FrozenDict({CACHE_NAME: _SANDBOX_CACHE})

_SANDBOX_PROGRAM = ".pants_triton_fetch"
_RUN_PROGRAM = "run.sh"

# A remote cache is asked this long before the work is begun here: otherwise a clean machine would
# download what it turns out not to need. A dead cache costs no more than this once.
_SPECULATION_DELAY_MS = 5_000

# Before every line of the program's, see `errors.report_to_stderr`.
_MESSAGE_PREFIX = "pants-triton: "

# What of the user's environment says how the network is reached.
_NETWORK_VARIABLES = (
    *("HOME", "NETRC", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
)

# It starts the program with this host's Python, which must not be in the process' key: other hosts
# have it elsewhere. Pants' own process leaves it in the cache folder, see `_fetch_process`.
_RUN_SH = f"""\
#!/bin/sh
cache={_SANDBOX_CACHE}
python=python3
for file in "$cache/python-$PPID" "$cache/python"; do
  if [ -f "$file" ]; then
    IFS= read -r python < "$file"
    break
  fi
done
exec "$python" -sE {_SANDBOX_PROGRAM} "$@"
"""


class ArtifactError(Exception):
    """An artifact can't be had. The message names the target and the way out."""


# --- declared --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArtifactDeclarationRequest(EngineAwareParameter):
    """Asks what the BUILD file and the pin of one artifact declare."""

    address: Address

    def debug_hint(self) -> str:
        return self.address.spec


@dataclass(frozen=True)
class ArtifactDeclaration:
    """What is declared.

    :param path: where the tree is in sandboxes.
    :param slots: what the lock must have for it; none for an `artifact_tree`.
    :param parts: of an `artifact_tree`.
    :param error: why it can't be understood, "" if it can. What needs the artifact fails with it,
        and what looks at all artifacts goes on with the others.
    """

    address: Address
    path: str
    slots: tuple[Slot, ...] = ()
    parts: Addresses = Addresses()
    error: str = ""


async def _pin_file(target: Target, field_type: type[ArtifactSourceField]) -> PinFile | None:
    if not target[field_type].value:
        return None
    sources = await Get(HydratedSources, HydrateSourcesRequest(target[field_type]))
    (content,) = await Get(DigestContents, Digest, sources.snapshot.digest)
    return PinFile(content.path, content.content.decode("utf-8", "replace"))


def _declaration(target: Target, pin: PinFile | None) -> Declaration:
    address = target.address.spec
    subset = target.get(ArtifactSubsetField).value
    strip = target.get(ArtifactStripField).value
    platforms = tuple(target.get(ArtifactPlatformsField).value or ())
    if target.has_field(LlvmPinField):
        assert pin is not None
        return LlvmDeclaration(address, pin, tuple(target[LlvmStoresField].value or ()))
    if target.has_field(NvidiaPinField):
        assert pin is not None
        return NvidiaDeclaration(
            address,
            pin,
            platforms,
            tuple(target[NvidiaComponentsField].value or ()),
            target[NvidiaArchivesField].value,
        )
    if target.has_field(ArchiveUrlField):
        url, urls = target[ArchiveUrlField].value, target[ArchiveUrlsField].value
        if (url is None) == (urls is None):
            raise DeclarationError(
                f"{address}: set either `{ArchiveUrlField.alias}` or `{ArchiveUrlsField.alias}`: "
                "the one where the archive serves every platform, the other where it doesn't."
            )
        pairs = ((ANY_PLATFORM, url),) if url is not None else tuple((urls or {}).items())
        return ArchiveDeclaration(address, pairs, pin, strip, subset)
    if target.has_field(WheelDistributionField):
        distribution, version = target[WheelDistributionField], target[WheelVersionField]
        return WheelDeclaration(
            address, distribution.value, version.value, platforms, strip, subset
        )
    return DebianDeclaration(
        address,
        target[DebianSuiteField].value,
        tuple(target[DebianPackagesField].value),
        platforms,
        subset,
    )


@rule(desc="Read the declaration of an artifact", level=LogLevel.DEBUG)
async def declare_artifact(request: ArtifactDeclarationRequest) -> ArtifactDeclaration:
    wrapped = await Get(WrappedTarget, WrappedTargetRequest(request.address, "<infallible>"))
    target = wrapped.target
    path = target[ArtifactPathField].in_sandbox(target.address)
    if target.has_field(ArtifactPartsField):
        parts = await Get(
            Targets, UnparsedAddressInputs, target[ArtifactPartsField].to_unparsed_address_inputs()
        )
        for part in parts:
            if not part.has_field(ArtifactSourceField):
                return ArtifactDeclaration(
                    request.address,
                    path,
                    error=(
                        f"{request.address}: its part {part.address} is no artifact but a "
                        f"`{part.alias}`. Name targets such as `wheel_artifact`."
                    ),
                )
        return ArtifactDeclaration(
            request.address, path, parts=Addresses(part.address for part in parts)
        )
    pin = None
    for field_type in (LlvmPinField, NvidiaPinField, ArchivePinField):
        if target.has_field(field_type):
            pin = await _pin_file(target, field_type)
    try:
        return ArtifactDeclaration(request.address, path, slots(_declaration(target, pin)))
    except DeclarationError as e:
        return ArtifactDeclaration(request.address, path, error=str(e))


@dataclass(frozen=True)
class AllArtifacts:
    """What all artifacts of the workspace declare."""

    declarations: tuple[ArtifactDeclaration, ...]

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(slot for declared in self.declarations for slot in declared.slots)


@rule(desc="Find all artifacts", level=LogLevel.DEBUG)
async def find_all_artifacts(all_targets: AllTargets) -> AllArtifacts:
    return AllArtifacts(
        await MultiGet(
            Get(ArtifactDeclaration, ArtifactDeclarationRequest(target.address))
            for target in all_targets
            if target.has_field(ArtifactSourceField)
        )
    )


# --- found in the lock -----------------------------------------------------------------------


@dataclass(frozen=True)
class ArtifactLock:
    """The whole lock; empty where its file doesn't exist yet."""

    lock: Lock


@rule(desc="Read the lock of artifacts", level=LogLevel.DEBUG)
async def read_artifact_lock(artifact: ArtifactSubsystem) -> ArtifactLock:
    path = artifact.lock
    if os.path.isabs(path) or os.path.normpath(path) != path or path.startswith(".."):
        raise ArtifactOptionError(
            f"The option `[artifact].lock` must be a path below the build root, but is {path!r}."
        )
    contents = await Get(DigestContents, PathGlobs([path]))
    if not contents:
        return ArtifactLock(Lock(path))
    # `read_lock` says what is wrong in a way that needs no traceback.
    try:
        return ArtifactLock(read_lock(contents[0].content.decode("utf-8", "replace"), path))
    except ValueError as e:
        raise ArtifactError(str(e)) from None


@dataclass(frozen=True)
class ArtifactHost:
    """What of this machine decides which archive suits it."""

    host: BuildHost


@rule
async def find_artifact_host(platform: Platform) -> ArtifactHost:
    # None of this changes while a daemon lives.
    release = Path("/etc/os-release")
    return ArtifactHost(
        build_host(
            platform.value,
            host_platform.libc_ver()[1] if host_platform.libc_ver()[0] == "glibc" else "",
            release.read_text(errors="replace") if release.is_file() else "",
        )
    )


@dataclass(frozen=True)
class LocatedArtifactRequest(EngineAwareParameter):
    """Asks the lock for one artifact's entries for this host."""

    address: Address

    def debug_hint(self) -> str:
        return self.address.spec


@dataclass(frozen=True)
class LocatedArtifact:
    """The entries for this host, in the order in which their trees are laid over each other."""

    found: tuple[Found, ...]


@rule(desc="Find an artifact in the lock", level=LogLevel.DEBUG)
async def locate_artifact(
    request: LocatedArtifactRequest,
    lock: ArtifactLock,
    host: ArtifactHost,
    artifact: ArtifactSubsystem,
) -> LocatedArtifact:
    declared = await Get(ArtifactDeclaration, ArtifactDeclarationRequest(request.address))
    if declared.error:
        raise ArtifactError(declared.error)
    try:
        return LocatedArtifact(
            find(declared.slots, lock.lock, host.host, artifact.llvm_system_suffix)
        )
    except ValueError as e:
        raise ArtifactError(str(e)) from None


# --- fetched ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class FetchProgram:
    """The program that fetches artifacts, with what starts it."""

    digest: Digest


@rule
async def pack_fetch_program() -> FetchProgram:
    assert __package__ is not None
    program, start = await MultiGet(
        Get(Program, ProgramRequest(__package__, PROGRAM_MODULES, main="fetch")),
        Get(Digest, CreateDigest([FileContent(_RUN_PROGRAM, _RUN_SH.encode())])),
    )
    return FetchProgram(await Get(Digest, MergeDigests((program.digest, start))))


@dataclass(frozen=True)
class FetchSettings:
    """How this user's downloads are done, and with which Python.

    Kept out of every process' key: `leave` writes them where the program looks for them.
    """

    settings: Settings = field(repr=False)
    python: str
    cache: str

    def leave(self) -> None:
        """Write them for the processes that this one starts. Cheap, and done before each of them:
        who empties the cache folder of a running daemon finds it working."""
        try:
            leave_settings(Path(self.cache), os.getpid(), self.settings, self.python)
        except OSError as e:
            raise ArtifactError(
                f"The folder for downloads, {self.cache}, can't be written: {e.strerror}. Correct "
                "that, or name another in `[GLOBAL].named_caches_dir`."
            ) from None


def cache_folder(global_options: GlobalOptions) -> Path:
    """Where `_CACHE` is on this machine."""
    return Path(os.path.abspath(global_options.named_caches_dir), CACHE_NAME)


@rule
async def make_fetch_settings(
    artifact: ArtifactSubsystem,
    python_repos: PythonRepos,
    global_options: GlobalOptions,
    python: ProgramPython,
) -> FetchSettings:
    for name, value in (("tries", artifact.tries), ("stall_timeout", artifact.stall_timeout)):
        if value <= 0:
            raise ArtifactOptionError(
                f"The option `[artifact].{name}` must be above 0, but is {value}."
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
        python.path.path,
        str(cache_folder(global_options)),
    )


@dataclass(frozen=True)
class FetchProcess:
    """A process of the program.

    :param argv: a command of the program and its arguments, without the cache folder.
    :param entry: of the lock, as text, at `ENTRY` in the sandbox.
    """

    argv: tuple[str, ...]
    description: str = field(compare=False)
    entry: str = ""
    output: str = ""
    cache_scope: ProcessCacheScope = ProcessCacheScope.PER_SESSION
    level: LogLevel = LogLevel.INFO


ENTRY = "entry.json"
_TREE = "tree"


@dataclass(frozen=True)
class FetchResult:
    """What the program did. `error` is its message, "" if it did what it was asked."""

    error: str
    stdout: str
    output_digest: Digest


@rule
async def run_fetch_program(
    request: FetchProcess, program: FetchProgram, settings: FetchSettings
) -> FetchResult:
    inputs = [FileContent(ENTRY, request.entry.encode())] if request.entry else []
    input_digest = await Get(Digest, CreateDigest(inputs))
    settings.leave()
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
            append_only_caches=_CACHE,
            output_directories=(request.output,) if request.output else (),
            description=request.description,
            level=request.level,
            cache_scope=request.cache_scope,
            remote_cache_speculation_delay_millis=_SPECULATION_DELAY_MS,
        ),
    )
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
    # One process that downloads, verifies and unpacks, and is cached by its entry: on a machine
    # where all that needs the tree is cached, not a byte of it is moved; and should a cache lose the
    # tree, Pants runs just this again.
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
        ),
    )
    if result.error:
        return FetchedEntry(result.output_digest, result.error)
    return FetchedEntry(await Get(Digest, RemovePrefix(result.output_digest, _TREE)), "")


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


@dataclass(frozen=True)
class OverlayRequest:
    """Asks for trees laid over each other, where of two files with the same path the later one's
    tree wins, as when Triton's own set-up copies them."""

    digests: tuple[Digest, ...]


@dataclass(frozen=True)
class Overlay:
    digest: Digest


def _escaped(path: str) -> str:
    """The glob that matches `path` only, whatever characters it has."""
    return re.sub(r"([*?\[\]{}!\\])", r"\\\1", path)


@rule(desc="Lay trees over each other", level=LogLevel.DEBUG)
async def overlay_trees(request: OverlayRequest) -> Overlay:
    if len(request.digests) < 2:
        return Overlay(await Get(Digest, MergeDigests(request.digests)))
    snapshots = await MultiGet(Get(Snapshot, Digest, digest) for digest in request.digests)
    taken: set[str] = set()
    kept = []
    for snapshot in reversed(snapshots):
        mine = [path for path in snapshot.files if path not in taken]
        taken.update(mine)
        digest = snapshot.digest
        if len(mine) < len(snapshot.files):
            globs = PathGlobs(_escaped(path) for path in mine)
            digest = await Get(Digest, DigestSubset(digest, globs))
        kept.append(digest)
    return Overlay(await Get(Digest, MergeDigests(kept)))


@dataclass(frozen=True)
class ArtifactTreeRequest(EngineAwareParameter):
    """Asks for the tree of an artifact on this host. Fails with an ArtifactError."""

    address: Address

    def debug_hint(self) -> str:
        return self.address.spec


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
            Get(ArtifactTree, ArtifactTreeRequest(part)) for part in declared.parts
        )
        overlay = await Get(Overlay, OverlayRequest(tuple(part.digest for part in parts)))
        return ArtifactTree(address, declared.path, overlay.digest)
    located = await Get(LocatedArtifact, LocatedArtifactRequest(address))
    fetched = await MultiGet(
        Get(
            FetchedEntry,
            FetchedEntryRequest(found.entry, found.platform, _fetch_description(address, found)),
        )
        for found in located.found
    )
    errors = [
        f"{address}: {found.artifact} for {found.platform}: {entry.error}"
        for found, entry in zip(located.found, fetched)
        if entry.error
    ]
    if errors:
        raise ArtifactError("\n\n".join(errors))
    overlay = await Get(Overlay, OverlayRequest(tuple(entry.digest for entry in fetched)))
    return ArtifactTree(address, declared.path, overlay.digest)


# --- used ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArtifactTreesRequest:
    """Asks for the trees of all artifacts that targets depend on, transitively."""

    addresses: tuple[Address, ...]


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
            Get(ArtifactTree, ArtifactTreeRequest(address)) for address in addresses
        )
    except ArtifactError as e:
        return ArtifactTrees((), str(e))
    by_path: dict[str, Address] = {}
    for tree in trees:
        for path, other in by_path.items():
            if f"{tree.path}/".startswith(f"{path}/") or f"{path}/".startswith(f"{tree.path}/"):
                return ArtifactTrees(
                    (),
                    f"{tree.address} and {other} would both be at {tree.path} in the sandbox: set "
                    f"`{ArtifactPathField.alias}` of one of them.",
                )
        by_path[tree.path] = tree.address
    return ArtifactTrees(trees)


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
