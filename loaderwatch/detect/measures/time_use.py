"""Where a rank's time goes: data wait or steps. Tiles, verdict and detectors take both from here."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.columns import Columns, known_ns
from loaderwatch.core.facts import SpanInfo
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.device_clock import RankClock, clock_of, hidden_of, slack_of, told_of
from loaderwatch.detect.measures.progress import STEP_PHASES
from loaderwatch.detect.measures.statistics import total
from loaderwatch.detect.rows_of_ranks import columns_from, grouped, stacked
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import RankWindow, between_s, first_at, one_of, seconds

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FEW_RANKS: Final = threshold(8, "ranks", "fewer ranks are measured as quickly one by one")
_COLUMNS: Final = ("request_ns", "wait_ns", "step_ns", "optimizer_steps", "off_main_thread", "loader")
_ON_DEVICE: Final = (*_COLUMNS, "hidden_ns", "starved_ns")


class _Group:
    """Ranks with equally many batches to look at; arrays have shape (ranks, rows)."""

    def __init__(
        self,
        ranks: Sequence[RankWindow],
        parts: Sequence[Sequence[Ints]],
        blocked: Sequence[Blocked | None],
        since_ns: Sequence[int],
        inside: int,
    ) -> None:
        self.ranks = ranks
        request, wait, step, made, off_main, loader, *told = stacked(parts)
        self.request, self.wait, self.step = request, wait, step
        self.alike: NDArray[np.bool_] = np.asarray((off_main != 1).all(axis=1))
        training = training_loaders(ranks[0])
        if len(training) < len(ranks[0].process.loaders):
            self.alike &= np.isin(loader, training).all(axis=1)
        since, end = (
            np.array(times, dtype=np.int64)[:, None] for times in (since_ns, [rank.made_ns for rank in ranks])
        )
        delivered = request + known_ns(wait)
        over = delivered + known_ns(step)
        step_s, waits_s = within_s(delivered, over, since, end), within_s(request, delivered, since, end)
        whole_s = seconds(step)
        self.longest_s = np.fmax.reduce(whole_s, axis=1, initial=0.0)
        self.wait_s, self.step_s = waits_s.sum(axis=1), step_s.sum(axis=1)
        self.good_s = np.maximum(0.0, step_s - self._blocked_s(blocked, whole_s, step_s)).sum(axis=1)
        self.batches = (over > since).sum(axis=1)
        self.steps = np.where(made >= 0, made, 1)[:, inside:].sum(axis=1)
        self.on_device, self.known_s = np.zeros(len(ranks), dtype=bool), np.zeros(len(ranks))
        if told:
            hidden, starved = told
            self.on_device = (hidden != UNKNOWN).any(axis=1)
            known = (starved != UNKNOWN) & (hidden != UNKNOWN)
            self.known_s = np.where(known, waits_s + step_s, 0.0).sum(axis=1)

    def _blocked_s(self, blocked: Sequence[Blocked | None], whole_s: Floats, inside_s: Floats) -> Floats:
        """Return the part of each step in which another rank blocked it, in seconds."""
        if all(rank_blocked is None for rank_blocked in blocked):
            return np.zeros(whole_s.shape)
        request = self.request
        times, waits_s = np.full(request.shape, -1, dtype=np.int64), np.zeros(request.shape)
        rises = np.asarray((request[:, 1:] > request[:, :-1]).all(axis=1)).tolist()
        for row, rank_blocked in enumerate(blocked):
            if rank_blocked is None or not rank_blocked[0].size:
                continue
            own = request[row].data
            first = bisect_left(rank_blocked[0].data, own[0])
            count, at = (
                rank_blocked[0].size - first,
                bisect_left(own, int(rank_blocked[0][first])) if first < rank_blocked[0].size else 0,
            )
            if at + count > len(own) or not rises[row]:
                self.alike[row] = False
                continue
            times[row, at : at + count] = rank_blocked[0][first:]
            waits_s[row, at : at + count] = rank_blocked[1][first:]
        same = times == request
        self.alike &= (same | (times < 0)).all(axis=1)  # each blocked time was found among the requests
        compared = same & (whole_s > 0)
        share = np.zeros(request.shape)
        np.divide(waits_s, whole_s, out=share, where=compared)
        np.minimum(share, 1.0, out=share)
        result: Floats = share * inside_s
        known_s = np.where(compared, inside_s, 0.0).sum(axis=1)
        usual = np.divide(result.sum(axis=1), known_s, out=np.zeros(known_s.shape), where=known_s > 0)
        # Steps that were not compared get the share of the compared ones.
        result[~compared] = (usual[:, None] * inside_s)[~compared]
        return result

    def uses(self, since_ns: Sequence[int], blocked_now_s: Sequence[float]) -> list[Use | None]:
        """Return the use of each rank; None for ranks that are not like most."""
        columns = (self.alike, self.longest_s, self.wait_s, self.step_s, self.good_s)
        numbers = (self.batches, self.steps, self.on_device, self.known_s)
        rows = zip(*(column.tolist() for column in (*columns, *numbers)), strict=True)
        uses: list[Use | None] = []
        for at, (alike, longest_s, wait_s, step_s, good_s, batches, steps, on_device, known_s) in enumerate(
            rows
        ):
            rank, since = self.ranks[at], since_ns[at]
            open_whole_s = open_step_s(rank, self.request[at], self.wait[at], self.step[at])
            if not alike or max(open_whole_s, longest_s) >= Limits().hang_floor_s:
                uses.append(None)
                continue
            span_s = (rank.made_ns - since) / 1e9
            open_s = min(open_whole_s, span_s)
            if waits_for_training(rank):
                wait_s += max(0.0, min(open_wait_s(rank), span_s))
            clock: RankClock = "loop"
            if on_device:
                clock = "nvml" if rank.process.other_stream else "device"
            uses.append(
                Use(
                    clock=clock,
                    covered_s=max(0.0, (rank.made_ns - max(since, began_ns(rank))) / 1e9),
                    batches=batches,
                    steps=steps,
                    wait_s=wait_s,
                    step_s=step_s + open_s,
                    good_s=good_s + max(0.0, open_s - blocked_now_s[at]),
                    open_step_s=open_s,
                    known_s=known_s if clock == "device" else 0.0,
                )
            )
        return uses


def uses_of(
    ranks: Sequence[RankWindow],
    since_ns: Mapping[int, int],
    blocked: Mapping[int, Blocked],
    blocked_now_s: Mapping[int, float],
) -> dict[int, Use]:
    """Return where the time of each rank went, by its number; arguments by rank are as in ``use_of``."""
    use_by_rank: dict[int, Use] = {}
    firsts: dict[int, int] = {}
    keys: dict[int, tuple[int, tuple[int, tuple[int, ...], int, bool]]] = {}
    by_number = {rank.rank: rank for rank in ranks}
    for number, rank in by_number.items() if len(ranks) > FEW_RANKS else ():
        request = rank.steps["request_ns"]
        asked = first_at(request, since_ns[number])
        first = max(0, asked - 1)
        if first < request.size:
            firsts[number] = first
            training = tuple(training_loaders(rank))
            device = "hidden_ns" in rank.steps
            others = asked - first, training, len(rank.process.loaders), device
            keys[number] = request.size - first, others
    for group in grouped(keys):
        _, (inside, _, _, device) = keys[group[0]]
        names = _ON_DEVICE if device else _COLUMNS
        group_ranks = [by_number[number] for number in group]
        parts = [columns_from(rank.steps, names, firsts[rank.rank]) for rank in group_ranks]
        since = [since_ns[number] for number in group]
        uses = _Group(group_ranks, parts, [blocked.get(number) for number in group], since, inside).uses(
            since, [blocked_now_s.get(number, 0.0) for number in group]
        )
        use_by_rank.update((number, use) for number, use in zip(group, uses, strict=True) if use is not None)
    for number, rank in by_number.items():
        if number not in use_by_rank:
            use_by_rank[number] = use_of(
                rank,
                since_ns[number],
                blocked=blocked.get(number),
                blocked_now_s=blocked_now_s.get(number, 0.0),
            )
    return use_by_rank


_TAKE: Final = ("wait_ns", "step_ns", "nested_ns", "iter_ns", "first_wait_ns", "teardown_ns")
QUIET_ROWS: Final = threshold(
    64, "batches", "chosen: a rank with slow steps is judged by at least so many of its last batches"
)
_BACKLOG_ROWS: Final = threshold(
    16, "batches", "chosen: the median of the newest ones is the work that a device usually has left"
)
RECENT_S: Final = threshold(30.0, "s", "chosen: long enough for slow steps, short enough to follow changes")

# Requests (ns UTC, in order), and for each the seconds of its step in which the rank waited for another one.
Blocked = tuple[NDArray[np.int64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Rows:
    """A rank's batches of training loaders in an interval."""

    steps: Columns  # the table that findings use, too
    late: slice | NDArray[np.int64]  # its rows from the batch that was under way when the interval began
    inside: slice  # rows of ``late`` that were requested in the interval


@dataclass(frozen=True, slots=True)
class Use:
    """Where a rank's time went in an interval that ends now. The open wait or step counts up to now."""

    clock: RankClock
    covered_s: float  # since its first request, at most the interval
    batches: int  # whose steps ended in the interval
    steps: int  # optimizer steps of the batches that were requested in the interval
    wait_s: float
    step_s: float
    good_s: float  # part of step_s without blocking by other ranks and without steps that stood still
    open_step_s: float
    known_s: float  # part of wait_s and step_s that the device's own events cover

    @property
    def known_ratio(self) -> float | None:
        """Return the share of time, 0 to 1, that the device's own events cover; None by the loop's clock."""
        used_s = self.wait_s + self.step_s
        return min(1.0, self.known_s / used_s) if used_s > 0 and self.clock != "loop" else None

    @property
    def wait_ratio(self) -> float | None:
        """Return the data wait, 0 to 1; None without any data."""
        used_s = self.wait_s + self.step_s
        return min(1.0, self.wait_s / used_s) if used_s > 0 else None

    @property
    def goodput_ratio(self) -> float | None:
        """Return the share of the time, 0 to 1, that went into steps; None without any data."""
        return min(1.0, self.good_s / self.covered_s) if self.covered_s > 0 else None

    @property
    def steps_per_s(self) -> float | None:
        """Return training steps per second; None without enough data."""
        return self.steps / self.covered_s if self.covered_s > 0.5 else None


def training_loaders(rank: RankWindow) -> list[int]:
    """Return the numbers of the loaders that the rank trains with."""
    return [loader.loader for loader in rank.process.loaders if loader.role == "train"]


def rows_since(rank: RankWindow, since_ns: int) -> Rows:
    """Return the batches since a time (ns UTC). While no loader is described, all of them are training."""
    steps = rank.steps
    request = steps["request_ns"]
    first = max(0, first_at(request, since_ns) - 1)
    late: slice | NDArray[np.int64] = slice(first, None)
    training = training_loaders(rank)
    off_main = steps["off_main_thread"][late] == 1
    if off_main.any() or len(training) < len(rank.process.loaders):
        chosen = ~off_main
        if rank.process.loaders:
            chosen &= one_of(steps["loader"][late], training)
        late = first + np.flatnonzero(chosen)
    return Rows(steps, late, slice(first_at(np.ascontiguousarray(request[late]), since_ns), None))


def use_of(
    rank: RankWindow, since_ns: int, *, blocked: Blocked | None = None, blocked_now_s: float = 0.0
) -> Use:
    """Return where the time of a rank went since a time (ns UTC).

    Args:
        rank: the rank.
        since_ns: batches that were under way then count from then on.
        blocked: how long it waited in its steps for other ranks.
        blocked_now_s: the same for the open step.
    """
    rows, end_ns = rows_since(rank, since_ns), rank.made_ns
    request, wait, step = (rows.steps[name][rows.late] for name in ("request_ns", "wait_ns", "step_ns"))
    delivered = request + known_ns(wait)
    step_s = within_s(delivered, delivered + known_ns(step), since_ns, end_ns)
    waits_s = within_s(request, delivered, since_ns, end_ns)
    wait_s, clock = float(waits_s.sum()), clock_of(rank.process, rows.steps, rows.late)
    has_event = told_of(rows.steps)[rows.late]
    whole_s = seconds(step)
    good_s = np.maximum(0.0, step_s - _blocked_s(blocked, request, whole_s, step_s))
    open_whole_s = open_step_s(rank, request, wait, step)
    open_s = min(open_whole_s, (end_ns - since_ns) / 1e9)
    open_good_s = max(0.0, open_s - blocked_now_s)
    if max(open_whole_s, float(np.fmax.reduce(whole_s, initial=0.0))) >= Limits().hang_floor_s:
        still_s = _still_s(rank)
        good_s[whole_s >= still_s] = 0.0
        open_good_s = 0.0 if open_whole_s >= still_s else open_good_s
    if waits_for_training(rank):
        wait_s += max(0.0, min(open_wait_s(rank), (end_ns - since_ns) / 1e9))
    made = rows.steps["optimizer_steps"][rows.late][rows.inside]
    return Use(
        clock=clock,
        covered_s=max(0.0, (end_ns - max(since_ns, began_ns(rank))) / 1e9),
        batches=int((delivered + known_ns(step) > since_ns).sum()),
        steps=int(np.where(made >= 0, made, 1).sum()),
        wait_s=wait_s,
        step_s=float(step_s.sum()) + open_s,
        good_s=float(good_s.sum()) + open_good_s,
        open_step_s=open_s,
        known_s=float((waits_s + step_s)[has_event].sum()) if clock == "device" else 0.0,
    )


def waits_for_training(rank: RankWindow) -> bool:
    """Whether the loop waits for a batch of a training loader now."""
    span = rank.span
    return span is not None and span.phase == "wait" and _is_training_in(rank, span)


def _is_training_in(rank: RankWindow, span: SpanInfo) -> bool:
    """Whether a live process is busy with a training loader, as far as is known."""
    if rank.process.state != "live" or not span.alive:
        return False
    known = span.loader is not None and bool(rank.process.loaders)
    return not known or span.loader in training_loaders(rank)


def open_step_s(
    rank: RankWindow, request: NDArray[np.int64], wait: NDArray[np.int64], step: NDArray[np.int64]
) -> float:
    """Return how long the open step has lasted; 0 if there is none.

    Its phases follow each other. Its wait is reported when the step is over; until then it is assumed usual.
    """
    span = rank.span
    if span is None or not _is_training_in(rank, span) or span.phase not in (*STEP_PHASES, "user"):
        return 0.0
    if span.phase == "user" and span.batch is None:  # not part of a loop
        return 0.0
    since_ns = span.since_ns
    if request.size and step[-1] != UNKNOWN and _follows(rank, span):
        usual_ns = int(np.median(known_ns(wait)))
        over_ns = int(request[-1] + known_ns(wait)[-1] + step[-1])
        since_ns = max(over_ns, min(since_ns, over_ns + usual_ns))
    return max(0.0, (rank.made_ns - since_ns) / 1e9)


def _follows(rank: RankWindow, span: SpanInfo) -> bool:
    """Whether the batch of the open span directly follows the newest recorded batch."""
    steps = rank.steps
    newest = tuple(int(steps[name][-1]) for name in ("loader", "epoch", "batch"))
    return span.batch is not None and newest == (span.loader, span.epoch, span.batch - 1)


def _still_s(rank: RankWindow) -> float:
    """Return how many seconds a step must take to stand still: as for a hang, against a usual step."""
    limits = Limits()
    past_s = between_s(rank.past("steps"))
    past_s = past_s[np.isfinite(past_s)]
    usual_s = float(np.median(past_s)) if past_s.size else 0.0
    return max(limits.hang_floor_s, limits.hang_factor * usual_s)


def _blocked_s(
    blocked: Blocked | None,
    request: NDArray[np.int64],
    whole_s: NDArray[np.float64],
    inside_s: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the seconds of each step within the interval in which another rank blocked it, shape (rows,).

    Only the ranks' newest few hundred steps are compared. Other steps get the share of the compared ones.
    """
    if blocked is None or not blocked[0].size or not request.size:
        return np.zeros(request.size)
    times, waits_s = blocked
    at = np.minimum(np.searchsorted(times, request), times.size - 1)
    compared = (times[at] == request) & (whole_s > 0)
    share = np.zeros(request.size)
    share[compared] = np.minimum(1.0, waits_s[at[compared]] / whole_s[compared])
    compared_s = float(inside_s[compared].sum())
    share[~compared] = float((share * inside_s)[compared].sum()) / compared_s if compared_s > 0 else 0.0
    result: NDArray[np.float64] = share * inside_s
    return result


def began_ns(rank: RankWindow) -> int:
    """Return when a loader of this rank was first asked for a batch; now if there was no request."""
    firsts = [
        int(times[0]) for table in ("epoch_begins", "steps") if len(times := rank.table(table)["request_ns"])
    ]
    if waits_for_training(rank) and rank.span is not None:
        firsts.append(rank.span.since_ns)
    return min(firsts, default=rank.made_ns)


@dataclass(frozen=True, slots=True)
class Shares:
    """The parts of a rank's training time since its first request, in seconds, with epochs' first waits."""

    elapsed_s: float
    wait_s: float
    start_s: float  # in iter(loader)


def shares_of(rank: RankWindow) -> Shares | None:
    """Return where the time went in the window; None if no training batch came and none is awaited."""
    begins = rank.table("epoch_begins")
    begun = one_of(begins["loader"], training_loaders(rank))
    rows = rows_since(rank, 0)
    requested = [*begins["request_ns"][begun].tolist(), *rows.steps["request_ns"][rows.late][:1].tolist()]
    waits = waits_for_training(rank)
    if waits and rank.span is not None:
        requested.append(rank.span.since_ns)
    if not requested or not (rows.steps["request_ns"][rows.late].size or waits):
        return None
    ended_ns = rank.made_ns
    if rank.process.state != "live":
        ended_ns = last_ns(rank)
    return Shares(
        elapsed_s=(ended_ns - min(requested)) / 1e9,
        wait_s=use_of(rank, min(requested)).wait_s,
        start_s=total(seconds(begins["iter_ns"][begun])),
    )


def last_ns(rank: RankWindow) -> int:
    """Return when the last event that a rank reported about its loops ended, ns UTC; 0 if there is none."""
    return max(_last_ns(rank, name) for name in ("steps", "epoch_begins", "epoch_ends"))


def _last_ns(rank: RankWindow, name: str) -> int:
    table = rank.table(name)
    took = [table[column] for column in _TAKE if column in table]
    ends = table["request_ns"] + sum(np.maximum(values, 0) for values in took)  # UNKNOWN is negative
    return int(ends.max()) if ends.size else 0


def wait_share(rank: RankWindow, limits: Limits) -> float:
    """Return the share (0 to 1) of the last half minute, or of the last steps, that a rank waited for data.

    It serves a quick look at the many ranks without problems.
    """
    return share_of(use_of(rank, quiet_since_ns(rank, limits)))


def share_of(use: Use) -> float:
    """Return the share (0 to 1) of the time that a rank waited for data; less than a second counts as one."""
    return use.wait_s / max(use.wait_s + use.step_s, 1.0)


def quiet_since_ns(rank: RankWindow, limits: Limits) -> int:
    """Return since when (ns UTC) a rank's data wait counts: half a minute, and at least its last steps.

    In a run that has just begun, a short wait is not a share worth a closer look.
    """
    since_ns, request = rank.made_ns - int(limits.spike_recent_s * 1e9), rank.steps["request_ns"]
    return min(since_ns, int(request[max(0, request.size - QUIET_ROWS)])) if request.size else since_ns


def within_s(
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    begin_ns: int | NDArray[np.int64],
    end_ns: int | NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the seconds of each stretch from ``starts`` to ``ends`` in an interval (ns UTC), same shape."""
    overlap = np.minimum(ends, end_ns) - np.maximum(starts, begin_ns)
    result: NDArray[np.float64] = np.maximum(overlap, 0) / 1e9
    return result


def _backlog_s(rank: RankWindow) -> float:
    """Return the seconds of work that the device usually has left when a batch is requested.

    It is the median of the newest batches' slack, or of the hidden part of a wait if that is more. 0 if the
    device's clock is unknown.
    """
    steps = rank.steps
    left_ns = np.maximum(hidden_of(steps), slack_of(steps))[-2 * _BACKLOG_ROWS :]
    known_ns = left_ns[left_ns != UNKNOWN][-_BACKLOG_ROWS:]
    return float(np.median(known_ns)) / 1e9 if known_ns.size else 0.0


def open_wait_s(rank: RankWindow) -> float:
    """Return the seconds lost to the open wait; 0 if there is none, or while the device works."""
    span = rank.span
    if span is None or span.phase != "wait":
        return 0.0
    return max(0.0, (rank.made_ns - span.since_ns) / 1e9 - _backlog_s(rank))
