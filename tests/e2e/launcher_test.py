"""The launcher `./pants`, run as it is, with packages from a folder instead of an index.

The fakes: a `pantsbuild.pants` that prints what it was given, and a `pex` that builds nothing.
A set-up takes some seconds, so the tests that only look at a finished one share it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Iterator, Mapping

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A name that a careless shell script stumbles over.
CHECKOUT = "the checkout"
PYTHON = f"{sys.base_prefix}/bin/python3.9"

FAKE_PANTS = """
import json, os, sys

def main():
    if sys.argv[1:2] == ["exit"]:
        sys.exit(int(sys.argv[2]))
    print(json.dumps({"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}))
"""
FAKE_PEX = """
import sys

(output,) = [a.split("=", 1)[1] for a in sys.argv if a.startswith("--output-file=")]
with open(output, "w") as file:
    file.write("the pex tool")
"""
THE_PEX_TOOL = hashlib.sha256(b"the pex tool").hexdigest()


def make_wheel(folder: Path, name: str, version: str, files: Mapping[str, str]) -> Path:
    """A wheel of the given files, the same bytes each time."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*contents, f"{info}/RECORD"])
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in {**contents, f"{info}/RECORD": record}.items():
            archive.writestr(zipfile.ZipInfo(path), content)
    return wheel


def pin(name: str, wheel: Path) -> str:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return f"{name}=={wheel.name.split('-')[1]} \\\n    --hash=sha256:{digest}\n"


@dataclass(frozen=True)
class Workspace:
    """A folder with the launcher and its pins, and the environment to run it in."""

    root: Path
    cache: Path
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def pants_pins(self) -> Path:
        return self.root / "build-support/bootstrap/pants-requirements.txt"

    @property
    def pex_pins(self) -> Path:
        return self.root / "build-support/bootstrap/pex-cli-requirements.txt"

    def with_env(self, **env: str) -> Workspace:
        return replace(self, env={**self.env, **env})

    def without_env(self, *names: str) -> Workspace:
        return replace(self, env={k: v for k, v in self.env.items() if k not in names})

    def start(self, *args: str, cwd: Path | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", self.root / "pants", *args],
            cwd=cwd or self.root,
            env=dict(self.env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def run(self, *args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        process = self.start(*args, cwd=cwd)
        stdout, stderr = process.communicate(timeout=120)
        return subprocess.CompletedProcess(args, process.returncode, stdout, stderr)

    def given_env(self, **env: str) -> dict[str, str]:
        """The environment that Pants gets."""
        result = self.with_env(**env).run()
        assert result.returncode == 0, result.stderr
        given: dict[str, str] = json.loads(result.stdout)["env"]
        return given

    def complaint(self) -> str:
        """The one line of a failing run, less the announcement of the set-up."""
        result = self.run()
        assert result.returncode == 1, result.stderr
        assert result.stdout == ""
        lines = [line for line in result.stderr.splitlines() if "(once, about" not in line]
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith("pants: ")
        return lines[0]


def make_workspace(folder: Path) -> Workspace:
    workspace = Workspace(
        folder / CHECKOUT,
        folder / "cache",
        {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "PANTS_TRITON_CACHE": str(folder / "cache"),
            "PANTS_TRITON_PYTHON": PYTHON,
            # No index but this folder; a machine's own pip configuration is out of the game.
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(folder / "wheels"),
            "PIP_CONFIG_FILE": os.devnull,
        },
    )
    bootstrap = workspace.root / "build-support/bootstrap"
    bootstrap.mkdir(parents=True)
    shutil.copy(ROOT / "pants", workspace.root)
    shutil.copy(ROOT / "build-support/bootstrap/setup_pants.py", bootstrap)
    wheels = folder / "wheels"
    wheels.mkdir()
    fake_pants = make_wheel(
        wheels,
        "pantsbuild.pants",
        "2.17.1",
        {
            "fake_pants.py": FAKE_PANTS,
            "pantsbuild.pants-2.17.1.dist-info/entry_points.txt": "[console_scripts]\n"
            "pants = fake_pants:main\n",
        },
    )
    fake_pex = make_wheel(wheels, "pex", "2.105.2", {"pex/__main__.py": FAKE_PEX})
    workspace.pants_pins.write_text("# A comment.\n\n" + pin("pantsbuild-pants", fake_pants))
    workspace.pex_pins.write_text(pin("pex", fake_pex))
    return workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace that is not set up yet."""
    return make_workspace(tmp_path)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace that is set up; tests only look at it."""
    workspace = make_workspace(tmp_path_factory.mktemp("ready"))
    result = workspace.run("--version")
    assert result.returncode == 0, result.stderr
    (installation,) = installations(workspace)
    assert result.stderr == (
        f"pants: setting up Pants 2.17.1 in {installation} (once, about 30 s)\n"
    )
    return workspace


def installations(workspace: Workspace) -> list[Path]:
    return sorted(path.parent for path in workspace.cache.glob("*/ready"))


# --- A finished set-up ---------------------------------------------------------------------------


def test_passes_arguments_and_working_directory_on(ready: Workspace) -> None:
    result = ready.run("test", "a b", "", "--x='$y'", "::", cwd=ready.root / "build-support")
    given = json.loads(result.stdout)
    assert given["argv"] == ["test", "a b", "", "--x='$y'", "::"]
    assert given["cwd"] == str(ready.root / "build-support")
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        pytest.param(["test", "--tag=cuda", "::"], ["--tag=cuda", "test", "::"], id="after goal"),
        pytest.param(["--tag=a", "test", "::"], ["--tag=a", "test", "::"], id="before goal"),
        pytest.param(
            ["test", "--tag=a", "--force", "--tag=-b c", "::"],
            ["--tag=a", "--tag=-b c", "test", "--force", "::"],
            id="several",
        ),
        pytest.param(
            ["test", "--tag=a", "::", "--", "--tag=b"],
            ["--tag=a", "test", "::", "--", "--tag=b"],
            id="not those of the tool",
        ),
    ],
)
def test_tags_may_stand_behind_the_goal(
    ready: Workspace, typed: list[str], given: list[str]
) -> None:
    assert json.loads(ready.run(*typed).stdout)["argv"] == given


def test_works_through_links(ready: Workspace, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/absolute").symlink_to(ready.root / "pants")
    (tmp_path / "relative").symlink_to("bin/absolute")
    result = subprocess.run(
        [tmp_path / "relative", "list"], env=ready.env, cwd=tmp_path, stdout=subprocess.PIPE
    )
    assert json.loads(result.stdout)["argv"] == ["list"]


@pytest.mark.parametrize("code", [0, 1, 42])
def test_exit_code_is_that_of_pants(ready: Workspace, code: int) -> None:
    assert ready.run("exit", str(code)).returncode == code


def test_needs_no_python_and_no_packages_once_set_up(ready: Workspace) -> None:
    bare = ready.without_env("PIP_FIND_LINKS").with_env(PATH=os.defpath)
    assert bare.run().returncode == 0


def test_adds_little_time_once_set_up(ready: Workspace, tmp_path: Path) -> None:
    def fastest(*command: str | Path) -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run(command, env=dict(ready.env), check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - start)
        return min(times)

    (installation,) = installations(ready)
    direct = fastest(installation / "venv/bin/python", installation / "venv/bin/pants")
    assert fastest("bash", ready.root / "pants") - direct < 0.1


def test_tells_pants_about_the_pex_tool(ready: Workspace) -> None:
    env = ready.given_env()
    (installation,) = installations(ready)
    assert env["PANTS_PEX_CLI_VERSION"] == "v2.105.2"
    assert env["PANTS_PEX_CLI_URL_TEMPLATE"] == f"file://{installation}/pex"
    assert json.loads(env["PANTS_PEX_CLI_KNOWN_VERSIONS"]) == [
        f"v2.105.2|{platform}|{THE_PEX_TOOL}|12"
        for platform in ["linux_arm64", "linux_x86_64", "macos_arm64", "macos_x86_64"]
    ]


def test_the_pex_tool_is_the_users_choice_as_a_whole(ready: Workspace) -> None:
    env = ready.given_env(PANTS_PEX_CLI_VERSION="v2.1.137")
    assert env["PANTS_PEX_CLI_VERSION"] == "v2.1.137"
    assert "PANTS_PEX_CLI_URL_TEMPLATE" not in env
    assert "PANTS_PEX_CLI_KNOWN_VERSIONS" not in env


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        pytest.param("", '+["PIP_CONFIG_FILE=/dev/null"]', id="unset"),
        pytest.param('["A", "B"]', '["PIP_CONFIG_FILE=/dev/null","A", "B"]', id="replace"),
        pytest.param("[]", '["PIP_CONFIG_FILE=/dev/null",]', id="replace-by-nothing"),
        pytest.param("('A',)", "(\"PIP_CONFIG_FILE=/dev/null\",'A',)", id="tuple"),
        pytest.param("+['A'],-['B']", "+['A'],-['B'],+[\"PIP_CONFIG_FILE=/dev/null\"]", id="add"),
        pytest.param("A=b c", '+["A=b c","PIP_CONFIG_FILE=/dev/null"]', id="one"),
        pytest.param("['PIP_CONFIG_FILE']", "['PIP_CONFIG_FILE']", id="decided"),
        pytest.param("@a-file", "@a-file", id="from-file"),
    ],
)
def test_keeps_pip_configuration_out_of_processes(
    ready: Workspace, given: str, passed_on: str
) -> None:
    env = ready.given_env(PANTS_SUBPROCESS_ENVIRONMENT_ENV_VARS=given)
    assert env["PANTS_SUBPROCESS_ENVIRONMENT_ENV_VARS"] == passed_on


def test_certificates_are_the_first_that_exist(ready: Workspace, tmp_path: Path) -> None:
    first, second = tmp_path / "first.pem", tmp_path / "second.pem"
    first.touch()
    second.touch()
    assert "PANTS_CA_CERTS_PATH" not in ready.given_env()
    env = ready.given_env(
        SSL_CERT_FILE="/nowhere", REQUESTS_CA_BUNDLE=str(first), PIP_CERT=str(second)
    )
    assert env["PANTS_CA_CERTS_PATH"] == str(first)
    env = ready.given_env(SSL_CERT_FILE=str(first), PANTS_CA_CERTS_PATH=str(second))
    assert env["PANTS_CA_CERTS_PATH"] == str(second)


@pytest.mark.parametrize(
    ("pip", "indexes", "find_links"),
    [
        pytest.param({}, None, None, id="nothing"),
        pytest.param({"PIP_INDEX_URL": "http://a/s"}, '["http://a/s"]', None, id="index"),
        pytest.param(
            {
                "PIP_INDEX_URL": "http://a/s",
                "PIP_EXTRA_INDEX_URL": "http://b/s file:///c",
                "PIP_FIND_LINKS": "/d http://e relative",
                "PIP_NO_INDEX": "false",
            },
            '["http://a/s", "http://b/s", "file:///c"]',
            '["file:///d", "http://e"]',
            id="index-and-more",
        ),
        pytest.param(
            {"PIP_EXTRA_INDEX_URL": "http://b/s", "PIP_FIND_LINKS": "/d"}, None, None, id="extra"
        ),
        pytest.param(
            {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/d"}, "[]", '["file:///d"]', id="no-index"
        ),
        pytest.param(
            {
                "PIP_INDEX_URL": "http://a/s",
                "PIP_FIND_LINKS": "/d",
                "PANTS_PYTHON_REPOS_INDEXES": "['mine']",
                "PANTS_PYTHON_REPOS_FIND_LINKS": "['mine, too']",
            },
            "['mine']",
            "['mine, too']",
            id="user-wins",
        ),
    ],
)
def test_pants_uses_the_index_that_pip_uses(
    ready: Workspace, pip: dict[str, str], indexes: str | None, find_links: str | None
) -> None:
    env = ready.without_env("PIP_NO_INDEX", "PIP_FIND_LINKS").given_env(**pip)
    assert env.get("PANTS_PYTHON_REPOS_INDEXES") == indexes
    assert env.get("PANTS_PYTHON_REPOS_FIND_LINKS") == find_links


def test_keeps_a_password_out_of_cache_keys(ready: Workspace) -> None:
    result = ready.without_env("PIP_NO_INDEX").with_env(PIP_INDEX_URL="http://me:secret@a/s").run()
    assert "PANTS_PYTHON_REPOS_INDEXES" not in json.loads(result.stdout)["env"]
    assert "password" in result.stderr
    assert "secret" not in result.stderr


def test_says_the_same_in_every_run(ready: Workspace) -> None:
    """Otherwise Pants' daemon would restart."""
    assert ready.given_env() == ready.given_env()


# --- Setting up ----------------------------------------------------------------------------------


def test_changed_pins_make_another_installation(ready: Workspace, workspace: Workspace) -> None:
    shutil.copytree(ready.cache, workspace.cache, symlinks=True)
    assert workspace.run().stderr == ""
    before = workspace.pants_pins.read_text()
    workspace.pants_pins.write_text(f"{before}# Changed.\n")
    assert workspace.run().returncode == 0
    assert len(installations(workspace)) == 2
    workspace.pants_pins.write_text(before)
    assert workspace.run().stderr == ""


def test_two_first_runs_at_once(workspace: Workspace) -> None:
    processes = [workspace.start() for _ in range(3)]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], errors
    announced = [error for error in errors if "setting up" in error]
    assert len(announced) == 1
    assert len(installations(workspace)) == 1


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_interrupted_set_up_is_repaired(workspace: Workspace, sent: signal.Signals) -> None:
    process = subprocess.Popen(
        ["bash", workspace.root / "pants"],
        env=dict(workspace.env),
        stderr=subprocess.PIPE,
        # Its own group, as in a terminal, whose Ctrl-C reaches all of it.
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list(workspace.cache.glob("*/venv/bin")) and time.monotonic() < deadline:
        time.sleep(0.02)
    if sent == signal.SIGINT:
        os.killpg(process.pid, sent)
    else:
        # The launcher and the set-up die, the tool that it runs lives on and gets in the way.
        for pid in [process.pid, *children(process.pid)]:
            os.kill(pid, sent)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert installations(workspace) == []

    result = workspace.run()
    assert result.returncode == 0, result.stderr
    assert len(installations(workspace)) == 1


def children(pid: int) -> Iterator[int]:
    output = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], stdout=subprocess.PIPE, check=True, encoding="utf-8"
    ).stdout
    for line in output.splitlines():
        child, parent = map(int, line.split())
        if parent == pid:
            yield child


def test_python_that_vanished_is_replaced(ready: Workspace, workspace: Workspace) -> None:
    shutil.copytree(ready.cache, workspace.cache, symlinks=True)
    (installation,) = installations(workspace)
    for link in (installation / "venv/bin").glob("python*"):
        link.unlink()
        link.symlink_to("/nowhere/python3.9")
    result = workspace.run()
    assert result.returncode == 0, result.stderr
    assert workspace.run().stderr == ""


def test_reads_the_index_from_pip_configuration_files(workspace: Workspace, tmp_path: Path) -> None:
    pip_conf = tmp_path / "pip.conf"
    pip_conf.write_text(
        "[global]\n"
        "no-index = true\n"
        f"find-links =\n    {tmp_path}/wheels\n    /elsewhere\n"
        # Each of these would break the installation.
        "user = true\n"
        "constraint = /nowhere/constraints.txt\n"
    )
    configured = workspace.without_env("PIP_NO_INDEX", "PIP_FIND_LINKS").with_env(
        PIP_CONFIG_FILE=str(pip_conf)
    )
    # So would these.
    env = configured.given_env(PIP_TARGET="/x", PEX_ROOT="/x", PYTHONPATH="/x", PYTHONHOME="/x")
    assert env["PANTS_PYTHON_REPOS_INDEXES"] == "[]"
    assert (
        env["PANTS_PYTHON_REPOS_FIND_LINKS"] == f'["file://{tmp_path}/wheels", "file:///elsewhere"]'
    )
    assert "PYTHONPATH" not in env


@pytest.mark.parametrize(
    ("env", "cache"),
    [
        pytest.param({"PANTS_TRITON_CACHE": "../relative"}, "relative", id="ours"),
        pytest.param({"XDG_CACHE_HOME": "{tmp}/xdg"}, "xdg/pants-triton", id="xdg"),
        pytest.param({}, ".cache/pants-triton", id="home"),
    ],
)
def test_where_everything_is(
    ready: Workspace, workspace: Workspace, tmp_path: Path, env: dict[str, str], cache: str
) -> None:
    shutil.copytree(ready.cache, tmp_path / cache, symlinks=True)
    env = {name: value.format(tmp=tmp_path) for name, value in env.items()}
    result = workspace.without_env("PANTS_TRITON_CACHE").with_env(**env).run()
    assert result.returncode == 0
    assert result.stderr == ""


# --- Finding a Python ----------------------------------------------------------------------------


def path_without_python(folder: Path) -> str:
    """A PATH with what the launcher needs and nothing else."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("bash", "cat", "uname", "sha256sum", "shasum"):
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    return str(tools)


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def no_python(workspace: Workspace, tmp_path: Path) -> Workspace:
    for well_known in ("/usr/bin", "/usr/local/bin"):
        if os.path.exists(f"{well_known}/python3.9"):
            pytest.skip(f"this machine has a Python 3.9 in {well_known}, which would be found")
    return workspace.without_env("PANTS_TRITON_PYTHON").with_env(PATH=path_without_python(tmp_path))


def test_no_python(workspace: Workspace, tmp_path: Path) -> None:
    complaint = no_python(workspace, tmp_path).complaint()
    assert "no usable CPython 3.9 found: try" in complaint
    assert "pyenv install 3.9" in complaint
    assert "PANTS_TRITON_PYTHON" in complaint


def test_python_that_does_not_run_is_explained(workspace: Workspace, tmp_path: Path) -> None:
    workspace = no_python(workspace, tmp_path)
    shim = script(tmp_path / "tools/python3.9", "echo 'pyenv: no such command' >&2; exit 127")
    assert f"({shim}: pyenv: no such command)" in workspace.complaint()


def test_python_without_ensurepip_is_explained(workspace: Workspace, tmp_path: Path) -> None:
    workspace = no_python(workspace, tmp_path)
    script(
        tmp_path / "tools/python3.9",
        "echo \"it lacks a part of the standard library: No module named 'ensurepip'\" >&2; exit 1",
    )
    assert "apt-get install python3.9-venv" in workspace.complaint()


def test_python_whose_pip_is_elsewhere(workspace: Workspace, tmp_path: Path) -> None:
    """As Debian's and Fedora's, which keep the wheels of `ensurepip` in a folder of their own."""
    run = (
        "import ensurepip, runpy, sys; ensurepip.__file__ = '/nowhere/__init__.py'; del sys.argv[0]"
    )
    named = script(
        tmp_path / "named",
        f"""case "$2" in
          *setup_pants.py) shift; exec {PYTHON} -I -c "{run}; runpy.run_path(sys.argv[0], {{}}, '__main__')" "$@" ;;
        esac
        exec {PYTHON} "$@"
        """,
    )
    workspace = workspace.with_env(PANTS_TRITON_PYTHON=str(named))
    assert workspace.run("--version").returncode == 0
    (installation,) = installations(workspace)
    # By the whole `ensurepip`.
    assert (installation / "venv/bin/pip").is_file()


def test_shim_that_fails_does_not_hide_pyenvs_python(workspace: Workspace, tmp_path: Path) -> None:
    workspace = no_python(workspace, tmp_path)
    script(tmp_path / "tools/python3.9", "exit 127")
    script(tmp_path / "pyenv/versions/3.9.18/bin/python3.9", f'exec {PYTHON} "$@"')
    workspace.pants_pins.write_text("")
    # The Python was found, or nobody would have looked into the pins.
    complaint = workspace.with_env(PYENV_ROOT=str(tmp_path / "pyenv")).complaint()
    assert "pins nothing" in complaint


def test_uv_installs_a_python(workspace: Workspace, tmp_path: Path) -> None:
    workspace = no_python(workspace, tmp_path)
    script(
        tmp_path / "tools/uv",
        f"""[ "$1 $2 $3" = "python install 3.9" ] || exit 2
        PATH={os.defpath}
        mkdir -p "$UV_PYTHON_INSTALL_DIR/cpython-3.9/bin"
        ln -s {PYTHON} "$UV_PYTHON_INSTALL_DIR/cpython-3.9/bin/python3.9"
        """,
    )
    workspace.pants_pins.write_text("")
    asking, complaint = workspace.run().stderr.splitlines()
    assert "asking uv to install one" in asking
    assert "pins nothing" in complaint


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(None, "is not an executable file", id="missing"),
        pytest.param("echo 'it is cpython 3.11' >&2; exit 1", "it is cpython 3.11", id="wrong"),
        pytest.param("exit 1", "it does not run", id="silent"),
    ],
)
def test_named_python_must_do(
    workspace: Workspace, tmp_path: Path, body: str | None, reason: str
) -> None:
    named = tmp_path / "named"
    if body is not None:
        script(named, body)
    complaint = workspace.with_env(PANTS_TRITON_PYTHON=str(named)).complaint()
    assert "PANTS_TRITON_PYTHON must name a CPython 3.9" in complaint
    assert reason in complaint


# --- Failures: one line, and the next run recovers -----------------------------------------------


def test_home_not_set(workspace: Workspace) -> None:
    assert "HOME is not set" in workspace.without_env("PANTS_TRITON_CACHE", "HOME").complaint()


@pytest.mark.parametrize("name", ["a b", "{a}", "ä", "a%20"])
def test_cache_folder_that_pants_cannot_use(
    workspace: Workspace, tmp_path: Path, name: str
) -> None:
    complaint = workspace.with_env(PANTS_TRITON_CACHE=str(tmp_path / name)).complaint()
    assert "spaces or special characters in its name" in complaint
    assert "PANTS_TRITON_CACHE" in complaint
    assert not (tmp_path / name).exists()


def test_unsupported_platform(workspace: Workspace, tmp_path: Path) -> None:
    script(tmp_path / "bin/uname", "echo FreeBSD riscv64")
    workspace = workspace.with_env(PATH=f"{tmp_path}/bin:{workspace.env['PATH']}")
    assert "this is 'FreeBSD riscv64'" in workspace.complaint()


@pytest.mark.parametrize(
    ("pins", "complaint"),
    [
        pytest.param(None, "cannot read {pins}", id="missing"),
        pytest.param("", "{pins} pins nothing", id="empty"),
        pytest.param("<<<<<<< HEAD\n", "{pins}, line 1 is not a pin", id="garbage"),
        pytest.param("a==1 --hash=sha256:0\n", "{pins}, line 1: a has a malformed hash", id="cut"),
        pytest.param("\na==1\n", "{pins}, line 2: a has no hash", id="no-hash"),
        pytest.param("a>=1 --hash=sha256:0\n", "{pins}, line 1 is not a pin", id="range"),
        pytest.param("a==1 \\\n", "{pins} ends in the middle", id="half"),
        pytest.param(
            f"a==1 --hash=sha256:{'0' * 64}\n", "{pins} does not pin pantsbuild-pants", id="other"
        ),
    ],
)
def test_broken_pin_file(workspace: Workspace, pins: str | None, complaint: str) -> None:
    if pins is None:
        workspace.pants_pins.unlink()
    else:
        workspace.pants_pins.write_text(pins)
    assert complaint.format(pins=workspace.pants_pins) in workspace.complaint()


@pytest.mark.parametrize("which", ["pantsbuild-pants", "pex"])
def test_wrong_hash(workspace: Workspace, which: str) -> None:
    pins = workspace.pex_pins if which == "pex" else workspace.pants_pins
    text = pins.read_text()
    pins.write_text(text[: text.index("sha256:")] + f"sha256:{'0' * 64}\n")
    complaint = workspace.complaint()
    assert f"{which} is not the file that {pins} pins (wrong hash)" in complaint
    assert installations(workspace) == []
    log = Path(complaint.rsplit("output: ", 1)[1].rstrip(")"))
    assert "DO NOT MATCH" in log.read_text()


def test_package_that_is_not_there(workspace: Workspace) -> None:
    pins = workspace.pants_pins
    pins.write_text(f"{pins.read_text()}absent==1.0 --hash=sha256:{'0' * 64}\n")
    assert "your package index has no absent==1.0 for this machine" in workspace.complaint()


def test_no_network(workspace: Workspace) -> None:
    unreachable = workspace.without_env("PIP_NO_INDEX", "PIP_FIND_LINKS").with_env(
        PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="1"
    )
    assert "the package index cannot be reached" in unreachable.complaint()
    assert workspace.run().returncode == 0


def test_broken_pip_configuration(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("no section\n")
    broken = workspace.with_env(PIP_CONFIG_FILE=str(tmp_path / "pip.conf"))
    assert "pip cannot read its own configuration" in broken.complaint()


def test_cache_folder_that_cannot_be_written(ready: Workspace, workspace: Workspace) -> None:
    workspace.cache.touch()  # Root may write everywhere, but not below a file.
    complaint = workspace.complaint()
    assert f"cannot write in {workspace.cache}" in complaint
    assert "PANTS_TRITON_CACHE" in complaint

    workspace.cache.unlink()
    shutil.copytree(ready.cache, workspace.cache, symlinks=True)
    assert workspace.run().stderr == ""


@pytest.mark.parametrize("mebibytes", [1, 40])
def test_full_disk(workspace: Workspace, mebibytes: int) -> None:
    """Within Python's environment and within a package."""
    # A mount that nobody else sees, and that ends with the process.
    private = ["unshare", "--user", "--map-root-user", "--mount"]
    mount = f"mount -t tmpfs -o size={mebibytes}m none '{workspace.cache}'"
    workspace.cache.mkdir()
    try:
        subprocess.run([*private, "sh", "-c", mount], check=True, stderr=subprocess.PIPE)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs a small disk, and this machine lets us mount none: {error}")
    pins = workspace.pants_pins
    big = make_wheel(Path(workspace.env["PIP_FIND_LINKS"]), "big", "1.0", {"big": "x" * (60 << 20)})
    pins.write_text(pins.read_text() + pin("big", big))
    result = subprocess.run(
        [*private, "sh", "-c", f"{mount} && exec bash '{workspace.root}/pants'"],
        env=dict(workspace.env),
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    lines = [line for line in result.stderr.splitlines() if "(once, about" not in line]
    assert lines == [
        f"pants: the disk of {workspace.cache} is full: free space there, or name another folder"
        " in PANTS_TRITON_CACHE"
    ]
    assert result.returncode == 1


# --- The real thing ------------------------------------------------------------------------------


def test_the_committed_pins_are_well_formed(tmp_path: Path) -> None:
    """Up to where the network is needed."""
    workspace = Workspace(
        ROOT,
        tmp_path / "cache",
        {
            "PATH": os.environ.get("PATH", os.defpath),
            "PANTS_TRITON_CACHE": str(tmp_path / "cache"),
            "PANTS_TRITON_PYTHON": PYTHON,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
            "PIP_RETRIES": "1",
        },
    )
    assert "the package index cannot be reached" in workspace.complaint()
