"""Plays a scenario, follows its finding's advice, plays it again, and compares the gain with the ceiling.

The two runs alternate several times, so that other load on the machine affects both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.fakes.serving import Access
from tests.scenarios.cases import Case
from tests.scenarios.play import Outcome, play_one, serve

Finding = dict[str, Any]
Reader = Callable[[str], dict[str, Any] | None]
"""What to change, out of the advice's words; None when it does not say it."""


def number(pattern: str, name: str) -> Reader:
    """The number that an advice names."""

    def read(advice: str) -> dict[str, Any] | None:
        found = re.search(pattern, advice)
        return None if found is None else {name: int(found[1])}

    return read


def said(pattern: str, **changes: Any) -> Reader:
    """A change of code that an advice asks for."""
    return lambda advice: changes if re.search(pattern, advice) else None


ADVICE: Final[dict[str, Reader]] = {
    "S02": number(r"num_workers 2 → (\d+)", "num_workers"),
    "S03": number(r"num_workers 8 → (\d+)", "num_workers"),
    "S06": said(r"_NUM_THREADS=1", threads=1),
    "S08": number(r"num_workers=(\d+)", "num_workers"),
    "S13": said(r"stack in collate_fn", stacked=True),
    "S20": said(r"dataset\[333\]|trim|cap", trimmed=True),
    "S21": number(r"prefetch_factor=(\d+)", "prefetch_factor"),
    "S28": said(r"persistent_workers=True", persistent_workers=True),
    "S30": said(r"sampler end the epoch", sampled=True),
    "S32": said(r"outside the loop", hoisted=True),
}
ON_CPU: Final = ("S03", "S06", "S13", "S28", "S32")
"""These need the machine's CPUs for themselves; the others only sleep, and are played together."""
LONGER: Final = {"S28": 2.0}
"""Its epochs take seconds while workers are spawned, and two of them must be over before it is found."""
MORE_TURNS: Final = {"S03": 2}
"""Its gain is the least of all, and a busy machine takes more from eight workers than from one."""
NOISE: Final = 0.1
"""Of the time per step: what a machine that is busy with other things adds to a gain."""
MEANINGFUL: Final = 0.5
"""Of the ceiling: what must come back at least."""


@dataclass(frozen=True)
class Turn:
    """Once as it is and once with the advice: seconds per step, and the ceiling that was stated."""

    before_s: float
    after_s: float
    ceiling: float | None  # None: not found this time, or none stated

    @property
    def ratio(self) -> float:
        """The share of the time per step that the advice saved."""
        return 1 - self.after_s / self.before_s


@dataclass(frozen=True)
class Gain:
    """What an advice promised and what it gave: shares of the run's time, 0 to 1."""

    scenario: str
    finding: Finding | None
    changes: dict[str, Any] | None
    turns: tuple[Turn, ...]
    remaining: tuple[
        str, ...
    ]  # scenarios that still alert afterwards, and promise half as much as before or more
    report: str

    @property
    def ratio(self) -> float | None:
        """The share of the time per step that the advice saved; the median of the turns."""
        return median(turn.ratio for turn in self.turns) if self.turns else None

    @property
    def ceiling(self) -> float | None:
        """What the findings said is the most; the median of the turns."""
        known = [turn.ceiling for turn in self.turns if turn.ceiling is not None]
        return median(known) if known else None

    @property
    def wrong(self) -> str:
        """What does not fit: no advice, a gain above its ceiling or far below it, or the same alert again."""
        if self.finding is None:
            return "not found"
        if self.changes is None:
            return f"the advice names no change: {self.finding['advice']}"
        if self.ratio is None:
            return "a script did not come to its end"
        if self.ceiling is None:
            return "no ceiling"
        if self.ratio > self.ceiling + NOISE:
            return "above the ceiling"
        if self.ratio < MEANINGFUL * self.ceiling or self.ratio <= 0:
            return "far below the ceiling"
        return f"{self.scenario} still alerts" if self.scenario in self.remaining else ""


def measure(
    scenarios: Sequence[str], data_dir: Path, seconds: float = 14.0, turns: int = 2
) -> dict[str, Gain]:
    """The gain of each, by scenario."""
    with serve(data_dir) as access, ThreadPoolExecutor(3) as pool:

        def one(scenario: str) -> Gain:
            return _gain(
                scenario,
                access,
                data_dir,
                LONGER.get(scenario, 1.0) * seconds,
                turns * MORE_TURNS.get(scenario, 1),
            )

        asleep = list(pool.map(one, [s for s in scenarios if s not in ON_CPU]))
        alone = [one(s) for s in scenarios if s in ON_CPU]
    return {gain.scenario: gain for gain in [*asleep, *alone]}


def _gain(scenario: str, access: Access, data_dir: Path, seconds: float, turns: int) -> Gain:
    finding, changes, measured = None, None, []
    remaining: set[str] = set()
    for turn in range(turns):
        before = _play(scenario, {}, access, data_dir / f"{scenario}-{turn}-as-it-is", seconds)
        found = next((f for f in before.findings if f["scenario"] == scenario), None)
        finding = finding or found
        changes = changes or (None if finding is None else ADVICE[scenario](finding["advice"]))
        if changes is None:
            return Gain(scenario, finding, None, (), (), before.report())
        after = _play(scenario, changes, access, data_dir / f"{scenario}-{turn}-advised", seconds)
        remaining |= {f["scenario"] for f in after.alerts if _promises_much(f, found)}
        before_s, after_s = _per_step(before), _per_step(after)
        if before_s is None or after_s is None:
            return Gain(scenario, finding, changes, (), (), f"{before.report()}\n{after.report()}")
        measured.append(Turn(before_s, after_s, found["gain_ceiling_ratio"] if found else None))
    return Gain(scenario, finding, changes, tuple(measured), tuple(sorted(remaining)), after.report())


def _promises_much(alert: Finding, before: Finding | None) -> bool:
    """Whether an alert promises at least half of the gain as before. A busy machine leaves a smaller one."""
    ceiling, was = alert["gain_ceiling_ratio"], (before or {}).get("gain_ceiling_ratio")
    return ceiling is None or was is None or ceiling >= MEANINGFUL * was


def _play(scenario: str, changes: dict[str, Any], access: Access, played_in: Path, seconds: float) -> Outcome:
    case = Case(
        "advised",
        args=(scenario, json.dumps(changes)),
        name=played_in.name.lower(),
        within_s=seconds + 30,
        environ={"ADVISED_SECONDS": str(seconds)},
    )
    return play_one(case, access, played_in)


def _per_step(outcome: Outcome) -> float | None:
    """Seconds per step; None when the script did not come to its end."""
    for line in reversed(outcome.output.splitlines()):
        if line.startswith('{"steps"'):
            measured = json.loads(line)
            return float(measured["seconds"]) / max(1, int(measured["steps"]))
    return None
