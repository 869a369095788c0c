"""`artifact-pins`, as `lint` runs it: in batches of targets that Pants chooses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pants.core.goals.lint import LintResult, Partitions
from pants.core.subsystems import python_bootstrap
from pants.core.util_rules import system_binaries
from pants.engine.addresses import Address
from pants.testutil.rule_runner import QueryRule, RuleRunner

from pants_triton.artifact import lint_rules
from pants_triton.artifact import rules as artifact_rules
from pants_triton.artifact import use_rules as artifact_use_rules
from pants_triton.artifact.declaration import UrlQuestion
from pants_triton.artifact.declaration_rules import AllArtifacts
from pants_triton.artifact.lint_rules import ArtifactLintFieldSet, ArtifactLintRequest
from pants_triton.artifact.lock import Row, UrlEntry, make_lock, write_lock
from pants_triton.artifact.lock_rules import ArtifactLock
from pants_triton.artifact.target_types import ARTIFACT_TARGET_TYPES
from pants_triton.program import rules as program_rules

LOCK = "3rdparty/artifacts.lock.json"
LOCK_TARGET = "3rdparty:lock"

ONE = "archive_artifact(name='one', pin='v.txt', url='https://example.com/{pin}.zip')"
TWO = "archive_artifact(name='two', url='https://example.com/two.zip')"
BROKEN = "archive_artifact(name='one', pin='v.txt', url='ftp://example.com/{pin}.zip')"


@pytest.fixture
def rule_runner() -> RuleRunner:
    rule_runner = RuleRunner(
        rules=[
            *artifact_rules.rules(),
            *artifact_use_rules.rules(),
            *lint_rules.rules(),
            *program_rules.rules(),
            *python_bootstrap.rules(),
            *system_binaries.rules(),
            QueryRule(AllArtifacts, ()),
            QueryRule(ArtifactLock, ()),
            QueryRule(LintResult, (ArtifactLintRequest.Batch,)),
            QueryRule(Partitions, (ArtifactLintRequest.PartitionRequest,)),
        ],
        target_types=ARTIFACT_TARGET_TYPES,
        isolated_local_store=True,
    )
    # A workspace in which nothing is wrong.
    rule_runner.write_files(
        {
            "t/BUILD": f"{ONE}\n{TWO}",
            "t/v.txt": "v1",
            "3rdparty/BUILD": "artifact_lock(name='lock', source='artifacts.lock.json')",
            LOCK: "",
        }
    )
    write_lock_of(rule_runner)
    return rule_runner


def write_lock_of(rule_runner: RuleRunner) -> None:
    """What `lock-artifacts` would write, but for the bytes."""
    rule_runner.write_files({LOCK: write_lock(make_lock(LOCK, []))})
    rows = []
    for slot in rule_runner.request(AllArtifacts, []).slots:
        assert isinstance(slot.question, UrlQuestion)
        entry = UrlEntry(slot.question.locations[0], "0" * 64, None, slot.pin_sha256)
        rows.append(Row(slot.address, slot.platform, entry))
    rule_runner.write_files({LOCK: write_lock(make_lock(LOCK, rows))})


def lint(rule_runner: RuleRunner, *addresses: str) -> list[str]:
    """The findings, of a run of `lint` that is asked about these targets."""
    targets = [
        rule_runner.get_target(Address(folder, target_name=name))
        for folder, _, name in (address.partition(":") for address in addresses)
    ]
    field_sets = tuple(ArtifactLintFieldSet.create(target) for target in targets)
    partitions = rule_runner.request(Partitions, [ArtifactLintRequest.PartitionRequest(field_sets)])
    findings = []
    for partition in partitions:
        result = rule_runner.request(
            LintResult,
            [ArtifactLintRequest.Batch("artifact-pins", partition.elements, partition.metadata)],
        )
        assert (result.linter_name, result.stderr) == ("artifact-pins", "")
        assert bool(result.exit_code) == bool(result.stdout)
        findings += result.stdout.splitlines()
    return findings


def test_nothing_is_wrong(rule_runner: RuleRunner) -> None:
    assert lint(rule_runner, "t:one", "t:two", LOCK_TARGET) == []


def test_a_pin_that_moved_without_its_lock(rule_runner: RuleRunner) -> None:
    rule_runner.write_files({"t/v.txt": "v2"})
    (finding,) = lint(rule_runner, "t:one", "t:two", LOCK_TARGET)
    assert finding.startswith("t:one: the archive v2.zip for any is locked in")
    assert "from another state of its pin t/v.txt" in finding
    assert finding.endswith("run `./pants lock-artifacts`.")
    # It is the finding of that target, not of others.
    assert lint(rule_runner, "t:two", LOCK_TARGET) == []


def test_what_was_never_locked(rule_runner: RuleRunner) -> None:
    new = "archive_artifact(name='new', url='https://example.com/new.zip')"
    rule_runner.write_files({"t/BUILD": "\n".join((ONE, TWO, new))})
    (finding,) = lint(rule_runner, "t:one", "t:new", LOCK_TARGET)
    assert finding.startswith(f"t:new: the archive new.zip for any is not in {LOCK}: run ")


def test_what_nobody_declares_any_more_is_the_locks_own_fault(rule_runner: RuleRunner) -> None:
    rule_runner.write_files({"t/BUILD": ONE})
    assert lint(rule_runner, "t:one") == []
    for addresses in ((LOCK_TARGET,), (LOCK_TARGET, "t:one")):
        (finding,) = lint(rule_runner, *addresses)
        assert finding.startswith(f"t:two is locked in {LOCK} for any, but no BUILD file declares")


def test_an_edited_lock(rule_runner: RuleRunner) -> None:
    rows = []
    for row in rule_runner.request(ArtifactLock, []).lock.rows:
        assert isinstance(row.entry, UrlEntry)
        strip = "other" if row.address == "t:one" else ""
        rows.append(replace(row, entry=replace(row.entry, strip=strip)))
    rule_runner.write_files({LOCK: write_lock(make_lock(LOCK, rows))})
    assert lint(rule_runner, "t:one", "t:two", LOCK_TARGET) == [
        f"t:one: the archive v1.zip for any was edited in {LOCK}: its `strip` is not what its pin "
        "t/v.txt says: run `./pants lock-artifacts`."
    ]


def test_a_pin_that_is_not_there(rule_runner: RuleRunner) -> None:
    rule_runner.write_files({"t/BUILD": ONE.replace("v.txt", "missing.txt") + f"\n{TWO}"})
    (finding,) = lint(rule_runner, "t:one", "t:two", LOCK_TARGET)
    assert finding.startswith("t:one: pin: t/missing.txt doesn't exist, or Pants ignores it")


def test_a_tree_that_contains_itself(rule_runner: RuleRunner) -> None:
    tree = "artifact_tree(name='tree', parts=[':tree'])"
    rule_runner.write_files({"t/BUILD": f"{ONE}\n{TWO}\n{tree}"})
    assert lint(rule_runner, "t:one", "t:tree") == [
        "t:tree: parts: it contains itself (t:tree -> t:tree): leave one out."
    ]


def test_a_broken_declaration(rule_runner: RuleRunner) -> None:
    rule_runner.write_files({"t/BUILD": f"{BROKEN}\n{TWO}"})
    # What it wants of the lock is unknown, so its row isn't left over.
    assert lint(rule_runner, LOCK_TARGET, "t:two") == []
    (finding,) = lint(rule_runner, LOCK_TARGET, "t:one", "t:two")
    assert finding.startswith("t:one: url: ")


def test_rows_of_a_broken_declarations_components_are_not_left_over(
    rule_runner: RuleRunner,
) -> None:
    pin = '{"ptxas": "12.8.93", "cudart": "12.8.57"}'
    nvidia = "nvidia_toolchain(name='one', pin='nvidia.json', platforms=['linux_x86_64'])"
    rule_runner.write_files({"t/BUILD": f"{nvidia}\n{TWO}", "t/nvidia.json": pin})
    write_lock_of(rule_runner)
    rule_runner.write_files({"t/nvidia.json": "{}"})
    assert lint(rule_runner, LOCK_TARGET, "t:two") == []
    (finding,) = lint(rule_runner, LOCK_TARGET, "t:one", "t:two")
    assert finding.startswith("t:one: t/nvidia.json: ")


def test_a_lock_that_no_target_owns(rule_runner: RuleRunner) -> None:
    rule_runner.write_files({"3rdparty/BUILD": ""})
    (finding,) = lint(rule_runner, "t:one", "t:two")
    assert finding.startswith(f"{LOCK} is owned by no target, so that `--changed-since` does not")
    artifact_lock = 'artifact_lock(name="lock", source="artifacts.lock.json")'
    assert finding.endswith(f"add `{artifact_lock}` to 3rdparty/BUILD.")


def test_skip(rule_runner: RuleRunner) -> None:
    rule_runner.write_files({"t/v.txt": "v2"})
    rule_runner.set_options(["--artifact-pins-skip"])
    assert lint(rule_runner, "t:one", "t:two", LOCK_TARGET) == []
