from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pants_triton.testing import lit_driver
from pants_triton.testing.lit_driver import (
    Outcome,
    expand_token,
    junit_report,
    missing_tool_hint,
    shown,
    without_paths,
)

try:
    import lit
except ImportError:
    lit = None

needs_lit = pytest.mark.skipif(
    lit is None, reason="NOTHING OF LIT IS TESTED: install what 3rdparty/python/plugin.in names"
)

TOKEN = "/__root__"

SITE_CONFIG = """\
config.build_root = "/__root__/_build"
lit_config.load_config(config, "/__root__/proj/test/lit.cfg.py")
"""

CONFIG = """\
import os
import lit.formats

config.name = "proj"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.build_root, "test")
config.substitutions.append(("%inputs", os.path.join(config.test_source_root, "Inputs")))
config.available_features.add("good")
config.available_features.update(lit_config.params)
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.build_root, "bin"), config.environment["PATH"]]
)
"""


@dataclass(frozen=True)
class Ran:
    exit_code: int
    output: str
    tests: list[dict[str, Any]]
    report: ElementTree.Element

    @property
    def code(self) -> str:
        (test,) = self.tests
        return str(test["code"])

    @property
    def reason(self) -> str:
        (test,) = self.tests
        return str(test["reason"])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A sandbox with a suite at proj/test, whose build folder is _build/test."""
    write(tmp_path / "_build/test/lit.site.cfg.py", SITE_CONFIG)
    write(tmp_path / "proj/test/lit.cfg.py", CONFIG)
    return tmp_path


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def drive(
    root: Path,
    content: str,
    *args: str,
    test: str = "A/b.mlir",
    source: str = "proj/test",
    env: dict[str, str] | None = None,
) -> Ran:
    write(root / source / test, content)
    command = [
        *(sys.executable, str(lit_driver.__file__), f"--root={root}", f"--lit={lit_folder()}"),
        *("--suite=_build/test", f"--source={source}", f"--test={test}", "--name=proj:lit"),
        *(f"--token={TOKEN}", "--expand=_build/test/lit.site.cfg.py"),
        *("--result=result.json", "--report=report.xml", *args),
    ]
    result = subprocess.run(
        command,
        cwd=root,
        env={"PATH": "/usr/bin:/bin", **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert result.stderr == ""
    return Ran(
        result.returncode,
        result.stdout,
        json.loads((root / "result.json").read_text())["tests"],
        ElementTree.fromstring((root / "report.xml").read_bytes()),
    )


def lit_folder() -> Path:
    assert lit is not None
    return Path(lit.__file__).parents[1]


@needs_lit
@pytest.mark.parametrize(
    ("content", "exit_code", "code"),
    [
        pytest.param("// RUN: true\n", 0, "PASS", id="passes"),
        pytest.param("// RUN: false\n", 1, "FAIL", id="fails"),
        pytest.param("// RUN: false\n// XFAIL: *\n", 0, "XFAIL", id="fails as expected"),
        pytest.param("// RUN: true\n// XFAIL: good\n", 1, "XPASS", id="passes unexpectedly"),
        pytest.param("// REQUIRES: good\n// RUN: true\n", 0, "PASS", id="feature is there"),
        pytest.param("// REQUIRES: bad\n// RUN: false\n", 0, "UNSUPPORTED", id="feature is not"),
        pytest.param("// UNSUPPORTED: good\n// RUN: false\n", 0, "UNSUPPORTED", id="unsupported"),
        pytest.param("no commands\n", 1, "UNRESOLVED", id="without a RUN line"),
        pytest.param("// RUN: false &&\n", 1, "UNRESOLVED", id="malformed"),
        pytest.param("// REQUIRES: (\n// RUN: true\n", 1, "UNRESOLVED", id="malformed condition"),
    ],
)
def test_codes(root: Path, content: str, exit_code: int, code: str) -> None:
    ran = drive(root, content)
    assert (ran.exit_code, ran.code) == (exit_code, code)
    assert ran.tests[0]["name"] in ("proj :: A/b.mlir", "A/b.mlir")


@needs_lit
def test_substitutions_and_temporary_files(root: Path) -> None:
    write(root / "proj/test/Inputs/given", "given\n")
    ran = drive(root, "// RUN: cat %inputs/given %s > %t && grep -c given %t\n// given\n")
    assert ran.exit_code == 0, ran.output
    assert (root / "_build/test/A/Output/b.mlir.tmp").exists()


@needs_lit
def test_retries(root: Path) -> None:
    # Passes the second time.
    script = "// ALLOW_RETRIES: 2\n// RUN: mkdir -p %t.d\n// RUN: echo x >> %t.d/n\n"
    ran = drive(root, script + "// RUN: grep -c x %t.d/n | grep 2\n")
    assert (ran.exit_code, ran.code) == (0, "FLAKYPASS")


@needs_lit
def test_local_config(root: Path) -> None:
    write(root / "proj/test/A/lit.local.cfg", "config.unsupported = True\n")
    ran = drive(root, "// RUN: false\n")
    assert (ran.code, ran.reason) == ("UNSUPPORTED", "unsupported: Test is unsupported")


@needs_lit
def test_skips_say_why(root: Path) -> None:
    ran = drive(root, "// REQUIRES: ptxas\n// RUN: false\n")
    assert "unavailable features: ptxas" in ran.reason
    assert ran.reason in ran.output
    skipped = ran.report.find(".//skipped")
    assert skipped is not None and skipped.get("message") == ran.reason


@needs_lit
@pytest.mark.parametrize("test", ["Inputs/module.mlir", "A/Inputs/module.mlir", "A/code.ll"])
def test_what_the_suite_leaves_out_is_skipped(root: Path, test: str) -> None:
    ran = drive(root, "// RUN: false\n", test=test)
    assert (ran.exit_code, ran.code) == (0, "EXCLUDED")
    assert "`config.excludes`" in ran.reason


@needs_lit
def test_parameters(root: Path) -> None:
    content = "// REQUIRES: fast\n// RUN: true\n"
    assert drive(root, content).code == "UNSUPPORTED"
    assert drive(root, content, "--param=fast=1").code == "PASS"


@needs_lit
def test_output_has_no_sandbox_path(root: Path) -> None:
    ran = drive(root, "// RUN: echo %s && false\n")
    assert str(root) not in ran.output
    assert "proj/test/A/b.mlir" in ran.output
    assert str(root) not in (root / "report.xml").read_text()
    kept = drive(root, "// RUN: echo %s && false\n", "--keep-paths")
    assert f"{root}/proj/test/A/b.mlir" in kept.output


@needs_lit
def test_a_tree_is_named_by_its_path_in_the_sandbox(root: Path, tmp_path_factory: Any) -> None:
    # As Pants does it: an immutable input is a link.
    elsewhere = tmp_path_factory.mktemp("immutable")
    write(elsewhere / "file", "")
    (root / "3rdparty").mkdir()
    (root / "3rdparty/llvm").symlink_to(elsewhere)
    ran = drive(root, f"// RUN: ls {elsewhere}/file && false\n", "--tree=3rdparty/llvm")
    assert "3rdparty/llvm/file" in ran.output and str(elsewhere) not in ran.output


@needs_lit
def test_a_missing_tool_is_named(root: Path) -> None:
    ran = drive(root, "// RUN: proj-opt %s\n")
    assert ran.code == "FAIL"
    assert "`proj-opt` can't be found in the sandbox." in ran.output
    assert "to `tools` of proj:lit." in ran.output


@needs_lit
@pytest.mark.parametrize("shell", ["True", "False"])
def test_the_libraries_are_those_of_the_tools(root: Path, shell: str) -> None:
    write(root / "proj/test/lit.cfg.py", CONFIG.replace("=False", f"={shell}"))
    ran = drive(
        root, "// RUN: printenv LD_LIBRARY_PATH | grep /libraries\n", "--library-path=/libraries"
    )
    assert ran.exit_code == 0, ran.output


@needs_lit
def test_the_target_s_environment_wins(root: Path) -> None:
    content = "// RUN: printenv LD_LIBRARY_PATH | grep /mine:/libraries\n// RUN: printenv TMPDIR\n"
    env = {"LD_LIBRARY_PATH": "/mine", "TMPDIR": "/tmp"}
    ran = drive(root, content, "--library-path=/libraries", env=env)
    assert ran.exit_code == 0 and "# | /tmp\n" in ran.output, ran.output


@needs_lit
def test_devices_reach_the_tests(root: Path) -> None:
    content = "// RUN: printenv CUDA_VISIBLE_DEVICES | grep GPU-1\n"
    assert drive(root, content, env={"CUDA_VISIBLE_DEVICES": "GPU-1"}).code == "PASS"
    assert drive(root, content).code == "FAIL"


@needs_lit
@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param("lit_config.fatal('no FileCheck')", "fatal: no FileCheck", id="gives up"),
        pytest.param("lit_config.error('odd')", "error: odd", id="an error"),
        pytest.param("raise ValueError('oh')", "ValueError: oh", id="raises"),
        pytest.param("}", "SyntaxError", id="is no Python"),
    ],
)
def test_a_broken_configuration(root: Path, config: str, message: str) -> None:
    write(root / "proj/test/lit.cfg.py", f"{CONFIG}\n{config}\n")
    ran = drive(root, "// RUN: true\n")
    assert (ran.exit_code, ran.code) == (1, "UNRESOLVED")
    assert message in ran.output
    failure = ran.report.find(".//failure")
    assert failure is not None and message in (failure.text or "")


@needs_lit
def test_a_suite_elsewhere_than_its_root(root: Path) -> None:
    ran = drive(root, "// RUN: true\n", source="other/test")
    assert (ran.exit_code, ran.code) == (1, "UNRESOLVED")
    assert "`config.test_source_root`" in ran.output


@needs_lit
def test_odd_output(root: Path) -> None:
    (root / "bytes").write_bytes(b"\xff\x00\x1b[1m]]>\n")
    ran = drive(root, f"// RUN: cat {root}/bytes && false\n")
    assert ran.code == "FAIL"


def test_expand_token_leaves_linked_files_alone(tmp_path: Path) -> None:
    stored, linked = tmp_path / "stored", tmp_path / "linked"
    stored.write_text("path /token/x\n")
    linked.hardlink_to(stored) if hasattr(linked, "hardlink_to") else stored.link_to(linked)
    expand_token([str(linked)], "/token", "/sandbox")
    assert linked.read_text() == "path /sandbox/x\n"
    assert stored.read_text() == "path /token/x\n"


def test_without_paths() -> None:
    pairs = [("/sandbox", ""), ("/sandbox/tree", "3rdparty/t"), ("/store/abc", "3rdparty/t")]
    text = "/sandbox/a.c:1 in /sandbox, /sandbox/tree/bin/x /store/abc/bin/x -I/sandbox/inc"
    assert without_paths(text, pairs) == "a.c:1 in ., 3rdparty/t/bin/x 3rdparty/t/bin/x -Iinc"


def test_shown() -> None:
    assert shown(Outcome("s :: a", "PASS", False)) == "PASS: s :: a\n"
    assert (
        shown(Outcome("s :: a", "UNSUPPORTED", False, "no GPU")) == "UNSUPPORTED: s :: a (no GPU)\n"
    )
    assert shown(Outcome("s :: a", "FAIL", True, output="\nx\n\n")) == "FAIL: s :: a\nx\n"


@pytest.mark.parametrize(
    ("output", "tools"),
    [
        pytest.param("# | 'triton-opt': command not found", "`triton-opt`", id="internal shell"),
        pytest.param("a.script: line 2: opt: command not found", "", id="a script's line"),
        pytest.param("bash: line 2: opt: command not found", "`opt`", id="bash"),
        pytest.param("/bin/sh: 1: opt: not found", "`opt`", id="dash"),
        pytest.param(
            "lit: config.py:1: fatal: Did not find FileCheck in /x", "`FileCheck`", id="lit.llvm"
        ),
        pytest.param("'/x/_build/bin/opt': command not found", "`opt`", id="by path"),
        pytest.param("error: no such file", "", id="something else"),
    ],
)
def test_missing_tool_hint(output: str, tools: str) -> None:
    hint = missing_tool_hint([Outcome("s :: a", "FAIL", True, output=output)], "proj:lit")
    assert hint.strip().startswith(f"{tools} can't be found") if tools else hint == ""


def test_junit_report() -> None:
    report = ElementTree.fromstring(
        junit_report(
            "proj:lit",
            "a.mlir",
            [
                Outcome("s :: a", "PASS", False, seconds=0.25),
                Outcome("s :: b", "FAIL", True, output="\x1b[1mno\x00", seconds=1),
                Outcome("s :: c", "UNSUPPORTED", False, "needs <x>"),
            ],
        )
    )
    suite = report[0]
    assert suite.attrib == {
        **{"name": "proj:lit", "tests": "3", "errors": "0", "failures": "1", "skipped": "1"},
        "time": "1.250",
    }
    assert [case.get("name") for case in suite] == ["s :: a", "s :: b", "s :: c"]
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["skipped"]]
    assert suite[1][0].text == "?[1mno?"
    assert suite[2][0].get("message") == "needs <x>"


def test_junit_report_of_one_test_goes_by_its_path() -> None:
    report = junit_report("proj:lit", "A/b.mlir", [Outcome("s :: A/b.mlir", "PASS", False)])
    assert ElementTree.fromstring(report)[0][0].get("name") == "A/b.mlir"
