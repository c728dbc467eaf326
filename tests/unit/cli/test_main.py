"""The command line's own manners."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from loaderwatch import __version__
from loaderwatch.cli import COMMANDS, main
from tests.waiting import PATIENCE_S


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"loaderwatch {__version__}\n"


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nonsense"],
        ["serve", "--port", "70000"],
        ["serve", "--port", "x"],
        ["serve", "--retain-days", "0"],
        ["serve", "--nonsense"],
        ["serve", "--public-url", "gpu01:8790"],
        ["serve", "--token", "x", "--no-auth"],
        ["serve", "--hang-after", "0"],
        ["analyze"],
        ["analyze", "run-1", "--hang-after", "-1"],
        ["analyze", "run-1", "--hang-after", "x"],
        ["doctor", "--ranks", "x", "train.py"],
        ["doctor", "--timeout", "-1", "train.py"],
        ["runs", "extra"],
    ],
)
def test_wrong_usage_exits_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_a_token_that_can_be_guessed(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--token", "short", "--port", "0"]) == 2
    assert "--token has 5 characters" in capsys.readouterr().err
    monkeypatch.setenv("LOADERWATCH_TOKEN", "also short")
    assert main(["serve", "--port", "0"]) == 2
    assert "LOADERWATCH_TOKEN has 10 characters" in capsys.readouterr().err
    monkeypatch.delenv("LOADERWATCH_TOKEN")
    assert main(["serve", "--token", "a token of 20 字符 and more", "--port", "0"]) == 2
    assert "--token has a character that cannot be sent in a request" in capsys.readouterr().err


def test_a_data_directory_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "nope"
    assert main(["runs", "--data-dir", str(missing)]) == 2
    assert str(missing) in capsys.readouterr().err
    assert not missing.exists()


def test_a_bad_address_to_notify_is_wrong_usage(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--notify", "nosuchservice://x", "--port", "0"]) == 2
    assert "--notify" in capsys.readouterr().err


def test_a_bad_environment_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOADERWATCH_SERVER", "gpu01:8790")
    assert main(["runs"]) == 2
    assert "LOADERWATCH_SERVER" in capsys.readouterr().err


def test_a_data_directory_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert main(["serve", "--data-dir", str(blocked / "data")]) == 1
    error = capsys.readouterr().err
    assert str(blocked) in error
    assert "--data-dir" in error


def test_an_address_that_is_not_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--data-dir", str(tmp_path), "--host", "192.0.2.1", "--port", "0"]) == 1
    assert "192.0.2.1" in capsys.readouterr().err


def test_help_loads_nothing_heavy() -> None:
    code = (
        'import sys\nfrom loaderwatch.cli import build_parser\nbuild_parser(["--help"]).format_help()\n'
        "print(sorted({'fastapi', 'duckdb', 'uvicorn', 'torch', 'numpy', 'apprise'} & set(sys.modules)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert shown.stdout.strip() == "[]"


def test_only_the_chosen_command_is_imported() -> None:
    code = (
        "import sys\nfrom loaderwatch.cli import COMMANDS, build_parser\nbuild_parser(['stop', '--force'])\n"
        "print([command.name for command in COMMANDS if command.module in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert shown.stdout.strip() == "['stop']"


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_help_is_written_for_a_terminal(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert f"usage: loaderwatch {command}" in shown
    assert "`" not in shown
