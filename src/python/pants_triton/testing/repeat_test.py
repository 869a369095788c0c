from __future__ import annotations

import shlex

import pytest

from pants_triton.testing.repeat import (
    Failure,
    Invocation,
    Repeat,
    Runner,
    closing_lines,
    read_failure,
    relevant_flags,
    relevant_variables,
    repeat,
)

ADDRESS = "t/a_test.py:device@hardware=cuda"
H100 = "cuda sm_90 | NVIDIA H100 80GB HBM3 | 81559 MiB | driver 550.54.15"


def command(
    failure: Failure, *passthrough: str, flags: tuple[str, ...] = (), **variables: str
) -> str:
    invocation = Invocation(
        flags=flags, passthrough=passthrough, variables=tuple(variables.items())
    )
    return repeat(failure, invocation).command


# --- how the run was started -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "flag", "shown"),
    [
        pytest.param("", "--tag=cuda", None, id="what was selected"),
        pytest.param("changed", "--since=main", None, id="what changed"),
        pytest.param("test", "--shard=0/2", None, id="a part"),
        pytest.param("test", "--no-report", None, id="what is written"),
        pytest.param("", "-ldebug", None, id="what is shown"),
        pytest.param("", "--remote-store-headers={'a': 'secret'}", None, id="a secret"),
        pytest.param("python-repos", "--indexes=['https://u:p@x']", None, id="another secret"),
        pytest.param("lint", "--only=black", None, id="another goal"),
        pytest.param(
            "", "--pants-config-files=pants.ci.toml", "--pants-config-files=pants.ci.toml"
        ),
        pytest.param("hardware", "--missing=error", "--hardware-missing=error"),
        pytest.param("test", "--no-timeouts", "--no-test-timeouts"),
        pytest.param("test", "--extra-env-vars=['A=b']", "--test-extra-env-vars=['A=b']"),
        pytest.param("native", "--sanitizers=['address']", "--native-sanitizers=['address']"),
    ],
)
def test_flags(scope: str, flag: str, shown: str | None) -> None:
    flags = relevant_flags({"": [], "test": [], scope: [flag]}, goals=["lint", "test"])
    assert flags == (() if shown is None else (shown,))


def test_variables() -> None:
    environment = {
        "PANTS_CA_CERTS_PATH": "/etc/ca.pem",
        "PANTS_CONFIG_FILES": "/home/me/triton/pants.ci.toml",
        "PANTS_HARDWARE_MISSING": "skip",
        "PANTS_HARDWARE_TOOL_SEARCH_PATH": "['/opt/tools']",
        "PANTS_PYTEST_ARGS": "['-x']",
        "PANTS_REMOTE_STORE_HEADERS": "secret",
        "PANTS_TEST_EXTRA_ENV_VARS": "['TOKEN=secret']",
        "PANTS_TEST_REPORT": "true",
    }
    assert relevant_variables(environment, "/home/me/triton") == (
        ("PANTS_CONFIG_FILES", "pants.ci.toml"),
        ("PANTS_HARDWARE_MISSING", "skip"),
        ("PANTS_PYTEST_ARGS", "['-x']"),
    )


# --- what failed -------------------------------------------------------------------------------

PYTEST_OUTPUT = """\
\x1b[1m============================= test session starts ==============================\x1b[0m
platform linux -- Python 3.9.18, pytest-7.0.1, pluggy-1.6.0
Using --randomly-seed=3043876525
rootdir: /tmp/sandbox
collected 2 items

t/a_test.py .F                                                           [100%]

\x1b[31m=================================== FAILURES ===================================\x1b[0m
____________________________________ test_b ____________________________________
Using --randomly-seed=1
"""


def test_seed_of_pytest() -> None:
    stderr = "pants-triton: failed on cuda devices 0, 3:1\n"
    failure = read_failure([ADDRESS], Runner.PYTEST, PYTEST_OUTPUT, stderr)
    assert failure == Failure(
        (ADDRESS,), Runner.PYTEST, seed="3043876525", devices="devices 0, 3:1"
    )


def test_seed_that_pytest_was_told_to_hide() -> None:
    _, _, failures = PYTEST_OUTPUT.partition("[100%]")
    # The other one is of the pytest that the test runs.
    assert read_failure([ADDRESS], Runner.PYTEST, f".F [100%]{failures}", "").seed == ""


# Of googletest 1.14.
GTEST_OUTPUT = """\
[==========] Running 4 tests from 2 test suites.
[ RUN      ] Colours.Sum
[       OK ] Colours.Sum (0 ms)
[ RUN      ] Colours.IsWrong
demo_test.cpp:5: Failure
[  FAILED  ] Colours.IsWrong (0 ms)
[ RUN      ] Sizes/Fold.Shape/1
[  FAILED  ] Sizes/Fold.Shape/1, where GetParam() = 3 (0 ms)
[ RUN      ] Fold.Later
[  SKIPPED ] Fold.Later (0 ms)
[----------] Global test environment tear-down
[  FAILED  ] 2 tests, listed below:
[  FAILED  ] Colours.IsWrong
[  FAILED  ] Sizes/Fold.Shape/1, where GetParam() = 3

 2 FAILED TESTS
"""


def test_cases_of_googletest() -> None:
    failure = read_failure(["demo:unit#bin/demo_test"], Runner.GTEST, GTEST_OUTPUT, "")
    assert failure.cases == ("Colours.IsWrong", "Sizes/Fold.Shape/1")
    assert failure.seed == ""


def test_a_case_that_ended_the_program() -> None:
    output = "[ RUN      ] A.Fine\n[       OK ] A.Fine (0 ms)\n[ RUN      ] A.Crashes\n"
    assert read_failure(["t:u"], Runner.GTEST, output, "").cases == ("A.Crashes",)


def test_seed_of_googletest() -> None:
    output = f"Note: Randomizing tests' orders with a seed of 75432 .\n{GTEST_OUTPUT}"
    assert read_failure(["t:u"], Runner.GTEST, output, "").seed == "75432"


def test_another_runner() -> None:
    assert read_failure(["t:u"], Runner.OTHER, PYTEST_OUTPUT, "") == Failure(("t:u",), Runner.OTHER)


# --- how to repeat it --------------------------------------------------------------------------


def test_pytest() -> None:
    failure = Failure((ADDRESS,), Runner.PYTEST, seed="7")
    assert command(failure) == f"./pants test {ADDRESS} -- --randomly-seed=7"
    assert (
        command(
            failure,
            *("-k", "a or b", "--randomly-seed=last"),
            flags=("--hardware-missing=error",),
            PANTS_CONFIG_FILES="pants.ci.toml",
        )
        == "PANTS_CONFIG_FILES=pants.ci.toml ./pants --hardware-missing=error test "
        f"{ADDRESS} -- -k 'a or b' --randomly-seed=7"
    )
    assert command(failure, "--randomly-seed", "7", "-x") == (
        f"./pants test {ADDRESS} -- -x --randomly-seed=7"
    )


def test_pytest_without_an_order() -> None:
    assert command(Failure((ADDRESS,), Runner.PYTEST), "-x") == f"./pants test {ADDRESS} -- -x"


def test_all_tests_of_a_process() -> None:
    failure = Failure(("t/a_test.py", "t/b_test.py"), Runner.PYTEST)
    assert command(failure) == "./pants test t/a_test.py t/b_test.py"


def test_googletest() -> None:
    address = "demo:unit#bin/demo_test@shards=2"
    failure = Failure((address,), Runner.GTEST, cases=("A.B", "C/D.E/0"))
    wanted = "./pants test demo:unit@shards=2 --"
    assert command(failure, "--gtest_filter=*", "--gtest_repeat=2") == (
        f"{wanted} --gtest_repeat=2 --gtest_filter=A.B:C/D.E/0"
    )
    shuffled = Failure((address,), Runner.GTEST, seed="75432", cases=("A.B",))
    # The order is that of all that were selected.
    assert command(shuffled, "--gtest_shuffle", "--gtest_filter=A*") == (
        f"{wanted} --gtest_shuffle '--gtest_filter=A*' --gtest_random_seed=75432"
    )
    many = Failure((address,), Runner.GTEST, cases=tuple(f"A.B{i}" for i in range(100)))
    assert command(many) == "./pants test demo:unit@shards=2"


def test_quoting() -> None:
    failure = Failure(("t/a b_test.py:x",), Runner.PYTEST)
    text = command(failure, "-k", "it's $HOME", flags=("--test-extra-env-vars=['A=b c']",))
    assert shlex.split(text) == [
        *("./pants", "--test-extra-env-vars=['A=b c']", "test", "t/a b_test.py:x"),
        *("--", "-k", "it's $HOME"),
    ]


def test_device() -> None:
    failure = Failure((ADDRESS,), Runner.PYTEST, devices="device 0")
    assert repeat(failure, Invocation(), H100).device == (
        "sm_90 NVIDIA H100 80GB HBM3, driver 550.54.15 (device 0)"
    )
    assert repeat(failure, Invocation()).device == ""


def test_closing_lines() -> None:
    repeats = [
        Repeat("./pants test t:b", ""),
        Repeat("./pants test t:a", ""),
        Repeat("./pants test t:c", "gfx942 AMD Instinct MI300X, driver 6.8.5"),
        Repeat("./pants test t:a", ""),
    ]
    assert closing_lines(repeats, Invocation()) == (
        """\
Repeat what failed:
  ./pants test t:a
  ./pants test t:b
Repeat what failed on gfx942 AMD Instinct MI300X, driver 6.8.5:
  ./pants test t:c"""
    )
    invocation = Invocation(lane="rocm-mi300x", inherited=("DEBUG", "TOKEN"))
    assert closing_lines(repeats[2:3], invocation) == (
        "Repeat what failed in lane rocm-mi300x on gfx942 AMD Instinct MI300X, driver 6.8.5, with "
        "DEBUG, TOKEN set as here:\n  ./pants test t:c"
    )
