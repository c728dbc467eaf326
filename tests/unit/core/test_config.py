"""Settings from the environment."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from loaderwatch.core.config import load_settings
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
            "LOADERWATCH_OUTBOX_BYTES": "60000",
        }
    )
    assert (settings.server, settings.token, settings.run) == ("https://box:1", "t", "r")
    assert (settings.data_dir, settings.disabled) == (tmp_path, True)
    assert settings.outbox_dir.parent == tmp_path
    assert (settings.cached_batches, settings.outbox_bytes) == (50, 60_000)


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
