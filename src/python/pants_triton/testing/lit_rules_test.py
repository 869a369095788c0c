from __future__ import annotations

import os
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any, Iterable

import pytest
from pants.base.build_environment import get_buildroot
from pants.core.goals import test as core_test
from pants.core.goals.test import TestDebugRequest, TestResult
from pants.core.target_types import FilesGeneratorTarget, FileTarget
from pants.core.target_types import rules as core_target_types_rules
from pants.core.util_rules import source_files
from pants.core.util_rules.partitions import Partitions
from pants.engine.addresses import Addresses
from pants.engine.fs import EMPTY_DIGEST, CreateDigest, Digest, DigestContents, FileContent
from pants.engine.internals.parametrize import Parametrize
from pants.engine.internals.scheduler import ExecutionError
from pants.engine.process import InteractiveProcess
from pants.engine.rules import Get, rule
from pants.engine.target import (
    AllTargets,
    Dependencies,
    DependenciesRequest,
    MultipleSourcesField,
    Tags,
    Target,
)
from pants.testutil.rule_runner import QueryRule, RuleRunner, mock_console
from pants.util.frozendict import FrozenDict

from pants_triton.artifact.fetch_rules import FetchSettings
from pants_triton.artifact.rules import ArtifactTree, ArtifactTrees, ArtifactTreesRequest
from pants_triton.artifact.settings import Settings
from pants_triton.artifact.target_types import WheelArtifactTarget
from pants_triton.hardware.rules import HardwareAgent
from pants_triton.native.configure_rules import ConfiguredProject, ConfiguredProjectRequest
from pants_triton.native.layout import Toolchain
from pants_triton.native.rules import BuiltOutput, BuiltOutputs, BuiltOutputsRequest
from pants_triton.native.target_types import NATIVE_TARGET_TYPES
from pants_triton.native.tools_rules import ProjectTools, ProjectToolsRequest
from pants_triton.program.rules import pack_program
from pants_triton.testing import lit_rules
from pants_triton.testing.lit_rules import LitTestFieldSet, LitTestRequest
from pants_triton.testing.lit_target_types import LIT_TARGET_TYPES, LitTestTarget
from pants_triton.testing.planning import NotRunnable, Runnable
from pants_triton.testing.rules import NotRunTest, NotRunTestRequest, TestPlan, TestPlanRequest

try:
    import lit
except ImportError:
    lit = None

needs_lit = pytest.mark.skipif(
    lit is None, reason="NOTHING OF LIT IS TESTED: install what 3rdparty/python/plugin.in names"
)

# --- a project that is built already -----------------------------------------------------------

SITE_CONFIG = """\
config.build_root = "/__pants_sandbox__/_build"
config.llvm_tools = "/__pants_sandbox__/3rdparty/llvm/llvm/bin"
lit_config.load_config(config, "/__pants_sandbox__/proj/test/lit.cfg.py")
"""

CONFIG = """\
import os
import lit.formats

config.name = "proj"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.build_root, "test")
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.build_root, "bin"), config.llvm_tools, config.environment["PATH"]]
)
config.environment["SAID"] = os.environ.get("SAID", "nothing")
"""

BUILD_FILE = """\
cmake_project(name="proj", sources=["CMakeLists.txt"])
cmake_output(name="opt", project=":proj", outputs=["bin/opt"])
lit_tests(name="lit", root="test", project=":proj", tools=[":opt"])
"""

FILES = {
    "3rdparty/lit/BUILD": dedent(
        """\
        __defaults__({wheel_artifact: dict(distribution="lit", version="1", platforms=["any"])})
        wheel_artifact(name="lit")
        wheel_artifact(name="nothing")
        """
    ),
    "proj/CMakeLists.txt": "",
    "proj/BUILD": BUILD_FILE,
    "proj/test/lit.cfg.py": CONFIG,
    "proj/test/Inputs/given.mlir": "given\n",
    "proj/test/A/good.mlir": "// RUN: opt %s | check SOURCE\n// SOURCE\n",
    "proj/test/A/bad.mlir": "// RUN: opt %s | not-there\n",
    "proj/test/A/gpu.mlir": "// REQUIRES: gpu\n// RUN: false\n",
}


@rule
async def configured(_: ConfiguredProjectRequest) -> ConfiguredProject:
    digest = await Get(
        Digest,
        CreateDigest(
            [
                FileContent("_build/test/lit.site.cfg.py", SITE_CONFIG.encode()),
                FileContent("_build/test/CMakeFiles/of_no_use", b""),
                FileContent("_build/build.ninja", b""),
            ]
        ),
    )
    return ConfiguredProject(digest, ("build.ninja", "test/lit.site.cfg.py"), FrozenDict())


@rule
async def project_tools(_: ProjectToolsRequest) -> ProjectTools:
    llvm = await Get(
        Digest,
        CreateDigest(
            [FileContent("bin/check", b'#!/bin/sh\nexec grep "$@"\n', is_executable=True)]
        ),
    )
    trees = {"3rdparty/llvm/llvm": llvm, "3rdparty/json/json": EMPTY_DIGEST}
    toolchain = Toolchain("3rdparty/llvm/llvm", "bin", is_sysroot=False, libraries=".libraries")
    return ProjectTools(
        FrozenDict(trees),
        toolchain,
        host=None,
        linker="lld",
        libraries=(("3rdparty/llvm/llvm", ".libraries"),),
        cmake="3rdparty/cmake/cmake",
        sanitizers=("address",),
    )


@rule
async def built(request: BuiltOutputsRequest) -> BuiltOutputs:
    digest = await Get(
        Digest,
        CreateDigest([FileContent("bin/opt", b'#!/bin/sh\nexec cat "$@"\n', is_executable=True)]),
    )
    return BuiltOutputs(
        tuple(
            BuiltOutput(address, "elsewhere", ("bin/opt",), digest, "", FrozenDict())
            for address in request.addresses
        )
    )


@rule
async def not_built(_: BuiltOutputsRequest) -> BuiltOutputs:
    return BuiltOutputs(
        (), "proj:opt can't be built: 1 edge failed.\n\nFAILED: Building a.o\na.cpp:1: error: no"
    )


@rule
async def artifact_trees(request: ArtifactTreesRequest) -> ArtifactTrees:
    assert lit is not None
    package = Path(lit.__file__).parent
    files = [
        FileContent(f"lit/{path.relative_to(package).as_posix()}", path.read_bytes())
        for path in package.rglob("*.py")
    ]
    digest = await Get(Digest, CreateDigest(files))
    return ArtifactTrees(
        tuple(
            ArtifactTree(
                address,
                f"{address.spec_path}/{address.target_name}",
                digest if address.target_name == "lit" else EMPTY_DIGEST,
            )
            for address in request.addresses
        )
    )


@rule
def fetch_settings() -> FetchSettings:
    return FetchSettings(Settings(), sys.executable, os.path.join(get_buildroot(), ".cache"))


@rule
def agent() -> HardwareAgent:
    return HardwareAgent(EMPTY_DIGEST)


@rule
def plan(request: TestPlanRequest) -> TestPlan:
    return TestPlan(
        FrozenDict({a: r.hardware for a, r in request.requirements.items()}),
        FrozenDict(
            {
                a: Runnable("") if r.hardware == "cpu" else NotRunnable(f"needs {r.hardware}")
                for a, r in request.requirements.items()
            }
        ),
    )


@rule
async def not_run(request: NotRunTestRequest) -> NotRunTest:
    report = await Get(core_test.Snapshot, CreateDigest([FileContent("not_run.xml", b"")]))
    return NotRunTest(request.address, request.reason, False, report)


# --- asking for it -----------------------------------------------------------------------------


def make_rule_runner(build_rule: Any = built) -> RuleRunner:
    rule_runner = RuleRunner(
        rules=[
            *core_target_types_rules(),
            *core_test.rules(),
            *source_files.rules(),
            *lit_rules.rules(),
            *(configured, project_tools, build_rule, artifact_trees, fetch_settings, agent),
            *(plan, not_run, pack_program),
            QueryRule(AllTargets, ()),
            QueryRule(Addresses, (DependenciesRequest,)),
            QueryRule(DigestContents, (Digest,)),
            QueryRule(Partitions, (LitTestRequest.PartitionRequest,)),
            QueryRule(TestResult, (LitTestRequest.Batch,)),
            QueryRule(TestDebugRequest, (LitTestRequest.Batch,)),
        ],
        target_types=[
            *(FileTarget, FilesGeneratorTarget, WheelArtifactTarget),
            *(*LIT_TARGET_TYPES, *NATIVE_TARGET_TYPES),
        ],
        objects={"parametrize": Parametrize},
    )
    set_options(rule_runner)
    return rule_runner


def set_options(rule_runner: RuleRunner, *options: str) -> None:
    # The Python that runs the driver is found on PATH, where there is no Pants to leave its path.
    path = f"{os.path.dirname(sys.executable)}:/usr/bin:/bin"
    rule_runner.set_options(
        [f"--test-extra-env-vars=['PATH={path}']", *options],
        env_inherit={"PATH", "PYENV_ROOT", "HOME"},
    )


@pytest.fixture
def rule_runner() -> RuleRunner:
    rule_runner = make_rule_runner()
    rule_runner.write_files(FILES)
    return rule_runner


def targets(rule_runner: RuleRunner) -> dict[str, Target]:
    found = rule_runner.request(AllTargets, [])
    return {t.address.spec: t for t in found if isinstance(t, LitTestTarget)}


def field_sets(rule_runner: RuleRunner) -> dict[str, LitTestFieldSet]:
    return {
        LitTestFieldSet.create(t).path_in_suite: LitTestFieldSet.create(t)
        for t in targets(rule_runner).values()
    }


def batches(
    rule_runner: RuleRunner, fields: Iterable[LitTestFieldSet]
) -> dict[str, LitTestRequest.Batch]:
    partitions = rule_runner.request(Partitions, [LitTestRequest.PartitionRequest(tuple(fields))])
    return {
        p.elements[0].path_in_suite: LitTestRequest.Batch("lit", p.elements, p.metadata)
        for p in partitions
    }


def run(rule_runner: RuleRunner, path: str) -> TestResult:
    batch = batches(rule_runner, [field_sets(rule_runner)[path]])[path]
    return rule_runner.request(TestResult, [batch])


def report(rule_runner: RuleRunner, result: TestResult) -> str:
    assert result.xml_results is not None
    (file,) = rule_runner.request(DigestContents, [result.xml_results.digest])
    assert file.path == f"{result.addresses[0].path_safe_spec}.xml"
    return file.content.decode()


def message(error: pytest.ExceptionInfo[ExecutionError]) -> str:
    causes: tuple[Exception, ...] = error.value.wrapped_exceptions
    return str(causes[0])


# --- targets -----------------------------------------------------------------------------------


def test_a_test_of_each_file(rule_runner: RuleRunner) -> None:
    # Not of `Inputs`, and not of what is outside `root`.
    rule_runner.write_files({"proj/other.mlir": "", "proj/test/b.ll": "", "proj/test/c.test": ""})
    assert sorted(targets(rule_runner)) == [
        *(f"proj/test/A/{name}.mlir:../../lit" for name in ("bad", "good", "gpu")),
        *("proj/test/b.ll:../lit", "proj/test/c.test:../lit"),
    ]


def test_explicit_sources(rule_runner: RuleRunner) -> None:
    build_file = 'lit_tests(name="lit", root="test", project=":p", sources=["test/A/g*.mlir"])'
    rule_runner.write_files({"proj/BUILD": build_file})
    assert sorted(field_sets(rule_runner)) == ["A/good.mlir", "A/gpu.mlir"]


def test_hardware_is_a_tag(rule_runner: RuleRunner) -> None:
    rule_runner.write_files(
        {
            "proj/BUILD": dedent(
                """\
                lit_tests(
                    name="lit",
                    root="test",
                    project=":p",
                    sources=["test/A/good.mlir"],
                    hardware=parametrize("cpu", "cuda"),
                    tags=["slow"],
                )
                """
            )
        }
    )
    assert {spec: t[Tags].value for spec, t in targets(rule_runner).items()} == {
        "proj/test/A/good.mlir:../../lit@hardware=cpu": ("slow", "cpu"),
        "proj/test/A/good.mlir:../../lit@hardware=cuda": ("slow", "cuda"),
    }


def test_overrides(rule_runner: RuleRunner) -> None:
    build_file = BUILD_FILE.replace(
        "tools=", 'overrides={"test/A/g*.mlir": {"hardware": "cuda", "arch": "sm_90"}}, tools='
    )
    rule_runner.write_files({"proj/BUILD": build_file})
    assert {path: fs.hardware.value for path, fs in field_sets(rule_runner).items()} == {
        **{"A/bad.mlir": "cpu", "A/good.mlir": "cuda", "A/gpu.mlir": "cuda"},
    }


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param('root="/test"', "must be a relative path", id="absolute root"),
        pytest.param('root="../test"', "must be a relative path", id="root above"),
        pytest.param('site_config="a/cfg.py"', "must end in `lit.site.cfg.py`", id="site config"),
        pytest.param('hardware="gpu"', "gpu", id="unknown hardware"),
        pytest.param('tags=["cuda"]', "has the tag `cuda`, but needs `cpu`", id="contradiction"),
        pytest.param('env={"CUDA_VISIBLE_DEVICES": "0"}', "the lease's to set", id="devices"),
        pytest.param(
            'sources=["*.mlir"]', "proj/x.mlir is not in proj/test", id="a file outside the root"
        ),
    ],
)
def test_fields_that_are_wrong(rule_runner: RuleRunner, fields: str, expected: str) -> None:
    root = "" if "root=" in fields else 'root="test",'
    build_file = f'lit_tests(name="lit", project=":p", {root} {fields})'
    rule_runner.write_files({"proj/BUILD": build_file, "proj/x.mlir": ""})
    with pytest.raises(ExecutionError) as error:
        targets(rule_runner)
    assert expected in message(error)


def test_dependencies(rule_runner: RuleRunner) -> None:
    target = targets(rule_runner)["proj/test/A/good.mlir:../../lit"]
    # Not the tests beside it.
    assert dependencies_of(rule_runner, target) == {
        *("proj:proj", "proj:opt", "proj:lit#suite"),
    }


def dependencies_of(rule_runner: RuleRunner, target: Target) -> set[str]:
    addresses = rule_runner.request(Addresses, [DependenciesRequest(target[Dependencies])])
    return {address.spec for address in addresses}


@pytest.mark.parametrize(
    ("fields", "suite"),
    [
        pytest.param('hardware=parametrize("cpu", "cuda")', "proj:lit#suite{}", id="by field"),
        pytest.param(
            'overrides={"test/A/good.mlir": {"hardware": parametrize("cpu", "cuda")}}',
            "proj:lit#suite",
            id="by override",
        ),
        pytest.param(
            'dependencies=["3rdparty/lit:nothing"], overrides={"test/A/good.mlir": {'
            '"hardware": parametrize("cpu", "cuda"), "dependencies": []}}',
            "proj:lit#suite",
            id="with dependencies",
        ),
    ],
)
def test_dependencies_of_parametrized_tests(
    rule_runner: RuleRunner, fields: str, suite: str
) -> None:
    rule_runner.write_files({"proj/BUILD": BUILD_FILE.replace("tools=", f"{fields}, tools=")})
    found = targets(rule_runner)
    for hardware in ("@hardware=cpu", "@hardware=cuda"):
        target = found[f"proj/test/A/good.mlir:../../lit{hardware}"]
        assert dependencies_of(rule_runner, target) == {
            *("proj:proj", "proj:opt", suite.format(hardware)),
        }


def test_the_suite_owns_its_configs(rule_runner: RuleRunner) -> None:
    rule_runner.write_files({"proj/test/A/lit.local.cfg": ""})
    found = {t.address.spec: t for t in rule_runner.request(AllTargets, [])}
    suite = found["proj:lit#suite"]
    assert set(suite[MultipleSourcesField].value or ()) == {
        *("test/lit.cfg.py", "test/A/lit.local.cfg", "test/Inputs/given.mlir"),
    }


# --- selection ---------------------------------------------------------------------------------


def excluded(rule_runner: RuleRunner) -> list[str]:
    found = batches(rule_runner, field_sets(rule_runner).values())
    return sorted(path for path, batch in found.items() if batch.partition_metadata.excluded)


def test_each_test_is_a_partition(rule_runner: RuleRunner) -> None:
    found = batches(rule_runner, field_sets(rule_runner).values())
    assert sorted(found) == ["A/bad.mlir", "A/good.mlir", "A/gpu.mlir"]
    assert excluded(rule_runner) == []


def test_filters(rule_runner: RuleRunner) -> None:
    set_options(rule_runner, "--lit-args=--filter=a/g --filter-out=gpu")
    assert excluded(rule_runner) == ["A/bad.mlir", "A/gpu.mlir"]
    result = run_all(rule_runner)["A/gpu.mlir"]
    assert result.exit_code is None
    assert '<skipped message="not selected because of `--filter-out=gpu`"' in report(
        rule_runner, result
    )


def run_all(rule_runner: RuleRunner) -> dict[str, TestResult]:
    """Of those which are excluded: nothing else may be asked for."""
    return {
        path: rule_runner.request(TestResult, [batch])
        for path, batch in batches(rule_runner, field_sets(rule_runner).values()).items()
        if batch.partition_metadata.excluded
    }


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param("--filter=none", "`--filter=none` selects none of the 3 lit tests", id="none"),
        pytest.param("-k foo", "A/bad.mlir:../../lit and 2 others can't be run with", id="unknown"),
    ],
)
def test_arguments_that_are_wrong(rule_runner: RuleRunner, args: str, expected: str) -> None:
    set_options(rule_runner, f"--lit-args={args}")
    with pytest.raises(ExecutionError) as error:
        batches(rule_runner, field_sets(rule_runner).values())
    assert expected in message(error)


def test_arguments_for_others_are_none_of_ours(rule_runner: RuleRunner) -> None:
    set_options(rule_runner, "--lit-args=-k foo")
    assert batches(rule_runner, []) == {}


def test_skip(rule_runner: RuleRunner) -> None:
    set_options(rule_runner, "--lit-skip")
    assert batches(rule_runner, field_sets(rule_runner).values()) == {}


# --- running -----------------------------------------------------------------------------------


@needs_lit
def test_pass(rule_runner: RuleRunner) -> None:
    result = run(rule_runner, "A/good.mlir")
    assert result.exit_code == 0, result.stdout
    assert result.stdout.startswith("PASS: proj :: A/good.mlir\n")
    assert 'name="A/good.mlir"' in report(rule_runner, result)
    assert result.output_setting is core_test.ShowOutput.FAILED
    set_options(rule_runner, "--lit-args=-a")
    assert run(rule_runner, "A/good.mlir").output_setting is core_test.ShowOutput.ALL


@needs_lit
def test_fail(rule_runner: RuleRunner) -> None:
    result = run(rule_runner, "A/bad.mlir")
    assert result.exit_code == 1
    assert result.stdout.startswith("FAIL: proj :: A/bad.mlir\n")
    assert "pants-sandbox" not in result.stdout
    assert "`not-there` can't be found in the sandbox" in result.stdout
    assert "<failure" in report(rule_runner, result)


@needs_lit
def test_unsupported(rule_runner: RuleRunner) -> None:
    result = run(rule_runner, "A/gpu.mlir")
    assert result.exit_code is None
    assert "unavailable features: gpu" in report(rule_runner, result)


@needs_lit
def test_a_test_sees_its_own_file_and_the_configs(rule_runner: RuleRunner) -> None:
    rule_runner.write_files(
        {
            "proj/BUILD": BUILD_FILE.replace(
                "tools=",
                'dependencies=[":data"], env={"SAID": "{chroot}/x"}, tools=',
            )
            + 'files(name="data", sources=["data.txt"])',
            "proj/data.txt": "data\n",
            "proj/test/A/good.mlir": dedent(
                """\
                // RUN: cat %S/../Inputs/given.mlir %S/../../data.txt
                // RUN: test ! -e %S/gpu.mlir
                // RUN: printenv SAID | grep /x
                """
            ),
        }
    )
    result = run(rule_runner, "A/good.mlir")
    assert "given" in result.stdout and "data" in result.stdout
    assert result.exit_code == 0, result.stdout


@needs_lit
def test_sanitized_tools_find_the_symbolizer(rule_runner: RuleRunner) -> None:
    # Whose options are given goes before what is ours.
    rule_runner.write_files(
        {
            "proj/BUILD": BUILD_FILE.replace("tools=", 'env={"UBSAN_OPTIONS": "mine=1"}, tools='),
            "proj/test/A/good.mlir": dedent(
                """\
                // RUN: printenv ASAN_SYMBOLIZER_PATH | grep '^/.*/llvm/llvm/bin/llvm-symbolizer$'
                // RUN: printenv UBSAN_OPTIONS | grep '^mine=1$'
                """
            ),
        }
    )
    result = run(rule_runner, "A/good.mlir")
    assert result.exit_code == 0, result.stdout


@needs_lit
def test_not_runnable_here(rule_runner: RuleRunner) -> None:
    build_file = BUILD_FILE.replace("tools=", 'hardware="cuda", tools=')
    rule_runner.write_files({"proj/BUILD": build_file})
    result = run(rule_runner, "A/good.mlir")
    assert result.exit_code is None and result.xml_results is not None


@needs_lit
def test_a_tool_that_cannot_be_built() -> None:
    rule_runner = make_rule_runner(not_built)
    rule_runner.write_files(FILES)
    result = run(rule_runner, "A/good.mlir")
    assert result.exit_code == 1
    # The compiler's output is shown once, not by every test.
    assert result.stderr == (
        "proj/test/A/good.mlir:../../lit can't be set up: proj:opt can't be built: 1 edge failed.\n"
        "FAILED: Building a.o\n"
    )
    assert "1 edge failed" in report(rule_runner, result)


@needs_lit
@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(
            {"proj/BUILD": BUILD_FILE.replace("tools=", 'site_config="x/lit.site.cfg.py", tools=')},
            "proj:lit: configuring proj:proj wrote no x/lit.site.cfg.py into the build folder. It "
            "wrote test/lit.site.cfg.py: is that it?",
            id="no site config",
        ),
        pytest.param(
            {"proj/BUILD": BUILD_FILE.replace("tools=", 'configs=["Inputs/**"], tools=')},
            "proj:lit: there is no proj/test/lit.cfg.py among the files of `configs`.",
            id="no config",
        ),
    ],
)
def test_a_suite_that_is_wrong(
    rule_runner: RuleRunner, files: dict[str, str], expected: str
) -> None:
    rule_runner.write_files(files)
    result = run(rule_runner, "A/good.mlir")
    assert result.exit_code == 1
    assert expected in result.stderr


@needs_lit
def test_an_artifact_without_lit(rule_runner: RuleRunner) -> None:
    set_options(rule_runner, "--lit-lit=3rdparty/lit:nothing")
    result = run(rule_runner, "A/good.mlir")
    assert result.exit_code == 1
    assert "3rdparty/lit:nothing, which the option `[lit].lit` names" in result.stderr


@needs_lit
def test_debug(rule_runner: RuleRunner) -> None:
    fields = field_sets(rule_runner)["A/good.mlir"]
    batch = batches(rule_runner, [fields])["A/good.mlir"]
    process = rule_runner.request(TestDebugRequest, [batch]).process
    assert "--keep-paths" in process.process.argv
    with mock_console(rule_runner.options_bootstrapper):
        assert rule_runner.run_interactive_process(process).exit_code == 0


def test_debug_of_a_test_that_is_not_run(rule_runner: RuleRunner) -> None:
    build_file = BUILD_FILE.replace("tools=", 'hardware="cuda", tools=')
    rule_runner.write_files({"proj/BUILD": build_file})
    fields = field_sets(rule_runner)["A/good.mlir"]
    batch = batches(rule_runner, [fields])["A/good.mlir"]
    process: InteractiveProcess = rule_runner.request(TestDebugRequest, [batch]).process
    assert process.process.argv[-2:] == (f"{fields.address} can't run: needs cuda.", "0")
