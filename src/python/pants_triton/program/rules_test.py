from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Iterator

import pytest
from pants.core.subsystems import python_bootstrap
from pants.core.util_rules import system_binaries
from pants.core.util_rules.system_binaries import BinaryNotFoundError
from pants.engine.fs import Digest, DigestEntries
from pants.engine.process import FallibleProcessResult, Process
from pants.testutil.rule_runner import QueryRule, RuleRunner, engine_error

from pants_triton.program import rules as program_rules
from pants_triton.program.rules import Program, ProgramPython, ProgramRequest


@pytest.fixture
def rule_runner() -> RuleRunner:
    return RuleRunner(
        rules=[
            *program_rules.rules(),
            *python_bootstrap.rules(),
            *system_binaries.rules(),
            QueryRule(Program, (ProgramRequest,)),
            QueryRule(ProgramPython, ()),
            QueryRule(DigestEntries, (Digest,)),
            QueryRule(FallibleProcessResult, (Process,)),
        ],
        isolated_local_store=True,
    )


def find_python(rule_runner: RuleRunner, *search_path: Path | str) -> str:
    rule_runner.set_options([f"--python-bootstrap-search-path={[str(p) for p in search_path]}"])
    return rule_runner.request(ProgramPython, []).path.path


def an_interpreter(folder: Path, name: str, *, exit_code: int | None = None) -> str:
    """One that works, or one that ends with `exit_code` whatever it is asked."""
    folder.mkdir(exist_ok=True)
    does = f'exec {shlex.quote(sys.executable)} "$@"' if exit_code is None else f"exit {exit_code}"
    (folder / name).write_text(f"#!/bin/sh\n{does}\n")
    (folder / name).chmod(0o755)
    return str(folder / name)


# --- programs --------------------------------------------------------------------------------


@pytest.fixture
def greeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProgramRequest]:
    """Two of the three modules of a package `made_up.greeting`."""
    package = tmp_path / "made_up" / "greeting"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "words.py").write_text("GREETING = 'Hello'\n")
    (package / "other.py").write_text("")
    (package / "greet.py").write_text(
        "from made_up.greeting.words import GREETING\n\n\n"
        "def main(argv):\n"
        "    print(GREETING, argv)\n"
        "    return len(argv)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield ProgramRequest("made_up.greeting", ("greet", "words"), main="greet")
    for name in [name for name in sys.modules if name.partition(".")[0] == "made_up"]:
        del sys.modules[name]


def test_a_program_is_a_folder_that_python_runs(
    rule_runner: RuleRunner, greeting: ProgramRequest
) -> None:
    program = rule_runner.request(Program, [greeting])
    result = rule_runner.request(
        FallibleProcessResult,
        [
            Process(
                argv=(sys.executable, "-sE", "greeting", "to the", "world"),
                immutable_input_digests={"greeting": program.digest},
                description="Greet",
            )
        ],
    )
    assert result.stdout.decode() == "Hello ['to the', 'world']\n", result.stderr
    # What `main` returns is the exit code.
    assert result.exit_code == 2


def test_a_program_has_the_named_modules_only(
    rule_runner: RuleRunner, greeting: ProgramRequest
) -> None:
    program = rule_runner.request(Program, [greeting])
    assert [e.path for e in rule_runner.request(DigestEntries, [program.digest])] == [
        "__main__.py",
        "made_up/__init__.py",
        "made_up/greeting/__init__.py",
        "made_up/greeting/greet.py",
        "made_up/greeting/words.py",
    ]


# --- Python ----------------------------------------------------------------------------------


def test_a_python_is_found_in_the_search_path(rule_runner: RuleRunner, tmp_path: Path) -> None:
    path = an_interpreter(tmp_path / "bin", "python3")
    assert find_python(rule_runner, tmp_path / "empty", tmp_path / "bin") == path


def test_a_python_that_is_too_old_is_passed_over(rule_runner: RuleRunner, tmp_path: Path) -> None:
    # It is asked for its version, and says by its exit code that it is too old.
    an_interpreter(tmp_path / "old", "python", exit_code=1)
    an_interpreter(tmp_path / "old", "python3", exit_code=1)
    path = an_interpreter(tmp_path / "new", "python3")
    assert find_python(rule_runner, tmp_path / "old", tmp_path / "new") == path


def test_no_python(rule_runner: RuleRunner, tmp_path: Path) -> None:
    an_interpreter(tmp_path / "old", "python3", exit_code=1)
    with engine_error(
        BinaryNotFoundError,
        contains="No Python 3.8 or newer was found for the programs that look for hardware and for a "
        "compiler. Install one, or name one in `[python-bootstrap].search_path`, which is now "
        f"['{tmp_path}/old'].",
    ):
        find_python(rule_runner, tmp_path / "old")
