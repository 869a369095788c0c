"""Generated workflows against GitHub's own schema, by a tool that ships it."""

from __future__ import annotations

from pathlib import Path

import check_jsonschema
import pytest

from pants_triton.ci.workflow import render_workflows
from pants_triton.ci.workflow_test import LANES, NIGHTLY, SETTINGS

SCHEMAS = ("vendor.github-workflows", "custom.github-workflows-require-timeout")


def check(path: Path, schema: str) -> int:
    """The exit code of `check-jsonschema`."""
    return check_jsonschema.main([f"--builtin-schema={schema}", str(path)], standalone_mode=False)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_workflows_are_valid(tmp_path: Path, schema: str) -> None:
    for path, text in render_workflows([*LANES, NIGHTLY], SETTINGS).items():
        file = tmp_path / Path(path).name
        file.write_text(text)
        assert check(file, schema) == 0


@pytest.mark.parametrize(
    "before, after",
    [("runs-on: ubuntu-latest", "runs_on: ubuntu-latest"), ("contents: read", "contents: some")],
)
def test_the_schema_finds_mistakes(tmp_path: Path, before: str, after: str) -> None:
    [text] = render_workflows(LANES, SETTINGS).values()
    file = tmp_path / "ci.yml"
    file.write_text(text.replace(before, after))
    assert check(file, SCHEMAS[0]) == 1
