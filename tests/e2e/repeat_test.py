"""The line that repeats a failed test, taken from a run's output and pasted into a shell."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator

import pytest

from e2e.workspace import PantsRun, Workspace, workspace

# Whichever of them comes first fails, so which it is depends on the order.
_FIRST_FAILS = """\
import random

import pytest

ran = []


@pytest.mark.parametrize("number", range(200))
def test_is_not_the_first(number: int) -> None:
    ran.append(number)
    assert len(ran) > 1, f"drew {random.random()}"
"""

FILES = {
    "t/BUILD": """\
        triton_tests(name="cpu")
        triton_tests(name="device", sources=["first_test.py"], hardware="cuda")
        python_tests(name="plain", sources=["first_test.py"])
        """,
    "t/passes_test.py": "def test_passes() -> None: pass\n",
    "t/hidden_test.py": """\
        import os

        import pytest


        def test_fails() -> None:
            # What a pytest prints that a test runs is another matter.
            print("Using --randomly-seed=1")
            assert os.environ["MODE"] == "fine"
        """,
}
CPU, DEVICE, PLAIN, PASSES, HIDDEN = (
    *("t/first_test.py:cpu", "t/first_test.py:device", "t/first_test.py:plain"),
    *("t/passes_test.py:cpu", "t/hidden_test.py:cpu"),
)
CONFIG = {"PANTS_CONFIG_FILES": "pants.random.toml"}


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with workspace(tmp_path_factory.mktemp("repeat")) as ws:
        ws.write(FILES)
        ws.write({"t/first_test.py": _FIRST_FAILS})
        # Tests are run in a random order then.
        ws.add_pytest_resolve("pants.random.toml")
        ws.add_launcher()
        yield ws


def seeds(run: PantsRun) -> list[str]:
    return re.findall(r"^Using --randomly-seed=(\d+)$", run.output, re.MULTILINE)


def failed_cases(run: PantsRun) -> list[str]:
    """With what they drew, which is the seed's, too."""
    drawn = re.findall(r"^E +AssertionError: (drew [\d.e-]+)$", run.output, re.MULTILINE)
    return [*re.findall(r"^FAILED \S+::(\S+)", run.output, re.MULTILINE), *drawn]


@pytest.mark.parametrize("target", [CPU, PLAIN])
def test_the_same_case_fails_with_the_same_seed(ws: Workspace, target: str) -> None:
    run = ws.pants("--tag=-slow", "test", target, PASSES, "--", "-k", "first or passes", env=CONFIG)
    assert run.exit_code == 1
    [line] = run.repeats()
    seed = line.rpartition("=")[2]
    assert seed in seeds(run)
    assert line == (
        f"PANTS_CONFIG_FILES=pants.random.toml ./pants test {target} -- -k 'first or passes' "
        f"--randomly-seed={seed}"
    )
    assert len(failed_cases(run)) == 2

    again = ws.shell(line)
    assert again.exit_code == 1
    assert seeds(again) == [seed]
    assert failed_cases(again) == failed_cases(run)
    # It is the seed that does it: most others let another case fail.
    other = ws.shell(line.replace(seed, f"{int(seed) + 1}"))
    assert failed_cases(other) != failed_cases(run)


def test_lane_and_device(ws: Workspace) -> None:
    ws.install_nvidia()
    run = ws.pants(
        *("--test-report", "--hardware-missing=error", "test", DEVICE, HIDDEN),
        env={
            "GITHUB_JOB": "cuda-h100",
            "PANTS_CONFIG_FILES": str(ws.root / "pants.random.toml"),
            "PANTS_TEST_EXTRA_ENV_VARS": "['MODE=broken']",
        },
    )
    assert run.exit_code == 1
    lane, known = "Repeat what failed in lane cuda-h100", ", with PANTS_TEST_EXTRA_ENV_VARS set as"
    on = "sm_90 NVIDIA H100 80GB HBM3, driver 550.54.15 (device 0)"
    [device] = run.repeats(f"{lane} on {on}{known} here:")
    [hidden] = run.repeats(f"{lane}{known} here:")
    start = "PANTS_CONFIG_FILES=pants.random.toml ./pants --hardware-missing=error test"
    assert device.startswith(f"{start} {DEVICE} -- --randomly-seed=")
    assert hidden.startswith(f"{start} {HIDDEN} -- --randomly-seed=")
    assert not hidden.endswith("=1")

    report = ws.report()
    assert report["run"]["lane"] == "cuda-h100"
    assert [(test["repeat"], test["device"]) for test in report["tests"]] == [
        (device, on),
        (hidden, None),
    ]
    assert failed_cases(ws.shell(device)) == [
        case for case in failed_cases(run) if "first" in case or "drew" in case
    ]


def test_runs_without_a_failure_are_as_quiet_as_before(ws: Workspace) -> None:
    for tool in Path(ws.root, "tools").glob("*"):
        tool.unlink()
    run = ws.pants("test", PASSES, DEVICE, env=CONFIG)
    assert run.exit_code == 0
    assert "Repeat" not in run.output
    # Nor is there anything to repeat where the hardware is missing.
    run = ws.pants("--hardware-missing=error", "test", DEVICE, env=CONFIG)
    assert run.exit_code == 1
    assert "Repeat" not in run.output
