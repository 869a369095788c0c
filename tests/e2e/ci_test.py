"""Lanes under the real Pants: workflows written and kept in step, and what a change affects."""

from __future__ import annotations

import json
from pathlib import Path

from e2e.workspace import PantsRun, workspace

FILES = {
    "t/BUILD": """\
        python_sources()
        triton_tests(name="device", hardware=parametrize("cuda", "rocm"))
        triton_tests(name="cpu")
        """,
    "t/__init__.py": "",
    "t/kernel.py": "",
    "t/kernel_test.py": "from t import kernel\n",
    "docs/BUILD": 'files(name="docs", sources=["*.md"])\n',
    "docs/a.md": "",
    "ci/BUILD": """\
        __defaults__({ci_lane: dict(runs_on=["ubuntu-latest"])})
        ci_lane(name="cpu", tag_expression=["cpu"])
        ci_lane(name="cuda", tag_expression=["cuda"])
        ci_lane(name="formatting", goals=["lint", "check"])
        ci_lane(name="rocm", tag_expression=["rocm"])
        """,
}

# What a generated workflow gives Pants where there is no remote cache.
WITHOUT_CACHE = {
    "PANTS_REMOTE_CACHE_READ": "false",
    "PANTS_REMOTE_CACHE_WRITE": "false",
    "PANTS_REMOTE_STORE_ADDRESS": "",
    "PANTS_REMOTE_STORE_HEADERS": "{}",
}


def lanes(run: PantsRun) -> list[str]:
    """The lanes of the matrix, which is the one line of JSON in the output."""
    assert run.exit_code == 0, run.output
    [line] = [line for line in run.output.splitlines() if line.startswith("{")]
    return [entry["lane"] for entry in json.loads(line)["include"]]


def test_lanes(tmp_path: Path) -> None:
    root, output = tmp_path / "workspace", tmp_path / "github-output"
    root.mkdir()
    with workspace(root, WITHOUT_CACHE) as ws:
        ws.write(FILES)
        config = (root / "pants.toml").read_text()
        (root / "pants.toml").write_text(
            config.replace("[GLOBAL]\n", '[GLOBAL]\npants_ignore.add = ["!/.github/"]\n')
        )
        written = ws.pants("generate-workflows", "::")
        assert written.exit_code == 0, written.output
        assert ".github/workflows/ci.yml was written." in written.output
        ws.git("add", "--all")
        ws.git("commit", "--quiet", "--message=base")

        # What each job runs is what a person can run, and lint knows when it isn't.
        workflow = root / ".github/workflows/ci.yml"
        text = workflow.read_text()
        assert "run: './pants test --tag=cuda ::'" in text
        assert ws.pants("lint", "--only=ci-workflows", "::").exit_code == 0
        workflow.write_text(text.replace("--tag=cuda", "--tag=cpu"))
        run = ws.pants("lint", "--only=ci-workflows", "::")
        assert run.exit_code == 1, run.output
        assert "ci.yml is not what the lanes declare" in run.output
        workflow.write_text(text)

        ws.write({"docs/a.md": "changed"})
        env = {"PANTS_CHANGED_SINCE": "HEAD", "GITHUB_OUTPUT": str(output)}
        assert lanes(ws.pants("ci-matrix", "--github-output", env=env)) == ["formatting"]
        assert output.read_text().startswith('matrix={"include": [{"lane": "formatting"')

        ws.git("mv", "t/kernel.py", "t/kernels.py")
        run = ws.pants("ci-matrix", "--changed-since=HEAD")
        assert lanes(run) == ["cpu", "cuda", "formatting", "rocm"]
        assert "All lanes are affected: t/kernel.py was deleted or renamed" in run.output

        # As in a run that a person starts: nothing to compare with.
        run = ws.pants("ci-matrix", env={"PANTS_CHANGED_SINCE": ""})
        assert lanes(run) == ["cpu", "cuda", "formatting", "rocm"]

        # A step of a lane, as it is written: on a host without the hardware it is red.
        env = {"PANTS_CONFIG_FILES": "pants.ci.toml"}
        run = ws.pants("test", "--tag=cuda", "::", env=env)
        assert run.exit_code == 1
        assert "t/kernel_test.py:device@hardware=cuda can't run: needs cuda" in run.output
        # In a fork, whose machines have no devices, it is skipped.
        run = ws.pants("test", "--tag=cuda", "::", env={**env, "PANTS_HARDWARE_MISSING": "skip"})
        assert run.exit_code == 0, run.output
        assert "t/kernel_test.py:device@hardware=cuda skipped: needs cuda" in run.output
