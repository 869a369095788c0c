"""What takes the place of a workflow's runs, and what doesn't."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pants_triton.ci import coverage_seed as seed
from pants_triton.ci.coverage import (
    COVERED,
    DIFFERENTLY,
    MISSING,
    NOT_UNDERSTOOD,
    REPLACED,
    Coverage,
    CoverageOptionError,
    DeclaredBuild,
    DeclaredTest,
    Row,
    Workspace,
    cover,
    runner_arch,
    runner_hardware,
)
from pants_triton.ci.coverage_render import render_json, render_table
from pants_triton.ci.shell_lines import Command
from pants_triton.ci.shell_words import ROOT, Word, join_words, path_from
from pants_triton.ci.unknown import Unknown
from pants_triton.ci.workflow_steps import Runner, Step, StepRun, Workflow, parse_workflow


def seed_coverage(workspace: Workspace | None = None, **options) -> Coverage:
    workflow = parse_workflow(seed.workflow_text(), seed.PATH)
    return cover([workflow], workspace or seed.workspace(), **options)


def covered(
    run: str,
    tests: Sequence[DeclaredTest] = (),
    *,
    builds: Sequence[DeclaredBuild] = (),
    files: Sequence[str] = (),
    job: str = "runs-on: h100",
    step: str = "",
) -> Row:
    """The one row of a workflow with this command that isn't replaced."""
    indented = run.replace("\n", "\n          ")
    text = f"on: push\njobs:\n  tests:\n    {job}\n    steps:\n      - run: |\n          {indented}\n{step}"
    workspace = Workspace(tuple(tests), tuple(builds), tuple(files))
    result = cover([parse_workflow(text, "ci.yml")], workspace)
    (row,) = [row for row in result.rows if row.status != REPLACED]
    return row


def texts(row: Row) -> list[str]:
    return [d.text for d in row.differences]


def cuda(path: str = "t/test_a.py", **fields) -> DeclaredTest:
    return DeclaredTest(f"{path}:cuda", "pytest", path, hardware="cuda", **fields)


# --- the seed ------------------------------------------------------------------------------------


def test_on_the_seed_nothing_is_missing() -> None:
    coverage = seed_coverage()
    assert [row for row in coverage.rows if row.status in (MISSING, NOT_UNDERSTOOD)] == []
    assert render_table(coverage).endswith(
        "\n\n12 covered, 11 covered differently, 58 replaced. Nothing is missing.\n"
    )


def test_on_the_seed_each_run_of_a_tool_has_a_row() -> None:
    ran = [(row.line, row.hardware) for row in seed_coverage().rows if row.status != REPLACED]
    assert ran == [
        # Integration-Tests: build, lit, six of pytest, the interpreter, regression, ctest, Proton.
        *((232, "cuda"), (240, "cpu"), (248, "cuda"), (249, "cuda"), (250, "cuda"), (252, "cuda")),
        *((254, "cuda"), (255, "cuda"), (263, "cpu"), (270, "cuda"), (275, "cpu"), (279, "cuda")),
        # Integration-Tests-AMD
        *((387, "rocm"), (399, "cpu"), (406, "rocm"), (407, "rocm"), (409, "rocm"), (414, "rocm")),
        *((418, "rocm"), (423, "rocm"), (427, "rocm"), (433, "cpu")),
        # Build-Tests
        (551, "macos"),
    ]


def test_a_dropped_test_is_found() -> None:
    workspace = seed.workspace()
    kept = tuple(t for t in workspace.tests if "test_cast_matmul.py:rocm" not in t.address)
    (row,) = seed_coverage(replace(workspace, tests=kept)).failing
    assert (row.job, row.line) == ("Integration-Tests-AMD", 423)
    assert texts(row) == ["no target runs it on rocm (only on cuda)"]
    assert row.differences[0].files == ("python/test/regression/test_cast_matmul.py",)


def test_all_that_an_old_workflow_ran_is_missing_without_targets() -> None:
    coverage = seed_coverage(Workspace((), (), seed.FILES))
    assert len(coverage.failing) == 23
    assert not [row for row in coverage.rows if row.status in (COVERED, DIFFERENTLY)]


@pytest.mark.parametrize(
    "run,test,status,expected",
    [
        pytest.param("pytest t", {}, COVERED, [], id="same"),
        pytest.param("pytest -sv --tb=short -rfs --durations 5 t", {}, COVERED, [], id="shown otherwise"),
        pytest.param("X=1 pytest t", {"env": (("X", "1"),)}, COVERED, [], id="env"),
        pytest.param("X=1 pytest t", {}, MISSING, ["without X=1"], id="no env"),
        pytest.param("X=1 pytest t", {"env": (("X", "2"),)}, MISSING, ["X=2, not 1"], id="other env"),
        pytest.param("pytest t", {"env": (("X", "2"),)}, DIFFERENTLY, ["also sets X=2"], id="more env"),
        pytest.param("X=/a/$(ls)/l.so pytest t", {"env": (("X", "{chroot}/l.so"),)}, DIFFERENTLY,
                     ["X={chroot}/l.so, where it was /a/$(ls)/l.so"], id="path that a run knew"),
        pytest.param("X=/a/$(ls)/l.so pytest t", {"env": (("X", "m.so"),)}, MISSING,
                     ["X=m.so, where it was /a/$(ls)/l.so"], id="other file"),
        pytest.param("TRITON_BUILD_WITH_O1=1 HOME=/x pytest t", {}, COVERED, [], id="a build's env"),
        pytest.param("pytest -n 8 t", {"workers": 8}, COVERED, [], id="workers"),
        pytest.param("pytest -n4 t", {"workers": 8}, DIFFERENTLY, ["8 worker processes, not 4 worker processes"], id="other workers"),
        pytest.param("pytest -n auto t", {}, DIFFERENTLY, ["one process, not auto worker processes"], id="auto workers"),
        pytest.param("pytest --forked t", {"isolated": True}, COVERED, [], id="isolated"),
        pytest.param("pytest --forked t", {}, DIFFERENTLY, ["not each test in a process of its own"], id="not isolated"),
        pytest.param("pytest -m 'not slow' t", {"args": ("-m", "not slow")}, COVERED, [], id="markers"),
        pytest.param("pytest -m x t", {}, DIFFERENTLY, ["runs all, not only `-m x`"], id="no markers"),
        pytest.param("pytest t", {"args": ("-m", "x")}, MISSING, ["only `-m x`"], id="fewer by markers"),
        pytest.param("pytest -k a t", {"args": ("-k", "b")}, MISSING, ["`-k b`, not `-k a`"], id="other keyword"),
        pytest.param("pytest t/test_a.py::test_x[1]", {"args": ("-k", "test_x and 1")}, COVERED, [], id="node by keyword"),
        pytest.param("pytest t/test_a.py::test_x", {}, DIFFERENTLY, ["runs the whole file, not only ::test_x"], id="node by file"),
        pytest.param("pytest t/test_a.py::test_x", {"args": ("-k", "test_y")}, MISSING, ["`-k test_y`, not ::test_x"], id="other node"),
        pytest.param("pytest --device cuda t", {"args": ("--device=cuda",)}, COVERED, [], id="option of a conftest"),
        pytest.param("pytest --device cuda t", {}, DIFFERENTLY, ["without `--device cuda`"], id="without an option"),
        pytest.param("pytest t", {"args": ("--deselect=x",)}, MISSING, ["with `--deselect x` besides"], id="deselected"),
        pytest.param("pytest t", {"args": ("--ignore=x",)}, MISSING, ["`--ignore=x` may leave it out"], id="ignored"),
        pytest.param("pytest t", {"arch": ">=sm_90"}, COVERED, [], id="arch of the runner"),
        pytest.param("pytest t", {"arch": "sm_100"}, MISSING, ["only on sm_100, so not on h100 (sm_90)"], id="other arch"),
        pytest.param("pytest t", {"devices": 2}, DIFFERENTLY, ["on 2 devices at once"], id="devices"),
        pytest.param("pytest t", {"skipped": True}, MISSING, ["no target runs it on cuda (its target has `skip_tests`)"], id="skip_tests"),
        pytest.param("pytest t", {"hardware": "rocm"}, MISSING, ["no target runs it on cuda (only on rocm)"], id="hardware"),
        pytest.param("pytest t || true", {}, DIFFERENTLY, ["its failure counts, which was passed over"], id="may fail"),
        pytest.param("if [ -d x ]; then pytest t; fi", {}, DIFFERENTLY, ["runs always, not only if [ -d x ]"], id="condition"),
        pytest.param("PYTEST_ADDOPTS='-n 8' pytest t", {"workers": 8}, COVERED, [], id="PYTEST_ADDOPTS"),
        pytest.param("sudo -E env X=1 timeout -k 5 30m python3.11 -m pytest t", {"env": (("X", "1"),)}, COVERED, [], id="wrapped"),
        pytest.param("bash -c 'cd t && pytest .'", {}, COVERED, [], id="bash -c"),
        pytest.param("uv run pytest t", {}, COVERED, [], id="uv run"),
        pytest.param("$PYTHON -m pytest t", {}, COVERED, [], id="unknown Python"),
        pytest.param("pytest t/test_*.py", {}, COVERED, [], id="glob"),
        pytest.param("cd t && pytest", {}, COVERED, [], id="folder"),
        pytest.param("pytest u", {}, MISSING, ["no test file is in u in this checkout"], id="no such folder"),
        pytest.param("pytest t/test_b.py", {}, MISSING, ["no such file in this checkout"], id="no such file"),
        pytest.param("pytest $(find . -name 'test_*')", {}, MISSING, ["which tests `$(find . -name 'test_*')` names is not known"], id="unknown paths"),
    ],
)  # fmt: skip
def test_pytest(run: str, test: dict, status: str, expected: list[str]) -> None:
    row = covered(run, [replace(cuda(), **test)], files=["t/test_a.py"])
    assert (row.status, texts(row)) == (status, expected)


def test_a_failure_that_counts_on_some_runners_only_is_said() -> None:
    job = (
        "runs-on: h100\n    continue-on-error: ${{ matrix.n == 2 }}\n"
        "    strategy: {matrix: {n: [1, 2]}}"
    )
    row = covered("pytest t", [cuda()], job=job)
    assert texts(row) == ["its failure counts, which was passed over"]
    assert texts(covered("pytest t", [cuda()], job=job.replace("2 }}", "3 }}"))) == []


def test_ignored_files_are_not_asked_for() -> None:
    files = ["t/test_a.py", "t/test_b.py", "t/c/test_c.py", "t/build/test_d.py"]
    row = covered("cd t; pytest --ignore=test_b.py --ignore c", [cuda()], files=files)
    assert row.status == COVERED
    row = covered("cd t; pytest --ignore-glob='*b.py'", [cuda()], files=files)
    assert row.differences[0].files == ("t/c/test_c.py",)


@pytest.mark.parametrize(
    "run,unknown",
    [
        ("pytest t --ignore=$SKIP", ["--ignore=$SKIP"]),
        ("pytest t --ignore=t/$SKIP", ["--ignore=t/$SKIP"]),
        ('pytest t --ignore-glob="$G"', ["--ignore-glob=$G"]),
        ("cd $X/t; pytest a --ignore b", ["--ignore=b"]),
    ],
)
def test_what_an_unknown_ignore_leaves_out_is_asked_for(run: str, unknown: list[str]) -> None:
    files = ["t/test_a.py", "t/test_b.py", "x/t/a/test_a.py"]
    everywhere = [cuda(path) for path in files]
    row = covered(run, everywhere, files=files)
    assert row.status == DIFFERENTLY
    assert texts(row) == [f"what `{option}` leaves out is not known" for option in unknown]
    assert row.targets
    assert covered(run, [], files=files).status == MISSING


@pytest.mark.parametrize(
    "run,status",
    [
        # pytest takes no pattern here, and nothing is no path.
        pytest.param("pytest t --ignore='t/*'", MISSING, id="glob"),
        pytest.param("pytest t --ignore=", MISSING, id="nothing"),
        pytest.param("pytest t --ignore=t", MISSING, id="all"),
        pytest.param("pytest t --deselect=$X --ignore t/test_b.py", DIFFERENTLY, id="deselect"),
        # Selections may be as wide as can be.
        pytest.param("pytest t/$X", MISSING, id="unknown name"),
        pytest.param("pytest t/*", MISSING, id="names"),
        pytest.param("pytest t/test_$X", MISSING, id="part of a name"),
    ],
)
def test_exclusions_are_not_widened(run: str, status: str) -> None:
    files = ["t/test_a.py", "t/test_b.py", "t/c/test_c.py"]
    row = covered(run, [cuda(), cuda("t/c/test_c.py")], files=files)
    assert row.status == status
    if status == MISSING and not run.endswith("=t"):
        assert ("t/test_b.py",) in [d.files for d in row.differences]


def test_what_may_be_options_is_not_known() -> None:
    text = "on: push\njobs: {a: {runs-on: h100, env: {OPTS: '-k ${{ inputs.k }}'}, steps: [{run: pytest $OPTS t}]}}"
    workspace = Workspace((cuda(),), (), ("t/test_a.py",))
    (row,) = cover([parse_workflow(text, "w")], workspace).rows
    assert row.targets == ("t/test_a.py:cuda",)
    assert "which tests `-k ${{ inputs.k }}` names is not known" in texts(row)


def test_an_unknown_node_is_not_selected_by_its_text() -> None:
    run = "pytest t/test_a.py::$TEST"
    assert covered(run, [cuda(args=("-k", "test"))], files=["t/test_a.py"]).status == MISSING
    assert covered(run, [cuda()], files=["t/test_a.py"]).status == DIFFERENTLY


def test_a_file_without_a_target_is_missing() -> None:
    row = covered("pytest t", [cuda()], files=["t/test_a.py", "t/b_test.py", "t/helper.py"])
    assert row.status == MISSING
    assert row.differences[0].files == ("t/b_test.py",)


def test_the_target_that_fits_best_is_taken() -> None:
    other = replace(cuda(), address="other", env=(("X", "1"),))
    assert covered("X=1 pytest t", [cuda(), other], files=["t/test_a.py"]).targets == ("other",)


def test_the_interpreter_needs_no_device() -> None:
    interpreted = replace(cuda(), hardware="cpu", env=(("TRITON_INTERPRET", "1"),))
    row = covered("TRITON_INTERPRET=1 pytest t", [interpreted], files=["t/test_a.py"])
    assert (row.hardware, texts(row)) == ("cpu", ["runs on cpu, not on cuda (h100)"])


def test_a_test_behind_a_build_uses_it() -> None:
    built = DeclaredBuild("//:triton", "", True)
    workflow = parse_workflow(
        "on: push\njobs: {a: {runs-on: h100, steps: [{run: pip install -e .}, {run: pytest t}]}}",
        "w",
    )
    uses = Workspace((cuda(builds=("//:triton",)),), (built,), ("t/test_a.py",))
    assert [row.status for row in cover([workflow], uses).rows] == [COVERED, COVERED]
    another = replace(cuda("x/test_x.py", builds=("//:triton",)))
    uses_not = Workspace((cuda(), another), (built,), ("t/test_a.py",))
    assert texts(cover([workflow], uses_not).rows[1]) == ["tests no Triton that is built here"]


# --- lit, CTest, builds --------------------------------------------------------------------------

LIT = DeclaredTest("//test/a.mlir:lit", "lit", "test/a.mlir", suite="test")


@pytest.mark.parametrize(
    "run,status",
    [
        pytest.param("lit -v build/$(ls build)/test", COVERED, id="build folder"),
        pytest.param("cd python/build/cmake; llvm-lit test -j 8", COVERED, id="folder"),
        pytest.param("lit test/a.mlir", COVERED, id="file"),
        pytest.param("python -m lit.main test", NOT_UNDERSTOOD, id="unknown module"),
        pytest.param("lit --filter=x test", DIFFERENTLY, id="filter"),
        pytest.param("lit unit", MISSING, id="other suite"),
        pytest.param("lit", MISSING, id="no suite"),
    ],
)
def test_lit(run: str, status: str) -> None:
    assert (
        covered(run, [LIT], files=["test/lit.cfg.py", "test/a.mlir"], job="runs-on: x").status
        == status
    )


def test_a_file_of_a_suite_without_a_target_is_missing() -> None:
    files = ["test/lit.cfg.py", "test/a.mlir", "test/sub/b.ll", "test/Inputs/c.ll"]
    row = covered("lit build/x/test", [LIT], files=files)
    assert [d.files for d in row.differences if d.lost] == [("test/sub/b.ll",)]
    assert covered("lit build/x/test/sub", [LIT], files=files).status == MISSING


def test_a_suite_of_another_project_does_not_count() -> None:
    sample = replace(LIT, path="sample/test/a.mlir", suite="sample/test")
    run = "lit python/build/$(ls python/build)/test"
    row = covered(run, [sample], files=["sample/test/lit.cfg.py", "sample/test/a.mlir"])
    assert texts(row)[0] == "no `lit_tests` has the suite `test`"


@pytest.mark.parametrize(
    "run,status",
    [
        pytest.param("cd python/build/$(ls); ctest -j32 --output-on-failure", COVERED, id="folder"),
        pytest.param("ctest --test-dir python/build/x", COVERED, id="test-dir"),
        pytest.param("ctest -R x --test-dir python/build/x", DIFFERENTLY, id="selected"),
        pytest.param("X=1 ctest", MISSING, id="env"),
        pytest.param("ctest --test-dir other/build", MISSING, id="other project"),
    ],
)
def test_ctest(run: str, status: str) -> None:
    unit = DeclaredTest("python:unit", "gtest", "python", project="python")
    assert covered(run, [unit], job="runs-on: ubuntu-latest").status == status


@pytest.mark.parametrize(
    "run,folder",
    [
        ("pip install -e python", None),
        ("pip install -e ./python", "python"),
        ("cd python && pip install -v '.[tests]'", "python"),
        ("python3 -m pip install --no-build-isolation python/", "python"),
        ("cd python; python setup.py bdist_wheel", "python"),
        ("pip wheel -w dist ./python", "python"),
        ("python -m build python", "python"),
        ("cmake --build python/build", "python"),
        ("ninja -C python/build/cmake", "python"),
        ("cmake -S python -B x", "python"),
        ("make -C python all", "python"),
    ],
)
def test_builds(run: str, folder: str | None) -> None:
    package = DeclaredBuild("python:triton", "python", True)
    test = cuda(builds=("python:triton",))
    if folder is None:
        # A package of that name, from an index.
        with pytest.raises(ValueError):
            covered(run, [test], builds=[package])
        return
    assert texts(covered(run, [test], builds=[package])) in (
        [],
        ["packages of `tests`: locked resolves in their place"],
    )
    elsewhere = DeclaredBuild("other:triton", "other", True)
    assert covered(run, [test], builds=[elsewhere]).status == MISSING
    assert texts(covered(run, [], builds=[package])) == [
        "no test on cuda depends on python:triton, so that nothing builds it there"
    ]


def test_variables_of_builds() -> None:
    package = DeclaredBuild("//:t", "", True, (("TRITON_BUILD_WITH_O1", "0"),))
    row = covered(
        "MAX_JOBS=3 TRITON_BUILD_WITH_O1=1 TRITON_BUILD_PROTON=0 X=1 pip install .",
        [cuda(builds=("//:t",))],
        builds=[package],
    )
    assert texts(row) == [
        "MAX_JOBS: Pants' own parallelism in its place",
        "without TRITON_BUILD_PROTON=0",
        "TRITON_BUILD_WITH_O1 is 0, not 1",
    ]


# --- runners -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "runner,hardware,arch",
    [
        (Runner(("a100-runner-set",)), "cuda", "sm_80"),
        (Runner(("nvidia-gb200",)), "cuda", "sm_100"),
        (Runner(("self-hosted", "gfx90a")), "rocm", "gfx90a"),
        (Runner(("amd-mi325",)), "rocm", "gfx942"),
        (Runner(("amd-gfx950",)), "rocm", "gfx950"),
        (Runner(("macos-latest",)), "macos", ""),
        (Runner(("ubuntu-latest",), hints=("matrix-CUDA",)), "cpu", ""),
        (Runner(("ubuntu-latest",), "rocm/pytorch:1"), "rocm", ""),
        (Runner(("ubuntu-latest",), "x", "--gpus all"), "cuda", ""),
        (Runner(("${{ matrix.runner }}",), hints=("needs.p.outputs.matrix-NVIDIA",)), "cuda", ""),
        (Runner(("${{ matrix.runner }}",), hints=("integration-tests-amd",)), "rocm", ""),
        (Runner(("linux-amd64-gpu-h100-latest-1",)), "cuda", "sm_90"),
        (Runner(("ubuntu-24.04-amd64",)), "cpu", ""),
        (Runner(("linux_amd_mi300",)), "rocm", "gfx942"),
        (Runner(("self-hosted", "V100")), "cuda", "sm_70"),
        (Runner(("gpu_p100",)), "cuda", "sm_60"),
        (Runner(("gpu-t4",)), "cuda", "sm_75"),
        (Runner(("l4-x1",)), "cuda", "sm_89"),
        (Runner(("l40",)), "cuda", "sm_89"),
        (Runner(("aws-a10g",)), "cuda", "sm_86"),
        (Runner(("a30",)), "cuda", "sm_80"),
        (Runner(("h200",)), "cuda", "sm_90"),
        (Runner(("gb200",)), "cuda", "sm_100"),
        (Runner(("dgx-b200",)), "cuda", "sm_100"),
        (Runner(("windows-rtx4090",)), "cuda", ""),
        (Runner(("h100x8",)), "cuda", "sm_90"),
        (Runner(("linux-t4g-large",)), "cpu", ""),
        (Runner(("big-box",)), "", ""),
    ],
)
def test_hardware_of_runners(runner: Runner, hardware: str, arch: str) -> None:
    assert (runner_hardware(runner, {}), runner_arch(runner)) == (hardware, arch)


def test_a_runner_can_be_named() -> None:
    workflow = parse_workflow("on: push\njobs: {a: {runs-on: big, steps: [{run: pytest t}]}}", "w")
    workspace = Workspace((cuda(),), (), ("t/test_a.py",))
    (row,) = cover([workflow], workspace).rows
    assert texts(row) == ["which hardware big has is not known: say it with `--runners`"]
    assert cover([workflow], workspace, runners={"big": "cuda"}).failing == ()
    with pytest.raises(CoverageOptionError, match="`gpu`; known are cuda, rocm, macos, cpu"):
        cover([workflow], workspace, runners={"big": "gpu"})


# --- what isn't a test ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "run",
    [
        *("make test-unit", "ninja check-triton-lit-tests", "./x.sh", "bash x.sh", "frobnicate"),
        *("python x.py", "python -c 'import triton'", "find . -name 'test_*' -exec pytest {} +"),
        *(
            "ls | xargs pytest",
            "curl x | bash",
            "if x",
            "source x.sh",
            "cmake --build b --target check",
        ),
    ],
)
def test_what_is_not_understood_fails(run: str) -> None:
    row = covered(run)
    assert row.status == NOT_UNDERSTOOD
    assert row.reason


def test_what_is_allowed_passes_with_its_reason() -> None:
    workflow = parse_workflow(
        "on: push\njobs: {a: {runs-on: h100, steps: [{run: make docs}, {name: X, run: pytest t}]}}",
        "w",
    )
    empty = Workspace((), (), ())
    assert len(cover([workflow], empty).failing) == 2
    allowed = cover([workflow], empty, allow={"make d*": "built by hand", "a: X": "moved"})
    assert [(row.status, row.reason) for row in allowed.rows] == [
        ("allowed", "built by hand"),
        ("allowed", "moved"),
    ]
    with pytest.raises(CoverageOptionError, match="'make x' fits nothing"):
        cover([workflow], empty, allow={"make x": "?"})
    with pytest.raises(CoverageOptionError, match="has no reason"):
        cover([workflow], empty, allow={"make": " "})
    with pytest.raises(CoverageOptionError, match="allow all there is"):
        cover([workflow], empty, allow={"": "?"})


def test_actions() -> None:
    workflow = parse_workflow(
        """
        on: push
        jobs:
          a:
            runs-on: x
            steps:
              - uses: actions/cache/save@v4
              - uses: someone/unknown@v1
              - uses: ./.github/actions/setup
          b:
            uses: ./.github/workflows/other.yml
        """,
        "w",
    )
    assert [(row.status, row.reason) for row in cover([workflow], Workspace((), (), ())).rows] == [
        (REPLACED, "the remote cache; downloads are artifacts"),
        (NOT_UNDERSTOOD, "the action someone/unknown is not known"),
        (NOT_UNDERSTOOD, "what the action in .github/actions/setup does is not read"),
        (
            NOT_UNDERSTOOD,
            "it calls the workflow .github/workflows/other.yml: name that file with `--workflow` as "
            "well",
        ),
    ]


LATER = """
name: Integration Tests
on: {workflow_call: {inputs: {matrix: {type: string}}}}
jobs:
  integration-tests-nvidia:
    runs-on: ${{ matrix.runner }}
    strategy:
      matrix:
        runner: ${{ fromJson(inputs.matrix) }}
    env:
      RUNNER_TYPE: ${{ matrix.runner[0] }}
    steps:
      - uses: actions/checkout@v6
      - run: make test-lit
      - if: ${{ matrix.runner[0] == 'nvidia-gb200' }}
        run: make NUM_PROCS=24 test-unit
      - run: |
          cd python/test/unit
          python3 -m pytest -s -n 8 ${TESTS:-t}
"""


def test_a_workflow_of_a_later_generation() -> None:
    # The matrix comes from elsewhere, and most of the work is behind `make`.
    workspace = Workspace(
        (replace(cuda("python/test/unit/t/test_a.py"), workers=8),),
        (),
        ("python/test/unit/t/test_a.py",),
    )
    coverage = cover([parse_workflow(LATER, "ci.yml")], workspace)
    assert [(row.what, row.status, row.hardware) for row in coverage.rows[1:]] == [
        ("make test-lit", NOT_UNDERSTOOD, ""),
        ("make NUM_PROCS=24 test-unit", NOT_UNDERSTOOD, ""),
        ("python3 -m pytest -s -n 8 ${TESTS:-t}", COVERED, "cuda"),
    ]
    assert coverage.rows[1].reason == "what `make` runs is written elsewhere"
    # The way out: reasons for what is behind `make`, and the matrix, for who knows it.
    context = {"inputs.matrix": '[["nvidia-h100"], ["nvidia-gb200"]]'}
    known = cover(
        [parse_workflow(LATER, "ci.yml", context=context)],
        workspace,
        allow={"make *test-*": "compared with the Makefile by hand"},
    )
    assert known.failing == ()
    assert [row.runners for row in known.rows[1:]] == [
        ("nvidia-h100", "nvidia-gb200"),
        ("nvidia-gb200",),
        ("nvidia-h100", "nvidia-gb200"),
    ]


_TOKENS = st.sampled_from(
    [
        *(
            "pytest",
            "python -m pytest",
            "lit",
            "ctest",
            "pip install",
            ".",
            "t",
            "t/test_a.py::x",
            "-n 8",
        ),
        *(
            "-k a",
            "--ignore=t",
            "--forked",
            "X=1",
            "export X=2;",
            "cd t;",
            "if [ -d t ]; then",
            "fi",
            "||",
        ),
        *(
            "true",
            "&&",
            "$(ls)",
            "${X}",
            "${{ github.x }}",
            "'",
            "\n",
            "sudo",
            "bash -c",
            "|",
            "exit;",
        ),
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_TOKENS, max_size=12).map(" ".join))
def test_any_shell_has_rows(run: str) -> None:
    document = {"on": "push", "jobs": {"j": {"runs-on": "h100", "steps": [{"run": run}]}}}
    workspace = Workspace((cuda(), LIT), (), ("t/test_a.py", "test/lit.cfg.py"))
    coverage = cover([parse_workflow(json.dumps(document), "ci.yml")], workspace)
    assert coverage.rows
    assert render_table(coverage) and json.loads(render_json(coverage))["rows"]


_PARTS = st.one_of(
    st.sampled_from(["t", "/", "-", "--ignore=", "--ignore-glob=", "-k", "::x", ".py", "test_a", "*", "["]),
    st.sampled_from(["$X", "-k $X", "/", "", "t/test_a.py"]).map(Unknown),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["pytest", "lit", "ctest", "cmake", "ninja", "pip"]),
    st.lists(st.lists(_PARTS, max_size=4).map(join_words), max_size=4),
    st.lists(_PARTS, max_size=2).map(join_words),
)
def test_any_words_have_a_row(program: str, words: list[Word], folder: Word) -> None:
    command = Command((Word((program,)), *words), folder=path_from(ROOT, folder), text=program)
    step = Step("j", "s", 1, "", (StepRun(Runner(("h100",)), (), (command,)),))
    workspace = Workspace((cuda(), LIT), (), ("t/test_a.py", "test/lit.cfg.py"))
    (row,) = cover([Workflow("ci.yml", "", (step,))], workspace).rows
    # What counts as covered was compared.
    assert row.targets or row.differences or row.reason


# --- showing -------------------------------------------------------------------------------------


def test_json_has_all_that_the_table_has() -> None:
    shown = json.loads(render_json(seed_coverage()))
    assert shown["passes"] is True
    assert shown["counts"]["missing"] == 0
    (interpreter,) = [row for row in shown["rows"] if row["step"] == "Run interpreter tests"]
    assert interpreter["status"] == DIFFERENTLY
    assert interpreter["runners"] == ["h100-runner-set"]
    assert len(interpreter["targets"]) == 8
    assert interpreter["differences"] == [
        {"text": "runs on cpu, not on cuda (h100-runner-set)", "files": [], "lost": False}
    ]
    assert shown["also"] == ["third_party/proton/test/test_api.py:macos"]


def test_the_table_says_what_is_lost_and_the_way_out() -> None:
    table = render_table(seed_coverage(Workspace((), (), seed.FILES)))
    assert "    MISSING  423: python3 -m pytest -s -n 8 ./test_cast_matmul.py [rocm]\n" in table
    assert "lost: no target runs it on rocm (python/test/regression/test_cast_matmul.py)" in table
    assert "Declare targets for what is missing, or say by `--allow=" in table
    assert max(map(len, table.splitlines()[:-3])) <= 160
