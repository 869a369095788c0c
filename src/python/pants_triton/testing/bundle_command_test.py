from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pants_triton.testing.bundle_command import (
    command_of_test,
    entries_to_variables,
    environment_of_test,
    search_path,
)
from pants_triton.testing.bundle_manifest import BundledTest, Manifest

TEST = BundledTest(
    address="t/a_test.py:cpu",
    report="t.a_test.py.cpu",
    path="t/a_test.py",
    hardware="cpu",
    tree="0",
    env={"A": "{chroot}/a", "B": "target"},
    env_entries=("B=field", "C=field"),
    source_roots=("src", "tests"),
    packages=("python/triton",),
)
MANIFEST = Manifest(
    address="t:bundle",
    tests=(TEST,),
    trees={"0": ()},
    pexes=("pytest.pex",),
    path=("/opt/bin", "<PATH>"),
    env_entries=("LANG=C.UTF-8", "C=all", "D"),
    pytest_args=("--strict-markers",),
    slot_variable="SLOT",
)


def environment(test: BundledTest = TEST, **changes: Any) -> dict[str, str]:
    arguments: dict[str, Any] = {
        "sandbox": Path("/sandbox"),
        "fingerprint": "",
        "environ": {"PATH": "/usr/bin:/bin", "HOME": "/home/me", "D": "here", "E": "here"},
        "extra": {},
        "provided_folders": (),
        "slot": 2,
    }
    return environment_of_test(MANIFEST, test, **{**arguments, **changes})


def command(**fields: Any) -> list[str]:
    test = BundledTest(**{**vars(TEST), **fields})
    return command_of_test(
        MANIFEST,
        test,
        program=("python", "program"),
        pytest=("venv/pex",),
        typed=("-x",),
        keyword="k",
        fingerprint="cuda sm_90" if fields.get("hardware") == "cuda" else "",
        processes=3,
        color=False,
    )


def test_variables_are_the_declared_ones() -> None:
    env = environment()
    assert env["PATH"] == "/opt/bin:/usr/bin:/bin"
    assert env["HOME"] == "/sandbox/.home"
    assert (env["LANG"], env["SLOT"]) == ("C.UTF-8", "2")
    # The target's `env` wins over its `extra_env_vars`, and those over `[test].extra_env_vars`.
    assert (env["A"], env["B"], env["C"]) == ("/sandbox/a", "target", "field")
    assert env["D"] == "here"
    assert "E" not in env


def test_the_machines_packages_come_last() -> None:
    env = environment(provided_folders=("/usr/lib/python3/dist-packages",))
    assert env["PEX_EXTRA_SYS_PATH"].split(":") == [
        *("/sandbox/src", "/sandbox/tests", "/sandbox/python/triton"),
        "/usr/lib/python3/dist-packages",
    ]


def test_what_is_typed_wins() -> None:
    assert environment(extra={"A": "typed"})["A"] == "typed"


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param(["A=1=2"], {"A": "1=2"}, id="with a value"),
        pytest.param(["A="], {"A": ""}, id="empty"),
        pytest.param(["A"], {"A": "here"}, id="of this machine"),
        pytest.param(["B"], {}, id="not on this machine"),
    ],
)
def test_entries(entries: list[str], expected: dict[str, str]) -> None:
    assert entries_to_variables(entries, {"A": "here"}) == expected


def test_search_path_without_one() -> None:
    assert search_path(["/opt/bin"], {}) == ["/opt/bin"]
    assert "/bin" in search_path(["<PATH>"], {})


def test_command_without_a_device() -> None:
    assert command(timeout_s=60, pytest_args=("-m", "x"), workers=8, isolated=True) == [
        *("python", "program", "run", "--timeout=60", "--", "venv/pex"),
        *("-m", "x", "-n", "3", "--forked", "--strict-markers", "-k", "k", "-x"),
        *("--color=no", "--junit-xml=t.a_test.py.cpu.xml", "t/a_test.py"),
    ]


def test_command_with_devices() -> None:
    argv = command(hardware="cuda", devices=2, exclusive_device=True, timeout_s=60)
    assert argv[: argv.index("venv/pex")] == [
        *("python", "program", "lease", "--lease-dir=.pants_triton_leases", "--hardware=cuda"),
        *("--fingerprint=cuda sm_90", "--devices=2", "--exclusive", "--timeout=60", "--"),
    ]
