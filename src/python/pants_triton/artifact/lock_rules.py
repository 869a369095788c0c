"""What the lock has for this host."""

from __future__ import annotations

import os
import platform as host_platform
from dataclasses import dataclass
from pathlib import Path

from pants.base.build_environment import get_buildroot
from pants.engine.addresses import Address
from pants.engine.engine_aware import EngineAwareParameter
from pants.engine.fs import DigestContents, PathGlobs
from pants.engine.platform import Platform
from pants.engine.rules import Get, _uncacheable_rule, collect_rules, rule
from pants.util.logging import LogLevel

from pants_triton.artifact.declaration_rules import ArtifactDeclaration, ArtifactDeclarationRequest
from pants_triton.artifact.lock import Lock, read_lock
from pants_triton.artifact.locking import Found, find
from pants_triton.artifact.platforms import BuildHost, build_host
from pants_triton.artifact.subsystem import ArtifactError, ArtifactOptionError, ArtifactSubsystem


@dataclass(frozen=True)
class ArtifactLock:
    """The whole lock; empty where its file doesn't exist yet."""

    lock: Lock


@dataclass(frozen=True)
class UnseenLockRequest:
    """Asks why Pants sees no lock at a path."""

    path: str


@dataclass(frozen=True)
class UnseenLock:
    """Why, "" where there is none."""

    error: str


# Pants doesn't watch what it ignores: it is looked at in every run.
@_uncacheable_rule
async def look_for_unseen_lock(request: UnseenLockRequest) -> UnseenLock:
    path = Path(get_buildroot(), request.path)
    option = "The option `[artifact].lock`"
    if path.is_dir():
        return UnseenLock(f"{option} must be a file's path, but {request.path} is a folder.")
    if os.path.lexists(path):
        return UnseenLock(
            f"{option} is {request.path}, which exists, but Pants ignores it (.gitignore, "
            "`[GLOBAL].pants_ignore`): name a place that is committed, such as "
            "3rdparty/artifacts.lock.json, or have Pants see it."
        )
    return UnseenLock("")


@rule(desc="Read the lock of artifacts", level=LogLevel.DEBUG)
async def read_artifact_lock(artifact: ArtifactSubsystem) -> ArtifactLock:
    path = artifact.lock
    if os.path.isabs(path) or os.path.normpath(path) != path or path.startswith(".."):
        raise ArtifactOptionError(
            f"The option `[artifact].lock` must be a path below the build root, but is {path!r}."
        )
    if set(path) & set("*?[]{}!\\"):
        raise ArtifactOptionError(
            f"The option `[artifact].lock` must be one file's path, without wildcards, but is {path!r}."
        )
    contents = await Get(DigestContents, PathGlobs([path]))
    if not contents:
        unseen = await Get(UnseenLock, UnseenLockRequest(path))
        if unseen.error:
            raise ArtifactOptionError(unseen.error)
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


def rules():
    return collect_rules()
