from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pants.engine.fs import (
    CreateDigest,
    Digest,
    DigestContents,
    DigestEntries,
    Directory,
    FileContent,
    FileEntry,
    SymlinkEntry,
)
from pants.engine.process import Process, ProcessResult
from pants.testutil.rule_runner import QueryRule, RuleRunner
from pants.util.frozendict import FrozenDict

from pants_triton.testing import shim_rules
from pants_triton.testing.shim_rules import (
    PYTHON,
    PantsPython,
    PantsPythonError,
    PortableProcess,
    PortableProcessRequest,
)

OTHERS = (
    FileContent("a/b_shim.sh", sys.executable.encode()),
    FileContent("a/data", sys.executable.encode(), is_executable=True),
    FileContent("other_shim.sh", b"#!/bin/sh\n"),
    SymlinkEntry("link", "a/data"),
    Directory("empty/folder"),
)


@pytest.fixture
def rule_runner() -> RuleRunner:
    return RuleRunner(
        rules=[
            *shim_rules.rules(),
            QueryRule(DigestContents, [Digest]),
            QueryRule(DigestEntries, [Digest]),
            QueryRule(PantsPython, []),
            QueryRule(PortableProcess, [PortableProcessRequest]),
            QueryRule(ProcessResult, [Process]),
        ]
    )


def portable(rule_runner: RuleRunner, *entries: object) -> tuple[Process, Process]:
    """A process with those inputs, before and after."""
    digest = rule_runner.request(Digest, [CreateDigest(entries)])  # type: ignore[arg-type]
    process = Process(
        ("./x.pex_pex_shim.sh", "-c", "import sys; print(sys.version_info[:2])"),
        input_digest=digest,
        append_only_caches={"mine": ".mine"},
        description="A test",
    )
    answer = rule_runner.request(PortableProcess, [PortableProcessRequest(process)])
    return process, answer.process


def test_no_input_at_the_top_says_where_pants_is(rule_runner: RuleRunner) -> None:
    # As Pants writes it: the path of a Python, and what it is given.
    shim = f'#!/bin/sh\nexec {sys.executable} "$@"\n'.encode()
    before, after = portable(
        rule_runner, FileContent("x.pex_pex_shim.sh", shim, is_executable=True), *OTHERS
    )
    assert after.argv == before.argv
    assert after.append_only_caches == FrozenDict(
        {"mine": ".mine", "pants_triton_python": ".pants_triton_python"}
    )

    def entries(process: Process) -> dict[str, object]:
        found = rule_runner.request(DigestEntries, [process.input_digest])
        return {entry.path: entry for entry in found}

    others = {path: e for path, e in entries(before).items() if path != "x.pex_pex_shim.sh"}
    assert sorted(others) == ["a/b_shim.sh", "a/data", "empty/folder", "link", "other_shim.sh"]
    changed = entries(after)
    entry = changed.pop("x.pex_pex_shim.sh")
    assert changed == others
    assert isinstance(entry, FileEntry) and entry.is_executable
    [content] = (
        file.content
        for file in rule_runner.request(DigestContents, [after.input_digest])
        if file.path == "x.pex_pex_shim.sh"
    )
    assert content == f'#!/bin/sh\nexec {PYTHON} "$@"\n'.encode()

    rule_runner.request(PantsPython, []).leave()
    result = rule_runner.request(ProcessResult, [after])
    assert result.stdout.decode().strip() == str(tuple(sys.version_info[:2]))


def test_a_process_without_such_a_script_is_as_it_was(rule_runner: RuleRunner) -> None:
    before, after = portable(rule_runner, *OTHERS)
    assert after is before


def test_the_script_is_written_where_it_is_not(tmp_path: Path) -> None:
    python = PantsPython(str(tmp_path / "caches/python"))
    python.leave()
    [script] = (tmp_path / "caches").iterdir()
    answer = subprocess.check_output([str(script), "-c", "import sys; print(sys.argv)", "a b"])
    assert answer == b"['-c', 'a b']\n"
    written = script.stat().st_ino
    python.leave()
    assert script.stat().st_ino == written
    # Of another Pants.
    script.write_text("#!/bin/sh\nexit 1\n")
    python.leave()
    [again] = (tmp_path / "caches").iterdir()
    assert subprocess.check_output([str(again), "-c", "print(1)"]) == b"1\n"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    message = r"file/python can't be written \(Not a directory\): .*`\[GLOBAL\]\.named_caches_dir`"
    with pytest.raises(PantsPythonError, match=message):
        PantsPython(str(tmp_path / "file/python")).leave()
