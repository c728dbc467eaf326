"""Compares the findings with the built-in stall: is the right one found, and how soon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from loaderwatch.core import wire
from loaderwatch.core.records import UNKNOWN
from tests.scenarios.cases import Case, counts

LONG_S: Final = 0.02
"""A wait or pause shorter than this is no stall, whatever its share of the others."""

FORECASTS: Final = frozenset(("S24", "S39", "S40", "S56", "S58"))
"""Said before anything stalls: nothing is repeated."""
BOUNDARIES: Final = frozenset(("S15", "S28", "S29", "S30", "S31", "S32", "S33"))
PAUSES: Final = frozenset(("S17", "S25", "S26", "S27", "S48"))
"""Scenarios whose time goes in the step, not in the data wait."""


@dataclass(frozen=True)
class Judgement:
    """``got`` are the reported scenarios, the one that was expected first."""

    case: Case
    got: tuple[str, ...]
    culprit: bool | None  # None: nobody was found, or no culprit is asked for
    wrong: tuple[str, ...]  # what of the culprit or the words was wrong
    alerts: int  # over the whole run, resolved ones too: a cause is reported once

    @property
    def right(self) -> bool:
        """Named, once, and nothing else was."""
        expected = set(self.case.scenarios)
        return bool(self.got) == bool(expected) and set(self.got) <= expected and self.alerts <= 1

    @property
    def exact(self) -> bool:
        """Right, with its culprit."""
        return self.right and self.culprit is not False


def judge(case: Case, findings: Sequence[dict[str, Any]]) -> Judgement:
    """Judge the findings of a run, as the API gives them. A remark counts only if the case expects it."""
    alerts = [finding for finding in findings if counts(case, finding)]
    alerts.sort(key=lambda finding: finding["scenario"] not in case.scenarios)
    got = tuple(dict.fromkeys(finding["scenario"] for finding in alerts))
    named = [finding for finding in alerts if finding["scenario"] in case.scenarios]
    if not named:
        return Judgement(case, got, None, (), len(alerts))
    wrong = min((_wrong(case, finding) for finding in named), key=len)
    asked = case.rank is not None or case.worker is not None or case.samples or case.says
    return Judgement(case, got, not wrong if asked else None, wrong, len(alerts))


def _wrong(case: Case, finding: dict[str, Any]) -> tuple[str, ...]:
    wrong = []
    if case.rank is not None and finding["rank"] != case.rank:
        wrong.append(f"rank {finding['rank']}, not {case.rank}")
    workers = (case.worker,) if isinstance(case.worker, int) else case.worker
    if workers is not None and finding["worker"] not in workers:
        wrong.append(f"worker {finding['worker']}, not {workers}")
    if case.samples and finding["sample_indices"] != list(case.samples):
        wrong.append(f"samples {finding['sample_indices']}, not {list(case.samples)}")
    text = " ".join((finding["title"], finding["cause"], finding["advice"]))
    wrong += [f"does not say {words!r}" for words in case.says if words not in text]
    return tuple(wrong)


GROWS = ("script-work-grows", "model-pass-grows", "steps-grow", "optimizer-slowed-down")
"""Rules of what becomes slower as the run goes on."""


def waited_s(
    scenario: str, finding: dict[str, Any], fired_at: float, payloads: Sequence[bytes], hang_after_s: float
) -> float | None:
    """Seconds from the stall's second repetition until the finding fired, or None if unknown.

    For a hang they count from its limit, for a crash from the crash. The second repetition is the end of the
    second long wait (pause, epoch boundary). A wait is long from half of the second longest.
    """
    if finding["code"] in ("crashed", "caught-error"):
        return fired_at - float(finding["began_at"])
    if scenario in FORECASTS or finding.get("rule") in GROWS:
        return None  # it has no second repetition
    if finding["code"] == "hung":
        # Long waits are learned on a busy machine; a first batch or epoch gap may have a longer limit.
        learned = [
            float(e["value"])
            for e in finding.get("evidence", ())
            if e["label"] == "limit learned for this phase"
        ]
        return fired_at - (float(finding["began_at"]) + max([hang_after_s, *learned]))
    if scenario in BOUNDARIES and finding["code"] != "input-bound":
        ends, lengths = _rows(payloads, "epoch_begins", ("iter_ns", "first_wait_ns"))
        more = _rows(payloads, "epoch_ends", ("teardown_ns",))
        ends, lengths = np.concatenate((ends, more[0])), np.concatenate((lengths, more[1]))
    else:
        in_step = scenario in PAUSES and finding["code"] != "input-bound"
        column = "step_ns" if in_step else "wait_ns"
        ends, lengths = _rows(payloads, "steps", (column,))
    if not len(lengths):
        return None
    order = np.argsort(ends, kind="stable")
    ends, lengths = ends[order], lengths[order]
    # The very first is a warm-up wherever it is long, and must not hide the others.
    most = np.sort(lengths[1:])[-2:]
    usual = float(most[0]) if len(most) else 0.0
    long = ends[lengths >= max(LONG_S, usual / 2)]
    repeated = long[1] if len(long) > 1 else long[0] if len(long) else None
    return None if repeated is None else fired_at - float(repeated)


def waited(payloads: Sequence[bytes]) -> tuple[int, float]:
    """The steps of a run, and the share of data wait in their time."""
    _, waits = _rows(payloads, "steps", ("wait_ns",))
    _, whole = _rows(payloads, "steps", ("wait_ns", "step_ns"))
    return len(waits), float(waits.sum() / max(whole.sum(), 1e-9))


def _rows(
    payloads: Sequence[bytes], table: str, durations: tuple[str, ...]
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.float64]]]:
    """When each row of a table ended (UTC seconds) and how long what it tells of took."""
    ends, lengths = [np.empty(0)], [np.empty(0)]
    for payload in payloads:
        columns = wire.decode(payload).tables.get(table)
        if not columns:
            continue
        length = np.zeros(wire.row_count(columns))
        for name in durations:
            values = np.frombuffer(columns[name], dtype="<i8")
            length += np.where(values == UNKNOWN, 0, values) / 1e9
        began = np.frombuffer(columns["request_ns"], dtype="<i8") / 1e9
        lengths.append(length)
        ends.append(began + length)
    return np.concatenate(ends), np.concatenate(lengths)
