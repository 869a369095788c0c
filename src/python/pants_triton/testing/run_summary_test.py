from __future__ import annotations

from pants_triton.testing.run_summary import PlannedTest, summarize_not_run, with_skips


def test_everything_ran() -> None:
    assert summarize_not_run([]) is None
    assert summarize_not_run([PlannedTest("t/a_test.py", "cpu", None)]) is None


def test_a_hardware_of_which_nothing_ran_is_said_aloud() -> None:
    tests = [
        PlannedTest("t/b_test.py@hardware=cuda", "cuda", "needs cuda: no nvidia-smi"),
        PlannedTest("t/a_test.py@hardware=cuda", "cuda", "needs cuda: no nvidia-smi"),
        PlannedTest("t/a_test.py@hardware=rocm", "rocm", "needs rocm: no /dev/kfd"),
        PlannedTest("t/a_test.py", "cpu", None),
    ]
    assert summarize_not_run(tests) == (
        "cuda: NONE of 2 test files run.\n"
        "  2 x needs cuda: no nvidia-smi\n"
        "rocm: NONE of 1 test file run.\n"
        "  1 x needs rocm: no /dev/kfd"
    )


def test_some_ran() -> None:
    tests = [
        PlannedTest("t/a_test.py", "cuda", "needs cuda >=sm_100: this host has sm_90"),
        PlannedTest("t/b_test.py", "cuda", None),
        PlannedTest("t/c_test.py", "cuda", None),
    ]
    assert summarize_not_run(tests) == (
        "cuda: 1 of 3 test files not run.\n  1 x needs cuda >=sm_100: this host has sm_90"
    )


def test_skips_that_running_showed() -> None:
    tests = [
        PlannedTest("t/a.mlir", "cpu", None),
        PlannedTest("t/b.mlir", "cpu", None),
        PlannedTest("t/c.mlir", "cuda", "needs cuda: no nvidia-smi"),
    ]
    reasons = {
        "t/a.mlir": "UNSUPPORTED: needs ptxas",
        "t/c.mlir": "never asked",
        "t/other.mlir": "not selected",
    }
    assert summarize_not_run(with_skips(tests, reasons)) == (
        "cpu: 1 of 2 test files not run.\n"
        "  1 x UNSUPPORTED: needs ptxas\n"
        "cuda: NONE of 1 test file run.\n"
        "  1 x needs cuda: no nvidia-smi"
    )


def test_tests_of_ctest() -> None:
    reasons = ["it runs nothing that the project builds"] * 2
    assert summarize_not_run([PlannedTest("t/a_test.py", "cpu", None)], reasons) == (
        "CTest: 2 tests not run.\n  2 x it runs nothing that the project builds"
    )
