"""Tokens, Host and Origin."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from loaderwatch.core.config import is_loopback
from loaderwatch.core.errors import ConfigError
from loaderwatch.server.access.tokens import (
    Access,
    Keys,
    Tokens,
    allowed_hosts,
    host_name,
    load_tokens,
    rotate_tokens,
    same_origin,
)


def test_tokens_are_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "token.json"
    first = load_tokens(path)
    assert first == load_tokens(path)
    assert len({first.agent, first.viewer, first.owner}) == 3
    assert min(map(len, first.all())) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_each_token_opens_its_own_door() -> None:
    tokens = Tokens("agent-token", "viewer-token", "owner-token", "all")
    assert tokens.access("agent-token") is Access.INGEST
    assert tokens.access("viewer-token") is Access.VIEW
    assert tokens.access("owner-token") is Access.VIEW | Access.CHANGE
    assert tokens.access("all") is Access.ALL
    assert tokens.access("") is Access.NOTHING
    assert tokens.access("viewer-token ") is Access.NOTHING
    assert tokens.access("\udcff") is Access.NOTHING
    assert Tokens("a", "b", "c").access("None") is Access.NOTHING


def test_people_sign_in_with_all_but_the_agents_token() -> None:
    tokens = Tokens("agent-token", "viewer-token", "owner-token", "all")
    assert dict(tokens.of_page()) == {
        "viewer-token": Access.VIEW,
        "owner-token": Access.PAGE,
        "all": Access.PAGE,
    }


def test_the_key_of_sessions_is_random_kept_and_new_with_new_tokens(tmp_path: Path) -> None:
    path = tmp_path / "token.json"
    first = load_tokens(path)
    assert len(first.page_key) >= 32
    assert load_tokens(path).page_key == first.page_key
    assert first.page_key not in first.all(), "it is no token"
    assert load_tokens(tmp_path / "other.json").page_key != first.page_key
    assert rotate_tokens(path).page_key != first.page_key
    path.write_text('{"agent": "a", "viewer": "v", "owner": "o"}')
    of_old = load_tokens(path)
    assert of_old.all() == ["a", "v", "o"], "a file of a version without the key keeps its tokens"
    assert load_tokens(path) == of_old


def test_a_file_of_two_tokens_gets_the_third_and_nobody_loses_anything(tmp_path: Path) -> None:
    path = tmp_path / "token.json"
    path.write_text('{"agent": "old-agent", "viewer": "old-viewer"}')
    tokens = load_tokens(path)
    assert tokens.access("old-agent") is Access.INGEST
    assert tokens.access("old-viewer") is Access.PAGE, "it could acknowledge; it still can"
    assert tokens.access(tokens.viewer) is Access.VIEW
    assert load_tokens(path) == tokens
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_second_agents_token_sends_and_stays_when_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "token.json"
    keys = Keys(replace(load_tokens(path), extra_agent="given-to-jobs"))
    rotate_tokens(path)
    assert keys.reread(path)
    assert keys.tokens is not None
    assert keys.tokens.access("given-to-jobs") is Access.INGEST
    assert "given-to-jobs" in keys.tokens.all(), "the server proves that it knows it"
    assert "given-to-jobs" not in dict(keys.tokens.of_page())


def test_new_tokens_are_taken_up_and_a_spoiled_file_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "token.json"
    keys = Keys(load_tokens(path, "extra"))
    before = keys.tokens
    assert not keys.reread(path)
    new = rotate_tokens(path)
    assert keys.reread(path)
    assert keys.tokens is not None
    assert before is not None
    assert keys.tokens.owner == new.owner
    assert keys.tokens.extra == "extra"
    assert not set(before.all()) & set(new.all())
    path.write_text("{}")
    with pytest.raises(ConfigError):
        keys.reread(path)
    path.unlink()
    with pytest.raises(OSError):
        keys.reread(path)
    assert keys.tokens.owner == new.owner
    assert not Keys(None).reread(path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[1]",
        '{"agent": "", "viewer": "x"}',
        '{"agent": 1, "viewer": 2}',
        '{"agent": "a", "viewer": "b", "owner": 3}',
        '{"agent": "a", "viewer": "b", "owner": ""}',
    ],
)
def test_a_spoiled_token_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "token.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"token\.json .*delete it"):
        load_tokens(path)
    assert path.read_text() == content


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
    for crooked in (
        "[::1].evil",
        "[::1]evil:8790",
        "[::1]:8790.evil",
        "[::1",
        "::1]",
        "localhost:evil",
        "localhost:8790:1@evil",
        "[]",
        ":8790",
    ):
        assert not hosts.allows(crooked), crooked
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
