"""Which finding belongs to which act, as the table at the demo's end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loaderwatch.core.answers import Finding
from loaderwatch.demo.acts import ACTS, Act

SLACK_S = 1.0
"""A finding's interval may begin with the step before its act."""


@dataclass(frozen=True, slots=True)
class Played:
    """An act and when it was played, UTC seconds."""

    act: Act
    began_at: float
    ended_at: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found in one act."""

    played: Played
    found: tuple[str, ...]  # scenarios of its findings that alert, first found first
    titles: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether the expected scenario is among those found, or nothing was found where nothing should be."""
        expected = self.played.act.scenarios
        return any(scenario in expected for scenario in self.found) if expected else not self.found


def read_played(report: Path) -> list[Played]:
    """The acts that were played to their end, from the training script's report."""
    acts = {act.key: act for act in ACTS}
    if not report.exists():
        return []
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    return [Played(acts[row["act"]], row["began_at"], row["ended_at"]) for row in rows]


def outcomes(played: Sequence[Played], findings: Iterable[Finding]) -> list[Outcome]:
    """Each act with the findings that began in it; those of severity info do not count."""
    alerting = sorted((f for f in findings if f.severity != "info"), key=lambda f: f.began_at)
    result = []
    for act in played:
        own = [f for f in alerting if act.began_at - SLACK_S <= f.began_at < act.ended_at - SLACK_S]
        result.append(Outcome(act, tuple(f.scenario for f in own), tuple(f.title for f in own)))
    return result


def table(results: Sequence[Outcome]) -> str:
    """The outcomes as text: act, expected, found, and the sentence that was found."""
    lines = [f"{'act':<38} {'expected':<9} found"]
    for outcome in results:
        act = outcome.played.act
        mark = "ok" if outcome.is_right else "NOT"
        expected = " or ".join(act.scenarios) or "nothing"
        lines.append(f"{act.title:<38} {expected:<9} {', '.join(outcome.found) or 'nothing':<12} {mark}")
        lines += [f"    {title}" for title in outcome.titles]
    return "\n".join(lines)
