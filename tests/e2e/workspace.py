"""Small Pants workspaces that use this repository's backend, for tests that run the real Pants."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any, Iterator, Mapping

REPOSITORY = Path(__file__).resolve().parents[2]

_PANTS_TOML = """\
[GLOBAL]
pants_version = "2.17.1"
pythonpath = ["{repository}/src/python"]
backend_packages = ["pants.backend.python", "pants_triton"]
ignore_warnings = [
  "DEPRECATED: Running Pants in an external Python interpreter via a `pants` script",
]
local_store_dir = "%(buildroot)s/.store"
dynamic_ui = false
colors = false

[anonymous-telemetry]
enabled = false

[source]
root_patterns = ["/"]

[python]
interpreter_constraints = ["CPython==3.9.*"]

[python-infer]
use_rust_parser = true

# As in this repository's own pants.toml.
[pex]
executable_search_paths = ["/usr/local/bin", "/usr/bin", "/bin"]

[subprocess-environment]
env_vars = ["LANG=C.UTF-8"]

[hardware]
tool_search_path = ["%(buildroot)s/tools"]
"""

# As this repository's own: the packages of its lock for pytest, such as the plugin by which tests are
# run in a random order.
_PYTEST_RESOLVE = """\
[python]
enable_resolves = true
default_resolve = "pytest"
resolves_generate_lockfiles = false
[python.resolves]
pytest = "pytest.lock.txt"
[pytest]
install_from_resolve = "pytest"
"""

# An nvidia-smi whose answers are files beside it, so that a test can change the driver or take the
# device away. Real output: `nvidia-smi --query-gpu=… --format=csv,noheader,nounits` of 550.54.15.
_NVIDIA_SMI = """\
#!/bin/sh
here=${0%/*}
case "$1" in
  --query-gpu=*) exec /bin/cat "$here/query.csv" ;;
  -L) exec /bin/cat "$here/list.txt" ;;
esac
"""

# Pants gives up on a program that it just wrote when another process, forked in that moment, keeps
# the file open for some tenths of a second, which happens where far more runs than there are cores.
_NOT_STARTED = "retries for ETXTBSY"
_ATTEMPTS = 3


@dataclass(frozen=True)
class PantsRun:
    """A finished run of Pants. `output` is stdout and stderr, as a person would see them."""

    exit_code: int
    output: str

    def repeats(self, head: str = "Repeat what failed:") -> list[str]:
        """The commands below that line of the run's last ones."""
        lines = self.output.splitlines()
        [start] = [number for number, line in enumerate(lines) if line.endswith(head)]
        below = itertools.takewhile(lambda line: line.startswith("  "), lines[start + 1 :])
        return [line.strip() for line in below]


@dataclass
class Workspace:
    """A Pants workspace in a folder of its own, with its own local store and daemon."""

    root: Path
    _env: dict[str, str] = field(default_factory=dict)

    def write(self, files: Mapping[str, str]) -> None:
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(content))

    def add_pytest_resolve(self, config: str) -> None:
        """Let tests run with this repository's pytest, where the file `config` is one of Pants'."""
        self.write({config: _PYTEST_RESOLVE})
        shutil.copy(REPOSITORY / "3rdparty/python/pytest.lock.txt", self.root)

    def install_nvidia(
        self,
        *,
        name: str = "NVIDIA H100 80GB HBM3",
        driver: str = "550.54.15",
        memory_mib: int = 81559,
        devices: int = 1,
    ) -> None:
        """Let this workspace's host have such boards (the tools say so; nothing runs on them)."""
        tool = self.root / "tools" / "nvidia-smi"
        uuids = [f"GPU-{i:08x}-1111-2222-3333-444444444444" for i in range(devices)]
        self.write(
            {
                "tools/nvidia-smi": _NVIDIA_SMI,
                "tools/query.csv": "".join(
                    f"{i}, {uuid}, {name}, 9.0, {driver}, {memory_mib}, Disabled\n"
                    for i, uuid in enumerate(uuids)
                ),
                "tools/list.txt": "".join(
                    f"GPU {i}: {name} (UUID: {uuid})\n" for i, uuid in enumerate(uuids)
                ),
            }
        )
        tool.chmod(0o755)

    def git(self, *args: str) -> None:
        identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
        subprocess.run(["git", *identity, *args], cwd=self.root, check=True)

    def pants(self, *args: str, env: Mapping[str, str] | None = None, cwd: str = ".") -> PantsRun:
        """Run this repository's launcher in the workspace, or in a folder `cwd` of it."""
        folder = self.root / cwd
        for _ in range(_ATTEMPTS):
            process = subprocess.run(
                [str(REPOSITORY / "pants"), *args],
                cwd=folder,
                # As a shell does; Pants learns from it where in the workspace one stands.
                env={**self._env, "PWD": str(folder), **(env or {})},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=600,
            )
            # In full where a test fails: pytest cuts the values of an assertion short.
            print(f"$ ./pants {shlex.join(args)}\n{process.stdout}")
            if _NOT_STARTED not in process.stdout:
                break
        return PantsRun(process.returncode, process.stdout)

    def report(self) -> dict[str, Any]:
        """What the last run says that it did."""
        content: dict[str, Any] = json.loads(
            (self.root / "dist/run-report/latest/report.json").read_text()
        )
        return content

    def add_launcher(self) -> None:
        """Let the workspace have `./pants`. Not by a link, which Pants follows only inside of it."""
        launcher = self.root / "pants"
        launcher.write_text(f'#!/bin/sh\nexec {shlex.quote(str(REPOSITORY / "pants"))} "$@"\n')
        launcher.chmod(0o755)

    def shell(self, line: str) -> PantsRun:
        """Run a line that Pants printed, as who pastes it does."""
        process = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=self.root,
            env={**self._env, "PWD": str(self.root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        return PantsRun(process.returncode, process.stdout)

    def start_pants(
        self, *args: str, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Begin such a run, and go on meanwhile; `finish` waits for it."""
        return subprocess.Popen(
            [str(REPOSITORY / "pants"), *args],
            cwd=self.root,
            env={**self._env, "PWD": str(self.root), **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def stop_daemon(self) -> None:
        for pid_file in self.root.glob(".pids/**/pantsd/pid"):
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(pid_file.read_text()), signal.SIGTERM)


def finish(process: subprocess.Popen[str]) -> PantsRun:
    """Wait for what `Workspace.start_pants` began."""
    output, _ = process.communicate(timeout=600)
    return PantsRun(process.returncode, output)


@contextlib.contextmanager
def workspace(root: Path, env: Mapping[str, str] = {}) -> Iterator[Workspace]:
    """A new workspace in the folder `root`; its daemon is stopped at the end.

    :param env: variables that each run has besides this process's own.
    """
    # pytest's sandbox may have settings of an outer Pants, such as its configuration files.
    inherited = {
        k: v for k, v in os.environ.items() if not k.startswith(("PANTS_CONFIG", "PEX_", "PYTEST"))
    }
    result = Workspace(root, {**inherited, **env})
    result.write(
        {
            "pants.toml": _PANTS_TOML.format(repository=REPOSITORY),
            # What CI adds is this repository's own.
            "pants.ci.toml": (REPOSITORY / "pants.ci.toml").read_text(),
            ".gitignore": "/.pants.d/\n/.pids/\n/.store/\n/dist/\n",
        }
    )
    (root / "tools").mkdir(exist_ok=True)
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    try:
        yield result
    finally:
        result.stop_daemon()
