"""From a pin to upstream's archives: where each lies, and which of its files go where.

The tables are what Triton's own set-up does (setup.py, from February 2026 python/build_helpers.py).
Its pins name versions only: no archive here has a digest but LLVM's since May 2026.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Iterable, Mapping, Sequence

from pants_triton.artifact.lock import ANY_PLATFORM, UrlEntry
from pants_triton.artifact.pins import LlvmPin, NvidiaPin, TagPin
from pants_triton.artifact.platforms import (
    PANTS_PLATFORMS,
    base_platform,
    platform_suffix,
    suffix_platform,
)

# --- LLVM ------------------------------------------------------------------------------------

#: Where upstream keeps its builds of LLVM: now, and until June 2024 (what was built then lies only
#: there). The pin doesn't tell which, so a lock is made from the first that has the archive.
LLVM_STORES: tuple[str, ...] = (
    "https://oaitriton.blob.core.windows.net/public/llvm-builds",
    "https://tritonlang.blob.core.windows.net/llvm-builds",
)

#: The suffixes upstream built in the years of `llvm-hash.txt`, which doesn't list them. Not every
#: commit has every one: almalinux-x64 came in April 2024 and almalinux-arm64 in March 2025, and
#: centos-x64 went in October 2025.
LLVM_HASH_SUFFIXES: tuple[str, ...] = (
    *("almalinux-arm64", "almalinux-x64", "centos-x64"),
    *("macos-arm64", "macos-x64", "ubuntu-arm64", "ubuntu-x64"),
)

# --- NVIDIA ----------------------------------------------------------------------------------

#: NVIDIA's redistributables, which upstream uses since January 2025.
REDIST = "redist"

#: NVIDIA's channel of conda packages, which upstream used until then.
CONDA = "conda"

_REDIST_URL = "https://developer.download.nvidia.com/compute/cuda/redist"
_CONDA_URL = "https://anaconda.org/nvidia"

# On macOS upstream takes Linux's archives, for the headers. `sbsa` is NVIDIA's word for arm64
# servers.
_REDIST_SYSTEMS: Mapping[str, str] = {
    "linux_x86_64": "linux-x86_64",
    "linux_arm64": "linux-sbsa",
    "macos_x86_64": "linux-x86_64",
    "macos_arm64": "linux-sbsa",
}
_CONDA_SYSTEMS: Mapping[str, str] = {
    "linux_x86_64": "linux-64",
    "linux_arm64": "linux-aarch64",
    "macos_x86_64": "linux-64",
    "macos_arm64": "linux-aarch64",
}
_CONDA_TARGETS: Mapping[str, str] = {
    "linux-64": "x86_64-linux",
    "linux-aarch64": "sbsa-linux",
}


@dataclass(frozen=True)
class _Component:
    """`layout` is (member, path in Triton's backend folder); `redist` names the archive."""

    redist: str
    layout: tuple[tuple[str, str], ...]


# To support a new component of `nvidia-toolchain-version.json`, add it here. The paths on the right
# are below `third_party/nvidia/backend`.
_NVIDIA: Mapping[str, _Component] = {
    "ptxas": _Component("cuda_nvcc", (("bin/ptxas", "bin/ptxas"),)),
    "ptxas-blackwell": _Component("cuda_nvcc", (("bin/ptxas", "bin/ptxas-blackwell"),)),
    "cuobjdump": _Component("cuda_cuobjdump", (("bin/cuobjdump", "bin/cuobjdump"),)),
    "nvdisasm": _Component("cuda_nvdisasm", (("bin/nvdisasm", "bin/nvdisasm"),)),
    # Forks only.
    "nvlink": _Component("cuda_nvcc", (("bin/nvlink", "bin/nvlink"),)),
    "cudacrt": _Component("cuda_nvcc", (("include", "include"),)),
    "cudart": _Component("cuda_cudart", (("include", "include"),)),
    "cupti": _Component("cuda_cupti", (("include", "include"), ("lib", "lib/cupti"))),
    "cupti-blackwell": _Component("cuda_cupti", (("lib", "lib/cupti-blackwell"),)),
    # In the pin for five days of March 2026.
    "cuda-stdlib": _Component(
        "cuda_cccl",
        (("include/cccl/cuda", "include/cuda"), ("include/cccl/nv", "include/nv")),
    ),
}

#: The components whose archive is known.
NVIDIA_COMPONENTS: tuple[str, ...] = tuple(_NVIDIA)

# In the pin of triton-lang/triton-windows, of no use where Pants runs.
_NVIDIA_ELSEWHERE = ("cupti-windows",)

# The conda package of each component: until CUDA 12.4, and from 12.5, which split them and moved
# what isn't a program to `targets/<platform>/`. `{system}` in a name stands for `linux-64`.
_CONDA_PACKAGES: Mapping[str, tuple[str, str]] = {
    "ptxas": ("cuda-nvcc", "cuda-nvcc-tools"),
    "cuobjdump": ("cuda-cuobjdump", "cuda-cuobjdump"),
    "nvdisasm": ("cuda-nvdisasm", "cuda-nvdisasm"),
    "cudacrt": ("cuda-nvcc", "cuda-crt-dev_{system}"),
    "cudart": ("cuda-cudart-dev", "cuda-cudart-dev_{system}"),
    "cupti": ("cuda-cupti", "cuda-cupti-dev"),
}

# --- sources on GitHub -----------------------------------------------------------------------

#: The projects whose sources a Triton build or test wants, by artifact. GitHub makes these archives
#: on request: what is locked is the content of the day. nanobind's lacks its submodule robin_map;
#: its wheel has it.
GITHUB_PROJECTS: Mapping[str, str] = {
    "googletest": "google/googletest",
    "pybind11": "pybind/pybind11",
    "nanobind": "wjakob/nanobind",
}


class ArchiveError(ValueError):
    """No archive is known for what is asked. The message says what is known and suggests."""


@dataclass(frozen=True)
class Archive:
    """One archive of an artifact on one platform.

    `component` is `llvm`, `ptxas`, … . `platform` is as in the lock. `locations` are URLs, tried in
    order when the lock is made. `strip` and `subset` are as in UrlEntry. `sha256` is None where the
    pin doesn't say.
    """

    component: str
    platform: str
    locations: tuple[str, ...]
    strip: str = ""
    subset: tuple[tuple[str, str], ...] = ()
    sha256: str | None = None

    @property
    def filename(self) -> str:
        """The archive's own name, without folders."""
        return self.locations[0].rpartition("/")[2]


def llvm_archives(pin: LlvmPin, stores: Sequence[str] | None = None) -> tuple[Archive, ...]:
    """LLVM for every platform that the pin lists or, where it lists none, that upstream ever built
    for, in the suffixes' order. `stores` as in `llvm_archive`."""
    suffixes = [suffix for suffix, _ in pin.sha256] or LLVM_HASH_SUFFIXES
    return tuple(llvm_archive(pin, suffix_platform(suffix), stores) for suffix in suffixes)


def llvm_archive(pin: LlvmPin, platform: str, stores: Sequence[str] | None = None) -> Archive:
    """LLVM for `platform`, with the distribution where it has one (`linux_x86_64-ubuntu`).

    `stores` are the URLs of folders to look in; None is the pin's own, else LLVM_STORES.

    Raises ArchiveError where the pin lists digests and none for it, PlatformError where no suffix
    of upstream's is that platform's.
    """
    suffix = platform_suffix(platform)
    digests = dict(pin.sha256)
    if digests and suffix not in digests:
        raise ArchiveError(
            f"{pin.path} has no LLVM for {platform}: "
            + _known(suffix, [suffix_platform(s) for s in digests], platform)
        )
    name = f"llvm-{pin.short_revision}-{suffix}"
    if pin.build_number is not None:
        name += f"-{pin.build_number}"
    if stores is None and pin.store is not None:
        stores = (pin.store,)
    elif stores is None:
        # Build numbers came after the move.
        stores = LLVM_STORES if pin.build_number is None else LLVM_STORES[:1]
    return Archive(
        component="llvm",
        platform=platform,
        locations=tuple(f"{store}/{name}.tar.gz" for store in stores),
        strip=name,
        sha256=digests.get(suffix),
    )


def nvidia_source(pin: NvidiaPin) -> str:
    """Where upstream had the components of `pin` from: CONDA while all were of CUDA 12.4 or
    older, else REDIST."""
    return REDIST if any(_is_split(version) for _, version in pin.components) else CONDA


def nvidia_archives(
    pin: NvidiaPin,
    platform: str,
    components: Sequence[str] | None = None,
    source: str | None = None,
) -> tuple[Archive, ...]:
    """The archives of the pin's components, in its order; together their trees are what lies in
    Triton's `third_party/nvidia/backend` (`bin/ptxas`, `include/cuda.h`, `lib/cupti`).

    `components` narrows them. `source` is CONDA or REDIST; None is `nvidia_source`. On macOS these
    are Linux's archives, as upstream has it: the headers serve, the programs don't run.

    Raises ArchiveError for an unknown platform, source or component.
    """
    base = base_platform(platform)
    if base not in PANTS_PLATFORMS:
        raise ArchiveError(
            f"NVIDIA's tools don't exist for {platform}: " + _known(base, PANTS_PLATFORMS)
        )
    source = source or nvidia_source(pin)
    if source not in (CONDA, REDIST):
        raise ArchiveError(f"unknown source {source!r}: " + _known(source, (CONDA, REDIST)))
    pinned = dict(pin.components)
    for name in components or ():
        if name not in pinned:
            raise ArchiveError(f"{pin.path} has no component {name!r}: " + _known(name, pinned))
    make = _conda_archive if source == CONDA else _redist_archive
    return tuple(
        make(pin, name, base)
        for name, _ in pin.components
        if (name not in _NVIDIA_ELSEWHERE if components is None else name in components)
    )


def json_archive(pin: TagPin) -> Archive:
    """The headers of nlohmann json: a tree with `include/nlohmann`."""
    return Archive(
        component="json",
        platform=ANY_PLATFORM,
        locations=(f"https://github.com/nlohmann/json/releases/download/{pin.tag}/include.zip",),
        subset=(("include", "include"),),
    )


def github_archive(artifact: str, tag: str) -> Archive:
    """The sources of one of GITHUB_PROJECTS at `tag` (`v1.17.0`, `release-1.12.1`). Raises
    ArchiveError."""
    project = GITHUB_PROJECTS.get(artifact)
    if project is None:
        raise ArchiveError(
            f"no project on GitHub is known for {artifact!r}: " + _known(artifact, GITHUB_PROJECTS)
        )
    # GitHub leaves out the `v` of a tag like `v1.2` in the folder's name.
    version = tag[1:] if tag[:1] == "v" and tag[1:2].isdigit() else tag
    return Archive(
        component=artifact,
        platform=ANY_PLATFORM,
        locations=(f"https://github.com/{project}/archive/refs/tags/{tag}.tar.gz",),
        strip=f"{project.partition('/')[2]}-{version.replace('/', '-')}",
    )


def url_entry(
    archive: Archive, location: str, sha256: str, size: int | None, pin_sha256: str
) -> UrlEntry:
    """The entry for the lock, of `archive` as found at `location`, one of its locations.

    Raises ArchiveError where `sha256` isn't what the pin says.
    """
    if archive.sha256 is not None and archive.sha256 != sha256:
        raise ArchiveError(
            f"{location} has the sha256 {sha256}, but the pin wants {archive.sha256} for "
            f"{archive.component} on {archive.platform}: the archive isn't the one upstream built."
        )
    return UrlEntry(
        location=location,
        sha256=sha256,
        size=size,
        pin_sha256=pin_sha256,
        strip=archive.strip,
        subset=archive.subset,
    )


def _redist_archive(pin: NvidiaPin, name: str, platform: str) -> Archive:
    component = _NVIDIA.get(name)
    version = pin.version(name)
    if component is None or version is None:
        raise ArchiveError(_no_component(pin, name, NVIDIA_COMPONENTS))
    package = component.redist
    # CUDA 13 moved the headers out of nvcc's archive.
    if name == "cudacrt" and int(version.partition(".")[0]) >= 13:
        package = "cuda_crt"
    system = _REDIST_SYSTEMS[platform]
    folder = f"{package}-{system}-{version}-archive"
    return Archive(
        component=name,
        platform=platform,
        locations=(f"{_REDIST_URL}/{package}/{system}/{folder}.tar.xz",),
        strip=folder,
        subset=component.layout,
    )


def _conda_archive(pin: NvidiaPin, name: str, platform: str) -> Archive:
    packages = _CONDA_PACKAGES.get(name)
    version = pin.version(name)
    if packages is None or version is None:
        raise ArchiveError(_no_component(pin, name, _CONDA_PACKAGES, " in the conda channel"))
    system = _CONDA_SYSTEMS[platform]
    split = _is_split(version)
    package = packages[split].format(system=system)
    # Packages for any system name theirs themselves.
    folder = "noarch" if package.endswith(system) else system
    layout = _NVIDIA[name].layout
    if split:
        targets = f"targets/{_CONDA_TARGETS[system]}"
        layout = tuple(
            (member if member.startswith("bin/") else f"{targets}/{member}", path)
            for member, path in layout
        )
    url = f"{_CONDA_URL}/{package}/{version}/download/{folder}/{package}-{version}-0.tar.bz2"
    return Archive(component=name, platform=platform, locations=(url,), subset=layout)


def _is_split(version: str) -> bool:
    major, minor = version.split(".")[:2]
    return (int(major), int(minor)) >= (12, 5)


def _no_component(pin: NvidiaPin, name: str, known: Iterable[str], where: str = "") -> str:
    return (
        f"{pin.path}: no archive is known for the component {name!r}{where}: "
        f"{_known(name, known)} Leave it out of the components, and declare what it has as an "
        "archive_artifact."
    )


def _known(given: str, known: Iterable[str], shown: str | None = None) -> str:
    names = list(known)
    near = difflib.get_close_matches(shown or given, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"known are {', '.join(names)}.{hint}"
