"""What a dead training process left behind: its last words, the epoch that an error ended, its workers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from loaderwatch.core.answers import Evidence
from loaderwatch.core.ending import stopped_by
from loaderwatch.core.facts import LoaderInfo, ProcessInfo, SpanInfo
from loaderwatch.core.records import EndedBy
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.finding import observed
from loaderwatch.detect.measures.progress import WORKER_IDLE
from loaderwatch.detect.window import RankWindow

MOMENT_NS: Final = threshold(
    3_000_000_000, "ns", "chosen: what ended so shortly before the last sign of life belongs to the death"
)
_UNCAUGHT: Final = re.compile(r"uncaught (?P<error>.+)", re.DOTALL)
_WORKED: Final = (WORKER_IDLE, "fetch", "collate")


@dataclass(frozen=True)
class LeftEpoch:
    """The epoch that an uncaught error ended; its iterator was closed before the process died."""

    loader: LoaderInfo | None
    epoch: int
    phase: str  # where the error was raised: "iter" | "wait" | "step"


def output_evidence(process: ProcessInfo) -> list[Evidence]:
    """Return the last lines of the job's stdout and stderr, as far as they were kept."""
    return [
        observed("last-lines-of-stream", "\n".join(lines), "text", stream=name)
        for name, lines in process.last_lines.items()
    ]


def stopped(process: ProcessInfo) -> str | None:
    """Return how somebody stopped the process, "SIGTERM" or Ctrl-C; None if nobody is known to have."""
    return stopped_by(process.exit, process.exit_code) if process.state == "crashed" else None


def uncaught(process: ProcessInfo) -> str | None:
    """Return the error that killed the process, as "ValueError: loss is nan"; None when it named none."""
    match = _UNCAUGHT.fullmatch((process.exit or "").strip())
    return match["error"] if match else None


def last_sign_ns(rank: RankWindow) -> int:
    """Return when the process last showed that it lived, ns UTC: start, open span or newest reading."""
    processes = rank.table("processes")
    readings_ns = processes["t_ns"][processes["pid"] == rank.process.pid]
    signs = [rank.process.started_ns, *(int(t) for t in readings_ns[-1:])]
    if rank.span is not None:
        signs.append(rank.span.since_ns)
    return max(signs)


def left_epoch(rank: RankWindow) -> LeftEpoch | None:
    """Return the epoch that the uncaught error ended shortly before the death; None if there is none."""
    span, ends = rank.span, rank.table("epoch_ends")
    if uncaught(rank.process) is None or span is None or span.phase != "outside" or not ends["rank"].size:
        return None
    ended_by = ends["ended_by"][-1]
    if last_sign_ns(rank) - span.since_ns > MOMENT_NS or ended_by == EndedBy.EXHAUSTED:
        return None
    loader = loader_of(rank, int(ends["loader"][-1]))
    was_left = ended_by in (EndedBy.BREAK, EndedBy.LEFT_AFTER_DEATH)
    phase = "step" if was_left else "iter" if could_not_start(rank) else "wait"
    return LeftEpoch(loader, int(ends["epoch"][-1]), phase)


def could_not_start(rank: RankWindow) -> bool:
    """Whether ``iter(loader)`` raised or did not return. Such an epoch ends at the time at which it began."""
    if rank.span is not None and rank.span.phase == "iter":
        return True
    ends, begins = rank.table("epoch_ends"), rank.table("epoch_begins")
    if not ends["rank"].size or ends["ended_by"][-1] != EndedBy.ERROR:
        return False
    same = (begins["loader"] == ends["loader"][-1]) & (begins["epoch"] == ends["epoch"][-1])
    return bool((begins["request_ns"][same] == ends["request_ns"][-1]).any())


def loader_of(rank: RankWindow, number: int | None) -> LoaderInfo | None:
    """Return the loader with this number; None if the process did not report one."""
    return next((loader for loader in rank.process.loaders if loader.loader == number), None)


def workers_began(rank: RankWindow) -> bool:
    """Whether a worker ever worked: then starting the workers did not fail."""
    processes, fetches = rank.table("processes"), rank.table("fetches")
    began_ns = rank.process.started_ns
    return (
        bool(((fetches["worker"] >= 0) & (fetches["request_ns"] >= began_ns)).any())
        or bool(((processes["worker"] >= 0) & (processes["t_ns"] >= began_ns)).any())
        or any(worker.phase in _WORKED for worker in _own_workers(rank))
    )


def worker_of(rank: RankWindow, pid: int) -> SpanInfo | None:
    """Return the newest state of the worker with this pid; None if unknown. Its ring outlives the worker."""
    return next((worker for worker in _own_workers(rank) if worker.pid == pid), None)


def sample_at_death(worker: SpanInfo | None) -> int | None:
    """Return the index of the sample at which a worker died; None if it was reading none or is alive."""
    if worker is None or worker.alive or worker.phase != "fetch":
        return None
    return worker.sample_index


def dead_worker(rank: RankWindow) -> SpanInfo | None:
    """Return the dead worker; None if there is none, or several: the others were ended after the first."""
    dead = {worker.pid: worker for worker in _own_workers(rank) if not worker.alive}
    return next(iter(dead.values())) if len(dead) == 1 else None


def _own_workers(rank: RankWindow) -> list[SpanInfo]:
    """Return the workers of this process, without workers from before a restart of the rank."""
    return [w for w in (*rank.workers, *rank.last_workers) if w.since_ns >= rank.process.started_ns]
