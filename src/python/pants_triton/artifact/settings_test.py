from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pants_triton.artifact.errors import EXIT_THIS_HOST, FetchError
from pants_triton.artifact.settings import (
    Settings,
    apply_environment,
    load_settings,
    settings_path,
)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def write_settings(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def test_settings(cache: Path) -> None:
    assert load_settings(cache) == Settings()
    values: dict[str, Any] = {
        "mirrors": ["file:///mirror"],
        "indexes": ["https://index.example/simple"],
        "debian_mirror": "https://mirror.example/debian",
        "environment": {"HOME": "/home/u"},
        "credentials": {"mirror.example": "TOKEN"},
        "tries": 2,
        "stall_timeout_s": 1.5,
        "backoff_s": 1,
        "max_wait_s": 10,
        "max_bytes": 1000,
        "max_members": 10,
        "max_ratio": 5,
    }
    write_settings(settings_path(cache), json.dumps(values))
    expected: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
    }
    assert load_settings(cache) == Settings(**expected)


def test_two_pants_runs_have_their_own_settings(cache: Path) -> None:
    write_settings(settings_path(cache), '{"tries": 2}')
    write_settings(settings_path(cache, os.getppid()), '{"tries": 3}')
    write_settings(settings_path(cache, 1_000_000_000), '{"tries": 4}')
    assert load_settings(cache).tries == 3


@pytest.mark.parametrize(
    "text, problem",
    [
        pytest.param("{", "it is not JSON", id="no JSON"),
        pytest.param("[]", "it is not a JSON object", id="no object"),
        pytest.param('{"mirror": []}', "unknown: mirror", id="unknown"),
        pytest.param('{"mirrors": "s3cr3t"}', "`mirrors` must be a list of texts", id="no list"),
        pytest.param('{"environment": {"A": 1}}', "must be an object of texts", id="no texts"),
        pytest.param('{"tries": 0}', "`tries` must be a whole number above 0", id="zero"),
        pytest.param('{"tries": true}', "`tries` must be a whole number", id="boolean"),
        pytest.param('{"backoff_s": NaN}', "must be a number above 0", id="not a number"),
        pytest.param('{"mirrors": ["ftp://h/s"]}', "ftp://h/s is no `https:`", id="scheme"),
    ],
)
def test_settings_that_are_none(cache: Path, text: str, problem: str) -> None:
    write_settings(settings_path(cache), text)
    with pytest.raises(FetchError) as e:
        load_settings(cache)
    assert problem in str(e.value) and str(cache) in str(e.value)
    assert "s3cr3t" not in str(e.value)
    assert e.value.exit_code == EXIT_THIS_HOST


def test_variables_in_the_settings_become_this_process_s_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "environ", {"PATH": "/bin", "HOME": "/root"})
    apply_environment(Settings(environment={"HOME": "/home/u"}))
    assert dict(os.environ) == {"PATH": "/bin", "HOME": "/home/u"}
