from __future__ import annotations

from typing import Any, Callable, Sequence, cast

import pytest
from pants.backend.python.goals.pytest_runner import run_python_tests
from pants.core.goals.test import TestSubsystem
from pants.engine.addresses import Address
from pants.engine.fs import FileDigest
from pants.engine.streaming_workunit_handler import StreamingWorkunitContext
from pants.testutil.rule_runner import QueryRule, RuleRunner
from pants.util.frozendict import FrozenDict

from pants_triton.testing import repeat_rules
from pants_triton.testing.gtest_rules import run_gtest
from pants_triton.testing.planning import NotRunnable, Runnable
from pants_triton.testing.repeat import Invocation, Repeat
from pants_triton.testing.repeat_rules import FailedTests
from pants_triton.testing.rules import TestPlan, plan_triton_tests, run_triton_tests
from pants_triton.workunits import NOT_RUN, work_metadata


class Store:
    """What a callback asks Pants for."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def put(self, content: str) -> FileDigest:
        fingerprint = f"{len(self._contents):064x}"
        self._contents[fingerprint] = content.encode()
        return FileDigest(fingerprint, len(content))

    def single_file_digests_to_bytes(self, digests: Sequence[FileDigest]) -> list[bytes]:
        return [self._contents[digest.fingerprint] for digest in digests]


def name(rule: Callable[..., Any]) -> str:
    """What the engine calls it."""
    return f"{rule.__module__}.{rule.__name__}"


def result(rule_name: str, address: str, level: str = "ERROR", **output: FileDigest) -> Any:
    return {
        "name": rule_name,
        "level": level,
        "metadata": {"addresses": [address], "partition_description": None},
        "artifacts": output,
    }


def repeats(store: Store, *workunits: Any) -> dict[tuple[str, ...], Repeat]:
    failed = FailedTests(Invocation(passthrough=("-x",)))
    for workunit in workunits:
        failed.add([workunit], cast(StreamingWorkunitContext, store))
    return failed.repeats()


def commands(store: Store, *workunits: Any) -> list[str]:
    return [each.command for each in repeats(store, *workunits).values()]


@pytest.mark.parametrize("rule", [run_triton_tests, run_python_tests])
def test_pytest(rule: Callable[..., Any]) -> None:
    store = Store()
    stdout, stderr = store.put("Using --randomly-seed=7\n"), store.put("")
    failed = result(name(rule), "t/a_test.py", stdout=stdout, stderr=stderr)
    passed = result(name(rule), "t/b_test.py", "INFO", stdout=stdout, stderr=stderr)
    assert commands(store, failed, passed) == ["./pants test t/a_test.py -- -x --randomly-seed=7"]


def test_googletest() -> None:
    store = Store()
    stdout = store.put("[ RUN      ] A.B\n[  FAILED  ] A.B (0 ms)\n")
    failed = result(name(run_gtest), "t:unit#bin/a_test", stdout=stdout)
    assert commands(store, failed) == ["./pants test t:unit -- -x --gtest_filter=A.B"]


def test_others() -> None:
    """lit, and the tests of other plugins."""
    failed = result("some.rule", "t/a.mlir:lit")
    assert commands(Store(), failed) == ["./pants test t/a.mlir:lit -- -x"]


def test_device() -> None:
    store = Store()
    stderr = store.put("pants-triton: failed on cuda device 3\n")
    ran, lost = Address("t", target_name="ran"), Address("t", target_name="lost")
    plan = TestPlan(
        FrozenDict({ran: "cuda", lost: "cuda"}),
        FrozenDict(
            {
                ran: Runnable("cuda sm_90 | NVIDIA H100 80GB HBM3 | 81559 MiB | driver 550"),
                lost: NotRunnable("needs cuda"),
            }
        ),
    )
    found = repeats(
        store,
        result(name(run_triton_tests), "t:ran", stderr=stderr),
        # Which CI takes for a failure, but nothing was run.
        result(name(run_triton_tests), "t:lost"),
        {"name": "a rule", "metadata": work_metadata(NOT_RUN, "t:lost", "needs cuda")},
        # Which may come last.
        {"name": name(plan_triton_tests), "metadata": plan.metadata()},
    )
    assert list(found.values()) == [
        Repeat("./pants test t:ran -- -x", "sm_90 NVIDIA H100 80GB HBM3, driver 550 (device 3)")
    ]


def test_output_that_is_lost() -> None:
    lost = FileDigest("f" * 64, 10)
    failed = result(name(run_triton_tests), "t:a", stdout=lost)
    assert commands(Store(), failed) == ["./pants test t:a -- -x"]


def test_workunits_that_are_not_understood() -> None:
    assert commands(Store(), None, {}, {"name": "x", "metadata": 3}) == []


@pytest.fixture
def rule_runner() -> RuleRunner:
    return RuleRunner(
        rules=[
            *repeat_rules.rules(),
            *TestSubsystem.rules(),
            QueryRule(Invocation, []),
        ]
    )


def test_invocation(rule_runner: RuleRunner) -> None:
    rule_runner.write_files({"pants": ""})
    rule_runner.set_options(
        [
            *(
                "--tag=cuda",
                "--test-extra-env-vars=['TOKEN', 'A=b', 'UNSET']",
                "--no-test-timeouts",
            ),
            *("--test-shard=0/2", "test", "t::", "--", "-k", "x"),
        ],
        env={
            "GITHUB_JOB": "cuda-h100",
            "PANTS_CONFIG_FILES": "[]",
            "PANTS_TEST_TIMEOUT_DEFAULT": "5",
            "TOKEN": "secret",
        },
        env_inherit={"PATH"},
    )
    assert rule_runner.request(Invocation, []) == Invocation(
        executable="./pants",
        variables=(("PANTS_CONFIG_FILES", "[]"), ("PANTS_TEST_TIMEOUT_DEFAULT", "5")),
        flags=("--test-extra-env-vars=['TOKEN', 'A=b', 'UNSET']", "--no-test-timeouts"),
        passthrough=("-k", "x"),
        lane="cuda-h100",
        inherited=("TOKEN",),
    )
