"""`lock-artifacts` and `fetch-artifacts`, by the real processes; archives are on this machine."""

from __future__ import annotations

import hashlib
import io
import logging
import shutil
import tarfile
from pathlib import Path
from typing import Iterator, Sequence

import pytest
from pants.core.subsystems import python_bootstrap
from pants.core.target_types import GenericTarget
from pants.core.util_rules import system_binaries
from pants.engine.goal import Goal
from pants.engine.internals.scheduler import ExecutionError
from pants.engine.platform import Platform
from pants.testutil.rule_runner import GoalRuleResult, RuleRunner

from pants_triton.artifact import goal_rules, misbehaving
from pants_triton.artifact import rules as artifact_rules
from pants_triton.artifact import use_rules as artifact_use_rules
from pants_triton.artifact.fetch_rules import CACHE_NAME
from pants_triton.artifact.goal_rules import FetchArtifacts, LockArtifacts
from pants_triton.artifact.lock import Lock, UrlEntry, read_lock
from pants_triton.artifact.platforms import PANTS_PLATFORMS
from pants_triton.artifact.target_types import ARTIFACT_TARGET_TYPES
from pants_triton.program import rules as program_rules

LOCK = "3rdparty/artifacts.lock.json"


@pytest.fixture
def rule_runner(tmp_path: Path) -> RuleRunner:
    return RuleRunner(
        rules=[
            *artifact_rules.rules(),
            *artifact_use_rules.rules(),
            *goal_rules.rules(),
            *program_rules.rules(),
            *python_bootstrap.rules(),
            *system_binaries.rules(),
        ],
        target_types=[*ARTIFACT_TARGET_TYPES, GenericTarget],
        bootstrap_args=[f"--named-caches-dir={tmp_path}/caches"],
        isolated_local_store=True,
    )


@pytest.fixture
def server() -> Iterator[misbehaving.Server]:
    with misbehaving.running() as server:
        yield server


class Workspace:
    """A workspace with a BUILD file at `t`, in which goals are run."""

    def __init__(self, rule_runner: RuleRunner, caches: Path) -> None:
        self._rule_runner = rule_runner
        self._caches = caches

    def build(self, *targets: str, **files: str) -> None:
        """Write `t/BUILD`, and other files by their names."""
        self._rule_runner.write_files(
            {"t/BUILD": "\n".join(targets), **{f"t/{name}": text for name, text in files.items()}}
        )

    def forget_downloads(self) -> None:
        shutil.rmtree(self.downloads)

    def lock_artifacts(self, *args: str, options: Sequence[str] = ()) -> GoalRuleResult:
        return self._run(LockArtifacts, args, options)

    @property
    def downloads(self) -> Path:
        return self._caches / CACHE_NAME / "downloads"

    def fetch_artifacts(self, *args: str, options: Sequence[str] = ()) -> GoalRuleResult:
        return self._run(FetchArtifacts, args, options)

    def _run(self, goal: type[Goal], args: Sequence[str], options: Sequence[str]) -> GoalRuleResult:
        return self._rule_runner.run_goal_rule(
            goal,
            global_args=[f"--named-caches-dir={self._caches}", "--artifact-tries=1", *options],
            args=args,
            env_inherit={"PATH"},
        )

    @property
    def root(self) -> Path:
        return Path(self._rule_runner.build_root)

    @property
    def lock_file(self) -> Path:
        return self.root / LOCK

    @property
    def lock(self) -> Lock:
        return read_lock(self.lock_file.read_text(), LOCK)

    def locked(self) -> dict[str, str]:
        """The sha256 of each entry, by its target."""
        return {
            row.address: row.entry.sha256
            for row in self.lock.rows
            if isinstance(row.entry, UrlEntry)
        }


@pytest.fixture
def workspace(rule_runner: RuleRunner, tmp_path: Path) -> Workspace:
    return Workspace(rule_runner, tmp_path / "caches")


def archive(name: str, url: str, **fields: object) -> str:
    """A target, as text."""
    more = "".join(f", {field}={value!r}" for field, value in fields.items())
    return f"archive_artifact(name={name!r}, url={url!r}{more})"


def a_tar(**files: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content.encode()))
    return data.getvalue()


ONE, TWO = a_tar(one="1"), a_tar(two="2")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def on_disk(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return path.as_uri()


# --- lock-artifacts --------------------------------------------------------------------------


def test_the_lock_is_made_of_what_is_declared(workspace: Workspace, tmp_path: Path) -> None:
    url = on_disk(tmp_path / "one.tar", ONE)
    workspace.build(archive("one", url))
    result = workspace.lock_artifacts()
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        f"+ t:one any: {url} (10.2 kB, sha256 {sha256(ONE)[:12]})",
        f"{LOCK} was written: 1 entry.",
    ]
    (row,) = workspace.lock.rows
    assert isinstance(row.entry, UrlEntry)
    assert (row.entry.location, row.entry.sha256) == (url, sha256(ONE))


def test_what_did_not_change_is_kept_and_not_asked_again(
    workspace: Workspace, server: misbehaving.Server
) -> None:
    workspace.build(archive("one", server.on("/one.tar", misbehaving.file(ONE))))
    workspace.lock_artifacts()
    text, asked = workspace.lock_file.read_text(), len(server.log)
    result = workspace.lock_artifacts()
    assert (result.exit_code, result.stdout) == (0, f"{LOCK} is up to date: 1 entry.\n")
    assert len(server.log) == asked

    two = server.on("/two.tar", misbehaving.file(TWO))
    workspace.build(archive("one", server.url + "/one.tar"), archive("two", two))
    assert workspace.lock_artifacts().exit_code == 0
    assert workspace.locked() == {"t:one": sha256(ONE), "t:two": sha256(TWO)}
    assert len(server.requests("/one.tar")) == asked

    # What nobody declares any more goes.
    workspace.build(archive("one", server.url + "/one.tar"))
    result = workspace.lock_artifacts()
    assert result.stdout.startswith("- t:two any: ")
    assert workspace.lock_file.read_text() == text


def test_check_says_what_is_wrong_and_writes_nothing(
    workspace: Workspace, server: misbehaving.Server
) -> None:
    one = server.on("/one.tar", misbehaving.file(ONE))
    workspace.build(archive("one", one))
    result = workspace.lock_artifacts("--check")
    assert result.exit_code == 1
    assert f"t:one: the archive one.tar for any is not in {LOCK}" in result.stderr
    assert not workspace.lock_file.exists()
    assert server.log == []

    workspace.lock_artifacts()
    result = workspace.lock_artifacts("--check")
    assert (result.exit_code, result.stdout) == (0, f"{LOCK} is up to date: 1 entry.\n")

    workspace.build(archive("one", one, strip="folder"))
    text, asked = workspace.lock_file.read_text(), len(server.log)
    result = workspace.lock_artifacts("--check")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "from another state of its declaration" in result.stderr
    assert workspace.lock_file.read_text() == text
    assert len(server.log) == asked


def test_refresh_looks_again_at_what_is_named(
    workspace: Workspace, server: misbehaving.Server
) -> None:
    one, two = (
        server.on(f"/{name}.tar", misbehaving.file(data), misbehaving.file(data + bytes(512)))
        for name, data in (("one", ONE), ("two", TWO))
    )
    workspace.build(archive("one", one), archive("two", two))
    workspace.lock_artifacts()

    result = workspace.lock_artifacts("--refresh", "t:two")
    assert result.exit_code == 0
    assert "~ t:two any" in result.stdout
    # Other bytes without a new name: who reads the diff should wonder.
    assert "(other bytes under the same name!)" in result.stdout
    assert workspace.locked() == {"t:one": sha256(ONE), "t:two": sha256(TWO + bytes(512))}

    # None named is all.
    assert workspace.lock_artifacts("--refresh").exit_code == 0
    assert workspace.locked()["t:one"] == sha256(ONE + bytes(512))


def test_check_with_refresh_looks_again_but_writes_nothing(
    workspace: Workspace, server: misbehaving.Server
) -> None:
    one = server.on("/one.tar", misbehaving.file(ONE), misbehaving.file(TWO))
    workspace.build(archive("one", one))
    workspace.lock_artifacts()
    result = workspace.lock_artifacts("--check", "--refresh")
    assert result.exit_code == 1
    assert "~ t:one any" in result.stdout
    assert f"{LOCK} is not what BUILD files and pins declare now" in result.stderr
    assert workspace.locked() == {"t:one": sha256(ONE)}


@pytest.mark.parametrize(
    ("failing", "message"),
    [
        pytest.param(
            "archive_artifact(name='bad', url='URL/missing.tar')",
            "t:bad: the archive missing.tar for any doesn't exist: URL/missing.tar: the server "
            "answered 404 Not Found. Correct the target or its pin, then run",
            id="a file that isn't there",
        ),
        pytest.param(
            "archive_artifact(name='bad', url='URL/broken.tar')",
            "(1 try). Correct the location, or try again later.",
            id="a server that doesn't answer",
        ),
        pytest.param(
            "archive_artifact(name='bad', url='URL/page.tar')",
            "t:bad: the archive page.tar for any: what URL/page.tar serves is not what it is named: it "
            "is a page of HTML.",
            id="a page in the place of an archive",
        ),
        pytest.param(
            "artifact_tree(name='bad', parts=[':bad'])",
            "t:bad: parts: it contains itself (t:bad -> t:bad): leave one out.",
            id="a tree that contains itself",
        ),
        pytest.param(
            "archive_artifact(name='bad', url='URL/{pin}.tar', pin='missing.txt')",
            "t:bad: pin: t/missing.txt doesn't exist, or Pants ignores it",
            id="a pin that isn't there",
        ),
        pytest.param(
            "archive_artifact(name='bad', url='ftp://example.com/a')",
            "t:bad: url: ",
            id="a declaration with an error",
        ),
        pytest.param(
            "wheel_artifact(name='bad', distribution='x', version='1', platforms=['linux_x86_64'])",
            "t:bad: the wheel of x 1",
            id="a wheel that no index has",
        ),
    ],
)
def test_on_any_error_nothing_is_written(
    workspace: Workspace,
    server: misbehaving.Server,
    failing: str,
    message: str,
) -> None:
    one = server.on("/one.tar", misbehaving.file(ONE))
    server.on("/broken.tar", misbehaving.status(500))
    server.on("/page.tar", misbehaving.file(b"<html>"))
    workspace.build(archive("one", one))
    workspace.lock_artifacts()
    text = workspace.lock_file.read_text()

    two = server.on("/two.tar", misbehaving.file(TWO))
    workspace.build(archive("one", one), archive("two", two), failing.replace("URL", server.url))
    # The index of this workspace is the server, which has nothing.
    result = workspace.lock_artifacts(options=[f"--python-repos-indexes=['{server.url}/simple']"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert message.replace("URL", server.url) in result.stderr
    assert result.stderr.splitlines()[-1] == f"{LOCK} is as it was."
    assert workspace.lock_file.read_text() == text


def test_one_error_hides_no_other(workspace: Workspace, server: misbehaving.Server) -> None:
    server.on("/broken.tar", misbehaving.status(500))
    workspace.build(
        archive("broken", f"{server.url}/broken.tar"),
        archive("lost", f"{server.url}/lost.tar"),
        f"llvm_toolchain(name='llvm', pin='llvm-hash.txt', stores=['{server.url}'])",
        **{"llvm-hash.txt": "62b7cf9623fc310525f39ed69aaecc318a909731"},
    )
    server.on("/llvm-62b7cf96-ubuntu-x64.tar.gz", misbehaving.status(500))
    result = workspace.lock_artifacts()
    assert (result.exit_code, result.stdout) == (1, "")
    *errors, last = result.stderr.splitlines()
    assert last == f"{LOCK} is as it was."
    assert sorted(error.partition(": ")[0] for error in errors) == ["t:broken", "t:llvm", "t:lost"]
    # One of LLVM's platforms may exist.
    assert "doesn't exist on any" not in result.stderr


def test_an_edited_lock(workspace: Workspace, server: misbehaving.Server) -> None:
    url = server.on("/one.tar", misbehaving.file(ONE))
    workspace.build(archive("one", url))
    workspace.lock_artifacts()
    good = workspace.lock_file.read_text()
    workspace.lock_file.write_text(good.replace(url, f"{server.url}/evil.tar"))
    message = f"t:one: the archive one.tar for any was edited in {LOCK}: its `location` is not what"
    for result in (workspace.lock_artifacts("--check"), workspace.fetch_artifacts("t::")):
        assert result.exit_code == 1 and message in result.stderr
    assert server.requests("/evil.tar") == []
    assert workspace.lock_artifacts().exit_code == 0
    assert workspace.lock_file.read_text() == good


def test_a_lock_that_pants_ignores(workspace: Workspace, tmp_path: Path) -> None:
    workspace.build(archive("one", on_disk(tmp_path / "one.tar", ONE)))
    # As every folder whose name begins with a dot.
    options = ["--artifact-lock=.hidden/lock.json"]
    assert workspace.lock_artifacts(options=options).exit_code == 0
    # Or it would be made anew for ever, and nobody would find anything in it.
    ignored = "is .hidden/lock.json, which exists, but Pants ignores it"
    with pytest.raises(ExecutionError, match=ignored):
        workspace.lock_artifacts(options=options)


def test_a_question_of_two_targets_is_asked_once(
    workspace: Workspace, server: misbehaving.Server
) -> None:
    url = server.on("/one.tar", misbehaving.file(ONE))
    workspace.build(archive("a", url), archive("b", url, strip="folder"))
    assert workspace.lock_artifacts().exit_code == 0
    assert workspace.locked() == {"t:a": sha256(ONE), "t:b": sha256(ONE)}
    assert len(server.log) == 1


# --- fetch-artifacts -------------------------------------------------------------------------


def test_what_is_there_is_not_downloaded_again(
    workspace: Workspace, server: misbehaving.Server
) -> None:
    one = server.on("/one.tar", misbehaving.file(ONE))
    two = server.on("/two.tar", misbehaving.file(TWO))
    workspace.build(archive("one", one), archive("two", two), "target(name='no_artifact')")
    workspace.lock_artifacts()
    workspace.forget_downloads()

    result = workspace.fetch_artifacts("t:two")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "t:two: the archive two.tar for any: 10.2 kB: downloaded",
        "1 file downloaded (10.2 kB) of 1 file (10.2 kB); all verified.",
    ]

    asked = len(server.requests("/two.tar"))
    result = workspace.fetch_artifacts("t::")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "t:one: the archive one.tar for any: 10.2 kB: downloaded",
        "t:two: the archive two.tar for any: 10.2 kB: cached",
        "1 file downloaded (10.2 kB) of 2 files (20.5 kB); all verified.",
    ]
    assert len(server.requests("/two.tar")) == asked


def test_the_files_become_a_mirror(
    workspace: Workspace, server: misbehaving.Server, tmp_path: Path
) -> None:
    workspace.build(archive("one", server.on("/one.tar", misbehaving.file(ONE))))
    workspace.lock_artifacts()
    mirror = tmp_path / "mirror"
    assert workspace.fetch_artifacts(f"--mirror={mirror}", "t::").exit_code == 0
    assert (mirror / sha256(ONE)).read_bytes() == ONE

    # Where the file is gone, the mirror has it.
    workspace.forget_downloads()
    server.on("/one.tar", misbehaving.status(404))
    assert workspace.fetch_artifacts("t::").exit_code == 1
    result = workspace.fetch_artifacts(
        "t::", options=(f"--artifact-mirrors=['{mirror.as_uri()}']",)
    )
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_mirror_is_named_from_the_build_root(workspace: Workspace, tmp_path: Path) -> None:
    workspace.build(archive("one", on_disk(tmp_path / "one.tar", ONE)))
    workspace.lock_artifacts()
    assert workspace.fetch_artifacts("--mirror=dist/mirror", "t::").exit_code == 0
    assert (workspace.root / "dist" / "mirror" / sha256(ONE)).read_bytes() == ONE


@pytest.mark.parametrize(
    ("value", "folder"),
    [
        pytest.param("file://TMP/a%20mirror", "TMP/a mirror", id="a URL of a folder"),
        pytest.param("~/mirror", "TMP/mirror", id="in one's home"),
    ],
)
def test_other_names_of_a_mirror(
    workspace: Workspace,
    tmp_path: Path,
    value: str,
    folder: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    workspace.build(archive("one", on_disk(tmp_path / "one.tar", ONE)))
    workspace.lock_artifacts()
    value = value.replace("TMP", str(tmp_path))
    result = workspace.fetch_artifacts(f"--mirror={value}", "t::")
    assert (result.exit_code, result.stderr) == (0, "")
    mirror = Path(folder.replace("TMP", str(tmp_path)))
    assert (mirror / sha256(ONE)).read_bytes() == ONE


@pytest.mark.parametrize(
    ("value", "error"),
    [
        pytest.param("", "is empty: name a folder, or leave it out.", id="empty"),
        pytest.param(
            "https://me:geheim@example.com/m",
            "must be a folder of this machine, but is 'https://example.com/m': ",
            id="a server",
        ),
        pytest.param("file://host/m", "must be a folder of this machine", id="another machine's"),
    ],
)
def test_a_mirror_that_is_no_folder(workspace: Workspace, value: str, error: str) -> None:
    workspace.build(archive("one", "https://example.invalid/a.tar"))
    result = workspace.fetch_artifacts(f"--mirror={value}", "t::")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"The option `[fetch-artifacts].mirror` {error}" in result.stderr
    assert "geheim" not in result.stderr


def test_what_was_damaged_is_not_said_to_have_been_there(
    workspace: Workspace, server: misbehaving.Server
) -> None:
    workspace.build(archive("one", server.on("/one.tar", misbehaving.file(ONE))))
    workspace.lock_artifacts()
    kept = workspace.downloads / sha256(ONE)
    kept.chmod(0o644)
    kept.write_bytes(TWO)
    result = workspace.fetch_artifacts("t::")
    assert result.exit_code == 0
    assert "t:one: the archive one.tar for any: 10.2 kB: downloaded" in result.stdout


def test_a_mirror_with_other_bytes_is_told_of(
    workspace: Workspace,
    server: misbehaving.Server,
    caplog: pytest.LogCaptureFixture,
) -> None:
    workspace.build(archive("one", server.on("/one.tar", misbehaving.file(ONE))))
    workspace.lock_artifacts()
    workspace.forget_downloads()
    bad = server.on(f"/mirror/{sha256(ONE)}", misbehaving.file(TWO))
    options = [f"--artifact-mirrors=['{server.url}/mirror']"]
    assert workspace.fetch_artifacts("t::", options=options).exit_code == 0
    (message,) = (r.getMessage() for r in caplog.records if r.levelno == logging.WARNING)
    assert message.startswith(f"Download t:one: the archive one.tar for any: one.tar: {bad}: wrong")


def test_wrong_bytes_say_what_to_run(workspace: Workspace, server: misbehaving.Server) -> None:
    url = server.on("/one.tar", misbehaving.file(ONE), misbehaving.file(TWO))
    workspace.build(archive("one", url))
    workspace.lock_artifacts()
    workspace.forget_downloads()
    result = workspace.fetch_artifacts("t::")
    assert result.exit_code == 1
    assert "run `./pants lock-artifacts --refresh t:one` and read the diff" in result.stderr


def test_other_platforms(workspace: Workspace, tmp_path: Path) -> None:
    ours = Platform.create_for_localhost().value
    other = next(platform for platform in PANTS_PLATFORMS if platform != ours)
    urls = {other: on_disk(tmp_path / "other.tar", ONE)}
    workspace.build(f"archive_artifact(name='other', urls={urls!r})")
    workspace.lock_artifacts()
    workspace.forget_downloads()
    result = workspace.fetch_artifacts("t::")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"t:other: the archive other.tar isn't declared for {ours} " in result.stderr

    result = workspace.fetch_artifacts("--all-platforms", "t::")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0] == (
        f"t:other: the archive other.tar for {other}: 10.2 kB: downloaded"
    )


@pytest.mark.parametrize(
    "flags", [pytest.param([], id="host"), pytest.param(["--all-platforms"], id="all")]
)
def test_what_is_not_locked_is_not_fetched(
    workspace: Workspace, tmp_path: Path, flags: list[str]
) -> None:
    workspace.build(archive("one", on_disk(tmp_path / "one.tar", ONE)))
    result = workspace.fetch_artifacts(*flags, "t::")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"t:one: the archive one.tar for any is not in {LOCK}" in result.stderr


@pytest.mark.parametrize(
    "flags", [pytest.param([], id="host"), pytest.param(["--all-platforms"], id="all")]
)
def test_what_is_locked_from_another_state_is_not_fetched(
    workspace: Workspace, tmp_path: Path, flags: list[str]
) -> None:
    url = on_disk(tmp_path / "one.tar", ONE)
    workspace.build(archive("one", url))
    workspace.lock_artifacts()
    workspace.build(archive("one", url, strip="folder"))
    result = workspace.fetch_artifacts(*flags, "t::")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "from another state of its declaration" in result.stderr


@pytest.mark.parametrize(
    "specs",
    [pytest.param([], id="nothing named"), pytest.param(["t:no_artifact"], id="something else")],
)
def test_no_artifact_is_named(workspace: Workspace, specs: list[str]) -> None:
    workspace.build("target(name='no_artifact')")
    result = workspace.fetch_artifacts(*specs)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "No artifact is named: say which, as in `./pants fetch-artifacts 3rdparty::`.\n"
    )


def test_one_that_fails_keeps_no_other_back(
    workspace: Workspace, server: misbehaving.Server
) -> None:
    fine = server.on("/fine.tar", misbehaving.file(ONE))
    gone = server.on("/gone.tar", misbehaving.file(TWO))
    workspace.build(archive("fine", fine), archive("gone", gone))
    workspace.lock_artifacts()
    workspace.forget_downloads()
    server.on("/gone.tar", misbehaving.status(404))
    broken = archive("broken", "ftp://example.com/a")
    workspace.build(archive("fine", fine), archive("gone", gone), broken)

    result = workspace.fetch_artifacts("t::")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "t:fine: the archive fine.tar for any: 10.2 kB: downloaded",
        "1 file downloaded (10.2 kB) of 1 file (10.2 kB); all verified.",
    ]
    declaration, download = result.stderr.splitlines()
    assert declaration.startswith("t:broken: url: ")
    assert download.startswith("t:gone: the archive gone.tar for any: gone.tar can't be downloaded")


def test_a_tree_is_fetched_by_its_parts(workspace: Workspace, tmp_path: Path) -> None:
    workspace.build(
        archive("one", on_disk(tmp_path / "one.tar", ONE)),
        archive("two", on_disk(tmp_path / "two.tar", TWO)),
        "artifact_tree(name='inner', parts=[':one'])",
        "artifact_tree(name='outer', parts=[':inner', ':two', ':one'])",
    )
    workspace.lock_artifacts()
    result = workspace.fetch_artifacts("t:outer")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.partition(": ")[0] for line in result.stdout.splitlines()[:-1]] == [
        "t:one",
        "t:two",
    ]


def test_a_local_tree_is_not_fetched(workspace: Workspace, tmp_path: Path) -> None:
    workspace.build(archive("one", "https://example.invalid/a.tar"))
    result = workspace.fetch_artifacts(
        "t::", options=("--artifact-local-trees={'t:one': '/opt/llvm'}",)
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "t:one: is /opt/llvm, by `[artifact].local_trees`\n"
