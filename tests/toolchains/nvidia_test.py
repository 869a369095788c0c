"""NVIDIA's tools out of the artifact, on the code of a real kernel."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import triton

from kernels.harness.compiling import CompiledKernel, compile_kernel
from kernels.vector_add import vector_add_kernel

#: Laid out as Triton's `third_party/nvidia/backend`.
TREE = Path(os.environ.get("NVIDIA_TREE", "no tree"))


def run_tool(name: str, *args: str) -> str:
    result = subprocess.run(
        [str(TREE / "bin" / name), *args], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"{name}: {result.stdout}{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def kernel() -> CompiledKernel:
    return compile_kernel(
        vector_add_kernel,
        "sm_90",
        {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n_elements": "i32"},
        {"BLOCK_SIZE": 1024},
        multiples_of_16=["n_elements"],
    )


@pytest.mark.parametrize(
    "tool, version", [("ptxas", "V12.8.93"), ("cuobjdump", "V13.2"), ("nvdisasm", "V13.2")]
)
def test_tools_start_and_are_of_the_locked_version(tool: str, version: str) -> None:
    assert version in run_tool(tool, "--version")


def test_nvdisasm_reads_what_triton_made(kernel: CompiledKernel, tmp_path: Path) -> None:
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(kernel.binary)
    assembly = run_tool("nvdisasm", "-c", str(cubin))
    assert ".text.vector_add_kernel" in assembly
    # Two loads of 16 bytes a thread and one store, as in the PTX.
    assert len(re.findall(r"LDG\.E\.128", assembly)) == 4
    assert len(re.findall(r"STG\.E\.128", assembly)) == 2


def test_cuobjdump_knows_the_architecture(kernel: CompiledKernel, tmp_path: Path) -> None:
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(kernel.binary)
    assert "sm_90" in run_tool("cuobjdump", "--dump-elf", str(cubin))


def test_triton_assembles_with_the_artifact_s_ptxas() -> None:
    assert triton.knobs.nvidia.ptxas.path == str(TREE / "bin/ptxas")


def test_ptxas_makes_the_same_code_of_triton_s_ptx(kernel: CompiledKernel, tmp_path: Path) -> None:
    ptx = tmp_path / "kernel.ptx"
    ptx.write_text(kernel.assembly)
    cubin = tmp_path / "again.cubin"
    run_tool("ptxas", "--gpu-name=sm_90a", str(ptx), "-o", str(cubin))
    assert len(re.findall(r"LDG\.E\.128", run_tool("nvdisasm", "-c", str(cubin)))) == 4


def test_the_layout_is_that_of_triton_s_backend_folder() -> None:
    for path in (
        *("bin/ptxas", "bin/cuobjdump", "bin/nvdisasm"),
        *("include/cuda.h", "include/crt/host_config.h", "include/cupti.h"),
        *("lib/cupti/libcupti.so.12", "nvvm/libdevice/libdevice.10.bc"),
    ):
        assert (TREE / path).is_file(), path
