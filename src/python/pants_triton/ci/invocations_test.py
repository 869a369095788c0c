"""What commands are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pants_triton.ci.invocations import (
    ACTIONS,
    COMMANDS,
    CTestRun,
    Invocation,
    LitRun,
    NotUnderstood,
    PytestRun,
    Replaced,
    classify,
    classify_action,
    parse_pytest_arguments,
)
from pants_triton.ci.shell_lines import Word, run_script


def invocation(text: str) -> Invocation:
    (command,) = run_script(text, environment={})
    ((_, found),) = classify(command)
    return found


def pytest_arguments(text: str):
    found = invocation(f"pytest {text}")
    assert isinstance(found, PytestRun)
    return found.arguments


@pytest.mark.parametrize(
    "text",
    [
        *("-k a -m b -n 8 --forked --ignore=i x", "-ka -mb -n8 --boxed --ignore i x"),
        *("x --forked -k=a -m=b --numprocesses=8 --ignore=i", "-n 8 -k z -k a -m b --forked --ignore i -- x"),
    ],
)  # fmt: skip
def test_ways_to_write_the_same(text: str) -> None:
    found = pytest_arguments(text)
    assert (found.keyword, found.markers, found.workers, found.isolated) == ("a", "b", "8", True)
    assert [word.text for word in found.paths] == ["x"]
    assert [word.text for word in found.ignores] == ["i"]
    assert found.others == ()


@pytest.mark.parametrize(
    "text,paths,others",
    [
        ("--device cpu a.py", ["a.py"], ("--device cpu",)),
        ("--device=cpu", [], ("--device cpu",)),
        ("--unknown value a/b", ["a/b"], ("--unknown value",)),
        ("--unknown a/b", ["a/b"], ("--unknown",)),
        ("--unknown .", ["."], ("--unknown",)),
        ("--runxfail name", ["name"], ("--runxfail",)),
        ("-s -v -x --tb short --durations=0 -r fE --maxfail 1 a", ["a"], ()),
        ("-p no:cacheprovider -p my_plugin -W error a", ["a"], ("-W error", "-p my_plugin")),
        ("--deselect a::b --deselect=c::d", [], ("--deselect a::b", "--deselect c::d")),
    ],
)
def test_options_and_paths_are_told_apart(text: str, paths: list[str], others: tuple) -> None:
    found = pytest_arguments(text)
    assert [word.text for word in found.paths] == paths
    assert found.others == others


def test_no_workers_are_none() -> None:
    assert pytest_arguments("-n 0").workers == ""
    assert pytest_arguments("-n auto").workers == "auto"


def test_lit_and_ctest() -> None:
    lit = invocation("lit -v -j 4 --filter x -DA=1 --xunit-xml-output=y build/test")
    assert isinstance(lit, LitRun)
    assert (lit.paths, lit.others) == ((Word(("build/test",)),), ("--filter x", "-DA=1"))
    ctest = invocation("cd b; ctest -j32 -R a --test-dir c".split("; ")[1])
    assert isinstance(ctest, CTestRun)
    assert (ctest.folder, ctest.others) == (Word(("c",)), ("-R a",))


@pytest.mark.parametrize(
    "text,purpose",
    [
        ("echo X=1 >> $GITHUB_ENV", "handing variables to later steps"),
        ("echo x=1 >> $GITHUB_OUTPUT", "handing values to later steps"),
        ("echo '::set-output name=x::1'", "handing values to later steps"),
        ("echo /x >> $GITHUB_PATH", "finding programs"),
        ("echo x", "working on text"),
        ("du -sh ~/.triton/**", "looking at the machine"),
        ("python3 --version", "looking at the machine"),
        ("git diff", "looking at the checkout"),
        ("git fetch --unshallow", "getting sources"),
        ("rm -rf ~/.triton/cache", "making and removing files"),
        ("find ~ -name x -delete", "making and removing files"),
        ("docker system prune -af", "making and removing files"),
        ("curl -s https://api.github.com/repos/x/runs", "asking GitHub whether to run"),
        ("curl -LO https://example.com/x.tar.gz", "downloading"),
        ("python3 -m pip install --upgrade pip", "installing packages"),
        ("pip3.11 install pytest==7", "installing packages"),
        ("pip install https://example.com/x.whl", "installing packages"),
        ("sudo apt-get install -y lld", "installing packages"),
        ("brew install ccache", "installing packages"),
        ("python3 -m venv ~/.venv", "using a virtual environment"),
        ("source ~/.venv/bin/activate", "using a virtual environment"),
        ("python3 -m pre_commit run --all-files", "checking format and style"),
        ("cd x", "what the shell does for itself"),
    ],
)
def test_what_is_no_test(text: str, purpose: str) -> None:
    found = invocation(text)
    assert isinstance(found, Replaced)
    assert found.purpose == purpose


@pytest.mark.parametrize(
    "text",
    [
        *(
            "docker run x pytest",
            "git bisect run pytest",
            "find . -exec pytest {} +",
            "source x.sh",
        ),
        *("xargs pytest", "eval $X", "pre-commit autoupdate", "$X", "./run.sh", "npm-run", "pip"),
    ],
)
def test_what_might_be_a_test_is_not_passed_over(text: str) -> None:
    assert isinstance(invocation(text), NotUnderstood)


def test_every_rule_has_a_purpose_and_what_takes_its_place() -> None:
    rules = [(rule.purpose, rule.by) for rule in COMMANDS]
    assert all(purpose and by for purpose, by in rules + [(r.purpose, r.by) for r in ACTIONS])


@pytest.mark.parametrize(
    "uses,purpose",
    [
        ("actions/checkout@v4", "getting sources"),
        ("actions/cache/restore@v4", "keeping files from run to run"),
        ("actions/setup-python@0a5c61591373683505ea898e09a3ea4f39ef2b9c", "installing packages"),
        ("tj-actions/changed-files@v45", "finding what changed"),
        ("actions/upload-artifact@v4", "passing files on and reporting"),
    ],
)
def test_actions(uses: str, purpose: str) -> None:
    found = classify_action(uses)
    assert isinstance(found, Replaced)
    assert found.purpose == purpose


_WORDS = st.lists(
    st.one_of(
        st.text(min_size=1, max_size=6),
        st.sampled_from(
            [*("-k", "-n", "-m", "--ignore", "-", "--", "-n8", "--x=", "a::b", "-e", "--test-dir"),
             *("sudo", "env", "A=1", "bash", "-c", "'", "timeout", "pytest", "lit", "ctest", "pip"),
             *("install", ".", "uv", "run", "python", "setup.py", "build", "cmake", "--build", "ninja")]
        ),
    ),
    min_size=1,
    max_size=8,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(_WORDS)
def test_any_command_is_something(words: list[str]) -> None:
    from pants_triton.ci.shell_lines import Command

    found = classify(Command(tuple(Word((word,)) for word in words)))
    assert all(isinstance(i, Invocation.__args__) for _, i in found)  # type: ignore[attr-defined]
    parse_pytest_arguments([Word((word,)) for word in words])
