"""The probe on real devices: what it finds is what this test was given.

Runs where there is a device: `triton_tests` hands it one, and says which in the environment.
"""

from __future__ import annotations

import os

import pytest

from pants_triton.hardware.device import Device
from pants_triton.hardware.parse import parse_host
from pants_triton.hardware.probe import observe

HARDWARE = os.environ.get("PANTS_TRITON_HARDWARE")
TOOL_FOLDERS = [
    *os.environ.get("PATH", "").split(os.pathsep),
    *("/usr/bin", "/usr/local/bin", "/usr/sbin", "/opt/rocm/bin", "/usr/lib/wsl/lib"),
]

pytestmark = pytest.mark.skipif(
    HARDWARE is None, reason="runs under Pants, which sets PANTS_TRITON_HARDWARE"
)


@pytest.fixture(scope="module")
def devices() -> tuple[Device, ...]:
    assert HARDWARE is not None
    host = parse_host(observe(TOOL_FOLDERS, os.environ))
    assert HARDWARE not in host.problems
    return host.of(HARDWARE)


def test_the_device_is_of_the_planned_class(devices: tuple[Device, ...]) -> None:
    planned = os.environ["PANTS_TRITON_FINGERPRINT"]
    [device] = devices
    assert planned.startswith(f"{HARDWARE} {device.arch} | ")
    assert f" | driver {device.driver}" in planned


@pytest.mark.skipif(HARDWARE != "cuda", reason="AMD's variables may hold indices")
def test_only_the_leased_device_is_visible(devices: tuple[Device, ...]) -> None:
    assert os.environ["CUDA_VISIBLE_DEVICES"] == devices[0].selector
