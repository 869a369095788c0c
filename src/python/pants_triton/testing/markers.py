"""Compare what the tests of a file ask for with the ways in which its targets run it.

A test says in its own code where it runs: `@pytest.mark.skipif(not is_hip(), ...)`,
`if not is_cuda(): pytest.skip(...)`, `@pytest.mark.interpreter`. A test that asks for what no target
of its file offers is green everywhere and runs nowhere.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Callable, Iterable, Iterator, Mapping, Sequence

from pants_triton.hardware.device import HARDWARE

INTERPRETER_MARKER = "interpreter"


@dataclass(frozen=True)
class Situation:
    """One way in which a target runs the file.

    :param hardware: the target's hardware.
    :param interpreter: whether kernels run in Triton's interpreter (`TRITON_INTERPRET=1`).
    """

    hardware: str
    interpreter: bool

    def __str__(self) -> str:
        return f"{self.hardware} (interpreter)" if self.interpreter else self.hardware


@dataclass(frozen=True)
class Finding:
    """A test that asks for what no target of its file offers.

    :param line: its line in the file, from 1.
    """

    line: int
    message: str


# Where a condition can be told from the situation alone, by the last name of the call or attribute.
# The functions are those of Triton's `triton._internal_testing`, on which its tests rely.
_PREDICATES: Mapping[str, Callable[[Situation], bool | None]] = {
    "is_interpreter": lambda s: s.interpreter,
    "is_cuda": lambda s: s.hardware == "cuda" and not s.interpreter,
    "is_hip": lambda s: s.hardware == "rocm" and not s.interpreter,
    "is_xpu": lambda s: False,
    "is_macos": lambda s: s.hardware == "macos",
}
# Those that ask for a certain architecture: false elsewhere, and undecided there.
_ARCH_PREDICATES: Mapping[str, str] = {"is_hip_": "rocm", "is_cuda_": "cuda"}
_NVIDIA_ARCH_PREDICATES = frozenset(
    {"is_ampere", "is_ampere_or_newer", "is_hopper", "is_hopper_or_newer", "is_blackwell"}
)


def check_markers(source: str, situations: Iterable[Situation]) -> tuple[Finding, ...]:
    """Find the tests of a file that none of its targets runs, by what they ask for.

    :param source: the text of the file. One that does not parse has no findings: other linters
        report that better.
    :param situations: how all targets that own the file run it, together.
    """
    offered = sorted(set(situations), key=str)
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    return tuple(finding for test in _tests(module) for finding in _check_test(test, offered))


@dataclass(frozen=True)
class _Test:
    name: str
    line: int
    skip_conditions: tuple[ast.expr, ...]
    markers: tuple[str, ...]
    # What names of the module stand for, such as `HIP` after `HIP = is_hip()`.
    names: Mapping[str, ast.expr]


def _check_test(test: _Test, offered: Sequence[Situation]) -> Iterator[Finding]:
    offers = ", ".join(map(str, offered))
    if all(_is_skipped(test, situation) for situation in offered):
        everywhere = [Situation(h, i) for h in HARDWARE for i in (False, True)]
        elsewhere = [str(s) for s in everywhere if s not in offered and not _is_skipped(test, s)]
        if elsewhere:
            yield Finding(
                test.line,
                f"`{test.name}` is skipped wherever this file's targets run it ({offers}). It "
                f"would run on: {', '.join(elsewhere)}.",
            )
    for marker in test.markers:
        if marker in HARDWARE and not any(s.hardware == marker for s in offered):
            yield Finding(
                test.line,
                f"`{test.name}` is marked `{marker}`, but no target of this file has that tag "
                f"({offers}).",
            )
        if marker == INTERPRETER_MARKER and not any(s.interpreter for s in offered):
            yield Finding(
                test.line,
                f"`{test.name}` is marked `{marker}`, but no target of this file runs it with "
                f"TRITON_INTERPRET=1 ({offers}).",
            )


def _is_skipped(test: _Test, situation: Situation) -> bool:
    return any(
        _evaluate(condition, situation, test.names) is True for condition in test.skip_conditions
    )


def _evaluate(
    condition: ast.expr, situation: Situation, names: Mapping[str, ast.expr]
) -> bool | None:
    """The condition's value in this situation, or None where that can't be told."""
    if isinstance(condition, ast.Name) and condition.id in names:
        # Without that name, so that a name that stands for itself comes to an end.
        inner = {name: value for name, value in names.items() if name != condition.id}
        return _evaluate(names[condition.id], situation, inner)
    if isinstance(condition, ast.Constant):
        return bool(condition.value) if isinstance(condition.value, (bool, int)) else None
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        value = _evaluate(condition.operand, situation, names)
        return None if value is None else not value
    if isinstance(condition, ast.BoolOp):
        values = [_evaluate(v, situation, names) for v in condition.values]
        decisive = isinstance(condition.op, ast.Or)
        if decisive in values:
            return decisive
        return None if None in values else not decisive
    if isinstance(condition, ast.Compare) and len(condition.ops) == 1:
        return _evaluate_comparison(condition, situation, names)
    if isinstance(condition, ast.Call):
        return _evaluate_predicate(_last_name(condition.func), situation)
    return None


def _evaluate_comparison(
    condition: ast.Compare, situation: Situation, names: Mapping[str, ast.expr]
) -> bool | None:
    """`x is False`, `x == True` and their like."""
    left = _evaluate(condition.left, situation, names)
    right = _evaluate(condition.comparators[0], situation, names)
    if left is None or right is None:
        return None
    if isinstance(condition.ops[0], (ast.Is, ast.Eq)):
        return left == right
    if isinstance(condition.ops[0], (ast.IsNot, ast.NotEq)):
        return left != right
    return None


def _evaluate_predicate(name: str | None, situation: Situation) -> bool | None:
    if name is None:
        return None
    if name in _PREDICATES:
        return _PREDICATES[name](situation)
    hardware = "cuda" if name in _NVIDIA_ARCH_PREDICATES else None
    for prefix, prefix_hardware in _ARCH_PREDICATES.items():
        if name.startswith(prefix):
            hardware = prefix_hardware
    if hardware is None:
        return None
    return None if situation.hardware == hardware and not situation.interpreter else False


def _last_name(expression: ast.expr) -> str | None:
    if isinstance(expression, ast.Name):
        return expression.id
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return None


def _tests(module: ast.Module) -> Iterator[_Test]:
    aliases = {
        target.id: statement.value
        for statement in module.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    module_marks = _flatten(aliases["pytestmark"]) if "pytestmark" in aliases else []
    yield from _tests_in(module.body, module_marks, aliases)


def _tests_in(
    body: Sequence[ast.stmt], outer_marks: Sequence[ast.expr], aliases: Mapping[str, ast.expr]
) -> Iterator[_Test]:
    for statement in body:
        if isinstance(statement, ast.ClassDef) and statement.name.startswith("Test"):
            own = [
                mark
                for inner in statement.body
                if isinstance(inner, ast.Assign) and _last_name(inner.targets[0]) == "pytestmark"
                for mark in _flatten(inner.value)
            ]
            marks = [*outer_marks, *statement.decorator_list, *own]
            yield from _tests_in(statement.body, marks, aliases)
        elif isinstance(
            statement, (ast.FunctionDef, ast.AsyncFunctionDef)
        ) and statement.name.startswith("test"):
            if any(_is_fixture(decorator) for decorator in statement.decorator_list):
                continue
            marks = [
                aliases.get(mark.id, mark) if isinstance(mark, ast.Name) else mark
                for mark in (*outer_marks, *statement.decorator_list)
            ]
            yield _Test(
                statement.name,
                statement.lineno,
                skip_conditions=(*_skip_conditions(marks), *_skips_at_start(statement.body)),
                markers=tuple(name for name in map(_marker_name, marks) if name),
                names=aliases,
            )


def _is_fixture(decorator: ast.expr) -> bool:
    return _last_name(decorator.func if isinstance(decorator, ast.Call) else decorator) == "fixture"


def _flatten(expression: ast.expr) -> list[ast.expr]:
    """The marks in `pytestmark = mark` or `pytestmark = [mark, mark]`."""
    return expression.elts if isinstance(expression, (ast.List, ast.Tuple)) else [expression]


def _marker_name(mark: ast.expr) -> str | None:
    """`x` of `pytest.mark.x` and `pytest.mark.x(...)`."""
    expression = mark.func if isinstance(mark, ast.Call) else mark
    if isinstance(expression, ast.Attribute) and _last_name(expression.value) == "mark":
        return expression.attr
    return None


def _skip_conditions(marks: Iterable[ast.expr]) -> Iterator[ast.expr]:
    for mark in marks:
        if isinstance(mark, ast.Call) and _marker_name(mark) == "skipif":
            yield from mark.args[:1]
            yield from (k.value for k in mark.keywords if k.arg == "condition")


def _skips_at_start(body: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    """The conditions of `if condition: pytest.skip(...)` directly in a test's body."""
    for statement in body:
        if not isinstance(statement, ast.If):
            continue
        if any(isinstance(node, ast.Return) for node in ast.walk(statement)):
            # What comes after is not reached in every situation.
            return
        first = statement.body[0]
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Call)
            and _last_name(first.value.func) == "skip"
        ):
            yield statement.test
