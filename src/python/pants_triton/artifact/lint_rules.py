"""Lint: the lock must be of what BUILD files and pins declare."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from pants.core.goals.lint import LintResult, LintTargetsRequest
from pants.core.util_rules.partitions import PartitionerType
from pants.engine.internals.graph import Owners, OwnersRequest
from pants.engine.rules import Get, collect_rules, rule
from pants.engine.target import FieldSet
from pants.util.logging import LogLevel

from pants_triton.artifact.declaration_rules import AllArtifacts
from pants_triton.artifact.lock import make_lock
from pants_triton.artifact.lock_rules import ArtifactLock
from pants_triton.artifact.locking import problems
from pants_triton.artifact.subsystem import ArtifactPins
from pants_triton.artifact.target_types import ArtifactLintedField, ArtifactLockSourceField


@dataclass(frozen=True)
class ArtifactLintFieldSet(FieldSet):
    required_fields = (ArtifactLintedField,)

    source: ArtifactLintedField


class ArtifactLintRequest(LintTargetsRequest):
    field_set_type = ArtifactLintFieldSet
    tool_subsystem = ArtifactPins
    partitioner_type = PartitionerType.DEFAULT_SINGLE_PARTITION


@rule(desc="Compare artifacts with their lock", level=LogLevel.DEBUG)
async def lint_artifacts(
    request: ArtifactLintRequest.Batch[ArtifactLintFieldSet, Any],
    lock: ArtifactLock,
    artifacts: AllArtifacts,
) -> LintResult:
    addresses = {field_set.address.spec for field_set in request.elements}
    findings = [
        declared.error
        for declared in artifacts.declarations
        if declared.error and declared.address.spec in addresses
    ]
    # What no BUILD file declares any more is the lock's own fault.
    if any(isinstance(field_set.source, ArtifactLockSourceField) for field_set in request.elements):
        addresses.add("")
    # Nobody can say what a declaration with an error wants of the lock.
    broken = {declared.address.spec for declared in artifacts.declarations if declared.error}
    rows = [row for row in lock.lock.rows if row.address.partition("#")[0] not in broken]
    findings += [
        problem.message
        for problem in problems(artifacts.slots, make_lock(lock.lock.path, rows))
        if problem.target in addresses
    ]
    if not await Get(Owners, OwnersRequest((lock.lock.path,))) and lock.lock.rows:
        folder, name = os.path.split(lock.lock.path)
        findings.append(
            f"{lock.lock.path} is owned by no target, so that `--changed-since` does not see what a "
            f'new lock affects: add `artifact_lock(name="lock", source="{name}")` to '
            f"{os.path.join(folder, 'BUILD')}."
        )
    return LintResult(
        exit_code=1 if findings else 0,
        stdout="\n".join(findings),
        stderr="",
        linter_name=ArtifactPins.name,
        partition_description=request.partition_metadata.description,
    )


def rules():
    return [*collect_rules(), *ArtifactLintRequest.rules()]
