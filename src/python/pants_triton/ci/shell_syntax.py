"""The grammar of shell, as far as workflows use it.

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

import re
from dataclasses import dataclass
from typing import Iterator, Union

_MOST_DEPTH = 40


class ShellError(ValueError):
    """The text is not shell that is understood here.

    :param line: where, from 1.
    """

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


# --- the syntax tree -----------------------------------------------------------------------------


@dataclass(frozen=True)
class TextPart:
    text: str
    quoted: bool


@dataclass(frozen=True)
class VariablePart:
    name: str
    text: str
    quoted: bool
    default: "WordSource | None" = None


@dataclass(frozen=True)
class OpaquePart:
    """What has a value that isn't followed; `script` are commands that are run to make it."""

    text: str
    script: "tuple[Node, ...]" = ()


@dataclass(frozen=True)
class WordSource:
    parts: tuple[Union[TextPart, VariablePart, OpaquePart], ...]
    text: str

    def bare(self) -> str | None:
        """The text of a word without any quote or expansion."""
        if (
            len(self.parts) == 1
            and isinstance(self.parts[0], TextPart)
            and not self.parts[0].quoted
        ):
            return self.parts[0].text
        return None


@dataclass(frozen=True)
class Simple:
    assignments: tuple[tuple[str, WordSource], ...]
    words: tuple[WordSource, ...]
    redirects: tuple[tuple[str, WordSource], ...]
    line: int
    text: str


@dataclass(frozen=True)
class CommandList:
    """`items` in order; an item is `(operator before it, node)`, operators `;`, `&&`, `||`."""

    items: "tuple[tuple[str, Node], ...]"
    text: str


@dataclass(frozen=True)
class Pipeline:
    nodes: "tuple[Node, ...]"
    negated: bool
    text: str


@dataclass(frozen=True)
class If:
    branches: "tuple[tuple[CommandList, CommandList], ...]"
    otherwise: CommandList | None


@dataclass(frozen=True)
class For:
    name: str
    words: tuple[WordSource, ...] | None
    body: CommandList


@dataclass(frozen=True)
class While:
    condition: CommandList
    body: CommandList
    until: bool


@dataclass(frozen=True)
class Case:
    word: WordSource
    branches: tuple[tuple[tuple[WordSource, ...], CommandList], ...]


@dataclass(frozen=True)
class Group:
    body: CommandList
    subshell: bool
    redirects: tuple[tuple[str, WordSource], ...]


@dataclass(frozen=True)
class Function:
    name: str
    body: "Node"


Node = Union[Simple, CommandList, Pipeline, If, For, While, Case, Group, Function]


def parse_script(text: str) -> CommandList:
    """The syntax tree of a script.

    :raises ShellError: it can't be read.
    """
    return _Parser(text).script()


# --- the parser ----------------------------------------------------------------------------------

_BLANKS = " \t"
_META = " \t\n;&|<>()"
_REDIRECT = re.compile(r"\d*(?:&>>|&>|<<<|<<-|<<|<>|<&|<|>>|>\||>&|>)")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)")
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

    def word(self) -> WordSource:
        start = self.i
        parts: list[TextPart | VariablePart | OpaquePart] = []
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
                parts.append(TextPart(self.s[self.i + 1 : self.i + 2] or "\\", True))
                self.i += 2
            elif c == "'":
                stop = self.s.find("'", self.i + 1)
                if stop < 0:
                    raise self.error("a quote ' is not closed")
                parts.append(TextPart(self.s[self.i + 1 : stop], True))
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
                parts.append(TextPart(self.s[self.i : stop], False))
                self.i = stop
                if self.at("(") and self.s[stop - 1] == "=":
                    # An array: NAME=(…).
                    parts.append(self.balanced())
        self.i = min(self.i, len(self.s))
        return WordSource(tuple(parts), self.s[start : self.i])

    def balanced(self) -> OpaquePart:
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
        return OpaquePart(self.s[start : self.i])

    def double_quoted(self) -> Iterator[TextPart | VariablePart | OpaquePart]:
        self.i += 1
        found: list[TextPart | VariablePart | OpaquePart] = [TextPart("", True)]
        while not self.at('"'):
            if self.end:
                raise self.error('a quote " is not closed')
            c = self.s[self.i]
            if c == "\\":
                following = self.s[self.i + 1 : self.i + 2]
                if following == "\n":
                    pass
                elif following and following in '$`"\\':
                    found.append(TextPart(following, True))
                else:
                    found.append(TextPart("\\" + following, True))
                self.i += 2
            elif c == "$":
                found.append(self.dollar(True))
            elif c == "`":
                found.append(self.backquoted())
            else:
                stop = self.i + 1
                while stop < len(self.s) and self.s[stop] not in '"\\$`':
                    stop += 1
                found.append(TextPart(self.s[self.i : stop], True))
                self.i = stop
        self.i += 1
        return iter(found)

    def dollar(self, quoted: bool) -> TextPart | VariablePart | OpaquePart:
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
            return OpaquePart(self.s[start : self.i])
        name = _NAME.match(self.s, self.i + 1)
        if name is None:
            self.i += 1
            return TextPart("$", True)
        self.i = name.end()
        return VariablePart(name[0], self.s[start : self.i], quoted)

    def braced(self, quoted: bool) -> VariablePart | OpaquePart:
        start = self.i
        name = _NAME.match(self.s, self.i + 2)
        if name is None:
            return OpaquePart(self.skip_braces(start))
        self.i = name.end()
        default: WordSource | None = None
        if self.at(":-") or self.at("-"):
            self.i += 2 if self.at(":-") else 1
            inner_start = self.i
            text = self.skip_braces(start)
            inner = text[inner_start - start : -1]
            parser = self.nested(inner)
            default = parser.word()
            if not parser.end:
                return OpaquePart(text)
        elif self.at("}"):
            self.i += 1
        else:
            return OpaquePart(self.skip_braces(start))
        return VariablePart(name[0], self.s[start : self.i], quoted, default)

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

    def arithmetic(self, opening: int) -> OpaquePart:
        start = self.i
        self.i += opening
        depth = 2
        while depth:
            if self.end:
                raise self.error("a (( is not closed")
            depth += {"(": 1, ")": -1}.get(self.s[self.i], 0)
            self.i += 1
        return OpaquePart(self.s[start : self.i])

    def substitution(self, opening: int) -> OpaquePart:
        start = self.i
        inner = _Parser(self.s, self.first_line, self.deeper())
        inner.i = self.i + opening
        script = inner.list_until(frozenset({")"}))
        if not inner.at(")"):
            raise self.error("a $( is not closed")
        self.i = inner.i + 1
        return OpaquePart(self.s[start : self.i], (script,))

    def backquoted(self) -> OpaquePart:
        start = self.i
        stop = self.i + 1
        while stop < len(self.s) and self.s[stop] != "`":
            stop += 2 if self.s[stop] == "\\" else 1
        if stop >= len(self.s):
            raise self.error("a ` is not closed")
        inner = re.sub(r"\\([$`\\])", r"\1", self.s[start + 1 : stop])
        self.i = stop + 1
        return OpaquePart(self.s[start : self.i], (self.nested(inner).script(),))

    def deeper(self) -> int:
        if self.depth >= _MOST_DEPTH:
            raise self.error("it is nested too deeply")
        return self.depth + 1

    def nested(self, text: str) -> "_Parser":
        return _Parser(text, self.line, self.deeper())

    # Commands

    def script(self) -> CommandList:
        parsed = self.list_until(frozenset())
        if not self.end:
            raise self.error(f"{self.s[self.i:self.i + 10].split()[0]!r} is not expected here")
        return parsed

    def list_until(self, terminators: frozenset[str]) -> CommandList:
        """Commands up to an operator of `terminators`, a closing keyword, or the end."""
        items: list[tuple[str, Node]] = []
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
        text = one_line(self.s[start : self.i])
        return CommandList(tuple(items), text.rstrip("; "))

    def stops(self, terminators: frozenset[str]) -> bool:
        return any(map(self.at, terminators)) or self.keyword() in _CLOSING

    def pipeline(self) -> Node:
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
        return Pipeline(tuple(nodes), negated, one_line(self.s[start : self.i]))

    def command(self) -> Node:
        self.depth = self.deeper()
        try:
            return self.command_here()
        finally:
            self.depth -= 1

    def command_here(self) -> Node:
        self.skip_blanks()
        keyword = self.keyword()
        if self.at("(("):
            line, start = self.line, self.i
            opaque = self.arithmetic(2)
            text = one_line(self.s[start : self.i])
            return Simple((), (_plain("(("), WordSource((opaque,), text)), (), line, text)
        if self.at("("):
            self.i += 1
            body = self.list_until(frozenset({")"}))
            if not self.at(")"):
                raise self.error("a ( is not closed")
            self.i += 1
            return Group(body, True, self.redirects())
        if keyword == "{":
            self.i += 1
            body = self.list_until(frozenset())
            self.expect("}", "{")
            return Group(body, False, self.redirects())
        if keyword == "if":
            return self.with_redirects(self.if_command())
        if keyword in ("while", "until"):
            self.i += 5
            condition = self.list_until(frozenset())
            self.expect("do", keyword)
            body = self.list_until(frozenset())
            self.expect("done", keyword)
            return self.with_redirects(While(condition, body, keyword == "until"))
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
            return Function(name, self.command())
        if function:
            self.i = function.end()
            self.skip_newlines()
            return Function(function[1], self.command())
        return self.simple()

    def with_redirects(self, node: Node) -> Node:
        redirects = self.redirects()
        return Group(CommandList(((";", node),), ""), False, redirects) if redirects else node

    def redirects(self) -> tuple[tuple[str, WordSource], ...]:
        found: list[tuple[str, WordSource]] = []
        while True:
            self.skip_blanks()
            redirect = self.redirect()
            if redirect is None:
                return tuple(found)
            found.append(redirect)

    def redirect(self) -> tuple[str, WordSource] | None:
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

    def simple(self) -> Node:
        line, start = self.line, self.i
        assignments: list[tuple[str, WordSource]] = []
        words: list[WordSource] = []
        redirects: list[tuple[str, WordSource]] = []
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
            match = None if words else ASSIGNMENT.match(self.s, self.i)
            word = self.word()
            stop = self.i
            if match is None:
                words.append(word)
            elif match[2] == "+=":
                assignments.append((match[1], WordSource((OpaquePart(word.text),), word.text)))
            else:
                assignments.append((match[1], _without_prefix(word, match.end() - match.start())))
        if not (assignments or words or redirects):
            shown = self.s[self.i : self.i + 1] or "the end"
            raise self.error(f"{shown!r} is not expected here")
        text = one_line(self.s[start:stop])
        return Simple(tuple(assignments), tuple(words), tuple(redirects), line, text)

    def bracket_test(self) -> Simple:
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
        text = one_line(self.s[start : self.i])
        return Simple((), tuple(words), self.redirects(), line, text)

    def if_command(self) -> If:
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
            return If(tuple(branches), otherwise)

    def for_command(self, keyword: str) -> For:
        self.i += len(keyword)
        self.skip_blanks()
        words: list[WordSource] | None = None
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
        return For(name, None if words is None else tuple(words), body)

    def case_command(self) -> Case:
        self.i += 4
        self.skip_blanks()
        word = self.word()
        self.expect("in", "case")
        branches: list[tuple[tuple[WordSource, ...], CommandList]] = []
        while True:
            self.skip_newlines()
            if self.take_keyword("esac"):
                return Case(word, tuple(branches))
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


def _plain(text: str) -> WordSource:
    return WordSource((TextPart(text, False),), text)


def _without_prefix(word: WordSource, length: int) -> WordSource:
    """The word behind its first `length` characters, which are plain text."""
    first = word.parts[0]
    assert isinstance(first, TextPart)
    rest = first.text[length:]
    parts = ((TextPart(rest, False),) if rest else ()) + word.parts[1:]
    return WordSource(parts, word.text[length:])


def one_line(text: str) -> str:
    return " ".join(text.replace("\\\n", " ").split())
