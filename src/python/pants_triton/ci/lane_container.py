"""How a lane's command is run in a container on this machine: which image, devices and variables."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Mapping, Sequence

# Where the lane's checkout is in the container.
WORKSPACE = "/workspace"

# What the tags of a lane say about the machine. `cpu`, and no such tag at all, need nothing.
_CUDA = "cuda"
_ROCM = "rocm"
_MACOS = "macos"
_CPU = "cpu"

# Passed on where the caller has them: which remote cache the lane uses, and with what token. By
# name only, so that a token is in no argument.
PASSED_ON = (
    "PANTS_REMOTE_CACHE_READ",
    "PANTS_REMOTE_CACHE_WRITE",
    "PANTS_REMOTE_STORE_ADDRESS",
    "PANTS_REMOTE_STORE_HEADERS",
)


class LaneContainerError(ValueError):
    """A lane that can't be run in a container here; one sentence with the way out."""


@dataclass(frozen=True)
class ContainerLane:
    """What of a lane matters to a container.

    :param command: what the job runs, words that a shell takes as they are.
    :param hardware: `cpu`, `cuda` or `rocm`; of what its image is made, too.
    :param options: the lane's own `container_options`.
    """

    name: str
    command: str
    hardware: str
    options: tuple[str, ...]
    env: tuple[tuple[str, str], ...]


def find_lane(matrix: str, name: str) -> ContainerLane:
    """The lane of that name in what `./pants ci-matrix` prints.

    :raises LaneContainerError: if there is none, or no container can be its machine.
    """
    entries = {entry["lane"]: entry for entry in json.loads(matrix)["include"]}
    entry = entries.get(name)
    if entry is None:
        raise LaneContainerError(
            f"There is no lane `{name}`. The lanes are: {', '.join(sorted(entries))}."
        )
    return ContainerLane(
        name,
        entry["command"],
        _hardware(name, entry["tag-expression"]),
        tuple(shlex.split(entry.get("container", {}).get("options", ""))),
        tuple(entry["env"].items()),
    )


def _hardware(name: str, tag_expression: Sequence[str]) -> str:
    wanted = {
        tag
        for value in tag_expression
        if not value.startswith("-")
        for tag in value.lstrip("+").split(",")
    } & {_CUDA, _ROCM, _MACOS, _CPU}
    if _MACOS in wanted:
        raise LaneContainerError(
            f"The lane `{name}` needs macOS, which no container has: run its command on a Mac."
        )
    devices = sorted(wanted - {_CPU})
    if len(devices) > 1:
        raise LaneContainerError(
            f"The lane `{name}` selects tests of {' and '.join(devices)}, and no machine has both: "
            "declare a lane for each in its `tag_expression`."
        )
    return devices[0] if devices else _CPU


def image_of(lane: ContainerLane) -> str:
    """The name under which `./pants package build-support/ci/images:<hardware>` leaves its image."""
    return f"pants-triton/ci-{lane.hardware}:latest"


def device_options(lane: ContainerLane, device_groups: Sequence[int]) -> tuple[str, ...]:
    """The options of `docker run` that give the container its devices: the lane's own, if it has any.

    :param device_groups: the ids of the groups that own AMD's device files here. Their names are
        no help: `render` has another id in the image.
    """
    if lane.options:
        return lane.options
    if lane.hardware == _CUDA:
        return ("--gpus=all",)
    if lane.hardware == _ROCM:
        groups = (f"--group-add={group}" for group in sorted(set(device_groups)))
        return (
            "--device=/dev/kfd",
            "--device=/dev/dri",
            # ROCm moves memory between a process and the GPU by calls that the default forbids.
            "--security-opt=seccomp=unconfined",
            *groups,
        )
    return ()


def device_files(options: Sequence[str]) -> list[str]:
    """The device files of this machine that options of `docker run` name."""
    files = []
    words = iter(options)
    for word in words:
        name, has_value, value = word.partition("=")
        if name == "--device":
            value = value if has_value else next(words, "")
            files.append(value.split(":")[0])
    return [file for file in files if file.startswith("/")]


def docker_run(
    lane: ContainerLane,
    *,
    image: str,
    container: str,
    options: Sequence[str],
    extra_options: Sequence[str],
    caller_env: Mapping[str, str],
    config_files: str,
    without_devices: bool,
) -> list[str]:
    """The command that runs a lane in a container, which reads its checkout, a tar, from stdin.

    :param container: the container's name.
    :param options: from `device_options`.
    :param extra_options: those of the person who runs it, which win.
    :param config_files: of Pants, as in the generated workflow, or "".
    :param without_devices: whether tests whose hardware is missing are skipped instead of failing.
    """
    # A daemon would start for one command.
    env = {"PANTS_PANTSD": "false", **dict(lane.env)}
    if config_files:
        env["PANTS_CONFIG_FILES"] = config_files
    if without_devices:
        env["PANTS_HARDWARE_MISSING"] = "skip"
    return [
        "docker",
        "run",
        "--interactive",
        # Pants starts processes, of which some are orphaned.
        "--init",
        f"--name={container}",
        f"--workdir={WORKSPACE}",
        *options,
        *(f"--env={name}={value}" for name, value in sorted(env.items())),
        *(f"--env={name}" for name in PASSED_ON if name in caller_env and name not in env),
        *extra_options,
        image,
        "sh",
        "-c",
        f"tar --extract --no-same-owner --file=- && exec {lane.command}",
    ]
