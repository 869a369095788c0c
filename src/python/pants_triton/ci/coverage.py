"""Which of a workspace's targets now do what an old workflow did.

Each run of a test tool is compared with the targets that could take its place, file by file and for
each kind of hardware it ran on: *covered*; *differently*, with what differs; or *missing*, where
something that was tested no longer is. What is no test is *replaced*, and what isn't understood counts
as missing until someone allows it with a reason.

A difference makes a row missing where it takes something away (`lost`): a variable with another value,
a `-m` that selects less, an architecture that leaves a runner out. It doesn't where the target does the
same in another way, or more.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Iterable, Iterator, Mapping, Sequence

from pants_triton.ci.invocations import (
    Build,
    CTestRun,
    Invocation,
    LitRun,
    NotUnderstood,
    PytestArguments,
    PytestRun,
    Replaced,
    classify,
    classify_action,
    parse_pytest_arguments,
)
from pants_triton.ci.shell_lines import Command
from pants_triton.ci.shell_words import WORKSPACE, Word, join_words, path_from
from pants_triton.ci.unknown import Unknown
from pants_triton.ci.workflow_steps import Runner, Step, Workflow
from pants_triton.hardware.device import HARDWARE
from pants_triton.hardware.requirement import (
    Missing,
    RequirementError,
    match,
    parse_assumption,
    parse_requirement,
)

# --- what is declared ----------------------------------------------------------------------------


@dataclass(frozen=True)
class DeclaredTest:
    """A test target.

    :param tool: `pytest`, `lit` or `gtest`.
    :param path: its file, from the build root; for `gtest` the folder of its project.
    :param env: all variables that it runs with, those of `[test].extra_env_vars` included.
    :param args: for pytest, its own and `[pytest].args`.
    :param suite: for `lit`, the suite's folder.
    :param project: for `gtest`, the folder of the `cmake_project`.
    :param builds: the addresses of the `DeclaredBuild`s that it depends on.
    :param skipped: whether it is declared never to run (`skip_tests`).
    """

    address: str
    tool: str
    path: str
    hardware: str = "cpu"
    env: tuple[tuple[str, str], ...] = ()
    args: tuple[str, ...] = ()
    workers: int = 0
    isolated: bool = False
    arch: str | None = None
    devices: int | None = None
    suite: str = ""
    project: str = ""
    builds: tuple[str, ...] = ()
    skipped: bool = False


@dataclass(frozen=True)
class DeclaredBuild:
    """A `triton_package` or `cmake_output`.

    :param folder: of its BUILD file, empty for the root's.
    :param whole: whether it is all of Triton's package, rather than a part.
    :param env: of its `cmake_project`: the variables and the cache variables.
    """

    address: str
    folder: str
    whole: bool = False
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Workspace:
    """:param files: all files that could be tests, and the `lit.cfg.py` of suites, from the root."""

    tests: tuple[DeclaredTest, ...]
    builds: tuple[DeclaredBuild, ...]
    files: tuple[str, ...]


# --- what comes out ------------------------------------------------------------------------------

COVERED = "covered"
DIFFERENTLY = "covered differently"
MISSING = "missing"
REPLACED = "replaced"
NOT_UNDERSTOOD = "not understood"
ALLOWED = "allowed"
#: Of which there may be none.
FAILING = (MISSING, NOT_UNDERSTOOD)


@dataclass(frozen=True)
class Difference:
    """:param files: where it is found; empty where that goes without saying.
    :param lost: whether something that was tested no longer is.
    """

    text: str
    files: tuple[str, ...] = ()
    lost: bool = False


@dataclass(frozen=True)
class Row:
    """One run of a tool, or one purpose of a step that is no test.

    :param path: the workflow's file.
    :param what: the command on one line, or what the step is for.
    :param hardware: what it runs on; empty where that plays no part.
    :param runners: where the old workflow ran it.
    :param targets: the targets that do it now.
    :param reason: for `REPLACED`, what takes its place; for `NOT_UNDERSTOOD`, why; for `ALLOWED`, the
        reason that was given.
    """

    path: str
    job: str
    step: str
    line: int
    what: str
    status: str
    hardware: str = ""
    runners: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Coverage:
    """:param also: tests that no step of the old workflow ran in that way.
    :param taken: what was taken for given.
    """

    rows: tuple[Row, ...]
    also: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()

    @property
    def failing(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.status in FAILING)


class CoverageOptionError(ValueError):
    """An `--allow` has no reason or fits nothing, or `--runners` names unknown hardware."""


# --- hardware of a runner ------------------------------------------------------------------------

#: What a text about a runner says of its hardware; the first that is found counts.
RUNNER_HARDWARE: tuple[tuple[str, str], ...] = (
    # amd64 is an architecture of any maker's.
    (r"rocm|\bamd\b|[-_]amd(?!64)|amd[-_]|hip\b|gfx\d+|\bmi\d{3}|/dev/kfd|radeon|instinct", "rocm"),
    # t4 with another letter is a machine without a device.
    (
        r"cuda|nvidia|\bsm_\d+|--gpus|(?<![a-z\d])(?:rtx|g?[abh]b?\d00(?!\d)"
        r"|(?:[pv]100|a[134]0g?|l40?s?|t4)(?![a-wyz\d]))",
        "cuda",
    ),
    (r"macos|darwin|apple", "macos"),
    (r"ubuntu|linux|windows|cpu", "cpu"),
)
#: The architecture of a runner, where its name says it.
RUNNER_ARCH: tuple[tuple[str, str], ...] = (
    (r"a100", "sm_80"),
    (r"h[12]00", "sm_90"),
    (r"b200", "sm_100"),
    (r"(?<![a-z\d])p100\b", "sm_60"),
    (r"(?<![a-z\d])v100\b", "sm_70"),
    (r"\bt4\b", "sm_75"),
    (r"\ba30\b", "sm_80"),
    (r"\ba(?:10g?|40)\b", "sm_86"),
    (r"\bl4\b|\bl40s?\b", "sm_89"),
    (r"mi2[015]0x?", "gfx90a"),
    (r"mi3(00|25)[ax]?", "gfx942"),
    (r"mi35[05]x?", "gfx950"),
    (r"(gfx[0-9a-f]{3,4})", r"\1"),
    (r"(sm_\d+)", r"\1"),
)
_TRUE = frozenset({"1", "true", "on", "y", "yes"})


def runner_hardware(runner: Runner, named: Mapping[str, str]) -> str:
    """The hardware of a runner, empty where nothing says it.

    :param named: what a person says of labels: label -> hardware.
    """
    for label in runner.labels:
        if label in named:
            return named[label]
    container = f"{runner.image} {runner.options}"
    # An ordinary machine's label says less than a container that is given devices.
    *accelerators, plain = RUNNER_HARDWARE
    for texts, rules in (
        (runner.labels, accelerators),
        ((container,), accelerators),
        (runner.labels, [plain]),
        (runner.hints, accelerators),
    ):
        for pattern, hardware in rules:
            if any(re.search(pattern, text, re.IGNORECASE) for text in texts):
                return hardware
    return ""


def runner_arch(runner: Runner) -> str:
    """The architecture of a runner's devices, empty where its labels don't say it."""
    for label in runner.labels:
        for pattern, arch in RUNNER_ARCH:
            found = re.search(pattern, label, re.IGNORECASE)
            if found:
                return found.expand(arch)
    return ""


# --- variables -----------------------------------------------------------------------------------

#: Variables of builds; a test doesn't find them changed by being without.
BUILD_VARIABLES = (
    r"TRITON_BUILD_\w+|TRITON_USE_ASSERT_ENABLED_LLVM|TRITON_CODEGEN_\w+|TRITON_APPEND_CMAKE_ARGS"
    r"|TRITON_OFFLINE_BUILD|TRITON_WHEEL_\w+|TRITON_\w+_SYSPATH|LLVM_(BUILD|INCLUDE|LIBRARY|SYSPATH)\w*"
    r"|MAX_JOBS|CMAKE_\w+|CC|CXX|CFLAGS|CXXFLAGS|LDFLAGS|CUDA_HOME|CUDA_PATH|ROCM_PATH|ROCM_HOME"
    r"|CCACHE_\w+|SCCACHE_\w+|MACOSX_DEPLOYMENT_TARGET|DEBUG|REL_WITH_DEB_INFO"
)
#: Variables of builds that have nothing left to say, and why.
REPLACED_BUILD_VARIABLES = {
    r"TRITON_BUILD_WITH_CCACHE|CCACHE_\w+|SCCACHE_\w+": "the remote cache",
    r"MAX_JOBS|CMAKE_BUILD_PARALLEL_LEVEL": "Pants' own parallelism",
    r"CUDA_HOME|CUDA_PATH|ROCM_PATH|ROCM_HOME": "artifacts",
}
#: Variables of tests that the rules of `triton_tests` set, or that say nothing to a test.
REPLACED_TEST_VARIABLES = (
    r"TRITON_HOME|TRITON_CACHE_DIR|HOME|TMPDIR|XDG_\w+|CUDA_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES"
    r"|ROCR_VISIBLE_DEVICES|PATH|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH|PYTHONPATH|VIRTUAL_ENV|PIP_\w+|UV_\w+"
    r"|\w*_TOKEN|GITHUB_\w+|RUNNER_\w+|ACTIONS_\w+|CI|FORCE_COLOR|PY_COLORS|PYTHONUNBUFFERED"
    r"|PYTEST_ADDOPTS|NUM_PROCS|PYTEST_XDIST_AUTO_NUM_WORKERS|DEBIAN_FRONTEND|LC_\w+|LANG"
)


def _relevant(command: Command, invocation: Invocation) -> tuple[tuple[str, Word], ...]:
    """The variables that make runs of one line on different runners different runs."""
    if isinstance(invocation, Build):
        return tuple(v for v in command.environment if re.fullmatch(BUILD_VARIABLES, v[0]))
    return tuple(_test_variables(command).items())


def _test_variables(command: Command) -> dict[str, Word]:
    return {
        name: value
        for name, value in command.environment
        if not re.fullmatch(f"{BUILD_VARIABLES}|{REPLACED_TEST_VARIABLES}", name)
    }


# --- comparing -----------------------------------------------------------------------------------


@dataclass
class _Run:
    """One run of a tool on one kind of hardware, over all runners of that kind."""

    step: Step
    command: Command
    invocation: Invocation
    hardware: str
    runners: list[Runner] = field(default_factory=list)
    # None once it ran somewhere without a condition.
    conditions: list[tuple[str, ...]] = field(default_factory=list)
    may_fail: bool = False


def cover(
    workflows: Sequence[Workflow],
    workspace: Workspace,
    *,
    runners: Mapping[str, str] | None = None,
    allow: Mapping[str, str] | None = None,
) -> Coverage:
    """Compare workflows with what a workspace declares.

    :param runners: the hardware of runners whose labels don't say it: label -> hardware.
    :param allow: reasons to let a row pass that would fail: part of what it runs, or of the name of
        its step, or a glob for either -> reason.
    :raises CoverageOptionError: one has no reason or fits no row that fails, or hardware is unknown.
    """
    named = dict(runners or {})
    wrong = sorted(set(named.values()) - set(HARDWARE))
    if wrong:
        raise CoverageOptionError(
            f"A runner has the hardware `{wrong[0]}`; known are {', '.join(HARDWARE)}."
        )
    rows: list[Row] = []
    read = {workflow.path for workflow in workflows}
    for workflow in workflows:
        comparison = _Comparison(workspace, workflow.path, _building_jobs(workflow), read)
        for step in workflow.steps:
            rows += _rows_of_step(step, comparison, named)
    rows = _allowed(rows, dict(allow or {}))
    used = {target for row in rows for target in row.targets}
    also = tuple(
        sorted(t.address for t in workspace.tests if t.address not in used and not t.skipped)
    )
    return Coverage(tuple(rows), also, tuple(taken for w in workflows for taken in w.taken))


def _building_jobs(workflow: Workflow) -> frozenset[str]:
    """The jobs that build Triton before they test it."""
    return frozenset(
        step.job
        for step in workflow.steps
        for run in step.runs
        for command in run.commands
        if any(isinstance(invocation, Build) for _, invocation in classify(command))
    )


def _rows_of_step(step: Step, comparison: "_Comparison", named: Mapping[str, str]) -> Iterator[Row]:
    if not step.runs:
        never = "it never ran: its condition is never true"
        yield comparison.other(step, step.line, step.uses or "all of it", REPLACED, never)
        return
    if step.uses:
        yield comparison.action(step)
        return
    for error in dict.fromkeys(run.error for run in step.runs if run.error):
        yield comparison.other(step, step.line, "all of it", NOT_UNDERSTOOD, error)
    runs: dict[tuple[object, ...], _Run] = {}
    others: dict[tuple[str, str], int] = {}
    for step_run in step.runs:
        for command in step_run.commands:
            for own, invocation in classify(command):
                if isinstance(invocation, Replaced):
                    if invocation.by != "nothing has to":
                        others.setdefault((invocation.purpose, invocation.by), own.line)
                    continue
                if isinstance(invocation, NotUnderstood):
                    key: tuple[object, ...] = (own.line, own.text)
                    hardware = ""
                else:
                    hardware = _hardware(step_run.runner, own, invocation, named)
                    key = (own.line, own.text, invocation, _relevant(own, invocation), hardware)
                run = runs.setdefault(key, _Run(step, own, invocation, hardware))
                if step_run.runner not in run.runners:
                    run.runners.append(step_run.runner)
                run.conditions.append(step_run.conditions + own.conditions)
                run.may_fail = run.may_fail or own.may_fail
    for (purpose, by), line in others.items():
        yield comparison.other(step, line, purpose, REPLACED, by)
    if not runs and not others and not any(run.error for run in step.runs):
        purpose = "what the shell does for itself"
        yield comparison.other(step, step.line, purpose, REPLACED, "nothing has to")
    for run in runs.values():
        yield comparison.row(run)


def _hardware(
    runner: Runner, command: Command, invocation: Invocation, named: Mapping[str, str]
) -> str:
    if isinstance(invocation, (LitRun, CTestRun)):
        # They use no device, so one run of them is as good as on any other machine.
        return "cpu"
    if isinstance(invocation, PytestRun):
        interpreter = command.variables.get("TRITON_INTERPRET")
        if interpreter is not None and interpreter.text.lower() in _TRUE:
            return "cpu"
        if "--device cpu" in invocation.arguments.others:
            return "cpu"
    return runner_hardware(runner, named)


class _Comparison:
    def __init__(
        self,
        workspace: Workspace,
        path: str,
        building_jobs: frozenset[str],
        read: Iterable[str],
    ) -> None:
        self.workspace = workspace
        self.path = path
        self.read = frozenset(read)
        self.building_jobs = building_jobs
        self.by_path: dict[tuple[str, str], list[DeclaredTest]] = defaultdict(list)
        for test in workspace.tests:
            if test.tool == "pytest" and not test.skipped:
                self.by_path[test.path, test.hardware].append(test)
        self.python_files = sorted(
            {f for f in workspace.files if _is_pytest_file(f)}
            | {t.path for t in workspace.tests if t.tool == "pytest" and _is_pytest_file(t.path)}
        )

    def other(self, step: Step, line: int, what: str, status: str, reason: str) -> Row:
        """The row of something that is no run of a tool."""
        return Row(self.path, step.job, step.name, line, what, status, reason=reason)

    def action(self, step: Step) -> Row:
        """The row of a step that uses an action, or of a job that calls a workflow."""
        invocation = classify_action(step.uses)
        if os.path.normpath(step.uses) in self.read:
            invocation = Replaced(f"calling {step.uses}", "compared as a workflow of its own")
        if isinstance(invocation, Replaced):
            return self.other(step, step.line, invocation.purpose, REPLACED, invocation.by)
        assert isinstance(invocation, NotUnderstood)
        return self.other(step, step.line, step.uses, NOT_UNDERSTOOD, invocation.why)

    def row(self, run: _Run) -> Row:
        invocation = run.invocation
        if isinstance(invocation, NotUnderstood):
            return self.finished(run, (), [], NOT_UNDERSTOOD, invocation.why)
        found: list[Difference] = []
        targets: list[str] = []
        if not run.hardware:
            runner = ", ".join(map(str, run.runners))
            found.append(
                Difference(
                    f"which hardware {runner} has is not known: say it with `--runners`", lost=True
                )
            )
        elif isinstance(invocation, PytestRun):
            self.pytest(run, invocation, targets, found)
        elif isinstance(invocation, LitRun):
            self.lit(run, invocation, targets, found)
        elif isinstance(invocation, CTestRun):
            self.ctest(run, invocation, targets, found)
        elif isinstance(invocation, Build):
            self.build(run, invocation, targets, found)
        found += _differences_of_place(run)
        return self.finished(run, targets, found)

    def finished(
        self,
        run: _Run,
        targets: Sequence[str],
        found: Sequence[Difference],
        status: str = "",
        reason: str = "",
    ) -> Row:
        if not status:
            lost = any(difference.lost for difference in found)
            status = MISSING if lost else DIFFERENTLY if found else COVERED
        return Row(
            path=self.path,
            job=run.step.job,
            step=run.step.name,
            line=run.command.line,
            what=run.command.text,
            status=status,
            hardware=run.hardware,
            runners=tuple(dict.fromkeys(map(str, run.runners))),
            targets=tuple(dict.fromkeys(targets)),
            differences=_merged(found),
            reason=reason,
        )

    # pytest

    def pytest(
        self, run: _Run, invocation: PytestRun, targets: list[str], found: list[Difference]
    ) -> None:
        arguments = invocation.arguments
        for selected in self.selected(invocation, found):
            candidates = self.by_path.get((selected.path, run.hardware), [])
            if not candidates:
                found.append(self.no_target(run, selected))
                continue
            compared = [
                (_compare_pytest(run, arguments, selected, test), test) for test in candidates
            ]
            differences, best = min(compared, key=_badness)
            targets.append(best.address)
            found += differences
            if run.step.job in self.building_jobs and not best.builds:
                found.append(Difference("tests no Triton that is built here", (best.path,)))

    def no_target(self, run: _Run, selected: "_Selected") -> Difference:
        elsewhere = sorted(
            {t.hardware for t in self.workspace.tests if t.path == selected.path and not t.skipped}
        )
        skipped = [t.address for t in self.workspace.tests if t.path == selected.path and t.skipped]
        text = f"no target runs it on {run.hardware}"
        if elsewhere:
            text += f" (only on {', '.join(elsewhere)})"
        elif skipped:
            text += " (its target has `skip_tests`)"
        elif not selected.exists:
            text = "no such file in this checkout"
        return Difference(text, (selected.path,), lost=True)

    def selected(self, invocation: PytestRun, found: list[Difference]) -> Iterator["_Selected"]:
        """The files that a command line selects, each with its node ids."""
        arguments = invocation.arguments
        # An unknown selection may be all, but an unknown exclusion is none: what is left out here by
        # mistake is a test that nobody asks for.
        excluded: dict[str, list[str]] = {"--ignore": [], "--ignore-glob": []}
        for option, words in zip(excluded, (arguments.ignores, arguments.ignore_globs)):
            for word in words:
                left_out = path_from(invocation.folder, word).known
                if left_out is None:
                    found.append(Difference(f"what `{option}={word}` leaves out is not known"))
                elif word.text:
                    excluded[option].append(left_out)

        def is_ignored(path: str) -> bool:
            return any(_is_below(path, ignored) for ignored in excluded["--ignore"]) or any(
                fnmatch.fnmatchcase(path, glob) for glob in excluded["--ignore-glob"]
            )

        nodes: dict[str, set[Word]] = defaultdict(set)
        for word in arguments.paths or (Word((".",)),):
            path_word, node = _split_node(word)
            path = path_from(invocation.folder, path_word)
            if not any(isinstance(part, str) and part.strip("/.") for part in path.parts) and any(
                isinstance(part, Unknown) for part in path.parts
            ):
                found.append(Difference(f"which tests `{word}` names is not known", lost=True))
                continue
            files = self.files_of(path)
            kept = [file for file in files if not is_ignored(file)]
            for file in kept:
                nodes[file].add(node)
            if files and not kept:
                # pytest fails where it finds no test, so that this isn't what was meant.
                found.append(
                    Difference("`--ignore` leaves out all that it names", (path.text,), lost=True)
                )
            if not files:
                found.append(
                    Difference(
                        f"no test file is in {path.text} in this checkout", (path.text,), lost=True
                    )
                )
        for file, its_nodes in nodes.items():
            whole = any(not node.text for node in its_nodes)
            names = () if whole else tuple(sorted(its_nodes, key=lambda node: node.text))
            yield _Selected(file, names, file in self.workspace.files)

    def files_of(self, path: Word) -> list[str]:
        glob = path.glob
        if glob.endswith(".py"):
            if "*" not in glob:
                return [glob]
            return [file for file in self.python_files if fnmatch.fnmatchcase(file, glob)]
        prefix = "" if glob == "." else f"{glob}/"
        return [
            file
            for file in self.python_files
            if (
                fnmatch.fnmatchcase(file, glob) or fnmatch.fnmatchcase(file, f"{glob}/*")
                if "*" in glob
                else file.startswith(prefix)
            )
            and not _NORECURSE.search(file[len(prefix) :] if "*" not in glob else "")
        ]

    # lit

    def lit(
        self, run: _Run, invocation: LitRun, targets: list[str], found: list[Difference]
    ) -> None:
        for path in invocation.paths:
            wanted = _in_build_folder(path)
            places = [
                (suite, folder)
                for suite, folder in self.places_in_suites(wanted)
                # Another project's suite may have the same name.
                if _same_tree(os.path.dirname(suite), _source_folder(path))
            ]
            if not any([self.lit_suite(run, *place, targets, found) for place in places]):
                named = wanted or path.text
                found.append(Difference(f"no `lit_tests` has the suite `{named}`", lost=True))
        if not invocation.paths:
            found.append(Difference("it names no suite", lost=True))
        for other in invocation.others:
            found.append(Difference(f"runs all, not only what `{other}` selects"))

    def places_in_suites(self, wanted: str) -> list[tuple[str, str]]:
        """The suites that a path ends with, and the folders in them that it names: `x/test` and
        `x/test/Analysis` for `test/Analysis`."""
        suites = self.suites()
        if not wanted:
            return [(suite, suite) for suite in suites]
        names = wanted.split("/")
        # A build folder is often one more below `build`: build/cmake.linux-x86_64/test.
        for start in range(min(len(names), 2)):
            for stop in range(len(names), start, -1):
                end, below = "/".join(names[start:stop]), "/".join(names[stop:])
                places = [(s, f"{s}/{below}".rstrip("/")) for s in suites if _ends_with(s, end)]
                if places:
                    return places
        return []

    def suites(self) -> list[str]:
        """The folders with a `lit.cfg.py`, and those that targets name."""
        configured = {
            os.path.dirname(f)
            for f in self.workspace.files
            if os.path.basename(f) in ("lit.cfg.py", "lit.cfg")
        }
        return sorted(configured | {t.suite for t in self.workspace.tests if t.tool == "lit"})

    def lit_suite(
        self, run: _Run, suite: str, folder: str, targets: list[str], found: list[Difference]
    ) -> bool:
        tests = [
            t
            for t in self.workspace.tests
            if t.tool == "lit" and t.suite == suite and _is_below(t.path, folder)
        ]
        running = [t for t in tests if not t.skipped]
        files = {f for f in self.workspace.files if _is_lit_file(f) and _is_below(f, folder)}
        if not running and not files:
            return False
        targets += [t.address for t in running]
        for file in sorted(files - {t.path for t in running}):
            found.append(Difference("no target runs it", (file,), lost=True))
        for test in running:
            if test.hardware != "cpu":
                found.append(Difference(f"runs on {test.hardware} only", (test.path,), lost=True))
            # lit hands few variables on, so only a `lit.cfg.py` could miss one.
            found += [Difference(d.text, (test.path,)) for d in _compare_env(run.command, test)]
        return True

    # CTest

    def ctest(
        self, run: _Run, invocation: CTestRun, targets: list[str], found: list[Difference]
    ) -> None:
        tests = [t for t in self.workspace.tests if t.tool == "gtest" and not t.skipped]
        near = [t for t in tests if _same_tree(t.project, _source_folder(invocation.folder))]
        if not near:
            found.append(Difference("no `gtest_tests` runs the project's programs", lost=True))
            return
        compared = [(_compare_env(run.command, test), test) for test in near]
        differences, best = min(compared, key=_badness)
        targets.append(best.address)
        found += [Difference(d.text, (), d.lost) for d in differences]
        for other in invocation.others:
            found.append(Difference(f"runs all, not only what `{other}` selects"))

    # Builds

    def build(
        self, run: _Run, invocation: Build, targets: list[str], found: list[Difference]
    ) -> None:
        folder = _source_folder(invocation.folder)
        near = [b for b in self.workspace.builds if _same_tree(b.folder, folder)]
        if not near:
            found.append(
                Difference(f"no `triton_package` or `cmake_output` builds {folder}", lost=True)
            )
            return
        used = {
            address
            for test in self.workspace.tests
            if test.hardware == run.hardware and not test.skipped
            for address in test.builds
        }
        in_use = [b for b in near if b.address in used]
        if not in_use:
            addresses = ", ".join(b.address for b in near)
            found.append(
                Difference(
                    f"no test on {run.hardware} depends on {addresses}, so that nothing builds it there",
                    lost=True,
                )
            )
            return
        whole = [b for b in in_use if b.whole]
        if not whole:
            found.append(Difference("builds parts, but no `triton_package`", lost=True))
        targets += [b.address for b in whole or in_use]
        declared = {name: value for b in whole or in_use for name, value in b.env}
        for name, value in run.command.environment:
            if not re.fullmatch(BUILD_VARIABLES, name):
                continue
            replaced = next(
                (by for p, by in REPLACED_BUILD_VARIABLES.items() if re.fullmatch(p, name)), None
            )
            if replaced is not None:
                found.append(Difference(f"{name}: {replaced} in its place"))
            elif name not in declared:
                found.append(Difference(f"without {name}={value}"))
            elif declared[name] != value.text:
                found.append(Difference(f"{name} is {declared[name]}, not {value}"))
        if invocation.extras:
            extras = ", ".join(invocation.extras)
            found.append(Difference(f"packages of `{extras}`: locked resolves in their place"))


@dataclass(frozen=True)
class _Selected:
    path: str
    nodes: tuple[Word, ...]
    exists: bool


def _badness(compared: tuple[Sequence[Difference], DeclaredTest]) -> tuple[int, int, str]:
    differences, test = compared
    return sum(d.lost for d in differences), len(differences), test.address


def _merged(found: Iterable[Difference]) -> tuple[Difference, ...]:
    """The same difference of several files as one; what is lost comes first."""
    files: dict[tuple[bool, str], list[str]] = defaultdict(list)
    for difference in found:
        kept = files[not difference.lost, difference.text]
        kept += [file for file in difference.files if file not in kept]
    return tuple(
        Difference(text, tuple(its_files), not kept)
        for (kept, text), its_files in sorted(files.items(), key=lambda item: item[0][0])
    )


def _differences_of_place(run: _Run) -> Iterator[Difference]:
    kinds = {runner_hardware(runner, {}) for runner in run.runners} - {""}
    if run.hardware and kinds and kinds != {run.hardware}:
        runners = ", ".join(dict.fromkeys(map(str, run.runners)))
        yield Difference(f"runs on {run.hardware}, not on {', '.join(sorted(kinds))} ({runners})")
    if all(run.conditions):
        shown = dict.fromkeys("; ".join(conditions) for conditions in run.conditions)
        yield Difference(f"runs always, not only {' / '.join(shown)}")
    if run.may_fail or run.step.may_fail:
        yield Difference("its failure counts, which was passed over")


def _compare_pytest(
    run: _Run, old: PytestArguments, selected: _Selected, test: DeclaredTest
) -> list[Difference]:
    path = (selected.path,)
    new = parse_pytest_arguments(Word((argument,)) for argument in test.args)
    found = [Difference(d.text, path, d.lost) for d in _compare_env(run.command, test)]
    found += _compare_selection("-m", old.markers, new.markers, path)
    if selected.nodes:
        found += _compare_nodes(selected, old.keyword, new.keyword)
    else:
        found += _compare_selection("-k", old.keyword, new.keyword, path)
    for word in new.ignores:
        found.append(Difference(f"`--ignore={word}` may leave it out", path, lost=True))
    old_workers, new_workers = old.workers or "0", str(test.workers)
    if old_workers != new_workers:
        found.append(Difference(f"{_workers(new_workers)}, not {_workers(old_workers)}", path))
    if old.isolated != (test.isolated or new.isolated):
        text = "each test in a process of its own"
        found.append(Difference(f"not {text}" if old.isolated else text, path))
    for other in sorted(set(old.others) - set(new.others)):
        found.append(Difference(f"without `{other}`", path))
    for other in sorted(set(new.others) - set(old.others)):
        lost = other.startswith("--deselect")
        found.append(Difference(f"with `{other}` besides", path, lost=lost))
    if test.devices is not None and test.devices > 1:
        found.append(Difference(f"on {test.devices} devices at once", path))
    return found + _compare_arch(run, test)


def _workers(count: str) -> str:
    if count == "0":
        return "one process"
    return f"{count} worker processes" if count != "1" else "1 worker process"


def _compare_selection(option: str, old: str, new: str, files: tuple[str, ...]) -> list[Difference]:
    if _plain_expression(old) == _plain_expression(new):
        return []
    if not new:
        return [Difference(f"runs all, not only `{option} {old}`", files)]
    if not old:
        return [Difference(f"only `{option} {new}`", files, lost=True)]
    return [Difference(f"`{option} {new}`, not `{option} {old}`", files, lost=True)]


def _compare_nodes(selected: _Selected, keyword: str, new_keyword: str) -> list[Difference]:
    """Node ids become a `-k`, or the whole file."""
    path = (selected.path,)
    names = ", ".join(f"::{node}" for node in selected.nodes)
    if not new_keyword:
        return [Difference(f"runs the whole file, not only {names}", path)]
    if keyword and _plain_expression(keyword) == _plain_expression(new_keyword):
        return []
    # Words joined by `and` select at least the tests whose ids hold all of them.
    words = re.split(r"\s+and\s+", _plain_expression(new_keyword))
    if all(
        re.fullmatch(r"[\w.\[\]-]+", word) and word.lower() in node.glob.lower()
        for node in selected.nodes
        for word in words
    ):
        return []
    return [Difference(f"`-k {new_keyword}`, not {names}", path, lost=True)]


def _plain_expression(text: str) -> str:
    text = " ".join(text.split())
    while text.startswith("(") and text.endswith(")") and text.count("(") == 1:
        text = text[1:-1].strip()
    return text


def _compare_env(command: Command, test: DeclaredTest) -> list[Difference]:
    found = []
    declared = dict(test.env)
    wanted = _test_variables(command)
    for name, value in sorted(wanted.items()):
        given = declared.get(name)
        if given == value.text:
            continue
        if given is None:
            # An empty variable and none are one thing to most readers.
            if value.text:
                found.append(Difference(f"without {name}={value}", lost=True))
        elif value.known is None:
            # A path that only the run knew: its end is what can be compared.
            end = value.parts[-1]
            same_file = isinstance(end, str) and _same_name(given, end)
            found.append(Difference(f"{name}={given}, where it was {value}", lost=not same_file))
        elif value.text.startswith(WORKSPACE) and given.startswith("{chroot}"):
            # What a build left in the checkout is elsewhere in a sandbox, under the same name.
            same_file = _same_name(given, value.text)
            found.append(Difference(f"{name}={given}, where it was {value}", lost=not same_file))
        else:
            found.append(Difference(f"{name}={given}, not {value}", lost=True))
    for name in sorted(set(declared) - set(wanted)):
        if name not in command.variables or command.variables[name].text != declared[name]:
            found.append(Difference(f"also sets {name}={declared[name]}"))
    return found


def _same_name(one: str, other: str) -> bool:
    name = os.path.basename(one)
    return bool(name) and name == os.path.basename(other)


def _compare_arch(run: _Run, test: DeclaredTest) -> list[Difference]:
    if test.arch is None:
        return []
    path = (test.path,)
    found = []
    for runner in run.runners:
        arch = runner_arch(runner)
        if not arch:
            found.append(Difference(f"only on {test.arch}", path))
            continue
        try:
            host = parse_assumption(f"{test.hardware}:{arch}")
            requirement = parse_requirement(test.hardware, test.arch)
        except RequirementError:
            found.append(Difference(f"only on {test.arch}", path))
            continue
        if isinstance(match(requirement, host), Missing):
            found.append(
                Difference(f"only on {test.arch}, so not on {runner} ({arch})", path, lost=True)
            )
    return found


# --- paths ---------------------------------------------------------------------------------------

# pytest's default `norecursedirs`, in the folders below the one that was named.
_NORECURSE = re.compile(r"(?:^|/)(?:\.[^/]*|build|dist|node_modules|venv|CVS|_darcs|[^/]*\.egg)/")


def _is_pytest_file(path: str) -> bool:
    """By pytest's default `python_files`."""
    name = os.path.basename(path)
    return bool(re.fullmatch(r"test_.*\.py|.*_test\.py", name))


def _is_lit_file(path: str) -> bool:
    """By the default `sources` of `lit_tests`."""
    return path.endswith((".mlir", ".ll", ".test")) and "/Inputs/" not in path


def _is_below(path: str, folder: str) -> bool:
    return folder in ("", ".") or path == folder or path.startswith(f"{folder}/")


def _split_node(word: Word) -> tuple[Word, Word]:
    """A path and the node id behind its `::`, empty without."""
    for i, part in enumerate(word.parts):
        if isinstance(part, str) and "::" in part:
            before, _, after = part.partition("::")
            kept = (*word.parts[:i], before) if before else word.parts[:i]
            return Word(kept), join_words([after, *word.parts[i + 1 :]])
    return word, Word(())


def _in_build_folder(path: Word) -> str:
    """The path of a suite in the build folder, which mirrors that of the sources.

    The build folder ends with the last unknown part, or with the name `build`.
    """
    unknown = [i for i, part in enumerate(path.parts) if isinstance(part, Unknown)]
    if unknown:
        return "".join(map(str, path.parts[unknown[-1] + 1 :])).strip("/")
    return re.sub(r"^(?:.*/)?(?:build|cmake-build-[^/]*)/", "", f"{path.text}/").strip("/")


def _source_folder(path: Word) -> str:
    """The folder of the sources that a build folder or a path belongs to."""
    text = "".join(p if isinstance(p, str) else "*" for p in path.parts).strip("/")
    head = re.split(r"(?:^|/)(?:build|cmake-build-[^/]*|\*)(?:/|$)", text)[0]
    return head or "."


def _same_tree(declared: str, folder: str) -> bool:
    """Whether one folder is the other or holds it: a project's BUILD file may be above its `python`."""
    a, b = declared.strip("/") or ".", folder.strip("/") or "."
    return _is_below(a, b) or _is_below(b, a)


def _ends_with(path: str, end: str) -> bool:
    return path == end or (bool(end) and path.endswith(f"/{end}"))


# --- what someone allows -------------------------------------------------------------------------


def _allowed(rows: Sequence[Row], allow: Mapping[str, str]) -> list[Row]:
    for what, reason in allow.items():
        if not reason.strip():
            raise CoverageOptionError(
                f"`--allow` for {what!r} has no reason: say why it isn't needed."
            )
        if not what.strip():
            raise CoverageOptionError("`--allow` for an empty text would allow all there is.")
    used = set()
    result = []
    for row in rows:
        if row.status in FAILING:
            for what, reason in allow.items():
                if _fits(what, row):
                    used.add(what)
                    row = replace(row, status=ALLOWED, reason=reason)
                    break
        result.append(row)
    unused = [what for what in allow if what not in used]
    if unused:
        raise CoverageOptionError(
            f"`--allow` for {unused[0]!r} fits nothing that is missing or not understood: remove it."
        )
    return result


def _fits(what: str, row: Row) -> bool:
    texts = (row.what, row.step, f"{row.job}: {row.step}")
    return any(what in text or fnmatch.fnmatchcase(text, what) for text in texts)
