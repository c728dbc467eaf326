"""In no command's output does text from another machine move a cursor or change the text direction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from loaderwatch.cli import main
from loaderwatch.core import wire
from loaderwatch.core.environment_variables import JOB
from loaderwatch.server.recordings.recording import Recording, pack
from tests.fakes.feed import Feed

HOSTILE = "na\x1b]0;owned\x07me\r\x1b[2J\u202egpj\u2066x\x9b1m\x00\udcff"
TYPED = HOSTILE.replace("\x00", "")  # the arguments of a process have no such byte
FINE = {"\n", "\t"}


def spoiled(value: Any) -> Any:
    """The same with such characters in every text that is no choice of ours."""
    if isinstance(value, dict):
        kept = ("role", "phase", "state", "gpu_status", "run_id", "stream", "start_method")
        return {key: each if key in kept else spoiled(each) for key, each in value.items()}
    if isinstance(value, list):
        return [spoiled(each) for each in value]
    return value + HOSTILE.replace("\udcff", "") if isinstance(value, str) else value


def file_of(folder: Path, run_id: str) -> str:
    feed = Feed(run_id)
    ended = {"state": "crashed", "exit": "uncaught ValueError: no"}
    made = [feed.envelope(steps=40), feed.envelope(steps=40, final=True, **ended)]
    envelopes = [
        msgspec.msgpack.encode(spoiled(msgspec.to_builtins(each, builtin_types=(bytes,)))) for each in made
    ]
    assert all(wire.decode(each).run_name.endswith("\x00") for each in envelopes)
    path = folder / f"{run_id}.lwrec"
    path.write_bytes(pack(Recording(run_id=run_id, run_name=f"train{HOSTILE[:-1]}", envelopes=envelopes)))
    return str(path)


@pytest.mark.parametrize("spoken", ["en", "zh"])
def test_no_command_prints_what_moves_a_cursor(
    spoken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADERWATCH_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("LOADERWATCH_LANGUAGE", spoken)
    for name in (JOB.name, "PYTHONPATH"):  # `run` sets them for the script that it becomes
        monkeypatch.setenv(name, "")
    one, two = file_of(tmp_path, "run-1"), file_of(tmp_path, "run-2")
    data = ["--data-dir", str(tmp_path / "data")]
    names = 0
    for argv in (
        ["analyze", one], ["analyze", one, "--json"], ["doctor", one], ["compare", one, two],
        ["import", one, two, *data],
        ["runs", *data], ["analyze", "run-1", *data], ["doctor", "run-1", *data], ["stacks", "run-1"],
        ["export", "run-1", str(tmp_path / "out.lwrec"), *data],
        ["analyze", f"no{TYPED}"], ["import", f"no{TYPED}.lwrec"], ["doctor", f"no{TYPED}"],
        ["run", f"no{TYPED}"],
        ["stop", "--data-dir", f"no{TYPED}"],
    ):  # fmt: skip
        main(argv)
        said = capsys.readouterr()
        for text in (said.out, said.err):
            moving = {character for character in text if not character.isprintable()} - FINE
            assert not moving, (argv, text)
        names += "na]0;ownedme" in said.out + said.err
    assert names >= 9, "it is printed, without those characters"


def test_the_parser_cleans_what_it_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([f"no{TYPED}"])
    assert "\x1b" not in capsys.readouterr().err
