"""Observations of hosts that we don't have at hand, for tests: the tools' formats, made-up UUIDs.

Written after the output formats of these releases, not captured from one machine: nvidia-smi
550.54.15 (and 450 where it says so), the KFD topology of Linux 6.8, amd-smi of ROCm 6.2 and 7.0,
rocminfo 1.14, macOS 14.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, Sequence

NVIDIA_FIELDS = "index,uuid,name,compute_cap,driver_version,memory.total,mig.mode.current"


def uuid(n: int, prefix: str = "GPU") -> str:
    """`GPU-00000003-aaaa-…`: recognizable, and unlike all others from its first digits on."""
    return f"{prefix}-{n:08x}-aaaa-bbbb-cccc-0123456789ab"


def ran(stdout: str = "", stderr: str = "", returncode: int = 0, *argv: str) -> dict[str, Any]:
    """A tool's run, as `probe.run_tool` records it."""
    return {"argv": list(argv), "returncode": returncode, "stdout": stdout, "stderr": stderr}


def failed(error: str, *argv: str) -> dict[str, Any]:
    """A tool that didn't run to its end: `not found`, `permission denied`, `timed out`."""
    run: dict[str, Any] = {"argv": list(argv), "error": error}
    if error == "timed out":
        run.update(timeout_s=20.0, stdout="", stderr="")
    return run


def host(
    nvidia: Mapping[str, Any] | None = None,
    amd: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    system: str = "Linux",
    torch: Sequence[Mapping[str, Any]] = (),
    rocm_version: str | None = None,
) -> dict[str, Any]:
    """Observations of a host with these boards; a vendor that is left out has no tool and no
    driver.

    `nvidia` is tool name -> run, `amd` is `{"kfd": …}` and/or `{"tools": …}`: see the functions
    below.
    """
    amd = amd or {}
    return {
        "version": 1,
        "platform": {"system": system, "machine": "x86_64", "release": "6.8.0-45-generic"},
        "environ": dict(environ or {}),
        "tools": {
            "nvidia_query": failed("not found", "nvidia-smi"),
            "amd_static": failed("not found", "amd-smi"),
            "rocminfo": failed("not found", "rocminfo"),
            **(nvidia or {}),
            **amd.get("tools", {}),
        },
        "kfd": {
            "dev_kfd": "absent",
            "dev_kfd_group": None,
            "amdgpu_version": None,
            "nodes": [],
            **amd.get("kfd", {}),
        },
        "rocm_version": rocm_version,
        "torch": list(torch),
    }


# -- NVIDIA ---------------------------------------------------------------------------------------


def nvidia_smi(*rows: str, listing: str = "", fields: str = NVIDIA_FIELDS) -> dict[str, Any]:
    """`nvidia-smi --query-gpu=… --format=csv,noheader,nounits` and `nvidia-smi -L`."""
    return {
        "nvidia_query": ran(
            "".join(f"{row}\n" for row in rows),
            "",
            0,
            "nvidia-smi",
            f"--query-gpu={fields}",
            "--format=csv,noheader,nounits",
        ),
        "nvidia_list": ran(listing, "", 0, "nvidia-smi", "-L"),
    }


def nvidia_smi_fails(stdout: str = "", stderr: str = "", returncode: int = 9) -> dict[str, Any]:
    """nvidia-smi prints most of its errors on stdout."""
    run = ran(stdout, stderr, returncode, "nvidia-smi", f"--query-gpu={NVIDIA_FIELDS}")
    return {"nvidia_query": run}


def a100_row(index: int = 0) -> str:
    return f"{index}, {uuid(index)}, NVIDIA A100-SXM4-80GB, 8.0, 550.54.15, 81920, Disabled"


def h100_row(index: int = 0, mig: str = "Disabled") -> str:
    return f"{index}, {uuid(index)}, NVIDIA H100 80GB HBM3, 9.0, 550.54.15, 81559, {mig}"


A100 = nvidia_smi(a100_row())
FOUR_A100 = nvidia_smi(*(a100_row(i) for i in range(4)))
EIGHT_H100 = nvidia_smi(*(h100_row(i) for i in range(8)))
A100_AND_TWO_H100 = nvidia_smi(a100_row(0), h100_row(1), h100_row(2))

H100_MIG = nvidia_smi(
    h100_row(0, mig="Enabled"),
    listing=f"""\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: {uuid(0)})
  MIG 3g.40gb     Device  0: (UUID: {uuid(0x10, "MIG")})
  MIG 2g.20gb     Device  1: (UUID: {uuid(0x11, "MIG")})
  MIG 2g.20gb     Device  2: (UUID: {uuid(0x12, "MIG")})
""",
)
H100_MIG_WITHOUT_INSTANCES = nvidia_smi(
    h100_row(0, mig="Enabled"), listing=f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {uuid(0)})\n"
)
# Driver 450 has neither compute_cap nor "NVIDIA" in names, and MIG UUIDs of the older form.
A100_MIG_DRIVER_450 = nvidia_smi(
    f"0, {uuid(0)}, A100-SXM4-40GB, 450.80.02, 40537, Enabled",
    fields="index,uuid,name,driver_version,memory.total,mig.mode.current",
    listing=f"""\
GPU 0: A100-SXM4-40GB (UUID: {uuid(0)})
  MIG 3g.20gb Device 0: (UUID: MIG-{uuid(0)}/1/0)
  MIG 3g.20gb Device 1: (UUID: MIG-{uuid(0)}/2/0)
""",
)
UNKNOWN_BOARD_DRIVER_450 = nvidia_smi(
    f"0, {uuid(0)}, Quadro Something, 450.80.02, 16125, [N/A]",
    fields="index,uuid,name,driver_version,memory.total,mig.mode.current",
)
# Unified memory: the board has none of its own to report.
GB10 = nvidia_smi(f"0, {uuid(0)}, NVIDIA GB10, 12.1, 580.95.05, [N/A], [N/A]")
V100_NOT_SUPPORTED = nvidia_smi(
    f"0, {uuid(0)}, Tesla V100-SXM2-16GB, 7.0, 550.54.15, 16384, [Not Supported]"
)
ONE_OF_TWO_BROKEN = nvidia_smi(
    a100_row(0), "1, [Unknown Error], ERR!, [Unknown Error], 550.54.15, ERR!, [Unknown Error]"
)
ALL_BROKEN = nvidia_smi("0, ERR!, ERR!, ERR!, 550.54.15, ERR!, ERR!")

VERSION_MISMATCH = nvidia_smi_fails(
    "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.54\n",
    returncode=18,
)
NO_DRIVER = nvidia_smi_fails(
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
    "the latest NVIDIA driver is installed and running.\n\n"
)
NO_DEVICES = nvidia_smi_fails("No devices were found\n", returncode=6)
NO_LIBRARY = nvidia_smi_fails(
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the "
    "NVIDIA Display Driver is properly installed and present in your system.\n",
    returncode=12,
)
NO_PERMISSION = nvidia_smi_fails(
    "Failed to initialize NVML: Insufficient Permissions\n", returncode=4
)


# -- AMD ------------------------------------------------------------------------------------------


def kfd_node(
    node: int,
    gfx_target_version: int,
    device_id: int = 0,
    unique_id: int = 0,
    memory_bytes: int = 0,
    name: str = "ip discovery",
    render_access: str = "ok",
) -> dict[str, Any]:
    """A node of /sys/class/kfd/kfd/topology/nodes; version 0 makes it a CPU."""
    is_gpu = gfx_target_version > 0
    properties = f"""\
cpu_cores_count {0 if is_gpu else 96}
simd_count {1216 if is_gpu else 0}
mem_banks_count 1
caches_count 626
gfx_target_version {gfx_target_version}
vendor_id {4098 if is_gpu else 0}
device_id {device_id}
location_id {1280 + node}
domain 0
drm_render_minor {127 + node if is_gpu else 0}
hive_id 0
num_xcc 1
unique_id {unique_id}
"""
    bank = f"heap_type {1 if is_gpu else 0}\nsize_in_bytes {memory_bytes}\nflags 0\nwidth 8192\n"
    return {
        "node": node,
        "gpu_id": str(51000 + node) if is_gpu else "0",
        "name": name if is_gpu else "",
        "properties": properties,
        "mem_banks": [bank],
        **({"render_access": render_access} if is_gpu else {}),
    }


def kfd(*gpus: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A host with two CPU sockets (nodes 0 and 1) and these nodes, DKMS driver 6.10.5."""
    sockets = [kfd_node(n, 0, memory_bytes=540 * 10**9) for n in (0, 1)]
    return {
        "kfd": {
            "dev_kfd": "ok",
            "dev_kfd_group": "render",
            "amdgpu_version": "6.10.5",
            "nodes": [*sockets, *gpus],
            **fields,
        }
    }


def mi250_gcd(node: int) -> dict[str, Any]:
    return kfd_node(node, 90010, 0x740C, 0x124D13CCD7B05000 + node, 68702699520, "aldebaran")


def mi300x(node: int, **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "device_id": 0x74A1,
        "unique_id": 0x21B6D61638A86000 + node,
        "memory_bytes": 206141652992,
    }
    return kfd_node(node, 90402, **{**fields, **changes})


# One MI250 card is two GCDs, each a device.
TWO_MI250 = kfd(*(mi250_gcd(n) for n in range(2, 6)))
EIGHT_MI300X = kfd(*(mi300x(n) for n in range(2, 10)))
# CPX mode: an MI300X becomes eight nodes with an eighth of the memory; older kernels give all
# of them the board's unique id.
MI300X_CPX = kfd(
    *(mi300x(n, unique_id=0x21B6D61638A86F8C, memory_bytes=25769803776) for n in range(2, 10))
)
RX_7900_IN_TREE = kfd(
    kfd_node(2, 110000, 0x744C, 0, 25753026560), amdgpu_version=None, dev_kfd_group="video"
)

AMD_SMI_MI300X = json.dumps(
    [
        {
            "gpu": 0,
            "asic": {
                "market_name": "AMD Instinct MI300X",
                "vendor_id": "0x1002",
                "vendor_name": "Advanced Micro Devices Inc. [AMD/ATI]",
                "subvendor_id": "0x1002",
                "device_id": "0x74a1",
                "rev_id": "0x00",
                "asic_serial": "0x21B6D61638A86F8C",
                "oam_id": 0,
                "target_graphics_version": "gfx942",
            },
            "bus": {"bdf": "0000:83:00.0"},
            "driver": {"name": "amdgpu", "version": "6.10.5"},
            "vram": {"type": "HBM", "size": {"value": 196592, "unit": "MB"}},
        }
    ]
)
AMD_SMI_ROCM_6 = {"tools": {"amd_static": ran(AMD_SMI_MI300X)}}
AMD_SMI_ROCM_7 = {"tools": {"amd_static": ran(f'{{"gpu_data": {AMD_SMI_MI300X}}}')}}

ROCMINFO_MI250 = {
    "tools": {
        "rocminfo": ran(
            """\
ROCk module version 6.10.5 is loaded
=====================
HSA System Attributes
=====================
Runtime Version:         1.14

==========
HSA Agents
==========
*******
Agent 1
*******
  Name:                    AMD EPYC 7713 64-Core Processor
  Uuid:                    CPU-XX
  Marketing Name:          AMD EPYC 7713 64-Core Processor
  Device Type:             CPU
  Pool Info:
    Pool 1
      Segment:                 GLOBAL; FLAGS: FINE GRAINED
      Size:                    263848980(0xfb9f814) KB
*******
Agent 2
*******
  Name:                    gfx90a
  Uuid:                    GPU-124d13ccd7b050e5
  Marketing Name:          AMD Instinct MI250X/MI250
  Vendor Name:             AMD
  Device Type:             GPU
  Chip ID:                 29708(0x740c)
  Pool Info:
    Pool 1
      Segment:                 GLOBAL; FLAGS: COARSE GRAINED
      Size:                    67092480(0x3ffc000) KB
      Allocatable:             TRUE
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-
"""
        )
    }
}


def torch(
    version: str = "2.5.1+rocm6.2", hip: str | None = "6.2.41133-dd7f95766"
) -> dict[str, Any]:
    """What an interpreter tells of its torch (see `probe`)."""
    return ran(
        json.dumps(
            {
                "version": version,
                "hip": hip,
                "python": "3.10",
                "site_packages": "/opt/conda/lib/python3.10/site-packages",
            }
        )
    )


# -- Apple ----------------------------------------------------------------------------------------


def mac(chip: str = "Apple M2 Pro", machine: str = "arm64") -> dict[str, Any]:
    seen = host(system="Darwin")
    seen["platform"].update(machine=machine, release="23.5.0")
    seen["tools"] = {
        "macos_version": ran("14.5\n", "", 0, "sw_vers", "-productVersion"),
        "chip": ran(f"{chip}\n", "", 0, "sysctl", "-n", "machdep.cpu.brand_string"),
        "memory": ran("17179869184\n", "", 0, "sysctl", "-n", "hw.memsize"),
    }
    return seen
