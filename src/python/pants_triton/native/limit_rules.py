"""How many edges of a kind run at once: what the program `slots` needs, and is told."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from pants.engine.fs import CreateDigest, Digest, FileContent, MergeDigests
from pants.engine.process import Process
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.util.frozendict import FrozenDict

from pants_triton.artifact.fetch_rules import (
    CACHE_NAME,
    HOST_CACHE,
    FetchSettings,
    start_script,
)
from pants_triton.native.slots import PROGRAM_MODULES, Bound, leave_bounds, links_in, memory
from pants_triton.native.subsystem import NativeError, NativeSubsystem
from pants_triton.program.rules import Program, ProgramRequest

_PROGRAM = ".pants_triton_slots"
_RUN_PROGRAM = "run.sh"


@dataclass(frozen=True)
class EdgeLimits:
    """What bounds the number of edges that run at once.

    :param links: how many links, 0 for any number.
    """

    program: Digest
    settings: FetchSettings
    links: int

    def bounds(self, is_link: bool, pool: tuple[str, int] | None) -> tuple[Bound, ...]:
        """What bounds an edge, which may be in a pool of this name and depth."""
        found = []
        if pool is not None:
            found.append((f"pool-{pool[0]}", pool[1]))
        if is_link and self.links:
            found.append(("links", self.links))
        return tuple(found)

    def bounded(self, process: Process, bounds: tuple[Bound, ...]) -> Process:
        """`process`, which begins when there is room for it. Without bounds it has the same key as
        with some: that there could be any is part of it, not which."""
        key = _key(process)
        self.settings.leave()
        cache = Path(self.settings.cache)
        try:
            leave_bounds(cache, os.getpid(), key, bounds)
        except OSError as e:
            raise NativeError(
                f"How many edges may run at once can't be written to {e.filename or cache}: "
                f"{e.strerror}. Correct that, or name another folder in "
                "`[GLOBAL].named_caches_dir`."
            ) from None
        return dataclasses.replace(
            process,
            argv=(
                "/bin/sh",
                f"{_PROGRAM}/{_RUN_PROGRAM}",
                f"--cache={HOST_CACHE[CACHE_NAME]}",
                f"--edge={key}",
                "--",
                *process.argv,
            ),
            immutable_input_digests=FrozenDict(
                {**process.immutable_input_digests, _PROGRAM: self.program}
            ),
            append_only_caches=HOST_CACHE,
        )


def _key(process: Process) -> str:
    # Of what is in the process' own key already, so that equal edges of two projects stay equal.
    parts = (*process.argv, *process.env.items(), process.input_digest.fingerprint)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@rule
async def make_edge_limits(native: NativeSubsystem, settings: FetchSettings) -> EdgeLimits:
    assert __package__ is not None
    if native.max_links is not None and native.max_links < 0:
        raise NativeError(
            "The option `[native].max_links` must be a number of links, or 0 for any number, but is "
            f"{native.max_links}."
        )
    program, start = await MultiGet(
        Get(Program, ProgramRequest(__package__, PROGRAM_MODULES, main="slots")),
        Get(Digest, CreateDigest([FileContent(_RUN_PROGRAM, start_script(_PROGRAM).encode())])),
    )
    digest = await Get(Digest, MergeDigests((program.digest, start)))
    links = links_in(memory()) if native.max_links is None else native.max_links
    return EdgeLimits(digest, settings, links)


def rules():
    return collect_rules()
