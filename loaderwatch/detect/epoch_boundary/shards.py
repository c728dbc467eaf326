"""Workers of an iterable dataset that have nothing left to read: S23, code ``input-bound``.

A map-style dataset is distributed batch by batch, an iterable one in shards. A worker with few shards ends
early and cannot help the others (datasets#8669, webdataset#188). Too few workers then read the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.answers import Text
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import INPUT_BOUND as CODE
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, observed
from loaderwatch.detect.measures.gain import gain_ratio, iteration_with
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.progress import WORKER_IDLE
from loaderwatch.detect.measures.statistics import mean
from loaderwatch.detect.shared_thresholds import QUIET_RATIO, Limits
from loaderwatch.detect.window import RankWindow

MISSED_ROUNDS: Final = threshold(3.0, "rounds", "chosen: a worker that missed so many rounds reads no more")
LEAST_IDLE_S: Final = threshold(2.0, "s", "chosen: where rounds are short, a worker must be idle for so long")


@dataclass(frozen=True)
class _Shares:
    """The batches of this epoch by worker, and the workers that read no more."""

    batches: dict[int, int]
    exhausted: list[int]
    idle_s: float  # seconds, of the exhausted worker that stopped last


def detect(run: RunEvidence) -> list[Finding]:
    """Find each loader that too few workers still read: one finding each, for the rank that loses most."""
    worst: dict[int, Finding] = {}
    for rank in run.live_ranks:
        if not any(loader.iterable_dataset for loader in rank.process.loaders):
            continue
        if rank.wait_ratio < QUIET_RATIO:
            continue
        for now in rank.recent_paces:
            finding = _finding(rank.rows, now, run.limits)
            known = worst.get(now.loader.loader)
            if finding is not None and (known is None or (finding.lost_s or 0) > (known.lost_s or 0)):
                worst[now.loader.loader] = finding
    return [worst[loader] for loader in sorted(worst)]


def _finding(rank: RankWindow, now: Pace, limits: Limits) -> Finding | None:
    workers = now.workers or 0
    if not now.loader.iterable_dataset or workers < 2:
        return None
    if now.share < limits.input_warning_ratio or now.lost_s < limits.input_floor_s:
        return None
    if now.lost_s / now.wait_s.size < limits.input_step_floor_s:
        return None
    shares = _shares(rank, now, workers)
    if shares is None:
        return None
    reading = workers - len(shares.exhausted)
    fetch_s = mean(now.fetches.fetch_s)
    after_s = iteration_with(fetch_s, workers, now.mean_step_s)
    gain = gain_ratio(now.iteration_s, after_s)
    never = [worker for worker in shares.exhausted if not shares.batches.get(worker)]
    delivered = [str(shares.batches.get(worker, 0)) for worker in range(workers)]
    world = max(1, rank.process.world_size)
    return Finding(
        key=f"{CODE}:{now.loader.loader}:steady",
        loader=now.loader.loader,
        aspect="steady",
        code=CODE,
        scenario="S23",
        severity="critical" if now.share >= limits.input_critical_ratio else "warning",
        confidence=0.95,
        began_ns=int(now.request_ns[0]),
        rule="workers-out-of-shards",
        params={
            "loader": now.loader.name,
            "rank": rank.rank if world > 1 else None,
            "world": world,
            "workers": workers,
            "reading": reading,
            "share_ratio": now.share,
            "elapsed_s": now.elapsed_s,
            "exhausted": " ".join(map(str, shares.exhausted)),
            "exhausted_count": len(shares.exhausted),
            "delivered": " ".join(delivered),
            "lately": not never,
            "idle_s": shares.idle_s,
            "batches_per_s": 1 / now.iteration_s,
            "shards": workers * world,
        },
        evidence=[
            observed("data-wait", now.share, "ratio"),
            observed("workers-that-read", reading, "count"),
            observed("workers", workers, "count"),
            observed("batches-by-worker", Text("evidence-listed", {"items": " ".join(delivered)}), "text"),
            observed("idle-for", shares.idle_s, "s"),
            *([observed("fetch-time-of-a-worker", fetch_s, "s")] if fetch_s > 0 else []),
        ],
        rank=rank.rank,
        host=rank.host,
        worker=next((worker for worker in range(workers) if worker not in shares.exhausted), None)
        if reading == 1
        else None,
        lost_s=now.lost_s,
        gain_ceiling_ratio=gain,
    )


def _shares(rank: RankWindow, now: Pace, workers: int) -> _Shares | None:
    """Return each worker's batches and the exhausted workers; None if all workers read, or none does."""
    patience_s = max(LEAST_IDLE_S, MISSED_ROUNDS * workers * now.iteration_s)
    begins = rank.table("epoch_begins")
    own = np.flatnonzero(begins["loader"] == now.loader.loader)
    since_ns = int(begins["request_ns"][own[-1]]) if own.size else 0
    if (rank.made_ns - since_ns) / 1e9 < patience_s:
        return None
    fetches = now.fetches
    epoch = fetches.began_ns >= since_ns
    batches = {
        int(worker): int(number)
        for worker, number in zip(*np.unique(fetches.worker[epoch], return_counts=True), strict=True)
        if worker >= 0
    }
    alive = {
        span.worker: span for span in rank.workers if span.alive and span.loader in (None, now.loader.loader)
    }
    own_steps = now.rank.table("steps")
    own_steps = {"request_ns": own_steps["request_ns"][own_steps["loader"] == now.loader.loader]}
    ahead = workers * (now.loader.prefetch_factor or 2)
    idle: dict[int, float] = {}
    for number in range(workers):
        last = fetches.ended_ns[epoch & (fetches.worker == number)]
        idle_s = (rank.made_ns - max(int(last.max(initial=0)), since_ns)) / 1e9
        span = alive.get(number)
        # A worker whose batches lie ready waits until the loop has taken the batches before them.
        taken = int((own_steps["request_ns"] > rank.made_ns - int(idle_s * 1e9)).sum())
        # Without persistent workers a worker ends as soon as it has read everything.
        if idle_s >= patience_s and taken > ahead and (span is None or span.phase == WORKER_IDLE):
            idle[number] = idle_s
    exhausted = sorted(idle)
    if not exhausted or len(exhausted) >= workers:
        return None
    return _Shares(batches, exhausted, min(idle.values()))
