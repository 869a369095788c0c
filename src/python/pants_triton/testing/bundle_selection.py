"""Which of a bundle's tests are meant, and what becomes of each on a host."""

from __future__ import annotations

import difflib
import fnmatch
from typing import Iterable, Sequence

from pants_triton.hardware.device import Host
from pants_triton.hardware.requirement import parse_requirement
from pants_triton.testing.bundle_manifest import BundledTest
from pants_triton.testing.planning import Plan, plan_test


class NoSuchTestError(Exception):
    """What was typed means no test."""


def select(tests: Sequence[BundledTest], typed: Iterable[str]) -> tuple[BundledTest, ...]:
    """The tests that are meant, in the bundle's order; all, if nothing was typed.

    :param typed: addresses, files, folders, or globs of addresses or files.
    :raises NoSuchTestError: one of them means no test.
    """
    typed = list(typed)
    if not typed:
        return tuple(tests)
    for each in typed:
        if not any(_matches(test, each) for test in tests):
            names = [name for test in tests for name in (test.address, test.path)]
            nearest = difflib.get_close_matches(each, names, n=1)
            hint = f" Did you mean {nearest[0]}?" if nearest else ""
            raise NoSuchTestError(f"{each} is no test of this bundle.{hint} --list shows them all.")
    return tuple(test for test in tests if any(_matches(test, each) for each in typed))


def _matches(test: BundledTest, typed: str) -> bool:
    folder = typed.rstrip("/") + "/"
    return (
        typed in (test.address, test.path)
        or test.path.startswith(folder)
        or fnmatch.fnmatchcase(test.address, typed)
        or fnmatch.fnmatchcase(test.path, typed)
    )


def plan(tests: Iterable[BundledTest], host: Host) -> dict[str, Plan]:
    """By address, whether and on what each test runs."""
    return {
        test.address: plan_test(parse_requirement(test.hardware, test.arch, test.devices), host)
        for test in tests
    }
