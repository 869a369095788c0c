"""Outputs here are of GCC 12, Clang 14, GNU ld 2.40 and gold on Debian 12, shortened; those of Apple's
clang are as CMake's and Homebrew's users reported them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from pants_triton.native.host_probe import (
    Hasher,
    ProbeError,
    configuration_files,
    depfile_members,
    invoked_programs,
    library_folders,
    main,
    observe,
    script_members,
    search_folders,
    shared_libraries,
)
from pants_triton.native.layout import ROOT_TOKEN

GCC = """\
Using built-in specs.
COLLECT_GCC=c++
Target: x86_64-linux-gnu
gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)
COLLECT_GCC_OPTIONS='-v' '-E' '-mtune=generic' '-march=x86-64'
 /usr/lib/gcc/x86_64-linux-gnu/12/cc1plus -E -quiet -v -imultiarch x86_64-linux-gnu -D_GNU_SOURCE - -mtune=generic
ignoring duplicate directory "/usr/include/x86_64-linux-gnu/c++/12"
ignoring nonexistent directory "/usr/local/include/x86_64-linux-gnu"
#include "..." search starts here:
#include <...> search starts here:
 /usr/include/c++/12
 /usr/lib/gcc/x86_64-linux-gnu/12/include
 /usr/include
End of search list.
COMPILER_PATH=/usr/lib/gcc/x86_64-linux-gnu/12/:/usr/lib/gcc/x86_64-linux-gnu/
"""
CLANG = """\
Debian clang version 14.0.6
Target: x86_64-pc-linux-gnu
InstalledDir: /usr/bin
Configuration file: /etc/clang/clang++.cfg
Found candidate GCC installation: /usr/bin/../lib/gcc/x86_64-linux-gnu/12
 (in-process)
 "/usr/lib/llvm-14/bin/clang" -cc1 -triple x86_64-pc-linux-gnu -E -disable-free -o - -x c++ /dev/null
clang -cc1 version 14.0.6 based upon LLVM 14.0.6 default target x86_64-pc-linux-gnu
#include "..." search starts here:
 /opt/quoted
#include <...> search starts here:
 /usr/bin/../lib/gcc/x86_64-linux-gnu/12/../../../../include/c++/12
 /usr/lib/llvm-14/lib/clang/14.0.6/include
 /usr/include
End of search list.
"""
XCODE = "/Applications/Xcode.app/Contents/Developer"
APPLE = f"""\
Apple clang version 15.0.0 (clang-1500.3.9.4)
Target: arm64-apple-darwin23.6.0
Thread model: posix
InstalledDir: {XCODE}/Toolchains/XcodeDefault.xctoolchain/usr/bin
 "{XCODE}/Toolchains/XcodeDefault.xctoolchain/usr/bin/clang" -cc1 -triple arm64-apple-macosx14.0.0 -E -x c++ /dev/null
#include "..." search starts here:
#include <...> search starts here:
 {XCODE}/SDKs/MacOSX.sdk/usr/include/c++/v1
 {XCODE}/Toolchains/XcodeDefault.xctoolchain/usr/lib/clang/15.0.0/include
 {XCODE}/SDKs/MacOSX.sdk/usr/include
 {XCODE}/SDKs/MacOSX.sdk/System/Library/Frameworks (framework directory)
End of search list.
"""


@pytest.mark.parametrize(
    "output, folders, programs",
    [
        pytest.param(
            GCC,
            [
                "/usr/include/c++/12",
                "/usr/lib/gcc/x86_64-linux-gnu/12/include",
                "/usr/include",
            ],
            ["/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus"],
            id="GCC",
        ),
        pytest.param(
            CLANG,
            [
                "/opt/quoted",
                "/usr/bin/../lib/gcc/x86_64-linux-gnu/12/../../../../include/c++/12",
                "/usr/lib/llvm-14/lib/clang/14.0.6/include",
                "/usr/include",
            ],
            ["/usr/lib/llvm-14/bin/clang"],
            id="Clang",
        ),
        pytest.param(
            APPLE,
            [
                f"{XCODE}/SDKs/MacOSX.sdk/usr/include/c++/v1",
                f"{XCODE}/Toolchains/XcodeDefault.xctoolchain/usr/lib/clang/15.0.0/include",
                f"{XCODE}/SDKs/MacOSX.sdk/usr/include",
                f"{XCODE}/SDKs/MacOSX.sdk/System/Library/Frameworks",
            ],
            [f"{XCODE}/Toolchains/XcodeDefault.xctoolchain/usr/bin/clang"],
            id="Apple's",
        ),
        pytest.param("", [], [], id="nothing"),
    ],
)
def test_what_a_driver_says(output: str, folders: list[str], programs: list[str]) -> None:
    assert search_folders(output) == folders
    assert invoked_programs(output) == programs


def test_configuration_files() -> None:
    assert configuration_files(CLANG) == ["/etc/clang/clang++.cfg"]
    assert configuration_files(GCC) == []


def test_library_folders() -> None:
    output = "install: /usr/lib/gcc/12/\nprograms: =/usr/bin\nlibraries: =/usr/lib/gcc/12/:/lib/\n"
    assert library_folders(output) == ["/usr/lib/gcc/12/", "/lib/"]
    assert library_folders("") == []


@pytest.mark.parametrize(
    "script, paths, names",
    [
        pytest.param(
            "/* GNU ld script\n   Use the shared library (libc.so.7). */\nOUTPUT_FORMAT(elf64-x86-64)\n"
            "GROUP ( /lib/libc.so.6 /usr/lib/libc_nonshared.a  AS_NEEDED ( /lib64/ld-linux.so.2 ) )",
            ["/lib/libc.so.6", "/usr/lib/libc_nonshared.a", "/lib64/ld-linux.so.2"],
            [],
            id="glibc's",
        ),
        pytest.param(
            "GROUP ( libgcc_s.so.1 -lgcc )",
            [],
            ["libgcc_s.so.1", "libgcc.so", "libgcc.a"],
            id="GCC's",
        ),
        pytest.param("INPUT(libc++.so.1 -lunwind)", [], None, id="libc++'s"),
        pytest.param("", [], [], id="none"),
        pytest.param("GROUP ( /lib/a.so", [], [], id="broken"),
    ],
)
def test_linker_scripts(script: str, paths: list[str], names: list[str] | None) -> None:
    expected = ["libc++.so.1", "libunwind.so", "libunwind.a"] if names is None else names
    assert script_members(script) == (paths, expected)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "main: \\\n  /usr/lib/crt1.o \\\n  /build/x.o \\\n  /lib/libc.so.6 \\\n", id="GNU"
        ),
        pytest.param(
            "main: \\\n  /usr/lib/crt1.o \\\n  /build/x.o \\\n  /lib/libc.so.6\n\n/usr/lib/crt1.o:\n\n"
            "/build/x.o:\n\n/lib/libc.so.6:\n",
            id="gold and lld",
        ),
        pytest.param(
            "main: /usr/lib/crt1.o /build/x.o /lib/libc.so.6\n\n/usr/lib/crt1.o:\n", id="mold"
        ),
    ],
)
def test_what_a_linker_read(text: str) -> None:
    assert depfile_members(text) == ["/usr/lib/crt1.o", "/build/x.o", "/lib/libc.so.6"]


def test_shared_libraries() -> None:
    output = """\
/usr/bin/ld:
\tlinux-vdso.so.1 (0x00007fd0bdea1000)
\tlibbfd-2.40-system.so => /lib/x86_64-linux-gnu/libbfd-2.40-system.so (0x00007fd0bdbd6000)
\tlibgone.so => not found
\t/lib64/ld-linux-x86-64.so.2 (0x00007fd0bdea3000)
/usr/bin/static:
\tnot a dynamic executable
"""
    assert shared_libraries(output) == [
        "/lib/x86_64-linux-gnu/libbfd-2.40-system.so",
        "/lib64/ld-linux-x86-64.so.2",
    ]


# --- digests ------------------------------------------------------------------------------------


def settle(*paths: Path) -> None:
    """As if nothing had happened to them lately. (Not even root can set when a file was changed; so
    the clock is waited for where that counts.)"""
    hour_ago = time.time() - 3600
    for path in paths:
        os.utime(path, (hour_ago, hour_ago))


def folder_of(tmp_path: Path) -> Path:
    folder = tmp_path / "include"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.h").write_text("a")
    (folder / "sub/b.h").write_text("b")
    return folder


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda f: (f / "a.h").write_text("A"), id="another content, as long"),
        pytest.param(lambda f: (f / "a.h").rename(f / "c.h"), id="another name"),
        pytest.param(lambda f: (f / "c.h").write_text(""), id="another file"),
        pytest.param(lambda f: (f / "sub/b.h").unlink(), id="a file less"),
        pytest.param(lambda f: (f / "c.h").symlink_to("gone.h"), id="a link to nothing"),
        pytest.param(lambda f: (f / "c").symlink_to(f), id="a link to itself"),
    ],
)
def test_a_folder_is_its_content(tmp_path: Path, change: Any) -> None:
    folder = folder_of(tmp_path)
    before = Hasher().folder(str(folder))
    assert Hasher().folder(str(folder)) == before
    change(folder)
    assert Hasher().folder(str(folder)) != before


def test_a_folder_is_nothing_but_its_content(tmp_path: Path) -> None:
    one = folder_of(tmp_path / "one")
    other = folder_of(tmp_path / "somewhere else")
    settle(other / "a.h")
    (other / "a.h").chmod(0o600)
    assert Hasher().folder(str(one)) == Hasher().folder(str(other))
    # Through a link to a folder elsewhere.
    (other / "sub").rename(tmp_path / "moved")
    (other / "sub").symlink_to(tmp_path / "moved")
    assert Hasher().folder(str(one)) == Hasher().folder(str(other))
    (tmp_path / "moved/b.h").write_text("B")
    assert Hasher().folder(str(one)) != Hasher().folder(str(other))


class Eager(Hasher):
    """One for which a file that has just been written may be remembered."""

    _SETTLED_NS = -1


def test_what_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    folder, memory = folder_of(tmp_path), tmp_path / "memory/digests.json"
    first = Eager(memory)
    digest = first.folder(str(folder))
    first.save()
    assert first.read == 2
    again = Eager(memory)
    assert (again.folder(str(folder)), again.read) == (digest, 0)
    again.save()
    # As long and with the same time: it is another file, or was changed later than it says.
    stat = (folder / "a.h").stat()
    (folder / "a.h").write_text("A")
    os.utime(folder / "a.h", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    changed = Eager(memory)
    assert changed.folder(str(folder)) != digest
    assert changed.read == 1


def test_what_has_just_changed_is_not_remembered(tmp_path: Path) -> None:
    folder, memory = folder_of(tmp_path), tmp_path / "digests.json"
    hasher = Hasher(memory)
    hasher.folder(str(folder))
    hasher.save()
    assert not memory.exists()


@pytest.mark.parametrize("content", ["", "[]", '{"x": 1}', "no JSON", '{"@": [1]}'])
def test_a_broken_memory_is_none(tmp_path: Path, content: str) -> None:
    folder, memory = folder_of(tmp_path), tmp_path / "digests.json"
    memory.write_text(content.replace("@", str(folder / "a.h")))
    hasher = Eager(memory)
    assert hasher.folder(str(folder)) == Hasher().folder(str(folder))
    hasher.save()
    assert str(folder / "a.h") in json.loads(memory.read_text())


def test_a_memory_that_can_not_be_written_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    hasher = Eager(tmp_path / "file/digests.json")
    hasher.folder(str(folder_of(tmp_path)))
    hasher.save()


def test_a_file_that_can_not_be_read(tmp_path: Path) -> None:
    assert Hasher().file(str(tmp_path / "gone")) == "unreadable: No such file or directory"


# --- a compiler that stands for others ----------------------------------------------------------

# What is asked of it, and no more.
COMPILER = """\
#!/bin/sh
case "$*" in
  *--version*) echo "Apple clang version 15.0.0 (clang-1500.3.9.4)" ;;
  *-dumpmachine*) echo arm64-apple-darwin23.6.0 ;;
  *-E*) echo '#include <...> search starts here:
 @SDK/usr/include
 @SDK/System/Library/Frameworks (framework directory)
 @FOLDER/headers
End of search list.' >&2 ;;
  *-print-search-dirs*) echo 'libraries: =@FOLDER/lib' ;;
  *-print-resource-dir*) echo @FOLDER/resources ;;
  *-print-prog-name*) exit 1 ;;
  *main.cpp*-o*) ;;
  *) echo "unknown: $*" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like Xcode's; `xcrun` knows it."""
    files = {
        "headers/clang.h": "",
        "sdk/usr/include/stdio.h": "1",
        "sdk/SDKSettings.json": '{"Version": "14.4"}',
        "lib/libclang_rt.a": "",
        "bin/clang++": COMPILER,
        "bin/clang": COMPILER,
        "bin/llvm-ar": "#!/bin/sh\n",
        "bin/llvm-ranlib": "#!/bin/sh\n",
        "path/xcrun": """\
            #!/bin/sh
            case "$*" in
              *--show-sdk-path) echo @SDK ;;
              *--show-sdk-version) echo 14.4 ;;
              *--show-sdk-build-version) echo ${BUILD:-23E208} ;;
              "--find c++") echo @FOLDER/bin/clang++ ;;
              "--find cc") echo @FOLDER/bin/clang ;;
              *) exit 1 ;;
            esac
            """,
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = dedent(content).replace("@SDK", f"{tmp_path}/sdk").replace("@FOLDER", str(tmp_path))
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/path:/usr/bin:/bin")
    sandbox = tmp_path / "sandbox"
    sandbox.mkdir()
    monkeypatch.chdir(sandbox)
    return tmp_path


def observe_mac(folder: Path, **options: Any) -> dict[str, Any]:
    compilers = [f"{folder}/bin/clang"], [f"{folder}/bin/clang++"]
    return observe(*compilers, [], hasher=Hasher(), system="Darwin", **options)


def test_macos(mac: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = observe_mac(mac)
    assert record["sdk"] == {"path": f"{mac}/sdk", "version": "14.4", "build": "23E208"}
    assert record["c++"]["path"] == f"{mac}/bin/clang++"
    assert record["c++"]["target"] == "arm64-apple-darwin23.6.0"
    # An SDK is what its build says: it is too large to be read in each run.
    assert record["folders"][f"{mac}/sdk/usr/include"] == "SDK 23E208"
    assert record["folders"][f"{mac}/sdk/System/Library/Frameworks"] == "SDK 23E208"
    assert len(record["folders"][f"{mac}/headers"]) == 64
    assert f"{mac}/sdk/SDKSettings.json" in record["files"]
    assert not record["link_depfile"]

    (mac / "sdk/usr/include/stdio.h").write_text("2")
    assert observe_mac(mac) == record
    monkeypatch.setenv("BUILD", "23E214")
    assert observe_mac(mac) != record


def test_macos_selects_the_compiler_by_xcrun(mac: Path) -> None:
    """What is in /usr/bin there is no compiler itself."""
    if not (Path("/usr/bin/cc").exists() and Path("/usr/bin/c++").exists()):
        pytest.skip("this host has no compiler in /usr/bin, where all Macs have one")
    record = observe(["cc"], ["c++"], ["/usr/bin"], hasher=Hasher(), system="Darwin")
    assert (record["c"]["path"], record["c++"]["path"]) == (
        f"{mac}/bin/clang",
        f"{mac}/bin/clang++",
    )


def test_a_compiler_in_the_sandbox(mac: Path) -> None:
    """It is in every key already; what is digested is what it takes from this host. A tree is a link
    to where Pants keeps it."""
    (mac / "kept").mkdir()
    (mac / "bin").rename(mac / "kept/bin")
    tree = mac / "sandbox/llvm"
    tree.symlink_to(mac / "kept")
    record = observe(
        [f"{tree}/bin/clang"], [f"{tree}/bin/clang++"], [], hasher=Hasher(), trees=["llvm"]
    )
    assert record["c++"]["path"] == f"{ROOT_TOKEN}/llvm/bin/clang++"
    assert record["ar"] == f"{ROOT_TOKEN}/llvm/bin/llvm-ar"
    assert f"{mac}/headers" in record["folders"]
    text = json.dumps(record)
    assert str(mac / "kept") not in text and str(mac / "sandbox") not in text


def test_other_files(mac: Path) -> None:
    extra = mac / "extra"
    extra.mkdir()
    (extra / "x.h").write_text("1")
    record = observe_mac(mac, files=[str(extra), str(extra / "x.h")])
    assert str(extra) in record["folders"] and str(extra / "x.h") in record["files"]
    (extra / "x.h").write_text("2")
    changed = observe_mac(mac, files=[str(extra), str(extra / "x.h")])
    assert changed["folders"][str(extra)] != record["folders"][str(extra)]
    assert changed["files"] != record["files"]
    for path in ("extra/x.h", f"{mac}/gone"):
        with pytest.raises(ProbeError) as caught:
            observe_mac(mac, files=[path])
        assert caught.value.record == {"error": "file", "path": path}


def test_the_program_reports_what_is_wrong(mac: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--cc=no-such-cc", "--cxx=x", f"--search-path={mac}/bin", "--linker=", "--memory="]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == {
        "error": "missing",
        "language": "c",
        "names": ["no-such-cc"],
        "search_path": [f"{mac}/bin"],
        "launchers": [],
    }


def test_what_is_wrong_is_told_without_the_sandbox(
    mac: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = mac / "sandbox/llvm"
    tree.mkdir()
    (tree / "clang").write_text("#!/bin/sh\necho $0 is broken\nexit 1\n")
    (tree / "clang").chmod(0o755)
    path = f"{tree}/clang"
    assert main([f"--cc={path}", f"--cxx={path}", "--tree=llvm"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "error": "broken",
        "command": [f"{ROOT_TOKEN}/llvm/clang", "--version"],
        "output": f"{ROOT_TOKEN}/llvm/clang is broken",
    }
