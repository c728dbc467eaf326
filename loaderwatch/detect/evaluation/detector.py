"""Evaluation that waits for data or takes much of the run: S55, code ``slow-evaluation``.

Evaluation is judged apart from training, by its share of the run. If it takes long because it computes, that
may be intended, so it is only a remark.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Severity
from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import SLOW_EVALUATION as CODE
from loaderwatch.detect.evidence import RankEvidence, RunEvidence
from loaderwatch.detect.finding import Explanation, Finding, observed
from loaderwatch.detect.input_bound.rules import explain
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.measures.statistics import ratio
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import one_of

SCENARIO: Final = "S55"
EVALUATION_REMARK_RATIO: Final = threshold(
    0.03, "ratio", "chosen: of the run; evaluation that waits less for data is not worth a remark"
)
EVALUATION_WARNING_RATIO: Final = threshold(
    0.25, "ratio", "chosen: of the run; evaluation may take some time, so little waiting wakes nobody"
)
EVALUATION_CRITICAL_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the run; evaluation then waits for longer than everything else takes"
)
EVALUATION_FLOOR_S: Final = threshold(1.0, "s", "chosen: less data wait in all passes is not reported")
ALONE_PASS_S: Final = threshold(
    30.0, "s", "chosen: a single pass that waits so long may alert; otherwise two are needed"
)
FEW_EVALUATION_BATCHES: Final = threshold(
    6, "batches", "chosen: so many batches beyond those read ahead show the steady state of a pass"
)
MUCH_EVALUATION_RATIO: Final = threshold(
    0.4, "ratio", "chosen: of the run; a run that spent 70 % in validation had been called healthy"
)
MUCH_EVALUATION_S: Final = threshold(20.0, "s", "chosen: a shorter total evaluation is not worth a remark")
START_PART: Final = threshold(0.5, "ratio", "chosen: starting workers is the cause if it is half the wait")


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes over one evaluation loader in the whole run, and their cost to one rank in seconds."""

    rank: RankEvidence
    loader: LoaderInfo
    passes: int
    began_ns: int  # of the first pass, UTC
    evaluating_s: float
    elapsed_s: float  # since the run requested its first batch
    wait_ratio: float  # share of evaluation that waits for data, in the passes of the window
    start_ratio: float  # share of that waiting that is in ``iter(loader)`` and for first batches

    @property
    def lost_s(self) -> float:
        """Return the seconds that evaluation has waited for data in the whole run."""
        return self.wait_ratio * self.evaluating_s

    @property
    def share(self) -> float:
        """Return the share of the run, 0 to 1, in which evaluation has waited for data."""
        return min(1.0, ratio(self.lost_s, self.elapsed_s))


def detect(run: RunEvidence) -> list[Finding]:
    """Find each evaluation loader that costs enough of the run, on the rank that waits most for it."""
    worst: dict[int, Passes] = {}
    limits, known = run.limits, len(run.ranks)
    for rank in run.live_ranks:
        for loader in rank.process.loaders:
            passes = passes_of(rank, loader) if loader.role != "train" else None
            if passes is None or not (_worth_a_word(passes, limits) or _takes_much(passes)):
                continue
            other = worst.get(loader.loader)
            if other is None or (other.lost_s, other.evaluating_s) < (passes.lost_s, passes.evaluating_s):
                worst[loader.loader] = passes
    findings = (
        (_finding(known, passes) if _worth_a_word(passes, limits) else None) or _remark(known, passes)
        for _, passes in sorted(worst.items())
    )
    return [finding for finding in findings if finding is not None]


def passes_of(evidence: RankEvidence, loader: LoaderInfo) -> Passes | None:
    """Return what evaluation with this loader costs a rank; None when none of it is in the window."""
    rank = evidence.rows
    steps = rank.steps
    rows = (steps["loader"] == loader.loader) & (steps["off_main_thread"] != 1)
    rows &= steps["wait_ns"] != UNKNOWN
    if not rows.any():
        return None
    begins, ends = rank.table("epoch_begins"), rank.table("epoch_ends")
    begun, ended = begins["loader"] == loader.loader, ends["loader"] == loader.loader
    if not begun.any():
        return None
    seen = sorted(set(steps["epoch"][rows].tolist()))
    iter_s = _sum_s(begins["iter_ns"][begun & one_of(begins["epoch"], seen)])
    teardown_s = _sum_s(ends["teardown_ns"][ended & one_of(ends["epoch"], seen)])
    first_s = _sum_s(steps["wait_ns"][rows & (steps["batch"] == 0)])
    waited_s = iter_s + _sum_s(steps["wait_ns"][rows]) + teardown_s
    seen_s = waited_s + _sum_s(steps["step_ns"][rows])
    # Passes before the window count with the present time per batch. One that was left early may be unknown.
    batches = dict(zip(ends["epoch"][ended].tolist(), ends["batches"][ended].tolist(), strict=True))
    for epoch, batch in zip(steps["epoch"][rows].tolist(), steps["batch"][rows].tolist(), strict=True):
        batches[epoch] = max(batches.get(epoch, 0), batch + 1)
    began = begins["request_ns"]
    return Passes(
        rank=evidence,
        loader=loader,
        passes=sum(number > 0 for number in batches.values()),
        began_ns=int(began[begun][0]),
        evaluating_s=seen_s * sum(batches.values()) / int(rows.sum()),
        elapsed_s=(rank.made_ns - int(began.min())) / 1e9,
        wait_ratio=min(1.0, ratio(waited_s, seen_s)),
        start_ratio=min(1.0, ratio(iter_s + first_s, waited_s)),
    )


def _worth_a_word(passes: Passes, limits: Limits) -> bool:
    return (
        passes.lost_s >= EVALUATION_FLOOR_S
        and passes.wait_ratio >= limits.input_warning_ratio
        and passes.share >= EVALUATION_REMARK_RATIO
    )


def _takes_much(passes: Passes) -> bool:
    return passes.evaluating_s >= max(MUCH_EVALUATION_S, MUCH_EVALUATION_RATIO * passes.elapsed_s)


def _severity(passes: Passes) -> Severity:
    """Return the severity. Evaluation is rare: only a large share of the run alerts, not one short pass."""
    proven = passes.passes >= 2 or passes.lost_s >= ALONE_PASS_S
    if not proven or passes.share < EVALUATION_WARNING_RATIO:
        return "info"
    return "critical" if passes.share >= EVALUATION_CRITICAL_RATIO else "warning"


def _finding(ranks: int, passes: Passes) -> Finding | None:
    rank, loader = passes.rank, passes.loader
    cause = _cause(passes)
    if cause is None:
        return None
    world = max(ranks, rank.process.world_size)
    gain = cause.gain_ceiling_ratio
    if gain is not None:
        gain = min(passes.share, gain * ratio(passes.evaluating_s, passes.elapsed_s))
    return Finding(
        key=f"{CODE}:{loader.loader}",
        loader=loader.loader,
        code=CODE,
        scenario=SCENARIO,
        severity=_severity(passes),
        confidence=cause.confidence,
        began_ns=passes.began_ns,
        rule="evaluation-waits",
        params={
            "rank": rank.rank if world > 1 else None,
            "loader": loader.name,
            "wait_ratio": passes.wait_ratio,
            "run_ratio": passes.share,
            "passes": passes.passes,
            "evaluating_s": passes.evaluating_s,
            "lost_s": passes.lost_s,
            "because": cause.said("because"),
            "cause": cause.said("cause"),
            "advice": cause.said("advice"),
        },
        also=cause.also,
        evidence=[
            observed("data-wait-of-the-evaluation", passes.wait_ratio, "ratio"),
            observed("share-of-the-run", passes.share, "ratio"),
            observed("evaluation-passes", passes.passes, "count"),
            observed("time-in-evaluation", passes.evaluating_s, "s"),
            observed("the-waiting-starts-of-a-pass", passes.start_ratio, "ratio"),
            *cause.evidence,
        ],
        rank=rank.rank,
        host=rank.host,
        lost_s=passes.lost_s,
        gain_ceiling_ratio=gain,
        gain_of="run",
    )


def _remark(ranks: int, passes: Passes) -> Finding | None:
    """Return a remark on evaluation that spends much of the run computing; None if it does not."""
    if not _takes_much(passes):
        return None
    rank, loader = passes.rank, passes.loader
    world = max(ranks, rank.process.world_size)
    each_s, share = (
        passes.evaluating_s / passes.passes,
        min(1.0, ratio(passes.evaluating_s, passes.elapsed_s)),
    )
    return Finding(
        key=f"{CODE}:{loader.loader}",
        loader=loader.loader,
        code=CODE,
        scenario=SCENARIO,
        severity="info",
        confidence=0.6,
        began_ns=passes.began_ns,
        rule="evaluation-computes",
        params={
            "rank": rank.rank if world > 1 else None,
            "loader": loader.name,
            "run_ratio": share,
            "each_s": each_s,
            "passes": passes.passes,
            "wait_ratio": passes.wait_ratio,
        },
        evidence=[
            observed("share-of-the-run", share, "ratio"),
            observed("evaluation-passes", passes.passes, "count"),
            observed("time-in-evaluation", passes.evaluating_s, "s"),
        ],
        rank=rank.rank,
        host=rank.host,
    )


def _cause(passes: Passes) -> Explanation | None:
    """Explain why evaluation waits: its workers restart in each pass, or it has a cause of training loaders.

    None when no cause fits.
    """
    rank, loader = passes.rank, passes.loader
    if loader.num_workers and passes.start_ratio >= START_PART:
        return None if loader.persistent_workers else _restarts(passes)  # persistent workers start only once
    pace = rank.pace(loader)
    if pace.wait_s.size < FEW_EVALUATION_BATCHES:
        pace = rank.pace(loader, warm=0)  # short passes consist of their first batches
    if not math.isfinite(pace.mean_step_s):
        return None
    return explain(Symptoms(rank, pace))


def _restarts(passes: Passes) -> Explanation:
    loader = passes.loader
    each_s = passes.lost_s * passes.start_ratio / passes.passes
    return Explanation(
        scenario=SCENARIO,
        confidence=0.85,
        rule="evaluation-workers-restart",
        params={"workers": loader.num_workers or 0, "each_s": each_s, "start_ratio": passes.start_ratio},
        gain_ceiling_ratio=passes.wait_ratio * passes.start_ratio,
    )


def _sum_s(values: NDArray[np.int64]) -> float:
    return float(values[values != UNKNOWN].sum()) / 1e9
