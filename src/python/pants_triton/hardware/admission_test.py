from __future__ import annotations

import pytest

from pants_triton.hardware.admission import LeaseRequest, Party, admit, describe_wait


def shared(limit: int = 2, eligible: str = "AB", devices: int = 1) -> LeaseRequest:
    return LeaseRequest(tuple(eligible), devices, False, limit)


def exclusive(eligible: str = "AB", devices: int = 1) -> LeaseRequest:
    return LeaseRequest(tuple(eligible), devices, True, 1)


def holding(held: str, request: LeaseRequest) -> Party:
    return Party(0, request, tuple(held))


def waiting(ticket: int, request: LeaseRequest) -> Party:
    return Party(ticket, request)


@pytest.mark.parametrize(
    "request_, others, granted",
    [
        pytest.param(shared(), [], "A", id="a free device"),
        pytest.param(shared(), [holding("A", shared())], "B", id="the least loaded device"),
        pytest.param(
            shared(eligible="A"), [holding("A", shared())], "A", id="shared up to the limit"
        ),
        pytest.param(
            shared(eligible="A"), [holding("A", shared())] * 2, None, id="not beyond the limit"
        ),
        pytest.param(
            shared(4, "A"), [holding("A", shared(1))], None, id="the holder's limit is stricter"
        ),
        pytest.param(
            shared(1, "A"), [holding("A", shared(4))], None, id="the newcomer's limit is stricter"
        ),
        pytest.param(exclusive(), [holding("A", shared())], "B", id="exclusive: an empty device"),
        pytest.param(exclusive("A"), [holding("A", shared(4))], None, id="exclusive shares not"),
        pytest.param(shared(4, "A"), [holding("A", exclusive())], None, id="nor is it joined"),
        pytest.param(shared(devices=2), [], "AB", id="two devices at once"),
        pytest.param(
            exclusive("ABC", 2), [holding("B", shared())], "AC", id="two devices of three"
        ),
        pytest.param(
            exclusive(devices=2), [holding("B", shared())], None, id="all devices or none"
        ),
    ],
)
def test_devices_among_holders(
    request_: LeaseRequest, others: list[Party], granted: str | None
) -> None:
    expected = None if granted is None else tuple(granted)
    assert admit(waiting(9, request_), others) == expected


@pytest.mark.parametrize(
    "me, others, granted",
    [
        pytest.param(
            waiting(2, shared(4, "A")),
            [holding("A", shared(4)), waiting(1, exclusive("A"))],
            None,
            id="a sharer doesn't overtake an exclusive waiter",
        ),
        pytest.param(
            waiting(2, shared(4)),
            [holding("A", shared(4)), holding("B", shared(4)), holding("B", shared(4))]
            + [waiting(1, exclusive())],
            "B",
            id="except on a device which that waiter isn't nearest to getting",
        ),
        pytest.param(
            waiting(1, exclusive("A")),
            [waiting(2, shared(4, "A"))],
            "A",
            id="who came later doesn't matter",
        ),
        pytest.param(
            waiting(2, shared(1, "AB")),
            [waiting(1, shared(1, "AB"))],
            "B",
            id="who came earlier and can be served has its device, though it didn't ask yet",
        ),
        pytest.param(
            waiting(2, exclusive("AB")),
            [holding("A", shared()), waiting(1, exclusive("AB", 2))],
            None,
            id="a waiter for two devices keeps both",
        ),
    ],
)
def test_turns(me: Party, others: list[Party], granted: str | None) -> None:
    assert admit(me, others) == (None if granted is None else tuple(granted))


def test_what_a_waiting_person_reads() -> None:
    holder = Party(1, exclusive(), ("A",), pid=42, command="pytest test_x.py", since=0)
    text = describe_wait("cuda", 61.2, shared(), [holder], ahead=3)
    assert text.startswith("waiting for 1 cuda device(s) since 61 s; A is held exclusively since ")
    assert text.endswith("by pid 42: pytest test_x.py; 3 processes asked earlier")
