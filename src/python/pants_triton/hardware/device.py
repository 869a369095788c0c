"""The accelerators of one host, as facts: what a test can run on and what makes its result valid
elsewhere.

Nothing here looks at the machine: `probe` observes it and `parse` turns observations into these
values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Mapping

#: What a test can need. Always also a tag. The order is the order of every listing.
HARDWARE: tuple[str, ...] = ("cuda", "rocm", "macos", "cpu")

#: The vendor whose devices serve each hardware; `cpu` needs none.
VENDORS: Mapping[str, str] = {"cuda": "nvidia", "rocm": "amd", "macos": "apple"}


class HostFormatError(ValueError):
    """A JSON document is not what `Host.to_json` writes."""


@dataclass(frozen=True)
class DeviceClass:
    """Devices that are interchangeable for a test: a result from one is valid on any other.

    `arch` is `sm_90`, `gfx942` or `apple-m2`; `memory_mib` is in MiB, None where the tool doesn't
    tell. `torch` is the machine's own torch (`2.5.1+rocm6.2`), which `rocm` tests import and other
    tests don't.
    """

    hardware: str
    name: str = ""
    arch: str = ""
    driver: str = ""
    memory_mib: int | None = None
    torch: str | None = None

    @property
    def fingerprint(self) -> str:
        """One line of printable ASCII, for instance
        `cuda sm_90 | NVIDIA H100 80GB HBM3 | 81559 MiB | driver 550.54.15`.

        It says nothing about this very device or host (no index, UUID, host name or path), so that
        another host with the same devices may use the result. `cpu` has the empty fingerprint: its
        results are valid anywhere.
        """
        if self.hardware == "cpu":
            return ""
        memory = "memory unknown" if self.memory_mib is None else f"{self.memory_mib} MiB"
        parts = [f"{self.hardware} {self.arch}", self.name, memory, f"driver {self.driver}"]
        if self.torch is not None:
            parts.append(f"torch {self.torch}")
        return " | ".join(_plain(part) for part in parts)


#: The class of every host without an accelerator, and of every host with one.
CPU = DeviceClass("cpu")


@dataclass(frozen=True)
class Device:
    """One accelerator a process can be given: a GPU, one GCD or partition of it, or one MIG
    instance.

    `index` counts from 0 per vendor, in PCI order for NVIDIA (as nvidia-smi does) and in KFD node
    order for AMD (as ROCr does). MIG instances carry the index of their parent and a `mig_index` of
    their own. `uuid` is unique on the host. It is the vendor's where that exists (`GPU-…`,
    `MIG-…`). `selector` is how to name the device in CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES.
    `assumed` devices were stated by a person, not found: tests are planned for them but never run.
    """

    hardware: str
    vendor: str
    index: int
    name: str
    arch: str
    driver: str
    memory_mib: int | None
    uuid: str
    selector: str = ""
    mig_profile: str | None = None
    mig_index: int | None = None
    parent_uuid: str | None = None
    torch: str | None = None
    assumed: bool = False

    @property
    def label(self) -> str:
        """`0`, or `0:1` for the second MIG instance of device 0. Unique per hardware, for
        people."""
        return f"{self.index}" if self.mig_index is None else f"{self.index}:{self.mig_index}"

    @property
    def device_class(self) -> DeviceClass:
        """What this device shares with its equals on any host."""
        name = f"{self.name} MIG {self.mig_profile}" if self.mig_profile else self.name
        return DeviceClass(
            self.hardware, name, self.arch, self.driver, self.memory_mib, torch=self.torch
        )


@dataclass(frozen=True)
class MachineTorch:
    """The torch installed on the machine. ROCm builds of torch aren't on PyPI, so `rocm` tests
    import this one.

    `version` is `torch.__version__`, `hip` is `torch.version.hip` (None for a CUDA or CPU build),
    `python` is `3.10`, `site_packages` the folder that holds `torch/`.
    """

    version: str
    hip: str | None
    python: str
    site_packages: str

    @property
    def summary(self) -> str:
        """What enters the fingerprint. No path: the same build elsewhere gives the same results."""
        if not self.hip:
            return f"{self.version} (no ROCm)"
        # Wheels say the ROCm release in the version (`2.5.1+rocm6.2`); builds from source often
        # don't.
        return self.version if "rocm" in self.version else f"{self.version} hip {self.hip}"


@dataclass(frozen=True)
class Host:
    """What this host offers. `problems` says in one line why a hardware can't run here.

    Every hardware of HARDWARE but `cpu` has a device that isn't assumed, or a problem. `notes` are
    oddities that leave the host usable (one broken board of two; a narrowing variable).
    """

    devices: tuple[Device, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    torch: MachineTorch | None = None

    def of(self, hardware: str) -> tuple[Device, ...]:
        """The devices found (not assumed) that serve `hardware`, in listing order."""
        return tuple(d for d in self.devices if d.hardware == hardware and not d.assumed)

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`; `host_from_json` reads it back to an equal Host."""
        return {
            "devices": [dict(vars(device)) for device in self.devices],
            "problems": dict(self.problems),
            "notes": list(self.notes),
            "torch": None if self.torch is None else dict(vars(self.torch)),
        }


def host_from_json(data: object) -> Host:
    """The inverse of `Host.to_json`. Raises HostFormatError on anything else."""
    try:
        if not isinstance(data, Mapping):
            raise TypeError(f"expected an object, got {type(data).__name__}")
        devices: list[Device] = [Device(**entry) for entry in data["devices"]]
        problems = {str(k): str(v) for k, v in data["problems"].items()}
        notes = tuple(str(note) for note in data["notes"])
        torch = None if data["torch"] is None else MachineTorch(**data["torch"])
    except (KeyError, TypeError, AttributeError, ValueError) as e:
        raise HostFormatError(f"not a host record: {type(e).__name__}: {e}") from e
    return Host(tuple(devices), problems, notes, torch)


def _plain(text: str) -> str:
    # The fingerprint ends up in environment variables and log lines, and `|` separates its parts.
    ascii_text = text.encode("ascii", "replace").decode("ascii").replace("|", "/")
    return re.sub(r"[^\x21-\x7e]+", " ", ascii_text).strip()
