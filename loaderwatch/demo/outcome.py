"""Which finding belongs to which act: the table at the demo's end."""

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
"""Seconds by which a finding may begin before its act: its interval may include the step before."""


@dataclass(frozen=True, slots=True)
class Played:
    """An act and its time, in UTC seconds."""

    act: Act
    began_at: float
    ended_at: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """One played act and its findings."""

    played: Played
    found: tuple[str, ...]  # scenarios of its alerting findings, in order of time
    titles: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether an expected scenario was found, or none if none is expected."""
        expected = self.played.act.scenarios
        return any(scenario in expected for scenario in self.found) if expected else not self.found


def read_played(report: Path) -> list[Played]:
    """Return the acts played to their end, from the training script's report; empty without one."""
    acts = {act.key: act for act in ACTS}
    if not report.exists():
        return []
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    return [Played(acts[row["act"]], row["began_at"], row["ended_at"]) for row in rows]


def outcomes(played: Sequence[Played], findings: Iterable[Finding]) -> list[Outcome]:
    """Return each act with the findings that began in it, except those of severity info."""
    alerting = sorted((f for f in findings if f.severity != "info"), key=lambda f: f.began_at)
    result = []
    for act in played:
        own = [f for f in alerting if act.began_at - SLACK_S <= f.began_at < act.ended_at - SLACK_S]
        result.append(Outcome(act, tuple(f.scenario for f in own), tuple(f.title for f in own)))
    return result


def table(results: Sequence[Outcome]) -> str:
    """Return the outcomes as text: act, expected, found, and the titles of the findings."""
    head = [say(Text("demo-columns", {}, part), own_language()) for part in ("act", "expected", "found")]
    lines = ["{:<38} {:<9} {}".format(*head)]
    for outcome in results:
        title = say(outcome.played.act.title, own_language())
        mark = in_own_language("demo-right", right=outcome.is_right)
        expected = _expected(outcome.played.act.scenarios)
        scenarios = ", ".join(outcome.found) or in_own_language("demo-nothing")
        lines.append(f"{title:<38} {expected:<9} {scenarios:<12} {mark}")
        lines += [f"    {title}" for title in outcome.titles]
    return "\n".join(lines)


def _expected(scenarios: Sequence[str]) -> str:
    """Return the expected scenarios of an act: "S02", "S02 or S03", "nothing"."""
    if not scenarios:
        return in_own_language("demo-nothing")
    text, *others = scenarios
    for other in others:
        text = in_own_language("demo-either", one=text, other=other)
    return text
