from __future__ import annotations

import logging
from typing import Any

import pytest
from pants.engine.addresses import Address
from pants.engine.fs import EMPTY_SNAPSHOT

from pants_triton.testing.gtest_rules import SkippedCTest, report_skipped_ctest
from pants_triton.testing.lit_rules import SkippedLitTest, report_skipped_lit_test
from pants_triton.testing.repeat import Invocation
from pants_triton.testing.rules import plan_triton_tests
from pants_triton.testing.summary_rules import NotRunSummaryCallback


def workunit(rule: Any, **metadata: Any) -> dict[str, Any]:
    """One of a rule, by the name that the engine gives it."""
    return {"name": f"{rule.__module__}.{rule.__name__}", "metadata": metadata}


def test_skips_of_all_kinds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    tests = [
        {
            "address": f"t:lit#{name}",
            "hardware": "cpu",
            "fingerprint": "",
            "not_run_reason": None,
        }
        for name in "abc"
    ]
    address = Address("t", target_name="lit", generated_name="a")
    lit = SkippedLitTest(address, "unsupported: no GPU", False, EMPTY_SNAPSHOT)
    ctest = SkippedCTest(address, "check", "`check` runs `sh check.sh`", EMPTY_SNAPSHOT)
    summary = NotRunSummaryCallback(Invocation())

    def call(*completed: dict[str, Any], finished: bool = False) -> None:
        summary(
            started_workunits=(),
            completed_workunits=completed,
            finished=finished,
            context=None,  # type: ignore[arg-type]
        )

    call(workunit(report_skipped_lit_test, **lit.metadata()))
    # The plan's own workunit may come later.
    call(workunit(plan_triton_tests, tests=tests), {"name": "cancelled"})
    call(workunit(report_skipped_ctest, **ctest.metadata()))
    assert not caplog.records
    call(finished=True)
    assert [record.getMessage() for record in caplog.records] == [
        "cpu: 1 of 3 test files not run.\n"
        "  1 x unsupported: no GPU\n"
        "CTest: 1 test not run.\n"
        "  1 x `check` runs `sh check.sh`"
    ]
