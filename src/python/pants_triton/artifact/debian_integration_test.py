"""Real packages from the mirror of the host that the test runs on."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from pants_triton.artifact import debian
from pants_triton.artifact.debian import choose_source, fetch_packages, host_sources, resolve
from pants_triton.artifact.download import cached
from pants_triton.artifact.errors import EXIT_UNREACHABLE, FetchError
from pants_triton.artifact.fetch import fetch_tree
from pants_triton.artifact.libraries import FOLDER
from pants_triton.artifact.lock import DebianEntry, DebianPackage
from pants_triton.artifact.machine_code import machines
from pants_triton.artifact.settings import Settings

SUITE = "bookworm"


def why_not() -> str:
    """Why this host can't run these tests, "" if it can."""
    if sys.platform != "linux" or shutil.which("apt-get") is None:
        return "apt-get isn't there"
    if not debian.KEYRING.is_file():
        return f"Debian's keys aren't there ({debian.KEYRING})"
    try:
        choose_source(SUITE, host_sources())
    except FetchError as e:
        return str(e)
    return ""


if why_not():
    warnings.warn(f"NOT TESTED: packages of Debian, because {why_not()}", stacklevel=1)
pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")


def quiet(line: str) -> None:
    pass


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def packages(cache: Path) -> tuple[DebianPackage, ...]:
    """`hostname` and all that it depends on."""
    try:
        return resolve(["hostname"], SUITE, "amd64", Settings(), cache)
    except FetchError as e:
        if e.exit_code != EXIT_UNREACHABLE:
            raise
        warnings.warn(f"NOT TESTED: {e}", stacklevel=1)
        pytest.skip(str(e))


def tree_of(folder: Path) -> dict[str, object]:
    return {
        str(p.relative_to(folder)): (
            p.lstat().st_mode,
            p.lstat().st_mtime,
            str(p.readlink()) if p.is_symlink() else p.read_bytes() if p.is_file() else None,
        )
        for p in sorted(folder.rglob("*"))
    }


def test_dependencies_are_listed(packages: tuple[DebianPackage, ...]) -> None:
    names = [package.name for package in packages]
    assert names == sorted(names)
    assert {"hostname", "libc6"} <= set(names)
    # Recommended by libc6, and not installed here by chance only.
    assert "libidn2-0" not in names
    assert all(len(package.sha256) == 64 and package.size > 0 for package in packages)


def test_a_tree_and_the_same_from_a_mirror_without_apt(
    packages: tuple[DebianPackage, ...],
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = DebianEntry(SUITE, packages, "0" * 64)
    fetch_tree(entry, tmp_path / "first", "linux_x86_64", Settings(), cache)
    program = tmp_path / "first/bin/hostname"
    assert machines(program.read_bytes()[:4096]) == ("linux_x86_64",)
    loader = tmp_path / "first/lib64/ld-linux-x86-64.so.2"
    assert loader.is_symlink() and loader.resolve().is_file()
    assert str(loader.resolve()).startswith(str(tmp_path.resolve()))

    libraries = tmp_path / "first" / FOLDER
    names = [path.name for path in libraries.iterdir()]
    assert "libgcc_s.so.1" in names and "libc.so.6" not in names
    assert all((libraries / name).resolve().is_file() for name in names)
    # It runs with the host's C library and the tree's own others.
    environment = {"LD_LIBRARY_PATH": str(libraries)}
    if platform.machine() == "x86_64":
        assert subprocess.run([str(program)], env=environment, timeout=60).returncode == 0

    def no_apt(*_: object) -> None:
        raise AssertionError("apt was used")

    monkeypatch.setattr(debian, "locked_apt", no_apt)
    mirror = Settings(mirrors=((cache / "downloads").as_uri(),))
    fetch_tree(entry, tmp_path / "second", "linux_x86_64", mirror, tmp_path / "cache")
    assert tree_of(tmp_path / "first") == tree_of(tmp_path / "second")


def test_a_part_of_a_tree_has_no_folder_of_libraries(
    packages: tuple[DebianPackage, ...], cache: Path, tmp_path: Path
) -> None:
    entry = DebianEntry(SUITE, packages, "0" * 64, (("lib", "lib"), ("bin", "bin")))
    fetch_tree(entry, tmp_path / "part", "linux_x86_64", Settings(), cache)
    assert sorted(path.name for path in (tmp_path / "part").iterdir()) == ["bin", "lib"]


def test_what_is_cached_is_not_fetched_again(
    packages: tuple[DebianPackage, ...], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch_packages(packages, SUITE, Settings(), cache, quiet)
    assert all(cached(debian.wanted_deb(package), cache) for package in packages)
    monkeypatch.delattr(debian, "locked_apt")
    fetch_packages(packages, SUITE, Settings(), cache, quiet)


def test_a_version_that_the_suite_does_not_have(
    packages: tuple[DebianPackage, ...], cache: Path
) -> None:
    gone = DebianPackage("hostname", "0.1-1", "amd64", "0" * 64, 1)
    with pytest.raises(FetchError, match="doesn't have hostname:amd64=0.1-1 any more"):
        fetch_packages([gone], SUITE, Settings(), cache, quiet)


def test_a_package_that_is_unknown(packages: tuple[DebianPackage, ...], cache: Path) -> None:
    with pytest.raises(FetchError, match="Unable to locate package no-such-package"):
        resolve(["no-such-package"], SUITE, "amd64", Settings(), cache)
