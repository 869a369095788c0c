"""For tests: a small project, and a toolchain and CMake of a few bytes, whose programs are this
host's, to build it by the real engine.

They stand for LLVM's 280 MB where it doesn't matter what compiles. What they compile can't include
a system header: those of the host are in no artifact, so that the rules refuse them.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any, Iterable, Mapping

from pants.base.build_root import BuildRoot
from pants.core.subsystems import python_bootstrap
from pants.core.util_rules import system_binaries
from pants.engine.addresses import Address
from pants.engine.fs import Digest, DigestContents, DigestEntries
from pants.engine.internals.parametrize import Parametrize
from pants.testutil.rule_runner import QueryRule, RuleRunner

from pants_triton.artifact import rules as artifact_rules
from pants_triton.artifact.declaration import ArchiveDeclaration, slots
from pants_triton.artifact.lock import Row, UrlEntry, make_lock, write_lock
from pants_triton.artifact.target_types import ARTIFACT_TARGET_TYPES
from pants_triton.native import rules as native_rules
from pants_triton.native.layout import BUILD
from pants_triton.native.rules import BuiltFiles, BuiltFilesRequest, BuiltOutput, BuiltOutputRequest
from pants_triton.native.target_types import NATIVE_TARGET_TYPES
from pants_triton.program import rules as program_rules

_LOCK = "3rdparty/artifacts.lock.json"

# Processes have this PATH, and so these tools.
_PATH = "/usr/bin:/bin"

# Hosted compilers of GNU begin with a header of the C library. There may be no lld. Where LINK_LOG
# names a file, links take a while and are logged: + for a start, - for an end.
_COMPILER = """\
#!/bin/sh
compiles=
for argument; do
  shift
  [ "$argument" = -c ] && compiles=1
  [ "$argument" = -fuse-ld=lld ] || set -- "$@" "$argument"
done
if [ -n "$compiles" ] || [ -z "$LINK_LOG" ]; then
  exec {compiler} -ffreestanding "$@"
fi
echo + >> "$LINK_LOG"
{compiler} -ffreestanding "$@"
code=$?
sleep 0.3
echo - >> "$LINK_LOG"
exit $code
"""

_SCRIPTS = {
    "toolchain": {
        "bin/clang": _COMPILER.format(compiler="gcc"),
        "bin/clang++": _COMPILER.format(compiler="g++"),
        "bin/llvm-ar": '#!/bin/sh\nexec ar "$@"\n',
        "bin/llvm-ranlib": '#!/bin/sh\nexec ranlib "$@"\n',
    },
    "cmake": {
        "bin/cmake": '#!/bin/sh\nexec cmake "$@"\n',
        "bin/ninja": '#!/bin/sh\nexec ninja "$@"\n',
    },
}

#: What `[native]` must say.
OPTIONS = ("--native-toolchain=3rdparty:toolchain", "--native-cmake=3rdparty:cmake")


def missing_tools() -> str:
    """Which tools this host lacks, "" for none."""
    needed = ("ar", "cmake", "g++", "gcc", "ninja", "ranlib")
    return ", ".join(name for name in needed if shutil.which(name, path=_PATH) is None)


def fake_tools(folder: Path) -> dict[str, str]:
    """Make the archives in `folder`; returns the files of a workspace that declare and lock them."""
    rows, targets = [], []
    for name, scripts in _SCRIPTS.items():
        archive = folder / f"{name}.tar"
        _write_archive(archive, scripts)
        url = archive.as_uri()
        targets.append(f'archive_artifact(name="{name}", url="{url}")\n')
        sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
        for slot in slots(ArchiveDeclaration(f"3rdparty:{name}", (("any", url),))):
            entry = UrlEntry(url, sha256, None, slot.pin_sha256)
            rows.append(Row(slot.address, slot.platform, entry))
    return {"3rdparty/BUILD": "".join(targets), _LOCK: write_lock(make_lock(_LOCK, rows))}


def _write_archive(path: Path, files: Mapping[str, str]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            tar.addfile(member, io.BytesIO(content.encode()))


# --- a project ---------------------------------------------------------------------------------

CMAKE_LISTS = """\
cmake_minimum_required(VERSION 3.20)
project(demo CXX)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
include_directories(include ${CMAKE_CURRENT_BINARY_DIR}/include)

add_custom_command(
  OUTPUT include/demo/version.h
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/version.sh ${CMAKE_CURRENT_SOURCE_DIR}/version.txt > include/demo/version.h
  DEPENDS version.sh version.txt)
add_custom_target(version DEPENDS include/demo/version.h)

add_library(core STATIC lib/core.cpp lib/other.cpp)
add_library(shared SHARED lib/shared.cpp)
set_target_properties(shared PROPERTIES VERSION 1.2 SOVERSION 1)
add_dependencies(shared version)
add_executable(tool bin/main.cpp)
target_link_libraries(tool PRIVATE core shared)
"""

PROJECT = {
    "BUILD": """\
        cmake_project(name="project")
        cmake_output(name="tool", project=":project", outputs=["bin/tool"])
        """,
    "CMakeLists.txt": CMAKE_LISTS,
    "version.sh": "echo '#define VERSION' $(cat $1)\n",
    "version.txt": "1\n",
    "include/demo/core.h": "int core();\n",
    "include/demo/shared.h": "int shared();\n",
    "lib/core.cpp": '#include "demo/core.h"\nint core() { return 1; }\n',
    "lib/other.cpp": "int other() { return 2; }\n",
    "lib/shared.cpp": (
        '#include "demo/shared.h"\n#include "demo/version.h"\nint shared() { return VERSION; }\n'
    ),
    "bin/main.cpp": (
        '#include "demo/core.h"\n#include "demo/shared.h"\n'
        "int main() { return core() + shared(); }\n"
    ),
}


@dataclass
class Project:
    """A project of one test, in a folder of its own.

    :param name: the folder, "" for the root.
    """

    runner: Runner
    name: str

    def write(self, files: Mapping[str, str]) -> None:
        self.runner.write_files(
            {self._path(path): dedent(content) for path, content in files.items()}
        )

    def _path(self, path: str) -> str:
        return f"{self.name}/{path}".lstrip("/")

    def file(self, path: str) -> Path:
        return Path(self.runner.build_root, self._path(path))

    def edit(self, path: str, old: str, new: str) -> None:
        content = self.file(path).read_text()
        assert old in content
        self.write({path: content.replace(old, new, 1)})

    def remove(self, path: str) -> None:
        os.unlink(self.file(path))
        self.runner.scheduler.scheduler.invalidate_files({self._path(path)})

    def address(self, name: str) -> Address:
        return Address(self.name, target_name=name)

    def build(self, name: str = "tool") -> BuiltOutput:
        return self.runner.request(BuiltOutput, [BuiltOutputRequest(self.address(name))])

    def files(self, *paths: str) -> BuiltFiles:
        request = BuiltFilesRequest(
            self.address("project"), tuple(f"{BUILD}/{path}" for path in paths)
        )
        return self.runner.request(BuiltFiles, [request])

    def ran(self, name: str = "tool") -> list[str]:
        """Build it; returns what was run for that and not remembered, sorted."""
        # That of others was counted, or is of no interest.
        before = set(self.runner.sandboxes.iterdir())
        self.runner.begin()
        self.build(name)
        return sorted(
            what_ran((folder / "__run.sh").read_text())
            for folder in set(self.runner.sandboxes.iterdir()) - before
            if (folder / "__run.sh").exists()
        )


CONFIGURE = "configure"


def what_ran(script: str) -> str:
    """What the process of a kept sandbox was for: the name of its output."""
    if ".pants_triton_configure" in script:
        return CONFIGURE
    for pattern in (
        r" -o (\S+)",
        r" qc (\S+)",
        r"cmake_symlink_library \S+ +\S+ (\S+)",
        r" > (\S+\.h)",
    ):
        found = re.search(pattern, script)
        if found:
            return found.group(1).rpartition("/")[2]
    return script


class Runner(RuleRunner):
    """One that knows where its caches and sandboxes are."""

    def __init__(self, folder: Path, rules: Iterable[Any] = (), target_types: Any = ()) -> None:
        """:param folder: for caches, sandboxes and the tools' archives."""
        self.sandboxes = folder / "sandboxes"
        self.sandboxes.mkdir()
        self.caches = [f"--named-caches-dir={folder}/caches"]
        super().__init__(
            rules=[
                *artifact_rules.rules(),
                *native_rules.rules(),
                *program_rules.rules(),
                *python_bootstrap.rules(),
                *system_binaries.rules(),
                *rules,
                QueryRule(BuiltFiles, (BuiltFilesRequest,)),
                QueryRule(BuiltOutput, (BuiltOutputRequest,)),
                QueryRule(DigestContents, (Digest,)),
                QueryRule(DigestEntries, (Digest,)),
            ],
            target_types=[*ARTIFACT_TARGET_TYPES, *NATIVE_TARGET_TYPES, *target_types],
            bootstrap_args=[
                *self.caches,
                f"--local-execution-root-dir={self.sandboxes}",
                "--keep-sandboxes=always",
                # More than a small machine has, so that what must not run at once could.
                "--process-execution-local-parallelism=4",
            ],
            objects={"parametrize": Parametrize},
            isolated_local_store=True,
        )
        self.write_files(fake_tools(folder))

    def begin(self, *options: str) -> None:
        """Begin a new session, as each run of Pants is one."""
        # Of the runner that was made last.
        BuildRoot().path = self.build_root
        self.set_options([*OPTIONS, *self.caches, *options], env_inherit={"PATH"})

    def project(self, name: str, files: Mapping[str, str] = {}) -> Project:
        """A new project: PROJECT with these files, or without those that are ""."""
        result = Project(self, name)
        result.write({k: v for k, v in {**PROJECT, **files}.items() if v})
        return result

    def contents(self, digest: Digest) -> dict[str, bytes]:
        return {file.path: file.content for file in self.request(DigestContents, [digest])}
