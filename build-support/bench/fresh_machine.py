"""Machines on which nothing has run yet: an empty home and a new checkout. What a benchmark has
beside that is the same for all: package registries, and pip's cache, which CI keeps in any case."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, Mapping

from by_hand import ROOT, run

# What is tested where there is no device: of the sample lit, GoogleTest and pytest.
GOAL = ("--tag=cpu", "test")

# Of the environment of whoever runs a benchmark, a machine has what leads to registries.
_KEPT = (
    *("PATH", "LANG", "TMPDIR", "PANTS_TRITON_PYTHON", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"),
    *("PIP_CERT", "PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"),
    *("PIP_NO_INDEX", "PIP_TRUSTED_HOST", "http_proxy", "https_proxy", "no_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)


def checkout(folder: Path) -> float:
    """A clone of this repository's HEAD, as CI makes it; returns the seconds it took."""
    clone = ["git", "clone", "--quiet", "--depth=1", f"file://{ROOT}", str(folder)]
    return run(clone, folder.parent, os.environ)


@dataclass
class Machine:
    """A home and a checkout in it, of a user called as the home is.

    :param options: of Pants, by the names of variables without `PANTS_`.
    """

    home: Path
    options: Mapping[str, object]
    folder: str = "checkout"
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.home / self.folder

    @property
    def env(self) -> dict[str, str]:
        env = {name: os.environ[name] for name in _KEPT if name in os.environ}
        pyenv = shutil.which("pyenv") and subprocess.check_output(["pyenv", "root"], text=True)
        if pyenv:
            env["PYENV_ROOT"] = pyenv.strip()
        env.update(HOME=str(self.home), USER=self.home.name, LOGNAME=self.home.name)
        env.update({f"PANTS_{name.upper()}": str(value) for name, value in self.options.items()})
        return env

    def make(self) -> None:
        self.home.mkdir(parents=True)
        self.seconds["checkout"] = checkout(self.root)

    def set_up(self) -> None:
        """Let the launcher install Pants, and start its daemon."""
        self._first("--version")

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.root / "pants"), *args],
            cwd=self.root,
            env={**self.env, "PWD": str(self.root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def test(self, *targets: str) -> None:
        """Test them, in the first run: the launcher installs Pants, which starts its daemon."""
        self.seconds["test"] = self._first(*GOAL, *targets)

    def report(self) -> dict[str, Any]:
        """What the last run says that it did."""
        path = self.root / "dist/run-report/latest/report.json"
        report: dict[str, Any] = json.loads(path.read_text())
        return report

    @property
    def downloads(self) -> list[str]:
        """The files of artifacts that came from where they are published."""
        caches = self.home / ".cache/pants/named_caches/pants_triton_artifacts/downloads"
        return sorted(os.listdir(caches)) if caches.is_dir() else []

    def stop(self) -> None:
        """End the daemon, and wait for it."""
        for pid_file in self.root.glob(".pids/**/pantsd/pid"):
            with contextlib.suppress(ProcessLookupError, ValueError):
                pid = int(pid_file.read_text())
                os.kill(pid, signal.SIGTERM)
                for _ in range(300):
                    os.kill(pid, 0)
                    time.sleep(0.1)

    def remove(self) -> None:
        self.stop()
        # Trees of artifacts have folders that nobody may write to.
        for folder, _, _ in os.walk(self.home):
            os.chmod(folder, 0o700)
        shutil.rmtree(self.home)

    def _first(self, *args: str) -> float:
        """Returns the seconds less those of the installation."""
        begin = time.time()
        total = self._pants(*args)
        [installed] = self.home.glob(".cache/pants-triton/*/ready")
        self.seconds["install Pants"] = installed.stat().st_mtime - begin
        return total - self.seconds["install Pants"]

    def _pants(self, *args: str) -> float:
        return run([str(self.root / "pants"), *args], self.root, self.env)


def union_seconds(spans: Iterable[tuple[float, float]]) -> float:
    """For how long at least one of the spans, of starts and durations, went on."""
    total = end = 0.0
    for start, seconds in sorted(spans):
        total += max(0.0, start + seconds - max(start, end))
        end = max(end, start + seconds)
    return total


def spans(report: Mapping[str, Any], *kinds: str) -> list[tuple[float, float]]:
    """Of the processes of some kinds, in a run's report."""
    processes = [*report["processes"], *({"kind": "edge", **edge} for edge in report["edges"])]
    return [(p["start"], p["seconds"]) for p in processes if p["kind"] in kinds]


def fail(line: str) -> None:
    sys.exit(f"NOT AS IT SHOULD BE: {line}")
