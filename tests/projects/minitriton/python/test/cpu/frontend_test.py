"""From Python source to the mini dialect, and what is refused on the way."""

from __future__ import annotations

import re
from typing import Any, Callable

import minitriton.language as ml
import pytest
from minitriton.frontend import CompileError, build_module
from minitriton.types import parse_type

# What these kernels assign nobody uses.
# ruff: noqa: F841


def build(function: Callable[..., None], arguments: dict[str, str], **constants: Any) -> str:
    types = {name: parse_type(text) for name, text in arguments.items()}
    return str(build_module(function, types, constants))


def test_operations() -> None:
    def kernel(x, n, BLOCK: ml.constexpr):
        offsets = ml.program_id(2) + ml.arange(0, BLOCK)
        value = ml.load(x + offsets, mask=offsets < n, other=0)
        ml.store(x + offsets, -value)

    assert build(kernel, {"x": "*f32", "n": "i32"}, BLOCK=4) == (
        """\
module {
  func.func @kernel(%arg0: !mini.ptr<f32>, %arg1: i32) {
    %0 = mini.program_id z : i32
    %1 = mini.range 0 to 4 : tensor<4xi32>
    %2 = mini.splat %0 : tensor<4xi32>
    %3 = arith.addi %2, %1 : tensor<4xi32>
    %4 = mini.splat %arg0 : tensor<4x!mini.ptr<f32>>
    %5 = mini.addptr %4, %3 : tensor<4x!mini.ptr<f32>>, tensor<4xi32>
    %6 = mini.splat %arg1 : tensor<4xi32>
    %7 = arith.cmpi slt, %3, %6 : tensor<4xi32>
    %cst = arith.constant dense<0.000000e+00> : tensor<4xf32>
    %8 = mini.load %5, %7, %cst : tensor<4x!mini.ptr<f32>>
    %9 = mini.splat %arg0 : tensor<4x!mini.ptr<f32>>
    %10 = mini.addptr %9, %3 : tensor<4x!mini.ptr<f32>>, tensor<4xi32>
    %11 = arith.negf %8 : tensor<4xf32>
    mini.store %10, %11 : tensor<4x!mini.ptr<f32>>
    return
  }
}"""
    )


def test_constants_are_computed_when_compiling() -> None:
    def kernel(out, A: ml.constexpr, B: ml.constexpr):
        if not A > B:
            C = A * 2 if A == 3 else 0
        else:
            C = B // 2
        ml.store(out + ml.arange(0, 4), C - 1)

    assert "dense<5> : tensor<4xi32>" in build(kernel, {"out": "*i32"}, A=3, B=4)
    assert "dense<1> : tensor<4xi32>" in build(kernel, {"out": "*i32"}, A=5, B=4)


def test_constants_keep_all_digits() -> None:
    def kernel(out):
        ml.store(out + ml.arange(0, 4), 9_007_199_254_740_993)  # no double has this value

    assert "dense<9007199254740993> : tensor<4xi64>" in build(kernel, {"out": "*i64"})


@pytest.mark.parametrize(
    "source, target, operation",
    [
        ("f16", ml.float32, "arith.extf"),
        ("f64", ml.float32, "arith.truncf"),
        ("f32", ml.int32, "arith.fptosi"),
        ("i32", ml.float32, "arith.sitofp"),
        ("i8", ml.int32, "arith.extsi"),
        ("i64", ml.int32, "arith.trunci"),
    ],
)
def test_casts(source: str, target: ml.ElementType, operation: str) -> None:
    def kernel(x, out, TARGET: ml.constexpr):
        offsets = ml.arange(0, 4)
        ml.store(out + offsets, ml.cast(ml.load(x + offsets), TARGET))

    arguments = {"x": f"*{source}", "out": f"*{target}"}
    assert operation in build(kernel, arguments, TARGET=target)


def uses_a_loop(x):
    for _i in range(4):
        pass


def loads_a_scalar(x):
    value = ml.load(x)


def mixes_types(x):
    value = ml.load(x + ml.arange(0, 4)) + ml.arange(0, 4)


def mixes_lengths(x):
    value = ml.arange(0, 4) + ml.arange(0, 8)


def exceeds_its_type(x):
    value = ml.arange(0, 4) + 3_000_000_000


def stores_a_fraction_in_integers(x):
    ml.store(x + ml.arange(0, 4), ml.where(ml.arange(0, 4) > 0.5, 1, 2))


def branches_on_a_block(x):
    if ml.program_id(0) > 1:
        pass


def calls_python(x):
    print(x)


def knows_no_such_name(x):
    value = nowhere  # type: ignore[name-defined] # noqa: F821


def forgets_an_argument(x):
    ml.store(x + ml.arange(0, 4))


def counts_from_a_value(x):
    value = ml.arange(0, ml.program_id(0))


def has_an_empty_range(x):
    value = ml.arange(4, 4)


def masks_by_numbers(x):
    value = ml.load(x + ml.arange(0, 4), mask=ml.arange(0, 4))


def divides_floats_downwards(x):
    value = ml.load(x + ml.arange(0, 4)) // 2


def compares_a_chain(x):
    value = 0 < ml.program_id(0) < 4


def uses_a_fourth_axis(x):
    value = ml.program_id(3)


@pytest.mark.parametrize(
    "kernel, message",
    [
        (branches_on_a_block, "ml.program_id(0) > 1 isn't known when the kernel is compiled"),
        (calls_python, "kernels can't call print"),
        (compares_a_chain, "compare two values at a time"),
        (counts_from_a_value, "the ends of a range must be constant integers, not 0, i32"),
        (divides_floats_downwards, "there is no // of f32"),
        (exceeds_its_type, "3000000000 is no i32"),
        (forgets_an_argument, "store: missing a required argument: 'value'"),
        (has_an_empty_range, "the range from 4 to 4 is empty"),
        (knows_no_such_name, "nowhere has no value here"),
        (loads_a_scalar, "expected a block of pointers: add an arange to this one"),
        (masks_by_numbers, "expected i1, not i32"),
        (mixes_lengths, "blocks differ in length: 4, 8"),
        (mixes_types, "+ needs one type, not f32 and i32"),
        (stores_a_fraction_in_integers, "0.5 is no i32"),
        (uses_a_fourth_axis, "a grid has the axes 0, 1 and 2, not 3"),
        (uses_a_loop, "kernels have no For"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_refused_with_the_place(kernel: Callable[..., None], message: str) -> None:
    line = kernel.__code__.co_firstlineno + 1
    with pytest.raises(CompileError, match=re.escape(f"frontend_test.py:{line}: {message}")):
        build(kernel, {"x": "*f32"})
