"""What `pants hardware` prints: the devices found, and which hardware tags can run on this host."""

from __future__ import annotations

import json
import textwrap
from typing import Any, Sequence

from pants_triton.hardware.device import HARDWARE, Device, Host

WIDTH = 120
_MIN_NAME_WIDTH = 12


def render_table(host: Host) -> str:
    """Text for people: plain ASCII alignment, at most WIDTH columns, ends with a newline."""
    sections = [_devices(host), _fingerprints(host), _tags(host), _notes(host)]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def render_json(host: Host) -> str:
    """The same for scripts: `Host.to_json` plus each device's fingerprint and, in `hardware`, for
    each tag `runs_here`, `reason` (null where it runs), `devices` and `assumed_devices`
    (counts)."""
    data = host.to_json()
    for entry, device in zip(data["devices"], host.devices):
        entry["fingerprint"] = device.device_class.fingerprint
    data["hardware"] = {hardware: _tag_json(host, hardware) for hardware in HARDWARE}
    return json.dumps(data, indent=2, sort_keys=True) + "\n"


def _tag_json(host: Host, hardware: str) -> dict[str, Any]:
    return {
        "runs_here": _runs_here(host, hardware),
        "reason": None if _runs_here(host, hardware) else _reason(host, hardware),
        "devices": len(host.of(hardware)),
        "assumed_devices": _count_assumed(host, hardware),
    }


def _devices(host: Host) -> list[str]:
    if not host.devices:
        return ["No devices found."]
    with_mig = any(device.mig_profile for device in host.devices)
    header = ["HARDWARE", "DEVICE", "NAME", "ARCH", "MEMORY", "DRIVER"] + ["MIG"] * with_mig
    rows = [header, *(_device_row(device, with_mig) for device in host.devices)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    # The name is the one column that may be long and can be cut: it is whole in the fingerprints.
    too_wide = sum(widths) + 2 * len(widths) - WIDTH
    if too_wide > 0:
        widths[2] = max(_MIN_NAME_WIDTH, widths[2] - too_wide)
    return ["Devices", *(_aligned(row, widths) for row in rows)]


def _device_row(device: Device, with_mig: bool) -> list[str]:
    mig = [device.mig_profile or "-"] if with_mig else []
    if device.assumed:
        return [device.hardware, "assumed", "-", device.arch, "-", "-", *mig]
    return [
        device.hardware,
        device.label,
        device.name,
        device.arch,
        "unknown" if device.memory_mib is None else f"{device.memory_mib / 1024:.1f} GiB",
        device.driver,
        *mig,
    ]


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    # Numbers read best when their units stand below each other.
    cells = [
        f"{_cut(cell, width):>{width}}" if i == 4 else f"{_cut(cell, width):<{width}}"
        for i, (cell, width) in enumerate(zip(row, widths))
    ]
    return f"  {'  '.join(cells)}".rstrip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _fingerprints(host: Host) -> list[str]:
    counts: dict[str, int] = {}
    for device in host.devices:
        if not device.assumed:
            fingerprint = device.device_class.fingerprint
            counts[fingerprint] = counts.get(fingerprint, 0) + 1
    if not counts:
        return []
    lines = ["Fingerprints (a test's result is valid on any device with the same one)"]
    for fingerprint, count in counts.items():
        lines += _hanging(f"{count} x ", fingerprint)
    return lines


def _tags(host: Host) -> list[str]:
    lines = ["Hardware tags"]
    for hardware in HARDWARE:
        if hardware == "cpu":
            text = "runs here"
        elif _runs_here(host, hardware):
            text = f"runs here, on {_devices_in_words(len(host.of(hardware)))}"
        else:
            text = f"can't run here: {_reason(host, hardware)}"
        assumed = _count_assumed(host, hardware)
        if assumed:
            text += f" (planned for {assumed} assumed {'device' if assumed == 1 else 'devices'})"
        lines += _hanging(f"{hardware:<7}", text)
    return lines


def _notes(host: Host) -> list[str]:
    notes = list(host.notes)
    if host.torch is not None:
        notes.append(
            f"rocm tests use this machine's torch {host.torch.summary} for Python {host.torch.python} in "
            f"{host.torch.site_packages}"
        )
    elif host.of("rocm"):
        notes.append("this machine has no torch: see [hardware].torch_pythons")
    return ["Notes", *(line for note in notes for line in _hanging("- ", note))] if notes else []


def _hanging(lead: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"  {lead}",
        subsequent_indent="  " + " " * len(lead),
        break_on_hyphens=False,
    )


def _runs_here(host: Host, hardware: str) -> bool:
    return hardware == "cpu" or bool(host.of(hardware))


def _reason(host: Host, hardware: str) -> str:
    return host.problems.get(hardware, "no device was found")


def _count_assumed(host: Host, hardware: str) -> int:
    return sum(1 for d in host.devices if d.assumed and d.hardware == hardware)


def _devices_in_words(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"
