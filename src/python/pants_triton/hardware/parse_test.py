"""What each kind of host offers. The recorded outputs are in `recorded`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pants_triton.hardware import recorded
from pants_triton.hardware.device import Host
from pants_triton.hardware.parse import gfx_target, parse_host
from pants_triton.hardware.recorded import host, kfd, mi300x, uuid


def shown(parsed: Host, hardware: str) -> list[str]:
    return [f"{d.label} {d.arch} {d.name} {d.memory_mib}" for d in parsed.of(hardware)]


# -- NVIDIA ---------------------------------------------------------------------------------------


def test_a100() -> None:
    (device,) = parse_host(host(nvidia=recorded.A100)).devices
    assert (device.hardware, device.vendor, device.index) == ("cuda", "nvidia", 0)
    assert (device.name, device.arch) == ("NVIDIA A100-SXM4-80GB", "sm_80")
    assert (device.driver, device.memory_mib) == ("550.54.15", 81920)
    assert device.uuid == device.selector == uuid(0)
    assert device.device_class.fingerprint == (
        "cuda sm_80 | NVIDIA A100-SXM4-80GB | 81920 MiB | driver 550.54.15"
    )


def test_mixed_boards_in_nvidia_smi_order() -> None:
    rows = [recorded.h100_row(2), recorded.a100_row(0), recorded.h100_row(1)]
    parsed = parse_host(host(nvidia=recorded.nvidia_smi(*rows)))
    assert [(d.index, d.arch) for d in parsed.devices] == [(0, "sm_80"), (1, "sm_90"), (2, "sm_90")]


def test_each_mig_instance_is_a_device_and_its_board_is_not() -> None:
    parsed = parse_host(host(nvidia=recorded.H100_MIG))
    assert shown(parsed, "cuda") == [
        "0:0 sm_90 NVIDIA H100 80GB HBM3 40960",
        "0:1 sm_90 NVIDIA H100 80GB HBM3 20480",
        "0:2 sm_90 NVIDIA H100 80GB HBM3 20480",
    ]
    first = parsed.devices[0]
    assert first.uuid == first.selector == uuid(0x10, "MIG")
    assert (first.parent_uuid, first.mig_profile) == (uuid(0), "3g.40gb")
    assert "H100 80GB HBM3 MIG 3g.40gb | 40960 MiB" in first.device_class.fingerprint


def test_a_board_in_mig_mode_without_instances_offers_nothing() -> None:
    parsed = parse_host(host(nvidia=recorded.H100_MIG_WITHOUT_INSTANCES))
    assert parsed.of("cuda") == ()
    assert "has no instances: create some" in parsed.problems["cuda"]


def test_driver_450_has_no_compute_cap_and_old_mig_uuids() -> None:
    parsed = parse_host(host(nvidia=recorded.A100_MIG_DRIVER_450))
    assert shown(parsed, "cuda") == [
        "0:0 sm_80 A100-SXM4-40GB 20480",
        "0:1 sm_80 A100-SXM4-40GB 20480",
    ]
    assert parsed.devices[1].uuid == f"MIG-{uuid(0)}/2/0"


@pytest.mark.parametrize(
    "name, arch",
    [
        pytest.param("Tesla V100-SXM2-16GB", "sm_70", id="V100"),
        pytest.param("Tesla T4", "sm_75", id="T4"),
        pytest.param("A100-PCIE-40GB", "sm_80", id="A100"),
        pytest.param("NVIDIA A10G", "sm_86", id="A10G, not A100"),
        pytest.param("GeForce RTX 3090", "sm_86", id="RTX 3090"),
        pytest.param("NVIDIA GeForce RTX 4090", "sm_89", id="RTX 4090"),
    ],
)
def test_without_compute_cap_the_board_name_tells_the_arch(name: str, arch: str) -> None:
    seen = recorded.nvidia_smi(
        f"0, {uuid(0)}, {name}, 470.82.01, 16160",
        fields="index,uuid,name,driver_version,memory.total",
    )
    assert parse_host(host(nvidia=seen)).devices[0].arch == arch


@pytest.mark.parametrize(
    "seen, memory_mib",
    [
        pytest.param(recorded.GB10, None, id="unified memory: [N/A]"),
        pytest.param(recorded.V100_NOT_SUPPORTED, 16384, id="no MIG: [Not Supported]"),
    ],
)
def test_a_field_that_a_board_lacks_does_no_harm(seen: Any, memory_mib: int | None) -> None:
    (device,) = parse_host(host(nvidia=seen)).devices
    assert device.memory_mib == memory_mib
    assert ("memory unknown" in device.device_class.fingerprint) == (memory_mib is None)


def test_a_broken_board_is_left_out_and_noted() -> None:
    parsed = parse_host(host(nvidia=recorded.ONE_OF_TWO_BROKEN))
    assert [d.index for d in parsed.of("cuda")] == [0]
    assert "cuda" not in parsed.problems
    assert parsed.notes == ("NVIDIA device 1 is broken: nvidia-smi says 'ERR!' for its name",)


@pytest.mark.parametrize(
    "seen, reason",
    [
        pytest.param({}, "no nvidia-smi on the search path", id="not installed"),
        pytest.param(recorded.VERSION_MISMATCH, "reboot, or unload and reload", id="mismatch"),
        pytest.param(recorded.NO_DRIVER, "is its kernel module loaded", id="no driver"),
        pytest.param(recorded.NO_DEVICES, "finds no device", id="no devices"),
        pytest.param(recorded.NO_LIBRARY, "doesn't find libnvidia-ml.so", id="no library"),
        pytest.param(recorded.NO_PERMISSION, "may not open /dev/nvidia*", id="permissions"),
        pytest.param(recorded.ALL_BROKEN, "NVIDIA device 0 is broken", id="all broken"),
        pytest.param(recorded.UNKNOWN_BOARD_DRIVER_450, "driver 510 or newer", id="unknown arch"),
        pytest.param(recorded.nvidia_smi(), "nvidia-smi printed nothing", id="empty output"),
        pytest.param(recorded.nvidia_smi("\x00\ufffd,,"), "listed no device", id="garbage"),
        pytest.param(
            {"nvidia_query": recorded.failed("timed out")},
            "did not answer within 20.0 s: the driver hangs",
            id="hangs",
        ),
        pytest.param(
            {"nvidia_query": recorded.failed("permission denied")},
            "can't be run: permission denied",
            id="not executable",
        ),
        pytest.param(
            recorded.nvidia_smi_fails(stderr="segfault\nat 0x0", returncode=-11),
            "failed with exit code -11: segfault at 0x0",
            id="crashes",
        ),
    ],
)
def test_why_there_is_no_nvidia_device(seen: Any, reason: str) -> None:
    parsed = parse_host(host(nvidia=seen))
    assert parsed.of("cuda") == ()
    assert reason in parsed.problems["cuda"]
    assert "\n" not in parsed.problems["cuda"]


def test_a_container_that_asked_for_no_device_is_told_so() -> None:
    parsed = parse_host(host(environ={"NVIDIA_VISIBLE_DEVICES": "void"}))
    assert parsed.problems["cuda"].startswith("NVIDIA_VISIBLE_DEVICES='void' gives this container")


# -- AMD ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "version, arch",
    [
        (0, None),
        (90008, "gfx908"),
        (90010, "gfx90a"),
        (90402, "gfx942"),
        (90500, "gfx950"),
        (100300, "gfx1030"),
        (110000, "gfx1100"),
        (110501, "gfx1151"),
        (120001, "gfx1201"),
        (10**12, None),
    ],
)
def test_gfx_target_version(version: int, arch: str | None) -> None:
    assert gfx_target(version) == arch


def test_both_gcds_of_an_mi250_are_devices() -> None:
    parsed = parse_host(host(amd=recorded.TWO_MI250))
    board = "gfx90a AMD Instinct MI250X/MI250 65520"
    assert shown(parsed, "rocm") == [f"{i} {board}" for i in range(4)]
    assert parsed.devices[0].uuid == parsed.devices[0].selector == "GPU-124d13ccd7b05002"
    assert parsed.devices[0].device_class.fingerprint == (
        "rocm gfx90a | AMD Instinct MI250X/MI250 | 65520 MiB | driver amdgpu 6.10.5"
    )


def test_partitions_that_share_a_unique_id_are_selected_by_index() -> None:
    parsed = parse_host(host(amd=recorded.MI300X_CPX))
    assert len(parsed.of("rocm")) == 8
    assert [d.uuid for d in parsed.devices[:2]] == ["AMD-0", "AMD-1"]
    assert [d.selector for d in parsed.devices[:2]] == ["0", "1"]
    assert parsed.devices[0].memory_mib == 24576


def test_the_in_tree_driver_has_the_version_of_its_kernel() -> None:
    (device,) = parse_host(host(amd=recorded.RX_7900_IN_TREE)).devices
    assert (device.arch, device.driver) == ("gfx1100", "in-tree 6.8.0-45-generic")
    assert device.selector == "0"  # Consumer boards have unique_id 0.


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(recorded.AMD_SMI_ROCM_6, id="amd-smi of ROCm 6"),
        pytest.param(recorded.AMD_SMI_ROCM_7, id="amd-smi of ROCm 7"),
    ],
)
def test_amd_smi_where_the_kernel_topology_is_unreadable(seen: Any) -> None:
    (device,) = parse_host(host(amd=seen)).devices
    assert (device.arch, device.name) == ("gfx942", "AMD Instinct MI300X")
    assert (device.memory_mib, device.uuid) == (196592, "GPU-21b6d61638a86f8c")


def test_rocminfo_as_the_last_resort() -> None:
    (device,) = parse_host(host(amd=recorded.ROCMINFO_MI250)).devices
    assert (device.arch, device.name) == ("gfx90a", "AMD Instinct MI250X/MI250")
    assert (device.memory_mib, device.uuid) == (65520, "GPU-124d13ccd7b050e5")


@pytest.mark.parametrize(
    "seen, reason",
    [
        pytest.param({}, "amdgpu is not loaded", id="no driver"),
        pytest.param(
            kfd(mi300x(2), dev_kfd="permission denied", dev_kfd_group="video"),
            "/dev/kfd is not accessible: add this user to the group `video`",
            id="not in the group",
        ),
        pytest.param(
            kfd(mi300x(2), dev_kfd="absent"), "--device=/dev/kfd", id="container without /dev/kfd"
        ),
        pytest.param(
            kfd(mi300x(2, render_access="absent")),
            "no accessible /dev/dri/renderD*",
            id="container without /dev/dri",
        ),
        pytest.param(
            kfd({"node": 2, "error": "Operation not permitted"}),
            "are unreadable here",
            id="device cgroup",
        ),
        pytest.param(kfd(), "lists no device", id="driver without devices"),
        pytest.param(
            {"tools": {"amd_static": recorded.failed("timed out")}}, "amd-smi did not", id="hangs"
        ),
        pytest.param(
            {"tools": {"amd_static": recorded.ran("[]", "", 0)}}, "listed no device", id="empty"
        ),
    ],
)
def test_why_there_is_no_amd_device(seen: Any, reason: str) -> None:
    parsed = parse_host(host(amd=seen))
    assert parsed.of("rocm") == ()
    assert reason in parsed.problems["rocm"]


def test_an_update_of_rocm_is_another_fingerprint() -> None:
    before, after = (
        parse_host(host(amd=recorded.EIGHT_MI300X, rocm_version=version)).devices[0].device_class
        for version in ("6.2.0-66", "6.3.0-39")
    )
    assert "driver amdgpu 6.10.5, rocm 6.2.0-66" in before.fingerprint
    assert before.fingerprint != after.fingerprint


def test_the_machines_torch_is_part_of_the_rocm_fingerprint() -> None:
    seen = host(amd=recorded.EIGHT_MI300X, nvidia=recorded.A100, torch=[recorded.torch()])
    parsed = parse_host(seen)
    assert parsed.torch is not None
    assert parsed.torch.site_packages == "/opt/conda/lib/python3.10/site-packages"
    assert parsed.of("rocm")[0].device_class.fingerprint == (
        "rocm gfx942 | AMD Instinct MI300X | 196592 MiB | driver amdgpu 6.10.5 | torch 2.5.1+rocm6.2"
    )
    assert "torch" not in parsed.of("cuda")[0].device_class.fingerprint


def test_the_first_interpreter_with_a_rocm_torch_wins() -> None:
    runs = [recorded.failed("not found"), recorded.torch("2.5.1+cu124", None), recorded.torch()]
    parsed = parse_host(host(amd=recorded.EIGHT_MI300X, torch=runs))
    assert parsed.torch is not None and parsed.torch.version == "2.5.1+rocm6.2"


# -- hosts with more, and with less ---------------------------------------------------------------


def test_both_vendors() -> None:
    parsed = parse_host(host(nvidia=recorded.A100, amd=recorded.TWO_MI250))
    assert [d.hardware for d in parsed.devices] == ["cuda"] + ["rocm"] * 4
    assert set(parsed.problems) == {"macos"}


@pytest.mark.parametrize(
    "chip, machine, arch",
    [
        pytest.param("Apple M2 Pro", "arm64", "apple-m2", id="Apple silicon"),
        pytest.param("Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz", "x86_64", "x86_64", id="Intel"),
    ],
)
def test_a_mac(chip: str, machine: str, arch: str) -> None:
    parsed = parse_host(recorded.mac(chip, machine))
    (device,) = parsed.devices
    assert (device.hardware, device.name, device.arch) == ("macos", chip, arch)
    assert (device.driver, device.memory_mib) == ("macOS 14.5", 16384)
    assert set(parsed.problems) == {"cuda", "rocm"}


def test_nothing_at_all() -> None:
    parsed = parse_host(host())
    assert parsed.devices == ()
    assert parsed.problems["macos"] == "this host is Linux, not macOS"
    assert set(parsed.problems) == {"cuda", "rocm", "macos"}


# -- devices that the user hid --------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, left",
    [
        pytest.param("2,3", [2, 3], id="indices"),
        pytest.param("3, 1", [3, 1], id="the order counts"),
        pytest.param(uuid(2), [2], id="UUID"),
        pytest.param("GPU-00000001", [1], id="beginning of a UUID"),
        pytest.param("GPU-0000000", [], id="ambiguous beginning"),
        pytest.param("0,2,-1,1", [0, 2], id="ends at the first invalid entry"),
        pytest.param("0,9,1", [0], id="index that doesn't exist"),
        pytest.param("1,1", [], id="a repetition hides all"),
        pytest.param("", [], id="empty hides all"),
        pytest.param("-1", [], id="-1"),
        pytest.param("NoDevFiles", [], id="Slurm's word for none"),
    ],
)
def test_cuda_visible_devices(value: str, left: list[int]) -> None:
    seen = host(nvidia=recorded.FOUR_A100, environ={"CUDA_VISIBLE_DEVICES": value})
    parsed = parse_host(seen)
    assert [d.index for d in parsed.of("cuda")] == left
    if left:
        assert parsed.notes == (f"CUDA_VISIBLE_DEVICES={value!r} leaves {len(left)} of 4 devices",)
    else:
        assert parsed.problems["cuda"] == (
            f"CUDA_VISIBLE_DEVICES={value!r} hides all devices of this host (4): unset it, or name "
            "one of them"
        )


@pytest.mark.parametrize(
    "value, left",
    [
        pytest.param(uuid(0x11, "MIG"), ["0:1"], id="MIG UUID"),
        pytest.param("0", ["0:0"], id="the board's index is its first instance"),
        pytest.param(uuid(0), ["0:0"], id="the board's UUID is its first instance"),
    ],
)
def test_cuda_visible_devices_with_mig(value: str, left: list[str]) -> None:
    seen = host(nvidia=recorded.H100_MIG, environ={"CUDA_VISIBLE_DEVICES": value})
    assert [d.label for d in parse_host(seen).of("cuda")] == left


@pytest.mark.parametrize(
    "environ, left",
    [
        pytest.param({"ROCR_VISIBLE_DEVICES": "2,3"}, [2, 3], id="ROCr by index"),
        pytest.param({"ROCR_VISIBLE_DEVICES": "GPU-124D13CCD7B05004,0"}, [2, 0], id="ROCr by UUID"),
        pytest.param({"ROCR_VISIBLE_DEVICES": ""}, [], id="ROCr empty"),
        pytest.param({"HIP_VISIBLE_DEVICES": "1"}, [1], id="HIP"),
        pytest.param(
            {"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "1"},
            [3],
            id="HIP counts what ROCr leaves",
        ),
        pytest.param(
            {"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "2"}, [], id="HIP beyond ROCr"
        ),
        pytest.param({"HIP_VISIBLE_DEVICES": "-1"}, [], id="HIP -1"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "3"}, [3], id="HIP reads CUDA's variable"),
        pytest.param({"CUDA_VISIBLE_DEVICES": ""}, [0, 1, 2, 3], id="but not when it is empty"),
    ],
)
def test_amd_visible_devices(environ: dict[str, str], left: list[int]) -> None:
    parsed = parse_host(host(amd=recorded.TWO_MI250, environ=environ))
    assert [d.index for d in parsed.of("rocm")] == left


def test_cudas_variable_is_not_amds_where_there_is_an_nvidia_device() -> None:
    seen = host(recorded.A100, recorded.TWO_MI250, environ={"CUDA_VISIBLE_DEVICES": "0"})
    assert len(parse_host(seen).of("rocm")) == 4


# -- nothing makes it raise -----------------------------------------------------------------------

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40)
_JSON = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
_REAL = [
    host(recorded.H100_MIG, recorded.TWO_MI250, torch=[recorded.torch()]),
    host(recorded.ONE_OF_TWO_BROKEN, recorded.AMD_SMI_ROCM_7),
    host(recorded.A100, recorded.ROCMINFO_MI250, {"CUDA_VISIBLE_DEVICES": "0"}),
    recorded.mac(),
]


def paths(data: Any) -> list[tuple[Any, ...]]:
    """Every place in nested dicts and lists."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    found: list[tuple[Any, ...]] = []
    for key, value in items:
        found.append((key,))
        if isinstance(value, (dict, list)):
            found += [(key, *rest) for rest in paths(value)]
    return found


def check(parsed: Host) -> None:
    for hardware in ("cuda", "rocm", "macos"):
        assert bool(parsed.of(hardware)) != (hardware in parsed.problems)
    for line in [*parsed.problems.values(), *parsed.notes]:
        assert line and "\n" not in line
    for device in parsed.devices:
        fingerprint = device.device_class.fingerprint
        assert fingerprint.isascii() and fingerprint.isprintable()
    assert len({d.uuid for d in parsed.devices}) == len(parsed.devices)


@given(_JSON)
def test_any_json_gives_a_host(data: Any) -> None:
    check(parse_host(data))


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_real_observation_with_one_thing_replaced_gives_a_host(data: Any) -> None:
    seen = json.loads(json.dumps(data.draw(st.sampled_from(_REAL))))
    path = data.draw(st.sampled_from(paths(seen)))
    place = seen
    for key in path[:-1]:
        place = place[key]
    old = place[path[-1]]
    if isinstance(old, str) and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(old)))
        place[path[-1]] = old[:at] + data.draw(st.text(max_size=20)) + old[at + 3 :]
    else:
        place[path[-1]] = data.draw(_JSON)
    check(parse_host(seen))
