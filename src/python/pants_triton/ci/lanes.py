"""Which spans of time can be drawn in one line."""

from __future__ import annotations

import heapq
from typing import Sequence


def assign_lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """The lane of each span, counted from 0, so that none meets another in its lane.

    :param spans: starts and ends, ordered by start. The lowest free lane is taken, so that there
        are as many lanes as spans at once.
    """
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    lanes = []
    count = 0
    for start, end in spans:
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, count = count, count + 1
        lanes.append(lane)
        heapq.heappush(busy, (end, lane))
    return lanes
