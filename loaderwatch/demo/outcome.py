"""Which finding belongs to which act, as the table at the demo's end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loaderwatch.core.answers import Finding
from loaderwatch.demo.acts import ACTS, Act

SLACK_S = 1.0
"""Seconds by which a finding may begin before its act: its interval may hold the step before that."""


@dataclass(frozen=True, slots=True)
class Played:
    """An act and when it was played, UTC seconds."""

    act: Act
    began_at: float
    ended_at: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """One act that was played, and what was found in it."""

    played: Played
    found: tuple[str, ...]  # scenarios of its findings that alert, first found first
    titles: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether an expected scenario is among those found, or none was found where none should be."""
        expected = self.played.act.scenarios
        return any(scenario in expected for scenario in self.found) if expected else not self.found


def read_played(report: Path) -> list[Played]:
    """Return the acts that were played to their end, from the training script's report; none without one."""
    acts = {act.key: act for act in ACTS}
    if not report.exists():
        return []
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    return [Played(acts[row["act"]], row["began_at"], row["ended_at"]) for row in rows]


def outcomes(played: Sequence[Played], findings: Iterable[Finding]) -> list[Outcome]:
    """Return each act with the findings that began in it; those of severity info do not count."""
    alerting = sorted((f for f in findings if f.severity != "info"), key=lambda f: f.began_at)
    result = []
    for act in played:
        own = [f for f in alerting if act.began_at - SLACK_S <= f.began_at < act.ended_at - SLACK_S]
        result.append(Outcome(act, tuple(f.scenario for f in own), tuple(f.title for f in own)))
    return result


def table(results: Sequence[Outcome]) -> str:
    """Return the outcomes as text: act, expected, found, and the sentence that was found."""
    lines = [f"{'act':<38} {'expected':<9} found"]
    for outcome in results:
        act = outcome.played.act
        mark = "ok" if outcome.is_right else "NOT"
        expected = " or ".join(act.scenarios) or "nothing"
        lines.append(f"{act.title:<38} {expected:<9} {', '.join(outcome.found) or 'nothing':<12} {mark}")
        lines += [f"    {title}" for title in outcome.titles]
    return "\n".join(lines)
