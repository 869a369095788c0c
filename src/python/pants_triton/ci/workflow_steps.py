"""Read a workflow of GitHub Actions: its jobs, their matrix, and what each step runs.

Everything that the file alone decides is decided: matrix combinations, `if:`, `env:`, outputs that a
step of shell writes, variables that one leaves to the next in `$GITHUB_ENV`. What only a run knows
stays as text.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from dataclasses import dataclass
from typing import Any, Iterable, Iterator, Mapping, Sequence

import yaml

from pants_triton.ci.shell_lines import GITHUB_ENV, GITHUB_OUTPUT, PLACEHOLDER, Command, run_script
from pants_triton.ci.shell_syntax import ShellError
from pants_triton.ci.shell_words import Word, path_from
from pants_triton.ci.step_files import Written, one_of
from pants_triton.ci.unknown import Unknown
from pants_triton.ci.workflow_expressions import (
    ExpressionError,
    evaluate_condition,
    interpolate,
    interpolate_value,
    member,
    shown,
)


class WorkflowError(ValueError):
    """The file is no workflow, or one that can't be read. The message names the file."""


@dataclass(frozen=True)
class Runner:
    """Where a job runs.

    :param labels: of `runs-on`, group included; what is unknown stands as its expression.
    :param image: the container's, empty without one.
    :param options: the container's.
    :param hints: other texts of the job that may say which hardware it is for: its id and the
        expressions of its matrix.
    """

    labels: tuple[str, ...]
    image: str = ""
    options: str = ""
    hints: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "/".join(self.labels) or "a runner that is not named"


@dataclass(frozen=True)
class StepRun:
    """One step in one combination of its job's matrix.

    :param conditions: those of the job and the step that can't be decided.
    :param commands: what its `run:` runs; lines are those of the file.
    :param error: why its `run:` isn't understood, empty if it is.
    :param may_fail: `continue-on-error` of the step or its job, also where only a run knows it.
    """

    runner: Runner
    conditions: tuple[str, ...]
    commands: tuple[Command, ...] = ()
    error: str = ""
    may_fail: bool = False


@dataclass(frozen=True)
class Step:
    """One step of a job.

    :param job: the job's id.
    :param name: the step's own, else what it uses or the first line it runs.
    :param line: in the file, from 1.
    :param uses: the action, such as `actions/cache@v4`; empty for a step of shell.
    :param runs: in which combinations it runs: none, where its condition never holds.
    :param may_fail: `continue-on-error` in all combinations in which it runs; where it is so in some,
        their commands say it.
    """

    job: str
    name: str
    line: int
    uses: str
    runs: tuple[StepRun, ...]
    may_fail: bool = False


@dataclass(frozen=True)
class Workflow:
    """A workflow file.

    :param taken: what was taken for given though no run has said it, for people.
    """

    path: str
    name: str
    steps: tuple[Step, ...]
    taken: tuple[str, ...] = ()


# GitHub's own limit for one matrix.
_MOST_COMBINATIONS = 256


class _Loader(yaml.SafeLoader):
    """YAML 1.2's core schema, as GitHub reads it: `on`, `yes` and `1:30` are texts."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _start in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_start)
    )


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = node.value
    return int(text, 8 if text.startswith("0o") else 16 if text.startswith("0x") else 10)


# PyYAML's own takes `010` for eight.
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


def parse_workflow(text: str, path: str, *, context: Mapping[str, str] | None = None) -> Workflow:
    """Read a workflow.

    :param path: of the file, for messages.
    :param context: what is to be taken for given, such as `{"github.repository": "me/triton"}`; any
        path of GitHub's contexts.
    :raises WorkflowError: it isn't one.
    """
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
        root = yaml.compose(text, _Loader)
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(e, "problem", None) or "it can't be read"
        raise WorkflowError(f"{path} is not YAML{where}: {problem}.") from None
    except (RecursionError, ValueError):
        raise WorkflowError(f"{path} is not YAML that can be read.") from None
    if not isinstance(document, dict) or ("jobs" not in document and "on" not in document):
        raise WorkflowError(
            f"{path} is not a workflow of GitHub Actions: it has neither `on` nor `jobs`."
        )
    jobs = document.get("jobs")
    if not isinstance(jobs, dict) or not jobs:
        raise WorkflowError(f"{path} has no jobs, so there is nothing to compare with.")
    given = dict(context or {})
    taken = []
    if "github.repository" not in given:
        repository = _compared_repository(document)
        if repository:
            given["github.repository"] = repository
            taken.append(
                f"`github.repository` is taken to be {given['github.repository']}, which is all that "
                f"{path} compares it with."
            )
    try:
        return _Reader(document, path, given, _lines(root)).read(tuple(taken))
    except ExpressionError as e:
        raise WorkflowError(f"In {path}, {e}.") from None
    except RecursionError:
        raise WorkflowError(f"{path} is nested too deeply.") from None


# `github.repository == 'owner/name'`, and the same in shell: `"${{ github.repository }}" == "…"`,
# often with an x before both.
_REPOSITORY = re.compile(
    r"github\.repository\s*(?:\}\})?[\"']?\s*(!=|==?)\s*x?[\"']?([\w.-]+/[\w.-]+)"
)


def _compared_repository(document: Any) -> str:
    """The one repository that a workflow's values compare theirs with, empty without one.

    A workflow that also asks for any but this one is as much for those.
    """
    found = [pair for text in _texts(document) for pair in _REPOSITORY.findall(text)]
    names = {name for operator, name in found if operator != "!="}
    others = {name.lower() for operator, name in found if operator == "!="}
    return names.pop() if len(names) == 1 and not {n.lower() for n in names} & others else ""


def _texts(value: Any) -> Iterator[str]:
    """All texts in a YAML value, without the comments of shell that is in them."""
    waiting = [value]
    seen = set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield re.sub(r"(?m)^\s*#.*$", "", value)
        # An anchor may stand for what holds it.
        elif isinstance(value, (dict, list)) and id(value) not in seen:
            seen.add(id(value))
            waiting += value.values() if isinstance(value, dict) else value


# --- where things are in the file ----------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """:param run: the line of the first line of shell, from 1."""

    step: int
    run: int


def _lines(root: Any) -> dict[tuple[str, int], _Place]:
    """For each job and index of a step, where they are; the job itself is at index -1."""
    places = {}
    jobs = _member(root, "jobs")
    for key, _ in jobs.value if isinstance(jobs, yaml.MappingNode) else ():
        line = key.start_mark.line + 1
        places[str(key.value), -1] = _Place(line, line)
    for job, node in _members(jobs):
        steps = _member(node, "steps")
        if not isinstance(steps, yaml.SequenceNode):
            continue
        for index, step in enumerate(steps.value):
            run = _member(step, "run")
            line = step.start_mark.line + 1
            run_line = line
            if isinstance(run, yaml.ScalarNode):
                run_line = run.start_mark.line + (2 if run.style in ("|", ">") else 1)
            places[job, index] = _Place(line, run_line)
    return places


def _members(node: Any) -> list[tuple[str, Any]]:
    if not isinstance(node, yaml.MappingNode):
        return []
    return [(str(key.value), value) for key, value in node.value]


def _member(node: Any, name: str) -> Any:
    return dict(_members(node)).get(name)


# --- jobs and steps ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Combination:
    """One combination of a matrix.

    :param members: what is known of it.
    :param whole: whether it has no others; where a run computes the matrix, or a part, it may.
    """

    members: Mapping[str, Any]
    whole: bool = True

    def member(self, path: Sequence[Any], text: str) -> Any:
        known = {name.lower() for name in self.members}
        if not self.whole and (not path or str(path[0]).lower() not in known):
            return Unknown(text)
        return member(self.members, path, text)


@dataclass
class _Job:
    """What is known of a job while it is read, in one combination."""

    id: str
    matrix: _Combination
    env: dict[str, Any]
    outputs: dict[str, dict[str, Any]]
    needs: Mapping[str, Mapping[str, Any]]
    # Whether a step wrote variables that aren't known, so that any may be set.
    any_env: bool = False


class _Reader:
    def __init__(
        self,
        document: Mapping[str, Any],
        path: str,
        given: Mapping[str, str],
        places: Mapping[tuple[str, int], _Place],
    ) -> None:
        self.document = document
        self.path = path
        self.given = given
        self.places = places
        self.outputs: dict[str, dict[str, Any]] = {}

    def read(self, taken: tuple[str, ...]) -> Workflow:
        jobs = {str(name): job for name, job in self.document["jobs"].items()}
        for name, job in jobs.items():
            if not isinstance(job, dict):
                raise WorkflowError(f"In {self.path}, the job `{name}` is not a mapping.")
        steps: dict[str, list[Step]] = {}
        for name in _by_needs(jobs):
            steps[name] = self.job(name, jobs[name])
        in_order = tuple(step for name in jobs for step in steps[name])
        title = self.document.get("name")
        return Workflow(self.path, title if isinstance(title, str) else "", in_order, taken)

    def lookup(self, job: _Job):
        def find(path: Sequence[Any]) -> Any:
            dotted = ".".join(map(str, path))
            for length in range(len(path), 0, -1):
                prefix = ".".join(map(str, path[:length]))
                if prefix in self.given:
                    return member(self.given[prefix], path[length:], dotted)
            head = str(path[0]).lower()
            if head == "matrix":
                return job.matrix.member(path[1:], dotted)
            if head == "env" and len(path) == 2 and path[1] in job.env:
                return job.env[path[1]]
            if head == "needs" and len(path) == 4 and str(path[2]).lower() == "outputs":
                return job.needs.get(str(path[1]), {}).get(str(path[3]), Unknown(dotted))
            if head == "steps" and len(path) == 4 and str(path[2]).lower() == "outputs":
                return job.outputs.get(str(path[1]), {}).get(str(path[3]), Unknown(dotted))
            return Unknown(dotted)

        return find

    def job(self, name: str, job: Mapping[str, Any]) -> list[Step]:
        needs = {need: self.outputs.get(need, {}) for need in _needs(job)}
        outside = _Job(name, _Combination({}, False), {}, {}, needs)
        self.outputs[name] = {}
        conditions: tuple[str, ...] = ()
        if "if" in job:
            decided = evaluate_condition(job["if"], self.lookup(outside))
            if isinstance(decided, Unknown) and "!= ''" in decided.text:
                # A step that decides what is tested says by an empty output that nothing is. What the
                # job tests otherwise is what counts, and is no less for that.
                where_set = dataclasses.replace(outside, needs=_where_set(needs))
                if evaluate_condition(job["if"], self.lookup(where_set)) is True:
                    decided = True
            if isinstance(decided, Unknown):
                conditions = (decided.text,)
            elif not decided:
                return [self.never(name, job, "its job's `if` never holds")]
        if "uses" in job:
            run = StepRun(Runner(("a called workflow",), hints=(name,)), conditions)
            line = self.place(name).step
            return [Step(name, shown(job.get("name") or name), line, str(job["uses"]), (run,))]
        listed = job.get("steps")
        if not isinstance(listed, list) or not all(isinstance(s, dict) for s in listed):
            raise WorkflowError(f"In {self.path}, the job `{name}` has no list of steps.")
        strategy = job.get("strategy")
        matrix = strategy.get("matrix") if isinstance(strategy, dict) else strategy
        combinations = self.combinations(name, strategy, self.lookup(outside))
        runs: list[list[StepRun]] = [[] for _ in listed]
        outputs: dict[str, list[Any]] = {}
        for combination in combinations:
            state = _Job(name, combination, {}, {}, needs)
            container = job.get("container")
            own = container.get("env") if isinstance(container, dict) else None
            for scope in (own, self.document.get("env"), job.get("env")):
                state.env.update(self.environment(scope, state))
            runner = self.runner(job, state, matrix)
            for index, step in enumerate(listed):
                found = self.step(job, step, index, state, runner, conditions)
                if found is not None:
                    runs[index].append(found)
            declared = job.get("outputs")
            for output, expression in (declared if isinstance(declared, dict) else {}).items():
                value = interpolate_value(expression, self.lookup(state))
                outputs.setdefault(str(output), []).append(value)
        self.outputs[name] = {
            output: one_of(values, f"needs.{name}.outputs.{output}")
            for output, values in outputs.items()
        }
        return [
            Step(
                job=name,
                name=_title(step),
                line=self.place(name, index).step,
                uses=str(step.get("uses") or ""),
                runs=tuple(runs[index]),
                may_fail=bool(runs[index]) and all(run.may_fail for run in runs[index]),
            )
            for index, step in enumerate(listed)
        ]

    def place(self, job: str, index: int = -1) -> _Place:
        return self.places.get((job, index)) or self.places.get((job, -1)) or _Place(1, 1)

    def never(self, name: str, job: Mapping[str, Any], why: str) -> Step:
        line = self.place(name, 0).step
        return Step(name, f"(the whole job: {why})", line, "", ())

    def combinations(self, job: str, strategy: Any, lookup) -> list[_Combination]:
        strategy = interpolate_value(strategy, lookup)
        if isinstance(strategy, Unknown):
            return [_Combination({}, False)]
        matrix = strategy.get("matrix") if isinstance(strategy, dict) else None
        return self.combinations_of(job, matrix, lookup)

    def combinations_of(self, job: str, matrix: Any, lookup) -> list[_Combination]:
        if matrix is None:
            return [_Combination({})]
        if isinstance(matrix, str):
            matrix = interpolate_value(matrix, lookup)
        if isinstance(matrix, Unknown):
            return self.combinations_of_any(job, matrix.alternatives, lookup)
        if not isinstance(matrix, dict):
            raise WorkflowError(
                f"In {self.path}, the matrix of the job `{job}` is neither a mapping nor an "
                "expression that gives one."
            )
        matrix = _interpolated(matrix, lookup)
        include = matrix.get("include")
        if isinstance(include, Unknown) and include.alternatives:
            whole = [{**matrix, "include": value} for value in include.alternatives]
            return self.combinations_of_any(job, whole, lookup)
        axes: dict[str, list[Any]] = {}
        for axis, value in matrix.items():
            if axis in ("include", "exclude"):
                continue
            if isinstance(value, Unknown):
                found: list[Any] = []
                for alternative in value.alternatives:
                    options = alternative if isinstance(alternative, list) else [alternative]
                    found += [option for option in options if option not in found]
                axes[str(axis)] = found or [value]
            else:
                axes[str(axis)] = value if isinstance(value, list) else [value]
        size = 1
        for values in axes.values():
            size *= len(values)
        if size > _MOST_COMBINATIONS:
            raise WorkflowError(
                f"In {self.path}, the matrix of the job `{job}` has {size} combinations; GitHub "
                f"allows {_MOST_COMBINATIONS}."
            )
        chosen = itertools.product(*axes.values())
        base = [dict(zip(axes, choice)) for choice in chosen] if axes else []
        # What may be left out may as well run.
        excluded = [e for e in _entries(matrix.get("exclude")) if isinstance(e, dict)]
        base = [
            combination
            for combination in base
            if not any(
                all(_same(combination.get(k), v) is True for k, v in entry.items())
                for entry in excluded
            )
        ]
        return _included(base, _entries(include))

    def combinations_of_any(self, job: str, matrices: Iterable[Any], lookup) -> list[_Combination]:
        """Those of all matrices that it may be."""
        found: list[_Combination] = []
        for matrix in matrices:
            combinations = [_Combination({}, False)]
            if isinstance(matrix, dict):
                combinations = self.combinations_of(job, matrix, lookup)
            found += [combination for combination in combinations if combination not in found]
        return found or [_Combination({}, False)]

    def environment(self, scope: Any, state: _Job) -> dict[str, Any]:
        if not isinstance(scope, dict):
            return {}
        return {
            str(name): _as_text(interpolate_value(value, self.lookup(state)))
            for name, value in scope.items()
        }

    def runner(self, job: Mapping[str, Any], state: _Job, matrix: Any) -> Runner:
        lookup = self.lookup(state)
        value = interpolate_value(job.get("runs-on"), lookup)
        if isinstance(value, dict):
            labels = [value.get("group"), *_listed(value.get("labels"))]
        else:
            labels = _listed(value)
        container = interpolate_value(job.get("container"), lookup)
        if isinstance(container, dict):
            image = interpolate_value(container.get("image"), lookup)
            options = interpolate_value(container.get("options"), lookup)
        else:
            image, options = container, None
        hints = [state.id]
        if isinstance(matrix, dict):
            hints += [v for v in matrix.values() if isinstance(v, str)]
        elif isinstance(matrix, str):
            hints.append(matrix)
        texts = [_as_text(interpolate_value(label, lookup)) for label in labels]
        return Runner(
            tuple(str(text) for text in texts if text),
            str(_as_text(image)),
            str(_as_text(options)),
            tuple(hints),
        )

    def step(
        self,
        job: Mapping[str, Any],
        step: Mapping[str, Any],
        index: int,
        state: _Job,
        runner: Runner,
        conditions: tuple[str, ...],
    ) -> StepRun | None:
        own = dict(state.env)
        state_with_env = dataclasses.replace(
            state, env={**own, **self.environment(step.get("env"), state)}
        )
        lookup = self.lookup(state_with_env)
        maybe = False
        if "if" in step:
            decided = evaluate_condition(step["if"], lookup)
            if isinstance(decided, Unknown):
                conditions += (decided.text,)
                maybe = True
            elif not decided:
                return None
        # A step that goes on without its job may end before it has written all.
        maybe = maybe or _may_fail(step, lookup)
        may_fail = _may_fail(step, lookup) or _may_fail(job, self.lookup(state))
        if "run" not in step:
            return StepRun(runner, conditions, may_fail=may_fail)
        place = self.place(state.id, index)
        on_windows = any("windows" in label.lower() for label in runner.labels)
        default = "pwsh" if on_windows else "bash"
        named = _first(step.get("shell"), *_defaults(job, self.document, "shell"), default)
        shell = str(_as_text(interpolate_value(named, lookup)))
        if shell.split()[0:1] not in (["bash"], ["sh"]):
            self.leave_behind(step, None, state, maybe)
            error = f"its shell is `{shell}`; only bash and sh are read"
            return StepRun(runner, conditions, error=error, may_fail=may_fail)
        folder = _first(
            step.get("working-directory"), *_defaults(job, self.document, "working-directory"), "."
        )
        placeholders: list[Unknown] = []
        script = ""
        for part in interpolate(shown(step["run"]), lookup):
            if isinstance(part, Unknown):
                script += chr(PLACEHOLDER + len(placeholders))
                placeholders.append(part)
            else:
                script += part
        try:
            commands = run_script(
                script,
                environment={n: _word(v) for n, v in state_with_env.env.items()},
                folder=path_from(Word((".",)), _word(_as_text(interpolate_value(folder, lookup)))),
                placeholders=placeholders,
            )
        except ShellError as e:
            self.leave_behind(step, None, state, maybe)
            message = f"line {place.run + e.line - 1} is not shell that is understood: {e}"
            return StepRun(runner, conditions, error=message, may_fail=may_fail)
        commands = tuple(
            dataclasses.replace(
                command,
                line=place.run + command.line - 1,
                may_fail=command.may_fail or may_fail,
            )
            for command in commands
        )
        self.leave_behind(step, commands, state, maybe)
        return StepRun(runner, conditions, commands, may_fail=may_fail)

    def leave_behind(
        self,
        step: Mapping[str, Any],
        commands: Sequence[Command] | None,
        state: _Job,
        maybe: bool,
    ) -> None:
        """Note the variables and outputs that the step's shell writes for later ones.

        :param commands: None where they aren't known.
        :param maybe: whether the step may not run, or not all of it.
        """
        script = shown(step["run"])
        env = Written("GITHUB_ENV", GITHUB_ENV, "env", state.env, state.any_env)
        written = [env]
        if step.get("id"):
            name = str(step["id"])
            outputs = state.outputs.setdefault(name, {})
            written.append(
                Written("GITHUB_OUTPUT", GITHUB_OUTPUT, f"steps.{name}.outputs", outputs)
            )
        for values in written:
            if commands is None and values.variable in script:
                values.forget()
            for before, command in zip((None, *(commands or ())), commands or ()):
                values.take(command, before, script, not (maybe or command.conditions))
        state.any_env = env.any


def _where_set(
    needs: Mapping[str, Mapping[str, Any]],
) -> dict[str, dict[str, Any]]:
    """The outputs as they are where none is empty that need not be."""
    return {
        need: {
            name: one_of([v for v in value.alternatives if v != ""] or [value], value.text)
            if isinstance(value, Unknown)
            else value
            for name, value in outputs.items()
        }
        for need, outputs in needs.items()
    }


def _needs(job: Mapping[str, Any]) -> list[str]:
    return [str(need) for need in _listed(job.get("needs"))]


def _by_needs(jobs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The jobs, each behind those that it needs."""
    ordered: list[str] = []
    waiting = list(jobs)
    while waiting:
        ready = [n for n in waiting if all(m in ordered or m not in jobs for m in _needs(jobs[n]))]
        # In a circle there is no order; GitHub refuses it.
        ordered += ready or waiting
        waiting = [n for n in waiting if n not in ordered]
    return ordered


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _interpolated(value: Any, lookup) -> Any:
    """A YAML value with all expressions in it evaluated."""
    if isinstance(value, dict):
        return {str(k): _interpolated(v, lookup) for k, v in value.items()}
    if isinstance(value, list):
        return [_interpolated(v, lookup) for v in value]
    return interpolate_value(value, lookup)


def _entries(value: Any) -> list[Any]:
    """Those of `include` or `exclude`: mappings, and what may be any number of them."""
    listed = value if isinstance(value, list) else [value]
    return [entry for entry in listed if isinstance(entry, (dict, Unknown))]


def _same(one: Any, other: Any) -> bool | None:
    """Whether two values are the same, or None where only a run knows."""
    if isinstance(one, Unknown) or isinstance(other, Unknown):
        return None
    return bool(one == other)


def _included(base: Sequence[Mapping[str, Any]], entries: Iterable[Any]) -> list[_Combination]:
    """The combinations of a matrix's axes, with what `include` adds to them and besides them."""
    extended = [dict(combination) for combination in base]
    added: list[_Combination] = []
    whole = True
    for entry in entries:
        if isinstance(entry, Unknown):
            # It may add any member to any combination, or take the place of one that another
            # entry added; only what the axes say stands.
            extended = [dict(combination) for combination in base]
            added.append(_Combination({}, False))
            whole = False
            continue
        fitted = False
        for combination, axes in zip(extended, base):
            fits = [_same(axes[k], v) for k, v in entry.items() if k in axes]
            if False in fits:
                continue
            for name, value in entry.items():
                if name in axes:
                    continue
                if None in fits:
                    before = combination.get(name)
                    if name not in combination and not whole:
                        before = Unknown(f"matrix.{name}")
                    value = one_of([before, value], f"matrix.{name}")
                combination[name] = value
            fitted = fitted or None not in fits
        if not fitted:
            added.append(_Combination(entry))
    found = [_Combination(combination, whole) for combination in extended]
    return [*found, *added] or [_Combination({})]


def _may_fail(scope: Mapping[str, Any], lookup) -> bool:
    """`continue-on-error` of a step or a job. Where it isn't known, its failure may not count."""
    value = interpolate_value(scope.get("continue-on-error"), lookup)
    return isinstance(value, Unknown) or shown(value) == "true"


def _as_text(value: Any) -> Any:
    return Unknown(value.text) if isinstance(value, Unknown) else shown(value)


def _word(value: Any) -> Word:
    return Word((value,)) if value != "" else Word(())


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)


def _defaults(job: Mapping[str, Any], document: Mapping[str, Any], name: str) -> list[Any]:
    """`defaults.run` of the job and of the workflow."""
    found = []
    for scope in (job, document):
        defaults = scope.get("defaults")
        run = defaults.get("run") if isinstance(defaults, dict) else None
        found.append(run.get(name) if isinstance(run, dict) else None)
    return found


def _title(step: Mapping[str, Any]) -> str:
    if step.get("name"):
        return " ".join(shown(step["name"]).split())
    if step.get("uses"):
        return str(step["uses"])
    lines = shown(step.get("run")).strip().splitlines()
    return lines[0].strip() if lines else json.dumps(step, default=str)
