"""Hardware-tagged tests under the real Pants: planned, skipped, leased, cached, reported."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import Iterator
from xml.etree import ElementTree

import pytest

from e2e.workspace import PantsRun, Workspace, workspace

# What the test process sees, written where Pants collects extra output.
_WITNESS = """\
import json
import os
from pathlib import Path


def test_witness() -> None:
    Path("extra-output").mkdir(exist_ok=True)
    Path("extra-output/env.json").write_text(json.dumps(dict(os.environ)))
"""


@pytest.fixture(scope="module")
def shared_workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with workspace(tmp_path_factory.mktemp("workspace")) as ws:
        yield ws


@pytest.fixture
def ws(shared_workspace: Workspace) -> Workspace:
    """The shared workspace, without what another test left in it."""
    for path in sorted(shared_workspace.root.glob("t/**/*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    for path in shared_workspace.root.glob("tools/*"):
        path.unlink()
    shutil.rmtree(shared_workspace.root / "dist", ignore_errors=True)
    return shared_workspace


def pants_in_ci(ws: Workspace, *args: str, cwd: str = ".") -> PantsRun:
    """Run as CI does: with this repository's own pants.ci.toml."""
    return ws.pants(*args, env={"PANTS_CONFIG_FILES": str(ws.root / "pants.ci.toml")}, cwd=cwd)


DEVICE_TARGETS = {
    "t/BUILD": """\
        triton_tests(name="device", hardware=parametrize("cuda", "rocm"))
        triton_tests(name="cpu")
        """,
    "t/a_test.py": _WITNESS,
}


def witness_of(ws: Workspace, target: str) -> dict[str, str]:
    [path] = ws.root.glob(f"dist/test/{target}/env.json")
    env: dict[str, str] = json.loads(path.read_text())
    return env


def test_without_the_hardware_tests_are_skipped_by_name(ws: Workspace) -> None:
    ws.write(DEVICE_TARGETS)
    run = ws.pants("--tag=cuda,rocm", "test", "--report", "::")
    assert run.exit_code == 0, run.output
    for hardware in ("cuda", "rocm"):
        assert f"t/a_test.py:device@hardware={hardware} skipped: needs {hardware}" in run.output
    # Nothing is built for them.
    assert "requirements.pex" not in run.output
    assert "pytest.pex" not in run.output
    # The last lines say that nothing ran.
    last_lines = run.output.strip().splitlines()[-4:]
    assert last_lines[0].endswith("cuda: NONE of 1 test file run.")
    assert last_lines[2] == "rocm: NONE of 1 test file run."

    report = ws.root / "dist/test/reports/t.a_test.py.device@@hardware=cuda.xml"
    [case] = ElementTree.parse(report).getroot().iter("testcase")
    assert [child.tag for child in case] == ["skipped"]


def test_a_lane_without_its_hardware_is_red_in_ci(ws: Workspace) -> None:
    ws.write(DEVICE_TARGETS)
    run = pants_in_ci(ws, "test", "--tag=cuda", "::")
    assert run.exit_code == 1
    assert "t/a_test.py:device@hardware=cuda can't run: needs cuda: no nvidia-smi" in run.output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param(["--tag=cdua", "test", "::"], "Did you mean `cuda`?", id="misspelt tag"),
        pytest.param(
            ["--tag=cuda,rocmm", "test", "::"], "Did you mean `rocm`?", id="one of two misspelt"
        ),
        pytest.param(
            ["--tag=cuda", "test", "t:device"], "name its folder with `::`", id="literal generator"
        ),
        pytest.param(
            ["--tag=cuda", "test", "t:device", "t::"], "`::` instead", id="literal beside a glob"
        ),
        pytest.param(
            ["--tag=cpu", "test", "t/c_test.py", "t::"], "no target of it", id="file of other tag"
        ),
        pytest.param(["test", "tools::"], "selects no test", id="no test"),
        pytest.param(["--tag=cuda", "test"], "No test is selected", id="nothing typed"),
    ],
)
def test_an_empty_selection_is_red_in_ci(ws: Workspace, args: list[str], message: str) -> None:
    ws.write(
        {
            "t/BUILD": """\
                triton_tests(
                    name="device", sources=["[ac]_test.py"], hardware=parametrize("cuda", "rocm")
                )
                triton_tests(name="cpu", sources=["a_test.py"])
                """,
            "t/a_test.py": _WITNESS,
            "t/c_test.py": _WITNESS,
            "tools/BUILD": "files(sources=['*.txt'])",
            "tools/a.txt": "",
        }
    )
    run = pants_in_ci(ws, *args)
    assert run.exit_code == 1, run.output
    assert message in run.output
    assert "Traceback" not in run.output


def test_specs_are_relative_to_where_one_stands(ws: Workspace) -> None:
    ws.write(DEVICE_TARGETS)
    run = pants_in_ci(ws, "--tag=cuda", "test", ":device", cwd="t")
    assert run.exit_code == 1
    assert "`--tag=cuda :device` selects no test" in run.output


def test_nothing_changed_is_no_mistake_in_ci(ws: Workspace) -> None:
    ws.write(DEVICE_TARGETS)
    ws.git("add", "--all")
    ws.git("commit", "--quiet", "--message=base")
    run = pants_in_ci(ws, "--tag=cuda,rocm", "--changed-since=HEAD", "test")
    assert run.exit_code == 0, run.output


def test_debug_holds_a_device_too(ws: Workspace) -> None:
    ws.write(DEVICE_TARGETS)
    ws.install_nvidia()
    run = ws.pants("test", "--debug", "t/a_test.py:device@hardware=cuda", "--", "-k", "witness")
    assert run.exit_code == 0, run.output
    assert "1 passed" in run.output


def test_batches(ws: Workspace) -> None:
    ws.write(
        {
            "t/BUILD": """\
                triton_tests(
                    hardware=parametrize("cuda", "rocm"),
                    batch_compatibility_tag="together",
                )
                """,
            "t/a_test.py": "def test_a(): pass",
            "t/b_test.py": "def test_b(): pass",
        }
    )
    ws.install_nvidia()
    run = ws.pants("test", "--output=all", "t::")
    assert run.exit_code == 0, run.output
    assert "t/a_test.py@hardware=cuda and 1 other files succeeded" in run.output
    assert "2 passed" in run.output
    for name in ("a", "b"):
        assert f"t/{name}_test.py@hardware=rocm skipped: needs rocm" in run.output


def test_debug_of_a_skipped_test_says_so(ws: Workspace) -> None:
    ws.write(DEVICE_TARGETS)
    run = ws.pants("--tag=cuda", "test", "--debug", "t::")
    assert run.exit_code == 0
    assert "t/a_test.py:device@hardware=cuda skipped: needs cuda" in run.output


def test_a_device_is_leased_and_fingerprinted(ws: Workspace) -> None:
    ws.write(DEVICE_TARGETS)
    ws.install_nvidia(devices=2)
    narrowed = {"CUDA_VISIBLE_DEVICES": "1"}
    run = ws.pants("--tag=cuda", "test", "t::", env=narrowed)
    assert run.exit_code == 0, run.output
    env = witness_of(ws, "t.a_test.py.device@@hardware=cuda")
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-00000001-1111-2222-3333-444444444444"
    assert env["ROCR_VISIBLE_DEVICES"] == ""
    assert env["PANTS_TRITON_HARDWARE"] == "cuda"
    assert env["PANTS_TRITON_FINGERPRINT"] == (
        "cuda sm_90 | NVIDIA H100 80GB HBM3 | 81559 MiB | driver 550.54.15"
    )

    # Another device of the same class is a hit: its number is in no key.
    again = ws.pants("--no-pantsd", "--tag=cuda", "test", "t::")
    assert "t/a_test.py:device@hardware=cuda succeeded" in again.output
    assert "(cached locally)" in again.output

    # Another driver is not, nor is the old one's result lost.
    ws.install_nvidia(driver="560.28.03")
    updated = ws.pants("--tag=cuda", "test", "t::")
    assert "succeeded in" in updated.output
    assert "cached" not in updated.output and "memoized" not in updated.output
    ws.install_nvidia(driver="550.54.15")
    back = ws.pants("--tag=cuda", "test", "t::")
    assert "(cached locally)" in back.output or "(memoized)" in back.output

    # Nor is another device.
    ws.install_nvidia(name="NVIDIA H200", memory_mib=143771)
    assert "cached" not in ws.pants("--tag=cuda", "test", "t::").output

    # Without the device, the old results are not replayed.
    for path in ws.root.glob("tools/*"):
        path.unlink()
    gone = ws.pants("--tag=cuda", "test", "t::")
    assert "skipped: needs cuda" in gone.output
    assert "succeeded" not in gone.output


def test_a_cpu_test_knows_nothing_of_devices_or_of_the_user(ws: Workspace, tmp_path: Path) -> None:
    ws.write(DEVICE_TARGETS)
    ws.install_nvidia()
    run = ws.pants("--tag=cpu", "test", "t::")
    assert run.exit_code == 0, run.output
    env = witness_of(ws, "t.a_test.py.cpu")
    assert env["CUDA_VISIBLE_DEVICES"] == env["ROCR_VISIBLE_DEVICES"] == ""
    assert "PANTS_TRITON_FINGERPRINT" not in env
    homes = {name: Path(env[name]) for name in ("HOME", "TRITON_HOME", "TRITON_CACHE_DIR")}
    sandbox = homes["HOME"].parent
    assert sandbox != Path.home()
    assert all(sandbox in path.parents for path in homes.values())

    # It is the same test on a host with other devices, and for a user with another environment.
    ws.install_nvidia(driver="560.28.03")
    assert "(memoized)" in ws.pants("--tag=cpu", "test", "t::").output
    other_user = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LANG": "de_DE.UTF-8"}
    other = ws.pants("--no-pantsd", "--tag=cpu", "test", "t::", env=other_user)
    assert "(cached locally)" in other.output


def test_fields_reach_pytest(ws: Workspace) -> None:
    ws.write(
        {
            "t/BUILD": """\
                triton_tests(
                    sources=["a_test.py"],
                    env={"GREETING": "hello"},
                    pytest_args=["-m", "not slow", "-p", "no:cacheprovider"],
                    workers=2,
                )
                triton_tests(name="isolated", sources=["isolated_test.py"], isolated=True)
                triton_tests(name="timeout", sources=["timeout_test.py"], timeout=1, tags=["slow"])
                """,
            "t/a_test.py": """\
                import os
                import pytest

                def test_env():
                    assert os.environ["GREETING"] == "hello"

                def test_is_in_a_worker():
                    assert os.environ["PYTEST_XDIST_WORKER"].startswith("gw")

                @pytest.mark.slow
                def test_deselected():
                    assert False
                """,
            "t/isolated_test.py": """\
                import os

                def test_ends_its_process():
                    os._exit(3)

                def test_another():
                    pass

                def test_a_third():
                    pass
                """,
            "t/timeout_test.py": """\
                import time

                def test_sleeps():
                    time.sleep(60)
                """,
        }
    )
    run = ws.pants("test", "--output=all", "t:t")
    assert run.exit_code == 0, run.output
    assert "2 passed" in run.output
    crashed = ws.pants("test", "t:isolated")
    assert crashed.exit_code == 1
    assert "1 failed, 2 passed" in crashed.output
    timed_out = ws.pants("test", "t:timeout")
    assert timed_out.exit_code != 0
    assert "timeout" in timed_out.output.lower() or "timed out" in timed_out.output.lower()
    selected = ws.pants("test", "--output=all", "t:t", "--", "-k", "test_env")
    assert selected.exit_code == 0, selected.output
    assert "1 passed" in selected.output
    # What is typed wins over what the target says.
    typed = ws.pants("test", "t:t", "--", "-m", "slow", "-n0")
    assert typed.exit_code == 1
    assert "test_deselected" in typed.output and "gw0" not in typed.output


def test_a_device_test_times_out_by_its_lease(ws: Workspace) -> None:
    ws.write(
        {
            "t/BUILD": "triton_tests(hardware='cuda', timeout=1)",
            "t/a_test.py": "import time\n\ndef test_sleeps():\n    time.sleep(60)\n",
        }
    )
    ws.install_nvidia()
    run = ws.pants("test", "--report", "t::")
    assert run.exit_code != 0
    assert "timed out after 1 s" in run.output
    # pytest says where it was, and the report names the file.
    assert "KeyboardInterrupt" in run.output
    [report] = ws.root.glob("dist/test/reports/t.a_test.py*.xml")
    [case] = ElementTree.parse(report).getroot().iter("testcase")
    assert case.get("name") == "t/a_test.py"
    assert [child.tag for child in case] == ["error"]


def test_coverage_and_shards(ws: Workspace) -> None:
    ws.write(
        {
            "t/BUILD": "python_sources()\ntriton_tests(name='tests')",
            "t/lib.py": "def double(x):\n    return 2 * x\n",
            "t/a_test.py": "from t.lib import double\n\ndef test_a():\n    assert double(2) == 4\n",
            "t/b_test.py": "def test_b():\n    pass\n",
        }
    )
    run = ws.pants("test", "--use-coverage", "t::")
    assert run.exit_code == 0, run.output
    assert "t/lib.py" in run.output and "100%" in run.output
    shards = [ws.pants("test", f"--shard={k}/2", "t::").output for k in (0, 1)]
    for name in ("t/a_test.py:tests succeeded", "t/b_test.py:tests succeeded"):
        assert sum(name in output for output in shards) == 1


def test_an_edit_reruns_only_the_tests_of_what_was_edited(ws: Workspace) -> None:
    ws.write(
        {
            "t/BUILD": "python_sources()\ntriton_tests(name='tests')",
            "t/a.py": "A = 1\n",
            "t/b.py": "B = 1\n",
            "t/a_test.py": "from t.a import A\n\ndef test_a():\n    assert A\n",
            "t/b_test.py": "from t.b import B\n\ndef test_b():\n    assert B\n",
        }
    )
    assert ws.pants("test", "t::").exit_code == 0
    again = ws.pants("test", "t::").output
    assert again.count("(memoized)") == 2
    ws.write({"t/a.py": "A = 2\n"})
    edited = ws.pants("test", "t::").output
    summary = {line.split()[1]: line for line in edited.splitlines() if " succeeded in " in line}
    assert "(memoized)" not in summary["t/a_test.py:tests"]
    assert "(memoized)" in summary["t/b_test.py:tests"]


def test_a_lock_with_a_wrong_hash(ws: Workspace) -> None:
    wheel = ws.root / "wheels/onefile-1.0-py3-none-any.whl"
    wheel.parent.mkdir(exist_ok=True)
    info = "onefile-1.0.dist-info"
    members = {
        "onefile.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: onefile\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    members[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*members, f"{info}/RECORD"))
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    right = hashlib.sha256(wheel.read_bytes()).hexdigest()
    ws.write(
        {
            "t/BUILD": """\
                python_requirement(name="onefile", requirements=["onefile==1.0"])
                triton_tests(name="tests")
                """,
            "t/a_test.py": "import onefile\n\ndef test_a():\n    pass\n",
            "t/lock.txt": f"onefile==1.0 --hash=sha256:{'0' * 64}\n",
        }
    )
    options = [
        "--python-enable-resolves",
        "--python-resolves={'python-default': 't/lock.txt'}",
        "--no-python-resolves-generate-lockfiles",
        "--python-repos-indexes=[]",
        f"--python-repos-find-links=['file://{wheel.parent}']",
    ]
    wrong = ws.pants(*options, "test", "t::")
    assert wrong.exit_code == 1
    assert "t/lock.txt" in wrong.output and "DO NOT MATCH THE HASHES" in wrong.output
    assert "onefile==1.0" in wrong.output

    ws.write({"t/lock.txt": f"onefile==1.0 --hash=sha256:{right}\n"})
    mended = ws.pants(*options, "test", "t::")
    assert mended.exit_code == 0, mended.output


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param('hardware="cdua"', "Did you mean 'cuda'?", id="misspelt hardware"),
        pytest.param('hardware="rocm", arch="sm_90"', "belongs to hardware `cuda`", id="vendor"),
        pytest.param('hardware=["cuda", "rocm"]', "parametrize(", id="list"),
        pytest.param('hardware="cuda", devices=0', "at least 1", id="no devices"),
    ],
)
def test_bad_fields_name_the_target(ws: Workspace, fields: str, message: str) -> None:
    ws.write({"t/BUILD": f"triton_tests({fields})", "t/a_test.py": ""})
    run = ws.pants("test", "t::")
    assert run.exit_code == 1
    assert re.search(r"\bt:t\b|t/a_test\.py", run.output) and message in run.output
    assert "Traceback" not in run.output


def test_lint_compares_a_file_with_all_its_owners(ws: Workspace) -> None:
    ws.write(
        {
            "t/BUILD": "triton_tests(hardware='cuda')",
            "t/a_test.py": """\
                import pytest
                from lib import is_hip

                @pytest.mark.skipif(not is_hip(), reason="AMD only")
                def test_mfma():
                    pass
                """,
        }
    )
    run = ws.pants("--tag=cuda", "lint", "--only=hardware-markers", "t::")
    assert run.exit_code == 1
    assert "t/a_test.py:5: `test_mfma` is skipped wherever" in run.output
    ws.write({"t/BUILD": "triton_tests(hardware=parametrize('cuda', 'rocm'))"})
    run = ws.pants("--tag=cuda", "lint", "--only=hardware-markers", "t::")
    assert run.exit_code == 0, run.output


def test_the_goal_hardware(ws: Workspace) -> None:
    ws.install_nvidia()
    table = ws.pants("hardware")
    assert table.exit_code == 0
    assert "NVIDIA H100 80GB HBM3" in table.output
    document = json.loads(ws.pants("--level=error", "hardware", "--format=json").output)
    assert [d["arch"] for d in document["devices"]] == ["sm_90"]
    assumed = ws.pants("hardware", "--assume=rocm:gfx942x2")
    assert "gfx942" in assumed.output
    bad = ws.pants("hardware", "--assume=rocm:gfx9420")
    assert bad.exit_code == 1
    assert "[hardware].assume" in bad.output
    for option in ("tests-per-device", "tool-timeout"):
        bad = ws.pants("hardware", f"--{option}=0")
        assert bad.exit_code == 1
        assert f"`[hardware].{option.replace('-', '_')}` must be at least 1" in bad.output
