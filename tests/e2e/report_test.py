"""The report of a run, by the real Pants: what it says, where it goes, and what can't harm a run."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from e2e.workspace import Workspace, finish, workspace

FILES = {
    "t/BUILD": """\
        triton_tests(name="cpu", sources=["*_test.py", "!slow_test.py"])
        triton_tests(name="device", sources=["passes_test.py"], hardware="cuda")
        triton_tests(name="slow", sources=["slow_test.py"], env={"MARKER": "%(marker)s"})
        """,
    "t/passes_test.py": "def test_passes() -> None: pass\n",
    "t/other_test.py": "def test_passes() -> None: assert True\n",
    "t/fails_test.py": "def test_fails() -> None: assert False\n",
    "t/slow_test.py": """\
        import os
        import time
        from pathlib import Path


        def test_slow() -> None:
            Path(os.environ["MARKER"]).touch()
            time.sleep(300)
        """,
}
PASSES, OTHER, FAILS, DEVICE, SLOW = (
    *("t/passes_test.py:cpu", "t/other_test.py:cpu", "t/fails_test.py:cpu"),
    *("t/passes_test.py:device", "t/slow_test.py:slow"),
)


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with workspace(tmp_path_factory.mktemp("report")) as ws:
        marker = str(ws.root.parent / f"{ws.root.name}-marker")
        ws.write({path: content.replace("%(marker)s", marker) for path, content in FILES.items()})
        yield ws


def reports(ws: Workspace) -> set[str]:
    return {path.name for path in ws.root.glob("dist/run-report/2*")}


def outcomes(report: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    """Of each test."""
    return {
        address: (test["outcome"], test["source"])
        for test in report["tests"]
        for address in test["addresses"]
    }


def test_what_a_run_did(ws: Workspace, tmp_path: Path) -> None:
    assert ws.pants("test", PASSES).exit_code == 0
    # Another machine with the same cache, as it were: what the daemon knows is gone.
    ws.stop_daemon()
    ws.write({"t/other_test.py": f"def test_passes() -> None: assert {time.time()}\n"})
    summary = tmp_path / "summary.md"
    summary.write_text("# Before\n")
    run = ws.pants(
        *("--run-report-announce", "test", PASSES, OTHER, FAILS, DEVICE),
        env={"GITHUB_STEP_SUMMARY": str(summary)},
    )
    assert run.exit_code == 1

    found = ws.report()
    assert outcomes(found) == {
        PASSES: ("passed", "local_hit"),
        OTHER: ("passed", "executed"),
        FAILS: ("failed", "executed"),
        DEVICE: ("skipped", None),
    }
    tests = {test["addresses"][0]: test for test in found["tests"]}
    assert tests[PASSES]["seconds_saved"] > 0.05 and tests[OTHER]["seconds_saved"] == 0
    assert tests[OTHER]["seconds_process"] > 0.05
    assert tests[DEVICE]["reason"].startswith("needs cuda: no nvidia-smi")
    assert found["run"]["outcome"] == "failed"
    totals = found["totals"]
    assert totals["tests"] == {"passed": 2, "failed": 1, "skipped": 1, "unfinished": 0}
    assert totals["tests_by_source"] == {
        **{"executed": 2, "local_hit": 1, "remote_hit": 0, "memory": 0},
    }
    assert totals["cache_errors"] == 0 and not totals["nothing_to_do"]
    # As Pants itself counts.
    counters = found["counters"]
    assert totals["processes_by_source"] == {
        "executed": counters["local_execution_requests"],
        "local_hit": counters["local_cache_requests_cached"],
        "remote_hit": 0,
    }
    assert found["bytes"]["read_from_local_store"] > 1_000
    assert found["bytes"]["downloaded"] == found["bytes"]["uploaded"] == 0
    assert found["unreadable_workunits"] == 0

    said = "4 tests: 2 passed, 1 failed, 1 skipped."
    folder = os.readlink(ws.root / "dist/run-report/latest")
    assert f"{said} Run report: dist/run-report/{folder}/index.html\n" in run.output
    markdown = summary.read_text()
    assert markdown.startswith(f"# Before\n### {said}\n")
    assert (
        f"**Failed**\n\n| Test | Process | From |\n| --- | --- | --- |\n| `{FAILS}` |" in markdown
    )
    files = ws.root / "dist/run-report" / folder
    assert (files / "summary.md").read_text() == markdown[len("# Before\n") :]
    assert said in (files / "index.html").read_text()
    events = json.loads((files / "trace.json").read_text())["traceEvents"]
    assert {PASSES, OTHER, FAILS, DEVICE} <= {event["name"] for event in events}


def test_a_second_run_says_that_there_was_nothing_to_do(ws: Workspace) -> None:
    assert ws.pants("test", PASSES).exit_code == 0
    before = reports(ws)
    run = ws.pants("--run-report-announce", "test", PASSES)
    assert "Nothing to do. 1 test: 1 passed, all from this daemon's memory." in run.output
    assert len(reports(ws) - before) == 1
    assert outcomes(ws.report()) == {PASSES: ("passed", "memory")}
    assert ws.report()["totals"]["nothing_to_do"]


def test_a_report_that_cannot_be_written_is_a_warning(ws: Workspace, tmp_path: Path) -> None:
    run = ws.pants(
        # Not below a file.
        *("--run-report-dir=pants.toml/reports", "test", PASSES),
        env={"GITHUB_STEP_SUMMARY": str(tmp_path / "not/there")},
    )
    assert run.exit_code == 0
    assert f"✓ {PASSES} succeeded" in run.output
    assert (
        f"No report of this run was written to {ws.root}/pants.toml/reports: Not a directory. Name "
        "another folder with `[run-report].dir`"
    ) in run.output
    assert "was not appended to $GITHUB_STEP_SUMMARY" in run.output
    assert "Traceback" not in run.output


def test_an_interrupted_run_has_a_report(ws: Workspace) -> None:
    marker = ws.root.parent / f"{ws.root.name}-marker"
    marker.unlink(missing_ok=True)
    process = ws.start_pants("test", PASSES, SLOW)
    deadline = time.monotonic() + 300
    while not marker.exists():
        assert process.poll() is None and time.monotonic() < deadline, finish(process).output
        time.sleep(0.2)
    # Pants tells once a second what has begun.
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    assert finish(process).exit_code != 0
    found = ws.report()
    assert found["run"]["outcome"] == "interrupted"
    assert outcomes(found)[SLOW] == ("unfinished", None)
    assert outcomes(found)[PASSES][0] == "passed"


def test_no_other_run_has_a_report(ws: Workspace) -> None:
    before = reports(ws)
    assert ws.pants("list", "t::").exit_code == 0
    assert ws.pants("--no-run-report-enabled", "test", PASSES).exit_code == 0
    assert reports(ws) == before


def test_formats_and_how_many_are_kept(ws: Workspace) -> None:
    for _ in range(3):
        run = ws.pants(
            *("--run-report-keep=2", "--run-report-formats=['json']", "--run-report-announce"),
            *("test", PASSES),
        )
    newest = os.readlink(ws.root / "dist/run-report/latest")
    assert os.listdir(ws.root / "dist/run-report" / newest) == ["report.json"]
    assert f"Run report: dist/run-report/{newest}\n" in run.output
    assert len(reports(ws)) == 2
