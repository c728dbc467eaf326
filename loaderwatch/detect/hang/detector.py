"""Hung: nothing moves any more. Code ``hung``: S22 S35 S36 S37 S41 in the loader, S44 to S47 across ranks.

Hung and slow are different. Hung means an open span beyond its learned limit *and* no counter that moved.
People then need four facts, and every finding names those that are known: rank, worker, sample index, stack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.answers import Evidence, Param, Severity, Text
from loaderwatch.core.facts import SpanInfo
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import HUNG as CODE
from loaderwatch.detect.crash.killed import oom_kills
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Explanation, Finding, known_evidence, observed
from loaderwatch.detect.hang import collectives, outside_loops
from loaderwatch.detect.hang.expected_standstills import AT_WORK_FACTOR
from loaderwatch.detect.hang.flight_recorder import recorded
from loaderwatch.detect.hang.loader_hang_causes import (
    evaluates,
    loader_evidence,
    loader_name,
    reason_of,
    thread_silent,
    without_end,
    workers_of,
)
from loaderwatch.detect.hang.rank_positions import (
    Place,
    patience,
    place_evidence,
    places,
    whereabouts,
)
from loaderwatch.detect.measures.progress import (
    LOADER_PHASES,
    MAPPED_BYTES,
    WORKER_IDLE,
    Stuck,
    at_end,
    cpu_ratio,
    frames_now,
    grown_lately,
    stack_of,
)
from loaderwatch.detect.measures.stacks import (
    Frame,
    in_debugger,
    main_frames,
    user_frame,
    waits_for_thread,
    waits_on_queue,
)
from loaderwatch.detect.measures.statistics import mean
from loaderwatch.detect.window import RankWindow, RunWindow

COMPUTING_RATIO: Final = threshold(0.5, "ratio", "chosen: of one core; a process above it mostly computes")
UNHINDERED_RATIO: Final = threshold(
    0.8, "ratio", "chosen: of the readings that find a process running, ready or asleep for a set time"
)
BROUGHT_PART: Final = threshold(
    0.5, "ratio", "chosen: of the bytes a process reads; bytes from storage or a connection are new"
)
LITTLE_PER_S: Final = threshold(
    2**20, "bytes per s", "chosen: a process waits for a slower connection; others may receive as much"
)
COMPUTES_FACTOR: Final = threshold(
    2.0, "factor", "chosen: times the limit, for a process that computes while it reads possibly new bytes"
)


@dataclass(frozen=True, slots=True)
class Retries:
    """How a process repeats its try."""

    factor: float  # it counts as a hang after so many times its limit
    sleeps: bool  # between two tries


def retries_of(window: RunWindow, item: Stuck, process: SpanInfo) -> Retries | None:
    """Return how a process that reads repeats its try; None if it does not.

    ``process``: the worker to blame, or the training process; half of the wait or more in the same sample.
    """
    rank = item.rank
    half_ns = item.span.since_ns + (rank.made_ns - item.span.since_ns) // 2
    since_ns = process.sample_since_ns
    if since_ns is None and process.worker >= 0:
        since_ns = process.since_ns
    if not (item.reading and process.alive) or since_ns is None or since_ns > half_ns:
        return None
    rows = rank.table("processes")
    seen = (rows["pid"] == process.pid) & (rows["t_ns"] >= half_ns)
    runs, sleeps = mean((rows["state"][seen] == ord("R")).astype(np.float64)), mean(rows["timer_wait"][seen])
    sleeps = sleeps if sleeps == sleeps else 0.0  # not recorded
    computes = cpu_ratio(rank, process.pid, half_ns) >= COMPUTING_RATIO or runs >= UNHINDERED_RATIO
    if runs + sleeps >= UNHINDERED_RATIO and _from_memory(window, item, process):
        return Retries(1.0, sleeps=not computes and sleeps > runs)
    return Retries(COMPUTES_FACTOR, sleeps=False) if computes else None


def _from_memory(window: RunWindow, item: Stuck, process: SpanInfo) -> bool:
    """Whether a process reads from memory, not from storage or a connection; False if unknown."""
    rank, since_ns = item.rank, item.span.since_ns
    chars, stored = (grown_lately(rank, process.pid, since_ns, name) for name in ("read_chars", "read_bytes"))
    if not stored <= max(MAPPED_BYTES, BROUGHT_PART * chars):
        return False
    half_s = (rank.made_ns - since_ns) / 2e9
    if chars <= LITTLE_PER_S * half_s:
        return True
    host = window.hosts.get(rank.host)
    if host is None:
        return False
    second_half = host.hosts["t_ns"] >= rank.made_ns - int(half_s * 1e9)
    return mean(host.hosts["network_rx_bytes_per_s"][second_half]) * half_s <= BROUGHT_PART * chars


VANISHED_NS: Final = threshold(
    3_000_000_000, "ns", "chosen: a worker missing from three readings, one a second, has ended"
)


def detect(run: RunEvidence) -> list[Finding]:
    """Find what hangs: the longest stuck loader, else the ranks together, else a process outside its loops.

    Return at most one finding.
    """
    window, limits = run.window, run.limits
    found = [item for item in run.stuck if not in_debugger(frames_now(item.rank))]
    outside: list[Stuck] = []
    inside: list[Stuck] = []
    for item in found:
        has_left = at_end(item.rank, item.span) or (
            item.span.phase == "outside" and not outside_loops.is_to_train_on(item)
        )
        (outside if has_left else inside).append(item)
    if outside and outside_loops.wait_for_each_other(window, outside):
        inside, outside = [*inside, *outside], []
    in_loader = [item for item in inside if item.span.phase in LOADER_PHASES]
    if in_loader:
        oldest = max(in_loader, key=lambda item: item.age_s)
        hangs = [_loader_finding(run, oldest, in_loader, inside)]
    else:
        hangs = collectives.detect(window, inside, limits)
    return [recorded(finding, window) for finding in hangs] or outside_loops.outside(window, outside)


def _loader_finding(
    run: RunEvidence, item: Stuck, in_loader: list[Stuck], everything: list[Stuck]
) -> Finding:
    window, rank, span = run.window, item.rank, item.span
    worker = _culprit(rank, span)
    dump = stack_of(rank, worker.worker, worker.pid) if worker else None
    main = stack_of(rank, -1, None)
    own = main_frames(dump) if worker else main_frames(main)
    where = user_frame(own)
    retries = retries_of(window, item, worker or span)
    if retries:
        reason = without_end(sleeps=retries.sleeps)
    elif worker is None and waits_for_thread(own) and not waits_on_queue(own):
        reason = thread_silent(main)  # the dataset reads through a thread, for example an event loop
    else:
        reason = reason_of(rank, span, worker, own)
    kills = oom_kills(window.hosts.get(rank.host)) if reason.scenario == "S37" else 0
    index = worker.sample_index if worker else span.sample_index
    others = sorted(other.rank.rank for other in everything if other.rank.rank != rank.rank)
    severity: Severity = "critical"
    factor = retries.factor if retries else AT_WORK_FACTOR
    if item.reading and item.age_s < factor * item.limit_s:
        severity = "info"
    stands = places(run)
    time_left = patience([position for place in stands for position in place.positions])
    stacks = [stack for stack in (dump, main) if stack is not None]
    return Finding(
        key=f"{CODE}:rank{rank.rank}",
        loader=span.loader,
        code=CODE,
        scenario=reason.scenario,
        severity=severity,
        confidence=reason.confidence,
        began_ns=span.since_ns,
        rule=reason.rule,
        params=reason.params,
        frame=_title(item, worker, index, reason, window),
        also=[
            *_cause(item, worker, where, others, len(in_loader), retries, stands),
            *([Text("memory-kills-lately", {"kills": kills})] if kills else []),
            *([time_left.text] if time_left else []),
        ],
        evidence=[
            *_evidence(item, worker, index, where),
            *([observed("out-of-memory-kills", kills, "count")] if kills else []),
            *place_evidence(stands),
        ],
        rank=rank.rank,
        host=rank.host,
        worker=worker.worker if worker else None,
        pid=worker.pid if worker else span.pid,
        sample_indices=[index] if index is not None else [],
        lost_s=item.age_s,
        stacks=stacks,
    )


def _culprit(rank: RankWindow, span: SpanInfo) -> SpanInfo | None:
    """Return the worker to blame: the awaited one, else a dead or stopped one, else the one busy for longest.

    None when all are idle or none is known.
    """
    workers = workers_of(rank, span)
    for worker in workers:
        if worker.worker == span.awaited_worker and (worker.phase != WORKER_IDLE or _is_out(worker)):
            return worker
    out = [w for w in workers if _is_out(w)] or _vanished(rank, span)
    if out:
        return out[0]
    busy = [w for w in workers if w.phase != WORKER_IDLE]
    return min(busy, key=lambda w: w.sample_since_ns or w.since_ns, default=None)


def _vanished(rank: RankWindow, span: SpanInfo) -> list[SpanInfo]:
    """Return the workers that were seen earlier but have vanished: they died. The awaited worker comes first.

    A worker that is not awaited counts only if it was last seen when the hang began: its half-written message
    then blocks the shared queue. Workers of earlier epochs, or with their stream read, ended before.
    """
    rows = rank.table("processes")
    own = rows["loader"] == (-1 if span.loader is None else span.loader)
    here = {worker.worker for worker in rank.workers if worker.loader in (None, span.loader)}
    vanished = []
    for number in np.unique(rows["worker"][own & (rows["worker"] >= 0)]).tolist():
        newest = int(np.flatnonzero(own & (rows["worker"] == number))[-1])
        seen_ns = int(rows["t_ns"][newest])
        if number in here or rank.made_ns - seen_ns < VANISHED_NS:
            continue
        if number == span.awaited_worker or abs(seen_ns - span.since_ns) < VANISHED_NS:
            vanished.append(
                SpanInfo(
                    rank=rank.rank,
                    worker=number,
                    pid=int(rows["pid"][newest]),
                    phase="fetch",
                    since_ns=seen_ns,
                    loader=span.loader,
                    alive=False,
                )
            )
    return sorted(vanished, key=lambda worker: worker.worker != span.awaited_worker)


def _is_out(worker: SpanInfo) -> bool:
    """Whether a worker is dead or stopped, whatever its phase says."""
    return not worker.alive or worker.os_state in ("T", "t")


def _title(
    item: Stuck, worker: SpanInfo | None, index: int | None, reason: Explanation, window: RunWindow
) -> Text:
    rank, span = item.rank, item.span
    age_s = item.age_s
    if worker is not None and worker.alive:
        age_s = (rank.made_ns - (worker.sample_since_ns or worker.since_ns)) / 1e9
    stuck = "nobody" if index is None else "process"
    if worker is not None:
        stuck = "worker" if worker.alive else "dead-worker"
    params: dict[str, Param] = {
        "rank": rank.rank if len(window.ranks) > 1 else None,
        "evaluates": evaluates(rank, span),
        "stuck": stuck,
        "phase": span.phase,
        "loader": loader_name(rank, span),
        "worker": worker.worker if worker is not None else None,
        "pid": worker.pid if worker is not None else rank.process.pid,
        "age_s": age_s,
        "sample": index,
        "stream": _is_stream(item),
        "because": reason.said("because"),
    }
    return Text("loader-hangs", params)


def _is_stream(item: Stuck) -> bool:
    loader = item.rank.loader(item.span.loader)
    return loader is not None and bool(loader.iterable_dataset)


def _cause(
    item: Stuck,
    worker: SpanInfo | None,
    where: Frame | None,
    others: list[int],
    loaders: int,
    retries: Retries | None,
    stands: Sequence[Place],
) -> list[Text]:
    span = item.span
    waited: dict[str, Param] = {
        "evaluates": evaluates(item.rank, span),
        "waited_s": item.age_s,
        "usual_s": item.usual_s if math.isfinite(item.usual_s) else None,
        "phase": span.phase,
        "batch": span.batch,
        "loader": loader_name(item.rank, span),
    }
    seen = [Text("loader-waited-for", waited)]
    if where is not None:
        number = worker.worker if worker is not None else None
        seen.append(Text("process-stands-at", {"worker": number, "at": where.text}))
    if others:
        wait: dict[str, Param] = {"number": len(others), "ranks": others, "loaders": loaders > 1}
        seen.append(Text("ranks-wait-for-loader", wait))
        stand = whereabouts(stands)
        seen += [Text("ranks-stand-there", {"stands": stand})] if stand else []
    if retries:
        seen.append(Text("tries-again-asleep" if retries.sleeps else "tries-again-at-once"))
    elif item.reading:
        seen.append(Text("still-reads"))
    return seen


def _evidence(item: Stuck, worker: SpanInfo | None, index: int | None, where: Frame | None) -> list[Evidence]:
    process, workers = worker or item.span, workers_of(item.rank, item.span)
    return known_evidence(
        ("no-progress-for", item.age_s, "s"),
        ("limit-learned-for-this-phase", item.limit_s, "s"),
        ("phase", Text("phase-name", {"phase": item.span.phase}), "text"),
        ("loader", loader_evidence(item.rank, item.span), "text"),
        ("batch", item.span.batch, "index"),
        ("sample", index, "index"),
        ("blocked-at", where.text if where else None, "text"),
        ("process-state", process.os_state, "text"),
        ("waits-in-kernel-function", process.wchan if process.wchan not in ("", "0") else None, "text"),
        ("idle-workers", sum(w.phase == WORKER_IDLE for w in workers) if workers else None, "count"),
    )
