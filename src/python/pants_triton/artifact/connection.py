"""HTTP as this program speaks it: every problem is one that trying again can help, or one that it
can't."""

from __future__ import annotations

import contextlib
import email.utils
import functools
import http.client
import os
import random
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from typing import Any, Mapping
from urllib.parse import urljoin, urlsplit

from pants_triton.artifact.credentials import authorize, bare, netrc_hosts
from pants_triton.artifact.errors import (
    EXIT_THIS_HOST,
    EXIT_UNREACHABLE,
    MIRROR_HINT,
    FetchError,
    Report,
    os_reason,
    shown_size,
    shown_tries,
    shown_url,
)
from pants_triton.artifact.settings import Settings

_CHUNK = 1 << 20
# Fewer bytes a second than this is a stall too, or a server that sends a byte now and then would
# hold us for ever. Measured over the stall timeout.
_MIN_BYTES_PER_SECOND = 64
_USER_AGENT = "pants-triton"


class Transient(Exception):
    """Trying again can help. `wait_s` is what the server asked for; `hint` is as in `Permanent`, for
    when it didn't help."""

    def __init__(self, reason: str, wait_s: float = 0.0, hint: str = "") -> None:
        super().__init__(reason)
        self.wait_s = wait_s
        self.hint = hint


class Permanent(Exception):
    """Trying again at the same location can't help. `hint` replaces the usual way out."""

    def __init__(
        self, reason: str, exit_code: int = EXIT_UNREACHABLE, hint: str = "", missing: bool = False
    ) -> None:
        super().__init__(reason)
        self.exit_code = exit_code
        self.hint = hint
        self.missing = missing


class RangeNotSatisfiable(Exception):
    """The server has nothing in the range that was asked for."""


def open_url(url: str, settings: Settings, headers: Mapping[str, str] = {}) -> Any:
    """The response to a GET, with `status` 200 or 206, as `http.client.HTTPResponse`.

    Raises what the caller's own retrying is for: `Transient`, `Permanent`, and
    `RangeNotSatisfiable` where a range was asked for; FetchError where it is this host's fault.
    """
    try:
        request = urllib.request.Request(bare(url), headers=dict(headers))
        request.add_header("User-Agent", _USER_AGENT)
        request.add_header("Accept-Encoding", "identity")
        authorize(request, url, settings)
        return _opener(settings).open(request, timeout=settings.stall_timeout_s)
    except urllib.error.HTTPError as e:
        with e:
            if e.code == 416 and "Range" in headers:
                raise RangeNotSatisfiable from None
            problem = _status_problem(e)
            raise _by_proxy(url, problem) if e.code in _GATEWAY_STATUS else problem from None
    except urllib.error.URLError as e:
        reason = e.reason if isinstance(e.reason, Exception) else OSError(str(e.reason))
        raise _by_proxy(url, network_problem(reason, settings)) from None
    except (OSError, http.client.HTTPException) as e:
        raise _by_proxy(url, network_problem(e, settings)) from None
    except (ValueError, UnicodeError):
        raise _by_proxy(url, Permanent("this is no URL that can be fetched")) from None


def read_url(
    url: str, settings: Settings, headers: Mapping[str, str], limit: int, report: Report
) -> tuple[str, str, bytes]:
    """A small document: its URL after redirects (without credentials), media type and bytes.

    Retries as a download does. Raises FileNotFoundError where there is none, FetchError else.
    """
    tries = 0
    while True:
        try:
            with open_url(url, settings, headers) as response:
                body = bytearray()
                read = Stalling(response, settings.stall_timeout_s).read
                try:
                    for chunk in iter(read, b""):
                        body += chunk
                        if len(body) > limit:
                            raise Permanent(f"it has more than {shown_size(limit)}")
                except (OSError, http.client.HTTPException) as e:
                    raise network_problem(e, settings) from None
                length = response.headers.get("Content-Length", "")
                if length.isdigit() and len(body) < int(length):
                    raise Transient("the connection broke off")
                if response.status != 200:
                    raise Permanent(f"the server answered {shown_status(response.status)}")
                media_type = response.headers.get_content_type()
                return response.geturl(), media_type, bytes(body)
        except Permanent as e:
            if e.missing:
                raise FileNotFoundError(shown_url(url)) from None
            hint = e.hint or "Correct that, or try again later"
            raise FetchError(f"{shown_url(url)}: {e}. {hint}.", e.exit_code) from None
        except Transient as e:
            tries += 1
            if tries >= settings.tries:
                hint = e.hint or "Try again later"
                raise FetchError(
                    f"{shown_url(url)}: {e} ({shown_tries(tries)}). {hint}.", EXIT_UNREACHABLE
                ) from None
            wait_s = min(settings.backoff_s * 2 ** (tries - 1), settings.max_wait_s)
            wait_s = min(max(random.uniform(wait_s / 2, wait_s), e.wait_s), settings.max_wait_s)
            report(f"{shown_url(url)}: {e}: trying again in {wait_s:.1f} s")
            time.sleep(wait_s)


class Stalling:
    """Reads a response as it comes in, and gives up on one that hardly does."""

    def __init__(self, response: Any, timeout_s: float) -> None:
        self._response = response
        self._timeout_s = timeout_s
        self._since = time.monotonic()
        self._bytes = 0

    def read(self) -> bytes:
        chunk: bytes = self._response.read1(_CHUNK)
        self._bytes += len(chunk)
        seconds = time.monotonic() - self._since
        if chunk and seconds >= self._timeout_s:
            if self._bytes < _MIN_BYTES_PER_SECOND * seconds:
                raise socket.timeout("stalled")
            self._since, self._bytes = time.monotonic(), 0
        return chunk


def _opener(settings: Settings) -> urllib.request.OpenerDirector:
    context = _tls(os.environ.get("SSL_CERT_FILE") or None)
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirects(settings),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


# Reading some hundred certificates takes longer than a small download.
@functools.lru_cache(maxsize=None)
def _tls(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as e:
        raise FetchError(
            f"The CA certificates in {ca_file} (SSL_CERT_FILE) can't be read: {os_reason(e)}. "
            "Correct the variable.",
            EXIT_THIS_HOST,
        ) from None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Each host gets its own credentials and nobody else's, and only HTTP is followed to."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        target = urljoin(req.full_url, newurl)
        if urlsplit(target).scheme not in ("http", "https"):
            return None
        # Python 3.8 to 3.10 don't know 308, which is 307 to a GET.
        known = 307 if code == 308 else code
        request = super().redirect_request(req, fp, known, msg, headers, bare(target))
        # A https: location that sends us to http: gets no credentials for that: see `authorize`.
        if request is not None:
            authorize(request, bare(target), self._settings)
        return request

    http_error_308 = urllib.request.HTTPRedirectHandler.http_error_302


def _status_problem(e: urllib.error.HTTPError) -> Exception:
    code = e.code
    status = f"the server answered {shown_status(code)}"
    if code == 429 or code >= 500:
        return Transient(status, _retry_after(e.headers.get("Retry-After", "")))
    if code in (404, 410):
        return Permanent(status, missing=True)
    if code == 407:
        return Permanent(status)
    if code in (401, 403):
        _, netrc_problem = netrc_hosts()
        return Permanent(
            f"{status} ({netrc_problem})" if netrc_problem else status,
            hint="If it needs credentials, give them in netrc or by a variable that "
            "`[artifact]` names; they are sent over https: only",
        )
    if 300 <= code < 400:
        return Permanent("its redirects lead in a circle, or to nothing that can be fetched")
    return Permanent(status)


def shown_status(code: int) -> str:
    """`404 Not Found`, for people."""
    # Not the server's own phrase: it may be anything.
    return f"{code} {http.client.responses.get(code, '')}".strip()


def _retry_after(value: str) -> float:
    """Seconds; 0 where the header (RFC 9110, 10.2.3) says nothing that can be understood."""
    if re.fullmatch(r"\s*[0-9]{1,9}\s*", value):
        return float(value)
    with contextlib.suppress(ValueError, TypeError, IndexError, OverflowError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    return 0.0


def network_problem(e: BaseException, settings: Settings) -> Exception:
    """The `Transient` or `Permanent` for what the standard library raised."""
    if isinstance(e, ssl.SSLCertVerificationError):
        return _tls_problem(f"its certificate isn't trusted: {e.verify_message}")
    if isinstance(e, socket.timeout):
        return Transient(f"nothing came for {settings.stall_timeout_s:g} s")
    if isinstance(e, ssl.SSLError) and not isinstance(
        e, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
    ):
        reason = (e.reason or "unknown").replace("_", " ").lower()
        return _tls_problem(f"no secure connection: {reason}")
    if isinstance(e, socket.gaierror):
        if e.errno == socket.EAI_AGAIN:
            return Transient("its host's name can't be resolved just now")
        return Permanent("its host's name is unknown")
    if isinstance(e, http.client.IncompleteRead):
        return Transient("the connection broke off")
    if isinstance(e, http.client.InvalidURL):
        return Permanent("this is no URL that can be fetched")
    tunnel = re.match(r"Tunnel connection failed: ([0-9]{3})", str(e))
    if tunnel:
        status = f"it answered {shown_status(int(tunnel[1]))}"
        return Transient(status) if tunnel[1].startswith("5") else Permanent(status)
    if isinstance(e, http.client.HTTPException) and not isinstance(
        e, http.client.RemoteDisconnected
    ):
        return Transient(f"the server doesn't speak HTTP: {type(e).__name__}")
    reason = getattr(e, "strerror", None) or type(e).__name__
    return Transient(f"no connection: {reason}")


# --- proxies ---------------------------------------------------------------------------------

# What a proxy may say of itself, in the place of the server.
_GATEWAY_STATUS = (407, 502, 503, 504)


def _by_proxy(url: str, problem: Exception) -> Exception:
    """`problem`, which came of asking for `url`, with the proxy that may well be its cause."""
    proxy = _proxy(url)
    if proxy is None or not isinstance(problem, (Transient, Permanent)):
        return problem
    shown, setting = proxy
    told = f"by way of the proxy {shown} ({setting}): {problem}"
    hint = problem.hint or f"Correct {setting}, or name the host in no_proxy"
    if isinstance(problem, Transient):
        return Transient(told, problem.wait_s, hint)
    return Permanent(told, problem.exit_code, hint, problem.missing)


def _proxy(url: str) -> tuple[str, str] | None:
    """The proxy by which `url` is asked for, without credentials, and the variable that names it;
    None where there is none."""
    try:
        parts = urlsplit(url)
        value = urllib.request.getproxies().get(parts.scheme)
        if not value or urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2]):
            return None
    except ValueError:
        return None
    # Not by `shown_url`: a proxy may be named without a scheme, and then all of it is a path.
    scheme, separator, rest = value.rpartition("://")
    shown = scheme + separator + rest.rpartition("@")[2].partition("/")[0]
    names = (f"{parts.scheme}_proxy", f"{parts.scheme}_proxy".upper())
    named = [name for name in names if os.environ.get(name) == value]
    return shown, named[0] if named else "the system's settings"


def _tls_problem(reason: str) -> Permanent:
    return Permanent(
        reason,
        hint="If the host is right, name its CA's certificates in the variable SSL_CERT_FILE, or "
        + MIRROR_HINT,
    )
