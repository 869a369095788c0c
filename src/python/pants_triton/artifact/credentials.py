"""Who we are to a host: from the settings, a URL, or netrc; to nobody else, and over TLS only."""

from __future__ import annotations

import base64
import netrc
import os
import re
import urllib.request
from typing import Any, Mapping
from urllib.parse import unquote, urlsplit, urlunsplit

from pants_triton.artifact.errors import EXIT_THIS_HOST, FetchError, os_reason
from pants_triton.artifact.settings import Settings


def bare(url: str) -> str:
    """`url` without user, password and fragment: what a request may be made of."""
    parts = urlsplit(url)
    netloc = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, netloc, parts.path, parts.query, ""))


def authorize(request: urllib.request.Request, url: str, settings: Settings) -> None:
    """Give `request`, which is for `url`, its credentials. Raises FetchError."""
    value = authorization(url, settings)
    if value:
        # Of this request alone: urllib would hand an ordinary header to whoever it is redirected to.
        request.add_unredirected_header("Authorization", value)


def authorization(url: str, settings: Settings) -> str:
    """The Authorization header for `url`, "" for none: the host's variable of the settings, else the
    user and password in `url`, else netrc. Raises FetchError."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "https" and host not in ("127.0.0.1", "::1", "localhost"):
        return ""
    port = f"{host}:{parts.port}" if parts.port else host
    variable = settings.credentials.get(port) or settings.credentials.get(host)
    if variable:
        secret = os.environ.get(variable, "")
        if not secret:
            raise FetchError(
                f"The variable {variable}, which holds the credentials for {host}, isn't set. Set "
                "it, or take it out of the options of `[artifact]`.",
                EXIT_THIS_HOST,
            )
        return _basic(secret) if ":" in secret else f"Bearer {_header_safe(variable, secret)}"
    if parts.username is not None:
        return _basic(f"{unquote(parts.username)}:{unquote(parts.password or '')}")
    entry = netrc_hosts()[0].get(host)
    return _basic(f"{entry[0]}:{entry[2]}") if entry else ""


def _header_safe(variable: str, secret: str) -> str:
    if re.fullmatch(r"[\x21-\x7e]+", secret):
        return secret
    raise FetchError(
        f"The variable {variable} holds no token: there are blanks or other odd characters in it. "
        "Correct it.",
        EXIT_THIS_HOST,
    )


def _basic(user_and_password: str) -> str:
    return "Basic " + base64.b64encode(user_and_password.encode()).decode()


def netrc_hosts() -> tuple[Mapping[str, tuple[Any, Any, Any]], str]:
    """Host to (login, account, password), and what is wrong with the file. The `default` entry is
    left out: a server may redirect us to any host."""
    path = os.environ.get("NETRC") or os.path.expanduser("~/.netrc")
    try:
        hosts: Mapping[str, tuple[Any, Any, Any]] = netrc.netrc(path).hosts
    except FileNotFoundError:
        return {}, ""
    except OSError as e:
        return {}, f"{path} can't be read: {os_reason(e)}"
    except netrc.NetrcParseError as e:
        # Its text may quote the password it stumbled over. Most downloads need none of it.
        return {}, f"{path}: line {e.lineno} can't be understood"
    except UnicodeError:
        return {}, f"{path} is not UTF-8"
    return {host: entry for host, entry in hosts.items() if host != "default"}, ""
