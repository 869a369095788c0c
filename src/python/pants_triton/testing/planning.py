"""Which tests can run on a host, and why the others can't."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from pants_triton.hardware.device import Host
from pants_triton.hardware.requirement import Assumed, Missing, Requirement, match


@dataclass(frozen=True)
class Runnable:
    """The test can run here, on devices of one class.

    :param fingerprint: see `DeviceClass.fingerprint`; empty for `cpu`.
    """

    fingerprint: str


@dataclass(frozen=True)
class NotRunnable:
    """The test can't run here; `reason` is one line."""

    reason: str


Plan = Union[Runnable, NotRunnable]


def plan_test(requirement: Requirement, host: Host) -> Plan:
    """What becomes of a test with this requirement on this host. Never runs on assumed devices."""
    matched = match(requirement, host)
    if isinstance(matched, Missing):
        return NotRunnable(matched.reason)
    if isinstance(matched, Assumed):
        return NotRunnable(
            f"it would run on {matched.device_class.arch}, which `[hardware].assume` only assumes"
        )
    return Runnable(matched.fingerprint)
