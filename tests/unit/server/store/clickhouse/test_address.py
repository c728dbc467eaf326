"""Addresses of ClickHouse databases: what they mean, what is refused, and that no password is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from loaderwatch.core.environment_variables import CLICKHOUSE_PASSWORD
from loaderwatch.core.errors import ConfigError
from loaderwatch.server.store.clickhouse.address import parse_address


def test_an_address_says_where_and_as_whom(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(CLICKHOUSE_PASSWORD.name, raising=False)
    plain = parse_address("clickhouse://ann:p%40ss@db.example:9000/watch")
    assert (plain.interface, plain.hosts) == ("http", (("db.example", 9000),))
    assert (plain.user, plain.password, plain.database) == ("ann", "p@ss", "watch")
    least = parse_address("clickhouses://db.example")
    assert (least.interface, least.hosts, least.user) == ("https", (("db.example", 8443),), "default")
    assert (least.password, least.database) == ("", "loaderwatch")
    several = parse_address("clickhouse://ann:a%2Cb@db1,db2:9000,[::1]:9001/watch")
    assert several.hosts == (("db1", 8123), ("db2", 9000), ("::1", 9001))
    assert (several.password, str(several)) == ("a,b", "db1:8123,db2:9000,[::1]:9001/watch")
    monkeypatch.setenv(CLICKHOUSE_PASSWORD.name, "of the environment")
    assert parse_address("clickhouse://ann@db").password == "of the environment"
    kept = tmp_path / "password"
    kept.write_text("of the file\n")
    assert parse_address(f"clickhouse://ann@db/x?password_file={kept}").password == "of the file"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://ann:s3cret@db/x", "clickhouse://user@host"),
        ("clickhouse:///x", "names no host"),
        ("clickhouse://ann:s3cret@db:port/x", "host or port"),
        ("clickhouse://ann:s3cret@db1,db2:port/x", "host or port"),
        ("clickhouse://ann:s3cret@db1,/x", "names no host"),
        ("clickhouse://ann:s3cret@[::1/x", "host or port"),
        ("clickhouse://ann:s3cret@db/a-b", "letters, digits and _"),
        ("clickhouse://ann:s3cret@db/x?secure=1", "'secure'"),
        ("clickhouse://ann:s3cret@db/x?password_file=/nowhere/at/all", "/nowhere/at/all"),
        ("s3cret", "clickhouse://user@host"),
    ],
)
def test_what_cannot_be_used_is_said_without_the_password(address: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_address(address)
    assert said in str(refused.value)
    assert "s3cret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_it_is_shown_without_the_password() -> None:
    address = parse_address("clickhouse://ann:s3cret@db/watch")
    assert str(address) == "db:8123/watch"
    assert "s3cret" not in repr(address)
