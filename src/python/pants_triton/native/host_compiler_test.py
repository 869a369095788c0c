from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pants_triton.native.compile_command import parse_compile
from pants_triton.native.edges import HostReads, Step, relocatable_rpaths, shell_script
from pants_triton.native.host_compiler import (
    FINGERPRINT_VARIABLE,
    HostCompiler,
    HostCompilerError,
    host_toolchain_file,
    read_record,
    traced_link,
)
from pants_triton.native.layout import BUILD, CHROOT, ROOT_TOKEN, Settings

RECORD: dict[str, Any] = {
    "version": 1,
    "c": {
        "path": "/usr/bin/cc",
        "version": "cc (Debian 12.2.0-14) 12.2.0\nCopyright",
        "is_clang": False,
        "target": "x86_64-linux-gnu",
        "folders": ["/usr/include"],
        "specs": "5",
    },
    "c++": {
        "path": "/usr/bin/c++",
        "version": "c++ (Debian 12.2.0-14) 12.2.0\nCopyright",
        "is_clang": False,
        "target": "x86_64-linux-gnu",
        "folders": ["/usr/include/c++/12", "/usr/include"],
        "specs": "5",
    },
    "ar": "/usr/bin/ar",
    "ranlib": "/usr/bin/ranlib",
    "linker": "",
    "sdk": None,
    "link_depfile": True,
    "folders": {"/usr/include": "1", "/usr/include/c++/12": "2", "/opt/x/include": "3"},
    "files": {
        "/lib/libc.so.6": "4",
        "/usr/lib/libc.so.6": "4",
        "/opt/x.so": "5",
        "/opt/x.so.1": "5",
    },
}


def compiler_of(*host_files: str, **changes: Any) -> HostCompiler:
    return read_record(json.dumps({**RECORD, **changes}), host_files)


def test_a_record() -> None:
    compiler = compiler_of()
    assert compiler == HostCompiler(
        fingerprint=compiler.fingerprint,
        cc="/usr/bin/cc",
        cxx="/usr/bin/c++",
        ar="/usr/bin/ar",
        ranlib="/usr/bin/ranlib",
        version="c++ (Debian 12.2.0-14) 12.2.0",
        target="x86_64-linux-gnu",
        folders=("/usr/include", "/usr/include/c++/12", "/opt/x/include"),
        files=("/lib/libc.so.6", "/usr/lib/libc.so.6", "/opt/x.so", "/opt/x.so.1"),
        link_depfile=True,
    )
    assert compiler.env == {FINGERPRINT_VARIABLE: compiler.fingerprint}
    assert len(compiler.fingerprint) == 64


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"version": 2}, id="of another kind"),
        pytest.param({"c++": {**RECORD["c++"], "version": "13"}}, id="version"),
        pytest.param({"c": {**RECORD["c"], "target": "aarch64-linux-gnu"}}, id="target"),
        pytest.param({"c": {**RECORD["c"], "specs": "6"}}, id="specs"),
        pytest.param({"folders": {"/usr/include": "7"}}, id="headers"),
        pytest.param({"files": {"/lib/libc.so.6": "7"}}, id="a library"),
        pytest.param({"ar": "/opt/bin/ar"}, id="a tool"),
        pytest.param({"linker": "/usr/bin/ld.lld"}, id="linker"),
    ],
)
def test_all_that_is_known_is_in_the_fingerprint(changes: dict[str, Any]) -> None:
    assert compiler_of(**changes).fingerprint != compiler_of().fingerprint
    assert compiler_of().fingerprint == compiler_of().fingerprint


# --- what is read of the host -------------------------------------------------------------------


def check(
    root: Path, depfile: str, host: HostReads, is_link: bool = False
) -> subprocess.CompletedProcess[str]:
    """A compile or link that has written this depfile."""
    (root / BUILD).mkdir(exist_ok=True)
    (root / BUILD / "it.d").write_text(depfile.replace("@ROOT", str(root)))
    if is_link:
        step = Step("It", "true", (), link_depfile="it.d")
    else:
        compile = parse_compile("c++ -o a.o -c a.cpp")
        assert compile is not None
        step = Step("It", "true", (), compile=compile, depfile="it.d")
    argv = [word.replace(CHROOT, str(root)) for word in shell_script(step, (), host)]
    return subprocess.run(argv, cwd=root, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    "path, refused",
    [
        pytest.param("/usr/include/stdio.h", "", id="in a folder"),
        pytest.param("/usr/include/sys/../stdio.h", "", id="there by a detour"),
        pytest.param("/usr/lib/gcc/12/../../../include/c++/12/map", "", id="as Clang says it"),
        pytest.param("/usr/includes/x.h", "/usr/includes/x.h", id="a folder that begins like it"),
        pytest.param("/usr/include/../x.h", "/usr/x.h", id="out of the folder"),
        pytest.param("/opt/x.h", "", id="a file"),
        pytest.param("/opt/xAh", "/opt/xAh", id="a file that is no pattern"),
        pytest.param("/opt/x.hpp", "/opt/x.hpp", id="a file that begins like it"),
        pytest.param("/mnt/opt/x.h", "/mnt/opt/x.h", id="a file that ends like it"),
        pytest.param("/mnt/usr/include/x.h", "/mnt/usr/include/x.h", id="a folder elsewhere"),
    ],
)
def test_what_a_compile_may_read(tmp_path: Path, path: str, refused: str) -> None:
    host = HostReads(("/usr/include", "/usr/include/c++/12"), ("/opt/x.h",), "Ask 'me'.")
    result = check(tmp_path, f"a.o: @ROOT/demo/a.cpp \\\n {path} \\\n /usr/include/a.h\n", host)
    assert (result.returncode, result.stderr) == (
        (
            1,
            f"It reads files of this host, which no target declares:\n  {refused}\nAsk 'me'.\n",
        )
        if refused
        else (0, "")
    )


def test_what_a_link_may_read(tmp_path: Path) -> None:
    library, other, gone = (
        tmp_path / "host/libc.so.6",
        tmp_path / "host/libz.so",
        "/gone/x.ltrans.o",
    )
    library.parent.mkdir()
    for path in (library, other):
        path.write_text("")
    root = tmp_path / "sandbox"
    root.mkdir()
    host = HostReads((), (str(library),))
    text = f"bin/tool: \\\n {library} \\\n @ROOT/{BUILD}/a.o b.o \\\n {gone}\n\n{library}:\n"
    # What is gone is the linker's own, of link-time optimization.
    assert check(root, text, host, is_link=True).returncode == 0
    result = check(root, f"{text} {other}\n", host, is_link=True)
    assert result.returncode == 1 and f"declares:\n  {other}\n" in result.stderr


def test_files_that_an_option_names() -> None:
    compiler = compiler_of("/opt/x/include/", "/opt/./x.so")
    # By all their names.
    assert compiler.extra == ("/opt/x/include", "/opt/x.so", "/opt/x.so.1")
    assert compiler.compile_reads.files == compiler.extra
    assert compiler.compile_reads.folders == compiler.folders
    assert compiler.link_reads.files == compiler.files
    # A library among them may be linked; one in the folders of headers may not.
    assert compiler.link_reads.folders == ("/opt/x/include",)


# --- links --------------------------------------------------------------------------------------

LINK = "/usr/bin/c++ -O3 -Wl,-z,defs a.o -o bin/tool  lib/libx.so"
TRACED = f"{LINK} -Wl,--dependency-file=_link.d"


@pytest.mark.parametrize(
    "rule, command, expected",
    [
        ("CXX_EXECUTABLE_LINKER__tool_", f": && {LINK} && :", f": && {TRACED} && :"),
        (
            "CXX_SHARED_LIBRARY_LINKER__x_",
            f"cd /x && /usr/bin/c++ --version > v && {LINK} && cp -o bin/tool x",
            f"cd /x && /usr/bin/c++ --version > v && {TRACED} && cp -o bin/tool x",
        ),
        ("C_EXECUTABLE_LINKER__tool_", ": && /usr/bin/cc a.o -o a && :", None),
        ("CXX_STATIC_LIBRARY_LINKER__x_", ": && /usr/bin/ar qc libx.a a.o && :", ""),
        ("CUSTOM_COMMAND", f"cd /x && {LINK}", ""),
        ("CXX_EXECUTABLE_LINKER__tool_", ": && /opt/other/c++ a.o -o bin/tool && :", ""),
    ],
)
def test_a_link_tells_what_it_reads(rule: str, command: str, expected: str | None) -> None:
    step = traced_link(Step("Link", command, ()), rule, compiler_of())
    if expected is None:
        expected = ": && /usr/bin/cc a.o -o a -Wl,--dependency-file=_link.d && :"
    assert step.command == (expected or command)
    assert bool(step.link_depfile) == bool(expected)
    silent = compiler_of(link_depfile=False)
    assert traced_link(Step("Link", command, ()), rule, silent).command == command


# --- for CMake ----------------------------------------------------------------------------------


def test_the_toolchain_file() -> None:
    assert (
        host_toolchain_file(
            compiler_of(),
            "/sandbox",
            ["3rdparty/cmake", "3rdparty/llvm"],
            Settings("-ffile-prefix-map=/sandbox=.", "mold", use_host=True),
        )
        == """\
set(CMAKE_C_COMPILER "/usr/bin/cc")
set(CMAKE_CXX_COMPILER "/usr/bin/c++")
set(CMAKE_ASM_COMPILER "/usr/bin/cc")
set(CMAKE_AR "/usr/bin/ar" CACHE FILEPATH "")
set(CMAKE_RANLIB "/usr/bin/ranlib" CACHE FILEPATH "")
set(CMAKE_C_FLAGS_INIT "-ffile-prefix-map=/sandbox=.")
set(CMAKE_CXX_FLAGS_INIT "-ffile-prefix-map=/sandbox=.")
set(CMAKE_ASM_FLAGS_INIT "-ffile-prefix-map=/sandbox=.")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-fuse-ld=mold")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-fuse-ld=mold")
set(CMAKE_MODULE_LINKER_FLAGS_INIT "-fuse-ld=mold")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON CACHE BOOL "")
set(FETCHCONTENT_FULLY_DISCONNECTED ON CACHE BOOL "")
set(CMAKE_FIND_ROOT_PATH "/sandbox/3rdparty/cmake;/sandbox/3rdparty/llvm")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
"""
    )


def test_the_compiler_chooses_its_linker() -> None:
    assert "fuse-ld" not in host_toolchain_file(
        compiler_of(), "/sandbox", [], Settings("-g", linker="")
    )


# --- macOS --------------------------------------------------------------------------------------

SDK = "/Applications/Xcode.app/Contents/Developer/SDKs/MacOSX15.2.sdk"
# As CMake 3.31 writes them for Darwin, with other folders.
MAC_FLAGS = f"-ffile-prefix-map={ROOT_TOKEN}=. -O3 -DNDEBUG -arch arm64 -isysroot {SDK}"
MAC_PROGRAM = (
    f": && /x/clang++ {MAC_FLAGS} -Wl,-search_paths_first -Wl,-headerpad_max_install_names  "
    f"CMakeFiles/tool.dir/bin/main.cpp.o -o bin/tool  -Wl,-rpath,{ROOT_TOKEN}/_build/lib  libcore.a  "
    "lib/libshared.1.2.dylib  -framework CoreFoundation  -framework Foundation && :"
)
MAC_LIBRARY = (
    f": && /x/clang++ {MAC_FLAGS} -dynamiclib -Wl,-headerpad_max_install_names "
    "-compatibility_version 1.0.0 -current_version 1.2.0 -o lib/libshared.1.2.dylib -install_name "
    "@rpath/libshared.1.dylib CMakeFiles/shared.dir/lib/shared.cpp.o   && :"
)
MAC_PLUGIN = (
    f": && /x/clang++ {MAC_FLAGS} -bundle -Wl,-headerpad_max_install_names -undefined "
    "dynamic_lookup -o lib/libplugin.so CMakeFiles/plugin.dir/lib/plugin.cpp.o  "
    f"-Wl,-rpath,{ROOT_TOKEN}/_build/lib  lib/libshared.1.2.dylib && :"
)


def mac_compiler() -> HostCompiler:
    sdk = {"path": SDK, "version": "15.2", "build": "24C94"}
    return compiler_of(sdk=sdk, link_depfile=False)


def test_run_time_search_paths_of_macos() -> None:
    origin = mac_compiler().origin
    program = relocatable_rpaths(MAC_PROGRAM, "_build/bin", origin)
    assert " -Wl,-rpath,@loader_path/../lib " in program
    assert program.endswith(" -framework CoreFoundation  -framework Foundation && :")
    assert ROOT_TOKEN not in program.replace(f"-ffile-prefix-map={ROOT_TOKEN}", "")
    plugin = relocatable_rpaths(MAC_PLUGIN, "_build/lib", origin)
    assert " -Wl,-rpath,@loader_path " in plugin
    # The name by which others find it is relative to those paths already.
    assert relocatable_rpaths(MAC_LIBRARY, "_build/lib", origin) == MAC_LIBRARY


@pytest.mark.parametrize("command", [MAC_PROGRAM, MAC_LIBRARY, MAC_PLUGIN])
def test_a_link_of_macos_is_no_compile(command: str) -> None:
    assert parse_compile(command) is None
    step = Step("Link", command, ())
    assert traced_link(step, "CXX_EXECUTABLE_LINKER__tool_", mac_compiler()) == step


def test_a_compile_of_macos() -> None:
    compile = parse_compile(
        f"/x/clang++ -Dshared_EXPORTS -F/x/Frameworks {MAC_FLAGS} -fPIC -MD -MT shared.cpp.o -MF "
        f"shared.cpp.o.d -o shared.cpp.o -c {ROOT_TOKEN}/demo/lib/shared.cpp"
    )
    assert compile is not None
    assert (compile.source, compile.sysroot) == (f"{ROOT_TOKEN}/demo/lib/shared.cpp", SDK)
    assert compile.framework_dirs == ("/x/Frameworks",)


def test_the_toolchain_file_of_macos() -> None:
    text = host_toolchain_file(mac_compiler(), ROOT_TOKEN, [], Settings("-g"))
    assert f'set(CMAKE_OSX_SYSROOT "{SDK}" CACHE PATH "")' in text
    assert 'set(CMAKE_MACOSX_RPATH ON CACHE BOOL "")' in text


# --- errors -------------------------------------------------------------------------------------


def test_a_tool_that_is_missing() -> None:
    record = {
        "error": "missing",
        "language": "ar",
        "names": ["ar"],
        "search_path": [],
        "launchers": [],
    }
    with pytest.raises(HostCompilerError) as caught:
        read_record(json.dumps(record))
    assert str(caught.value) == (
        "This host has no program `ar`: `ar` is not in `[native].host_search_path`, which is empty. Install it, name its folder in "
        '`[native].host_search_path`, or use the compiler of an artifact: `[native].compiler = "toolchain"`.'
    )


@pytest.mark.parametrize(
    "record, said",
    [
        pytest.param(
            {
                "error": "broken",
                "command": [f"{ROOT_TOKEN}/llvm/bin/clang++", "main.cpp"],
                "output": "'string' file not found",
            },
            "The compiler of `[native].toolchain` doesn't work with this host's headers and libraries, "
            "which `[native].sysroot` asks for: `llvm/bin/clang++ main.cpp` failed:\n"
            "'string' file not found\n",
            id="no headers",
        ),
        pytest.param(
            {"error": "linker", "linker": "lld", "output": "cannot open Scrt1.o"},
            "The compiler of `[native].toolchain` with lld doesn't work with this host's headers and "
            "libraries, which `[native].sysroot` asks for:\ncannot open Scrt1.o\n",
            id="no libraries",
        ),
    ],
)
def test_a_host_without_libraries_for_the_toolchain(record: dict[str, Any], said: str) -> None:
    with pytest.raises(HostCompilerError) as caught:
        read_record(json.dumps(record), is_toolchain=True)
    assert str(caught.value) == (
        f"{said}Install those of C and C++ on this host (such as Debian's `libstdc++-dev` packages), or "
        "use a toolchain that has them."
    )
