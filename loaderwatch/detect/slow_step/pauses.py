"""Steps that sometimes take far longer although no data is awaited: S25, S26 and S27, code ``slow-step``.

S25 is the garbage collector, S26 other work of the loop, S27 new shapes and batches several times larger. The
loader is not to blame, and the finding says so first: pauses of the loop are the most common "GPU idle" that
is mistaken for a slow loader. Only proven causes alert: the collector by its own clock (torchtitan#148),
compilation by stacks or by shapes never seen before (pytorch#174704), and expensive work of the script that a
stack shows. The rest may be intended and is a remark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Evidence, Param, Severity
from loaderwatch.core.clock import END_OF_TIME_NS
from loaderwatch.core.facts import LONGER_STEP, SCRIPT_WORK, LoaderInfo, StackDump
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.system import FILE_LOCK_FUNCTIONS, waits_in
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, known_evidence, observed
from loaderwatch.detect.loader_history import Course
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.stacks import builds_kernels, main_frames, user_frame, works_aside
from loaderwatch.detect.measures.statistics import Floats, known, median
from loaderwatch.detect.shared_thresholds import COLLECTOR_PART, Limits
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
from loaderwatch.detect.slow_step.step_finding import by_share, if_it_costs_much, step_finding
from loaderwatch.detect.window import RankWindow, first_at

LARGE_BATCH_FACTOR: Final = threshold(
    2.0, "factor", "chosen: times the usual size; four times as long a step then has clearly more to do"
)
SIZE_TELLS_RATIO: Final = threshold(
    0.6, "ratio", "chosen: of the long steps, with such a batch; and of such batches, in long steps"
)


@dataclass(frozen=True)
class BatchSizes:
    """The sizes of the batches of one loop; arrays have an entry per row of the pace.

    Attributes:
        long: whether the step is one of the long ones.
        ratio: size over the usual size of steps that are not long; NaN if the size is not known.
        new: whether the batch had a size never seen before.
        repeats: how many batches had a size that was seen before.
        different: how many different sizes there are.
    """

    long: NDArray[np.bool_]
    ratio: Floats
    new: NDArray[np.bool_]
    repeats: int
    different: int

    @property
    def newness_tells(self) -> bool:
        """Whether new sizes coincide with long steps.

        Sizes that change with every batch are new at every step, long or not, and prove nothing.
        """
        return self.repeats >= FEW_LONG_STEPS and self._tells(self.new, least=2)

    @property
    def largeness_tells(self) -> bool:
        """Whether batches several times larger than usual coincide with long steps."""
        with np.errstate(invalid="ignore"):
            return self._tells(self.ratio >= LARGE_BATCH_FACTOR, least=FEW_LONG_STEPS)

    @property
    def long_ratio(self) -> float:
        """Return the batch size of long steps as a multiple of the usual size; their median."""
        return median(self.ratio[self.long & (self.ratio >= LARGE_BATCH_FACTOR)])

    def _tells(self, mask: NDArray[np.bool_], least: int) -> bool:
        both = int((mask & self.long).sum())
        enough = both >= max(least, SIZE_TELLS_RATIO * int(self.long.sum()))
        return enough and int((mask & ~self.long).sum()) <= (1 - SIZE_TELLS_RATIO) * int(mask.sum())


def sizes_of(pauses: Pauses) -> BatchSizes | None:
    """Return the sizes of the batches around a loop's long steps; None if none is known."""
    sizes = _batch_bytes(pauses.rank, pauses.pace.loader)
    pace = pauses.pace
    keys = list(zip(pace.epoch.tolist(), pace.batch.tolist(), strict=True))
    if not any(key in sizes for key in keys):
        return None
    oldest = min(keys)
    seen = {size for key, size in sizes.items() if key < oldest}
    new, repeats = np.zeros(len(keys), dtype=bool), 0
    mine = np.full(len(keys), math.nan)
    for row, key in enumerate(keys):
        size = sizes.get(key)
        if size is None:
            continue
        mine[row] = size
        new[row] = size not in seen
        repeats += size in seen
        seen.add(size)
    long = np.zeros(len(keys), dtype=bool)
    long[pauses.rows] = True
    return BatchSizes(long, mine / median(mine[~long]), new, repeats, len(seen))


def _batch_bytes(rank: RankWindow, loader: LoaderInfo) -> dict[tuple[int, int], int]:
    """Return each batch's tensor bytes by (epoch, batch), for the epochs that began within the window.

    Within an epoch, the n-th batch from a worker is the n-th that it fetched. This is not so with
    ``in_order=False``, for which the result is empty. It cannot be counted for an epoch that began before the
    window.
    """
    if loader.in_order is False:
        return {}
    steps, fetches, begins = rank.table("steps"), rank.table("fetches"), rank.table("epoch_begins")
    mine = fetches["loader"] == loader.loader
    if not mine.any():
        return {}
    began_ns, worker, size = (fetches[name][mine] for name in ("request_ns", "worker", "bytes"))
    rows = steps["loader"] == loader.loader
    epochs, batches = steps["epoch"][rows], steps["batch"][rows]
    # With num_workers=0 no worker is awaited, and the fetches belong to worker -1.
    awaited = np.where(steps["awaited_worker"][rows] == UNKNOWN, -1, steps["awaited_worker"][rows])
    starts = {
        int(epoch): int(at_ns)
        for epoch, at_ns, number in zip(begins["epoch"], begins["request_ns"], begins["loader"], strict=True)
        if number == loader.loader
    }
    bytes_of: dict[tuple[int, int], int] = {}
    for epoch in np.unique(epochs):
        start, end = starts.get(int(epoch)), starts.get(int(epoch) + 1, END_OF_TIME_NS)
        inside = epochs == epoch
        if start is None or int(batches[inside].min()) != 0 or start < int(began_ns[0]) - 60_000_000_000:
            continue
        for number in np.unique(awaited[inside]):
            fetched = size[(worker == number) & (began_ns >= start) & (began_ns < end)]
            delivered = np.sort(batches[inside & (awaited == number)])
            for batch, value in zip(delivered.tolist(), fetched.tolist(), strict=False):
                if value > 0:
                    bytes_of[int(epoch), int(batch)] = int(value)
    return bytes_of


FEW_COMPILER_STACKS: Final = threshold(
    3, "stacks", "chosen: stacks are taken seconds apart; a model's first graphs take no longer"
)
COMPILER_STACKS_RATIO: Final = threshold(
    0.3, "ratio", "chosen: of the stacks taken since the first one that shows the compiler"
)
AS_LONG_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of a step at the time of those stacks; compiled steps run faster"
)
STEPS_NOW_NS: Final = threshold(
    30_000_000_000, "ns", "chosen: the steps of the last 30 s count as the present ones"
)


def recompiling(rank: RankWindow, pace: Pace, limits: Limits) -> Finding | None:
    """Explain S27 in most steps; None if the stacks do not show it, or steps have become faster since."""
    course = rank.courses.get(pace.loader.loader)
    if course is None or not course.t_ns.size:
        return None
    looks = sorted(
        (
            dump
            for why in (LONGER_STEP, SCRIPT_WORK)
            for dump in rank.passing_stacks.get(why, [])
            if dump.pid == rank.process.pid and dump.taken_ns >= course.t_ns[0]
        ),
        key=lambda dump: dump.taken_ns,
    )
    building = [dump for dump in looks if builds_kernels(main_frames(dump))]
    if len(building) < FEW_COMPILER_STACKS:
        return None
    since = [dump for dump in looks if dump.taken_ns >= building[0].taken_ns]
    share = len(building) / len(since)
    if share < COMPILER_STACKS_RATIO or not _as_long(rank, pace, course, building):
        return None
    frame = user_frame(main_frames(building[-1]))
    lasted_s = (rank.made_ns - building[0].taken_ns) / 1e9
    return step_finding(
        "recompiles-most-steps",
        "S27",
        rank,
        severity=by_share(share, limits),
        confidence=0.9,
        began_ns=building[0].taken_ns,
        share=share,
        lost_s=share * lasted_s,
        params={
            "compiling_ratio": share,
            "compiling": len(building),
            "looks": len(since),
            "at": None if frame is None else frame.text,
        },
        evidence=known_evidence(
            ("looks-at-a-step", len(since), "count"),
            ("those-that-found-the-compiler", len(building), "count"),
        ),
        dump=building[-1],
    )


def _as_long(rank: RankWindow, pace: Pace, course: Course, building: list[StackDump]) -> bool:
    """Whether steps take as long now as at the time of the stacks, or none has ended for 30 s."""
    first, last = building[0].taken_ns, building[-1].taken_ns
    then = (course.t_ns >= first - course.slice_ns) & (course.t_ns <= last + course.slice_ns)
    now_s = pace.step_s[pace.request_ns >= rank.made_ns - STEPS_NOW_NS]
    then_s = known(course.step_s[then])
    return not now_s.size or not then_s.size or median(now_s) >= AS_LONG_RATIO * median(then_s)


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
