"""Tests of the names of modules."""

from __future__ import annotations

import pytest

from pants_triton.package.modules import modules_of, places_of


@pytest.mark.parametrize(
    "files, modules",
    [
        pytest.param([], [], id="none"),
        pytest.param(
            ["triton/__init__.py", "triton/language/core.py"],
            ["triton", "triton.language.core"],
            id="package",
        ),
        pytest.param(["triton/_C/x.pyi"], ["triton._C.x"], id="stub"),
        pytest.param(["triton/a.txt", "setup.cfg"], [], id="no module"),
        pytest.param(["triton/not-a-name.py"], [], id="no name"),
        pytest.param(["a.py", "a.pyi"], ["a"], id="once"),
    ],
)
def test_modules(files: list[str], modules: list[str]) -> None:
    assert modules_of(files) == modules


NVIDIA = {"third_party/nvidia/backend": "triton/backends/nvidia"}


@pytest.mark.parametrize(
    "file, base, root, folders, place",
    [
        pytest.param("python/triton/a.py", "", "python", {}, "triton/a.py", id="root"),
        pytest.param("triton/a.py", "", "", {}, "triton/a.py", id="workspace"),
        pytest.param("p/python/triton/a.py", "p", "python", {}, "triton/a.py", id="base"),
        pytest.param("p/triton/a.py", "p", "", {}, "triton/a.py", id="base is root"),
        pytest.param("python3/a.py", "", "python", {}, None, id="alike"),
        pytest.param(
            "third_party/nvidia/backend/lib/x.bc",
            *("", "python", NVIDIA),
            "triton/backends/nvidia/lib/x.bc",
            id="folder",
        ),
        pytest.param("third_party/nvidia/x.py", "", "python", NVIDIA, None, id="above it"),
        pytest.param(
            "p/third_party/nvidia/backend/a.py",
            *("p", "", NVIDIA),
            "triton/backends/nvidia/a.py",
            id="within the root",
        ),
        pytest.param("a/b/c.py", "", "", {"a": "x", "a/b": "y"}, "y/c.py", id="deepest"),
        pytest.param("lib/a.py", "", "python", {"lib": ""}, "a.py", id="to the root"),
    ],
)
def test_places(
    file: str, base: str, root: str, folders: dict[str, str], place: str | None
) -> None:
    assert places_of([file], base, root, folders) == {file: place}
