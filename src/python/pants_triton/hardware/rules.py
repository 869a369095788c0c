"""How the engine finds this host's devices, and what test processes get of them."""

from __future__ import annotations

import json
import logging
import os.path
from dataclasses import dataclass, field
from typing import Iterable

from pants.engine.console import Console
from pants.engine.env_vars import EnvironmentVars, EnvironmentVarsRequest
from pants.engine.fs import Digest
from pants.engine.goal import Goal
from pants.engine.process import Process, ProcessCacheScope, ProcessResult
from pants.engine.rules import Get, collect_rules, goal_rule, rule
from pants.util.frozendict import FrozenDict
from pants.util.logging import LogLevel

from pants_triton.hardware.agent import AGENT_MODULES, SANDBOX_DIR, SANDBOX_LEASE_DIR
from pants_triton.hardware.device import Host, host_from_json
from pants_triton.hardware.probe import NARROWING_VARIABLES
from pants_triton.hardware.render import render_json, render_table
from pants_triton.hardware.requirement import RequirementError, assume_devices
from pants_triton.hardware.subsystem import HardwareOptionError, HardwareSubsystem, ReportFormat
from pants_triton.program.rules import Program, ProgramPython, ProgramRequest

# Devices are leased through files in this append-only cache: all Pants runs of a user see the same
# folder, and its path is in no cache key.
LEASE_CACHE = FrozenDict({"pants_triton_leases": SANDBOX_LEASE_DIR})


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HardwareAgent:
    """The program that probes the host and leases devices, for `immutable_input_digests`.

    Run it as `python {SANDBOX_DIR} probe …` or `python {SANDBOX_DIR} lease … -- argv`.
    """

    digest: Digest

    @property
    def immutable_input_digests(self) -> FrozenDict[str, Digest]:
        return FrozenDict({SANDBOX_DIR: self.digest})


@rule
async def package_hardware_agent() -> HardwareAgent:
    assert __package__ is not None
    program = await Get(Program, ProgramRequest(__package__, AGENT_MODULES, main="agent"))
    return HardwareAgent(program.digest)


@dataclass(frozen=True)
class ProbedHost:
    """What this host has, found once in each run of Pants."""

    host: Host = field(hash=False)


def _expand_search_path(entries: Iterable[str], path_variable: str) -> list[str]:
    return [
        directory
        for entry in entries
        for directory in (path_variable.split(os.pathsep) if entry == "<PATH>" else [entry])
        if directory
    ]


@rule(desc="Find this host's devices", level=LogLevel.DEBUG)
async def probe_host(
    hardware: HardwareSubsystem, python: ProgramPython, agent: HardwareAgent
) -> ProbedHost:
    for name, value in (
        ("tests_per_device", hardware.tests_per_device),
        ("tool_timeout", hardware.tool_timeout),
    ):
        if value < 1:
            raise HardwareOptionError(
                f"The option `[hardware].{name}` must be at least 1, but is {value}."
            )
    # Test processes don't see what a user narrows the visible devices with, or the same device
    # under another number would be another cache key: the probe tells them.
    env = await Get(EnvironmentVars, EnvironmentVarsRequest(["PATH", "HOME", *NARROWING_VARIABLES]))
    search_path = _expand_search_path(hardware.tool_search_path, env.get("PATH", ""))
    result = await Get(
        ProcessResult,
        Process(
            argv=(
                python.path.path,
                SANDBOX_DIR,
                "probe",
                f"--search-path={os.pathsep.join(search_path)}",
                f"--timeout={hardware.tool_timeout}",
                f"--torch-pythons={os.pathsep.join(hardware.torch_pythons)}",
                f"--lease-dir={SANDBOX_LEASE_DIR}",
                f"--tests-per-device={hardware.tests_per_device}",
            ),
            env=env,
            immutable_input_digests=agent.immutable_input_digests,
            append_only_caches=LEASE_CACHE,
            description="Find this host's devices",
            level=LogLevel.DEBUG,
            # Devices come and go while a daemon lives, and what a rule reads is remembered for the
            # daemon's life: so this is a process, and one that is never cached.
            cache_scope=ProcessCacheScope.PER_SESSION,
        ),
    )
    probed = json.loads(result.stdout)
    if probed["record_error"]:
        logger.warning(
            f"Tests can't be given devices: {probed['record_error']}. See whether Pants' "
            "`named_caches_dir` can be written."
        )
    host = host_from_json(probed["host"])
    try:
        return ProbedHost(assume_devices(host, hardware.assume))
    except RequirementError as e:
        raise HardwareOptionError(f"In the option `[hardware].assume`: {e}") from None


class HardwareGoal(Goal):
    subsystem_cls = HardwareSubsystem
    environment_behavior = Goal.EnvironmentBehavior.LOCAL_ONLY


@goal_rule
async def show_hardware(
    console: Console, hardware: HardwareSubsystem, probed: ProbedHost
) -> HardwareGoal:
    render = render_json if hardware.format is ReportFormat.JSON else render_table
    with hardware.output(console) as write:
        write(render(probed.host))
    return HardwareGoal(exit_code=0)


def rules():
    return collect_rules()
