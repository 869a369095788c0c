from __future__ import annotations

from typing import Any

import pytest
from pants.util.filtering import and_filters, create_filters

from pants_triton.testing.selection import (
    describe_empty_selection,
    describe_unknown_tags,
    is_literal,
    selects,
    wanted_tags,
)


@pytest.mark.parametrize(
    "expression",
    [
        (),
        ("cuda",),
        ("+cuda",),
        ("-cuda",),
        ("cuda,rocm",),
        ("-cuda,rocm",),
        ("cuda", "-slow"),
        ("cuda,rocm", "slow", "-flaky"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize(
    "tags", [(), ("cuda",), ("rocm", "slow"), ("cuda", "slow", "flaky"), ("cpu",)], ids=" ".join
)
def test_selects_what_pants_does(expression: tuple[str, ...], tags: tuple[str, ...]) -> None:
    def has_tag(tag: str) -> Any:
        return lambda target: tag in target

    by_pants = and_filters(create_filters(expression, has_tag))
    assert selects(expression, tags) == by_pants(tags)


@pytest.mark.parametrize(
    ("options", "tags"),
    [
        pytest.param(["cuda"], ("cuda",), id="one"),
        pytest.param(["cuda,rocm"], ("cuda", "rocm"), id="list"),
        pytest.param(["+cuda,rocm", "-slow"], ("cuda", "rocm"), id="modifiers"),
        pytest.param([], (), id="none"),
    ],
)
def test_wanted_tags(options: list[str], tags: tuple[str, ...]) -> None:
    assert wanted_tags(options) == tags


def test_a_misspelt_tag_is_named_with_the_nearest() -> None:
    assert describe_unknown_tags(["cuda,rocmm"], ["cuda", "rocm", "cpu", "cuda"]) == (
        "No target has the tag `rocmm`. Did you mean `rocm`? The tags in use are: `cpu`, `cuda`, "
        "`rocm`."
    )


def test_existing_tags_are_fine() -> None:
    assert describe_unknown_tags(["cuda", "-rocm"], ["cuda", "rocm"]) is None


def test_no_tags_in_use() -> None:
    message = describe_unknown_tags(["cuda"], [])
    assert message == "No target has the tag `cuda`. The tags in use are: none."


@pytest.mark.parametrize(
    ("spec", "literal"),
    [
        pytest.param("tests/kernels:device", True, id="address"),
        pytest.param("tests/kernels/a_test.py", True, id="file"),
        pytest.param("tests/kernels", True, id="default address of a folder"),
        pytest.param("tests/kernels::", False, id="below"),
        pytest.param("tests/kernels:", False, id="folder"),
        pytest.param("tests/*_test.py", False, id="glob"),
        pytest.param("-tests/kernels:device", False, id="exclusion"),
    ],
)
def test_is_literal(spec: str, literal: bool) -> None:
    assert is_literal(spec) is literal


@pytest.mark.parametrize(
    ("specs", "tags", "start", "hint"),
    [
        pytest.param(
            ["t:device"],
            ["cuda"],
            "`--tag=cuda t:device` selects no test.",
            "name its folder with `::`",
            id="literal with a tag",
        ),
        pytest.param(["docs::"], [], "`docs::` selects no test.", "", id="glob"),
        pytest.param([], ["cuda"], "No test is selected", "such as `::`", id="nothing typed"),
    ],
)
def test_empty_selection(specs: list[str], tags: list[str], start: str, hint: str) -> None:
    message = describe_empty_selection(specs, tags)
    assert message.startswith(start)
    assert hint in message
