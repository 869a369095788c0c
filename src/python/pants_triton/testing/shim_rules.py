"""Python tests whose keys don't say where Pants is installed.

Pants starts a test by a script, its shim, which names the Python that Pants itself runs on: that one
sets up the test's virtual environment where there is none yet. It is below the home of whoever
installed Pants, and the script is among the test's inputs, so that nobody would share a result with
another user.
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
from dataclasses import dataclass

from pants.engine.fs import (
    CreateDigest,
    Digest,
    DigestContents,
    DigestSubset,
    MergeDigests,
    PathGlobs,
)
from pants.engine.process import Process, ProcessCacheScope, ProcessResult
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

#: Where every sandbox has Pants' own Python: a script in a cache, which is no part of a key.
PYTHON = ".pants_triton_python/python"
_CACHE = FrozenDict({"pants_triton_python": ".pants_triton_python"})

_SHIMS = "*_shim.sh"


@dataclass(frozen=True)
class PantsPython:
    """Pants' own Python in the sandbox of a process that has these caches."""

    path: str
    append_only_caches: FrozenDict[str, str]


@rule(desc="Note which Python Pants runs on", level=LogLevel.DEBUG)
async def note_pants_python() -> PantsPython:
    # Moved there, as tests of another run may be started by it just now. Any run's Python will do.
    draft = f"{PYTHON}.$$"
    await Get(
        ProcessResult,
        Process(
            (
                *("/bin/sh", "-euc"),
                f'printf "#!/bin/sh\\nexec %s \\"\\$@\\"\\n" "$1" >"{draft}"\n'
                f'chmod 755 "{draft}"\nmv -f "{draft}" {PYTHON}\n',
                *("sh", shlex.quote(sys.executable)),
            ),
            env={"PATH": "/usr/bin:/bin"},
            append_only_caches=_CACHE,
            description="Note which Python Pants runs on",
            level=LogLevel.DEBUG,
            # Somebody may have emptied the cache, or installed Pants anew.
            cache_scope=ProcessCacheScope.PER_SESSION,
        ),
    )
    return PantsPython(PYTHON, _CACHE)


@dataclass(frozen=True)
class PortableProcessRequest:
    """Asks for a test's process with the same key on every machine."""

    process: Process


@dataclass(frozen=True)
class PortableProcess:
    process: Process


@rule
async def make_process_portable(
    request: PortableProcessRequest, python: PantsPython
) -> PortableProcess:
    process = request.process
    shims = await Get(DigestContents, DigestSubset(process.input_digest, PathGlobs([_SHIMS])))
    ours = sys.executable.encode()
    changed = [
        dataclasses.replace(shim, content=shim.content.replace(ours, python.path.encode()))
        for shim in shims
        if ours in shim.content
    ]
    if not changed:
        return PortableProcess(process)
    without = PathGlobs(["**", *(f"!{shim.path}" for shim in changed)])
    rest, portable = await MultiGet(
        Get(Digest, DigestSubset(process.input_digest, without)),
        Get(Digest, CreateDigest(changed)),
    )
    return PortableProcess(
        dataclasses.replace(
            process,
            input_digest=await Get(Digest, MergeDigests((rest, portable))),
            append_only_caches=FrozenDict(
                {**process.append_only_caches, **python.append_only_caches}
            ),
        )
    )


def rules():
    return collect_rules()
