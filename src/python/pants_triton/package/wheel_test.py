"""Tests of the program that makes wheels; what auditwheel does to them is tested with native code,
in tests/e2e."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pants_triton.package.wheel import (
    WheelError,
    _explained,
    _refuse_libraries_of_the_host,
    find_files,
    is_elf,
    main,
    read_platform,
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "demo/tools").mkdir(parents=True)
    (tree / "demo/__init__.py").write_text("ANSWER = 42\n")
    (tree / "demo/tools/tool").write_text("#!/bin/sh\necho done\n")
    (tree / "demo/tools/tool").chmod(0o755)
    info = tree / "demo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
    return tree


def make(tree: Path, *args: str) -> Path:
    output = tree.parent / "out"
    assert (
        main(
            [
                *(f"--tree={tree}", "--dist-info=demo-1.0", f"--output={output}"),
                *("--python-tag=py3", "--abi-tag=none", *args),
            ]
        )
        == 0
    )
    (wheel,) = output.glob("*.whl")
    return wheel


def test_pip_installs_it(tree: Path, tmp_path: Path) -> None:
    wheel = make(tree)
    assert wheel.name == "demo-1.0-py3-none-any.whl"
    target = tmp_path / "site"
    # This process' own Python need not have pip.
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    # It compares all files with RECORD.
    pip = [str(venv / "bin/python"), "-m", "pip", "install", "--no-index", f"--target={target}"]
    subprocess.run([*pip, str(wheel)], check=True, stdout=subprocess.DEVNULL)
    run = [sys.executable, "-c", "import demo; print(demo.ANSWER)"]
    env = {"PYTHONPATH": str(target)}
    assert subprocess.run(run, env=env, check=True, stdout=subprocess.PIPE).stdout == b"42\n"
    assert subprocess.run([target / "demo/tools/tool"], stdout=subprocess.PIPE).stdout == b"done\n"


def test_members(tree: Path) -> None:
    with zipfile.ZipFile(make(tree)) as archive:
        assert archive.namelist() == [
            *("demo/__init__.py", "demo/tools/tool", "demo-1.0.dist-info/METADATA"),
            *("demo-1.0.dist-info/WHEEL", "demo-1.0.dist-info/RECORD"),
        ]
        assert archive.testzip() is None
        assert archive.read("demo-1.0.dist-info/WHEEL").decode().splitlines() == [
            *("Wheel-Version: 1.0", "Generator: pants-triton"),
            *("Root-Is-Purelib: true", "Tag: py3-none-any"),
        ]
        record = archive.read("demo-1.0.dist-info/RECORD").decode().splitlines()
        # Of the text above, by `sha256sum | xxd -r -p | basenc --base64url`.
        assert record[0] == "demo/__init__.py,sha256=XbAo4nI7yIz1ZX-St4TyhoNlf3RZyvfwxUKZv2y0s_w,12"
        assert record[-1] == "demo-1.0.dist-info/RECORD,,"


def test_the_same_files_make_the_same_bytes(tree: Path) -> None:
    wheel = make(tree)
    first = wheel.read_bytes()
    wheel.unlink()
    for path in tree.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    (tree / "demo/__init__.py").chmod(0o600)
    assert make(tree).read_bytes() == first


def test_links_are_what_they_lead_to(tree: Path) -> None:
    (tree / "demo/link.py").symlink_to("__init__.py")
    (tree / "demo/folder").symlink_to("tools")
    with zipfile.ZipFile(make(tree)) as archive:
        assert archive.read("demo/link.py") == b"ANSWER = 42\n"
        assert archive.read("demo/folder/tool").startswith(b"#!/bin/sh")
        assert archive.getinfo("demo/folder/tool").external_attr >> 16 == 0o100755


@pytest.mark.parametrize(
    "link, target, message",
    [
        ("demo/up", "..", "demo/up is a link that leads to a folder which it is in itself."),
        ("demo/none", "nowhere", "demo/none is a link that leads to nothing in the package."),
    ],
)
def test_links_that_lead_nowhere(
    tree: Path, capsys: pytest.CaptureFixture[str], link: str, target: str, message: str
) -> None:
    (tree / link).symlink_to(target)
    args = [f"--tree={tree}", "--dist-info=demo-1.0", f"--output={tree.parent}"]
    assert main([*args, "--python-tag=py3", "--abi-tag=none"]) == 1
    assert capsys.readouterr().err == f"{message}\n"


def test_a_wheel_for_this_machine(tree: Path) -> None:
    """As it is: nothing looks for libraries, and the tag says that it isn't for everywhere."""
    (tree / "demo/native.so").write_bytes(b"\x7fELF" + bytes(12) + b"\3\0")
    wheel = make(tree, "--platform-tag=linux_x86_64")
    assert wheel.name == "demo-1.0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel) as archive:
        assert "Root-Is-Purelib: false\n" in archive.read("demo-1.0.dist-info/WHEEL").decode()


@pytest.mark.parametrize(
    "content, expected",
    [
        (b"\x7fELF" + bytes(12) + b"\3\0", True),
        (b"\x7fELF" + bytes(12) + b"\2\0", True),
        pytest.param(b"\x7fELF" + bytes(12) + b"\1\0", False, id="an object, as of a GPU"),
        (b"\x7fELF", False),
        (b"", False),
        (b"#!/bin/sh\n", False),
    ],
)
def test_elf(tmp_path: Path, content: bytes, expected: bool) -> None:
    (tmp_path / "file").write_bytes(content)
    assert is_elf(tmp_path / "file") == expected


def test_files_are_sorted(tree: Path) -> None:
    assert list(find_files(tree)) == sorted(find_files(tree))


# --- auditwheel's words ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "output, message",
    [
        pytest.param(
            'ValueError: Cannot repair wheel, because required library "libLLVM.so.19.1" could not '
            "be located",
            "It needs libLLVM.so.19.1, which is in no artifact that `libraries` names: add",
            id="missing",
        ),
        pytest.param(
            "usage: auditwheel [-h]\nauditwheel: error: argument --plat: invalid choice: 'x' (…)",
            "auditwheel: argument --plat: invalid choice: 'x'",
            id="tag",
        ),
        pytest.param("something\n", "auditwheel: something", id="else"),
    ],
)
def test_auditwheels_errors(output: str, message: str) -> None:
    assert _explained(output).startswith(message)


@pytest.mark.parametrize(
    "output, platform",
    [
        pytest.param(
            'is consistent\nwith the following platform tag: "linux_x86_64".\n\nThis constrains the\n'
            'platform tag to "manylinux_2_34_x86_64". In order',
            "manylinux_2_34_x86_64",
            id="by symbols",
        ),
        pytest.param(
            'is consistent with the following\nplatform tag: "manylinux_2_17_x86_64".\n',
            "manylinux_2_17_x86_64",
            id="no library is missing",
        ),
        pytest.param(
            'is consistent with the following platform tag: "linux_x86_64".\n'
            '{\n    "libLLVM.so.19.1": "/tree/libLLVM.so.19.1"\n}\n'
            "In order to achieve the tag platform tag 'manylinux_2_39_x86_64' the following shared\n"
            "libraries…\nIn order to achieve the tag platform tag\n'manylinux_2_5_x86_64' the",
            "manylinux_2_5_x86_64",
            id="with more libraries",
        ),
        pytest.param(
            '{"libcuda.so.1": null}\nfollowing platform tag: "manylinux_2_28_x86_64"',
            "manylinux_2_28_x86_64",
            id="the system's",
        ),
    ],
)
def test_the_oldest_platform(output: str, platform: str) -> None:
    assert read_platform(output, ["libcuda.so.*"]) == platform


@pytest.mark.parametrize(
    "output, message",
    [
        ('{"libLLVM.so.19.1": null}', "It needs libLLVM.so.19.1, which is in no artifact"),
        ("something", "auditwheel can't tell which systems the wheel is for:\nsomething"),
    ],
)
def test_no_platform(output: str, message: str) -> None:
    with pytest.raises(WheelError, match=message):
        read_platform(output, ["libcuda.so.*"])


def test_libraries_of_the_host_are_refused(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / ".libraries").mkdir(parents=True)
    (tree / "libz.so.1").write_text("")
    (tree / ".libraries/libz.so.1").symlink_to("../libz.so.1")
    (tmp_path / "libhost.so.2").write_text("")
    ours = f"DEBUG:auditwheel.repair:Grafting: {tree}/.libraries/libz.so.1 -> x/libz-1.so.1\n"
    _refuse_libraries_of_the_host(ours, [tree / ".libraries"])
    of_host = ours + f"Grafting: {tmp_path}/libhost.so.2 -> x/libhost-1.so.2\n"
    with pytest.raises(WheelError, match="It needs libhost.so.2, which only this host has"):
        _refuse_libraries_of_the_host(of_host, [tree / ".libraries"])
