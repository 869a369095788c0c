"""Test bundles by the real Pants, run where there is neither Pants nor a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Mapping
from xml.etree import ElementTree

import pytest

from e2e.workspace import PantsRun, Workspace, workspace

_LOCK = """\
mpmath==1.3.0 \\
    --hash=sha256:7a28eb2a9774d00c7bc92411c19a89209d5da7c4c9a9e227be8330a23a25b91f \\
    --hash=sha256:a0b2b9fe80bbcd81a6647ff13108738cfb482d481d826cc0e02f5b35e5c88d2c
"""
# Could not be had, if it were asked for.
_TORCH = """\
torch==2.13.0 \\
    --hash=sha256:0000000000000000000000000000000000000000000000000000000000000000
"""

_PYTHON_OPTIONS = """\
[python]
enable_resolves = true
default_resolve = "whole"
resolves_generate_lockfiles = false
"""

_RESOLVES = """
[python.resolves]
whole = "whole.txt"
part = "part.txt"

[hardware.resolves]
cpu = "whole"
cuda = "whole"
"""

FILES = {
    "t/BUILD": """\
        python_sources()
        python_test_utils(name="conftest")
        python_requirement(
            name="mpmath",
            requirements=["mpmath==1.3.0"],
            resolve=parametrize("whole", "part"),
        )
        files(name="data", sources=["*.txt"])
        resources(name="resource", sources=["*.cfg"])

        triton_tests(
            name="cpu",
            sources=["passes_test.py", "fails_test.py"],
            dependencies=[":data", ":resource"],
            env={"TRITON_INTERPRET": "1"},
        )
        triton_tests(name="device", sources=["device_test.py"], hardware="cuda")
        triton_test_bundle(name="whole")
        """,
    "p/BUILD": """\
        triton_tests(name="tests", resolve="part", tags=["part"])
        triton_test_bundle(name="part", tag_expression=["part"], provided=["torch"])
        """,
    "t/__init__.py": "",
    "t/library.py": "ANSWER = 42\n",
    "t/conftest.py": """\
        import pytest

        @pytest.fixture
        def answer():
            from t.library import ANSWER

            return ANSWER
        """,
    "t/data.txt": "data",
    "t/resource.cfg": "resource",
    "t/passes_test.py": """\
        import os
        import pkgutil
        import shutil
        import socket
        from pathlib import Path

        import mpmath
        import pytest
        from t import library


        def test_imports(answer) -> None:
            assert answer == library.ANSWER and mpmath.mpf(1) == 1


        def test_files() -> None:
            assert Path("t/data.txt").read_text() == "data"
            assert pkgutil.get_data("t", "resource.cfg") == b"resource"


        def test_environment() -> None:
            assert os.environ["TRITON_INTERPRET"] == "1"
            assert os.environ["PANTS_TRITON_HARDWARE"] == "cpu"
            assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
            assert Path(os.environ["HOME"]).parent == Path.cwd()
            assert shutil.which("pants") is None


        @pytest.mark.skipif("CUT_OFF" not in os.environ, reason="the host can't cut off the network")
        def test_there_is_no_network() -> None:
            with pytest.raises(OSError):
                socket.create_connection(("192.0.2.1", 80), timeout=5)
        """,
    "t/fails_test.py": "def test_fails() -> None:\n    assert 'this' == 'that'\n",
    "t/device_test.py": """\
        import os


        def test_device() -> None:
            assert os.environ["CUDA_VISIBLE_DEVICES"].startswith("GPU-")
            assert "H100" in os.environ["PANTS_TRITON_FINGERPRINT"]
        """,
    "p/provided_test.py": """\
        import mpmath
        import torch


        def test_where() -> None:
            assert torch.WHERE == "machine"
            assert mpmath.mpf(1) == 1
        """,
    "part.txt": _LOCK + _TORCH,
    "whole.txt": _LOCK,
    "wrong/BUILD": """\
        triton_test_bundle(name="empty", tests=["t::", "p::"], tag_expression=["macos"])
        triton_test_bundle(name="mixed", tests=["t::", "p::"])
        """,
}


@dataclass(frozen=True)
class Bundles:
    """The bundles, moved away from the workspace that they were made in."""

    whole: Path
    part: Path
    ws: Workspace


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bundles]:
    folder = tmp_path_factory.mktemp("elsewhere")
    with workspace(tmp_path_factory.mktemp("workspace")) as ws:
        ws.write(FILES)
        config = (ws.root / "pants.toml").read_text()
        ws.write({"pants.toml": config.replace("[python]\n", _PYTHON_OPTIONS, 1) + _RESOLVES})
        # On the machine, the tools are where it says.
        run = ws.pants("--hardware-tool-search-path=['<PATH>']", "package", "t:whole", "p:part")
        assert run.exit_code == 0, run.output
        assert "Wrote dist/t/whole.pex\nIt has 3 test files; --list shows them." in run.output
        for name, made in (("whole", "t/whole.pex"), ("part", "p/part.pex")):
            shutil.move(str(ws.root / "dist" / made), str(folder / f"{name}.pex"))
        yield Bundles(folder / "whole.pex", folder / "part.pex", ws)


@pytest.fixture(scope="module")
def pex_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared, so that the packages are unpacked once."""
    return tmp_path_factory.mktemp("pex_root")


def without_network() -> list[str]:
    """What to start a command with so that it has none; empty where this host can't do that."""
    for how in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        if shutil.which("unshare") and subprocess.run([*how, "true"]).returncode == 0:
            return how
    return []


def run(
    bundle: Path,
    home: Path,
    *args: str,
    python: str = sys.executable,
    env: Mapping[str, str] = {},
    path: str = "/usr/bin:/bin",
) -> PantsRun:
    """Run a bundle with an empty home and next to no environment."""
    home.mkdir(exist_ok=True)
    cut_off = without_network()
    process = subprocess.run(
        [*cut_off, python, str(bundle), *(["--env=CUT_OFF=1"] if cut_off else []), *args],
        cwd=home,
        env={"HOME": str(home), "PATH": path, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    return PantsRun(process.returncode, process.stdout)


def outcomes(report: Path) -> dict[str, str]:
    return {
        case.get("name", ""): next((child.tag for child in case), "passed")
        for case in ElementTree.parse(report).getroot().iter("testcase")
    }


def test_it_runs_without_pants_and_network(bundles: Bundles, tmp_path: Path) -> None:
    home = tmp_path / "home"
    result = run(
        bundles.whole, home, "--report-dir=reports", "t/passes_test.py", "t/device_test.py"
    )
    assert result.exit_code == 0, result.output
    assert "t/device_test.py:device skipped: needs cuda: no nvidia-smi" in result.output
    assert "✓ t/passes_test.py:cpu succeeded in" in result.output
    assert "cuda: NONE of 1 test file run." in result.output
    assert "Test files: 1 passed, 0 failed, 1 skipped." in result.output
    assert outcomes(home / "reports/t.passes_test.py.cpu.xml") == {
        "test_imports": "passed",
        "test_files": "passed",
        "test_environment": "passed",
        "test_there_is_no_network": "passed" if without_network() else "skipped",
    }
    assert outcomes(home / "reports/t.device_test.py.device.xml") == {"t/device_test.py": "skipped"}
    # What it needs stays in the home, and nothing beside the bundle.
    assert sorted(p.name for p in bundles.whole.parent.iterdir()) == ["part.pex", "whole.pex"]
    assert sorted(p.name for p in home.iterdir()) == [".cache", "reports"]


def test_failures(bundles: Bundles, tmp_path: Path, pex_root: Path) -> None:
    env = {"PEX_ROOT": str(pex_root)}
    result = run(bundles.whole, tmp_path / "home", "--missing=error", env=env)
    assert result.exit_code == 1
    assert "t/device_test.py:device can't run: needs cuda: no nvidia-smi" in result.output
    assert "AssertionError: assert 'this' == 'that'" in result.output
    assert "Test files: 1 passed, 1 failed, 1 could not run." in result.output
    # The packages are where it says.
    assert not (tmp_path / "home/.cache").exists()
    again = [line for line in result.output.splitlines() if line.startswith("Run it again: ")]
    assert again == [f"Run it again: {bundles.whole} t/fails_test.py:cpu"]


def test_a_device_is_leased(bundles: Bundles, tmp_path: Path, pex_root: Path) -> None:
    bundles.ws.install_nvidia()
    result = run(
        bundles.whole,
        tmp_path / "home",
        "t/device_test.py",
        env={"PEX_ROOT": str(pex_root)},
        path=f"{bundles.ws.root}/tools:/usr/bin:/bin",
    )
    assert result.exit_code == 0, result.output
    assert "✓ t/device_test.py:device succeeded in" in result.output


def test_options_and_arguments_of_pytest(bundles: Bundles, tmp_path: Path, pex_root: Path) -> None:
    env = {"PEX_ROOT": str(pex_root)}
    result = run(bundles.whole, tmp_path / "home", "--list", env=env)
    assert result.exit_code == 0
    assert "t/passes_test.py:cpu: runs here\n" in result.output
    result = run(
        *(bundles.whole, tmp_path / "home", "--output=all", "-k", "imports", "--", "-v"), env=env
    )
    assert result.exit_code == 0, result.output
    assert "test_imports PASSED" in result.output
    assert "t/fails_test.py:cpu: no test matches -k." in result.output
    result = run(bundles.whole, tmp_path / "home", "--report", "t/passed_test.py", env=env)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    result = run(bundles.whole, tmp_path / "home", "t/passed_test.py", env=env)
    assert result.exit_code == 2
    assert "whole.pex: t/passed_test.py is no test of this bundle. Did you mean" in result.output


def test_packages_of_the_machine(bundles: Bundles, tmp_path: Path, pex_root: Path) -> None:
    env = {"PEX_ROOT": str(pex_root)}
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True
    )
    python = tmp_path / "venv/bin/python"
    result = run(bundles.part, tmp_path / "home", python=str(python), env=env)
    assert result.exit_code == 2, result.output
    assert (
        "This bundle leaves torch to the machine, and the tests run with Python 3.9"
        in result.output
    )
    assert f"{python} has no torch" in result.output
    assert "Traceback" not in result.output

    [site_packages] = (tmp_path / "venv").glob("lib/python*/site-packages")
    (site_packages / "torch").mkdir()
    (site_packages / "torch/__init__.py").write_text("WHERE = 'machine'\n")
    # Comes last: what else is there does not shadow the bundle's own.
    (site_packages / "mpmath.py").write_text("raise AssertionError\n")
    result = run(bundles.part, tmp_path / "home", python=str(python), env=env)
    assert result.exit_code == 0, result.output
    # Started with another Python, it is told.
    result = run(bundles.part, tmp_path / "home", f"--python={python}", env=env)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("empty", "wrong:empty selects no test that it can have", id="no test"),
        pytest.param("mixed", "wrong:mixed selects tests of several resolves", id="resolves"),
    ],
)
def test_what_can_not_be_made(bundles: Bundles, name: str, message: str) -> None:
    result = bundles.ws.pants("package", f"wrong:{name}")
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output


def test_equal_inputs_make_equal_bundles(bundles: Bundles) -> None:
    # The daemon and the store would only give the same again.
    bundles.ws.stop_daemon()
    shutil.rmtree(bundles.ws.root / ".store")
    result = bundles.ws.pants("--hardware-tool-search-path=['<PATH>']", "package", "t:whole")
    assert result.exit_code == 0, result.output
    made = bundles.ws.root / "dist/t/whole.pex"
    assert made.read_bytes() == bundles.whole.read_bytes()
    os.unlink(made)
