"""``loaderwatch notify test``: a real message to each address."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from loaderwatch.cli import main
from tests.fakes.webhook import Webhook


def config(data_dir: Path, text: str, mode: int = 0o600) -> Path:
    data_dir.mkdir(exist_ok=True)
    path = data_dir / "config.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_each_address_of_the_file_gets_one_message(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Webhook() as first, Webhook() as second:
        path = config(
            data_dir,
            f'[notify]\nto = ["{first.url}", {{ address = "{second.url}", severity = "critical" }}]\n'
            'quiet_hours = "00:00-23:59"',
        )
        assert main(["notify", "test"]) == 0
        for hook in (first, second):
            (message,) = hook.wait_for(1)
            assert message["title"] == "A test of loaderwatch"
            assert socket.gethostname() in message["message"]
    said = capsys.readouterr()
    assert said.out == f"1 json://… (of {path}): delivered\n2 json://… (of {path}): delivered\n"
    assert said.err == ""


def test_one_that_fails_says_why_and_the_others_get_theirs(
    data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Webhook() as hook, Webhook(fail_first=1) as refusing:
        config(data_dir, 'notify = "json://127.0.0.1:9/of-the-file"')
        monkeypatch.setenv("LOADERWATCH_NOTIFY", f"{refusing.url}?-key=S3CRET {hook.url}")
        assert main(["notify", "test"]) == 1
        hook.wait_for(1)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("1 json://… (of LOADERWATCH_NOTIFY): not delivered: Failed to send JSON")
    assert "error=503" in first
    assert "S3CRET" not in first
    assert second == "2 json://… (of LOADERWATCH_NOTIFY): delivered"


def test_an_argument_takes_the_place_of_all(
    data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADERWATCH_NOTIFY", "json://127.0.0.1:9/")
    with Webhook() as hook:
        assert main(["notify", "test", hook.url, "--data-dir", str(data_dir)]) == 0
        hook.wait_for(1)
    assert capsys.readouterr().out == "1 json://… (of ADDRESS): delivered\n"


def test_none_at_all_says_where_to_put_one(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["notify", "test"]) == 2
    said = capsys.readouterr().err
    assert f'write notify = "slack://…" into {data_dir / "config.toml"}, or set LOADERWATCH_NOTIFY' in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[notify]\nadress = "json://x"', "has the unknown key 'adress'; use to, severity,"),
        (
            'notify = "nosuchservice://S3CRET"',
            "config.toml 'nosuchservice://…' is not an address Apprise knows",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_wrong_usage(
    data_dir: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    config(data_dir, text)
    assert main(["notify", "test"]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "S3CRET" not in said


def test_a_file_that_others_can_read_is_named(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Webhook() as hook:
        path = config(data_dir, f'notify = "{hook.url}"', 0o644)
        assert main(["notify", "test"]) == 0
    assert f"chmod 600 {path}" in capsys.readouterr().err
