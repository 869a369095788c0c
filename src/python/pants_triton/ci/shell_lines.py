"""Read the shell of a workflow's `run:` blocks: which commands it runs, where, in which environment.

The grammar is in `shell_syntax.py`; here is what the shell does with it: variables, `cd`, branches that
can be decided.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field
from typing import Iterable, Mapping, Sequence, Union

from pants_triton.ci.shell_syntax import (
    ASSIGNMENT,
    Case,
    CommandList,
    For,
    Group,
    If,
    Node,
    OpaquePart,
    Pipeline,
    ShellError,
    Simple,
    TextPart,
    VariablePart,
    While,
    WordSource,
    one_line,
    parse_script,
)
from pants_triton.ci.unknown import Unknown

# --- what comes out ------------------------------------------------------------------------------


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


#: The checkout's root.
ROOT = Word((".",))


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
    folder: Word = ROOT
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
_MOST_DEPTH = 120
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
    functions: dict[str, Node] = field(default_factory=dict)

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
    folder: Word = ROOT,
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
    script = parse_script(text.replace("\r\n", "\n"))
    variables = {name: Word((value,)) for name, value in _RUNNER_VARIABLES.items()}
    state = _State({**variables, **environment}, {*variables, *environment}, folder)
    runner = _Runner(tuple(placeholders))
    runner.run(script, state, 0)
    return tuple(runner.commands)


class _Runner:
    def __init__(self, placeholders: tuple[Unknown, ...]) -> None:
        self.placeholders = placeholders
        self.commands: list[Command] = []

    def run(self, node: Node, state: _State, depth: int) -> None:
        if state.exited:
            return
        if depth > _MOST_DEPTH:
            raise ShellError("it calls itself too deeply", 1)
        if isinstance(node, Simple):
            self.simple(node, state, depth)
        elif isinstance(node, CommandList):
            self.and_or_list(node, state, depth)
        elif isinstance(node, Pipeline):
            # All but the last of a pipeline may fail, without `pipefail`, which GitHub sets where a
            # step names its shell. Taken as set: a test must not be seen as one that may fail.
            for part in node.nodes:
                inner = state.copy()
                inner.may_fail = inner.may_fail or node.negated
                self.run(part, inner, depth + 1)
        elif isinstance(node, Group):
            redirects = self.expand_redirects(node.redirects, state, depth)
            inner = state.copy() if node.subshell else state
            outer = inner.redirects
            inner.redirects = outer + redirects
            self.run(node.body, inner, depth + 1)
            inner.redirects = outer
        elif isinstance(node, If):
            self.branches(
                [(condition, condition.text, body) for condition, body in node.branches],
                node.otherwise,
                state,
                depth,
            )
        elif isinstance(node, For):
            self.loop_over(node, state, depth)
        elif isinstance(node, While):
            self.condition(node.condition, state, depth)
            inner = state.copy()
            word = "until" if node.until else "while"
            inner.conditions += (f"{word} {node.condition.text}",)
            self.run(node.body, inner, depth + 1)
            self.merge(state, [state.copy(), inner])
        elif isinstance(node, Case):
            self.case(node, state, depth)
        else:
            state.functions[node.name] = node.body

    def and_or_list(self, node: CommandList, state: _State, depth: int) -> None:
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

    def condition(self, node: CommandList, state: _State, depth: int) -> bool | None:
        """Run a condition's commands; True or False where it can be told, else None."""
        inner = state.copy()
        inner.may_fail = True
        self.run(node, inner, depth + 1)
        state.variables, state.folder = inner.variables, inner.folder
        if len(node.items) != 1 or not isinstance(node.items[0][1], (Simple, Pipeline)):
            return None
        item = node.items[0][1]
        negated = False
        if isinstance(item, Pipeline):
            if len(item.nodes) != 1 or not isinstance(item.nodes[0], Simple):
                return None
            negated, item = item.negated, item.nodes[0]
        words = [word for source in item.words for word in self.expand(source, state, depth)]
        decided = _decide(words)
        return decided if decided is None else decided != negated

    def branches(
        self,
        branches: Sequence[tuple[CommandList, str, CommandList]],
        otherwise: CommandList | None,
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

    def loop_over(self, node: For, state: _State, depth: int) -> None:
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

    def case(self, node: Case, state: _State, depth: int) -> None:
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

    def simple(self, node: Simple, state: _State, depth: int) -> None:
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
        match = ASSIGNMENT.match(first) if isinstance(first, str) else None
        if match is not None and isinstance(first, str):
            state.variables[match[1]] = join_words([first[match.end() :], *arg.parts[1:]])
            if exports:
                state.exported.add(match[1])
        elif exports and arg.known is not None and arg.known.isidentifier():
            state.exported.add(arg.known)

    def expand_redirects(
        self, redirects: Iterable[tuple[str, WordSource]], state: _State, depth: int
    ) -> tuple[tuple[str, Word], ...]:
        return tuple((op, self.value(target, state, depth)) for op, target in redirects)

    def value(self, source: WordSource, state: _State, depth: int) -> Word:
        """The word as a value, which isn't split."""
        return join_words(part for piece in source.parts for part in self.part(piece, state, depth))

    def expand(self, source: WordSource, state: _State, depth: int) -> list[Word]:
        """The words that a word becomes: unquoted variables are split at blanks."""
        words: list[list[str | Unknown]] = []
        open_word = False
        quoted = False
        for piece in source.parts:
            values = self.part(piece, state, depth)
            if isinstance(piece, TextPart):
                quoted = quoted or piece.quoted
            elif isinstance(piece, VariablePart):
                quoted = quoted or piece.quoted
                if not piece.quoted:
                    for value in values:
                        fields: list[str | Unknown] = [value]
                        if isinstance(value, str):
                            fields = [*re.split(r"([ \t\n]+)", value)]
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
        self, piece: TextPart | VariablePart | OpaquePart, state: _State, depth: int
    ) -> list[str | Unknown]:
        if isinstance(piece, TextPart):
            return self.text_parts(piece.text)
        if isinstance(piece, OpaquePart):
            for script in piece.script:
                inner = state.copy()
                inner.may_fail = False
                self.run(script, inner, depth + 1)
            return [Unknown(one_line(self.shown(piece.text)))]
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


def _text_of(node: Node) -> str:
    return node.text if isinstance(node, (Simple, CommandList, Pipeline)) else "what is before it"


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
