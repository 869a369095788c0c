from __future__ import annotations

from typing import Any

import pytest

from pants_triton.hardware import recorded
from pants_triton.hardware.device import CPU, DeviceClass, Host
from pants_triton.hardware.parse import parse_host
from pants_triton.hardware.requirement import (
    Assumed,
    Missing,
    Requirement,
    RequirementError,
    assume_devices,
    match,
    parse_assumption,
    parse_requirement,
)


def a_host(nvidia: Any = None, amd: Any = None) -> Host:
    return parse_host(recorded.host(nvidia, amd))


@pytest.mark.parametrize(
    "hardware, arch, devices, requirement",
    [
        pytest.param("cpu", None, None, Requirement("cpu", None, 0), id="cpu"),
        pytest.param("cpu", None, 1, Requirement("cpu", None, 0), id="cpu, BUILD default"),
        pytest.param("cuda", None, None, Requirement("cuda", None, 1), id="any"),
        pytest.param("cuda", "sm_90", 2, Requirement("cuda", "sm_90", 2), id="exact"),
        pytest.param(
            "cuda", ">= sm_80", None, Requirement("cuda", "sm_80", 1, minimum=True), id="minimum"
        ),
        pytest.param("rocm", "gfx942", None, Requirement("rocm", "gfx942", 1), id="AMD"),
        pytest.param("macos", "apple-m2", None, Requirement("macos", "apple-m2", 1), id="Apple"),
    ],
)
def test_parse_requirement(
    hardware: str, arch: str | None, devices: int | None, requirement: Requirement
) -> None:
    assert parse_requirement(hardware, arch, devices) == requirement


@pytest.mark.parametrize(
    "hardware, arch, devices, message",
    [
        pytest.param(
            *("cdua", None, None),
            "unknown hardware 'cdua'. Did you mean 'cuda'? Known: cuda, rocm, macos, cpu.",
            id="misspelt hardware",
        ),
        pytest.param("cuda", "sm_09", None, "Did you mean 'sm_90'? Known: sm_70", id="misspelt"),
        pytest.param("cuda", "sm_130", None, "unknown cuda arch 'sm_130'", id="not yet known"),
        pytest.param("cuda", "", None, "unknown cuda arch ''", id="empty arch"),
        pytest.param(
            "rocm", "sm_90", None, "belongs to hardware `cuda`, not `rocm`", id="other vendor's"
        ),
        pytest.param("cuda", "sm_90a", None, "write 'sm_90'", id="NVIDIA suffix"),
        pytest.param("rocm", "gfx942:sramecc+:xnack-", None, "write 'gfx942'", id="AMD suffix"),
        pytest.param("cpu", "sm_90", None, "`cpu` takes no arch", id="arch on cpu"),
        pytest.param("cpu", None, 2, "`cpu` takes no devices", id="devices on cpu"),
        pytest.param("cuda", None, 0, "at least 1, got 0", id="no devices"),
        pytest.param("cuda", None, -1, "at least 1, got -1", id="negative devices"),
        pytest.param("macos", None, 2, "a macos host has one device", id="two Macs"),
    ],
)
def test_malformed_requirements(
    hardware: str, arch: str | None, devices: int | None, message: str
) -> None:
    with pytest.raises(RequirementError) as e:
        parse_requirement(hardware, arch, devices)
    assert message in str(e.value)


@pytest.mark.parametrize(
    "host, requirement, arch",
    [
        pytest.param(a_host(recorded.A100), ("cuda",), "sm_80", id="any device"),
        pytest.param(a_host(recorded.A100), ("cuda", "sm_80"), "sm_80", id="exact arch"),
        pytest.param(a_host(recorded.EIGHT_H100), ("cuda", ">=sm_80", 8), "sm_90", id="later"),
        pytest.param(
            a_host(recorded.A100_AND_TWO_H100), ("cuda",), "sm_90", id="mixed: more devices win"
        ),
        pytest.param(
            a_host(recorded.nvidia_smi(recorded.a100_row(0), recorded.h100_row(1))),
            *(("cuda",), "sm_90"),
            id="mixed: the later arch wins a tie",
        ),
        pytest.param(a_host(recorded.A100_AND_TWO_H100), ("cuda", "sm_80"), "sm_80", id="mixed"),
        pytest.param(a_host(recorded.H100_MIG), ("cuda", "sm_90"), "sm_90", id="MIG"),
        pytest.param(
            a_host(amd=recorded.EIGHT_MI300X), ("rocm", ">=gfx90a"), "gfx942", id="within CDNA"
        ),
        pytest.param(
            a_host(recorded.nvidia_smi(f"0, {recorded.uuid(0)}, B900, 15.0, 700.1, 1, Disabled")),
            *(("cuda", ">=sm_90"), "sm_150"),
            id="a device later than our table",
        ),
    ],
)
def test_match(host: Host, requirement: tuple[Any, ...], arch: str) -> None:
    matched = match(parse_requirement(*requirement), host)
    assert isinstance(matched, DeviceClass)
    assert matched.arch == arch


def test_cpu_runs_everywhere() -> None:
    assert match(parse_requirement("cpu"), Host()) == CPU


@pytest.mark.parametrize(
    "host, requirement, reason",
    [
        pytest.param(
            a_host(recorded.NO_DEVICES),
            *(("cuda",), "needs cuda: the NVIDIA driver is loaded but finds no device"),
            id="why the hardware is not there",
        ),
        pytest.param(
            a_host(recorded.FOUR_A100),
            ("cuda", ">=sm_90"),
            "needs cuda >=sm_90: this host has 4 x sm_80 (NVIDIA A100-SXM4-80GB)",
            id="arch",
        ),
        pytest.param(
            a_host(recorded.FOUR_A100),
            ("cuda", None, 8),
            "needs 8 cuda devices: this host has 4 x sm_80 (NVIDIA A100-SXM4-80GB)",
            id="too few",
        ),
        pytest.param(
            a_host(recorded.A100_AND_TWO_H100),
            ("cuda", None, 3),
            "needs 3 cuda devices: this host has 1 x sm_80 (NVIDIA A100-SXM4-80GB), "
            "2 x sm_90 (NVIDIA H100 80GB HBM3)",
            id="enough, but not of one class",
        ),
        pytest.param(
            a_host(recorded.H100_MIG),
            ("cuda", None, 2),
            "CUDA shows a process only one MIG instance",
            id="several MIG instances",
        ),
        pytest.param(
            a_host(amd=recorded.RX_7900_IN_TREE),
            ("rocm", ">=gfx90a"),
            "gfx1100 and gfx90a are of different families, so `>=` says nothing",
            id="RDNA isn't later than CDNA",
        ),
    ],
)
def test_why_a_host_does_not_do(host: Host, requirement: tuple[Any, ...], reason: str) -> None:
    missing = match(parse_requirement(*requirement), host)
    assert isinstance(missing, Missing)
    assert reason in missing.reason
    assert "\n" not in missing.reason


@pytest.mark.parametrize(
    "text, arch, count",
    [
        pytest.param("cuda:sm_90", "sm_90", 1, id="one"),
        pytest.param("cuda:sm_90x8", "sm_90", 8, id="eight"),
        pytest.param(" rocm:gfx942x2 ", "gfx942", 2, id="AMD"),
    ],
)
def test_assumed_devices(text: str, arch: str, count: int) -> None:
    devices = parse_assumption(text).devices
    assert [(d.arch, d.assumed) for d in devices] == [(arch, True)] * count


@pytest.mark.parametrize(
    "text, message",
    [
        pytest.param("sm_90", "is written `hardware:arch`", id="no hardware"),
        pytest.param("cdua:sm_90", "Did you mean 'cuda'", id="misspelt"),
        pytest.param("cuda:sm_90x0", "at least 1", id="none"),
        pytest.param("cuda:>=sm_90", "one exact arch", id="minimum"),
        pytest.param("cuda:", "unknown cuda arch ''", id="no arch"),
        pytest.param("cpu:x", "on every host", id="cpu"),
    ],
)
def test_malformed_assumptions(text: str, message: str) -> None:
    with pytest.raises(RequirementError, match=message):
        parse_assumption(text)


def test_an_assumed_device_is_told_from_a_real_one() -> None:
    host = assume_devices(a_host(recorded.A100), ["cuda:sm_80x4", "rocm:gfx942"])
    assert isinstance(match(parse_requirement("rocm", "gfx942"), host), Assumed)
    assert isinstance(match(parse_requirement("cuda", None, 4), host), Assumed)
    # A real device that does comes first, and reality stays what it is.
    real = match(parse_requirement("cuda", "sm_80"), host)
    assert isinstance(real, DeviceClass) and real.driver == "550.54.15"
    assert "rocm" in host.problems and host.of("rocm") == ()


def test_assumed_devices_have_distinct_uuids() -> None:
    host = assume_devices(Host(), ["cuda:sm_90", "cuda:sm_90x2"])
    assert len({d.uuid for d in host.devices}) == 3
