"""Lint: what tests ask for in their code must be among what their targets offer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from pants.backend.python.target_types import PythonTestSourceField
from pants.core.goals.lint import LintResult, LintTargetsRequest
from pants.core.util_rules.partitions import PartitionerType
from pants.core.util_rules.source_files import SourceFiles, SourceFilesRequest
from pants.engine.fs import Digest, DigestContents
from pants.engine.rules import Get, collect_rules, rule
from pants.engine.target import AllTargets, FieldSet, Target
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.hardware.target_types import HardwareField
from pants_triton.testing.markers import Situation, check_markers
from pants_triton.testing.subsystem import HardwareMarkers
from pants_triton.testing.target_types import TritonTestEnvField, TritonTestSourceField

# As Triton reads its boolean variables (`triton.knobs`).
_TRUE_VALUES = frozenset({"1", "true", "on", "y", "yes"})


@dataclass(frozen=True)
class HardwareMarkersFieldSet(FieldSet):
    required_fields = (TritonTestSourceField,)

    source: TritonTestSourceField


class HardwareMarkersRequest(LintTargetsRequest):
    field_set_type = HardwareMarkersFieldSet
    tool_subsystem = HardwareMarkers
    partitioner_type = PartitionerType.DEFAULT_SINGLE_PARTITION


@dataclass(frozen=True)
class SituationsOfFiles:
    """For each tested file of the workspace, how all of its targets run it."""

    by_path: FrozenDict[str, frozenset[Situation]]


def _situation(target: Target) -> Situation:
    env = target.get(TritonTestEnvField).value or FrozenDict()
    interpreter = env.get("TRITON_INTERPRET", "").lower() in _TRUE_VALUES
    hardware = target.get(HardwareField).value
    return Situation(hardware, interpreter)


@rule(desc="Find out how test files are run", level=LogLevel.DEBUG)
async def situations_of_files(all_targets: AllTargets) -> SituationsOfFiles:
    # All targets, not those selected: with `--tag=cuda`, a file's other owners are not selected,
    # and its other tests are not wrong.
    by_path: dict[str, set[Situation]] = defaultdict(set)
    for target in all_targets:
        # Pants' own `python_tests` may own the file as well: they need no hardware.
        for source_field in (TritonTestSourceField, PythonTestSourceField):
            if target.has_field(source_field):
                by_path[target[source_field].file_path].add(_situation(target))
    return SituationsOfFiles(FrozenDict({path: frozenset(s) for path, s in by_path.items()}))


@rule(desc="Compare tests with their hardware", level=LogLevel.DEBUG)
async def lint_hardware_markers(
    request: HardwareMarkersRequest.Batch[HardwareMarkersFieldSet, Any],
    situations: SituationsOfFiles,
) -> LintResult:
    sources = await Get(
        SourceFiles, SourceFilesRequest(field_set.source for field_set in request.elements)
    )
    contents = await Get(DigestContents, Digest, sources.snapshot.digest)
    findings = [
        f"{file.path}:{finding.line}: {finding.message}"
        for file in contents
        for finding in check_markers(
            file.content.decode("utf-8", "replace"), situations.by_path[file.path]
        )
    ]
    return LintResult(
        exit_code=1 if findings else 0,
        stdout="\n".join(findings),
        stderr="",
        linter_name=HardwareMarkers.name,
        partition_description=request.partition_metadata.description,
    )


def rules():
    return [*collect_rules(), *HardwareMarkersRequest.rules()]
