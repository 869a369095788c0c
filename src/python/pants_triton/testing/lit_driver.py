"""The program that runs one lit test, with lit's own library.

    lit_driver --lit=DIR --suite=_build/test --source=DIR --test=PATH --result=FILE --report=FILE …

It runs in the root of a sandbox. `lit` itself would start a pool of processes for its one test, and
know nothing of the sandbox. What a test means is all lit's: this looks for the test as `lit PATH`
does, and has it executed by lit's own worker. Runs with whatever Python 3.8 or newer the host has;
tried with lit 15, 16, 17, 18 and 23.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import io
import json
import os
import re
import shutil
import sys
import time
import traceback
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Iterable, Sequence
from xml.etree import ElementTree

#: The modules of this program, itself included.
PROGRAM_MODULES = ("lit_driver",)

#: lit's names of what became of a test that wasn't run: its own, and that of a file which lit, asked
#: for all tests of the suite, would not take for one.
SKIPPED_CODES = ("UNSUPPORTED", "EXCLUDED", "SKIPPED")

# Folders in the sandbox. lit makes temporary files where TMPDIR says, tools look for a HOME.
_HOME = ".home"
_TMP = ".tmp"

# What says which devices a test has. lit hands on to tests only variables that it knows.
_DEVICE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")

# How lit's internal shell, a real one and lit.llvm say that a tool is missing.
_MISSING_TOOL = re.compile(
    r"'([^'\n]+)': command not found"
    r"|(?:sh|bash): (?:line )?(?:[0-9]+: )?([^\s:]+): (?:command )?not found"
    r"|fatal: .*[Dd]id not find (\S+) in "
    r"|fatal: couldn't find '([^'\n]+)' program"
)

# What XML 1.0 can't hold (https://www.w3.org/TR/xml/#charsets): a tool may say anything.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Outcome:
    """What became of a test.

    :param name: lit's, "minitriton :: Mini/ops.mlir".
    :param code: lit's: PASS, FLAKYPASS, XFAIL, FAIL, XPASS, UNRESOLVED, TIMEOUT, or one of
        SKIPPED_CODES.
    :param reason: why it was skipped, one line; "" if it wasn't.
    :param output: of its commands, and what lit said while it looked for the test.
    """

    name: str
    code: str
    is_failure: bool
    reason: str = ""
    output: str = ""
    seconds: float = 0.0


def main(argv: Sequence[str]) -> int:
    """Run the program; returns 1 where a test failed, else 0."""
    args = _parser().parse_args(list(argv))
    # lit and CMake may each have looked up links in the path.
    root = os.getcwd()
    expand_token(args.expand, args.token, root)
    for name, folder in (("HOME", _HOME), ("TMPDIR", _TMP)):
        path = os.path.join(root, folder)
        os.makedirs(path, exist_ok=True)
        os.environ.setdefault(name, path)
    if args.library_path:
        # Not before: this Python is the host's, and the libraries are not.
        given = os.environ.get("LD_LIBRARY_PATH")
        os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, (given, args.library_path)))
    outcomes = run_test(root, args)
    if not args.keep_paths:
        trees = [(os.path.realpath(tree), tree) for tree in args.tree]
        pairs = [*trees, *((path, "") for path in (args.root, root, os.path.realpath(root)))]
        outcomes = [
            replace(
                outcome,
                output=without_paths(outcome.output, pairs),
                reason=without_paths(outcome.reason, pairs),
            )
            for outcome in outcomes
        ]
    print_text("".join(map(shown, outcomes)))
    is_failure = any(outcome.is_failure for outcome in outcomes)
    if is_failure:
        hint = missing_tool_hint(outcomes, args.name)
        if hint:
            print_text(f"{hint}\n")
    if args.keep_paths and args.library_path:
        print_text(f"\nIt ran in {root} with LD_LIBRARY_PATH={args.library_path}\n")
    Path(args.result).write_text(json.dumps({"tests": [asdict(o) for o in outcomes]}))
    Path(args.report).write_bytes(junit_report(args.name, args.test, outcomes))
    return int(is_failure)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lit_driver", allow_abbrev=False)
    parser.add_argument("--root", required=True, help="the sandbox's root, as Pants calls it")
    parser.add_argument("--lit", required=True, help="the folder with lit's package")
    parser.add_argument("--suite", required=True, help="the folder with lit.site.cfg.py")
    parser.add_argument("--source", required=True, help="the folder with lit.cfg.py")
    parser.add_argument("--test", required=True, help="the test's path in the suite")
    parser.add_argument("--name", required=True, help="what to call the test in reports")
    parser.add_argument("--token", default="", help="what stands for the root in files")
    parser.add_argument("--expand", action="append", default=[], help="a file with the token")
    parser.add_argument("--tree", action="append", default=[], help="an artifact's folder")
    parser.add_argument("--library-path", default="", help="LD_LIBRARY_PATH of what tests run")
    parser.add_argument("--param", action="append", default=[], help="NAME=VALUE for lit.cfg.py")
    parser.add_argument("--keep-paths", action="store_true", help="for who repeats a command")
    parser.add_argument("--result", required=True, help="the JSON file to write")
    parser.add_argument("--report", required=True, help="the JUnit file to write")
    return parser


def expand_token(files: Iterable[str], token: str, root: str) -> None:
    """Put the path `root` in the place of `token` in each of `files`."""
    for file in files:
        path = Path(file)
        content = path.read_bytes().replace(os.fsencode(token), os.fsencode(root))
        # What Pants puts into a sandbox may be a hard link into its store.
        path.unlink()
        path.write_bytes(content)


# --- lit ---------------------------------------------------------------------------------------


def run_test(root: str, args: argparse.Namespace) -> list[Outcome]:
    """Find the test and execute it. Never raises: what goes wrong is a test's outcome too."""
    said = io.StringIO()
    started = time.time()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            outcomes, has_errors = _find_and_execute(root, args)
    except SystemExit:  # How lit gives up, `lit_config.fatal`.
        outcomes, has_errors = [], True
    except Exception:  # A suite's own configuration is code, so anything can come out of it.
        said.write(traceback.format_exc())
        outcomes, has_errors = [], True
    if has_errors:
        output = "".join([said.getvalue(), *(outcome.output for outcome in outcomes)])
        seconds = time.time() - started
        return [Outcome(args.test, "UNRESOLVED", True, output=output, seconds=seconds)]
    if outcomes:
        outcomes[0] = replace(outcomes[0], output=said.getvalue() + outcomes[0].output)
    return outcomes


def _find_and_execute(root: str, args: argparse.Namespace) -> tuple[list[Outcome], bool]:
    """The outcomes, and whether lit has seen errors beside them."""
    sys.path.insert(0, os.path.join(root, args.lit))
    # The folder is other sandboxes' too.
    sys.dont_write_bytecode = True
    # By name: it is the artifact's, which nobody has who checks this program.
    discovery, lit_config_module, worker = (
        importlib.import_module(f"lit.{name}") for name in ("discovery", "LitConfig", "worker")
    )
    lit_config = _call_with(
        lit_config_module.LitConfig,
        progname="lit",
        path=[],
        quiet=False,
        diagnostic_level="note",  # What lit 23 has instead.
        useValgrind=False,
        valgrindLeakCheck=False,
        valgrindArgs=[],
        noExecute=False,
        debug=False,
        isWindows=os.name == "nt",
        order="lexical",
        params=dict(_parameter(param) for param in args.param),
    )
    path = os.path.join(root, args.suite, args.test)
    # Older ones ask for one more: whether to complain of a test that is named, but not found.
    getters = [path, lit_config, {}, {}, False]
    count = len(inspect.signature(discovery.getTests).parameters)
    suite, found = discovery.getTests(*getters[:count])
    tests = list(found)
    if suite is None:
        print(f"There is no lit.site.cfg.py or lit.cfg.py in {args.suite} or above it.")
        return [], True
    # Asked for a whole suite, lit doesn't enter these; a test that is named, it runs.
    is_excluded = not suite.config.excludes.isdisjoint(args.test.split("/")[:-1])
    if not tests or is_excluded:
        return _none_found(root, args, suite)
    outcomes = []
    for test in tests:
        for name in _DEVICE_VARIABLES:
            if name in os.environ:
                test.config.environment.setdefault(name, os.environ[name])
        test.setResult(worker._execute(test, lit_config))
        outcomes.append(_outcome(test))
    shutil.rmtree(os.path.join(root, _TMP), ignore_errors=True)
    return outcomes, lit_config.numErrors > 0


def _call_with(function: Any, **known: Any) -> Any:
    """Call `function` with those of `known` that it has: lit's versions differ."""
    parameters = inspect.signature(function).parameters
    return function(**{name: value for name, value in known.items() if name in parameters})


def _parameter(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _none_found(root: str, args: argparse.Namespace, suite: Any) -> tuple[list[Outcome], bool]:
    source = os.path.join(root, args.source, args.test)
    found = suite.getSourcePath(tuple(args.test.split("/")))
    if os.path.realpath(found) != os.path.realpath(source):
        print(
            f"lit looks for this test at {found}, but it is {source}: `config.test_source_root` in "
            "lit.cfg.py and `root` of the target must be the same folder."
        )
        return [], True
    name = f"{suite.name} :: {args.test}"
    reason = "the suite's `config.suffixes` and `config.excludes` leave it out"
    return [Outcome(name, "EXCLUDED", False, reason)], False


def _outcome(test: Any) -> Outcome:
    result = test.result
    output = result.output or ""
    if isinstance(output, bytes):
        output = output.decode("utf-8", "backslashreplace")
    code = result.code.name
    reason = ""
    if code in SKIPPED_CODES:
        # lit says in the first line what it is that the test wants.
        said = output.strip().splitlines()
        reason = f"{result.code.label.lower()}: {said[0]}" if said else result.code.label.lower()
        output = ""
    return Outcome(
        test.getFullName(),
        code,
        bool(result.code.isFailure),
        reason,
        output,
        float(result.elapsed or 0.0),
    )


# --- what is told ------------------------------------------------------------------------------


def without_paths(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    """`text` with the second of each pair in the place of the folder that is the first, "" for the
    root of all. Longer ones go first, as one may be in another."""
    for folder, shown_as in sorted(pairs, key=lambda pair: -len(pair[0])):
        prefix = f"{shown_as}/" if shown_as else ""
        text = text.replace(f"{folder}/", prefix).replace(folder, shown_as or ".")
    return text


def shown(outcome: Outcome) -> str:
    """The outcome as a person reads it."""
    reason = f" ({outcome.reason})" if outcome.reason else ""
    output = outcome.output.strip("\n")
    return f"{outcome.code}: {outcome.name}{reason}\n" + (f"{output}\n" if output else "")


def missing_tool_hint(outcomes: Iterable[Outcome], name: str) -> str:
    """How to get a tool that was not found; "" where none was missed."""
    tools = {
        tool: None
        for outcome in outcomes
        if outcome.is_failure
        for match in _MISSING_TOOL.finditer(outcome.output)
        for tool in match.groups()
        if tool
    }
    if not tools:
        return ""
    names = ", ".join(f"`{os.path.basename(tool)}`" for tool in tools)
    return (
        f"\n{names} can't be found in the sandbox. Add the `cmake_output` that builds it, or the "
        f"artifact that has it, to `tools` of {name}."
    )


def print_text(text: str) -> None:
    # Pants reads what is printed as UTF-8, whatever the locale.
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()


def junit_report(suite: str, path: str, outcomes: Sequence[Outcome]) -> bytes:
    """A JUnit XML report of the outcomes, as UTF-8.

    :param suite: the name of the test suite, the target's address.
    :param path: the test's in its suite; what lit made several tests of goes by lit's names.
    """
    failures = sum(outcome.is_failure for outcome in outcomes)
    skipped = sum(outcome.code in SKIPPED_CODES for outcome in outcomes)
    testsuites = ElementTree.Element("testsuites")
    testsuite = ElementTree.SubElement(
        testsuites,
        "testsuite",
        name=suite,
        tests=str(len(outcomes)),
        errors="0",
        failures=str(failures),
        skipped=str(skipped),
        time=f"{sum(outcome.seconds for outcome in outcomes):.3f}",
    )
    for outcome in outcomes:
        case = ElementTree.SubElement(
            testsuite,
            "testcase",
            classname=suite,
            name=path if len(outcomes) == 1 else outcome.name,
            time=f"{outcome.seconds:.3f}",
        )
        if outcome.is_failure:
            failure = ElementTree.SubElement(
                case, "failure", message=f"{outcome.code}: {outcome.name}", type=outcome.code
            )
            failure.text = _NOT_XML.sub("?", outcome.output)
        elif outcome.code in SKIPPED_CODES:
            ElementTree.SubElement(
                case,
                "skipped",
                message=_NOT_XML.sub("?", outcome.reason),
                type=f"lit.{outcome.code.lower()}",
            )
    return b'<?xml version="1.0" encoding="utf-8"?>' + ElementTree.tostring(testsuites, "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
