"""Which lanes a change affects, in words and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

from pants_triton.ci.lane import Runner
from pants_triton.ci.lane_test import LANE
from pants_triton.ci.matrix import (
    ChangedFile,
    LaneTests,
    OwnedFile,
    affected_lanes,
    matrix_json,
)

CUDA = LaneTests(LANE, frozenset({"t/a_test.py:t@hardware=cuda", "t/b_test.py:t@hardware=cuda"}))
CPU = LaneTests(
    replace(LANE, name="cpu", title="CPU", tag_expression=("cpu",)), frozenset({"t/a_test.py:cpu"})
)
FORMATTING = LaneTests(
    replace(LANE, name="formatting", goals=("lint",), tag_expression=()), frozenset()
)
LANES = (FORMATTING, CUDA, CPU)


def changed(path: str, *owners: str) -> OwnedFile:
    return OwnedFile(
        ChangedFile(path, deleted=False), owners, affects_all=False, dependents_are_known=True
    )


def deleted(owned: OwnedFile, dependents_are_known: bool = True) -> OwnedFile:
    return replace(
        owned,
        file=replace(owned.file, deleted=True),
        dependents_are_known=dependents_are_known,
    )


def test_an_owned_file_affects_what_depends_on_it() -> None:
    affected = affected_lanes(
        LANES, [changed("t/a.py", "t/a.py:lib")], {"t/a.py:lib", "t/a_test.py:t@hardware=cuda"}
    )
    assert [lane.name for lane in affected.lanes] == ["cuda-a100", "formatting"]
    assert affected.said == (
        "cpu: 0 of 1 test targets are affected.",
        "cuda-a100: 1 of 2 test targets are affected.",
        "formatting: runs on any change.",
    )


def test_a_file_that_nothing_depends_on() -> None:
    affected = affected_lanes(LANES, [changed("docs/a.md", "docs/a.md:docs")], {"docs/a.md:docs"})
    assert [lane.name for lane in affected.lanes] == ["formatting"]


def test_files_that_affect_all_lanes_are_named() -> None:
    affected = affected_lanes(
        LANES,
        [
            changed("a.txt"),
            changed("t/a.py", "t/a.py:lib"),
            replace(changed("pants.toml", "//pants.toml:w"), affects_all=True),
            deleted(changed("gone.txt")),
            deleted(changed("t/gone.py", "t:lib"), dependents_are_known=False),
        ],
        set(),
    )
    assert [lane.name for lane in affected.lanes] == ["cpu", "cuda-a100", "formatting"]
    assert affected.said == (
        "All lanes are affected: a.txt is owned by no target, which would say what depends on it.",
        "All lanes are affected: pants.toml decides how everything is built.",
        "All lanes are affected: gone.txt was deleted or renamed, and what depended on it can't be "
        "known any more.",
        "All lanes are affected: t/gone.py was deleted or renamed, and what depended on it can't be "
        "known any more.",
    )


def test_a_deleted_file_of_a_target_that_is_whole() -> None:
    header = deleted(changed("native/a.h", "native:project"))
    affected = affected_lanes(LANES, [header], {"native:project", "t/a_test.py:cpu"})
    assert [lane.name for lane in affected.lanes] == ["cpu", "formatting"]


def test_nothing_changed() -> None:
    affected = affected_lanes(LANES, [], set())
    assert affected.lanes == ()
    assert affected.said == ("No lane is affected: no file was changed.",)
    assert matrix_json(affected.lanes) == '{"include": []}'


def test_the_matrix_is_what_github_wants() -> None:
    group = replace(
        LANE,
        name="b",
        runner=Runner(("mi210", "big"), "amd"),
        container_image="rocm/pytorch:latest",
        container_options=("--device=/dev/kfd", "--user=root"),
        env=(("PANTS_LEVEL", "debug"),),
        allowed_to_fail=True,
    )
    assert json.loads(matrix_json([LANE, group])) == {
        "include": [
            {
                "lane": "cuda-a100",
                "title": "CUDA on A100",
                "runs-on": "a100-runner-set",
                "command": "./pants test --tag=cuda ::",
                "tag-expression": ["cuda"],
                "env": {},
                "timeout-minutes": 30,
                "continue-on-error": False,
            },
            {
                "lane": "b",
                "title": "CUDA on A100",
                "runs-on": {"group": "amd", "labels": ["mi210", "big"]},
                "command": "./pants test --tag=cuda ::",
                "tag-expression": ["cuda"],
                "env": {"PANTS_LEVEL": "debug"},
                "timeout-minutes": 30,
                "continue-on-error": True,
                "container": {
                    "image": "rocm/pytorch:latest",
                    "options": "--device=/dev/kfd --user=root",
                },
            },
        ]
    }
    assert "\n" not in matrix_json([LANE, group])
