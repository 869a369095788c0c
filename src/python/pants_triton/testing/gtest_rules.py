"""How `gtest_tests` are run: found in the configured project, built, and a process each."""

from __future__ import annotations

import dataclasses
import posixpath
import re
import shlex
from dataclasses import dataclass
from typing import Any

from pants.core.goals.test import TestExtraEnv, TestFieldSet, TestRequest, TestResult, TestSubsystem
from pants.core.util_rules.partitions import Partition, PartitionerType, Partitions
from pants.engine.addresses import Address, Addresses, UnparsedAddressInputs
from pants.engine.engine_aware import EngineAwareReturnType
from pants.engine.fs import (
    EMPTY_DIGEST,
    EMPTY_FILE_DIGEST,
    AddPrefix,
    CreateDigest,
    Digest,
    DigestSubset,
    FileContent,
    MergeDigests,
    PathGlobs,
    Snapshot,
)
from pants.engine.process import Process, ProcessCacheScope
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.artifact.fetch_rules import CACHE_HEAD_START_MS
from pants_triton.artifact.rules import run_with_trees
from pants_triton.native.edges import named_paths
from pants_triton.native.layout import BUILD, CHROOT, ROOT_TOKEN, below
from pants_triton.native.project_rules import NativeProject, NativeProjectRequest
from pants_triton.native.rules import BuiltFiles, BuiltFilesRequest
from pants_triton.native.subsystem import NativeError
from pants_triton.native.target_types import CMakeOutputProjectField
from pants_triton.native.tools_rules import ProjectTools, ProjectToolsRequest
from pants_triton.testing.gtest_plan import test_programs
from pants_triton.testing.gtest_subsystem import GTest
from pants_triton.testing.gtest_target_types import (
    GTestEnvField,
    GTestShardsField,
    GTestSourceField,
    GTestTimeoutField,
)
from pants_triton.testing.junit import not_run_report

# What can be in no address' name, and in no file's without trouble.
_NO_NAME = r"[^\w.+-]"


@dataclass(frozen=True)
class GTestFieldSet(TestFieldSet):
    required_fields = (GTestSourceField, CMakeOutputProjectField)

    source: GTestSourceField
    project: CMakeOutputProjectField
    env: GTestEnvField
    shards: GTestShardsField
    timeout: GTestTimeoutField


@dataclass(frozen=True)
class GTestMetadata:
    """One process of a target.

    :param program: below the sandbox's root; "" where `error` says why none is known.
    :param wrapper: the words before the program in its command, with ROOT_TOKEN.
    :param ctest: for one that isn't run: the test of CTest that it is; and why, in `not_run`.
    :param shard: counted from 0.
    """

    project: Address | None
    program: str
    wrapper: tuple[str, ...] = ()
    ctest: str = ""
    not_run: str = ""
    shard: int = 0
    shards: int = 1
    error: str = ""

    @property
    def description(self) -> str:
        name = self.program[len(BUILD) + 1 :]
        if self.wrapper:
            words = (posixpath.basename(word) for word in self.wrapper)
            name += f"-by-{re.sub(_NO_NAME, '_', '-'.join(words))}"
        return f"{name} {self.shard + 1}/{self.shards}" if self.shards > 1 else name


class GTestRequest(TestRequest):
    tool_subsystem = GTest
    field_set_type = GTestFieldSet
    partitioner_type = PartitionerType.CUSTOM


@rule(desc="Find GoogleTest programs", level=LogLevel.DEBUG)
async def partition_gtests(
    request: GTestRequest.PartitionRequest[GTestFieldSet], gtest: GTest
) -> Partitions[GTestFieldSet, GTestMetadata]:
    if gtest.skip:
        return Partitions()
    partitions = []
    for field_set in request.field_sets:
        projects = await Get(
            Addresses,
            UnparsedAddressInputs(
                (field_set.project.value,),
                owning_address=field_set.address,
                description_of_origin=f"the `project` of {field_set.address}",
            ),
        )
        try:
            project = await Get(NativeProject, NativeProjectRequest(projects[0]))
        except NativeError as e:
            # It is this target's failure alone.
            partitions.append(Partition((field_set,), GTestMetadata(None, "", error=str(e))))
            continue
        found = test_programs(project.manifest.edges, project.graph.texts)
        partitions += [
            Partition(
                (field_set,),
                GTestMetadata(
                    project.address,
                    "",
                    ctest=name,
                    not_run=f"`{name}` runs nothing that the project builds, but `{command}`",
                ),
            )
            for name, command in found.others
        ]
        if not found.programs:
            error = (
                f"{project.address} has no test program: CMake's `gtest_discover_tests` or "
                "`add_test` names none. Is building tests switched off in its `cache`?"
            )
            partitions.append(Partition((field_set,), GTestMetadata(None, "", error=error)))
        shards = field_set.shards.value
        partitions += [
            Partition(
                (field_set,),
                GTestMetadata(
                    project.address, program.path, program.wrapper, shard=shard, shards=shards
                ),
            )
            for program in found.programs
            for shard in range(shards)
        ]
    return Partitions(partitions)


@dataclass(frozen=True)
class WrapperFilesRequest:
    """Asks for what the words of a command name in a project."""

    project: Address
    words: tuple[str, ...]


@dataclass(frozen=True)
class WrapperFiles:
    """Sources and what configuring wrote, and the artifacts that have others."""

    digest: Digest
    trees: FrozenDict[str, Digest]


@rule
async def find_wrapper_files(request: WrapperFilesRequest) -> WrapperFiles:
    if not request.words:
        return WrapperFiles(EMPTY_DIGEST, FrozenDict())
    project = await Get(NativeProject, NativeProjectRequest(request.project))
    named = named_paths(shlex.join(request.words))
    entries = [entry for path, entry in project.entries.items() if below(path, named)]
    trees = {
        path: digest
        for path, digest in project.trees.items()
        if any(below(each, [path]) for each in named)
    }
    return WrapperFiles(await Get(Digest, CreateDigest(entries)), FrozenDict(trees))


@dataclass(frozen=True)
class SkippedCTestRequest:
    """Asks to report a test of CTest that isn't run."""

    address: Address
    test: str
    reason: str


@dataclass(frozen=True)
class SkippedCTest(EngineAwareReturnType):
    """A test of CTest that was not run: a line on the console and an entry in JUnit."""

    address: Address
    test: str
    reason: str
    report: Snapshot

    def level(self) -> LogLevel:
        return LogLevel.WARN

    def message(self) -> str:
        return f"{self.address}: CTest's test {self.reason}: not run."

    def metadata(self) -> dict[str, Any]:
        """For the summary at the end of the run and for other readers of workunits."""
        return {"skipped": {f"{self.address} {self.test}": self.reason}}

    def cacheable(self) -> bool:
        """Is not, so that it shows in every run of a daemon."""
        return False


@rule(desc="Skip a test of CTest", level=LogLevel.DEBUG)
async def report_skipped_ctest(request: SkippedCTestRequest) -> SkippedCTest:
    content = not_run_report(
        suite=request.address.spec, test=request.test, reason=request.reason, is_error=False
    )
    name = f"{request.address.path_safe_spec}.{re.sub(_NO_NAME, '_', request.test)}.xml"
    report = await Get(Snapshot, CreateDigest([FileContent(name, content)]))
    return SkippedCTest(request.address, request.test, request.reason, report)


@rule(desc="Run GoogleTest", level=LogLevel.DEBUG)
async def run_gtest(
    batch: GTestRequest.Batch[GTestFieldSet, GTestMetadata],
    gtest: GTest,
    test_subsystem: TestSubsystem,
    extra_env: TestExtraEnv,
) -> TestResult:
    field_set, metadata = batch.single_element, batch.partition_metadata
    if metadata.not_run:
        skipped = await Get(
            SkippedCTest,
            SkippedCTestRequest(field_set.address, metadata.ctest, metadata.not_run),
        )
        return TestResult(
            exit_code=None,
            stdout="",
            stdout_digest=EMPTY_FILE_DIGEST,
            stderr="",
            stderr_digest=EMPTY_FILE_DIGEST,
            addresses=(field_set.address,),
            output_setting=test_subsystem.output,
            result_metadata=None,
            xml_results=skipped.report,
        )
    address = _named(field_set.address, metadata)
    report_name = f"{address.path_safe_spec}.xml"
    error = metadata.error
    digest = EMPTY_DIGEST
    if not error:
        assert metadata.project is not None
        wrapper, built = await MultiGet(
            Get(WrapperFiles, WrapperFilesRequest(metadata.project, metadata.wrapper)),
            Get(BuiltFiles, BuiltFilesRequest(metadata.project, (metadata.program,))),
        )
        error, digest = built.error, built.digest
    if error:
        process = Process(
            ("/bin/sh", "-c", 'printf "%s\\n" "$1" >&2; exit 1', "sh", f"{address}: {error}"),
            description=f"{address} can't be built",
            level=LogLevel.DEBUG,
            cache_scope=ProcessCacheScope.PER_SESSION,
        )
    else:
        assert metadata.project is not None
        tools, built_digest = await MultiGet(
            Get(ProjectTools, ProjectToolsRequest(metadata.project)),
            Get(Digest, AddPrefix(digest, BUILD)),
        )
        input_digest = await Get(Digest, MergeDigests((built_digest, wrapper.digest)))
        env = {
            **{"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            **tools.runtime_env,
            **tools.test_environment,
            **extra_env.env,
        }
        if metadata.shards > 1:
            env["GTEST_TOTAL_SHARDS"] = str(metadata.shards)
            env["GTEST_SHARD_INDEX"] = str(metadata.shard)
        env.update(field_set.env.value or {})
        process = Process(
            (
                # Which looks for the program as a shell does.
                *(["/usr/bin/env"] if metadata.wrapper else []),
                *(word.replace(ROOT_TOKEN, CHROOT) for word in metadata.wrapper),
                f"{CHROOT}/{metadata.program}",
                *gtest.args,
                f"--gtest_output=xml:{CHROOT}/{report_name}",
            ),
            env=env,
            input_digest=input_digest,
            immutable_input_digests={**tools.runtime_trees, **wrapper.trees},
            output_files=(report_name,),
            timeout_seconds=field_set.timeout.calculate_from_global_options(test_subsystem),
            description=f"Run {address}",
            level=LogLevel.DEBUG,
            cache_scope=(
                ProcessCacheScope.PER_SESSION
                if test_subsystem.force
                else ProcessCacheScope.SUCCESSFUL
            ),
            remote_cache_speculation_delay_millis=CACHE_HEAD_START_MS,
        )
    result = await run_with_trees(process, (metadata.project or field_set.address,))
    report = await Get(Snapshot, DigestSubset(result.output_digest, PathGlobs([report_name])))
    if not report.files:
        # Without one, that of an earlier run would stay where this one's should be.
        reason = error or f"the program ended with {result.exit_code} and wrote no report"
        content = not_run_report(
            suite=address.spec, test=metadata.description, reason=reason, is_error=True
        )
        report = await Get(Snapshot, CreateDigest([FileContent(report_name, content)]))
    whole = TestResult.from_batched_fallible_process_result(
        result, batch=batch, output_setting=test_subsystem.output, xml_results=report
    )
    # So that each has a line of its own: Pants names results by their addresses.
    return dataclasses.replace(whole, addresses=(address,), partition_description=None)


def _named(address: Address, metadata: GTestMetadata) -> Address:
    """An address that names one process; no target has it."""
    if not metadata.program:
        return address
    name = (
        metadata.description.replace(" ", "-shard-").replace("/", ".")
        if (metadata.shards > 1)
        else metadata.description
    )
    return Address(
        address.spec_path,
        target_name=address.target_name,
        parameters=address.parameters,
        generated_name=name,
    )


def rules():
    return [*collect_rules(), *GTestRequest.rules()]
