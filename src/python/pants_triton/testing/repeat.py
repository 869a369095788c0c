"""The command that repeats a failed test on another machine: the same target, options and seed.

A failure is told by its output, because the seed is chosen by the test's own runner: Pants, had it
chosen one, would have had to make it a part of the result's key.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from typing import Iterable, Mapping, Sequence

#: GitHub's name of the job that runs. In generated workflows that is the lane's name.
LANE_VARIABLE = "GITHUB_JOB"

#: Further variables of tests, maybe with their values, which are nobody else's business.
EXTRA_VARIABLE = "PANTS_TEST_EXTRA_ENV_VARS"

# Options of Pants as a whole that say what a workspace is. The others say which targets are wanted,
# what is shown, or what this machine is like.
_GLOBAL_OPTIONS = frozenset(
    {
        *("backend-packages", "build-file-prelude-globs", "build-ignore", "build-patterns"),
        *("pants-config-files", "pants-ignore", "plugins", "pythonpath"),
    }
)

# Scopes of the same kinds. What says where this machine gets its files from may have a password.
_LEFT_OUT_SCOPES = frozenset(
    {
        *("changed", "filter", "run-report", "stats"),
        *("anonymous-telemetry", "artifact", "kernel-cache", "pex-cli", "python-repos"),
        "subprocess-environment",
    }
)
_LEFT_OUT_OPTIONS = frozenset(
    {
        *(("test", name) for name in ("open-coverage", "output", "report", "report-dir", "shard")),
        *(("hardware", name) for name in ("tool-search-path", "torch-pythons")),
    }
)

# Variables are anybody's: these scopes are known to hold no secrets, but for what is in
# EXTRA_VARIABLE.
_ENVIRONMENT_SCOPES = ("gtest", "hardware", "lit", "native", "pytest", "test")
_CONFIG_FILES_VARIABLES = (
    *("PANTS_CONFIG_FILES", "PANTS_PANTS_CONFIG_FILES", "PANTS_GLOBAL_PANTS_CONFIG_FILES"),
)

_ANSI = re.compile(r"\x1b\[[0-9;]*m")

# pytest-randomly's line in the header of pytest, which ends before any test's own output.
_PYTEST_SEED = re.compile(r"^Using --randomly-seed=(\d+)$", re.MULTILINE)
_PYTEST_FIRST_FAILURE = re.compile(r"^=+ (?:FAILURES|ERRORS) =+$", re.MULTILINE)
_SEED = "--randomly-seed"

_GTEST_SEED = re.compile(r"^Note: Randomizing tests' orders with a seed of (\d+)", re.MULTILINE)
_GTEST_STEP = re.compile(
    r"^\[ *(RUN|OK|SKIPPED|FAILED) *\] ([\w/]+\.[\w/]+)(?=$|[ ,])", re.MULTILINE
)
_GTEST_FILTER = "--gtest_filter"
_GTEST_RANDOM_SEED = "--gtest_random_seed"

# With more of them, a command is no longer one to read.
_MOST_CASES = 50

# What the hardware agent says of a test that failed.
_DEVICES = re.compile(r"^pants-triton: failed on \w+ (devices? [0-9:, ]+)$", re.MULTILINE)


class Runner(Enum):
    """What runs the cases of a target, and knows their seed."""

    PYTEST = "pytest"
    GTEST = "gtest"
    OTHER = "other"


@dataclass(frozen=True)
class Invocation:
    """How the run was started, as far as it matters to a single test.

    :param executable: what to start Pants with, in the build root.
    :param variables: names and values.
    :param passthrough: the arguments behind `--`.
    :param lane: the job of CI, or "".
    :param inherited: the names of variables that tests have from the user's environment. Their
        values may be secrets.
    """

    executable: str = "./pants"
    variables: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ()
    passthrough: tuple[str, ...] = ()
    lane: str = ""
    inherited: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failure:
    """A test process that failed.

    :param addresses: of its result.
    :param seed: of the order of its cases, or "".
    :param cases: those that failed, if its runner can be asked for them alone.
    :param devices: such as `device 0`; "" if it had none.
    """

    addresses: tuple[str, ...]
    runner: Runner
    seed: str = ""
    cases: tuple[str, ...] = ()
    devices: str = ""


@dataclass(frozen=True)
class Repeat:
    """How to repeat a failure.

    :param command: one line for a shell that stands in the build root.
    :param device: what the test ran on, for people; "" for a test that depends on no device.
    """

    command: str
    device: str


# -----------------------------------------------------------------------------------------
# How the run was started
# -----------------------------------------------------------------------------------------


def relevant_flags(
    scope_to_flags: Mapping[str, Sequence[str]], goals: Iterable[str]
) -> tuple[str, ...]:
    """The flags of a command line that matter to a single test, each with its scope.

    :param scope_to_flags: as Pants has split them: by scope, "" for those of Pants as a whole.
    :param goals: of the run. What is said to others than `test` is left out.
    """
    others = {goal for goal in goals if goal != "test"}
    return tuple(
        _scoped(scope, flag)
        for scope, flags in scope_to_flags.items()
        if scope not in others
        for flag in flags
        if _matters(scope, flag)
    )


def _matters(scope: str, flag: str) -> bool:
    name = flag.partition("=")[0].lstrip("-")
    positive = name[len("no-") :] if name.startswith("no-") else name
    if not scope:
        return positive in _GLOBAL_OPTIONS
    return scope not in _LEFT_OUT_SCOPES and not {(scope, name), (scope, positive)} & (
        _LEFT_OUT_OPTIONS
    )


def _scoped(scope: str, flag: str) -> str:
    if not scope:
        return flag
    prefix = "--no-" if flag.startswith("--no-") else "--"
    return f"{prefix}{scope}-{flag[len(prefix):]}"


def relevant_variables(
    environment: Mapping[str, str], build_root: str
) -> tuple[tuple[str, str], ...]:
    """The variables of the environment that matter to a single test.

    Configuration files in the build root are named as they are on other machines.
    """
    found = {
        name: environment[name].replace(f"{build_root}/", "")
        for name in _CONFIG_FILES_VARIABLES
        if environment.get(name)
    }
    for scope in _ENVIRONMENT_SCOPES:
        prefix = f"PANTS_{scope.upper()}_"
        for name in sorted(environment):
            option = name[len(prefix) :].lower().replace("_", "-")
            left_out = name == EXTRA_VARIABLE or (scope, option) in _LEFT_OUT_OPTIONS
            if name.startswith(prefix) and not left_out:
                found[name] = environment[name]
    return tuple(found.items())


# -----------------------------------------------------------------------------------------
# What failed
# -----------------------------------------------------------------------------------------


def read_failure(addresses: Sequence[str], runner: Runner, stdout: str, stderr: str) -> Failure:
    """What the output of a failed test process tells of it."""
    devices = _DEVICES.search(stderr)
    seed = ""
    cases: tuple[str, ...] = ()
    if runner is Runner.PYTEST:
        seed = _pytest_seed(stdout)
    elif runner is Runner.GTEST:
        seed, cases = _gtest_seed_and_cases(stdout)
    return Failure(tuple(addresses), runner, seed, cases, devices.group(1) if devices else "")


def _pytest_seed(stdout: str) -> str:
    plain = _ANSI.sub("", stdout)
    # A test that runs pytest itself has another such line in its output.
    failures = _PYTEST_FIRST_FAILURE.search(plain)
    seed = _PYTEST_SEED.search(plain, 0, failures.start() if failures else len(plain))
    return seed.group(1) if seed else ""


def _gtest_seed_and_cases(stdout: str) -> tuple[str, tuple[str, ...]]:
    plain = _ANSI.sub("", stdout)
    failed: dict[str, None] = {}
    running = ""
    for step, case in _GTEST_STEP.findall(plain):
        running = case if step == "RUN" else ""
        if step == "FAILED":
            failed[case] = None
    if running:
        # The program ended in it.
        failed[running] = None
    seed = _GTEST_SEED.search(plain)
    return seed.group(1) if seed else "", tuple(failed)


# -----------------------------------------------------------------------------------------
# How to repeat it
# -----------------------------------------------------------------------------------------


def repeat(failure: Failure, invocation: Invocation, fingerprint: str = "") -> Repeat:
    """How to repeat a failure.

    :param fingerprint: of the devices that the test was planned for, see `DeviceClass`.
    """
    words = [invocation.executable, *invocation.flags, "test"]
    words += dict.fromkeys(map(_target, failure.addresses))
    arguments = _arguments(failure, invocation.passthrough)
    if arguments:
        words += ["--", *arguments]
    variables = [f"{name}={shlex.quote(value)}" for name, value in invocation.variables]
    return Repeat(" ".join([*variables, shlex.join(words)]), _device(fingerprint, failure.devices))


def _target(address: str) -> str:
    """The target of a result. Those of GoogleTest are named after the program, which is no target."""
    return re.sub(r"#[^@]*", "", address)


def _arguments(failure: Failure, passthrough: Sequence[str]) -> list[str]:
    if failure.runner is Runner.PYTEST and failure.seed:
        # Not the case alone that failed: without the others, the order would be another one.
        return [*_without(passthrough, _SEED), f"{_SEED}={failure.seed}"]
    if failure.runner is Runner.GTEST and failure.seed:
        # The same, here.
        return [*_without(passthrough, _GTEST_RANDOM_SEED), f"{_GTEST_RANDOM_SEED}={failure.seed}"]
    if failure.runner is Runner.GTEST and 0 < len(failure.cases) <= _MOST_CASES:
        wanted = ":".join(failure.cases)
        return [*_without(passthrough, _GTEST_FILTER), f"{_GTEST_FILTER}={wanted}"]
    return list(passthrough)


def _without(arguments: Sequence[str], name: str) -> list[str]:
    """The arguments without those of this name, whether written with `=` or with a space."""
    kept = []
    is_value = False
    for argument in arguments:
        if is_value:
            is_value = False
        elif argument == name:
            is_value = True
        elif not argument.startswith(f"{name}="):
            kept.append(argument)
    return kept


def _device(fingerprint: str, devices: str) -> str:
    if not fingerprint:
        return ""
    # `cuda sm_90 | NVIDIA H100 80GB HBM3 | 81559 MiB | driver 550.54.15`
    hardware, name, _, *rest = fingerprint.split(" | ")
    text = ", ".join([f"{hardware.partition(' ')[2]} {name}", *rest])
    return f"{text} ({devices})" if devices else text


def closing_lines(repeats: Iterable[Repeat], invocation: Invocation) -> str:
    """What a run with failed tests ends with: a line for each, below what is true of several.

    The lines are commands and nothing else. A comment behind them would be taken for arguments by a
    shell such as zsh.
    """
    by_device: dict[str, dict[str, None]] = defaultdict(dict)
    for each in repeats:
        by_device[each.device][each.command] = None
    lines = []
    for device, commands in sorted(by_device.items()):
        head = "Repeat what failed"
        if invocation.lane:
            head += f" in lane {invocation.lane}"
        if device:
            head += f" on {device}"
        if invocation.inherited:
            head += f", with {', '.join(invocation.inherited)} set as here"
        lines += [f"{head}:", *(f"  {command}" for command in sorted(commands))]
    return "\n".join(lines)
