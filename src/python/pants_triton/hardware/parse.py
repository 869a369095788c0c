"""Observations of a host (see `probe`) -> the devices it offers, and why the others aren't there.

Pure, and total: whatever the tools printed, `parse_host` returns a Host. Tools print surprising
things on broken machines, and a traceback is the worst way to hear about a broken machine.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Iterable, Iterator, Mapping, Sequence

from pants_triton.hardware.device import Device, Host, MachineTorch


@dataclass(frozen=True)
class Found:
    """One vendor's devices, what is odd about them, and, if there is none, why."""

    devices: tuple[Device, ...] = ()
    problem: str = ""
    notes: tuple[str, ...] = ()


def parse_host(observations: object) -> Host:
    """The host that `probe.observe` saw. Never raises; unusable input gives a host without
    devices."""
    seen = _mapping(observations)
    nvidia = _narrow_cuda(parse_nvidia(seen), seen)
    amd = _narrow_rocm(parse_amd(seen), seen, nvidia_present=bool(parse_nvidia(seen).devices))
    torch = parse_torch(seen)
    if torch is not None:
        amd = replace(amd, devices=tuple(replace(d, torch=torch.summary) for d in amd.devices))
    apple = parse_apple(seen)
    problems = {}
    for hardware, found in (("cuda", nvidia), ("rocm", amd), ("macos", apple)):
        if not found.devices:
            problems[hardware] = _line(found.problem) or "no device was found"
    return Host(
        devices=nvidia.devices + amd.devices + apple.devices,
        problems=problems,
        notes=tuple(_line(note) for f in (nvidia, amd, apple) for note in f.notes),
        torch=torch,
    )


# -- NVIDIA ---------------------------------------------------------------------------------------

# What nvidia-smi says when it can't tell, in any of its releases. ERR! and the reset texts stand
# for a broken board; N/A and Not Supported only for a field this board lacks.
_ABSENT = re.compile(r"^\[?(n/a|not supported|not available|unknown)\]?$", re.IGNORECASE)
_BROKEN = re.compile(
    r"err!|unknown error|requires reset|gpu is lost|insufficient permissions", re.I
)

# Drivers before 510 don't know the field `compute_cap`; the names of the boards of that time do.
# A longer name stands before its prefix. Source: developer.nvidia.com/cuda-gpus.
_ARCH_BY_NAME: tuple[tuple[str, str], ...] = (
    (r"\b(GH200|H100|H200|H20|H800)\b", "sm_90"),
    (r"\b(L4|L40S?|L20|RTX (4[0-9]{3}|[0-9]{4} Ada)|RTX 40[0-9]0)\b", "sm_89"),
    (r"\b(A100|A800|A30)\b", "sm_80"),
    (r"\b(A2|A10G?|A16|A40|RTX A[0-9]{4}|RTX 30[0-9]0)\b", "sm_86"),
    (r"\b(T4G?|RTX (20[0-9]0|[0-9]000)|TITAN RTX|GTX 16[0-9]0)\b", "sm_75"),
    (r"\b(V100S?|TITAN V)\b", "sm_70"),
    (r"\bP100\b", "sm_60"),
)

# What people should do about each way in which nvidia-smi fails, by what it prints (stdout or
# stderr).
_NVIDIA_FAILURES: tuple[tuple[str, str], ...] = (
    (
        r"driver/library version mismatch",
        "the loaded NVIDIA kernel module and the installed driver libraries differ "
        "(Driver/library version mismatch): reboot, or unload and reload the nvidia kernel modules",
    ),
    (
        r"couldn't communicate with the nvidia driver|driver not loaded",
        "nvidia-smi couldn't communicate with the NVIDIA driver: is its kernel module loaded "
        "(lsmod | grep nvidia)?",
    ),
    (
        r"no devices were found",
        "the NVIDIA driver is loaded but finds no device (No devices were found): see `dmesg` "
        "for Xid or RmInit errors",
    ),
    (
        r"libnvidia-ml|nvml_error_library_not_found|nvml shared library",
        "nvidia-smi doesn't find libnvidia-ml.so: the driver's libraries aren't installed, or not "
        "mounted into this container",
    ),
    (
        r"insufficient permissions|no permission",
        "nvidia-smi may not open /dev/nvidia* (Insufficient Permissions): check the device files' "
        "permissions and the container's device cgroup",
    ),
)

_UUID = r"[A-Za-z0-9/._-]+"
_LIST_GPU = re.compile(rf"^GPU (\d+): (.*) \(UUID: ({_UUID})\)\s*$")
_LIST_MIG = re.compile(rf"^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: ({_UUID})\)\s*$")


@dataclass(frozen=True)
class MigInstance:
    """A line `  MIG 3g.40gb     Device  0: (UUID: MIG-…)` of `nvidia-smi -L`."""

    profile: str
    index: int
    uuid: str

    @property
    def memory_mib(self) -> int | None:
        """What the profile's name promises, in MiB: `3g.40gb`, `1c.3g.40gb` and `1g.10gb+me` say
        GB."""
        size = re.search(r"\.([0-9]{1,6})gb", self.profile)
        return int(size.group(1)) * 1024 if size else None


def parse_nvidia(observations: Mapping[str, Any]) -> Found:
    """The NVIDIA devices before narrowing, in nvidia-smi's (PCI) order, MIG instances under their
    parents.

    Reads the CSV of `nvidia-smi --query-gpu=… --format=csv,noheader,nounits`, whose columns it
    takes from the recorded command line, and the instances of `nvidia-smi -L`.
    """
    run = _tool(observations, "nvidia_query")
    rows = list(_csv_rows(run))
    if not rows:
        return Found(problem=_nvidia_problem(run, observations))
    instances = _mig_instances(_text(_tool(observations, "nvidia_list"), "stdout"))
    devices: list[Device] = []
    notes: list[str] = []
    reasons: list[str] = []
    for row in sorted(rows, key=lambda r: _int(r.get("index")) or 0):
        found = _nvidia_row(row, instances)
        devices += found.devices
        notes += found.notes
        if found.problem:
            reasons.append(found.problem)
    if devices:
        return Found(tuple(_distinct(devices)), notes=tuple(notes + reasons))
    return Found(problem="; ".join(reasons), notes=tuple(notes))


def _nvidia_row(row: Mapping[str, str], instances: Mapping[str, Sequence[MigInstance]]) -> Found:
    index = _int(row.get("index"))
    uuid, name = row.get("uuid", ""), row.get("name", "")
    label = f"NVIDIA device {row.get('index')}"
    if index is None or any(_BROKEN.search(value) for value in (uuid, name)):
        return Found(
            problem=f"{label} is broken: nvidia-smi says {name or 'nothing'!r} for its name"
        )
    if not re.fullmatch(rf"GPU-{_UUID}", uuid):
        return Found(
            problem=f"{label} ({name}) has no UUID to select it by: nvidia-smi says {uuid!r}"
        )
    arch = _nvidia_arch(row.get("compute_cap", ""), name)
    if arch is None:
        return Found(
            problem=f"the arch of {label} ({name}) is unknown: its driver doesn't tell "
            "(compute_cap needs driver 510 or newer) and the name is not in the table of older boards"
        )
    board = Device(
        hardware="cuda",
        vendor="nvidia",
        index=index,
        name=_line(name),
        arch=arch,
        driver=_present(row.get("driver_version")) or "unknown",
        memory_mib=_int(row.get("memory.total")),
        uuid=uuid,
        selector=uuid,
    )
    if row.get("mig.mode.current", "").lower() != "enabled" and uuid not in instances:
        return Found((board,))
    if not instances.get(uuid):
        return Found(
            problem=f"MIG is enabled on {label} ({name}) but it has no instances: create some "
            "(nvidia-smi mig -cgi … -C) or disable MIG (nvidia-smi -mig 0)"
        )
    return Found(
        tuple(
            replace(
                board,
                uuid=mig.uuid,
                selector=mig.uuid,
                parent_uuid=uuid,
                mig_profile=mig.profile,
                mig_index=mig.index,
                memory_mib=mig.memory_mib,
            )
            for mig in instances[uuid]
        )
    )


def _nvidia_arch(compute_cap: str, name: str) -> str | None:
    if re.fullmatch(r"[0-9]{1,2}\.[0-9]", compute_cap):
        return "sm_" + compute_cap.replace(".", "")
    for pattern, arch in _ARCH_BY_NAME:
        if re.search(pattern, name.replace("-", " ")):
            return arch
    return None


def _csv_rows(run: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    query = "--query-gpu="
    fields = [a[len(query) :] for a in _strings(run.get("argv")) if a.startswith(query)]
    columns = fields[0].split(",") if fields else []
    if not columns or "index" not in columns or "uuid" not in columns:
        return
    for line in _text(run, "stdout").splitlines():
        values = [value.strip() for value in line.split(",")]
        # A row has every column and begins with a number: warnings and errors on stdout don't.
        if len(values) == len(columns):
            row = dict(zip(columns, values))
            if re.fullmatch(r"[0-9]{1,4}", row["index"]):
                yield row


def _mig_instances(listing: str) -> dict[str, list[MigInstance]]:
    """Parent UUID -> its instances, from the indented lines under each GPU of `nvidia-smi -L`."""
    instances: dict[str, list[MigInstance]] = {}
    parent: str | None = None
    for line in listing.splitlines():
        gpu = _LIST_GPU.match(line)
        mig = _LIST_MIG.match(line)
        if gpu:
            parent = gpu.group(3)
        elif mig and parent:
            instances.setdefault(parent, []).append(
                MigInstance(mig.group(1), int(mig.group(2)), mig.group(3))
            )
    return instances


def _nvidia_problem(run: Mapping[str, Any], observations: Mapping[str, Any]) -> str:
    said = f"{_text(run, 'stdout')}\n{_text(run, 'stderr')}"
    for pattern, reason in _NVIDIA_FAILURES:
        if re.search(pattern, said, re.IGNORECASE):
            return reason
    hidden = _environ(observations).get("NVIDIA_VISIBLE_DEVICES")
    # The container toolkit mounts nothing for these; "all" and lists it has applied before we look.
    if hidden in ("", "void", "none") and _error(run) == "not found":
        return f"NVIDIA_VISIBLE_DEVICES={hidden!r} gives this container no NVIDIA device"
    return _tool_problem("nvidia-smi", run, "install the NVIDIA driver")


def _narrow_cuda(found: Found, observations: Mapping[str, Any]) -> Found:
    return _apply(found, "CUDA_VISIBLE_DEVICES", _environ(observations), _cuda_order)


def _cuda_order(devices: Sequence[Device], tokens: Sequence[str]) -> list[Device]:
    """The devices CUDA_VISIBLE_DEVICES leaves, in its order.

    CUDA Programming Guide, "CUDA Environment Variables": entries are indices or UUIDs (or an
    unambiguous beginning of one); the first invalid entry ends the list. We read an index as
    nvidia-smi's, as the guide says; without CUDA_DEVICE_ORDER=PCI_BUS_ID, CUDA itself counts from
    the fastest device, so a person with unlike boards is better served by UUIDs. The index of a
    board in MIG mode is its first instance, and a board's UUID too: CUDA shows a process no more
    than that.
    """
    chosen: list[Device] = []
    for token in tokens:
        if re.fullmatch(r"[0-9]{1,4}", token):
            fitting = [d for d in devices if d.index == int(token)][:1]
        elif re.match(r"(GPU|MIG)-.", token):
            fitting = [d for d in devices if d.uuid.lower().startswith(token.lower())]
            parents = {d.parent_uuid or "" for d in devices}
            parents = {p for p in parents if p.lower().startswith(token.lower())}
            if not fitting and len(parents) == 1:
                fitting = [d for d in devices if d.parent_uuid in parents][:1]
        else:
            fitting = []
        if len(fitting) != 1:
            break
        if fitting[0] in chosen:
            # CUDA refuses a list that names a device twice: it shows none at all.
            return []
        chosen.append(fitting[0])
    return chosen


# -- AMD ------------------------------------------------------------------------------------------

# PCI device id -> board. The kernel's own name of a node is a code name ("aldebaran") or, on newer
# kernels and boards, just "ip discovery". Source: amdgpu.ids (libdrm) and the PCI ID database.
_AMD_BOARDS: Mapping[int, str] = {
    0x66A0: "AMD Instinct MI50",
    0x66A1: "AMD Instinct MI50/MI60",
    0x738C: "AMD Instinct MI100",
    0x7408: "AMD Instinct MI250X",
    0x740C: "AMD Instinct MI250X/MI250",
    0x740F: "AMD Instinct MI210",
    0x74A0: "AMD Instinct MI300A",
    0x74A1: "AMD Instinct MI300X",
    0x74A2: "AMD Instinct MI308X",
    0x74A5: "AMD Instinct MI325X",
    0x74A9: "AMD Instinct MI300X HF",
    0x74B5: "AMD Instinct MI300X VF",
    0x75A0: "AMD Instinct MI350X",
    0x75A3: "AMD Instinct MI355X",
    0x73BF: "AMD Radeon RX 6800/6900",
    0x744C: "AMD Radeon RX 7900",
    0x7448: "AMD Radeon Pro W7900",
    0x7550: "AMD Radeon RX 9070",
    0x1586: "AMD Radeon 8060S",
}


def parse_amd(observations: Mapping[str, Any]) -> Found:
    """The AMD devices before narrowing, in ROCr's order.

    From the kernel's KFD topology where it is readable, else from `amd-smi`, else from `rocminfo`.
    Each GCD of an MI250 and each partition of an MI300X (CPX mode) is a device: a KFD node of its
    own.
    """
    kfd = _mapping(observations.get("kfd"))
    nodes = _kfd_gpus(kfd)
    if nodes:
        blocked = _kfd_blocked(kfd)
        if blocked:
            return Found(problem=blocked)
        return _number_amd(nodes, _amd_driver(observations), _rocm_version(observations))
    for source in (_amd_smi_devices, _rocminfo_devices):
        devices = source(observations)
        if devices:
            return _number_amd(devices, _amd_driver(observations), _rocm_version(observations))
    return Found(problem=_amd_problem(observations, kfd))


@dataclass(frozen=True)
class AmdGpu:
    """What any of the three sources tells of one device. `unique_id` is 16 hex digits, or empty."""

    name: str
    arch: str
    memory_mib: int | None
    unique_id: str
    driver: str = ""
    usable: bool = True


def gfx_target(version: int) -> str | None:
    """KFD's `gfx_target_version` -> the arch: 90402 -> `gfx942`, 90010 -> `gfx90a`, 110000 ->
    `gfx1100`.

    The kernel writes major * 10000 + minor * 100 + stepping (kfd_device.c); LLVM names the arch by
    the decimal major and one hex digit each for minor and stepping. 0, as on CPU nodes, gives None.
    """
    major, rest = divmod(version, 10000)
    minor, stepping = divmod(rest, 100)
    if not 0 < major < 100 or minor > 15 or stepping > 15:
        return None
    return f"gfx{major}{minor:x}{stepping:x}"


def _kfd_gpus(kfd: Mapping[str, Any]) -> list[AmdGpu]:
    gpus = []
    nodes = [_mapping(node) for node in _sequence(kfd.get("nodes"))]
    for node in sorted(nodes, key=lambda n: _int(n.get("node")) or 0):
        properties = _kfd_properties(node.get("properties"))
        arch = gfx_target(properties.get("gfx_target_version", 0))
        if arch is None:
            continue
        board = _AMD_BOARDS.get(properties.get("device_id", 0))
        gpus.append(
            AmdGpu(
                name=board or f"AMD {_line(_text(node, 'name')) or 'GPU'}",
                arch=arch,
                memory_mib=_kfd_memory_mib(node),
                unique_id=_hex16(properties.get("unique_id", 0)),
                usable=node.get("render_access") not in ("absent", "permission denied"),
            )
        )
    return gpus


def _kfd_properties(text: object) -> dict[str, int]:
    """`name value` lines -> ints. All of KFD's properties are unsigned numbers."""
    properties = {}
    for line in text.splitlines() if isinstance(text, str) else ():
        fields = line.split()
        number = _int(fields[1]) if len(fields) == 2 else None
        if number is not None:
            properties[fields[0]] = number
    return properties


def _kfd_memory_mib(node: Mapping[str, Any]) -> int | None:
    # heap_type 1 and 2 are the device's own memory, public and private to it (kfd_crat.h); 0 is the
    # system's.
    banks = [_kfd_properties(bank) for bank in _sequence(node.get("mem_banks"))]
    size = sum(b.get("size_in_bytes", 0) for b in banks if b.get("heap_type") in (1, 2))
    return size // 2**20 or None


def _kfd_blocked(kfd: Mapping[str, Any]) -> str:
    access = kfd.get("dev_kfd")
    if access == "absent":
        return (
            "the kernel lists AMD devices but /dev/kfd is absent: pass it into this container "
            "(docker run --device=/dev/kfd --device=/dev/dri)"
        )
    if access == "permission denied":
        group = _line(_text(kfd, "dev_kfd_group")) or "render"
        return (
            f"/dev/kfd is not accessible: add this user to the group `{group}` "
            f"(usually `render`, on old systems `video`): sudo usermod -aG {group} $USER, then log "
            "in again"
        )
    return ""


def _amd_smi_devices(observations: Mapping[str, Any]) -> list[AmdGpu]:
    """From `amd-smi static --json`: a list (ROCm 6) or an object with `gpu_data` (ROCm 7)."""
    gpus = []
    for entry in _amd_smi_entries(_text(_tool(observations, "amd_static"), "stdout")):
        asic = _mapping(entry.get("asic"))
        arch = asic.get("target_graphics_version")
        if not isinstance(arch, str) or not re.fullmatch(r"gfx[0-9a-f]{3,5}", arch):
            continue
        size = _mapping(_mapping(entry.get("vram")).get("size"))
        memory = _int(size.get("value")) if size.get("unit") in ("MB", "MiB") else None
        serial = re.fullmatch(r"0x([0-9a-fA-F]{1,16})", str(asic.get("asic_serial", "")))
        name = _line(_text(asic, "market_name"))
        gpus.append(
            AmdGpu(
                name=name if name and not _ABSENT.match(name) else "AMD GPU",
                arch=arch,
                memory_mib=memory,
                unique_id=_hex16(int(serial.group(1), 16)) if serial else "",
                driver=_present(_mapping(entry.get("driver")).get("version")) or "",
            )
        )
    return gpus


def _amd_smi_entries(text: str) -> list[Mapping[str, Any]]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if isinstance(data, dict):
        data = data.get("gpu_data")
    return [entry for entry in _sequence(data) if isinstance(entry, dict)]


def _rocminfo_devices(observations: Mapping[str, Any]) -> list[AmdGpu]:
    """From the agents of `rocminfo`: blocks that begin `Agent 2` between lines of asterisks."""
    gpus = []
    text = _text(_tool(observations, "rocminfo"), "stdout")
    for block in re.split(r"^Agent [0-9]+\s*$", text, flags=re.MULTILINE)[1:]:
        values: dict[str, str] = {}
        for line in block.splitlines():
            key, colon, value = line.strip().partition(":")
            if colon:
                values.setdefault(key.strip(), value.strip())
        arch = values.get("Name", "")
        if values.get("Device Type") != "GPU" or not re.fullmatch(r"gfx[0-9a-f]{3,5}", arch):
            continue
        unique = re.fullmatch(r"GPU-([0-9a-fA-F]{16})", values.get("Uuid", ""))
        gpus.append(
            AmdGpu(
                name=_line(values.get("Marketing Name", "")) or "AMD GPU",
                arch=arch,
                memory_mib=_rocminfo_memory_mib(block),
                unique_id=unique.group(1).lower() if unique else "",
            )
        )
    return gpus


def _rocminfo_memory_mib(block: str) -> int | None:
    # `Pool 1` is the coarse-grained one: all of the device's memory.
    pool = re.search(r"Segment:\s+GLOBAL;.*COARSE.*\n\s+Size:\s+([0-9]{1,15})\(", block)
    return int(pool.group(1)) // 1024 if pool else None


def _number_amd(gpus: Sequence[AmdGpu], driver: str, rocm_version: str) -> Found:
    """Indices and identities. ROCR_VISIBLE_DEVICES takes `GPU-<16 hex digits>` or an index; the
    unique id is 0 on many consumer boards and, on older kernels, the same for all partitions of a
    board. Where it identifies no single device, the index does.
    """
    unique = [gpu.unique_id for gpu in gpus]
    devices, notes = [], []
    for index, gpu in enumerate(gpus):
        if not gpu.usable:
            notes.append(
                f"AMD device {index} ({gpu.name}) has no accessible /dev/dri/renderD* file: "
                "pass it into the container, or add this user to the group `render`"
            )
            continue
        known = bool(gpu.unique_id) and unique.count(gpu.unique_id) == 1
        devices.append(
            Device(
                hardware="rocm",
                vendor="amd",
                index=index,
                name=gpu.name,
                arch=gpu.arch,
                driver=(driver or gpu.driver or "unknown")
                + (f", rocm {rocm_version}" if rocm_version else ""),
                memory_mib=gpu.memory_mib,
                uuid=f"GPU-{gpu.unique_id}" if known else f"AMD-{index}",
                selector=f"GPU-{gpu.unique_id}" if known else str(index),
            )
        )
    if devices:
        return Found(tuple(devices), notes=tuple(notes))
    return Found(problem="; ".join(notes))


def _amd_driver(observations: Mapping[str, Any]) -> str:
    version = _line(_text(_mapping(observations.get("kfd")), "amdgpu_version"))
    if version:
        return f"amdgpu {version}"
    # The kernel's own amdgpu has no version but the kernel's.
    release = _line(_text(_mapping(observations.get("platform")), "release"))
    return f"in-tree {release}" if release else ""


def _rocm_version(observations: Mapping[str, Any]) -> str:
    return _line(_text(observations, "rocm_version"))


def _amd_problem(observations: Mapping[str, Any], kfd: Mapping[str, Any]) -> str:
    unreadable = [node for node in map(_mapping, _sequence(kfd.get("nodes"))) if node.get("error")]
    if unreadable:
        return (
            "the AMD devices that the kernel lists are unreadable here: pass them into this "
            "container (docker run --device=/dev/kfd --device=/dev/dri)"
        )
    if _sequence(kfd.get("nodes")) or kfd.get("dev_kfd") not in ("absent", None):
        return "the amdgpu driver is loaded but lists no device: see `dmesg | grep amdgpu`"
    runs = [_tool(observations, name) for name in ("amd_static", "rocminfo")]
    if all(_error(run) in ("not found", "") and not run.get("stdout") for run in runs):
        return (
            "no AMD device: the kernel has no /sys/class/kfd (amdgpu is not loaded), and there is no "
            "amd-smi or rocminfo on the search path"
        )
    name, run = next(
        ((n, r) for n, r in zip(("amd-smi", "rocminfo"), runs) if _error(r) != "not found"),
        ("amd-smi", runs[0]),
    )
    return _tool_problem(name, run, "install the amdgpu driver")


def _narrow_rocm(found: Found, observations: Mapping[str, Any], nvidia_present: bool) -> Found:
    """ROCR_VISIBLE_DEVICES first, then HIP_VISIBLE_DEVICES, whose indices count what ROCr left.

    Source: ROCm documentation, "GPU isolation techniques". HIP reads CUDA_VISIBLE_DEVICES where
    HIP_VISIBLE_DEVICES is unset; we follow it only on hosts where it can't be meant for an NVIDIA
    device.
    """
    environ = dict(_environ(observations))
    if "HIP_VISIBLE_DEVICES" in environ:
        hip = "HIP_VISIBLE_DEVICES"
    elif environ.get("CUDA_VISIBLE_DEVICES") and not nvidia_present:
        hip = "CUDA_VISIBLE_DEVICES"
    else:
        hip = "HIP_VISIBLE_DEVICES"

    def by_index(devices: Sequence[Device], tokens: Sequence[str]) -> list[Device]:
        return _rocr_order(devices, tokens, key=lambda d: d.index)

    def by_place(devices: Sequence[Device], tokens: Sequence[str]) -> list[Device]:
        places = {device: place for place, device in enumerate(devices)}
        return _rocr_order(devices, tokens, key=lambda d: places[d])

    return _apply(_apply(found, "ROCR_VISIBLE_DEVICES", environ, by_index), hip, environ, by_place)


def _rocr_order(devices: Sequence[Device], tokens: Sequence[str], key: Any) -> list[Device]:
    chosen: list[Device] = []
    for token in tokens:
        fitting = [
            d
            for d in devices
            if (token.isdigit() and len(token) < 5 and key(d) == int(token))
            or (re.match(r"GPU-[0-9a-fA-F]", token) and d.uuid.lower() == token.lower())
        ]
        # As in CUDA, the first entry that is invalid or a repetition ends the list.
        if len(fitting) != 1 or fitting[0] in chosen:
            break
        chosen.append(fitting[0])
    return chosen


def parse_torch(observations: Mapping[str, Any]) -> MachineTorch | None:
    """The first interpreter's torch that is a ROCm build, else the first torch, else None."""
    found = []
    for run in _sequence(observations.get("torch")):
        try:
            data = _mapping(json.loads(_text(_mapping(run), "stdout")))
        except (ValueError, RecursionError):
            continue
        version, hip = data.get("version"), data.get("hip")
        python, folder = data.get("python"), data.get("site_packages")
        if isinstance(version, str) and isinstance(python, str) and isinstance(folder, str):
            hip = _line(hip) if isinstance(hip, str) else None
            found.append(MachineTorch(_line(version), hip, _line(python), folder))
    return next((torch for torch in found if torch.hip), found[0] if found else None)


# -- Apple ----------------------------------------------------------------------------------------


def parse_apple(observations: Mapping[str, Any]) -> Found:
    """The one device of a Mac: its chip, `Apple M2 Pro` -> arch `apple-m2`, with macOS as its
    driver."""
    platform = _mapping(observations.get("platform"))
    system = _line(_text(platform, "system"))
    if system != "Darwin":
        return Found(problem=f"this host is {system or 'an unknown system'}, not macOS")
    chip = _line(_text(_tool(observations, "chip"), "stdout"))
    series = re.match(r"Apple (M[0-9]{1,2})\b", chip)
    memory = _int(_text(_tool(observations, "memory"), "stdout").strip())
    version = _line(_text(_tool(observations, "macos_version"), "stdout"))
    return Found(
        (
            Device(
                hardware="macos",
                vendor="apple",
                index=0,
                name=chip or "Mac",
                # An Intel Mac has no arch of ours; `x86_64` satisfies only requirements without
                # one.
                arch=f"apple-{series.group(1).lower()}"
                if series
                else _line(_text(platform, "machine")) or "unknown",
                driver=f"macOS {version}" if version else "macOS",
                memory_mib=memory // 2**20 if memory else None,
                uuid="APPLE-0",
            ),
        )
    )


# -- narrowing, tools, and values of unknown shape ------------------------------------------------


def _apply(found: Found, variable: str, environ: Mapping[str, str], order: Any) -> Found:
    """`found` narrowed by an environment variable, if that is set."""
    value = environ.get(variable)
    if value is None or not found.devices:
        return found
    tokens = [token.strip() for token in value.split(",")]
    kept = tuple(order(found.devices, tokens))
    if not kept:
        return Found(
            problem=f"{variable}={_line(value)!r} hides all devices of this host ("
            f"{len(found.devices)}): unset it, or name one of them",
            notes=found.notes,
        )
    if len(kept) == len(found.devices):
        return Found(kept, notes=found.notes)
    note = f"{variable}={_line(value)!r} leaves {len(kept)} of {len(found.devices)} devices"
    return Found(kept, notes=found.notes + (note,))


def _tool_problem(name: str, run: Mapping[str, Any], remedy: str) -> str:
    error = _error(run)
    if error == "not found":
        return (
            f"no {name} on the search path: {remedy}, or add the tool's folder to "
            "[hardware].tool_search_path"
        )
    if error == "timed out":
        seconds = run.get("timeout_s")
        return (
            f"{name} did not answer within {seconds} s: the driver hangs (see `dmesg`), or raise "
            "[hardware].tool_timeout"
        )
    if error:
        return f"{name} can't be run: {_line(error)}"
    said = _line(_text(run, "stderr")) or _line(_text(run, "stdout"))
    if run.get("returncode") not in (0, None):
        said = said[:200] or "it said nothing"
        return f"{name} failed with exit code {run.get('returncode')}: {said}"
    if not run:
        return f"{name} was not run"
    return f"{name} listed no device: it said {said[:200]!r}" if said else f"{name} printed nothing"


def _distinct(devices: Iterable[Device]) -> list[Device]:
    """The first of each uuid: leases are taken by uuid."""
    return list({d.uuid: d for d in reversed(list(devices))}.values())[::-1]


def _tool(observations: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return _mapping(_mapping(observations.get("tools")).get(name))


def _error(run: Mapping[str, Any]) -> str:
    return _text(run, "error")


def _environ(observations: Mapping[str, Any]) -> Mapping[str, str]:
    return {k: v for k, v in _mapping(observations.get("environ")).items() if isinstance(v, str)}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _sequence(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _strings(value: object) -> list[str]:
    return [item for item in _sequence(value) if isinstance(item, str)]


def _text(mapping: Mapping[str, Any], key: str) -> str:
    value = mapping.get(key)
    return value if isinstance(value, str) else ""


def _present(value: object) -> str | None:
    """A tool's field, or None where it says it has none."""
    text = _line(value) if isinstance(value, str) else ""
    return None if not text or _ABSENT.match(text) or _BROKEN.search(text) else text


def _int(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,20}", value):
        return int(value)
    return None


def _hex16(number: int) -> str:
    return f"{number & (2**64 - 1):016x}" if number else ""


def _line(text: str) -> str:
    """One line, single-spaced, without control characters."""
    return re.sub(r"[\s\x00-\x1f\x7f]+", " ", text).strip()
