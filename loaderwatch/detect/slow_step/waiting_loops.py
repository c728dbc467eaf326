"""A loop that waits for another process or machine in many steps, but not for data: S26, ``slow-step``.

Examples are a metric that is posted over the network, a log written into a pipe, or a child process that is
asked. Each step is as long as the one before, so none stands out, and the process uses no CPU in that time. A
look once a second shows what the process waits in. On a GPU, queued work may hide such a wait; ``sawtooth``
finds what it costs there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.facts import ANSWER_WAIT, StackDump
from loaderwatch.core.system import ANSWER_FUNCTIONS, waits_in
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.evidence import RankEvidence, RunEvidence
from loaderwatch.detect.finding import Finding, known_evidence
from loaderwatch.detect.measures.stacks import awaited, code_line, main_frames, user_frame, usual_stack
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.slow_step.long_steps import STEPS_LOOK_BACK_S
from loaderwatch.detect.slow_step.step_finding import if_it_costs_much, step_finding
from loaderwatch.detect.window import RankWindow, first_at

FEW_STEP_LOOKS: Final = threshold(
    8, "looks", "chosen: a share of fewer looks means little; one look a second"
)
FEW_WAITING_STEPS: Final = threshold(
    5, "steps", "chosen: different steps that were seen waiting; a single long wait is a pause or a hang"
)


@dataclass(frozen=True)
class Waits:
    """How a rank's loop waits within its steps."""

    rank: RankWindow
    share: float  # of all looks, 0 to 1
    looks: int
    steps: int  # in which it was seen to wait
    since_ns: int
    iteration_s: float
    dumps: list[StackDump]  # taken in such waits, oldest first

    @property
    def elapsed_s(self) -> float:
        """Return the length of the time looked at, in s."""
        return (self.rank.made_ns - self.since_ns) / 1e9


def detect(run: RunEvidence) -> list[Finding]:
    """Return at most one finding: that of the rank whose loop waits most, as the others wait for it.

    It shares its key with pauses of the loop, because it says more exactly what they are.
    """
    waiting = [waits for rank in run.live_ranks if (waits := _waits(rank)) is not None]
    return [_finding(max(waiting, key=lambda waits: waits.share), run.limits)] if waiting else []


def _waits(rank: RankEvidence) -> Waits | None:
    """Return how a rank's loop waits; None if it rarely does, or works on a device."""
    if rank.process.cuda:
        return None
    rows, since_ns = rank.table("processes"), rank.made_ns - int(STEPS_LOOK_BACK_S * 1e9)
    mine = (rows["pid"] == rank.process.pid) & (rows["t_ns"] >= since_ns) & np.isfinite(rows["answer_wait"])
    waits = rows["answer_wait"][mine] > 0
    if int(waits.sum()) < FEW_WAITING_STEPS:
        return None
    t_ns = rows["t_ns"][mine]
    at = _steps_at(rank.rows, t_ns)
    looks = int((at >= -1).sum())
    hit = waits & (at >= 0)
    steps = int(np.unique(at[hit]).size)
    pace = max(rank.paces, key=lambda pace: pace.request_ns.size, default=None)
    if pace is None or pace.clock != "loop" or looks < FEW_STEP_LOOKS or steps < FEW_WAITING_STEPS:
        return None
    share = int(hit.sum()) / looks
    standard_error = math.sqrt(share * (1 - share) / looks)
    if share - standard_error < rank.limits.input_warning_ratio:
        return None
    dumps = [
        dump
        for dump in rank.passing_stacks.get(ANSWER_WAIT, [])
        if dump.pid == rank.process.pid and waits_in(ANSWER_FUNCTIONS, dump.wchan)
    ]
    return Waits(rank.rows, share, looks, steps, int(t_ns[at >= -1][0]), pace.iteration_s, dumps)


def _steps_at(rank: RankWindow, t_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the row of the step that each moment is in, shape (moments,).

    -1: in a wait for data or elsewhere. -2: outside of all rows.
    """
    rows = rank.table("steps")
    first = first_at(rows["request_ns"], int(t_ns[0]) - int(STEPS_LOOK_BACK_S * 1e9)) if t_ns.size else 0
    own = np.flatnonzero(rows["off_main_thread"][first:] <= 0) + first
    own = own[np.argsort(rows["request_ns"][own], kind="stable")]
    begins, loader = rows["request_ns"][own], rows["loader"][own]
    waited, step = (np.maximum(rows[name][own], 0) for name in ("wait_ns", "step_ns"))
    trains = np.isin(loader, [info.loader for info in rank.process.loaders if info.role == "train"])
    if not begins.size:
        return np.full(t_ns.size, -2, dtype=np.int64)
    at = np.searchsorted(begins, t_ns, side="right") - 1
    row = np.maximum(at, 0)
    delivered = begins[row] + waited[row]
    within = (t_ns >= delivered) & (t_ns <= delivered + step[row]) & trains[row]
    known = (at >= 0) & (t_ns <= int(delivered[-1] + step[-1]))
    result: NDArray[np.int64] = np.where(known, np.where(within, at, -1), -2)
    return result


def _finding(waits: Waits, limits: Limits) -> Finding:
    rank, dump = waits.rank, usual_stack(waits.dumps)
    frames, wchan = main_frames(dump), dump.wchan if dump is not None else None
    return step_finding(
        "answers-awaited-in-steps",
        "S26",
        rank,
        severity=if_it_costs_much(waits.share, limits),
        confidence=0.8,
        began_ns=waits.since_ns,
        share=waits.share,
        lost_s=waits.share * waits.elapsed_s,
        params={
            "lost_ratio": waits.share,
            "elapsed_s": waits.elapsed_s,
            "awaited": awaited(frames, wchan or ""),
            "line": code_line(user_frame(frames)),
            "lost_s": waits.share * waits.iteration_s,
            "iteration_s": waits.iteration_s,
            "looks": waits.looks,
            "steps": waits.steps,
        },
        evidence=known_evidence(
            ("share-of-the-looks-that-found-it-waiting", waits.share, "ratio"),
            ("looks", waits.looks, "count"),
            ("different-steps-seen-waiting", waits.steps, "count"),
            ("waits-in-kernel-function", wchan, "text"),
        ),
        dump=dump,
    )
