from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pants_triton.ci.unknown import Unknown
from pants_triton.ci.workflow_expressions import (
    ExpressionError,
    evaluate,
    evaluate_condition,
    interpolate,
    interpolate_value,
    member,
)

CONTEXT = {
    "matrix": {"runner": ["self-hosted", "gfx90a"], "n": 8, "os": "Linux"},
    "env": {"BACKEND": "CUDA", "EMPTY": ""},
}


def lookup(path):
    if str(path[0]).lower() not in CONTEXT:
        alternatives = ("a", "b") if path[-1] == "either" else ()
        return Unknown(".".join(map(str, path)), alternatives)
    return member(CONTEXT, path, ".".join(map(str, path)))


@pytest.mark.parametrize(
    "expression,value",
    [
        ("matrix.runner[0] == 'self-hosted'", True),
        ("matrix.runner[1]", "gfx90a"),
        ("matrix.runner[7]", None),
        ("matrix['os'] == 'linux'", True),
        ("matrix.n > 4 && matrix.n <= 8", True),
        ("matrix.n == '8'", True),
        ("!(env.BACKEND != 'CUDA')", True),
        ("env.EMPTY || 'x'", "x"),
        ("matrix.runner[1] == 'gfx90a' && 'mi210' || 'mi300x'", "mi210"),
        ("contains(matrix.runner, 'gfx90a')", True),
        ("contains('Hello', 'ell')", True),
        ("startsWith(matrix.runner[1], 'GFX') && endsWith('abc', 'C')", True),
        ("format('{0}-{1}', 'a', matrix.n)", "a-8"),
        ("format('{{0}} {{{0}}}', 'a')", "{0} {a}"),
        ("join(matrix.runner, '/')", "self-hosted/gfx90a"),
        ("fromJSON('[[\"a\"], 1]')", [["a"], 1]),
        ('fromJSON(\'{"a": [{"b": 3}]}\').a[0].b', 3),
        ("(matrix.runner)[1]", "gfx90a"),
        ("toJSON(matrix.runner)", '["self-hosted", "gfx90a"]'),
        ("'it''s'", "it's"),
        ("0x10 == 16", True),
        ("null == ''", True),
        ("always()", True),
        ("false && github.x", False),
        ("github.x && false", False),
        ("github.x || true", True),
        ("x.either != ''", True),
        ("x.either == 'c'", False),
    ],
)
def test_what_can_be_told(expression: str, value: Any) -> None:
    assert evaluate(expression, lookup) == value


@pytest.mark.parametrize(
    "expression",
    [
        *("github.event_name == 'push'", "!success()", "failure()", "hashFiles('**/x')"),
        *("github.x && true", "x.either == 'a'", "matrix.runner[github.x]", "a.*.b"),
        "contains(fromJSON(needs.a.outputs.b).include.*.lane, 'cpu')",
    ],
)
def test_what_only_a_run_knows(expression: str) -> None:
    value = evaluate_condition(expression, lookup)
    assert isinstance(value, Unknown)
    assert value.text == expression


@pytest.mark.parametrize(
    "condition,value",
    [
        ("${{ matrix.n == 8 }}", True),
        ("env.BACKEND == 'CUDA' && ${{ matrix.n == 9 }}", True),
        (True, True),
        ("env.EMPTY", False),
    ],
)
def test_conditions_with_and_without_braces(condition: Any, value: bool) -> None:
    assert evaluate_condition(condition, lookup) is value


@pytest.mark.parametrize("expression", ["contains(a, 'x')", "join(a, '-')", "a == 'x'"])
def test_a_list_of_which_a_part_is_unknown_decides_nothing(expression: str) -> None:
    value = ["y", Unknown("github.x")]
    assert isinstance(evaluate(expression, lambda path: value), Unknown)
    assert interpolate("${{ a }}", lambda path: value) == (Unknown("${{ a }}"),)


@pytest.mark.parametrize(
    "condition,value",
    [
        ("${{ github.x }} && false", True),
        ("${{ env.BACKEND }} == 'HIP'", True),
        ("${{ matrix.n == 9 }}\n", True),
        ("${{ env.EMPTY }}${{ env.EMPTY }}", False),
        ("${{ env.EMPTY }}${{ github.x }}", Unknown("${{ env.EMPTY }}${{ github.x }}")),
    ],
)
def test_a_condition_with_text_beside_its_braces_is_a_text(condition: str, value: Any) -> None:
    assert evaluate_condition(condition, lookup) == value


def test_texts_keep_what_is_unknown_as_a_part() -> None:
    parts = interpolate("a ${{ matrix.n }}-${{ github.ref }} '${{ '}}' }}'", lookup)
    assert parts == ("a ", "8", "-", Unknown("${{ github.ref }}"), " '", "}}", "'")


def test_a_value_that_is_one_expression_keeps_its_type() -> None:
    assert interpolate_value(" ${{ matrix.runner }} ", lookup) == ["self-hosted", "gfx90a"]
    assert interpolate_value("x${{ matrix.n }}", lookup) == "x8"
    assert interpolate_value(3, lookup) == 3


def test_alternatives_go_through_from_json() -> None:
    lists = Unknown("o", ("[1]", "[2, 3]", ""))
    assert evaluate("fromJSON(o)", lambda path: lists).alternatives == ([1], [2, 3])


@pytest.mark.parametrize(
    "expression",
    ["", "a b", "(a", "a ==", "f(a", "'x", "a.", "a[1", "@", "fromJSON('{')", "(" * 500, "format('{3}')"],
)  # fmt: skip
def test_what_is_no_expression_is_said(expression: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(expression, lookup)


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.text(max_size=30),
        st.lists(
            st.sampled_from(
                [*"!()[],.*<>'1", "==", "&&", "||", "matrix", "runner", "contains", "fromJSON", " "]
            ),
            max_size=15,
        ).map("".join),
    )
)
def test_any_text_has_a_value_or_an_error(text: str) -> None:
    try:
        evaluate(text, lookup)
    except ExpressionError as e:
        assert str(e)
