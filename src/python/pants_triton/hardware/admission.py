"""Which of the processes that wait for devices may take which, and when: the decisions of `lease`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Sequence


@dataclass(frozen=True)
class LeaseRequest:
    """`devices` of the `eligible` ones (uuids, in order of preference), all at once.

    At most `limit` processes share a device, counting the holder itself; an `exclusive` one shares
    with none. Where holders state different limits (concurrent runs with different options) the
    strictest one counts.
    """

    eligible: tuple[str, ...]
    devices: int = 1
    exclusive: bool = False
    limit: int = 1


@dataclass(frozen=True)
class Party:
    """A process that waits (`held` is empty) or holds. Lower `ticket` came first. `since` is Unix
    time."""

    ticket: int
    request: LeaseRequest
    held: tuple[str, ...] = ()
    pid: int = 0
    command: str = ""
    since: float = 0.0


def admit(me: Party, others: Sequence[Party]) -> tuple[str, ...] | None:
    """The devices `me`, who waits, may take now; None if it must go on waiting.

    Waiters are served in the order they came, all devices at once, so nobody holds one device while
    waiting for another (no deadlock). A waiter that can't be served claims the devices it is
    nearest to getting: later waiters pass it only on other devices. So the number of holders on
    claimed devices can only fall, and a stream of sharing tests doesn't starve one that wants a
    device for itself.
    """
    holders: dict[str, list[LeaseRequest]] = {}
    for party in others:
        for uuid in party.held:
            holders.setdefault(uuid, []).append(party.request)
    claimed: set[str] = set()
    waiting = [party for party in others if not party.held and party.ticket < me.ticket]
    for party in [*sorted(waiting, key=lambda p: p.ticket), me]:
        free = [u for u in party.request.eligible if u not in claimed]
        free.sort(key=lambda u: len(holders.get(u, ())))
        open_to = [u for u in free if _may_join(party.request, holders.get(u, ()))]
        chosen = tuple(open_to[: party.request.devices])
        served = len(chosen) == party.request.devices
        if party is me:
            return chosen if served else None
        if served:
            for uuid in chosen:
                holders.setdefault(uuid, []).append(party.request)
        else:
            claimed.update(free[: party.request.devices])
    raise AssertionError("unreachable: `me` ends the loop")


def _may_join(request: LeaseRequest, holders: Sequence[LeaseRequest]) -> bool:
    if request.exclusive:
        return not holders
    limits = [request.limit, *(1 if h.exclusive else h.limit for h in holders)]
    return len(holders) + 1 <= min(limits)


def describe_wait(
    hardware: str, waited_s: float, request: LeaseRequest, others: Sequence[Party], ahead: int
) -> str:
    """What a person reads who wonders why a test doesn't start."""
    lines = [f"waiting for {request.devices} {hardware} device(s) since {waited_s:.0f} s"]
    for party in others:
        for uuid in party.held:
            if uuid in request.eligible:
                since = time.strftime("%H:%M:%S", time.localtime(party.since))
                how = "exclusively" if party.request.exclusive else "shared"
                lines.append(
                    f"{uuid} is held {how} since {since} by pid {party.pid}: {party.command}"
                )
    if ahead:
        lines.append(f"{ahead} processes asked earlier")
    return "; ".join(lines)
