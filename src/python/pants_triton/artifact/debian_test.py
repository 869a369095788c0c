from __future__ import annotations

import hashlib
import os
import stat
import sys
from pathlib import Path
from typing import Callable

import pytest

from pants_triton.artifact import debian
from pants_triton.artifact.debian import (
    Source,
    choose_source,
    fetch_packages,
    host_sources,
    parse_sources,
    resolve,
    wanted_deb,
)
from pants_triton.artifact.download import cached
from pants_triton.artifact.errors import (
    EXIT_THIS_HOST,
    EXIT_UNREACHABLE,
    EXIT_WRONG_BYTES,
    TARGET,
    FetchError,
)
from pants_triton.artifact.lock import DebianPackage
from pants_triton.artifact.settings import Settings

KEYRING = "/usr/share/keyrings/k.gpg"
MAIN = Source("http://mirror.example/debian", ("bookworm", "bookworm-updates"), ("main",), KEYRING)
SECURITY = Source("http://mirror.example/debian-security", ("bookworm-security",), ("main",))


# -- the host's mirror ----------------------------------------------------------------------------


def test_sources_in_stanzas() -> None:
    text = """# comment
Types: deb deb-src
# another comment
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/k.gpg

Types: deb
URIs: http://a.example/debian
 http://b.example/debian
Suites: trixie
Components: main contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEY865UxYJKwYBBAHaRw8BAQdAd7Z0srwuhlB6JKFkcf4HU4SSS

Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
Enabled: no

Types: deb-src
URIs: http://src.example/debian
Suites: bookworm
Components: main
"""
    assert parse_sources(text, deb822=True) == (
        MAIN,
        Source("http://a.example/debian", ("trixie",), ("main", "contrib")),
        Source("http://b.example/debian", ("trixie",), ("main", "contrib")),
    )


def test_sources_in_lines() -> None:
    text = """
# deb http://off.example/debian bookworm main
deb-src http://src.example/debian bookworm main
deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian/ bookworm main contrib # why
deb\thttp://mirror.example/flat ./
nonsense
"""
    assert parse_sources(text, deb822=False) == (
        Source("http://mirror.example/debian", ("bookworm",), ("main", "contrib"), "/k.gpg"),
        Source("http://mirror.example/flat", ("./",), ()),
    )


def test_all_files_of_the_host(tmp_path: Path) -> None:
    assert host_sources(tmp_path) == ()
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text("deb http://a.example/debian sid main\n")
    stanza = "Types: deb\nURIs: http://b.example/debian\nSuites: sid\nComponents: main\n"
    (tmp_path / "sources.list.d/b.sources").write_text(stanza)
    (tmp_path / "sources.list.d/b.sources.save").write_text(stanza)
    (tmp_path / "sources.list.d/c.list").mkdir()
    assert [s.uri for s in host_sources(tmp_path)] == [
        "http://a.example/debian",
        "http://b.example/debian",
    ]


@pytest.mark.parametrize(
    "suite, sources, mirror, uri",
    [
        pytest.param("bookworm", (SECURITY, MAIN), "", MAIN.uri, id="the host's own suite"),
        pytest.param("bookworm-security", (MAIN, SECURITY), "", SECURITY.uri, id="security"),
        pytest.param("sid", (SECURITY, MAIN), "", MAIN.uri, id="another suite"),
        pytest.param("sid", (MAIN,), "file:///d/", "file:///d", id="a mirror that is named"),
    ],
)
def test_the_mirror(suite: str, sources: tuple[Source, ...], mirror: str, uri: str) -> None:
    assert choose_source(suite, sources, mirror).uri == uri


def test_a_host_without_a_mirror() -> None:
    ubuntu = Source("http://mirror.example/ubuntu", ("noble",), ("main", "universe"))
    with pytest.raises(FetchError, match="No mirror of Debian's suite bookworm is known") as e:
        choose_source("bookworm", (ubuntu, SECURITY))
    assert "`[artifact].debian_mirror`" in str(e.value)
    assert e.value.exit_code == EXIT_THIS_HOST


# -- a host whose apt is made to misbehave --------------------------------------------------------

PACKAGE = DebianPackage("libx", "1:2.0-3", "amd64", "a" * 64, 10)

RECORD = f"""Package: libx
Version: 1:2.0-3
Architecture: amd64
Description: one
 two: three
Size: 10
SHA256: {"a" * 64}
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of a host with a keyring, whose only programs are those that a test makes."""
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    monkeypatch.setattr(debian, "KEYRING", keyring)
    monkeypatch.setattr(os, "defpath", "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return Settings(debian_mirror="http://user:s3cr3t@mirror.example/debian", tries=2)


MakeProgram = Callable[[str, str], None]


@pytest.fixture
def program(tmp_path: Path) -> MakeProgram:
    """Makes one of the host's programs, in Python."""

    def make(name: str, script: str) -> None:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        log = tmp_path / f"{name}.log"
        path.write_text(
            f"#!{sys.executable}\nimport sys\nopen({str(log)!r}, 'a').write(repr(sys.argv) + '\\n')\n"
            + script
        )
        path.chmod(0o755)

    return make


def test_a_host_without_apt(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(
        FetchError, match="The program `apt-get` isn't there.*`downloads` folder"
    ) as e:
        resolve(["libx"], "bookworm", "amd64", settings, tmp_path)
    assert e.value.exit_code == EXIT_THIS_HOST


def test_a_host_without_keys(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debian, "KEYRING", Path("/nonexistent/keyring.gpg"))
    with pytest.raises(FetchError, match="Install the package debian-archive-keyring"):
        resolve(["libx"], "bookworm", "amd64", settings, tmp_path)


def test_an_apt_that_fails_is_quoted(
    tmp_path: Path, settings: Settings, program: MakeProgram
) -> None:
    program(
        "apt-get",
        "print('Err:1 http://user:s3cr3t@mirror.example x')\n"
        "print('E: no such suite', file=sys.stderr); sys.exit(100)",
    )
    with pytest.raises(FetchError) as e:
        resolve(["libx"], "nosuite", "amd64", settings, tmp_path)
    assert "suite nosuite on http://mirror.example/debian: no such suite; 1 http" in str(e.value)
    assert "s3cr3t" not in str(e.value)
    assert e.value.exit_code == EXIT_UNREACHABLE


def test_the_state_of_apt_is_ours(tmp_path: Path, settings: Settings, program: MakeProgram) -> None:
    program("apt-get", "print('Inst libx (1:2.0-3 Debian:12.1/oldstable [amd64]) []')")
    program("apt-cache", f"print({RECORD!r})")
    assert resolve(["libx"], "bookworm", "amd64", settings, tmp_path / "cache") == (PACKAGE,)
    folder = tmp_path / "cache/apt/bookworm-amd64"
    assert f"-oDir::State={folder}/state" in (tmp_path / "apt-get.log").read_text()
    assert "Post-Invoke" in (folder / "apt.conf").read_text()


def test_a_mirrors_password_is_on_disk_only_while_apt_may_run(
    tmp_path: Path, settings: Settings
) -> None:
    sources = tmp_path / "apt/bookworm-amd64/sources.list"
    with debian.locked_apt("bookworm", ("amd64",), settings, tmp_path):
        assert sources.read_text() == (
            f"deb [signed-by={tmp_path}/keyring.gpg arch=amd64 lang=none target=Packages] "
            f"{settings.debian_mirror} bookworm main\n"
        )
        assert stat.S_IMODE(sources.stat().st_mode) == 0o600
    assert not sources.exists()


@pytest.mark.parametrize(
    "packages, suite, arch",
    [
        (["--option"], "bookworm", "amd64"),
        (["a b"], "bookworm", "amd64"),
        (["libx"], "main] http://evil.example", "amd64"),
        (["libx"], "bookworm", 'amd64"; };'),
    ],
)
def test_words_that_are_none_never_reach_apt(
    tmp_path: Path, settings: Settings, packages: list[str], suite: str, arch: str
) -> None:
    with pytest.raises(FetchError, match="is no "):
        resolve(packages, suite, arch, settings, tmp_path)


def test_a_version_that_is_gone(tmp_path: Path, settings: Settings, program: MakeProgram) -> None:
    program("apt-get", "")
    program("apt-cache", "sys.exit(100)")
    with pytest.raises(FetchError, match="doesn't have libx:amd64=1:2.0-3 any more") as e:
        fetch_packages([PACKAGE], "bookworm", settings, tmp_path, lambda line: None)
    assert f"`./pants lock-artifacts --refresh {TARGET}`" in str(e.value)
    # The lists were got anew before that was said.
    assert "'update'" in (tmp_path / "apt-get.log").read_text()


def test_a_version_with_other_bytes(
    tmp_path: Path, settings: Settings, program: MakeProgram
) -> None:
    program("apt-get", "")
    program("apt-cache", f"print({RECORD.replace('a' * 64, 'b' * 64)!r})")
    with pytest.raises(FetchError, match=f"with sha256 {'b' * 64} and 10 bytes, but locked") as e:
        fetch_packages([PACKAGE], "bookworm", settings, tmp_path, lambda line: None)
    assert e.value.exit_code == EXIT_WRONG_BYTES


def test_bytes_that_are_not_those_of_the_list(
    tmp_path: Path, settings: Settings, program: MakeProgram
) -> None:
    program("apt-get", "open('libx_1%3a2.0-3_amd64.deb', 'w').write('0123456789')")
    program("apt-cache", f"print({RECORD!r})")
    with pytest.raises(FetchError, match="apt downloaded other bytes .* of libx from") as e:
        fetch_packages([PACKAGE], "bookworm", settings, tmp_path, lambda line: None)
    assert e.value.exit_code == EXIT_WRONG_BYTES
    assert not cached(wanted_deb(PACKAGE), tmp_path)
    assert list(tmp_path.rglob("*.deb")) == []


# -- mirrors --------------------------------------------------------------------------------------


def test_a_mirror_makes_apt_unneeded(tmp_path: Path, settings: Settings) -> None:
    content = b"0123456789"
    package = DebianPackage("libx", "1:2.0-3", "amd64", hashlib.sha256(content).hexdigest(), 10)
    # By the name that a mirror of Debian has it under.
    (tmp_path / "libx_2.0-3_amd64.deb").write_bytes(content)
    with_mirror = Settings(mirrors=(tmp_path.as_uri(),))
    fetch_packages([package], "bookworm", with_mirror, tmp_path / "c", lambda line: None)
    assert cached(wanted_deb(package), tmp_path / "c")


def test_a_damaged_package_is_fetched_anew(tmp_path: Path, settings: Settings) -> None:
    content = b"0123456789"
    package = DebianPackage("libx", "1:2.0-3", "amd64", hashlib.sha256(content).hexdigest(), 10)
    (tmp_path / "libx_2.0-3_amd64.deb").write_bytes(content)
    cache = tmp_path / "cache"
    (cache / "downloads").mkdir(parents=True)
    (cache / "downloads" / package.sha256).write_bytes(b"damaged")
    with_mirror = Settings(mirrors=(tmp_path.as_uri(),))
    new: list[str] = []
    for _ in range(2):
        fetch_packages(
            *([package], "bookworm", with_mirror, cache, lambda line: None),
            downloaded=lambda wanted: new.append(wanted.name),
        )
    assert new == ["libx_2.0-3_amd64.deb"]


def test_a_mirror_that_is_down_is_not_asked_for_each_package(
    tmp_path: Path, settings: Settings, program: MakeProgram
) -> None:
    program("apt-cache", "sys.exit(100)")
    program("apt-get", "")
    packages = [DebianPackage(f"lib{i}", "1", "amd64", f"{i:064x}", 10) for i in range(20)]
    down = Settings(
        mirrors=("http://127.0.0.1:9/m",),
        debian_mirror="http://mirror.example/debian",
        tries=1,
    )
    told: list[str] = []
    with pytest.raises(FetchError, match="doesn't have lib0:amd64=1, .* and 17 more any more"):
        fetch_packages(packages, "bookworm", down, tmp_path, told.append)
    assert len([line for line in told if "127.0.0.1" in line]) == 2
