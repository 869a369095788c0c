"""Python tests, of two users with one remote cache: what the first has tested, the second doesn't run."""

from __future__ import annotations

import contextlib
import os
import warnings
from pathlib import Path
from typing import Any, Iterator

import pytest

from e2e.remote_cache import cache_server, not_installable
from e2e.workspace import Workspace, workspace

FILES = {
    "pants.ci.toml": """\
        [GLOBAL]
        session_end_tasks_timeout = 300
        """,
    "t/BUILD": """\
        triton_tests(name="cpu")
        """,
    "t/one_test.py": "def test_passes() -> None: pass\n",
    "t/more/BUILD": """\
        triton_tests(name="cpu", workers=2)
        """,
    "t/more/two_test.py": "def test_passes() -> None: pass\n",
}


@contextlib.contextmanager
def user(folder: Path, checkout: str) -> Iterator[Workspace]:
    """Somebody with a home, a checkout, and an installation of Pants, of their own."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    (folder / checkout).mkdir(parents=True)
    # The same one by another name.
    (folder / "installed").symlink_to(
        os.environ.get("PANTS_TRITON_CACHE") or f"{cache}/pants-triton"
    )
    env = {
        "USER": folder.name,
        "LOGNAME": folder.name,
        "HOME": str(folder),
        "PANTS_CONFIG_FILES": "+['pants.ci.toml', 'pants.pytest.toml']",
        "PANTS_TRITON_CACHE": str(folder / "installed"),
        "PANTS_NAMED_CACHES_DIR": str(folder / "caches"),
    }
    with workspace(folder / checkout, env) as ws:
        ws.write(FILES)
        ws.add_pytest_resolve("pants.pytest.toml")
        yield ws


def report_of_a_run(ws: Workspace, options: dict[str, object]) -> dict[str, Any]:
    env = {f"PANTS_{name.upper()}": str(value) for name, value in options.items()}
    run = ws.pants("test", "::", env=env)
    assert run.exit_code == 0, run.output
    return ws.report()


def test_another_user_runs_no_test(tmp_path: Path) -> None:
    reason = not_installable()
    if reason:
        warnings.warn(f"NOT TESTED: Python tests with a remote cache; {reason}", stacklevel=1)
        pytest.skip(reason)
    with cache_server(tmp_path / "server") as server:
        reading: dict[str, object] = {
            "remote_cache_read": True,
            "remote_store_address": server.address("read"),
            "remote_ca_certs_path": server.ca,
        }
        writing = {
            **reading,
            "remote_store_address": server.address("write"),
            "remote_cache_write": True,
            "remote_oauth_bearer_token_path": server.token("writer:main"),
        }
        with user(tmp_path / "ada", "checkout") as ws:
            first = report_of_a_run(ws, writing)
        with user(tmp_path / "grace", "a checkout of somebody else") as ws:
            second = report_of_a_run(ws, reading)
    sources = ("executed", "local_hit", "remote_hit", "memory")
    assert first["totals"]["tests_by_source"] == dict(zip(sources, (2, 0, 0, 0)))
    assert second["totals"]["tests_by_source"] == dict(zip(sources, (0, 0, 2, 0)))
