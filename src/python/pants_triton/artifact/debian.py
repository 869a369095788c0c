"""Trees from exact versions of Debian packages, with apt and the host's own mirror.

Nothing is installed and nothing needs root: apt gets a state of its own, in which no package is
installed and one suite is known. It checks that Debian signed the lists, the lists say what is in a
package, and the lock says so again.

Where the packages are in the cache or on a mirror of `[artifact].mirrors`, apt isn't needed, and
so any Linux will do.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import shutil
import subprocess
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterable, Iterator, Sequence

from pants_triton.artifact.download import Wanted, adopt, fetch, kept
from pants_triton.artifact.errors import (
    EXIT_THIS_HOST,
    EXIT_UNREACHABLE,
    EXIT_WRONG_BYTES,
    LOCK_HINT,
    MIRROR_HINT,
    FetchError,
    Report,
    local_error,
    report_to_stderr,
    shown_size,
    shown_url,
)
from pants_triton.artifact.lock import DebianPackage
from pants_triton.artifact.settings import Settings
from pants_triton.artifact.unpack import Limits, PlainDeb, Tree, plain_deb

#: The keys with which Debian signs its suites (package debian-archive-keyring).
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

_APT_TIMEOUT_S = 3600
# More of them would wait for the disk.
_MAX_WORKERS = 8
_WORD = re.compile(r"[a-z0-9][a-z0-9.+/-]*")

# Host settings that would run programs, hide packages or fetch more than the packages' list.
_APT_CONF = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
#clear APT::Architectures;
#clear APT::Default-Release;
#clear APT::Install-Suggests;
APT::Architecture "{arch}";
APT::Architectures {{ {archs} }};
APT::Install-Recommends "false";
APT::Get::AllowUnauthenticated "false";
APT::Get::List-Cleanup "true";
APT::Update::Error-Mode "any";
APT::Sandbox::User "";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
Acquire::Languages "none";
Acquire::Retries "{retries}";
Acquire::http::Timeout "{timeout_s}";
Acquire::https::Timeout "{timeout_s}";
"""


# --- the host's mirror -----------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """One archive in the host's apt sources.

    :param uri: without a trailing slash; may hold a password, so show it by `shown_url` only.
    :param signed_by: the keyring that the host trusts for it, "" where it doesn't say.
    """

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""


def parse_sources(text: str, deb822: bool) -> tuple[Source, ...]:
    """The binary archives in a file of sources.list(5), of either form. What can't be understood is
    left out: apt complains about it to the host's owner."""
    return tuple(_deb822_sources(text) if deb822 else _line_sources(text))


def _line_sources(text: str) -> Iterator[Source]:
    for line in text.splitlines():
        match = re.match(
            r"\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)((?:\s+\S+)*)", _uncommented(line)
        )
        if match:
            options = dict(o.partition("=")[::2] for o in (match.group(1) or "").split())
            yield Source(
                match.group(2).rstrip("/"),
                (match.group(3),),
                tuple(match.group(4).split()),
                options.get("signed-by", ""),
            )


def _uncommented(line: str) -> str:
    return line.partition("#")[0]


def _deb822_sources(text: str) -> Iterator[Source]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for stanza in re.split(r"\n(?:[ \t]*\n)+", "\n".join(lines)):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line[:1] in (" ", "\t"):
                fields[name] = f"{fields.get(name, '')}\n{line.strip()}"
            elif ":" in line:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = value.strip()
        if "deb" not in fields.get("types", "").split():
            continue
        if fields.get("enabled", "yes").lower() in ("no", "false", "off", "0"):
            continue
        for uri in fields.get("uris", "").split():
            yield Source(
                uri.rstrip("/"),
                tuple(fields.get("suites", "").split()),
                tuple(fields.get("components", "").split()),
                # A key may stand here itself; what we name are keyrings.
                fields.get("signed-by", "") if "\n" not in fields.get("signed-by", "") else "",
            )


def host_sources(etc: Path = Path("/etc/apt")) -> tuple[Source, ...]:
    """The archives that the host's apt knows. Never raises: what can't be read isn't there."""
    files = [etc / "sources.list"]
    with contextlib.suppress(OSError):
        files += sorted((etc / "sources.list.d").iterdir())
    found: list[Source] = []
    for file in files:
        if file.suffix in (".list", ".sources"):
            with contextlib.suppress(OSError):
                text = file.read_text(encoding="utf-8", errors="replace")
                found += parse_sources(text, deb822=file.suffix == ".sources")
    return tuple(found)


def choose_source(suite: str, sources: Sequence[Source], mirror: str = "") -> Source:
    """The archive to fetch `suite` from: `mirror` if given, the one that the host has for this very
    suite, or else one that is a mirror of Debian, all of which have all suites.

    Raises FetchError.
    """
    if mirror:
        return Source(mirror.rstrip("/"), (suite,), ("main",))
    for source in sources:
        if suite in source.suites and "main" in source.components:
            return source
    for source in sources:
        # By convention a mirror has Debian there, and other distributions elsewhere.
        if source.uri.rpartition("/")[2] == "debian" and "main" in source.components:
            return source
    raise FetchError(
        f"No mirror of Debian's suite {suite} is known: this host's apt sources have none. Name one "
        f"in `[artifact].debian_mirror`, or {MIRROR_HINT}.",
        EXIT_THIS_HOST,
    )


# --- apt -------------------------------------------------------------------------------------


class Apt:
    """apt with a state of its own, in a folder that it is given for one suite.

    :param folder: kept between runs, for this process alone while it is used, see `locked_apt`.
    :param archs: Debian's names; the first is the tree's.

    The methods raise FetchError.
    """

    def __init__(
        self, folder: Path, suite: str, archs: Sequence[str], source: Source, settings: Settings
    ) -> None:
        self._folder = folder
        self._suite = suite
        self._source = source
        keyring = source.signed_by if os.path.isfile(source.signed_by) else str(KEYRING)
        if not os.path.isfile(keyring):
            raise FetchError(
                f"The keys that Debian signs with aren't on this host ({keyring}). Install the "
                f"package debian-archive-keyring, or {MIRROR_HINT}.",
                EXIT_THIS_HOST,
            )
        for path in ("state/lists/partial", "cache/archives/partial", "packages"):
            (folder / path).mkdir(parents=True, exist_ok=True)
        (folder / "status").write_text("")
        (folder / "sources.list").write_text(
            f"deb [signed-by={keyring} arch={','.join(archs)} lang=none target=Packages] "
            f"{source.uri} {suite} main\n"
        )
        (folder / "sources.list").chmod(0o600)
        (folder / "apt.conf").write_text(
            _APT_CONF.format(
                arch=archs[0],
                archs=" ".join(f'"{arch}";' for arch in archs),
                retries=settings.tries - 1,
                timeout_s=max(1, int(settings.stall_timeout_s)),
            )
        )

    def update(self) -> None:
        """Get the suite's lists anew."""
        self._run("get the lists of packages", "apt-get", "-q", "update")

    def show(self, packages: Iterable[str]) -> list[DebianPackage]:
        """What the lists say of `packages` (`name:arch=version`), those that they don't have left
        out."""
        names = list(packages)
        if not names:
            return []
        result = self._start("apt-cache", "show", *names)
        found = []
        for stanza in result.stdout.split("\n\n"):
            fields = dict(
                line.partition(": ")[::2] for line in stanza.splitlines() if line[:1].strip()
            )
            with contextlib.suppress(KeyError, ValueError):
                found.append(
                    DebianPackage(
                        fields["Package"],
                        fields["Version"],
                        fields["Architecture"],
                        fields["SHA256"].lower(),
                        int(fields["Size"]),
                    )
                )
        return found

    def closure(self, packages: Sequence[str]) -> list[str]:
        """`packages` and all that they depend on, as `name:arch=version`, sorted."""
        what = f"install {', '.join(packages)}"
        options = ("-q", "--simulate", "--no-install-recommends")
        output = self._run(what, "apt-get", *options, "install", *packages).stdout
        # Inst libc6 (2.36-9 Debian:12/oldstable [amd64]) []
        found = re.findall(r"^Inst (\S+) \((\S+) .*?\[([a-z0-9-]+)\]\)", output, re.MULTILINE)
        return sorted(f"{name.partition(':')[0]}:{arch}={version}" for name, version, arch in found)

    def download(self, packages: Iterable[str]) -> Iterator[Path]:
        """The files of `packages` (`name:arch=version`), in no particular order; whoever wants one
        moves it away, the others are removed. First those that an interrupted run left."""
        folder = self._folder / "packages"
        yield from sorted(folder.glob("*.deb"))
        # Whatever wasn't taken is damaged, and apt would take it for what it is to download.
        shutil.rmtree(folder)
        folder.mkdir()
        names = list(packages)
        if names:
            self._run("download packages", "apt-get", "-q", "download", *names, cwd=folder)
        yield from sorted(folder.glob("*.deb"))
        shutil.rmtree(folder)

    def _run(
        self, what: str, program: str, *argv: str, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        result = self._start(program, *argv, cwd=cwd)
        if result.returncode != 0:
            output = f"{result.stderr}\n{result.stdout}"
            lines = re.findall(r"^(?:E: |Err:)(.+)$", output, re.MULTILINE)
            # A simulated installation explains itself in other words.
            lines = lines or re.findall(
                r"^ .*(?:Depends|Conflicts|Breaks).*$", output, re.MULTILINE
            )
            told = "; ".join(dict.fromkeys(_shown(line) for line in lines[:4]))
            raise FetchError(
                f"apt can't {what} of Debian's suite {self._suite} on {shown_url(self._source.uri)}: "
                f"{told or f'it ended with {result.returncode}'}. Correct the names in the target, "
                f"or this host's apt sources; or {MIRROR_HINT}.",
                EXIT_UNREACHABLE,
            )
        return result

    def _start(
        self, program: str, *argv: str, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        search_path = os.environ.get("PATH") or os.defpath
        path = shutil.which(program, path=search_path) or shutil.which(program, path=os.defpath)
        if path is None:
            raise FetchError(
                f"The program `{program}` isn't there: packages of Debian are fetched on Debian, "
                f"Ubuntu and their like. On this host, {MIRROR_HINT}: what is in another cache's "
                "`downloads` folder is one.",
                EXIT_THIS_HOST,
            )
        settings = {
            "Dir::State": self._folder / "state",
            "Dir::State::status": self._folder / "status",
            "Dir::State::extended_states": self._folder / "extended_states",
            "Dir::Cache": self._folder / "cache",
            "Dir::Etc::SourceList": self._folder / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::Preferences": "/dev/null",
            "Dir::Etc::PreferencesParts": "/dev/null",
        }
        options = [f"-o{name}={value}" for name, value in settings.items()]
        try:
            return subprocess.run(
                [path, f"-c{self._folder / 'apt.conf'}", *options, *argv],
                cwd=cwd or self._folder,
                env={**os.environ, "PATH": search_path, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                timeout=_APT_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            raise FetchError(
                f"`{program}` took longer than {_APT_TIMEOUT_S} s. Try again: what was downloaded "
                "is kept.",
                EXIT_UNREACHABLE,
            ) from None


def _shown(line: str) -> str:
    return re.sub(r"//[^/@\s]*@", "//", line.strip())


@contextlib.contextmanager
def locked_apt(suite: str, archs: Sequence[str], settings: Settings, cache: Path) -> Iterator[Apt]:
    """The apt of one suite, for this process alone. Raises FetchError."""
    for word in (suite, *archs):
        if not _WORD.fullmatch(word):
            raise FetchError(f"{word!r} is no suite or architecture of Debian.", EXIT_UNREACHABLE)
    source = choose_source(suite, host_sources(), settings.debian_mirror)
    folder = cache / "apt" / f"{suite.replace('/', '_')}-{'-'.join(archs)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # apt reads and writes by absolute names only.
        folder = folder.resolve()
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                yield Apt(folder, suite, archs, source, settings)
            finally:
                # There may be a password in it, and CI keeps the cache folder.
                with contextlib.suppress(FileNotFoundError):
                    (folder / "sources.list").unlink()
    except OSError as e:
        raise local_error(f"Can't write {folder}", cache, e) from None


# --- resolve, fetch, unpack ------------------------------------------------------------------


def resolve(
    packages: Sequence[str], suite: str, arch: str, settings: Settings, cache: Path
) -> tuple[DebianPackage, ...]:
    """`packages` of `suite` and all that they depend on, recommendations left out, in the order in
    which they are to be unpacked. Raises FetchError."""
    for name in packages:
        if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?", name):
            raise FetchError(
                f"{name!r} is no name of a Debian package. Correct the target.", EXIT_UNREACHABLE
            )
    with locked_apt(suite, (arch,), settings, cache) as apt:
        apt.update()
        wanted = apt.closure(packages)
        found = {_coordinates(package): package for package in apt.show(wanted)}
    missing = [name for name in wanted if name not in found]
    if missing or not wanted:
        raise FetchError(
            f"apt names packages of {suite} that its lists don't have: {', '.join(missing)}.",
            EXIT_UNREACHABLE,
        )
    # It has the links that make `/lib` and the like one with `/usr/lib`, from trixie on.
    return tuple(
        sorted(
            (found[name] for name in wanted), key=lambda p: (p.name != "base-files", p.name, p.arch)
        )
    )


def fetch_packages(
    packages: Sequence[DebianPackage],
    suite: str,
    settings: Settings,
    cache: Path,
    report: Report = report_to_stderr,
    downloaded: Callable[[Wanted], object] = lambda wanted: None,
) -> None:
    """Have all `packages` in the cache: from there, from a mirror, or else by apt; `downloaded` is
    called for each that wasn't there, or was damaged. Raises FetchError."""
    missing = [package for package in packages if not kept(wanted_deb(package), cache)]
    missing = _from_mirrors(missing, settings, cache, report, downloaded)
    if not missing:
        return
    size = shown_size(sum(package.size for package in missing))
    report(f"fetching {len(missing)} of {len(packages)} packages of {suite} by apt, {size}")
    archs = sorted({p.arch for p in packages} - {"all"}) or ["amd64"]
    by_sha256 = {package.sha256: package for package in missing}
    with locked_apt(suite, archs, settings, cache) as apt:
        # Another process may have fetched some while this one waited.
        missing = [p for p in missing if not kept(wanted_deb(p), cache)]
        names = [_coordinates(p) for p in missing]
        if len(apt.show(names)) < len(names):
            apt.update()
        _check_listed(missing, apt.show(names), suite)
        for file in apt.download(names):
            for package in missing:
                if file.stat().st_size == package.size and adopt(file, wanted_deb(package), cache):
                    by_sha256.pop(package.sha256, None)
                    downloaded(wanted_deb(package))
                    break
    left = [p for p in by_sha256.values() if not kept(wanted_deb(p), cache)]
    if left:
        raise FetchError(
            f"apt downloaded other bytes than those that are locked of {', '.join(p.name for p in left)} "
            f"from Debian's suite {suite}. If the change is known and good, {LOCK_HINT}; else "
            f"{MIRROR_HINT}.",
            EXIT_WRONG_BYTES,
        )


def unpack_packages(
    tree: Tree,
    packages: Sequence[DebianPackage],
    settings: Settings,
    cache: Path,
    folder: Path,
    report: Report = report_to_stderr,
) -> None:
    """Put the files of `packages`, which are in the cache, into `tree`. `folder` is for temporary
    files. Raises FetchError."""

    def decompress(package: DebianPackage) -> PlainDeb:
        wanted = wanted_deb(package)
        with fetch(wanted, settings, cache, report) as file:
            return plain_deb(file, wanted.name, Limits.of(settings), folder)

    # Decompressed ahead by threads, but put into the tree in the lock's order: an error is the same
    # on every host.
    workers = min(os.cpu_count() or 1, _MAX_WORKERS)
    with ThreadPoolExecutor(workers) as pool:
        ahead: deque[Future[PlainDeb]] = deque()
        todo = iter(packages)
        try:
            for package in itertools.islice(todo, 2 * workers):
                ahead.append(pool.submit(decompress, package))
            while ahead:
                tree.add_deb(ahead.popleft().result())
                for package in itertools.islice(todo, 1):
                    ahead.append(pool.submit(decompress, package))
        finally:
            for future in ahead:
                future.cancel()


def wanted_deb(package: DebianPackage) -> Wanted:
    """The package's file, by the name that it has on a mirror of Debian."""
    version = package.version.partition(":")[2] or package.version
    return Wanted(f"{package.name}_{version}_{package.arch}.deb", package.sha256, package.size)


def _coordinates(package: DebianPackage) -> str:
    return f"{package.name}:{package.arch}={package.version}"


def _from_mirrors(
    packages: Sequence[DebianPackage],
    settings: Settings,
    cache: Path,
    report: Report,
    downloaded: Callable[[Wanted], object],
) -> list[DebianPackage]:
    """Download what the mirrors have; returns what they don't."""
    if not settings.mirrors:
        return list(packages)
    missing: list[DebianPackage] = []
    for i, package in enumerate(packages):
        try:
            with fetch(wanted_deb(package), settings, cache, report, downloaded):
                pass
        except FetchError as e:
            if e.exit_code == EXIT_THIS_HOST:
                raise
            missing.append(package)
            if not e.missing:
                # Or each of a hundred packages would be waited for in turn.
                return missing + list(packages[i + 1 :])
    return missing


def _check_listed(
    packages: Sequence[DebianPackage], listed: Sequence[DebianPackage], suite: str
) -> None:
    found = {_coordinates(package): package for package in listed}
    gone = [_coordinates(p) for p in packages if _coordinates(p) not in found]
    if gone:
        more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
        raise FetchError(
            f"Debian's suite {suite} doesn't have {', '.join(gone[:3])}{more} any more: it was "
            f"updated since the lock was made. To take what it has now, {LOCK_HINT}; to keep what is "
            f"locked, {MIRROR_HINT}.",
            EXIT_UNREACHABLE,
            missing=True,
        )
    for package in packages:
        now = found[_coordinates(package)]
        if now != package:
            raise FetchError(
                f"Debian's suite {suite} has {_coordinates(package)} with sha256 {now.sha256} and "
                f"{now.size} bytes, but locked are {package.sha256} and {package.size} bytes. If the "
                f"change is known and good, {LOCK_HINT}; else {MIRROR_HINT}.",
                EXIT_WRONG_BYTES,
            )
