from __future__ import annotations

import pytest

from pants_triton.hardware.device import Host
from pants_triton.testing.bundle_manifest import BundledTest
from pants_triton.testing.bundle_selection import NoSuchTestError, plan, select
from pants_triton.testing.planning import NotRunnable, Runnable

CUDA = BundledTest("t/a_test.py:device@hardware=cuda", "1", "t/a_test.py", "cuda", "0", ">=sm_80")
CPU = BundledTest("t/a_test.py:cpu", "2", "t/a_test.py", "cpu", "0")
BELOW = BundledTest("t/below/b_test.py:cpu", "3", "t/below/b_test.py", "cpu", "0")
TESTS = (CUDA, CPU, BELOW)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        pytest.param([], TESTS, id="nothing"),
        pytest.param([CPU.address], (CPU,), id="address"),
        pytest.param([CPU.path], (CUDA, CPU), id="file"),
        pytest.param(["t"], TESTS, id="folder"),
        pytest.param(["t/below/"], (BELOW,), id="folder with a slash"),
        pytest.param(["*/b_*.py"], (BELOW,), id="glob of files"),
        pytest.param(["*:cpu"], (CPU, BELOW), id="glob of addresses"),
        pytest.param(
            [BELOW.path, CUDA.address], (CUDA, BELOW), id="several, in the bundle's order"
        ),
    ],
)
def test_select(typed: list[str], expected: tuple[BundledTest, ...]) -> None:
    assert select(TESTS, typed) == expected


@pytest.mark.parametrize("typed", ["t/c_test.py", "t/bel", "*:rocm"])
def test_what_means_no_test(typed: str) -> None:
    with pytest.raises(NoSuchTestError, match="is no test of this bundle.*--list"):
        select(TESTS, [CPU.address, typed])


def test_plan() -> None:
    plans = plan(TESTS, Host(problems={"cuda": "no nvidia-smi was found"}))
    assert plans[CPU.address] == Runnable("")
    assert plans[CUDA.address] == NotRunnable("needs cuda >=sm_80: no nvidia-smi was found")
