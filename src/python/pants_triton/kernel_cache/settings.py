"""Which server the kernel cache uses, and how."""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping

from pants_triton.kernel_cache.errors import SettingsError

#: What every variable begins with.
PREFIX = "PANTS_TRITON_KERNEL_CACHE_"

#: Names a file with the same settings as JSON. Pants uses it, so that no test's key has a server in it.
FILE_VARIABLE = f"{PREFIX}SETTINGS"

OFF, READ, WRITE = "off", "read", "write"
MODES = (OFF, READ, WRITE)

DEFAULT_TIMEOUT_S = 10.0
_LONGEST_TIMEOUT_S = 600.0

_NAMES = ("ADDRESS", "INSTANCE", "CA", "TOKEN_FILE", "MODE", "TIMEOUT")


@dataclass(frozen=True)
class Settings:
    """A server of the Remote Execution API and what may be done there.

    :param host_port: `host:port`.
    :param instance: the API's instance name; empty for most servers.
    :param is_tls: whether the connection is encrypted and the server's certificate checked.
    :param ca: a file with the certificates to trust instead of gRPC's own.
    :param token_file: a file with a bearer token, or with `USER:PASSWORD`.
    :param writes: whether compiled kernels are stored.
    :param timeout_s: for one call, in seconds.
    """

    host_port: str
    instance: str = ""
    is_tls: bool = False
    ca: str = ""
    token_file: str = ""
    writes: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S


def parse_settings(environment: Mapping[str, str]) -> Settings | None:
    """The settings in the variables of `environment`, or in the file that it names. None where the cache
    is off: without an address, with mode `off`, or if the file is not there.

    :raises SettingsError: one of them is wrong.
    """
    values = {name: environment.get(PREFIX + name, "").strip() for name in _NAMES}
    path = environment.get(FILE_VARIABLE, "").strip()
    if path:
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as e:
            raise SettingsError(f"{FILE_VARIABLE}={path} can't be read: {e}") from None
        if not isinstance(content, dict):
            raise SettingsError(f"{FILE_VARIABLE}={path} holds no JSON object")
        values = {name: str(content.get(name.lower(), "")).strip() for name in _NAMES}
    return make_settings(
        address=values["ADDRESS"],
        mode=values["MODE"] or READ,
        instance=values["INSTANCE"],
        ca=values["CA"],
        token_file=values["TOKEN_FILE"],
        timeout=values["TIMEOUT"] or str(DEFAULT_TIMEOUT_S),
    )


def make_settings(
    *, address: str, mode: str, instance: str, ca: str, token_file: str, timeout: str
) -> Settings | None:
    """Settings from what a user wrote. None where the cache is off.

    :raises SettingsError: one of them is wrong.
    """
    if mode not in MODES:
        raise SettingsError(f"the mode must be one of {', '.join(MODES)}, but is {mode!r}")
    if mode == OFF or not address:
        return None
    found = re.fullmatch(r"(grpcs?)://([^/\s@]+:[0-9]{1,5})/?", address)
    if found is None:
        raise SettingsError(
            f"the address must be like grpc://host:port or grpcs://host:port, but is {address!r}"
        )
    is_tls, host_port = found[1] == "grpcs", found[2]
    try:
        timeout_s = float(timeout)
    except ValueError:
        timeout_s = 0.0
    if not 0 < timeout_s <= _LONGEST_TIMEOUT_S:
        raise SettingsError(
            f"the timeout must be seconds, more than 0 and at most {_LONGEST_TIMEOUT_S:.0f}, but is "
            f"{timeout!r}"
        )
    if ca and not is_tls:
        raise SettingsError(f"certificates are given ({ca}), but {address} is not encrypted")
    if token_file and not is_tls and not _is_this_host(host_port):
        raise SettingsError(
            f"a token is given ({token_file}), but {address} is not encrypted, so that anybody on "
            "the way could read it: use grpcs://"
        )
    return Settings(
        host_port=host_port,
        instance=instance.strip("/"),
        is_tls=is_tls,
        ca=ca,
        token_file=token_file,
        writes=mode == WRITE,
        timeout_s=timeout_s,
    )


def _is_this_host(host_port: str) -> bool:
    host = host_port.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
