"""What a test needs of the hardware, and whether a host has it.

A BUILD file's words become a `Requirement` (`parse_requirement`), which a host satisfies or not
(`match`).
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from typing import Iterable, Sequence

from pants_triton.hardware.device import CPU, HARDWARE, VENDORS, Device, DeviceClass, Host


@dataclass(frozen=True)
class ArchFamily:
    """Archs that can be ordered: `>=` means "this one or a later one of the same family"."""

    hardware: str
    title: str
    archs: tuple[str, ...]


# To support a new arch, add it here, in order. An arch that isn't listed is an error in a BUILD
# file (so that `sm_09` or `gfx924` never silently skips a test for ever), but a *device* with an
# unlisted arch is fine: it satisfies requirements without an arch and, for NVIDIA, `>=`.
#
# Sources: CUDA C++ Programming Guide, "Compute Capabilities"; LLVM's AMDGPUUsage, "Processors".
# Compute capability orders sm_120 (GeForce) after sm_100 (data centre) though neither's features
# include the other's: a test of tcgen05 wants `sm_100`, not `>=sm_100`.
ARCH_FAMILIES: tuple[ArchFamily, ...] = (
    ArchFamily(
        "cuda",
        "NVIDIA",
        (
            *("sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90"),
            *("sm_100", "sm_101", "sm_103", "sm_110", "sm_120", "sm_121"),
        ),
    ),
    ArchFamily(
        "rocm",
        "AMD CDNA",
        ("gfx906", "gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"),
    ),
    ArchFamily("rocm", "AMD GFX12.5", ("gfx1250",)),
    ArchFamily(
        "rocm",
        "AMD RDNA",
        (
            *("gfx1010", "gfx1011", "gfx1012"),
            *("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"),
            *("gfx1100", "gfx1101", "gfx1102", "gfx1103"),
            *("gfx1150", "gfx1151", "gfx1152", "gfx1153"),
            *("gfx1200", "gfx1201"),
        ),
    ),
    ArchFamily("macos", "Apple", ("apple-m1", "apple-m2", "apple-m3", "apple-m4", "apple-m5")),
)


class RequirementError(ValueError):
    """A requirement in a BUILD file or option is malformed. The message says what is known and
    suggests."""


@dataclass(frozen=True)
class Requirement:
    """What a test needs: `devices` accelerators of one class, with the exact `arch` or (`minimum`)
    a later one.

    `devices` is 0 for `cpu` and at least 1 otherwise. Make it with `parse_requirement`, which
    validates.
    """

    hardware: str
    arch: str | None = None
    devices: int = 1
    minimum: bool = False

    def __str__(self) -> str:
        """`cuda`, `cuda sm_90`, `rocm >=gfx90a`, `2 cuda devices sm_90`: for reasons and
        listings."""
        arch = f" {'>=' if self.minimum else ''}{self.arch}" if self.arch else ""
        if self.devices > 1:
            return f"{self.devices} {self.hardware} devices{arch}"
        return f"{self.hardware}{arch}"


@dataclass(frozen=True)
class Missing:
    """The host can't run it; `reason` is one line for people: what is wanted, what is there."""

    reason: str


@dataclass(frozen=True)
class Assumed:
    """Only an assumed device matches: plan and list the test, never run it or cache a result for
    it."""

    device_class: DeviceClass


def parse_requirement(
    hardware: str, arch: str | None = None, devices: int | None = None
) -> Requirement:
    """The requirement that BUILD fields state. `devices` of None means 1 (0 for `cpu`).

    Raises RequirementError, whose message lists the known values and suggests the nearest one.
    """
    if hardware not in HARDWARE:
        raise RequirementError(_unknown("hardware", hardware, HARDWARE))
    if hardware == "cpu":
        if arch is not None:
            raise RequirementError(
                f"hardware `cpu` takes no arch, got {arch!r}: remove the arch, or name the hardware "
                f"it belongs to{_owner_hint(arch)}."
            )
        # 1 is the default of the BUILD field.
        if devices not in (None, 0, 1):
            raise RequirementError(
                f"hardware `cpu` takes no devices, got devices={devices}: remove it."
            )
        return Requirement("cpu", None, 0)
    if devices is None:
        devices = 1
    if isinstance(devices, bool) or not isinstance(devices, int) or devices < 1:
        raise RequirementError(
            f"devices must be a whole number, at least 1, got {devices!r}: a test that needs "
            "no device has the hardware `cpu`."
        )
    if hardware == "macos" and devices > 1:
        raise RequirementError(f"a macos host has one device, got devices={devices}.")
    if arch is None:
        return Requirement(hardware, None, devices)
    minimum = arch.strip().startswith(">=")
    bare = arch.strip()[2:].strip() if minimum else arch.strip()
    return Requirement(hardware, _known_arch(hardware, bare), devices, minimum)


def match(requirement: Requirement, host: Host) -> DeviceClass | Missing | Assumed:
    """The device class on `host` that the test runs on; Assumed, if only an assumed one fits; else
    Missing.

    On a host with several classes that fit, the one with the most devices wins (tests spread
    wider), then the latest arch, then the fingerprint: the same host always gives the same answer.

    A process can be given several MIG instances but CUDA shows it only the first (NVIDIA's MIG user
    guide, "CUDA Device Enumeration"), so MIG instances satisfy no requirement for more than one
    device.
    """
    if requirement.hardware == "cpu":
        return CPU
    found = host.of(requirement.hardware)
    best = _best_class(requirement, found)
    if best is not None:
        return best
    stated = [d for d in host.devices if d.assumed and d.hardware == requirement.hardware]
    best = _best_class(requirement, stated)
    if best is not None:
        return Assumed(best)
    return Missing(_reason(requirement, host, found))


def parse_assumption(text: str) -> Host:
    """The assumed devices in `cuda:sm_90` or, for eight of them, `cuda:sm_90x8`; no problems, no
    notes.

    `assume_devices` adds them to the real host. Raises RequirementError.
    """
    hardware, colon, rest = text.strip().partition(":")
    if not colon:
        raise RequirementError(
            f"an assumed device is written `hardware:arch`, such as `cuda:sm_90` or, for eight of "
            f"them, `rocm:gfx942x8`; got {text!r}."
        )
    if hardware == "cpu":
        raise RequirementError("hardware `cpu` is on every host: it needs no assumption.")
    # The `x` of `gfx942` introduces no count.
    spec = re.fullmatch(r"(.*?)(?:(?<!gf)x([0-9]{1,3}))?", rest.strip(), re.DOTALL)
    arch = spec.group(1) if spec else rest
    count = int(spec.group(2) or 1) if spec else 1
    requirement = parse_requirement(hardware, arch, count)
    if requirement.minimum or requirement.arch is None:
        raise RequirementError(f"an assumed device has one exact arch; got {text!r}.")
    return Host(
        tuple(
            Device(
                hardware=hardware,
                vendor=VENDORS[hardware],
                index=index,
                name="assumed",
                arch=requirement.arch,
                driver="assumed",
                memory_mib=None,
                uuid=f"ASSUMED-{index}",
                assumed=True,
            )
            for index in range(count)
        )
    )


def assume_devices(host: Host, assumptions: Iterable[str]) -> Host:
    """`host` with the devices of every assumption (see `parse_assumption`) added, flagged as
    assumed.

    Its problems stay: an assumption makes nothing runnable. Raises RequirementError.
    """
    stated = [d for text in assumptions for d in parse_assumption(text).devices]
    # Numbered anew: two assumptions may be of the same hardware.
    assumed = tuple(replace(d, uuid=f"ASSUMED-{i}", index=i) for i, d in enumerate(stated))
    return replace(host, devices=host.devices + assumed)


def arch_hardware(arch: str) -> str | None:
    """The hardware an arch string belongs to by its looks, known or not: `sm_130` -> `cuda`."""
    for prefix, hardware in (("sm_", "cuda"), ("gfx", "rocm"), ("apple-", "macos")):
        if arch.startswith(prefix):
            return hardware
    return None


def _known_arch(hardware: str, arch: str) -> str:
    known = [a for family in ARCH_FAMILIES if family.hardware == hardware for a in family.archs]
    if arch in known:
        return arch
    # A suffix narrows what a compiler may emit, not which board is in the host: `sm_90a` code runs
    # on the board that is `sm_90`, `gfx942:sramecc+:xnack-` on the one that is `gfx942`.
    suffixed = re.fullmatch(r"(sm_[0-9]+)[af]|(gfx[0-9a-f]+)(?::(?:sramecc|xnack)[+-])+", arch)
    base = next((g for g in suffixed.groups() if g), None) if suffixed else None
    if base in known:
        raise RequirementError(
            f"arch {arch!r} has a compiler feature suffix; a device has none: write {base!r}."
        )
    owner = arch_hardware(arch)
    if owner is not None and owner != hardware:
        raise RequirementError(
            f"arch {arch!r} belongs to hardware `{owner}`, not `{hardware}`: change either. "
            f"Known for `{hardware}`: {', '.join(known)}."
        )
    raise RequirementError(_unknown(f"{hardware} arch", arch, known))


def _unknown(what: str, given: object, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(given), known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"unknown {what} {given!r}.{hint} Known: {', '.join(known)}."


def _owner_hint(arch: str) -> str:
    owner = arch_hardware(arch.replace(">=", "").strip())
    return f" (`{owner}`)" if owner else ""


def _best_class(requirement: Requirement, devices: Sequence[Device]) -> DeviceClass | None:
    counts: dict[DeviceClass, int] = {}
    for device in devices:
        if _arch_fits(requirement, device.arch):
            counts[device.device_class] = counts.get(device.device_class, 0) + 1
    mig = {d.device_class for d in devices if d.mig_profile}
    fitting = [
        c
        for c, count in counts.items()
        if count >= requirement.devices and not (requirement.devices > 1 and c in mig)
    ]
    if not fitting:
        return None
    return max(fitting, key=lambda c: (counts[c], _arch_rank(c.arch), c.fingerprint))


def _arch_fits(requirement: Requirement, arch: str) -> bool:
    if requirement.arch is None or arch == requirement.arch:
        return True
    if not requirement.minimum:
        return False
    wanted = _arch_rank(requirement.arch)
    given = _arch_rank(arch)
    return wanted[0] == given[0] and given >= wanted


def _arch_rank(arch: str) -> tuple[str, int]:
    """(family title, place in it). Archs of different titles aren't comparable."""
    numbered = re.fullmatch(r"(sm_|apple-m)([0-9]{1,4})", arch)
    if numbered:
        return {"sm_": "NVIDIA", "apple-m": "Apple"}[numbered.group(1)], int(numbered.group(2))
    for family in ARCH_FAMILIES:
        if arch in family.archs:
            return family.title, family.archs.index(arch)
    return f"unlisted {arch}", 0


def _reason(requirement: Requirement, host: Host, found: Sequence[Device]) -> str:
    if not found:
        problem = host.problems.get(requirement.hardware, "no device was found")
        return f"needs {requirement}: {problem}"
    counts: dict[str, int] = {}
    for device in found:
        what = f"{device.arch} ({device.device_class.name})"
        counts[what] = counts.get(what, 0) + 1
    there = ", ".join(f"{count} x {what}" for what, count in counts.items())
    reason = f"needs {requirement}: this host has {there}"
    if requirement.devices > 1 and any(d.mig_profile for d in found):
        reason += "; CUDA shows a process only one MIG instance"
    reason += _family_hint(requirement, found)
    narrowing = [note for note in host.notes if "_VISIBLE_DEVICES" in note]
    return "; ".join([reason, *narrowing])


def _family_hint(requirement: Requirement, found: Sequence[Device]) -> str:
    if not requirement.minimum or requirement.arch is None:
        return ""
    title = _arch_rank(requirement.arch)[0]
    others: list[str] = sorted({d.arch for d in found if _arch_rank(d.arch)[0] != title})
    if not others:
        return ""
    return f"; {', '.join(others)} and {requirement.arch} are of different families, so `>=` says nothing"
