from __future__ import annotations

import json

import pytest

from pants_triton.testing.command import lease_arguments
from pants_triton.testing.lit_driver import SKIPPED_CODES
from pants_triton.testing.lit_plan import (
    LitArgumentError,
    LitArguments,
    LitPlanError,
    LitResult,
    SuitePaths,
    brief,
    driver_arguments,
    globs_below,
    missing_site_config,
    named_trees,
    parse_arguments,
    parse_result,
    path_in_suite,
    suite_paths,
    suite_root,
    tool_links,
)

PATHS = SuitePaths("proj/test", "_build/test", "_build/test/lit.site.cfg.py")


@pytest.mark.parametrize(
    ("folder", "root", "expected"),
    [
        pytest.param("proj/test", None, "proj/test", id="the BUILD file's own"),
        pytest.param("proj", "test", "proj/test", id="below it"),
        pytest.param("", "test", "test", id="BUILD file at the root"),
        pytest.param("", None, "", id="the root itself"),
    ],
)
def test_suite_root(folder: str, root: str | None, expected: str) -> None:
    assert suite_root(folder, root) == expected


@pytest.mark.parametrize(
    ("root", "project_folder", "site_config", "build"),
    [
        pytest.param("proj/test", "proj", None, "_build/test", id="in the project"),
        pytest.param("test", "", None, "_build/test", id="project at the root"),
        pytest.param("proj", "proj", None, "_build", id="the project's own folder"),
        pytest.param("other", "proj", "x/lit.site.cfg.py", "_build/x", id="said"),
    ],
)
def test_suite_paths(root: str, project_folder: str, site_config: str | None, build: str) -> None:
    paths = suite_paths("t:lit", root, "p:p", project_folder, site_config)
    assert paths == SuitePaths(root, build, f"{build}/lit.site.cfg.py")


def test_a_suite_outside_its_project_must_name_its_site_config() -> None:
    with pytest.raises(LitPlanError, match="other is not in the folder of p:p.*`site_config`"):
        suite_paths("t:lit", "other", "p:p", "proj", None)


def test_path_in_suite() -> None:
    assert path_in_suite("t:lit", "proj/test", "proj/test/A/b.mlir") == "A/b.mlir"
    assert path_in_suite("t:lit", "", "A/b.mlir") == "A/b.mlir"
    with pytest.raises(LitPlanError, match="proj/a.mlir is not in proj/test"):
        path_in_suite("t:lit", "proj/test", "proj/a.mlir")


def test_globs_below() -> None:
    assert globs_below("a/b", ["**/*.ll", "!x.ll"]) == ("a/b/**/*.ll", "!a/b/x.ll")
    assert globs_below("", ["**/*.ll"]) == ("**/*.ll",)


def test_missing_site_config_tells_what_there_is() -> None:
    written = ["_build/build.ninja", "_build/tests/lit.site.cfg.py"]
    message = missing_site_config("t:lit", "p:p", PATHS, written)
    assert message.startswith("t:lit: configuring p:p wrote no test/lit.site.cfg.py")
    assert "It wrote tests/lit.site.cfg.py: is that it?" in message
    assert "proj/test/CMakeLists.txt" in message
    assert "is that it" not in missing_site_config("t:lit", "p:p", PATHS, ["_build/build.ninja"])


def test_tool_links() -> None:
    assert tool_links(["bin/opt", "libx.so", "a/b/c"]) == {
        "_build/bin/opt": "../../.lit_tools/bin/opt",
        "_build/libx.so": "../.lit_tools/libx.so",
        "_build/a/b/c": "../../../.lit_tools/a/b/c",
    }


def test_named_trees() -> None:
    texts = [b'x = "/__pants_sandbox__/3rdparty/llvm/llvm/bin"', b"/__pants_sandbox__/3rdparty/j\n"]
    trees = ["3rdparty/llvm/llvm", "3rdparty/llvm/ll", "3rdparty/j", "3rdparty/json"]
    assert named_trees(texts, trees) == ["3rdparty/llvm/llvm", "3rdparty/j"]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param([], LitArguments(), id="none"),
        pytest.param(["--filter=x", "--filter-out", "y"], LitArguments("x", "y"), id="filters"),
        pytest.param(
            ["-D", "a=b", "-Dc", "--param=d=e"],
            LitArguments(parameters=("a=b", "c", "d=e")),
            id="parameters",
        ),
        pytest.param(["-av"], LitArguments(show_all=True), id="letters in one"),
        pytest.param(["-v", "-vv", "--verbose"], LitArguments(), id="what is done anyhow"),
    ],
)
def test_parse_arguments(args: list[str], expected: LitArguments) -> None:
    assert parse_arguments(args) == expected


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param(["-k", "foo"], "`-k` is unknown. Known are `--filter=REGEX`", id="pytest's"),
        pytest.param(["--fil=x"], "`--fil=x` is unknown", id="abbreviated"),
        pytest.param(["test/a.mlir"], "`test/a.mlir` is unknown", id="a path"),
        pytest.param(["--filter=["], "`--filter=\\[` is no regular expression", id="no regex"),
        pytest.param(["--filter=s :: a"], "a suite's name", id="a suite's name"),
        pytest.param(["--filter"], "expected one argument", id="without value"),
        pytest.param(["-D", "=x"], "has no name", id="parameter without name"),
    ],
)
def test_arguments_that_are_wrong(args: list[str], message: str) -> None:
    with pytest.raises(LitArgumentError, match=message):
        parse_arguments(args)


@pytest.mark.parametrize(
    ("arguments", "path", "excluded"),
    [
        pytest.param(LitArguments(), "A/b.mlir", "", id="no filter"),
        pytest.param(LitArguments("a/B"), "A/b.mlir", "", id="whatever the case"),
        pytest.param(LitArguments("^b"), "A/b.mlir", "not selected by `--filter=^b`", id="not"),
        pytest.param(
            LitArguments(None, "b"),
            "A/b.mlir",
            "not selected because of `--filter-out=b`",
            id="filtered out",
        ),
        pytest.param(LitArguments("A", "c"), "A/b.mlir", "", id="neither"),
    ],
)
def test_excluded(arguments: LitArguments, path: str, excluded: str) -> None:
    assert arguments.excluded(path) == excluded


def test_driver_arguments() -> None:
    assert driver_arguments(
        name="t:lit",
        test="A/b.mlir",
        paths=PATHS,
        lit="3rdparty/lit/lit",
        expand=["_build/test/z", "_build/test/lit.site.cfg.py"],
        trees=["3rdparty/llvm/llvm"],
        library_path="{chroot}/libraries",
        parameters=["a=b"],
        is_debug=False,
    ) == (
        *("--root={chroot}", "--lit=3rdparty/lit/lit", "--suite=_build/test"),
        *("--source=proj/test", "--test=A/b.mlir", "--name=t:lit", "--token=/__pants_sandbox__"),
        *("--expand=_build/test/lit.site.cfg.py", "--expand=_build/test/z"),
        *("--tree=3rdparty/llvm/llvm", "--library-path={chroot}/libraries", "--param=a=b"),
        *("--result=_lit_result.json", "--report=_lit_report.xml"),
    )


@pytest.mark.parametrize(
    ("exclusive", "timeout_s", "is_debug", "expected"),
    [
        pytest.param(False, None, False, (), id="shared"),
        pytest.param(True, 60, False, ("--exclusive", "--timeout=60"), id="exclusive, timed"),
        pytest.param(False, 60, True, ("--interactive",), id="debug"),
    ],
)
def test_lease_arguments(
    exclusive: bool, timeout_s: int | None, is_debug: bool, expected: tuple[str, ...]
) -> None:
    arguments = lease_arguments(
        hardware="cuda",
        fingerprint="f",
        devices=2,
        exclusive=exclusive,
        timeout_s=timeout_s,
        is_debug=is_debug,
    )
    assert arguments == (
        *("lease", "--lease-dir=.pants_triton_leases", "--hardware=cuda", "--fingerprint=f"),
        *("--devices=2", *expected, "--"),
    )


def result_json(*tests: tuple[str, str]) -> bytes:
    return json.dumps({"tests": [{"code": code, "reason": r} for code, r in tests]}).encode()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(result_json(("PASS", "")), LitResult(("PASS",)), id="run"),
        pytest.param(
            result_json(("UNSUPPORTED", "no GPU")),
            LitResult(("UNSUPPORTED",), "no GPU"),
            id="skipped",
        ),
        pytest.param(
            result_json(("UNSUPPORTED", "no GPU"), ("PASS", "")),
            LitResult(("UNSUPPORTED", "PASS")),
            id="one of several was run",
        ),
    ],
)
def test_parse_result(content: bytes, expected: LitResult) -> None:
    assert parse_result(content, SKIPPED_CODES) == expected


@pytest.mark.parametrize("content", [b"", b"[]", b'{"tests": 1}', b'{"tests": [{}]}'])
def test_parse_result_of_something_else(content: bytes) -> None:
    with pytest.raises(ValueError):
        parse_result(content, SKIPPED_CODES)


def test_brief() -> None:
    error = "p:opt can't be built: 1 edge failed.\n\nFAILED: Building a.o\na.cpp:1: error\nmore"
    assert brief(error) == "p:opt can't be built: 1 edge failed.\nFAILED: Building a.o"
    assert brief("t:lit: no lit.cfg.py\nsecond line") == "t:lit: no lit.cfg.py\nsecond line"
