"""The command line and environment of a test process, made from those that Pants' pytest rules
make."""

from __future__ import annotations

from typing import Mapping, Sequence

from pants_triton.hardware.agent import SANDBOX_DIR, SANDBOX_LEASE_DIR

#: The folder inside the sandbox that a test process has as its home.
HOME = ".home"

# The scripts through which Pants runs pytest and Python in the environment that holds both pytest
# and the test's packages.
_PYTEST_SHIM_SUFFIX = "_pex_shim.sh"
_PYTHON_SHIM_SUFFIX = "_bin_python_shim.sh"

# Hides all devices: a process of other hardware could use them without a lease, and what it did
# would be cached as if there had been none. The same everywhere, so in nobody's way as a key.
_NO_DEVICES = {
    "CUDA_VISIBLE_DEVICES": "",
    "HIP_VISIBLE_DEVICES": "-1",
    "ROCR_VISIBLE_DEVICES": "",
}


def with_target_args(
    argv: Sequence[str],
    *,
    prepended: int,
    pytest_args: Sequence[str],
    workers: int,
    isolated: bool,
    is_debug: bool,
) -> tuple[str, ...]:
    """Add what a target says to the pytest command line, so that what a person types still wins.

    :param argv: Pants' pytest command: its shim, `prepended` arguments of a debugger, then those of
        `[pytest].args` and of the command line, then Pants' own.
    :param workers: 0 for none. Pants replaces the placeholder by as many as it has slots for.
    :param is_debug: a person is at the terminal: no other processes under the debugger's feet.
    """
    start = 1 + prepended
    args = [*pytest_args]
    if workers and not is_debug:
        args += ["-n", "{pants_concurrency}"]
    if isolated and not is_debug:
        args.append("--forked")
    return (*argv[:start], *args, *argv[start:])


def process_environment(
    environment: Mapping[str, str],
    *,
    hardware: str,
    fingerprint: str,
    target_env: Mapping[str, str],
    sys_path: Sequence[str] = (),
) -> dict[str, str]:
    """The environment of a test process.

    :param environment: the one that Pants made, with `extra_env_vars`.
    :param sys_path: folders of the sandbox to import from, behind the sources.
    :param fingerprint: empty where results depend on no device. Here it becomes part of the key.
    :param target_env: the target's `env`, which wins.
    """
    ours = {
        # A home per process: what a test finds in the user's `~/.triton` would make its result
        # depend on the machine, and what it left there would make the next one's.
        "HOME": "{chroot}/" + HOME,
        "TRITON_HOME": "{chroot}/" + HOME,
        "TRITON_CACHE_DIR": "{chroot}/" + f"{HOME}/.triton/cache",
        "PANTS_TRITON_HARDWARE": hardware,
    }
    if fingerprint:
        ours["PANTS_TRITON_FINGERPRINT"] = fingerprint
    if not needs_lease(hardware):
        ours.update(_NO_DEVICES)
    if sys_path:
        roots = environment.get("PEX_EXTRA_SYS_PATH", "")
        ours["PEX_EXTRA_SYS_PATH"] = ":".join([*filter(None, [roots]), *sys_path])
    return {**environment, **ours, **target_env}


def needs_lease(hardware: str) -> bool:
    """Whether tests of this hardware hold devices while they run."""
    return hardware in ("cuda", "rocm")


def lease_arguments(
    *,
    hardware: str,
    fingerprint: str,
    devices: int,
    exclusive: bool,
    timeout_s: float | None,
    is_debug: bool,
) -> tuple[str, ...]:
    """The arguments of the hardware agent that runs what follows them while it holds devices.

    :param timeout_s: counted by the agent from when it holds the devices.
    """
    options = [
        f"--lease-dir={SANDBOX_LEASE_DIR}",
        f"--hardware={hardware}",
        f"--fingerprint={fingerprint}",
        f"--devices={devices}",
    ]
    if exclusive:
        options.append("--exclusive")
    if is_debug:
        options.append("--interactive")
    elif timeout_s is not None:
        options.append(f"--timeout={timeout_s}")
    return ("lease", *options, "--")


def leased(
    argv: Sequence[str],
    *,
    hardware: str,
    fingerprint: str,
    devices: int,
    exclusive: bool,
    timeout_s: float | None,
    is_debug: bool,
) -> tuple[str, ...]:
    """The command that runs the pytest command `argv` while it holds devices.

    The agent runs in pytest's own environment: the path of any other Python would be one more thing
    of this machine in the key.

    :param timeout_s: in seconds, counted by the agent from when it holds the devices; Pants would
        count from the start.
    :raises ValueError: `argv` does not begin with Pants' shim for pytest.
    """
    shim = argv[0]
    if not shim.endswith(_PYTEST_SHIM_SUFFIX):
        raise ValueError(f"Pants runs pytest through {shim}, which is not the shim of a venv")
    python = shim[: -len(_PYTEST_SHIM_SUFFIX)] + _PYTHON_SHIM_SUFFIX
    lease = lease_arguments(
        hardware=hardware,
        fingerprint=fingerprint,
        devices=devices,
        exclusive=exclusive,
        timeout_s=timeout_s,
        is_debug=is_debug,
    )
    return (python, SANDBOX_DIR, *lease, *argv)
