"""From BUILD files and a lock to trees, by the real processes; archives are `file:` URLs."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent
from typing import Any, Mapping

import pytest
from pants.backend.python.goals.pytest_runner import PytestPluginSetup
from pants.core.subsystems import python_bootstrap
from pants.core.target_types import FileSourceField, GenericTarget
from pants.core.util_rules import system_binaries
from pants.engine.addresses import Address, Addresses
from pants.engine.fs import (
    CreateDigest,
    Digest,
    DigestContents,
    DigestEntries,
    FileContent,
    FileEntry,
    SymlinkEntry,
)
from pants.engine.internals.scheduler import ExecutionError
from pants.engine.platform import Platform
from pants.engine.process import Process
from pants.engine.rules import Get, rule
from pants.engine.target import (
    Dependencies,
    DependenciesRequest,
    HydratedSources,
    HydrateSourcesRequest,
)
from pants.testutil.rule_runner import QueryRule, RuleRunner, engine_error

from pants_triton.artifact import misbehaving
from pants_triton.artifact import rules as artifact_rules
from pants_triton.artifact import use_rules as artifact_use_rules
from pants_triton.artifact.declaration import Slot, UrlQuestion
from pants_triton.artifact.declaration_rules import (
    AllArtifacts,
    ArtifactDeclaration,
    ArtifactDeclarationRequest,
)
from pants_triton.artifact.fetch_rules import CACHE_NAME, FetchSettings, listing_of
from pants_triton.artifact.listing import ListedFile, Listing, listing_path, listing_text
from pants_triton.artifact.lock import Row, UrlEntry, entry_json, make_lock, write_lock
from pants_triton.artifact.lock_rules import ArtifactLock, LocatedArtifact, LocatedArtifactRequest
from pants_triton.artifact.platforms import PANTS_PLATFORMS
from pants_triton.artifact.rules import (
    ArtifactTree,
    ArtifactTreeRequest,
    ArtifactTrees,
    ArtifactTreesRequest,
    Overlay,
    OverlayRequest,
    run_with_trees,
)
from pants_triton.artifact.settings_file import lent_listing
from pants_triton.artifact.subsystem import ArtifactError, ArtifactOptionError
from pants_triton.artifact.target_types import ARTIFACT_TARGET_TYPES, ArtifactFilesSourceField
from pants_triton.artifact.use_rules import ArtifactsOfPythonTestRequest
from pants_triton.program import rules as program_rules

LOCK = "3rdparty/artifacts.lock.json"
REVISION = "62b7cf9623fc310525f39ed69aaecc318a909731"
NOTHING = "0" * 64

# Paths to contents.
Files = Mapping[str, str]


@pytest.fixture
def rule_runner(tmp_path: Path) -> RuleRunner:
    return new_rule_runner(tmp_path)


def new_rule_runner(tmp_path: Path) -> RuleRunner:
    rule_runner = RuleRunner(
        rules=[
            *artifact_rules.rules(),
            *artifact_use_rules.rules(),
            *program_rules.rules(),
            *python_bootstrap.rules(),
            *system_binaries.rules(),
            QueryRule(Addresses, (DependenciesRequest,)),
            QueryRule(AllArtifacts, ()),
            QueryRule(ArtifactDeclaration, (ArtifactDeclarationRequest,)),
            QueryRule(ArtifactLock, ()),
            QueryRule(ArtifactTree, (ArtifactTreeRequest,)),
            QueryRule(ArtifactTrees, (ArtifactTreesRequest,)),
            QueryRule(DigestContents, (Digest,)),
            QueryRule(DigestEntries, (Digest,)),
            QueryRule(FetchSettings, ()),
            QueryRule(HydratedSources, (HydrateSourcesRequest,)),
            read_in_tree,
            QueryRule(Said, (ReadRequest,)),
            QueryRule(LocatedArtifact, (LocatedArtifactRequest,)),
            QueryRule(Overlay, (OverlayRequest,)),
            QueryRule(PytestPluginSetup, (ArtifactsOfPythonTestRequest,)),
        ],
        target_types=[*ARTIFACT_TARGET_TYPES, GenericTarget],
        bootstrap_args=[
            f"--named-caches-dir={tmp_path}/caches",
            # So that what a process was given can be read.
            f"--local-execution-root-dir={tmp_path}/sandboxes",
            "--keep-sandboxes=always",
        ],
        isolated_local_store=True,
    )
    set_options(rule_runner, tmp_path)
    return rule_runner


def set_options(
    rule_runner: RuleRunner, tmp_path: Path, *options: str, env: Mapping[str, str] = {}
) -> None:
    rule_runner.set_options(
        [f"--named-caches-dir={tmp_path}/caches", *options], env=env, env_inherit={"PATH"}
    )


def spec(address: str) -> Address:
    """`3rdparty/llvm:llvm` as an address."""
    folder, _, name = address.partition(":")
    return Address(folder, target_name=name)


def declare(rule_runner: RuleRunner, address: str) -> ArtifactDeclaration:
    return rule_runner.request(ArtifactDeclaration, [ArtifactDeclarationRequest(spec(address))])


def tree(rule_runner: RuleRunner, address: str) -> ArtifactTree:
    return rule_runner.request(ArtifactTree, [ArtifactTreeRequest(spec(address))])


def files_of(rule_runner: RuleRunner, digest: Digest) -> Files:
    contents = rule_runner.request(DigestContents, [digest])
    return {file.path: file.content.decode() for file in contents}


def an_archive(path: Path, files: Files) -> str:
    """Make a `.tar` at `path`; returns its URL."""
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if name.endswith("/"):
                member.type = tarfile.DIRTYPE
                member.mode = 0o755
            tar.addfile(member, io.BytesIO(content.encode()))
    return path.as_uri()


def sha256_of(url: str) -> str:
    return hashlib.sha256(Path(url[len("file://") :]).read_bytes()).hexdigest()


def locked(slot: Slot, **changes: Any) -> Row:
    """The row that answers a slot whose archive is a `file:` URL."""
    assert isinstance(slot.question, UrlQuestion)
    url = slot.question.locations[0]
    digest = sha256_of(url) if url.startswith("file:") else NOTHING
    entry = UrlEntry(url, digest, None, slot.pin_sha256, slot.strip, slot.subset)
    return Row(slot.address, slot.platform, replace(entry, **changes))


def write_rows(rule_runner: RuleRunner, *rows: Row) -> None:
    rule_runner.write_files({LOCK: write_lock(make_lock(LOCK, rows))})


def lock_all(rule_runner: RuleRunner, **changes: Any) -> None:
    artifacts = rule_runner.request(AllArtifacts, [])
    write_rows(rule_runner, *(locked(slot, **changes) for slot in artifacts.slots))


def processes(rule_runner: RuleRunner) -> int:
    """How many were run since the options were set, the registration of the sandboxes included."""
    return rule_runner.scheduler.get_metrics().get("local_execution_requests", 0)


# --- declared --------------------------------------------------------------------------------

A_PIN = {
    "t/llvm-hash.txt": REVISION,
    "t/nvidia.json": json.dumps({"ptxas": "12.8.93", "cudart": "12.8.57"}),
    "t/json-version.txt": "v3.11.3\n",
}


@pytest.mark.parametrize(
    ("build_file", "artifacts"),
    [
        pytest.param(
            "llvm_toolchain(name='it', pin='llvm-hash.txt', stores=['https://example.com/llvm'])",
            {
                "LLVM 62b7cf96 for linux_arm64-ubuntu",
                "LLVM 62b7cf96 for linux_x86_64-ubuntu",
                "LLVM 62b7cf96 for macos_arm64",
            },
            id="llvm_toolchain",
        ),
        pytest.param(
            "nvidia_toolchain(name='it', pin='nvidia.json', platforms=['linux_x86_64'])",
            {"ptxas 12.8.93 for linux_x86_64", "cudart 12.8.57 for linux_x86_64"},
            id="nvidia_toolchain",
        ),
        pytest.param(
            "nvidia_toolchain(name='it', pin='nvidia.json', components=['ptxas'], platforms=['linux_arm64'])",
            {"ptxas 12.8.93 for linux_arm64"},
            id="some components",
        ),
        pytest.param(
            "archive_artifact(name='it', pin='json-version.txt', url='https://example.com/{pin}.zip')",
            {"the archive v3.11.3.zip for any"},
            id="archive_artifact",
        ),
        pytest.param(
            "archive_artifact(name='it', urls={'linux_arm64': 'https://example.com/a.zip', "
            "'macos_arm64': 'https://example.com/m.zip'})",
            {"the archive a.zip for linux_arm64", "the archive m.zip for macos_arm64"},
            id="an archive for each platform",
        ),
        pytest.param(
            "wheel_artifact(name='it', distribution='nvcc', version='12.8', platforms=['linux_x86_64'])",
            {"the wheel of nvcc 12.8 for linux_x86_64"},
            id="wheel_artifact",
        ),
        pytest.param(
            "debian_artifact(name='it', packages=['clang-19'], suite='bookworm')",
            {"the tree of bookworm's clang-19 for linux_x86_64"},
            id="debian_artifact",
        ),
    ],
)
def test_what_a_target_wants_of_the_lock(
    rule_runner: RuleRunner, build_file: str, artifacts: set[str]
) -> None:
    rule_runner.write_files({**A_PIN, "t/BUILD": build_file})
    declared = declare(rule_runner, "t:it")
    assert (declared.error, declared.path, declared.parts) == ("", "t/it", Addresses())
    assert artifacts <= {f"{slot.artifact} for {slot.platform}" for slot in declared.slots}


def test_a_tree_of_parts_wants_nothing_of_the_lock_itself(rule_runner: RuleRunner) -> None:
    rule_runner.write_files(
        {
            "t/BUILD": dedent(
                """\
                artifact_tree(name="it", parts=[":b", ":a"], path="tools")
                archive_artifact(name="a", url="https://example.com/a.zip")
                archive_artifact(name="b", url="https://example.com/b.zip")
                """
            )
        }
    )
    assert declare(rule_runner, "t:it") == ArtifactDeclaration(
        spec("t:it"), "tools", parts=Addresses([spec("t:b"), spec("t:a")])
    )


@pytest.mark.parametrize(
    ("build_file", "error"),
    [
        pytest.param(
            "llvm_toolchain(name='it', pin='json-version.txt')",
            "t:it: t/json-version.txt: ",
            id="a pin of something else",
        ),
        pytest.param(
            "archive_artifact(name='it')",
            "t:it: set either `url` or `urls`: ",
            id="no URL",
        ),
        pytest.param(
            "archive_artifact(name='it', url='https://a.com/a', urls={'any': 'https://a.com/a'})",
            "t:it: set either `url` or `urls`: ",
            id="two URLs",
        ),
        pytest.param(
            "archive_artifact(name='it', url='ftp://example.com/a.zip')",
            "t:it: url: ",
            id="an unknown kind of URL",
        ),
        pytest.param(
            "wheel_artifact(name='it', distribution='a', version='1', platforms=['linux_x86'])",
            "Did you mean 'linux_x86_64'?",
            id="a misspelt platform",
        ),
        pytest.param(
            "target(name='no')\nartifact_tree(name='it', parts=[':no'])",
            "t:it: parts: t:no is a target of the type `target`, and no artifact: name targets such as",
            id="a part that is no artifact",
        ),
        pytest.param(
            "artifact_tree(name='it', parts=[':it'])",
            "t:it: parts: it contains itself (t:it -> t:it): leave one out.",
            id="a tree of itself",
        ),
        pytest.param(
            "artifact_tree(name='it', parts=[':fine', ':b'])\n"
            "artifact_tree(name='b', parts=[':fine', ':c'])\n"
            "artifact_tree(name='c', parts=[':it', ':fine'])",
            "t:it: parts: it contains itself (t:it -> t:b -> t:c -> t:it): leave one out.",
            id="a tree of itself by way of others",
        ),
        *(
            pytest.param(
                f"{target}(name='it', pin='missing.txt'{more})",
                "t:it: pin: t/missing.txt doesn't exist, or Pants ignores it (.gitignore, "
                "`[GLOBAL].pants_ignore`): correct the name, or have Pants see the file.",
                id=f"no pin of {target}",
            )
            for target, more in [
                ("llvm_toolchain", ""),
                ("nvidia_toolchain", ""),
                ("archive_artifact", ", url='https://example.com/{pin}.zip'"),
            ]
        ),
    ],
)
def test_what_cant_be_understood_spoils_nothing_else(
    rule_runner: RuleRunner, build_file: str, error: str
) -> None:
    fine = "archive_artifact(name='fine', url='https://example.com/a.zip')"
    rule_runner.write_files({**A_PIN, "t/BUILD": f"{build_file}\n{fine}"})
    assert error in declare(rule_runner, "t:it").error
    artifacts = rule_runner.request(AllArtifacts, [])
    assert [slot.target for slot in artifacts.slots] == ["t:fine"]
    # Only who needs it fails.
    with engine_error(ArtifactError, contains=error):
        tree(rule_runner, "t:it")


# --- the lock --------------------------------------------------------------------------------


def test_a_lock_that_does_not_exist_is_empty(rule_runner: RuleRunner) -> None:
    assert rule_runner.request(ArtifactLock, []).lock == make_lock(LOCK, [])


def test_a_broken_lock(rule_runner: RuleRunner) -> None:
    rule_runner.write_files({LOCK: "<<<<<<< HEAD\n"})
    with engine_error(ArtifactError, contains=f"{LOCK}: line 1: a merge conflict is not resolved"):
        rule_runner.request(ArtifactLock, [])


@pytest.mark.parametrize(
    "path", ["/elsewhere/a.json", "../a.json", "3rdparty/../../a.json", "./a.json"]
)
def test_a_lock_outside_the_build_root(rule_runner: RuleRunner, tmp_path: Path, path: str) -> None:
    set_options(rule_runner, tmp_path, f"--artifact-lock={path}")
    with engine_error(ArtifactOptionError, contains=f"below the build root, but is {path!r}."):
        rule_runner.request(ArtifactLock, [])


@pytest.mark.parametrize(
    ("path", "error"),
    [
        pytest.param("3rdparty", "must be a file's path, but 3rdparty is a folder.", id="folder"),
        pytest.param("*.json", "must be one file's path, without wildcards", id="wildcard"),
        pytest.param(
            ".hidden/lock.json",
            "is .hidden/lock.json, which exists, but Pants ignores it",
            id="ignored",
        ),
    ],
)
def test_a_lock_that_pants_does_not_see(
    rule_runner: RuleRunner, tmp_path: Path, path: str, error: str
) -> None:
    rule_runner.write_files({"3rdparty/BUILD": "", ".hidden/lock.json": "{}"})
    set_options(rule_runner, tmp_path, f"--artifact-lock={path}")
    with engine_error(ArtifactOptionError, contains=f"The option `[artifact].lock` {error}"):
        rule_runner.request(ArtifactLock, [])


def test_a_tree_around_a_tree_of_itself(rule_runner: RuleRunner) -> None:
    rule_runner.write_files(
        {
            "t/BUILD": "artifact_tree(name='it', parts=[':a'])\n"
            "artifact_tree(name='a', parts=[':b'])\n"
            "artifact_tree(name='b', parts=[':a'])"
        }
    )
    with engine_error(ArtifactError, contains="t:a: parts: it contains itself (t:a -> t:b -> t:a)"):
        tree(rule_runner, "t:it")


def test_every_artifact_depends_on_the_owner_of_the_lock(
    rule_runner: RuleRunner, tmp_path: Path
) -> None:
    rule_runner.write_files(
        {
            "t/BUILD": "archive_artifact(name='it', url='https://example.com/a.zip')",
            "3rdparty/BUILD": "artifact_lock(name='lock', source='artifacts.lock.json')",
            LOCK: write_lock(make_lock(LOCK, [])),
        }
    )

    def dependencies() -> Addresses:
        target = rule_runner.get_target(spec("t:it"))
        return rule_runner.request(Addresses, [DependenciesRequest(target[Dependencies])])

    assert dependencies() == Addresses([spec("3rdparty:lock")])
    # Another file is another's affair.
    set_options(rule_runner, tmp_path, "--artifact-lock=other.json")
    assert dependencies() == Addresses()


def locate(rule_runner: RuleRunner, address: str) -> list[str]:
    located = rule_runner.request(LocatedArtifact, [LocatedArtifactRequest(spec(address))])
    return [f"{found.artifact} for {found.platform}" for found in located.found]


def test_of_all_platforms_the_hosts_is_taken(rule_runner: RuleRunner) -> None:
    ours = Platform.create_for_localhost().value
    urls = {p: f"https://example.com/{p}.zip" for p in PANTS_PLATFORMS}
    rule_runner.write_files({"t/BUILD": f"archive_artifact(name='it', urls={urls})"})
    lock_all(rule_runner)
    assert locate(rule_runner, "t:it") == [f"the archive {ours}.zip for {ours}"]


def test_a_build_of_llvm_may_be_chosen(rule_runner: RuleRunner, tmp_path: Path) -> None:
    rule_runner.write_files(
        {
            "t/BUILD": "llvm_toolchain(name='it', pin='llvm-hash.txt', stores=['https://a.com'])",
            "t/llvm-hash.txt": REVISION,
        }
    )
    lock_all(rule_runner)
    set_options(rule_runner, tmp_path, "--artifact-llvm-system-suffix=macos-arm64")
    assert locate(rule_runner, "t:it") == ["LLVM 62b7cf96 for macos_arm64"]
    set_options(rule_runner, tmp_path, "--artifact-llvm-system-suffix=ubuntu")
    with engine_error(ArtifactError, contains="t:it: a system suffix is `<system>-<arch>`"):
        locate(rule_runner, "t:it")


def test_a_pin_that_moved(rule_runner: RuleRunner) -> None:
    rule_runner.write_files(
        {
            "t/BUILD": "archive_artifact(name='it', pin='v.txt', url='https://example.com/{pin}')",
            "t/v.txt": "v1",
        }
    )
    lock_all(rule_runner)
    rule_runner.write_files({"t/v.txt": "v2"})
    with engine_error(ArtifactError, contains="from another state of its pin t/v.txt"):
        locate(rule_runner, "t:it")


def test_what_is_not_locked(rule_runner: RuleRunner) -> None:
    rule_runner.write_files(
        {"t/BUILD": "archive_artifact(name='it', url='https://example.com/a.zip')"}
    )
    with engine_error(
        ArtifactError,
        contains=f"t:it: the archive a.zip for any is not in {LOCK} (which is empty): run "
        "`./pants lock-artifacts`",
    ):
        tree(rule_runner, "t:it")


# --- fetched ---------------------------------------------------------------------------------


def test_an_archive_becomes_a_tree(rule_runner: RuleRunner, tmp_path: Path) -> None:
    url = an_archive(
        tmp_path / "a.tar", {"a-1.0/include/a.h": "A", "a-1.0/doc/a.txt": "", "LICENSE": ""}
    )
    rule_runner.write_files(
        {
            "t/BUILD": f"archive_artifact(name='it', url={url!r}, strip='a-1.0', "
            "subset={'include': 'inc'}, path='tools/a')"
        }
    )
    lock_all(rule_runner)
    found = tree(rule_runner, "t:it")
    assert (found.address, found.path, found.local_path) == (spec("t:it"), "tools/a", "")
    assert files_of(rule_runner, found.digest) == {"inc/a.h": "A"}


def test_equal_entries_are_one_process(rule_runner: RuleRunner, tmp_path: Path) -> None:
    url = an_archive(tmp_path / "a.tar", {"a": "A"})
    rule_runner.write_files(
        {
            "t/BUILD": f"archive_artifact(name='one', url={url!r})\n"
            f"archive_artifact(name='other', url={url!r}, path='elsewhere')"
        }
    )
    lock_all(rule_runner)
    one = tree(rule_runner, "t:one")
    before = processes(rule_runner)
    other = tree(rule_runner, "t:other")
    assert processes(rule_runner) == before > 0
    assert (one.digest, one.path, other.path) == (other.digest, "t/one", "elsewhere")


WITH_REMOTE_CACHE = ("--remote-cache-read", "--remote-store-address=grpc://localhost:1")


def test_a_tree_is_listed_where_there_is_a_remote_cache(
    rule_runner: RuleRunner, tmp_path: Path
) -> None:
    url = an_archive(tmp_path / "a.tar", {"bin/a": "A"})
    rule_runner.write_files({"t/BUILD": f"archive_artifact(name='it', url={url!r})"})
    lock_all(rule_runner)
    request = ArtifactTreeRequest(spec("t:it"), with_content=False)
    whole = rule_runner.request(ArtifactTree, [request])
    # The sandboxes' registration, and the fetch.
    assert processes(rule_runner) == 2
    assert whole == tree(rule_runner, "t:it")

    set_options(rule_runner, tmp_path, *WITH_REMOTE_CACHE)
    assert rule_runner.request(ArtifactTree, [request]) == whole
    # What is in it was asked for in vain, and is known from now on.
    assert processes(rule_runner) == 2
    set_options(rule_runner, tmp_path, *WITH_REMOTE_CACHE)
    assert rule_runner.request(ArtifactTree, [request]) == whole
    assert processes(rule_runner) == 0
    assert not list((tmp_path / "caches").rglob("listing-*"))


@dataclass(frozen=True)
class ReadRequest:
    """Asks for what a file of a tree says to a process."""

    address: Address
    file: str


@dataclass(frozen=True)
class Said:
    text: str


@rule
async def read_in_tree(request: ReadRequest) -> Said:
    tree = await Get(ArtifactTree, ArtifactTreeRequest(request.address, with_content=False))
    process = Process(
        ("/bin/cat", f"{tree.path}/{request.file}"),
        immutable_input_digests={tree.path: tree.digest},
        description="Read",
    )
    result = await run_with_trees(process, (request.address,))
    return Said(result.stdout.decode() + result.stderr.decode())


def test_a_process_whose_tree_is_not_here(tmp_path: Path) -> None:
    """Its listing came from a cache, and what it lists from nowhere."""
    url = an_archive(tmp_path / "a.tar", {"bin/a": "A", "b": "", "empty/": ""})

    def prepared(folder: Path) -> RuleRunner:
        rule_runner = new_rule_runner(folder)
        rule_runner.write_files({"t/BUILD": f"archive_artifact(name='it', url={url!r})"})
        lock_all(rule_runner)
        set_options(rule_runner, folder, *WITH_REMOTE_CACHE)
        return rule_runner

    other = prepared(tmp_path / "other")
    digest = tree(other, "t:it").digest
    entries = other.request(DigestEntries, [digest])
    [found] = other.request(LocatedArtifact, [LocatedArtifactRequest(spec("t:it"))]).found

    rule_runner = prepared(tmp_path / "own")
    cache = tmp_path / "own/caches/pants_triton_artifacts"
    place = listing_path(cache, os.getpid(), entry_json(found.entry), found.platform)
    request = ArtifactTreeRequest(spec("t:it"), with_content=False)
    with lent_listing(place, listing_text(listing_of(digest, entries))):
        assert rule_runner.request(ArtifactTree, [request]).digest == digest
    scripts = (tmp_path / "own/sandboxes").glob("*/__run.sh")
    assert not any("--entry=" in script.read_text() for script in scripts), "it was fetched"
    with pytest.raises(ExecutionError, match="[Mm]issing|Was not present"):
        files_of(rule_runner, digest)

    said = rule_runner.request(Said, [ReadRequest(spec("t:it"), "bin/a")])
    assert said == Said("A")
    assert files_of(rule_runner, digest) == {"bin/a": "A", "b": ""}
    # What a process itself does wrong is told as ever.
    said = rule_runner.request(Said, [ReadRequest(spec("t:it"), "c")])
    assert "No such file" in said.text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{}", id="nothing"),
        pytest.param(
            listing_text(Listing(NOTHING, 3, {"a": ListedFile(NOTHING, 1, False)}, {"b": "a"}, ())),
            id="of another tree",
        ),
        pytest.param(
            listing_text(Listing(NOTHING, 3, {"/a": ListedFile(NOTHING, 1, False)}, {}, ())),
            id="with an absolute path",
        ),
    ],
)
def test_a_listing_that_is_none(rule_runner: RuleRunner, tmp_path: Path, text: str) -> None:
    url = an_archive(tmp_path / "a.tar", {"a": "A"})
    rule_runner.write_files({"t/BUILD": f"archive_artifact(name='it', url={url!r})"})
    lock_all(rule_runner)
    [found] = rule_runner.request(LocatedArtifact, [LocatedArtifactRequest(spec("t:it"))]).found
    set_options(rule_runner, tmp_path, *WITH_REMOTE_CACHE)
    cache = tmp_path / "caches/pants_triton_artifacts"
    place = listing_path(cache, os.getpid(), entry_json(found.entry), found.platform)
    request = ArtifactTreeRequest(spec("t:it"), with_content=False)
    with lent_listing(place, text):
        found_tree = rule_runner.request(ArtifactTree, [request])
    assert files_of(rule_runner, found_tree.digest) == {"a": "A"}


def test_a_tree_is_cached_without_what_it_was_unpacked_from(
    rule_runner: RuleRunner, tmp_path: Path
) -> None:
    url = an_archive(tmp_path / "a.tar", {"a": "A"})
    rule_runner.write_files({"t/BUILD": f"archive_artifact(name='it', url={url!r})"})
    lock_all(rule_runner)
    digest = tree(rule_runner, "t:it").digest
    (tmp_path / "a.tar").unlink()
    # Another run of Pants, with other mirrors.
    set_options(rule_runner, tmp_path, "--artifact-mirrors=['https://mirror.invalid']")
    assert tree(rule_runner, "t:it").digest == digest


def test_a_mirror_is_asked_first(rule_runner: RuleRunner, tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    url = an_archive(tmp_path / "mirror" / "a.tar", {"a": "A"})
    rule_runner.write_files(
        {"t/BUILD": "archive_artifact(name='it', url='https://example.invalid/a.tar')"}
    )
    lock_all(rule_runner, sha256=sha256_of(url))
    set_options(rule_runner, tmp_path, f"--artifact-mirrors=['{(tmp_path / 'mirror').as_uri()}']")
    assert files_of(rule_runner, tree(rule_runner, "t:it").digest) == {"a": "A"}


def test_other_bytes_than_locked(rule_runner: RuleRunner, tmp_path: Path) -> None:
    with misbehaving.running() as server:
        url = server.on("/a.tar", misbehaving.file(b"other bytes"))
        rule_runner.write_files({"t/BUILD": f"archive_artifact(name='it', url={url!r})"})
        lock_all(rule_runner)
        with pytest.raises(Exception) as error:
            tree(rule_runner, "t:it")
    (cause,) = error.value.wrapped_exceptions  # type: ignore[attr-defined]
    assert isinstance(cause, ArtifactError)
    message = str(cause)
    assert message.startswith("t:it: the archive a.tar for any: ")
    for part in (url, NOTHING[:12], hashlib.sha256(b"other bytes").hexdigest()[:12], "lock-artif"):
        assert part in message


def test_an_archive_that_is_nowhere(rule_runner: RuleRunner, tmp_path: Path) -> None:
    url = (tmp_path / "a.tar").as_uri()
    rule_runner.write_files({"t/BUILD": f"archive_artifact(name='it', url={url!r})"})
    artifacts = rule_runner.request(AllArtifacts, [])
    pin = artifacts.slots[0].pin_sha256
    write_rows(rule_runner, Row("t:it", "any", UrlEntry(url, NOTHING, None, pin)))
    with engine_error(
        ArtifactError,
        contains=f"t:it: the archive a.tar for any: a.tar can't be downloaded: {url}: there is no such "
        "file.",
    ):
        tree(rule_runner, "t:it")


# --- laid over each other --------------------------------------------------------------------


def a_digest(rule_runner: RuleRunner, files: Files, links: Mapping[str, str] = {}) -> Digest:
    entries = [FileContent(path, content.encode()) for path, content in files.items()]
    symlinks = [SymlinkEntry(path, target) for path, target in links.items()]
    return rule_runner.request(Digest, [CreateDigest([*entries, *symlinks])])


def overlay(rule_runner: RuleRunner, *digests: Digest) -> Digest:
    return rule_runner.request(Overlay, [OverlayRequest(digests)]).digest


@pytest.mark.parametrize(
    ("trees", "together"),
    [
        pytest.param([], {}, id="none"),
        pytest.param([{"a": "A"}], {"a": "A"}, id="one"),
        pytest.param(
            [{"bin/a": "A"}, {"bin/b": "B"}], {"bin/a": "A", "bin/b": "B"}, id="nothing in common"
        ),
        pytest.param(
            [{"a": "1", "x": "X"}, {"a": "2"}, {"a": "3", "y": "Y"}],
            {"a": "3", "x": "X", "y": "Y"},
            id="the last one's file is taken",
        ),
        pytest.param([{"a": "1"}, {"a": "2"}], {"a": "2"}, id="nothing is left of the first"),
        pytest.param(
            [{"LICENSE": "L", "a": "A"}, {"LICENSE": "L"}], {"LICENSE": "L", "a": "A"}, id="equal"
        ),
        pytest.param(
            [
                {"a": "1", "*": "star", "[a]": "set", "{a,b}": "x", "a?": "q", "!a": "not"},
                {"a": "2"},
            ],
            {"a": "2", "*": "star", "[a]": "set", "{a,b}": "x", "a?": "q", "!a": "not"},
            id="names that look like globs",
        ),
        pytest.param([{"a": "1", "**": "1"}, {"**": "2"}], {"a": "1", "**": "2"}, id="two stars"),
        pytest.param([{"lib": "L"}, {"lib/a": "A"}], {"lib/a": "A"}, id="a folder over a file"),
        pytest.param([{"lib/a": "A"}, {"lib": "L"}], {"lib": "L"}, id="a file over a folder"),
    ],
)
def test_trees_laid_over_each_other(
    rule_runner: RuleRunner, trees: list[Files], together: Files
) -> None:
    digests = [a_digest(rule_runner, files) for files in trees]
    assert files_of(rule_runner, overlay(rule_runner, *digests)) == together


def test_links_stay_links(rule_runner: RuleRunner) -> None:
    links = {"lib64": "lib", "lib/self": ".", "lib/liba.so": "liba.so.1"}
    below = a_digest(rule_runner, {"lib/liba.so.1": "A", "LICENSE": "1"}, links)
    above = a_digest(rule_runner, {"LICENSE": "2"})
    entries = rule_runner.request(DigestEntries, [overlay(rule_runner, below, above)])
    assert {e.path: e.target for e in entries if isinstance(e, SymlinkEntry)} == links
    assert [e.path for e in entries if isinstance(e, FileEntry)] == ["LICENSE", "lib/liba.so.1"]


def test_a_link_over_a_file(rule_runner: RuleRunner) -> None:
    below = a_digest(rule_runner, {"bin/cc": "old", "bin/gcc": "G"})
    above = a_digest(rule_runner, {}, {"bin/cc": "gcc"})
    entries = rule_runner.request(DigestEntries, [overlay(rule_runner, below, above)])
    assert [e for e in entries if isinstance(e, SymlinkEntry)] == [SymlinkEntry("bin/cc", "gcc")]


def test_a_tree_of_parts(rule_runner: RuleRunner, tmp_path: Path) -> None:
    one = an_archive(tmp_path / "one.tar", {"bin/a": "A", "LICENSE": "1"})
    two = an_archive(tmp_path / "two.tar", {"bin/b": "B", "LICENSE": "2"})
    rule_runner.write_files(
        {
            "t/BUILD": dedent(
                f"""\
                archive_artifact(name="one", url={one!r})
                archive_artifact(name="two", url={two!r})
                artifact_tree(name="it", parts=[":one", ":two"])
                artifact_tree(name="turned", parts=[":two", ":one"])
                artifact_tree(name="nested", parts=[":turned", ":two"])
                """
            )
        }
    )
    lock_all(rule_runner)
    for name, license in (("it", "2"), ("turned", "1"), ("nested", "2")):
        found = tree(rule_runner, f"t:{name}")
        assert found.path == f"t/{name}"
        assert files_of(rule_runner, found.digest) == {
            "bin/a": "A",
            "bin/b": "B",
            "LICENSE": license,
        }


# --- local trees -----------------------------------------------------------------------------


def test_a_folder_of_this_machine_instead(rule_runner: RuleRunner, tmp_path: Path) -> None:
    # What is declared and locked isn't even looked at.
    rule_runner.write_files(
        {"t/BUILD": "archive_artifact(name='it', url='https://example.invalid/a.zip')"}
    )
    folder = tmp_path / "llvm"
    folder.mkdir()
    (folder / "version").write_text("1")
    option = f"--artifact-local-trees={{'t:it': '{folder}'}}"
    set_options(rule_runner, tmp_path, option)
    found = tree(rule_runner, "t:it")
    assert files_of(rule_runner, found.digest) == {"version": "1"}
    message = f"t:it is not hermetic: `[artifact].local_trees` takes {folder} instead of what is"
    assert message in str(found.message())
    assert not found.cacheable()
    # The next run sees what was changed.
    (folder / "version").write_text("2, which is longer")
    set_options(rule_runner, tmp_path, option)
    assert files_of(rule_runner, tree(rule_runner, "t:it").digest) == {
        "version": "2, which is longer"
    }


def test_a_local_tree_that_is_not_there(rule_runner: RuleRunner, tmp_path: Path) -> None:
    rule_runner.write_files(
        {"t/BUILD": "archive_artifact(name='it', url='https://example.invalid/a.zip')"}
    )
    set_options(rule_runner, tmp_path, "--artifact-local-trees={'t:it': '/nowhere/llvm'}")
    with engine_error(ArtifactError, contains="t:it: The folder /nowhere/llvm, which"):
        tree(rule_runner, "t:it")


# --- used ------------------------------------------------------------------------------------


def trees_of(rule_runner: RuleRunner, address: str) -> ArtifactTrees:
    return rule_runner.request(ArtifactTrees, [ArtifactTreesRequest((spec(address),))])


def test_who_depends_on_an_artifact_has_its_tree(rule_runner: RuleRunner, tmp_path: Path) -> None:
    urls = {name: an_archive(tmp_path / f"{name}.tar", {name: name}) for name in ("a", "b", "c")}
    rule_runner.write_files(
        {
            "t/BUILD": dedent(
                f"""\
                archive_artifact(name="a", url={urls["a"]!r})
                archive_artifact(name="b", url={urls["b"]!r}, path="tools/b")
                archive_artifact(name="unused", url={urls["c"]!r})
                target(name="library", dependencies=[":b"])
                target(name="test", dependencies=[":a", ":library"])
                target(name="other", dependencies=[])
                """
            )
        }
    )
    lock_all(rule_runner)
    found = trees_of(rule_runner, "t:test")
    assert found.error == ""
    assert {
        path: files_of(rule_runner, digest)
        for path, digest in found.immutable_input_digests.items()
    } == {"t/a": {"a": "a"}, "tools/b": {"b": "b"}}
    assert trees_of(rule_runner, "t:other") == ArtifactTrees(())
    # Pants' own `python_test` gets them as files.
    request = ArtifactsOfPythonTestRequest(rule_runner.get_target(spec("t:test")))
    set_up = rule_runner.request(PytestPluginSetup, [request])
    assert files_of(rule_runner, set_up.digest) == {"t/a/a": "a", "tools/b/b": "b"}


def test_an_artifact_that_cant_be_had_is_told_to_who_needs_it(rule_runner: RuleRunner) -> None:
    rule_runner.write_files(
        {
            "t/BUILD": "archive_artifact(name='it', url='https://example.com/a.zip')\n"
            "target(name='test', dependencies=[':it'])"
        }
    )
    error = f"t:it: the archive a.zip for any is not in {LOCK}"
    assert trees_of(rule_runner, "t:test").error.startswith(error)
    request = ArtifactsOfPythonTestRequest(rule_runner.get_target(spec("t:test")))
    with engine_error(ArtifactError, contains=f"t:test needs an artifact: {error}"):
        rule_runner.request(PytestPluginSetup, [request])


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        pytest.param("tools/a", "tools/a", True, id="equal"),
        pytest.param("tools", "tools/a", True, id="in the other"),
        pytest.param("tools/a/b", "tools/a", True, id="around the other"),
        pytest.param("tools/a", "tools/ab", False, id="beginning alike"),
    ],
)
def test_two_trees_in_one_place(
    rule_runner: RuleRunner, tmp_path: Path, one: str, other: str, conflict: bool
) -> None:
    url = an_archive(tmp_path / "a.tar", {"a": "A"})
    rule_runner.write_files(
        {
            "t/BUILD": f"archive_artifact(name='one', url={url!r}, path={one!r})\n"
            f"archive_artifact(name='other', url={url!r}, path={other!r})\n"
            "target(name='test', dependencies=[':one', ':other'])"
        }
    )
    lock_all(rule_runner)
    error = trees_of(rule_runner, "t:test").error
    assert ("would both be at" in error and "set `path` of one of them" in error) == conflict
    assert bool(error) == conflict


# --- artifact_files --------------------------------------------------------------------------


def generated(rule_runner: RuleRunner, address: str) -> Files:
    request = HydrateSourcesRequest(
        rule_runner.get_target(spec(address))[ArtifactFilesSourceField],
        for_sources_types=(FileSourceField,),
        enable_codegen=True,
    )
    return files_of(rule_runner, rule_runner.request(HydratedSources, [request]).snapshot.digest)


def test_artifacts_as_files(rule_runner: RuleRunner, tmp_path: Path) -> None:
    urls = [an_archive(tmp_path / f"{name}.tar", {name: name}) for name in ("a", "b")]
    rule_runner.write_files(
        {
            "t/BUILD": f"archive_artifact(name='a', url={urls[0]!r})\n"
            f"archive_artifact(name='b', url={urls[1]!r}, path='tools/b')\n"
            "artifact_files(name='files', artifacts=[':a', ':b'])"
        }
    )
    lock_all(rule_runner)
    assert generated(rule_runner, "t:files") == {"t/a/a": "a", "tools/b/b": "b"}


def test_artifact_files_in_one_place(rule_runner: RuleRunner, tmp_path: Path) -> None:
    urls = [an_archive(tmp_path / f"{name}.tar", {name: name}) for name in ("a", "b")]
    rule_runner.write_files(
        {
            "t/BUILD": f"archive_artifact(name='a', url={urls[0]!r}, path='tools')\n"
            f"archive_artifact(name='b', url={urls[1]!r}, path='tools')\n"
            "artifact_files(name='files', artifacts=[':a', ':b'])"
        }
    )
    lock_all(rule_runner)
    with engine_error(ArtifactError, contains="t:files: t:b and t:a would both be at tools in the"):
        generated(rule_runner, "t:files")


def test_only_artifacts_can_be_artifact_files(rule_runner: RuleRunner) -> None:
    rule_runner.write_files(
        {"t/BUILD": "target(name='no')\nartifact_files(name='files', artifacts=[':no'])"}
    )
    with engine_error(ArtifactError, contains="t:files: t:no is no artifact."):
        generated(rule_runner, "t:files")


def test_a_tree_that_leads_round_in_circles_is_no_files(
    rule_runner: RuleRunner, tmp_path: Path
) -> None:
    folder = tmp_path / "sysroot" / "usr" / "bin"
    folder.mkdir(parents=True)
    (folder / "gcc").write_text("")
    (folder / "X11").symlink_to(".")
    rule_runner.write_files(
        {
            "t/BUILD": "archive_artifact(name='it', url='https://example.invalid/a.zip')\n"
            "artifact_files(name='files', artifacts=[':it'])"
        }
    )
    set_options(
        rule_runner, tmp_path, f"--artifact-local-trees={{'t:it': '{tmp_path / 'sysroot'}'}}"
    )
    with engine_error(
        ArtifactError,
        contains="t:files: t:it can't be laid out as files, because it has folders that link back to "
        "where they are in: usr/bin/X11. Keep only what you need of it by `subset`.",
    ):
        generated(rule_runner, "t:files")


# --- options ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "message"),
    [
        pytest.param(
            "--artifact-tries=0", "`[artifact].tries` must be above 0, but is 0.", id="tries"
        ),
        pytest.param(
            "--artifact-stall-timeout=-1",
            "`[artifact].stall_timeout` must be above 0, but is -1.0.",
            id="stall_timeout",
        ),
        pytest.param(
            "--artifact-cache-head-start=-1",
            "`[artifact].cache_head_start` must be 0 or more, but is -1.0.",
            id="cache_head_start",
        ),
        pytest.param(
            "--artifact-max-tree-size=0",
            "`[artifact].max_tree_size` must be above 0, but is 0.",
            id="max_tree_size",
        ),
        pytest.param(
            "--artifact-mirrors=['mirror.example.org/files']",
            "`[artifact].mirrors` has 'mirror.example.org/files', which is no `file:`, `https:` or "
            "`http:` URL.",
            id="a mirror without a scheme",
        ),
        pytest.param(
            "--artifact-local-trees={'t:it': '../llvm'}",
            "`[artifact].local_trees` must name absolute paths, but has '../llvm' for t:it.",
            id="a relative local tree",
        ),
    ],
)
def test_bad_options(rule_runner: RuleRunner, tmp_path: Path, option: str, message: str) -> None:
    url = an_archive(tmp_path / "a.tar", {"a": "A"})
    rule_runner.write_files({"t/BUILD": f"archive_artifact(name='it', url={url!r})"})
    lock_all(rule_runner)
    set_options(rule_runner, tmp_path, option)
    with engine_error(ArtifactOptionError, contains=message):
        tree(rule_runner, "t:it")


def test_how_downloads_are_done_is_left_for_the_processes_but_is_not_in_them(
    rule_runner: RuleRunner, tmp_path: Path
) -> None:
    url = an_archive(tmp_path / "a.tar", {"a": "A"})
    rule_runner.write_files({"t/BUILD": f"archive_artifact(name='it', url={url!r})"})
    lock_all(rule_runner)
    set_options(
        rule_runner,
        tmp_path,
        "--artifact-mirrors=['http://127.0.0.1:9/private']",
        "--artifact-credentials={'127.0.0.1:9': 'MIRROR_TOKEN'}",
        "--python-repos-indexes=['https://index.invalid/simple']",
        "--artifact-tries=1",
        env={
            "MIRROR_TOKEN": "s3cret",
            "https_proxy": "http://proxy.invalid:3128",
            "no_proxy": "127.0.0.1",
            "UNRELATED": "unrelated",
        },
    )
    settings = rule_runner.request(FetchSettings, [])
    assert "s3cret" not in repr(settings)
    # Nobody answers for the mirror, so the archive is taken from where the lock says.
    tree(rule_runner, "t:it")
    # Afterwards nothing of it is left.
    cache = tmp_path / "caches" / CACHE_NAME
    assert not [path.name for path in cache.iterdir() if path.name.startswith("settings")]

    with settings.lent():
        left = json.loads((cache / f"settings-{os.getpid()}.json").read_text())
    assert left["mirrors"] == ["http://127.0.0.1:9/private"]
    assert left["indexes"] == ["https://index.invalid/simple"]
    assert left["credentials"] == {"127.0.0.1:9": "MIRROR_TOKEN"}
    assert left["tries"] == 1
    assert left["environment"] == {
        "MIRROR_TOKEN": "s3cret",
        "https_proxy": "http://proxy.invalid:3128",
        "no_proxy": "127.0.0.1",
    }

    # Pants leaves what a process was run with beside its sandbox.
    scripts = [path.read_text() for path in tmp_path.glob("sandboxes/*/__run.sh")]
    (fetching,) = [script for script in scripts if "--entry=entry.json" in script]
    for private in ("s3cret", "127.0.0.1", ".invalid", "MIRROR_TOKEN", settings.python):
        assert private not in fetching
