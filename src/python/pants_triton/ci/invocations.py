"""What a shell command of a workflow is: a run of pytest, lit or CTest, a build, or something that
is not a test, with what takes its place.

Two tables hold what is known: `COMMANDS` for programs, `ACTIONS` for steps that use an action. A
command that no table knows is `NotUnderstood`.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from dataclasses import dataclass
from typing import Iterable, Sequence, Union

from pants_triton.ci.shell_lines import (
    GITHUB_ENV,
    GITHUB_OUTPUT,
    GITHUB_PATH,
    Command,
    Word,
    path_from,
    run_script,
)
from pants_triton.ci.shell_syntax import ShellError

# --- what comes out ------------------------------------------------------------------------------


@dataclass(frozen=True)
class PytestArguments:
    """A pytest command line, as far as it decides what runs and how.

    :param paths: files, folders and node ids as written.
    :param ignores: of `--ignore`, as written; those of `--ignore-glob` in `ignore_globs`.
    :param keyword: of `-k`; the last one counts, as for pytest. Likewise `markers`, of `-m`.
    :param workers: of `-n`, empty without.
    :param isolated: `--forked`, each test in a process of its own.
    :param others: all other options that may matter, with their values, such as `--device cpu`.
    """

    paths: tuple[Word, ...] = ()
    ignores: tuple[Word, ...] = ()
    ignore_globs: tuple[Word, ...] = ()
    keyword: str = ""
    markers: str = ""
    workers: str = ""
    isolated: bool = False
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class PytestRun:
    """`folder` is where it runs, from the checkout's root."""

    folder: Word
    arguments: PytestArguments


@dataclass(frozen=True)
class LitRun:
    """:param paths: suites and files, from the checkout's root.
    :param others: options that select tests or change how they run, with their values.
    """

    paths: tuple[Word, ...]
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class CTestRun:
    """:param folder: the build folder, from the checkout's root."""

    folder: Word
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Build:
    """A build of the project in `folder`, from the checkout's root.

    :param extras: of pip, such as `tests` of `.[tests]`.
    :param editable: whether it is used from where its sources are.
    """

    folder: Word
    tool: str
    extras: tuple[str, ...] = ()
    editable: bool = False


@dataclass(frozen=True)
class Replaced:
    """Not a test.

    :param purpose: what it is for.
    :param by: what takes its place, or why nothing has to.
    """

    purpose: str
    by: str


@dataclass(frozen=True)
class NotUnderstood:
    """:param why: what to do about it, too."""

    why: str


Invocation = Union[PytestRun, LitRun, CTestRun, Build, Replaced, NotUnderstood]

# --- the tables ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CommandRule:
    """Commands that are no tests.

    :param programs: names without their folder, separated by blanks; `*` for any.
    :param arguments: a pattern that is found in the arguments, joined by blanks.
    """

    programs: str
    arguments: str
    purpose: str
    by: str

    def applies(self, name: str, arguments: str) -> bool:
        names = self.programs.split()
        return (names == ["*"] or name in names) and bool(re.search(self.arguments, arguments))


_CHECKS = "checking format and style"
_FILES = "making and removing files"
_LOOKS = "looking at the machine"
_PACKAGES = "installing packages"
_SANDBOX = "every process has a sandbox of its own, which is removed"
_ASKS = "asking GitHub whether to run"
_ASKED = "a run that finds all in the cache is cheap, and `pants ci-matrix` leaves lanes out"

#: The first that applies counts. Runs of tests and builds are recognised before.
COMMANDS: tuple[CommandRule, ...] = (
    CommandRule(
        """
        cd pushd popd export declare typeset local readonly unset set shopt trap umask alias let
        : true false exit return break continue wait sleep shift read ulimit test [ [[ ((
        """,
        "",
        "what the shell does for itself",
        "nothing has to",
    ),
    CommandRule(
        """
        echo printf cat tee grep egrep zgrep rg sed awk cut sort uniq tr head tail wc jq yq basename
        dirname realpath readlink date seq sha256sum sha1sum md5sum diff cmp column fold expr bc base64
        """,
        "",
        "working on text",
        "nothing has to",
    ),
    CommandRule(
        """
        ls du df free find stat file tree pwd env printenv uname hostname whoami id nproc lscpu lspci
        lsb_release uptime top ps which type hash ldd nm ccache sccache nvidia-smi rocm-smi rocminfo
        amd-smi clinfo lsof dmesg sysctl sw_vers system_profiler
        """,
        r"^(?!.*-(?:exec|execdir|ok|delete)\b)",
        _LOOKS,
        "the run report; `pants hardware` lists devices and drivers",
    ),
    CommandRule("*", r"^(?:-V|--version|version)$", _LOOKS, "locks name every version"),
    CommandRule(
        "git",
        r"^(?:diff|log|status|show|rev-parse|describe|config|branch)\b",
        "looking at the checkout",
        "`pants lint` says what it would change, `pants fmt` changes it",
    ),
    CommandRule(
        "git",
        r"^(?:clone|fetch|checkout|submodule|pull|lfs|init|remote|reset|clean)\b",
        "getting sources",
        "the generated workflow's checkout, and artifacts",
    ),
    CommandRule("rm mkdir rmdir touch chmod chown mv cp ln mktemp truncate", "", _FILES, _SANDBOX),
    CommandRule("find", r"-delete\b", _FILES, _SANDBOX),
    CommandRule(
        "docker podman",
        r"^(?:system|image|container|builder|volume) prune|^(?:rmi?|images|ps|info|stop|kill)\b",
        _FILES,
        _SANDBOX,
    ),
    CommandRule(
        "pkill kill killall",
        "",
        "ending left processes",
        "a test's processes end with it; what is killed frees its devices",
    ),
    CommandRule("curl wget", r"\bapi\.github\.com\b", _ASKS, _ASKED),
    CommandRule("gh", r"^(?:api|run|pr|auth)\b", _ASKS, _ASKED),
    CommandRule("curl wget aria2c", "", "downloading", "artifacts: pinned, checked, fetched once"),
    CommandRule(
        "tar unzip gunzip gzip xz zstd zip 7z",
        "",
        "packing and unpacking",
        "the fetch of an artifact unpacks it; `pants package` packs",
    ),
    CommandRule(
        "pre-commit pre_commit",
        r"^(?:run|install)\b",
        _CHECKS,
        "`pants lint ::` in the formatting lane; compare its tools with .pre-commit-config.yaml",
    ),
    CommandRule(
        "black ruff isort flake8 yapf autopep8 clang-format mypy pylint yamllint actionlint",
        "",
        _CHECKS,
        "`pants lint ::` and `pants check ::` in the formatting lane",
    ),
    CommandRule(
        "source .",
        r"(?:^|/)activate$",
        "using a virtual environment",
        "locked resolves: each test process finds its packages by itself",
    ),
    CommandRule(
        "venv virtualenv",
        "",
        "using a virtual environment",
        "locked resolves: each test process finds its packages by itself",
    ),
    CommandRule(
        "pip pip3 pipx uv conda mamba micromamba",
        r"^(?:pip )?(?:install|uninstall|list|freeze|show|check|config|cache|sync|download)\b"
        r"|^(?:venv|env|create|update|clean|init)\b",
        _PACKAGES,
        "locked resolves: every version and hash is in the repository",
    ),
    CommandRule(
        "apt apt-get brew yum dnf apk zypper choco snap add-apt-repository dpkg rpm npm",
        "",
        _PACKAGES,
        "artifacts of the toolchain, and the runner's image",
    ),
    CommandRule(
        """
        update-alternatives ldconfig locale-gen modprobe swapoff swapon mount umount systemctl service
        xcode-select
        """,
        "",
        "setting up the machine",
        "the runner's image",
    ),
)

#: Echoes into the runner's files say what the workflow, not what a test does.
_RUNNER_FILES = {
    GITHUB_ENV: Replaced("handing variables to later steps", "the `env` field of targets"),
    GITHUB_OUTPUT: Replaced("handing values to later steps", "locks and cache keys are Pants' own"),
    GITHUB_PATH: Replaced("finding programs", "tools are artifacts, at paths that targets name"),
}


@dataclass(frozen=True)
class ActionRule:
    """Steps that use an action.

    :param actions: a pattern that the action's name matches as a whole, without its version.
    """

    actions: str
    purpose: str
    by: str


ACTIONS: tuple[ActionRule, ...] = (
    ActionRule(r"actions/checkout", "getting sources", "the generated workflow's checkout"),
    ActionRule(
        r"actions/cache(/.*)?|hendrikmuhs/ccache-action|mozilla-actions/sccache-action",
        "keeping files from run to run",
        "the remote cache; downloads are artifacts",
    ),
    ActionRule(
        r"actions/setup-(python|node|java|go)|conda-incubator/setup-miniconda|astral-sh/setup-uv",
        _PACKAGES,
        "the launcher and locked resolves",
    ),
    ActionRule(
        r"tj-actions/changed-files|dorny/paths-filter",
        "finding what changed",
        "`pants ci-matrix --changed-since=…`",
    ),
    ActionRule(
        r"actions/(upload|download)-artifact|dorny/test-reporter|codecov/codecov-action"
        r"|EnricoMi/publish-unit-test-result-action(/.*)?",
        "passing files on and reporting",
        "the run report; the cache carries results between jobs",
    ),
    ActionRule(
        r"pre-commit/action|psf/black|astral-sh/ruff-action",
        _CHECKS,
        "`pants lint ::` in the formatting lane",
    ),
    ActionRule(
        r"jlumbroso/free-disk-space|lukka/get-cmake|docker/(setup|login)-.*",
        "setting up the machine",
        "the runner's image; tools are artifacts",
    ),
)


def classify_action(uses: str) -> Invocation:
    """What a step does that uses this action, such as `actions/cache/save@v4`."""
    name = uses.partition("@")[0]
    for rule in ACTIONS:
        if re.fullmatch(rule.actions, name, re.IGNORECASE):
            return Replaced(rule.purpose, rule.by)
    if uses.startswith("./") and re.search(r"\.ya?ml$", name):
        return NotUnderstood(
            f"it calls the workflow {name[2:]}: name that file with `--workflow` as well"
        )
    if uses.startswith("./"):
        return NotUnderstood(f"what the action in {name[2:]} does is not read")
    return NotUnderstood(f"the action {name} is not known")


# --- commands ------------------------------------------------------------------------------------

_PYTHON = re.compile(r"python(\d+(\.\d+)?)?|pypy3?", re.IGNORECASE)
# Programs that run the command behind their own options; those of the options that have a value.
_WRAPPERS: dict[str, tuple[str, ...]] = {
    "sudo": ("-u", "-g", "-C"),
    "nohup": (),
    "exec": (),
    "command": (),
    "nice": ("-n",),
    "stdbuf": ("-o", "-e", "-i"),
    "time": (),
    "env": ("-u", "-C"),
    "timeout": ("-s", "-k", "--signal", "--kill-after"),
    "xvfb-run": ("-s", "-n"),
    "catchsegv": (),
    "ionice": ("-c", "-n"),
    "taskset": (),
    "numactl": (),
    "compute-sanitizer": ("--tool",),
}
_WRAPPER_OPERANDS = {"timeout": 1, "taskset": 1}
_RUNNERS = {("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("hatch", "run"), ("coverage", "run")}


def classify(command: Command, depth: int = 0) -> list[tuple[Command, Invocation]]:
    """What a command is; more than one where it runs a shell itself (`bash -c`)."""
    name = command.words[0].text.rsplit("/", 1)[-1]
    arguments = command.words[1:]
    if name in ("bash", "sh") and depth < 5:
        script = _script_of(arguments)
        if script is not None and script.known is not None:
            try:
                inner = run_script(
                    script.known, environment=command.variables, folder=command.folder
                )
            except ShellError as e:
                return [
                    (command, NotUnderstood(f"its script is not shell that is understood: {e}"))
                ]
            return [
                found
                for run in inner
                for found in classify(
                    dataclasses.replace(
                        run,
                        line=command.line,
                        conditions=command.conditions + run.conditions,
                        may_fail=command.may_fail or run.may_fail,
                    ),
                    depth + 1,
                )
            ]
    unwrapped = _unwrap(command)
    if unwrapped is not None and depth < 10:
        return classify(unwrapped, depth + 1)
    return [(command, _classify_simple(command, name, arguments))]


def _script_of(arguments: Sequence[Word]) -> Word | None:
    for i, argument in enumerate(arguments[:-1]):
        if re.fullmatch(r"-[a-z]*c", argument.text):
            return arguments[i + 1]
        if argument.text[:1] not in "-+":
            return None
    return None


def _unwrap(command: Command) -> Command | None:
    """The command that this one runs, if it is a wrapper."""
    words = list(command.words)
    name = words[0].text.rsplit("/", 1)[-1]
    if (name, words[1].text if len(words) > 1 else "") in _RUNNERS:
        rest = words[2:]
        while rest and rest[0].text.startswith("-") and rest[0].text != "-m":
            rest = rest[1:]
        if rest[:1] and rest[0].text == "-m":
            rest = [Word(("python",)), *rest]
        return dataclasses.replace(command, words=tuple(rest)) if rest else None
    if name not in _WRAPPERS:
        return None
    environment = command.variables
    rest = words[1:]
    operands = _WRAPPER_OPERANDS.get(name, 0)
    while rest:
        text = rest[0].text
        assignment = re.match(r"([A-Za-z_]\w*)=", text)
        if text in _WRAPPERS[name]:
            if name == "env" and text == "-u" and len(rest) > 1:
                environment = {k: v for k, v in environment.items() if k != rest[1].text}
            rest = rest[2:]
        elif text.startswith("-"):
            if name == "env" and text in ("-i", "-", "--ignore-environment"):
                environment = {}
            rest = rest[1:]
        elif name in ("env", "sudo") and assignment and isinstance(rest[0].parts[0], str):
            value = (rest[0].parts[0][assignment.end() :], *rest[0].parts[1:])
            environment = {
                **environment,
                assignment[1]: Word(tuple(part for part in value if part != "")),
            }
            rest = rest[1:]
        elif operands:
            operands -= 1
            rest = rest[1:]
        else:
            break
    if not rest:
        return None
    return dataclasses.replace(
        command, words=tuple(rest), environment=tuple(sorted(environment.items()))
    )


def _classify_simple(command: Command, name: str, arguments: Sequence[Word]) -> Invocation:
    for operator, target in command.redirects:
        if operator in (">>", ">") and target.known in _RUNNER_FILES and name in ("echo", "printf"):
            return _RUNNER_FILES[target.known or ""]
    if name == "echo" and arguments and arguments[0].text.startswith("::set-output"):
        return _RUNNER_FILES[GITHUB_OUTPUT]
    module = _module_of(name, arguments)
    if module is not None:
        name, arguments = module
    if name in ("pytest", "py.test"):
        return PytestRun(
            command.folder, parse_pytest_arguments([*_added_options(command), *arguments])
        )
    if re.fullmatch(r"(llvm-)?lit(\.py)?", name):
        return _lit(command, arguments)
    if name == "ctest":
        return _ctest(command, arguments)
    build = _build(command, name, arguments)
    if build is not None:
        return build
    text = " ".join(argument.text for argument in arguments)
    for rule in COMMANDS:
        if rule.applies(re.sub(r"^pip3?(\.\d+)?$", "pip", name), text):
            return Replaced(rule.purpose, rule.by)
    return NotUnderstood(_why(name, arguments))


def _why(name: str, arguments: Sequence[Word]) -> str:
    if name in ("make", "gmake", "ninja", "just", "tox", "nox"):
        return f"what `{name}` runs is written elsewhere"
    if name in ("bash", "sh", "source", ".") or name.endswith(".sh"):
        return "what the script runs is not read"
    if name in ("xargs", "parallel", "eval", "find"):
        return f"what `{name}` runs is put together when it runs"
    if _PYTHON.fullmatch(name):
        return "what the Python code does is not read"
    return f"`{name}` is not known"


def _module_of(name: str, arguments: Sequence[Word]) -> tuple[str, Sequence[Word]] | None:
    """The module of `python -m module` and its arguments."""
    # An unknown program, such as `$PYTHON`, that is given `-m pytest` is a Python.
    if not (_PYTHON.fullmatch(name) or name[:1] == "$"):
        return None
    for i, argument in enumerate(arguments):
        if argument.text == "-m" and i + 1 < len(arguments):
            return arguments[i + 1].text, arguments[i + 2 :]
        if argument.text in ("-X", "-W"):
            continue
        if not argument.text.startswith("-") and not (i and arguments[i - 1].text in ("-X", "-W")):
            return None
    return None


# --- pytest --------------------------------------------------------------------------------------


def _added_options(command: Command) -> list[Word]:
    """Those of `PYTEST_ADDOPTS`, which come before what is typed."""
    given = command.variables.get("PYTEST_ADDOPTS")
    if given is None or given.known is None:
        return [] if given is None else [given]
    try:
        return [Word((text,)) for text in shlex.split(given.known) if text]
    except ValueError:
        return [given]


# Options of pytest and its usual plugins that have a value of their own.
_PYTEST_VALUES = frozenset(
    {
        *(
            "-k",
            "-m",
            "-n",
            "-p",
            "-c",
            "-o",
            "-r",
            "-W",
            "--ignore",
            "--ignore-glob",
            "--deselect",
        ),
        *("--maxfail", "--tb", "--durations", "--durations-min", "--junitxml", "--junit-xml"),
        *(
            "--rootdir",
            "--confcutdir",
            "--basetemp",
            "--capture",
            "--color",
            "--log-level",
            "--dist",
        ),
        *(
            "--log-cli-level",
            "--log-file",
            "--numprocesses",
            "--maxprocesses",
            "--timeout",
            "--cov",
        ),
        *(
            "--cov-report",
            "--cov-config",
            "--import-mode",
            "--override-ini",
            "--verbosity",
            "--html",
        ),
        *(
            "--max-worker-restart",
            "--reruns",
            "--reruns-delay",
            "--device",
            "--keyword",
            "--splits",
        ),
        *("--timeout-method", "--junit-prefix", "--group", "--count", "--tx", "--show-capture"),
        *(
            "--report-log",
            "--randomly-seed",
            "--test-group",
            "--test-group-count",
            "--pythonwarnings",
        ),
    }
)
# Options that decide how results are shown and where reports go, or when to stop: not what is
# tested. With their value, if they have one.
_PYTEST_PRESENTATION = re.compile(
    r"-[svqlx]+|-r.*|-r [A-Za-z]+|--verbose|--quiet|--capture[= ].*|--tb[= ].*|--durations(-min)?[= ].*|--color[= ].*"
    r"|--junit-?xml[= ].*|--junit-prefix[= ].*|--show-capture[= ].*|--showlocals|--no-header|--no-summary"
    r"|--log-(cli-)?level[= ].*|--log-file[= ].*|--verbosity[= ].*|--html[= ].*|--self-contained-html|--report-log[= ].*"
    r"|--cov([= ].*|-.*)?|--maxfail[= ].*|--exitfirst|--basetemp[= ].*|--dist[= ].*|--maxprocesses[= ].*"
    r"|--max-worker-restart[= ].*|--strict-markers|--strict-config|--strict|-p no:cacheprovider|-p xdist|-p forked"
    r"|--cache-clear|--full-trace|--setup-show|--instafail|--rootdir[= ].*|--disable-warnings"
    r"|--disable-pytest-warnings|--timeout(-method)?[= ].*"
)


def parse_pytest_arguments(arguments: Iterable[Word]) -> PytestArguments:
    """Understand pytest's command line.

    An option that isn't known takes the next word as its value, unless that looks like a path: what
    a `conftest.py` adds can't be told otherwise.
    """
    paths: list[Word] = []
    ignores: list[Word] = []
    ignore_globs: list[Word] = []
    values: dict[str, str] = {}
    others: list[str] = []
    isolated = False
    waiting = list(arguments)
    only_paths = False
    while waiting:
        word = waiting.pop(0)
        text = word.text
        if only_paths or not text.startswith("-") or text == "-":
            paths.append(word)
            continue
        if text == "--":
            only_paths = True
            continue
        option, value = _split_option(word)
        if value is None and waiting:
            following = waiting[0]
            plain = not following.text.startswith("-")
            unknown_long = option.startswith("--") and not _PYTEST_PRESENTATION.fullmatch(option)
            if option in _PYTEST_VALUES or (
                option not in _PYTEST_FLAGS and unknown_long and plain and not _is_path(following)
            ):
                value = waiting.pop(0)
        if option == "--ignore" and value is not None:
            ignores.append(value)
        elif option == "--ignore-glob" and value is not None:
            ignore_globs.append(value)
        elif option in _PYTEST_NAMES and value is not None:
            values[_PYTEST_NAMES[option]] = " ".join(value.text.split())
        elif option in ("--forked", "--boxed"):
            isolated = True
        else:
            shown = option if value is None else f"{option} {value.text}"
            if not _PYTEST_PRESENTATION.fullmatch(shown):
                others.append(shown)
    workers = values.get("workers", "")
    return PytestArguments(
        paths=tuple(paths),
        ignores=tuple(ignores),
        ignore_globs=tuple(ignore_globs),
        keyword=values.get("keyword", ""),
        markers=values.get("markers", ""),
        workers="" if workers == "0" else workers,
        isolated=isolated,
        others=tuple(sorted(others)),
    )


_PYTEST_NAMES = {
    "-k": "keyword",
    "--keyword": "keyword",
    "-m": "markers",
    "-n": "workers",
    "--numprocesses": "workers",
}
_PYTEST_FLAGS = frozenset({"--forked", "--boxed", "--lf", "--ff", "--last-failed", "--runxfail"})


def _split_option(word: Word) -> tuple[str, Word | None]:
    """The name of an option, and its value where both are one word: `--tb=short`, `-n8`, `-kname`."""
    first = word.parts[0]
    assert isinstance(first, str)
    if first.startswith("--"):
        name, equals, rest = first.partition("=")
    elif first[:2] in ("-k", "-m", "-n", "-p", "-c", "-o", "-W") and (
        len(first) > 2 or len(word.parts) > 1
    ):
        name, equals, rest = first[:2], "=", first[2:].lstrip("=")
    else:
        name, equals, rest = first, "", ""
    if not equals:
        return word.text, None
    return name, Word(tuple(part for part in (rest, *word.parts[1:]) if part != ""))


def _is_path(word: Word) -> bool:
    return bool(re.search(r"/|\.py\b|::|^\.\.?$", word.text))


# --- lit, CTest, builds --------------------------------------------------------------------------

_LIT_VALUES = frozenset(
    {
        *("-j", "--threads", "--workers", "--filter", "--filter-out", "-D", "--param", "--timeout"),
        *(
            "--xunit-xml-output",
            "--max-failures",
            "--max-time",
            "--num-shards",
            "--run-shard",
            "-o",
        ),
        *(
            "--output",
            "--path",
            "--max-tests",
            "--order",
            "--resultdb-output",
            "--time-trace-output",
        ),
    }
)
_LIT_OTHERS = re.compile(
    r"--(?:filter|filter-out|param|num-shards|run-shard|max-tests|path)(?: .*)?|-D.*|--vg.*"
)


def _lit(command: Command, arguments: Sequence[Word]) -> Invocation:
    paths, options = _options(arguments, _LIT_VALUES)
    others = tuple(sorted(option for option in options if _LIT_OTHERS.fullmatch(option)))
    return LitRun(tuple(path_from(command.folder, path) for path in paths), others)


_CTEST_VALUES = frozenset(
    {
        *("-R", "-E", "-L", "-LE", "-I", "-j", "--parallel", "--test-dir", "-C", "--build-config"),
        *("--timeout", "--output-junit", "-O", "--output-log", "--repeat", "--tests-regex"),
        *("--exclude-regex", "--label-regex", "--stop-time", "--preset"),
    }
)
_CTEST_OTHERS = re.compile(
    r"-[RELI].*|--(?:tests-regex|exclude-regex|label-regex|preset|repeat)(?: .*)?"
)


def _ctest(command: Command, arguments: Sequence[Word]) -> Invocation:
    _, options = _options(arguments, _CTEST_VALUES)
    folder = command.folder
    for i, argument in enumerate(arguments):
        if argument.text == "--test-dir" and i + 1 < len(arguments):
            folder = path_from(command.folder, arguments[i + 1])
        elif argument.text.startswith("--test-dir=") and isinstance(argument.parts[0], str):
            rest = argument.parts[0].partition("=")[2]
            folder = path_from(command.folder, Word((rest, *argument.parts[1:])))
    others = tuple(sorted(option for option in options if _CTEST_OTHERS.fullmatch(option)))
    return CTestRun(folder, others)


def _options(
    arguments: Sequence[Word], with_values: frozenset[str]
) -> tuple[list[Word], list[str]]:
    """Operands, and options as `name value`."""
    operands: list[Word] = []
    options: list[str] = []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if not word.text.startswith("-"):
            operands.append(word)
        elif word.text in with_values and waiting:
            options.append(f"{word.text} {waiting.pop(0).text}")
        else:
            options.append(word.text.replace("=", " ", 1) if word.text[:2] == "--" else word.text)
    return operands, options


_PIP = re.compile(r"pip|pip3|pip3\.\d+")
_PIP_VALUES = frozenset(
    {
        *("-r", "-c", "-f", "-i", "-t", "-w", "--requirement", "--constraint", "--index-url"),
        *("--extra-index-url", "--find-links", "--target", "--prefix", "--root", "--wheel-dir"),
        *(
            "--config-settings",
            "-C",
            "--global-option",
            "--build-option",
            "--trusted-host",
            "--python",
        ),
        *("--no-binary", "--only-binary", "--platform", "--timeout", "--retries", "--cache-dir"),
    }
)
_LOCAL = re.compile(r"(\.{1,2}(?:/[^\[\]]*)?|/[^\[\]]*|[\w.*-]+/[^\[\]:@]*)(?:\[([\w, -]*)\])?")


def _build(command: Command, name: str, arguments: Sequence[Word]) -> Build | None:
    texts = [argument.text for argument in arguments]
    if name == "uv" and texts[:1] == ["pip"]:
        name, texts, arguments = "pip", texts[1:], arguments[1:]
    if _PIP.fullmatch(name) and texts[:1] and texts[0] in ("install", "wheel"):
        # `-e PATH` is an operand like any other.
        rest = [a for a in arguments[1:] if a.text not in ("-e", "--editable")]
        operands, options = _options(rest, _PIP_VALUES)
        editable = any(text in ("-e", "--editable") for text in texts)
        for operand in operands:
            local = _LOCAL.fullmatch(operand.glob)
            if local and not re.search(r"\.(whl|tar\.gz|zip|txt)$", local[1]):
                extras = tuple(e.strip() for e in (local[2] or "").split(",") if e.strip())
                first = Word((local[1],)) if operand.known is not None else operand
                return Build(path_from(command.folder, first), "pip", extras, editable)
        return None
    if _PYTHON.fullmatch(name) and texts[:1] and texts[0].rsplit("/", 1)[-1] == "setup.py":
        if len(texts) > 1 and texts[1] in (
            *("build", "build_ext", "install", "develop", "bdist_wheel", "editable_wheel"),
        ):
            folder = path_from(command.folder, Word((texts[0].rpartition("/")[0] or ".",)))
            return Build(folder, "setup.py", (), texts[1] == "develop")
        return None
    if name == "build":
        folders = [a for a in arguments if not a.text.startswith("-")]
        return Build(path_from(command.folder, folders[0] if folders else Word((".",))), "build")
    if name == "cmake":
        if "--build" in texts:
            index = texts.index("--build") + 1
            given = arguments[index] if index < len(arguments) else Word((".",))
            wanted = _after(texts, ("--target", "-t"))
            if re.match(r"check|test", wanted):
                return None
            return Build(path_from(command.folder, given), "cmake")
        sources = _after(texts, ("-S",)) or next((t for t in texts if t[:1] != "-"), ".")
        return Build(path_from(command.folder, Word((sources,))), "cmake")
    if name in ("ninja", "make", "gmake"):
        operands, _ = _options(arguments, frozenset({"-C", "-f", "-j", "-k", "-l", "-d", "-t"}))
        wanted_targets = [o.text for o in operands if "=" not in o.text]
        if all(t in ("all", "install", "triton") for t in wanted_targets) and (
            name == "ninja" or wanted_targets
        ):
            return Build(path_from(command.folder, Word((_after(texts, ("-C",)) or ".",))), name)
    return None


def _after(texts: Sequence[str], options: Sequence[str]) -> str:
    for i, text in enumerate(texts[:-1]):
        if text in options:
            return texts[i + 1]
    return ""
