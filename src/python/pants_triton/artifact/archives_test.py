from __future__ import annotations

import json

import pytest

from pants_triton.artifact.archives import (
    CONDA,
    LLVM_HASH_SUFFIXES,
    NVIDIA_COMPONENTS,
    REDIST,
    Archive,
    ArchiveError,
    github_archive,
    json_archive,
    llvm_archive,
    llvm_archives,
    nvidia_archives,
    nvidia_source,
    url_entry,
)
from pants_triton.artifact.lock import Row, UrlEntry, make_lock
from pants_triton.artifact.pins import (
    LLVM_HASH_PATH,
    LLVM_INFO_PATH,
    LlvmPin,
    NvidiaPin,
    parse_json_pin,
    parse_llvm_pin,
    parse_nvidia_pin,
    parse_pybind11_pin,
)
from pants_triton.artifact.platforms import PANTS_PLATFORMS, PlatformError

OAITRITON = "https://oaitriton.blob.core.windows.net/public/llvm-builds"
TRITONLANG = "https://tritonlang.blob.core.windows.net/llvm-builds"
NVIDIA = "https://developer.download.nvidia.com/compute/cuda/redist"
ANACONDA = "https://anaconda.org/nvidia"

HASH = parse_llvm_pin(LLVM_HASH_PATH, "657ec7320d8a28171755ba0dd5afc570a5a16791\n")

# The pin of 2026-06-06.
INFO_DIGESTS = {
    "almalinux-arm64": "935f92caf94f4d923b7061b3a3fbe75832b79c05c21839a11a2b2838f5516443",
    "almalinux-x64": "20dbb308337aa8eafc6a4e4ee0b1177883767c0cdedc12c98c8f8a21ecdd6ef2",
    "macos-arm64": "8ce251f8f89638e2d4af67a5a5bb027b2afa018d7a6ec8ad55b6b3c401aea745",
    "macos-x64": "42ffc619421be79b03ad39485f7860a7eff873a9346c056419ec72a55c73d423",
    "ubuntu-arm64": "9216d6e5b3cfd0f33650dd8652f539b832efff52c5d9533a7ccab59b34d00bb0",
    "ubuntu-x64": "5cef4a9a0a5604ede1f68cfe5765aeafafd0b5f349d868985ecdb4749058dd3b",
    "windows-x64": "13a59b2778b78115580a293a78c4ef7b7284cdc9af676e9536a3c077c7cc1bd7",
}
INFO = LlvmPin(
    LLVM_INFO_PATH,
    "62b7cf9623fc310525f39ed69aaecc318a909731",
    2,
    tuple(sorted(INFO_DIGESTS.items())),
)


def a_pin(**versions: str) -> NvidiaPin:
    return parse_nvidia_pin(
        json.dumps({name.replace("_", "-"): version for name, version in versions.items()})
    )


# --- LLVM ------------------------------------------------------------------------------------


def test_llvm_until_may_2026() -> None:
    name = "llvm-657ec732-almalinux-x64"
    assert llvm_archive(HASH, "linux_x86_64-almalinux") == Archive(
        component="llvm",
        platform="linux_x86_64-almalinux",
        # Where builds lie since June 2024, and where the older ones do.
        locations=(f"{OAITRITON}/{name}.tar.gz", f"{TRITONLANG}/{name}.tar.gz"),
        strip=name,
    )
    assert [archive.filename for archive in llvm_archives(HASH)] == [
        f"llvm-657ec732-{suffix}.tar.gz" for suffix in LLVM_HASH_SUFFIXES
    ]


def test_llvm_since_may_2026() -> None:
    archives = llvm_archives(INFO)
    assert [(a.platform, a.sha256) for a in archives] == [
        ("linux_arm64-almalinux", INFO_DIGESTS["almalinux-arm64"]),
        ("linux_x86_64-almalinux", INFO_DIGESTS["almalinux-x64"]),
        ("macos_arm64", INFO_DIGESTS["macos-arm64"]),
        ("macos_x86_64", INFO_DIGESTS["macos-x64"]),
        ("linux_arm64-ubuntu", INFO_DIGESTS["ubuntu-arm64"]),
        ("linux_x86_64-ubuntu", INFO_DIGESTS["ubuntu-x64"]),
        ("windows_x86_64", INFO_DIGESTS["windows-x64"]),
    ]
    assert archives[5].locations == (f"{OAITRITON}/llvm-62b7cf96-ubuntu-x64-2.tar.gz",)
    assert archives[5].strip == "llvm-62b7cf96-ubuntu-x64-2"


def test_llvm_of_a_fork() -> None:
    store = "https://example.com/builds"
    pin = LlvmPin(LLVM_INFO_PATH, INFO.revision, 1, INFO.sha256, store)
    name = "llvm-62b7cf96-macos-arm64-1.tar.gz"
    assert llvm_archive(pin, "macos_arm64").locations == (f"{store}/{name}",)
    assert llvm_archive(pin, "macos_arm64", ["file:///srv"]).locations == (f"file:///srv/{name}",)


def test_a_platform_that_upstream_does_not_build_llvm_for() -> None:
    with pytest.raises(ArchiveError) as e:
        llvm_archive(INFO, "linux_x86_64-centos")
    assert str(e.value) == (
        "cmake/llvm-info.json has no LLVM for linux_x86_64-centos: known are "
        "linux_arm64-almalinux, linux_x86_64-almalinux, macos_arm64, macos_x86_64, "
        "linux_arm64-ubuntu, linux_x86_64-ubuntu, windows_x86_64. "
        "Did you mean 'linux_x86_64-ubuntu'?"
    )
    with pytest.raises(PlatformError, match="name the distribution too"):
        llvm_archive(INFO, "linux_x86_64")


# --- NVIDIA ----------------------------------------------------------------------------------


def redist(package: str, system: str, version: str) -> str:
    return f"{NVIDIA}/{package}/{system}/{package}-{system}-{version}-archive.tar.xz"


def test_nvidia_since_2025() -> None:
    pin = a_pin(
        ptxas_blackwell="13.3.33",
        ptxas="12.9.86",
        cuobjdump="13.1.80",
        nvdisasm="13.1.80",
        cudacrt="13.1.80",
        cudart="13.1.80",
        cupti="12.8.90",
        cupti_blackwell="13.3.35",
    )
    assert nvidia_source(pin) == REDIST
    archives = nvidia_archives(pin, "linux_x86_64")
    assert [(a.component, a.locations[0], a.subset) for a in archives] == [
        (
            "ptxas-blackwell",
            redist("cuda_nvcc", "linux-x86_64", "13.3.33"),
            (("bin/ptxas", "bin/ptxas-blackwell"),),
        ),
        ("ptxas", redist("cuda_nvcc", "linux-x86_64", "12.9.86"), (("bin/ptxas", "bin/ptxas"),)),
        (
            "cuobjdump",
            redist("cuda_cuobjdump", "linux-x86_64", "13.1.80"),
            (("bin/cuobjdump", "bin/cuobjdump"),),
        ),
        (
            "nvdisasm",
            redist("cuda_nvdisasm", "linux-x86_64", "13.1.80"),
            (("bin/nvdisasm", "bin/nvdisasm"),),
        ),
        # CUDA 13 has an archive of its own for them.
        ("cudacrt", redist("cuda_crt", "linux-x86_64", "13.1.80"), (("include", "include"),)),
        ("cudart", redist("cuda_cudart", "linux-x86_64", "13.1.80"), (("include", "include"),)),
        (
            "cupti",
            redist("cuda_cupti", "linux-x86_64", "12.8.90"),
            (("include", "include"), ("lib", "lib/cupti")),
        ),
        (
            "cupti-blackwell",
            redist("cuda_cupti", "linux-x86_64", "13.3.35"),
            (("lib", "lib/cupti-blackwell"),),
        ),
    ]
    assert archives[1].strip == "cuda_nvcc-linux-x86_64-12.9.86-archive"
    assert archives[1].filename == "cuda_nvcc-linux-x86_64-12.9.86-archive.tar.xz"


def test_the_crt_headers_of_cuda_12_are_in_nvcc() -> None:
    (archive,) = nvidia_archives(a_pin(cudacrt="12.8.61"), "linux_arm64")
    assert archive.locations == (redist("cuda_nvcc", "linux-sbsa", "12.8.61"),)
    assert archive.platform == "linux_arm64"


def test_the_standard_library_of_march_2026() -> None:
    (archive,) = nvidia_archives(a_pin(cuda_stdlib="13.1.115"), "linux_x86_64")
    assert archive.locations == (redist("cuda_cccl", "linux-x86_64", "13.1.115"),)
    assert archive.subset == (
        ("include/cccl/cuda", "include/cuda"),
        ("include/cccl/nv", "include/nv"),
    )


def test_nvidia_of_2024() -> None:
    pin = parse_nvidia_pin("12.4.99", "cmake/nvidia-toolchain-version.txt")
    assert nvidia_source(pin) == CONDA
    archives = nvidia_archives(pin, "linux_x86_64")
    assert [(a.component, a.filename) for a in archives] == [
        ("ptxas", "cuda-nvcc-12.4.99-0.tar.bz2"),
        ("cuobjdump", "cuda-cuobjdump-12.4.99-0.tar.bz2"),
        ("nvdisasm", "cuda-nvdisasm-12.4.99-0.tar.bz2"),
        ("cudacrt", "cuda-nvcc-12.4.99-0.tar.bz2"),
        ("cudart", "cuda-cudart-dev-12.4.99-0.tar.bz2"),
        ("cupti", "cuda-cupti-12.4.99-0.tar.bz2"),
    ]
    assert archives[0].locations == (
        f"{ANACONDA}/cuda-nvcc/12.4.99/download/linux-64/cuda-nvcc-12.4.99-0.tar.bz2",
    )
    assert archives[0].strip == ""
    assert archives[5].subset == (("include", "include"), ("lib", "lib/cupti"))


def test_conda_packages_from_cuda_12_5() -> None:
    pin = a_pin(ptxas="12.6.85", cudacrt="12.6.85", cudart="12.6.77", cupti="12.6.80")
    ptxas, crt, cudart, cupti = nvidia_archives(pin, "linux_arm64", source=CONDA)
    assert ptxas.locations == (
        f"{ANACONDA}/cuda-nvcc-tools/12.6.85/download/linux-aarch64/"
        "cuda-nvcc-tools-12.6.85-0.tar.bz2",
    )
    assert ptxas.subset == (("bin/ptxas", "bin/ptxas"),)
    assert crt.locations == (
        f"{ANACONDA}/cuda-crt-dev_linux-aarch64/12.6.85/download/noarch/"
        "cuda-crt-dev_linux-aarch64-12.6.85-0.tar.bz2",
    )
    assert cudart.subset == (("targets/sbsa-linux/include", "include"),)
    assert cupti.filename == "cuda-cupti-dev-12.6.80-0.tar.bz2"
    assert cupti.subset[1] == ("targets/sbsa-linux/lib", "lib/cupti")


def test_macos_takes_the_archives_of_linux() -> None:
    pin = a_pin(cudart="13.1.80")
    (apple,) = nvidia_archives(pin, "macos_arm64")
    (linux,) = nvidia_archives(pin, "linux_arm64")
    assert (apple.platform, apple.locations) == ("macos_arm64", linux.locations)


def test_some_components_only() -> None:
    pin = a_pin(ptxas="13.1.80", cupti_windows="13.3.35", later="14.0.1", cupti="13.1.80")
    wanted = nvidia_archives(pin, "linux_x86_64-ubuntu", ["cupti", "ptxas"])
    assert [(a.component, a.platform) for a in wanted] == [
        ("ptxas", "linux_x86_64"),
        ("cupti", "linux_x86_64"),
    ]
    assert nvidia_archives(a_pin(cupti_windows="13.3.35"), "linux_x86_64") == ()


@pytest.mark.parametrize(
    "platform, components, source, message",
    [
        pytest.param(
            *("linux_x86_64", None, None),
            "cmake/nvidia-toolchain-version.json: no archive is known for the component "
            "'ptxas-rubin': known are ptxas, ",
            id="component of a later generation",
        ),
        pytest.param(
            *("linux_x86_64", None, CONDA),
            "no archive is known for the component 'ptxas-rubin' in the conda channel",
            id="component that conda hasn't",
        ),
        pytest.param(
            *("linux_x86_64", ["ptxsa"], None),
            "cmake/nvidia-toolchain-version.json has no component 'ptxsa': known are "
            "ptxas-rubin, ptxas. Did you mean 'ptxas'?",
            id="component the pin hasn't",
        ),
        pytest.param(
            *("windows_x86_64", None, None),
            "NVIDIA's tools don't exist for windows_x86_64",
            id="os",
        ),
        pytest.param(*("linux_x86_64", None, "redits"), "Did you mean 'redist'?", id="source"),
    ],
)
def test_archives_that_nobody_knows(
    platform: str, components: list[str] | None, source: str | None, message: str
) -> None:
    with pytest.raises(ArchiveError) as e:
        nvidia_archives(a_pin(ptxas_rubin="14.0.1", ptxas="13.1.80"), platform, components, source)
    assert message in str(e.value)
    assert "\n" not in str(e.value)


# --- sources ---------------------------------------------------------------------------------


def test_json() -> None:
    archive = json_archive(parse_json_pin("v3.11.3"))
    assert archive.locations == (
        "https://github.com/nlohmann/json/releases/download/v3.11.3/include.zip",
    )
    assert (archive.platform, archive.strip) == ("any", "")


@pytest.mark.parametrize(
    "artifact, tag, url, strip",
    [
        pytest.param(
            *("googletest", "release-1.12.1"),
            "google/googletest/archive/refs/tags/release-1.12.1.tar.gz",
            "googletest-release-1.12.1",
            id="googletest until May 2025",
        ),
        pytest.param(
            *("googletest", "v1.17.0"),
            "google/googletest/archive/refs/tags/v1.17.0.tar.gz",
            "googletest-1.17.0",
            id="googletest",
        ),
        pytest.param(
            *("pybind11", parse_pybind11_pin("2.13.1").tag),
            "pybind/pybind11/archive/refs/tags/v2.13.1.tar.gz",
            "pybind11-2.13.1",
            id="pybind11",
        ),
        pytest.param(
            *("nanobind", "v2.10.2"),
            "wjakob/nanobind/archive/refs/tags/v2.10.2.tar.gz",
            "nanobind-2.10.2",
            id="nanobind",
        ),
    ],
)
def test_github(artifact: str, tag: str, url: str, strip: str) -> None:
    archive = github_archive(artifact, tag)
    assert archive.locations == (f"https://github.com/{url}",)
    assert archive.strip == strip


def test_an_unknown_project() -> None:
    with pytest.raises(ArchiveError, match="Did you mean 'googletest'?"):
        github_archive("gogletest", "v1")


# --- into the lock ---------------------------------------------------------------------------


def test_url_entry() -> None:
    archive = llvm_archive(INFO, "macos_arm64")
    digest = INFO_DIGESTS["macos-arm64"]
    assert url_entry(archive, archive.locations[0], digest, None, "1" * 64) == UrlEntry(
        location=f"{OAITRITON}/llvm-62b7cf96-macos-arm64-2.tar.gz",
        sha256=digest,
        size=None,
        pin_sha256="1" * 64,
        strip="llvm-62b7cf96-macos-arm64-2",
    )
    with pytest.raises(ArchiveError, match="the archive isn't the one upstream built"):
        url_entry(archive, archive.locations[0], "2" * 64, None, "1" * 64)


def test_every_archive_fits_into_the_lock() -> None:
    pin = NvidiaPin("pin", tuple((name, "13.1.80") for name in NVIDIA_COMPONENTS))
    archives = [
        *llvm_archives(HASH),
        *llvm_archives(INFO),
        *(a for platform in PANTS_PLATFORMS for a in nvidia_archives(pin, platform)),
        json_archive(parse_json_pin("v3.11.3")),
        github_archive("nanobind", "v2.10.2"),
    ]
    rows = [
        Row(
            f"a:{number}",
            a.platform,
            url_entry(a, a.locations[0], a.sha256 or "0" * 64, 1, "1" * 64),
        )
        for number, a in enumerate(archives)
    ]
    assert len(make_lock("lock", rows).rows) == len(archives)
