"""What people read of an alert that took another one over, in the terminal, in a chat and from `analyze`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from loaderwatch.cli import analyze
from loaderwatch.detect.finding import Finding, Folded
from loaderwatch.server.alerts import Alert, Announcement
from loaderwatch.server.wording import message, notice

HANG = Path(__file__).resolve().parents[2] / "scenarios" / "recordings" / "s22_endless_loop.lwrec"
T0 = 1_790_000_000 * 10**9


def folded(title: str, warned_s: float | None) -> Folded:
    return Folded(
        key=title,
        code="running-out",
        scenario="S39",
        severity="warning",
        title=title,
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
        title="Training died because /dev/shm is full.",
        cause="Batches lie there.",
        advice="Give the container more. Or less.",
        folded=list(others),
    )
    return Announcement(Alert("run-1.x", finding, "firing", T0, T0), resolved=False)


def test_the_line_in_the_terminal_says_how_long_before_it_was_warned() -> None:
    told = died(folded("/dev/shm is too small.", 24.0), folded("It waits.", None))
    assert notice(told, "run-1", "http://x") == (
        "loaderwatch: [crashed] Training died because /dev/shm is full (warned 24 s before) — Give the container more — "
        "http://x/#/runs/run-1"
    )
    assert "warned" not in notice(died(folded("It waits.", None)), "run-1", "http://x")


def test_a_message_lists_what_else_was_seen() -> None:
    told = died(folded("/dev/shm is too small.", 24.0), folded("It waits.", None))
    text = message(told, "run-1", "train.py", "http://x").body
    assert "Warned 24 s before: /dev/shm is too small.\nAlso seen, same cause: It waits." in text
    assert "Also seen" not in message(died(), "run-1", "train.py", "http://x").body


def test_analyze_lists_it_under_the_finding(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    analyze.prepare_parser(parser.add_subparsers())
    assert analyze.run(parser.parse_args(["analyze", str(HANG), "--json"])) == 0
    (finding,) = json.loads(capsys.readouterr().out)
    (other,) = finding["folded"]
    assert (finding["scenario"], other["scenario"], other["warned_s"]) == ("S22", "S20", None)
    analyze.run(parser.parse_args(["analyze", str(HANG)]))
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("[critical]") == 1
    assert f"Also seen, same cause: {other['title']}" in text
