"""What is where in the sandbox of a lit test, what arguments mean, and what its program says."""

from __future__ import annotations

import argparse
import json
import posixpath
import re
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, NoReturn, Sequence

from pants_triton.hardware.agent import SANDBOX_DIR
from pants_triton.native.layout import BUILD, CHROOT, ROOT_TOKEN

#: Where a test's program, and the files that it writes, are in the sandbox.
PROGRAM = ".pants_triton_lit"
RESULT = "_lit_result.json"
REPORT = "_lit_report.xml"

#: The folder with what was built, and links to it where CMake would have put it: as an immutable
#: input it is there without being copied, and a tool finds its libraries beside itself.
TOOLS = ".lit_tools"

# What CMake leaves in a folder for itself and for CTest: no test reads it.
_CMAKE_FILES = ("**/CMakeFiles/**", "**/cmake_install.cmake", "**/CTestTestfile.cmake")


class LitPlanError(Exception):
    """A target can't be as it is declared. The message names it, the field and the way out."""


class LitArgumentError(Exception):
    """An argument for lit can't be used; one line."""


# --- paths -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SuitePaths:
    """A suite's folders and files, by their paths below the sandbox's root.

    :param root: has `lit.cfg.py` and the tests.
    :param build: has `lit.site.cfg.py`; lit is told to look for tests here.
    """

    root: str
    build: str
    site_config: str

    @property
    def build_globs(self) -> tuple[str, ...]:
        """What configuring wrote for the suite."""
        return (
            f"{self.build}/**",
            *(f"!{self.build}/{glob}" for glob in _CMAKE_FILES),
        )


def suite_root(folder: str, root: str | None) -> str:
    """The suite's folder, for the BUILD file in `folder`."""
    return posixpath.join(folder, root or "").rstrip("/")


def suite_paths(
    owner: str, root: str, project: str, project_folder: str, site_config: str | None
) -> SuitePaths:
    """
    :param owner: the address of the target with the fields, for messages.
    :param root: see `suite_root`.
    :param site_config: the field's value, relative to the build folder.
    """
    if site_config is None:
        relative = posixpath.relpath(f"/{root}", f"/{project_folder}")
        if relative.startswith(".."):
            raise LitPlanError(
                f"{owner}: {root or 'the build root'} is not in the folder of {project}, so that "
                "where CMake puts its `lit.site.cfg.py` can't be told: say so with `site_config`."
            )
        site_config = posixpath.normpath(f"{relative}/lit.site.cfg.py")
    path = f"{BUILD}/{site_config}"
    return SuitePaths(root, posixpath.dirname(path), path)


def path_in_suite(owner: str, root: str, file: str) -> str:
    """The path of a test file as lit tells it, "Conversion/add.mlir"."""
    relative = posixpath.relpath(f"/{file}", f"/{root}")
    if relative.startswith("../"):
        raise LitPlanError(
            f"{owner}: {file} is not in {root}, the suite's `root`. A suite has the tests below "
            "its `lit.cfg.py`."
        )
    return relative


def globs_below(root: str, globs: Iterable[str]) -> tuple[str, ...]:
    """Globs relative to `root` as such of the build root; exclusions stay such."""
    prefix = f"{root}/" if root else ""
    return tuple(
        f"!{prefix}{glob[1:]}" if glob.startswith("!") else f"{prefix}{glob}" for glob in globs
    )


def missing_site_config(owner: str, project: str, paths: SuitePaths, written: Iterable[str]) -> str:
    """What to say where configuring didn't write `paths.site_config`, but all of `written`."""
    others = sorted(
        path[len(BUILD) + 1 :]
        for path in written
        if re.fullmatch(r"lit\.site\.cfg(\.py)?", posixpath.basename(path))
    )
    lists = f"{paths.root}/CMakeLists.txt".lstrip("/")
    wrote = f" It wrote {', '.join(others)}: is that it?" if others else ""
    return (
        f"{owner}: configuring {project} wrote no {paths.site_config[len(BUILD) + 1:]} into the "
        f"build folder.{wrote} Let {lists} call `configure_lit_site_cfg(…)` and be reached by "
        "`add_subdirectory`, or name the file with `site_config`."
    )


def tool_links(files: Iterable[str]) -> dict[str, str]:
    """Links to make, path -> target, so that `files`, which are in TOOLS, are in BUILD as well."""
    links = {}
    for file in files:
        path = f"{BUILD}/{file}"
        links[path] = posixpath.relpath(f"{TOOLS}/{file}", posixpath.dirname(path))
    return links


def named_trees(texts: Iterable[bytes], trees: Iterable[str]) -> list[str]:
    """Which of the artifacts at the paths `trees` the files' `texts` name."""
    joined = b"\n".join(texts)
    return [
        tree
        for tree in trees
        if re.search(re.escape(f"{ROOT_TOKEN}/{tree}".encode()) + rb"(?![\w.+-])", joined)
    ]


# --- arguments ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class LitArguments:
    """What a person tells lit.

    :param filters: as patterns; None for those that aren't given.
    :param parameters: `NAME=VALUE` for `lit.cfg.py`; part of each test's key.
    """

    filter: str | None = None
    filter_out: str | None = None
    parameters: tuple[str, ...] = ()
    show_all: bool = False

    def excluded(self, path: str) -> str:
        """Why the test with this path in its suite is not selected; "" if it is."""
        # As lit does: anywhere in the path, whatever the case.
        if self.filter is not None and not re.search(self.filter, path, re.IGNORECASE):
            return f"not selected by `--filter={self.filter}`"
        if self.filter_out is not None and re.search(self.filter_out, path, re.IGNORECASE):
            return f"not selected because of `--filter-out={self.filter_out}`"
        return ""

    @property
    def shown_filters(self) -> str:
        filters = (("--filter", self.filter), ("--filter-out", self.filter_out))
        return " ".join(f"{name}={value}" for name, value in filters if value is not None)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise LitArgumentError(message)


def parse_arguments(args: Sequence[str]) -> LitArguments:
    """Read what stands behind `--`, which is a small part of lit's own arguments."""
    parser = _Parser(prog="lit", add_help=False, allow_abbrev=False)
    parser.add_argument("--filter")
    parser.add_argument("--filter-out")
    parser.add_argument("-D", "--param", action="append", default=[])
    parser.add_argument("-a", "--show-all", action="store_true")
    # The output of tests that fail is shown anyhow.
    parser.add_argument("-v", "-vv", "--verbose", action="store_true")
    known, unknown = parser.parse_known_args(list(args))
    if unknown:
        raise LitArgumentError(
            f"`{unknown[0]}` is unknown. Known are `--filter=REGEX`, `--filter-out=REGEX`, "
            "`-D NAME=VALUE`, `-a` and `-v`"
        )
    for name, pattern in (("--filter", known.filter), ("--filter-out", known.filter_out)):
        if pattern is None:
            continue
        if "::" in pattern:
            raise LitArgumentError(
                f"`{name}={pattern}` has a suite's name, which is known only when a test runs: "
                "compare with the path in the suite, such as `Conversion/add.mlir`"
            )
        try:
            re.compile(pattern)
        except re.error as e:
            raise LitArgumentError(f"`{name}={pattern}` is no regular expression: {e}") from None
    for parameter in known.param:
        if parameter.startswith("=") or not parameter:
            raise LitArgumentError(f"`-D {parameter}` has no name: write `-D NAME=VALUE`")
    return LitArguments(known.filter, known.filter_out, tuple(known.param), known.show_all)


# --- the process -------------------------------------------------------------------------------


def driver_arguments(
    *,
    name: str,
    test: str,
    paths: SuitePaths,
    lit: str,
    expand: Iterable[str],
    trees: Iterable[str],
    library_path: str,
    parameters: Iterable[str],
    is_debug: bool,
) -> tuple[str, ...]:
    """The arguments of `lit_driver`, with CHROOT.

    :param name: of the test in reports, its target's address.
    :param lit: the folder with lit's package.
    :param expand: files in which ROOT_TOKEN must be the real root.
    :param trees: the folders of artifacts.
    """
    return (
        f"--root={CHROOT}",
        f"--lit={lit}",
        f"--suite={paths.build}",
        f"--source={paths.root or '.'}",
        f"--test={test}",
        f"--name={name}",
        f"--token={ROOT_TOKEN}",
        *(f"--expand={file}" for file in sorted(expand)),
        *(f"--tree={tree}" for tree in sorted(trees)),
        *((f"--library-path={library_path}",) if library_path else ()),
        *(f"--param={parameter}" for parameter in parameters),
        *(("--keep-paths",) if is_debug else ()),
        f"--result={RESULT}",
        f"--report={REPORT}",
    )


#: The folder of the agent, which `command.lease_arguments` are for.
AGENT = SANDBOX_DIR


@dataclass(frozen=True)
class LitResult:
    """What the program said of a file's tests.

    :param skipped: why none of them was run, one line; "" if one was.
    """

    codes: tuple[str, ...]
    skipped: str = ""


def parse_result(content: bytes, skipped_codes: Sequence[str]) -> LitResult:
    """Read the JSON that `lit_driver` wrote. Raises ValueError if it is something else."""
    try:
        tests: list[Mapping[str, Any]] = json.loads(content)["tests"]
        codes = tuple(str(test["code"]) for test in tests)
        reasons = [str(test["reason"]) for test in tests]
    except (KeyError, TypeError) as e:
        raise ValueError(f"not a result of lit_driver: {e}") from None
    is_skipped = bool(codes) and all(code in skipped_codes for code in codes)
    return LitResult(codes, reasons[0] if is_skipped else "")


def brief(error: str) -> str:
    """A build's error in the few lines that each of many tests can repeat: what can't be built, and
    which edges failed. The compilers' output is shown once."""
    lines = error.splitlines()
    failed = [line for line in lines[1:] if line.startswith("FAILED: ")]
    return "\n".join([*lines[:1], *failed]) if failed else error
