"""Which image, devices and variables a lane's container gets."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pants_triton.ci.lane import Lane
from pants_triton.ci.lane_container import (
    ContainerLane,
    LaneContainerError,
    device_files,
    device_options,
    docker_run,
    find_lane,
    image_of,
)
from pants_triton.ci.lane_test import LANE
from pants_triton.ci.matrix import matrix_json

CUDA = ContainerLane("cuda-a100", "./pants test --tag=cuda ::", "cuda", (), ())
ROCM = replace(CUDA, name="rocm-mi210", hardware="rocm")


def found(**changes: Any) -> ContainerLane:
    """The lane as it comes out of the JSON that `ci-matrix` prints."""
    lane: Lane = replace(LANE, **changes)
    return find_lane(matrix_json([lane]), lane.name)


def run(lane: ContainerLane, **changes: Any) -> list[str]:
    defaults: dict[str, Any] = dict(
        image="an-image",
        container="a-container",
        options=(),
        extra_options=(),
        caller_env={},
        config_files="",
        without_devices=False,
    )
    return docker_run(lane, **{**defaults, **changes})


def test_a_lane_is_what_ci_matrix_says() -> None:
    assert found() == CUDA
    assert found(
        container_image="rocm/pytorch:latest",
        container_options=("--device=/dev/kfd", "--user=root"),
        tag_expression=("rocm", "-slow"),
        env=(("PANTS_LEVEL", "debug"),),
    ) == ContainerLane(
        "cuda-a100",
        "./pants test --tag=rocm --tag=-slow ::",
        "rocm",
        ("--device=/dev/kfd", "--user=root"),
        (("PANTS_LEVEL", "debug"),),
    )


@pytest.mark.parametrize(
    "tag_expression, hardware",
    [
        pytest.param(("cpu",), "cpu", id="cpu"),
        pytest.param(("cuda",), "cuda", id="cuda"),
        pytest.param(("cpu,cuda",), "cuda", id="a machine with a GPU has a CPU"),
        pytest.param(("e2e",), "cpu", id="a tag that is no hardware"),
        pytest.param(("cpu", "-cuda,rocm"), "cpu", id="what is left out is not needed"),
        pytest.param((), "cpu", id="a lane without tests"),
    ],
)
def test_the_image_is_that_of_the_hardware(tag_expression: tuple[str, ...], hardware: str) -> None:
    lane = found(tag_expression=tag_expression)
    assert lane.hardware == hardware
    assert image_of(lane) == f"pants-triton/ci-{hardware}:latest"


def test_lanes_that_no_container_runs() -> None:
    with pytest.raises(LaneContainerError, match="There is no lane `cuda`. The lanes are: a, b."):
        find_lane(matrix_json([replace(LANE, name="b"), replace(LANE, name="a")]), "cuda")
    with pytest.raises(LaneContainerError, match="`cuda-a100` needs macOS.*on a Mac"):
        found(tag_expression=("macos",))
    with pytest.raises(LaneContainerError, match="tests of cuda and rocm.*a lane for each"):
        found(tag_expression=("rocm,cuda",))


def test_devices() -> None:
    assert device_options(CUDA, []) == ("--gpus=all",)
    assert device_options(ROCM, [110, 44, 110]) == (
        "--device=/dev/kfd",
        "--device=/dev/dri",
        "--security-opt=seccomp=unconfined",
        "--group-add=44",
        "--group-add=110",
    )
    assert device_options(replace(CUDA, hardware="cpu"), [44]) == ()
    # What the lane declares is the whole of it.
    declared = ("--device=/dev/kfd", "--group-add=video")
    assert device_options(replace(ROCM, options=declared), [44]) == declared


def test_device_files() -> None:
    assert device_files(
        ["--device=/dev/kfd", "--gpus=all", "--device", "/dev/dri:/dev/dri:rw", "--user=root"]
    ) == ["/dev/kfd", "/dev/dri"]
    # Of a container device interface, which is no file.
    assert device_files(["--device=nvidia.com/gpu=all"]) == []


def test_the_command() -> None:
    lane = replace(CUDA, env=(("PANTS_LEVEL", "debug"),))
    assert run(
        lane,
        options=("--gpus=all",),
        extra_options=("--network=none",),
        config_files="pants.ci.toml",
    ) == [
        "docker",
        "run",
        "--interactive",
        "--init",
        "--name=a-container",
        "--workdir=/workspace",
        "--gpus=all",
        "--env=PANTS_CONFIG_FILES=pants.ci.toml",
        "--env=PANTS_LEVEL=debug",
        "--env=PANTS_PANTSD=false",
        "--network=none",
        "an-image",
        "sh",
        "-c",
        "tar --extract --no-same-owner --file=- && exec ./pants test --tag=cuda ::",
    ]


def test_a_token_is_passed_on_by_name_only() -> None:
    command = run(CUDA, caller_env={"PANTS_REMOTE_STORE_HEADERS": "secret", "OTHER": "x"})
    assert "--env=PANTS_REMOTE_STORE_HEADERS" in command
    assert "secret" not in json.dumps(command)
    assert "OTHER" not in json.dumps(command)


def test_without_devices_it_is_as_in_a_fork() -> None:
    assert "--env=PANTS_HARDWARE_MISSING=skip" in run(CUDA, without_devices=True)
    assert "HARDWARE" not in json.dumps(run(CUDA))
