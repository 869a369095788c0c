from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from workflow_picture import Job, draw_workflow, main, read_workflow

WORKFLOW = """\
on:
  pull_request:
    branches-ignore: [llvm-**, wip]
  push:
    branches: [main]
  workflow_dispatch:
jobs:
  formatting:
    name: Formatting
    runs-on: {group: public, labels: [ubuntu-latest]}
    steps:
      - uses: actions/checkout@v4
      - run: "./pants lint check ::"
  choice:
    runs-on: ubuntu-latest
    steps: [{run: ./pants ci-matrix --github-output}]
  rocm:
    name: ROCm <on> MI210
    needs: choice
    if: ${{ github.event_name != 'push' && contains(fromJSON(needs.choice.outputs.m).*.lane, 'rocm') }}
    runs-on: ${{ !github.event.repository.fork && fromJSON('["self-hosted", "gfx90a"]') || 'ubuntu-latest' }}
    continue-on-error: true
    container: {image: "rocm/pytorch:rocm6.1"}
    steps: [{run: "./pants test --tag=rocm ::"}]
"""


def texts(svg: str) -> list[str]:
    return [
        node.text or "" for node in ElementTree.fromstring(svg).iter() if node.tag[-4:] == "text"
    ]


def test_what_is_read() -> None:
    events, jobs = read_workflow(WORKFLOW)
    assert events == [("Pull request", "not llvm-**, wip"), ("Push", "main"), ("By hand", "")]
    assert jobs == [
        Job("formatting", "Formatting", "./pants lint check ::", (), "group public, ubuntu-latest"),
        Job("choice", "choice", "./pants ci-matrix", (), "ubuntu-latest"),
        Job(
            *("rocm", "ROCm <on> MI210", "./pants test --tag=rocm ::", ("choice",)),
            runner="self-hosted, gfx90a",
            fork_runner="ubuntu-latest",
            container="rocm/pytorch:rocm6.1",
            may_fail=True,
            not_on=("push",),
        ),
    ]
    assert [job.hardware for job in jobs] == ["other", "other", "rocm"]


def test_what_is_drawn() -> None:
    svg = draw_workflow(WORKFLOW)
    assert texts(svg) == [
        *("Formatting", "group public, ubuntu-latest", "./pants lint check ::"),
        *("ROCm <on> MI210", "self-hosted, gfx90a"),
        *("./pants test --tag=rocm ::", "forks: ubuntu-latest"),
        *("in rocm/pytorch:rocm6.1", "not on push", "may fail"),
        *("choice", "./pants ci-matrix", "ubuntu-latest", "starts those, and no others"),
        *("Pull request", "not llvm-**, wip", "Push", "main", "By hand"),
    ]
    root = ElementTree.fromstring(svg)
    edges = [node.get("class") for node in root.iter() if node.tag.endswith("path")]
    # From the events to both, and from the choice to the lane that waits for it.
    assert edges == ["edge", "head", "edge", "head", "edge if", "head"]
    # It loads nothing, and is the same each time.
    assert "href" not in svg and "url(" not in svg
    assert draw_workflow(WORKFLOW) == svg


def test_what_is_too_long_is_cut() -> None:
    svg = draw_workflow(WORKFLOW.replace("rocm6.1", "x" * 200))
    [cut] = [text for text in texts(svg) if text.startswith("in rocm/pytorch:x")]
    assert cut.endswith("…") and len(cut) < 80


def test_the_picture_in_the_readme_is_that_of_the_workflow() -> None:
    root = Path(__file__).parents[2]
    picture = (root / "docs/pictures/lanes.svg").read_text()
    workflow = (root / ".github/workflows/integration-tests.yml").read_text()
    assert picture == draw_workflow(workflow), "run build-support/bin/draw-readme-pictures --lanes"


def test_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workflow, picture = tmp_path / "w.yml", tmp_path / "p.svg"
    workflow.write_text(WORKFLOW)
    assert main([str(workflow), str(picture)]) == 0
    assert picture.read_text() == draw_workflow(WORKFLOW)
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("Usage: ")
