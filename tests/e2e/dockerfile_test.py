"""The images' Dockerfile, as its linter sees it, and what it fetches, as the lanes' tests need it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "build-support/ci/images"

_RESOLVE = re.compile(r"\bresolve *= *\"(\w+)\"")


def test_hadolint_finds_nothing() -> None:
    result = subprocess.run(
        [
            str(ROOT / "3rdparty/hadolint/hadolint/bin/hadolint"),
            "--no-color",
            str(IMAGES / "Dockerfile"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, result.stdout


def resolves_of(*files: Path) -> set[str]:
    return {name for file in files for name in _RESOLVE.findall(file.read_text())}


def test_each_image_rehearses_the_resolves_that_its_lanes_tests_have() -> None:
    rehearsal = (IMAGES / "rehearsal/rehearsal.BUILD").read_text()
    rehearsed = {
        name: resolve
        for name, resolve in re.findall(
            r"name=\"(\w+)\",[^)]*?\bresolve=\"(\w+)\"", rehearsal, re.DOTALL
        )
    }
    declared = (IMAGES / "BUILD").read_text()
    of_images = {
        image: {rehearsed[name] for name in re.findall(r"tests/rehearsal:(\w+)", arguments)}
        for image, arguments in re.findall(
            r"name=\"(\w+)\",\s*extra_build_args=\[(.*?)\]", declared, re.DOTALL
        )
    }
    # `[hardware].resolves` gives tests theirs that name none. The backend's own tests are the CPU's.
    settings = (ROOT / "pants.toml").read_text()
    defaults = dict(
        re.findall(r"(\w+) = \"(\w+)\"", re.findall(r"^resolves = (.*)", settings, re.M)[0])
    )
    tests = resolves_of(*(ROOT / "tests").rglob("BUILD"))
    named = tests - {defaults["cuda"]}
    assert of_images == {
        "cpu": {*named, defaults["cpu"], "plugin"},
        "cuda": {*named, defaults["cuda"]},
        "rocm": {*named, defaults["rocm"]},
    }
