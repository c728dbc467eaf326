"""The file ``config.toml`` of a data directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loaderwatch.core.errors import ConfigError
from loaderwatch.server.config_file import Config, ConfigFile, is_open_to_others, read_config


def test_no_file_says_nothing(tmp_path: Path) -> None:
    assert read_config(tmp_path / "config.toml") == Config()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("notfy = 'json://x'", "has the unknown key 'notfy'; use notify"),
        ("notify = [", "is not TOML: "),
        ("notify = 3", "config.toml: notify.to is a int; use an Apprise address such as"),
        ("[notify]\nsumary = true", "config.toml: notify has the unknown key 'sumary'; use to, severity,"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_file(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    assert str(caught.value).startswith(str(path))
    assert words in str(caught.value)


def test_one_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_config(tmp_path / "config.toml")


def test_addresses_that_a_server_is_given_take_the_place_of_the_files(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[notify]\nto = "json://a"\nsummary = true')
    config = read_config(path)
    assert [one.address for one in config.recipients(())] == ["json://a"]
    (given,) = config.recipients(("json://b",))
    assert (given.address, given.terms.summary) == ("json://b", True)


def test_a_change_is_seen_once_and_a_wrong_one_leaves_things_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    file = ConfigFile(path)
    assert not file.reread()
    path.write_text('notify = "json://a"')
    assert file.reread()
    assert not file.reread()
    path.write_text("nonsense")
    with pytest.raises(ConfigError):
        file.reread()
    assert not file.reread()
    assert [one.address for one in file.config.recipients(())] == ["json://a"]
    path.unlink()
    assert file.reread()
    assert file.config.recipients(()) == ()


@pytest.mark.skipif(os.name == "nt", reason="files have no modes there")
def test_who_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    assert not is_open_to_others(path)
    path.touch(0o600)
    assert not is_open_to_others(path)
    path.chmod(0o640)
    assert is_open_to_others(path)
