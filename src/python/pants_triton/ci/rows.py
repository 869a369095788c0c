"""Which spans of time can be drawn in one line."""

from __future__ import annotations

import heapq
from typing import Sequence


def assign_rows(spans: Sequence[tuple[float, float]]) -> list[int]:
    """The row of each span, counted from 0, so that none meets another in its row.

    :param spans: starts and ends, ordered by start. The lowest free row is taken, so that there
        are as many rows as spans at once.
    """
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    rows = []
    count = 0
    for start, end in spans:
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            row = heapq.heappop(free)
        else:
            row, count = count, count + 1
        rows.append(row)
        heapq.heappush(busy, (end, row))
    return rows
