"""A remote cache at work, under the real Pants: who gets what from it, who may write, what its
faults do. Whatever happens to it, a run succeeds and makes what it would make without one.

All tests share one server, and two users whose daemons and caches are their own: Alice writes, as a
trusted branch does; Bob reads, as the pull request of a fork does. An edit by name gives the two
edges and the test of the project other keys.
"""

from __future__ import annotations

import resource
import signal
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import ContextManager, Iterator

import pytest

from e2e.remote_cache import (
    BIG,
    EVERYTHING,
    CacheServer,
    Result,
    User,
    cache_server,
    new_user,
    not_installable,
)
from pants_triton.artifact.misbehaving import Server as Origin
from pants_triton.artifact.misbehaving import running

EDITED = ["edge", "edge", "test"]


@dataclass
class Site:
    """The server, where artifacts come from, and the two users.

    :param first: what the very first runs of Alice and Bob did, and then one of Bob's with an edit, after
        which he has the toolchain.
    :param from_origin: how often artifacts were downloaded where they are published, after each of them.
    """

    folder: Path
    server: CacheServer
    origin: Origin
    alice: User
    bob: User
    first: list[Result]
    from_origin: list[int]

    def written(self, name: str) -> list[Path]:
        """Let Alice build and upload it; returns the blobs of it that are programs."""
        assert self.alice.run(name).uploads == 3
        return [path for path in self.server.blobs if is_program(path, name)]


def is_program(path: Path, name: str) -> bool:
    content = path.read_bytes()
    return content.startswith(b"#!/bin/sh\n") and f"Hello, {name}.".encode() in content


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    reason = not_installable()
    if reason:
        warnings.warn(f"NOT TESTED: the remote cache; {reason}", stacklevel=1)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("remote")
    with running() as origin, cache_server(folder / "server") as server:
        trusted = {
            "remote_cache_write": True,
            "remote_oauth_bearer_token_path": server.token("writer:main"),
            "remote_ca_certs_path": server.ca,
        }
        alice = new_user(folder / "alice", origin, server.address("write"), trusted)
        bob = new_user(
            folder / "bob",
            origin,
            server.address("read"),
            {"remote_ca_certs_path": server.ca},
            "a checkout of somebody else",
        )
        with alice as a, bob as b:
            first: list[Result] = []
            fetched: list[int] = []
            for user, name in ((a, ""), (b, ""), (b, "Own")):
                first.append(user.run(name))
                fetched.append(len(origin.log))
            yield Site(folder, server, origin, a, b, first, fetched)


def test_another_checkout_and_user_run_nothing(site: Site) -> None:
    alices, bobs, _ = site.first
    # Two listings of artifacts, their trees, the configuration, two edges, and the test.
    assert (alices.ran, alices.remote_hits, alices.uploads) == (EVERYTHING, 0, 8)
    assert (bobs.ran, bobs.remote_hits, bobs.uploads) == ([], 6, 0)
    assert alices.warnings == bobs.warnings == []
    totals = bobs.report["totals"]
    assert totals["tests_by_source"]["remote_hit"] == totals["tests"]["passed"] == 1
    assert totals["edges_by_source"] == {"executed": 0, "local_hit": 0, "remote_hit": 2}

    site.written("Second")
    again = site.bob.run("Second")
    assert (again.ran, again.remote_hits, again.warnings) == ([], 3, [])


def test_the_toolchain_is_fetched_by_who_runs_an_edge(site: Site) -> None:
    _, nothing_run, edges_run = site.first
    assert not nothing_run.has_downloaded_the_toolchain
    assert edges_run.ran == EDITED
    assert edges_run.has_downloaded_the_toolchain
    assert len(set(site.from_origin)) == 1, "the artifacts were downloaded again"


def carol_without_the_toolchain(site: Site, name: str) -> ContextManager[User]:
    """A user with a daemon that knows what is in the toolchain, and would read it from the server."""
    options = {"remote_ca_certs_path": site.server.ca}
    return new_user(site.folder / name, site.origin, site.server.address("read"), options)


def test_the_toolchain_is_gone_from_the_server(site: Site) -> None:
    site.written("Complete")
    # The server notices, and forgets the blob: it is to know it again in other tests.
    with site.server.remembering(), carol_without_the_toolchain(site, "carol") as carol:
        assert carol.run("Complete").ran == []
        [big] = [path for path in site.server.blobs if path.read_bytes() == BIG.encode()]
        big.rename(site.folder / "big")
        fetched = len(site.origin.log)
        try:
            run = carol.run("Carol")
        finally:
            (site.folder / "big").rename(big)
    # Only that artifact, which the server has no more.
    assert run.ran == sorted(["fetch", *EDITED])
    assert len(site.origin.log) > fetched
    assert run.warnings == []


def test_the_server_is_killed_before_the_toolchain_is_read(site: Site) -> None:
    site.written("Alive")
    with carol_without_the_toolchain(site, "carola") as carola:
        assert carola.run("Alive").ran == []
        site.server.kill()
        try:
            run = carola.run("Carola")
        finally:
            site.server.up()
    assert run.ran == sorted(["fetch", "fetch", *EDITED])


# --- faults -------------------------------------------------------------------------------------


def test_a_blob_is_gone_between_lookup_and_read(site: Site) -> None:
    blobs = site.written("Gone")
    assert len(blobs) == 2
    for path in blobs:
        # The server's index still has it.
        path.unlink()
    run = site.bob.run("Gone")
    # They come out the same, so that the test needn't run.
    assert (run.ran, run.remote_hits) == (["edge", "edge"], 1)


def test_a_blob_with_other_bytes(site: Site) -> None:
    for path in site.written("Corrupt"):
        path.write_bytes(path.read_bytes().replace(b"Corrupt", b"Curropt"))
    run = site.bob.run("Corrupt")
    assert (run.ran, run.remote_hits) == (["edge", "edge"], 1)
    # One for each blob, which it names.
    assert len(run.warnings) == 2, run.warnings


def test_a_server_that_hangs(site: Site) -> None:
    site.written("Frozen")
    site.server.send(signal.SIGSTOP, "read", "write")
    try:
        # Pants says nothing of it: what takes longer than the head start is no error to it.
        assert site.bob.run("Frozen").ran == EDITED
        assert site.alice.run("Frozen, too").ran == EDITED
    finally:
        site.server.send(signal.SIGCONT, "read", "write")


@pytest.mark.skipif(sys.platform != "linux", reason="no limits for other processes")
def test_a_full_disk(site: Site) -> None:
    writer = site.server.info["processes"]["write"]["pid"]
    _, most = resource.prlimit(writer, resource.RLIMIT_FSIZE)
    before = site.server.actions
    resource.prlimit(writer, resource.RLIMIT_FSIZE, (0, most))
    try:
        run = site.alice.run("Full")
    finally:
        resource.prlimit(writer, resource.RLIMIT_FSIZE, (most, most))
    assert (run.ran, run.uploads) == (EDITED, 0)
    assert len(run.warnings) == 1 and "ResourceExhausted" in run.warnings[0]
    assert site.server.actions == before
    # There is room again.
    site.written("Not full")


def test_killed_and_restarted(site: Site) -> None:
    site.written("Kept")
    begun = site.alice
    begun.greet("Killed during")
    going_on = begun.begin()
    deadline = time.monotonic() + 120
    while not going_on.ran() and time.monotonic() < deadline:
        time.sleep(0.01)
    site.server.kill()
    assert going_on.result().ran == EDITED

    # Down from the start of the run.
    for user in (site.alice, site.bob):
        run = user.run("Down")
        assert (run.ran, run.remote_hits, run.uploads) == (EDITED, 0, 0)

    # Up again, with what it had: the same daemons find it by themselves.
    site.server.up()
    again = site.bob.run("Kept")
    assert (again.ran, again.remote_hits) == ([], 3)
    site.written("After")
    assert site.bob.run("After").ran == []


def test_restarted_empty(site: Site) -> None:
    site.written("Emptied")
    with site.server.emptied():
        assert site.bob.run("Emptied").ran == EDITED
        # What it lost, even the configuration that Alice still has, isn't missed.
        site.written("Refilled")
        assert site.bob.run("Refilled").ran == []


# --- trust --------------------------------------------------------------------------------------

READS = ("GetActionResult", "FindMissingBlobs", "BatchReadBlobs", "Read")
WRITES = ("UpdateActionResult", "BatchUpdateBlobs", "Write")
ALLOWED = {"OK", "NOT_FOUND"}
REFUSED = {"UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_ARGUMENT", "UNIMPLEMENTED"}


def test_who_may_do_what(site: Site) -> None:
    """By the port and the token alone it is decided, whatever instance a client names."""
    server = site.server
    writer, reader = server.token("writer:main"), server.token("reader:pull-request")
    expired = server.token("writer:main", minutes=0.01)
    forged = site.folder / "forged.token"
    head, claims, signature = writer.read_text().split(".")
    forged.write_text(".".join([head, claims, "A" * len(signature.strip())]))
    time.sleep(1)
    before = (server.actions, server.blobs)
    for port, token, instance, may_read in (
        ("read", None, "", True),
        ("read", writer, "", True),
        ("read", None, "main", True),
        ("write", None, "", False),
        ("write", None, "main", False),
        ("write", expired, "", False),
        ("write", forged, "", False),
        ("write", server.token("reader-writer"), "", False),
        ("write", reader, "", True),
        ("write", reader, "main", True),
        # There is none of this name.
        ("read", None, "other", False),
        ("write", writer, "other", False),
    ):
        answers = server.check(port, token, instance)
        case = (port, token and token.name, instance, answers)
        expected = ALLOWED if may_read else REFUSED
        assert {answers[request] for request in READS} <= expected, case
        assert {answers[request] for request in WRITES} <= REFUSED, case
    assert (server.actions, server.blobs) == before
    answers = server.check("write", writer)
    assert set(answers.values()) <= ALLOWED, answers


def test_a_reader_that_asks_to_write_stores_nothing(site: Site) -> None:
    reader = {
        "remote_cache_write": True,
        "remote_oauth_bearer_token_path": site.server.token("reader:pull-request"),
        "remote_ca_certs_path": site.server.ca,
    }
    before = (site.server.actions, site.server.blobs)
    address = site.server.address("write")
    with new_user(site.folder / "mallory", site.origin, address, reader) as mallory:
        mallory.greet("Mallory")
        run = mallory.run()
    # The artifacts and the configuration are hits.
    assert (run.ran, run.uploads) == (EDITED, 0)
    assert (site.server.actions, site.server.blobs) == before
    assert len(run.warnings) == 1 and "Failed to write to remote cache" in run.warnings[0]


def test_an_expired_token(site: Site) -> None:
    late = {
        "remote_cache_write": True,
        "remote_oauth_bearer_token_path": site.server.token("writer:late", minutes=0.01),
        "remote_ca_certs_path": site.server.ca,
    }
    time.sleep(1)
    before = (site.server.actions, site.server.blobs)
    address = site.server.address("write")
    with new_user(site.folder / "late", site.origin, address, late) as user:
        run = user.run()
    assert (run.ran, run.remote_hits, run.uploads) == (EVERYTHING, 0, 0)
    assert (site.server.actions, site.server.blobs) == before
    # One for reading, one for writing.
    assert 1 <= len(run.warnings) <= 2, run.warnings


def test_another_authority(site: Site) -> None:
    """The certificate is checked: a server that merely sits at the address gives nothing."""
    other = {"remote_ca_certs_path": site.server.make_certificate(site.folder / "other")}
    address = site.server.address("read")
    with new_user(site.folder / "stranger", site.origin, address, other) as user:
        run = user.run()
    assert (run.ran, run.remote_hits) == (EVERYTHING, 0)
    assert run.warnings
