"""From an edge of the manifest to the process that runs it: its command, and what it reads.

Paths here are below the sandbox's root; see `layout.py`.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from dataclasses import dataclass
from typing import Iterable, Mapping, Sequence

from pants_triton.native.compile_command import (
    CompileCommand,
    TableGenCommand,
    parse_compile,
    parse_tablegen,
)
from pants_triton.native.layout import BUILD, CHROOT, ROOT_TOKEN, below, in_root
from pants_triton.native.manifest import CONSOLE_POOL, Edge, Manifest

# Parts of commands that are left out.
_LEFT_OUT = (
    # CMake appends it to the link of a gtest program: it runs the program at build time, and writes
    # absolute paths. Tests are found and run by targets of their own.
    "GoogleTestAddTests.cmake",
    # Tells ninja what a custom command has read, in a file named by a hash of the sandbox's path.
    " -E cmake_transform_depfile ",
)

# In characters of up to four bytes: an argument of a process has at most 128 KiB on Linux.
_MAX_ARGUMENT = 32_000

# In bytes: what is longer than that goes into files. Linux has 128 KiB for one argument, and at
# least as much for all of them; macOS 1 MiB for all.
_MAX_SCRIPT = 96_000
_MAX_ARGUMENTS = 500_000
# Of the sandbox's root, which Pants puts into arguments.
_LONGEST_ROOT = 250

# Files of an edge whose command is too long, in the sandbox's root.
_SCRIPT_FILE = ".pants_triton_edge.sh"
_RESPONSE_FILE = ".pants_triton_edge.rsp"

# A word of a shell's command line, as it is spelled.
_WORD_PIECE = r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')"""
_WORD = re.compile(f"{_WORD_PIECE}+")

# A run-time search path for the linker in words of its own, each behind an `-Xlinker`. One with a
# comma can't be spelled with `-Wl`.
_RPATH_BY_XLINKER = re.compile(
    rf"(?<!\S)-Xlinker\s+--?rpath(?:\s+-Xlinker\s+|=)((?!\S*,){_WORD_PIECE}+)(?!\S)"
)

_LINK_RULE = re.compile(r"_(?:EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY)_LINKER_")

_SHARED_LIBRARY = re.compile(r"\.so(?:\.[0-9.]+)?$|\.dylib$")

# What CMake writes about the build itself: it changes with every change of a CMakeLists.txt.
_ABOUT_THE_BUILD = re.compile(
    r"(?:.*/)?(?:[^/]*\.ninja|cmake_install\.cmake|CTestTestfile\.cmake|compile_commands\.json"
    r"|tablegen_compile_commands\.yml|[^/]*\[[0-9]+\]_include\.cmake)"
)


@dataclass(frozen=True)
class Step:
    """What to run for one edge.

    :param command: for `/bin/sh -c` in the build folder, with ROOT_TOKEN.
    :param outputs: below the root.
    :param compile, tablegen: what the command is, where it is understood; neither for the others.
    :param folders: below the root, those that the command expects to be there.
    :param rspfile: name of the response file, relative to the build folder, "" for none.
    :param depfile: of a compile, relative to the build folder, "" for none.
    :param link_depfile: the same of a link whose linker tells what it reads.
    """

    description: str
    command: str
    outputs: tuple[str, ...]
    folders: tuple[str, ...] = ()
    compile: CompileCommand | None = None
    tablegen: TableGenCommand | None = None
    rspfile: str = ""
    rspfile_content: str = ""
    depfile: str = ""
    link_depfile: str = ""


@dataclass(frozen=True)
class HostReads:
    """What an edge may read outside the sandbox: the folders and files whose content is in its key
    by a fingerprint. `advice` is for who reads others."""

    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    advice: str = (
        "Add what has them as an artifact to the project's dependencies. If they are this host's own "
        "headers of C and C++, see the options `[native].compiler` and `[native].sysroot`."
    )


def make_step(edge: Edge, origin: str = "$ORIGIN", flags: Sequence[str] = ()) -> Step:
    """The step of `edge`, which isn't phony. `origin`: see `relocatable_rpaths`; `flags` are what
    every compile must have, even one of a project that sets its flags without those it was given.
    """
    folder = posixpath.dirname(in_root(edge.outputs[0]) or BUILD)
    command = relocatable_rpaths(_kept(edge.command), folder, origin)
    rsp_content = relocatable_rpaths(edge.rspfile_content, folder, origin)
    rsp = {edge.rspfile: rsp_content} if edge.rspfile else {}
    compile = parse_compile(command, rsp)
    tablegen = None if compile else parse_tablegen(command, rsp)
    if compile is not None:
        missing = [flag for flag in flags if flag not in command and flag not in rsp_content]
        if missing:
            start = f"{compile.compiler} "
            command = command.replace(start, f"{start}{' '.join(missing)} ", 1)
    # CMake may name one file twice: relative to the build folder, and from the root.
    outputs = dict.fromkeys(
        path
        for path in (in_root(output) for output in edge.all_outputs)
        if path is not None and not path.endswith("_tests.cmake")
    )
    written = (in_root(path) for path in (*edge.all_outputs, edge.rspfile, edge.depfile) if path)
    return Step(
        description=_for_people(edge.description or edge.outputs[0]),
        command=command,
        outputs=tuple(outputs),
        folders=tuple(dict.fromkeys(posixpath.dirname(path) for path in written if path)),
        compile=compile and _rooted(compile),
        tablegen=tablegen and _rooted_tablegen(tablegen),
        rspfile=edge.rspfile,
        rspfile_content=rsp_content,
        # Of others than compiles it is named in what is left out.
        depfile=edge.depfile if compile else "",
    )


def _for_people(text: str) -> str:
    return text.replace(f"{ROOT_TOKEN}/{BUILD}/", "").replace(f"{ROOT_TOKEN}/", "")


def _rooted(command: CompileCommand) -> CompileCommand:
    return command.at(ROOT_TOKEN, BUILD)


def _rooted_tablegen(command: TableGenCommand) -> TableGenCommand:
    return command.at(ROOT_TOKEN, BUILD)


def _kept(command: str) -> str:
    parts = command.split(" && ")
    return " && ".join(part for part in parts if not any(text in part for text in _LEFT_OUT))


def relocatable_rpaths(command: str, folder: str, origin: str = "$ORIGIN") -> str:
    """`command`, or the content of its response file, with the run-time search paths that it links
    in made the same in every sandbox: those in the build folder relative to the output, which is in
    `folder` below the root; those of artifacts and sources left out (who runs it says where they
    are). `origin` is what the system calls the folder of the program or library."""

    def portable(paths: str) -> str:
        kept = []
        for path in paths.split(":"):
            inside = in_root(path)
            if not path:
                continue
            if path.startswith(("$", "@")) or inside is None:
                kept.append(path)
            elif below(inside, [BUILD]):
                relative = posixpath.relpath(inside, folder)
                kept.append(origin if relative == "." else f"{origin}/{relative}")
        return ":".join(kept)

    def rewritten(match: re.Match[str]) -> str:
        word = match.group()
        if "-rpath" not in word:
            return word
        # Within double quotes, `shlex` leaves the backslash that the shell takes from `\$`.
        first, *parts = "".join(shlex.split(word)).replace("\\$", "$").split(",")
        if first != "-Wl":
            return word
        options = [first]
        while parts:
            option, equals, value = parts.pop(0).partition("=")
            if equals:
                parts.insert(0, value)
            if option in ("-rpath", "--rpath") and parts:
                paths = portable(parts.pop(0))
                options += [option, paths] if paths else []
            else:
                options.append(f"{option}={parts.pop(0)}" if equals else option)
        return shlex.quote(",".join(options)) if len(options) > 1 else ""

    if "-rpath" not in command:
        return command
    return _WORD.sub(rewritten, _RPATH_BY_XLINKER.sub(r"-Wl,-rpath,\1", command))


def declared_inputs(manifest: Manifest, edge: Edge, order_only: bool) -> list[str]:
    """The files that the edge declares as inputs, below the root, with phony edges seen through.
    Those elsewhere are left out: artifacts are there whole."""
    paths = edge.inputs + edge.implicit_inputs + (edge.order_only if order_only else ())
    found: dict[str, None] = {}
    for path in paths:
        for file in manifest.resolve_phony(path):
            inside = in_root(file)
            if inside:
                found[inside] = None
    return list(found)


def run_time_files(
    manifest: Manifest, makers: Mapping[str, int], files: Iterable[str]
) -> tuple[str, ...]:
    """`files`, and what they need of the project when they run: the shared libraries that they are
    linked with, and the links by which those with a version are found.

    :param makers: the index of the edge that makes a file, by its path below the root.
    """
    links: dict[str, list[str]] = {}
    for path, index in makers.items():
        edge = manifest.edges[index]
        if edge.rule == "CMAKE_SYMLINK_LIBRARY":
            for target in edge.inputs:
                links.setdefault(in_root(target) or "", []).append(path)
    found: dict[str, None] = {}
    todo = list(files)
    while todo:
        path = todo.pop(0)
        if path in found or path not in makers:
            continue
        found[path] = None
        todo += links.get(path, ())
        edge = manifest.edges[makers[path]]
        if "LINKER" in edge.rule or edge.rule == "CMAKE_SYMLINK_LIBRARY":
            inputs = (in_root(p) for p in (*edge.inputs, *edge.implicit_inputs))
            todo += [p for p in inputs if p is not None and _SHARED_LIBRARY.search(p)]
    return tuple(found)


def is_program_link(edge: Edge) -> bool:
    """Whether the edge links a program or shared library, which takes much memory; static ones are
    archives."""
    return _LINK_RULE.search(edge.rule) is not None


def pool_of(manifest: Manifest, edge: Edge) -> tuple[str, int] | None:
    """The name and depth of the pool that the edge is in, None for none. That of ninja for the
    terminal counts as none: no edge has a terminal here."""
    depth = manifest.pools.get(edge.pool, 0)
    return (edge.pool, depth) if depth and edge.pool != CONSOLE_POOL else None


def named_paths(command: str) -> list[str]:
    """The paths below the root that a command's words name: whole, after an option, or in a list."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    found: dict[str, None] = {}
    for word in words:
        for text in (word, *re.split("[;:,]", word)):
            if ROOT_TOKEN in text:
                inside = in_root(text[text.index(ROOT_TOKEN) :])
                if inside:
                    found[inside] = None
    return list(found)


def may_read(command: str, path: str) -> bool:
    """Whether a custom command may read the file `path` that configuring wrote: any but those about
    the build itself, unless it names them."""
    return not _ABOUT_THE_BUILD.fullmatch(path) or posixpath.basename(path) in command


def edge_process(
    step: Step, expand: Sequence[str] = (), host: HostReads = HostReads()  # noqa: B008
) -> tuple[tuple[str, ...], dict[str, bytes]]:
    """The arguments of the process that runs `step`, as `shell_script`, and the files that it needs
    in the sandbox's root: none, but where the arguments would be more than a system takes."""
    argv = shell_script(step, expand, host)
    sizes = [len(os.fsencode(a)) + a.count(CHROOT) * _LONGEST_ROOT for a in argv]
    if max(sizes) <= _MAX_SCRIPT and sum(sizes) <= _MAX_ARGUMENTS:
        return argv, {}
    script = shell_script(step, expand, host, response_file=f"../{_RESPONSE_FILE}")[2]
    files = {
        _SCRIPT_FILE: os.fsencode(script),
        _RESPONSE_FILE: os.fsencode(step.rspfile_content),
    }
    # What Pants does with arguments; it would do it with this one, too, were it spelled as it is.
    expanded = f"{_SCRIPT_FILE}.expanded"
    start = f'sed "s|[{{]chroot}}|$1|g" {_SCRIPT_FILE} > {expanded} && exec /bin/sh {expanded} "$1"'
    return ("/bin/sh", "-c", start, "edge", CHROOT), files


def shell_script(
    step: Step,
    expand: Sequence[str] = (),
    host: HostReads = HostReads(),  # noqa: B008
    response_file: str = "",
) -> tuple[str, ...]:
    """The arguments of the process that runs `step` in the build folder, with CHROOT.

    `expand` are files, relative to the build folder, in which ROOT_TOKEN must be the real root;
    `response_file` the one that has the response file's content, which else is among the arguments.
    """
    command = step.command.replace(ROOT_TOKEN, CHROOT)
    lines = [f"cd {BUILD} || exit"]
    arguments: list[str] = []
    if expand:
        # `sed -i` differs between systems.
        lines.append(
            f"for file in {' '.join(shlex.quote(path) for path in expand)}; do "
            f'sed "s|{ROOT_TOKEN}|$1|g" "$file" > "$file.expanded" && '
            'cat "$file.expanded" > "$file" && rm "$file.expanded" || exit; done'
        )
    if step.rspfile:
        content = "" if response_file else step.rspfile_content
        # With the token, which is whole again once the arguments are one text.
        arguments = [
            content[start : start + _MAX_ARGUMENT]
            for start in range(0, len(content), _MAX_ARGUMENT)
        ]
        source = f"cat {response_file}" if response_file else 'printf %s "$@"'
        lines.append(
            f'(root=$1; shift; {source} | sed "s|{ROOT_TOKEN}|$root|g") '
            f"> {shlex.quote(step.rspfile)} || exit"
        )
    lines.append(command)
    if step.link_depfile or (step.compile is not None and step.depfile):
        lines[-1] = f"( {command}\n) || exit"
        lines.append(_check_depfile(step, host))
    return ("/bin/sh", "-c", "\n".join(lines), "edge", CHROOT, *arguments)


#: What an edge that could have used the network says on stderr, in a line of its own.
WITH_NETWORK = "pants-triton: this host doesn't let users cut off the network"

# As root; as who one is; or, with an older `unshare`, as somebody who seems to be root. (Seeming so
# is no good where it isn't needed: `tar` would try to give files away.)
_OFFLINE = f"""\
for how in --net '--map-current-user --net' '--map-root-user --net'; do
  if unshare $how true 2> /dev/null; then
    exec unshare $how "$@"
  fi
done
echo "{WITH_NETWORK}" >&2
exec "$@"
"""


def offline(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments of a process that runs `argv` without a network where the host can cut it off,
    and says WITH_NETWORK where it can't."""
    return ("/bin/sh", "-c", _OFFLINE, "offline", *argv)


def _check_depfile(step: Step, host: HostReads) -> str:
    """What a compile or link has read must be in the sandbox, or covered by a fingerprint: all else
    is in no key. `..` may lead out of it."""
    covered = [
        *(f"-e {shlex.quote('^' + _literally(folder) + '/')}" for folder in host.folders),
        *(f"-e {shlex.quote('^' + _literally(file) + '$')}" for file in host.files),
    ]
    kept = f"\n  grep -v {' '.join(covered)} |" if covered else ""
    if step.link_depfile:
        # What link-time optimization compiles on the way is gone by now.
        kept += '\n  while read -r file; do [ ! -e "$file" ] || echo "$file"; done |'
    return f"""\
outside=$(tr ' \\\\' '\\n\\n' < {shlex.quote(step.link_depfile or step.depfile)} |
  sed -e 's|:$||' -e 's|//*|/|g' -e "s|^\\([^/]\\)|$1/{BUILD}/\\1|" \\
    -e :a -e 's|/\\./|/|' -e ta -e :b -e 's|/[^/]*/\\.\\./|/|' -e tb |
  grep '^/' | grep -vF "$1/" |{kept} sort -u)
if [ -n "$outside" ]; then
  echo "It reads files of this host, which no target declares:" >&2
  printf '  %s\\n' $outside >&2
  echo {shlex.quote(host.advice)} >&2
  exit 1
fi"""


def _literally(text: str) -> str:
    return re.sub(r"([\\.*^$\[])", r"\\\1", text)


def shown_command(step: Step, env: Iterable[tuple[str, str]]) -> str:
    """The command as a person can repeat it in the root of a sandbox that Pants kept."""

    def quoted(value: str) -> str:
        return shlex.quote(value).replace(CHROOT, "'\"$ROOT\"'").replace("''\"", '"')

    exports = "".join(f"; export {name}={quoted(value)}" for name, value in env)
    return f"ROOT=$PWD{exports}; cd {BUILD}; {step.command.replace(ROOT_TOKEN, '$ROOT')}"
