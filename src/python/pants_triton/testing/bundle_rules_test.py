from __future__ import annotations

from typing import Mapping

import pytest
from pants.backend.python import register as python_backend
from pants.backend.python.util_rules.interpreter_constraints import InterpreterConstraints
from pants.core import register as core
from pants.core.goals.package import BuiltPackage
from pants.engine.addresses import Address, Addresses
from pants.engine.fs import Digest, DigestEntries
from pants.engine.internals.parametrize import Parametrize
from pants.engine.internals.scheduler import ExecutionError
from pants.engine.target import Dependencies, DependenciesRequest
from pants.testutil.rule_runner import QueryRule, RuleRunner

from pants_triton import register
from pants_triton.testing.bundle_rules import (
    BundleSelection,
    BundleSelectionRequest,
    PreparedTest,
    PreparedTestRequest,
    TestBundleFieldSet,
    _exclusions,
)

FILES: Mapping[str, str] = {
    "3rdparty/a.lock.txt": "numpy==2.4.6 --hash=sha256:aa\n",
    "3rdparty/b.lock.txt": "numpy==2.4.6 --hash=sha256:aa\ntorch==2.13.0 --hash=sha256:ba\n",
    "t/BUILD": """
python_test_utils()
files(name="data", sources=["data.txt"])
triton_tests(name="device", sources=["[ab]_test.py"], hardware=parametrize("cuda", "rocm"))
triton_tests(
    name="cpu",
    sources=["a_test.py"],
    tags=["slow"],
    env={"TRITON_INTERPRET": "1"},
    extra_env_vars=["HOME", "A=1"],
    pytest_args=["-m", "x"],
    timeout=30,
    dependencies=[":data"],
)
triton_tests(name="b", sources=["b_test.py"], resolve="b", tags=["other_resolve"])
triton_tests(name="skipped", sources=["a_test.py"], skip_tests=True)
python_tests(name="plain", sources=["plain_test.py"], tags=["cpu"])
""",
    "t/conftest.py": "",
    "t/data.txt": "",
    "t/more.txt": "",
    "t/a_test.py": "import t.library\n",
    "t/b_test.py": "",
    "t/plain_test.py": "",
    "t/library.py": "",
    "t/below/BUILD": "triton_tests(name='cpu')",
    "t/below/c_test.py": "",
    "pytest.ini": "[pytest]\n",
}


@pytest.fixture(scope="module")
def shared_rule_runner() -> RuleRunner:
    return RuleRunner(
        rules=[
            *core.rules(),
            *python_backend.rules(),
            *register.rules(),
            QueryRule(Addresses, (DependenciesRequest,)),
            QueryRule(BuiltPackage, (TestBundleFieldSet,)),
            QueryRule(BundleSelection, (BundleSelectionRequest,)),
            QueryRule(DigestEntries, (Digest,)),
            QueryRule(PreparedTest, (PreparedTestRequest,)),
        ],
        target_types=[
            *core.target_types(),
            *python_backend.target_types(),
            *register.target_types(),
        ],
        objects={"parametrize": Parametrize},
    )


@pytest.fixture
def rule_runner(shared_rule_runner: RuleRunner) -> RuleRunner:
    """The workspace as it was at first, but for bundles."""
    shared_rule_runner.write_files(FILES)
    set_options(shared_rule_runner)
    return shared_rule_runner


def set_options(rule_runner: RuleRunner, *args: str) -> None:
    rule_runner.set_options(
        [
            "--python-interpreter-constraints=['CPython==3.9.*']",
            "--python-enable-resolves",
            "--python-resolves-generate-lockfiles=false",
            "--python-resolves={'a': '3rdparty/a.lock.txt', 'b': '3rdparty/b.lock.txt'}",
            "--python-default-resolve=a",
            "--python-infer-use-rust-parser",
            "--source-root-patterns=['/']",
            *args,
        ],
        env_inherit={"PATH", "HOME", "PYENV_ROOT"},
    )


def declare(rule_runner: RuleRunner, fields: str, folder: str = "bundles") -> Address:
    rule_runner.write_files({f"{folder}/bundle/BUILD": f"triton_test_bundle(name='it', {fields})"})
    return Address(f"{folder}/bundle", target_name="it")


def selection(rule_runner: RuleRunner, fields: str) -> list[str]:
    address = declare(rule_runner, fields)
    selected = rule_runner.request(BundleSelection, [BundleSelectionRequest(address)])
    return [field_set.address.spec for field_set in selected.tests]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param(
            "tests=['t::'], tag_expression=['cuda']",
            ["t/a_test.py:device@hardware=cuda", "t/b_test.py:device@hardware=cuda"],
            id="tag",
        ),
        pytest.param(
            "tests=['t::'], tag_expression=['cpu', '-slow,other_resolve']",
            ["t/below/c_test.py:cpu"],
            id="all values must match",
        ),
        pytest.param("tests=['t/a_test.py'], tag_expression=['slow']", ["t/a_test.py:cpu"], id="file"),
        pytest.param("tests=['//t:cpu']", ["t/a_test.py:cpu"], id="address"),
        pytest.param(
            "tests=['t::', '-t/below::'], tag_expression=['-cuda,rocm,other_resolve']",
            ["t/a_test.py:cpu"],
            id="exclusion",
        ),
    ],
)  # fmt: skip
def test_selection(rule_runner: RuleRunner, fields: str, expected: list[str]) -> None:
    assert selection(rule_runner, fields) == expected


def test_by_default_the_tests_of_its_folder_and_below(rule_runner: RuleRunner) -> None:
    rule_runner.write_files(
        {"t/below/BUILD": "triton_tests(name='cpu')\ntriton_test_bundle(name='it')"}
    )
    address = Address("t/below", target_name="it")
    selected = rule_runner.request(BundleSelection, [BundleSelectionRequest(address)])
    assert [fs.address.spec for fs in selected.tests] == ["t/below/c_test.py:cpu"]


def test_the_tags_of_the_command_line_have_no_say(rule_runner: RuleRunner) -> None:
    set_options(rule_runner, "--tag=cpu")
    assert len(selection(rule_runner, "tests=['t::'], tag_expression=['rocm']")) == 2


def test_tests_of_other_kinds_are_named(rule_runner: RuleRunner) -> None:
    address = declare(rule_runner, "tests=['t::'], tag_expression=['cpu']")
    selected = rule_runner.request(BundleSelection, [BundleSelectionRequest(address)])
    assert [other.spec for other in selected.others] == ["t/plain_test.py:plain"]


def test_it_depends_on_its_tests(rule_runner: RuleRunner) -> None:
    address = declare(
        rule_runner, "tests=['t::'], tag_expression=['slow'], dependencies=['t:data']"
    )
    target = rule_runner.get_target(address)
    found = rule_runner.request(Addresses, [DependenciesRequest(target[Dependencies])])
    assert sorted(a.spec for a in found) == ["t/a_test.py:cpu", "t:data"]


# --- what a test has -------------------------------------------------------------------------


def test_a_prepared_test(rule_runner: RuleRunner) -> None:
    address = declare(rule_runner, "tests=['t::'], tag_expression=['slow']")
    [field_set] = rule_runner.request(BundleSelection, [BundleSelectionRequest(address)]).tests
    prepared = rule_runner.request(
        PreparedTest,
        [PreparedTestRequest(field_set, (), InterpreterConstraints(["CPython==3.9.*"]))],
    )
    test = prepared.test
    assert (test.address, test.path, test.report) == (
        "t/a_test.py:cpu",
        "t/a_test.py",
        "t.a_test.py.cpu",
    )
    assert (test.hardware, test.timeout_s) == ("cpu", 30)
    assert dict(test.env) == {"TRITON_INTERPRET": "1"}
    assert test.env_entries == ("A=1", "HOME")
    assert test.pytest_args == ("-m", "x")
    [digest] = prepared.digests
    assert digest.fingerprint == test.tree
    # Its own file, what it depends on, and pytest's configuration; nothing beside it.
    assert [e.path for e in rule_runner.request(DigestEntries, [digest])] == [
        "pytest.ini",
        "t/a_test.py",
        "t/conftest.py",
        "t/data.txt",
    ]


# --- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(
            "tests=['t::'], tag_expression=['macos']",
            "bundles/bundle:it selects no test that it can have: see its `tests` and `tag_expression`.",
            id="no test",
        ),
        pytest.param(
            "tests=['t/plain_test.py']", "selects no test that it can have", id="only another kind"
        ),
        pytest.param(
            "tests=['t::'], tag_expression=['cpu']",
            "bundles/bundle:it selects tests of several resolves, but one PEX has the packages of "
            "one: `a` (t/a_test.py:cpu and 1 more), `b` (t/b_test.py:b). Make a bundle for each",
            id="several resolves",
        ),
        pytest.param(
            "tests=['t::'], tag_expression=['other_resolve'], provided=['nvidai-*']",
            "bundles/bundle:it: in `provided`, `nvidai-*` matches no package of the lock, which has "
            "numpy, torch. It is the lock of the resolve `b`.",
            id="a glob that matches nothing",
        ),
    ],
)
def test_what_can_not_be_made(rule_runner: RuleRunner, fields: str, message: str) -> None:
    address = declare(rule_runner, fields)
    field_set = TestBundleFieldSet.create(rule_runner.get_target(address))
    with pytest.raises(ExecutionError) as e:
        rule_runner.request(BuiltPackage, [field_set])
    assert message in str(e.value)


def test_provided_needs_a_lock(rule_runner: RuleRunner) -> None:
    rule_runner.set_options(
        [
            "--python-interpreter-constraints=['CPython==3.9.*']",
            "--python-infer-use-rust-parser",
            "--source-root-patterns=['/']",
        ],
        env_inherit={"PATH", "HOME", "PYENV_ROOT"},
    )
    address = declare(rule_runner, "tests=['t/below::'], provided=['torch']")
    field_set = TestBundleFieldSet.create(rule_runner.get_target(address))
    with pytest.raises(ExecutionError, match="there is none: set `.python..enable_resolves`"):
        rule_runner.request(BuiltPackage, [field_set])


def test_exclusions_of_a_lock_of_pex() -> None:
    lock = """{"locked_resolves": [{"locked_requirements": [
        {"project_name": "numpy"}, {"project_name": "nvidia-cublas"}, {"project_name": "torch"}
    ]}]}"""
    assert list(_exclusions(lock, ["torch", "nvidia_*", "triton"])) == [
        "--exclude=nvidia-cublas",
        "--exclude=torch",
        "--exclude=triton",
    ]
