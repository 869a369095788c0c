"""Test programs here speak GoogleTest's command line, and are none: its sources are an artifact."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
from pants.core.goals.test import TestResult, get_filtered_environment
from pants.core.util_rules.partitions import Partitions
from pants.testutil.rule_runner import QueryRule

from pants_triton.native.fake_tools import PROJECT, Project, Runner, missing_tools
from pants_triton.testing import gtest_rules
from pants_triton.testing.gtest_rules import GTestFieldSet, GTestRequest
from pants_triton.testing.gtest_target_types import GTestTestsTarget

if missing_tools():
    warnings.warn(f"NOT TESTED: tests of projects; not here: {missing_tools()}", stacklevel=1)
pytestmark = pytest.mark.skipif(bool(missing_tools()), reason=f"not here: {missing_tools()}")

# Writes its arguments and environment as its report, and fails if it is told to by its name.
PROGRAM = """\
#include "demo/shared.h"
extern "C" {
int printf(const char*, ...);
int strncmp(const char*, const char*, unsigned long);
char* getenv(const char*);
struct F;
F* fopen(const char*, const char*);
int fprintf(F*, const char*, ...);
int fclose(F*);
}
static const char* or_none(const char* text) { return text ? text : "none"; }
int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    printf("argument %s\\n", arguments[i]);
    if (strncmp(arguments[i], "--gtest_output=xml:", 19) == 0 && !getenv("NO_REPORT")) {
      F* report = fopen(arguments[i] + 19, "w");
      fprintf(report, "<testsuites shard='%s'/>", or_none(getenv("GTEST_SHARD_INDEX")));
      fclose(report);
    }
  }
  printf("shared %d, shard %s of %s, FROM_BUILD %s\\n", shared(),
         or_none(getenv("GTEST_SHARD_INDEX")), or_none(getenv("GTEST_TOTAL_SHARDS")),
         or_none(getenv("FROM_BUILD")));
  return RESULT;
}
"""

FILES = {
    "BUILD": """\
        cmake_project(name="project")
        gtest_tests(name="unit", project=":project")
        """,
    "CMakeLists.txt": PROJECT["CMakeLists.txt"]
    + """
enable_testing()
foreach(name good bad)
  add_executable(${name}_test unittest/test.cpp)
  target_link_libraries(${name}_test PRIVATE shared)
  add_test(NAME ${name} COMMAND ${name}_test)
endforeach()
target_compile_definitions(good_test PRIVATE RESULT=0)
target_compile_definitions(bad_test PRIVATE RESULT=1)
""",
    "unittest/test.cpp": PROGRAM,
}


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(
        tmp_path_factory.mktemp("native"),
        rules=[
            *gtest_rules.rules(),
            get_filtered_environment,
            QueryRule(Partitions, (GTestRequest.PartitionRequest,)),
            QueryRule(TestResult, (GTestRequest.Batch,)),
        ],
        target_types=[GTestTestsTarget],
    )


@pytest.fixture
def project(runner: Runner, request: pytest.FixtureRequest) -> Project:
    runner.begin()
    return runner.project("src/" + re.sub(r"\W+", "_", request.node.name), FILES)


def partitions(project: Project, name: str = "unit") -> Partitions[GTestFieldSet, Any]:
    field_set = GTestFieldSet.create(project.runner.get_target(project.address(name)))
    request = GTestRequest.PartitionRequest((field_set,))
    return project.runner.request(Partitions, [request])


def run_tests(project: Project, name: str = "unit") -> dict[str, TestResult]:
    """The results by what the summary calls them, after the target's address."""
    found = {}
    for partition in partitions(project, name):
        batch = GTestRequest.Batch("", partition.elements, partition.metadata)
        result = project.runner.request(TestResult, [batch])
        (address,) = result.addresses
        assert address.spec.startswith(project.address(name).spec)
        found[address.spec[len(project.address(name).spec) :]] = result
    return found


def reports(project: Project, result: TestResult) -> list[bytes]:
    assert result.xml_results is not None
    return list(project.runner.contents(result.xml_results.digest).values())


def test_each_program_is_a_result(project: Project) -> None:
    results = run_tests(project)
    assert {name: result.exit_code for name, result in results.items()} == {
        "#bin/bad_test": 1,
        "#bin/good_test": 0,
    }
    for result in results.values():
        # It was linked with a library of the project.
        assert "shared 1, shard none of none, FROM_BUILD none" in result.stdout
        assert reports(project, result) == [b"<testsuites shard='none'/>"]
    names = {file for r in results.values() if r.xml_results for file in r.xml_results.files}
    assert len(names) == 2


def test_shards_and_environment(project: Project) -> None:
    project.edit("BUILD", 'name="unit",', 'name="unit", shards=2, env={"FROM_BUILD": "yes"},')
    results = run_tests(project)
    assert set(results) == {
        f"#bin.{name}_test-shard-{number}.2" for name in ("bad", "good") for number in (1, 2)
    }
    for name, result in results.items():
        index = int(name.partition("-shard-")[2][0]) - 1
        assert f"shard {index} of 2, FROM_BUILD yes" in result.stdout
        assert reports(project, result) == [b"<testsuites shard='%d'/>" % index]


def test_environment_of_all_tests(project: Project) -> None:
    project.runner.begin("--test-extra-env-vars=['FROM_BUILD=no']")
    assert all("FROM_BUILD no" in result.stdout for result in run_tests(project).values())
    project.edit("BUILD", 'name="unit",', 'name="unit", env={"FROM_BUILD": "yes"},')
    assert all("FROM_BUILD yes" in result.stdout for result in run_tests(project).values())


def test_arguments(project: Project) -> None:
    project.runner.begin("--gtest-args=['--gtest_filter=A*']")
    for result in run_tests(project).values():
        assert result.stdout.startswith("argument --gtest_filter=A*\nargument --gtest_output=xml:/")


def test_skipped(project: Project) -> None:
    project.runner.begin("--gtest-skip")
    assert list(partitions(project)) == []


def test_a_program_that_cant_be_built_fails_alone(project: Project) -> None:
    project.edit(
        "CMakeLists.txt", "bad_test PRIVATE RESULT=1", "bad_test PRIVATE RESULT=no_such_name"
    )
    results = run_tests(project)
    assert {name: result.exit_code for name, result in results.items()} == {
        "#bin/bad_test": 1,
        "#bin/good_test": 0,
    }
    bad = results["#bin/bad_test"]
    assert "1 edge failed" in bad.stderr and "no_such_name" in bad.stderr
    (report,) = reports(project, bad)
    assert b"no_such_name" in report and b"<error" in report


def test_programs_that_ctest_starts_in_other_ways(project: Project) -> None:
    project.edit(
        "CMakeLists.txt",
        "target_compile_definitions(good_test",
        """\
add_test(NAME wrapped COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/wrapper.sh $<TARGET_FILE:good_test>)
add_test(NAME check COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/check.sh)
include(GoogleTest)
add_executable(later_test unittest/test.cpp)
target_link_libraries(later_test PRIVATE shared)
target_compile_definitions(later_test PRIVATE RESULT=0)
gtest_discover_tests(later_test DISCOVERY_MODE PRE_TEST)
target_compile_definitions(good_test""",
    )
    project.write(
        {
            "wrapper.sh": 'echo "wrapped by $(cat "$(dirname "$0")/word.txt")"\nexec "$@"\n',
            "word.txt": "a word",
            "check.sh": "",
        }
    )
    results = run_tests(project)
    by_wrapper = "#bin/good_test-by-sh-wrapper.sh"
    assert {name: result.exit_code for name, result in results.items()} == {
        "": None,
        "#bin/bad_test": 1,
        "#bin/good_test": 0,
        "#bin/later_test": 0,
        by_wrapper: 0,
    }
    # It is given what its command names, and that is all.
    assert results[by_wrapper].stdout.startswith("wrapped by \nargument --gtest_output=xml:/")
    (report,) = reports(project, results[""])
    assert b"<skipped" in report
    command = f"sh {project.name}/check.sh"
    assert f"`check` runs nothing that the project builds, but `{command}`".encode() in report
    project.edit(
        "CMakeLists.txt", "wrapper.sh $", "wrapper.sh ${CMAKE_CURRENT_SOURCE_DIR}/word.txt $"
    )
    project.edit("wrapper.sh", '"$(dirname "$0")/word.txt"', '"$1"')
    project.edit("wrapper.sh", "exec", "shift; exec")
    project.runner.begin()
    result = run_tests(project)["#bin/good_test-by-sh-wrapper.sh-word.txt"]
    assert result.stdout.startswith("wrapped by a word\n")


BUG = """\
extern "C" int puts(const char*);
int main(int count, char**) {
  volatile int numbers[2] = {0, 0};
  int sum = numbers[count];  // One past the end, with the one argument that it gets.
  puts("ran to its end");
  return sum & 0;
}
"""


def test_a_sanitizer_catches_what_is_passed_over_otherwise(project: Project) -> None:
    project.write(
        {
            "BUILD": """\
                cmake_project(
                    name="project",
                    sanitizers=parametrize(plain=[], asan=["address", "undefined"]),
                )
                gtest_tests(name="unit", project=":project@sanitizers=plain")
                gtest_tests(name="sanitized", project=":project@sanitizers=asan")
                """,
            "unittest/test.cpp": BUG,
        }
    )
    plain = run_tests(project)["#bin/good_test"]
    assert (plain.exit_code, plain.stdout) == (0, "ran to its end\n")
    sanitized = run_tests(project, "sanitized")["#bin/good_test"]
    assert sanitized.exit_code != 0 and "ran to its end" not in sanitized.stdout
    assert re.search("stack-buffer-overflow|runtime error: index 2 out of bounds", sanitized.stderr)


def test_a_project_that_cant_be_configured_fails_its_tests_alone(project: Project) -> None:
    project.edit("CMakeLists.txt", "enable_testing", "no_such_command")
    ((name, result),) = run_tests(project).items()
    assert (name, result.exit_code) == ("", 1)
    assert "can't be configured" in result.stderr and "no_such_command" in result.stderr
    assert len(reports(project, result)) == 1


def test_a_project_without_tests(project: Project) -> None:
    project.edit("CMakeLists.txt", "enable_testing()", "return()")
    ((name, result),) = run_tests(project).items()
    assert (name, result.exit_code) == ("", 1)
    assert f"{project.address('project')} has no test program" in result.stderr


def test_a_program_without_a_report(project: Project) -> None:
    project.edit("BUILD", 'name="unit",', 'name="unit", env={"NO_REPORT": "1"},')
    good = run_tests(project)["#bin/good_test"]
    (report,) = reports(project, good)
    assert b"the program ended with 0 and wrote no report" in report


def test_a_change_of_a_library_runs_what_is_linked_with_it(project: Project) -> None:
    run_tests(project)
    project.edit("version.txt", "1", "2")
    project.runner.begin()
    for result in run_tests(project).values():
        assert "shared 2," in result.stdout
