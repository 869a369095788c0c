"""What we say a script runs, compared with what Bash runs."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from pants_triton.ci.coverage_seed import PATH, workflow_text
from pants_triton.ci.shell_lines import Word, run_script
from pants_triton.ci.workflow_steps import parse_workflow

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")

# Writes down how it was called: the folder, two variables, and its arguments.
_RECORDER = """#!/bin/sh
{
  printf '%s\\n' "$(basename "$0")|$PWD|${X-unset}|${TRITON_DISABLE_LINE_INFO-unset}"
  for argument in "$@"; do printf '%s\\n' "  $argument"; done
} >> "$RECORD"
"""
_TOOLS = ("pytest", "lit", "ctest", "python3", "pip")


def _recorded(tmp_path: Path, script: str, env: dict[str, str]) -> list[str]:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir(exist_ok=True)
    for tool in _TOOLS:
        (bin_folder / tool).write_text(_RECORDER)
        (bin_folder / tool).chmod(stat.S_IRWXU)
    record = tmp_path / "record"
    record.write_text("")
    root = tmp_path / "root"
    result = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=root,
        env={
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "RECORD": str(record),
            "GITHUB_WORKSPACE": str(root),
            "HOME": str(tmp_path),
            **env,
        },
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return record.read_text().splitlines()


def _said(tmp_path: Path, script: str, env: dict[str, str], known: dict[str, str]) -> list[str]:
    """The same lines, from what we read; `known` says what unknown parts were."""
    lines: list[str] = []
    for command in run_script(script, environment={n: Word((v,)) for n, v in env.items()}):
        if command.words[0].text not in _TOOLS:
            continue

        def text(word: Word) -> str:
            shown = "".join(known.get(str(part), str(part)) for part in word.parts)
            return shown.replace("/github/workspace", str(tmp_path / "root"))

        variables = {n: text(w) for n, w in command.environment}
        folder = os.path.normpath(tmp_path / "root" / text(command.folder))
        values = [variables.get(n, "unset") for n in ("X", "TRITON_DISABLE_LINE_INFO")]
        lines.append("|".join([command.words[0].text, folder, *values]))
        lines += [f"  {text(word)}" for word in command.words[1:]]
    return lines


@pytest.mark.parametrize(
    "script",
    [
        "pytest 'a b' \"c d\" e\\ f",
        "X=1 pytest a; pytest b",
        "X=1; pytest a; export X; pytest b; X=2; pytest c; unset X; pytest d",
        "cd a; pytest; (cd b; pytest x); pytest y; cd ..; pytest z",
        "P='python3 -m pytest'; $P a\\\n  b $P; \"$P\" 2>/dev/null || true",
        "if [ x = x ]; then pytest a; else pytest b; fi; [[ abc == a* ]] && pytest c",
        "for t in 1 '2 3' 4; do pytest $t \"$t\"; done",
        'f() { cd a; X=$2 pytest "$1"; }; f p q; pytest r',
        "case a.py in *.txt) pytest a;; *.py|*.x) pytest b;; *) pytest c;; esac",
        "cat <<EOF > /dev/null\npytest a\nEOF\npytest ${Y:-8} ${Y-} \"${Y-}\" ''",
        "{ pytest a; pytest b; } > /dev/null; pytest c # d\n# pytest e\n",
        "true && pytest a || true; false || pytest c; ! false && pytest d",
        "pytest a[0] {b} ~x = ! if; echo if; pytest then",
    ],
)
def test_commands_are_those_that_bash_runs(tmp_path: Path, script: str) -> None:
    (tmp_path / "root" / "a" / "b").mkdir(parents=True)
    assert _said(tmp_path, script, {}, {}) == _recorded(tmp_path, script, {})


def test_the_seeds_steps_are_read_as_bash_runs_them(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for folder in (
        *("python/build/cmake.linux/test", "python/build/lib.linux/triton/instrumentation"),
        *("python/triton/instrumentation", "python/test/unit", "python/test/regression"),
        "third_party/proton/test",
    ):
        (root / folder).mkdir(parents=True)
    known = {
        "$(ls build | grep -i cmake)": "cmake.linux",
        "$(ls python/build | grep -i lib)": "lib.linux",
    }
    compared = 0
    for job in ("Integration-Tests", "Integration-Tests-AMD"):
        for step in parse_workflow(workflow_text(), PATH).steps:
            if (
                step.job != job
                or step.uses
                or not any(
                    command.words[0].text in _TOOLS for run in step.runs for command in run.commands
                )
            ):
                continue
            script = _script(job, step.name)
            env = {"TRITON_DISABLE_LINE_INFO": "1"}
            assert _said(tmp_path, script, env, known) == _recorded(tmp_path, script, env)
            compared += 1
    assert compared == 15


def _script(job: str, name: str) -> str:
    steps = yaml.safe_load(workflow_text())["jobs"][job]["steps"]
    (step,) = [step for step in steps if step.get("name") == name]
    return step["run"]
