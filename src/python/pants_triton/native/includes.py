"""Which files of the project a compiler, or TableGen, may open: found by reading `#include` lines.

The closure is what an edge gets as its inputs, so the rule everywhere is: *never miss a file that
the tool would open; too many is fine, but should be few.* Hence nothing is preprocessed. Both
branches of an `#if` count, a file whose existence is asked (`__has_include`) is there to be found,
and what can't be told apart without preprocessing is taken both ways.

Paths are relative to one root (the sandbox's), with `/`; what is outside of it is absolute. `..` is
resolved textually, as if no folder were a symbolic link, and the folder that it leaves has to exist
for the tool too: `Closure.folders` names those.

What isn't seen: project files that a header *of an artifact* or of the compiler includes (a project
file named `version` in an include folder), modules (`import name;`, module maps), and a macro that
an artifact redefines to name another project file than the project's own definitions do.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

#: The two ways to spell a file, and the name of a macro that stands for one (or for anything).
QUOTE, ANGLE, MACRO = "quote", "angle", "macro"

#: What a directive does with the file. INCLUDE reads it (`#import` and `import "x";` too), NEXT is
#: `#include_next`. The others need it, but don't scan it: PROBE asks whether it is there
#: (`__has_include`), EMBED is `#embed`, ASSEMBLE is the assembler's `.include` and `.incbin`, which
#: may stand in any string.
INCLUDE, NEXT, PROBE, EMBED, ASSEMBLE = "include", "next", "probe", "embed", "assemble"


@dataclass(frozen=True)
class Include:
    """One directive. `path` is what is between the quotes or brackets, or for a MACRO the tokens."""

    path: str
    form: str
    kind: str = INCLUDE

    @property
    def spelled(self) -> str:
        """As in the file: `"x.h"`, `<x.h>` or `MACRO`."""
        return {QUOTE: f'"{self.path}"', ANGLE: f"<{self.path}>"}.get(self.form, self.path)


#: What one file includes, in its order, each once.
Includes = Tuple[Include, ...]

#: The macros that one file defines: what each stands for, in order. A definition that is neither a
#: file nor one other name is None.
Definitions = Mapping[str, Sequence[Optional[Include]]]


@dataclass(frozen=True)
class Search:
    """Where a compiler looks, and what its command line makes it open. Folders are in the order in
    which they are searched; `CompileCommand.search` makes this of a command.

    `directory` is the tool's working folder. `quote` is `-iquote`, `include` is `-I`, `system` is
    `-isystem`, `after` is `-idirafter`. `forced` is `-include`: it is looked for from `directory`
    on, all other paths are relative to the root. `mentioned` are other words of the command that
    may be files' names. `defines` are `NAME` or `NAME=VALUE`, as after `-D`.
    """

    directory: str = ""
    quote: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    embed: tuple[str, ...] = ()
    forced: tuple[str, ...] = ()
    mentioned: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Closure:
    """What one edge may open.

    `files` are all of the project's, the source among them. `unread` are those of them whose content
    isn't known yet (an edge that hasn't run makes them): what they include is not in `files`. Run
    those edges and ask again.

    `folders` have to exist, even if nothing in them is needed: a path leaves them by `..`.

    `unknown` are (file, `#include MACRO`) of which nobody knows what they include: give the edge
    every header. `missing` are (file, `"x.h"`) that nothing known has. They are a hint for messages:
    such a file may be the compiler's own, as all are taken to be that stand in `<>`.
    """

    files: frozenset[str]
    unread: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    missing: tuple[tuple[str, str], ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()


class Scans:
    """Results by content, so that a header which 150 sources share, or which didn't change since
    the last build, is scanned once. Resolvers may share one."""

    def __init__(self) -> None:
        self._done: dict[tuple[str, bytes], Any] = {}

    def of(self, scan: Callable[[bytes], Any], content: bytes) -> Any:
        """`scan(content)`, from memory where it is known."""
        key = (scan.__name__, hashlib.sha256(content).digest())
        if key not in self._done:
            self._done[key] = scan(content)
        return self._done[key]


# --- scanning C, C++, CUDA and assembler ------------------------------------------------------

_COMMENT = rb"/\*[^*]*\*+(?:[^/*][^*]*\*+)*/"
# What may stand between two tokens of a directive.
_GAP = rb"(?:[ \t\f\v\0]|" + _COMMENT + rb")*"
_HASH = rb"(?:#|%:|\?\?=)"
_NAME_ENDS = rb"(?![\w$])"

# Compilers allow white space before the line's end.
_CONTINUATION = re.compile(rb"\\[ \t\f\v\0]*\n")

# A string in which neither quotes nor comments are what they seem.
_RAW_STRING = re.compile(rb'R"[^ ()\\\t\v\f\n"]{0,16}\(')

# Comments, where it is certain that they are: after a quote, in a header's name or in the text of an
# #error there may be a `/*` that opens none, so the rest of such lines stays as it is.
_COMMENTS = re.compile(
    rb"(?m)(//[^\n]*|[\"'][^\n]*|__has_[^\n]*|^"
    + _GAP
    + rb"(?:"
    + _HASH
    + _GAP
    + rb"(?!define\b|if|el|endif\b|undef\b)[a-z_]+|(?:export[ \t]+)?import\b)[^\n]*)|"
    + _COMMENT
)

# In a lookahead: what seems a long comment must not hide the directives in it. A directive may come
# after a comment that began on an earlier line.
_DIRECTIVE = re.compile(
    rb"(?m)(?:^|\*/)(?="
    + _GAP
    + _HASH
    + _GAP
    + rb"(include_next|include|import|embed|__include_macros|if|elif|define)"
    + _NAME_ENDS
    + _GAP
    + rb"([^\n]*))"
)
_KINDS = {
    b"include": INCLUDE,
    b"import": INCLUDE,
    b"__include_macros": INCLUDE,
    b"include_next": NEXT,
    b"embed": EMBED,
}
_OPERAND = re.compile(rb'"([^"\n]*)"|<([^>\n]*)>')

# `__has_include(<x.h>)`, and a macro that stands for it: in a condition nothing else looks like it.
_ASKED = re.compile(rb"\(" + _GAP + rb'(?:"([^"\n]+)"|<([^<>\n]+)>)')
_HAS = re.compile(
    rb"__has_(include|include_next|embed)"
    + _GAP
    + rb"\("
    + _GAP
    + rb'(?:"([^"\n]+)"|<([^>\n]+)>|([A-Za-z_$\x80-\xff][\w$\x80-\xff]*))'
)
_PARAMETERS = re.compile(rb"[\w$]+\(([^)]*)\)")

_HEADER_UNIT = re.compile(
    rb"(?m)(?:^|\*/)" + _GAP + rb"(?:export\b" + _GAP + rb")?import" + _GAP + _OPERAND.pattern
)
_DEPENDENCY = re.compile(
    rb'\b(?:GCC|clang)[ \t]+dependency[ \t]+\\?(?:"([^"\\\n]*)\\?"|<([^>\n]*)>)'
)
_ASSEMBLE = re.compile(rb'\.(?:include|incbin)\b[ \t]*\\?"([^"\\\n]*)\\?"|\.incbin\b[ \t]')

_DEFINE = re.compile(
    rb"(?m)(?:^|\*/)(?="
    + _GAP
    + _HASH
    + _GAP
    + rb"define"
    + _NAME_ENDS
    + _GAP
    + rb"([A-Za-z_$\x80-\xff][\w$\x80-\xff]*)(\()?([^\n]*))"
)
# Of a comment that goes on below only the beginning is there.
_BODY = re.compile(
    rb'(?:"([^"]*)"|<([^>]*)>|([A-Za-z_$\x80-\xff][\w$\x80-\xff]*))' + _GAP + rb"(?:/[/*].*)?"
)
_TRAILING_COMMENT = re.compile(rb"//.*|/\*.*?(?:\*/|$)")
_TRIGRAPH = b"??/"


def scan_c(content: bytes) -> Includes:
    """What a C, C++, CUDA or assembler file includes, or asks for, in any of its `#if` branches.

    Any bytes are scanned. A byte that isn't UTF-8 becomes a surrogate, as in `os.fsdecode`.
    """
    found = _scan_c(content)
    if _TRIGRAPH in content:
        # Before C++17 and C23 it is a backslash.
        found += _scan_c(content.replace(_TRIGRAPH, b"\\"))
    return tuple(dict.fromkeys(found))


def scan_definitions(content: bytes) -> Definitions:
    """The macros that a file defines, for an `#include MACRO` somewhere."""
    found: Dict[str, List[Optional[Include]]] = {}
    for match in _DEFINE.finditer(_plain(content)):
        # With parameters it stands for no name alone.
        body = None if match[2] else _meaning(match[3])
        bodies = found.setdefault(_text(match[1]), [])
        if body not in bodies:
            bodies.append(body)
    return found


def _scan_c(content: bytes) -> list[Include]:
    text = _plain(content)
    found: list[Include] = []
    parameters: set[bytes] = set()
    asks = NEXT if b"__has_include_next" in text else PROBE
    for match in _DIRECTIVE.finditer(text):
        name, rest = match.groups()
        kind = _KINDS.get(name)
        if kind is not None:
            operand = _OPERAND.match(rest)
            if operand:
                found.append(_literal(operand[1], operand[2], kind))
            else:
                tokens = _text(_TRAILING_COMMENT.sub(b" ", rest)).strip()
                if tokens:
                    found.append(Include(tokens, MACRO, kind))
        elif b"(" in rest:
            for asked in _ASKED.finditer(rest):
                found.append(_literal(asked[1], asked[2], asks))
            taken = _PARAMETERS.match(rest) if name == b"define" else None
            if taken:
                parameters.update(word.strip() for word in taken[1].split(b","))
    if b"__has_" in text:
        for asked in _HAS.finditer(text):
            kind = {b"include": PROBE, b"include_next": NEXT, b"embed": EMBED}[asked[1]]
            if not asked[4]:
                found.append(_literal(asked[2], asked[3], kind))
            elif asked[4] not in parameters:
                found.append(Include(_text(asked[4]), MACRO, kind))
    if b"import" in text:
        for unit in _HEADER_UNIT.finditer(text):
            found.append(_literal(unit[1], unit[2], INCLUDE))
    if b"dependency" in text:
        for pragma in _DEPENDENCY.finditer(text):
            found.append(_literal(pragma[1], pragma[2], PROBE))
    if b".inc" in text:
        for command in _ASSEMBLE.finditer(text):
            if command[1] is None:
                found.append(Include(".incbin", MACRO, ASSEMBLE))
            else:
                found.append(Include(_text(command[1]), QUOTE, ASSEMBLE))
    return found


def _plain(content: bytes) -> bytes:
    """One logical line a line, without byte-order mark, and without comments where that is safe."""
    if content.startswith(b"\xef\xbb\xbf"):
        content = content[3:]
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\\" in content:
        content = _CONTINUATION.sub(b"", content)
    # Who looks for directives copes with comments; this only leaves out those that stand in one.
    if b"/*" in content and not _RAW_STRING.search(content):
        content = _COMMENTS.sub(_without_comment, content)
    return content


def _without_comment(match: re.Match[bytes]) -> bytes:
    return match[1] or b" "


def _literal(quoted: bytes | None, angled: bytes | None, kind: str) -> Include:
    if quoted is not None:
        return Include(_text(quoted), QUOTE, kind)
    return Include(_text(angled or b""), ANGLE, kind)


def _meaning(body: bytes) -> Include | None:
    match = _BODY.fullmatch(re.sub(rb"^" + _GAP, b"", body))
    if match is None:
        return None
    if match[3] is not None:
        return Include(_text(match[3]), MACRO)
    return _literal(match[1], match[2] and match[2].strip(), INCLUDE)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


# --- scanning TableGen ------------------------------------------------------------------------

# Not where a comment above it ends on the line.
_TD_COMMENT_LINE = re.compile(rb"(?m)^[ \t]*//(?![^\n]*\*/)[^\n]*")
_TD_INCLUDE = re.compile(
    rb"(?<![\w$])include(?:[ \t\n\0]|//[^\n]*\n|" + _COMMENT + rb')*"((?:[^"\\\n]|\\.)*)"'
)
_TD_ESCAPE = re.compile(r"\\(.)")


def scan_td(content: bytes) -> Includes:
    """What a TableGen file includes.

    `include "x.td"` counts wherever it stands but in a line that is a comment: the text between
    `#ifdef` and `#endif`, which nearly every file of MLIR has, may be skipped by TableGen, so a `[{`
    or `/*` in it opens nothing.
    """
    text = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    text = _TD_COMMENT_LINE.sub(b"", text)
    found = [
        Include(_TD_ESCAPE.sub(r"\1", _text(match[1])), QUOTE)
        for match in _TD_INCLUDE.finditer(text)
    ]
    return tuple(dict.fromkeys(found))


# --- resolving --------------------------------------------------------------------------------


@dataclass
class _Found:
    """What one file's directives lead to, under one Search. `read` are scanned in turn."""

    read: set[str] = field(default_factory=set)
    only_opened: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)
    macros: list[Include] = field(default_factory=list)


class Resolver:
    """Finds closures in one state of the project. It remembers what it found, so use one for all
    edges, and a new one (with the same `Scans`) when files changed.

    `files` are all paths of the project and of what edges make. `read` gives a file's content, None
    where that isn't known yet. `folders` are folders that exist though no file is in them.

    `outside` are folders whose content isn't known: artifacts, which an edge gets whole. A file may
    be found there, so the search goes on behind them; what is in them isn't scanned. All absolute
    paths are outside, but for those in one of `roots`: the absolute paths (and tokens, such as
    `{chroot}`) that stand for the root in commands and generated files.
    """

    def __init__(
        self,
        files: Iterable[str],
        read: Callable[[str], bytes | None],
        *,
        folders: Iterable[str] = (),
        outside: Iterable[str] = (),
        roots: Iterable[str] = (),
        scans: Scans | None = None,
    ) -> None:
        self._files = frozenset(files)
        self._read = read
        self._outside = tuple(outside)
        self._roots = tuple(roots)
        self._scans = scans or Scans()
        self._folders = set(folders)
        for path in self._files:
            while "/" in path:
                path = path.rpartition("/")[0]
                if path in self._folders:
                    break
                self._folders.add(path)
        self._includes: dict[tuple[str, str], Any] = {}
        self._found: dict[object, dict[str, _Found]] = {}

    def compile_closure(self, source: str, search: Search) -> Closure:
        """What compiling `source` may open."""
        places = _Places(self, search)
        found = _Found()
        places.command_line(found)
        walk = _Walk(self, scan_c, places.look_up, self._memory("c", search))
        walk.add(found, "the command line")
        walk.read([self._place("", source, found)[0]])
        walk.resolve_macros(places, search.defines)
        # A precompiled header is taken instead of the header that it lies beside.
        for suffix in (".gch", ".pch"):
            walk.files.update(self._files.intersection(f + suffix for f in tuple(walk.files)))
        return walk.closure()

    def tablegen_closure(self, source: str, search: Search) -> Closure:
        """What TableGen may open for `source`: of `search` the `directory`, `include` (its `-I`) and
        `mentioned` count.

        It looks in its working folder first, and never beside the file that includes.
        """
        places = _Places(self, search)
        found = _Found()
        places.command_line(found)
        walk = _Walk(self, scan_td, places.look_up_td, self._memory("td", search))
        walk.add(found, "the command line")
        walk.read([self._place("", source, found)[0]])
        return walk.closure()

    def _memory(self, language: str, search: Search) -> dict[str, _Found]:
        # What one file leads to is the same for all edges that search the same folders.
        folders = replace(search, forced=(), mentioned=(), defines=())
        return self._found.setdefault((language, folders), {})

    def _scan(self, scan: Callable[[bytes], Any], path: str) -> Any:
        # None where the content isn't known: that can change, so it isn't remembered.
        key = (scan.__name__, path)
        if key not in self._includes:
            content = self._read(path)
            if content is None:
                return None
            self._includes[key] = self._scans.of(scan, content)
        return self._includes[key]

    def _is_outside(self, path: str) -> bool:
        return path.startswith(("/", "../")) or any(
            path == folder or path.startswith(f"{folder}/") for folder in self._outside
        )

    def _in_root(self, path: str) -> str | None:
        """An absolute path that is in the root, relative to it."""
        for root in self._roots:
            if path == root or path.startswith(f"{root}/"):
                return path[len(root) + 1 :]
        return None

    def _place(self, folder: str, path: str, into: _Found) -> tuple[str, bool]:
        """`path` as seen from `folder`, normal; and whether all folders that it leaves exist."""
        in_root = self._in_root(path)
        if in_root is not None:
            path = in_root
        elif not path.startswith("/"):
            path = f"{folder}/{path}" if folder else path
        parts: list[str] = []
        exists = True
        for part in path.split("/"):
            if part in ("", "."):
                continue
            if part != "..":
                parts.append(part)
                continue
            if path.startswith("/"):
                del parts[-1:]
            elif not parts or parts[-1] == "..":
                parts.append("..")
            else:
                left = "/".join(parts)
                if left in self._folders:
                    into.folders.add(left)
                elif not self._is_outside(left):
                    exists = False
                parts.pop()
        return ("/" if path.startswith("/") else "") + "/".join(parts), exists

    def _first(self, folders: Sequence[str], item: Include, into: _Found) -> None:
        """Adds the file that a search of `folders` ends with. Where an earlier one may have it, or
        may be no part of the search, the search goes on. NEXT takes all: where it starts depends on
        how the file that has it was found."""
        hit = maybe = False
        if item.path.startswith("/") or self._in_root(item.path) is not None:
            folders = [""]
        for index, folder in enumerate(folders):
            path, certain = self._place(folder, item.path, into)
            if path in self._files:
                hit = True
                scanned = item.kind in (INCLUDE, NEXT) and not self._is_outside(path)
                (into.read if scanned else into.only_opened).add(path)
                # Compilers drop the earlier of two, if the later is a system folder.
                if certain and item.kind != NEXT and folder not in folders[index + 1 :]:
                    return
            elif self._is_outside(path):
                maybe = True
        if not hit and not maybe and item.form == QUOTE and item.kind == INCLUDE:
            into.missing.append(item.spelled)


class _Places:
    """A Search, made ready: where each form of a directive is looked for."""

    def __init__(self, resolver: Resolver, search: Search) -> None:
        self._resolver = resolver
        self._search = search
        self.found = _Found()

        def dirs(*paths: str) -> list[str]:
            return [resolver._place("", path, self.found)[0] for path in paths]

        self._directory = resolver._place("", search.directory, self.found)[0]
        self._angle = dirs(*search.include, *search.system, *search.after)
        self._quote = dirs(*search.quote) + self._angle
        self._working = [self._directory, *dirs(*search.include)]
        self._embed = dirs(*search.embed)
        self._frameworks = dirs(*search.frameworks)

    def command_line(self, into: _Found) -> None:
        """Adds what the command line itself makes the compiler open."""
        into.folders |= self.found.folders
        for path in self._search.forced:
            for name in (path, path + ".gch", path + ".pch"):
                item = Include(name, QUOTE, INCLUDE if name == path else PROBE)
                self._resolver._first([self._directory, *self._quote], item, into)
        for path in self._search.mentioned:
            item = Include(path, QUOTE, PROBE)
            self._resolver._first([""], item, into)

    def look_up_td(self, path: str, item: Include, into: _Found) -> None:
        """As `look_up`, for TableGen."""
        self._resolver._first(self._working, item, into)

    def look_up(self, path: str, item: Include, into: _Found) -> None:
        """Adds what `item`, a directive in the file `path`, may open."""
        if item.form == MACRO:
            into.macros.append(item)
            return
        # From a file that was found for quotes, `#include_next <x.h>` goes on in their folders.
        quoted = item.form == QUOTE or item.kind == NEXT
        beside = [path.rpartition("/")[0]] if quoted else []
        if item.kind == ASSEMBLE:
            folders = self._working
        elif item.kind == EMBED:
            folders = beside + self._embed
        else:
            folders = beside + (self._quote if quoted else self._angle)
        self._resolver._first(folders, item, into)
        framework, slash, header = item.path.partition("/")
        if slash and self._frameworks:
            for place in ("Headers", "PrivateHeaders"):
                inner = Include(f"{framework}.framework/{place}/{header}", ANGLE, NEXT)
                self._resolver._first(self._frameworks, inner, into)


class _Walk:
    """From file to file, until nothing new is found."""

    def __init__(
        self,
        resolver: Resolver,
        scan: Callable[[bytes], Includes],
        look_up: Callable[[str, Include, _Found], None],
        memory: dict[str, _Found],
    ) -> None:
        self._resolver = resolver
        self._scan = scan
        self._look_up = look_up
        self._memory = memory
        self._todo: list[str] = []
        self._scanned: set[str] = set()
        self.files: set[str] = set()
        self._unread: set[str] = set()
        self._folders: set[str] = set()
        self._missing: set[tuple[str, str]] = set()
        self._macros: set[tuple[str, Include]] = set()
        self._unknown: set[tuple[str, str]] = set()

    def add(self, found: _Found, where: str) -> None:
        """Takes in what the file `where` leads to; `read` follows it."""
        self.files |= found.read
        self.files |= found.only_opened
        self._folders |= found.folders
        self._missing.update((where, spelled) for spelled in found.missing)
        self._macros.update((where, item) for item in found.macros)
        self._todo += found.read - self._scanned

    def read(self, paths: Sequence[str] = ()) -> None:
        """Follows all that is found from `paths`, and from what was added."""
        self._todo += paths
        while self._todo:
            path = self._todo.pop()
            if path in self._scanned or self._resolver._is_outside(path):
                continue
            self._scanned.add(path)
            self.files.add(path)
            found = self._memory.get(path)
            if found is None:
                includes = self._resolver._scan(self._scan, path)
                if includes is None:
                    self._unread.add(path)
                    continue
                found = _Found()
                for item in includes:
                    self._look_up(path, item, found)
                self._memory[path] = found
            self.add(found, path)

    def resolve_macros(self, places: _Places, defines: Sequence[str]) -> None:
        """Follows each `#include MACRO` to all that the files found so far, or the command line,
        define it to be; what that includes may define more."""
        done: set[tuple[str, Include]] = set()
        while self._macros:
            self._unknown.clear()
            known = self._definitions(defines)
            todo: list[tuple[str, Include]] = []
            for path, item in sorted(self._macros, key=lambda pair: (pair[0], pair[1].spelled)):
                meant, certain = _expand(item.path, known)
                if not certain:
                    self._unknown.add((path, item.spelled))
                todo += [(path, Include(m.path, m.form, item.kind)) for m in meant]
            todo = [pair for pair in todo if pair not in done]
            if not todo:
                return
            done.update(todo)
            for path, item in todo:
                found = _Found()
                places.look_up(path, item, found)
                self.add(found, path)
            self.read()

    def _definitions(self, defines: Sequence[str]) -> dict[str, list[Include | None]]:
        known: dict[str, list[Include | None]] = {}
        for define in defines:
            name, _, body = define.partition("=")
            name, function, _ = name.partition("(")
            known.setdefault(name, []).append(
                None if function else _meaning(body.encode("utf-8", "surrogateescape"))
            )
        for path in self._scanned - self._unread:
            for name, bodies in (self._resolver._scan(scan_definitions, path) or {}).items():
                known.setdefault(name, []).extend(bodies)
        return known

    def closure(self) -> Closure:
        return Closure(
            files=frozenset(self.files),
            unread=frozenset(self._unread),
            folders=frozenset(self._folders),
            missing=tuple(sorted(self._missing)),
            unknown=tuple(sorted(self._unknown)),
        )


# The file that is read anyhow.
_OWN_NAMES = ("__FILE__", "__BASE_FILE__")


def _expand(
    tokens: str, known: Mapping[str, Sequence[Include | None]]
) -> tuple[set[Include], bool]:
    """The files that `tokens` may stand for, and whether those are all."""
    found: set[Include] = set()
    certain = True
    todo = [tokens]
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name in seen or name in _OWN_NAMES:
            continue
        seen.add(name)
        if name not in known:
            certain = False
        for meant in known.get(name, ()):
            if meant is None:
                certain = False
            elif meant.form == MACRO:
                todo.append(meant.path)
            else:
                found.add(meant)
                # Between brackets macros are replaced.
                if meant.form == ANGLE and any(w in known for w in re.findall(r"\w+", meant.path)):
                    certain = False
    return found, certain
