"""Look at this host: run the vendors' tools, read sysfs, and write down what they said.

Nothing is interpreted here (that is `parse`), so that an observation from a user's machine can be
replayed in a test. Nothing raises: a tool that is absent, forbidden, broken or hung is an
observation too.
"""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
from pathlib import Path
from typing import Any, Mapping, Sequence

#: The variables with which people narrow the visible devices. Recorded, and kept from the tools, so
#: that they list everything and `parse` alone narrows.
NARROWING_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
)

# `compute_cap` came with driver 510, `mig.mode.current` with 450; `nvidia-smi --help-query-gpu`
# lists them.
_NVIDIA_FIELDS = (
    *("index", "uuid", "name", "compute_cap", "driver_version", "memory.total"),
    "mig.mode.current",
)
_OPTIONAL_NVIDIA_FIELDS = ("compute_cap", "mig.mode.current")
_INVALID_FIELD = re.compile(r'Field "([^"]+)" is not a valid field to query')

# A tool's answer is at most some tens of KiB; anything longer is garbage that shouldn't fill a
# record.
_MAX_OUTPUT = 1 << 20

# Reads torch/version.py without importing torch, which takes seconds and, on ROCm, opens the
# devices.
_TORCH_SCRIPT = """
import importlib.util, json, os, runpy, sys
spec = importlib.util.find_spec("torch")
if spec is None or not spec.origin:
    sys.exit("no torch")
folder = os.path.dirname(os.path.abspath(spec.origin))
values = runpy.run_path(os.path.join(folder, "version.py"))
print(json.dumps({
    "version": str(values.get("__version__")),
    "hip": values.get("hip"),
    "python": "%d.%d" % sys.version_info[:2],
    "site_packages": os.path.dirname(folder),
}))
"""


def observe(
    search_path: Sequence[str],
    environ: Mapping[str, str],
    *,
    sysfs: str = "/sys",
    dev: str = "/dev",
    rocm: str = "/opt/rocm",
    tool_timeout_s: float = 20.0,
    torch_pythons: Sequence[str] = ("python3",),
) -> dict[str, Any]:
    """What this host shows, as plain data for `json.dumps`; never raises.

    `search_path` are the folders in which the tools are looked for; `environ` is the user's
    environment, for the narrowing variables and to run the tools with; each tool gets
    `tool_timeout_s` seconds.

    The result has `version`, `platform`, `environ` (narrowing variables), `tools` (name -> run, see
    `run_tool`), `kfd` (see `observe_kfd`), `rocm_version` and `torch` (a run an interpreter, on hosts with an AMD
    device).
    """
    run = _Tools(search_path, environ, tool_timeout_s).run
    system = platform.system()
    kfd = observe_kfd(sysfs, dev)
    tools: dict[str, Any] = {}
    torch: list[dict[str, Any]] = []
    if system == "Darwin":
        tools["macos_version"] = run("sw_vers", "-productVersion")
        tools["chip"] = run("sysctl", "-n", "machdep.cpu.brand_string")
        tools["memory"] = run("sysctl", "-n", "hw.memsize")
    else:
        tools["nvidia_query"] = _query_nvidia(run)
        # Without a row there is nothing for it to add, and a hung driver would be waited for twice.
        if tools["nvidia_query"].get("returncode") == 0:
            tools["nvidia_list"] = run("nvidia-smi", "-L")
        if not _lists_gpu(kfd):
            tools["amd_static"] = run("amd-smi", "static", "--json")
            tools["rocminfo"] = run("rocminfo")
        if _lists_gpu(kfd) or any(
            tools[t].get("returncode") == 0 for t in ("amd_static", "rocminfo")
        ):
            torch = [run(python, "-c", _TORCH_SCRIPT) for python in torch_pythons]
    return {
        "version": 1,
        "platform": {
            "system": system,
            "machine": platform.machine(),
            "release": platform.release(),
        },
        "environ": {k: environ[k] for k in NARROWING_VARIABLES if k in environ},
        "tools": tools,
        "kfd": kfd,
        # Tests use ROCm's libraries (libamdhip64.so), which are updated apart from the driver.
        "rocm_version": _read(Path(rocm, ".info/version")),
        "torch": torch,
    }


def run_tool(argv: Sequence[str], env: Mapping[str, str], timeout_s: float) -> dict[str, Any]:
    """Run `argv` and return `{"argv", "returncode", "stdout", "stderr"}`, or with `"error"` why it
    didn't end: `not found`, `permission denied`, `timed out` (with `timeout_s`) or the system's
    text. Never raises.

    A tool that hangs is killed with its process group.
    """
    result: dict[str, Any] = {"argv": list(argv)}
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            start_new_session=True,
        )
    except FileNotFoundError:
        return {**result, "error": "not found"}
    except PermissionError:
        return {**result, "error": "permission denied"}
    except (OSError, ValueError) as e:
        return {**result, "error": str(e)}
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return {**result, "error": "timed out", "timeout_s": timeout_s, **_kill(process)}
    return {**result, "returncode": process.returncode, **_decoded(stdout, stderr)}


def observe_kfd(sysfs: str = "/sys", dev: str = "/dev") -> dict[str, Any]:
    """The kernel's list of AMD devices (Documentation/ABI: /sys/class/kfd/kfd/topology), as text.

    Each of `nodes` has `node` (its number), `gpu_id`, `name`, `properties`, `mem_banks` (a list of
    texts) and `render_access`; or `error`, as in a container whose device cgroup excludes the node.
    `dev_kfd` and `render_access` are `ok`, `absent` or `permission denied`.
    """
    device = Path(dev, "kfd")
    return {
        "dev_kfd": _access(device),
        "dev_kfd_group": _group(device),
        # Only AMD's out-of-tree (DKMS) driver has this file.
        "amdgpu_version": _read(Path(sysfs, "module/amdgpu/version")),
        "nodes": [
            _observe_node(node, Path(dev, "dri"))
            for node in _numbered(Path(sysfs, "class/kfd/kfd/topology/nodes"))
        ],
    }


class _Tools:
    """Runs tools by name from a search path, in an environment that narrows nothing."""

    def __init__(
        self, search_path: Sequence[str], environ: Mapping[str, str], timeout_s: float
    ) -> None:
        self._search_path = [folder for folder in search_path if folder]
        self._timeout_s = timeout_s
        self._env = {k: v for k, v in environ.items() if k not in NARROWING_VARIABLES}
        self._env.update(PATH=os.pathsep.join(self._search_path), LC_ALL="C")

    def run(self, name: str, *args: str) -> dict[str, Any]:
        found, denied = self._find(name)
        if found is None:
            error = "permission denied" if denied else "not found"
            return {"argv": [name, *args], "error": error}
        return run_tool([found, *args], self._env, self._timeout_s)

    def _find(self, name: str) -> tuple[str | None, bool]:
        if os.path.isabs(name):
            candidates = [name]
        else:
            candidates = [os.path.join(folder, name) for folder in self._search_path]
        files = [path for path in candidates if os.path.isfile(path)]
        executable = [path for path in files if os.access(path, os.X_OK)]
        return (executable[0] if executable else None), bool(files)


def _query_nvidia(run: Any) -> dict[str, Any]:
    fields = list(_NVIDIA_FIELDS)
    while True:
        result: dict[str, Any] = run(
            "nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"
        )
        said = f"{result.get('stdout', '')}{result.get('stderr', '')}"
        unknown = [
            f for f in _INVALID_FIELD.findall(said) if f in fields and f in _OPTIONAL_NVIDIA_FIELDS
        ]
        if not unknown:
            return result
        fields = [field for field in fields if field not in unknown]


def _kill(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass
    try:
        stdout, stderr = process.communicate(timeout=1)
    except (subprocess.TimeoutExpired, OSError, ValueError):
        # Stuck in the kernel (state D), as behind a wedged driver: not even SIGKILL ends it, so
        # leave it.
        return {"stdout": "", "stderr": ""}
    return _decoded(stdout, stderr)


def _decoded(stdout: bytes, stderr: bytes) -> dict[str, Any]:
    return {
        "stdout": stdout[:_MAX_OUTPUT].decode("utf-8", "replace"),
        "stderr": stderr[:_MAX_OUTPUT].decode("utf-8", "replace"),
    }


def _lists_gpu(kfd: Mapping[str, Any]) -> bool:
    return any(
        re.search(r"^gfx_target_version [1-9]", node.get("properties") or "", re.MULTILINE)
        for node in kfd["nodes"]
    )


def _observe_node(node: Path, dri: Path) -> dict[str, Any]:
    result: dict[str, Any] = {"node": int(node.name)}
    try:
        result["properties"] = (node / "properties").read_text(errors="replace")
    except OSError as e:
        return {**result, "error": e.strerror or str(e)}
    result["gpu_id"] = _read(node / "gpu_id")
    result["name"] = _read(node / "name")
    result["mem_banks"] = [
        text
        for text in (_read(bank / "properties") for bank in _numbered(node / "mem_banks"))
        if text is not None
    ]
    minor = re.search(r"^drm_render_minor ([1-9][0-9]*)$", result["properties"], re.MULTILINE)
    if minor:
        result["render_access"] = _access(dri / f"renderD{minor.group(1)}")
    return result


def _numbered(folder: Path) -> list[Path]:
    try:
        entries = [entry for entry in folder.iterdir() if re.fullmatch(r"[0-9]+", entry.name)]
    except OSError:
        return []
    return sorted(entries, key=lambda entry: int(entry.name))


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def _access(path: Path) -> str:
    if not path.exists():
        return "absent"
    return "ok" if os.access(str(path), os.R_OK | os.W_OK) else "permission denied"


def _group(path: Path) -> str | None:
    try:
        return path.group()
    except (OSError, KeyError, NotImplementedError):
        return None
