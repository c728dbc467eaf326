"""Tokens, Host and Origin."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from loaderwatch.core.errors import ConfigError
from loaderwatch.server.auth import (
    Access,
    Tokens,
    allowed_hosts,
    host_name,
    is_loopback,
    load_tokens,
    same_origin,
    write_private,
)


def test_tokens_are_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "token.json"
    first = load_tokens(path)
    assert first == load_tokens(path)
    assert first.agent != first.viewer
    assert len(first.agent) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_each_token_opens_its_own_door() -> None:
    tokens = Tokens("agent-token", "viewer-token", "both")
    assert tokens.access("agent-token") is Access.INGEST
    assert tokens.access("viewer-token") is Access.VIEW
    assert tokens.access("both") is Access.ALL
    assert tokens.access("") is Access.NOTHING
    assert tokens.access("viewer-token ") is Access.NOTHING
    assert Tokens("a", "b").access("None") is Access.NOTHING


def test_the_cookie_is_no_token() -> None:
    tokens = Tokens("agent-token", "viewer-token")
    assert tokens.access(tokens.cookie()) is Access.NOTHING
    assert tokens.cookie() != Tokens("agent-token", "another").cookie()


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '{"agent": "", "viewer": "x"}', '{"agent": 1, "viewer": 2}']
)
def test_a_spoiled_token_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "token.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"token\.json .*delete it"):
        load_tokens(path)
    assert path.read_text() == content


def test_write_private_tightens_what_was_open(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost:8790", "localhost"),
        ("LocalHost", "localhost"),
        ("[::1]:8790", "::1"),
        ("::1", "::1"),
        ("10.0.0.7:80", "10.0.0.7"),
        ("", ""),
    ],
)
def test_host_name(header: str, name: str) -> None:
    assert host_name(header) == name


def test_only_our_names_are_answered() -> None:
    hosts = allowed_hosts("127.0.0.1", ["gpu01.example"])
    assert hosts.allows("localhost:8790")
    assert hosts.allows("[::1]:8790")
    assert hosts.allows("gpu01.example:8790")
    assert not hosts.allows("evil.example:8790")
    assert not hosts.allows("10.0.0.7:8790")
    assert not hosts.allows("localhost.evil.example")
    assert not hosts.allows("")


def test_a_server_for_everyone_answers_to_addresses_but_not_to_foreign_names() -> None:
    hosts = allowed_hosts("0.0.0.0", [])
    assert hosts.allows("10.0.0.7:8790")
    assert hosts.allows("[fe80::1]:8790")
    assert not hosts.allows("evil.example")


@pytest.mark.parametrize(
    ("origin", "site", "ours"),
    [
        (None, None, True),
        ("http://localhost:8790", "same-origin", True),
        ("http://localhost:8790", None, True),
        (None, "none", True),
        ("http://evil.example", None, False),
        ("http://localhost:9999", None, False),
        ("null", None, False),
        (None, "cross-site", False),
        ("http://localhost:8790", "same-site", False),
    ],
)
def test_same_origin(origin: str | None, site: str | None, ours: bool) -> None:
    assert same_origin(origin, site, "localhost:8790") is ours


def test_is_loopback() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("127.3.2.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("gpu01")
