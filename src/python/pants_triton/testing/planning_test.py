from __future__ import annotations

import pytest

from pants_triton.hardware import recorded
from pants_triton.hardware.device import Host
from pants_triton.hardware.parse import parse_host
from pants_triton.hardware.requirement import assume_devices, parse_requirement
from pants_triton.testing.planning import NotRunnable, Plan, Runnable, plan_test

A100 = parse_host(recorded.host(recorded.nvidia_smi(recorded.a100_row(0))))
NOTHING = Host(problems={"cuda": "no nvidia-smi"})


@pytest.mark.parametrize(
    ("hardware", "arch", "host", "plan"),
    [
        pytest.param("cpu", None, NOTHING, Runnable(""), id="cpu"),
        pytest.param(
            "cuda", ">=sm_80", A100, Runnable(A100.devices[0].device_class.fingerprint), id="there"
        ),
        pytest.param(
            "cuda", None, NOTHING, NotRunnable("needs cuda: no nvidia-smi"), id="not there"
        ),
        pytest.param(
            "rocm",
            None,
            assume_devices(A100, ["rocm:gfx942"]),
            NotRunnable("it would run on gfx942, which `[hardware].assume` only assumes"),
            id="assumed",
        ),
    ],
)
def test_plan_test(hardware: str, arch: str | None, host: Host, plan: Plan) -> None:
    assert plan_test(parse_requirement(hardware, arch), host) == plan
