"""The summary of a run, in one shape for live windows and for stored runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core import answers
from loaderwatch.core.answers import RunStatus, Verdict
from loaderwatch.core.records import UNKNOWN
from loaderwatch.detect.crash.unexplained import ending
from loaderwatch.detect.device_clock import hidden_of
from loaderwatch.detect.incidents.verdict import verdict_of
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.measures.coupling import go_in_step, run_wait_ratio
from loaderwatch.detect.measures.pace import open_wait_s
from loaderwatch.detect.measures.progress import LOADER_PHASES
from loaderwatch.detect.window import RankWindow, RunWindow, first_at, one_of
from loaderwatch.server.live.window_builder import RunTotals
from loaderwatch.server.store.attempts import Attempt
from loaderwatch.server.store.protocol import StoredRun

LOST_AFTER_S: Final = 15.0
RECENT_S: Final = 30.0
"""How far ratios and means look back: long enough for slow steps, short enough to follow changes."""


def state_now(run: StoredRun, now_ns: int) -> RunStatus:
    """Return ``live``, ``finished``, ``crashed``, or ``lost`` when a live run was silent for 15 s.

    ``now_ns`` is this server's UTC clock. The state ``hung`` comes from findings.
    """
    if run.state == "live" and now_ns - run.received_ns > LOST_AFTER_S * 1e9:
        return "lost"
    return run.state


@dataclass(frozen=True)
class _Recent:
    """Sums over the last RECENT_S of a rank. Fields are None where nothing is known."""

    clock: answers.Clock
    covered_s: float
    advance: int
    wait_s: float  # data wait within that time, including the open wait
    busy_s: float  # step time within that time
    mean_wait_s: float | None
    mean_step_s: float | None
    ready: int | None
    utilization: float | None
    starved_s: float
    gpu_step_s: float

    @property
    def wait_ratio(self) -> float | None:
        return _ratio(self.wait_s, self.wait_s + self.busy_s)


def summary_of(
    window: RunWindow,
    totals: RunTotals,
    *,
    state: RunStatus,
    verdict: Verdict | None = None,
    costs_s: Iterable[float | None] = (),
    last_seen_ns: int | None = None,
    host_lost: Callable[[str], bool] | None = None,
    earlier: Sequence[Attempt] = (),
) -> answers.Summary:
    """Return the answer of ``GET /runs/{run}/summary``.

    Without a ``verdict`` the summary has a plain sentence from the numbers.
    ``host_lost`` tells whether a host has fallen silent; without it, the hosts' own times of their newest envelopes decide.
    Of ranks that go in step the data wait is that of the critical path: in each iteration all wait for the rank that lacks its
    batch longest. ``costs_s`` is what each finding of the run has cost. ``lost_s`` in the answer is the largest of them, and at least
    the time that ranks have lost to data wait and epoch boundaries so far: of ranks in step the one that lost most, else the mean. ``earlier`` are the run's
    earlier attempts; everything else is about the window's attempt.
    """
    recent = {number: _recent(rank) for number, rank in window.ranks.items()}
    wait_s = sum(r.wait_s for r in recent.values())
    busy_s = sum(r.busy_s for r in recent.values())
    mean_ratio = _ratio(wait_s, wait_s + busy_s)
    own = [ratio for each in recent.values() if (ratio := each.wait_ratio) is not None]
    wait_ratio = None if mean_ratio is None else run_wait_ratio(window, Limits(), mean_ratio, own)
    others_ratio = max(0.0, (wait_ratio or 0.0) - (mean_ratio or 0.0))  # waiting for a rank that lacks data
    starved_s = sum(r.starved_s for r in recent.values())
    gpu_step_s = sum(r.gpu_step_s for r in recent.values())
    goodputs = [min(1.0, r.busy_s / r.covered_s) for r in recent.values() if r.covered_s > 0]
    host_lost = host_lost or _behind(window)
    lost = {host for host in window.ranks_by_host if state == "lost" or host_lost(host)}
    gpus = [gpu for host in window.hosts.values() for gpu in host.gpus]
    waited = [totals.wait_s[r] + totals.boundary_s[r] + _open_s(window.ranks.get(r)) for r in totals.wait_s]
    waited_s = max(waited, default=0.0) if go_in_step(window, Limits()) else _mean(waited) or 0.0
    lost_s = max([waited_s, *(cost_s for cost_s in costs_s if cost_s is not None)])
    return answers.Summary(
        run_id=window.run_id,
        name=window.run_name,
        state=state,
        attempt=window.attempt,
        attempts=max([window.attempt, *(one.number + 1 for one in earlier[-1:])]),
        earlier=[
            answers.Earlier(
                attempt=one.number,
                state=one.state,
                began_at=one.began_ns / 1e9,
                ended_at=one.ended_ns / 1e9,
                steps=one.steps,
                exit=ending(one),
            )
            for one in earlier
        ],
        started_at=window.started_ns / 1e9,
        last_seen_at=(last_seen_ns or window.now_ns) / 1e9,
        now=window.now_ns / 1e9,
        world_size=max([len(window.ranks), *(r.process.world_size for r in window.ranks.values())]),
        hosts=[
            answers.Host(
                name=host.info.name,
                cpus=host.info.cpus,
                usable_cpus=host.info.usable_cpus,
                gpu_status=host.info.gpu_status,
            )
            for host in window.hosts.values()
        ],
        steps=max((_steps(window.ranks[r], totals) for r in window.ranks), default=0),
        eval_batches=max((totals.eval_batches.get(r, 0) for r in window.ranks), default=0),
        steps_per_s=_mean([rate for r in recent.values() if (rate := _rate(r)) is not None]),
        data_wait_ratio=wait_ratio,
        clock=_clock([each.clock for each in recent.values()]),
        gpu_utilization_ratio=_mean([r.utilization for r in recent.values() if r.utilization is not None]),
        gpu_starved_ratio=_ratio(starved_s, starved_s + gpu_step_s),
        compute_duty_ratio=None if wait_ratio is None else 1 - wait_ratio,
        goodput_ratio=max(0.0, goodput - others_ratio) if (goodput := _mean(goodputs)) is not None else None,
        lost_s=lost_s,
        lost_records=totals.lost_records,
        simulated_gpu=any(gpu.simulated for gpu in gpus),
        epochs=max(totals.epochs.values(), default=0),
        progress=_progress(window),
        verdict=verdict or verdict_of("live", lambda: window, []),
        loaders=[
            answers.Loader(rank=number, **msgspec.structs.asdict(loader))
            for number, rank in window.ranks.items()
            for loader in rank.process.loaders
        ],
        ranks=[
            _rank_row(window, rank, recent[number], totals, rank.host in lost)
            for number, rank in window.ranks.items()
        ],
    )


def _clock(of_ranks: Sequence[answers.Clock]) -> answers.Clock:
    return of_ranks[0] if len(set(of_ranks)) == 1 else "mixed" if of_ranks else "loop"


def _rank_row(
    window: RunWindow, rank: RankWindow, recent: _Recent, totals: RunTotals, lost: bool
) -> answers.RankRow:
    span = rank.span
    host = window.hosts.get(rank.host)
    gpu = next((g.gpu for g in host.gpus if g.rank == rank.rank), None) if host is not None else None
    return answers.RankRow(
        rank=rank.rank,
        host=rank.host,
        pid=rank.process.pid,
        state="lost" if lost and rank.process.state == "live" else rank.process.state,
        exit=ending(rank.process),
        watched=not rank.process.tripped,
        phases_missing=rank.process.phases_missing,
        step=_steps(rank, totals),
        eval_batches=totals.eval_batches.get(rank.rank, 0),
        epoch=span.epoch if span is not None else None,
        batch=span.batch if span is not None else None,
        phase=(span.phase_name or span.phase) if span is not None else None,
        phase_age_s=max(0.0, (rank.made_ns - span.since_ns) / 1e9) if span is not None else None,
        steps_per_s=_rate(recent),
        data_wait_ratio=recent.wait_ratio,
        clock=recent.clock,
        step_s=recent.mean_step_s,
        wait_s=recent.mean_wait_s,
        ready_batches=recent.ready,
        gpu=gpu,
        gpu_utilization_ratio=recent.utilization,
        seen_at=rank.made_ns / 1e9,
    )


def _progress(window: RunWindow) -> answers.Progress | None:
    """Return the framework's progress on the lowest rank that has one; while it trains, our count continues its global step."""
    for _, rank in sorted(window.ranks.items()):
        told = rank.process.progress
        if told is None:
            continue
        global_step = told.global_step
        if global_step is not None and told.stage == "train" and rank.span is not None:
            global_step += max(0, rank.span.steps - told.at_steps)
        return answers.Progress(
            framework=told.framework,
            version=told.framework_version,
            stage=told.stage,
            epoch=told.epoch,
            max_epochs=told.max_epochs,
            global_step=global_step,
        )
    return None


def _behind(window: RunWindow) -> Callable[[str], bool]:
    """Return a test for lost hosts of a stored run: their newest envelope is ``LOST_BEHIND_S`` older than the run's newest."""
    made_ns = {name: host.made_ns for name, host in window.hosts.items()}
    return lambda host: window.now_ns - made_ns.get(host, window.now_ns) > LOST_AFTER_S * 1e9


def _steps(rank: RankWindow, totals: RunTotals) -> int:
    """Return training steps, by the records or by the process's own count, which includes steps whose records were lost."""
    process = rank.process
    if process.steps is not None and process.state != "live":
        return process.steps  # the process's count at its end
    return max(totals.steps.get(rank.rank, 0), rank.span.steps if rank.span is not None else 0)


def _waits(rank: RankWindow) -> bool:
    """Whether the rank's training loop waits for its loader now."""
    span = rank.span
    if span is None or not span.alive or rank.process.state != "live" or span.phase not in LOADER_PHASES:
        return False
    return all(loader.loader != span.loader or loader.role == "train" for loader in rank.process.loaders)


def _open_s(rank: RankWindow | None) -> float:
    """Return how long the open wait or epoch boundary has lasted; its record comes when it is over."""
    if rank is None or rank.span is None or not _waits(rank):
        return 0.0
    if rank.span.phase == "wait":
        return open_wait_s(rank)
    return max(0.0, (rank.made_ns - rank.span.since_ns) / 1e9)


def _recent(rank: RankWindow) -> _Recent:
    end = rank.made_ns
    begin = end - int(RECENT_S * 1e9)
    train = [loader.loader for loader in rank.process.loaders if loader.role == "train"]
    known_loaders = bool(rank.process.loaders)
    steps = rank.steps  # the table that findings use for a mean step
    request = steps["request_ns"]
    # From the step that was under way when that time began.
    first = max(0, first_at(request, begin) - 1)
    late: slice | NDArray[np.int64] = slice(first, None)
    off_main = steps["off_main_thread"][late] == 1
    if off_main.any() or len(train) < len(rank.process.loaders):
        chosen = ~off_main
        if known_loaders:
            chosen &= one_of(steps["loader"][late], train)
        late = first + np.flatnonzero(chosen)
    request, wait, step = (steps[name][late] for name in ("request_ns", "wait_ns", "step_ns"))
    delivered = request + _known(wait)
    wait_s = _within(request, delivered, begin, end)
    busy_s = _within(delivered, delivered + _known(step), begin, end)
    span = rank.span
    live = rank.process.state == "live" and span is not None and span.alive
    if live and span is not None and span.phase == "wait" and (not known_loaders or span.loader in train):
        lost_ns = end - int(open_wait_s(rank) * 1e9)  # since when the device has nothing to do
        wait_s += _within(np.array([lost_ns]), np.array([end]), begin, end)
    inside = slice(first_at(request, begin), None)
    made = steps["optimizer_steps"][late][inside]
    advance = int(np.where(made >= 0, made, 1).sum())
    ready = steps["ready"][late][-1:]
    since = max(begin, _began(rank))
    starved_s, gpu_step_s = _gpu_waits(rank, begin, train)
    return _Recent(
        clock="device" if (hidden_of(steps)[late] != UNKNOWN).any() else "loop",
        covered_s=max(0.0, (end - since) / 1e9),
        advance=advance,
        wait_s=wait_s,
        busy_s=busy_s,
        mean_wait_s=_mean_s(wait[inside]),
        mean_step_s=_mean_s(step[inside]),
        ready=int(ready[0]) if len(ready) and ready[0] != UNKNOWN else None,
        utilization=_utilization(rank, begin),
        starved_s=starved_s,
        gpu_step_s=gpu_step_s,
    )


def _began(rank: RankWindow) -> int:
    """Return when this rank's first loader was first asked for a batch."""
    firsts = [
        int(times[0]) for table in ("epoch_begins", "steps") if len(times := rank.table(table)["request_ns"])
    ]
    if not firsts:
        return rank.made_ns
    return min(firsts)


def _gpu_waits(rank: RankWindow, begin_ns: int, train: Sequence[int]) -> tuple[float, float]:
    rows = rank.table("gpu_waits")
    if not len(rows["request_ns"]):
        return 0.0, 0.0
    late = slice(first_at(rows["request_ns"], begin_ns), None)
    starved_ns, step_ns = rows["starved_ns"][late], rows["gpu_step_ns"][late]
    if len(train) < len(rank.process.loaders):
        trains = one_of(rows["loader"][late], train)
        starved_ns, step_ns = starved_ns[trains], step_ns[trains]
    return _sum_s(starved_ns), _sum_s(step_ns)


def _utilization(rank: RankWindow, begin_ns: int) -> float | None:
    rows = rank.table("gpus")
    values = rows["utilization_ratio"][first_at(rows["t_ns"], begin_ns) :]
    values = values[~np.isnan(values)]
    return float(values.sum()) / len(values) if len(values) else None


def _within(starts: NDArray[np.int64], ends: NDArray[np.int64], begin: int, end: int) -> float:
    overlap = np.minimum(ends, end) - np.maximum(starts, begin)
    return float(np.maximum(overlap, 0).sum()) / 1e9


def _known(durations: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(durations == UNKNOWN, 0, durations)


def _sum_s(durations: NDArray[np.int64]) -> float:
    return float(_known(durations).sum()) / 1e9


def _mean_s(durations: NDArray[np.int64]) -> float | None:
    known = durations[durations != UNKNOWN]
    return float(known.sum()) / len(known) / 1e9 if len(known) else None  # .mean() takes three times as long


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _ratio(part: float, whole: float) -> float | None:
    return min(1.0, part / whole) if whole > 0 else None


def _rate(recent: _Recent) -> float | None:
    """Return steps per second; None before there was anything to count."""
    return recent.advance / recent.covered_s if recent.covered_s > 0.5 else None
