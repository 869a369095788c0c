"""What an editor's language server needs of a project: CMake's compile commands, with every path in
them where a person's machine has the file.

In a sandbox all is below one root. On disk it is in three places: sources are in the checkout, what
is generated is in a folder of the project's, and each artifact in a folder of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterable, Iterator, Mapping

from pants_triton.native.layout import BUILD, ROOT_TOKEN, below, in_root

#: The name that clangd looks for.
DATABASE = "compile_commands.json"

# Where a path ends: at what separates it from others in one word, or quotes it.
_TOKEN_PATH = re.compile(re.escape(ROOT_TOKEN) + r"(?:/[^:;,\"'\\\n]*)?")
# A path relative to the build folder that leads out of it, alone or after its option.
_LEADS_OUT = re.compile(r"(|-I|-L|-F|-isystem|-iquote|-idirafter|-include|--?[\w-]+=)(\.\./.*)")

# They keep sandbox paths out of what is compiled.
_DROPPED = re.compile(
    r"-f(?:file|debug|macro|coverage)-prefix-map=.*|-f(?:debug-)?compilation-dir=.*"
)


class DatabaseError(Exception):
    """CMake's compile commands can't be read. The message says why."""


@dataclass(frozen=True)
class Command:
    """One compile, as CMake wrote it: paths have ROOT_TOKEN or are relative to `directory`.

    :param output: below the sandbox's root, "" where it isn't known.
    """

    directory: str
    file: str
    arguments: tuple[str, ...]
    output: str


def read_database(text: str) -> tuple[Command, ...]:
    """The compiles in CMake's `compile_commands.json`."""
    try:
        found = []
        for entry in json.loads(text):
            arguments = tuple(entry.get("arguments") or shlex.split(entry["command"]))
            output = entry.get("output") or _output(arguments)
            directory = in_root(entry["directory"])
            path = in_root(output, directory or "") if output and directory is not None else None
            found.append(Command(entry["directory"], entry["file"], arguments, path or ""))
        return tuple(found)
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise DatabaseError(f"CMake's {DATABASE} can't be understood: {e!r}") from None


def _output(arguments: tuple[str, ...]) -> str:
    with contextlib.suppress(ValueError, IndexError):
        return arguments[arguments.index("-o") + 1]
    return ""


@dataclass
class Places:
    """Where things are on this machine; all paths are absolute.

    :param build: what is there of the build folder.
    :param trees: the artifacts' folders, by their paths in the sandbox.
    :param used: the artifacts that something named so far.
    """

    checkout: str
    build: str
    trees: Mapping[str, str]
    used: set[str] = field(default_factory=set)

    def of(self, path: str) -> str:
        """Of a path below the sandbox's root."""
        tree = max((t for t in self.trees if below(path, [t])), key=len, default=None)
        if tree is not None:
            self.used.add(tree)
            return self.trees[tree] + path[len(tree) :]
        if below(path, [BUILD]):
            return self.build + path[len(BUILD) :]
        return f"{self.checkout}/{path}" if path else self.checkout

    def in_text(self, text: str) -> str:
        """`text` with the places of all that it names by ROOT_TOKEN."""

        def placed(match: re.Match[str]) -> str:
            # A folder may be named by a `/` at its end.
            path = match.group()
            inside = in_root(path)
            if inside is None:
                return path
            return self.of(inside) + ("/" if path.endswith("/") and inside else "")

        return _TOKEN_PATH.sub(placed, text)

    def command(self, command: Command) -> dict[str, object]:
        """The entry of the database that an editor reads."""
        directory = in_root(command.directory)

        def placed(word: str) -> str:
            leads_out = _LEADS_OUT.fullmatch(word)
            if leads_out:
                inside = in_root(leads_out[2], directory or "")
                return word if inside is None else leads_out[1] + self.of(inside)
            return self.in_text(word)

        file = in_root(command.file, directory or "")
        return {
            "directory": self.in_text(command.directory),
            "file": command.file if file is None else self.of(file),
            "arguments": [placed(w) for w in command.arguments if not _DROPPED.fullmatch(w)],
        }


def render_database(commands: Iterable[Command], places: Places) -> bytes:
    """The database, in CMake's order."""
    return (json.dumps([places.command(c) for c in commands], indent=1) + "\n").encode()


# --- on disk -----------------------------------------------------------------------------------


def write_file(path: Path, content: bytes, executable: bool = False) -> bool:
    """Make `path` a file with this content, whole or not at all. One that is so already is not
    touched: language servers go by its time. Returns whether it was written. May raise OSError."""
    mode = 0o755 if executable else 0o644
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if path.is_file() and not path.is_symlink() and path.read_bytes() == content:
            if path.stat().st_mode & 0o777 != mode:
                path.chmod(mode)
            return False
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(fd, "wb") as file:
            file.write(content)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    return True


def sync_folder(folder: Path, files: Mapping[str, bytes], folders: Iterable[str] = ()) -> int:
    """Make `folder` have these files and folders, by their paths in it, and nothing else. Returns how
    many files were written or removed. May raise OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted_folders = {
        str(parent)
        for path in (*files, *(f"{name}/_" for name in folders))
        for parent in Path(path).parents
    }
    changed = 0
    for path in list(_found(folder)):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() and not path.is_symlink():
            if name not in wanted_folders:
                path.rmdir()
        elif name not in files:
            path.unlink()
            changed += 1
    for name in folders:
        (folder / name).mkdir(parents=True, exist_ok=True)
    return changed + sum(write_file(folder / name, files[name]) for name in sorted(files))


def _found(folder: Path) -> Iterator[Path]:
    """All in it, what is in a folder before the folder."""
    for root, folders, files in os.walk(folder, topdown=False):
        yield from (Path(root, name) for name in (*files, *folders))


class NotOurs(Exception):
    """A file is in the way that somebody else wrote. The message names it and the way out."""


def is_ours(path: Path, folder: Path) -> bool:
    """Whether the database at `path` is a link to, or a copy of, one that was written for `folder`,
    where all of ours are."""
    if path.is_symlink():
        return below(os.path.normpath(path.parent / os.readlink(path)), [str(folder)])
    try:
        entries = json.loads(path.read_bytes())
        return isinstance(entries, list) and all(
            below(entry["directory"], [str(folder)]) for entry in entries
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def place_database(path: Path, database: Path, folder: Path, copy: bool) -> bool:
    """Have `database`, which is in `folder`, at `path` too, by a relative link or as a copy. Returns
    whether there was none before. May raise NotOurs or OSError."""
    there = os.path.lexists(path)
    if there and not is_ours(path, folder):
        raise NotOurs(f"{path} is somebody else's and stays as it is")
    if copy:
        if path.is_symlink():
            path.unlink()
        write_file(path, database.read_bytes())
        return not there
    target = os.path.relpath(database, os.path.realpath(path.parent))
    if path.is_symlink() and os.readlink(path) == target:
        return False
    temporary = path.parent / f".{path.name}.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    temporary.symlink_to(target)
    os.replace(temporary, path)
    return not there


#: In a project's folder: the names of the artifacts' folders that its database refers to.
USES = "artifacts.txt"


def unused_artifacts(artifacts: Path, projects: Path) -> list[str]:
    """The names of folders in `artifacts` that no project below `projects` uses, sorted."""
    if not artifacts.is_dir():
        return []
    used = {name for file in projects.rglob(USES) for name in file.read_text().split()}
    return sorted(name for name in os.listdir(artifacts) if name not in used)
