"""How the host is looked at: with fake tools and a fake sysfs, as our tests have no GPU."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from pants_triton.hardware import recorded
from pants_triton.hardware.parse import parse_host
from pants_triton.hardware.probe import observe, observe_kfd, run_tool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a Mac is looked at differently")


def write_tool(folder: Path, name: str, script: str, mode: int = 0o755) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(mode)


def write_kfd(root: Path, nodes: list[dict[str, object]]) -> None:
    for node in nodes:
        folder = root / "class/kfd/kfd/topology/nodes" / str(node["node"])
        (folder / "mem_banks/0").mkdir(parents=True)
        for name in ("properties", "gpu_id", "name"):
            (folder / name).write_text(f"{node[name]}\n")
        (folder / "mem_banks/0/properties").write_text(node["mem_banks"][0])  # type: ignore[index]


def test_nvidia(tmp_path: Path) -> None:
    write_tool(
        tmp_path / "bin",
        "nvidia-smi",
        f"""\
        case "$1" in
          -L) echo "GPU 0: NVIDIA A100-SXM4-80GB (UUID: {recorded.uuid(0)})";;
          *) echo "{recorded.a100_row()}";;
        esac""",
    )
    seen = observe([str(tmp_path / "bin")], {}, sysfs=str(tmp_path), dev=str(tmp_path))
    assert [d.arch for d in parse_host(seen).devices] == ["sm_80"]
    assert parse_host(json.loads(json.dumps(seen))) == parse_host(seen)


def test_fields_that_an_old_nvidia_smi_lacks_are_not_asked_for_again(tmp_path: Path) -> None:
    write_tool(
        tmp_path / "bin",
        "nvidia-smi",
        f"""\
        case "$1" in
          *compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2;;
          *mig.mode*) echo 'Field "mig.mode.current" is not a valid field to query.'; exit 2;;
          --query*) echo "0, {recorded.uuid(0)}, Tesla T4, 440.33.01, 15109";;
        esac""",
    )
    seen = observe([str(tmp_path / "bin")], {}, sysfs=str(tmp_path), dev=str(tmp_path))
    (device,) = parse_host(seen).devices
    assert (device.arch, device.memory_mib) == ("sm_75", 15109)


def test_amd_from_sysfs_with_the_machines_torch(tmp_path: Path) -> None:
    write_kfd(tmp_path / "sys", recorded.EIGHT_MI300X["kfd"]["nodes"])
    (tmp_path / "sys/module/amdgpu").mkdir(parents=True)
    (tmp_path / "sys/module/amdgpu/version").write_text("6.10.5\n")
    (tmp_path / "rocm/.info").mkdir(parents=True)
    (tmp_path / "rocm/.info/version").write_text("6.2.0-66\n")
    (tmp_path / "dev/dri").mkdir(parents=True)
    (tmp_path / "dev/kfd").touch()
    for minor in range(129, 137):
        (tmp_path / f"dev/dri/renderD{minor}").touch()
    torch = tmp_path / "site/torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").write_text("raise ImportError('importing torch is slow')")
    (torch / "version.py").write_text("__version__ = '2.5.1+rocm6.2'\nhip = '6.2.41133'\n")

    seen = observe(
        [],
        {"PYTHONPATH": str(tmp_path / "site")},
        sysfs=str(tmp_path / "sys"),
        dev=str(tmp_path / "dev"),
        rocm=str(tmp_path / "rocm"),
        torch_pythons=["no-such-python", sys.executable],
    )
    host = parse_host(seen)
    assert len(host.of("rocm")) == 8
    assert host.torch is not None
    assert host.torch.site_packages == str(tmp_path / "site")
    assert host.of("rocm")[0].device_class.fingerprint == (
        "rocm gfx942 | AMD Instinct MI300X | 196592 MiB | driver amdgpu 6.10.5, rocm 6.2.0-66"
        " | torch 2.5.1+rocm6.2"
    )


def test_a_host_without_anything(tmp_path: Path) -> None:
    seen = observe([str(tmp_path)], {}, sysfs=str(tmp_path), dev=str(tmp_path))
    assert seen["tools"]["nvidia_query"]["error"] == "not found"
    assert seen["kfd"]["nodes"] == [] and seen["kfd"]["dev_kfd"] == "absent"
    assert seen["torch"] == []


def test_a_tool_that_is_not_executable(tmp_path: Path) -> None:
    write_tool(tmp_path, "nvidia-smi", "exit 0", mode=0o644)
    seen = observe([str(tmp_path)], {}, sysfs=str(tmp_path), dev=str(tmp_path))
    assert seen["tools"]["nvidia_query"]["error"] == "permission denied"


def test_narrowing_variables_are_recorded_but_kept_from_the_tools(tmp_path: Path) -> None:
    write_tool(tmp_path, "rocminfo", 'echo "sees ${ROCR_VISIBLE_DEVICES-all}"')
    environ = {"ROCR_VISIBLE_DEVICES": "3", "HOME": "/root"}
    seen = observe([str(tmp_path)], environ, sysfs=str(tmp_path), dev=str(tmp_path))
    assert seen["environ"] == {"ROCR_VISIBLE_DEVICES": "3"}
    assert seen["tools"]["rocminfo"]["stdout"] == "sees all\n"


def test_a_tool_that_hangs_is_killed_with_its_children() -> None:
    started = time.monotonic()
    run = run_tool(["/bin/sh", "-c", "echo partly; sleep 60 & sleep 60"], {}, 0.3)
    assert time.monotonic() - started < 10
    assert (run["error"], run["timeout_s"], run["stdout"]) == ("timed out", 0.3, "partly\n")


def test_output_that_is_not_text() -> None:
    run = run_tool(["/bin/sh", "-c", r"printf '\377\000'; exit 3"], {}, 10)
    assert (run["returncode"], run["stdout"]) == (3, "\ufffd\x00")


def test_a_node_that_the_container_may_not_read(tmp_path: Path) -> None:
    write_kfd(tmp_path, [recorded.mi300x(2)])
    properties = tmp_path / "class/kfd/kfd/topology/nodes/2/properties"
    properties.unlink()
    properties.mkdir()
    (node,) = observe_kfd(str(tmp_path), str(tmp_path))["nodes"]
    assert node["node"] == 2 and node["error"]
