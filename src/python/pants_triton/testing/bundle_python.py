"""The Python that a bundle's tests run with: its own packages, and those that the machine provides."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

from pants_triton.testing.bundle_manifest import PEXES, Manifest


class BundleError(Exception):
    """The bundle can't be run here. The message says why, and the way out."""


@dataclass(frozen=True)
class TestPython:
    """A virtual environment with pytest and the tests' packages.

    :param pytest: the command that runs pytest in it.
    :param version: such as `3.11`.
    """

    pytest: tuple[str, ...]
    version: str

    __test__ = False


def unpack(
    manifest: Manifest, bundle: Path, python: str, pex_root: Path, environ: Mapping[str, str]
) -> TestPython:
    """Make the environment of the bundle's packages below `pex_root`, or find it there.

    PEX makes it, whole or not at all, and several runs can do so at once. Raises BundleError.
    """
    pexes = [str(bundle / PEXES / name) for name in manifest.pexes]
    env = {name: value for name, value in environ.items() if not name.startswith(("PEX", "_PEX"))}
    env.update(PEX_ROOT=str(pex_root), PEX_PATH=os.pathsep.join(pexes[1:]), PEX_INTERPRETER="1")
    script = 'import sys; print(sys.prefix); print("%d.%d" % sys.version_info[:2])'
    process = subprocess.run(
        [python, pexes[0], "-c", script],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = process.stdout.splitlines()
    if process.returncode != 0 or len(lines) < 2:
        problem = (process.stderr.strip() or process.stdout.strip()).splitlines()
        raise BundleError(
            "The tests' packages can't be unpacked below "
            f"{pex_root}: {' '.join(problem[-3:]) or f'exit code {process.returncode}'}. If there is "
            "no room or it can't be written, name another folder in the variable PEX_ROOT."
        )
    prefix, version = lines[-2:]
    return TestPython((os.path.join(prefix, "pex"),), version)


# -----------------------------------------------------------------------------------------
# What the machine provides
# -----------------------------------------------------------------------------------------

# Where a Python has packages, without importing them: importing torch takes seconds and opens the
# devices.
_SCRIPT = """
import importlib.metadata, importlib.util, json, os, sys
sys.path[:] = [path for path in sys.path if path]
folders, missing = [], []
for name in sys.argv[1:]:
    try:
        spec = importlib.util.find_spec(name.replace("-", "_"))
    except Exception:  # The import hooks of that machine's packages are anybody's code.
        spec = None
    if spec is not None and spec.origin and os.path.isabs(spec.origin):
        folder = os.path.dirname(spec.origin)
        folders.append(os.path.dirname(folder) if spec.submodule_search_locations else folder)
        continue
    try:
        folders.append(str(importlib.metadata.distribution(name).locate_file("")))
    except importlib.metadata.PackageNotFoundError:
        missing.append(name)
# What they need themselves is beside them, or elsewhere in that Python.
folders += [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")]
print(json.dumps({
    "python": "%d.%d" % sys.version_info[:2],
    "folders": list(dict.fromkeys(os.path.abspath(folder) for folder in folders)),
    "missing": missing,
}))
"""


def find_provided(
    packages: Sequence[str],
    version: str,
    pythons: Sequence[str],
    environ: Mapping[str, str],
    timeout_s: float,
) -> tuple[str, ...]:
    """The folders in which the first of `pythons` that has all `packages` has them, for import.

    :param version: of the Python that tests run with: native code of another's is of no use.
    :raises BundleError: none has them.
    """
    reasons = []
    for python in dict.fromkeys(pythons):
        report = _ask(python, packages, environ, timeout_s)
        if isinstance(report, str):
            reasons.append(f"{python} {report}")
        elif report["missing"]:
            reasons.append(f"{python} has no {' and no '.join(report['missing'])}")
        elif report["python"] != version:
            reasons.append(f"{python} is Python {report['python']}")
        else:
            return tuple(report["folders"])
    raise BundleError(
        f"This bundle leaves {', '.join(packages)} to the machine, and the tests run with Python "
        f"{version}, but {'; '.join(reasons)}. Install what is missing, or name a Python {version} "
        "that has it with --python."
    )


def _ask(
    python: str, packages: Sequence[str], environ: Mapping[str, str], timeout_s: float
) -> dict[str, Any] | str:
    env = {name: value for name, value in environ.items() if not name.startswith("PEX")}
    try:
        process = subprocess.run(
            [python, "-c", _SCRIPT, *packages],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=timeout_s,
        )
        report: dict[str, Any] = json.loads(process.stdout)
        return report
    except FileNotFoundError:
        return "is not there"
    except OSError as e:
        return f"can't be run ({e.strerror or e})"
    except subprocess.TimeoutExpired:
        return f"gave no answer in {timeout_s:g} s"
    except ValueError:
        problem = process.stderr.strip().splitlines()
        return f"gave no answer ({problem[-1] if problem else 'no output'})"
