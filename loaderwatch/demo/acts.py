"""The six acts of the demo: what the training run does, what should be found, and what was found."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loaderwatch.core.answers import Finding
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.message import Text
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


@dataclass(frozen=True, slots=True)
class Act:
    """One part of the training run, with its own data loader.

    An epoch has ``images / (2 ranks * batch_size)`` batches; ``repeats`` of 4 shows each image four times.
    """

    key: str
    scenarios: tuple[str, ...]  # any of these is the right finding; empty: nothing may be found
    epochs: int
    repeats: int = 4
    workers: int = 2
    read_latency_s: float = 0.0  # seconds for an image to arrive from simulated remote storage
    persistent: bool = True
    start_method: str | None = None
    slow_read_s: float = 0.0  # seconds to read the one large file
    hang_s: float = 0.0  # seconds in which one read gets no answer; first epoch only
    preview_s: float = 0.0  # seconds that the loop spends on previews every ten steps

    @property
    def title(self) -> Text:
        """The act's name for people."""
        return self._said()

    @property
    def what(self) -> Text:
        """What happens in the act."""
        return self._said("what")

    @property
    def look(self) -> Text:
        """What to look at on the page."""
        return self._said("look")

    def _said(self, part: str | None = None) -> Text:
        return Text(f"act-{self.key}", {"hang_s": self.hang_s}, part)


ACTS = (
    Act(key="healthy", scenarios=(), epochs=3),
    Act(key="few-workers", scenarios=("S02",), epochs=2, repeats=3, read_latency_s=0.010),
    Act(key="slow-sample", scenarios=("S20",), epochs=5, repeats=1, slow_read_s=3.5),
    Act(key="epoch-restart", scenarios=("S28",), epochs=4, repeats=1, persistent=False, start_method="spawn"),
    Act(key="sawtooth", scenarios=("S26",), epochs=3, repeats=5, preview_s=0.6),
    Act(key="hang", scenarios=("S36",), epochs=3, hang_s=20.0),
)

HANG_AFTER_S = 8.0
"""The demo's hang limit in seconds: so short that the alert comes during the hang."""


def acts_to_play(keys: list[str] | None = None, *, fast: bool = False) -> list[Act]:
    """Return the acts with these keys (None: all) in order; ``fast`` shortens them for tests.

    Raises:
        ConfigError: a key names no act.
    """
    known = {act.key: act for act in ACTS}
    for key in keys or ():
        if key not in known:
            raise ConfigError(f"no act is named {key!r}; there are {', '.join(known)}")
    chosen = [act for act in ACTS if keys is None or act.key in keys]
    return [_shortened(act) for act in chosen] if fast else chosen


def _shortened(act: Act) -> Act:
    match act.key:
        case "healthy":
            return replace(act, epochs=1)
        case "few-workers":
            return replace(act, epochs=1)
        case "sawtooth":
            return replace(act, epochs=2)
        case "slow-sample":
            return replace(act, epochs=3)
        case "epoch-restart":
            return act  # three boundaries are the fewest that show a habit
        case _:
            return replace(act, epochs=1, repeats=2)  # a busy machine learns a longer limit: hang_s stays
