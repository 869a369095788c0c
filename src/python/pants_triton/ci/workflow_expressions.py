"""Evaluate `${{ … }}` of GitHub's workflows as far as the file tells.

The language is that of GitHub's "Evaluate expressions in workflows and actions": literals, contexts,
`!`, comparisons, `&&`, `||`, and its functions. What only a run knows is an `Unknown`, and so is what
depends on it, unless the rest decides (`false && x`).
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Mapping, Sequence

from pants_triton.ci.unknown import Unknown


class ExpressionError(ValueError):
    """The text is not an expression of GitHub's language."""


#: Looks a context up: the path, such as `("matrix", "runner", 0)`, to its value or an Unknown.
Lookup = Callable[[Sequence[Any]], Any]

_INTERPOLATION = re.compile(r"\$\{\{((?:[^'}]|'[^']*'|\}(?!\}))*)\}\}")
_TOKEN = re.compile(
    r"\s*(?:(?P<string>'(?:[^']|'')*')"
    r"|(?P<number>-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\b)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_-]*)"
    r"|(?P<operator>&&|\|\||==|!=|<=|>=|[<>!().,\[\]*]))"
)
_MOST_DEPTH = 60


def evaluate(expression: str, lookup: Lookup) -> Any:
    """The value of an expression, without its `${{ }}`.

    :raises ExpressionError: it can't be read.
    """
    return _Evaluator(_tokens(expression), expression.strip(), lookup).whole()


def evaluate_condition(text: Any, lookup: Lookup) -> Any:
    """The value of an `if:`, in which `${{ }}` may be left out; True, False or Unknown.

    :raises ExpressionError: it can't be read.
    """
    if not isinstance(text, str):
        return bool(text)
    stripped = text.strip()
    whole = _INTERPOLATION.fullmatch(stripped)
    if _INTERPOLATION.search(text) and not _INTERPOLATION.fullmatch(text):
        # GitHub makes a text of `${{ x }} && false`, which is true unless it is empty, whatever the
        # text says. So is `${{ x }}` with the end of the line that `if: |` leaves to it.
        parts = interpolate(text, lookup)
        if any(isinstance(part, str) for part in parts):
            return True
        return Unknown(" ".join(stripped.split())) if parts else False
    value = evaluate(whole[1] if whole else stripped, lookup)
    if isinstance(value, Unknown):
        return Unknown(" ".join((whole[1] if whole else stripped).split()))
    return _truth(value)


def interpolate(text: str, lookup: Lookup) -> tuple[str | Unknown, ...]:
    """The text with its `${{ }}` replaced, as parts of which some may be Unknown.

    :raises ExpressionError: one can't be read.
    """
    parts: list[str | Unknown] = []
    end = 0
    for match in _INTERPOLATION.finditer(text):
        value = evaluate(match[1], lookup)
        parts.append(text[end : match.start()])
        if _holds_unknown(value):
            text_of_it = f"${{{{ {' '.join(match[1].split())} }}}}"
            parts.append(Unknown(value.text if isinstance(value, Unknown) else text_of_it))
        else:
            parts.append(shown(value))
        end = match.end()
    return tuple(part for part in (*parts, text[end:]) if part != "")


def interpolate_value(text: Any, lookup: Lookup) -> Any:
    """A YAML value, of which a text that is one `${{ }}` becomes that expression's value.

    :raises ExpressionError: it can't be read.
    """
    if not isinstance(text, str):
        return text
    whole = _INTERPOLATION.fullmatch(text.strip())
    if whole:
        return evaluate(whole[1], lookup)
    parts = interpolate(text, lookup)
    if any(isinstance(part, Unknown) for part in parts):
        return Unknown("".join(map(str, parts)))
    return "".join(map(str, parts))


def shown(value: Any) -> str:
    """A value as GitHub writes it into a text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, (dict, list)):
        return json.dumps(value, default=str)
    return str(value)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens = []
    i = 0
    text = text.rstrip()
    while i < len(text):
        match = _TOKEN.match(text, i)
        if match is None or match.end() == i:
            raise ExpressionError(f"the expression `{text.strip()}` is not understood")
        assert match.lastgroup is not None
        tokens.append((match.lastgroup, match[match.lastgroup]))
        i = match.end()
    return tokens


def _holds_unknown(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_unknown, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_holds_unknown, value))
    return isinstance(value, Unknown)


def _truth(value: Any) -> Any:
    if isinstance(value, Unknown):
        return value
    return not (value is None or value is False or value == 0 or value == "")


class _Evaluator:
    def __init__(self, tokens: list[tuple[str, str]], text: str, lookup: Lookup) -> None:
        self.tokens = tokens
        self.text = text
        self.lookup = lookup
        self.i = 0
        self.depth = 0

    def error(self) -> ExpressionError:
        return ExpressionError(f"the expression `{self.text}` is not understood")

    def peek(self) -> str:
        if self.i < len(self.tokens) and self.tokens[self.i][0] == "operator":
            return self.tokens[self.i][1]
        return ""

    def take(self, operator: str) -> bool:
        if self.peek() == operator:
            self.i += 1
            return True
        return False

    def unknown(self) -> Unknown:
        return Unknown(f"${{{{ {' '.join(self.text.split())} }}}}")

    def whole(self) -> Any:
        value = self.either()
        if self.i != len(self.tokens):
            raise self.error()
        if isinstance(value, Unknown):
            return Unknown(self.unknown().text, value.alternatives)
        return value

    def either(self) -> Any:
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise self.error()
        value = self.both()
        while self.take("||"):
            other = self.both()
            if isinstance(value, Unknown):
                # Without its alternatives: which of both is taken isn't known.
                if _truth(other) is True and other is True:
                    value = True
                else:
                    value = self.unknown()
            elif not _truth(value):
                value = other
        self.depth -= 1
        return value

    def both(self) -> Any:
        value = self.comparison()
        while self.take("&&"):
            other = self.comparison()
            if isinstance(value, Unknown):
                value = False if _truth(other) is False else self.unknown()
            elif _truth(value):
                value = other
        return value

    def comparison(self) -> Any:
        value = self.negation()
        while self.peek() in ("==", "!=", "<", "<=", ">", ">="):
            operator = self.peek()
            self.i += 1
            value = self.compare(value, operator, self.negation())
        return value

    def compare(self, left: Any, operator: str, right: Any) -> Any:
        if any(isinstance(v, (dict, list)) and _holds_unknown(v) for v in (left, right)):
            return self.unknown()
        known = right if isinstance(left, Unknown) else left
        unknown = left if isinstance(left, Unknown) else right
        if isinstance(unknown, Unknown):
            if unknown.alternatives and not isinstance(known, Unknown):
                flipped = not isinstance(left, Unknown)
                outcomes = {
                    _compared(known, operator, a) if flipped else _compared(a, operator, known)
                    for a in unknown.alternatives
                }
                if len(outcomes) == 1:
                    return outcomes.pop()
            return self.unknown()
        return _compared(left, operator, right)

    def negation(self) -> Any:
        negated = None
        while self.take("!"):
            negated = not negated
        value = self.primary()
        if negated is None or isinstance(value, Unknown):
            return value
        return bool(_truth(value)) != negated

    def primary(self) -> Any:
        if self.take("("):
            value = self.either()
            if not self.take(")"):
                raise self.error()
            return self.dereferenced(value)
        if self.i >= len(self.tokens):
            raise self.error()
        kind, text = self.tokens[self.i]
        self.i += 1
        if kind == "string":
            return text[1:-1].replace("''", "'")
        if kind == "number":
            return int(text, 16) if "x" in text else float(text)
        if kind != "name":
            raise self.error()
        if text.lower() in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[text.lower()]
        if self.take("("):
            return self.dereferenced(self.call(text))
        return self.lookup([text, *self.members()])

    def call(self, name: str) -> Any:
        arguments = []
        if not self.take(")"):
            while True:
                arguments.append(self.either())
                if self.take(")"):
                    break
                if not self.take(","):
                    raise self.error()
        if name.lower() == "fromjson" and len(arguments) == 1:
            return self.from_json(arguments[0])
        if name.lower() == "always" and not arguments:
            return True
        function = _FUNCTIONS.get(name.lower())
        if function is None or any(map(_holds_unknown, arguments)):
            # `success()`, `failure()`, `hashFiles()`: a run's to know.
            return self.unknown()
        try:
            return function(*arguments)
        except (TypeError, ValueError, IndexError):
            raise self.error() from None

    def from_json(self, argument: Any) -> Any:
        def parsed(text: Any) -> Any:
            try:
                return json.loads(shown(text))
            except (ValueError, RecursionError):
                raise ExpressionError(f"in `{self.text}`, {shown(text)!r} is not JSON") from None

        if isinstance(argument, Unknown):
            # An output that one way leaves empty is no JSON, and its job then doesn't run.
            values = tuple(parsed(a) for a in argument.alternatives if a != "")
            return Unknown(self.unknown().text, values)
        return parsed(argument)

    def dereferenced(self, value: Any) -> Any:
        path = self.members()
        return member(value, path, self.unknown().text) if path else value

    def members(self) -> list[Any]:
        """What is read of a value: `.outputs.*['name']`."""
        path: list[Any] = []
        while True:
            if self.take("."):
                if self.take("*"):
                    path.append("*")
                    continue
                if self.i >= len(self.tokens) or self.tokens[self.i][0] != "name":
                    raise self.error()
                path.append(self.tokens[self.i][1])
                self.i += 1
            elif self.take("["):
                if self.take("*"):
                    key: Any = "*"
                else:
                    key = self.either()
                if not self.take("]"):
                    raise self.error()
                if isinstance(key, Unknown):
                    path.append("*")
                else:
                    path.append(int(key) if isinstance(key, float) else key)
            else:
                return path


def member(value: Any, path: Sequence[Any], text: str) -> Any:
    """What is at `path` in a value; nothing (None) where it has no such member, as GitHub has it."""
    for key in path:
        if isinstance(value, Unknown) or key == "*":
            return Unknown(text)
        if isinstance(value, Mapping):
            lower = {str(k).lower(): v for k, v in value.items()}
            value = lower.get(str(key).lower())
        elif isinstance(value, (list, tuple)) and isinstance(key, int):
            value = value[key] if 0 <= key < len(value) else None
        else:
            return None
    return value


def _number(value: Any) -> float:
    if value is None or value == "":
        return 0.0
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _compared(left: Any, operator: str, right: Any) -> bool:
    """GitHub's loose comparison: text without regard to case, other types as numbers."""
    if isinstance(left, str) and isinstance(right, str):
        left, right = left.lower(), right.lower()
    elif isinstance(left, (dict, list)) or isinstance(right, (dict, list)):
        same = left is right
        return same if operator == "==" else operator == "!=" and not same
    else:
        left, right = _number(left), _number(right)
    return {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]


def _contains(haystack: Any, needle: Any) -> bool:
    if isinstance(haystack, (list, tuple)):
        return any(_compared(item, "==", needle) for item in haystack)
    return shown(needle).lower() in shown(haystack).lower()


def _format(template: Any, *values: Any) -> str:
    def replacement(match: re.Match[str]) -> str:
        # A brace is written twice.
        return shown(values[int(match[1])]) if match[1] else match[0][0]

    return re.sub(r"\{\{|\}\}|\{(\d+)\}", replacement, shown(template))


def _join(items: Any, separator: Any = ",") -> str:
    found = items if isinstance(items, (list, tuple)) else [items]
    return shown(separator).join(map(shown, found))


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "contains": _contains,
    "startswith": lambda text, start: shown(text).lower().startswith(shown(start).lower()),
    "endswith": lambda text, end: shown(text).lower().endswith(shown(end).lower()),
    "format": _format,
    "join": _join,
    "tojson": lambda value: json.dumps(value, default=str),
}
