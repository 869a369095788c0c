"""Sets Pants up in one folder, from the package registries alone.

`./pants` runs this with a CPython 3.9 when its folder is not there yet:

    python3.9 -I setup_pants.py BOOTSTRAP_DIR INSTALLATION_DIR

The installation then holds

- `venv/`: Pants, from the pins in `pants-requirements.txt`,
- `pex`: the pex tool that Pants would download from elsewhere, from the pin in
  `pex-cli-requirements.txt`; always the same bytes,
- `ready`: `name=value` lines for `./pants`, written last. Without it the folder is rubble.

Beside it lie the log and the lock, both named after it, and pip's cache.

Every failure is one line on stderr that says the way out; the next run starts afresh.
"""

from __future__ import annotations

import ast
import contextlib
import ensurepip
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator, Mapping, NoReturn, Sequence
from urllib.parse import quote

PANTS_PINS = "pants-requirements.txt"
PEX_PINS = "pex-cli-requirements.txt"

# Pants' names for the platforms that pex, being pure Python, runs on.
PEX_PLATFORMS = ("linux_arm64", "linux_x86_64", "macos_arm64", "macos_x86_64")

# What we take from the user's pip configuration: how to reach an index. Anything else in it
# (`user`, `target`, `constraint`, `no-binary`, ...) would change, or break, what the pins say.
REACHING_AN_INDEX = (
    "index-url",
    "extra-index-url",
    "find-links",
    "no-index",
    "trusted-host",
    "cert",
    "client-cert",
    "proxy",
    "keyring-provider",
    "timeout",
    "default-timeout",
    "retries",
)

# What `./pants` passes on to Pants. From the files only: it looks at the environment itself.
FOR_PANTS = ("index-url", "extra-index-url", "find-links", "no-index", "cert")


class SetupError(Exception):
    """A failure, told in one line with the way out."""


class FullDisk(SetupError):
    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"the disk of {folder} is full: free space there, or name another folder in"
            " PANTS_TRITON_CACHE"
        )


@dataclass(frozen=True)
class Pin:
    """One `name==version` of a pin file; its hashes are pip's business."""

    name: str
    version: str


def read_pins(path: Path) -> list[Pin]:
    """The pins of a file, each checked to be exact and to carry a sha256.

    :raises SetupError: naming the file, and the line or the package.
    """
    pins = []
    logical_line = ""
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        logical_line += line.split("#")[0].rstrip()
        if logical_line.endswith("\\"):
            logical_line = logical_line[:-1]
            continue
        if logical_line.strip():
            pins.append(_parse_pin(logical_line.strip(), f"{path}, line {number}"))
        logical_line = ""
    if logical_line.strip():
        raise SetupError(f"{path} ends in the middle of a pin: restore the file")
    if not pins:
        raise SetupError(f"{path} pins nothing: restore the file")
    return pins


def _parse_pin(text: str, where: str) -> Pin:
    match = re.fullmatch(
        r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.!+_-]+)"
        r"(?P<marker>\s*;[^\\]*?)?(?P<hashes>(\s+--hash=\S*)*)",
        text,
    )
    if not match:
        raise SetupError(f"{where} is not a pin ('name==version --hash=sha256:...'): {text!r}")
    hashes = match["hashes"].split()
    if not hashes:
        raise SetupError(f"{where}: {match['name']} has no hash: run build-support/bin/lock-python")
    for given in hashes:
        if not re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", given):
            raise SetupError(f"{where}: {match['name']} has a malformed hash: {given!r}")
    return Pin(match["name"], match["version"])


def version_of(name: str, pins: Sequence[Pin], path: Path) -> str:
    """:param name: as indexes normalise it: lower case, words joined by `-`."""
    for pin in pins:
        if re.sub(r"[-_.]+", "-", pin.name).lower() == name:
            return pin.version
    raise SetupError(f"{path} does not pin {name}: restore the file")


# --- Running pip ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Log:
    """Where the output of the tools goes, for whoever needs more than our one line."""

    path: Path

    def write(self, text: str) -> None:
        # A full disk must not hide the failure that it caused.
        with contextlib.suppress(OSError), self.path.open("a") as file:
            file.write(text)


@dataclass(frozen=True)
class Tools:
    """Runs tools. A tool keeps the lock as long as it lives: one that outlives a killed set-up
    still writes into the folder, and the next run has to wait for it."""

    log: Log
    lock: int
    environment: Mapping[str, str]

    def run(
        self,
        argv: Sequence[str | Path],
        explain: Callable[[str], str],
        extra_environment: Mapping[str, str] | None = None,
        *,
        log_output: bool = True,
    ) -> str:
        """Returns all output.

        :param explain: makes the one line for a failure from the output.
        :param log_output: not where it may hold a password.
        :raises SetupError: with that line, or about a full disk.
        """
        self.log.write(f"$ {' '.join(map(str, argv))}\n")
        result = subprocess.run(
            argv,
            env={**self.environment, **(extra_environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            pass_fds=(self.lock,),
        )
        if log_output:
            self.log.write(result.stdout)
        if result.returncode == 0:
            return result.stdout
        folder = self.log.path.parent
        if looks_like_full_disk(result.stdout, folder):
            raise FullDisk(folder)
        raise SetupError(explain(result.stdout))


def pip_configuration(output: str) -> tuple[dict[str, str], dict[str, str]]:
    """What `pip config list` says, once from files and environment and once from files alone.

    Maps an option such as `index-url` to its value, words separated by single spaces.
    """
    values: dict[tuple[str, str], str] = {}
    for line in output.splitlines():
        match = re.fullmatch(r"(global|install|:env:)\.([\w-]+)=(['\"].*['\"])", line)
        if match:
            words = str(ast.literal_eval(match[3])).split()
            values[match[1], match[2]] = " ".join(words)

    def merged(*sections: str) -> dict[str, str]:
        return {
            option: value
            for section in sections
            for (of_section, option), value in values.items()
            if of_section == section
        }

    return merged("global", "install", ":env:"), merged("global", "install")


def looks_like_full_disk(output: str, folder: Path) -> bool:
    """Whether a tool failed for want of space. `venv` hides the reason, so ask the disk as well."""
    return (
        re.search(r"No space left on device|Errno 28\b|[Qq]uota exceeded", output) is not None
        or shutil.disk_usage(folder).free < 4 * 1024 * 1024
    )


def explain_pip(output: str, pins: Path, log: Path) -> str:
    """One line for what went wrong and the way out.

    The order matters: what pip says last ("no matching distribution") is seldom the cause.
    """
    see_log = f"(all of pip's output: {log})"
    if "DO NOT MATCH THE HASHES" in output:
        wrong = re.search(r"HASHES.*\n\s+(\S+?)(==\S+)? from ", output)
        package = wrong[1] if wrong else "a package"
        return f"{package} is not the file that {pins} pins (wrong hash): restore that file, or check your package index {see_log}"
    if "CERTIFICATE_VERIFY_FAILED" in output or "SSLError" in output:
        return f"the package index shows a certificate that is not trusted here: name your certificate authority's file in SSL_CERT_FILE {see_log}"
    if re.search(
        r"NewConnectionError|ConnectTimeout|ReadTimeout|NameResolution|ProxyError|ProtocolError"
        r"|Network is unreachable|Connection (refused|reset|aborted)|Temporary failure in name",
        output,
    ):
        return f"the package index cannot be reached, and the first run needs it: check the network, or set PIP_INDEX_URL to an index that can be {see_log}"
    missing = re.search(r"No matching distribution found for (\S+)", output)
    if missing:
        return f"your package index has no {missing[1]} for this machine: check PIP_INDEX_URL and pip's configuration {see_log}"
    unpinned = re.search(
        r"(?:all requirements must have their versions pinned with ==|Hashes are required in).*\n\s+(\S+)",
        output,
    )
    if unpinned:
        return f"{pins} lacks a pin for {unpinned[1]}: run build-support/bin/lock-python {see_log}"
    failed_build = re.search(
        r"Failed building wheel for (\S+)|Failed to build ((?!installable)\S+)", output
    )
    if failed_build:
        return f"{failed_build[1] or failed_build[2]} has no wheel for this machine and could not be compiled: install a C compiler and Python's headers {see_log}"
    return f"pip failed {see_log}"


# --- The steps -----------------------------------------------------------------------------------


@contextlib.contextmanager
def held_lock(path: Path) -> Iterator[int]:
    """Holds an exclusive lock, which ends with the process and the tools it started."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another run that is setting Pants up")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def is_ready(installation: Path) -> bool:
    return (installation / "ready").is_file() and os.access(
        installation / "venv/bin/python", os.X_OK
    )


def build_installation(bootstrap: Path, installation: Path, lock: int, log: Log) -> None:
    pants_pins, pex_pins = bootstrap / PANTS_PINS, bootstrap / PEX_PINS
    pants_version = version_of("pantsbuild-pants", read_pins(pants_pins), pants_pins)
    pex_version = version_of("pex", read_pins(pex_pins), pex_pins)
    say(f"setting up Pants {pants_version} in {installation} (once, about 30 s)")

    temporary = installation / "tmp"
    temporary.mkdir(parents=True)
    tools = Tools(log, lock, clean_environment(temporary))

    venv = installation / "venv"
    pip_path = unpack_pip(temporary / "pip")
    tools.run(
        [sys.executable, "-I", "-m", "venv", *(["--without-pip"] if pip_path else []), venv],
        lambda _: f"{sys.executable} could not make an environment: name another CPython 3.9 in PANTS_TRITON_PYTHON (its output: {log.path})",
    )
    python = venv / "bin/python"

    output = tools.run(
        [python, "-m", "pip", "config", "list"],
        lambda output: f"pip cannot read its own configuration: {last_line(output)}",
        # Else a configured `user = true` makes `config` list the user's own file alone.
        {**pip_variables(os.environ), "PIP_USER": "0", **pip_path},
        log_output=False,
    )
    configuration, configuration_files = pip_configuration(output)
    pip_settings = {
        **pip_path,
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_CACHE_DIR": str(installation.parent / "pip"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        **{
            f"PIP_{option.upper().replace('-', '_')}": configuration[option]
            for option in REACHING_AN_INDEX
            if configuration.get(option)
        },
    }
    certificates = certificates_path()
    if certificates:
        pip_settings.setdefault("PIP_CERT", certificates)

    def pip(command: Sequence[str | Path], pins: Path) -> None:
        # Packages without a wheel for this machine are built with the pinned setuptools' elder
        # that came with Python, not with whatever an index offers today.
        tools.run(
            [python, "-m", "pip", *command, "--no-build-isolation", "--require-hashes", "-r", pins],
            lambda output: explain_pip(output, pins, log.path),
            pip_settings,
        )

    pex = installation / "pex"

    def make_pex() -> None:
        pip(["download", "--no-deps", "--only-binary=:all:", "--dest", temporary / "pex"], pex_pins)
        build_pex(tools, temporary, pex)

    with ThreadPoolExecutor(1) as aside:
        # At once: pip works on one core, and each of them takes seconds.
        made = aside.submit(make_pex)
        # Over pip's own setuptools if need be, which it would want to remove first.
        pip(["install", "--no-compile", "--ignore-installed"], pants_pins)
        compile_all(tools, python, venv)
        made.result()
    shutil.rmtree(temporary)

    content = pex.read_bytes()
    digest, size = hashlib.sha256(content).hexdigest(), len(content)
    write_ready(
        installation,
        {
            "pex_version": f"v{pex_version}",
            "pex_url": f"file://{pex}",
            "pex_known_versions": json.dumps(
                [f"v{pex_version}|{platform}|{digest}|{size}" for platform in PEX_PLATFORMS]
            ),
            **{
                f"pip_{option.replace('-', '_')}": without_passwords(
                    configuration_files.get(option, "")
                )
                for option in FOR_PANTS
            },
        },
    )


def unpack_pip(folder: Path) -> dict[str, str]:
    """Unpacks the pip and setuptools that come with CPython, for `ensurepip` to install, which takes
    4 s, where they are needed for a moment only.

    Returns the environment in which Python finds them; none where a distribution keeps them elsewhere.
    """
    wheels = sorted(Path(ensurepip.__file__).parent.glob("_bundled/*.whl"))
    if not any(wheel.name.startswith("pip-") for wheel in wheels):
        return {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    return {"PYTHONPATH": str(folder)}


def compile_all(tools: Tools, python: Path, folder: Path) -> None:
    """Compiles Python files on all cores: pip would on one."""
    try:
        tools.run([python, "-m", "compileall", "-q", "-j0", folder], last_line)
    except FullDisk:
        raise
    except SetupError:
        # What isn't compiled now will be when it is imported.
        pass


def without_passwords(words: str) -> str:
    """Leaves out URLs that hold a password: Pants would write it into cache keys."""
    kept = [word for word in words.split() if not re.match(r"[\w+]+://[^/]*@", word)]
    if len(kept) < len(words.split()):
        say(
            "Pants is not told of the URL with a password in pip's configuration, which would get"
            " into cache keys: use ~/.netrc, or set PANTS_PYTHON_REPOS_INDEXES"
        )
    return " ".join(kept)


def build_pex(tools: Tools, temporary: Path, output: Path) -> None:
    """Builds the pex tool as one file, by itself.

    The bytes depend on nothing but the wheel, so every machine gets the same file, and with it
    the same cache keys for all that Pants runs through it.
    """
    (wheel,) = (temporary / "pex").glob("*.whl")
    unpacked = temporary / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    # Not by the environment's Python, whose packages are only being installed. Its own files are
    # taken as sources, for which it needs no pip: the wheel as a requirement takes twice the time.
    command: list[str | Path] = [sys.executable, "-s", "-m", "pex", "-D", unpacked, "-m", "pex"]
    tools.run(
        [*command, "--python-shebang=/usr/bin/env python3", f"--output-file={output}"],
        lambda _: f"the pex tool could not be built (its output: {tools.log.path})",
        {
            "PYTHONPATH": str(unpacked),
            "PEX_ROOT": str(temporary / "pex_root"),
            "PIP_CONFIG_FILE": os.devnull,
        },
    )


def write_ready(installation: Path, values: Mapping[str, str]) -> None:
    """Writes the marker in one step, and not before all else is on the disk's way."""
    unfinished = installation / "ready.tmp"
    with unfinished.open("w") as file:
        file.writelines(f"{name}={value}\n" for name, value in values.items())
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(installation / "ready")


def clean_environment(temporary: Path) -> dict[str, str]:
    """The user's, less what would steer pip, pex or Python; big files go to our folder's disk."""
    return {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PIP_", "PEX_", "PYTHON")) and name != "__PYVENV_LAUNCHER__"
        },
        "TMPDIR": str(temporary),
    }


def pip_variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith("PIP_")}


def certificates_path() -> str | None:
    """The certificates pip shall trust, for it looks at `PIP_CERT` only."""
    for name in ("PANTS_CA_CERTS_PATH", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        path = os.environ.get(name)
        if path and os.path.isfile(path):
            return path
    return None


def last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def say(line: str) -> None:
    print(f"pants: {line}", file=sys.stderr, flush=True)


def explain_os_error(error: OSError, cache: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return str(FullDisk(cache))
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
        return f"cannot write in {cache} ({error.strerror}): change that, or name another folder in PANTS_TRITON_CACHE"
    return f"the set-up failed: {error}"


def set_up(bootstrap: Path, installation: Path) -> None:
    """:raises SetupError:"""
    if "musl" in str(sysconfig.get_config_var("HOST_GNU_TYPE")):
        raise SetupError("Pants has no build for Linux with musl (Alpine): use one with glibc")
    cache = installation.parent
    if quote(str(cache), safe="/+@,=:~") != str(cache):
        # It opens the path of a `file://` URL without decoding it.
        raise SetupError(
            f"Pants cannot use a folder with spaces or special characters in its name ({cache}):"
            " name another folder in PANTS_TRITON_CACHE"
        )
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with held_lock(installation.with_suffix(".lock")) as lock:
            if is_ready(installation):
                return
            if installation.exists():
                shutil.rmtree(installation)
            log = Log(installation.with_suffix(".log"))
            with contextlib.suppress(FileNotFoundError):
                log.path.unlink()
            try:
                build_installation(bootstrap, installation, lock, log)
            except BaseException:
                # Above all to give a full disk its space back.
                shutil.rmtree(installation, ignore_errors=True)
                raise
    except OSError as error:
        raise SetupError(explain_os_error(error, cache)) from error


def main(arguments: Sequence[str]) -> NoReturn:
    bootstrap, installation = map(Path, arguments)
    try:
        set_up(bootstrap, installation)
    except SetupError as error:
        say(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        say("the set-up was interrupted: run again to start it afresh")
        sys.exit(130)
    sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
