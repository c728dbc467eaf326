"""``loaderwatch config``: values and where they come from, and no secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loaderwatch.cli import main
from loaderwatch.core.environment_variables import VARIABLES

SECRET = "S3CRET-of-24-characters-or-more"
NAMES = [variable.name for variable in VARIABLES if not variable.is_internal]


@pytest.fixture(autouse=True)
def nothing_set(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only LOADERWATCH_DIR and the language are set."""
    for name in NAMES:
        if name != "LOADERWATCH_DIR":
            monkeypatch.delenv(name, raising=False)
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)


def in_json(capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, dict[str, Any]]:
    assert main(["config", "--json"]) == code
    rows = json.loads(capsys.readouterr().out)
    assert [row.pop("name") for row in rows] == NAMES
    return dict(zip(NAMES, rows, strict=True))


def in_text(capsys: pytest.CaptureFixture[str]) -> dict[str, list[str]]:
    assert main(["config"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["SETTING", "VALUE", "SOURCE"]
    assert [row.split()[0] for row in rows] == NAMES
    return {row.split()[0]: row.split()[1:] for row in rows}


def test_defaults(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = in_text(capsys)
    assert rows["LOADERWATCH_DIR"] == [str(data_dir), "environment"]
    assert rows["LOADERWATCH_IDLE_HOURS"] == ["4", "default"]
    assert rows["LOADERWATCH_SERVER"] == ["unset", "default"]
    assert rows["LOADERWATCH_TOKEN"] == ["unset", "default"]
    assert rows["LOADERWATCH_DISABLE"] == ["off", "default"]
    assert rows["LOADERWATCH_LANGUAGE"] == ["en", "default"]
    found = in_json(capsys)
    assert found["LOADERWATCH_OUTBOX_BYTES"] == {"value": 268435456, "source": "default", "error": None}
    assert found["LOADERWATCH_DISABLE"]["value"] is False
    assert found["LOADERWATCH_NOTIFY"] == {"value": None, "source": "default", "error": None}


def test_the_directory_without_a_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("LOADERWATCH_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    found = in_json(capsys)["LOADERWATCH_DIR"]
    assert (Path(found["value"]).is_relative_to(tmp_path), found["source"]) == (True, "default")


def test_values_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOADERWATCH_SERVER", "https://watch.example/")
    monkeypatch.setenv("LOADERWATCH_REDACT", "1")
    monkeypatch.setenv("LOADERWATCH_CACHED_BATCHES", "50")
    rows = in_text(capsys)
    assert rows["LOADERWATCH_SERVER"] == ["https://watch.example", "environment"]
    assert rows["LOADERWATCH_REDACT"] == ["on", "environment"]
    found = in_json(capsys)
    assert found["LOADERWATCH_CACHED_BATCHES"] == {"value": 50, "source": "environment", "error": None}
    assert found["LOADERWATCH_REDACT"]["value"] is True


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    secrets = {variable.name for variable in VARIABLES if variable.value_type.is_secret}
    assert len(secrets) == 5
    for name in secrets:
        monkeypatch.setenv(name, f"json://{SECRET}")
    monkeypatch.setenv("LOADERWATCH_SERVER", f"https://me:{SECRET}@watch.example")
    for arguments in (["config"], ["config", "--json"]):
        assert main(arguments) == 0
        out, err = capsys.readouterr()
        assert (SECRET in out, err) == (False, "")
    found = in_json(capsys)
    assert {found[name]["value"] for name in secrets} == {"set"}
    assert found["LOADERWATCH_SERVER"]["value"] == "https://watch.example"


def test_a_key_of_the_file(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir.mkdir()
    (data_dir / "config.toml").write_text(f'notify = "json://{SECRET}"\n')
    assert in_text(capsys)["LOADERWATCH_NOTIFY"] == ["set", "config.toml"]
    monkeypatch.setenv("LOADERWATCH_NOTIFY", "json://other")
    assert in_json(capsys)["LOADERWATCH_NOTIFY"]["source"] == "environment"


def test_a_wrong_directory_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOADERWATCH_DIR", "~nobody-of-this-name/x")
    assert main(["config"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("loaderwatch: LOADERWATCH_DIR is '~nobody-of-this-name/x': ")


def test_a_wrong_value_hides_no_other(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir.mkdir()
    (data_dir / "config.toml").write_text("nonsense = 1\n")
    monkeypatch.setenv("LOADERWATCH_IDLE_HOURS", "soon")
    monkeypatch.setenv("LOADERWATCH_RUN", "mine")
    assert main(["config"]) == 2
    out, err = capsys.readouterr()
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert rows["LOADERWATCH_IDLE_HOURS"] == ["wrong", "environment"]
    assert rows["LOADERWATCH_NOTIFY"] == ["wrong", "config.toml"]
    assert rows["LOADERWATCH_RUN"] == ["mine", "environment"]
    assert err.splitlines() == [
        "loaderwatch: LOADERWATCH_IDLE_HOURS is 'soon'; use a number of hours, such as 4, or 0 for never",
        f"loaderwatch: {data_dir / 'config.toml'} has the unknown key 'nonsense'; use notify",
    ]
    assert in_json(capsys, 2)["LOADERWATCH_IDLE_HOURS"] == {
        "value": None,
        "source": "environment",
        "error": "LOADERWATCH_IDLE_HOURS is 'soon'; use a number of hours, such as 4, or 0 for never",
    }
