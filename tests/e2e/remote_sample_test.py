"""The sample, with its real toolchain, on two machines with one remote cache: what the first has built and
tested, the second neither compiles nor runs, and the toolchain doesn't come to it at all.

The first machine is this user's in what it has downloaded; it compiles for a minute or two. How long
each takes, and the same for the whole sample with its Python tests, is `build-support/bench/remote`'s.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any, Iterator

import pytest

from e2e.remote_cache import CacheServer, cache_server, not_installable
from e2e.workspace import REPOSITORY, Workspace, workspace

# Debian's packages are for Linux.
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the toolchain is Linux's")

SAMPLE = "tests/projects/minitriton"
#: GoogleTest's programs and lit's tests: 40 of 49 edges, and not those that take longest.
TESTS = (f"{SAMPLE}:unit", f"{SAMPLE}:lit")


def report_of_a_run(ws: Workspace, options: dict[str, object]) -> dict[str, Any]:
    """Build and test; returns the run's report."""
    env = {f"PANTS_{name.upper()}": str(value) for name, value in options.items()}
    run = ws.pants("test", *TESTS, env=env)
    assert run.exit_code == 0, run.output
    return ws.report()


@contextlib.contextmanager
def machine(folder: Path, checkout: str, own: dict[str, str]) -> Iterator[Workspace]:
    """A checkout of the sample, of a user called as the folder is, with nothing built.

    :param own: variables that each run has.
    """
    (folder / checkout).mkdir(parents=True)
    (folder / "tmp").mkdir()
    env = {
        "USER": folder.name,
        "LOGNAME": folder.name,
        "PANTS_CONFIG_FILES": "pants.ci.toml",
        "PANTS_LOCAL_STORE_DIR": str(folder / "store"),
        "PANTS_LOCAL_EXECUTION_ROOT_DIR": str(folder / "tmp"),
        **own,
    }
    try:
        with workspace(folder / checkout, env) as ws:
            for name in ("3rdparty", SAMPLE):
                ignored = shutil.ignore_patterns(
                    "__pycache__", "python" if name == "3rdparty" else ""
                )
                shutil.copytree(REPOSITORY / name, ws.root / name, ignore=ignored)
            yield ws
    finally:
        # An LLVM each.
        for name in ("store", "tmp"):
            shutil.rmtree(folder / name, ignore_errors=True)


def test_what_one_machine_has_built_no_other_builds(tmp_path: Path) -> None:
    reason = not_installable()
    if reason:
        warnings.warn(f"NOT TESTED: the sample with a remote cache; {reason}", stacklevel=1)
        pytest.skip(reason)
    with cache_server(tmp_path / "server") as server:
        first = built_by_the_first(tmp_path, server)
        with second_machine(tmp_path) as (ws, caches):
            second = report_of_a_run(ws, reading(server))
            downloaded = list((caches / "pants_triton_artifacts").glob("downloads/*"))

    tests = first["totals"]["tests"]["passed"]
    edges = len(first["edges"])
    assert edges > 30 and tests > 15
    totals = second["totals"]
    assert totals["tests_by_source"] == {
        "executed": 0,
        "local_hit": 0,
        "remote_hit": tests,
        "memory": 0,
    }
    assert totals["edges_by_source"] == {"executed": 0, "local_hit": 0, "remote_hit": edges}
    assert totals["tests"] == first["totals"]["tests"]
    assert totals["cache_errors"] == 0
    # No archive came from where it is published, nor the toolchain's 1.7 GB from the server.
    assert downloaded == []
    assert first["bytes"]["uploaded"] > 1_000_000_000 > 100_000_000 > second["bytes"]["downloaded"]


def reading(server: CacheServer) -> dict[str, object]:
    return {
        "remote_cache_read": True,
        "remote_store_address": server.address("read"),
        "remote_ca_certs_path": server.ca,
    }


def built_by_the_first(folder: Path, server: CacheServer) -> dict[str, Any]:
    writing = {
        **reading(server),
        "remote_store_address": server.address("write"),
        "remote_cache_write": True,
        "remote_oauth_bearer_token_path": server.token("writer:main"),
    }
    with machine(folder / "ada", "checkout", {}) as ws:
        return report_of_a_run(ws, writing)


@contextlib.contextmanager
def second_machine(folder: Path) -> Iterator[tuple[Workspace, Path]]:
    """With a home of its own, where nothing was ever downloaded; also its named caches."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    home = folder / "grace"
    own = {
        "HOME": str(home),
        "PANTS_NAMED_CACHES_DIR": str(home / "caches"),
        # Where the real user's Pants is installed.
        "PANTS_TRITON_CACHE": os.environ.get("PANTS_TRITON_CACHE") or f"{cache}/pants-triton",
    }
    with machine(home, "a checkout of somebody else", own) as ws:
        yield ws, home / "caches"
