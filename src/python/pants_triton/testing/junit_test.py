from __future__ import annotations

from xml.etree import ElementTree

import pytest

from pants_triton.testing.junit import not_run_report


@pytest.mark.parametrize(
    ("is_error", "outcome", "skipped", "errors"),
    [
        pytest.param(False, "skipped", "1", "0", id="skipped"),
        pytest.param(True, "error", "0", "1", id="error"),
    ],
)
def test_not_run_report(is_error: bool, outcome: str, skipped: str, errors: str) -> None:
    report = not_run_report(
        suite="tests:a@hardware=cuda", test="tests/a_test.py", reason="no <GPU>", is_error=is_error
    )
    [suite] = ElementTree.fromstring(report)
    assert (suite.get("skipped"), suite.get("errors"), suite.get("tests")) == (skipped, errors, "1")
    [case] = suite
    assert case.get("name") == "tests/a_test.py"
    [child] = case
    assert (child.tag, child.get("message")) == (outcome, "no <GPU>")


def test_a_reason_that_xml_can_not_hold() -> None:
    report = not_run_report(suite="s", test="t", reason="a\x00b\uffff", is_error=False)
    [skipped] = ElementTree.fromstring(report).iter("skipped")
    assert skipped.get("message") == "a?b?"
