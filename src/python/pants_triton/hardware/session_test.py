from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pants_triton.hardware import recorded
from pants_triton.hardware.device import Host
from pants_triton.hardware.parse import parse_host
from pants_triton.hardware.session import Session, load_session, process_start, save_session

SESSION = Session(
    parse_host(recorded.host(recorded.H100_MIG, environ={"CUDA_VISIBLE_DEVICES": "0"})),
    tests_per_device=3,
)


def only_record(lease_dir: Path) -> Path:
    [record] = (lease_dir / "hosts").iterdir()
    return record


def test_children_of_one_process_share_its_record(tmp_path: Path) -> None:
    save_session(tmp_path, os.getpid(), SESSION)
    assert load_session(tmp_path, os.getpid()) == SESSION


def test_a_later_probe_replaces_the_record(tmp_path: Path) -> None:
    save_session(tmp_path, os.getpid(), SESSION)
    save_session(tmp_path, os.getpid(), Session(Host()))
    assert load_session(tmp_path, os.getpid()) == Session(Host())


def test_no_record(tmp_path: Path) -> None:
    assert load_session(tmp_path, os.getpid()) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"started": null}', '{"host": {}}'])
def test_a_broken_record_is_none(tmp_path: Path, content: str) -> None:
    save_session(tmp_path, os.getpid(), SESSION)
    only_record(tmp_path).write_text(content)
    assert load_session(tmp_path, os.getpid()) is None


def test_records_of_dead_processes_are_removed(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    save_session(tmp_path, process.pid, SESSION)
    process.wait()
    save_session(tmp_path, os.getpid(), SESSION)
    assert only_record(tmp_path).name.endswith(f"-{os.getpid()}.json")


def test_records_of_other_containers_are_left_alone(tmp_path: Path) -> None:
    save_session(tmp_path, os.getpid(), SESSION)
    other = only_record(tmp_path).with_name("4026531836-1.json")
    other.touch()
    save_session(tmp_path, os.getpid(), SESSION)
    assert other.exists()


@pytest.mark.skipif(process_start(os.getpid()) is None, reason="no /proc")
def test_a_record_of_an_earlier_process_with_the_same_pid_is_none(tmp_path: Path) -> None:
    save_session(tmp_path, os.getpid(), SESSION)
    record = only_record(tmp_path)
    started = process_start(os.getpid())
    record.write_text(record.read_text().replace(f'"started": "{started}"', '"started": "1"'))
    assert load_session(tmp_path, os.getpid()) is None
