from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pants_triton.hardware import agent
from pants_triton.hardware.agent import AGENT_MODULES, main
from pants_triton.hardware.device import host_from_json
from pants_triton.hardware.lease import EXIT_NO_LEASE
from pants_triton.hardware.session import Session, load_session


def test_probe_prints_observations_and_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", "--search-path=", f"--lease-dir={tmp_path}", "--tests-per-device=4"]) == 0
    printed = json.loads(capsys.readouterr().out)
    host = host_from_json(printed["host"])
    assert printed["observations"]["version"] == 1
    assert host.of("cuda") == () and "cuda" in host.problems
    assert printed["record_error"] is None
    assert load_session(tmp_path, os.getppid()) == Session(host, 4)


def test_probe_succeeds_though_it_can_not_record_the_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["probe", f"--lease-dir={tmp_path / 'file'}"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert "problems" in printed["host"]
    assert printed["record_error"].startswith("can't record this host's devices in")


@pytest.mark.parametrize(
    "argv, message",
    [
        pytest.param([], "required: command", id="no command"),
        pytest.param(
            ["lease", "--lease-dir=d", "--hardware=cuda", "--fingerprint=f"],
            "lease needs a command after `--`",
            id="nothing to run",
        ),
        pytest.param(
            ["lease", "--lease-dir=d", "--hardware=cpu", "--fingerprint=f", "--", "true"],
            "invalid choice: 'cpu'",
            id="cpu tests need no lease",
        ),
        pytest.param(["probe", "--tests-per-device=0"], "must be at least 1", id="no test"),
    ],
)
def test_usage_errors(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as e:
        main(argv)
    assert e.value.code == 2
    assert message in capsys.readouterr().err


def test_a_copy_of_these_modules_runs_on_its_own(tmp_path: Path) -> None:
    """As in a sandbox: nothing else of this project, and nothing installed."""
    package = tmp_path / "agent/pants_triton/hardware"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    for module in AGENT_MODULES:
        shutil.copy(Path(agent.__file__).parent / f"{module}.py", package)
    (tmp_path / "agent/__main__.py").write_text(
        "import sys\nfrom pants_triton.hardware.agent import AGENT_MODULES, main\nsys.exit(main(sys.argv[1:]))\n"
    )
    argv = [sys.executable, "-I", str(tmp_path / "agent"), "probe"]
    result = subprocess.run(argv, stdout=subprocess.PIPE, cwd=tmp_path, timeout=60)
    assert result.returncode == 0
    assert "cuda" in json.loads(result.stdout)["host"]["problems"]


def test_the_copied_modules_are_those_that_it_needs() -> None:
    """Another module of this folder may change without another key for every test on a device."""
    script = (
        "import sys, pants_triton.hardware.agent\n"
        "print(*sorted(m.rpartition('.')[2] for m in sys.modules"
        " if m.startswith('pants_triton.hardware.')))"
    )
    source_root = Path(agent.__file__).parents[2]
    imported = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(source_root)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.split()
    assert sorted(AGENT_MODULES) == imported


def test_a_lease_without_a_record_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["lease", f"--lease-dir={tmp_path}", "--hardware=cuda", "--fingerprint=f", "--", "true"]
    assert main(argv) == EXIT_NO_LEASE
    assert "has no record of the devices" in capsys.readouterr().err
