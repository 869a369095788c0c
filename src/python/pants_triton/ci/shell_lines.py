"""Read the shell of a workflow's `run:` blocks: which commands it runs, where, in which environment.

The grammar is in `shell_syntax.py`; here is what the shell does with it: variables, `cd`, branches that
can be decided.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from dataclasses import dataclass, field
from typing import Iterable, Mapping, Sequence

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
from pants_triton.ci.shell_words import ROOT, WORKSPACE, Word, join_words, path_from
from pants_triton.ci.unknown import Unknown

# --- what comes out ------------------------------------------------------------------------------


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


#: Where the runner's own variables lead, beside the checkout: the files that steps write.
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
_MOST_STEPS = 20_000
_MOST_DEPTH = 120
_MOST_WORD = 100_000

#: The first of the characters that stand in a script for what was unknown when it was written:
#: `chr(PLACEHOLDER + i)` is the i-th of `run_script`'s `placeholders`. From Unicode's private use area.
PLACEHOLDER = 0xE000
_PLACEHOLDERS = range(PLACEHOLDER, 0xF900)


# --- what the shell does -------------------------------------------------------------------------


@dataclass
class _State:
    """What the shell knows at one point of a script.

    :param args: the positional parameters; None where only a run knows them.
    :param folder_before, folders: for `cd -` and `popd`.
    :param conditions: those of the branches that the point is in.
    :param unless: those on which the script, the function or the round of a loop was not left before,
        each with what would have been left: `exit`, `return` or `continue`.
    :param errexit: `set -e`, as GitHub starts Bash.
    :param allexport: `set -a`; None where only a run knows.
    :param status: whether the last command succeeded, where that can be told.
    :param leaving: what is left here: `exit`, `return`, `break` or `continue`; empty where it goes on.
    :param passes: whether what is left is left without a failure.
    :param perhaps: what of `exported` is only so on some of the ways that lead here.
    :param certain: the variables that nothing unread may have changed; None if those are all.
    :param local: the variables that end with the function.
    :param functions: the bodies that each may have.
    """

    variables: dict[str, Word]
    exported: set[str]
    folder: Word
    perhaps: frozenset[str] = frozenset()
    args: tuple[Word, ...] | None = None
    folder_before: Word | None = None
    folders: tuple[Word, ...] = ()
    conditions: tuple[str, ...] = ()
    unless: tuple[tuple[str, str], ...] = ()
    may_fail: bool = False
    redirects: tuple[tuple[str, Word], ...] = ()
    errexit: bool = True
    allexport: bool | None = False
    status: bool | None = True
    leaving: str = ""
    passes: bool = True
    certain: frozenset[str] | None = None
    local: frozenset[str] = frozenset()
    functions: dict[str, tuple[Node, ...]] = field(default_factory=dict)

    def copy(self) -> "_State":
        return dataclasses.replace(
            self,
            variables=dict(self.variables),
            exported=set(self.exported),
            functions=dict(self.functions),
        )

    def go_on_as(self, other: "_State") -> None:
        """Take over what commands change. Conditions and the like are those of the place."""
        for name in _CHANGED:
            setattr(self, name, getattr(other, name))

    def go_to(self, folder: Word) -> None:
        self.folder_before, self.folder = self.folder, folder


_CHANGED = (
    *("variables", "exported", "perhaps", "folder", "args", "folder_before", "folders", "unless"),
    *("errexit", "allexport", "status", "leaving", "passes", "certain", "local", "functions"),
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
        self.steps = 0
        # For each function and loop that is running: the states in which it was left early.
        self.left: list[list[_State]] = [[]]

    def run(self, node: Node, state: _State, depth: int) -> None:
        if state.leaving:
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
            state.status = None
            for part in node.nodes:
                inner = state.copy()
                inner.may_fail = inner.may_fail or node.negated
                self.run(part, inner, depth + 1)
            if len(node.nodes) == 1 and not inner.leaving and inner.status is not None:
                state.status = inner.status != node.negated
        elif isinstance(node, Group):
            redirects = self.expand_redirects(node.redirects, state, depth)
            inner = state.copy() if node.subshell else state
            outer = inner.redirects
            inner.redirects = outer + redirects
            self.run(node.body, inner, depth + 1)
            inner.redirects = outer
            if node.subshell:
                state.status = None if inner.leaving else inner.status
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
            if state.leaving:
                return
            inner = state.copy()
            head = self.shown(f"{'until' if node.until else 'while'} {node.condition.text}")
            inner.conditions += (head,)
            self.some_rounds(node.body, head, inner, state, depth)
        elif isinstance(node, Case):
            self.case(node, state, depth)
        else:
            state.functions[node.name] = (node.body,)
            state.status = True

    def and_or_list(self, node: CommandList, state: _State, depth: int) -> None:
        outer_may_fail = state.may_fail
        items = node.items
        # Of the chain of `&&` and `||` so far: its text, and the questions that it depends on.
        text = ""
        asked: tuple[str, ...] = ()
        for i, (operator, item) in enumerate(items):
            following = items[i + 1][0] if i + 1 < len(items) else ";"
            if operator == ";":
                state.may_fail = outer_may_fail
                text, asked = "", ()
            # What stands before `||` is forgiven its failure, whatever then happens.
            state.may_fail = state.may_fail or following == "||" or not state.errexit
            if operator == ";" or state.status is (operator == "&&"):
                self.run(item, state, depth + 1)
            elif state.status is None and operator == "||":
                inner = state.copy()
                inner.may_fail = outer_may_fail or following == "||"
                self.maybe(
                    item, (f"if `{text}` fails",), f"if `{text}` succeeds", inner, state, depth
                )
            elif state.status is None:
                if _asks(items[i - 1][1]):
                    asked += (f"if {self.shown(_text_of(items[i - 1][1]))}",)
                if asked:
                    refused = f"if not {text}" if len(asked) == 1 else f"if not `{text}`"
                    self.maybe(item, asked, refused, state.copy(), state, depth)
                else:
                    self.meant(item, text, state, depth)
            if operator == "||":
                asked = ()
            text += f" {operator} " if operator != ";" else ""
            text += self.shown(_text_of(item))
            if state.leaving:
                break
        state.may_fail = outer_may_fail

    def maybe(
        self,
        node: Node,
        taken: tuple[str, ...],
        refused: str,
        inner: _State,
        state: _State,
        depth: int,
    ) -> None:
        """Run what only a run knows whether it runs.

        :param inner: a copy of `state` to run it in.
        """
        skipped = state.copy()
        skipped.conditions += (refused,)
        inner.conditions += taken
        self.run(node, inner, depth + 1)
        # Then the chain has the status that it had, and that is what skipped it.
        skipped.status = None
        self.merge(state, [skipped, inner])

    def meant(self, node: Node, text: str, state: _State, depth: int) -> None:
        """Run what stands behind `&&` and a command that does something: that is meant to succeed, and
        what follows to be run. Not so where it leaves what else there is."""
        inner, begun = state.copy(), len(self.commands)
        self.run(node, inner, depth + 1)
        if not inner.leaving:
            state.go_on_as(inner)
            return
        taken = f"if `{text}` succeeds"
        self.commands[begun:] = [
            dataclasses.replace(c, conditions=(*c.conditions, taken)) for c in self.commands[begun:]
        ]
        skipped = state.copy()
        skipped.conditions += (f"if `{text}` fails",)
        self.merge(state, [skipped, inner])

    def condition(self, node: CommandList, state: _State, depth: int) -> bool | None:
        """Run a condition's commands; True or False where it can be told, else None."""
        inner = state.copy()
        inner.may_fail = True
        self.run(node, inner, depth + 1)
        state.go_on_as(inner)
        return inner.status

    def branches(
        self,
        branches: Sequence[tuple[CommandList, str, CommandList]],
        otherwise: CommandList | None,
        state: _State,
        depth: int,
    ) -> None:
        ends: list[_State] = []
        refused: tuple[str, ...] = ()
        for condition, source, body in branches:
            text = self.shown(source)
            decided = self.condition(condition, state, depth)
            if state.leaving:
                # The condition itself, in a function.
                ends.append(state.copy())
                state.leaving = ""
                break
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
            inner.status = True
            if otherwise is not None:
                self.run(otherwise, inner, depth + 1)
            ends.append(inner)
        self.merge(state, ends)

    def merge(self, state: _State, ends: Sequence[_State]) -> None:
        """Go on in `state` with what is the same at all `ends` that do not leave what runs here.

        If some leave it, what follows runs on the conditions that all others share.
        """
        base = len(state.conditions)
        for kind in dict.fromkeys(_left(end) for end in ends if end.leaving and end.passes):
            gone = [end for end in ends if _left(end) == kind and end.passes]
            others = [end for end in ends if _left(end) != kind]
            shared = [
                condition
                for condition in (others[0].conditions[base:] if others else ())
                if all(condition in end.conditions[base:] for end in others)
            ]
            if not shared:
                shared = [_none_of(end.conditions[base:]) for end in gone]
            for end in others:
                new = [(kind, condition) for condition in shared]
                end.unless += tuple(each for each in new if each not in end.unless)
        going_on = [end for end in ends if not end.leaving]
        left = [end for end in ends if end.leaving]
        self.left[-1] += [end for end in left if end.leaving != "exit"]
        if not going_on:
            state.go_on_as(left[-1])
            state.passes = any(end.passes for end in left)
            return
        self.join(going_on)
        state.go_on_as(going_on[0])

    def join(self, ends: Sequence[_State]) -> None:
        """Let the first of some states be what is the same in all."""
        first = ends[0]
        for end in ends[1:]:
            if end.folder != first.folder:
                alternatives = f"({first.folder.text} or {end.folder.text})"
                first.folder = Word((Unknown(alternatives),))
            if end.folder_before != first.folder_before:
                first.folder_before = None
            if end.folders != first.folders:
                first.folders = ()
            for name in {*first.variables, *end.variables}:
                if first.variables.get(name) != end.variables.get(name):
                    first.variables[name] = Word((Unknown(f"${name}"),))
            if end.args != first.args:
                first.args = None
            first.perhaps |= end.perhaps | (first.exported ^ end.exported)
            first.exported |= end.exported
            for name, bodies in end.functions.items():
                others = first.functions.get(name, ())
                first.functions[name] = (*others, *(b for b in bodies if b not in others))
            first.errexit = first.errexit and end.errexit
            if end.allexport != first.allexport:
                first.allexport = None
            if first.certain is None or end.certain is None:
                first.certain = end.certain if first.certain is None else first.certain
            else:
                first.certain &= end.certain
            first.local |= end.local
            first.unless += tuple(each for each in end.unless if each not in first.unless)
            if end.status != first.status:
                first.status = None

    def whole(self, node: Node, state: _State, depth: int, leave: Sequence[str]) -> None:
        """Run the body of a function or a loop: what leaves just that goes on behind it.

        :param leave: which words do so.
        """
        self.left.append([])
        self.run(node, state, depth + 1)
        self.left_behind(state, leave)

    def left_behind(self, state: _State, leave: Sequence[str]) -> None:
        """Go on behind a function or a loop, from its end and wherever it was left early."""
        left = self.left.pop()
        # What leaves more than this, such as `return` in a loop.
        self.left[-1] += [end for end in left if end.leaving not in leave]
        ends = [end for end in left if end.leaving in leave]
        if not state.leaving or state.leaving in leave:
            ends.append(state.copy())
        for end in ends:
            end.leaving = ""
            end.unless = tuple(each for each in end.unless if each[0] not in leave)
        if ends:
            self.join(ends)
            state.go_on_as(ends[0])

    def some_rounds(self, body: Node, head: str, inner: _State, state: _State, depth: int) -> None:
        """Run the body of a loop that has any number of rounds.

        :param head: the loop's first words, for people.
        :param inner: a copy of `state` to run it in.
        """
        # What one round changes, the next one finds changed.
        self.forget(_assigned_in(body, inner.functions), inner)
        begun, again = len(self.commands), inner.copy()
        self.whole(body, inner, depth, ("break", "continue"))
        if (inner.folder, inner.certain) != (again.folder, again.certain) or (
            inner.exported - again.exported
        ):
            del self.commands[begun:]
            self.join([again, inner])
            inner = again
            self.whole(body, inner, depth, ("break", "continue"))
        skipped = state.copy()
        skipped.status = inner.status = None
        skipped.conditions += (f"if `{head}` has no round",)
        self.merge(state, [skipped, inner])

    def loop_over(self, node: For, state: _State, depth: int) -> None:
        words = [word for source in node.words or () for word in self.expand(source, state, depth)]
        known = node.words is not None and all(word.known is not None for word in words)
        if known and len(words) <= _MOST_ROUNDS:
            state.status = True
            # `break` may leave any round, and its variables with it.
            self.left.append([])
            for word in words:
                self.assign(node.name, word, state)
                self.whole(node.body, state, depth, ("continue",))
                if state.leaving:
                    break
            self.left_behind(state, ("break",))
            return
        inner = state.copy()
        self.forget([node.name] if node.name else [], inner)
        listed = " ".join(source.text for source in node.words or ())
        head = self.shown(f"for {node.name} in {listed}") if node.words is not None else "for"
        self.some_rounds(node.body, head, inner, state, depth)

    def case(self, node: Case, state: _State, depth: int) -> None:
        word = join_words(
            part for found in self.expand(node.word, state, depth) for part in found.parts
        )
        ends: list[_State] = []
        for patterns, body in node.branches:
            expanded = [p for source in patterns for p in self.expand(source, state, depth)]
            decided: bool | None = None
            if (
                word.known is not None
                and all(p.known is not None for p in expanded)
                and not self.is_doubtful((node.word, *patterns), state)
            ):
                decided = any(fnmatch.fnmatchcase(word.known, p.known or "") for p in expanded)
            if decided is False:
                continue
            inner = state.copy()
            if decided is None:
                shown = "|".join(source.text for source in patterns)
                inner.conditions += (self.shown(f"if {node.word.text} is {shown}"),)
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
            for variable, value in assigned.items():
                self.assign(variable, value, state)
            ran = any(isinstance(p, OpaquePart) for _, v in node.assignments for p in v.parts)
            state.status = None if ran else True
            return
        name = words[0].known
        if name in state.functions:
            ends = []
            for body in state.functions[name or ""]:
                end = state.copy()
                if len(state.functions[name or ""]) > 1:
                    end.conditions += (f"if that is what `{name}` is",)
                self.call(body, words[1:], assigned, redirects, end, depth)
                ends.append(end)
            self.merge(state, ends)
            return
        self.steps += 1
        if len(self.commands) >= _MOST_COMMANDS or self.steps >= _MOST_STEPS:
            raise ShellError("it runs too many commands to follow", node.line)
        exported = {
            n: Word((Unknown(f"${n}"),)) if n in state.perhaps else state.variables[n]
            for n in state.exported
            if n in state.variables
        }
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
                conditions=state.conditions + _unique(text for _, text in state.unless),
                may_fail=state.may_fail,
                redirects=state.redirects + redirects,
                line=node.line,
                text=self.shown(node.text),
            )
        )
        last = state.status
        state.status = None if self.is_doubtful(node.words, state) else _decide(words)
        self.builtin(name, words[1:], last, state)
        if name == "((":
            self.forget(_NAMES.findall(node.text), state)

    def call(
        self,
        body: Node,
        args: Sequence[Word],
        assigned: Mapping[str, Word],
        redirects: tuple[tuple[str, Word], ...],
        state: _State,
        depth: int,
    ) -> None:
        """Run a function: in this shell, with positional parameters and local variables of its own."""
        inner = state.copy()
        inner.args, inner.local = tuple(args), frozenset()
        inner.redirects += redirects
        inner.variables.update(assigned)
        inner.exported.update(assigned)
        self.whole(body, inner, depth, ("return",))
        # Bash gives back, at the end, what stood before the call and what is local.
        for name in {*assigned, *inner.local}:
            inner.variables.pop(name, None)
            inner.exported.discard(name)
            if name in state.variables:
                inner.variables[name] = state.variables[name]
            if name in state.exported:
                inner.exported.add(name)
        inner.args, inner.local = state.args, state.local
        state.go_on_as(inner)

    def builtin(
        self, name: str | None, args: Sequence[Word], last: bool | None, state: _State
    ) -> None:
        if name in ("cd", "pushd"):
            paths = [arg for arg in args if arg.text not in ("-P", "-L", "--")]
            if name == "pushd":
                state.folders += (state.folder,)
            if not paths:
                state.go_to(Word(("~",)))
            elif paths[0].text == "-":
                state.go_to(state.folder_before or _FOLDER_BEFORE)
            else:
                state.go_to(path_from(state.folder, paths[0]))
        elif name == "popd":
            *state_folders, folder = state.folders or (_FOLDER_BEFORE,)
            state.folders = tuple(state_folders)
            state.go_to(folder)
        elif name in ("export", "declare", "typeset", "local", "readonly"):
            exports = name == "export" or any("x" in a.text for a in args if a.text[:1] == "-")
            for arg in args:
                self.declare(arg, exports, state)
                if name == "local":
                    state.local |= {arg.text.partition("=")[0]}
        elif name == "unset":
            for arg in args:
                state.variables.pop(arg.text, None)
                state.exported.discard(arg.text)
        elif name == "set":
            self.set_options(args, state)
        elif name == "shift":
            if state.args is not None:
                count = args[0].known if args else "1"
                known = count is not None and count.isdecimal()
                state.args = state.args[int(count or "1") :] if known else None
        elif name in _READING:
            named = [n for arg in args if arg.text[:1] != "-" for n in _NAMES.findall(arg.text)]
            self.forget([*named, "REPLY", "MAPFILE"] if name != "let" else named, state)
        elif name in ("source", ".", "eval"):
            # It may set anything, so that no test of a variable can be decided. A virtual
            # environment's own script sets what leads to its programs, and nothing else.
            if not (args and args[0].text.endswith("bin/activate")):
                state.certain = frozenset()
        elif name in ("exit", "return") or name == "exec" and args:
            state.leaving = "return" if name == "return" else "exit"
            code = args[0].known if args and name != "exec" else None
            # `exit $status` is how a failure is passed on.
            state.passes = name == "exec" or code == "0" or not args and last is not False
            state.status = True if code == "0" else None if code is None else False
        elif name in ("break", "continue"):
            state.leaving, state.passes = name, True

    def set_options(self, args: Sequence[Word], state: _State) -> None:
        named = ""
        for i, arg in enumerate(args):
            option = arg.text
            if option == "--":
                state.args = tuple(args[i + 1 :])
                return
            sign = named or option[:1]
            # Behind `-o`, an option has its name.
            letters = {"errexit": "e", "allexport": "a"}.get(option, "") if named else option
            if re.fullmatch(r"[-+]", sign) and (named or re.fullmatch(r"[-+][a-zA-Z]+", option)):
                state.errexit = sign == "-" if "e" in letters else state.errexit
                state.allexport = sign == "-" if "a" in letters else state.allexport
            named = sign if not named and re.fullmatch(r"[-+][a-zA-Z]*o", option) else ""

    def forget(self, names: Iterable[str], state: _State) -> None:
        """Let variables have a value that only a run knows."""
        for name in names:
            state.variables[name] = Word((Unknown(f"${name}"),))

    def assign(self, name: str, value: Word, state: _State) -> None:
        state.variables[name] = value
        if state.certain is not None:
            state.certain |= {name}
        if state.allexport:
            self.export(name, state)
        elif state.allexport is None and name not in state.exported:
            state.exported.add(name)
            state.perhaps |= {name}

    def export(self, name: str, state: _State) -> None:
        state.exported.add(name)
        state.perhaps -= {name}

    def is_doubtful(self, sources: Iterable[WordSource], state: _State) -> bool:
        """Whether one of the words has a variable that may have another value by now."""
        return state.certain is not None and any(
            isinstance(part, VariablePart)
            and (
                part.name not in state.certain
                or part.default is not None
                and self.is_doubtful((part.default,), state)
            )
            for source in sources
            for part in source.parts
        )

    def declare(self, arg: Word, exports: bool, state: _State) -> None:
        first = arg.parts[0] if arg.parts else ""
        match = ASSIGNMENT.match(first) if isinstance(first, str) else None
        if match is not None and isinstance(first, str):
            self.assign(match[1], join_words([first[match.end() :], *arg.parts[1:]]), state)
            if exports:
                self.export(match[1], state)
        elif exports and arg.known is not None and arg.known.isidentifier():
            self.export(arg.known, state)

    def expand_redirects(
        self, redirects: Iterable[tuple[str, WordSource]], state: _State, depth: int
    ) -> tuple[tuple[str, Word], ...]:
        return tuple((op, self.value(target, state, depth)) for op, target in redirects)

    def value(self, source: WordSource, state: _State, depth: int) -> Word:
        """The word as a value, which isn't split."""
        return join_words(part for piece in source.parts for part in self.part(piece, state, depth))

    def expand(self, source: WordSource, state: _State, depth: int) -> list[Word]:
        """The words that a word becomes: unquoted variables are split at blanks."""
        alternatives = _brace_expansion(source)
        if len(alternatives) > 1:
            return [word for each in alternatives for word in self.expand(each, state, depth)]
        words: list[list[str | Unknown]] = []
        open_word = False
        quoted = False
        for piece in source.parts:
            if isinstance(piece, VariablePart) and piece.name in "@*" and state.args is not None:
                if piece.name == "@" or not piece.quoted:
                    # Each parameter is a word, the first and the last with what is beside them.
                    for i, arg in enumerate(state.args):
                        if i or not open_word:
                            words.append([])
                        words[-1] += arg.parts or [""]
                        open_word = True
                    continue
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
        value = _parameter(piece.name, state.args)
        if value is None:
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


#: What stands before `&&` where it depends on how things are whether the rest is to be run.
_QUESTIONS = frozenset(
    {
        *("[", "[[", "((", "test", "true", "false", ":", "command", "type", "hash", "which"),
        *("grep", "egrep", "fgrep", "pgrep", "diff", "cmp"),
    }
)
#: Builtins that give variables a value, which they name.
_READING = frozenset({"read", "mapfile", "readarray", "getopts", "let"})
_ASSIGNING = _READING | {"export", "declare", "typeset", "local", "readonly", "unset", "(("}
_NAMES = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FOLDER_BEFORE = Word((Unknown("the folder before"),))


def _asks(node: Node) -> bool:
    """Whether a command is there for its status."""
    if isinstance(node, Pipeline):
        return node.negated or _asks(node.nodes[-1])
    if isinstance(node, Simple):
        return bool(node.words) and node.words[0].bare() in _QUESTIONS
    if isinstance(node, CommandList):
        return bool(node.items) and _asks(node.items[-1][1])
    return isinstance(node, Group) and _asks(node.body)


def _parameter(name: str, args: tuple[Word, ...] | None) -> Word | None:
    """The value of a positional parameter, or None where the name is not one that is known."""
    if args is None:
        return None
    if name.isdecimal() and name != "0":
        return args[int(name) - 1] if int(name) <= len(args) else Word(())
    if name == "#":
        return Word((str(len(args)),))
    if name in ("@", "*"):
        return join_words(
            part for i, arg in enumerate(args) for part in (" " * bool(i), *arg.parts)
        )
    return None


# `{a,b}` and `{1..3}`, without others inside: those are expanded from the inside out.
_BRACES = re.compile(r"\{([^{}]*,[^{}]*|(-?\d{1,6})\.\.(-?\d{1,6}))\}")
_MOST_ALTERNATIVES = 256


def _brace_expansion(source: WordSource) -> list[WordSource]:
    """The words that Bash makes of a word with braces, before it expands anything else."""
    for i, part in enumerate(source.parts):
        match = None
        if isinstance(part, TextPart) and not part.quoted:
            match = _BRACES.search(part.text)
        if match is None or not isinstance(part, TextPart):
            continue
        if match[2] is not None:
            first, last = int(match[2]), int(match[3])
            step = 1 if first <= last else -1
            if abs(last - first) >= _MOST_ALTERNATIVES:
                continue
            texts = [str(number) for number in range(first, last + step, step)]
        else:
            texts = match[1].split(",")
        words: list[WordSource] = []
        for text in texts:
            whole = TextPart(part.text[: match.start()] + text + part.text[match.end() :], False)
            parts = (*source.parts[:i], whole, *source.parts[i + 1 :])
            words += _brace_expansion(WordSource(parts, source.text))
            if len(words) > _MOST_ALTERNATIVES:
                return [source]
        return words
    return [source]


def _assigned_in(node: Node, functions: Mapping[str, tuple[Node, ...]]) -> frozenset[str]:
    """The variables that a node may give another value, by itself or by functions that it calls."""
    names: set[str] = set()
    called: set[str] = set()

    def walk(node: Node) -> None:
        if isinstance(node, Simple):
            names.update(name for name, _ in node.assignments if not node.words)
            first = node.words[0].bare() if node.words else None
            if first in _ASSIGNING:
                for word in node.words[1:]:
                    names.update(_NAMES.findall(word.text.partition("=")[0] or ""))
            if first is not None and first in functions and first not in called:
                called.add(first)
                for body in functions[first]:
                    walk(body)
        elif isinstance(node, CommandList):
            for _, item in node.items:
                walk(item)
        elif isinstance(node, Pipeline):
            for part in node.nodes:
                walk(part)
        elif isinstance(node, If):
            for condition, body in node.branches:
                walk(condition)
                walk(body)
            if node.otherwise is not None:
                walk(node.otherwise)
        elif isinstance(node, For):
            names.add(node.name)
            walk(node.body)
        elif isinstance(node, While):
            walk(node.condition)
            walk(node.body)
        elif isinstance(node, Case):
            for _, body in node.branches:
                walk(body)
        else:
            walk(node.body)

    walk(node)
    return frozenset(names)


def _none_of(conditions: Sequence[str]) -> str:
    """The condition that not all of some hold."""
    texts = [text[len("if ") :] if text.startswith("if ") else text for text in conditions]
    return f"if not {texts[0]}" if len(texts) == 1 else f"if not ({' and '.join(texts)})"


def _left(state: _State) -> str:
    """What is left there, as `unless` names it: of a loop, `break` leaves this round as well."""
    return "continue" if state.leaving == "break" else state.leaving


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


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
