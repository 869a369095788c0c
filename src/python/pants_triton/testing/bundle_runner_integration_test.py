"""A bundle's program, run as a person runs it. Its packages are those of the Python of this test."""

from __future__ import annotations

import hashlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Mapping
from xml.etree import ElementTree

import pytest

from pants_triton.testing import bundle_rules
from pants_triton.testing.bundle_manifest import (
    MANIFEST,
    PEXES,
    PROGRAM,
    BundledTest,
    HardwareSettings,
    Manifest,
    TreeEntry,
)
from pants_triton.testing.bundle_sandbox import blob_path

# Stands for the environment that a PEX unpacks: this Python's own.
_PEX = """\
import sys
import types
assert sys.argv[1] == "-c"
sys.prefix = {prefix!r}
exec(sys.argv[2])
"""
_VENV = """\
#!{python}
import os
import sys
sys.path[:0] = {path!r}
sys.path += filter(None, os.environ.get("PEX_EXTRA_SYS_PATH", "").split(os.pathsep))
import pytest
sys.exit(pytest.console_main())
"""
_START = """\
import sys
from pathlib import Path
sys.path.insert(0, {program!r})
from pants_triton.testing.bundle_runner import run_bundle
sys.exit(run_bundle(sys.argv[1:], Path({bundle!r})))
"""

# Two equal boards; what `nvidia-smi` of driver 550.54.15 says of them.
_UUIDS = [f"GPU-{i:08x}-1111-2222-3333-444444444444" for i in range(2)]
_NVIDIA_SMI = f"""\
#!/bin/sh
case "$1" in
  --query-gpu=*) cat <<END
0, {_UUIDS[0]}, NVIDIA H100 80GB HBM3, 9.0, 550.54.15, 81559, Disabled
1, {_UUIDS[1]}, NVIDIA H100 80GB HBM3, 9.0, 550.54.15, 81559, Disabled
END
  ;;
  -L) cat <<END
GPU 0: NVIDIA H100 80GB HBM3 (UUID: {_UUIDS[0]})
GPU 1: NVIDIA H100 80GB HBM3 (UUID: {_UUIDS[1]})
END
  ;;
esac
"""

PASSES = "def test_it():\n    pass\n"
FAILS = "def test_it():\n    assert 1 == 2\n"


@dataclass
class Bundle:
    """A bundle, unpacked, and a home for who runs it."""

    folder: Path
    home: Path
    tools: Path
    manifest: Manifest

    @property
    def env(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": f"{self.tools}:/usr/bin:/bin",
            "TMPDIR": str(self.home / "tmp"),
            "PYTHONIOENCODING": "utf-8",
        }

    def start(self, *args: str, env: Mapping[str, str] = {}, **how: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-sE", str(self.folder / "start.py"), *args],
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.home,
            **how,
        )

    def run(self, *args: str, env: Mapping[str, str] = {}) -> tuple[int, str]:
        """Returns the exit code, and stdout with stderr."""
        process = self.start(*args, env=env)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output

    def write_manifest(self, **changes: Any) -> None:
        self.manifest = replace(self.manifest, **changes)
        (self.folder / MANIFEST).write_text(self.manifest.to_json())

    def install_nvidia(self) -> None:
        tool = self.tools / "nvidia-smi"
        tool.write_text(_NVIDIA_SMI)
        tool.chmod(0o755)


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """One without tests."""
    folder, home, tools = tmp_path / "bundle", tmp_path / "home", tmp_path / "tools"
    for each in (folder / PEXES, folder / "venv", home / "tmp", tools):
        each.mkdir(parents=True)
    (folder / PEXES / "pytest.pex").write_text(_PEX.format(prefix=str(folder / "venv")))
    venv = folder / "venv" / "pex"
    # Without this repository's sources, which sandboxes of Pants are on the path with.
    path = [p for p in sys.path if "site-packages" in p]
    venv.write_text(_VENV.format(python=sys.executable, path=path))
    venv.chmod(0o755)
    program = folder / PROGRAM
    modules: dict[str, tuple[str, ...]] = {
        bundle_rules._PACKAGE: bundle_rules._MODULES,
        **bundle_rules._LIBRARIES,
    }
    for package, names in modules.items():
        place = program / package.replace(".", "/")
        place.mkdir(parents=True)
        for name in names:
            content = pkgutil.get_data(package, f"{name}.py")
            assert content is not None
            (place / f"{name}.py").write_bytes(content)
    (program / "__main__.py").write_text(
        f"import sys\nfrom {bundle_rules._PACKAGE}.bundle_runner import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    (folder / "start.py").write_text(_START.format(program=str(program), bundle=str(folder)))
    result = Bundle(
        folder,
        home,
        tools,
        Manifest("t:bundle", (), {}, ("pytest.pex",), hardware=HardwareSettings(("<PATH>",))),
    )
    result.write_manifest()
    return result


def add(bundle: Bundle, name: str, source: str, *files: str, **fields: Any) -> None:
    """Add a test file `t/<name>_test.py`, which needs no device unless said, with empty `files`."""
    content = textwrap.dedent(source).encode()
    path = f"t/{name}_test.py"
    entries = [TreeEntry(path, hashlib.sha256(content).hexdigest())]
    for data in (content, b""):
        place = bundle.folder / blob_path(hashlib.sha256(data).hexdigest())
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    entries += [TreeEntry(file, hashlib.sha256(b"").hexdigest()) for file in files]
    hardware = fields.pop("hardware", "cpu")
    suffix = "" if hardware == "cpu" else f":device@hardware={hardware}"
    test = BundledTest(
        address=path + suffix,
        report=f"t.{name}_test.py",
        path=path,
        hardware=hardware,
        tree=name,
        **fields,
    )
    bundle.write_manifest(
        tests=(*bundle.manifest.tests, test), trees={**bundle.manifest.trees, name: tuple(entries)}
    )


def outcome(report: Path) -> list[tuple[str, str]]:
    """Of each test of a JUnit report, its name and what became of it."""
    return [
        (case.get("name", ""), next((child.tag for child in case), "passed"))
        for case in ElementTree.parse(report).getroot().iter("testcase")
    ]


# --- results ---------------------------------------------------------------------------------


def test_passes(bundle: Bundle) -> None:
    add(bundle, "a", PASSES)
    code, output = bundle.run("--report-dir=reports")
    assert code == 0, output
    assert "✓ t/a_test.py succeeded in" in output
    assert "Test files: 1 passed, 0 failed. Tests in them: 1 passed." in output
    assert outcome(bundle.home / "reports/t.a_test.py.xml") == [("test_it", "passed")]


def test_one_fails(bundle: Bundle) -> None:
    add(bundle, "a", PASSES)
    add(bundle, "b", FAILS)
    code, output = bundle.run("--report-dir=reports")
    assert code == 1, output
    assert "assert 1 == 2" in output
    assert "✕ t/b_test.py failed in" in output
    assert "Test files: 1 passed, 1 failed. Tests in them: 1 passed, 1 failed." in output
    assert output.splitlines()[-1].startswith("Run it again: ")
    assert output.splitlines()[-1].endswith(" t/b_test.py")
    assert outcome(bundle.home / "reports/t.b_test.py.xml") == [("test_it", "failure")]


def test_missing_hardware_is_skipped_by_name(bundle: Bundle) -> None:
    add(bundle, "a", FAILS, hardware="cuda")
    add(bundle, "b", PASSES)
    code, output = bundle.run("--report-dir=reports")
    assert code == 0, output
    assert "t/a_test.py:device@hardware=cuda skipped: needs cuda: no nvidia-smi" in output
    assert "cuda: NONE of 1 test file run." in output
    assert "Test files: 1 passed, 0 failed, 1 skipped." in output
    assert outcome(bundle.home / "reports/t.a_test.py.xml") == [("t/a_test.py", "skipped")]


def test_missing_hardware_can_be_an_error(bundle: Bundle) -> None:
    add(bundle, "a", PASSES, hardware="cuda")
    code, output = bundle.run("--missing=error", "--report-dir=reports")
    assert code == 1, output
    assert "t/a_test.py:device@hardware=cuda can't run: needs cuda: no nvidia-smi" in output
    assert "Test files: 0 passed, 0 failed, 1 could not run." in output
    assert outcome(bundle.home / "reports/t.a_test.py.xml") == [("t/a_test.py", "error")]


def test_what_ends_without_a_report_has_one(bundle: Bundle) -> None:
    add(bundle, "a", "import os\n\n\ndef test_it():\n    os._exit(3)\n")
    code, output = bundle.run("--report-dir=reports")
    assert code == 1, output
    assert "failed in" in output and "exit code 3" in output
    assert outcome(bundle.home / "reports/t.a_test.py.xml") == [("t/a_test.py", "error")]


def test_time_is_up(bundle: Bundle) -> None:
    add(bundle, "a", "import time\n\n\ndef test_it():\n    time.sleep(60)\n", timeout_s=1)
    code, output = bundle.run()
    assert code == 1, output
    assert "timed out after 1 s" in output
    assert "exit code 124" in output


def test_nothing_is_left(bundle: Bundle) -> None:
    add(bundle, "a", "from pathlib import Path\n\n\ndef test_it():\n    Path('left').touch()\n")
    before = sorted(bundle.folder.rglob("*"))
    assert bundle.run()[0] == 0
    assert list((bundle.home / "tmp").iterdir()) == []
    after = [p for p in sorted(bundle.folder.rglob("*")) if "__pycache__" not in p.parts]
    assert after == before


def test_folders_can_be_kept(bundle: Bundle) -> None:
    add(bundle, "a", "from pathlib import Path\n\n\ndef test_it():\n    Path('left').touch()\n")
    code, output = bundle.run("--work=kept")
    assert code == 0, output
    [left] = bundle.home.glob("kept/*/t.a_test.py/left")
    assert f"The tests' folders are in {left.parents[1]}." in output


def test_extra_output_is_kept(bundle: Bundle) -> None:
    source = """\
        from pathlib import Path

        def test_it():
            Path("extra-output/profile.txt").write_text("x")
        """
    add(bundle, "a", source)
    assert bundle.run("--report-dir=reports")[0] == 0
    assert (bundle.home / "reports/t.a_test.py/profile.txt").read_text() == "x"


# --- what a test gets ------------------------------------------------------------------------


def test_what_a_test_sees(bundle: Bundle) -> None:
    source = """\
        import os
        from pathlib import Path

        def test_it():
            sandbox = Path.cwd()
            assert os.environ["HOME"] == f"{sandbox}/.home"
            assert os.environ["TRITON_CACHE_DIR"] == f"{sandbox}/.home/.triton/cache"
            assert os.environ["PANTS_TRITON_HARDWARE"] == "cpu"
            assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
            assert os.environ["TRITON_INTERPRET"] == "1"
            assert os.environ["DECLARED"] == "of this machine"
            assert os.environ["ROOT"] == str(sandbox)
            assert "UNDECLARED" not in os.environ
            assert os.environ["TYPED"] == "1" and os.environ["COPIED"] == "2"
            assert Path("data/a.txt").exists()
            import library
            import packaged
        """
    add(
        bundle,
        "a",
        source,
        "data/a.txt",
        "src/library.py",
        "python/packaged.py",
        env={"TRITON_INTERPRET": "1", "ROOT": "{chroot}"},
        env_entries=("DECLARED",),
        source_roots=("src",),
        packages=("python",),
    )
    code, output = bundle.run(
        "--env=TYPED=1",
        "--env=COPIED",
        env={"DECLARED": "of this machine", "UNDECLARED": "x", "COPIED": "2"},
    )
    assert code == 0, output


def test_trees_are_shared(bundle: Bundle) -> None:
    for name in "ab":
        source = "from pathlib import Path\n\n\ndef test_it():\n    assert Path('llvm/bin/opt').exists()\n"
        add(bundle, name, source, mounts={"llvm": "shared"})
    blob = hashlib.sha256(b"").hexdigest()
    bundle.write_manifest(
        trees={**bundle.manifest.trees, "shared": (TreeEntry("bin/opt", blob, True),)}
    )
    code, output = bundle.run("--work=kept")
    assert code == 0, output
    links = list(bundle.home.glob("kept/*/*/llvm"))
    assert len(links) == 2 and len({os.path.realpath(link) for link in links}) == 1
    assert os.access(links[0] / "bin/opt", os.X_OK)


def test_arguments_of_pytest(bundle: Bundle) -> None:
    source = """\
        import pytest

        @pytest.mark.parametrize("n", range(4))
        def test_it(n):
            assert n < 2
        """
    add(bundle, "a", source, pytest_args=("-k", "0 or 1 or 3"))
    assert bundle.run()[0] == 1
    # What is typed wins.
    code, output = bundle.run("--output=all", "--", "-k", "0 or 1", "-v")
    assert code == 0, output
    assert "test_it[1] PASSED" in output


def test_k_leaves_out_files_in_which_nothing_matches(bundle: Bundle) -> None:
    add(bundle, "a", PASSES)
    add(bundle, "b", "def test_other():\n    pass\n")
    code, output = bundle.run("-k", "other")
    assert code == 0, output
    assert "t/a_test.py: no test matches -k." in output
    assert "Test files: 1 passed, 0 failed." in output
    code, output = bundle.run("-k", "nothing")
    assert code == 1, output
    assert "-k nothing matches no test." in output


# --- devices ---------------------------------------------------------------------------------


def test_a_test_has_its_device_alone(bundle: Bundle) -> None:
    bundle.install_nvidia()
    source = """\
        import os, time
        from pathlib import Path

        def test_it():
            device = os.environ["CUDA_VISIBLE_DEVICES"]
            assert os.environ["PANTS_TRITON_FINGERPRINT"].startswith("cuda sm_90 | NVIDIA H100")
            mark = Path(os.environ["MARKS"], device)
            mark.mkdir()
            time.sleep(0.3)
            mark.rmdir()
            with Path(os.environ["MARKS"], "log").open("a") as f:
                f.write(device + "\\n")
        """
    for name in "abcd":
        add(bundle, name, source, hardware="cuda", arch=">=sm_80")
    (bundle.home / "marks").mkdir()
    code, output = bundle.run("--jobs=4", f"--env=MARKS={bundle.home}/marks")
    assert code == 0, output
    used = (bundle.home / "marks/log").read_text().split()
    assert len(used) == 4 and set(used) == set(_UUIDS)
    # In the same place as under Pants, so that neither takes the other's devices.
    assert (bundle.home / ".cache/pants/named_caches/pants_triton_leases/queue").is_dir()


def test_visible_devices_are_narrowed(bundle: Bundle) -> None:
    bundle.install_nvidia()
    source = f"import os\n\n\ndef test_it():\n    assert os.environ['CUDA_VISIBLE_DEVICES'] == '{_UUIDS[1]}'\n"
    for name in "ab":
        add(bundle, name, source, hardware="cuda")
    code, output = bundle.run(env={"CUDA_VISIBLE_DEVICES": "1"})
    assert code == 0, output


def test_another_architecture_is_missing(bundle: Bundle) -> None:
    bundle.install_nvidia()
    add(bundle, "a", PASSES, hardware="cuda", arch="sm_100")
    code, output = bundle.run("--missing=error")
    assert code == 1, output
    assert "needs cuda sm_100: this host has 2 x sm_90 (NVIDIA H100 80GB HBM3)" in output


def test_a_home_that_can_not_be_written(bundle: Bundle) -> None:
    bundle.install_nvidia()
    add(bundle, "a", PASSES, hardware="cuda")
    nowhere = bundle.home / "file"
    nowhere.touch()
    code, output = bundle.run(env={"HOME": str(nowhere)})
    assert code == 0, output
    assert "can't be written: the packages are unpacked for this run alone" in output
    assert [p.name for p in (bundle.home / "tmp").iterdir()] == [
        f"pants_triton_leases-{os.getuid()}"
    ]


# --- the machine's packages ------------------------------------------------------------------


def test_packages_of_the_machine(bundle: Bundle, tmp_path: Path) -> None:
    add(bundle, "a", "import made_up\n\n\ndef test_it():\n    assert made_up.WHERE == 'machine'\n")
    bundle.write_manifest(provided=("made-up", "nvidia-*"))
    code, output = bundle.run()
    assert code == 2, output
    assert "This bundle leaves made-up to the machine" in output
    assert f"{sys.executable} has no made-up" in output
    assert "name a Python" in output and "Traceback" not in output

    machine = tmp_path / "machine"
    (machine / "made_up").mkdir(parents=True)
    (machine / "made_up/__init__.py").write_text("WHERE = 'machine'\n")
    (machine / "pytest.py").write_text("raise AssertionError('shadows the bundle's own')\n")
    python = machine / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={machine} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    code, output = bundle.run(f"--python={python}")
    assert code == 0, output


def test_a_python_that_is_not_there(bundle: Bundle) -> None:
    add(bundle, "a", PASSES)
    bundle.write_manifest(provided=("json",))
    code, output = bundle.run("--python=/no/such/python")
    assert code == 2, output
    assert "/no/such/python is not there" in output


# --- the command line ------------------------------------------------------------------------


def test_list(bundle: Bundle) -> None:
    add(bundle, "a", PASSES)
    add(bundle, "b", PASSES, hardware="rocm")
    code, output = bundle.run("--list")
    assert code == 0, output
    lines = output.splitlines()
    assert lines[0] == "t/a_test.py: runs here"
    assert lines[1].startswith("t/b_test.py:device@hardware=rocm: can't run here: needs rocm: ")


@pytest.mark.parametrize(
    "typed",
    ["t/a_test.py", "t", "t/", "t/a_*", "*:device@hardware=cuda"],
)
def test_select(bundle: Bundle, typed: str) -> None:
    add(bundle, "a", PASSES, hardware="cuda")
    code, output = bundle.run("--list", typed)
    assert code == 0, output
    assert output.startswith("t/a_test.py:device@hardware=cuda: ")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param(["t/aa_test.py"], "t/aa_test.py is no test of this bundle. Did you mean", id="no test"),
        pytest.param(["--jobs=0"], "must be at least 1, got 0", id="no jobs"),
        pytest.param(["--missing=ignore"], "invalid choice: 'ignore'", id="choice"),
        pytest.param(["--tag=cuda"], "unrecognized arguments: --tag=cuda", id="unknown"),
        pytest.param(
            ["--env=CUDA_VISIBLE_DEVICES=1"], "the lease's to set: set it in the environment", id="env"
        ),
        pytest.param(["--report-dir=/dev/null/x"], "/dev/null", id="no such folder"),
        pytest.param(["--work=/dev/null"], "/dev/null", id="no folder"),
    ],
)  # fmt: skip
def test_wrong_options(bundle: Bundle, args: list[str], message: str) -> None:
    add(bundle, "a", PASSES)
    code, output = bundle.run(*args)
    assert code == 2, output
    assert message in output
    assert "Traceback" not in output


def test_a_damaged_bundle(bundle: Bundle) -> None:
    (bundle.folder / MANIFEST).write_text(json.dumps({"version": 99}))
    code, output = bundle.run()
    assert code == 2
    assert "This is no whole test bundle: it has the version 99" in output


# --- the end ---------------------------------------------------------------------------------


def test_an_interrupt_ends_the_tests(bundle: Bundle) -> None:
    source = """\
        import os, time
        from pathlib import Path

        def test_it():
            Path(os.environ["MARKS"], "pid").write_text(str(os.getpid()))
            time.sleep(60)
        """
    add(bundle, "a", source)
    add(bundle, "b", source)
    process = bundle.start("--jobs=1", f"--env=MARKS={bundle.home}")
    pid_file = bundle.home / "pid"
    deadline = time.monotonic() + 30
    while not (pid_file.exists() and pid_file.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGINT, output
    assert "1 not finished" in output
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
    assert list((bundle.home / "tmp").iterdir()) == []
