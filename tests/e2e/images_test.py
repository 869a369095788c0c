"""The images of CI: built by the real Pants and docker, and a lane that runs in one.

Without an engine, which the machines of CI have not, only what is said there is tested. With one, it
takes some minutes: `DOCKER_HOST=unix:///… ./pants test tests/e2e/images_test.py`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Iterator, Mapping

import pytest

from e2e.workspace import REPOSITORY, PantsRun, Workspace, workspace

IMAGES = "build-support/ci/images"
SCRIPT = "build-support/ci/run-lane-in-image"

# What the image's target depends on, in a workspace that is as small as can be.
FILES = {
    "BUILD": """\
        files(name="workspace", sources=["pants", "pants.toml", "pants.ci.toml", "pyproject.toml"])
        files(name="scripts", sources=["build-support/bin/*"])
        """,
    "build-support/bootstrap/BUILD": """\
        files(name="bootstrap", sources=["*.txt", "setup_pants.py"])
        """,
    "src/python/BUILD": """\
        files(name="backend", sources=["pants_triton/**/*", "!**/BUILD"])
        """,
    "build-support/ci/BUILD": """\
        __defaults__({ci_lane: dict(runs_on=["ubuntu-latest"])})
        ci_lane(name="cpu", tag_expression=["cpu"])
        ci_lane(
            name="rocm",
            tag_expression=["rocm"],
            container_image="rocm/pytorch:latest",
            container_options=["--device=/dev/no-such-device"],
        )
        """,
    "tests/demo/BUILD": """\
        triton_tests(
            name="cpu", sources=["cpu_test.py"], resolve="plugin", dependencies=["3rdparty/lit:lit"]
        )
        triton_tests(name="rocm", sources=["rocm_test.py"], resolve="plugin", hardware="rocm")
        """,
    "tests/demo/cpu_test.py": """\
        import os


        def test_the_job_is_as_it_should_be():
            assert os.getuid() != 0
            assert os.path.isdir("3rdparty/lit/lit/lit")
        """,
    "tests/demo/rocm_test.py": "def test_rocm(): pass\n",
}
# Instead of what takes minutes to fetch.
LESS = (
    (r"REHEARSAL=[^\"]*", "REHEARSAL=tests/rehearsal:nothing"),
    (r"_ARTIFACTS = .*?\n\)\n", '_ARTIFACTS = "ARTIFACTS=3rdparty/lit:lit"\n'),
)
A_SECRET = "this-is-a-secret"


def run_lane(ws: Workspace, *args: str, env: Mapping[str, str] | None = None) -> PantsRun:
    process = subprocess.run(
        [sys.executable, str(ws.root / SCRIPT), *args],
        cwd=ws.root,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    return PantsRun(process.returncode, process.stdout)


def docker(*args: str) -> str:
    result = subprocess.run(["docker", *args], check=True, stdout=subprocess.PIPE, text=True)
    return result.stdout


def why_no_engine() -> str:
    """Why there is no docker here that works, or ""."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    version = subprocess.run(["docker", "version"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return (
        "" if version.returncode == 0 else "docker has no engine here: start it, or set DOCKER_HOST"
    )


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    root = tmp_path / "workspace"
    root.mkdir()
    # Also for the script, which runs Pants by itself.
    monkeypatch.setenv("PANTS_LOCAL_STORE_DIR", str(root / ".store"))
    with workspace(root) as ws:
        for path in ("pants", "pants.toml", "pants.ci.toml", "pyproject.toml"):
            shutil.copy(REPOSITORY / path, root / path)
        for path in ("3rdparty", "build-support", "src/python"):
            shutil.copytree(REPOSITORY / path, root / path, dirs_exist_ok=True)
        ws.write(FILES)
        ws.git("add", "--all")
        yield ws


# --- Where there is no engine --------------------------------------------------------------------


def test_images_are_left_out_where_there_is_no_docker(ws: Workspace) -> None:
    env = {"PANTS_DOCKER_EXECUTABLE_SEARCH_PATHS": f"['{ws.root}/nothing']"}
    run = ws.pants("package", f"{IMAGES}:cpu", env=env)
    assert run.exit_code == 1, run.output
    assert "Cannot find `docker`" in run.output
    assert "interact with the docker daemon" in run.output

    ws.write({"lib/BUILD": 'archive(name="lib", format="tar", files=["//:workspace"])\n'})
    run = ws.pants("package", "--tag=-image", "::", env=env)
    assert run.exit_code == 0, run.output
    assert "Wrote dist/lib/lib.tar" in run.output
    run = ws.pants("tailor", "--check", f"{IMAGES}::", env=env)
    assert run.exit_code == 0, run.output


def test_what_is_said_of_lanes_that_cannot_be_run(ws: Workspace, tmp_path: Path) -> None:
    run = run_lane(ws, "gpu")
    assert run.exit_code == 125, run.output
    assert "There is no lane `gpu`. The lanes are: cpu, rocm." in run.output

    run = run_lane(ws, "cpu", env={"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    assert run.exit_code == 125, run.output
    if shutil.which("docker"):
        assert "docker has no engine (" in run.output
        assert "or name it in DOCKER_HOST" in run.output
    else:
        assert "docker was not found: install it" in run.output


# --- Where there is one --------------------------------------------------------------------------


@pytest.fixture
def base(tmp_path: Path) -> Iterator[str]:
    """An image to build on: what `CI_BASE_CPU` names, one made of Debian's packages, or the default."""
    given = os.environ.get("CI_BASE_CPU", "")
    if given:
        yield given
        return
    if os.getuid() == 0 and shutil.which("debootstrap"):
        name = f"pants-triton-test/base:{uuid.uuid4().hex}"
        subprocess.run(
            [str(REPOSITORY / IMAGES / "debootstrap-base"), name, sys.base_prefix], check=True
        )
        yield name
        docker("image", "rm", name)
        return
    lines = (REPOSITORY / IMAGES / "Dockerfile").read_text().splitlines()
    [default] = [line for line in lines if line.startswith("ARG BASE_IMAGE=")]
    name = default.split("=", 1)[1]
    if subprocess.run(["docker", "pull", "--quiet", name]).returncode != 0:
        pytest.skip(
            f"{name} can't be pulled, and to make another base takes root and debootstrap: name one in "
            "CI_BASE_CPU"
        )
    yield name


@pytest.mark.skipif(bool(why_no_engine()), reason=why_no_engine())
def test_a_lane_runs_in_its_image(ws: Workspace, base: str, tmp_path: Path) -> None:
    name = f"pants-triton-test/ci-{uuid.uuid4().hex}"
    image = f"{name}:latest"
    build_file = ws.root / IMAGES / "BUILD"
    text = build_file.read_text().replace("pants-triton/ci-{name}", name)
    for pattern, less in LESS:
        text, count = re.subn(pattern, less, text, flags=re.DOTALL)
        assert count
    build_file.write_text(text)
    rehearsal = ws.root / IMAGES / "rehearsal"
    (rehearsal / "nothing_test.py").write_text("def test_nothing(): pass\n")
    with (rehearsal / "rehearsal.BUILD").open("a") as file:
        file.write('python_tests(name="nothing", sources=["nothing_test.py"])\n')
    # Pants has no option for it, and an engine without a bridge no other network for a build.
    tools = tmp_path / "bin"
    tools.mkdir()
    shim = tools / "docker"
    shim.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = build ]; then shift; set -- build --network=host "$@"; fi\n'
        f'exec {shutil.which("docker")} "$@"\n'
    )
    shim.chmod(0o755)
    build_env = {
        "CI_BASE_CPU": base,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PANTS_REMOTE_STORE_HEADERS": json.dumps({"authorization": A_SECRET}),
    }
    try:
        building = ws.start_pants(
            "package", f"{IMAGES}:cpu", "--docker-build-verbose", env=build_env
        )
        # What the base's distribution and the package index take is not in our hands.
        output, _ = building.communicate(timeout=1000)
        assert building.returncode == 0, output

        # Nothing of this machine or of its secrets is in what the image says of itself.
        said = docker("history", "--no-trunc", image) + docker("image", "inspect", image)
        for private in (A_SECRET, str(tmp_path), str(REPOSITORY), sys.base_prefix):
            assert private not in said
        [config] = json.loads(docker("image", "inspect", image))
        assert config["Config"]["User"] == "1001"

        # All that the lane needs is in the image.
        run = run_lane(ws, "cpu", f"--image={image}", "--", "--network=none")
        assert run.exit_code == 0, run.output
        reports = list((ws.root / "dist/lanes/cpu/test/reports").glob("*.xml"))
        assert reports, run.output
        # The checkout is as it was.
        assert not (ws.root / "dist/test").exists()

        # What git ignores is not in the container, and the lane's failure is the script's.
        ws.write({"tests/demo/cpu_test.py": "def test_it(): assert False, 'as it should'\n"})
        run = run_lane(ws, "cpu", f"--image={image}", "--", "--network=none")
        assert run.exit_code == 1, run.output
        assert "as it should" in run.output

        # A device that isn't here is asked for by the lane's own options.
        run = run_lane(ws, "rocm", f"--image={image}")
        assert run.exit_code == 125, run.output
        assert "this machine has no /dev/no-such-device, which the lane `rocm` needs" in run.output
        run = run_lane(ws, "rocm", f"--image={image}", "--without-devices", "--", "--network=none")
        assert run.exit_code == 0, run.output
        assert "tests/demo/rocm_test.py:rocm skipped" in run.output
        assert docker("ps", "--all", "--quiet", f"--filter=ancestor={image}") == ""
    finally:
        subprocess.run(["docker", "image", "rm", "--force", image], stdout=subprocess.DEVNULL)
