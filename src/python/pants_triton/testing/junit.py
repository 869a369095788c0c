"""JUnit reports for tests that were not run (pytest writes those of tests that were)."""

from __future__ import annotations

from xml.etree import ElementTree


def not_run_report(*, suite: str, test: str, reason: str, is_error: bool) -> bytes:
    """A JUnit XML report of one test that was not run.

    :param suite: the name of the test suite, the target's address.
    :param test: the name of the test, the path of its file: what it holds is unknown, since
        nothing was collected.
    :param reason: why it was not run, one line.
    :param is_error: whether not running it fails the run; a `<skipped>` element otherwise.
    :return: the report as UTF-8, in pytest's `xunit2` shape
        (https://docs.pytest.org/en/7.0.x/how-to/output.html#creating-junitxml-format-files).
    """
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
