"""How a test bundle is made: Pants' own PEXes, our program, and each test's sandbox as data."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Iterable

from pants.backend.python.goals.pytest_runner import (
    AllPytestPluginSetups,
    AllPytestPluginSetupsRequest,
)
from pants.backend.python.subsystems.pytest import PyTest
from pants.backend.python.subsystems.setup import PythonSetup
from pants.backend.python.subsystems.setuptools import PythonDistributionFieldSet
from pants.backend.python.target_types import EntryPoint
from pants.backend.python.util_rules.interpreter_constraints import InterpreterConstraints
from pants.backend.python.util_rules.local_dists import LocalDistsPex, LocalDistsPexRequest
from pants.backend.python.util_rules.pex import Pex, PexRequest
from pants.backend.python.util_rules.pex_environment import PexEnvironment, PexSubsystem
from pants.backend.python.util_rules.pex_from_targets import (
    ChosenPythonResolve,
    ChosenPythonResolveRequest,
    InterpreterConstraintsRequest,
    PexFromTargetsRequest,
)
from pants.backend.python.util_rules.pex_requirements import (
    LoadedLockfile,
    LoadedLockfileRequest,
)
from pants.backend.python.util_rules.python_sources import (
    PythonSourceFiles,
    PythonSourceFilesRequest,
)
from pants.base.specs import Specs
from pants.base.specs_parser import SpecsParser
from pants.core.goals.package import (
    BuiltPackage,
    BuiltPackageArtifact,
    OutputPathField,
    PackageFieldSet,
)
from pants.core.goals.test import TestFieldSet, TestSubsystem
from pants.core.util_rules.config_files import ConfigFiles, ConfigFilesRequest
from pants.core.util_rules.source_files import SourceFiles, SourceFilesRequest
from pants.core.util_rules.subprocess_environment import SubprocessEnvironment
from pants.engine.addresses import Address, Addresses
from pants.engine.collection import Collection
from pants.engine.engine_aware import EngineAwareParameter
from pants.engine.fs import (
    AddPrefix,
    CreateDigest,
    Digest,
    DigestContents,
    DigestEntries,
    Directory,
    FileContent,
    FileDigest,
    FileEntry,
    MergeDigests,
    SymlinkEntry,
)
from pants.engine.rules import Get, MultiGet, collect_rules, rule
from pants.engine.target import (
    DependenciesRequest,
    ExplicitlyProvidedDependencies,
    FieldSet,
    InferDependenciesRequest,
    InferredDependencies,
    Tags,
    Targets,
    TransitiveTargets,
    TransitiveTargetsRequest,
    WrappedTarget,
    WrappedTargetRequest,
)
from pants.engine.unions import UnionMembership, UnionRule
from pants.option.global_options import UnmatchedBuildFileGlobs
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.artifact.places import tree_among_files, trees_in_one_place
from pants_triton.artifact.rules import ArtifactTrees, ArtifactTreesRequest
from pants_triton.hardware.agent import AGENT_MODULES
from pants_triton.hardware.subsystem import HardwareSubsystem
from pants_triton.native.rules import BuiltOutputs, BuiltOutputsRequest
from pants_triton.package.rules import AssembledPackages, AssembledPackagesRequest
from pants_triton.program.rules import Program, ProgramRequest
from pants_triton.testing.bundle_manifest import (
    MANIFEST,
    PEXES,
    PROGRAM,
    BundledTest,
    HardwareSettings,
    Manifest,
    TreeEntry,
)
from pants_triton.testing.bundle_requirements import (
    ProvidedError,
    check_globs,
    is_provided,
    provided_packages,
    without_provided,
)
from pants_triton.testing.bundle_sandbox import blob_path
from pants_triton.testing.bundle_target_types import (
    BundleDependenciesField,
    BundleProvidedField,
    BundleTagExpressionField,
    BundleTestsField,
)
from pants_triton.testing.rules import TritonTestFieldSet
from pants_triton.testing.selection import selects

_PACKAGE = "pants_triton.testing"
_MODULES = (
    *("bundle_command", "bundle_manifest", "bundle_python", "bundle_requirements"),
    *("bundle_runner", "bundle_sandbox", "bundle_selection"),
    *("command", "junit", "planning", "run_summary"),
)
_LIBRARIES: FrozenDict[str, tuple[str, ...]] = FrozenDict(
    {"pants_triton.hardware": (*AGENT_MODULES, "requirement")}
)

# What the PEX starts, and the folder beside it that has all else.
_ENTRY = "triton_test_bundle"
_DATA = f"{_ENTRY}_data"
_ENTRY_SOURCE = f"""\
import os
import sys
from pathlib import Path

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "{_DATA}")


def main():
    sys.path.insert(0, os.path.join(DATA, "{PROGRAM}"))
    from {_PACKAGE}.bundle_runner import run_bundle

    return run_bundle(sys.argv[1:], Path(DATA))
"""

_PYTEST_PEX = "pytest.pex"
_REQUIREMENTS_PEX = "requirements.pex"


class TestBundleError(Exception):
    """A bundle can't be made. The message names the target and the way out."""

    __test__ = False


# -----------------------------------------------------------------------------------------
# Which tests
# -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BundleSelectionRequest(EngineAwareParameter):
    """Asks which tests a `triton_test_bundle` has."""

    address: Address

    def debug_hint(self) -> str:
        return self.address.spec


@dataclass(frozen=True)
class BundleSelection:
    """The tests that a bundle selects, in order.

    :param others: tests that it selects, too, but that only Pants can run.
    """

    tests: tuple[TritonTestFieldSet, ...]
    others: tuple[Address, ...]


@rule(desc="Select the tests of a bundle", level=LogLevel.DEBUG)
async def select_tests_of_bundle(
    request: BundleSelectionRequest,
    union_membership: UnionMembership,
    unmatched_build_file_globs: UnmatchedBuildFileGlobs,
) -> BundleSelection:
    address = request.address
    wrapped = await Get(WrappedTarget, WrappedTargetRequest(address, "<infallible>"))
    bundle = wrapped.target
    field = bundle[BundleTestsField]
    tags = bundle[BundleTagExpressionField].value
    typed = field.value or (f"{address.spec_path}::",)
    specs = SpecsParser().parse_specs(
        [f"{address.spec_path}{each}" if each.startswith(":") else each for each in typed],
        description_of_origin=f"the `{field.alias}` field of {address}",
        unmatched_glob_behavior=unmatched_build_file_globs.error_behavior,
    )
    # What the command line selects has no say in what a bundle has.
    includes = dataclasses.replace(specs.includes, filter_by_global_options=False)
    targets = await Get(Targets, Specs(includes, specs.ignores))
    selected = sorted(
        (t for t in targets if selects(tags, t.get(Tags).value or ())), key=lambda t: t.address
    )
    test_field_sets = union_membership.get(TestFieldSet)
    return BundleSelection(
        tuple(
            TritonTestFieldSet.create(target)
            for target in selected
            if TritonTestFieldSet.is_applicable(target)
        ),
        tuple(
            target.address
            for target in selected
            if not TritonTestFieldSet.is_applicable(target)
            and any(field_set.is_applicable(target) for field_set in test_field_sets)
        ),
    )


@dataclass(frozen=True)
class BundleDependenciesFieldSet(FieldSet):
    required_fields = (BundleTestsField, BundleDependenciesField)

    tests: BundleTestsField


class InferBundleDependencies(InferDependenciesRequest):
    infer_from = BundleDependenciesFieldSet


@rule(desc="Find the tests that a bundle depends on", level=LogLevel.DEBUG)
async def infer_bundle_dependencies(request: InferBundleDependencies) -> InferredDependencies:
    selection = await Get(BundleSelection, BundleSelectionRequest(request.field_set.address))
    return InferredDependencies(field_set.address for field_set in selection.tests)


# -----------------------------------------------------------------------------------------
# A test's sandbox
# -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PreparedTestRequest(EngineAwareParameter):
    """Asks for a test as a bundle has it.

    :param extra: what else is in its sandbox.
    """

    field_set: TritonTestFieldSet
    extra: tuple[Address, ...]
    interpreter_constraints: InterpreterConstraints

    def debug_hint(self) -> str:
        return self.field_set.address.spec


@dataclass(frozen=True)
class PreparedTest:
    """A test, and the trees that it names by their digests."""

    test: BundledTest
    digests: tuple[Digest, ...]


@rule(desc="Prepare a test for a bundle", level=LogLevel.DEBUG)
async def prepare_test(
    request: PreparedTestRequest, pytest: PyTest, test_subsystem: TestSubsystem
) -> PreparedTest:
    field_set = request.field_set
    address = field_set.address
    addresses = (address, *request.extra)
    transitive, plugin_setups, artifacts, outputs, packages = await MultiGet(
        Get(TransitiveTargets, TransitiveTargetsRequest(addresses)),
        Get(AllPytestPluginSetups, AllPytestPluginSetupsRequest((address,))),
        Get(ArtifactTrees, ArtifactTreesRequest(addresses)),
        Get(BuiltOutputs, BuiltOutputsRequest(addresses)),
        Get(AssembledPackages, AssembledPackagesRequest(addresses)),
    )
    error = artifacts.error or outputs.error or packages.error
    if error:
        raise TestBundleError(f"{address} can't be put into a bundle: {error}")
    sources, own_source = await MultiGet(
        Get(PythonSourceFiles, PythonSourceFilesRequest(transitive.closure, include_files=True)),
        Get(SourceFiles, SourceFilesRequest([field_set.source])),
    )
    config = await Get(
        ConfigFiles, ConfigFilesRequest, pytest.config_request(own_source.snapshot.dirs)
    )
    source_roots = sources.source_roots
    if any(PythonDistributionFieldSet.is_applicable(t) for t in transitive.closure):
        local_dists = await Get(
            LocalDistsPex,
            LocalDistsPexRequest(
                addresses,
                internal_only=False,
                interpreter_constraints=request.interpreter_constraints,
                sources=sources,
            ),
        )
        sources = local_dists.remaining_sources
    tree = await Get(
        Digest,
        MergeDigests(
            (
                sources.source_files.snapshot.digest,
                config.snapshot.digest,
                *(plugin_setup.digest for plugin_setup in plugin_setups),
            )
        ),
    )
    places = [
        *((each.address.spec, each.path) for each in artifacts.trees),
        *((each.address.spec, each.path) for each in outputs.outputs),
        *((each.address.spec, each.path) for each in packages.packages),
    ]
    if places:
        entries = await Get(DigestEntries, Digest, tree)
        problem = trees_in_one_place(places) or tree_among_files(places, (e.path for e in entries))
        if problem:
            raise TestBundleError(f"{address} can't be put into a bundle: {problem}")
    mounts = {
        **artifacts.immutable_input_digests,
        **outputs.immutable_input_digests,
        **packages.immutable_input_digests,
    }
    return PreparedTest(
        BundledTest(
            address=address.spec,
            report=address.path_safe_spec,
            path=own_source.snapshot.files[0],
            hardware=field_set.hardware.value,
            tree=tree.fingerprint,
            arch=field_set.arch.value,
            devices=field_set.devices.value,
            exclusive_device=field_set.exclusive_device.value,
            timeout_s=field_set.timeout.calculate_from_global_options(test_subsystem, pytest),
            env=field_set.env.value or FrozenDict(),
            env_entries=field_set.extra_env_vars.sorted(),
            pytest_args=field_set.pytest_args.value or (),
            workers=field_set.workers.value,
            isolated=field_set.isolated.value,
            source_roots=tuple(source_roots),
            packages=tuple(package.path for package in packages.packages),
            mounts={path: digest.fingerprint for path, digest in sorted(mounts.items())},
        ),
        (tree, *mounts.values()),
    )


@dataclass(frozen=True)
class PreparedTestsRequest:
    """Asks for all tests of a bundle, see `PreparedTestRequest`."""

    field_sets: tuple[TritonTestFieldSet, ...]
    extra: tuple[Address, ...]
    interpreter_constraints: InterpreterConstraints


class PreparedTests(Collection[PreparedTest]):
    pass


@rule
async def prepare_tests(request: PreparedTestsRequest) -> PreparedTests:
    return PreparedTests(
        await MultiGet(
            Get(
                PreparedTest,
                PreparedTestRequest(field_set, request.extra, request.interpreter_constraints),
            )
            for field_set in request.field_sets
        )
    )


# -----------------------------------------------------------------------------------------
# What the tests import
# -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BundleRequirementsRequest:
    """Asks for a PEX of the packages that tests import."""

    bundle: Address
    addresses: Addresses
    provided: tuple[str, ...]
    interpreter_constraints: InterpreterConstraints


@dataclass(frozen=True)
class BundleRequirements:
    """What the PEX is to be made of, with the `provided` packages left out."""

    request: PexFromTargetsRequest | PexRequest


@rule(desc="Collect the packages of a bundle", level=LogLevel.DEBUG)
async def collect_requirements(
    request: BundleRequirementsRequest, python_setup: PythonSetup
) -> BundleRequirements:
    from_targets = PexFromTargetsRequest(
        request.addresses,
        output_filename=_REQUIREMENTS_PEX,
        internal_only=False,
        include_source_files=False,
        include_local_dists=True,
        hardcoded_interpreter_constraints=request.interpreter_constraints,
        main=None,
        description=f"Collecting the packages of {request.bundle}",
    )
    if not request.provided:
        return BundleRequirements(from_targets)
    if not python_setup.enable_resolves:
        raise TestBundleError(
            f"{request.bundle}: `{BundleProvidedField.alias}` leaves packages of a lock out, but "
            "there is none: set `[python].enable_resolves` and give its tests a resolve."
        )
    chosen = await Get(ChosenPythonResolve, ChosenPythonResolveRequest(request.addresses))
    lock = await Get(LoadedLockfile, LoadedLockfileRequest(chosen.lockfile))
    [lock_file] = await Get(DigestContents, Digest, lock.lockfile_digest)
    text = lock_file.content.decode()
    try:
        if lock.is_pex_native:
            return BundleRequirements(
                dataclasses.replace(
                    from_targets, additional_args=tuple(_exclusions(text, request.provided))
                )
            )
        kept = without_provided(text, request.provided)
    except ProvidedError as e:
        raise TestBundleError(
            f"{request.bundle}: in `{BundleProvidedField.alias}`, {e}. It is the lock of the resolve "
            f"`{chosen.name}`."
        ) from None
    # Pants would install the whole lock to take a part of it: what is provided may be gigabytes.
    file = "provided_left_out.txt"
    local_dists, left = await MultiGet(
        Get(
            LocalDistsPex,
            LocalDistsPexRequest(
                request.addresses,
                internal_only=False,
                interpreter_constraints=request.interpreter_constraints,
            ),
        ),
        Get(Digest, CreateDigest([FileContent(file, kept.encode())])),
    )
    inputs = await Get(Digest, MergeDigests((left, local_dists.pex.digest)))
    return BundleRequirements(
        PexRequest(
            output_filename=_REQUIREMENTS_PEX,
            internal_only=False,
            interpreter_constraints=request.interpreter_constraints,
            additional_inputs=inputs,
            # Others may require what is provided: that is no error when the PEX is started.
            additional_args=(
                *("--requirement", file, "--no-transitive", "--ignore-errors"),
                *("--requirements-pex", local_dists.pex.name),
            ),
            description=f"Collecting the packages of {request.bundle}",
        )
    )


def _exclusions(lock: str, provided: Iterable[str]) -> Iterable[str]:
    """The arguments by which PEX leaves out what is provided.

    :param lock: in PEX's own format.
    """
    provided = tuple(provided)
    resolves = json.loads(lock)["locked_resolves"]
    names = {r["project_name"] for resolve in resolves for r in resolve["locked_requirements"]}
    check_globs(provided, names)
    for name in sorted({*names, *provided_packages(provided)}):
        if is_provided(name, provided):
            yield f"--exclude={name}"


# -----------------------------------------------------------------------------------------
# The bundle
# -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TestBundleFieldSet(PackageFieldSet):
    required_fields = (BundleTestsField, BundleTagExpressionField)

    provided: BundleProvidedField
    dependencies: BundleDependenciesField
    output_path: OutputPathField

    __test__ = False


def _check_resolves(
    bundle: Address, tests: Iterable[TritonTestFieldSet], python_setup: PythonSetup
) -> None:
    by_resolve: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        by_resolve[test.resolve.normalized_value(python_setup)].append(test.address.spec)
    if len(by_resolve) > 1:
        listing = ", ".join(
            f"`{resolve}` ({addresses[0]}{f' and {len(addresses) - 1} more' if addresses[1:] else ''})"
            for resolve, addresses in sorted(by_resolve.items())
        )
        raise TestBundleError(
            f"{bundle} selects tests of several resolves, but one PEX has the packages of one: "
            f"{listing}. Make a bundle for each, by `{BundleTestsField.alias}` and "
            f"`{BundleTagExpressionField.alias}`."
        )


@rule(desc="Package a test bundle", level=LogLevel.DEBUG)
async def package_test_bundle(
    field_set: TestBundleFieldSet,
    hardware: HardwareSubsystem,
    pytest: PyTest,
    python_setup: PythonSetup,
    pex_environment: PexEnvironment,
    pex_environment_aware: PexSubsystem.EnvironmentAware,
    subprocess_environment: SubprocessEnvironment.EnvironmentAware,
    test_environment: TestSubsystem.EnvironmentAware,
) -> BuiltPackage:
    bundle = field_set.address
    selection, explicit = await MultiGet(
        Get(BundleSelection, BundleSelectionRequest(bundle)),
        Get(ExplicitlyProvidedDependencies, DependenciesRequest(field_set.dependencies)),
    )
    if not selection.tests:
        raise TestBundleError(
            f"{bundle} selects no test that it can have: see its `{BundleTestsField.alias}` and "
            f"`{BundleTagExpressionField.alias}`."
        )
    _check_resolves(bundle, selection.tests, python_setup)
    extra = tuple(sorted(explicit.includes))
    addresses = Addresses((*(test.address for test in selection.tests), *extra))
    constraints = await Get(InterpreterConstraints, InterpreterConstraintsRequest(addresses))

    # First, because it sees what is wrong with `provided`, and all else takes its time.
    requirements = await Get(
        BundleRequirements,
        BundleRequirementsRequest(bundle, addresses, field_set.provided.value, constraints),
    )
    pytest_request = pytest.to_pex_request(interpreter_constraints=constraints)
    venv = ("--venv", pex_environment.venv_site_packages_copies_option(use_copies=False))
    pytest_pex, requirements_pex, program, prepared = await MultiGet(
        Get(
            Pex,
            PexRequest,
            dataclasses.replace(
                pytest_request,
                output_filename=_PYTEST_PEX,
                internal_only=False,
                layout=None,
                main=pytest.main,
                additional_args=(*pytest_request.additional_args, *venv),
            ),
        ),
        Get(Pex, PexFromTargetsRequest, requirements.request)
        if isinstance(requirements.request, PexFromTargetsRequest)
        else Get(Pex, PexRequest, requirements.request),
        Get(Program, ProgramRequest(_PACKAGE, _MODULES, "bundle_runner", _LIBRARIES)),
        Get(PreparedTests, PreparedTestsRequest(selection.tests, extra, constraints)),
    )
    digests = sorted({d for each in prepared for d in each.digests}, key=lambda d: d.fingerprint)
    entries = await MultiGet(Get(DigestEntries, Digest, digest) for digest in digests)
    manifest = Manifest(
        address=bundle.spec,
        tests=tuple(each.test for each in prepared),
        trees={
            digest.fingerprint: tuple(_tree_entry(entry) for entry in tree)
            for digest, tree in zip(digests, entries)
        },
        pexes=(_PYTEST_PEX, _REQUIREMENTS_PEX),
        provided=field_set.provided.value,
        path=tuple(pex_environment_aware._executable_search_paths),
        env_entries=(
            *subprocess_environment.env_vars_to_pass_to_subprocesses,
            *test_environment.extra_env_vars,
        ),
        pytest_args=(*pytest.args, *(("-c", pytest.config) if pytest.config else ())),
        slot_variable=pytest.execution_slot_var or "",
        hardware=HardwareSettings(
            tuple(hardware.tool_search_path),
            hardware.tool_timeout,
            tuple(hardware.torch_pythons),
            hardware.tests_per_device,
        ),
    )
    blobs: dict[str, FileDigest] = {
        entry.file_digest.fingerprint: entry.file_digest
        for tree in entries
        for entry in tree
        if isinstance(entry, FileEntry)
    }
    sources = await Get(
        Digest,
        MergeDigests(
            await MultiGet(
                Get(
                    Digest,
                    CreateDigest(
                        [
                            FileContent(f"{_ENTRY}.py", _ENTRY_SOURCE.encode()),
                            FileContent(f"{_DATA}/{MANIFEST}", manifest.to_json().encode()),
                            *(
                                FileEntry(f"{_DATA}/{blob_path(blob)}", file_digest)
                                for blob, file_digest in sorted(blobs.items())
                            ),
                        ]
                    ),
                ),
                Get(Digest, AddPrefix(program.digest, f"{_DATA}/{PROGRAM}")),
                Get(Digest, AddPrefix(pytest_pex.digest, f"{_DATA}/{PEXES}")),
                Get(Digest, AddPrefix(requirements_pex.digest, f"{_DATA}/{PEXES}")),
            )
        ),
    )
    output_filename = field_set.output_path.value_or_default(file_ending="pex")
    pex = await Get(
        Pex,
        PexRequest(
            output_filename=output_filename,
            internal_only=False,
            interpreter_constraints=constraints,
            sources=sources,
            main=EntryPoint(_ENTRY, "main"),
            additional_args=(
                # Nearly all of it is compressed already.
                "--no-compress",
                # Stay in the virtual environment that it is started from: that has the packages
                # which the machine provides.
                "--inherit-path=fallback",
                # The program reads PEX_ROOT, too.
                "--no-strip-pex-env",
            ),
            description=f"Building {output_filename}",
        ),
    )
    return BuiltPackage(pex.digest, (BuiltPackageArtifact(output_filename, _log_lines(selection)),))


def _tree_entry(entry: FileEntry | SymlinkEntry | Directory) -> TreeEntry:
    if isinstance(entry, FileEntry):
        return TreeEntry(entry.path, entry.file_digest.fingerprint, entry.is_executable)
    if isinstance(entry, SymlinkEntry):
        return TreeEntry(entry.path, link=entry.target)
    return TreeEntry(entry.path)


def _log_lines(selection: BundleSelection) -> tuple[str, ...]:
    count = len(selection.tests)
    lines = [f"It has {count} test file{'s' if count > 1 else ''}; --list shows them."]
    others = selection.others
    if others:
        lines.append(
            f"It lacks {len(others)} that only Pants can run, such as {others[0]}: narrow its "
            f"`{BundleTagExpressionField.alias}` or `{BundleTestsField.alias}` to say so."
        )
    return tuple(lines)


def rules():
    return [
        *collect_rules(),
        UnionRule(InferDependenciesRequest, InferBundleDependencies),
        UnionRule(PackageFieldSet, TestBundleFieldSet),
    ]
