"""Which finding belongs to which act, as the table at the demo's end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loaderwatch.core.answers import Finding
from loaderwatch.core.message import Text
from loaderwatch.demo.acts import ACTS, Act
from loaderwatch.texts import in_own_language, own_language, say

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
    head = [say(Text("demo-columns", {}, part), own_language()) for part in ("act", "expected", "found")]
    lines = ["{:<38} {:<9} {}".format(*head)]
    for outcome in results:
        title = say(outcome.played.act.title, own_language())
        mark = in_own_language("demo-right", right=outcome.is_right)
        expected = _expected(outcome.played.act.scenarios)
        found = ", ".join(outcome.found) or in_own_language("demo-nothing")
        lines.append(f"{title:<38} {expected:<9} {found:<12} {mark}")
        lines += [f"    {title}" for title in outcome.titles]
    return "\n".join(lines)


def _expected(scenarios: Sequence[str]) -> str:
    """Return which scenarios an act may show: "S02", "S02 or S03", "nothing"."""
    if not scenarios:
        return in_own_language("demo-nothing")
    said, *others = scenarios
    for other in others:
        said = in_own_language("demo-either", one=said, other=other)
    return said
