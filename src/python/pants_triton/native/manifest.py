"""The ninja manifest that CMake writes, read as ninja 1.13 reads it.

`read_manifest` gives a `Manifest`: its edges with every path canonical and every variable's value
as the command line gets it, and which edges a target needs, in an order to run them in. What is
written where, and in which order variables are expanded, follows ninja's own sources (lexer.in.cc,
manifest_parser.cc, eval_env.cc, graph.cc) and https://ninja-build.org/manual.html.

Paths and quoting are those of POSIX systems. Dynamic dependencies (`dyndep`) are refused: which
edges and inputs there are must be known before anything runs.
"""

from __future__ import annotations

import difflib
import re
from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import Callable, Iterable, Iterator, Mapping, Pattern, Tuple, Union

#: What `ninja_required_version` is compared with.
NINJA_VERSION = (1, 13)

#: The pool that ninja has by itself: one edge at a time, with the terminal as its own.
CONSOLE_POOL = "console"

#: The variables that ninja itself looks at, the only ones that a rule can bind.
RULE_VARIABLES = (
    "command",
    "depfile",
    "deps",
    "description",
    "dyndep",
    "generator",
    "msvc_deps_prefix",
    "pool",
    "restat",
    "rspfile",
    "rspfile_content",
)

# These are names of files, so ninja doesn't quote the `$in` and `$out` in them for a shell.
_FILE_VARIABLES = frozenset({"depfile", "dyndep", "rspfile"})

# Files nest no deeper than this. Ninja has no bound and crashes on a file that includes itself.
_MAX_NESTING = 50
# No value is longer than this, in characters: a few lines can double a value again and again.
_MAX_VALUE = 64_000_000
# What an error quotes is cut here, in characters.
_MAX_SHOWN = 200

_VARIABLE = "[a-zA-Z0-9_.-]+"
# The trailing NUL is what ends a text, as in ninja.
_TOKEN = re.compile(
    r"(?: *#[^\0\n]*\n)*"
    r"(?:(?P<newline> *\r?\n)"
    r"|(?P<indent> +)"
    rf"|(?P<identifier>{_VARIABLE})"
    r"|(?P<symbol>=|:|\|[|@]?)"
    r"|(?P<eof>\0)"
    r"|(?P<other>[^\0]))"
)
_IDENTIFIER = re.compile(_VARIABLE)
_BAR = re.compile(r"\|[|@]?")
_SPACE = re.compile(r"(?: |\$\r?\n)*")
_ESCAPE = re.compile(
    r"\$(?:(?P<literal>[$ :])|(?P<newline>\r?\n *)"
    rf"|\{{(?P<braced>{_VARIABLE})\}}|(?P<name>[a-zA-Z0-9_-]+))"
)
_PATH_TEXT = re.compile(r"[^$ :\r\n|\0]+")
_VALUE_TEXT = re.compile(r"[^$\r\n\0]+")
# Most of a manifest is these two: paths and values without `$`.
_PLAIN_PATHS = re.compile(r"(?:[^$ :\r\n|\0]+(?: +|(?=[:|\n]|\r\n)))+")
_PLAIN_BINDING = re.compile(rf" +({_VARIABLE}) *= *([^$\r\n\0]*)\n")
_KEYWORDS = frozenset({"build", "default", "include", "pool", "rule", "subninja"})

_UNQUOTED = re.compile(r"[A-Za-z0-9_+./-]*")
_EMPTY_PATH = "empty path: a variable in it has no value"
_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]{1,18})")

# Text in which variables may still stand: plain text, or text and names of variables in turn,
# beginning and ending with text.
_Template = Union[str, Tuple[str, ...]]

#: How `read_manifest` gets at the text of a file: by its name as the manifest spells it.
Files = Union[Mapping[str, str], Callable[[str], str]]


class ManifestError(ValueError):
    """The manifest isn't one that ninja would build, or asks for what this reader refuses. The
    message is one line that begins with `file:line` where there is one, and names the way out."""


@dataclass(frozen=True)
class Edge:
    """One `build` statement. Paths are canonical (`a//./b/../c` is `a/c`), in the manifest's order.

    :param outputs: what the command's `$out` is.
    :param implicit_outputs: made too, but not in `$out` (after `|`).
    :param inputs: what the command's `$in` is.
    :param implicit_inputs: read too, but not in `$in` (after `|`).
    :param order_only: must be there before, but when it changes nothing is made anew (after `||`).
    :param validations: built whenever this edge is, before or after it (after `|@`).
    :param rule: its rule's name, `phony` where there is nothing to run.
    :param is_phony: the rule is ninja's own `phony`.
    :param bindings: the values of the edge's own variables and of RULE_VARIABLES, without the empty
        ones: to ninja those are the same as absent. Values are computed when asked for, so that
        looking can raise a ManifestError: on a rule whose variables go round in a circle. `depfile`
        and `rspfile` are names of files, all others are quoted for a shell.
    :param location: `file:line` of the statement. Edges that differ in it alone are equal.
    """

    outputs: tuple[str, ...]
    implicit_outputs: tuple[str, ...] = ()
    inputs: tuple[str, ...] = field(default=(), hash=False)
    implicit_inputs: tuple[str, ...] = field(default=(), hash=False)
    order_only: tuple[str, ...] = field(default=(), hash=False)
    validations: tuple[str, ...] = field(default=(), hash=False)
    rule: str = "phony"
    is_phony: bool = False
    bindings: Mapping[str, str] = field(default_factory=dict, hash=False)
    location: str = field(default="", compare=False)

    @property
    def all_outputs(self) -> tuple[str, ...]:
        return self.outputs + self.implicit_outputs

    @property
    def all_inputs(self) -> tuple[str, ...]:
        """What must be there before this edge runs: every input, but no validations."""
        return self.inputs + self.implicit_inputs + self.order_only

    @property
    def stands_for_nothing(self) -> bool:
        """A phony edge of no inputs, as in `build always: phony`.

        Where there is no file of that name, ninja takes it for changed each time, and runs what
        depends on it. Where there is one, it is a source file that may go missing: CMake writes
        such edges for all the files that configuring read.
        """
        return self.is_phony and not self.all_inputs and not self.validations

    @property
    def command(self) -> str:
        """The line for `/bin/sh -c`, "" of a phony edge. Raises ManifestError, as `bindings`."""
        return "" if self.is_phony else self.bindings.get("command", "")

    @property
    def description(self) -> str:
        return self.bindings.get("description", "")

    @property
    def depfile(self) -> str:
        """The file in which the command tells what it read, "" for none."""
        return self.bindings.get("depfile", "")

    @property
    def deps(self) -> str:
        """How what the command read is told: `gcc` (in `depfile`), `msvc` (on its output), or ""
        (in `depfile` if there is one, which then stays)."""
        return self.bindings.get("deps", "")

    @property
    def rspfile(self) -> str:
        """The file that must hold `rspfile_content` while the command runs, "" for none."""
        return self.bindings.get("rspfile", "")

    @property
    def rspfile_content(self) -> str:
        return self.bindings.get("rspfile_content", "")

    @property
    def pool(self) -> str:
        """One of `Manifest.pools`, "" for none."""
        return self.bindings.get("pool", "")

    @property
    def restat(self) -> bool:
        """The command leaves an output alone that wouldn't change."""
        return bool(self.bindings.get("restat"))

    @property
    def generator(self) -> bool:
        """The command makes the manifest itself: a changed command line is no reason to run it."""
        return bool(self.bindings.get("generator"))


@dataclass(frozen=True)
class Manifest:
    """A whole manifest. Make it with `read_manifest`.

    :param edges: all of them, in the order written; no two have an output in common.
    :param pools: how many edges of each pool may run at once, 0 for no bound. CONSOLE_POOL is one.
    :param defaults: what `default` statements name, canonical, in the order written.
    :param variables: the top level's, with the values that they have in the end.
    :param rules: names of the top level's rules, sorted; `phony` is one.
    """

    edges: tuple[Edge, ...]
    pools: Mapping[str, int] = field(default_factory=dict, hash=False)
    defaults: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, hash=False)
    rules: tuple[str, ...] = ()

    @cached_property
    def default_targets(self) -> tuple[str, ...]:
        """What ninja builds when asked for nothing: `defaults`, without any every output that is no
        input. Raises ManifestError where all are inputs."""
        if self.defaults:
            return self.defaults
        inputs = {path for edge in self.edges for path in edge.all_inputs}
        roots = tuple(
            path for edge in self.edges for path in edge.all_outputs if path not in inputs
        )
        if self.edges and not roots:
            # Where every output is an input there is a circle, which this names.
            self.edges_for(path for edge in self.edges for path in edge.all_outputs)
        return roots

    def edge_of(self, path: str) -> Edge | None:
        """The edge that makes `path`; None of a source file and of a path that isn't known."""
        index = self._producers.get(canonical_path(path))
        return None if index is None else self.edges[index]

    def edges_for(self, targets: Iterable[str]) -> tuple[Edge, ...]:
        """All edges that building `targets` takes, each after those that make its inputs.

        Order-only inputs and validations count, and phony edges are among the result. The order is
        the manifest's own, depth first, so the same for the same manifest and targets; validations
        and what only they need come last. A target that is a source file adds nothing.

        Raises ManifestError for a target that isn't known, and for a circle of dependencies.
        """
        producers = self._producers
        todo = deque(self._known(target) for target in targets)
        # Of each edge seen: whether all that it needs is in `found` already.
        done: dict[int, bool] = {}
        found: list[Edge] = []
        while todo:
            # From the target down to where we are: a path, its edge, and the inputs still to visit.
            walk: list[tuple[str, int, Iterator[str]]] = []
            inputs = iter((todo.popleft(),))
            while True:
                path = next(inputs, None)
                if path is None:
                    if not walk:
                        break
                    _, index, _ = walk.pop()
                    done[index] = True
                    found.append(self.edges[index])
                    inputs = walk[-1][2] if walk else iter(())
                    continue
                index = producers.get(path, -1)
                if index < 0 or done.get(index):
                    continue
                if index in done:
                    raise self._circle(path, index, walk)
                done[index] = False
                # Visited later and from the top, for they may depend on this very edge.
                todo.extend(self.edges[index].validations)
                inputs = iter(self.edges[index].all_inputs)
                walk.append((path, index, inputs))
        return tuple(found)

    def resolve_phony(
        self, path: str, exists: Callable[[str], bool] = lambda path: False
    ) -> tuple[str, ...]:
        """The files behind `path`: itself, unless a phony edge makes it; then what is behind each
        of that edge's inputs, order-only ones too, each file once.

        Where nothing is behind a phony edge (`stands_for_nothing`), it is itself a file if `exists`
        says so, and gives no file otherwise.

        Raises ManifestError for phony edges that form a circle.
        """
        behind = self._behind(canonical_path(path))
        if self._nothings.isdisjoint(behind):
            return behind
        return tuple(p for p in behind if p not in self._nothings or exists(p))

    def require_sources(self, edges: Iterable[Edge], exists: Callable[[str], bool]) -> None:
        """Raises ManifestError where one of `edges` needs a file that no edge makes and of which
        `exists` says that it isn't there."""
        for edge in edges:
            for path in edge.all_inputs + edge.validations:
                if path not in self._producers and not exists(path):
                    raise ManifestError(
                        f"{edge.location}: {_shown(path)}, needed by {_shown(edge.all_outputs[0])},"
                        " is missing and no edge makes it. Add the file, or the edge that makes it."
                    )

    @cached_property
    def _producers(self) -> dict[str, int]:
        """From each output to the index of its edge."""
        return {path: i for i, edge in enumerate(self.edges) for path in edge.all_outputs}

    @cached_property
    def _sources(self) -> frozenset[str]:
        """All paths that edges name and none makes."""
        named = {path for edge in self.edges for path in edge.all_inputs + edge.validations}
        return frozenset(named - self._producers.keys())

    @cached_property
    def _nothings(self) -> frozenset[str]:
        return frozenset(p for e in self.edges if e.stands_for_nothing for p in e.all_outputs)

    @cached_property
    def _files_behind(self) -> dict[str, tuple[str, ...]]:
        """What `_behind` has found so far: the same few phony edges are asked for often."""
        return {}

    def _known(self, target: str) -> str:
        path = canonical_path(target)
        if path in self._producers or path in self._sources:
            return path
        names = [*self._producers, *sorted(self._sources)]
        close = difflib.get_close_matches(path, names[:50_000], n=1)
        hint = f"did you mean {_shown(close[0])}?" if close else "`ninja -t targets all` lists all."
        raise ManifestError(f"unknown target {_shown(target)}: {hint}")

    def _circle(
        self, path: str, index: int, walk: list[tuple[str, int, Iterator[str]]]
    ) -> ManifestError:
        start = next(i for i, (_, seen, _) in enumerate(walk) if seen == index)
        # As ninja does, name one and the same output of the first edge at both ends.
        names = [path, *(name for name, _, _ in walk[start + 1 :]), path]
        return ManifestError(
            f"{self.edges[walk[-1][1]].location}: dependency cycle: "
            f"{' -> '.join(map(_printable, names))}. Remove one of these dependencies."
        )

    def _phony_inputs(self, path: str) -> tuple[str, ...] | None:
        """None where `path` is a file, as far as the manifest tells."""
        index = self._producers.get(path)
        if index is None or not self.edges[index].is_phony or path in self._nothings:
            return None
        return self.edges[index].all_inputs

    def _behind(self, path: str) -> tuple[str, ...]:
        found = self._files_behind
        todo = [path]
        # Those being looked behind, in order.
        opened: dict[str, None] = {}
        while todo:
            path = todo[-1]
            inputs = None if path in found else self._phony_inputs(path)
            if inputs is None:
                found.setdefault(path, (path,))
                todo.pop()
                continue
            missing = [p for p in inputs if p not in found]
            if path not in opened:
                opened[path] = None
                # Not yet looked at, so what is there of them now lies on our own way.
                if any(p in opened for p in missing):
                    # Names the circle.
                    self.edges_for([path])
                todo += reversed(missing)
                continue
            del opened[path]
            found[path] = tuple(dict.fromkeys(p for each in inputs for p in found[each]))
            todo.pop()
        return found[path]


def read_manifest(files: Files, path: str = "build.ninja") -> Manifest:
    """The manifest in `path` and all that it includes.

    `files` is from a file's name, as spelled in the manifest, to its text, decoded so that encoding
    gives the same bytes back (UTF-8 with `surrogateescape` always does). Instead of a mapping it
    can be a function, which raises KeyError or OSError for a file that isn't there.

    Raises ManifestError wherever ninja would refuse to load the manifest, and on `dyndep`. Circles
    of dependencies, and of variables in a rule, are no hindrance until they matter, as in ninja:
    see `Manifest.edges_for` and `Edge.bindings`.
    """
    state = _State(files if callable(files) else files.__getitem__)
    top = _Scope()
    top.rules["phony"] = _PHONY
    _read_file(state, path, top, 0, "")
    return Manifest(
        edges=tuple(state.edges),
        pools=state.pools,
        defaults=tuple(state.defaults),
        variables=top.variables,
        rules=tuple(sorted(top.rules)),
    )


def canonical_path(path: str) -> str:
    """`path` as ninja knows it: without `.` and doubled or trailing `/`, and `..` taken literally,
    though a symbolic link may lead elsewhere."""
    if "/." not in path and "//" not in path and path[:1] != "." and path[-1:] != "/":
        return path
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if path.startswith("/"):
        return "/" + "/".join(parts)
    return "/".join(parts) or "."


def shell_quoted(path: str) -> str:
    """`path` as it stands in `$in` and `$out`."""
    if _UNQUOTED.fullmatch(path):
        return path
    return "'" + path.replace("'", "'\\''") + "'"


class _Rule:
    __slots__ = ("name", "variables")

    def __init__(self, name: str, variables: Mapping[str, _Template]) -> None:
        self.name = name
        self.variables = variables


_PHONY = _Rule("phony", {})


class _Scope:
    """The variables and rules of a file, or the variables of an edge."""

    __slots__ = ("variables", "rules", "parent")

    def __init__(self, parent: _Scope | None = None) -> None:
        self.variables: dict[str, str] = {}
        self.rules: dict[str, _Rule] = {}
        self.parent = parent

    def lookup(self, name: str) -> str:
        scope: _Scope | None = self
        while scope is not None:
            value = scope.variables.get(name)
            if value is not None:
                return value
            scope = scope.parent
        return ""

    def rule(self, name: str) -> _Rule | None:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.rules:
                return scope.rules[name]
            scope = scope.parent
        return None


class _Bindings(Mapping[str, str]):
    """`Edge.bindings`. Values are computed when asked for: by then the scopes that they are looked
    up in have the values that they have at the end of their files, as ninja wants."""

    __slots__ = ("_rule", "_scope", "_own", "_inputs", "_outputs", "_location", "_values")

    def __init__(
        self,
        rule: _Rule,
        scope: _Scope,
        own: Mapping[str, str],
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        location: str,
        values: Mapping[str, str],
    ) -> None:
        """`values` are those that are known already."""
        self._rule = rule
        self._scope = scope
        self._own = own
        self._inputs = inputs
        self._outputs = outputs
        self._location = location
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        value = self._values.get(name)
        if value is None:
            if name not in self._own and name not in RULE_VARIABLES:
                raise KeyError(name)
            value = self._values[name] = _edge_variable(
                name, self._rule, self._scope, self._inputs, self._outputs, self._location
            )
        if not value:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return (name for name in dict.fromkeys((*self._own, *RULE_VARIABLES)) if self.get(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))


def _edge_variable(
    name: str,
    rule: _Rule,
    scope: _Scope,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    location: str,
) -> str:
    """`scope` is the edge's, where it has variables, and else its file's."""
    shown: Callable[[str], str] = shell_quoted
    if name in _FILE_VARIABLES:
        shown = str
    values: dict[str, str] = {}
    # The rule's variables that are being expanded, each for the one before it.
    opened: list[str] = []

    def lookup(name: str) -> str:
        if name in values:
            return values[name]
        if name in opened:
            circle = " -> ".join([*opened[opened.index(name) :], name])
            raise ManifestError(
                f"{location}: cycle in rule variables: {circle}. "
                f"Change rule {_shown(rule.name)}, or set one of these on the edge."
            )
        if name in ("in", "in_newline"):
            value = (" " if name == "in" else "\n").join(map(shown, inputs))
        elif name == "out":
            value = " ".join(map(shown, outputs))
        elif name in scope.variables:
            # If the edge has no variables, its file's go before its rule's. That is not what the
            # manual says, but what ninja does.
            value = scope.variables[name]
        elif name in rule.variables:
            opened.append(name)
            value = _expanded(rule.variables[name], lookup, location)
            opened.pop()
        else:
            value = scope.parent.lookup(name) if scope.parent else ""
        values[name] = value
        return value

    return lookup(name)


class _State:
    """What all files of a manifest have in common."""

    def __init__(self, text_of: Callable[[str], str]) -> None:
        self.text_of = text_of
        self.edges: list[Edge] = []
        self.pools: dict[str, int] = {CONSOLE_POOL: 1}
        self.defaults: list[str] = []
        # From each output to the index of its edge.
        self.makers: dict[str, int] = {}
        # From each path of an edge as spelled to the canonical one, which is in here too.
        self.paths: dict[str, str] = {}


def _read_file(state: _State, path: str, scope: _Scope, depth: int, included_at: str) -> None:
    """`included_at` is where it is included, with ": " at its end, "" for the first."""
    if depth > _MAX_NESTING:
        raise ManifestError(
            f"{included_at}files include each other more than {_MAX_NESTING} deep. "
            "See that none includes itself."
        )
    try:
        text = state.text_of(path)
    except (KeyError, OSError, UnicodeError) as e:
        reason = "there is no such file" if isinstance(e, KeyError) else _printable(str(e))
        raise ManifestError(
            f"{included_at}loading {_shown(path)}: {reason}. Configure the project anew."
        ) from None
    _File(state, path, text, scope, depth).read()


class _File:
    """Reads one file into a _State and a _Scope. What reads moves `pos` on."""

    def __init__(self, state: _State, path: str, text: str, scope: _Scope, depth: int) -> None:
        self.state = state
        self.path = path
        self.text = text + "\0"
        self.scope = scope
        self.depth = depth
        self.pos = 0
        # Where the present statement begins.
        self.start = 0
        # A position, and the number of the line that it is in.
        self.counted = (0, 1)

    def read(self) -> None:
        statements = {
            "'build'": self.read_build,
            "'default'": self.read_default,
            "'include'": lambda: self.read_include(self.scope),
            "'pool'": self.read_pool,
            "'rule'": self.read_rule,
            "'subninja'": lambda: self.read_include(_Scope(self.scope)),
        }
        while True:
            kind, self.start = self.token()
            if kind in statements:
                statements[kind]()
            elif kind == "identifier":
                self.pos = self.start
                self.read_variable()
            elif kind == "eof":
                return
            elif kind != "newline":
                raise self.error(f"unexpected {kind}: a statement or a variable begins a line")

    # Statements

    def read_variable(self) -> None:
        name, template = self.binding()
        value = self.expanded(template, self.scope)
        if name == "ninja_required_version":
            self.check_version(value)
        self.scope.variables[name] = value

    def check_version(self, value: str) -> None:
        major, _, rest = value.partition(".")
        if (_leading_number(major), _leading_number(rest.partition(".")[0])) > NINJA_VERSION:
            known = ".".join(map(str, NINJA_VERSION))
            raise self.error(
                f"the manifest requires ninja {_printable(value)}, and is read here as ninja "
                f"{known} does: have it written for {known}"
            )

    def read_pool(self) -> None:
        name = self.identifier("pool name")
        self.newline()
        if name in self.state.pools:
            raise self.error(f"duplicate pool {_shown(name)}: give each a name of its own")
        depth = -1
        for key, template in self.bindings():
            if key != "depth":
                raise self.error(f"unexpected variable {_shown(key)}: a pool has `depth` alone")
            depth = _leading_number(self.expanded(template, self.scope))
            if depth < 0:
                raise self.error("invalid pool depth: write a number from 0")
        if depth < 0:
            raise self.error("expected 'depth =' line, indented, below the pool's name")
        self.state.pools[name] = depth

    def read_rule(self) -> None:
        name = self.identifier("rule name")
        self.newline()
        if name in self.scope.rules:
            raise self.error(f"duplicate rule {_shown(name)}: give each a name of its own")
        # The rule has these three even when it doesn't bind them, so that an outer scope's don't
        # show through.
        variables: dict[str, _Template] = {"command": "", "rspfile": "", "rspfile_content": ""}
        for key, template in self.bindings():
            if key not in RULE_VARIABLES:
                known = ", ".join(RULE_VARIABLES)
                raise self.error(f"unexpected variable {_shown(key)}: a rule can have {known}")
            variables[key] = template
        if (variables["rspfile"] == "") != (variables["rspfile_content"] == ""):
            raise self.error("rspfile and rspfile_content need to be both specified")
        if variables["command"] == "":
            raise self.error("expected 'command =' line, indented, below the rule's name")
        self.scope.rules[name] = _Rule(name, variables)

    def read_default(self) -> None:
        targets = self.paths()
        if not targets:
            raise self.error("expected target name after 'default'")
        for target in targets:
            path = canonical_path(self.expanded(target, self.scope))
            if not path:
                raise self.error(_EMPTY_PATH)
            if path not in self.state.paths:
                raise self.error(f"unknown target {_shown(path)}: 'default' comes after its edge")
            self.state.defaults.append(path)
        self.newline()

    def read_include(self, scope: _Scope) -> None:
        path = self.expanded(self.template(_PATH_TEXT), self.scope)
        self.skip_space()
        _read_file(self.state, path, scope, self.depth + 1, f"{self.location()}: ")
        self.newline()

    def read_build(self) -> None:
        location = self.location()
        outputs = self.paths()
        implicit_outputs = self.paths_after("|")
        if not outputs and not implicit_outputs:
            raise self.error("expected path after 'build'")
        self.expect("':'", "in a path, ':' is written '$:'")
        rule_name = self.identifier("build command name")
        rule = self.scope.rule(rule_name)
        if rule is None:
            raise self.error(f"unknown build rule {_shown(rule_name)}: define it further up")
        inputs = self.paths()
        implicit_inputs = self.paths_after("|")
        order_only = self.paths_after("||")
        validations = self.paths_after("|@")
        self.newline()

        # In the file's scope: an edge's variables don't see each other.
        own = {key: self.expanded(template, self.scope) for key, template in self.bindings()}
        scope = self.scope
        if own:
            scope = _Scope(self.scope)
            scope.variables = own

        # Ninja looks the pool up before it has the edge's paths.
        pool = _edge_variable("pool", rule, scope, (), (), location)
        if pool and pool not in self.state.pools:
            raise self.error(f"unknown pool name {_shown(pool)}: define it further up")

        made = self.resolved(outputs, scope)
        made_too = self.resolved(implicit_outputs, scope)
        self.claim(made + made_too)
        read = self.resolved(inputs, scope)
        read_too = self.resolved(implicit_inputs, scope)
        before = self.resolved(order_only, scope)
        if rule is _PHONY and len(made) == 1 and not made_too and not read_too:
            # CMake 3.0 wrote phony edges that have themselves as an input.
            read = tuple(path for path in read if path != made[0])
            before = tuple(path for path in before if path != made[0])
        if _edge_variable("dyndep", rule, scope, read, made, location):
            raise self.error(
                "dyndep isn't supported, for it tells what an edge needs only when it runs: turn "
                "scanning for C++20 modules off (`CMAKE_CXX_SCAN_FOR_MODULES=OFF`)"
            )
        values = {"pool": pool, "dyndep": ""}
        self.state.edges.append(
            Edge(
                outputs=made,
                implicit_outputs=made_too,
                inputs=read,
                implicit_inputs=read_too,
                order_only=before,
                validations=self.resolved(validations, scope),
                rule=rule_name,
                is_phony=rule is _PHONY,
                bindings=_Bindings(rule, scope, own, read, made, location, values),
                location=location,
            )
        )

    def claim(self, outputs: tuple[str, ...]) -> None:
        """Makes `outputs` those of the edge that is read next."""
        index = len(self.state.edges)
        for path in outputs:
            other = self.state.makers.get(path)
            if other == index:
                raise self.error(
                    f"{_shown(path)} is defined as an output multiple times: name it once"
                )
            if other is not None:
                raise self.error(
                    f"multiple rules generate {_shown(path)}: the edge at "
                    f"{self.state.edges[other].location} does, too"
                )
            self.state.makers[path] = index

    # Parts of statements

    def bindings(self) -> Iterator[tuple[str, _Template]]:
        """The indented lines that follow."""
        while True:
            plain = _PLAIN_BINDING.match(self.text, self.pos)
            if plain:
                self.pos = plain.end()
                yield plain[1], plain[2]
                continue
            before = self.pos
            kind, start = self.token()
            if kind != "indent":
                self.pos = before
                return
            yield self.binding()

    def binding(self) -> tuple[str, _Template]:
        name = self.identifier("variable name")
        self.expect("'='", "a variable is 'name = value'")
        return name, self.template(_VALUE_TEXT)

    def paths_after(self, symbol: str) -> list[_Template]:
        """The paths after `symbol`, none where it isn't next."""
        found = _BAR.match(self.text, self.pos)
        if not found or found[0] != symbol:
            return []
        self.pos = found.end()
        self.skip_space()
        return self.paths()

    def paths(self) -> list[_Template]:
        paths: list[_Template] = []
        while True:
            plain = _PLAIN_PATHS.match(self.text, self.pos)
            if plain:
                paths += filter(None, plain[0].split(" "))
                self.pos = plain.end()
                # There may be a continued line behind it.
                self.skip_space()
                if self.text[self.pos] in ":|\n":
                    return paths
            template = self.template(_PATH_TEXT)
            self.skip_space()
            if template == "":
                return paths
            paths.append(template)

    def template(self, plain: Pattern[str]) -> _Template:
        """A path, up to what ends it, or a value, to the end of the line. `plain` is how text
        without escapes looks in it."""
        is_path = plain is _PATH_TEXT
        parts: list[str] = []
        run: list[str] = []
        while True:
            text = plain.match(self.text, self.pos)
            if text:
                run.append(text[0])
                self.pos = text.end()
            character = self.text[self.pos]
            if character == "$":
                escape = _ESCAPE.match(self.text, self.pos)
                if not escape:
                    raise self.error("bad $-escape (literal $ must be written as $$)", self.pos)
                self.pos = escape.end()
                if escape["literal"]:
                    run.append(escape["literal"])
                elif not escape["newline"]:
                    parts += ("".join(run), escape["braced"] or escape["name"])
                    run = []
                continue
            if self.text.startswith(("\n", "\r\n"), self.pos):
                # A path leaves it to the statement that it is in.
                self.pos += 0 if is_path else 1 if character == "\n" else 2
                break
            if is_path and character in " :|":
                break
            if character == "\0":
                raise self.error(
                    "unexpected end of file: the last line ends in a newline", self.pos
                )
            raise self.error(f"unexpected {_character(character)}", self.pos)
        last = "".join(run)
        return (*parts, last) if parts else last

    def expanded(self, template: _Template, scope: _Scope) -> str:
        if isinstance(template, str):
            return template
        return _expanded(template, scope.lookup, self.location())

    def resolved(self, templates: Iterable[_Template], scope: _Scope) -> tuple[str, ...]:
        known = self.state.paths
        found = []
        for template in templates:
            text = template if isinstance(template, str) else self.expanded(template, scope)
            path = known.get(text)
            if path is None:
                if not text:
                    raise self.error(_EMPTY_PATH)
                path = canonical_path(text)
                path = known[text] = known.setdefault(path, path)
            found.append(path)
        return tuple(found)

    # Tokens

    def token(self) -> tuple[str, int]:
        """The next token's kind, and where it begins. A keyword's and a symbol's kind is itself, in
        quotes."""
        found = _TOKEN.match(self.text, self.pos)
        assert found is not None and found.lastgroup is not None
        kind = found.lastgroup
        start = found.start(kind)
        text = found[kind]
        if kind == "other":
            raise self.error(f"unexpected {_character(text)}", start)
        self.pos = found.end()
        if kind in ("newline", "eof"):
            return kind, start
        self.skip_space()
        if kind == "symbol" or text in _KEYWORDS:
            return f"'{text}'", start
        return kind, start

    def expect(self, wanted: str, hint: str) -> None:
        kind, start = self.token()
        if kind != wanted:
            raise self.error(f"expected {wanted}, got {kind}: {hint}", start)

    def newline(self) -> None:
        if self.text[self.pos] == "\n":
            self.pos += 1
        else:
            self.expect("newline", "a statement ends with its line")

    def identifier(self, wanted: str) -> str:
        found = _IDENTIFIER.match(self.text, self.pos)
        if not found:
            raise self.error(f"expected {wanted}: of letters, digits, '_', '-' and '.'", self.pos)
        self.pos = found.end()
        self.skip_space()
        return found[0]

    def skip_space(self) -> None:
        if self.text[self.pos] in " $":
            found = _SPACE.match(self.text, self.pos)
            assert found is not None
            self.pos = found.end()

    # Errors

    def location(self, pos: int | None = None) -> str:
        """`file:line` of `pos`, without it of the present statement."""
        pos = self.start if pos is None else pos
        counted, line = self.counted if self.counted[0] <= pos else (0, 1)
        line += self.text.count("\n", counted, pos)
        self.counted = (pos, line)
        return f"{_printable(self.path)}:{line}"

    def error(self, message: str, pos: int | None = None) -> ManifestError:
        return ManifestError(f"{self.location(pos)}: {message}.")


def _expanded(template: _Template, lookup: Callable[[str], str], location: str) -> str:
    if isinstance(template, str):
        return template
    parts = [lookup(part) if i % 2 else part for i, part in enumerate(template)]
    if sum(map(len, parts)) > _MAX_VALUE:
        raise ManifestError(
            f"{location}: a value of more than {_MAX_VALUE // 1_000_000} million characters. "
            "See that no variable repeats itself over and over."
        )
    return "".join(parts)


def _leading_number(text: str) -> int:
    """The number that `text` begins with, 0 where it begins with none, as ninja reads them."""
    found = _NUMBER.match(text)
    return int(found[1]) if found else 0


def _character(character: str) -> str:
    if character == "\t":
        return "tab: indent with spaces"
    return f"character {_shown(character)}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…")


def _printable(text: str) -> str:
    """`text` without what would break a line or a terminal."""
    return text if text.isprintable() else repr(text)[1:-1]
