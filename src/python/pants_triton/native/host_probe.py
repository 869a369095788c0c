"""The program that looks at a compiler of this host, and at all that it takes from this host.

    host_probe --cc=NAME… --cxx=NAME… --search-path=FOLDERS [--linker=NAME] [--tree=FOLDER…]
               [--file=PATH…] [--memory=FOLDER]

It runs in the root of a sandbox, with the environment that compiles have, and prints a record as
JSON: what was found and the sha256 of it, or why not (see `observe`). Runs with whatever Python 3.8
or newer the host has.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from pants_triton.native.layout import ROOT_TOKEN

#: The modules of this program, itself included.
PROGRAM_MODULES = ("host_probe", "layout")

#: Of the record. Another one is another fingerprint.
VERSION = 1

# They stand in front of a compiler under its name, and have a cache and a network of their own.
_LAUNCHERS = frozenset(("buildcache", "ccache", "distcc", "icecc", "sccache"))

# What a driver runs.
_PROGRAMS = (
    *("cc1", "cc1plus", "collect2", "lto1", "lto-wrapper"),
    *("as", "ld", "objcopy", "strip"),
)

# What a driver or a linker adds to a link by itself, or by an option that it understands.
_STARTUP = (
    *("crt1.o", "Scrt1.o", "gcrt1.o", "rcrt1.o", "Mcrt1.o", "crti.o", "crtn.o"),
    *("crtbegin.o", "crtbeginS.o", "crtbeginT.o", "crtend.o", "crtendS.o", "crtfastmath.o"),
    *("libasan_preinit.o", "liblsan_preinit.o", "libtsan_preinit.o", "liblto_plugin.so"),
)
_RUNTIME = (
    *("c", "m", "mvec", "pthread", "dl", "rt", "util", "resolv", "crypt", "anl", "c_nonshared"),
    *("gcc", "gcc_s", "gcc_eh", "atomic", "gomp", "gcov", "quadmath", "ssp", "ssp_nonshared"),
    *("stdc++", "stdc++fs", "supc++", "c++", "c++abi", "c++fs", "unwind", "omp"),
    *("asan", "lsan", "tsan", "ubsan", "itm"),
)

# A linker script that stands for a library, such as glibc's `libc.so`, has some hundred bytes.
_MAX_SCRIPT = 1 << 16

_TIMEOUT_S = 60


class ProbeError(Exception):
    """There is no such compiler. `record` says why, see `observe`."""

    def __init__(self, **record: Any) -> None:
        super().__init__(record)
        self.record = record


def main(argv: Sequence[str]) -> int:
    """Run the program; returns 0 whenever it could print a record."""
    parser = argparse.ArgumentParser(prog="host_probe")
    parser.add_argument("--cc", action="append", required=True, help="a name or absolute path")
    parser.add_argument("--cxx", action="append", required=True)
    parser.add_argument("--search-path", default="", help="where names are looked for")
    parser.add_argument("--linker", default="", help="for -fuse-ld, if it isn't the default one")
    parser.add_argument("--tree", action="append", default=[], help="an artifact's folder")
    parser.add_argument("--file", action="append", default=[], help="what else may be read")
    parser.add_argument("--memory", default="", help="the folder that remembers digests")
    args = parser.parse_args(list(argv))
    memory = Path(args.memory, "digests.json") if args.memory else None
    hasher = Hasher(memory)
    try:
        record = observe(
            args.cc,
            args.cxx,
            [folder for folder in args.search_path.split(os.pathsep) if folder],
            linker=args.linker,
            trees=args.tree,
            files=args.file,
            hasher=hasher,
        )
    except ProbeError as e:
        record = json.loads(_Outside(args.tree).text(json.dumps(e.record)))
    hasher.save()
    print(json.dumps(record, sort_keys=True))
    return 0


def observe(
    cc: Sequence[str],
    cxx: Sequence[str],
    search_path: Sequence[str],
    *,
    hasher: Hasher,
    linker: str = "",
    trees: Sequence[str] = (),
    files: Sequence[str] = (),
    system: str = "",
) -> Dict[str, Any]:
    """The compilers that are found first, and what they would read and run.

    Of the sandbox and of `trees`, which are artifacts in it and in every key already, nothing is
    digested, and their paths begin with ROOT_TOKEN.

    The record has `c` and `c++` (each with `path`, `version`, `target`, `folders` in which headers
    are searched, `specs`), `ar`, `ranlib`, `linker`, `sdk` (of macOS, or null), `link_depfile`
    (whether the linker can say what it read), `folders` and `files`: the sha256 of everything by its
    path. A path that leads through links is there twice, as it is spelled and as it is.

    :raises ProbeError: whose record has `error`: `missing` (with `language`, `names`,
        `search_path`, `launchers`), `broken` (with `command`, `output`), `linker` (with `linker`,
        `output`) or `file` (with `path`).
    """
    system = system or platform.system()
    outside = _Outside(trees)
    probe = _Probe(outside, hasher)
    is_macos = system == "Darwin"
    sdk = _sdk() if is_macos else None
    flags = ["-isysroot", sdk["path"]] if sdk else []
    languages, compiler = {}, ""
    for language, names in (("c", cc), ("c++", cxx)):
        path = _find(language, names, search_path)
        if is_macos and os.path.dirname(path) == "/usr/bin":
            # What is there only asks `xcrun` each time which one is selected.
            path = _run(["xcrun", "--find", os.path.basename(path)]).strip()
        languages[language] = probe.compiler(language, path, flags, sdk["path"] if sdk else "")
        compiler = path
    tools = {
        name: probe.tool(compiler, name, languages["c++"]["is_clang"], search_path)
        for name in ("ar", "ranlib")
    }
    linker_path = probe.linker(compiler, linker) if linker else ""
    link_depfile = probe.link(
        compiler, [*flags, *([f"-fuse-ld={linker}"] if linker else [])], linker, not is_macos
    )
    for path in files:
        if not os.path.isabs(path) or not os.path.exists(path):
            raise ProbeError(error="file", path=path)
        if os.path.isdir(path):
            probe.add_folder(path)
        else:
            probe.add_file(path)
    probe.add_shared_libraries()
    if sdk:
        probe.add_file(os.path.join(sdk["path"], "SDKSettings.json"))
        for compiler_record in languages.values():
            for folder in compiler_record["folders"]:
                if _below(folder, sdk["path"]):
                    probe.folders.setdefault(folder, f"SDK {sdk['build']}")
    return {
        "version": VERSION,
        **languages,
        **{name: outside.shown(path) for name, path in tools.items()},
        "linker": outside.shown(linker_path),
        "sdk": sdk,
        "link_depfile": link_depfile,
        "folders": probe.folders,
        "files": probe.files,
    }


# --- what compilers say -------------------------------------------------------------------------


def search_folders(output: str) -> List[str]:
    """The folders in which headers are searched, by what `-v -E` writes; frameworks' too."""
    folders: Dict[str, None] = {}
    inside = False
    for line in output.splitlines():
        if line.startswith("#include ") and line.endswith("search starts here:"):
            inside = True
        elif line.startswith("End of search list"):
            inside = False
        elif inside and line.startswith(" "):
            folder = line.strip()
            for suffix in (" (framework directory)", " (headermap)"):
                if folder.endswith(suffix):
                    folder = folder[: -len(suffix)]
            folders[folder] = None
    return list(folders)


def invoked_programs(output: str) -> List[str]:
    """The programs that a driver runs, by what `-v` writes: the real ones behind a script."""
    programs: Dict[str, None] = {}
    for line in output.splitlines():
        if re.match(r' "?/', line):
            try:
                words = shlex.split(line)
            except ValueError:
                continue
            # Else it is a folder of a search path.
            if len(words) > 1 and words[1].startswith("-"):
                programs[words[0]] = None
    return list(programs)


def configuration_files(output: str) -> List[str]:
    """Clang's own, which hold more options, by what `-v` writes."""
    return re.findall(r"^Configuration file: (/.*)$", output, re.MULTILINE)


def library_folders(output: str) -> List[str]:
    """Where a driver looks for libraries, by what `-print-search-dirs` writes."""
    found = re.search(r"^libraries: =?(.*)$", output, re.MULTILINE)
    return [folder for folder in found.group(1).split(":") if folder] if found else []


def script_members(script: str) -> Tuple[List[str], List[str]]:
    """The files that a linker script names: with a path, and by a name to be searched for."""
    text = re.sub(r"/\*.*?\*/", " ", script, flags=re.DOTALL)
    paths, names = [], []
    for group in re.findall(r"\b(?:GROUP|INPUT)\s*\(((?:[^()]|\([^()]*\))*)\)", text):
        for word in re.split(r"[\s(),]+", group):
            if word.startswith("/"):
                paths.append(word)
            elif word.startswith("-l"):
                names += [f"lib{word[2:]}.so", f"lib{word[2:]}.a"]
            elif re.search(r"\.(?:a|o|so)\b", word):
                names.append(word)
    return paths, names


def depfile_members(text: str) -> List[str]:
    """The absolute paths that a linker's dependency file names."""
    words = (word.rstrip(":") for word in re.split(r"[\s\\]+", text))
    return list(dict.fromkeys(word for word in words if word.startswith("/")))


def shared_libraries(output: str) -> List[str]:
    """The libraries that programs run with, by what `ldd` writes."""
    found = re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", output, re.MULTILINE)
    return list(dict.fromkeys(found))


def _find(language: str, names: Sequence[str], search_path: Sequence[str]) -> str:
    launchers = []
    for name in names:
        folders = [""] if os.path.isabs(name) else search_path
        for path in (os.path.join(folder, name) for folder in folders):
            if os.path.isfile(path) and os.access(path, os.X_OK):
                if os.path.basename(os.path.realpath(path)) in _LAUNCHERS:
                    launchers.append(path)
                else:
                    return path
    raise ProbeError(
        error="missing",
        language=language,
        names=list(names),
        search_path=list(search_path),
        launchers=launchers,
    )


def _run(command: Sequence[str]) -> str:
    """The output of a command that must succeed."""
    ok, stdout, stderr = _try(command)
    if not ok:
        raise ProbeError(error="broken", command=list(command), output=(stdout + stderr).strip())
    return stdout


def _try(command: Sequence[str]) -> Tuple[bool, str, str]:
    try:
        result = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return False, "", f"It didn't end within {_TIMEOUT_S} s."
    except OSError as e:
        return False, "", e.strerror or str(e)
    return result.returncode == 0, result.stdout, result.stderr


def _sdk() -> Dict[str, str]:
    def ask(option: str) -> str:
        return _run(["xcrun", "--sdk", "macosx", option]).strip()

    return {
        "path": ask("--show-sdk-path"),
        "version": ask("--show-sdk-version"),
        "build": ask("--show-sdk-build-version"),
    }


# --- what they read and run ---------------------------------------------------------------------


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


class _Outside:
    """Tells what is of this host from what is in the sandbox."""

    def __init__(self, trees: Sequence[str]) -> None:
        root = os.getcwd()
        # A tree is a link to where Pants keeps it.
        pairs = [(os.path.realpath(tree), f"{ROOT_TOKEN}/{tree}") for tree in trees]
        self._inside = [*pairs, (root, ROOT_TOKEN), (os.path.realpath(root), ROOT_TOKEN)]

    def shown(self, path: str) -> str:
        """The path made normal, with ROOT_TOKEN if it is in the sandbox."""
        path = os.path.normpath(path) if path else ""
        for folder, token in self._inside:
            if path and _below(path, folder):
                return token + path[len(folder) :]
        return path

    def text(self, text: str) -> str:
        for folder, token in self._inside:
            text = text.replace(folder, token)
        return text

    def is_host(self, path: str) -> bool:
        return not self.shown(path).startswith(ROOT_TOKEN)


class _Probe:
    """Gathers digests of what a compiler reads and runs."""

    def __init__(self, outside: _Outside, hasher: Hasher) -> None:
        self._outside = outside
        self._hasher = hasher
        self._library_folders: Dict[str, None] = {}
        self._programs: Dict[str, None] = {}
        self.files: Dict[str, str] = {}
        self.folders: Dict[str, str] = {}

    def compiler(
        self, language: str, path: str, flags: Sequence[str], without: str
    ) -> Dict[str, Any]:
        """:param without: a folder of which the headers are not digested."""
        command = [path, *flags]
        version = _run([path, "--version"])
        is_clang = "clang" in version.lower()
        if is_clang and not self._outside.is_host(path):
            command.append("-no-canonical-prefixes")
        target = _run([*command, "-dumpmachine"]).strip()
        preprocess = [*command, "-v", "-E", "-x", language, os.devnull]
        ok, stdout, output = _try(preprocess)
        folders = search_folders(output)
        if not ok or not folders:
            raise ProbeError(
                error="broken", command=preprocess, output=self._outside.text(output).strip()
            )
        self._add_program(path)
        for program in invoked_programs(output):
            self._add_program(program)
        for file in configuration_files(output):
            self.add_file(file)
        for name in _PROGRAMS:
            found = self.program(path, name)
            if found:
                self._add_program(found)
        for folder in folders:
            if not without or not _below(folder, without):
                self.add_folder(folder)
        specs = ""
        if is_clang:
            # Has the libraries of sanitizers and the like.
            ok, resources, _ = _try([*command, "-print-resource-dir"])
            for name in ("lib", "share") if ok else ():
                self.add_folder(os.path.join(resources.strip(), name))
        else:
            ok, specs, _ = _try([*command, "-dumpspecs"])
            specs = hashlib.sha256(specs.encode()).hexdigest() if ok else ""
        self._add_libraries(library_folders(_run([*command, "-print-search-dirs"])))
        return {
            "path": self._outside.shown(path),
            "version": self._outside.text(version).strip(),
            "is_clang": is_clang,
            "target": target,
            "folders": [self._outside.shown(folder) for folder in folders],
            "specs": specs,
        }

    def program(self, compiler: str, name: str) -> Optional[str]:
        """The program that the driver would run by that name."""
        ok, output, _ = _try([compiler, f"-print-prog-name={name}"])
        found = output.strip() if ok else ""
        if os.path.isabs(found):
            return found if os.path.isfile(found) else None
        return _which(found, os.environ.get("PATH", "").split(os.pathsep)) if found else None

    def tool(self, compiler: str, name: str, is_clang: bool, search_path: Sequence[str]) -> str:
        """`ar` or `ranlib` for what it compiles."""
        beside = [os.path.dirname(path) for path in (compiler, os.path.realpath(compiler))]
        path = _which(f"llvm-{name}", beside) if is_clang else None
        path = path or self.program(compiler, name)
        path = path or _which(name, [*search_path, *beside])
        if path is None:
            raise ProbeError(
                error="missing",
                language=name,
                names=[name],
                search_path=list(search_path),
                launchers=[],
            )
        self._add_program(path)
        return path

    def linker(self, compiler: str, name: str) -> str:
        """The one that `-fuse-ld=` means; "" if it isn't there, which the link will tell."""
        path = self.program(compiler, f"ld.{name}")
        if path is None:
            return ""
        self._add_program(path)
        return path

    def link(self, compiler: str, flags: Sequence[str], linker: str, try_depfile: bool) -> bool:
        """Link a program, and add what that reads. Returns whether the linker could say."""
        # Not in the sandbox: a folder that programs may be started from.
        with tempfile.TemporaryDirectory() as folder:
            source, depfile = os.path.join(folder, "main.cpp"), os.path.join(folder, "main.d")
            Path(source).write_text("#include <string>\nint main() { return 0; }\n")
            command = [compiler, "-v", *flags, source, "-o", os.path.join(folder, "main")]
            if try_depfile:
                ok, _, output = _try([*command, f"-Wl,--dependency-file={depfile}"])
                if ok and os.path.exists(depfile):
                    for program in invoked_programs(output):
                        self._add_program(program)
                    for path in depfile_members(Path(depfile).read_text("utf-8", "replace")):
                        if os.path.isfile(path) and not _below(path, folder):
                            self.add_file(path)
                    return True
            # Without what `-v` says, for people.
            command.remove("-v")
            ok, stdout, stderr = _try(command)
            if not ok:
                output = self._outside.text((stdout + stderr).strip())
                if linker:
                    raise ProbeError(error="linker", linker=linker, output=output)
                raise ProbeError(error="broken", command=[*command[:-3], "main.cpp"], output=output)
            return False

    def add_shared_libraries(self) -> None:
        """Add what the programs so far are made of: of many compilers, they are a small part."""
        programs = [path for path in self._programs if _is_elf(path)]
        if programs:
            _, output, _ = _try(["ldd", *programs])
            for path in shared_libraries(output):
                self.add_file(path)

    def add_file(self, path: str) -> None:
        real = os.path.realpath(path)
        if not self._outside.is_host(path) or not os.path.isfile(real):
            return
        digest = self._hasher.file(real)
        for spelled in (os.path.normpath(path), real):
            self.files[spelled] = digest

    def add_folder(self, path: str) -> None:
        real = os.path.realpath(path)
        if not self._outside.is_host(path) or not os.path.isdir(real):
            return
        digest = self._hasher.folder(real)
        for spelled in (os.path.normpath(path), real):
            self.folders[spelled] = digest

    def _add_program(self, path: str) -> None:
        self.add_file(path)
        if self._outside.is_host(path):
            self._programs[os.path.realpath(path)] = None

    def _add_libraries(self, folders: Iterable[str]) -> None:
        known = list(dict.fromkeys(folder for folder in folders if os.path.isdir(folder)))
        libraries = [f"lib{name}.{suffix}" for name in _RUNTIME for suffix in ("so", "a", "dylib")]
        todo = [*_STARTUP, *libraries]
        seen = set()
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            found = [
                path for path in (os.path.join(f, name) for f in known) if os.path.isfile(path)
            ]
            if not found:
                continue
            real = os.path.realpath(found[0])
            # The linker may spell it by way of another folder.
            for path in found:
                if os.path.realpath(path) == real:
                    self.add_file(path)
            paths, names = script_members(_script(real))
            todo += [*paths, *names]


def _which(name: str, folders: Iterable[str]) -> Optional[str]:
    for folder in folders:
        path = os.path.join(folder, name)
        if folder and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _script(path: str) -> str:
    """The linker script that stands for a library; "" if it is one."""
    if os.path.getsize(path) > _MAX_SCRIPT:
        return ""
    content = Path(path).read_bytes()
    return "" if b"\0" in content else content.decode("utf-8", "replace")


def _is_elf(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


# --- digests ------------------------------------------------------------------------------------


class Hasher:
    """The sha256 of files and folders, by their content.

    What hasn't changed is not read again: as git does, it goes by a file's size, its times and its
    number. A file that changed within the last seconds could do so again with the same times, so it
    isn't remembered yet.

    :param memory: the file that remembers, which may be lost at any time.
    """

    _SETTLED_NS = 3_000_000_000

    def __init__(self, memory: Optional[Path] = None) -> None:
        self._memory = memory
        self._known: Dict[str, List[Any]] = {}
        self._new: Dict[str, List[Any]] = {}
        self._folders: Dict[str, str] = {}
        #: How many files were read.
        self.read = 0
        try:
            known = json.loads(memory.read_text()) if memory else {}
            self._known = known if isinstance(known, dict) else {}
        except (OSError, ValueError):
            pass

    def file(self, path: str) -> str:
        """:param path: a file's, without links."""
        try:
            stat = os.stat(path)
            key = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_dev]
            known = self._known.get(path) or self._new.get(path)
            if isinstance(known, list) and known[:-1] == key:
                return str(known[-1])
            digest = hashlib.sha256()
            with open(path, "rb") as file:
                for block in iter(lambda: file.read(1 << 20), b""):
                    digest.update(block)
        except OSError as e:
            # Then the compiler can't read it either.
            return f"unreadable: {e.strerror}"
        self.read += 1
        if time.time_ns() - max(stat.st_mtime_ns, stat.st_ctime_ns) > self._SETTLED_NS:
            self._new[path] = [*key, digest.hexdigest()]
        return digest.hexdigest()

    def folder(self, path: str) -> str:
        """Of all files in a folder, with their names.

        :param path: a folder's, without links.
        """
        if path not in self._folders:
            digest = hashlib.sha256()
            for name, content in sorted(self._members(path, "", (path,))):
                digest.update(f"{name}\0{content}\n".encode("utf-8", "surrogateescape"))
            self._folders[path] = digest.hexdigest()
        return self._folders[path]

    def _members(
        self, folder: str, prefix: str, above: Tuple[str, ...]
    ) -> Iterator[Tuple[str, str]]:
        try:
            entries = list(os.scandir(folder))
        except OSError as e:
            yield prefix, f"unreadable: {e.strerror}"
            return
        for entry in entries:
            name = f"{prefix}{entry.name}"
            path = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
            if os.path.isdir(path):
                # A link to a folder above would never end.
                if path in above:
                    yield name, f"link to {path}"
                else:
                    yield from self._members(path, f"{name}/", (*above, path))
            elif os.path.isfile(path):
                yield name, self.file(path)
            else:
                yield name, "nothing"

    def save(self) -> None:
        """Remember; whoever can't, goes without."""
        if self._memory is None or not self._new:
            return
        merged: Mapping[str, List[Any]] = {**self._known, **self._new}
        try:
            self._memory.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=self._memory.parent, prefix="digests.", delete=False
            ) as file:
                json.dump(merged, file)
            os.replace(file.name, self._memory)
        except OSError:
            pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
