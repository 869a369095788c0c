"""Change one thing in what is declared, and see whether the comparison notices.

For tests and for `build-support/bench/coverage_mutations`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Collection, Iterator, Sequence

from pants_triton.ci.coverage import (
    COVERED,
    DIFFERENTLY,
    FAILING,
    Coverage,
    DeclaredBuild,
    DeclaredTest,
    Workspace,
    cover,
)
from pants_triton.ci.workflow_steps import Workflow

_OTHER_HARDWARE = {"cuda": "rocm", "rocm": "cuda", "cpu": "cuda", "macos": "cpu"}
# That no runner of the seed has.
_OTHER_ARCH = {"cuda": "sm_120", "rocm": "gfx1100"}


@dataclass(frozen=True)
class Mutant:
    """:param kind: what is done, the same for all mutants of a kind.
    :param what: to which target.
    """

    kind: str
    what: str
    workspace: Workspace


@dataclass(frozen=True)
class Score:
    caught: tuple[Mutant, ...]
    survivors: tuple[Mutant, ...]


def mutants(workspace: Workspace, free: Collection[str] = ()) -> Iterator[Mutant]:
    """All workspaces that differ from this one by one change for the worse, or in one setting.

    :param free: addresses of tests whose settings may be any, since nothing ran them before; they may
        be needed all the same, as what builds Triton on their hardware.
    """
    for index, test in enumerate(workspace.tests):
        others = workspace.tests[:index], workspace.tests[index + 1 :]
        yield Mutant(
            "target removed", test.address, replace(workspace, tests=(*others[0], *others[1]))
        )
        for kind, mutated in _test_mutants(test, test.address in free):
            tests = (*others[0], mutated, *others[1])
            yield Mutant(kind, test.address, replace(workspace, tests=tests))
    for file in _unowned_files(workspace):
        files = (*workspace.files, file)
        yield Mutant("file without a target", file, replace(workspace, files=files))
    for test in _unexcluded(workspace):
        tests = (*workspace.tests, test)
        yield Mutant("exclusion removed", test.address, replace(workspace, tests=tests))
    for index, build in enumerate(workspace.builds):
        # The parts come with the package; alone they are nothing that the old workflow built.
        if not build.whole:
            continue
        others_ = (*workspace.builds[:index], *workspace.builds[index + 1 :])
        yield Mutant("build removed", build.address, replace(workspace, builds=others_))
        for kind, mutated_build in _build_mutants(build):
            yield Mutant(kind, build.address, replace(workspace, builds=(*others_, mutated_build)))


def _test_mutants(test: DeclaredTest, is_free: bool) -> Iterator[tuple[str, DeclaredTest]]:
    yield "skip_tests", replace(test, skipped=True)
    if test.tool == "pytest":
        yield "no build", replace(test, builds=())
    if is_free:
        return
    for kind, env in _env_mutants(test.env):
        yield kind, replace(test, env=env)
    if test.tool != "gtest":
        yield "other hardware", replace(test, hardware=_OTHER_HARDWARE[test.hardware])
    if test.tool != "pytest":
        return
    yield "more workers", replace(test, workers=test.workers + 1)
    yield "isolated or not", replace(test, isolated=not test.isolated)
    yield "devices", replace(test, devices=2)
    if test.hardware in _OTHER_ARCH:
        yield "other arch", replace(test, arch=_OTHER_ARCH[test.hardware])
    for added in (("--deselect=x",), ("--ignore=x",), ("-m", "slow"), ("-k", "other"), ("--new",)):
        yield f"`{added[0].split('=')[0]}` added", replace(test, args=(*test.args, *added))
    for start in range(0, len(test.args), 2):
        option, value = test.args[start : start + 2]
        rest = test.args[:start], test.args[start + 2 :]
        yield f"`{option}` removed", replace(test, args=(*rest[0], *rest[1]))
        other = (option, f"{value}_other")
        yield f"`{option}` changed", replace(test, args=(*rest[0], *other, *rest[1]))


def _build_mutants(build: DeclaredBuild) -> Iterator[tuple[str, DeclaredBuild]]:
    yield "only a part built", replace(build, whole=False)
    yield "build elsewhere", replace(build, folder="elsewhere")
    for index, (name, value) in enumerate(build.env):
        rest = build.env[:index], build.env[index + 1 :]
        yield "build variable removed", replace(build, env=(*rest[0], *rest[1]))
        changed = (name, f"{value}x")
        yield "build variable changed", replace(build, env=(*rest[0], changed, *rest[1]))


def _env_mutants(
    env: tuple[tuple[str, str], ...]
) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    yield "variable added", (*env, ("NEW", "1"))
    for index, (name, value) in enumerate(env):
        rest = env[:index], env[index + 1 :]
        yield "variable removed", (*rest[0], *rest[1])
        yield "variable changed", (*rest[0], (name, f"{value}x"), *rest[1])


def _unowned_files(workspace: Workspace) -> Iterator[str]:
    """New tests in folders that the old workflow named as a whole, which no target's sources have."""
    yield "python/test/unit/language/test_new.py"
    yield "python/test/unit/test_new.py"
    yield "python/test/regression/test_new.py"
    yield "third_party/proton/test/new_test.py"
    yield "test/Conversion/new.mlir"


def _unexcluded(workspace: Workspace) -> Iterator[DeclaredTest]:
    """The targets that come into being where a `!file` is taken out of the common target's sources."""
    common = next(t for t in workspace.tests if t.address.endswith("language/test_core.py:../cuda"))
    for file in ("hopper/test_flashattention.py", "language/test_line_info.py", "test_debug.py"):
        path = f"python/test/unit/{file}"
        if file != "hopper/test_flashattention.py":
            yield replace(common, address=f"{path}:cuda", path=path)
        # The same way to run it but for the workers.
        yield replace(common, address=f"{path}:cuda8", path=path)


def score(workflows: Sequence[Workflow], workspace: Workspace) -> Score:
    """Which mutants of a workspace the comparison notices: a row got worse, or says something new, or a
    test is listed as one that nothing ran before."""
    baseline = cover(workflows, workspace)
    caught: list[Mutant] = []
    survivors: list[Mutant] = []
    for mutant in mutants(workspace, baseline.also):
        noticed = is_noticed(baseline, cover(workflows, mutant.workspace))
        (caught if noticed else survivors).append(mutant)
    return Score(tuple(caught), tuple(survivors))


def is_noticed(baseline: Coverage, changed: Coverage) -> bool:
    if set(changed.also) - set(baseline.also):
        return True
    ranks = {COVERED: 0, DIFFERENTLY: 1, **{status: 2 for status in FAILING}}
    return any(
        ranks.get(after.status, 0) > ranks.get(before.status, 0)
        or bool(set(after.differences) - set(before.differences))
        for before, after in zip(baseline.rows, changed.rows)
    )
