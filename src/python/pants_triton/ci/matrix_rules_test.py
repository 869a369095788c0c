"""`ci-matrix` in a real git repository: ten kinds of change, and what else can happen.

The workspace has what a Triton checkout has: kernels with tests on three kinds of hardware, a native
project with lit tests, an artifact pinned by a file, and docs. Nothing is built.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Mapping

import pytest
from pants.backend.python import register as python_backend
from pants.core import register as core
from pants.engine.internals.parametrize import Parametrize
from pants.testutil.rule_runner import GoalRuleResult, RuleRunner

from pants_triton import register
from pants_triton.ci.matrix_rules import CiMatrix

FILES = {
    "pants.toml": "",
    "BUILD": """
files(name="docs", sources=["*.md", "docs/**/*.md"])
# What a test of the whole workspace depends on.
files(name="workspace", sources=["pants.toml"])
""",
    "README.md": "",
    "docs/ci.md": "",
    "3rdparty/python.lock.txt": "",
    "3rdparty/BUILD": "artifact_lock(name='lock', source='artifacts.lock.json')\n",
    "3rdparty/artifacts.lock.json": "",
    "3rdparty/cmake/BUILD": """
wheel_artifact(name="cmake", distribution="cmake", version="3.31.6", platforms=["linux_x86_64"])
""",
    "3rdparty/lit/BUILD": """
wheel_artifact(name="lit", distribution="lit", version="18.1.8", platforms=["any"])
""",
    "3rdparty/llvm/BUILD": "llvm_toolchain(name='llvm', pin='llvm-hash.txt')\n",
    "3rdparty/llvm/llvm-hash.txt": "a" * 40,
    "kernels/BUILD": """
python_sources()
triton_tests(name="device", hardware=parametrize("cuda", "rocm"))
triton_tests(name="interpreter", env={"TRITON_INTERPRET": "1"})
""",
    "kernels/__init__.py": "",
    "kernels/add.py": "",
    "kernels/add_test.py": "from kernels import add\n",
    "kernels/mul.py": "",
    "kernels/mul_test.py": "from kernels import mul\n",
    "native/BUILD": """
cmake_project(name="native", sources=["CMakeLists.txt", "include/**/*", "lib/**/*"])
cmake_output(name="opt", project=":native", outputs=["bin/opt"])
lit_tests(name="lit", root="test", project=":native", tools=[":opt"])
""",
    "native/CMakeLists.txt": "",
    "native/include/Dialect.h": "",
    "native/include/Ops.td": "",
    "native/lib/Dialect.cpp": "",
    "native/test/lit.cfg.py": "",
    "native/test/a.mlir": "// RUN: opt %s\n",
    "native/test/b.mlir": "// RUN: opt %s\n",
    "ci/BUILD": """
ci_lane(name="cpu", tag_expression=["cpu"], runs_on=["ubuntu-latest"])
ci_lane(name="cuda", tag_expression=["cuda"], runs_on=["a100"])
ci_lane(name="formatting", goals=["lint"], runs_on=["ubuntu-latest"])
ci_lane(name="rocm", tag_expression=["rocm"], runs_on=["mi300x"])
""",
}

FORMATTING = ["formatting"]
CPU = ["cpu", "formatting"]
ALL = ["cpu", "cuda", "formatting", "rocm"]


def git(rule_runner: RuleRunner, *args: str) -> None:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", *identity, *args], cwd=rule_runner.build_root, check=True)


@pytest.fixture(scope="module")
def shared_rule_runner() -> RuleRunner:
    rule_runner = RuleRunner(
        rules=[*core.rules(), *python_backend.rules(), *register.rules()],
        target_types=[
            *core.target_types(),
            *python_backend.target_types(),
            *register.target_types(),
        ],
        objects={"parametrize": Parametrize},
        bootstrap_args=["--pants-ignore=['!/.github/']"],
    )
    rule_runner.write_files(FILES)
    git(rule_runner, "init", "--quiet")
    Path(rule_runner.build_root, ".git/info/exclude").write_text("/.pants.d/\n/dist/\n")
    git(rule_runner, "add", "--all")
    git(rule_runner, "commit", "--quiet", "--message=base")
    git(rule_runner, "tag", "base")
    return rule_runner


@pytest.fixture
def rule_runner(shared_rule_runner: RuleRunner) -> RuleRunner:
    """The workspace as it was committed."""
    git(shared_rule_runner, "reset", "--quiet", "--hard", "base")
    git(shared_rule_runner, "clean", "-dfq", "--exclude=.pants.d")
    return shared_rule_runner


def ci_matrix(rule_runner: RuleRunner, *args: str, env: Mapping[str, str] = {}) -> GoalRuleResult:
    return rule_runner.run_goal_rule(
        CiMatrix,
        args=args,
        global_args=[
            "--python-interpreter-constraints=['CPython==3.9.*']",
            "--python-enable-resolves",
            "--python-resolves-generate-lockfiles=false",
            "--python-resolves={'python-default': '3rdparty/python.lock.txt'}",
            "--python-infer-use-rust-parser",
            "--source-root-patterns=['/']",
        ],
        env=dict(env),
        env_inherit={"PATH", "HOME", "PYENV_ROOT"},
    )


def lanes(result: GoalRuleResult) -> list[str]:
    """The lanes of the matrix."""
    assert result.exit_code == 0, result.stderr
    return [entry["lane"] for entry in json.loads(result.stdout)["include"]]


def edit(rule_runner: RuleRunner, *paths: str) -> None:
    for path in paths:
        file = Path(rule_runner.build_root, path)
        file.write_text(file.read_text() + "\n")


@pytest.mark.parametrize(
    "path, affected, said",
    [
        pytest.param(
            "kernels/add.py",
            ALL,
            ["cpu: 1 of 4 test targets are affected.", "cuda: 1 of 2 test targets are affected."],
            id="a kernel",
        ),
        pytest.param(
            "native/include/Dialect.h",
            CPU,
            ["cpu: 2 of 4 test targets are affected.", "cuda: 0 of 2 test targets are affected."],
            id="a header",
        ),
        pytest.param(
            "native/include/Ops.td", CPU, ["cpu: 2 of 4 test targets are affected."], id="a .td"
        ),
        pytest.param(
            "native/test/a.mlir", CPU, ["cpu: 1 of 4 test targets are affected."], id="a lit test"
        ),
        pytest.param(
            "docs/ci.md",
            FORMATTING,
            ["cpu: 0 of 4 test targets are affected.", "formatting: runs on any change."],
            id="a doc",
        ),
        pytest.param(
            "3rdparty/llvm/llvm-hash.txt",
            CPU,
            ["cpu: 2 of 4 test targets are affected."],
            id="the LLVM pin",
        ),
        pytest.param(
            # Owned, but more than what its owner's dependents test.
            "pants.toml",
            ALL,
            ["All lanes are affected: pants.toml decides how everything is built."],
            id="pants.toml",
        ),
        pytest.param(
            "3rdparty/python.lock.txt",
            ALL,
            ["All lanes are affected: 3rdparty/python.lock.txt decides how everything is built."],
            id="a lock of Python packages",
        ),
        pytest.param(
            "3rdparty/artifacts.lock.json",
            CPU,
            ["cpu: 2 of 4 test targets are affected."],
            id="the lock of artifacts",
        ),
        pytest.param(
            "kernels/BUILD",
            ALL,
            ["All lanes are affected: kernels/BUILD decides how everything is built."],
            id="a BUILD file",
        ),
    ],
)
def test_an_edited_file(
    rule_runner: RuleRunner, path: str, affected: list[str], said: list[str]
) -> None:
    edit(rule_runner, path)
    git(rule_runner, "commit", "--quiet", "--all", "--message=change")
    result = ci_matrix(rule_runner, "--changed-since=base")
    assert lanes(result) == affected
    assert set(said) <= set(result.stderr.splitlines())


GONE = "was deleted or renamed, and what depended on it can't be known any more."


@pytest.mark.parametrize(
    "path, affected, said",
    [
        pytest.param(
            "kernels/mul.py", ALL, f"All lanes are affected: kernels/mul.py {GONE}", id="a kernel"
        ),
        pytest.param(
            "kernels/add_test.py",
            ALL,
            f"All lanes are affected: kernels/add_test.py {GONE}",
            id="a test",
        ),
        pytest.param(
            "native/include/Dialect.h", CPU, "cpu: 2 of 4 test targets are affected.", id="a header"
        ),
        pytest.param(
            "docs/ci.md", FORMATTING, "cpu: 0 of 4 test targets are affected.", id="a doc"
        ),
    ],
)
def test_a_deleted_file(rule_runner: RuleRunner, path: str, affected: list[str], said: str) -> None:
    git(rule_runner, "rm", "--quiet", path)
    git(rule_runner, "commit", "--quiet", "--message=change")
    result = ci_matrix(rule_runner, "--changed-since=base")
    assert lanes(result) == affected
    assert said in result.stderr.splitlines()


@pytest.mark.parametrize(
    "before, after, affected, said",
    [
        pytest.param(
            "kernels/mul.py",
            "kernels/times.py",
            ALL,
            f"All lanes are affected: kernels/mul.py {GONE}",
            id="a kernel",
        ),
        pytest.param(
            "native/lib/Dialect.cpp",
            "native/lib/Dialects.cpp",
            CPU,
            "cpu: 2 of 4 test targets are affected.",
            id="a C++ file",
        ),
        pytest.param(
            "docs/ci.md",
            "docs/CI lanes.md",
            FORMATTING,
            "cpu: 0 of 4 test targets are affected.",
            id="a doc",
        ),
    ],
)
def test_a_renamed_file(
    rule_runner: RuleRunner, before: str, after: str, affected: list[str], said: str
) -> None:
    git(rule_runner, "mv", before, after)
    git(rule_runner, "commit", "--quiet", "--message=change")
    result = ci_matrix(rule_runner, "--changed-since=base")
    assert lanes(result) == affected
    assert said in result.stderr.splitlines()


def test_what_is_not_committed_counts(rule_runner: RuleRunner) -> None:
    edit(rule_runner, "native/test/a.mlir")
    rule_runner.write_files({"native/test/new.mlir": "// RUN: opt %s\n"})
    result = ci_matrix(rule_runner, "--changed-since=base")
    assert lanes(result) == CPU
    assert "cpu: 2 of 5 test targets are affected." in result.stderr


def test_a_file_that_nobody_owns(rule_runner: RuleRunner) -> None:
    rule_runner.write_files({"notes.txt": ""})
    result = ci_matrix(rule_runner, "--changed-since=base")
    assert lanes(result) == ALL
    assert result.stderr == (
        "All lanes are affected: notes.txt is owned by no target, which would say what depends on it.\n"
    )


def test_no_change(rule_runner: RuleRunner) -> None:
    result = ci_matrix(rule_runner, "--changed-since=base")
    assert result.stdout == '{"include": []}\n'
    assert result.stderr == "No lane is affected: no file was changed.\n"


def test_diffspec(rule_runner: RuleRunner) -> None:
    edit(rule_runner, "docs/ci.md")
    git(rule_runner, "commit", "--quiet", "--all", "--message=change")
    edit(rule_runner, "kernels/add.py")
    assert lanes(ci_matrix(rule_runner, "--changed-diffspec=base..HEAD")) == FORMATTING


def test_without_a_commit(rule_runner: RuleRunner) -> None:
    result = ci_matrix(rule_runner)
    assert lanes(result) == ALL
    assert result.stderr == "All lanes are affected: no commit to compare with was given.\n"


def test_for_jobs_on_github(rule_runner: RuleRunner, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.write_text("other=1\n")
    edit(rule_runner, "docs/ci.md")
    # As the generated workflow says it, where there is nothing to compare with as well.
    env = {"PANTS_CHANGED_SINCE": "base", "GITHUB_OUTPUT": str(output)}
    result = ci_matrix(rule_runner, "--github-output", env=env)
    assert lanes(result) == FORMATTING
    assert output.read_text() == f"other=1\nmatrix={result.stdout}"
    env["PANTS_CHANGED_SINCE"] = ""
    assert lanes(ci_matrix(rule_runner, "--github-output", env=env)) == ALL

    result = ci_matrix(rule_runner, "--github-output")
    assert result.exit_code == 1
    assert "which has the variable GITHUB_OUTPUT: leave it out elsewhere." in result.stderr


@pytest.mark.parametrize(
    "args, message",
    [
        (
            ["kernels::"],
            "`ci-matrix` takes no targets, but got `kernels::`: say what was changed by",
        ),
        (["--changed-since=nobody"], "git can't say what was changed: fatal: "),
    ],
)
def test_mistakes(rule_runner: RuleRunner, args: list[str], message: str) -> None:
    result = ci_matrix(rule_runner, *args)
    assert result.exit_code == 1
    assert result.stderr.startswith(message)


def test_without_lanes(rule_runner: RuleRunner) -> None:
    rule_runner.write_files({"ci/BUILD": ""})
    result = ci_matrix(rule_runner, "--changed-since=base")
    assert result.exit_code == 1
    assert result.stderr.startswith("There is no lane: declare `ci_lane` targets")
