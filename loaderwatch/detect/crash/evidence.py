"""What a dead training process left behind: its last words, the epoch an error threw it out of, its workers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from loaderwatch.core.facts import LoaderInfo, ProcessInfo, SpanInfo
from loaderwatch.core.records import EndedBy
from loaderwatch.detect.measures.progress import WORKER_IDLE
from loaderwatch.detect.window import RankWindow

MOMENT_NS: Final = 3_000_000_000
"""An error that ends an epoch ends the process within this; longer, and something else went on in between."""
_UNCAUGHT: Final = re.compile(r"uncaught (?P<error>.+)", re.DOTALL)
_INTERRUPT: Final = re.compile(r"uncaught KeyboardInterrupt\b")
_WORKED: Final = (WORKER_IDLE, "fetch", "collate")


@dataclass(frozen=True)
class LeftEpoch:
    """The epoch that the process was in when an error threw it out: by then its iterator has been closed."""

    loader: LoaderInfo | None
    epoch: int
    phase: str  # "iter" | "wait" | "step": where the error came up


def interrupted(process: ProcessInfo) -> bool:
    """Whether it ended by Ctrl-C: SIGINT, which Python turns into an exception."""
    return _INTERRUPT.match(process.exit or "") is not None


def uncaught(process: ProcessInfo) -> str | None:
    """The error it died of, "ValueError: loss is nan"; None when it named none."""
    found = _UNCAUGHT.fullmatch((process.exit or "").strip())
    return found["error"] if found else None


def last_sign_ns(rank: RankWindow) -> int:
    """UTC of the last thing that shows it alive: its open span's begin, or the last sample of the process."""
    processes = rank.table("processes")
    mine = processes["t_ns"][processes["pid"] == rank.process.pid]
    signs = [rank.process.started_ns, *(int(t) for t in mine[-1:])]
    if rank.span is not None:
        signs.append(rank.span.since_ns)
    return max(signs)


def left_epoch(rank: RankWindow) -> LeftEpoch | None:
    """The epoch that its uncaught error left within a moment of the death; None when it was in none."""
    span, ends = rank.span, rank.table("epoch_ends")
    if uncaught(rank.process) is None or span is None or span.phase != "outside" or not ends["rank"].size:
        return None
    ended_by = ends["ended_by"][-1]
    if last_sign_ns(rank) - span.since_ns > MOMENT_NS or ended_by == EndedBy.EXHAUSTED:
        return None
    loader = loader_of(rank, int(ends["loader"][-1]))
    phase = "step" if ended_by == EndedBy.BREAK else "iter" if could_not_start(rank) else "wait"
    return LeftEpoch(loader, int(ends["epoch"][-1]), phase)


def could_not_start(rank: RankWindow) -> bool:
    """Whether ``iter(loader)`` raised, or was not through when it died: such an epoch ends where it began."""
    if rank.span is not None and rank.span.phase == "iter":
        return True
    ends, begins = rank.table("epoch_ends"), rank.table("epoch_begins")
    if not ends["rank"].size or ends["ended_by"][-1] != EndedBy.ERROR:
        return False
    same = (begins["loader"] == ends["loader"][-1]) & (begins["epoch"] == ends["epoch"][-1])
    return bool((begins["request_ns"][same] == ends["request_ns"][-1]).any())


def loader_of(rank: RankWindow, number: int | None) -> LoaderInfo | None:
    """The loader of that number, if the process told of it."""
    return next((loader for loader in rank.process.loaders if loader.loader == number), None)


def workers_began(rank: RankWindow) -> bool:
    """Whether a worker ever got as far as its work: then starting them did not fail."""
    processes, fetches = rank.table("processes"), rank.table("fetches")
    began_ns = rank.process.started_ns
    return (
        bool(((fetches["worker"] >= 0) & (fetches["request_ns"] >= began_ns)).any())
        or bool(((processes["worker"] >= 0) & (processes["t_ns"] >= began_ns)).any())
        or any(worker.phase in _WORKED for worker in _own_workers(rank))
    )


def worker_of(rank: RankWindow, pid: int) -> SpanInfo | None:
    """The worker with this pid as it was last seen; what it was doing is in its ring also after its death."""
    return next((worker for worker in _own_workers(rank) if worker.pid == pid), None)


def sample_at_death(worker: SpanInfo | None) -> int | None:
    """The sample it died at; None when it was reading none, or was last seen while it still lived."""
    if worker is None or worker.alive or worker.phase != "fetch":
        return None
    return worker.sample_index


def _own_workers(rank: RankWindow) -> list[SpanInfo]:
    """Not those of a process that had the rank before a restart."""
    return [
        worker for worker in (*rank.workers, *rank.last_workers) if worker.since_ns >= rank.process.started_ns
    ]
