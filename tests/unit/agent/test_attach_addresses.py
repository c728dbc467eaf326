"""The addresses of a run lie in a file of this user's, in the data directory."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import loaderwatch
from loaderwatch.agent.session import current_session
from tests.conftest import close_agent

pytestmark = pytest.mark.usefixtures("no_streamer")


def attach(**options: Any) -> None:
    loaderwatch.attach(DataLoader([1, 2]), run="train", **options)  # type: ignore[arg-type]


def left(data_dir: Path) -> list[str] | None:
    path = data_dir / "notify" / "train.json"
    return json.loads(path.read_bytes()) if path.exists() else None


def test_those_of_the_argument_take_the_place_of_the_variable(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADERWATCH_NOTIFY", "json://a/x, json://b/?to=c,d")
    attach()
    assert left(data_dir) == ["json://a/x", "json://b/?to=c,d"]
    path = data_dir / "notify" / "train.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    attach(notify=("json://c", "json://d json://e"))
    assert left(data_dir) == ["json://c", "json://d", "json://e"]
    attach()
    assert left(data_dir) == ["json://c", "json://d", "json://e"], "the loader of the validation"
    attach(notify=[])
    assert left(data_dir) is None, "nobody"


def test_a_run_that_is_started_again_without_addresses_has_none(data_dir: Path) -> None:
    attach(notify="json://a")
    assert left(data_dir) == ["json://a"]
    close_agent()
    attach()
    assert left(data_dir) is None


def test_rank_0_speaks_for_all(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "1"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    attach(notify="json://a")
    assert left(data_dir) is None


def test_an_address_among_the_scripts_arguments_is_not_recorded(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--tell=slack://T/B/X", "--lr", "3"])
    attach(notify="slack://T/B/X")
    session = current_session()
    assert session is not None
    assert session.info.argv == ["train.py", "--tell=slack://…", "--lr", "3"]
    assert b"T/B/X" not in session._file("json").read_bytes()


def test_a_directory_that_cannot_be_written_costs_a_line(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir.mkdir(parents=True)
    (data_dir / "notify").write_text("in the way")
    attach(notify="json://secret")
    said = capsys.readouterr().err
    assert "so nobody is told at the addresses of this run" in said
    assert "secret" not in said


def test_a_wrong_variable_is_named_without_its_text(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADERWATCH_NOTIFY", "T0K3N")
    with pytest.raises(ValueError, match=r"^LOADERWATCH_NOTIFY has no scheme; use an Apprise") as caught:
        attach()
    assert "T0K3N" not in str(caught.value)
