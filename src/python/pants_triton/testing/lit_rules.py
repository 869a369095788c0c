"""How `lit_tests` become targets, and how a `lit_test` is run: set up, executed, reported."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Mapping

from pants.core.goals.test import (
    ShowOutput,
    TestDebugRequest,
    TestExtraEnv,
    TestFieldSet,
    TestRequest,
    TestResult,
    TestSubsystem,
)
from pants.core.target_types import FileSourceField, ResourceSourceField
from pants.core.util_rules.partitions import Partition, PartitionerType, Partitions
from pants.core.util_rules.source_files import SourceFiles, SourceFilesRequest
from pants.engine.addresses import Address, Addresses, UnparsedAddressInputs
from pants.engine.engine_aware import EngineAwareParameter, EngineAwareReturnType
from pants.engine.fs import (
    EMPTY_DIGEST,
    EMPTY_FILE_DIGEST,
    CreateDigest,
    Digest,
    DigestContents,
    DigestSubset,
    FileContent,
    GlobExpansionConjunction,
    MergeDigests,
    PathGlobs,
    Paths,
    Snapshot,
    SymlinkEntry,
)
from pants.engine.internals.parametrize import Parametrize
from pants.engine.process import (
    FallibleProcessResult,
    InteractiveProcess,
    Process,
    ProcessCacheScope,
)
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import (
    DependenciesRequest,
    FieldSet,
    GeneratedTargets,
    GenerateTargetsRequest,
    HydratedSources,
    HydrateSourcesRequest,
    InferDependenciesRequest,
    InferredDependencies,
    InvalidFieldException,
    OverridesField,
    SourcesField,
    SourcesPaths,
    SourcesPathsRequest,
    Targets,
    TransitiveTargets,
    TransitiveTargetsRequest,
    _generate_file_level_targets,
)
from pants.engine.unions import UnionMembership, UnionRule
from pants.option.global_options import UnmatchedBuildFileGlobs
from pants.util.dirutil import fast_relpath
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.artifact.fetch_rules import (
    CACHE_HEAD_START_MS,
    HOST_CACHE,
    FetchSettings,
    start_script,
)
from pants_triton.artifact.rules import ArtifactTrees, ArtifactTreesRequest, run_with_trees
from pants_triton.artifact.subsystem import ArtifactError
from pants_triton.artifact.target_types import ArtifactSourceField
from pants_triton.hardware.requirement import Requirement, parse_requirement
from pants_triton.hardware.rules import LEASE_CACHE, HardwareAgent
from pants_triton.hardware.target_types import (
    ArchField,
    DevicesField,
    ExclusiveDeviceField,
    HardwareField,
)
from pants_triton.native.configure_rules import ConfiguredProject, ConfiguredProjectRequest
from pants_triton.native.layout import BUILD
from pants_triton.native.rules import BuiltOutputs, BuiltOutputsRequest
from pants_triton.native.subsystem import NativeError
from pants_triton.native.target_types import CMakeOutputSourceField
from pants_triton.native.tools_rules import ProjectTools, ProjectToolsRequest
from pants_triton.program.rules import Program, ProgramRequest
from pants_triton.testing.command import lease_arguments, needs_lease, process_environment
from pants_triton.testing.lit_driver import PROGRAM_MODULES, SKIPPED_CODES, Outcome, junit_report
from pants_triton.testing.lit_plan import (
    AGENT,
    PROGRAM,
    REPORT,
    RESULT,
    TOOLS,
    LitArgumentError,
    LitArguments,
    LitPlanError,
    SuitePaths,
    brief,
    driver_arguments,
    globs_below,
    missing_site_config,
    named_trees,
    parse_arguments,
    parse_result,
    path_in_suite,
    suite_paths,
    suite_root,
    tool_links,
)
from pants_triton.testing.lit_subsystem import Lit, LitOptionError
from pants_triton.testing.lit_target_types import (
    LIT_CONFIGS,
    LitConfigsField,
    LitProjectField,
    LitRootField,
    LitSiteConfigField,
    LitSuiteConfigsField,
    LitSuiteTarget,
    LitTestDependenciesField,
    LitTestEnvField,
    LitTestsGeneratingSourcesField,
    LitTestsGeneratorTarget,
    LitTestSourceField,
    LitTestsOverridesField,
    LitTestTarget,
    LitTestTimeoutField,
    LitToolsField,
)
from pants_triton.testing.planning import NotRunnable, Plan, Runnable
from pants_triton.testing.rules import NotRunTest, NotRunTestRequest, TestPlan, TestPlanRequest
from pants_triton.workunits import NOT_RUN, work_metadata

logger = logging.getLogger(__name__)

_SUITE = "suite"
_LEASE_SCRIPT = "lease.sh"
_RUN_SCRIPT = "run.sh"


# -----------------------------------------------------------------------------------------
# Targets
# -----------------------------------------------------------------------------------------


class GenerateLitTestTargets(GenerateTargetsRequest):
    generate_from = LitTestsGeneratorTarget


@rule
async def generate_lit_test_targets(
    request: GenerateLitTestTargets,
    union_membership: UnionMembership,
    unmatched_build_file_globs: UnmatchedBuildFileGlobs,
) -> GeneratedTargets:
    generator = request.generator
    address = generator.address.maybe_convert_to_target_generator()
    root = suite_root(
        address.spec_path, LitRootField(request.template.get(LitRootField.alias), address).value
    )
    configs = LitConfigsField(request.template.get(LitConfigsField.alias), address)
    overrides_by_glob = generator[LitTestsOverridesField].flatten()
    override_globs = OverridesField.to_path_globs(
        address, overrides_by_glob, unmatched_build_file_globs
    )
    sources = generator[LitTestsGeneratingSourcesField]
    # The default means the suite, not all that is below the BUILD file.
    default_globs = PathGlobs(
        globs_below(root, sources.default),
        glob_match_error_behavior=unmatched_build_file_globs.error_behavior,
        conjunction=GlobExpansionConjunction.any_match,
        description_of_origin=f"{address}'s default `{sources.alias}`",
    )
    found, config_paths, *override_paths = await MultiGet(
        (
            Get(Paths, PathGlobs, default_globs)
            if sources.value == sources.default
            else Get(SourcesPaths, SourcesPathsRequest(sources))
        ),
        Get(Paths, PathGlobs(globs_below(root, configs.value))),
        *(Get(Paths, PathGlobs, globs) for globs in override_globs),
    )
    if HardwareField.alias in request.template_address.parameters and any(
        HardwareField.alias in override for override in overrides_by_glob.values()
    ):
        raise InvalidFieldException(
            f"In target {address}, `{HardwareField.alias}` is parametrized, so `overrides` can't set "
            f"it. Declare the files that need other hardware in a `{generator.alias}` target of "
            "their own, and exclude them here with `!` in `sources`."
        )
    suite_address = request.template_address.create_generated(_SUITE)

    def on_suite(fields: Mapping[str, Any]) -> dict[str, Any]:
        if not config_paths.files:
            return dict(fields)
        alias = LitTestDependenciesField.alias
        return {**fields, alias: (*(fields.get(alias) or ()), suite_address.spec)}

    overrides: dict[str, dict[Address, dict[str, Any]]] = {}
    for path, override in OverridesField.flatten_paths(
        address, zip(override_paths, override_globs, overrides_by_glob.values())
    ).items():
        overrides[path] = {
            each: on_suite(fields) if LitTestDependenciesField.alias in fields else fields
            for each, fields in Parametrize.expand(request.template_address, override)
        }
    tests = _generate_file_level_targets(
        LitTestTarget,
        generator,
        found.files,
        request.template_address,
        on_suite(request.template),
        overrides,
        union_membership,
        add_dependencies_on_all_siblings=False,
    )
    if not config_paths.files:
        return tests
    configs_below = [fast_relpath(path, address.spec_path) for path in config_paths.files]
    suite = LitSuiteTarget(
        {LitSuiteConfigsField.alias: configs_below},
        suite_address,
        union_membership=union_membership,
    )
    return GeneratedTargets(generator, (*tests.values(), suite))


@dataclass(frozen=True)
class LitTestDependenciesFieldSet(FieldSet):
    required_fields = (LitTestSourceField, LitProjectField)

    project: LitProjectField
    tools: LitToolsField


class InferLitTestDependencies(InferDependenciesRequest):
    infer_from = LitTestDependenciesFieldSet


@rule(desc="Find the project and tools of a lit test", level=LogLevel.DEBUG)
async def infer_lit_test_dependencies(request: InferLitTestDependencies) -> InferredDependencies:
    field_set = request.field_set
    address = field_set.address
    named = await MultiGet(
        Get(
            Addresses,
            UnparsedAddressInputs(
                specs,
                owning_address=address,
                description_of_origin=f"the `{alias}` of {address}",
            ),
        )
        for alias, specs in (
            (field_set.project.alias, (field_set.project.value,)),
            (field_set.tools.alias, field_set.tools.value or ()),
        )
    )
    return InferredDependencies(address for addresses in named for address in addresses)


# -----------------------------------------------------------------------------------------
# Which tests are run
# -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LitTestFieldSet(TestFieldSet):
    required_fields = (LitTestSourceField, LitProjectField)

    source: LitTestSourceField
    hardware: HardwareField
    arch: ArchField
    devices: DevicesField
    exclusive_device: ExclusiveDeviceField
    root: LitRootField
    project: LitProjectField
    site_config: LitSiteConfigField
    configs: LitConfigsField
    env: LitTestEnvField
    timeout: LitTestTimeoutField
    dependencies: LitTestDependenciesField

    @property
    def requirement(self) -> Requirement:
        return parse_requirement(self.hardware.value, self.arch.value, self.devices.value)

    @property
    def suite_root(self) -> str:
        return suite_root(self.address.spec_path, self.root.value)

    @property
    def path_in_suite(self) -> str:
        return path_in_suite(self.address.spec, self.suite_root, self.source.file_path)


@dataclass(frozen=True)
class LitTestMetadata:
    """How a test is to be run.

    :param excluded: why the arguments don't select it; "" if they do.
    """

    plan: Plan
    arguments: LitArguments
    excluded: str = ""

    @property
    def description(self) -> None:
        return None


class LitTestRequest(TestRequest):
    tool_subsystem = Lit
    field_set_type = LitTestFieldSet
    partitioner_type = PartitionerType.CUSTOM
    supports_debug = True


@dataclass(frozen=True)
class LitSelectionRequest:
    """Asks which of the tests at these paths in their suites the arguments select."""

    paths: FrozenDict[Address, str]
    arguments: LitArguments


@dataclass(frozen=True)
class LitSelection(EngineAwareReturnType):
    """Why tests are not selected; the others are."""

    excluded: FrozenDict[Address, str]
    count: int
    filters: str

    def level(self) -> LogLevel:
        return LogLevel.INFO if self.excluded else LogLevel.DEBUG

    def message(self) -> str | None:
        if not self.excluded:
            return None
        return f"`{self.filters}` leaves out {len(self.excluded)} of {self.count} lit tests."

    def cacheable(self) -> bool:
        """Is not, so that it shows in every run of a daemon."""
        return False


@rule(desc="Select lit tests", level=LogLevel.DEBUG)
async def select_lit_tests(request: LitSelectionRequest) -> LitSelection:
    reasons = {address: request.arguments.excluded(path) for address, path in request.paths.items()}
    excluded = {address: reason for address, reason in reasons.items() if reason}
    if excluded and len(excluded) == len(reasons):
        # lit, too, takes this for a mistake.
        raise LitOptionError(
            f"`{request.arguments.shown_filters}` selects none of the {len(reasons)} lit tests. It is "
            f"compared with paths such as `{next(iter(request.paths.values()))}`."
        )
    return LitSelection(FrozenDict(excluded), len(reasons), request.arguments.shown_filters)


@rule(desc="Partition lit tests", level=LogLevel.DEBUG)
async def partition_lit_tests(
    request: LitTestRequest.PartitionRequest[LitTestFieldSet], lit: Lit
) -> Partitions[LitTestFieldSet, LitTestMetadata]:
    field_sets = request.field_sets
    if lit.skip or not field_sets:
        return Partitions()
    try:
        arguments = parse_arguments(lit.args)
    except LitArgumentError as e:
        others = f" and {len(field_sets) - 1} others" if len(field_sets) > 1 else ""
        raise LitOptionError(
            f"{field_sets[0].address}{others} can't be run with these arguments: {e}.\nWhat stands "
            "behind `--` goes to the tools of all tests that are selected. For lit alone, write "
            "`--lit-args='…'`; for pytest alone, `--pytest-args='…'`."
        ) from None
    selection = await Get(
        LitSelection,
        LitSelectionRequest(
            FrozenDict({fs.address: fs.path_in_suite for fs in field_sets}), arguments
        ),
    )
    plan = await Get(
        TestPlan,
        TestPlanRequest(
            FrozenDict(
                {
                    fs.address: fs.requirement
                    for fs in field_sets
                    if fs.address not in selection.excluded
                }
            )
        ),
    )
    return Partitions(
        Partition(
            (fs,),
            LitTestMetadata(
                plan.plans.get(fs.address, NotRunnable("not selected")),
                arguments,
                selection.excluded.get(fs.address, ""),
            ),
        )
        for fs in field_sets
    )


# -----------------------------------------------------------------------------------------
# The sandbox
# -----------------------------------------------------------------------------------------


class LitTestSetupError(Exception):
    """The test can't be run, for a reason that is its own or its suite's: other tests go on."""


@dataclass(frozen=True)
class LitPackage:
    """lit itself, at its path in sandboxes."""

    path: str
    digest: Digest


@rule(desc="Get lit", level=LogLevel.DEBUG)
async def get_lit(lit: Lit) -> LitPackage:
    addresses = await Get(
        Addresses,
        UnparsedAddressInputs(
            (lit.lit,), owning_address=None, description_of_origin="the option `[lit].lit`"
        ),
    )
    artifacts = await Get(ArtifactTrees, ArtifactTreesRequest(tuple(addresses)))
    if artifacts.error:
        raise LitTestSetupError(f"The option `[lit].lit`: {artifacts.error}")
    if len(artifacts.trees) != 1:
        raise LitTestSetupError(
            f"The option `[lit].lit` must name one artifact, but {lit.lit} is none, or several."
        )
    (tree,) = artifacts.trees
    package = await Get(Digest, DigestSubset(tree.digest, PathGlobs(["lit/discovery.py"])))
    if package == EMPTY_DIGEST:
        raise LitTestSetupError(
            f"{tree.address}, which the option `[lit].lit` names, has no Python package `lit`. "
            'Declare it as `wheel_artifact(distribution="lit", version="18.1.8", …)`.'
        )
    return LitPackage(tree.path, tree.digest)


@dataclass(frozen=True)
class LitProgram:
    """The programs that run a test, and what starts them with this host's Python."""

    digest: Digest


@rule
async def pack_lit_program() -> LitProgram:
    assert __package__ is not None
    program, start = await MultiGet(
        Get(Program, ProgramRequest(__package__, PROGRAM_MODULES, main="lit_driver")),
        Get(
            Digest,
            CreateDigest(
                [
                    FileContent(_RUN_SCRIPT, start_script(PROGRAM).encode()),
                    FileContent(_LEASE_SCRIPT, start_script(AGENT).encode()),
                ]
            ),
        ),
    )
    return LitProgram(await Get(Digest, MergeDigests((program.digest, start))))


@dataclass(frozen=True)
class LitSuiteRequest(EngineAwareParameter):
    """Asks for what the tests of a suite have in common, so that it is made once.

    :param owner: the target that declares the suite.
    :param root: below the build root.
    :param dependencies: direct ones: tools, artifacts.
    """

    owner: Address
    root: str
    project: str
    site_config: str | None
    configs: tuple[str, ...]
    dependencies: tuple[Address, ...]

    def debug_hint(self) -> str:
        return self.owner.spec


@dataclass(frozen=True)
class LitSuite(EngineAwareReturnType):
    """What is in the sandboxes of all tests of a suite; or why there can be none."""

    paths: SuitePaths | None = None
    digest: Digest = EMPTY_DIGEST
    immutable_input_digests: FrozenDict[str, Digest] = FrozenDict()
    lit: str = ""
    expand: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()
    library_path: str = ""
    env: FrozenDict[str, str] = FrozenDict()
    error: str = ""

    def level(self) -> LogLevel | None:
        # What each of the tests repeats in brief is said here in full, once.
        return LogLevel.ERROR if brief(self.error) != self.error else None

    def message(self) -> str | None:
        return self.error if brief(self.error) != self.error else None

    def cacheable(self) -> bool:
        """Whether it need not be said again in a daemon's next run."""
        return not self.error


@rule(desc="Set up a lit suite", level=LogLevel.DEBUG)
async def set_up_lit_suite(request: LitSuiteRequest, program: LitProgram) -> LitSuite:
    owner = request.owner.spec
    projects, configs = await MultiGet(
        Get(
            Addresses,
            UnparsedAddressInputs(
                (request.project,),
                owning_address=request.owner,
                description_of_origin=f"the `{LitProjectField.alias}` of {owner}",
            ),
        ),
        Get(Snapshot, PathGlobs(globs_below(request.root, request.configs))),
    )
    project = projects[0]
    try:
        paths = suite_paths(
            owner, request.root, project.spec, project.spec_path, request.site_config
        )
    except LitPlanError as e:
        return LitSuite(error=str(e))
    mains = [f"{request.root}/{name}".lstrip("/") for name in LIT_CONFIGS]
    if not set(mains) & set(configs.files):
        return LitSuite(
            error=f"{owner}: there is no {mains[0]} among the files of `{LitConfigsField.alias}`. Name "
            f"the folder that has it with `{LitRootField.alias}`."
        )
    try:
        lit, configured, tools = await MultiGet(
            Get(LitPackage),
            Get(ConfiguredProject, ConfiguredProjectRequest(project)),
            Get(ProjectTools, ProjectToolsRequest(project)),
        )
    except (ArtifactError, LitTestSetupError, NativeError) as e:
        return LitSuite(error=str(e))

    # Before anything is built: what doesn't need it.
    site = await Get(Snapshot, DigestSubset(configured.digest, PathGlobs(paths.build_globs)))
    if paths.site_config not in site.files:
        written = await Get(Snapshot, Digest, configured.digest)
        return LitSuite(error=missing_site_config(owner, project.spec, paths, written.files))
    dependencies = await Get(Targets, Addresses(request.dependencies))
    outputs, artifacts = await MultiGet(
        Get(
            BuiltOutputs,
            BuiltOutputsRequest(
                tuple(t.address for t in dependencies if t.has_field(CMakeOutputSourceField))
            ),
        ),
        Get(
            ArtifactTrees,
            ArtifactTreesRequest(
                tuple(t.address for t in dependencies if t.has_field(ArtifactSourceField)),
                with_content=False,
            ),
        ),
    )
    if outputs.error or artifacts.error:
        return LitSuite(error=outputs.error or artifacts.error)
    built, contents = await MultiGet(
        Get(Digest, MergeDigests(output.digest for output in outputs.outputs)),
        Get(DigestContents, Digest, site.digest),
    )
    links = tool_links(file for output in outputs.outputs for file in output.files)
    digest = await Get(
        Digest,
        CreateDigest(SymlinkEntry(path, target) for path, target in links.items()),
    )
    trees = {
        path: tools.trees[path]
        for path in (
            *tools.runtime_trees,
            *named_trees((file.content for file in contents), tools.trees),
        )
    }
    trees.update(artifacts.immutable_input_digests)
    return LitSuite(
        paths,
        await Get(Digest, MergeDigests((configs.digest, site.digest, digest))),
        FrozenDict(
            {
                **trees,
                lit.path: lit.digest,
                PROGRAM: program.digest,
                **({TOOLS: built} if links else {}),
            }
        ),
        lit.path,
        tuple(file for file in site.files if file[len(BUILD) + 1 :] in set(configured.with_token)),
        tuple(sorted(trees)),
        tools.library_path,
        FrozenDict({**(tools.host.env if tools.host else {}), **tools.test_environment}),
    )


@dataclass(frozen=True)
class LitTestSetupRequest:
    """Asks for the process that runs a test which can run here."""

    field_set: LitTestFieldSet
    metadata: LitTestMetadata
    is_debug: bool


@dataclass(frozen=True)
class LitTestSetup:
    process: Process


@rule
async def set_up_lit_test(
    request: LitTestSetupRequest,
    test_subsystem: TestSubsystem,
    extra_env: TestExtraEnv,
    settings: FetchSettings,
    agent: HardwareAgent,
) -> LitTestSetup:
    field_set, metadata = request.field_set, request.metadata
    assert isinstance(metadata.plan, Runnable), "only tests that can run here are set up"
    address = field_set.address
    direct, transitive = await MultiGet(
        Get(Targets, DependenciesRequest(field_set.dependencies)),
        Get(TransitiveTargets, TransitiveTargetsRequest((address,))),
    )
    suite, source, files = await MultiGet(
        Get(
            LitSuite,
            LitSuiteRequest(
                address.maybe_convert_to_target_generator(),
                field_set.suite_root,
                field_set.project.value,
                field_set.site_config.value,
                field_set.configs.value,
                tuple(
                    t.address
                    for t in direct
                    if t.has_field(CMakeOutputSourceField) or t.has_field(ArtifactSourceField)
                ),
            ),
        ),
        Get(HydratedSources, HydrateSourcesRequest(field_set.source)),
        Get(
            SourceFiles,
            SourceFilesRequest(
                (t.get(SourcesField) for t in transitive.dependencies),
                for_sources_types=(FileSourceField, ResourceSourceField),
                enable_codegen=True,
            ),
        ),
    )
    if suite.error:
        raise LitTestSetupError(brief(suite.error))
    assert suite.paths is not None
    argv: tuple[str, ...] = (
        "/bin/sh",
        f"{PROGRAM}/{_RUN_SCRIPT}",
        *driver_arguments(
            name=address.spec,
            test=field_set.path_in_suite,
            paths=suite.paths,
            lit=suite.lit,
            expand=suite.expand,
            trees=suite.trees,
            library_path=suite.library_path,
            parameters=metadata.arguments.parameters,
            is_debug=request.is_debug,
        ),
    )
    requirement = field_set.requirement
    timeout = field_set.timeout.calculate_from_global_options(test_subsystem)
    immutable = dict(suite.immutable_input_digests)
    caches = dict(HOST_CACHE)
    is_leased = needs_lease(requirement.hardware)
    if is_leased:
        argv = (
            "/bin/sh",
            f"{PROGRAM}/{_LEASE_SCRIPT}",
            *lease_arguments(
                hardware=requirement.hardware,
                fingerprint=metadata.plan.fingerprint,
                devices=requirement.devices,
                exclusive=field_set.exclusive_device.value,
                timeout_s=timeout,
                is_debug=request.is_debug,
            ),
            *argv,
        )
        immutable.update(agent.immutable_input_digests)
        caches.update(LEASE_CACHE)
    settings.leave()
    return LitTestSetup(
        Process(
            argv=argv,
            env=process_environment(
                {"PATH": "/usr/bin:/bin", "LC_ALL": "C", **suite.env, **extra_env.env},
                hardware=requirement.hardware,
                fingerprint=metadata.plan.fingerprint,
                target_env=field_set.env.value or FrozenDict(),
            ),
            input_digest=await Get(
                Digest,
                MergeDigests((suite.digest, source.snapshot.digest, files.snapshot.digest)),
            ),
            immutable_input_digests=immutable,
            append_only_caches=caches,
            output_files=(RESULT, REPORT),
            timeout_seconds=None if is_leased else timeout,
            description=f"Run lit on {address}",
            level=LogLevel.DEBUG,
            cache_scope=(
                ProcessCacheScope.PER_SESSION
                if test_subsystem.force
                else ProcessCacheScope.SUCCESSFUL
            ),
            remote_cache_speculation_delay_millis=CACHE_HEAD_START_MS,
        )
    )


# -----------------------------------------------------------------------------------------
# Running
# -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SkippedLitTestRequest:
    """Asks to report a test that lit was not asked to run, or would not.

    :param is_quiet: whether its own line on the console is more than anyone wants.
    """

    address: Address
    path: str
    reason: str
    is_quiet: bool


@dataclass(frozen=True)
class SkippedLitTest(EngineAwareReturnType):
    """A test that was not run: a line on the console and an entry in JUnit."""

    address: Address
    reason: str
    is_quiet: bool
    report: Snapshot

    def level(self) -> LogLevel:
        return LogLevel.DEBUG if self.is_quiet else LogLevel.WARN

    def message(self) -> str:
        return f"{self.address} skipped: {self.reason}."

    def metadata(self) -> dict[str, Any]:
        """For the summary at the end of the run, and for the report of the run."""
        return work_metadata(NOT_RUN, self.address.spec, self.reason)

    def cacheable(self) -> bool:
        """Is not, so that it shows in every run of a daemon."""
        return False


@rule(desc="Skip lit test", level=LogLevel.DEBUG)
async def report_skipped_lit_test(request: SkippedLitTestRequest) -> SkippedLitTest:
    outcome = Outcome(request.path, "EXCLUDED", False, request.reason)
    content = junit_report(request.address.spec, request.path, [outcome])
    report = await Get(
        Snapshot, CreateDigest([FileContent(_report_name(request.address), content)])
    )
    return SkippedLitTest(request.address, request.reason, request.is_quiet, report)


def _report_name(address: Address) -> str:
    return f"{address.path_safe_spec}.xml"


def _not_run(
    address: Address, report: Snapshot, test_subsystem: TestSubsystem, error: str = ""
) -> TestResult:
    return TestResult(
        exit_code=1 if error else None,
        stdout="",
        stdout_digest=EMPTY_FILE_DIGEST,
        stderr=error,
        stderr_digest=EMPTY_FILE_DIGEST,
        addresses=(address,),
        output_setting=test_subsystem.output,
        result_metadata=None,
        xml_results=report,
    )


# The engine finds the `Get`s of helpers only where they stand above the rules that call them.


async def _result_of_lit_test_not_set_up(
    batch: LitTestRequest.Batch[LitTestFieldSet, LitTestMetadata],
    reason: str,
    test_subsystem: TestSubsystem,
) -> TestResult:
    field_set = batch.single_element
    outcome = Outcome(field_set.path_in_suite, "UNRESOLVED", True, output=reason)
    content = junit_report(field_set.address.spec, field_set.path_in_suite, [outcome])
    # A result that comes of no process is not in Pants' list of what failed.
    report, result = await MultiGet(
        Get(Snapshot, CreateDigest([FileContent(_report_name(field_set.address), content)])),
        Get(
            FallibleProcessResult,
            Process(
                (
                    *("/bin/sh", "-c", 'printf "%s\\n" "$1" >&2; exit 1', "sh"),
                    f"{field_set.address} can't be set up: {reason}",
                ),
                description=f"{field_set.address} can't be set up",
                level=LogLevel.DEBUG,
                cache_scope=ProcessCacheScope.PER_SESSION,
            ),
        ),
    )
    return TestResult.from_batched_fallible_process_result(
        result, batch=batch, output_setting=test_subsystem.output, xml_results=report
    )


@rule(desc="Run lit tests", level=LogLevel.DEBUG)
async def run_lit_test(
    batch: LitTestRequest.Batch[LitTestFieldSet, LitTestMetadata], test_subsystem: TestSubsystem
) -> TestResult:
    field_set, metadata = batch.single_element, batch.partition_metadata
    address = field_set.address
    if metadata.excluded:
        skipped = await Get(
            SkippedLitTest,
            SkippedLitTestRequest(
                address, field_set.path_in_suite, metadata.excluded, is_quiet=True
            ),
        )
        return _not_run(address, skipped.report, test_subsystem)
    if isinstance(metadata.plan, NotRunnable):
        not_run = await Get(
            NotRunTest,
            NotRunTestRequest(address, field_set.source.file_path, metadata.plan.reason),
        )
        error = f"{address} can't run: {metadata.plan.reason}.\n" if not_run.is_error else ""
        return _not_run(address, not_run.report, test_subsystem, error)
    try:
        setup = await Get(LitTestSetup, LitTestSetupRequest(field_set, metadata, is_debug=False))
    except LitTestSetupError as e:
        return await _result_of_lit_test_not_set_up(batch, str(e), test_subsystem)

    result = await run_with_trees(setup.process, (address,))
    written = await Get(DigestContents, Digest, result.output_digest)
    files = {file.path: file.content for file in written}
    if RESULT in files and result.exit_code == 0:
        parsed = parse_result(files[RESULT], SKIPPED_CODES)
        if parsed.skipped:
            skipped = await Get(
                SkippedLitTest,
                SkippedLitTestRequest(
                    address, field_set.path_in_suite, parsed.skipped, is_quiet=False
                ),
            )
            return _not_run(address, skipped.report, test_subsystem)
    report = files.get(REPORT)
    if report is None:
        # Without one, that of an earlier run would stay where this one's should be.
        said = result.stdout.decode("utf-8", "backslashreplace")
        output = f"lit did not end by itself: exit code {result.exit_code}\n{said}"
        outcome = Outcome(field_set.path_in_suite, "UNRESOLVED", True, output=output)
        report = junit_report(address.spec, field_set.path_in_suite, [outcome])
    return TestResult.from_batched_fallible_process_result(
        result,
        batch=batch,
        output_setting=(ShowOutput.ALL if metadata.arguments.show_all else test_subsystem.output),
        xml_results=await Get(Snapshot, CreateDigest([FileContent(_report_name(address), report)])),
    )


@rule(desc="Set up a lit test to run interactively", level=LogLevel.DEBUG)
async def debug_lit_test(
    batch: LitTestRequest.Batch[LitTestFieldSet, LitTestMetadata]
) -> TestDebugRequest:
    field_set, metadata = batch.single_element, batch.partition_metadata
    message, exit_code = "", 0
    if metadata.excluded:
        message = f"{field_set.address} skipped: {metadata.excluded}."
    elif isinstance(metadata.plan, NotRunnable):
        not_run = await Get(
            NotRunTest,
            NotRunTestRequest(field_set.address, field_set.source.file_path, metadata.plan.reason),
        )
        message = f"{field_set.address} can't run: {metadata.plan.reason}."
        exit_code = int(not_run.is_error)
    else:
        try:
            setup = await Get(LitTestSetup, LitTestSetupRequest(field_set, metadata, is_debug=True))
        except LitTestSetupError as e:
            message, exit_code = f"{field_set.address} can't be set up: {e}", 1
        else:
            # Pants lays out what such a process reads without asking anybody again.
            await Get(ArtifactTrees, ArtifactTreesRequest((field_set.address,)))
            return TestDebugRequest(
                InteractiveProcess.from_process(
                    setup.process, forward_signals_to_process=False, restartable=True
                )
            )
    return TestDebugRequest(
        InteractiveProcess(
            ("/bin/sh", "-c", 'printf "%s\\n" "$1" >&2; exit "$2"', "sh", message, str(exit_code))
        )
    )


def rules():
    return [
        *collect_rules(),
        *LitTestRequest.rules(),
        UnionRule(GenerateTargetsRequest, GenerateLitTestTargets),
        UnionRule(InferDependenciesRequest, InferLitTestDependencies),
    ]
