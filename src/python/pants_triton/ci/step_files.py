"""What a step's shell leaves to later ones, in the files that the runner gives it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Sequence

from pants_triton.ci.shell_lines import Command
from pants_triton.ci.shell_words import Word, join_words, split_word
from pants_triton.ci.unknown import Unknown

# What shows a file, and what prints nothing that could get into one.
_READERS = frozenset(
    {"[", "[[", "cat", "echo", "grep", "head", "ls", "printf", "tail", "test", "wc"}
)
_SILENT = frozenset(
    {*(":", "[", "[[", "cd", "declare", "exit", "export", "false", "local", "mkdir", "return"),
     *("rm", "set", "shift", "test", "true", "unset")}
)  # fmt: skip
_SET_OUTPUT = "::set-output name="


@dataclass
class Written:
    """What a step's shell writes into a file of the runner, `NAME=VALUE` on each line.

    :param variable: the one that leads to the file.
    :param context: where expressions find the values.
    :param values: those known before, which are changed in place.
    :param any: whether something was written that isn't understood, so that any name may have a value.
    """

    variable: str
    path: str
    context: str
    values: dict[str, Any]
    any: bool = False
    used: bool = False
    # Whether what comes next may be part of a value of many lines, or of a line that isn't ended.
    inside: bool = False

    def take(self, command: Command, before: Command | None, script: str, certain: bool) -> None:
        """Note what a command writes.

        :param before: the command before it.
        :param certain: whether it runs at all.
        """
        name = command.words[0].known
        targets = [
            (operator, target)
            for operator, target in command.redirects
            if ">" in operator and (operator, target.known) != (">&", "1")
        ]
        into = [target.known == self.path for _, target in targets]
        if any(into):
            if name not in _SILENT:
                # Which of several targets is for what is printed isn't told here.
                text = _printed(command) if all(into) else None
                emptied = self.used and not all(operator.endswith(">>") for operator, _ in targets)
                self.write(text, certain, emptied)
        elif name not in _READERS:
            piped = before and f"{before.text} | {command.text}" in " ".join(script.split())
            arguments = [word.known for word in command.words[1:]]
            if before and piped and name == "tee" and arguments == ["-a", self.path]:
                text = None if before.redirects else _printed(before)
                self.write(text, certain, False)
            elif self.is_named_by(command) or (
                any(operator in ("<<", "<<-") for operator, _ in command.redirects)
                and self.variable in script
            ):
                self.forget()
        elif self.context != "env":
            # GitHub's older way, which writes no file.
            for line in split_word(_printed(command) or Word(()), "\n"):
                pair = _pair(line, _SET_OUTPUT)
                if pair:
                    self.put(*pair, certain and not targets)

    def is_named_by(self, command: Command) -> bool:
        words = (*command.words, *(target for _, target in command.redirects))
        return any(name in word.text for word in words for name in (self.path, self.variable))

    def write(self, text: Word | None, certain: bool, emptied: bool) -> None:
        if text is None or self.inside or emptied:
            self.forget()
        self.used = True
        if text is None or self.inside:
            return
        # The last of the lines isn't ended.
        *lines, rest = split_word(text, "\n")
        self.inside = bool(rest.parts)
        for line in (*lines, rest):
            pair = _pair(line, "")
            if pair:
                self.put(*pair, certain)
            elif line.parts:
                # Such as `NAME<<END`, whose value are the lines that follow.
                self.forget()
                self.inside = True

    def put(self, name: str, value: Any, certain: bool) -> None:
        text = f"{self.context}.{name}"
        before = self.values.get(name, Unknown(text) if self.any else "")
        self.values[name] = one_of([value] if certain else [before, value], text)

    def forget(self) -> None:
        self.any = True
        for name in self.values:
            self.values[name] = Unknown(f"{self.context}.{name}")


def _printed(command: Command) -> Word | None:
    """What `echo` or `printf` prints; None where that isn't told, or it is another program."""
    name = command.words[0].known
    arguments = list(command.words[1:])
    if name == "echo":
        escapes, end = False, "\n"
        while arguments and re.fullmatch("-[neE]+", arguments[0].text):
            flags = arguments.pop(0).text
            end = "" if "n" in flags else end
            escapes = (escapes or "e" in flags) and "E" not in flags
        parts = [p for i, w in enumerate(arguments) for p in ((" ",) if i else ()) + w.parts]
        if escapes:
            parts = [p.replace("\\n", "\n") if isinstance(p, str) else p for p in parts]
            if any(isinstance(part, str) and "\\" in part for part in parts):
                return None
        return join_words([*parts, end])
    if name != "printf" or not arguments or arguments[0].text.startswith("-"):
        return None
    pattern = arguments.pop(0).known
    if pattern is None:
        return None
    printed: list[str | Unknown] = []
    while True:
        for piece in re.findall(r"%[%s]|\\n|[^%\\]+|.", pattern, re.DOTALL):
            if piece == "%s":
                printed += arguments.pop(0).parts if arguments else ()
            elif piece in ("%", "\\"):
                return None
            else:
                printed.append({"%%": "%", "\\n": "\n"}.get(piece, piece))
        # The pattern is used again for what is left.
        if not arguments or "%s" not in pattern.replace("%%", ""):
            return join_words(printed)


def _pair(text: Word, prefix: str) -> tuple[str, Any] | None:
    """Name and value of `NAME=VALUE`, or of GitHub's older `::set-output name=NAME::VALUE`."""
    first = text.parts[0] if text.parts else ""
    if not isinstance(first, str) or not first.startswith(prefix):
        return None
    name, separator, rest = first[len(prefix) :].partition("::" if prefix else "=")
    if not separator or not re.fullmatch(r"[\w-]+", name):
        return None
    value = join_words([rest, *text.parts[1:]])
    return name, value.known if value.known is not None else Unknown(value.text)


def one_of(values: Sequence[Any], text: str) -> Any:
    """The one value that all are, or an Unknown with those that it may be."""
    distinct: list[Any] = []
    for value in values:
        for item in value.alternatives if isinstance(value, Unknown) else (value,):
            if item not in distinct:
                distinct.append(item)
    if any(isinstance(value, Unknown) and not value.alternatives for value in values):
        return Unknown(text)
    return distinct[0] if len(distinct) == 1 else Unknown(text, tuple(distinct))
