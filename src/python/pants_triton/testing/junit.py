"""JUnit reports for tests of which pytest wrote none: not run, or ended before it could."""

from __future__ import annotations

import re
from xml.etree import ElementTree

# What XML 1.0 can't hold (https://www.w3.org/TR/xml/#charsets): a tool may say anything.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def not_run_report(*, suite: str, test: str, reason: str, is_error: bool) -> bytes:
    """A JUnit XML report of one test file of which pytest wrote none.

    :param suite: the name of the test suite, the target's address.
    :param test: the name of the test, the path of its file: what it holds is unknown, since
        nothing was collected.
    :param reason: why there is no more to report, one line.
    :param is_error: whether that fails the run; a `<skipped>` element otherwise.
    :return: the report as UTF-8, in pytest's `xunit2` shape
        (https://docs.pytest.org/en/7.0.x/how-to/output.html#creating-junitxml-format-files).
    """
    reason = _NOT_XML.sub("?", reason)
    testsuites = ElementTree.Element("testsuites")
    testsuite = ElementTree.SubElement(
        testsuites,
        "testsuite",
        name=suite,
        errors=str(int(is_error)),
        failures="0",
        skipped=str(int(not is_error)),
        tests="1",
        time="0",
    )
    testcase = ElementTree.SubElement(testsuite, "testcase", classname=suite, name=test, time="0")
    outcome = "error" if is_error else "skipped"
    ElementTree.SubElement(testcase, outcome, message=reason, type=f"hardware.{outcome}")
    return b'<?xml version="1.0" encoding="utf-8"?>' + ElementTree.tostring(testsuites, "utf-8")
