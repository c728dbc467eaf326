"""What a training process prints as it ends."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest

from loaderwatch.agent.process.closing_lines import STALE_S, say_closing
from loaderwatch.core.wire import CLOSED_NAME, CLOSING_NAME, QUIET_S, Closing


def leave(folder: Path, closing: Closing) -> Path:
    path = folder / CLOSING_NAME
    path.write_bytes(msgspec.json.encode(closing))
    return path


FOUND = Closing(
    lost="41 min 0 s (33 %) lost",
    lines=["36 min: Training waits."],
    advice="Raise num_workers 2 → 6",
    link="http://here/#/runs/r",
    found=True,
)


def test_steps_time_lost_and_what_to_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave(tmp_path, FOUND)
    say_closing(tmp_path, "resnet", 12340, 7380.0)
    assert capsys.readouterr().err == (
        "loaderwatch: resnet ended after 12,340 steps in 2 h 3 min, 41 min 0 s (33 %) lost\n"
        "loaderwatch:   36 min: Training waits.\n"
        "loaderwatch:   change first: Raise num_workers 2 → 6 — http://here/#/runs/r\n"
    )


def test_nothing_found_is_one_line_and_none_of_a_trial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave(tmp_path, Closing(lost="almost no time lost", link="http://here/"))
    say_closing(tmp_path, "r", 1, 29.0)
    assert capsys.readouterr().err == ""
    assert not (tmp_path / CLOSED_NAME).exists()
    say_closing(tmp_path, "r", 1, 42.0)
    assert capsys.readouterr().err == (
        "loaderwatch: r ended after 1 step in 42 s, almost no time lost — http://here/\n"
    )


def test_an_alert_is_told_of_a_short_run_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave(tmp_path, FOUND)
    say_closing(tmp_path, "r", 20, 8.0)
    assert "ended after 20 steps in 8 s" in capsys.readouterr().err


def test_no_word_and_an_old_one_are_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say_closing(tmp_path, "r", 20, 80.0)
    path = leave(tmp_path, FOUND)
    for age_s, took_s in ((STALE_S + 1, 80.0), (9.0, 8.0)):  # the last: of an earlier process of this name
        long_ago = time.time() - age_s
        os.utime(path, (long_ago, long_ago))
        say_closing(tmp_path, "r", 20, took_s)
    assert capsys.readouterr().err == ""


def test_the_servers_words_move_no_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave(
        tmp_path, Closing(lost="x\x1b[2J\ny", lines=["a\nloaderwatch: b"], link="http://h\x07/", found=True)
    )
    say_closing(tmp_path, "r\x1b\u202e", 2, 8.0)
    said = capsys.readouterr().err
    assert said.count("\n") == 2
    assert "\u202e" not in said
    assert "\x1b" not in said
    assert "\x07" not in said


ENDED = "crashed in step 127: ValueError: no (train.py:40 in main)"


def test_after_a_crash_the_last_line_says_what_happened_and_gives_no_other_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave(tmp_path, FOUND)
    say_closing(tmp_path, "resnet", 127, 80.0, ENDED)
    assert capsys.readouterr().err == (
        "loaderwatch: resnet ended after 127 steps in 80 s, 41 min 0 s (33 %) lost\n"
        "loaderwatch:   36 min: Training waits.\n"
        f"loaderwatch: resnet {ENDED} — http://here/#/runs/r\n"
    )


@pytest.mark.parametrize("said", [None, Closing(lost="almost no time lost", link="http://here/")])
def test_a_crash_is_told_of_a_trial_and_without_a_server(
    said: Closing | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if said is not None:
        leave(tmp_path, said)
    say_closing(tmp_path, "r", 0, 4.0, ENDED)
    assert capsys.readouterr().err == f"loaderwatch: r {ENDED}{' — http://here/' if said else ''}\n"


def test_the_rank_that_crashes_first_has_the_last_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave(tmp_path, FOUND)
    say_closing(tmp_path, "r", 5, 80.0, "crashed on rank 1 in step 5: ValueError: no")
    capsys.readouterr()
    say_closing(
        tmp_path, "r", 5, 80.0, "crashed on rank 0 in step 5: RuntimeError: connection closed by peer"
    )
    say_closing(tmp_path, "r", 5, 80.0)
    assert capsys.readouterr().err == ""
    long_ago = time.time() - QUIET_S - 1
    os.utime(tmp_path / CLOSED_NAME, (long_ago, long_ago))
    say_closing(tmp_path, "r", 5, 80.0)
    assert "ended after 5 steps" in capsys.readouterr().err
