"""What commands are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pants_triton.ci.invocations import (
    ACTIONS,
    COMMANDS,
    Build,
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
from pants_triton.ci.shell_lines import Command, run_script
from pants_triton.ci.shell_words import Word, join_words
from pants_triton.ci.unknown import Unknown


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
        ("exec 2>&1", "what the shell does for itself"),
        ("trap 'rm -rf x' EXIT", "what the shell does for itself"),
        ("command -v pytest", "looking at the machine"),
        ("type lit", "looking at the machine"),
        ("which ctest", "looking at the machine"),
        ("git -C x --no-pager log -1", "looking at the checkout"),
        ("git rev-parse HEAD", "looking at the checkout"),
        ("git -C x submodule update --init", "getting sources"),
        ("git submodule foreach git clean -fd", "getting sources"),
        ("git -c a=b commit -am x", "changing sources"),
        ("git apply x.patch", "changing sources"),
        ("git push origin x", "changing sources"),
        ("curl -G -d a=b https://api.github.com/x", "asking GitHub whether to run"),
        ("curl -X GET https://api.github.com/x", "asking GitHub whether to run"),
        ("curl -H 'X-A: b' https://api.github.com/x", "asking GitHub whether to run"),
        ("gh api repos/x/actions/runs", "asking GitHub whether to run"),
        ("gh api --method GET repos/x/pulls -f state=closed", "asking GitHub whether to run"),
        ("gh api graphql -f query='query {x}'", "asking GitHub whether to run"),
        ("gh -R x run list", "asking GitHub whether to run"),
        ("gh --repo x issue create", "telling people"),
        ("gh api -X PATCH repos/x/issues/comments/1", "telling people"),
        ("gh release upload x y", "publishing"),
        ("curl -X PUT -T x https://example.com/x", "handing files to a service"),
        ('curl -o "$(mktemp -d)/x" https://example.com/x', "downloading"),
        ("wget -T 30 https://example.com/x", "downloading"),
        ("conda activate x", "using a virtual environment"),
        ("pip install -e git+https://example.com/x", "installing packages"),
        ("dpkg-deb -x a.deb b", "installing packages"),
        ("sudo apt-key adv --keyserver x", "installing packages"),
        ("cmake -E make_directory build", "making and removing files"),
        ("rm -rf build/test python/test/__pycache__ /opt/test_a.py", "making and removing files"),
        ("sed -i s/a/test_b.py/ setup.py", "working on text"),
        ("sed -n s/a/b/ t/test_a.py", "working on text"),
        ("rm -f python/test/unit/test_a.py", "removing tests before they are run"),
        ("rm -r test/", "removing tests before they are run"),
        ("pytest --version", "asking tools what they are or would do"),
        ("pytest --collect-only -q t", "asking tools what they are or would do"),
        ("pytest --co t", "asking tools what they are or would do"),
        ("python -m pytest -h", "asking tools what they are or would do"),
        ("lit --show-tests test", "asking tools what they are or would do"),
        ("ctest -N", "asking tools what they are or would do"),
        ("ctest --show-only=json-v1", "asking tools what they are or would do"),
        ("ninja -t targets", "asking tools what they are or would do"),
        ("ninja -n check", "asking tools what they are or would do"),
        ("cmake --help-module X", "asking tools what they are or would do"),
        ("make --dry-run test", "asking tools what they are or would do"),
    ],
)
def test_what_is_no_test(text: str, purpose: str) -> None:
    *_, command = run_script(text, environment={})
    ((_, found),) = classify(command)
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
        *("trap 'pytest t' EXIT", "git submodule foreach pytest", "git rebase -x pytest main"),
        "curl -X POST https://api.github.com/repos/x/actions/workflows/y/dispatches",
        "curl -sXPOST https://api.github.com/x",
        "curl -d '{}' https://api.github.com/x",
        *("curl -X POST $URL", "curl -X $METHOD https://api.github.com/x"),
        "wget --post-data=x https://api.github.com/x",
        *("gh workflow run x.yml", "gh run rerun 1", "gh api -X POST x/dispatches"),
        *("gh api x/dispatches -f ref=main", "gh api graphql -f query='mutation {x}'"),
        *("sed -i s/a/b/ python/test/unit/test_a.py", "cd t; sed -i.bak -e s/a/b/ a_test.py"),
        *("mv t/test_a.py x", "mv python/test y", "sed -i s/a/b/ test/x.mlir"),
        *("./scripts/build foo", "build", "cmake -P x.cmake", "cmake -E env pytest", "ninja $X"),
        *("make -k check all", "make -j check all", "make $X all", "cmake --workflow --preset x"),
    ],
)
def test_what_might_be_a_test_is_not_passed_over(text: str) -> None:
    *_, command = run_script(text, environment={})
    ((_, found),) = classify(command)
    assert isinstance(found, NotUnderstood)


@pytest.mark.parametrize(
    "arguments",
    [
        *("--target all check-triton-lit-tests", "--target=check-x", "-t check-x", "-tcheck-x"),
        *("--target triton --target check-x", "-j 8 -t triton -t unittests", "-- check-x"),
        *("-- -j8 all check-x", "$X", "--target $X", "--config Release --target RUN_TESTS"),
    ],
)
def test_tests_among_the_targets_of_cmake_are_no_build(arguments: str) -> None:
    assert isinstance(invocation(f"cmake --build build {arguments}"), NotUnderstood)


@pytest.mark.parametrize(
    "text,folder",
    [
        ("cmake --build build", "build"),
        ("cmake --build build --config Release -j 8 --target all install", "build"),
        ("cmake --build build --parallel $(nproc) -t triton -- -k 0 -j4 V=1", "build"),
        ("cmake -G Ninja ..", ".."),
        ("cmake -GNinja -Bb ../llvm -DX=y", "../llvm"),
        ("cmake -D X=1 -B build a", "a"),
        ("cmake -U X -A x64 -T host=x64 -C init.cmake --toolchain t.cmake --preset p -B b", "."),
        ("cmake -S $X/a -B b", "$X/a"),
        ("cmake -Sa -Bb", "a"),
        ("cmake $OPTIONS a", "a"),
        ("cmake --install b --prefix c", "b"),
        ("ninja -C $X/a", "$X/a"),
        ("ninja -Ca -j 8", "a"),
        ("make -j $(nproc) -C a install", "a"),
        ("make --directory=a -j all", "a"),
        ("python -m build -w -o dist a", "a"),
        ('pip install -e "$DIR"', "$DIR"),
        ("pip install --editable=./a", "a"),
        ("pip install -e.", "."),
    ],
)
def test_folders_of_builds(text: str, folder: str) -> None:
    *_, command = run_script(text, environment={})
    ((_, found),) = classify(command)
    assert isinstance(found, Build)
    assert found.folder.text == folder
    assert found.editable == (" -e" in text or "--editable" in text)


@pytest.mark.parametrize(
    "wrapper",
    [
        *("numactl -N 0 --membind 0 -m 1", "uv run --with x -p 3.11", "uv -q run --", "poetry run"),
        *("nice -n 5", "nice -10", "timeout -v 60", "timeout -s KILL 1h", "stdbuf -oL -e L"),
        *("taskset -c 0-3", "conda run -n x --no-capture-output", "poetry -C . run", "exec"),
        *(
            "/usr/bin/time -f %e",
            "command -p",
            "coverage run --source x -m",
            "env -u X A=1",
            "sudo -u x",
        ),
    ],
)
def test_wrappers_run_what_is_behind_their_options(wrapper: str) -> None:
    found = invocation(f"{wrapper} pytest t/test_a.py")
    assert isinstance(found, PytestRun)
    assert [word.text for word in found.arguments.paths] == ["t/test_a.py"]


@pytest.mark.parametrize("wrapper", ["uv run --directory a", "env -C a", "sudo --chdir=a"])
def test_wrappers_that_change_the_folder(wrapper: str) -> None:
    found = invocation(f"{wrapper} pytest t")
    assert isinstance(found, PytestRun)
    assert found.folder.text == "a"


def test_what_begins_with_something_unknown_is_no_option() -> None:
    unknown = Word((Unknown("-k ${{ inputs.k }}"),))
    found = parse_pytest_arguments([unknown, Word(("t",))])
    assert found.paths == (unknown, Word(("t",)))
    for program in ("lit", "ninja"):
        ((_, run),) = classify(Command((Word((program,)), unknown)))
        assert isinstance(run, (LitRun, NotUnderstood))
        assert isinstance(run, NotUnderstood) or run.paths == (unknown,)
    ((_, ctest),) = classify(Command((Word(("ctest",)), unknown)))
    assert isinstance(ctest, CTestRun) and ctest.others == (unknown.text,)


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
    found = classify(Command(tuple(Word((word,)) for word in words)))
    assert all(isinstance(i, Invocation.__args__) for _, i in found)  # type: ignore[attr-defined]
    parse_pytest_arguments([Word((word,)) for word in words])


_PROGRAMS = st.sampled_from(
    [
        *("pytest", "lit", "ctest", "ninja", "cmake", "make", "pip", "python", "uv", "env", "git"),
        *("rm", "sed", "curl", "gh", "timeout", "numactl", "build", "$X"),
    ]
)
_PARTS = st.one_of(
    st.sampled_from(
        [
            *("-", "--", "-k", "-n8", "-e", "-C", "-t", "-D", "-S", "-X", "--ignore=", "--target="),
            *("--build", "--test-dir", "--ignore-glob", "-m", "-j", "run", "api", "install", "=", "/"),
            *("..", ".", "t", "::", "t/test_a.py", "[x]", "*", "pytest", "setup.py", "--editable"),
        ]
    ),
    st.sampled_from(["$X", "-k $X", "--", "-m", "/", "$(ls t)", "=", "", "check"]).map(Unknown),
)  # fmt: skip
_UNKNOWN_WORDS = st.lists(st.lists(_PARTS, max_size=3).map(join_words), max_size=6)


@settings(max_examples=500, deadline=None)
@given(_PROGRAMS, _UNKNOWN_WORDS, st.lists(_PARTS, min_size=1, max_size=2).map(join_words))
def test_any_command_with_unknown_words_is_something(
    program: str, words: list[Word], options: Word
) -> None:
    command = Command(
        (Word((program,)), *words), environment=(("PYTEST_ADDOPTS", options),), folder=options
    )
    found = classify(command)
    assert all(isinstance(i, Invocation.__args__) for _, i in found)  # type: ignore[attr-defined]
