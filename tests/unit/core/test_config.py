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
        }
    )
    assert (settings.server, settings.token, settings.run) == ("https://box:1", "t", "r")
    assert (settings.data_dir, settings.disabled) == (tmp_path, True)
    assert settings.outbox_dir.parent == tmp_path


@pytest.mark.parametrize("value", ["", "0"])
def test_not_disabled(value: str) -> None:
    assert not load_settings({"LOADERWATCH_DISABLE": value}).disabled


def test_server_that_is_no_url() -> None:
    with pytest.raises(ConfigError, match="LOADERWATCH_SERVER is 'box:8790'; use a URL such as http://"):
        load_settings({"LOADERWATCH_SERVER": "box:8790"})


@pytest.mark.skipif(sys.platform != "linux", reason="shared memory is a folder on Linux only")
def test_rings_lie_in_shared_memory_apart_by_data_directory(tmp_path: Path) -> None:
    one = load_settings({"LOADERWATCH_DIR": str(tmp_path / "a")}).rings_dir
    two = load_settings({"LOADERWATCH_DIR": str(tmp_path / "b")}).rings_dir
    assert one.parent == two.parent == Path("/dev/shm")
    assert one != two
    assert stat.S_ISDIR(one.parent.stat().st_mode)
