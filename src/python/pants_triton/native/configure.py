"""The program that configures a project: CMake, and what makes its output the same everywhere.

    configure --project=DIR --cmake=DIR --toolchain-file=FILE --tree=DIR… --record=FILE -- -DNAME=VALUE…

It runs in the root of a sandbox. What CMake writes into the build folder has the sandbox's path all
over: a token is put in its place, and what is of no use later is removed. `FILE` gets a record of
how it went, as JSON. Runs with whatever Python 3.8 or newer the host has.
"""

from __future__ import annotations

import argparse
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Sequence, Tuple

from pants_triton.native.layout import BUILD, ROOT_TOKEN

#: The modules of this program, itself included.
PROGRAM_MODULES = ("configure", "layout")

# Caches, logs and checks of the compiler: of no use once it is configured, and different each time.
_REMOVED = (
    *(".cmake", ".ninja_deps", ".ninja_log", "CMakeCache.txt", "Testing"),
    *("CMakeFiles/CMakeConfigureLog.yaml", "CMakeFiles/CMakeScratch", "CMakeFiles/pkgRedirects"),
    *("CMakeFiles/CMakeOutput.log", "CMakeFiles/CMakeError.log", "CMakeFiles/CMakeTmp"),
    *("CMakeFiles/TargetDirectories.txt", "CMakeFiles/cmake.check_cache"),
)

_TRACE = "_trace.json"

# Those of the command `file` that don't look into the files which they name.
_NOT_READING = frozenset(
    (
        *("APPEND", "CHMOD", "CHMOD_RECURSE", "CONFIGURE", "DOWNLOAD", "GLOB", "GLOB_RECURSE"),
        *("LOCK", "MAKE_DIRECTORY", "REAL_PATH", "RELATIVE_PATH", "REMOVE", "REMOVE_RECURSE"),
        *("TIMESTAMP", "TOUCH", "TOUCH_NOCREATE", "TO_CMAKE_PATH", "TO_NATIVE_PATH", "WRITE"),
    )
)
_COMMANDS = ("execute_process", "file", "try_compile", "try_run")


def main(argv: Sequence[str]) -> int:
    """Run the program; returns CMake's exit code."""
    parser = argparse.ArgumentParser(prog="configure")
    parser.add_argument("--project", required=True, help="the project's folder")
    parser.add_argument("--cmake", required=True, help="the folder with bin/cmake and bin/ninja")
    parser.add_argument("--toolchain-file", required=True)
    parser.add_argument("--tree", action="append", default=[], help="an artifact's folder")
    parser.add_argument("--record", required=True, help="the file to write")
    parser.add_argument("definitions", nargs="*")
    args = parser.parse_args(list(argv))
    root = os.getcwd()

    toolchain = Path(args.toolchain_file)
    toolchain.write_text(toolchain.read_text().replace(ROOT_TOKEN, root))
    offline = _offline()
    command = [
        *offline,
        f"{root}/{args.cmake}/bin/cmake",
        *("--trace-expand", "--trace-format=json-v1", f"--trace-redirect={root}/{_TRACE}"),
        "-GNinja",
        f"-S{root}/{args.project}" if args.project else f"-S{root}",
        f"-B{root}/{BUILD}",
        f"-DCMAKE_MAKE_PROGRAM={root}/{args.cmake}/bin/ninja",
        f"-DCMAKE_TOOLCHAIN_FILE={root}/{args.toolchain_file}",
        *args.definitions,
    ]
    result = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    # A tree is a link to where Pants keeps it; CMake may have looked that up.
    real = [(os.path.realpath(tree), tree) for tree in args.tree]
    output = result.stdout
    for path, tree in real:
        output = output.replace(f"{path}/", f"{tree}/")
    for line in output.replace(f"{root}/", "").splitlines(keepends=True):
        # What CMake says about tracing is none of the project's.
        if not re.match(
            "Running with expanded trace|Trace will be written|Put cmake in trace", line
        ):
            sys.stderr.write(line)
    trace = Path(root, _TRACE)
    lines = trace.read_text("utf-8", "replace").splitlines() if trace.exists() else []
    reads, downloads = read_trace(lines, root)
    for place, url in downloads.items():
        sys.stderr.write(
            f"{place} downloads {url}. A project is configured without a network: declare what it "
            "wants as an artifact, and tell CMake where that is by the project's `cache`.\n"
        )
    if result.returncode != 0 or downloads:
        return result.returncode or 1
    build = Path(root, BUILD)
    for name in (*_REMOVED, *(p.name for p in build.glob("CMakeFiles/[0-9]*.[0-9]*"))):
        for path in (build / name, build / "CMakeFiles" / name):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()
    tokens = [(path, f"{ROOT_TOKEN}/{tree}") for path, tree in real]
    replaced, left = replace_paths(
        build, [*tokens, (os.path.realpath(root), ROOT_TOKEN), (root, ROOT_TOKEN)]
    )
    manifest = build / "build.ninja"
    manifest.write_text(_without_doubles(manifest.read_text()))
    record = {"with_token": replaced, "with_path": left, "network": not offline, "reads": reads}
    Path(args.record).write_text(json.dumps(record))
    return 0


def read_trace(lines: Iterable[str], root: str) -> Tuple[List[str], Dict[str, str]]:
    """What configuring looked into, of which CMake keeps no record, by its trace (`json-v1`).

    Returns the files, and the folders that it copied whole, below `root` and not in the build
    folder, sorted; and the URLs of downloads by the place that does it.
    """
    reads = set()
    downloads = {}
    for line in lines:
        if not any(f'"cmd":"{command}"' in line for command in _COMMANDS):
            continue
        try:
            call = json.loads(line)
            command, arguments, file = call["cmd"], call["args"], call["file"]
        except (ValueError, KeyError):
            # CMake was killed, or the argument is no UTF-8.
            continue
        verb = arguments[0].upper() if command == "file" and arguments else ""
        if verb == "DOWNLOAD" and len(arguments) > 1 and not arguments[1].startswith("file:"):
            place = f"{file.replace(root + '/', '')}:{call['line']}"
            downloads[place] = arguments[1]
        if verb in _NOT_READING:
            continue
        for argument in arguments:
            # Relative ones are so to the folder of a CMakeLists.txt.
            path = posixpath.normpath(posixpath.join(posixpath.dirname(file), argument))
            if not path.startswith(f"{root}/") or f"{path}/".startswith(f"{root}/{BUILD}/"):
                continue
            if os.path.isfile(path) or (verb in ("COPY", "INSTALL") and os.path.isdir(path)):
                reads.add(path[len(root) + 1 :])
    return sorted(reads), downloads


def replace_paths(folder: Path, pairs: Sequence[Tuple[str, str]]) -> Tuple[List[str], List[str]]:
    """Put the second of each pair in the place of the first in all files below `folder`.

    Returns the files that have a replacement, and those where none can be made because they aren't
    text; relative to `folder`, sorted.
    """
    replaced, left = [], []
    for path in _files(folder):
        content = path.read_bytes()
        new = content
        for old, token in pairs:
            new = new.replace(os.fsencode(old), os.fsencode(token))
        if new != content:
            name = path.relative_to(folder).as_posix()
            if b"\0" in content:
                left.append(name)
            else:
                path.write_bytes(new)
                replaced.append(name)
    return sorted(replaced), sorted(left)


def _without_doubles(manifest: str) -> str:
    # CMake names all files that it read, so that ninja doesn't mind if one goes missing. One that it
    # knew by two paths now has one.
    def deduplicated(match: "re.Match[str]") -> str:
        paths = re.split(r"(?<!\$) ", match.group(1))
        return f"build {' '.join(dict.fromkeys(paths))}: phony"

    return re.sub(r"^build (.*): phony *$", deduplicated, manifest, flags=re.MULTILINE)


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path


def _offline() -> List[str]:
    """What to put before a command so that it has no network; nothing where this host can't."""
    command = ["unshare", "--map-root-user", "--net"]
    try:
        works = subprocess.run([*command, "true"], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        works = False
    return command if works else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
