"""Markers, and the fixture through which numerics tests reach a device."""

from __future__ import annotations

import os
from functools import cache

import pytest
import triton

from kernels.harness.device_arrays import ArrayBackend, InterpreterBackend, TorchBackend
from kernels.harness.hardware import Decision, Fail, RunOnGpu, Skip, decide, probe


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "compile: compiles kernels for GPUs and reads the code; needs no GPU"
    )
    config.addinivalue_line(
        "markers", "numerics: runs kernels, interpreted or on a GPU, and compares numbers"
    )


@cache
def _decision() -> Decision:
    # Asking torch for a GPU takes seconds, so once a process.
    return decide(os.environ, triton.knobs.runtime.interpret, probe())


@pytest.fixture
def device() -> ArrayBackend:
    """Where this test's arrays live and its kernels run (see ``harness/hardware.py``)."""
    decision = _decision()
    if isinstance(decision, Fail):
        pytest.fail(decision.reason, pytrace=False)
    if isinstance(decision, Skip):
        pytest.skip(decision.reason)
    if isinstance(decision, RunOnGpu):
        return TorchBackend(decision.device.arch)
    return InterpreterBackend()
