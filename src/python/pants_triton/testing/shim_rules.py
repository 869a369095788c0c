"""Python tests whose keys don't say where Pants is installed.

Pants starts a test by a script, its shim, which names the Python that Pants itself runs on: that one
sets up the test's virtual environment where there is none yet. It is below the home of whoever
installed Pants, and the script is among the test's inputs, so that nobody would share a result with
another user.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from pants.engine.fs import (
    CreateDigest,
    Digest,
    DigestContents,
    DigestSubset,
    MergeDigests,
    PathGlobs,
)
from pants.engine.process import Process
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.option.global_options import GlobalOptions
from pants.util.frozendict import FrozenDict

from pants_triton.artifact.settings_file import replace_file

#: Where every sandbox has Pants' own Python: a script in a cache, which is no part of a key.
PYTHON = ".pants_triton_python/python"
_CACHE_NAME = "pants_triton_python"
_CACHE = FrozenDict({_CACHE_NAME: ".pants_triton_python"})

_SHIMS = "*_shim.sh"


class PantsPythonError(Exception):
    """Sandboxes can't be told where Pants' Python is. The message names the way out."""


@dataclass(frozen=True)
class PantsPython:
    """Pants' own Python in the sandbox of a process that has this backend's cache.

    :param script: the script, on this machine.
    """

    script: str

    def leave(self) -> None:
        """Write the script. Cheap, and done before each test: who empties the caches of a running daemon
        finds it working. Raises PantsPythonError."""
        try:
            self._write(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        except OSError as e:
            raise PantsPythonError(
                f"{self.script} can't be written ({e.strerror}): correct that, or name another folder in "
                "`[GLOBAL].named_caches_dir`"
            ) from None

    def _write(self, content: str) -> None:
        path = Path(self.script)
        with contextlib.suppress(FileNotFoundError):
            if path.read_text(encoding="utf-8") == content:
                return
        path.parent.mkdir(parents=True, exist_ok=True)
        # Any run's Python will do for tests of another one.
        replace_file(path, content, 0o755)


@rule
def find_pants_python(global_options: GlobalOptions) -> PantsPython:
    caches = os.path.abspath(global_options.named_caches_dir)
    return PantsPython(os.path.join(caches, _CACHE_NAME, os.path.basename(PYTHON)))


@dataclass(frozen=True)
class PortableProcessRequest:
    """Asks for a test's process with the same key on every machine, see `PantsPython`."""

    process: Process


@dataclass(frozen=True)
class PortableProcess:
    process: Process


@rule
async def make_process_portable(request: PortableProcessRequest) -> PortableProcess:
    process = request.process
    shims = await Get(DigestContents, DigestSubset(process.input_digest, PathGlobs([_SHIMS])))
    ours = sys.executable.encode()
    changed = [
        dataclasses.replace(shim, content=shim.content.replace(ours, PYTHON.encode()))
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
            append_only_caches=FrozenDict({**process.append_only_caches, **_CACHE}),
        )
    )


def rules():
    return collect_rules()
