"""Who gets which device when. Real processes are in `lease_integration_test`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pants_triton.hardware import recorded
from pants_triton.hardware.device import Host, MachineTorch
from pants_triton.hardware.lease import (
    LeaseQueue,
    LeaseRequest,
    Party,
    admit,
    describe_wait,
    device_environment,
    installed_torch_version,
)
from pants_triton.hardware.parse import parse_host


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


def devices(nvidia: Any = None, amd: Any = None) -> Host:
    return parse_host(recorded.host(nvidia, amd))


def test_environment_for_cuda() -> None:
    two = devices(recorded.FOUR_A100).devices[2:]
    environ = {"CUDA_VISIBLE_DEVICES": "0", "PATH": "/bin", "GPU_DEVICE_ORDINAL": "3"}
    assert device_environment("cuda", two, None, environ) == {
        "PATH": "/bin",
        "CUDA_VISIBLE_DEVICES": f"{recorded.uuid(2)},{recorded.uuid(3)}",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "ROCR_VISIBLE_DEVICES": "",
        "HIP_VISIBLE_DEVICES": "-1",
    }


def test_environment_for_rocm_counts_hip_from_zero() -> None:
    two = devices(amd=recorded.TWO_MI250).devices[2:]
    assert device_environment("rocm", two, None, {}) == {
        "CUDA_VISIBLE_DEVICES": "",
        "ROCR_VISIBLE_DEVICES": "GPU-124d13ccd7b05004,GPU-124d13ccd7b05005",
        "HIP_VISIBLE_DEVICES": "0,1",
    }


def test_the_machines_torch_comes_last_on_the_path() -> None:
    torch = MachineTorch("2.5.1+rocm6.2", "6.2", "3.10", "/machine")
    one = devices(amd=recorded.TWO_MI250).devices[:1]
    environ = device_environment("rocm", one, torch, {"PEX_EXTRA_SYS_PATH": "/test"})
    assert environ["PEX_EXTRA_SYS_PATH"] == f"/test{os.pathsep}/machine"


@pytest.mark.parametrize(
    "text, version",
    [
        pytest.param("__version__ = '2.5.1+rocm6.2'\nhip: Optional[str] = '6.2'", "2.5.1+rocm6.2"),
        pytest.param('__all__ = []\n__version__: str = "2.7.0"\n', "2.7.0"),
        pytest.param("nothing", None),
        pytest.param(None, None),
    ],
)
def test_installed_torch_version(tmp_path: Path, text: str | None, version: str | None) -> None:
    if text is not None:
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch/version.py").write_text(text)
    assert installed_torch_version(tmp_path) == version


def test_what_a_waiting_person_reads() -> None:
    holder = Party(1, exclusive(), ("A",), pid=42, command="pytest test_x.py", since=0)
    text = describe_wait("cuda", 61.2, shared(), [holder], ahead=3)
    assert text.startswith("waiting for 1 cuda device(s) since 61 s; A is held exclusively since ")
    assert text.endswith("by pid 42: pytest test_x.py; 3 processes asked earlier")


def test_a_lease_is_gone_when_its_block_ends(tmp_path: Path) -> None:
    queue = LeaseQueue(tmp_path)
    for _ in range(2):
        with queue.lease(exclusive("A"), "pytest") as lease:
            assert lease.held == ("A",)
    assert list((tmp_path / "queue").iterdir()) == []


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"held": ["A"]}'])
def test_what_a_file_says_counts_for_nothing_unless_it_is_locked(
    tmp_path: Path, content: str
) -> None:
    queue = LeaseQueue(tmp_path)
    leftover = tmp_path / "queue/1-dead.json"
    leftover.write_text(content)
    with queue.lease(exclusive("A"), "pytest"):
        assert not leftover.exists()
