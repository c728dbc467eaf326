"""Plays a scenario as it is, takes the advice of its finding, plays it again: the gain beside the promised ceiling."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
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
"""An epoch takes seconds while its workers are spawned, and the ceiling is a share of the run with its first start."""
TOLERANCE: Final = {"S06": 0.2}
"""Above the ceiling, as a share of the run's time. S06: threads that spin while they wait for each other cost CPU time
that nobody can tell from the fetch's own, so its ceiling is low. The others: ``USUAL_TOLERANCE``, a busy machine's noise."""
USUAL_TOLERANCE: Final = 0.1


@dataclass(frozen=True)
class Gain:
    """What an advice promised and what it gave: shares of the run's time, 0 to 1."""

    scenario: str
    finding: Finding | None
    changes: dict[str, Any] | None
    before_s: float | None  # per step
    after_s: float | None
    remaining: tuple[str, ...]  # scenarios that still alert afterwards
    report: str

    @property
    def ratio(self) -> float | None:
        """The share of the time per step that the advice saved."""
        return None if self.after_s is None or self.before_s is None else 1 - self.after_s / self.before_s

    @property
    def ceiling(self) -> float | None:
        """What the finding said is the most."""
        return None if self.finding is None else self.finding["gain_ceiling_ratio"]


def measure(scenarios: Sequence[str], data_dir: Path, seconds: float = 20.0) -> dict[str, Gain]:
    """The gain of each, by scenario."""
    with serve(data_dir) as access, ThreadPoolExecutor(3) as pool:

        def one(scenario: str) -> Gain:
            return _gain(scenario, access, data_dir, LONGER.get(scenario, 1.0) * seconds)

        asleep = list(pool.map(one, [s for s in scenarios if s not in ON_CPU]))
        alone = [one(s) for s in scenarios if s in ON_CPU]
    return {gain.scenario: gain for gain in [*asleep, *alone]}


def _gain(scenario: str, access: Access, data_dir: Path, seconds: float) -> Gain:
    before = _play(scenario, {}, access, data_dir, seconds)
    finding = next((f for f in before.findings if f["scenario"] == scenario), None)
    changes = None if finding is None else ADVICE[scenario](finding["advice"])
    if changes is None:
        return Gain(scenario, finding, None, _per_step(before), None, (), before.report())
    after = _play(scenario, changes, access, data_dir, seconds)
    remaining = tuple(f["scenario"] for f in after.alerts)
    return Gain(scenario, finding, changes, _per_step(before), _per_step(after), remaining, after.report())


def _play(scenario: str, changes: dict[str, Any], access: Access, data_dir: Path, seconds: float) -> Outcome:
    name = f"{scenario.lower()}-{'advised' if changes else 'as-it-is'}"
    case = Case(
        "advised",
        args=(scenario, json.dumps(changes)),
        name=name,
        within_s=seconds + 30,
        environ={"ADVISED_SECONDS": str(seconds)},
    )
    return play_one(case, access, data_dir / name)


def _per_step(outcome: Outcome) -> float | None:
    """Seconds per step; None when the script did not come to its end."""
    for line in reversed(outcome.output.splitlines()):
        if line.startswith('{"steps"'):
            measured = json.loads(line)
            return float(measured["seconds"]) / max(1, int(measured["steps"]))
    return None
