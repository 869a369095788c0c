from __future__ import annotations

from pathlib import Path
from typing import Iterator

import pytest

from pants_triton.artifact import misbehaving
from pants_triton.artifact.connection import read_url
from pants_triton.artifact.credentials import authorization
from pants_triton.artifact.errors import FetchError
from pants_triton.artifact.misbehaving import Server
from pants_triton.artifact.settings import Settings

DATA = b"some page"
PATH = "/page"
ONCE = Settings(tries=1, stall_timeout_s=5)


@pytest.fixture
def server() -> Iterator[Server]:
    with misbehaving.running() as running:
        yield running


@pytest.fixture(autouse=True)
def no_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("NETRC", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def quiet(line: str) -> None:
    pass


def get(url: str, settings: Settings = ONCE) -> bytes:
    return read_url(url, settings, {}, 1000, quiet)[2]


def failure(url: str, settings: Settings = ONCE) -> str:
    with pytest.raises(FetchError) as e:
        get(url, settings)
    assert "\n" not in str(e.value)
    return str(e.value)


SECRET = "s3cr3t"
BASIC = "Basic dXNlcjpzM2NyM3Q="


def requires(expected: str) -> misbehaving.Behaviour:
    def behave(handler: misbehaving.Handler) -> None:
        given = handler.request_.headers.get("authorization")
        (misbehaving.file(DATA) if given == expected else misbehaving.status(401))(handler)

    return behave


def write_netrc(path: Path, host: str) -> None:
    path.write_text(f"machine {host} login user password {SECRET}\n")
    path.chmod(0o600)


def host_of(server: Server) -> str:
    return server.url.rpartition("/")[2]


@pytest.mark.parametrize("variable", [None, "NETRC"])
def test_from_netrc(
    server: Server,
    tmp_path: Path,
    variable: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / ("elsewhere" if variable else ".netrc")
    write_netrc(path, "127.0.0.1")
    if variable:
        monkeypatch.setenv(variable, str(path))
    assert get(server.on(PATH, requires(BASIC))) == DATA


@pytest.mark.parametrize("value, sent", [("abc.def", "Bearer abc.def"), (f"user:{SECRET}", BASIC)])
def test_from_a_variable(
    server: Server, value: str, sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRROR_TOKEN", value)
    settings = Settings(credentials={host_of(server): "MIRROR_TOKEN"}, tries=1)
    assert get(server.on(PATH, requires(sent)), settings) == DATA


def test_each_host_gets_its_own_credentials_only(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRROR_TOKEN", SECRET)
    with misbehaving.running() as other:
        target = other.on(PATH, misbehaving.file(DATA)) + "?signature=1"
        other.on(PATH + "?signature=1", misbehaving.file(DATA))
        url = server.on(PATH, misbehaving.redirect(target, 307))
        settings = Settings(credentials={host_of(server): "MIRROR_TOKEN"}, tries=1)
        assert get(url, settings) == DATA
        assert server.log[0].headers["authorization"] == f"Bearer {SECRET}"
        assert "authorization" not in other.log[0].headers


def test_no_credentials_over_a_line_that_others_can_read() -> None:
    settings = Settings(credentials={"mirror.example": "MIRROR_TOKEN"})
    assert authorization("http://mirror.example/x", settings) == ""
    with pytest.raises(FetchError, match="MIRROR_TOKEN.*isn't set"):
        authorization("https://mirror.example/x", settings)


def test_the_default_of_netrc_is_for_nobody_that_we_are_sent_to(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text(f"default login user password {SECRET}\n")
    (tmp_path / ".netrc").chmod(0o600)
    get(server.on(PATH, misbehaving.file(DATA)))
    assert "authorization" not in server.log[0].headers


def test_a_netrc_that_is_none_is_told_of_where_it_matters(server: Server, tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text(f"machine h login u password p {SECRET}\n")
    e = failure(server.on("/private", requires(BASIC)))
    assert "401 Unauthorized" in e and ".netrc: line " in e
    assert SECRET not in e
    assert get(server.on(PATH, misbehaving.file(DATA))) == DATA


def test_a_token_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRROR_TOKEN", f"{SECRET}\r\nevil")
    settings = Settings(credentials={"mirror.example": "MIRROR_TOKEN"})
    with pytest.raises(FetchError, match="MIRROR_TOKEN holds no token") as e:
        authorization("https://mirror.example/x", settings)
    assert SECRET not in str(e.value)
