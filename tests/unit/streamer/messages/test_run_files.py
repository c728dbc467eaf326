"""The files of a run: its addresses, which the server takes or not, and the last word for its end."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest

from loaderwatch.core.config import Settings, load_settings
from loaderwatch.core.wire import CLOSED_NAME, CLOSING_NAME, QUIET_S, Closing, Receipt
from loaderwatch.streamer.messages import run_files
from loaderwatch.streamer.messages.run_files import RunFiles
from loaderwatch.texts import say


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "notify").mkdir()
    (tmp_path / "rings").mkdir()
    (tmp_path / "notify" / "train.json").write_text('["json://a"]')
    return load_settings({"LOADERWATCH_DIR": str(tmp_path)})


def of(settings: Settings) -> RunFiles:
    return RunFiles(settings, "train", settings.data_dir / "rings")


def test_a_server_that_does_not_take_the_addresses_is_told_of_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    files = of(settings)
    for _ in range(2):
        files.take(Receipt(stored_seq=1))
        assert not files.troubles, "it may look for them this moment"
    now += run_files.KNOWN_WITHIN_S + 1
    for _ in range(3):
        files.take(Receipt(stored_seq=1))
    (trouble,) = map(say, files.troubles)
    assert "nobody will be told at the addresses of this run" in trouble
    assert str(settings.data_dir) in trouble
    assert "json" not in trouble.replace("config.toml", "")


def test_one_that_takes_them_is_not(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    files = of(settings)
    for notifies in (False, True, False):  # the last: a server that has just started again
        files.take(Receipt(stored_seq=1, notifies=notifies))
        now += run_files.KNOWN_WITHIN_S - 1
    assert not files.troubles
    (settings.notify_dir / "train.json").unlink()
    for _ in range(3):
        now += 100
        files.take(Receipt(stored_seq=1))
    assert not files.troubles, "a run without addresses"


def test_the_last_word_lies_beside_the_rings_and_goes(settings: Settings) -> None:
    files, path = of(settings), settings.data_dir / "rings" / CLOSING_NAME
    files.take(Receipt(stored_seq=1))
    assert not path.exists()
    closing = Closing(lost="nothing", found=True)
    files.take(Receipt(stored_seq=1, closing=closing))
    assert msgspec.json.decode(path.read_bytes(), type=Closing) == closing
    files.remove(addresses=False)
    assert not path.exists()
    assert (settings.notify_dir / "train.json").exists()
    files.remove(addresses=True)
    assert not (settings.notify_dir / "train.json").exists()


def test_addresses_of_a_run_that_has_begun_again_stay(settings: Settings) -> None:
    files, path = of(settings), settings.notify_dir / "train.json"
    new = path.with_name("new")
    new.write_text('["json://b"]')
    os.replace(new, path)  # noqa: PTH105
    files.remove(addresses=True)
    assert path.exists()


def test_after_the_runs_last_line_nothing_is_said_for_a_while(settings: Settings) -> None:
    files, mark = of(settings), settings.data_dir / "rings" / CLOSED_NAME
    assert not files.is_closed()
    mark.touch()
    assert files.is_closed()
    long_ago = time.time() - QUIET_S - 1
    os.utime(mark, (long_ago, long_ago))
    assert not files.is_closed(), "a process that hangs at its end"
    files.remove(addresses=False)
    assert not mark.exists()
