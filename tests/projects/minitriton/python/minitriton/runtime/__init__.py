"""Machines that kernels run on. Importing this loads no vendor's library."""

from __future__ import annotations

from minitriton.runtime.driver import Buffer, Driver, DriverError

__all__ = ["PLATFORMS", "Buffer", "Driver", "DriverError", "open_driver"]

PLATFORMS = ("cpu", "cuda", "rocm")


def open_driver(platform: str) -> Driver:
    """The first device of a platform: `cpu`, `cuda` or `rocm`.

    :raises DriverError: there is no such device, or its driver isn't installed.
    """
    if platform == "cpu":
        from minitriton.runtime.cpu import CpuDriver

        return CpuDriver()
    if platform == "cuda":
        from minitriton.runtime.cuda import CudaDriver

        return CudaDriver()
    if platform == "rocm":
        from minitriton.runtime.rocm import RocmDriver

        return RocmDriver()
    raise DriverError(f"unknown platform {platform!r}: expected one of {', '.join(PLATFORMS)}")
