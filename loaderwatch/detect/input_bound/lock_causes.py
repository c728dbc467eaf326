"""Workers that take turns because of a lock: S49.

There are three ways to wait for a lock. A worker waits in a kernel function for locks. Or it retries and
sleeps in between (SQLite's busy handler, ``filelock``, a loop around ``fcntl``). Or it asks the process that
hands the lock out (a ``multiprocessing.Manager``). Sleep alone proves no lock: a reader with retries or a
rate limit sleeps, too. The proof is a file lock that goes from worker to worker, a stack in a lock's own
code, or work that one worker does and the others lack.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Evidence, Text
from loaderwatch.core.facts import LOCK_WAIT, StackDump
from loaderwatch.core.system import ANSWER_FUNCTIONS, LOCK_FUNCTIONS, TIMER_FUNCTIONS, waits_in
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.finding import Explanation, known_evidence
from loaderwatch.detect.input_bound.spikes import LOCKED_OUT_RATIO, locked_ratio, stand_still_together
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.measures.fetches import Fetches
from loaderwatch.detect.measures.stacks import code_line, main_frames, user_frame, usual_stack, waits_for_lock
from loaderwatch.detect.measures.statistics import mean

FETCHES_A_SLICE: Final = threshold(
    2.0, "fetches", "chosen: of one worker, on average; nobody sees the progress within one fetch"
)
FEW_TURN_SLICES: Final = threshold(16, "slices", "chosen: a variance of fewer says little")
MOST_TURN_SLICES: Final = threshold(120, "slices", "chosen: the newest slices are enough to compare")
OWN_SPREAD_RATIO: Final = threshold(
    0.08, "ratio", "chosen: of the mean; if the workers' own variation adds up to less, turns cannot be seen"
)
TOGETHER_VARIANCE_RATIO: Final = threshold(
    0.45, "ratio", "played and simulated: of summed variances, 0.03 to 0.5 with polled locks, else 0.8 up"
)
BY_CHANCE_RATIO: Final = threshold(
    0.8, "ratio", "chosen: of the variation with workers shifted in time; above it, it is a pattern"
)
LEAST_SPREAD_RATIO: Final = threshold(
    0.25, "ratio", "chosen: of the variation by chance; a smaller one depends on where the slices begin"
)
MOST_APART: Final = threshold(
    12, "slices", "chosen: neighbouring workers are shifted by one slice up to so many"
)
WORKERS_BUSY_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of their time at a batch; workers that keep up only do what the loop takes"
)
BUSY_SLICE_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the usual work in a slice; slices with less hold the end of an epoch"
)

Done = NDArray[np.float64]
"""The batches that each worker gets done in slices of equal length, shape (workers, slices)."""


@dataclass(frozen=True, slots=True)
class Turns:
    """How much the workers' work varies from slice to slice, as shares of the mean; NaN if not known."""

    slice_s: float
    own_ratio: float  # of independent workers: the root of the summed variances of all workers
    together_ratio: float  # of the total work of all workers
    apart_ratio: float  # of the total work with the workers shifted in time, the least of several shifts

    @property
    def taken(self) -> bool:
        """Whether the workers take turns."""
        return (
            self.own_ratio >= OWN_SPREAD_RATIO
            and self.together_ratio**2 <= TOGETHER_VARIANCE_RATIO * self.own_ratio**2
            and max(self.together_ratio, LEAST_SPREAD_RATIO * self.own_ratio)
            <= BY_CHANCE_RATIO * self.apart_ratio
        )


UNKNOWN_TURNS: Final = Turns(math.nan, math.nan, math.nan, math.nan)


def turns_of(fetches: Fetches) -> Turns:
    """Return how the workers of one loader take turns; all NaN for one worker or too few known fetches."""
    known = np.isfinite(fetches.fetch_s) & (fetches.fetch_s > 0) & (fetches.worker >= 0)
    worker, began_ns, took_s = fetches.worker[known], fetches.began_ns[known], fetches.fetch_s[known]
    numbers = np.unique(worker)
    if numbers.size < 2:
        return UNKNOWN_TURNS
    slice_s = FETCHES_A_SLICE * mean(took_s)
    began_s = (began_ns - began_ns.max()) / 1e9
    ended_s = began_s + took_s
    # Open fetches are missing. So a worker seems idle before its first known fetch and after its last one.
    first_s = max(began_s[worker == number].min() for number in numbers)
    last_s = min(ended_s[worker == number].max() for number in numbers)
    slices = min(MOST_TURN_SLICES, int((last_s - first_s) / slice_s))
    if slices < FEW_TURN_SLICES:
        return UNKNOWN_TURNS
    edges = last_s - slice_s * np.arange(slices, -1, -1)
    done, busy = np.zeros((numbers.size, slices)), np.zeros(slices)
    for row, number in enumerate(numbers):
        own = (worker == number) & (ended_s > edges[0])
        within = np.clip(edges[:, None], began_s[own], ended_s[own]) - began_s[own]
        done[row] = np.diff((within / took_s[own]).sum(axis=1))
        busy += np.diff(within.sum(axis=1)) / slice_s
    usually = float(np.median(busy))
    used = busy >= BUSY_SLICE_RATIO * usually
    if usually < WORKERS_BUSY_RATIO * numbers.size or used.sum() < FEW_TURN_SLICES:
        return UNKNOWN_TURNS
    done = done[:, used]
    usual = float(done.sum(axis=0).mean())
    apart = [
        _spread(np.stack([np.roll(work, by * row) for row, work in enumerate(done)]))
        for by in range(1, MOST_APART + 1)
    ]
    own = math.sqrt(float(done.var(axis=1).sum()))
    return Turns(slice_s, own / usual, _spread(done) / usual, min(apart) / usual)


def _spread(done: Done) -> float:
    """Return the standard deviation of the total work of all workers in a slice."""
    return float(done.sum(axis=0).std())


LOCK_WAIT_RATIO: Final = threshold(
    0.35, "ratio", "chosen: of a worker's time in a wait for a lock; two in turn wait half of it"
)
LEAST_AT_WORK: Final = threshold(
    0.5, "workers", "chosen: about one works at a time if one holds what all need"
)
MOST_AT_WORK: Final = threshold(
    1.5, "workers", "chosen: about one works at a time if one holds what all need"
)
LOCK_LOOK_BACK_NS: Final = threshold(
    30_000_000_000, "ns", "chosen: many looks are needed: a lock that is held briefly is rarely seen held"
)
FEW_LOCK_LOOKS: Final = threshold(
    8, "looks", "chosen: a share of fewer looks means little; one look a second"
)
FILE_LOCK_HELD_RATIO: Final = threshold(
    0.15, "ratio", "chosen: of the looks that find one worker with a file lock; between tries nobody has it"
)
KEPT_LOOK_BACK_NS: Final = threshold(
    12_000_000_000, "ns", "chosen: few looks are enough: a lock that one worker keeps is seen each time"
)
KEPT_OUT_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the looks that find one worker at work with a file lock and the others asleep"
)
SEVERAL_HELD_RATIO: Final = threshold(
    0.2, "ratio", "chosen: of the looks that find a lock held; if more find several held, no lock goes around"
)


@dataclass(frozen=True, slots=True)
class Looks:
    """What the workers of one loader were seen to do, once a second. Ratios are 0 to 1, NaN if not known."""

    seconds: int  # in which the holders of file locks are known
    held_ratio: float  # share of the seconds in which exactly one worker held an exclusive file lock
    several_ratio: float  # ... in which several workers held one each
    kept_out_ratio: float  # ... in which one worker held it and was awake while most others slept
    holders: int  # different workers that were seen to hold one

    @property
    def goes_around(self) -> bool:
        """Whether a file lock goes from worker to worker."""
        seen = self.seconds >= FEW_LOCK_LOOKS and self.holders >= 2
        return (
            seen
            and self.held_ratio >= FILE_LOCK_HELD_RATIO
            and self.several_ratio <= SEVERAL_HELD_RATIO * self.held_ratio
        )


@dataclass(frozen=True, slots=True)
class _Wait:
    """How the workers wait for their lock, as a message, with the stack of such a worker if there is one."""

    how: Text
    dump: StackDump | None
    evidence: list[Evidence]
    kept: bool = False  # one worker at a time keeps the lock for many samples


def shared_lock(s: Symptoms) -> Explanation | None:
    """Explain S49: the workers wait for a lock that they share, so one works at a time; None otherwise."""
    wait = (_in_kernel(s) or _by_keeping(s) or _by_trying(s) or _by_asking(s)) if s.workers > 1 else None
    if wait is None:
        return None
    return Explanation(
        scenario="S49",
        confidence=0.92,  # more than S02 has: signs of a lock come seconds after the first shortage
        rule="lock-held-long" if wait.kept else "shared-lock",
        params={
            "workers": s.workers,
            "fetch_s": s.fetch_s,
            "step_s": s.step_s,
            "how": wait.how,
            "worker": wait.dump.worker if wait.dump else None,
            "line": code_line(user_frame(main_frames(wait.dump))),
        },
        gain_ceiling_ratio=s.gain(max(s.step_s, s.fetch_s / s.workers**2)),
        evidence=[
            *wait.evidence,
            *known_evidence(("read-from-storage-per-second", s.machine.read_bytes_per_s, "bytes")),
        ],
        stacks=[wait.dump] if wait.dump else [],
    )


def locked_out(s: Symptoms) -> Explanation | None:
    """Explain S49: all workers stand still together, in a lock or asleep between tries; None otherwise.

    Another process holds what they all need: a writer that keeps its transaction open, or another job.
    """
    if not stand_still_together(s.pace, s.spikes):
        return None
    waits = locked_ratio(s.pace, s.spikes)
    if not waits >= LOCKED_OUT_RATIO:
        return None
    dump = usual_stack(s.passing_stacks(LOCK_WAIT))
    longest_s = max(spike.fetch_s or 0.0 for spike in s.spikes)
    return Explanation(
        scenario="S49",
        confidence=0.9,
        rule="locked-out",
        params={
            "workers": s.workers,
            "line": code_line(user_frame(main_frames(dump))),
            "times": len(s.spikes),
            "longest_s": longest_s,
            "locked_ratio": waits,
        },
        gain_ceiling_ratio=s.gain(s.without_spikes_s),
        evidence=known_evidence(
            ("moments-in-which-all-workers-stood-still", len(s.spikes), "count"),
            ("longest-of-them", longest_s, "s"),
            ("looks-at-these-moments-that-found-a-worker-in-a-lock-or-asleep", waits, "ratio"),
        ),
        stacks=[dump] if dump else [],
    )


def _in_kernel(s: Symptoms) -> _Wait | None:
    """Return the wait for a lock that the kernel knows, if about one worker works at a time; else None.

    A worker that waits for its own threads is in a futex too, but then all workers are, nearly always.
    """
    waits = s.machine.worker_lock_ratio
    at_work = s.workers * (1 - waits)
    if not (waits >= LOCK_WAIT_RATIO and LEAST_AT_WORK <= at_work <= MOST_AT_WORK):
        return None
    return _Wait(
        Text("lock-in-kernel", {"waiting_ratio": waits, "at_work": at_work, "workers": s.workers}),
        next(
            (dump for dump in reversed(s.passing_stacks(LOCK_WAIT)) if waits_in(LOCK_FUNCTIONS, dump.wchan)),
            None,
        ),
        known_evidence(
            ("share-of-the-time-that-a-worker-waits-for-a-lock", waits, "ratio"),
            ("workers-at-work-at-a-time", at_work, "count"),
        ),
    )


def _by_trying(s: Symptoms) -> _Wait | None:
    """Return the wait for a lock that workers retry to get, asleep in between; None otherwise."""
    sleeping = looks_ratio(s, "timer_wait")
    if not sleeping >= LOCK_WAIT_RATIO:
        return None
    looks = _looks(s)
    asleep = [dump for dump in s.passing_stacks(LOCK_WAIT) if waits_in(TIMER_FUNCTIONS, dump.wchan)]
    in_lock = [dump for dump in asleep if waits_for_lock(main_frames(dump))]
    turns = _turns(s)
    if not (looks.goes_around or 2 * len(in_lock) > len(asleep) or turns.taken):
        return None
    how = Text(
        "lock-tried-for",
        {
            "sleeping_ratio": sleeping,
            "holders": looks.holders if looks.goes_around else None,
            "slice_s": turns.slice_s if turns.taken else None,
            "together_ratio": turns.together_ratio,
            "own_ratio": turns.own_ratio,
        },
    )
    return _Wait(
        how,
        usual_stack(in_lock or asleep),  # the holder of the lock may sleep as well
        known_evidence(
            ("share-of-the-time-that-a-worker-sleeps-between-tries", sleeping, "ratio"),
            ("share-of-the-time-that-one-worker-holds-a-file-lock", looks.held_ratio, "ratio"),
            ("what-all-workers-get-done-varies-by", turns.together_ratio, "ratio"),
            ("it-would-if-they-worked-apart", turns.own_ratio, "ratio"),
        ),
    )


def _by_keeping(s: Symptoms) -> _Wait | None:
    """Return the wait for a file lock that one worker keeps while the others try to get it; else None."""
    looks = _looks(s, KEPT_LOOK_BACK_NS)
    if not (looks.seconds >= FEW_LOCK_LOOKS and looks.kept_out_ratio >= KEPT_OUT_RATIO):
        return None
    dumps = [dump for dump in s.passing_stacks(LOCK_WAIT) if waits_in(TIMER_FUNCTIONS, dump.wchan)]
    return _Wait(
        Text("lock-kept", {"kept_out_ratio": looks.kept_out_ratio}),
        usual_stack(dumps),
        known_evidence(
            ("looks-that-found-one-worker-with-the-lock-and-others-asleep", looks.kept_out_ratio, "ratio")
        ),
        kept=True,
    )


def _by_asking(s: Symptoms) -> _Wait | None:
    """Return the wait for a lock that another process hands out, if stacks show it; else None."""
    waiting = looks_ratio(s, "answer_wait")
    if not waiting >= LOCK_WAIT_RATIO:
        return None
    asking = [dump for dump in s.passing_stacks(LOCK_WAIT) if waits_in(ANSWER_FUNCTIONS, dump.wchan)]
    in_lock = [dump for dump in asking if waits_for_lock(main_frames(dump))]
    if not 2 * len(in_lock) > len(asking):
        return None
    return _Wait(
        Text("lock-asked-for", {"waiting_ratio": waiting}),
        usual_stack(in_lock),
        known_evidence(("share-of-the-time-that-a-worker-waits-for-an-answer", waiting, "ratio")),
    )


def _turns(s: Symptoms) -> Turns:
    """Return how the workers take turns lately; if that shows no turns, look at their whole history."""
    lately = turns_of(s.pace.fetches)
    return lately if lately.taken or s.history is None else turns_of(s.history)


def looks_ratio(s: Symptoms, column: str) -> float:
    """Return the share (0 to 1) of recent looks at the workers with 1 in ``column``; NaN if not known."""
    return mean(s.pace.rank.table("processes")[column][_lately(s)])


def _looks(s: Symptoms, reach_ns: int = LOCK_LOOK_BACK_NS) -> Looks:
    """Return what the workers of the loader were seen to do lately."""
    rows, mine = s.pace.rank.table("processes"), _lately(s, reach_ns)
    # Per moment: who holds a lock; and how many workers without a lock sleep or are awake.
    held, sleepers, awake = Counter[int](), Counter[int](), Counter[int]()
    asleep_with_it: set[int] = set()  # moments in which the holder itself sleeps: nobody waits for its work
    holders: set[int] = set()
    columns = (rows[name][mine].tolist() for name in ("t_ns", "pid", "holds_file_lock", "timer_wait"))
    for t_ns, pid, holds, sleeps in zip(*columns, strict=True):
        if math.isfinite(holds):
            held[t_ns] += bool(holds)
            holders |= {pid} if holds else set()
            if holds and sleeps > 0:
                asleep_with_it.add(t_ns)
            elif not holds:
                (sleepers if sleeps > 0 else awake)[t_ns] += 1
    seen = len(held)
    kept_out = [t for t in held.keys() - asleep_with_it if held[t] == 1 and sleepers[t] > awake[t]]
    return Looks(
        seconds=seen,
        held_ratio=sum(count == 1 for count in held.values()) / seen if seen else math.nan,
        several_ratio=sum(count > 1 for count in held.values()) / seen if seen else math.nan,
        kept_out_ratio=len(kept_out) / seen if seen else math.nan,
        holders=len(holders),
    )


def _lately(s: Symptoms, reach_ns: int = LOCK_LOOK_BACK_NS) -> NDArray[np.bool_]:
    """Return which rows of the table ``processes`` are recent looks at the loader's workers."""
    rank = s.pace.rank
    rows = rank.table("processes")
    mine: NDArray[np.bool_] = (rows["worker"] >= 0) & (rows["loader"] == s.loader.loader)
    return mine & (rows["t_ns"] >= rank.made_ns - reach_ns)
