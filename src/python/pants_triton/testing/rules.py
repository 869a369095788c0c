"""How `triton_test` targets are run: planned, given their devices, and reported."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from pants.backend.python.goals.coverage_py import PytestCoverageData
from pants.backend.python.goals.pytest_runner import (
    _EXTRA_OUTPUT_DIR,
    TestMetadata,
    TestSetup,
    TestSetupRequest,
)
from pants.backend.python.subsystems.debugpy import DebugPy
from pants.backend.python.subsystems.pytest import PyTest
from pants.backend.python.subsystems.setup import PythonSetup
from pants.backend.python.target_types import (
    InterpreterConstraintsField,
    PythonTestsBatchCompatibilityTagField,
    PythonTestsExtraEnvVarsField,
)
from pants.backend.python.util_rules.interpreter_constraints import InterpreterConstraints
from pants.backend.python.util_rules.pex import Pex, PexRequest
from pants.base.build_environment import get_buildroot
from pants.base.specs import Specs
from pants.base.specs_parser import SpecsParser
from pants.core.goals.test import (
    RuntimePackageDependenciesField,
    TestDebugAdapterRequest,
    TestDebugRequest,
    TestFieldSet,
    TestRequest,
    TestResult,
    TestSubsystem,
)
from pants.core.subsystems.debug_adapter import DebugAdapterSubsystem
from pants.core.util_rules.environments import EnvironmentField
from pants.core.util_rules.partitions import Partition, PartitionerType, Partitions
from pants.core.util_rules.system_binaries import BashBinary
from pants.engine.addresses import Address
from pants.engine.engine_aware import EngineAwareReturnType
from pants.engine.env_vars import EnvironmentVars, EnvironmentVarsRequest
from pants.engine.fs import (
    EMPTY_FILE_DIGEST,
    CreateDigest,
    Digest,
    DigestEntries,
    DigestSubset,
    Directory,
    FileContent,
    MergeDigests,
    PathGlobs,
    RemovePrefix,
    Snapshot,
)
from pants.engine.internals.options_parsing import _Options
from pants.engine.process import (
    FallibleProcessResult,
    InteractiveProcess,
    Process,
    ProcessCacheScope,
)
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import AllTargets, FilteredTargets, Tags, Target, Targets
from pants.engine.unions import UnionMembership
from pants.option.global_options import GlobalOptions
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel
from pants.vcs.changed import ChangedOptions

from pants_triton.artifact.fetch_rules import CACHE_HEAD_START_MS
from pants_triton.artifact.places import tree_among_files, trees_in_one_place
from pants_triton.artifact.rules import ArtifactTrees, ArtifactTreesRequest, run_with_trees
from pants_triton.hardware.device import Host
from pants_triton.hardware.requirement import Requirement, parse_requirement
from pants_triton.hardware.rules import LEASE_CACHE, HardwareAgent, ProbedHost
from pants_triton.hardware.subsystem import HardwareSubsystem, MissingHardware
from pants_triton.hardware.target_types import (
    ArchField,
    DevicesField,
    ExclusiveDeviceField,
    HardwareField,
)
from pants_triton.kernel_cache.rules import KernelCacheClient
from pants_triton.native.rules import BuiltOutputs, BuiltOutputsRequest
from pants_triton.package.rules import AssembledPackages, AssembledPackagesRequest
from pants_triton.testing.command import (
    HOME,
    leased,
    needs_lease,
    process_environment,
    with_target_args,
)
from pants_triton.testing.junit import not_run_report
from pants_triton.testing.kernel_cache_rules import (
    KernelCachePackages,
    KernelCachePackagesRequest,
)
from pants_triton.testing.planning import NotRunnable, Plan, Runnable, plan_test
from pants_triton.testing.selection import (
    describe_empty_selection,
    describe_unknown_tags,
    is_literal,
)
from pants_triton.testing.shim_rules import (
    PantsPython,
    PantsPythonError,
    PortableProcess,
    PortableProcessRequest,
)
from pants_triton.testing.target_types import (
    SkipTritonTestsField,
    TritonTestEnvField,
    TritonTestIsolatedField,
    TritonTestPytestArgsField,
    TritonTestResolveField,
    TritonTestSourceField,
    TritonTestTimeoutField,
    TritonTestWorkersField,
)
from pants_triton.workunits import NOT_RUN, work_metadata

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TritonTestFieldSet(TestFieldSet):
    required_fields = (TritonTestSourceField,)

    source: TritonTestSourceField
    hardware: HardwareField
    arch: ArchField
    devices: DevicesField
    exclusive_device: ExclusiveDeviceField
    env: TritonTestEnvField
    pytest_args: TritonTestPytestArgsField
    workers: TritonTestWorkersField
    isolated: TritonTestIsolatedField
    timeout: TritonTestTimeoutField
    resolve: TritonTestResolveField
    interpreter_constraints: InterpreterConstraintsField
    extra_env_vars: PythonTestsExtraEnvVarsField
    runtime_package_dependencies: RuntimePackageDependenciesField
    batch_compatibility_tag: PythonTestsBatchCompatibilityTagField
    environment: EnvironmentField

    @classmethod
    def opt_out(cls, tgt: Target) -> bool:
        return tgt.get(SkipTritonTestsField).value

    @property
    def requirement(self) -> Requirement:
        return parse_requirement(self.hardware.value, self.arch.value, self.devices.value)


@dataclass(frozen=True)
class TritonTestMetadata:
    """What all tests of one process have in common."""

    pytest: TestMetadata
    requirement: Requirement
    plan: Plan
    exclusive_device: bool
    env: FrozenDict[str, str]
    pytest_args: tuple[str, ...]
    workers: int
    isolated: bool

    @property
    def description(self) -> str | None:
        return self.pytest.description


class TritonTestRequest(TestRequest):
    # Its options and its name in messages are pytest's: `-- args`, `[pytest].args` and so on apply.
    tool_subsystem = PyTest
    field_set_type = TritonTestFieldSet
    partitioner_type = PartitionerType.CUSTOM
    supports_debug = True
    supports_debug_adapter = True


# -----------------------------------------------------------------------------------------
# Planning: which tests can run here
# -----------------------------------------------------------------------------------------


class SelectionError(Exception):
    """The command line selects no test, or names a tag that no target has."""


@dataclass(frozen=True)
class SelectionCheckRequest:
    """Asks whether the command line selects what its author meant.

    :param selects_triton_tests: whether at least one `triton_test` is selected.
    """

    selects_triton_tests: bool


@dataclass(frozen=True)
class SelectionCheck:
    """The selection is as meant, or a warning was given."""


async def _working_directory_in_build_root() -> str:
    """Where the user stands, which is what specs are relative to; a daemon stands elsewhere."""
    env = await Get(EnvironmentVars, EnvironmentVarsRequest(["PWD"]))
    build_root = os.path.realpath(get_buildroot())
    relative = os.path.relpath(os.path.realpath(env.get("PWD", build_root)), build_root)
    return "" if relative.startswith("..") else relative


@rule
async def check_selection(
    request: SelectionCheckRequest,
    hardware: HardwareSubsystem,
    global_options: GlobalOptions,
    parsed_options: _Options,
    union_membership: UnionMembership,
) -> SelectionCheck:
    # Pants lets both a tag that no target has and a run without a test pass with exit code 0: a
    # lane with a misspelt tag would be green for ever.
    is_strict = hardware.missing is MissingHardware.ERROR
    if global_options.tag:
        all_targets = await Get(AllTargets)
        unknown = describe_unknown_tags(
            global_options.tag,
            (tag for target in all_targets for tag in target.get(Tags).value or ()),
        )
        if unknown and is_strict:
            raise SelectionError(unknown)
        if unknown:
            logger.warning(unknown)

    changed = ChangedOptions.from_options(parsed_options.options.for_scope("changed"))
    # Nothing that changed is tested: that is no mistake.
    if not is_strict or changed.provided:
        return SelectionCheck()

    raw_specs = tuple(parsed_options.options.specs)
    groups: list[tuple[str, ...]] = []
    if global_options.tag:
        # Each literal for itself: one that selects nothing hides behind others that do.
        groups.extend((spec,) for spec in raw_specs if is_literal(spec))
    if not request.selects_triton_tests:
        groups.append(raw_specs)
    working_directory = await _working_directory_in_build_root()
    selections = await MultiGet(
        Get(
            Targets,
            Specs,
            SpecsParser(working_dir=working_directory).parse_specs(
                group,
                description_of_origin="CLI arguments",
                unmatched_glob_behavior=global_options.unmatched_cli_globs,
            ),
        )
        for group in groups
    )
    filtered = await MultiGet(Get(FilteredTargets, Targets, targets) for targets in selections)
    test_field_sets = union_membership.get(TestFieldSet)
    for group, targets in zip(groups, filtered):
        if not any(f.is_applicable(target) for target in targets for f in test_field_sets):
            raise SelectionError(describe_empty_selection(group, global_options.tag))
    return SelectionCheck()


@dataclass(frozen=True)
class TestPlanRequest:
    """Asks which tests can run here.

    :param requirements: what each test needs, by the address of its target.
    """

    requirements: FrozenDict[Address, Requirement]

    __test__ = False


@dataclass(frozen=True)
class TestPlan(EngineAwareReturnType):
    """Which tests can run here, and why the others can't."""

    hardware: FrozenDict[Address, str]
    plans: FrozenDict[Address, Plan]

    __test__ = False

    def metadata(self) -> dict[str, Any]:
        """For the summary at the end of the run and for other readers of workunits."""
        return {
            "tests": [
                {
                    "address": address.spec,
                    "hardware": self.hardware[address],
                    "fingerprint": plan.fingerprint if isinstance(plan, Runnable) else "",
                    "not_run_reason": plan.reason if isinstance(plan, NotRunnable) else None,
                }
                for address, plan in self.plans.items()
            ]
        }

    def cacheable(self) -> bool:
        """Is not, so that a daemon's every run has this workunit."""
        return False


@rule(desc="Plan Triton tests", level=LogLevel.DEBUG)
async def plan_triton_tests(request: TestPlanRequest) -> TestPlan:
    host = Host()
    # Probing takes a moment, which a run of `cpu` tests should not pay for.
    if any(requirement.hardware != "cpu" for requirement in request.requirements.values()):
        probed = await Get(ProbedHost)
        host = probed.host
    return TestPlan(
        FrozenDict({a: requirement.hardware for a, requirement in request.requirements.items()}),
        FrozenDict(
            {a: plan_test(requirement, host) for a, requirement in request.requirements.items()}
        ),
    )


@rule(desc="Partition Triton tests", level=LogLevel.DEBUG)
async def partition_triton_tests(
    request: TritonTestRequest.PartitionRequest[TritonTestFieldSet], python_setup: PythonSetup
) -> Partitions[TritonTestFieldSet, TritonTestMetadata]:
    await Get(SelectionCheck, SelectionCheckRequest(bool(request.field_sets)))
    plan = await Get(
        TestPlan,
        TestPlanRequest(FrozenDict({fs.address: fs.requirement for fs in request.field_sets})),
    )

    partitions = []
    batchable = defaultdict(list)
    for field_set in request.field_sets:
        metadata = TritonTestMetadata(
            pytest=TestMetadata(
                interpreter_constraints=InterpreterConstraints.create_from_compatibility_fields(
                    [field_set.interpreter_constraints], python_setup
                ),
                extra_env_vars=field_set.extra_env_vars.sorted(),
                xdist_concurrency=0,  # Ours: see `workers`.
                resolve=field_set.resolve.normalized_value(python_setup),
                environment=field_set.environment.value,
                compatability_tag=field_set.batch_compatibility_tag.value,
            ),
            requirement=field_set.requirement,
            plan=plan.plans[field_set.address],
            exclusive_device=field_set.exclusive_device.value,
            env=field_set.env.value or FrozenDict(),
            pytest_args=field_set.pytest_args.value or (),
            workers=field_set.workers.value,
            isolated=field_set.isolated.value,
        )
        # What is not run is reported by name, so it is not batched.
        if metadata.pytest.compatability_tag and isinstance(metadata.plan, Runnable):
            batchable[metadata].append(field_set)
        else:
            partitions.append(Partition((field_set,), metadata))
    partitions.extend(Partition(tuple(fs), metadata) for metadata, fs in batchable.items())
    return Partitions(partitions)


# -----------------------------------------------------------------------------------------
# The test process
# -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TritonTestSetupRequest:
    """Asks for the process that runs a batch of tests which can run here."""

    field_sets: tuple[TritonTestFieldSet, ...]
    metadata: TritonTestMetadata
    is_debug: bool
    prepend_argv: tuple[str, ...] = ()
    extra_env: FrozenDict[str, str] = FrozenDict()
    additional_pexes: tuple[Pex, ...] = ()


class TritonTestSetupError(Exception):
    """The tests can't be run, for a reason that is theirs alone: other tests go on."""


@dataclass(frozen=True)
class TritonTestSetup:
    """The process, and the name of the JUnit report that it writes (none with `--debug`)."""

    process: Process
    results_file_name: str | None


@rule
async def set_up_triton_tests(
    request: TritonTestSetupRequest,
    agent: HardwareAgent,
    kernel_cache_client: KernelCacheClient,
    python_setup: PythonSetup,
) -> TritonTestSetup:
    metadata = request.metadata
    assert isinstance(metadata.plan, Runnable), "only tests that can run here are set up"
    addresses = tuple(field_set.address for field_set in request.field_sets)
    artifacts, outputs, packages = await MultiGet(
        Get(ArtifactTrees, ArtifactTreesRequest(addresses, with_content=request.is_debug)),
        Get(BuiltOutputs, BuiltOutputsRequest(addresses)),
        Get(AssembledPackages, AssembledPackagesRequest(addresses)),
    )
    error = artifacts.error or outputs.error or packages.error
    if error:
        raise TritonTestSetupError(error)
    setup, home = await MultiGet(
        Get(
            TestSetup,
            TestSetupRequest(
                request.field_sets,  # type: ignore[arg-type]
                metadata.pytest,
                is_debug=request.is_debug,
                extra_env=request.extra_env,
                prepend_argv=request.prepend_argv,
                additional_pexes=request.additional_pexes,
            ),
        ),
        Get(Digest, CreateDigest([Directory(HOME)])),
    )
    hardware = metadata.requirement.hardware
    fingerprint = metadata.plan.fingerprint
    process = setup.process
    if not request.is_debug:
        portable = await Get(PortableProcess, PortableProcessRequest(process))
        process = portable.process
    trees = [
        *((tree.address.spec, tree.path) for tree in artifacts.trees),
        *((output.address.spec, output.path) for output in outputs.outputs),
        *((package.address.spec, package.path) for package in packages.packages),
    ]
    if trees:
        # The sandbox couldn't be made, and with that not only this test would fail.
        entries = await Get(DigestEntries, Digest, process.input_digest)
        paths = [*(entry.path for entry in entries), *process.immutable_input_digests]
        problem = trees_in_one_place(trees) or tree_among_files(trees, paths)
        if problem:
            raise TritonTestSetupError(problem)
    process = dataclasses.replace(
        process,
        argv=with_target_args(
            process.argv,
            prepended=len(request.prepend_argv),
            pytest_args=metadata.pytest_args,
            workers=metadata.workers,
            isolated=metadata.isolated,
            is_debug=request.is_debug,
        ),
        env=FrozenDict(
            process_environment(
                process.env,
                hardware=hardware,
                fingerprint=fingerprint,
                target_env=metadata.env,
                sys_path=[package.path for package in packages.packages],
            )
        ),
        input_digest=await Get(Digest, MergeDigests((process.input_digest, home))),
        immutable_input_digests=FrozenDict(
            {
                **process.immutable_input_digests,
                **artifacts.immutable_input_digests,
                **outputs.immutable_input_digests,
                **packages.immutable_input_digests,
            }
        ),
        concurrency_available=0 if request.is_debug else metadata.workers,
        remote_cache_speculation_delay_millis=CACHE_HEAD_START_MS,
    )
    if needs_lease(hardware):
        process = dataclasses.replace(
            process,
            argv=leased(
                process.argv,
                hardware=hardware,
                fingerprint=fingerprint,
                devices=metadata.requirement.devices,
                exclusive=metadata.exclusive_device,
                # Pants says -1 for none.
                timeout_s=process.timeout_seconds if process.timeout_seconds > 0 else None,
                is_debug=request.is_debug,
            ),
            timeout_seconds=None,
            append_only_caches=FrozenDict({**process.append_only_caches, **LEASE_CACHE}),
            immutable_input_digests=FrozenDict(
                {**process.immutable_input_digests, **agent.immutable_input_digests}
            ),
        )
    kernel_cache_packages = await Get(
        KernelCachePackages,
        KernelCachePackagesRequest(request.field_sets[0].resolve.normalized_value(python_setup)),
    )
    if kernel_cache_packages.addresses:
        process = kernel_cache_client.added_to(process)
    return TritonTestSetup(process, setup.results_file_name)


# -----------------------------------------------------------------------------------------
# Running
# -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NotRunTestRequest:
    """Asks to report a test that can't run here."""

    address: Address
    path: str
    reason: str


@dataclass(frozen=True)
class NotRunTest(EngineAwareReturnType):
    """A test that was not run: a line on the console and an entry in JUnit."""

    address: Address
    reason: str
    is_error: bool
    report: Snapshot

    def level(self) -> LogLevel:
        # Errors are shown by the failed `TestResult`.
        return LogLevel.DEBUG if self.is_error else LogLevel.WARN

    def message(self) -> str:
        return f"{self.address} skipped: {self.reason}."

    def metadata(self) -> dict[str, Any]:
        return work_metadata(NOT_RUN, self.address.spec, self.reason)

    def cacheable(self) -> bool:
        """Is not, so that it shows in every run of a daemon."""
        return False


@rule(desc="Skip test", level=LogLevel.DEBUG)
async def report_test_not_run(
    request: NotRunTestRequest, hardware: HardwareSubsystem
) -> NotRunTest:
    is_error = hardware.missing is MissingHardware.ERROR
    report = await Get(
        Snapshot,
        CreateDigest(
            [
                FileContent(
                    f"{request.address.path_safe_spec}.xml",
                    not_run_report(
                        suite=request.address.spec,
                        test=request.path,
                        reason=request.reason,
                        is_error=is_error,
                    ),
                )
            ]
        ),
    )
    return NotRunTest(request.address, request.reason, is_error, report)


# The engine finds the `Get`s of helpers only where they stand above the rules that call them.


async def _result_of_test_not_run(
    batch: TritonTestRequest.Batch[TritonTestFieldSet, TritonTestMetadata],
    plan: NotRunnable,
    test_subsystem: TestSubsystem,
) -> TestResult:
    field_set = batch.single_element
    not_run = await Get(
        NotRunTest,
        NotRunTestRequest(field_set.address, field_set.source.file_path, plan.reason),
    )
    return TestResult(
        exit_code=1 if not_run.is_error else None,
        stdout="",
        stdout_digest=EMPTY_FILE_DIGEST,
        stderr=f"{field_set.address} can't run: {plan.reason}.\n" if not_run.is_error else "",
        stderr_digest=EMPTY_FILE_DIGEST,
        addresses=(field_set.address,),
        output_setting=test_subsystem.output,
        result_metadata=None,
        xml_results=not_run.report,
    )


async def _result_of_test_not_set_up(
    batch: TritonTestRequest.Batch[TritonTestFieldSet, TritonTestMetadata],
    reason: str,
    test_subsystem: TestSubsystem,
) -> TestResult:
    address = batch.elements[0].address
    message = f"{address} can't be set up: {reason}"
    report = await Get(
        Snapshot,
        CreateDigest(
            [
                FileContent(
                    f"{address.path_safe_spec}.xml",
                    not_run_report(
                        suite=address.spec,
                        test=batch.elements[0].source.file_path,
                        reason=reason,
                        is_error=True,
                    ),
                )
            ]
        ),
    )
    # A result that comes of no process is not in Pants' list of what failed.
    result = await Get(
        FallibleProcessResult,
        Process(
            ("/bin/sh", "-c", 'printf "%s\\n" "$1" >&2; exit 1', "sh", message),
            description=f"{address} can't be set up",
            level=LogLevel.DEBUG,
            cache_scope=ProcessCacheScope.PER_SESSION,
        ),
    )
    return TestResult.from_batched_fallible_process_result(
        result, batch=batch, output_setting=test_subsystem.output, xml_results=report
    )


async def _interactive_process_of_test_not_run(
    batch: TritonTestRequest.Batch[TritonTestFieldSet, TritonTestMetadata],
    plan: NotRunnable,
    bash: BashBinary,
) -> InteractiveProcess:
    field_set = batch.single_element
    not_run = await Get(
        NotRunTest,
        NotRunTestRequest(field_set.address, field_set.source.file_path, plan.reason),
    )
    # A skip has been reported like any other; a failure is this process's to report.
    message = f"{field_set.address} can't run: {plan.reason}." if not_run.is_error else ""
    return InteractiveProcess(
        (
            bash.path,
            "-c",
            'printf %s "$1" >&2; exit "$2"',
            "bash",
            message,
            str(int(not_run.is_error)),
        )
    )


@rule(desc="Run Triton tests with Pytest", level=LogLevel.DEBUG)
async def run_triton_tests(
    batch: TritonTestRequest.Batch[TritonTestFieldSet, TritonTestMetadata],
    test_subsystem: TestSubsystem,
    pants_python: PantsPython,
) -> TestResult:
    metadata = batch.partition_metadata
    if isinstance(metadata.plan, NotRunnable):
        return await _result_of_test_not_run(batch, metadata.plan, test_subsystem)

    try:
        setup = await Get(
            TritonTestSetup, TritonTestSetupRequest(batch.elements, metadata, is_debug=False)
        )
        pants_python.leave()
    except (PantsPythonError, TritonTestSetupError) as e:
        return await _result_of_test_not_set_up(batch, str(e), test_subsystem)
    addresses = tuple(field_set.address for field_set in batch.elements)
    result = await run_with_trees(setup.process, addresses)
    assert setup.results_file_name is not None, "only `--debug` writes no report"

    # From here on as Pants' own `run_python_tests`.
    coverage_data = None
    if test_subsystem.use_coverage:
        coverage = await Get(Snapshot, DigestSubset(result.output_digest, PathGlobs([".coverage"])))
        if coverage.files:
            coverage_data = PytestCoverageData(addresses, coverage.digest)
        else:
            logger.warning(f"{addresses[0]} left no coverage data.")
    junit = await Get(
        Snapshot, DigestSubset(result.output_digest, PathGlobs([setup.results_file_name]))
    )
    # 0, 1 and 5 are pytest's own; with another, it was ended before it could report the test at
    # fault. Without a report, that of an earlier run would stay where this one's should be.
    if not junit.files or result.exit_code not in (0, 1, 5):
        junit = await Get(
            Snapshot,
            CreateDigest(
                [
                    FileContent(
                        setup.results_file_name,
                        not_run_report(
                            suite=addresses[0].spec,
                            test=batch.elements[0].source.file_path,
                            reason=f"pytest did not end by itself: exit code {result.exit_code}",
                            is_error=True,
                        ),
                    )
                ]
            ),
        )
    extra_output = await Get(
        Snapshot, DigestSubset(result.output_digest, PathGlobs([f"{_EXTRA_OUTPUT_DIR}/**"]))
    )
    extra_output = await Get(Snapshot, RemovePrefix(extra_output.digest, _EXTRA_OUTPUT_DIR))
    return TestResult.from_batched_fallible_process_result(
        result,
        batch=batch,
        output_setting=test_subsystem.output,
        coverage_data=coverage_data,
        xml_results=junit,
        extra_output=extra_output,
    )


@rule(desc="Set up Triton tests to run interactively", level=LogLevel.DEBUG)
async def debug_triton_tests(
    batch: TritonTestRequest.Batch[TritonTestFieldSet, TritonTestMetadata], bash: BashBinary
) -> TestDebugRequest:
    metadata = batch.partition_metadata
    if isinstance(metadata.plan, NotRunnable):
        return TestDebugRequest(
            await _interactive_process_of_test_not_run(batch, metadata.plan, bash)
        )
    setup = await Get(
        TritonTestSetup, TritonTestSetupRequest(batch.elements, metadata, is_debug=True)
    )
    return TestDebugRequest(
        InteractiveProcess.from_process(
            setup.process, forward_signals_to_process=False, restartable=True
        )
    )


@rule(desc="Set up debugpy for Triton tests", level=LogLevel.DEBUG)
async def debugpy_triton_tests(
    batch: TritonTestRequest.Batch[TritonTestFieldSet, TritonTestMetadata],
    debugpy: DebugPy,
    debug_adapter: DebugAdapterSubsystem,
    bash: BashBinary,
) -> TestDebugAdapterRequest:
    metadata = batch.partition_metadata
    if isinstance(metadata.plan, NotRunnable):
        return TestDebugAdapterRequest(
            await _interactive_process_of_test_not_run(batch, metadata.plan, bash)
        )
    debugpy_pex = await Get(
        Pex,
        PexRequest,
        debugpy.to_pex_request(interpreter_constraints=metadata.pytest.interpreter_constraints),
    )
    setup = await Get(
        TritonTestSetup,
        TritonTestSetupRequest(
            batch.elements,
            metadata,
            is_debug=True,
            prepend_argv=debugpy.get_args(debug_adapter),
            extra_env=FrozenDict(PEX_MODULE="debugpy"),
            additional_pexes=(debugpy_pex,),
        ),
    )
    return TestDebugAdapterRequest(
        InteractiveProcess.from_process(
            setup.process, forward_signals_to_process=False, restartable=True
        )
    )


def rules():
    return [*collect_rules(), *TritonTestRequest.rules()]
