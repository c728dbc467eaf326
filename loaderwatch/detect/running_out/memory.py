"""Memory that grows with every sample, before it runs out: S24, code ``running-out``.

Memory is compared from step to step while the run trains (``Rise``). Two causes look alike. Merely reading
the Python objects of a forked dataset copies their pages (pytorch#13246): the proportional share, PSS, rises.
A leak makes anonymous memory rise. RSS is no measure: it counts shared and file pages as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.answers import Param, Severity
from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import RUNNING_OUT as CODE
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, observed
from loaderwatch.detect.measures.machine import limit_hits_per_s
from loaderwatch.detect.measures.statistics import mean, median
from loaderwatch.detect.running_out.resource_growth import (
    CRITICAL_ETA_S,
    FEW_STRETCHES,
    LOOKS_AHEAD,
    LOOKS_AHEAD_OF_STREAM,
    WARNING_ETA_S,
    Rise,
    clear_growth,
    is_likely,
    stretches,
)
from loaderwatch.detect.window import HostWindow, RankWindow, between_s, distinct, first_at, seconds

SETTLING_NS: Final = threshold(
    4_000_000_000, "ns", "chosen: imports and first touches of memory come when a process begins"
)
LEAST_ANONYMOUS_S: Final = threshold(8.0, "s", "chosen: anonymous memory must grow for so long")
LEAST_PSS_S: Final = threshold(
    20.0, "s", "chosen: longer than for anonymous memory, because PSS is read every ten seconds at most"
)
LEAST_GROWN_BYTES: Final = threshold(
    100e6, "bytes", "chosen: of all processes of a host together; less is no leak"
)
LEAST_SAMPLE_BYTES: Final = threshold(100.0, "bytes", "chosen: less growth per sample is noise")
GONE_NS: Final = threshold(10_000_000_000, "ns", "chosen: a process whose newest reading is older has ended")


@dataclass(frozen=True)
class _Leak:
    rank: RankWindow
    worker: int  # -1: the training process
    pid: int
    loader: LoaderInfo | None  # the loader that this process reads, as its worker or itself
    rise: Rise
    copied: bool  # the proportional share grows, not anonymous memory

    @property
    def per_s(self) -> float:
        """Return how many bytes are added each second."""
        return self.rise.growth.per_s

    @property
    def name(self) -> dict[str, Param]:
        """Return the parameters of the message that names the process."""
        return {
            "rank": self.rank.rank if self.rank.process.world_size > 1 else None,
            "worker": self.worker if self.worker >= 0 else None,
            "pid": self.pid,
        }


def detect(run: RunEvidence) -> list[Finding]:
    """Find each host whose memory its training processes or workers will use up: one finding per host."""
    findings = []
    for host, ranks in run.live_hosts:
        if not math.isfinite(_room(host)[0]):
            continue
        leaks = [leak for rank in ranks for leak in _leaks(rank)]
        finding = _finding(host, leaks) if leaks else None
        if finding is not None:
            findings.append(finding)
    return findings


def _leaks(rank: RankWindow) -> list[_Leak]:
    training = stretches(rank)
    if training is None:
        return []
    rows = rank.table("processes")
    pids, times, anonymous, pss = (rows[name] for name in ("pid", "t_ns", "anonymous_bytes", "pss_bytes"))
    leaks = []
    loaders = {loader.loader: loader for loader in rank.process.loaders}
    for pid in distinct(pids):
        own = np.flatnonzero(pids == pid)
        t_ns = times[own]
        if rank.made_ns - int(t_ns[-1]) > GONE_NS:
            continue  # the process has ended
        settled = first_at(t_ns, int(t_ns[0]) + SETTLING_NS)
        late, t_ns = own[settled:], t_ns[settled:]
        rise = training.rise(t_ns, anonymous[late], clear_growth(LEAST_ANONYMOUS_S), FEW_STRETCHES)
        shared = training.rise(t_ns, pss[late], clear_growth(LEAST_PSS_S), FEW_STRETCHES)
        best = max(
            (growing for growing in (rise, shared) if growing is not None),
            key=lambda growing: growing.growth.per_s,
            default=None,
        )
        if best is None:
            continue
        worker = int(rows["worker"][own][-1])
        loader = loaders.get(int(rows["loader"][own][-1])) if worker >= 0 else _read_in_process(rank)
        leaks.append(_Leak(rank, worker, pid, loader, best, best is shared))
    return leaks


def _read_in_process(rank: RankWindow) -> LoaderInfo | None:
    """Return the training loader that the training process reads itself; None if workers read."""
    own = (loader for loader in rank.process.loaders if loader.role == "train" and loader.num_workers == 0)
    return next(own, None)


def _finding(host: HostWindow, leaks: list[_Leak]) -> Finding | None:
    room, what = _room(host)
    per_s = sum(leak.per_s for leak in leaks)
    grown = sum(leak.rise.growth.grown for leak in leaks)
    if not math.isfinite(room) or grown < LEAST_GROWN_BYTES:
        return None
    eta_s = max(0.0, room) / per_s
    if eta_s > WARNING_ETA_S:
        return None
    worst = max(leaks, key=lambda leak: leak.per_s)
    ends_s = _epoch_left_s(worst)
    survives = ends_s < 0.8 * eta_s
    streams = worst.loader is not None and bool(worst.loader.iterable_dataset)
    is_sure = not survives and is_likely(grown, room, LOOKS_AHEAD_OF_STREAM if streams else LOOKS_AHEAD)
    severity: Severity = "info" if not is_sure else "critical" if eta_s <= CRITICAL_ETA_S else "warning"
    workers = [leak for leak in leaks if leak.worker >= 0]
    mine = sum(leak.per_s for leak in workers) >= 0.5 * per_s
    hits = limit_hits_per_s(host)
    pressure = mean(host.hosts["psi_memory_some_ratio"][-10:])
    samples = _per_sample(worst)
    loader = worst.loader
    copied = any(leak.copied for leak in workers)
    return Finding(
        key=f"{CODE}:memory:{host.info.name}",
        code=CODE,
        scenario="S24",
        severity=severity,
        confidence=0.85 if is_sure else 0.6,
        began_ns=int(host.made_ns - worst.rise.growth.span_s * 1e9),
        rule="memory-runs-out",
        params={
            "eta_s": eta_s,
            "grows": "workers" if mine else "training",
            "workers": len(workers),
            "growth_bytes": per_s,
            "sample_bytes": samples if samples >= LEAST_SAMPLE_BYTES else None,
            "left_bytes": room,
            "of": what,
            "kept": "by-loop" if not mine else "copied" if copied else "by-worker",
            "epoch_ends": "later" if not survives else "with-workers" if worst.worker >= 0 else "with-cache",
            "epoch_s": ends_s,
            "num_workers": (loader.num_workers or None) if loader is not None else None,
            "persistent": loader is not None and bool(loader.persistent_workers),
            **worst.name,
            **worst.rise.basis,
            "first_bytes": worst.rise.growth.first,
            "last_bytes": worst.rise.growth.last,
        },
        evidence=[
            observed("growth-per-second", per_s, "bytes"),
            observed("grown-so-far", grown, "bytes"),
            observed("left-of-memory", room, "bytes", of=what),
            observed("until-it-is-used-up", eta_s, "s"),
            observed("growing-processes", len(leaks), "count"),
            observed("seen-for", worst.rise.growth.span_s, "s"),
            observed("steps", worst.rise.steps, "count"),
            *([observed("memory-pressure-some", pressure, "ratio")] if math.isfinite(pressure) else []),
            *([observed("memory-limit-reached", hits, "per_s")] if hits > 0 else []),
        ],
        rank=worst.rank.rank if len({leak.rank.rank for leak in leaks}) == 1 else None,
        host=host.info.name,
        worker=worst.worker if worst.worker >= 0 and len(leaks) == 1 else None,
        pid=worst.pid if len(leaks) == 1 else None,
    )


def _room(host: HostWindow) -> tuple[float, str]:
    """Return the bytes of memory that are left, NaN if not known, and of what: "host" or "container".

    It is the host's memory or the control group's, whichever has less left.
    """
    room, what = host.newest("memory_available_bytes"), "host"
    group = host.newest("memory_limit_bytes") - host.newest("memory_used_bytes")
    if group < room or (math.isfinite(group) and not math.isfinite(room)):
        return group, "container"
    return room, what


def _epoch_left_s(leak: _Leak) -> float:
    """Return the seconds until this worker ends with its epoch, or has seen the whole dataset once.

    Infinite if that is not known or will not happen.
    """
    loader, span = leak.loader, leak.rank.span
    if (
        loader is None
        or loader.batches is None
        or span is None
        or span.loader != loader.loader
        or span.batch is None
    ):
        return math.inf
    stays = loader.persistent_workers or leak.worker < 0
    if stays and (span.epoch or 0) > 0:
        return math.inf
    steps = leak.rank.table("steps")
    own = steps["loader"] == loader.loader
    each_s = median((seconds(steps["wait_ns"]) + between_s(steps))[own])
    return (loader.batches - span.batch) * each_s if math.isfinite(each_s) else math.inf


def _per_sample(leak: _Leak) -> float:
    rows = leak.rank.table("fetches")
    own = (rows["worker"] == leak.worker) & (
        rows["request_ns"] >= leak.rank.made_ns - int(leak.rise.growth.span_s * 1e9)
    )
    samples = rows["samples"][own]
    total = float(samples[samples > 0].sum())
    return leak.rise.growth.grown / total if total > 0 and leak.worker >= 0 else math.nan
