"""Recordings: written, read, replayed; and files that are none."""

from __future__ import annotations

import lzma
from pathlib import Path

import msgspec
import pytest

from loaderwatch.cli import main
from loaderwatch.core.wire import encode
from loaderwatch.server.recordings import recording
from loaderwatch.server.recordings.analysis import judge_recording
from loaderwatch.server.recordings.recording import BadRecording, Recording
from tests.fakes.runs import SECOND, T0, envelope, process, span, steps


def _recorded(seconds: int = 40) -> Recording:
    """A rank that waits three quarters of its time, an envelope a second."""
    made = []
    for seq in range(1, seconds + 1):
        now = T0 + seq * SECOND
        times = [now - SECOND + i * SECOND // 5 for i in range(5)]
        made.append(
            envelope(
                seq,
                made_ns=now,
                processes=[process(0, 1)],
                tables={
                    "steps": steps(
                        0, times, SECOND * 3 // 20, SECOND // 20, batch=[5 * seq + i for i in range(5)]
                    )
                },
                spans=[span(0, now - 5, phase="step", loader=0)],
            )
        )
    return Recording(run_id="run-1", run_name="train.py", envelopes=[encode(each) for each in made])


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    recorded = _recorded()
    path = tmp_path / "run.lwrec"
    assert path.write_bytes(recording.pack(recorded)) < 30_000
    assert recording.load(path) == recorded


def test_replayed_windows_are_a_second_apart() -> None:
    looks = list(recording.windows(_recorded(10)))
    assert [look.now_ns for look, _ in looks] == [T0 + s * SECOND for s in range(1, 11)]
    assert not any(over for _, over in looks)


def test_a_recording_is_judged_as_the_live_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = _recorded()
    found, _ = judge_recording(recorded)
    assert [(f.code, f.severity, f.state) for f in found] == [("input-bound", "critical", "firing")]
    (tmp_path / "run.lwrec").write_bytes(recording.pack(recorded))
    assert main(["analyze", str(tmp_path / "run.lwrec")]) == 0
    assert found[0].title.split(" ", 1)[0] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"hello", "Input format not supported"),
        (lzma.compress(b"\x81\xa6format\x01"), "missing required field"),
        (
            lzma.compress(
                msgspec.msgpack.encode({"format": 9, "run_id": "a", "run_name": "b", "envelopes": [b"x"]})
            ),
            "format is 9",
        ),
        (
            lzma.compress(msgspec.msgpack.encode({"run_id": "a", "run_name": "b", "envelopes": []})),
            "no envelopes",
        ),
        (lzma.compress(bytes(1000))[:-20], "cut off"),
    ],
)
def test_a_file_that_is_none_says_so(
    tmp_path: Path, data: bytes, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.lwrec"
    path.write_bytes(data)
    with pytest.raises(BadRecording, match=says):
        recording.load(path)
    assert main(["analyze", str(path)]) == 1
    assert says in capsys.readouterr().err


def test_a_missing_file_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(tmp_path / "none.lwrec")]) == 1
    assert "No such file" in capsys.readouterr().err
