"""Programs of ours that run in sandboxes with whatever Python the host has.

They are a folder of standard-library modules each. A program is an input of the processes that run
it, so that a change of it is a change of their keys.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from typing import Mapping

from pants.core.subsystems.python_bootstrap import PythonBootstrap
from pants.core.util_rules.system_binaries import (
    BinaryNotFoundError,
    BinaryPath,
    BinaryPathRequest,
    BinaryPaths,
    BinaryPathTest,
)
from pants.engine.fs import CreateDigest, Digest, FileContent
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel


@dataclass(frozen=True)
class ProgramRequest:
    """Asks for a program as a folder that Python can run.

    :param package: of the modules, such as `pants_triton.hardware`.
    :param modules: the names of those it needs. None imports more than these and Python's own.
    :param main: the one whose `main(argv: list[str]) -> int` is the program.
    :param libraries: modules of other packages that it needs, by those.
    """

    package: str
    modules: tuple[str, ...]
    main: str
    libraries: FrozenDict[str, tuple[str, ...]] = FrozenDict()


@dataclass(frozen=True)
class Program:
    """A folder to run with `python FOLDER argument…`."""

    digest: Digest


@rule
async def pack_program(request: ProgramRequest) -> Program:
    packages: Mapping[str, tuple[str, ...]] = {
        **request.libraries,
        request.package: request.modules,
    }
    folders = {package.replace(".", "/") for package in packages}
    parents = {path[:i] for path in folders for i, c in enumerate(path) if c == "/"}

    def module(package: str, name: str) -> FileContent:
        content = pkgutil.get_data(package, f"{name}.py")
        assert content is not None
        return FileContent(f"{package.replace('.', '/')}/{name}.py", content)

    digest = await Get(
        Digest,
        CreateDigest(
            [
                FileContent(
                    "__main__.py",
                    f"import sys\n\nfrom {request.package}.{request.main} import main\n\n"
                    "sys.exit(main(sys.argv[1:]))\n".encode(),
                ),
                *(FileContent(f"{path}/__init__.py", b"") for path in sorted(parents | folders)),
                *(module(package, name) for package, names in packages.items() for name in names),
            ]
        ),
    )
    return Program(digest)


@dataclass(frozen=True)
class ProgramPython:
    """An interpreter of this host, Python 3.8 or newer, for our programs."""

    path: BinaryPath


@rule(desc="Find a Python for pants_triton's own programs", level=LogLevel.DEBUG)
async def find_program_python(python_bootstrap: PythonBootstrap) -> ProgramPython:
    candidates = await MultiGet(
        Get(
            BinaryPaths,
            BinaryPathRequest(
                binary_name=name,
                search_path=python_bootstrap.interpreter_search_paths,
                check_file_entries=True,
                test=BinaryPathTest(
                    ["-c", "import sys; sys.exit(sys.version_info < (3, 8))"],
                    fingerprint_stdout=False,
                ),
            ),
        )
        for name in python_bootstrap.interpreter_names
    )
    for paths in candidates:
        if paths.first_path:
            return ProgramPython(paths.first_path)
    raise BinaryNotFoundError(
        "No Python 3.8 or newer was found for the programs that look for hardware and for a "
        "compiler. Install one, or name one in `[python-bootstrap].search_path`, which is now "
        f"{list(python_bootstrap.interpreter_search_paths)}."
    )


def rules():
    return collect_rules()
