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
from typing import Collection, Iterable, Sequence, Union

from pants_triton.ci.shell_lines import GITHUB_ENV, GITHUB_OUTPUT, GITHUB_PATH, Command, run_script
from pants_triton.ci.shell_syntax import ShellError
from pants_triton.ci.shell_words import Word, join_words, path_from
from pants_triton.ci.unknown import Unknown

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
_TELLS = "telling people"
_TOLD = "the run report"
_VENV = "using a virtual environment"
_RESOLVES = "locked resolves: each test process finds its packages by itself"

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
    # With redirects only.
    CommandRule("exec", "^$", "what the shell does for itself", "nothing has to"),
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
    CommandRule("command", r"^-[vV]\b", _LOOKS, "artifacts and locks name all that a test finds"),
    CommandRule("*", r"^(?:-V|--version|version)$", _LOOKS, "locks name every version"),
    CommandRule(
        "git",
        r"^(?:diff|log|status|show|rev-parse|rev-list|describe|config|branch|merge-base|ls-files"
        r"|ls-remote|ls-tree|grep|blame|shortlog|cat-file)\b",
        "looking at the checkout",
        "`pants lint` says what it would change, `pants fmt` changes it",
    ),
    CommandRule(
        "git",
        r"^(?:clone|fetch|checkout|switch|submodule|pull|lfs|init|remote|reset|clean|worktree)\b",
        "getting sources",
        "the generated workflow's checkout, and artifacts",
    ),
    CommandRule(
        "git",
        r"^(?:add|commit|push|apply|am|rebase|merge|cherry-pick|revert|stash|tag)\b",
        "changing sources",
        "commits: what is tested is what is checked out",
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
    CommandRule(
        "gh",
        r"^(?:api|auth|pr|run (?:list|view|watch|download|cancel)|workflow (?:list|view))\b",
        _ASKS,
        _ASKED,
    ),
    CommandRule("gh", r"^(?:issue|label)\b", _TELLS, _TOLD),
    CommandRule("gh", r"^release\b", "publishing", "`pants package` makes what is published"),
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
    CommandRule("source .", r"(?:^|/)activate$", _VENV, _RESOLVES),
    CommandRule("venv virtualenv", "", _VENV, _RESOLVES),
    CommandRule("conda mamba micromamba", r"^(?:de)?activate\b", _VENV, _RESOLVES),
    CommandRule(
        "pip pip3 pipx uv conda mamba micromamba",
        r"^(?:pip )?(?:install|uninstall|list|freeze|show|check|config|cache|sync|download)\b"
        r"|^(?:venv|env|create|update|clean|init)\b",
        _PACKAGES,
        "locked resolves: every version and hash is in the repository",
    ),
    CommandRule(
        """
        apt apt-get apt-key brew yum dnf apk zypper choco snap add-apt-repository dpkg dpkg-deb rpm npm
        """,
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
    "sudo": ("-u", "-g", "-C", "-D", "--user", "--group", "--chdir"),
    "nohup": (),
    "exec": ("-a",),
    "command": (),
    "nice": ("-n", "--adjustment"),
    "stdbuf": ("-o", "-e", "-i", "--output", "--error", "--input"),
    "time": ("-f", "-o", "--format", "--output"),
    "env": ("-u", "-C", "--unset", "--chdir"),
    "timeout": ("-s", "-k", "--signal", "--kill-after"),
    "xvfb-run": ("-s", "-n", "--server-args", "--server-num"),
    "catchsegv": (),
    "ionice": ("-c", "-n", "--class", "--classdata"),
    "taskset": (),
    "numactl": (
        *("-i", "-p", "-P", "-m", "-N", "-C", "--interleave", "--preferred", "--preferred-many"),
        *("--membind", "--cpunodebind", "--physcpubind"),
    ),
    "compute-sanitizer": ("--tool",),
}
_WRAPPER_OPERANDS = {"timeout": 1, "taskset": 1}
# Programs that do so behind `run`.
_RUNNERS: dict[str, tuple[str, ...]] = {
    "uv": (
        *(
            "--with",
            "--with-editable",
            "--with-requirements",
            "-p",
            "--python",
            "--extra",
            "--group",
        ),
        *("--only-group", "--no-group", "--no-extra", "--project", "--directory", "--package"),
        *("--env-file", "--index", "--default-index", "-i", "--index-url", "--extra-index-url"),
        *("-f", "--find-links", "--cache-dir", "--config-file", "--color", "--python-platform"),
        *("-P", "--upgrade-package", "--refresh-package", "--reinstall-package", "--resolution"),
        *("--prerelease", "--exclude-newer", "--link-mode", "--index-strategy", "-C", "-w"),
    ),
    "poetry": ("-C", "--directory", "-P", "--project"),
    "pdm": ("-p", "--project"),
    "hatch": (),
    "coverage": (
        *("--source", "--omit", "--include", "--rcfile", "--data-file", "--context"),
        "--concurrency",
    ),
    **dict.fromkeys(
        ("conda", "mamba", "micromamba"), ("-n", "--name", "-p", "--prefix", "--cwd", "-r")
    ),
}
# Those of their options that name the folder in which the command runs.
_FOLDER_OPTIONS: dict[str, tuple[str, ...]] = {
    "sudo": ("-D", "--chdir"),
    "env": ("-C", "--chdir"),
    "uv": ("--directory",),
    "poetry": ("-C", "--directory"),
    **dict.fromkeys(("conda", "mamba", "micromamba"), ("--cwd",)),
}


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
    name = command.words[0].text.rsplit("/", 1)[-1]
    rest = list(command.words[1:])
    valued = _RUNNERS.get(name, _WRAPPERS.get(name))
    if valued is None:
        return None
    if name == "command" and rest[:1] and re.match(r"-\w*[vV]", rest[0].text):
        # It asks whether a program is there.
        return None
    environment = command.variables
    folder = command.folder
    operands = _WRAPPER_OPERANDS.get(name, 0)
    awaits_run = name in _RUNNERS
    while rest:
        text = rest[0].text
        assignment = re.match(r"([A-Za-z_]\w*)=", text)
        if _is_option(rest[0]):
            if name in _RUNNERS and not awaits_run and text == "-m":
                rest = [Word(("python",)), *rest]
                break
            option, value = _split_name(rest[0])
            rest = rest[1:]
            if option in valued and value is None and rest:
                value, rest = rest[0], rest[1:]
            if value is not None and option in _FOLDER_OPTIONS.get(name, ()):
                folder = path_from(folder, value)
            elif name == "env" and option in ("-u", "--unset") and value is not None:
                environment = {k: v for k, v in environment.items() if k != value.text}
            elif name == "env" and option in ("-i", "-", "--ignore-environment"):
                environment = {}
        elif name in ("env", "sudo") and assignment and isinstance(rest[0].parts[0], str):
            given = (rest[0].parts[0][assignment.end() :], *rest[0].parts[1:])
            environment = {**environment, assignment[1]: join_words(given)}
            rest = rest[1:]
        elif awaits_run:
            if rest[0].known != "run":
                return None
            awaits_run = False
            rest = rest[1:]
        elif operands:
            operands -= 1
            rest = rest[1:]
        else:
            break
    if not rest or awaits_run:
        return None
    return dataclasses.replace(
        command,
        words=tuple(rest),
        environment=tuple(sorted(environment.items())),
        folder=folder,
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
        # Any script may be named `build`.
        name = "pyproject-build" if name == "build" else name
    if name in ("pytest", "py.test"):
        parsed = parse_pytest_arguments([*_added_options(command), *arguments])
        return _ASKING if _asks("pytest", parsed.others) else PytestRun(command.folder, parsed)
    if re.fullmatch(r"(llvm-)?lit(\.py)?", name):
        return _lit(command, arguments)
    if name == "ctest":
        return _ctest(command, arguments)
    build = _build(command, name, arguments)
    if build is not None:
        return build
    arguments = _behind_global_options(name, arguments)
    text = " ".join(argument.text for argument in arguments)
    special = _special(command, name, arguments, text)
    if special is not None:
        return special
    for rule in COMMANDS:
        if rule.applies(re.sub(r"^pip3?(\.\d+)?$", "pip", name), text):
            return Replaced(rule.purpose, rule.by)
    return NotUnderstood(_why(name, arguments))


# Options with which a tool only tells of itself, or of what it would do.
_ASKING_OPTIONS = {
    "pytest": r"--version|-V|--help|-h|--collect-?only|--co|--fixtures|--markers",
    "lit": r"--version|--help|-h|--show-tests|--show-suites|--show-used-features",
    "ctest": r"--version|-version|--help.*|-h|-H|-N|--show-only|--print-labels",
    "cmake": r"--version|-version|--help.*|-h|-H|-N",
    "ninja": r"--version|--help|-h|-n|-t.*",
    "make": r"--version|-v|--help|-h|-n|--just-print|--dry-run|--recon",
}
_ASKING = Replaced(
    "asking tools what they are or would do", "locks name every version, `pants list` all tests"
)


def _asks(tool: str, options: Iterable[str]) -> bool:
    """:param options: each as `name value`."""
    return any(re.fullmatch(_ASKING_OPTIONS[tool], option.split(" ")[0]) for option in options)


# Options of a program that stand before its subcommand and have a value.
_GLOBAL_OPTIONS = {
    "git": ("-C", "-c", "--git-dir", "--work-tree", "--namespace"),
    "gh": ("-R", "--repo", "--hostname"),
}


def _behind_global_options(name: str, arguments: Sequence[Word]) -> Sequence[Word]:
    if name not in _GLOBAL_OPTIONS or len(arguments) < 2:
        return arguments
    while arguments and _is_option(arguments[0]):
        arguments = arguments[2 if arguments[0].text in _GLOBAL_OPTIONS[name] else 1 :]
    return arguments


_TEST_TOOLS = re.compile(r"(?<![\w.-])(?:py\.?test|lit|ctest|ninja|make|python[\d.]*)(?![\w-])")
# Requests that people read, rather than runners.
_TELLING = re.compile(
    r"/(?:comments|reactions|labels|assignees|statuses|check-runs)\b|//hooks\.slack"
)

_STARTING = re.compile(r"github\.com|dispatch|trigger|pipeline|jenkins|buildkite", re.IGNORECASE)


def _special(
    command: Command, name: str, arguments: Sequence[Word], text: str
) -> Invocation | None:
    """What looks like one of `COMMANDS`, and may run or change tests."""
    texts = [argument.text for argument in arguments]
    if name == "trap" and _TEST_TOOLS.search(text):
        return NotUnderstood("what `trap` runs at the end is not read")
    if name == "git" and texts[:1] == ["submodule"] and "foreach" in texts:
        if _TEST_TOOLS.search(text):
            return NotUnderstood("what runs in each submodule is not read")
    if name == "git" and texts[:1] == ["rebase"] and re.search(r" (?:-x|--exec)", text):
        return NotUnderstood("what runs for each commit is not read")
    if name == "gh" and texts[:2] in (["workflow", "run"], ["run", "rerun"]):
        return NotUnderstood("it starts a workflow: name that file with `--workflow` as well")
    if name in ("curl", "wget", "gh") and _writes(name, arguments):
        if _TELLING.search(text):
            return Replaced(_TELLS, _TOLD)
        if name == "gh" or _STARTING.search(text) or not re.search("https?://[^/$]", text):
            return NotUnderstood("a request that isn't for reading may start tests elsewhere")
        return Replaced("handing files to a service", "nothing: it tests nothing here")
    if name in ("rm", "mv", "sed"):
        return _changed_tests(command, name, arguments)
    return None


def _writes(name: str, arguments: Sequence[Word]) -> bool:
    """Whether a request may change something, rather than only read it."""
    # Without the text of what is unknown, which may have options of its own: `$(mktemp -d)`.
    text = " ".join(("", *(argument.glob for argument in arguments), ""))
    if name == "gh" and not text.startswith(" api "):
        return False
    method = {
        "curl": r" (?:-[a-zA-Z]*X ?|--request[ =])",
        "wget": r" --method[ =]",
        "gh": r" (?:-X ?|--method[ =])",
    }
    body = {
        "curl": r" (?:-[fgiksvLS]*[dFT]\S* |--(?:data|form|json|upload-file)\b)",
        "wget": r" --(?:post|body)-",
        "gh": r" (?:-[fF]\S* |--(?:field|raw-field|input)\b)",
    }
    methods = re.findall(method[name] + r"(\S+)", text)
    if methods:
        return any(found.strip("'\"").upper() not in ("GET", "HEAD") for found in methods)
    if name == "curl" and re.search(r" (?:-G|--get|-I|--head) ", text):
        return False
    if name == "gh" and " graphql " in text and not re.search(r"\bmutation\b|[@*]", text):
        return False
    return bool(re.search(body[name], text))


# Files and folders of tests, seen from the checkout's root; what was built or made lies elsewhere.
_TESTS = re.compile(
    r"(?:.*/)?(?:test_[^/]*|[^/]*_test)\.py"
    r"|(?:python/|third_party/[^/]*/)*tests?(?:/[^.]*|/.*\.(?:py|mlir|ll|test|cfg))?"
)
_MADE = re.compile(r"[/~]|\.\.|(?:.*/)?(?:build|dist|tmp|venv|\.[^/]+|__pycache__)(?:/|$)")


def _changed_tests(command: Command, name: str, arguments: Sequence[Word]) -> Invocation | None:
    """What it means that tests are removed, moved or edited; None where they are not."""
    valued = frozenset({"-e", "-f", "--expression", "--file"} if name == "sed" else ())
    operands, options = _options(arguments, valued)
    operands = [operand for operand in operands if operand.text]
    if name == "sed":
        if not any(re.match(r"-[nErsuz]*i|--in-place", option) for option in options):
            return None
        if not any(re.match(r"-[ef]\b|--(?:expression|file)\b", option) for option in options):
            operands = operands[1:]
    paths = (path_from(command.folder, operand) for operand in operands)
    if not any(
        isinstance(path.parts[0], str)
        and _TESTS.fullmatch(path.text)
        and not _MADE.match(path.text)
        for path in paths
    ):
        return None
    if name == "rm":
        # What was left out may be tested; where nothing tests it, the run's own row says so.
        return Replaced("removing tests before they are run", "nothing: all of them are compared")
    return NotUnderstood("it changes tests before they are run: change them in the checkout")


def _why(name: str, arguments: Sequence[Word]) -> str:
    if name in ("make", "gmake", "ninja", "cmake", "just", "tox", "nox"):
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
        if not _is_option(argument) and not (i and arguments[i - 1].text in ("-X", "-W")):
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
        # What begins with something unknown may be an option, and counts as a path nobody knows.
        if only_paths or not _is_option(word) or text == "-":
            paths.append(word)
            continue
        if text == "--":
            only_paths = True
            continue
        option, value = _split_option(word)
        if value is None and waiting:
            following = waiting[0]
            plain = not _is_option(following)
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
_PYTEST_SHORT = frozenset({"-k", "-m", "-n", "-p", "-c", "-o", "-W"})
_PYTEST_FLAGS = frozenset({"--forked", "--boxed", "--lf", "--ff", "--last-failed", "--runxfail"})


def _is_option(word: Word) -> bool:
    """Whether it surely is an option: what stands for something unknown may begin with a dash, too."""
    return any(isinstance(part, str) and part.startswith("-") for part in word.parts[:1])


def _split_name(word: Word) -> tuple[str, Word | None]:
    """The name of an option, and its value behind a `=`."""
    first = word.parts[0]
    if not isinstance(first, str) or "=" not in first or not first.startswith("--"):
        return word.text, None
    name, _, rest = first.partition("=")
    return name, join_words([rest, *word.parts[1:]])


def _split_option(word: Word, short: Collection[str] = _PYTEST_SHORT) -> tuple[str, Word | None]:
    """The name of an option, and its value where both are one word: `--tb=short`, `-n8`, `-kname`.

    :param short: those of one letter that have a value.
    """
    first = word.parts[0]
    if isinstance(first, str) and first[:2] in short and (len(first) > 2 or len(word.parts) > 1):
        return first[:2], join_words([first[2:].lstrip("="), *word.parts[1:]])
    return _split_name(word)


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
    if _asks("lit", options):
        return _ASKING
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
    operands, options = _options(arguments, _CTEST_VALUES)
    if _asks("ctest", options):
        return _ASKING
    folder = path_from(command.folder, _value_of(arguments, "--test-dir") or Word((".",)))
    # It has no operands, so that an unknown one stands for options.
    unknown = [operand.text for operand in operands if operand.known is None]
    others = [option for option in options if _CTEST_OTHERS.fullmatch(option)]
    return CTestRun(folder, tuple(sorted(others + unknown)))


def _options(
    arguments: Sequence[Word], with_values: frozenset[str]
) -> tuple[list[Word], list[str]]:
    """Operands, and options as `name value`."""
    operands: list[Word] = []
    options: list[str] = []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if not _is_option(word):
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


_BUILD_VALUES = frozenset(
    {"-o", "--outdir", "-C", "--config-setting", "--config-json", "--installer"}
)
_CMAKE_VALUES = frozenset(
    {
        *("-G", "-D", "-C", "-U", "-A", "-T", "-S", "-B", "--preset", "--toolchain", "--install"),
        *("--install-prefix", "--build", "--log-level", "--config", "--component", "--prefix"),
    }
)
_CMAKE_FILES = re.compile(
    r"(?:make|copy|remove)_directory\S*|copy\S*|rm|remove|touch\S*|rename|create_\w+|tar|cat|echo\S*"
    r"|compare_files|\w+sum|sleep|true|false|capabilities|environment"
)
_NINJA_VALUES = frozenset({"-C", "-f", "-j", "-k", "-l", "-d", "-t", "-w"})
_MAKE_VALUES = frozenset({"-C", "-f", "-I", "-o", "-W", "--directory", "--file", "--makefile"})
# Names of targets that, by the look of them, do more than build.
_RUNNING_TARGETS = re.compile(r"test|check|bench|regress|run(?!time)|verif|valid", re.IGNORECASE)


def _build(command: Command, name: str, arguments: Sequence[Word]) -> Build | Replaced | None:
    texts = [argument.text for argument in arguments]
    if name == "uv" and texts[:1] == ["pip"]:
        name, texts, arguments = "pip", texts[1:], arguments[1:]
    if _PIP.fullmatch(name) and texts[:1] and texts[0] in ("install", "wheel"):
        return _pip(command, arguments[1:])
    if _PYTHON.fullmatch(name) and texts[:1] and texts[0].rsplit("/", 1)[-1] == "setup.py":
        if len(texts) > 1 and texts[1] in (
            *("build", "build_ext", "install", "develop", "bdist_wheel", "editable_wheel"),
        ):
            folder = path_from(command.folder, Word((texts[0].rpartition("/")[0] or ".",)))
            return Build(folder, "setup.py", (), texts[1] == "develop")
        return None
    if name == "pyproject-build":
        folders, _ = _options(arguments, _BUILD_VALUES)
        return Build(path_from(command.folder, folders[0] if folders else Word((".",))), "build")
    if name == "cmake":
        return _cmake(command, arguments)
    if name in ("ninja", "make", "gmake"):
        if name == "ninja":
            operands, options = _options(arguments, _NINJA_VALUES)
        else:
            operands, options = _options(_without_jobs(arguments), _MAKE_VALUES)
        if _asks("ninja" if name == "ninja" else "make", options):
            return _ASKING
        targets = _targets(operands)
        if all(t.known in ("all", "install", "triton") for t in targets) and (
            name == "ninja" or targets
        ):
            folder = _value_of(arguments, "-C", "--directory") or Word((".",))
            return Build(path_from(command.folder, folder), name)
    return None


def _pip(command: Command, arguments: Sequence[Word]) -> Build | None:
    """The build of `pip install` and `pip wheel`, where they have a folder of sources."""
    rest: list[Word] = []
    in_place: list[Word] = []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        option, value = _split_option(word, ("-e",)) if _is_option(word) else ("", None)
        if option not in ("-e", "--editable"):
            rest.append(word)
        elif value is not None or waiting:
            in_place.append(value or waiting.pop(0))
    operands, _ = _options(rest, _PIP_VALUES)
    for operand in [*in_place, *operands]:
        local = _LOCAL.fullmatch(operand.glob)
        if local and not re.search(r"\.(whl|tar\.gz|zip|txt)$", local[1]):
            extras = tuple(e.strip() for e in (local[2] or "").split(",") if e.strip())
            first = Word((local[1],)) if operand.known is not None else operand
            return Build(path_from(command.folder, first), "pip", extras, bool(in_place))
        if operand in in_place and any(isinstance(part, Unknown) for part in operand.parts[:1]):
            # What is used from where it is can hardly be a package of an index.
            return Build(path_from(command.folder, operand), "pip", (), True)
    return None


def _cmake(command: Command, arguments: Sequence[Word]) -> Build | Replaced | None:
    """A build by CMake, its configuring included; None for what may be a test."""
    texts = [argument.text for argument in arguments]
    if texts[:1] == ["-E"]:
        if len(texts) > 1 and _CMAKE_FILES.fullmatch(texts[1]):
            return Replaced(_FILES, _SANDBOX)
        return None
    if "--build" in texts:
        folder, targets = _cmake_build(arguments[texts.index("--build") + 1 :])
        if any(t.known is None or _RUNNING_TARGETS.search(t.text) for t in targets):
            return None
        return Build(path_from(command.folder, folder), "cmake")
    operands, options = _options(arguments, _CMAKE_VALUES)
    if _asks("cmake", options):
        return _ASKING
    if any(re.match(r"-P|--workflow\b", option) for option in options):
        return None
    sources = _value_of(arguments, "-S", "--install")
    # What is unknown before a known folder stands for options.
    folders = [operand for operand in operands if operand.known is not None] or operands
    return Build(path_from(command.folder, sources or [*folders, Word((".",))][0]), "cmake")


def _cmake_build(arguments: Sequence[Word]) -> tuple[Word, list[Word]]:
    """The folder of `cmake --build`, and the targets there."""
    named: list[Word] = []
    targets: list[Word] = []
    into = named
    waiting = _without_jobs(arguments)
    while waiting:
        word = waiting.pop(0)
        if word.known == "--":
            # For make or ninja, of whose options both have these.
            operands, _ = _options(waiting, frozenset({"-C", "-f"}))
            targets += _targets(operands)
            break
        if not _is_option(word):
            # All up to the next option are targets.
            into.append(word)
            continue
        option, value = _split_option(word, ("-t",))
        into = named
        if option in ("--target", "-t"):
            into = targets
            targets += [] if value is None else [value]
        elif option in ("--config", "--preset", "--resolve-package-references") and value is None:
            waiting = waiting[1:]
    # More than the folder can only be meant as options.
    return named[0] if named else Word((".",)), targets + named[1:]


_JOBS = ("-j", "--jobs", "--parallel", "-l", "--load-average")


def _without_jobs(arguments: Sequence[Word]) -> list[Word]:
    """Without the numbers of jobs: make and CMake have their options with one and without."""
    kept: list[Word] = []
    for word in arguments:
        number = r"[\d.]+" if word.known is not None else r".*(?:proc|cpu|job|core|thread|\(\().*"
        if not (kept and kept[-1].text in _JOBS and re.fullmatch(number, word.text, re.IGNORECASE)):
            kept.append(word)
    return kept


def _targets(operands: Iterable[Word]) -> list[Word]:
    """Operands of make or ninja that are no variables."""
    return [
        operand
        for operand in operands
        if not (
            all(isinstance(part, str) for part in operand.parts[:1])
            and re.match(r"\w+[:+?]*=", operand.glob)
        )
    ]


def _value_of(arguments: Sequence[Word], *options: str) -> Word | None:
    """The value of the last of these options, written as one word or two."""
    found = None
    for i, argument in enumerate(arguments):
        if not _is_option(argument):
            continue
        option, value = _split_option(argument, options)
        if option in options:
            found = value or (arguments[i + 1] if i + 1 < len(arguments) else found)
    return found
