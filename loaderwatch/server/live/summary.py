"""The summary of a run, in one shape for live windows and for stored runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isnan
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core import answers
from loaderwatch.core.answers import RunStatus, Verdict
from loaderwatch.core.from_records import from_records
from loaderwatch.core.records import UNKNOWN
from loaderwatch.detect.crash.unexplained import ending
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.incidents.verdict import verdict_of
from loaderwatch.detect.measures.critical_path import RankSums, lost_s
from loaderwatch.detect.measures.progress import LOADER_PHASES
from loaderwatch.detect.measures.time_use import RECENT_S, Use, open_wait_s, rows_since
from loaderwatch.detect.window import RankWindow, RunWindow, SummedRank, first_at
from loaderwatch.server.live.groups import groups_of
from loaderwatch.server.store.facts import Attempt
from loaderwatch.server.store.protocol import StoredRun
from loaderwatch.server.window.totals import RunTotals

LOST_AFTER_S: Final = 15.0
MOST_HOSTS: Final = 64
"""How many hosts of a large run an outline lists."""


def state_now(run: StoredRun, now_ns: int) -> RunStatus:
    """Return ``live``, ``finished`` or ``crashed``, or ``lost`` if a live run was silent for 15 s.

    ``now_ns`` is this server's UTC clock. The state ``hung`` comes from the findings.
    """
    if run.state == "live" and now_ns - run.received_ns > LOST_AFTER_S * 1e9:
        return "lost"
    return run.state


def summary_of(
    run: RunEvidence,
    totals: RunTotals,
    *,
    state: RunStatus,
    verdict: Verdict | None = None,
    costs_s: Iterable[float | None] = (),
    last_seen_ns: int | None = None,
    host_lost: Callable[[str], bool] | None = None,
    earlier: Sequence[Attempt] = (),
    name: str = "",
) -> answers.Summary:
    """Return the answer of ``GET /runs/{run}/summary``.

    Without a ``verdict`` the summary has a plain sentence made from the numbers. Without ``host_lost``, a
    test for silent hosts, the times of the hosts' newest envelopes decide. The answer's ``lost_s`` is the
    largest of ``costs_s``, the costs of the run's alerts. It is at least what ``critical_path.lost_s`` gives
    for data wait and epoch boundaries. Earlier attempts are in ``earlier``; other arguments belong to the
    window's attempt. A given ``name`` replaces the script's name.
    """
    window, use = run.window, run.use
    host_lost = host_lost or _behind(window)
    hosts = {*window.ranks_by_host, *(rank.host for rank in window.summed.values())}
    lost = {host for host in hosts if state == "lost" or host_lost(host)}
    rows = [
        *(
            _rank_row(window, rank, use.ranks[number], totals, rank.host in lost)
            for number, rank in window.ranks.items()
        ),
        *(_summed_row(rank, totals, rank.host in lost) for rank in window.summed.values()),
    ]
    gpus = [gpu for host in window.hosts.values() for gpu in host.gpus]
    waited_s = lost_s(_sums_of(window, totals), totals.path)
    return answers.Summary(
        run_id=window.run_id,
        name=name or window.run_name,
        state=state,
        attempt=window.attempt,
        attempts=max([window.attempt, *(a.number + 1 for a in earlier[-1:])]),
        earlier=[from_records(answers.Earlier, a, attempt=a.number, exit=ending(a)) for a in earlier],
        started_at=window.started_ns / 1e9,
        last_seen_at=(last_seen_ns or window.now_ns) / 1e9,
        now=window.now_ns / 1e9,
        world_size=window.world_size,
        rank_count=len(rows),
        unwatched_count=sum(not row.watched and row.state == "live" for row in rows),
        host_count=len(hosts),
        hosts=[from_records(answers.Host, host.info) for host in window.hosts.values()],
        steps=max((row.step or 0 for row in rows), default=0),
        eval_batches=max((row.eval_batches for row in rows), default=0),
        steps_per_s=use.steps_per_s,
        data_wait_ratio=use.wait_ratio,
        clock=use.clock,
        known_ratio=use.known_ratio,
        gpu_utilization_ratio=_mean(
            [row.gpu_utilization_ratio for row in rows if row.gpu_utilization_ratio is not None]
        ),
        gpu_starved_ratio=use.starved_ratio,
        compute_duty_ratio=None if use.wait_ratio is None else 1 - use.wait_ratio,
        goodput_ratio=use.goodput_ratio,
        lost_s=max([waited_s, *(cost_s for cost_s in costs_s if cost_s is not None)]),
        lost_clock=totals.clock,
        lost_records=totals.lost_records,
        simulated_gpu=any(gpu.simulated for gpu in gpus),
        epochs=max(totals.epochs.values(), default=0),
        progress=_progress(window),
        verdict=verdict or verdict_of("live", lambda: run, []),
        loaders=[
            answers.Loader(rank=number, **msgspec.structs.asdict(loader))
            for number, rank in window.ranks.items()
            for loader in rank.process.loaders
        ],
        groups=groups_of(rows),
        ranks=sorted(rows, key=lambda row: row.rank) if window.summed else rows,
    )


def outline(summary: answers.Summary) -> answers.Summary:
    """Return the summary as it is sent: of a large run, only with the rows of ranks kept in detail."""
    if all(row.in_detail for row in summary.ranks):
        return summary
    rows = [row for row in summary.ranks if row.in_detail]
    shown = {row.host for row in rows}
    hosts = sorted(summary.hosts, key=lambda host: host.name not in shown)[:MOST_HOSTS]
    return msgspec.structs.replace(summary, ranks=rows, hosts=hosts)


def _rank_row(
    window: RunWindow, rank: RankWindow, use: Use, totals: RunTotals, lost: bool
) -> answers.RankRow:
    newest = rows_since(rank, _recent_ns(rank))
    wait_ns, step_ns, ready = (
        newest.steps[name][newest.late][newest.inside] for name in ("wait_ns", "step_ns", "ready")
    )
    host = window.hosts.get(rank.host)
    gpu = next((g.gpu for g in host.gpus if g.rank == rank.rank), None) if host is not None else None
    return answers.RankRow(
        **_standing(rank, totals, lost),
        steps_per_s=use.steps_per_s,
        data_wait_ratio=use.wait_ratio,
        clock=use.clock,
        known_ratio=use.known_ratio,
        step_s=_mean_s(step_ns),
        wait_s=_mean_s(wait_ns),
        ready_batches=int(ready[-1]) if len(ready) and ready[-1] != UNKNOWN else None,
        gpu=gpu,
        gpu_utilization_ratio=_utilization(rank),
    )


def _summed_row(rank: SummedRank, totals: RunTotals, lost: bool) -> answers.RankRow:
    """Return the row of a rank of which only sums are known."""
    batches = rank.batches
    return answers.RankRow(
        **_standing(rank, totals, lost),
        steps_per_s=_known(rank.steps_per_s),
        data_wait_ratio=_known(rank.wait_ratio),
        clock="device" if rank.by_device else "loop",
        known_ratio=None,
        step_s=rank.worked_s / batches if batches else None,
        wait_s=rank.waited_s / batches if batches else None,
        ready_batches=None,
        gpu=rank.gpu,
        gpu_utilization_ratio=_known(rank.utilization_ratio),
        in_detail=False,
    )


def _standing(rank: RankWindow | SummedRank, totals: RunTotals, lost: bool) -> dict[str, Any]:
    """Return the fields that say what a rank is and what it is doing."""
    process, span = rank.process, rank.span
    return {
        "rank": rank.rank,
        "host": rank.host,
        "pid": process.pid,
        "state": "lost" if lost and process.state == "live" else process.state,
        "exit": ending(process),
        "watched": not process.tripped,
        "phases_missing": process.phases_missing,
        "step": _steps(rank, totals),
        "eval_batches": totals.eval_batches.get(rank.rank, 0),
        "epoch": span.epoch if span is not None else None,
        "batch": span.batch if span is not None else None,
        "phase": (span.phase_name or span.phase) if span is not None else None,
        "phase_age_s": max(0.0, (rank.made_ns - span.since_ns) / 1e9) if span is not None else None,
        "seen_at": rank.made_ns / 1e9,
    }


def _known(value: float) -> float | None:
    return None if isnan(value) else value


def _progress(window: RunWindow) -> answers.Progress | None:
    """Return the lowest known rank's progress; in training, our count continues its global step."""
    for _, rank in sorted(window.ranks.items()):
        progress = rank.process.progress
        if progress is None:
            continue
        step = progress.global_step
        if step is not None and progress.stage == "train" and rank.span is not None:
            step += max(0, rank.span.steps - progress.at_steps)
        return from_records(answers.Progress, progress, version=progress.framework_version, global_step=step)
    return None


def _behind(window: RunWindow) -> Callable[[str], bool]:
    """Return a test for a stored run's lost hosts: their data ends ``LOST_AFTER_S`` before the run's."""
    made_ns = {name: host.made_ns for name, host in window.hosts.items()}
    return lambda host: window.now_ns - made_ns.get(host, window.now_ns) > LOST_AFTER_S * 1e9


def _steps(rank: RankWindow | SummedRank, totals: RunTotals) -> int:
    """Return the training steps by the records, or by the process's own count, which has no losses."""
    process = rank.process
    if process.steps is not None and process.state != "live":
        return process.steps  # the process's own count at its end
    return max(totals.steps.get(rank.rank, 0), rank.span.steps if rank.span is not None else 0)


def _waits(rank: RankWindow) -> bool:
    """Whether the rank's training loop waits for its loader now."""
    span = rank.span
    if span is None or not span.alive or rank.process.state != "live" or span.phase not in LOADER_PHASES:
        return False
    return all(loader.loader != span.loader or loader.role == "train" for loader in rank.process.loaders)


def _open_s(rank: RankWindow | None) -> float:
    """Return how long the open wait or epoch boundary has lasted; its record comes only at its end."""
    if rank is None or rank.span is None or not _waits(rank):
        return 0.0
    if rank.span.phase == "wait":
        return open_wait_s(rank)
    return max(0.0, (rank.made_ns - rank.span.since_ns) / 1e9)


def _sums_of(window: RunWindow, totals: RunTotals) -> list[RankSums]:
    return [
        RankSums(
            batches=totals.batches.get(number, 0),
            wait_s=wait_s,
            step_s=totals.step_s[number],
            boundary_s=totals.boundary_s[number],
            open_s=_open_s(window.ranks.get(number)),
        )
        for number, wait_s in totals.wait_s.items()
    ]


def _recent_ns(rank: RankWindow) -> int:
    return rank.made_ns - int(RECENT_S * 1e9)


def _utilization(rank: RankWindow) -> float | None:
    rows = rank.table("gpus")
    values = rows["utilization_ratio"][first_at(rows["t_ns"], _recent_ns(rank)) :]
    values = values[~np.isnan(values)]
    return float(values.sum()) / len(values) if len(values) else None


def _mean_s(durations: NDArray[np.int64]) -> float | None:
    known = durations[durations != UNKNOWN]
    return float(known.sum()) / len(known) / 1e9 if len(known) else None  # .mean() takes three times as long


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
