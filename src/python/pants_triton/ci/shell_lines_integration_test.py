"""What we say a script runs, compared with what Bash runs."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from pants_triton.ci.coverage_seed import PATH, workflow_text
from pants_triton.ci.shell_lines import Command, run_script
from pants_triton.ci.shell_words import Word
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


# --- random scripts ------------------------------------------------------------------------------

# A test writes down where it runs and with which X; `grep` succeeds or not by chance, which is to say
# by the random numbers that follow from CHANCE.
_PRELUDE = """
exec 3>> "$RECORD"
pytest() {
  local x=unset
  if [[ "${X@a}" == *x* ]]; then x=$X; fi
  printf '%s|%s|%s\\n' "$1" "$PWD" "$x" >&3
}
grep() { CHANCE=$((CHANCE * 1103515245 + 12345)); [ $(((CHANCE >> 16) & 1)) = 1 ]; }
work() { :; }
"""


class _Scripts:
    """Makes scripts whose tests are numbered, out of what changes what a shell runs."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.tests = 0
        self.functions = 0
        self.loops = 0

    def test(self) -> str:
        self.tests += 1
        return f"pytest {self.tests}"

    def question(self) -> str:
        return self.chance.choice(
            [
                *("grep", "grep", "! grep", "grep && grep", "true", "false"),
                *(
                    '[ "$V" = 1 ]',
                    '[ "$W" = 1 ]',
                    '[[ "$V" == 0 ]]',
                    '[ -n "$V" ]',
                    '[ "$V" -eq 1 ]',
                ),
            ]
        )

    def simple(self, leave: tuple[str, ...]) -> str:
        if leave and self.chance.random() < 0.15:
            return self.chance.choice(leave)
        return self.chance.choice(
            [
                *(self.test(), self.test(), self.test(), f"X=3 {self.test()}"),
                *("V=0", "V=1", "W=0", "W=$V", "unset V", "read V <<< 1", "((V++)) || true"),
                *("export X=1", "X=2", "set -a; X=5; set +a", "eval V=1"),
                *(
                    "cd sub",
                    "cd ..",
                    "cd - > /dev/null",
                    "pushd sub > /dev/null",
                    "popd > /dev/null",
                ),
                *("work", f"work && {self.test()}", f"for e in {{1..2}}; do {self.test()}; done"),
                *("exit 0", "exit 1", "exit"),
            ]
        )

    def block(self, depth: int, leave: tuple[str, ...] = ()) -> str:
        count = self.chance.randint(1, 3)
        return "\n".join(self.statement(depth, leave) for _ in range(count))

    def statement(self, depth: int, leave: tuple[str, ...]) -> str:
        if depth == 0:
            return self.simple(leave)
        loop = tuple({*leave, "break", "continue"})
        kind = self.chance.randrange(12)
        if kind == 0:
            return f"if {self.question()}; then\n{self.block(depth - 1, leave)}\nfi"
        if kind == 1:
            return (
                f"if {self.question()}; then\n{self.block(depth - 1, leave)}\n"
                f"elif {self.question()}; then\n{self.block(depth - 1, leave)}\n"
                f"else\n{self.block(depth - 1, leave)}\nfi"
            )
        if kind == 2:
            return f"{self.question()} && {{\n{self.block(depth - 1, leave)}\n}} || true"
        if kind == 3:
            return f"{self.question()} || {{\n{self.block(depth - 1, leave)}\n}}"
        if kind == 4:
            return f"for i in a b; do\n{self.block(depth - 1, loop)}\ndone"
        if kind == 5:
            return f"for i in $(echo a b); do\n{self.block(depth - 1, loop)}\ndone"
        if kind == 6:
            return f"(\n{self.block(depth - 1)}\n)"
        if kind == 7:
            self.functions += 1
            name = f"f{self.functions}"
            body = self.block(depth - 1, ("return 0", "return"))
            test = self.test()
            calls = [name, f"{name} || true", f"if {name}; then {test}; fi", f"{name}\n{name}"]
            return f"{name}() {{\n{body}\n}}\n{self.chance.choice(calls)}"
        if kind == 8:
            test = self.test()
            return f"case $V in 0) {test};; 1)\n{self.block(depth - 1, leave)}\n;; esac"
        if kind == 9:
            body = self.block(depth - 1, loop)
            self.loops += 1
            n = f"N{self.loops}"
            return f"{n}=0; while [ ${n} -lt 2 ]; do {n}=$(({n} + 1))\n{body}\ndone"
        if kind == 10:
            return f"{self.question()} && {self.question()} && {self.simple(())} || true"
        return self.simple(leave)


def _tests_run(folder: Path, script: str, chance: int) -> tuple[int, list[tuple[str, str, str]]]:
    """Bash's exit code, and each test that it ran: its number, folder and X."""
    (folder / "root/sub/sub/sub").mkdir(parents=True)
    record = folder / "record"
    record.touch()
    result = subprocess.run(
        ["bash", "-e", "-c", _PRELUDE + script],
        cwd=folder / "root",
        env={"RECORD": str(record), "CHANCE": str(chance), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "syntax" not in result.stderr, script
    ran = [line.split("|") for line in record.read_text().splitlines()]
    return result.returncode, [(n, os.path.relpath(at, folder / "root"), x) for n, at, x in ran]


def _may_be(command: Command, number: str, folder: str, x: str) -> bool:
    at, variable = command.folder.known, command.variables.get("X")
    if command.words[1].text != number:
        return False
    # Above the root of all folders there is only itself.
    if at is not None and at != folder and not at.startswith("../../.."):
        return False
    return x == "unset" if variable is None else variable.known in (None, x)


def test_no_test_that_bash_runs_is_lost(tmp_path: Path) -> None:
    if subprocess.run(["bash", "-c", ': "${PATH@a}"'], stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("this bash can't say what is exported: that takes 4.4, and macOS has 3.2")
    lost: list[tuple[str, int, object]] = []
    run = certain = 0
    for number in range(240):
        script = _Scripts(random.Random(number)).block(2)
        said = [c for c in run_script(script, environment={}) if c.words[0].text == "pytest"]
        for chance in (1, 2):
            folder = tmp_path / f"{number}-{chance}"
            exit_code, ran = _tests_run(folder, script, number + chance)
            lost += [
                (script, chance, test)
                for test in ran
                if not any(_may_be(command, *test) for command in said)
            ]
            run += len(ran)
            if exit_code == 0:
                # What is said to run in any case does, unless what it tests fails.
                numbers = {test[0] for test in ran}
                always = [command for command in said if not command.conditions]
                lost += [
                    (script, chance, command)
                    for command in always
                    if command.words[1].text not in numbers
                ]
                certain += len(always)
    assert not lost
    # Else they would say nothing.
    assert (run, certain) > (500, 50), (run, certain)


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
