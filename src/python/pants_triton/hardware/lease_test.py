"""The lease folder. Real processes are in `lease_integration_test`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pants_triton.hardware.admission import LeaseRequest
from pants_triton.hardware.lease import LeaseQueue, installed_torch_version


def exclusive(eligible: str = "AB", devices: int = 1) -> LeaseRequest:
    return LeaseRequest(tuple(eligible), devices, True, 1)


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
