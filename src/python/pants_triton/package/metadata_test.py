"""Tests of what wheels tell about themselves."""

from __future__ import annotations

import configparser
from email.parser import Parser
from typing import Any

import pytest

from pants_triton.package.metadata import Metadata, MetadataError, python_tags


def test_metadata() -> None:
    metadata = Metadata(
        name="Triton-X.y",
        version="3.0.0+git1A",
        requires_python=">=3.9,<3.14",
        requires=["numpy >= 1.20", "tomli; python_version < '3.11'"],
        extras={"tests": ["scipy>=1.7.1", "a; python_version < '3' or os_name == 'nt'"]},
        headers={"Summary": ["Ein Übersetzer"], "classifier": ["A :: B", "C"]},
    )
    assert metadata.escaped == "triton_x_y-3.0.0+git1a"
    assert Parser().parsestr(metadata.rendered()).items() == [
        ("Metadata-Version", "2.1"),
        ("Name", "Triton-X.y"),
        ("Version", "3.0.0+git1a"),
        ("Summary", "Ein Übersetzer"),
        ("Classifier", "A :: B"),
        ("Classifier", "C"),
        ("Requires-Python", "<3.14,>=3.9"),
        ("Requires-Dist", "numpy>=1.20"),
        ("Requires-Dist", 'tomli; python_version < "3.11"'),
        ("Provides-Extra", "tests"),
        ("Requires-Dist", 'scipy>=1.7.1; extra == "tests"'),
        (
            "Requires-Dist",
            'a; (python_version < "3" or os_name == "nt") and extra == "tests"',
        ),
    ]


def test_entry_points() -> None:
    points = {
        "console_scripts": ["proton = triton.profiler.proton:main", "viewer=a.b:c.d"],
        "triton.backends": ["nvidia = triton.backends.nvidia"],
    }
    parser = configparser.ConfigParser(delimiters="=")
    parser.read_string(Metadata("a", "1", entry_points=points).rendered_entry_points())
    assert {group: dict(parser[group]) for group in parser.sections()} == {
        "console_scripts": {"proton": "triton.profiler.proton:main", "viewer": "a.b:c.d"},
        "triton.backends": {"nvidia": "triton.backends.nvidia"},
    }
    assert Metadata("a", "1").rendered_entry_points() == ""


@pytest.mark.parametrize(
    "fields, message",
    [
        pytest.param({"name": "a b"}, "`distribution` has 'a b'", id="name"),
        pytest.param({"version": "one"}, "The version 'one' is none that pip", id="version"),
        pytest.param({"version": "1+git-"}, "The version '1[+]git-' is none", id="suffix"),
        pytest.param({"requires_python": "3.9"}, "`requires_python` has '3.9'", id="python"),
        pytest.param({"requires": ["not ok!"]}, "`requires` has 'not ok!'", id="requires"),
        pytest.param({"requires": ["a\nb"]}, "`requires` has 'a", id="two requirements"),
        pytest.param({"extras": {"x": ["="]}}, "`extras` has '='", id="extra's requirement"),
        pytest.param({"extras": {"x y": []}}, "`extras` has 'x y'", id="extra"),
        pytest.param({"headers": {"Sumary": ["a"]}}, "`metadata` has 'Sumary'", id="header"),
        pytest.param({"headers": {"Name": ["a"]}}, "`metadata` has 'Name'", id="own field"),
        pytest.param({"headers": {"Summary": ["a", "b"]}}, "has 2 values of Summary", id="twice"),
        pytest.param({"headers": {"Summary": ["a\nb"]}}, "several lines", id="lines"),
        pytest.param({"entry_points": {"a b": []}}, "has the group 'a b'", id="group"),
        pytest.param({"entry_points": {"a": ["b"]}}, "`entry_points` has 'b'", id="entry point"),
    ],
)
def test_what_tools_would_refuse(fields: dict[str, Any], message: str) -> None:
    known: dict[str, Any] = {"name": "a", "version": "1", **fields}
    metadata = Metadata(**known)
    with pytest.raises(MetadataError, match=message):
        assert metadata.escaped
        metadata.rendered()
        metadata.rendered_entry_points()


@pytest.mark.parametrize(
    "text, tags",
    [
        pytest.param("-I/a/include -c x.cpp", (), id="none"),
        pytest.param("-isystem /t/usr/include/python3.11 -c", ("cp311",), id="Debian"),
        pytest.param('"-I/x/include/python3.9"', ("cp39",), id="quoted"),
        pytest.param("/include/python3.13t ", ("cp313t",), id="without the lock"),
        pytest.param("/include/python3.11/x /include/python3.11 ", ("cp311",), id="twice"),
        pytest.param("/include/python3.9 /include/python3.10 ", ("cp310", "cp39"), id="two"),
        pytest.param("/lib/python3.11/site-packages/pybind11/include ", (), id="pybind11"),
    ],
)
def test_python_tags(text: str, tags: tuple[str, ...]) -> None:
    assert python_tags(text) == tags
