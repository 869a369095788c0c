"""The images' Dockerfile, as its linter sees it."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_hadolint_finds_nothing() -> None:
    result = subprocess.run(
        [
            str(ROOT / "3rdparty/hadolint/hadolint/bin/hadolint"),
            "--no-color",
            str(ROOT / "build-support/ci/images/Dockerfile"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, result.stdout
