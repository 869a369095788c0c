from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pants_triton.artifact.archives import CONDA, LLVM_HASH_SUFFIXES, LLVM_STORES
from pants_triton.artifact.declaration import (
    ArchiveDeclaration,
    DebianDeclaration,
    DebianQuestion,
    Declaration,
    DeclarationError,
    LlvmDeclaration,
    NvidiaDeclaration,
    PinFile,
    Slot,
    UrlQuestion,
    WheelDeclaration,
    WheelQuestion,
    slots,
)
from pants_triton.artifact.pins import LLVM_HASH_PATH, LLVM_INFO_PATH, NVIDIA_PATH
from pants_triton.artifact.platforms import suffix_platform

REVISION = "62b7cf9623fc310525f39ed69aaecc318a909731"
A, B = "a" * 64, "b" * 64


def an_llvm(pin: PinFile | None = None, **changes: Any) -> LlvmDeclaration:
    pin = pin or PinFile(LLVM_HASH_PATH, REVISION + "\n")
    return replace(LlvmDeclaration("3rdparty/llvm:llvm", pin), **changes)


def an_llvm_info(*, number: int = 2, **digests: str) -> PinFile:
    return PinFile(
        LLVM_INFO_PATH,
        json.dumps(
            {
                "llvm_hash": REVISION,
                "build_number": number,
                "sha256sum": {name.replace("_", "-"): value for name, value in digests.items()},
            }
        ),
    )


def an_nvidia(versions: str | dict[str, str] | None = None, **changes: Any) -> NvidiaDeclaration:
    """`versions` is the pin: its text, or components and versions."""
    versions = versions or {"ptxas": "12.8.93", "cudart": "12.8.57"}
    text = versions if isinstance(versions, str) else json.dumps(versions)
    made = NvidiaDeclaration("3rdparty/nvidia:nvidia", PinFile(NVIDIA_PATH, text), ("linux_arm64",))
    return replace(made, **changes)


def an_archive(pin: str | None = "v3.11.3\n", **changes: Any) -> ArchiveDeclaration:
    made = ArchiveDeclaration(
        address="3rdparty/json:json",
        urls=(("any", "https://example.com/{pin}/include.zip"),),
        pin=None if pin is None else PinFile("cmake/json-version.txt", pin),
        subset=(("include", "include"),),
    )
    return replace(made, **changes)


def a_wheel(**changes: Any) -> WheelDeclaration:
    made = WheelDeclaration(
        address="3rdparty/nvidia:ptxas",
        distribution="nvidia-cuda-nvcc-cu12",
        version="12.8.93",
        platforms=("linux_x86_64", "linux_arm64"),
        strip="nvidia/cuda_nvcc",
        subset=(("bin/ptxas", "bin/ptxas"),),
    )
    return replace(made, **changes)


def a_debian(**changes: Any) -> DebianDeclaration:
    made = DebianDeclaration(
        address="3rdparty/cc:sysroot",
        suite="bookworm",
        packages=("clang-19", "lld-19=1:19.1.7-3~deb12u1"),
        platforms=("linux_x86_64", "linux_arm64"),
    )
    return replace(made, **changes)


def digests(declaration: Declaration) -> dict[tuple[str, str], str]:
    return {(slot.address, slot.platform): slot.pin_sha256 for slot in slots(declaration)}


# --- LLVM ------------------------------------------------------------------------------------


def test_llvm_of_a_pin_without_digests() -> None:
    """Upstream may lack any of its suffixes for a commit, and may have it in either store."""
    found = slots(an_llvm())
    assert [slot.platform for slot in found] == [suffix_platform(s) for s in LLVM_HASH_SUFFIXES]
    (slot,) = (slot for slot in found if slot.platform == "linux_x86_64-ubuntu")
    assert slot == Slot(
        target="3rdparty/llvm:llvm",
        address="3rdparty/llvm:llvm",
        platform="linux_x86_64-ubuntu",
        artifact="LLVM 62b7cf96",
        question=UrlQuestion(
            tuple(f"{store}/llvm-62b7cf96-ubuntu-x64.tar.gz" for store in LLVM_STORES)
        ),
        pin_path="cmake/llvm-hash.txt",
        pin_sha256=slot.pin_sha256,
        strip="llvm-62b7cf96-ubuntu-x64",
        optional=True,
        by_suffix=True,
    )


def test_llvm_of_a_pin_with_digests() -> None:
    mac, ubuntu = slots(an_llvm(an_llvm_info(macos_arm64=A, ubuntu_x64=B)))
    assert (mac.platform, ubuntu.platform) == ("macos_arm64", "linux_x86_64-ubuntu")
    assert not mac.optional
    assert ubuntu.question == UrlQuestion(
        (f"{LLVM_STORES[0]}/llvm-62b7cf96-ubuntu-x64-2.tar.gz",), sha256=B
    )


def test_llvm_from_other_stores() -> None:
    stores = ("https://example.com/a/", "file:///srv/llvm")
    question = slots(an_llvm(stores=stores))[0].question
    assert isinstance(question, UrlQuestion)
    assert question.locations == (
        "https://example.com/a/llvm-62b7cf96-almalinux-arm64.tar.gz",
        "file:///srv/llvm/llvm-62b7cf96-almalinux-arm64.tar.gz",
    )


# --- NVIDIA ----------------------------------------------------------------------------------


def test_nvidia() -> None:
    found = slots(an_nvidia(platforms=("linux_arm64", "macos_arm64")))
    assert [(slot.address, slot.platform, slot.artifact) for slot in found] == [
        ("3rdparty/nvidia:nvidia#ptxas", "linux_arm64", "ptxas 12.8.93"),
        ("3rdparty/nvidia:nvidia#cudart", "linux_arm64", "cudart 12.8.57"),
        ("3rdparty/nvidia:nvidia#ptxas", "macos_arm64", "ptxas 12.8.93"),
        ("3rdparty/nvidia:nvidia#cudart", "macos_arm64", "cudart 12.8.57"),
    ]
    ptxas, _, ptxas_of_macos, _ = found
    assert {slot.target for slot in found} == {"3rdparty/nvidia:nvidia"}
    assert ptxas.subset == (("bin/ptxas", "bin/ptxas"),)
    assert ptxas.pin_path == "cmake/nvidia-toolchain-version.json"
    # macOS takes Linux's archives.
    assert ptxas_of_macos.question == ptxas.question
    assert not any(slot.optional or slot.by_suffix for slot in found)


def test_nvidia_narrowed() -> None:
    (slot,) = slots(an_nvidia(components=("cudart",)))
    assert slot.address == "3rdparty/nvidia:nvidia#cudart"
    (slot,) = slots(an_nvidia({"ptxas": "12.4.99"}, source=CONDA))
    assert isinstance(slot.question, UrlQuestion)
    assert slot.question.locations[0].startswith("https://anaconda.org/nvidia/cuda-nvcc/")


# --- archives --------------------------------------------------------------------------------


def test_an_archive() -> None:
    (slot,) = slots(an_archive())
    assert slot == Slot(
        target="3rdparty/json:json",
        address="3rdparty/json:json",
        platform="any",
        artifact="the archive include.zip",
        question=UrlQuestion(("https://example.com/v3.11.3/include.zip",)),
        pin_path="cmake/json-version.txt",
        pin_sha256=slot.pin_sha256,
        subset=(("include", "include"),),
    )


@pytest.mark.parametrize(
    "pin, url, strip",
    [
        pytest.param("v1.17.0\n", "https://h/v1.17.0.tar.gz", "googletest-1.17.0", id="v"),
        pytest.param("release-1.12.1", "https://h/release-1.12.1.tar.gz", None, id="no v"),
        pytest.param("\ufeff1.0\r\n", "https://h/1.0.tar.gz", None, id="byte order mark"),
        pytest.param("vega", "https://h/vega.tar.gz", "googletest-vega", id="v of a word"),
    ],
)
def test_the_word_of_a_pin(pin: str, url: str, strip: str | None) -> None:
    urls = (("any", "https://h/{pin}.tar.gz"),)
    (slot,) = slots(an_archive(pin, urls=urls, strip="googletest-{pin_version}"))
    assert slot.question == UrlQuestion((url,))
    if strip is not None:
        assert slot.strip == strip


def test_an_archive_for_each_platform() -> None:
    """A URL that the pin doesn't decide isn't blamed on it."""
    urls = (("linux_x86_64-ubuntu", "https://h/{pin}.zip"), ("macos_arm64", "https://h/mac.zip"))
    found = slots(an_archive(urls=urls))
    assert [(slot.platform, slot.artifact, slot.pin_path) for slot in found] == [
        ("linux_x86_64-ubuntu", "the archive v3.11.3.zip", "cmake/json-version.txt"),
        ("macos_arm64", "the archive mac.zip", ""),
    ]


# --- wheels and Debian packages --------------------------------------------------------------


def test_a_wheel() -> None:
    intel, arm = slots(a_wheel())
    assert intel == Slot(
        target="3rdparty/nvidia:ptxas",
        address="3rdparty/nvidia:ptxas",
        platform="linux_x86_64",
        artifact="the wheel of nvidia-cuda-nvcc-cu12 12.8.93",
        question=WheelQuestion("nvidia-cuda-nvcc-cu12", "12.8.93"),
        pin_path="",
        pin_sha256=intel.pin_sha256,
        strip="nvidia/cuda_nvcc",
        subset=(("bin/ptxas", "bin/ptxas"),),
    )
    # One question to the index, two files.
    assert arm.question == intel.question
    assert arm.pin_sha256 != intel.pin_sha256


def test_debian_packages() -> None:
    found = slots(a_debian(platforms=("linux_x86_64", "linux_arm64", "any")))
    packages = ("clang-19", "lld-19=1:19.1.7-3~deb12u1")
    assert [(slot.platform, slot.question) for slot in found] == [
        ("linux_x86_64", DebianQuestion("bookworm", "amd64", packages)),
        ("linux_arm64", DebianQuestion("bookworm", "arm64", packages)),
        ("any", DebianQuestion("bookworm", "amd64", packages)),
    ]
    assert found[0].artifact == "the tree of bookworm's clang-19, lld-19=1:19.1.7-3~deb12u1"
    (slot,) = slots(a_debian(packages=("a1", "b1", "c1", "d1", "e1"), platforms=("any",)))
    assert slot.artifact == "the tree of bookworm's a1, b1, c1 and 2 more"


# --- what decides a row ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "before, after, moved",
    [
        pytest.param(
            an_nvidia({"ptxas": "12.8.93", "cudart": "12.8.57"}),
            an_nvidia({"ptxas": "12.9.86", "cudart": "12.8.57"}),
            {"#ptxas"},
            id="one component moves",
        ),
        pytest.param(
            an_nvidia('{"ptxas": "12.8.93", "cudart": "12.8.57"}'),
            an_nvidia('{\n  "cudart": "12.8.57",\r\n  "ptxas": "12.8.93"\n}\n'),
            set(),
            id="white space and order",
        ),
        pytest.param(
            an_nvidia(),
            an_nvidia({"ptxas": "12.8.93", "cupti": "12.8.90", "cudart": "12.8.57"}),
            {"#cupti"},
            id="a component more",
        ),
        pytest.param(an_nvidia(), an_nvidia(source=CONDA), {"#ptxas", "#cudart"}, id="source"),
        pytest.param(an_archive("v1"), an_archive(" v1\n\n"), set(), id="a pin's blank lines"),
        pytest.param(an_archive("v1"), an_archive("v2"), {""}, id="the word of a pin"),
        pytest.param(an_archive(), an_archive(strip="x"), {""}, id="strip"),
        pytest.param(an_archive(), an_archive(subset=()), {""}, id="subset"),
        pytest.param(a_wheel(), a_wheel(version="12.8.94"), {""}, id="version"),
        pytest.param(a_debian(), a_debian(suite="trixie"), {""}, id="suite"),
        pytest.param(a_debian(), a_debian(packages=("gcc-12",)), {""}, id="packages"),
        pytest.param(
            an_llvm(),
            an_llvm(PinFile("third_party/triton/cmake/llvm-hash.txt", REVISION)),
            set(),
            id="where the pin lies",
        ),
        pytest.param(an_llvm(), an_llvm(stores=("https://h/b",)), {""}, id="stores"),
        pytest.param(
            an_llvm(an_llvm_info(ubuntu_x64=A)),
            an_llvm(an_llvm_info(ubuntu_x64=B)),
            {""},
            id="the sha256 in the pin",
        ),
    ],
)
def test_the_digest_covers_what_decides_the_row(
    before: Declaration, after: Declaration, moved: set[str]
) -> None:
    """`moved` is what follows the target's address in the lock."""
    old, new = digests(before), digests(after)
    changed = {
        address for (address, platform), d in new.items() if old.get((address, platform)) != d
    }
    assert changed == {after.address + component for component in moved}


def test_an_llvm_of_the_one_generation_is_not_that_of_the_other() -> None:
    store = ("https://h/b",)
    old = digests(an_llvm(stores=store))
    new = digests(an_llvm(an_llvm_info(ubuntu_x64=A), stores=store))
    key = ("3rdparty/llvm:llvm", "linux_x86_64-ubuntu")
    assert old[key] != new[key]


@pytest.mark.parametrize(
    "declaration, digest",
    [
        pytest.param(
            an_archive(),
            "56b2ae8ba132504893a2ad2028a5d4e887f77d91f90df8cb955b81bcb17fbaea",
            id="url",
        ),
        pytest.param(
            a_wheel(),
            "de08c614a093129c62d683d4e8dca7b24e9a08b0a3c43b72d998ca8b03f81bff",
            id="wheel",
        ),
        pytest.param(
            a_debian(),
            "4b93f721cf518081433932b60691668876843f018f9e03a02b87234e60686018",
            id="debian",
        ),
    ],
)
def test_a_digest_holds_on(declaration: Declaration, digest: str) -> None:
    """Were it another in a later version of this backend, every lock would have to be made anew."""
    assert slots(declaration)[0].pin_sha256 == digest


# --- what can't be locked --------------------------------------------------------------------


@pytest.mark.parametrize(
    "declaration, message",
    [
        pytest.param(
            an_llvm(PinFile(LLVM_HASH_PATH, "")),
            "3rdparty/llvm:llvm: cmake/llvm-hash.txt: expected LLVM's commit and nothing else, got "
            "nothing.",
            id="empty pin",
        ),
        pytest.param(
            an_llvm(stores=("https://h/a/", "https://h/a")),
            '3rdparty/llvm:llvm: stores: "https://h/a" occurs twice: leave one out.',
            id="store twice",
        ),
        pytest.param(
            an_llvm(stores=("ftp://h/a",)),
            "3rdparty/llvm:llvm: stores: expected an https:, http: or file: URL without "
            'credentials, query and fragment, got "ftp://h/a": correct the URL.',
            id="store of no URL",
        ),
        pytest.param(
            an_llvm(an_llvm_info(plan9_x64=A, ubuntu_mips=A)),
            "3rdparty/llvm:llvm: a system suffix is `<system>-<arch>`, arch one of x64, arm64, "
            "such as `ubuntu-x64` or `macos-arm64`; got 'ubuntu-mips'.",
            id="suffix of an unknown architecture",
        ),
        pytest.param(
            an_nvidia(platforms=()),
            "3rdparty/nvidia:nvidia: platforms: is empty: name at least one of linux_x86_64, "
            "linux_arm64, macos_x86_64, macos_arm64.",
            id="no platform",
        ),
        pytest.param(
            an_nvidia(platforms=("linux_x64",)),
            '3rdparty/nvidia:nvidia: platforms: there is no platform "linux_x64" for this target: '
            "name any of linux_x86_64, linux_arm64, macos_x86_64, macos_arm64. Did you mean "
            "'linux_x86_64'?",
            id="platform misspelt",
        ),
        pytest.param(
            an_nvidia(platforms=("linux_arm64", "linux_arm64")),
            '3rdparty/nvidia:nvidia: platforms: "linux_arm64" occurs twice: leave one out.',
            id="platform twice",
        ),
        pytest.param(
            an_nvidia(components=("ptxas", "ptxas")),
            '3rdparty/nvidia:nvidia: components: "ptxas" occurs twice: leave one out.',
            id="component twice",
        ),
        pytest.param(
            an_nvidia(components=("ptxsa",)),
            "3rdparty/nvidia:nvidia: cmake/nvidia-toolchain-version.json has no component 'ptxsa': "
            "known are ptxas, cudart. Did you mean 'ptxas'?",
            id="component misspelt",
        ),
        pytest.param(
            an_nvidia(source="redits"),
            "3rdparty/nvidia:nvidia: unknown source 'redits': known are conda, redist. Did you "
            "mean 'redist'?",
            id="source misspelt",
        ),
        pytest.param(
            an_nvidia({"cupti-windows": "13.3.35"}),
            "3rdparty/nvidia:nvidia: cmake/nvidia-toolchain-version.json has only components for "
            "other systems (cupti-windows): delete the target.",
            id="nothing to lock",
        ),
        pytest.param(
            an_archive(urls=()),
            "3rdparty/json:json: urls: is empty: name at least one of any, linux_x86_64, ",
            id="no URL",
        ),
        pytest.param(
            an_archive(urls=(("any", "https://h/{pin}"), ("any", "https://i/{pin}"))),
            '3rdparty/json:json: urls: "any" occurs twice: leave one out.',
            id="two URLs for one platform",
        ),
        pytest.param(
            an_archive(urls=(("linux_x86_64-ubunto", "https://h/{pin}"),)),
            "Did you mean 'linux_x86_64-ubuntu'?",
            id="distribution misspelt",
        ),
        pytest.param(
            an_archive(urls=(("any", "https://h/{pin}#sha256=0"),)),
            "3rdparty/json:json: url: expected an https:, http: or file: URL without credentials, "
            'query and fragment, got "https://h/v3.11.3": correct the URL.',
            id="URL with a fragment",
        ),
        pytest.param(
            an_archive(urls=(("macos_arm64", "x/{pin}"),)),
            "3rdparty/json:json: urls: expected an https:, http: or file: URL without credentials, "
            'query and fragment, got "x/v3.11.3": correct the URL.',
            id="no URL for a platform",
        ),
        pytest.param(
            an_archive(urls=(("any", "https://me:geheim@h/{pin}"),)),
            "3rdparty/json:json: url: a URL has credentials in it, which the lock would publish: "
            "take them out, and give them in ~/.netrc or by `[artifact].credentials`.",
            id="URL with credentials",
        ),
        pytest.param(
            an_archive(urls=(("any", "https://me:geheim@h/{version}"),)),
            "a URL has credentials in it",
            id="URL with credentials, and another fault",
        ),
        pytest.param(
            an_archive(urls=(("any", "https://h/{pin}.zip?sig=geheim"),)),
            "3rdparty/json:json: url: a URL has a query (`?…`), where signatures and tokens are, and "
            "the lock would publish it: name the file by a URL without one (credentials go into "
            "~/.netrc or `[artifact].credentials`), or put it where it has such a URL.",
            id="URL with a query",
        ),
        pytest.param(
            an_archive(None),
            '3rdparty/json:json: url: "https://example.com/{pin}/include.zip" wants the word of a '
            "pin file, but the target has none: name one in `pin`, or write the version out.",
            id="no pin",
        ),
        pytest.param(
            an_archive(urls=(("any", "https://h/a.zip"),)),
            "3rdparty/json:json: pin: cmake/json-version.txt has no effect: write `{pin}` or "
            "`{pin_version}` in `url` or `strip` where its word belongs, or leave `pin` out.",
            id="pin of no use",
        ),
        pytest.param(
            an_archive(urls=(("any", "https://h/{version}-{pin}"),)),
            "3rdparty/json:json: url: only `{pin}` and `{pin_version}` may stand in braces, got "
            '"https://h/{version}-{pin}": write another brace as %7B or %7D, or correct it.',
            id="another placeholder",
        ),
        pytest.param(
            an_archive(strip="json-{pin"),
            "3rdparty/json:json: strip: only `{pin}` and `{pin_version}` may stand in braces",
            id="half a placeholder",
        ),
        pytest.param(
            an_archive("\n"),
            "3rdparty/json:json: cmake/json-version.txt: expected one word such as v3.11.3 for "
            "`{pin}`, got no words: correct the file, or name another in `pin`.",
            id="pin without a word",
        ),
        pytest.param(an_archive("v1 v2"), "for `{pin}`, got 2 words: correct", id="two words"),
        pytest.param(an_archive("../x"), 'for `{pin}`, got "../x": correct', id="word of a path"),
        pytest.param(
            an_archive(strip="a/../b"),
            "3rdparty/json:json: strip: expected a relative path without `.` and `..`, got "
            '"a/../b": correct the BUILD file, then run `./pants lock-artifacts`.',
            id="strip that leaves the archive",
        ),
        pytest.param(
            an_archive(subset=(("include", "../include"),)),
            "3rdparty/json:json: subset: expected relative paths without `.` and `..`, got "
            '"../include": correct it.',
            id="subset that leaves the tree",
        ),
        pytest.param(
            an_archive(subset=(("", "include"),)),
            'subset: expected relative paths without `.` and `..`, got "": correct it.',
            id="subset of no name",
        ),
        pytest.param(
            an_archive(subset=(("include", "a"), ("include", "b"))),
            '3rdparty/json:json: subset: "include" occurs twice: leave one out.',
            id="member twice",
        ),
        pytest.param(
            a_wheel(distribution="nvidia cuda"),
            "3rdparty/nvidia:ptxas: distribution: expected a Python project's name, got "
            '"nvidia cuda": correct the BUILD file',
            id="distribution",
        ),
        pytest.param(
            a_wheel(version=">=12"),
            '3rdparty/nvidia:ptxas: version: expected a Python version, got ">=12": correct',
            id="version that isn't one",
        ),
        pytest.param(
            a_wheel(platforms=("linux_x86_64-ubuntu",)),
            '3rdparty/nvidia:ptxas: platforms: there is no platform "linux_x86_64-ubuntu" for this '
            "target: name any of any, linux_x86_64, linux_arm64, macos_x86_64, macos_arm64.",
            id="wheel for a distribution",
        ),
        pytest.param(
            a_wheel(strip="/nvidia"), "3rdparty/nvidia:ptxas: strip: ", id="wheel's strip"
        ),
        pytest.param(
            a_debian(platforms=("macos_arm64",)),
            '3rdparty/cc:sysroot: platforms: there is no platform "macos_arm64" for this target: '
            "name any of linux_x86_64, linux_arm64, any.",
            id="Debian for macOS",
        ),
        pytest.param(
            a_debian(packages=()),
            "3rdparty/cc:sysroot: packages: expected a list of packages, not empty, got []: ",
            id="no package",
        ),
        pytest.param(
            a_debian(packages=("Clang",)),
            "3rdparty/cc:sysroot: packages: Clang: name: expected a Debian package's name, got "
            '"Clang": correct the BUILD file',
            id="package's name",
        ),
        pytest.param(
            a_debian(packages=("clang-19=",)),
            "3rdparty/cc:sysroot: packages: clang-19: version: expected a Debian package's version",
            id="package's version",
        ),
        pytest.param(
            a_debian(packages=("clang-19", "clang-19=1:19")),
            "3rdparty/cc:sysroot: packages: clang-19: occurs twice: correct the BUILD file",
            id="package twice",
        ),
        pytest.param(
            a_debian(suite="Book Worm"),
            '3rdparty/cc:sysroot: suite: expected a Debian suite, got "Book Worm": correct',
            id="suite's name",
        ),
    ],
)
def test_what_cannot_be_locked(declaration: Declaration, message: str) -> None:
    with pytest.raises(DeclarationError) as e:
        slots(declaration)
    text = str(e.value)
    assert message in text
    assert text.startswith(f"{declaration.address}: ")
    assert text.count(declaration.address) == 1
    assert "\n" not in text and "geheim" not in text
