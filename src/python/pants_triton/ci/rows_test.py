from __future__ import annotations

import random

from pants_triton.ci.rows import assign_rows


def test_lowest_free_lane() -> None:
    spans = [(0, 4), (1, 2), (1, 3), (2, 5), (3, 4), (4, 6)]
    assert assign_rows([(float(a), float(b)) for a, b in spans]) == [0, 1, 2, 1, 2, 0]


def test_no_two_meet() -> None:
    random.seed(1)
    spans = sorted(
        (start := random.random() * 100, start + random.random() * 5) for _ in range(500)
    )
    rows = assign_rows(spans)
    for row in set(rows):
        own = [span for span, of in zip(spans, rows) if of == row]
        assert all(end <= start for (_, end), (start, _) in zip(own, own[1:]))
    most = max(sum(a <= start < b for a, b in spans) for start, _ in spans)
    assert max(rows) + 1 == most
