"""What people read of an alert that took another one over, in the terminal, in a chat and from `analyze`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from loaderwatch.cli import analyze
from loaderwatch.core.facts import StackDump
from loaderwatch.detect.finding import Finding, Folded, Texts
from loaderwatch.server.alerts.alert_book import Alert, Announcement
from loaderwatch.server.alerts.messages import message, notice, reminder
from loaderwatch.server.live.judge import with_its_end
from tests.fakes.findings import reworded
from tests.unit.detect.build import RankBuilder, run

HANG = Path(__file__).resolve().parents[3] / "scenarios" / "recordings" / "s36_slow_first.lwrec"
T0 = 1_790_000_000 * 10**9


def folded(title: str, warned_s: float | None) -> Folded:
    return Folded(
        key=title,
        code="running-out",
        scenario="S39",
        severity="warning",
        texts=Texts(title=title),
        began_ns=T0,
        warned_s=warned_s,
    )


def died(*others: Folded) -> Announcement:
    finding = Finding(
        key="crashed:rank0",
        code="crashed",
        scenario="S39",
        severity="critical",
        confidence=0.9,
        began_ns=T0,
        texts=Texts(
            title="Training died because /dev/shm is full.",
            cause="Batches lie there.",
            advice="Give the container more. Or less.",
        ),
        folded=list(others),
    )
    return Announcement(Alert("run-1.x", finding, "firing", T0, T0), resolved=False)


def test_the_line_in_the_terminal_says_how_long_before_it_was_warned() -> None:
    told = died(folded("/dev/shm is too small.", 24.0), folded("It waits.", None))
    assert notice(told, "run-1", "http://x") == (
        "loaderwatch: [crashed] Training died because /dev/shm is full (warned 24 s earlier) — Give the"
        " container more. Or less — http://x/#/runs/run-1"
    )
    assert "warned" not in notice(died(folded("It waits.", None)), "run-1", "http://x")


HUNG_STACK = """Current thread 0x1 (most recent call first):
  File "/usr/lib/python3.11/socket.py", line 700 in readinto
  File "/home/me/data.py", line 12 in __getitem__
  File "/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 300 in _worker_loop
"""


def test_of_a_hang_the_line_in_the_terminal_names_the_line_of_the_script_and_enough_advice() -> None:
    finding = Finding(
        key="hung:rank1",
        code="hung",
        scenario="S36",
        severity="critical",
        confidence=0.9,
        began_ns=T0,
        texts=Texts(
            title="Rank 1 hangs.",
            cause="",
            advice="Fix rank 1 on vm. Its worker reads from a socket that nobody answers;"
            " set a timeout there. More. " * 3,
        ),
        stacks=[StackDump(rank=1, worker=0, pid=7, taken_ns=T0, text=HUNG_STACK)],
        rank=1,
    )
    line = notice(
        Announcement(Alert("run-1.x", finding, "firing", T0, T0), resolved=False), "run-1", "http://x"
    )
    assert line == (
        "loaderwatch: [hung] Rank 1 hangs, stuck at data.py:12 in __getitem__ — Fix rank 1 on vm."
        " Its worker reads from a socket that nobody answers; set a timeout there —"
        " http://x/#/runs/run-1/ranks/1"
    )


def test_a_message_lists_what_else_was_seen() -> None:
    told = died(folded("/dev/shm is too small.", 24.0), folded("It waits.", None))
    text = message(told, "run-1", "train.py", "http://x").body
    assert "Warned 24 s earlier: /dev/shm is too small.\nAlso seen, same cause: It waits." in text
    assert "Also seen" not in message(died(), "run-1", "train.py", "http://x").body


def test_analyze_lists_it_under_the_finding(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    analyze.prepare_parser(parser)
    assert analyze.run(parser.parse_args([str(HANG), "--json"])) == 0
    (finding,) = json.loads(capsys.readouterr().out)
    (other,) = finding["folded"]
    assert (finding["scenario"], other["scenario"]) == ("S36", "S20")
    analyze.run(parser.parse_args([str(HANG)]))
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("[critical]") == 1
    assert text.index(finding["title"]) < text.index("[critical]"), "the verdict comes first"
    assert f"Warned {other['warned_s']:.0f} s earlier: {other['title']}" in text


def test_what_ends_with_its_process_has_not_got_well() -> None:
    """A hung run that somebody kills: "Resolved: Training hangs" would let them sleep on."""
    hang = died().alert
    hang.finding = reworded(hang.finding, code="hung", title="Training hangs.", rank=0)
    over = Announcement(hang, resolved=True)
    rank = RankBuilder()
    assert with_its_end(over, run(rank)) == over
    rank.state = "crashed"
    ended = with_its_end(over, run(rank))
    told = message(ended, "run-1", "train.py", "http://x")
    assert (told.kind, told.title) == (
        "warning",
        "Training process died, alert closed: Training hangs. (train.py)",
    )
    assert "until the training process died" in told.body
    line = notice(ended, "run-1", "http://x")
    assert "closed after" in line
    assert "because the training process died: Training hangs" in line
    assert not with_its_end(Announcement(hang, resolved=False), run(rank)).died


def test_what_a_run_that_fell_silent_left_open_is_not_over() -> None:
    hang = died().alert
    hang.finding = reworded(hang.finding, code="hung", title="Training hangs.", rank=0)
    told = message(Announcement(hang, resolved=True, unheard=True), "run-1", "train.py", "http://x")
    assert (told.kind, told.title) == ("warning", "Contact lost: Training hangs. (train.py)")
    assert "Whether this problem goes on is not known." in told.body


def test_a_reminder_says_for_how_long_and_what_to_do() -> None:
    alert = died().alert
    told = reminder(alert, "run-1", "train.py", "http://x", T0 + 7_260 * 10**9)
    assert told.kind == "critical"
    assert told.title == "Still open after 2 h 1 min: Training died because /dev/shm is full. (train.py)"
    assert told.body.endswith("What to do: Give the container more. Or less.\n\nhttp://x/#/runs/run-1")
