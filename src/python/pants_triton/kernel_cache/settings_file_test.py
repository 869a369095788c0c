from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from pants_triton.kernel_cache.settings_file import leave_settings, settings_path


def test_each_process_leaves_its_own_and_removes_those_of_the_dead(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    folder = tmp_path / "not" / "yet"
    for pid in (dead.pid, os.getppid(), os.getpid()):
        leave_settings(folder, pid, {"address": str(pid)})
    assert sorted(folder.iterdir()) == sorted(
        settings_path(folder, pid) for pid in (os.getpid(), os.getppid())
    )
    leave_settings(folder, os.getpid(), {"address": "another"})
    content = settings_path(folder, os.getpid()).read_text()
    assert json.loads(content) == {"address": "another"}
