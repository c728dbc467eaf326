"""Steps that sometimes take far longer although no data is awaited: S25, S26 and S27, code ``slow-step``.

S25 is the garbage collector, S26 other work of the loop, S27 new shapes and batches several times larger. The
loader is not to blame, and the finding says so first: pauses of the loop are the most common "GPU idle" that
is mistaken for a slow loader. Only proven causes alert: the collector by its own clock (torchtitan#148),
compilation by stacks or by shapes never seen before (pytorch#174704), and expensive work of the script that a
stack shows. The rest may be intended and is a remark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Evidence, Param, Severity
from loaderwatch.core.facts import StackDump
from loaderwatch.core.system import FILE_LOCK_FUNCTIONS, waits_in
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, observed
from loaderwatch.detect.measures.stacks import builds_kernels, main_frames, user_frame, works_aside
from loaderwatch.detect.measures.statistics import known, median
from loaderwatch.detect.shared_thresholds import COLLECTOR_PART, Limits
from loaderwatch.detect.slow_step.batch_sizes import BatchSizes, sizes_of
from loaderwatch.detect.slow_step.long_steps import (
    FEW_LONG_STEPS,
    PAUSE_FACTOR,
    PAUSE_REMARK_RATIO,
    PAUSE_S,
    STEPS_LOOK_BACK_S,
    Pauses,
    find_pauses,
    long_from_s,
)
from loaderwatch.detect.slow_step.recompiling import recompiling
from loaderwatch.detect.slow_step.step_finding import by_share, if_it_costs_much, step_finding
from loaderwatch.detect.window import RankWindow, first_at

ASLEEP_IN_PAUSE_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the looks at a long step that find the loop asleep for a set time"
)


def detect(run: RunEvidence) -> list[Finding]:
    """Return at most one finding per cause, that of the rank that loses most by it.

    A remark (S26) comes only if no other cause was found.
    """
    proven: dict[str, Finding] = {}
    remarks: list[Finding] = []
    for rank in run.live_ranks:
        if not _may_pause(rank.rows):
            continue
        for pace in rank.paces:
            pauses = find_pauses(rank.rows, pace)
            findings = _explain(pauses, run.limits) if pauses is not None else []
            if all(finding.scenario != "S27" for finding in findings):
                always = recompiling(rank.rows, pace, run.limits)
                findings += [always] if always is not None else []
            for finding in findings:
                if finding.scenario == "S26":
                    remarks.append(finding)
                    continue
                kept = proven.get(finding.scenario)
                if kept is None or (kept.lost_s or 0) < (finding.lost_s or 0):
                    proven[finding.scenario] = finding
    if proven:
        return list(proven.values())  # the other ranks pause because they wait for this one
    return sorted(remarks, key=lambda finding: -(finding.lost_s or 0))[:1]


def _may_pause(rank: RankWindow) -> bool:
    """Whether a recent step was long or the collector ran. Cheap, because most ranks are well."""
    steps = rank.table("steps")
    first = first_at(steps["request_ns"], rank.made_ns - int(STEPS_LOOK_BACK_S * 1e9))
    long = bool((steps["step_ns"][first:] >= PAUSE_S * 1e9).any())
    return long or bool(rank.table("collections")["request_ns"].size)


def _explain(pauses: Pauses, limits: Limits) -> list[Finding]:
    collected = pauses.collector_s >= COLLECTOR_PART * pauses.excess_s
    findings: list[Finding | None] = []
    if collected.any():
        findings.append(_collector(pauses.only(collected), limits))
    rest = pauses.only(~collected)
    if rest.rows.size:
        sizes = sizes_of(rest)
        findings.append(
            _shapes(rest, sizes, limits)
            or _large(rest, sizes, limits)
            or _other(rest.only(~rest.without_cpu), limits)
        )
    return [finding for finding in findings if finding is not None]


def _collector(pauses: Pauses, limits: Limits) -> Finding | None:
    """Explain S25: the garbage collector makes steps long; None if it does so rarely or costs little."""
    lost_s = float(pauses.collector_s.sum())
    share = min(1.0, lost_s / pauses.elapsed_s)
    if pauses.rows.size < FEW_LONG_STEPS or share < PAUSE_REMARK_RATIO:
        return None
    longest_s = float(pauses.collector_s.max())
    return _finding(
        pauses,
        scenario="S25",
        severity=by_share(share, limits),
        confidence=0.95,
        share=share,
        lost_s=lost_s,
        rule="garbage-collector-in-steps",
        params={"longest_s": longest_s},
        evidence=[
            observed("pauses-of-the-collector", int(pauses.rows.size), "count"),
            observed("longest-pause-of-the-collector", longest_s, "s"),
            observed("share-of-the-time-in-the-collector", share, "ratio"),
        ],
    )


def _shapes(pauses: Pauses, sizes: BatchSizes | None, limits: Limits) -> Finding | None:
    """Explain S27: long steps have a new batch size, or a stack shows a compiler; None otherwise."""
    dump = _compile_dump(pauses)
    fits = sizes is not None and sizes.newness_tells
    if not fits and (dump is None or pauses.rows.size < 2):
        return None
    last = int((pauses.pace.batch[pauses.rows] == (pauses.pace.loader.batches or -1) - 1).sum())
    of_size = "last-batch-shorter" if last >= 0.5 * pauses.rows.size else "new-batch-sizes"
    proof = (
        [observed("sizes-of-batches-seen", sizes.different, "count")] if fits and sizes is not None else []
    )
    frame = user_frame(main_frames(dump)) if dump is not None else None
    return _finding(
        pauses,
        scenario="S27",
        severity=by_share(pauses.share, limits),
        confidence=0.9 if dump is not None else 0.8,
        share=pauses.share,
        lost_s=pauses.lost_s,
        rule=of_size if fits else "compiling-in-steps",
        params={"seen_compiling": dump is not None, "at": None if frame is None else frame.text},
        evidence=proof,
        dump=dump,
    )


def _large(pauses: Pauses, sizes: BatchSizes | None, limits: Limits) -> Finding | None:
    """Explain S27 without a compiler: long steps have far larger batches than usual; None otherwise.

    Such work may be intended, so it alerts only from the critical share on, and then as a warning.
    """
    if sizes is None or pauses.share < PAUSE_REMARK_RATIO or not sizes.largeness_tells:
        return None
    return _finding(
        pauses,
        scenario="S27",
        severity=if_it_costs_much(pauses.share, limits),
        confidence=0.8,
        share=pauses.share,
        lost_s=pauses.lost_s,
        rule="padded-batches",
        params={"times": sizes.long_ratio},
        evidence=[observed("size-of-such-a-batch-of-the-usual-one", sizes.long_ratio, "ratio")],
    )


def _compile_dump(pauses: Pauses) -> StackDump | None:
    """Return a stack of the training process in a long step that shows a compiler; None without one."""
    return next((dump for dump in pauses.dumps if builds_kernels(main_frames(dump))), None)


def _other(pauses: Pauses, limits: Limits) -> Finding | None:
    """Explain S26: something else in the loop makes steps long; None if it does so rarely or costs little.

    It alerts only above the critical share, and if a stack shows work that nobody intends, usually a logger.
    A checkpoint, an evaluation, an agent that acts or a throttle may be intended. Gradient accumulation is
    left out.
    """
    pauses = pauses.only(~_accumulated(pauses))
    if pauses.rows.size < FEW_LONG_STEPS or pauses.share < PAUSE_REMARK_RATIO:
        return None
    every, every_s = _rhythm(pauses)
    frame, dump, reads = pauses.place
    acts = pauses.pace.loader.acts
    costs = pauses.share >= limits.input_critical_ratio and not reads and not acts
    locked = dump is not None and waits_in(FILE_LOCK_FUNCTIONS, dump.wchan)
    polls = _polls(pauses, dump) and pauses.asleep_ratio >= ASLEEP_IN_PAUSE_RATIO
    there = "polling" if polls else "file-lock" if locked else "model-acts" if acts else "own-work"
    return _finding(
        pauses,
        scenario="S26",
        severity="warning" if costs and _is_at_work(pauses, dump) else "info",
        confidence=0.5 if every is None and every_s is None else 0.7,
        share=pauses.share,
        lost_s=pauses.lost_s,
        rule="unattached-loader-in-steps" if reads else f"{there}-in-steps",
        params={
            "there": there,
            "every": every,
            "every_s": every_s,
            "at": None if frame is None else frame.text,
        },
        evidence=[],
        dump=dump,
    )


def _is_at_work(pauses: Pauses, dump: StackDump | None) -> bool:
    """Whether a stack shows the loop in the script's own work, and the loop does not sleep there."""
    awake = pauses.asleep_ratio < ASLEEP_IN_PAUSE_RATIO  # False if nobody looked
    return works_aside(main_frames(dump)) and (awake or _polls(pauses, dump))


def _polls(pauses: Pauses, dump: StackDump | None) -> bool:
    """Whether the loop polls: another function than the training loop checks and sleeps repeatedly."""
    frame = user_frame(main_frames(dump)) if dump is not None and dump.polls else None
    return frame is not None and all(
        (call.file, call.function) != (frame.file, frame.function) for call in pauses.rank.process.calls
    )


def _accumulated(pauses: Pauses) -> NDArray[np.bool_]:
    """Return which long steps are usual steps of an optimizer that steps in few of the loop's steps.

    The loop accumulates gradients there, or takes batches ahead. If a run's optimizer had to be found first,
    it is not known for the first steps.
    """
    made, own_s = pauses.pace.optimizer_steps, pauses.pace.own_s
    known, stepped = made >= 0, made > 0
    nothing = np.zeros(pauses.rows.size, dtype=bool)
    if not FEW_LONG_STEPS <= int(stepped.sum()) < 0.5 * int(known.sum()):
        return nothing
    usual_s = median(own_s[stepped])
    if usual_s < PAUSE_FACTOR * pauses.usual_s:
        return nothing
    return (stepped | ~known)[pauses.rows] & (own_s[pauses.rows] < long_from_s(usual_s))


def _rhythm(pauses: Pauses) -> tuple[int | None, float | None]:
    """Return the rhythm of the long steps, in steps or else in seconds; None and None without one."""
    if pauses.rows.size < FEW_LONG_STEPS:
        return None, None
    every = pauses.every
    if every is not None:
        return every, None
    times = np.diff(pauses.pace.request_ns[pauses.rows]) / 1e9
    if times.mean() > 0 and times.std() <= 0.1 * times.mean():
        return None, float(times.mean())
    return None, None


def _finding(
    pauses: Pauses,
    *,
    scenario: str,
    severity: Severity,
    confidence: float,
    share: float,
    lost_s: float,
    rule: str,
    params: dict[str, Param],
    evidence: Sequence[Evidence],
    dump: StackDump | None = None,
) -> Finding:
    waits = known(pauses.pace.wait_s[pauses.rows])
    return step_finding(
        rule,
        scenario,
        pauses.rank,
        severity=severity,
        confidence=confidence,
        began_ns=int(pauses.pace.request_ns[pauses.rows[0]]),
        share=share,
        lost_s=lost_s,
        params={
            "share_ratio": share,
            "elapsed_s": pauses.elapsed_s,
            "lost_s": lost_s,
            "steps": int(pauses.rows.size),
            "longest_s": float(pauses.excess_s.max()),
            "usual_s": pauses.usual_s,
            **params,
        },
        evidence=[
            *evidence,
            observed("long-steps", int(pauses.rows.size), "count"),
            observed("longest-beyond-the-usual", float(pauses.excess_s.max()), "s"),
            observed("usual-step", pauses.usual_s, "s"),
            observed("share-of-the-time", share, "ratio"),
            *([observed("data-wait-before-a-long-step", float(waits.mean()), "s")] if waits.size else []),
        ],
        dump=dump,
    )
