from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pants_triton.hardware import agent
from pants_triton.hardware.agent import main
from pants_triton.hardware.device import host_from_json
from pants_triton.hardware.session import Session, load_session

MODULES = "device probe parse requirement lease child session agent".split()


def test_probe_prints_observations_and_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", "--search-path=", f"--lease-dir={tmp_path}", "--tests-per-device=4"]) == 0
    printed = json.loads(capsys.readouterr().out)
    host = host_from_json(printed["host"])
    assert printed["observations"]["version"] == 1
    assert host.of("cuda") == () and "cuda" in host.problems
    assert load_session(tmp_path, os.getppid()) == Session(host, 4)


def test_probe_succeeds_though_it_can_not_record_the_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["probe", f"--lease-dir={tmp_path / 'file'}"]) == 0
    captured = capsys.readouterr()
    assert "problems" in json.loads(captured.out)["host"]
    assert "can't record the host" in captured.err


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
    for module in MODULES:
        shutil.copy(Path(agent.__file__).parent / f"{module}.py", package)
    (tmp_path / "agent/__main__.py").write_text(
        "import sys\nfrom pants_triton.hardware.agent import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    argv = [sys.executable, "-I", str(tmp_path / "agent"), "probe"]
    result = subprocess.run(argv, stdout=subprocess.PIPE, cwd=tmp_path, timeout=60)
    assert result.returncode == 0
    assert "cuda" in json.loads(result.stdout)["host"]["problems"]
