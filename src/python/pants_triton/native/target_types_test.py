from __future__ import annotations

from typing import Any

import pytest
from pants.engine.addresses import Address
from pants.engine.target import InvalidFieldException, InvalidTargetException

from pants_triton.native.target_types import (
    CMakeConfigureSourcesField,
    CMakeOutputPathField,
    CMakeOutputTarget,
    CMakeProjectSourcesField,
    CMakeProjectTarget,
)

ADDRESS = Address("python", target_name="build")


@pytest.mark.parametrize("path", ["native", "native/bin", "a.b/..c", "python"])
def test_the_path_of_an_output(path: str) -> None:
    assert CMakeOutputPathField(path, ADDRESS).in_sandbox(ADDRESS) == path


@pytest.mark.parametrize(
    "address, path",
    [
        (ADDRESS, "python/build"),
        (Address("python"), "python/python"),
        (Address("", target_name="opt"), "opt"),
    ],
)
def test_the_default_path_is_folder_and_name(address: Address, path: str) -> None:
    assert CMakeOutputPathField(None, address).in_sandbox(address) == path


@pytest.mark.parametrize("path", ["", ".", "..", "../a", "/a", "a/../b", "./a", "a/", "a//b"])
def test_no_path_of_an_output(path: str) -> None:
    message = f"`path` field of {ADDRESS} must be a relative path .*, but is '{path}'"
    with pytest.raises(InvalidFieldException, match=message):
        CMakeOutputPathField(path, ADDRESS)


@pytest.mark.parametrize("missing", ["project", "outputs"])
def test_what_an_output_needs(missing: str) -> None:
    fields = {"project": ":it", "outputs": ["bin/it"]}
    CMakeOutputTarget(fields, ADDRESS)
    del fields[missing]
    with pytest.raises(InvalidTargetException, match=f"'{missing}' field in target {ADDRESS}"):
        CMakeOutputTarget(fields, ADDRESS)


@pytest.mark.parametrize(
    "target, field, value",
    [
        (CMakeOutputTarget, "outputs", "bin/it"),
        (CMakeOutputTarget, "project", ["a"]),
        (CMakeProjectTarget, "cache", ["-DA=B"]),
        (CMakeProjectTarget, "env", {"A": 1}),
        (CMakeProjectTarget, "configure_sources", "*.in"),
    ],
)
def test_values_of_the_wrong_type(target: Any, field: str, value: Any) -> None:
    fields = {"project": ":it", "outputs": ["a"]} if target is CMakeOutputTarget else {}
    with pytest.raises(InvalidTargetException, match=f"'{field}' field .* {ADDRESS}"):
        target({**fields, field: value}, ADDRESS)


def test_a_project_is_all_files_beside_it() -> None:
    target = CMakeProjectTarget({}, ADDRESS)
    assert target[CMakeProjectSourcesField].value == ("**/*", "!compile_commands.json")
    # Pants' `**/x` is any depth below a folder, and in it.
    assert "**/CMakeLists.txt" in target[CMakeConfigureSourcesField].value
