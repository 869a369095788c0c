"""What `pants hardware` prints on each kind of host: read the expected texts as the manual."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pants_triton.hardware import recorded
from pants_triton.hardware.parse import parse_host
from pants_triton.hardware.recorded import host
from pants_triton.hardware.render import WIDTH, render_json, render_table
from pants_triton.hardware.requirement import assume_devices

A100 = """\
Devices
  HARDWARE  DEVICE  NAME                   ARCH     MEMORY  DRIVER
  cuda      0       NVIDIA A100-SXM4-80GB  sm_80  80.0 GiB  550.54.15

Fingerprints (a test's result is valid on any device with the same one)
  1 x cuda sm_80 | NVIDIA A100-SXM4-80GB | 81920 MiB | driver 550.54.15

Hardware tags
  cuda   runs here, on 1 device
  rocm   can't run here: no AMD device: the kernel has no /sys/class/kfd (amdgpu is not loaded), and there is no amd-smi
         or rocminfo on the search path
  macos  can't run here: this host is Linux, not macOS
  cpu    runs here
"""

H100_WITH_MIG = """\
Devices
  HARDWARE  DEVICE  NAME                   ARCH     MEMORY  DRIVER     MIG
  cuda      0:0     NVIDIA H100 80GB HBM3  sm_90  40.0 GiB  550.54.15  3g.40gb
  cuda      0:1     NVIDIA H100 80GB HBM3  sm_90  20.0 GiB  550.54.15  2g.20gb
  cuda      0:2     NVIDIA H100 80GB HBM3  sm_90  20.0 GiB  550.54.15  2g.20gb

Fingerprints (a test's result is valid on any device with the same one)
  1 x cuda sm_90 | NVIDIA H100 80GB HBM3 MIG 3g.40gb | 40960 MiB | driver 550.54.15
  2 x cuda sm_90 | NVIDIA H100 80GB HBM3 MIG 2g.20gb | 20480 MiB | driver 550.54.15

Hardware tags
  cuda   runs here, on 3 devices
  rocm   can't run here: no AMD device: the kernel has no /sys/class/kfd (amdgpu is not loaded), and there is no amd-smi
         or rocminfo on the search path
  macos  can't run here: this host is Linux, not macOS
  cpu    runs here
"""

MI250 = """\
Devices
  HARDWARE  DEVICE  NAME                       ARCH      MEMORY  DRIVER
  rocm      0       AMD Instinct MI250X/MI250  gfx90a  64.0 GiB  amdgpu 6.10.5
  rocm      1       AMD Instinct MI250X/MI250  gfx90a  64.0 GiB  amdgpu 6.10.5
  rocm      2       AMD Instinct MI250X/MI250  gfx90a  64.0 GiB  amdgpu 6.10.5
  rocm      3       AMD Instinct MI250X/MI250  gfx90a  64.0 GiB  amdgpu 6.10.5

Fingerprints (a test's result is valid on any device with the same one)
  4 x rocm gfx90a | AMD Instinct MI250X/MI250 | 65520 MiB | driver amdgpu 6.10.5

Hardware tags
  cuda   can't run here: no nvidia-smi on the search path: install the NVIDIA driver, or add the tool's folder to
         [hardware].tool_search_path
  rocm   runs here, on 4 devices
  macos  can't run here: this host is Linux, not macOS
  cpu    runs here

Notes
  - this machine has no torch: see [hardware].torch_pythons
"""

MI300X = """\
Devices
  HARDWARE  DEVICE  NAME                 ARCH       MEMORY  DRIVER
  rocm      0       AMD Instinct MI300X  gfx942  192.0 GiB  amdgpu 6.10.5
  rocm      1       AMD Instinct MI300X  gfx942  192.0 GiB  amdgpu 6.10.5
  rocm      2       AMD Instinct MI300X  gfx942  192.0 GiB  amdgpu 6.10.5
  rocm      3       AMD Instinct MI300X  gfx942  192.0 GiB  amdgpu 6.10.5
  rocm      4       AMD Instinct MI300X  gfx942  192.0 GiB  amdgpu 6.10.5
  rocm      5       AMD Instinct MI300X  gfx942  192.0 GiB  amdgpu 6.10.5
  rocm      6       AMD Instinct MI300X  gfx942  192.0 GiB  amdgpu 6.10.5
  rocm      7       AMD Instinct MI300X  gfx942  192.0 GiB  amdgpu 6.10.5

Fingerprints (a test's result is valid on any device with the same one)
  8 x rocm gfx942 | AMD Instinct MI300X | 196592 MiB | driver amdgpu 6.10.5 | torch 2.5.1+rocm6.2

Hardware tags
  cuda   can't run here: no nvidia-smi on the search path: install the NVIDIA driver, or add the tool's folder to
         [hardware].tool_search_path
  rocm   runs here, on 8 devices
  macos  can't run here: this host is Linux, not macOS
  cpu    runs here

Notes
  - rocm tests use this machine's torch 2.5.1+rocm6.2 for Python 3.10 in /opt/conda/lib/python3.10/site-packages
"""

BOTH_VENDORS = """\
Devices
  HARDWARE  DEVICE  NAME                       ARCH      MEMORY  DRIVER
  cuda      0       NVIDIA A100-SXM4-80GB      sm_80   80.0 GiB  550.54.15
  rocm      0       AMD Instinct MI250X/MI250  gfx90a  64.0 GiB  amdgpu 6.10.5
  rocm      1       AMD Instinct MI250X/MI250  gfx90a  64.0 GiB  amdgpu 6.10.5
  rocm      2       AMD Instinct MI250X/MI250  gfx90a  64.0 GiB  amdgpu 6.10.5
  rocm      3       AMD Instinct MI250X/MI250  gfx90a  64.0 GiB  amdgpu 6.10.5

Fingerprints (a test's result is valid on any device with the same one)
  1 x cuda sm_80 | NVIDIA A100-SXM4-80GB | 81920 MiB | driver 550.54.15
  4 x rocm gfx90a | AMD Instinct MI250X/MI250 | 65520 MiB | driver amdgpu 6.10.5

Hardware tags
  cuda   runs here, on 1 device
  rocm   runs here, on 4 devices
  macos  can't run here: this host is Linux, not macOS
  cpu    runs here

Notes
  - NVIDIA device 1 is broken: nvidia-smi says 'ERR!' for its name
  - this machine has no torch: see [hardware].torch_pythons
"""

MAC = """\
Devices
  HARDWARE  DEVICE  NAME          ARCH        MEMORY  DRIVER
  macos     0       Apple M2 Pro  apple-m2  16.0 GiB  macOS 14.5

Fingerprints (a test's result is valid on any device with the same one)
  1 x macos apple-m2 | Apple M2 Pro | 16384 MiB | driver macOS 14.5

Hardware tags
  cuda   can't run here: nvidia-smi was not run
  rocm   can't run here: no AMD device: the kernel has no /sys/class/kfd (amdgpu is not loaded), and there is no amd-smi
         or rocminfo on the search path
  macos  runs here, on 1 device
  cpu    runs here
"""

NOTHING = """\
No devices found.

Hardware tags
  cuda   can't run here: no nvidia-smi on the search path: install the NVIDIA driver, or add the tool's folder to
         [hardware].tool_search_path
  rocm   can't run here: no AMD device: the kernel has no /sys/class/kfd (amdgpu is not loaded), and there is no amd-smi
         or rocminfo on the search path
  macos  can't run here: this host is Linux, not macOS
  cpu    runs here
"""


@pytest.mark.parametrize(
    "seen, expected",
    [
        pytest.param(host(nvidia=recorded.A100), A100, id="A100"),
        pytest.param(host(nvidia=recorded.H100_MIG), H100_WITH_MIG, id="H100 with MIG"),
        pytest.param(host(amd=recorded.TWO_MI250), MI250, id="MI250"),
        pytest.param(
            host(amd=recorded.EIGHT_MI300X, torch=[recorded.torch()]), MI300X, id="MI300X"
        ),
        pytest.param(
            host(recorded.ONE_OF_TWO_BROKEN, recorded.TWO_MI250), BOTH_VENDORS, id="both vendors"
        ),
        pytest.param(recorded.mac(), MAC, id="Mac"),
        pytest.param(host(), NOTHING, id="nothing"),
    ],
)
def test_table(seen: Any, expected: str) -> None:
    assert render_table(parse_host(seen)) == expected


def test_assumed_devices_are_flagged() -> None:
    text = render_table(assume_devices(parse_host(host(nvidia=recorded.A100)), ["rocm:gfx942x2"]))
    assert "  rocm      assumed  -                      gfx942         -  -\n" in text
    assert "amd-smi or rocminfo on the search path (planned for 2 assumed" in " ".join(text.split())
    assert "rocm gfx942 |" not in text, "an assumed device has no fingerprint"


def test_long_names_are_cut_in_the_table_but_whole_in_the_fingerprint() -> None:
    name = "NVIDIA " + "Very Long " * 12 + "Board"
    row = f"0, {recorded.uuid(0)}, {name}, 9.0, 550.54.15, 81559, Disabled"
    text = render_table(parse_host(host(nvidia=recorded.nvidia_smi(row))))
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    assert "Very Long Ve...  sm_90" in text
    assert name in " ".join(text.split())


def test_json() -> None:
    seen = assume_devices(parse_host(host(nvidia=recorded.A100)), ["rocm:gfx942"])
    data = json.loads(render_json(seen))
    assert data["devices"][0]["fingerprint"] == seen.devices[0].device_class.fingerprint
    assert data["hardware"]["cuda"] == {
        "runs_here": True,
        "reason": None,
        "devices": 1,
        "assumed_devices": 0,
    }
    assert data["hardware"]["rocm"]["runs_here"] is False
    assert data["hardware"]["rocm"]["assumed_devices"] == 1
    assert "amdgpu is not loaded" in data["hardware"]["rocm"]["reason"]
    assert data["hardware"]["cpu"]["runs_here"] is True
