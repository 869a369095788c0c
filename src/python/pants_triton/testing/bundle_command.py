"""The command line and environment of a bundle's test, the same as under Pants."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterable, Mapping, Sequence

from pants_triton.testing.bundle_manifest import BundledTest, Manifest
from pants_triton.testing.command import (
    lease_arguments,
    needs_lease,
    process_environment,
    with_target_args,
)

#: The first argument of the bundle's program where it runs a test that needs no device.
RUN = "run"


def entries_to_variables(entries: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that `NAME=value` and `NAME` stand for; a name that `environ` lacks stands for
    none."""
    variables = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if equals:
            variables[name] = value
        elif name in environ:
            variables[name] = environ[name]
    return variables


def search_path(entries: Iterable[str], environ: Mapping[str, str]) -> list[str]:
    """Folders, with those of `PATH` for `<PATH>`."""
    return [
        folder
        for entry in entries
        for folder in (
            environ.get("PATH", os.defpath).split(os.pathsep) if entry == "<PATH>" else [entry]
        )
        if folder
    ]


def environment_of_test(
    manifest: Manifest,
    test: BundledTest,
    *,
    sandbox: Path,
    fingerprint: str,
    environ: Mapping[str, str],
    extra: Mapping[str, str],
    provided_folders: Sequence[str],
    slot: int,
) -> dict[str, str]:
    """The variables of a test process, before a lease adds its own.

    :param fingerprint: see `DeviceClass.fingerprint`.
    :param environ: of the person who runs the bundle: the test gets of it what is declared.
    :param extra: what that person adds; wins.
    :param provided_folders: where the machine has packages that the bundle lacks. They come last:
        what else is in those folders must not shadow the bundle's.
    """
    variables = {
        "PATH": os.pathsep.join(search_path(manifest.path, environ)),
        **entries_to_variables(manifest.env_entries, environ),
        "PEX_EXTRA_SYS_PATH": os.pathsep.join(f"{{chroot}}/{root}" for root in test.source_roots),
        **entries_to_variables(test.env_entries, environ),
    }
    if manifest.slot_variable:
        variables[manifest.slot_variable] = str(slot)
    variables = process_environment(
        variables,
        hardware=test.hardware,
        fingerprint=fingerprint,
        target_env=test.env,
        sys_path=[
            *(f"{{chroot}}/{package}" for package in test.packages),
            *provided_folders,
        ],
    )
    variables.update(extra)
    return {name: value.replace("{chroot}", str(sandbox)) for name, value in variables.items()}


def command_of_test(
    manifest: Manifest,
    test: BundledTest,
    *,
    program: Sequence[str],
    pytest: Sequence[str],
    typed: Sequence[str],
    keyword: str | None,
    fingerprint: str,
    processes: int,
    color: bool,
) -> list[str]:
    """The command to run in a test's sandbox.

    :param program: starts the bundle's own program, which leases devices and ends the test in time.
    :param pytest: starts pytest.
    :param typed: arguments for pytest from the command line.
    :param keyword: for pytest's `-k`.
    :param processes: how many the test may use at once.
    """
    argv = with_target_args(
        (
            "pytest",
            *manifest.pytest_args,
            *(("-k", keyword) if keyword is not None else ()),
            *typed,
            f"--color={'yes' if color else 'no'}",
            f"--junit-xml={test.report}.xml",
            test.path,
        ),
        prepended=0,
        pytest_args=test.pytest_args,
        workers=test.workers,
        isolated=test.isolated,
        is_debug=False,
    )
    argv = tuple(arg.replace("{pants_concurrency}", str(processes)) for arg in argv)
    if needs_lease(test.hardware):
        wrapper = lease_arguments(
            hardware=test.hardware,
            fingerprint=fingerprint,
            devices=test.devices or 1,
            exclusive=test.exclusive_device,
            timeout_s=test.timeout_s,
            is_debug=False,
        )
    else:
        timeout = () if test.timeout_s is None else (f"--timeout={test.timeout_s}",)
        wrapper = (RUN, *timeout, "--")
    return [*program, *wrapper, *pytest, *argv[1:]]
