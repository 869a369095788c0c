"""What isn't the same for everybody: mirrors, indexes, credentials, proxies, patience.

It must be in no process's cache key, so it is read from a file in the cache folder.
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Mapping
from urllib.parse import urlsplit

from pants_triton.artifact.errors import EXIT_THIS_HOST, FetchError, shown_url


@dataclass(frozen=True)
class Settings:
    """How this user's downloads are done. Nothing here changes a tree's bytes.

    :param mirrors: URL prefixes (`file:`, `https:`, `http:`), tried in order before the location
        in the lock: `<mirror>/<sha256>`, then `<mirror>/<file name>`. The `downloads` folder of
        another cache is such a mirror.
    :param indexes: simple-API URLs of the package indexes that have the wheels.
    :param debian_mirror: instead of the mirror in the host's apt sources.
    :param environment: variables that this program shall see as if they were in its environment:
        `HOME`, `NETRC`, `SSL_CERT_FILE`, proxies, and those that `credentials` names.
    :param credentials: host, or host:port, to the name of a variable that holds `user:password`
        or a bearer token. Other hosts' credentials come from netrc.
    :param tries: how often a location is tried before the next one is, if trying again can help.
    :param stall_timeout_s: seconds without a byte after which a connection is given up.
    :param backoff_s: the first wait between two tries, in seconds; it doubles each time.
    :param max_wait_s: seconds that no wait exceeds, whatever a server's Retry-After says.
    :param max_bytes: the size in bytes that neither a download of unknown size nor a tree exceeds.
    :param max_members: the number of files, folders and links that no archive exceeds.
    :param max_ratio: how many times an archive's own size its content may have.
    """

    mirrors: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    debian_mirror: str = ""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: Mapping[str, str] = field(default_factory=dict)
    tries: int = 5
    stall_timeout_s: float = 60.0
    backoff_s: float = 1.0
    max_wait_s: float = 120.0
    max_bytes: int = 20 << 30
    max_members: int = 1_000_000
    max_ratio: float = 200.0


def settings_path(cache: Path, parent_pid: int | None = None) -> Path:
    """Where the settings lie: those for the children of one process, or for everybody else."""
    return cache / (f"settings-{parent_pid}.json" if parent_pid else "settings.json")


def load_settings(cache: Path) -> Settings:
    """The settings that the parent process left for its children, or else those for everybody, or
    else the defaults: two Pants runs that share a cache may have different mirrors.

    The file is a JSON object whose keys are Settings' fields, all optional; lists for tuples. Raises
    FetchError where it is something else.
    """
    path = settings_path(cache, os.getppid())
    if not path.exists():
        path = settings_path(cache)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeError) as e:
        raise _bad_settings(path, type(e).__name__) from None
    try:
        data = json.loads(text)
    except ValueError:
        raise _bad_settings(path, "it is not JSON") from None
    if not isinstance(data, dict):
        raise _bad_settings(path, "it is not a JSON object")
    values: dict[str, Any] = {}
    for item in dataclasses.fields(Settings):
        if item.name in data:
            value = data.pop(item.name)
            expected = _SETTING_KINDS[str(item.type)]
            if not expected[1](value):
                # Not the value: it may be a credential.
                raise _bad_settings(path, f"`{item.name}` must be {expected[0]}")
            values[item.name] = tuple(value) if isinstance(value, list) else value
    if data:
        raise _bad_settings(path, f"unknown: {', '.join(sorted(data))}")
    settings = Settings(**values)
    for url in (*settings.mirrors, *settings.indexes):
        if urlsplit(url).scheme not in ("file", "https", "http"):
            raise _bad_settings(path, f"{shown_url(url)} is no `https:`, `http:` or `file:` URL")
    return settings


def apply_environment(settings: Settings) -> None:
    """Make the settings' variables this process's own."""
    os.environ.update(settings.environment)


def _bad_settings(path: Path, problem: str) -> FetchError:
    return FetchError(
        f"The settings of this user's downloads, {path}, can't be used: {problem}. Pants writes "
        "them from the options of `[artifact]`: correct these, or delete the file.",
        EXIT_THIS_HOST,
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _is_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())


def _is_positive_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e12


_SETTING_KINDS: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "tuple[str, ...]": ("a list of texts", _is_texts),
    "str": ("a text", _is_text),
    "Mapping[str, str]": ("an object of texts", _is_map),
    "int": ("a whole number above 0", _is_positive_int),
    "float": ("a number above 0", _is_positive),
}
