"""The count of instructions: what it reads, and what it says where it cannot count."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import instructions
from benchmarks.counted import LOOPS, STEPS, named

PROFILE = """\
version: 1
creator: callgrind-3.19.0
desc: Trigger: Client Request: {name}

events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw
summary: {instructions} 1 1 {lines} {lines} {lines} 1 1 1
fn=(1) main
"""


def test_profiles_are_read_by_their_names(tmp_path: Path) -> None:
    """A forked worker's has another process's number; one without a name is what was left at the end."""
    for pid, name, count in ((7, "workers; bare", 64), (8, "workers, in a worker; watched", 128)):
        text = PROFILE.format(name=name, instructions=count * STEPS, lines=STEPS)
        (tmp_path / f"profile.{pid}.1").write_text(text)
    (tmp_path / "profile.7").write_text("desc: Trigger: Program termination\n\nevents: Ir\nsummary: 7\n")
    assert dict(instructions.counted(tmp_path)) == {
        "workers; bare": instructions.Count(64, 3),
        "workers, in a worker; watched": instructions.Count(128, 3),
    }


def test_every_loop_has_a_budget() -> None:
    assert {*LOOPS} | {"workers, in a worker"} == {*instructions.BUDGETS}
    assert named("workers", watched=True) == "workers; watched"


def test_without_valgrind_it_says_so_and_passes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert instructions.main([]) == 0
    assert capsys.readouterr().out == (
        "SKIPPED: valgrind is not installed: on Debian and Ubuntu, apt-get install valgrind\n"
    )


@pytest.mark.parametrize(("over", "code"), [(0, 0), (1, 1)])
def test_a_row_over_its_budget_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], over: int, code: int
) -> None:
    counts = {}
    monkeypatch.setattr(instructions, "BUDGETS", {"loader": (7, 2), "empty, step": instructions.NOTHING})
    for name, (budget, lines) in (("loader", (7, 2)), ("empty, step", (9_000, 900))):
        counts[f"{name}; bare"] = instructions.Count(1000, 10)
        counts[f"{name}; watched"] = instructions.Count(1000 + budget + over, 10 + lines)
    monkeypatch.setattr(instructions, "what_is_missing", lambda: None)
    monkeypatch.setattr(instructions, "run", lambda loops: counts)
    assert instructions.main([]) == code
    assert ("OVER" in capsys.readouterr().out) == bool(code)
