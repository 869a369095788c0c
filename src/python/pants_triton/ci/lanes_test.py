from __future__ import annotations

import random

from pants_triton.ci.lanes import assign_lanes


def test_lowest_free_lane() -> None:
    spans = [(0, 4), (1, 2), (1, 3), (2, 5), (3, 4), (4, 6)]
    assert assign_lanes([(float(a), float(b)) for a, b in spans]) == [0, 1, 2, 1, 2, 0]


def test_no_two_meet() -> None:
    random.seed(1)
    spans = sorted(
        (start := random.random() * 100, start + random.random() * 5) for _ in range(500)
    )
    lanes = assign_lanes(spans)
    for lane in set(lanes):
        own = [span for span, of in zip(spans, lanes) if of == lane]
        assert all(end <= start for (_, end), (start, _) in zip(own, own[1:]))
    most = max(sum(a <= start < b for a, b in spans) for start, _ in spans)
    assert max(lanes) + 1 == most
