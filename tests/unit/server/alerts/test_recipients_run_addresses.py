"""The addresses that runs left for the server of their directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loaderwatch.server.alerts.recipients import RunAddresses


def leave(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "run-1.json"
    new = folder / "new"
    new.write_text(text)
    new.chmod(mode)
    new.replace(path)
    return path


def test_they_are_read_again_when_they_change_and_stay_known_when_they_go(tmp_path: Path) -> None:
    addresses = RunAddresses(tmp_path / "notify")
    assert addresses.of("run-1") == ()
    (tmp_path / "notify").mkdir()
    path = leave(tmp_path / "notify", '["json://a", "json://b json://c"]')
    assert addresses.of("run-1") == ("json://a", "json://b", "json://c")
    leave(tmp_path / "notify", '["json://d"]')
    assert addresses.of("run-1") == ("json://d",)
    path.unlink()
    assert addresses.of("run-1") == ("json://d",), "the job has ended; what it ended of is still to be told"
    addresses.forget("run-1")
    assert addresses.of("run-1") == ()


@pytest.mark.parametrize("text", ["", "{}", '"json://a"', "[1]", '["S3CRET"]', '["json://a"]' + " " * 70_000])
def test_what_is_no_such_file_is_not_used_and_not_shown(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    leave(tmp_path, text)
    addresses = RunAddresses(tmp_path)
    assert addresses.of("run-1") == addresses.of("run-1") == ()
    (record,) = caplog.records
    assert "run-1.json" in record.getMessage()
    assert "S3CRET" not in caplog.text


@pytest.mark.skipif(os.name == "nt", reason="files have no modes there")
def test_what_others_could_write_is_not_used(tmp_path: Path) -> None:
    leave(tmp_path, '["json://a"]', 0o666)
    assert RunAddresses(tmp_path).of("run-1") == ()
    real = tmp_path / "real"
    real.write_text('["json://a"]')
    real.chmod(0o600)
    (tmp_path / "run-1.json").unlink()
    (tmp_path / "run-1.json").symlink_to(real)
    assert RunAddresses(tmp_path).of("run-1") == ()
