"""Drivers on a machine that may have no device, and the linker that AMD's need."""

from __future__ import annotations

import ctypes
import shutil
import sys
from pathlib import Path

import pytest
from minitriton.runtime import DriverError, cuda, driver, open_driver, rocm
from minitriton.testing import add_kernel


def test_unknown_platform() -> None:
    with pytest.raises(
        DriverError, match="unknown platform 'tpu': expected one of cpu, cuda, rocm"
    ):
        open_driver("tpu")


@pytest.mark.parametrize("platform, module", [("cuda", cuda), ("rocm", rocm)])
def test_a_missing_library_is_named(
    platform: str, module: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LIBRARY", "libnowhere.so.1")
    with pytest.raises(DriverError, match="isn't installed: libnowhere.so.1"):
        open_driver(platform)


def test_launch_functions_get_a_pointer_to_each_argument() -> None:
    pointers, _kept = driver.argument_pointers(["i32", "f64"], [7, 0.5])
    assert ctypes.cast(pointers[0], ctypes.POINTER(ctypes.c_int32))[0] == 7
    assert ctypes.cast(pointers[1], ctypes.POINTER(ctypes.c_double))[0] == 0.5


@pytest.mark.skipif(shutil.which("ld.lld") is None, reason="ld.lld isn't on PATH")
def test_linked_objects_are_shared_ones() -> None:
    compiled = add_kernel.compile(
        {"x": "*f32", "y": "*f32", "out": "*f32", "n": "i32"}, {"BLOCK": 128}, "gfx942"
    )
    image = rocm.link(compiled.object())
    # The type in ELF's header: ET_DYN.
    assert image[16:18] == b"\x03\x00"
    assert b"add_kernel.kd" in image


def test_the_linkers_words_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linker = tmp_path / "ld.lld"
    linker.write_text(f"#!{sys.executable}\nraise SystemExit('no such luck')\n")
    linker.chmod(0o755)
    monkeypatch.setenv(rocm.LINKER_VARIABLE, str(linker))
    with pytest.raises(DriverError, match="no such luck"):
        rocm.link(b"")


def test_a_missing_linker_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rocm.LINKER_VARIABLE, "/nowhere/ld.lld")
    with pytest.raises(DriverError, match="put it on PATH, or name it by MINITRITON_LLD"):
        rocm.find_linker()
