"""Where numerics tests run, for every situation a machine can be in."""

from __future__ import annotations

import pytest

from kernels.harness.hardware import (
    Decision,
    Fail,
    RunInterpreted,
    RunOnGpu,
    Skip,
    TorchDevice,
    decide,
)

H100 = TorchDevice("cuda", "sm_90")
MI300 = TorchDevice("rocm", "gfx942")
NO_GPU = "torch is not installed"


@pytest.mark.parametrize(
    "promised, interpreted, found, expected",
    [
        pytest.param(None, True, NO_GPU, RunInterpreted(), id="plain-interpreter"),
        pytest.param(None, True, H100, RunInterpreted(), id="plain-interpreter-beside-a-gpu"),
        pytest.param(None, False, MI300, RunOnGpu(MI300), id="plain-gpu"),
        pytest.param("cpu", True, NO_GPU, RunInterpreted(), id="cpu"),
        pytest.param("macos", True, NO_GPU, RunInterpreted(), id="macos"),
        pytest.param("cuda", False, H100, RunOnGpu(H100), id="cuda"),
        pytest.param("rocm", False, MI300, RunOnGpu(MI300), id="rocm"),
    ],
)
def test_runs(
    promised: str | None, interpreted: bool, found: TorchDevice | str, expected: Decision
) -> None:
    environ = {} if promised is None else {"PANTS_TRITON_HARDWARE": promised}
    assert decide(environ, interpreted, found) == expected


def test_nothing_promised_and_nothing_there_is_a_skip_that_says_what_to_do() -> None:
    decision = decide({}, False, NO_GPU)
    assert isinstance(decision, Skip)
    assert "torch is not installed" in decision.reason
    assert "TRITON_INTERPRET=1" in decision.reason


@pytest.mark.parametrize(
    "promised, interpreted, found, reason",
    [
        pytest.param("cuda", False, NO_GPU, "torch is not installed", id="no-torch"),
        pytest.param("rocm", False, "torch 2 sees no GPU", "sees no GPU", id="no-device"),
        pytest.param("cuda", False, MI300, "drives a rocm device (gfx942)", id="wrong-vendor"),
        pytest.param("rocm", False, H100, "drives a cuda device (sm_90)", id="wrong-vendor-rocm"),
        pytest.param("cuda", True, H100, "TRITON_INTERPRET is set", id="gpu-but-interpreted"),
        pytest.param("cpu", False, H100, "set TRITON_INTERPRET=1", id="cpu-not-interpreted"),
        pytest.param("tpu", True, NO_GPU, "none of cpu, cuda, rocm, macos", id="unknown-word"),
    ],
)
def test_a_broken_promise_is_a_failure(
    promised: str, interpreted: bool, found: TorchDevice | str, reason: str
) -> None:
    decision = decide({"PANTS_TRITON_HARDWARE": promised}, interpreted, found)
    assert isinstance(decision, Fail)
    assert reason in decision.reason
