from __future__ import annotations

import json
from pathlib import Path

import pytest

from pants_triton.kernel_cache.errors import SettingsError
from pants_triton.kernel_cache.settings import FILE_VARIABLE, PREFIX, Settings, parse_settings


def parse(**values: str) -> Settings | None:
    return parse_settings({PREFIX + name: value for name, value in values.items()})


def test_off_without_an_address_or_by_mode() -> None:
    assert parse() is None
    assert parse(MODE="write") is None
    assert parse(ADDRESS="grpc://host:1", MODE="off") is None


def test_reads_only_unless_told_to_write() -> None:
    assert parse(ADDRESS="grpc://host:8980") == Settings("host:8980")
    written = parse(ADDRESS="grpc://host:8980", MODE="write")
    assert written == Settings("host:8980", writes=True)


def test_everything_set() -> None:
    assert parse(
        ADDRESS="grpcs://[::1]:443/",
        INSTANCE="a/b",
        CA="/ca.pem",
        TOKEN_FILE="/token",
        MODE="read",
        TIMEOUT="2.5",
    ) == Settings(
        "[::1]:443",
        instance="a/b",
        is_tls=True,
        ca="/ca.pem",
        token_file="/token",
        timeout_s=2.5,
    )


@pytest.mark.parametrize(
    "values, message",
    [
        ({"ADDRESS": "host:1"}, "must be like grpc://host:port or grpcs://host:port"),
        ({"ADDRESS": "grpc://host"}, "must be like"),
        ({"ADDRESS": "https://host:1"}, "must be like"),
        ({"ADDRESS": "grpc://user@host:1"}, "must be like"),
        ({"ADDRESS": "grpc://host:1", "MODE": "on"}, "one of off, read, write, but is 'on'"),
        ({"ADDRESS": "grpc://host:1", "TIMEOUT": "soon"}, "must be seconds"),
        ({"ADDRESS": "grpc://host:1", "TIMEOUT": "0"}, "must be seconds"),
        ({"ADDRESS": "grpc://host:1", "TIMEOUT": "nan"}, "must be seconds"),
        ({"ADDRESS": "grpc://host:1", "TIMEOUT": "1e9"}, "must be seconds"),
        ({"ADDRESS": "grpc://host:1", "CA": "ca"}, "is not encrypted"),
        ({"ADDRESS": "grpc://host:1", "TOKEN_FILE": "t"}, "use grpcs://"),
    ],
)
def test_what_is_wrong(values: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse(**values)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_a_token_stays_on_this_host(host: str) -> None:
    assert parse(ADDRESS=f"grpc://{host}:1", TOKEN_FILE="t") is not None


def test_a_file_instead(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    environment = {FILE_VARIABLE: str(file), f"{PREFIX}ADDRESS": "grpc://ignored:1"}
    # Pants left none: the cache is off.
    assert parse_settings(environment) is None
    file.write_text(json.dumps({"address": "grpc://host:1", "mode": "write", "timeout": 3}))
    assert parse_settings(environment) == Settings("host:1", writes=True, timeout_s=3)
    for content in ("{", "[]"):
        file.write_text(content)
        with pytest.raises(SettingsError, match=FILE_VARIABLE):
            parse_settings(environment)
