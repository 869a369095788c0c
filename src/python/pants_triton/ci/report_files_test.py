from __future__ import annotations

import os
from pathlib import Path

import pytest

from pants_triton.ci.report_files import append_summary, report_name, write_report


def test_name() -> None:
    run_id = "pants_run_2026_12_01_12_40_45_173_cb205f37c536461aa9dff3ea2783a9b7"
    assert report_name(1_796_128_811.5, run_id) == "20261201T124011Z-cb205f37"


def name(number: int) -> str:
    return f"20261201T1240{number:02}Z-00000000"


def test_writes_and_links(tmp_path: Path) -> None:
    folder = tmp_path / "dist/run-report"
    report = write_report(folder, name(1), {"a.txt": "é"}, keep=10)
    assert report == folder / name(1)
    assert (folder / "latest/a.txt").read_text(encoding="utf-8") == "é"
    write_report(folder, name(2), {"a.txt": "new"}, keep=10)
    assert (folder / "latest/a.txt").read_text() == "new"
    assert sorted(os.listdir(folder)) == [name(1), name(2), "latest"]


def test_removes_the_oldest_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "20260101T000000Z-mine").mkdir()
    (tmp_path / "notes.txt").write_text("")
    for number in range(5):
        write_report(tmp_path, name(number), {"a": ""}, keep=2)
    assert sorted(os.listdir(tmp_path)) == [
        *("20260101T000000Z-mine", name(3), name(4), "latest", "notes.txt")
    ]
    write_report(tmp_path, name(5), {"a": ""}, keep=0)
    assert name(3) in os.listdir(tmp_path)


def test_a_report_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        write_report(tmp_path / "dist", name(1), {"fits": "", "not/there": ""}, keep=1)
    assert os.listdir(tmp_path / "dist") == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        write_report(tmp_path / "file", name(1), {"a": ""}, keep=1)


def test_what_is_no_unicode_is_written_all_the_same(tmp_path: Path) -> None:
    # As from a path of other bytes.
    report = write_report(tmp_path, name(1), {"a": "\udcff"}, keep=1)
    append_summary(tmp_path / "summary", "\udcff")
    assert (report / "a").read_text() == (tmp_path / "summary").read_text() == "\\udcff"
