"""The environment in which a process sees its devices and no others."""

from __future__ import annotations

import os
from typing import Mapping, Sequence

from pants_triton.hardware.device import Device, MachineTorch


def device_environment(
    hardware: str, devices: Sequence[Device], torch: MachineTorch | None, environ: Mapping[str, str]
) -> dict[str, str]:
    """`environ` changed so that a process sees exactly `devices`, in this order, and no other
    vendor's.

    CUDA gets UUIDs, which mean the same under any CUDA_DEVICE_ORDER. ROCr gets UUIDs where the
    devices have some; HIP counts only what ROCr leaves, hence 0 to n-1, whichever devices these
    are. An empty CUDA_VISIBLE_DEVICES hides all from CUDA and is as good as unset for HIP, which
    otherwise would read it; an empty ROCR_VISIBLE_DEVICES hides all from ROCr.
    """
    result = {k: v for k, v in environ.items() if k != "GPU_DEVICE_ORDINAL"}
    selectors = ",".join(device.selector for device in devices)
    if hardware == "cuda":
        result["CUDA_VISIBLE_DEVICES"] = selectors
        result["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        result["ROCR_VISIBLE_DEVICES"] = ""
        result["HIP_VISIBLE_DEVICES"] = "-1"
    elif hardware == "rocm":
        result["CUDA_VISIBLE_DEVICES"] = ""
        result["ROCR_VISIBLE_DEVICES"] = selectors
        result["HIP_VISIBLE_DEVICES"] = ",".join(str(i) for i in range(len(devices)))
        if torch is not None:
            # Appended: whatever else is in that folder must not shadow the test's own packages.
            paths = [result.get("PEX_EXTRA_SYS_PATH", ""), torch.site_packages]
            result["PEX_EXTRA_SYS_PATH"] = os.pathsep.join(path for path in paths if path)
    return result
