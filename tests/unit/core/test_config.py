"""Settings from the environment."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
from apprise.utils.parse import parse_urls

from loaderwatch.core.config import load_settings, split_addresses
from loaderwatch.core.errors import ConfigError


def test_nothing_set() -> None:
    settings = load_settings({})
    assert (settings.server, settings.token, settings.run, settings.disabled) == (None, None, None, False)
    assert settings.data_dir.is_absolute()


def test_everything_set(tmp_path: Path) -> None:
    settings = load_settings(
        {
            "LOADERWATCH_SERVER": "https://box:1/",
            "LOADERWATCH_TOKEN": "t",
            "LOADERWATCH_RUN": "r",
            "LOADERWATCH_DIR": str(tmp_path),
            "LOADERWATCH_DISABLE": "1",
            "LOADERWATCH_CACHED_BATCHES": "50",
        }
    )
    assert (settings.server, settings.token, settings.run) == ("https://box:1", "t", "r")
    assert (settings.data_dir, settings.disabled) == (tmp_path, True)
    assert settings.outbox_dir.parent == tmp_path
    assert settings.cached_batches == 50


@pytest.mark.parametrize("value", ["", "0"])
def test_not_disabled(value: str) -> None:
    assert not load_settings({"LOADERWATCH_DISABLE": value}).disabled


def test_server_that_is_no_url() -> None:
    with pytest.raises(ConfigError, match="LOADERWATCH_SERVER is 'box:8790'; use a URL such as http://"):
        load_settings({"LOADERWATCH_SERVER": "box:8790"})


@pytest.mark.skipif(sys.platform != "linux", reason="shared memory is a folder on Linux only")
@pytest.mark.parametrize("value", ["many", "-1", "1.5", "9" * 20])
def test_cached_batches_that_are_no_number(value: str) -> None:
    with pytest.raises(ConfigError, match=r"LOADERWATCH_CACHED_BATCHES is .*use a number of batches"):
        load_settings({"LOADERWATCH_CACHED_BATCHES": value})


@pytest.mark.parametrize("name", ["LOADERWATCH_TOKEN", "LOADERWATCH_PAGE_TOKEN", "LOADERWATCH_AGENT_TOKEN"])
@pytest.mark.parametrize("token", ["密码" * 10, "secret\n", " secret", "sec\0ret", "secr\udcc3t"])
def test_a_token_that_no_request_can_carry(name: str, token: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} has a character that cannot be sent") as caught:
        load_settings({name: token})
    assert "sec" not in str(caught.value)


def test_a_token_that_a_request_can_carry() -> None:
    assert load_settings({"LOADERWATCH_TOKEN": "clé de Zoë"}).token == "clé de Zoë"


def test_rings_lie_in_shared_memory_apart_by_data_directory(tmp_path: Path) -> None:
    one = load_settings({"LOADERWATCH_DIR": str(tmp_path / "a")}).rings_dir
    two = load_settings({"LOADERWATCH_DIR": str(tmp_path / "b")}).rings_dir
    assert one.parent == two.parent == Path("/dev/shm")
    assert one != two
    assert stat.S_ISDIR(one.parent.stat().st_mode)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("", ()),
        (" , ", ()),
        ("slack://T/B/X", ("slack://T/B/X",)),
        ("json://a json://b\n", ("json://a", "json://b")),
        ("json://a, json://b;json://c ,JSONS://d", ("json://a", "json://b", "json://c", "JSONS://d")),
        ("mailto://u:p@h?to=a@x,b@y,json://a", ("mailto://u:p@h?to=a@x,b@y", "json://a")),
    ],
)
def test_addresses_stand_apart_as_apprise_reads_them(text: str, addresses: tuple[str, ...]) -> None:
    assert split_addresses(text, "LOADERWATCH_NOTIFY") == addresses
    assert list(addresses) == parse_urls(text, store_unparseable=False)  # type: ignore[no-untyped-call]


def test_an_address_without_a_scheme_is_named_and_not_shown() -> None:
    with pytest.raises(
        ConfigError, match=r"^LOADERWATCH_NOTIFY has no scheme; use an Apprise address"
    ) as caught:
        load_settings({"LOADERWATCH_NOTIFY": "T0K3N"})
    assert "T0K3N" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"^address 1 of LOADERWATCH_NOTIFY has no scheme"):
        load_settings({"LOADERWATCH_NOTIFY": "T0K3N json://a"})


def test_without_platformdirs_the_directory_lies_in_the_home_and_not_where_anybody_may_be_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert load_settings({}).data_dir == Path("/home/me/.local/share/loaderwatch")
    monkeypatch.setenv("XDG_DATA_HOME", "/data/me")
    assert load_settings({}).data_dir == Path("/data/me/loaderwatch")


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be removed")
def test_a_relative_folder_where_the_working_folder_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match=r"LOADERWATCH_DIR is 'runs': .*; use an absolute path"):
        load_settings({"LOADERWATCH_DIR": "runs"})
    assert load_settings({"LOADERWATCH_DIR": str(tmp_path)}).data_dir == tmp_path


def test_a_folder_of_a_user_whom_nobody_knows() -> None:
    with pytest.raises(
        ConfigError, match=r"LOADERWATCH_DIR is '~nobody-of-this-name/x': .*; use an absolute path"
    ):
        load_settings({"LOADERWATCH_DIR": "~nobody-of-this-name/x"})
