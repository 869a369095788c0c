from __future__ import annotations

import json
from typing import Any

import pytest

from pants_triton.hardware import recorded
from pants_triton.hardware.device import (
    CPU,
    Device,
    DeviceClass,
    Host,
    HostFormatError,
    MachineTorch,
    host_from_json,
)
from pants_triton.hardware.parse import parse_host


def a_device(**changes: Any) -> Device:
    fields: dict[str, Any] = {
        "hardware": "cuda",
        "vendor": "nvidia",
        "index": 0,
        "name": "NVIDIA H100 80GB HBM3",
        "arch": "sm_90",
        "driver": "550.54.15",
        "memory_mib": 81559,
        "uuid": "GPU-1",
        "selector": "GPU-1",
    }
    return Device(**{**fields, **changes})


@pytest.mark.parametrize(
    "device_class, fingerprint",
    [
        pytest.param(
            a_device().device_class,
            "cuda sm_90 | NVIDIA H100 80GB HBM3 | 81559 MiB | driver 550.54.15",
            id="whole board",
        ),
        pytest.param(
            a_device(mig_profile="3g.40gb", mig_index=0, memory_mib=40960).device_class,
            "cuda sm_90 | NVIDIA H100 80GB HBM3 MIG 3g.40gb | 40960 MiB | driver 550.54.15",
            id="MIG instance",
        ),
        pytest.param(
            DeviceClass("rocm", "AMD Instinct MI300X", "gfx942", "amdgpu 6.10.5", None, "2.5.1"),
            "rocm gfx942 | AMD Instinct MI300X | memory unknown | driver amdgpu 6.10.5 | torch 2.5.1",
            id="with the machine's torch",
        ),
        pytest.param(
            DeviceClass("cuda", "We|rd\tN\u00e4me\n", "sm_90", "1", 1),
            "cuda sm_90 | We/rd N?me | 1 MiB | driver 1",
            id="one line of ASCII whatever the name",
        ),
        pytest.param(CPU, "", id="cpu results are valid anywhere"),
    ],
)
def test_fingerprint(device_class: DeviceClass, fingerprint: str) -> None:
    assert device_class.fingerprint == fingerprint


def test_a_fingerprint_says_nothing_about_this_very_device() -> None:
    other = a_device(index=7, uuid="GPU-2", selector="GPU-2")
    assert other.device_class == a_device().device_class


@pytest.mark.parametrize(
    "torch, summary",
    [
        pytest.param(
            MachineTorch("2.5.1+rocm6.2", "6.2.41133", "3.10", "/a"), "2.5.1+rocm6.2", id="wheel"
        ),
        pytest.param(
            MachineTorch("2.6.0a0+git1", "6.2.41133", "3.10", "/a"),
            "2.6.0a0+git1 hip 6.2.41133",
            id="built from source",
        ),
        pytest.param(
            MachineTorch("2.5.1+cu124", None, "3.10", "/a"), "2.5.1+cu124 (no ROCm)", id="not ROCm"
        ),
    ],
)
def test_torch_summary_has_no_path(torch: MachineTorch, summary: str) -> None:
    assert torch.summary == summary


@pytest.mark.parametrize(
    "host",
    [
        pytest.param(Host(), id="empty"),
        pytest.param(parse_host(recorded.host(recorded.H100_MIG)), id="MIG"),
        pytest.param(
            parse_host(recorded.host(amd=recorded.TWO_MI250, torch=[recorded.torch()])), id="AMD"
        ),
    ],
)
def test_json_round_trip(host: Host) -> None:
    assert host_from_json(json.loads(json.dumps(host.to_json()))) == host


@pytest.mark.parametrize("data", [None, [], {}, {"devices": [{"index": 0}]}, {"devices": 1}])
def test_other_json_is_refused(data: object) -> None:
    with pytest.raises(HostFormatError, match="not a host record"):
        host_from_json(data)
