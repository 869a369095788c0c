"""What benchmarks compare with: the sample built by CMake and ninja themselves, out of the same
artifacts and with the same cache variables."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests/projects/minitriton"

# Of every project: the compiler with its sysroot, CMake and ninja, as `[native]` names them.
TOOLCHAIN = "3rdparty/llvm:llvm"
TOOLS = (TOOLCHAIN, "3rdparty/cmake:cmake-wheel", "3rdparty/cmake:ninja")


def run(argv: list[str], cwd: Path, env: Mapping[str, str]) -> float:
    """Run a command; returns the seconds it took."""
    start = time.monotonic()
    result = subprocess.run(
        argv,
        cwd=cwd,
        env={**env, "PWD": str(cwd)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if result.returncode != 0:
        sys.exit(f"{' '.join(argv)} failed:\n{result.stdout[-5000:]}")
    return time.monotonic() - start


@dataclass
class Ninja:
    """CMake and ninja by hand, with the artifacts unpacked below `trees` as in a sandbox.

    :param cache: the project's cache variables.
    """

    source: Path
    trees: Path
    cache: Mapping[str, str]
    ccache: Path | None = None

    def build(self) -> float:
        llvm, ninja = self.trees / path_of(TOOLCHAIN), self.trees / "3rdparty/cmake/ninja/bin/ninja"
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.trees),
            "LD_LIBRARY_PATH": f"{llvm}/.libraries",
        }
        if self.ccache is not None:
            env.update(CCACHE_DIR=str(self.ccache), CCACHE_BASEDIR=str(self.source))
        folder = self.source / "_build"
        seconds = 0.0
        if not folder.exists():
            values = {
                "CMAKE_MAKE_PROGRAM": str(ninja),
                "CMAKE_SYSROOT": str(llvm),
                "CMAKE_C_COMPILER": str(llvm / "usr/lib/llvm-19/bin/clang"),
                "CMAKE_CXX_COMPILER": str(llvm / "usr/lib/llvm-19/bin/clang++"),
                "CMAKE_EXE_LINKER_FLAGS": "-fuse-ld=lld",
                "CMAKE_MODULE_LINKER_FLAGS": "-fuse-ld=lld",
                "CMAKE_SHARED_LINKER_FLAGS": "-fuse-ld=lld",
                **{name: self._in_place(value) for name, value in self.cache.items()},
            }
            if self.ccache is not None:
                values["CMAKE_C_COMPILER_LAUNCHER"] = "ccache"
                values["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
            cmake = f"{self.trees}/3rdparty/cmake/cmake-wheel/bin/cmake"
            argv = [cmake, "-GNinja", f"-S{self.source}", f"-B{folder}"]
            seconds = run([*argv, *(f"-D{k}={v}" for k, v in values.items())], self.source, env)
        return seconds + run([str(ninja), "-C", str(folder)], self.source, env)

    def _in_place(self, value: str) -> str:
        """A cache variable's value, its `{chroot}` the folder of the artifacts or of the project."""
        root = self.source
        while not (root / "pants.toml").is_file():
            root = root.parent
        own = f"{{chroot}}/{self.source.relative_to(root)}"
        return value.replace(own, str(self.source)).replace("{chroot}", str(self.trees))


def variables(project: Mapping[str, Any]) -> dict[str, str]:
    """The cache variables of a `cmake_project`, of which `peek` told the fields."""
    build_type = project["build_type"]
    return {
        **({"CMAKE_BUILD_TYPE": build_type} if build_type else {}),
        **(project["cache"] or {}),
    }


def path_of(address: str) -> str:
    """Where the artifact of an address is in sandboxes."""
    return address.replace(":", "/")


def absolute(addresses: list[str] | None, folder: str) -> list[str]:
    """Addresses as a BUILD file in `folder` has them, relative to the workspace."""
    return [folder + address if address[0] == ":" else address for address in addresses or ()]


def peek(root: Path, *addresses: str) -> list[dict[str, Any]]:
    """The fields of targets of the workspace `root`."""
    argv = [str(ROOT / "pants"), "peek", *addresses]
    done = subprocess.run(argv, cwd=root, check=True, stdout=subprocess.PIPE)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def unpack(trees: Path, root: Path, addresses: list[str]) -> None:
    """Unpack artifacts of the workspace `root` as Pants does, out of the same downloads, each below
    `trees` at its path."""
    sys.path.insert(0, str(ROOT / "src/python"))
    from pants_triton.artifact.lock import ANY_PLATFORM, entry_json, read_lock

    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    path = root / "3rdparty/artifacts.lock.json"
    lock = read_lock(path.read_text(), str(path))
    run([str(ROOT / "pants"), "fetch-artifacts", *addresses], root, os.environ)
    for target in peek(root, *addresses):
        address, output = target["address"], trees / path_of(target["address"])
        if target["target_type"] == "artifact_tree":
            parts = absolute(target["parts"], address.partition(":")[0])
            unpack(trees, root, parts)
            for part in parts:
                shutil.copytree(trees / path_of(part), output, symlinks=True, dirs_exist_ok=True)
            continue
        entry = lock.get(address, "linux_x86_64") or lock.get(address, ANY_PLATFORM)
        if entry is None:
            sys.exit(f"{path} has no entry for {address}.")
        file = trees / "entry.json"
        file.write_text(entry_json(entry))
        output.parent.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, "-m", "pants_triton.artifact.fetch", "fetch"]
        argv += [f"--entry={file}", f"--output={output}"]
        argv += [f"--cache={cache}/pants/named_caches/pants_triton_artifacts"]
        run(argv, trees, {**os.environ, "PYTHONPATH": str(ROOT / "src/python")})
