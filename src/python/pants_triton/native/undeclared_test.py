from __future__ import annotations

import pytest

from pants_triton.native.undeclared import undeclared_reads

KNOWN = ("demo/version.in", "demo/tools/table.py", "demo/pkg/__init__.py", "_build/gen/a.inc")


@pytest.mark.parametrize(
    "output, expected",
    [
        pytest.param(
            "cat: demo/version.in: No such file or directory", ["demo/version.in"], id="cat"
        ),
        pytest.param(
            "cat: ../demo/version.in: No such file or directory", ["demo/version.in"], id="upwards"
        ),
        pytest.param("sh: 0: cannot open version.in: No such file", ["demo/version.in"], id="sh"),
        pytest.param(
            "FileNotFoundError: [Errno 2] No such file or directory: 'gen/a.inc'",
            ["_build/gen/a.inc"],
            id="Python, a generated file",
        ),
        pytest.param(
            "ModuleNotFoundError: No module named 'tools.table'",
            ["demo/tools/table.py"],
            id="a module of Python",
        ),
        pytest.param("No module named pkg", ["demo/pkg/__init__.py"], id="a package of Python"),
        pytest.param(
            "error: could not find version.in, nor gen/a.inc.",
            ["_build/gen/a.inc", "demo/version.in"],
            id="two",
        ),
        pytest.param("demo/version.in:3: syntax error", [], id="another mistake"),
        pytest.param("cat: other.in: No such file or directory", [], id="unknown"),
        pytest.param("cat: on.in: No such file or directory", [], id="the end of a name"),
        pytest.param("sh: tools: not found", [], id="a word"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_undeclared_reads(output: str, expected: list[str]) -> None:
    assert undeclared_reads(f"before\n{output}\nafter", KNOWN, set()) == expected
    assert undeclared_reads(output, KNOWN, set(KNOWN)) == []


def test_not_too_many() -> None:
    known = [f"demo/{i}/a.txt" for i in range(20)]
    assert len(undeclared_reads("a.txt: No such file", known, set())) == 5
