"""Tests of the names of modules."""

from __future__ import annotations

import pytest

from pants_triton.package.modules import modules_of


@pytest.mark.parametrize(
    "files, root, modules",
    [
        pytest.param([], "python", [], id="none"),
        pytest.param(
            ["python/triton/__init__.py", "python/triton/language/core.py"],
            "python",
            ["triton", "triton.language.core"],
            id="package",
        ),
        pytest.param(["triton/knobs.py"], "", ["triton.knobs"], id="the root itself"),
        pytest.param(["python/triton/_C/x.pyi"], "python", ["triton._C.x"], id="stub"),
        pytest.param(["python/triton/a.txt", "python/setup.cfg"], "python", [], id="no module"),
        pytest.param(["other/a.py"], "python", [], id="elsewhere"),
        pytest.param(["python/triton/not-a-name.py"], "python", [], id="no name"),
        pytest.param(["python/a.py", "python/a.pyi"], "python", ["a"], id="once"),
    ],
)
def test_modules(files: list[str], root: str, modules: list[str]) -> None:
    assert modules_of(files, root) == modules
