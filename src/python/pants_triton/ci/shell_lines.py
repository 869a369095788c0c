"""Read the shell of a workflow's `run:` blocks: which commands it runs, where, in which environment.

A parser of our own, because what exists does not fit: bashlex is GPL-licensed, which a backend that
others load must not be, and the wheels of tree-sitter's Bash grammar that still run on CPython 3.9
are no longer kept up; both would have to stand beside Pants in every checkout that uses the backend.
`shlex` splits words, but loses quoting, and knows neither lists, `if`, substitutions nor here-documents.
What matters here is less the grammar than what the shell *does* with it (variables, `cd`, branches
that can be decided), and no library has that.

The grammar is that of POSIX's "Shell Command Language" with what Bash adds and workflows use (`[[`,
`((`, `<<<`, arrays and process substitution as opaque words). What it does not know is a `ShellError`,
never a guess: callers report the block as not understood.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field
from typing import Iterable, Iterator, Mapping, Sequence, Union

from pants_triton.ci.unknown import Unknown

# --- what comes out ------------------------------------------------------------------------------


class ShellError(ValueError):
    """The text is not shell that is understood here.

    :param line: where, from 1.
    """

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Word:
    """A word after all expansions that can be done.

    :param parts: text and what can't be told, in order; no two texts beside each other.
    """

    parts: tuple[Union[str, Unknown], ...]

    @property
    def text(self) -> str:
        """For people: what is unknown stands as in the source."""
        return "".join(map(str, self.parts))

    @property
    def known(self) -> str | None:
        """The text, or None where a part of it is unknown."""
        if any(isinstance(part, Unknown) for part in self.parts):
            return None
        return self.text

    @property
    def glob(self) -> str:
        """The text with `*` for each unknown part."""
        return "".join(part if isinstance(part, str) else "*" for part in self.parts)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Command:
    """One simple command as it would be run.

    :param words: the program and its arguments.
    :param environment: all variables that it finds set by the workflow, by name.
    :param folder: the working folder, from the checkout's root (`.`); absolute where outside.
    :param conditions: the conditions under which it runs that can't be decided, as source text.
    :param may_fail: whether the script goes on and passes where it fails.
    :param redirects: operators and targets, such as `(">>", /github/env)`.
    :param line: in the script, from 1.
    :param text: its source, on one line.
    """

    words: tuple[Word, ...]
    environment: tuple[tuple[str, Word], ...] = ()
    folder: Word = Word((".",))
    conditions: tuple[str, ...] = ()
    may_fail: bool = False
    redirects: tuple[tuple[str, Word], ...] = ()
    line: int = 1
    text: str = ""

    @property
    def variables(self) -> Mapping[str, Word]:
        return dict(self.environment)


#: Where the runner's own variables lead: the checkout, and the files that steps write.
WORKSPACE = "/github/workspace"
GITHUB_ENV = "/github/env"
GITHUB_OUTPUT = "/github/output"
GITHUB_PATH = "/github/path"
_RUNNER_VARIABLES = {
    "GITHUB_WORKSPACE": WORKSPACE,
    "GITHUB_ENV": GITHUB_ENV,
    "GITHUB_OUTPUT": GITHUB_OUTPUT,
    "GITHUB_PATH": GITHUB_PATH,
}

# Loops over words that are known are unrolled, so that each round has its own command; this and the
# depth keep a hostile file from taking all time there is.
_MOST_ROUNDS = 64
_MOST_COMMANDS = 5000
_MOST_DEPTH = 40
_MOST_WORD = 100_000

#: The first of the characters that stand in a script for what was unknown when it was written:
#: `chr(PLACEHOLDER + i)` is the i-th of `run_script`'s `placeholders`. From Unicode's private use area.
PLACEHOLDER = 0xE000
_PLACEHOLDERS = range(PLACEHOLDER, 0xF900)


def join_words(parts: Iterable[str | Unknown]) -> Word:
    """A word of these parts, with texts beside each other joined."""
    joined: list[str | Unknown] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return Word(tuple(joined))


def path_from(folder: Word, path: Word) -> Word:
    """`path` as seen from the checkout's root, if one is in `folder`; normalised as text.

    What is unknown counts as one name, so that `build/$(ls build)/..` is `build`.
    """
    if path.parts[:1] and isinstance(path.parts[0], str) and path.parts[0][:1] in ("/", "~"):
        joined: list[str | Unknown] = [*path.parts]
    else:
        joined = [*folder.parts, "/", *path.parts]
    absolute = bool(joined) and isinstance(joined[0], str) and joined[0].startswith("/")
    names: list[list[str | Unknown]] = [[]]
    for part in joined:
        if isinstance(part, Unknown):
            names[-1].append(part)
            continue
        first, *more = part.split("/")
        names[-1].append(first)
        names.extend([name] for name in more)
    kept: list[Word] = []
    for name in map(join_words, names):
        if name.parts in ((), (".",)):
            continue
        if name.parts == ("..",) and kept and kept[-1].parts != ("..",):
            kept.pop()
        elif not (name.parts == ("..",) and absolute):
            kept.append(name)
    workspace = [Word((name,)) for name in WORKSPACE.strip("/").split("/")]
    if absolute and kept[: len(workspace)] == workspace:
        kept, absolute = kept[len(workspace) :], False
    separated: list[str | Unknown] = ["/"] if absolute else []
    for i, name in enumerate(kept):
        separated += ["/"] if i else []
        separated += name.parts
    return join_words(separated) if separated else Word((".",))


# --- the syntax tree -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Text:
    text: str
    quoted: bool


@dataclass(frozen=True)
class _Variable:
    name: str
    text: str
    quoted: bool
    default: "_Source | None" = None


@dataclass(frozen=True)
class _Opaque:
    """What has a value that isn't followed; `script` are commands that are run to make it."""

    text: str
    script: "tuple[_Node, ...]" = ()


@dataclass(frozen=True)
class _Source:
    parts: tuple[Union[_Text, _Variable, _Opaque], ...]
    text: str

    def bare(self) -> str | None:
        """The text of a word without any quote or expansion."""
        if len(self.parts) == 1 and isinstance(self.parts[0], _Text) and not self.parts[0].quoted:
            return self.parts[0].text
        return None


@dataclass(frozen=True)
class _Simple:
    assignments: tuple[tuple[str, _Source], ...]
    words: tuple[_Source, ...]
    redirects: tuple[tuple[str, _Source], ...]
    line: int
    text: str


@dataclass(frozen=True)
class _List:
    """`items` in order; an item is `(operator before it, node)`, operators `;`, `&&`, `||`."""

    items: "tuple[tuple[str, _Node], ...]"
    text: str


@dataclass(frozen=True)
class _Pipeline:
    nodes: "tuple[_Node, ...]"
    negated: bool
    text: str


@dataclass(frozen=True)
class _If:
    branches: "tuple[tuple[_List, _List], ...]"
    otherwise: _List | None


@dataclass(frozen=True)
class _For:
    name: str
    words: tuple[_Source, ...] | None
    body: _List


@dataclass(frozen=True)
class _While:
    condition: _List
    body: _List
    until: bool


@dataclass(frozen=True)
class _Case:
    word: _Source
    branches: tuple[tuple[tuple[_Source, ...], _List], ...]


@dataclass(frozen=True)
class _Group:
    body: _List
    subshell: bool
    redirects: tuple[tuple[str, _Source], ...]


@dataclass(frozen=True)
class _Function:
    name: str
    body: "_Node"


_Node = Union[_Simple, _List, _Pipeline, _If, _For, _While, _Case, _Group, _Function]

# --- the parser ----------------------------------------------------------------------------------

_BLANKS = " \t"
_META = " \t\n;&|<>()"
_REDIRECT = re.compile(r"\d*(?:&>>|&>|<<<|<<-|<<|<>|<&|<|>>|>\||>&|>)")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_FUNCTION = re.compile(r"([A-Za-z_][\w.:-]*)[ \t]*\([ \t]*\)")
_CLOSING = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
_COMPOUND_END = frozenset({";;", ";&", ";;&", ")"})


class _Parser:
    def __init__(self, text: str, first_line: int = 1, depth: int = 0) -> None:
        self.s = text
        self.i = 0
        self.first_line = first_line
        self.depth = depth
        # Here-documents whose bodies come behind the next line break: terminator, is `<<-`.
        self.pending: list[tuple[str, bool]] = []

    # Reading characters

    @property
    def line(self) -> int:
        return self.first_line + self.s.count("\n", 0, self.i)

    def error(self, message: str) -> ShellError:
        return ShellError(message, self.line)

    def at(self, text: str) -> bool:
        return self.s.startswith(text, self.i)

    @property
    def end(self) -> bool:
        return self.i >= len(self.s)

    def skip_blanks(self) -> None:
        while not self.end:
            if self.s[self.i] in _BLANKS:
                self.i += 1
            elif self.at("\\\n"):
                self.i += 2
            elif self.s[self.i] == "#":
                newline = self.s.find("\n", self.i)
                self.i = len(self.s) if newline < 0 else newline
            else:
                return

    def skip_newlines(self) -> None:
        self.skip_blanks()
        while self.at("\n"):
            self.newline()
            self.skip_blanks()

    def newline(self) -> None:
        self.i += 1
        for terminator, strip in self.pending:
            while True:
                if self.end:
                    # Bash takes the end of the file for the terminator, with a warning.
                    break
                stop = self.s.find("\n", self.i)
                stop = len(self.s) if stop < 0 else stop
                body_line = self.s[self.i : stop]
                self.i = min(stop + 1, len(self.s))
                if (body_line.lstrip("\t") if strip else body_line) == terminator:
                    break
        self.pending = []

    def keyword(self) -> str | None:
        """The unquoted word at this place, where that is a whole one of plain characters."""
        match = re.compile(r"[A-Za-z!{}\[\]]+").match(self.s, self.i)
        if match is None:
            return None
        after = self.s[match.end() : match.end() + 1]
        return match[0] if after == "" or after in _META else None

    def take_keyword(self, word: str) -> bool:
        self.skip_blanks()
        if self.keyword() == word:
            self.i += len(word)
            return True
        return False

    def expect(self, word: str, of: str) -> None:
        self.skip_newlines()
        if not self.take_keyword(word):
            raise self.error(f"`{word}` of `{of}` is missing")

    # Words

    def word(self) -> _Source:
        start = self.i
        parts: list[_Text | _Variable | _Opaque] = []
        while not self.end:
            c = self.s[self.i]
            if self.at("<(") or self.at(">("):
                if parts:
                    break
                parts.append(self.substitution(2))
            elif c in _META:
                break
            elif c == "\\":
                if self.at("\\\n"):
                    self.i += 2
                    continue
                parts.append(_Text(self.s[self.i + 1 : self.i + 2] or "\\", True))
                self.i += 2
            elif c == "'":
                stop = self.s.find("'", self.i + 1)
                if stop < 0:
                    raise self.error("a quote ' is not closed")
                parts.append(_Text(self.s[self.i + 1 : stop], True))
                self.i = stop + 1
            elif c == '"':
                parts += self.double_quoted()
            elif c == "`":
                parts.append(self.backquoted())
            elif c == "$":
                parts.append(self.dollar(False))
            else:
                stop = self.i + 1
                while stop < len(self.s) and self.s[stop] not in _META + "\\'\"`$":
                    stop += 1
                parts.append(_Text(self.s[self.i : stop], False))
                self.i = stop
                if self.at("(") and self.s[stop - 1] == "=":
                    # An array: NAME=(…).
                    parts.append(self.balanced())
        self.i = min(self.i, len(self.s))
        return _Source(tuple(parts), self.s[start : self.i])

    def balanced(self) -> _Opaque:
        start = self.i
        self.i += 1
        while not self.at(")"):
            self.skip_newlines()
            if self.end:
                raise self.error("a ( is not closed")
            if self.at(")"):
                break
            before = self.i
            self.word()
            if self.i == before:
                raise self.error(f"{self.s[self.i]!r} in an array is not understood")
        self.i += 1
        return _Opaque(self.s[start : self.i])

    def double_quoted(self) -> Iterator[_Text | _Variable | _Opaque]:
        self.i += 1
        found: list[_Text | _Variable | _Opaque] = [_Text("", True)]
        while not self.at('"'):
            if self.end:
                raise self.error('a quote " is not closed')
            c = self.s[self.i]
            if c == "\\":
                following = self.s[self.i + 1 : self.i + 2]
                if following == "\n":
                    pass
                elif following and following in '$`"\\':
                    found.append(_Text(following, True))
                else:
                    found.append(_Text("\\" + following, True))
                self.i += 2
            elif c == "$":
                found.append(self.dollar(True))
            elif c == "`":
                found.append(self.backquoted())
            else:
                stop = self.i + 1
                while stop < len(self.s) and self.s[stop] not in '"\\$`':
                    stop += 1
                found.append(_Text(self.s[self.i : stop], True))
                self.i = stop
        self.i += 1
        return iter(found)

    def dollar(self, quoted: bool) -> _Text | _Variable | _Opaque:
        start = self.i
        if self.at("$(("):
            return self.arithmetic(3)
        if self.at("$("):
            return self.substitution(2)
        if self.at("${"):
            return self.braced(quoted)
        if self.at("$'"):
            stop = self.i + 2
            while stop < len(self.s) and self.s[stop] != "'":
                stop += 2 if self.s[stop] == "\\" else 1
            if stop >= len(self.s):
                raise self.error("a quote ' is not closed")
            self.i = stop + 1
            return _Opaque(self.s[start : self.i])
        name = _NAME.match(self.s, self.i + 1)
        if name is None:
            self.i += 1
            return _Text("$", True)
        self.i = name.end()
        return _Variable(name[0], self.s[start : self.i], quoted)

    def braced(self, quoted: bool) -> _Variable | _Opaque:
        start = self.i
        name = _NAME.match(self.s, self.i + 2)
        if name is None:
            return _Opaque(self.skip_braces(start))
        self.i = name.end()
        default: _Source | None = None
        if self.at(":-") or self.at("-"):
            self.i += 2 if self.at(":-") else 1
            inner_start = self.i
            text = self.skip_braces(start)
            inner = text[inner_start - start : -1]
            parser = self.nested(inner)
            default = parser.word()
            if not parser.end:
                return _Opaque(text)
        elif self.at("}"):
            self.i += 1
        else:
            return _Opaque(self.skip_braces(start))
        return _Variable(name[0], self.s[start : self.i], quoted, default)

    def skip_braces(self, start: int) -> str:
        """Go behind the `}` that closes the `${` at `start`."""
        depth, i = 0, start
        while i < len(self.s):
            c = self.s[i]
            if c == "\\":
                i += 1
            elif self.s.startswith("${", i):
                depth += 1
                i += 1
            elif c == "}":
                depth -= 1
                if depth == 0:
                    self.i = i + 1
                    return self.s[start : self.i]
            i += 1
        raise self.error("a ${ is not closed")

    def arithmetic(self, opening: int) -> _Opaque:
        start = self.i
        self.i += opening
        depth = 2
        while depth:
            if self.end:
                raise self.error("a (( is not closed")
            depth += {"(": 1, ")": -1}.get(self.s[self.i], 0)
            self.i += 1
        return _Opaque(self.s[start : self.i])

    def substitution(self, opening: int) -> _Opaque:
        start = self.i
        inner = _Parser(self.s, self.first_line, self.deeper())
        inner.i = self.i + opening
        script = inner.list_until(frozenset({")"}))
        if not inner.at(")"):
            raise self.error("a $( is not closed")
        self.i = inner.i + 1
        return _Opaque(self.s[start : self.i], (script,))

    def backquoted(self) -> _Opaque:
        start = self.i
        stop = self.i + 1
        while stop < len(self.s) and self.s[stop] != "`":
            stop += 2 if self.s[stop] == "\\" else 1
        if stop >= len(self.s):
            raise self.error("a ` is not closed")
        inner = re.sub(r"\\([$`\\])", r"\1", self.s[start + 1 : stop])
        self.i = stop + 1
        return _Opaque(self.s[start : self.i], (self.nested(inner).script(),))

    def deeper(self) -> int:
        if self.depth >= _MOST_DEPTH:
            raise self.error("it is nested too deeply")
        return self.depth + 1

    def nested(self, text: str) -> "_Parser":
        return _Parser(text, self.line, self.deeper())

    # Commands

    def script(self) -> _List:
        parsed = self.list_until(frozenset())
        if not self.end:
            raise self.error(f"{self.s[self.i:self.i + 10].split()[0]!r} is not expected here")
        return parsed

    def list_until(self, terminators: frozenset[str]) -> _List:
        """Commands up to an operator of `terminators`, a closing keyword, or the end."""
        items: list[tuple[str, _Node]] = []
        operator = ";"
        self.skip_newlines()
        start = self.i
        while not self.end and not self.stops(terminators):
            items.append((operator, self.pipeline()))
            self.skip_blanks()
            if self.at("&&") or self.at("||"):
                operator = self.s[self.i : self.i + 2]
                self.i += 2
                self.skip_newlines()
                if self.end or self.stops(terminators):
                    raise self.error(f"a command is missing behind `{operator}`")
                continue
            if self.end or self.stops(terminators):
                break
            operator = ";"
            if self.at("\n"):
                self.newline()
            elif self.at(";") or self.at("&"):
                self.i += 1
            else:
                raise self.error(f"{self.s[self.i:self.i + 10].split()[0]!r} is not expected here")
            self.skip_newlines()
        text = _one_line(self.s[start : self.i])
        return _List(tuple(items), text.rstrip("; "))

    def stops(self, terminators: frozenset[str]) -> bool:
        return any(map(self.at, terminators)) or self.keyword() in _CLOSING

    def pipeline(self) -> _Node:
        start = self.i
        negated = False
        while self.take_keyword("!"):
            negated = not negated
        while self.take_keyword("time"):
            self.skip_blanks()
            if self.at("-p "):
                self.i += 2
        nodes = [self.command()]
        self.skip_blanks()
        while self.at("|") and not self.at("||"):
            self.i += 2 if self.at("|&") else 1
            self.skip_newlines()
            nodes.append(self.command())
            self.skip_blanks()
        if len(nodes) == 1 and not negated:
            return nodes[0]
        return _Pipeline(tuple(nodes), negated, _one_line(self.s[start : self.i]))

    def command(self) -> _Node:
        self.depth = self.deeper()
        try:
            return self.command_here()
        finally:
            self.depth -= 1

    def command_here(self) -> _Node:
        self.skip_blanks()
        keyword = self.keyword()
        if self.at("(("):
            line, start = self.line, self.i
            opaque = self.arithmetic(2)
            text = _one_line(self.s[start : self.i])
            return _Simple((), (_plain("(("), _Source((opaque,), text)), (), line, text)
        if self.at("("):
            self.i += 1
            body = self.list_until(frozenset({")"}))
            if not self.at(")"):
                raise self.error("a ( is not closed")
            self.i += 1
            return _Group(body, True, self.redirects())
        if keyword == "{":
            self.i += 1
            body = self.list_until(frozenset())
            self.expect("}", "{")
            return _Group(body, False, self.redirects())
        if keyword == "if":
            return self.with_redirects(self.if_command())
        if keyword in ("while", "until"):
            self.i += 5
            condition = self.list_until(frozenset())
            self.expect("do", keyword)
            body = self.list_until(frozenset())
            self.expect("done", keyword)
            return self.with_redirects(_While(condition, body, keyword == "until"))
        if keyword in ("for", "select"):
            return self.with_redirects(self.for_command(keyword))
        if keyword == "case":
            return self.with_redirects(self.case_command())
        if keyword == "[[":
            return self.bracket_test()
        function = _FUNCTION.match(self.s, self.i)
        if keyword == "function":
            self.i += len("function")
            self.skip_blanks()
            name = self.word().text
            self.skip_blanks()
            if self.at("("):
                self.i += 1
                self.skip_blanks()
                if not self.at(")"):
                    raise self.error("a function has no parameters between its ( and )")
                self.i += 1
            self.skip_newlines()
            return _Function(name, self.command())
        if function:
            self.i = function.end()
            self.skip_newlines()
            return _Function(function[1], self.command())
        return self.simple()

    def with_redirects(self, node: _Node) -> _Node:
        redirects = self.redirects()
        return _Group(_List(((";", node),), ""), False, redirects) if redirects else node

    def redirects(self) -> tuple[tuple[str, _Source], ...]:
        found = []
        while True:
            self.skip_blanks()
            redirect = self.redirect()
            if redirect is None:
                return tuple(found)
            found.append(redirect)

    def redirect(self) -> tuple[str, _Source] | None:
        match = _REDIRECT.match(self.s, self.i)
        if match is None or self.at("<(") or self.at(">("):
            return None
        operator = match[0].lstrip("0123456789")
        self.i = match.end()
        self.skip_blanks()
        target = self.word()
        if not target.parts:
            raise self.error(f"the target of `{operator}` is missing")
        if operator in ("<<", "<<-"):
            terminator = "".join(p.text for p in target.parts)
            self.pending.append((terminator, operator == "<<-"))
        return operator, target

    def simple(self) -> _Node:
        line, start = self.line, self.i
        assignments: list[tuple[str, _Source]] = []
        words: list[_Source] = []
        redirects: list[tuple[str, _Source]] = []
        stop = self.i
        while True:
            self.skip_blanks()
            redirect = self.redirect()
            if redirect is not None:
                redirects.append(redirect)
                stop = self.i
                continue
            if self.end or (self.s[self.i] in _META and not (self.at("<(") or self.at(">("))):
                break
            match = None if words else _ASSIGNMENT.match(self.s, self.i)
            word = self.word()
            stop = self.i
            if match is None:
                words.append(word)
            elif match[2] == "+=":
                assignments.append((match[1], _Source((_Opaque(word.text),), word.text)))
            else:
                assignments.append((match[1], _without_prefix(word, match.end() - match.start())))
        if not (assignments or words or redirects):
            shown = self.s[self.i : self.i + 1] or "the end"
            raise self.error(f"{shown!r} is not expected here")
        text = _one_line(self.s[start:stop])
        return _Simple(tuple(assignments), tuple(words), tuple(redirects), line, text)

    def bracket_test(self) -> _Simple:
        line, start = self.line, self.i
        self.i += 2
        words = [_plain("[[")]
        while True:
            self.skip_newlines()
            if self.end:
                raise self.error("a [[ is not closed")
            if self.keyword() == "]]":
                self.i += 2
                words.append(_plain("]]"))
                break
            operator = re.compile(r"&&|\|\||[<>()&|;]").match(self.s, self.i)
            if operator:
                self.i = operator.end()
                words.append(_plain(operator[0]))
            else:
                words.append(self.word())
        text = _one_line(self.s[start : self.i])
        return _Simple((), tuple(words), self.redirects(), line, text)

    def if_command(self) -> _If:
        self.i += 2
        branches = []
        otherwise = None
        while True:
            condition = self.list_until(frozenset())
            if not condition.items:
                raise self.error("`if` has no condition")
            self.expect("then", "if")
            branches.append((condition, self.list_until(frozenset())))
            self.skip_newlines()
            if self.take_keyword("elif"):
                continue
            if self.take_keyword("else"):
                otherwise = self.list_until(frozenset())
            self.expect("fi", "if")
            return _If(tuple(branches), otherwise)

    def for_command(self, keyword: str) -> _For:
        self.i += len(keyword)
        self.skip_blanks()
        words: list[_Source] | None = None
        if self.at("(("):
            name = ""
            self.arithmetic(2)
        else:
            name = self.word().text
            if not name.isidentifier():
                raise self.error(f"the variable of `{keyword}` is missing")
            self.skip_newlines()
            if self.take_keyword("in"):
                words = []
                self.skip_blanks()
                while not self.end and self.s[self.i] not in _META:
                    words.append(self.word())
                    self.skip_blanks()
        self.skip_blanks()
        if self.at(";"):
            self.i += 1
        self.expect("do", keyword)
        body = self.list_until(frozenset())
        self.expect("done", keyword)
        return _For(name, None if words is None else tuple(words), body)

    def case_command(self) -> _Case:
        self.i += 4
        self.skip_blanks()
        word = self.word()
        self.expect("in", "case")
        branches = []
        while True:
            self.skip_newlines()
            if self.take_keyword("esac"):
                return _Case(word, tuple(branches))
            if self.end:
                raise self.error("`esac` of `case` is missing")
            if self.at("("):
                self.i += 1
            patterns = []
            while True:
                self.skip_blanks()
                pattern = self.word()
                if not pattern.parts:
                    raise self.error("a pattern of `case` is missing")
                patterns.append(pattern)
                self.skip_blanks()
                if not self.at("|"):
                    break
                self.i += 1
            if not self.at(")"):
                raise self.error("the ) of a pattern of `case` is missing")
            self.i += 1
            body = self.list_until(_COMPOUND_END)
            branches.append((tuple(patterns), body))
            self.skip_newlines()
            for ending in (";;&", ";;", ";&"):
                if self.at(ending):
                    self.i += len(ending)
                    break


def _plain(text: str) -> _Source:
    return _Source((_Text(text, False),), text)


def _without_prefix(word: _Source, length: int) -> _Source:
    """The word behind its first `length` characters, which are plain text."""
    first = word.parts[0]
    assert isinstance(first, _Text)
    rest = first.text[length:]
    parts = ((_Text(rest, False),) if rest else ()) + word.parts[1:]
    return _Source(parts, word.text[length:])


def _one_line(text: str) -> str:
    return " ".join(text.replace("\\\n", " ").split())


# --- what the shell does -------------------------------------------------------------------------


@dataclass
class _State:
    variables: dict[str, Word]
    exported: set[str]
    folder: Word
    conditions: tuple[str, ...] = ()
    may_fail: bool = False
    redirects: tuple[tuple[str, Word], ...] = ()
    # `set -e`, as GitHub starts Bash.
    errexit: bool = True
    exited: bool = False
    functions: dict[str, _Node] = field(default_factory=dict)

    def copy(self) -> "_State":
        return _State(
            dict(self.variables),
            set(self.exported),
            self.folder,
            self.conditions,
            self.may_fail,
            self.redirects,
            self.errexit,
            self.exited,
            dict(self.functions),
        )


def run_script(
    text: str,
    *,
    environment: Mapping[str, Word],
    folder: Word = Word((".",)),
    placeholders: Sequence[Unknown] = (),
) -> tuple[Command, ...]:
    """The simple commands of a script in their order, each as it would be run.

    Branches whose condition can be decided are taken or left out; of others, all are followed, and
    their commands carry the condition. What `$(…)` runs is among the commands too.

    :param environment: the variables that the script finds set.
    :param folder: where it starts, from the checkout's root.
    :param placeholders: what the characters from `PLACEHOLDER` on stand for.
    :raises ShellError: the text is not shell that is understood here.
    """
    script = _Parser(text.replace("\r\n", "\n")).script()
    variables = {name: Word((value,)) for name, value in _RUNNER_VARIABLES.items()}
    state = _State({**variables, **environment}, {*variables, *environment}, folder)
    runner = _Runner(tuple(placeholders))
    runner.run(script, state, 0)
    return tuple(runner.commands)


class _Runner:
    def __init__(self, placeholders: tuple[Unknown, ...]) -> None:
        self.placeholders = placeholders
        self.commands: list[Command] = []

    def run(self, node: _Node, state: _State, depth: int) -> None:
        if state.exited:
            return
        if depth > _MOST_DEPTH * 3:
            raise ShellError("it calls itself too deeply", 1)
        if isinstance(node, _Simple):
            self.simple(node, state, depth)
        elif isinstance(node, _List):
            self.list(node, state, depth)
        elif isinstance(node, _Pipeline):
            # All but the last of a pipeline may fail, without `pipefail`, which GitHub sets where a
            # step names its shell. Taken as set: a test must not be seen as one that may fail.
            for part in node.nodes:
                inner = state.copy()
                inner.may_fail = inner.may_fail or node.negated
                self.run(part, inner, depth + 1)
        elif isinstance(node, _Group):
            redirects = self.expand_redirects(node.redirects, state, depth)
            inner = state.copy() if node.subshell else state
            outer = inner.redirects
            inner.redirects = outer + redirects
            self.run(node.body, inner, depth + 1)
            inner.redirects = outer
        elif isinstance(node, _If):
            self.branches(
                [(condition, condition.text, body) for condition, body in node.branches],
                node.otherwise,
                state,
                depth,
            )
        elif isinstance(node, _For):
            self.loop_over(node, state, depth)
        elif isinstance(node, _While):
            self.condition(node.condition, state, depth)
            inner = state.copy()
            word = "until" if node.until else "while"
            inner.conditions += (f"{word} {node.condition.text}",)
            self.run(node.body, inner, depth + 1)
            self.merge(state, [state.copy(), inner])
        elif isinstance(node, _Case):
            self.case(node, state, depth)
        else:
            state.functions[node.name] = node.body

    def list(self, node: _List, state: _State, depth: int) -> None:
        outer_conditions, outer_may_fail = state.conditions, state.may_fail
        items = node.items
        for i, (operator, item) in enumerate(items):
            following = items[i + 1][0] if i + 1 < len(items) else ";"
            if operator == ";":
                state.conditions, state.may_fail = outer_conditions, outer_may_fail
            # What stands before `||` is forgiven its failure, whatever then happens.
            state.may_fail = state.may_fail or following == "||" or not state.errexit
            if operator == "||":
                inner = state.copy()
                previous = items[i - 1][1]
                inner.conditions += (f"if `{_text_of(previous)}` fails",)
                inner.may_fail = outer_may_fail or following == "||"
                self.run(item, inner, depth + 1)
                if not inner.exited:
                    self.merge(state, [state.copy(), inner])
            else:
                self.run(item, state, depth + 1)
            if state.exited:
                break
        state.conditions, state.may_fail = outer_conditions, outer_may_fail

    def condition(self, node: _List, state: _State, depth: int) -> bool | None:
        """Run a condition's commands; True or False where it can be told, else None."""
        inner = state.copy()
        inner.may_fail = True
        self.run(node, inner, depth + 1)
        state.variables, state.folder = inner.variables, inner.folder
        if len(node.items) != 1 or not isinstance(node.items[0][1], (_Simple, _Pipeline)):
            return None
        item = node.items[0][1]
        negated = False
        if isinstance(item, _Pipeline):
            if len(item.nodes) != 1 or not isinstance(item.nodes[0], _Simple):
                return None
            negated, item = item.negated, item.nodes[0]
        words = [word for source in item.words for word in self.expand(source, state, depth)]
        decided = _decide(words)
        return decided if decided is None else decided != negated

    def branches(
        self,
        branches: Sequence[tuple[_List, str, _List]],
        otherwise: _List | None,
        state: _State,
        depth: int,
    ) -> None:
        ends: list[_State] = []
        refused: tuple[str, ...] = ()
        for condition, text, body in branches:
            decided = self.condition(condition, state, depth)
            if decided is False:
                continue
            inner = state.copy()
            if decided is None:
                inner.conditions += (*refused, f"if {text}")
            else:
                inner.conditions += refused
            self.run(body, inner, depth + 1)
            ends.append(inner)
            if decided:
                break
            refused += (f"if not {text}",)
        else:
            inner = state.copy()
            inner.conditions += refused
            if otherwise is not None:
                self.run(otherwise, inner, depth + 1)
            ends.append(inner)
        self.merge(state, ends)

    def merge(self, state: _State, ends: Sequence[_State]) -> None:
        """Go on in `state` with what is the same at all `ends` that do not leave the script."""
        going_on = [end for end in ends if not end.exited]
        if not going_on:
            state.exited = True
            return
        first = going_on[0]
        for end in going_on[1:]:
            if end.folder != first.folder:
                alternatives = f"({first.folder.text} or {end.folder.text})"
                first.folder = Word((Unknown(alternatives),))
            for name in {*first.variables, *end.variables}:
                if first.variables.get(name) != end.variables.get(name):
                    first.variables[name] = Word((Unknown(f"${name}"),))
            first.exported |= end.exported
            first.functions.update(end.functions)
            first.errexit = first.errexit and end.errexit
        state.variables, state.exported = first.variables, first.exported
        state.folder, state.functions = first.folder, first.functions
        state.errexit = first.errexit

    def loop_over(self, node: _For, state: _State, depth: int) -> None:
        words = [word for source in node.words or () for word in self.expand(source, state, depth)]
        known = node.words is not None and all(word.known is not None for word in words)
        if known and len(words) <= _MOST_ROUNDS:
            for word in words:
                state.variables[node.name] = word
                self.run(node.body, state, depth + 1)
            return
        inner = state.copy()
        if node.name:
            inner.variables[node.name] = Word((Unknown(f"${node.name}"),))
        self.run(node.body, inner, depth + 1)
        self.merge(state, [state.copy(), inner])

    def case(self, node: _Case, state: _State, depth: int) -> None:
        word = join_words(
            part for found in self.expand(node.word, state, depth) for part in found.parts
        )
        ends: list[_State] = []
        for patterns, body in node.branches:
            expanded = [p for source in patterns for p in self.expand(source, state, depth)]
            decided: bool | None = None
            if word.known is not None and all(p.known is not None for p in expanded):
                decided = any(fnmatch.fnmatchcase(word.known, p.known or "") for p in expanded)
            if decided is False:
                continue
            inner = state.copy()
            if decided is None:
                shown = "|".join(source.text for source in patterns)
                inner.conditions += (f"if {node.word.text} is {shown}",)
            self.run(body, inner, depth + 1)
            ends.append(inner)
            if decided:
                break
        else:
            ends.append(state.copy())
        self.merge(state, ends)

    def simple(self, node: _Simple, state: _State, depth: int) -> None:
        assigned = {name: self.value(source, state, depth) for name, source in node.assignments}
        words = [word for source in node.words for word in self.expand(source, state, depth)]
        redirects = self.expand_redirects(node.redirects, state, depth)
        if not words:
            state.variables.update(assigned)
            return
        name = words[0].known
        if name in state.functions:
            inner = state.copy()
            inner.variables.update({str(i): word for i, word in enumerate(words) if i})
            for i in range(len(words), 10):
                inner.variables[str(i)] = Word(("",))
            inner.variables.update(assigned)
            self.run(state.functions[name or ""], inner, depth + 1)
            state.variables, state.folder = inner.variables, inner.folder
            state.exited = inner.exited
            return
        if len(self.commands) >= _MOST_COMMANDS:
            raise ShellError("it runs too many commands to follow", node.line)
        exported = {n: state.variables[n] for n in state.exported if n in state.variables}
        self.commands.append(
            Command(
                words=tuple(words),
                environment=tuple(
                    sorted(
                        (n, word)
                        for n, word in {**exported, **assigned}.items()
                        if n not in _RUNNER_VARIABLES
                    )
                ),
                folder=state.folder,
                conditions=state.conditions,
                may_fail=state.may_fail,
                redirects=state.redirects + redirects,
                line=node.line,
                text=self.shown(node.text),
            )
        )
        self.builtin(name, words[1:], state)

    def builtin(self, name: str | None, args: Sequence[Word], state: _State) -> None:
        if name in ("cd", "pushd"):
            paths = [arg for arg in args if arg.text not in ("-P", "-L", "--")]
            if not paths:
                state.folder = Word(("~",))
            elif paths[0].text == "-":
                state.folder = Word((Unknown("the folder before"),))
            else:
                state.folder = path_from(state.folder, paths[0])
        elif name == "popd":
            state.folder = Word((Unknown("the folder before"),))
        elif name in ("export", "declare", "typeset", "local", "readonly"):
            exports = name == "export" or any("x" in a.text for a in args if a.text[:1] == "-")
            for arg in args:
                self.declare(arg, exports, state)
        elif name == "unset":
            for arg in args:
                state.variables.pop(arg.text, None)
                state.exported.discard(arg.text)
        elif name == "set":
            for arg in args:
                if re.fullmatch(r"[-+][a-z]*e[a-z]*", arg.text):
                    state.errexit = arg.text[0] == "-"
        elif name in ("exit", "return") or name == "exec" and args:
            state.exited = True

    def declare(self, arg: Word, exports: bool, state: _State) -> None:
        first = arg.parts[0] if arg.parts else ""
        match = _ASSIGNMENT.match(first) if isinstance(first, str) else None
        if match is not None and isinstance(first, str):
            state.variables[match[1]] = join_words([first[match.end() :], *arg.parts[1:]])
            if exports:
                state.exported.add(match[1])
        elif exports and arg.known is not None and arg.known.isidentifier():
            state.exported.add(arg.known)

    def expand_redirects(
        self, redirects: Iterable[tuple[str, _Source]], state: _State, depth: int
    ) -> tuple[tuple[str, Word], ...]:
        return tuple((op, self.value(target, state, depth)) for op, target in redirects)

    def value(self, source: _Source, state: _State, depth: int) -> Word:
        """The word as a value, which isn't split."""
        return join_words(part for piece in source.parts for part in self.part(piece, state, depth))

    def expand(self, source: _Source, state: _State, depth: int) -> list[Word]:
        """The words that a word becomes: unquoted variables are split at blanks."""
        words: list[list[str | Unknown]] = []
        open_word = False
        quoted = False
        for piece in source.parts:
            values = self.part(piece, state, depth)
            if isinstance(piece, _Text):
                quoted = quoted or piece.quoted
            elif isinstance(piece, _Variable):
                quoted = quoted or piece.quoted
                if not piece.quoted:
                    for value in values:
                        if isinstance(value, Unknown) or not value:
                            fields = [value]
                        else:
                            fields = list(re.split(r"([ \t\n]+)", value))
                        for item in fields:
                            if isinstance(item, str) and item.strip() == "" and item:
                                open_word = False
                            elif item != "":
                                if not open_word:
                                    words.append([])
                                    open_word = True
                                words[-1].append(item)
                    continue
            if not open_word and (values or quoted):
                words.append([])
                open_word = True
            if open_word:
                words[-1] += values
        return [join_words(word) for word in words if word or quoted]

    def part(
        self, piece: _Text | _Variable | _Opaque, state: _State, depth: int
    ) -> list[str | Unknown]:
        if isinstance(piece, _Text):
            return self.text_parts(piece.text)
        if isinstance(piece, _Opaque):
            for script in piece.script:
                inner = state.copy()
                inner.may_fail = False
                self.run(script, inner, depth + 1)
            return [Unknown(_one_line(self.shown(piece.text)))]
        value = state.variables.get(piece.name)
        if value is not None and (value.parts or piece.default is None):
            # Doubling in every line (X=$X$X) would fill the memory.
            if sum(len(str(part)) for part in value.parts) > _MOST_WORD:
                raise ShellError(f"the value of {piece.name} grows too long", 1)
            return list(value.parts)
        if piece.default is not None:
            return list(self.value(piece.default, state, depth + 1).parts)
        return [Unknown(piece.text)]

    def text_parts(self, text: str) -> list[str | Unknown]:
        """The text, with the placeholders in it replaced by what they stand for."""
        parts: list[str | Unknown] = [""]
        for character in text:
            index = ord(character) - PLACEHOLDER
            if ord(character) in _PLACEHOLDERS and index < len(self.placeholders):
                parts += [self.placeholders[index], ""]
            else:
                parts[-1] += character  # type: ignore[operator]
        return [part for part in parts if part != ""]

    def shown(self, text: str) -> str:
        return "".join(map(str, self.text_parts(text)))


def _text_of(node: _Node) -> str:
    return node.text if isinstance(node, (_Simple, _List, _Pipeline)) else "what is before it"


# `[ A OPERATOR B ]` of which both are known.
_INTEGER_TESTS = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}


def _decide(words: Sequence[Word]) -> bool | None:
    """The outcome of `true`, `false`, `[ … ]`, `[[ … ]]` and `test …`, where it can be told."""
    if not words:
        return None
    name = words[0].text
    if len(words) == 1:
        return {"true": True, ":": True, "false": False}.get(name)
    if name in ("[", "[["):
        if words[-1].text != {"[": "]", "[[": "]]"}[name]:
            return None
        words = words[1:-1]
    elif name == "test":
        words = words[1:]
    else:
        return None
    negated = False
    while words and words[0].text == "!":
        negated = not negated
        words = words[1:]
    decided = _decide_operands(words, patterns=name == "[[")
    return decided if decided is None else decided != negated


def _decide_operands(words: Sequence[Word], *, patterns: bool) -> bool | None:
    known = [word.known for word in words]
    if len(words) == 1:
        return None if known[0] is None else bool(known[0])
    if len(words) == 2 and words[0].text in ("-n", "-z"):
        # Unknown parts may be empty; text beside them isn't.
        filled = any(isinstance(part, str) and part for part in words[1].parts)
        if known[1] is None and not filled:
            return None
        return filled == (words[0].text == "-n")
    if len(words) != 3:
        return None
    left, operator, right = known[0], words[1].text, known[2]
    if left is None or right is None:
        return None
    if operator in ("=", "==", "!="):
        equal = fnmatch.fnmatchcase(left, right) if patterns else left == right
        return equal == (operator != "!=")
    if operator in _INTEGER_TESTS:
        try:
            return _INTEGER_TESTS[operator](int(left), int(right))
        except ValueError:
            return None
    return None
