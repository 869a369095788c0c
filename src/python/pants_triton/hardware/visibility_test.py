from __future__ import annotations

import os
from typing import Any

from pants_triton.hardware import recorded
from pants_triton.hardware.device import Host, MachineTorch
from pants_triton.hardware.parse import parse_host
from pants_triton.hardware.visibility import device_environment


def devices(nvidia: Any = None, amd: Any = None) -> Host:
    return parse_host(recorded.host(nvidia, amd))


def test_environment_for_cuda() -> None:
    two = devices(recorded.FOUR_A100).devices[2:]
    environ = {"CUDA_VISIBLE_DEVICES": "0", "PATH": "/bin", "GPU_DEVICE_ORDINAL": "3"}
    assert device_environment("cuda", two, None, environ) == {
        "PATH": "/bin",
        "CUDA_VISIBLE_DEVICES": f"{recorded.uuid(2)},{recorded.uuid(3)}",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "ROCR_VISIBLE_DEVICES": "",
        "HIP_VISIBLE_DEVICES": "-1",
    }


def test_environment_for_rocm_counts_hip_from_zero() -> None:
    two = devices(amd=recorded.TWO_MI250).devices[2:]
    assert device_environment("rocm", two, None, {}) == {
        "CUDA_VISIBLE_DEVICES": "",
        "ROCR_VISIBLE_DEVICES": "GPU-124d13ccd7b05004,GPU-124d13ccd7b05005",
        "HIP_VISIBLE_DEVICES": "0,1",
    }


def test_the_machines_torch_comes_last_on_the_path() -> None:
    torch = MachineTorch("2.5.1+rocm6.2", "6.2", "3.10", "/machine")
    one = devices(amd=recorded.TWO_MI250).devices[:1]
    environ = device_environment("rocm", one, torch, {"PEX_EXTRA_SYS_PATH": "/test"})
    assert environ["PEX_EXTRA_SYS_PATH"] == f"/test{os.pathsep}/machine"
