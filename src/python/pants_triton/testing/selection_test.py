from __future__ import annotations

import pytest

from pants_triton.testing.selection import (
    describe_empty_selection,
    describe_unknown_tags,
    named_tags,
)


@pytest.mark.parametrize(
    ("options", "tags"),
    [
        pytest.param(["cuda"], ("cuda",), id="one"),
        pytest.param(["cuda,rocm"], ("cuda", "rocm"), id="list"),
        pytest.param(["+cuda,rocm", "-slow"], ("cuda", "rocm", "slow"), id="modifiers"),
        pytest.param([], (), id="none"),
    ],
)
def test_named_tags(options: list[str], tags: tuple[str, ...]) -> None:
    assert named_tags(options) == tags


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


def test_empty_selection_explains_literal_generators() -> None:
    message = describe_empty_selection(["tests/kernels:device"], ["cuda"])
    assert message.startswith("`--tag=cuda tests/kernels:device` selects no test.")
    assert "name its folder with `::`" in message


def test_empty_selection_of_a_glob() -> None:
    assert describe_empty_selection(["docs::"], []) == "`docs::` selects no test."
