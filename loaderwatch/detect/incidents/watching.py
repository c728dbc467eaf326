"""Watching: what goes on longer than it usually does is said as the verdict within seconds, long before it is called hung."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loaderwatch.core.answers import Verdict
from loaderwatch.core.facts import LoaderInfo, PhaseName, SpanInfo
from loaderwatch.detect.measures.progress import LOADER_PHASES, STEP_PHASES, stack_of, trains_on
from loaderwatch.detect.measures.stacks import (
    Frame,
    collective,
    in_debugger,
    main_frames,
    saving,
    user_frame,
)
from loaderwatch.detect.measures.standstill import goes_on
from loaderwatch.detect.text import duration, sample_name
from loaderwatch.detect.window import RankWindow, RunWindow

_TERMINAL: Final = ("n_tty_read", "tty_read")  # somebody is asked
_DOES: Final[dict[PhaseName, str]] = {
    "idle": "idle",
    "fetch": "reading",
    "collate": "joining its samples",
    "starting": "starting",
}


@dataclass(frozen=True)
class _Open:
    """An open span of a training process that lasts longer than usual."""

    rank: RankWindow
    span: SpanInfo
    age_s: float
    frames: Sequence[Frame]  # of a stack that was taken in it, innermost first; empty where there is none

    @property
    def order(self) -> tuple[bool, bool, float]:
        """Return what makes it the one to tell: others that stand in an exchange wait for the one that is not in it."""
        exchanges = self.span.phase == "backward" or collective(self.frames) is not None
        return self.span.phase in LOADER_PHASES, not exchanges, self.age_s


def watched(window: RunWindow) -> Verdict | None:
    """Return what is known of the span that goes on for longer than it usually does; None while there is none.

    It may end in a moment, so nobody is woken: what lasts is told by the detectors. What a person does on purpose is no such
    span: a debugger, a prompt, and code outside the loops that does not come to its loader again, as far as its stack shows.
    """
    found = [item for _, rank in sorted(window.ranks.items()) if (item := _open(rank)) is not None]
    if not found:
        return None
    item = max(found, key=lambda one: one.order)
    who = f"Rank {item.rank.rank}" if len(window.ranks) > 1 else "Training"
    age = duration(item.age_s)
    if item.span.phase == "wait":
        title = f"{who} has waited {age} for {_batch(item)}{_worker(item)}; watching whether it comes."
    else:
        at = user_frame(item.frames)
        where = f", at {at}" if at is not None else ""
        title = f"{who} has been {_place(item)} for {age}{where}; watching whether it goes on."
    return Verdict(severity="info", title=title)


def _open(rank: RankWindow) -> _Open | None:
    span = rank.span
    if span is None:
        return None
    # In a step the model may be called again and again, as by an evaluation, or by a search that finds no end.
    since_ns = span.since_ns if span.step_since_ns is None else span.step_since_ns
    age_s = goes_on(rank, since_ns)
    if age_s is None or span.wchan in _TERMINAL:
        return None
    dump = stack_of(rank, -1, None)
    frames = main_frames(dump) if dump is not None and dump.taken_ns > since_ns else ()
    if in_debugger(frames) or not _is_to_go_on(rank, span, frames):
        return None
    return _Open(rank, span, age_s, frames)


def _is_to_go_on(rank: RankWindow, span: SpanInfo, frames: Sequence[Frame]) -> bool:
    """Whether something is to follow: outside its loops a process comes to its loader again, saves, or meets the other ranks."""
    if span.phase == "outside":
        return trains_on(rank, span) or saving(frames) or collective(frames) is not None
    return span.phase not in STEP_PHASES or trains_on(rank, span)


def _place(item: _Open) -> str:
    span = item.span
    if span.phase == "outside":
        if trains_on(item.rank, span):
            alone = item.rank.process.trains_without_loader
            return "between two steps" if alone else "between two passes over its loader"
        return "outside its loops" if span.batches else "before its first batch"
    if span.phase == "iter":
        return f"in iter() of {_loader_name(item)}"
    if span.phase == "teardown":
        return f"ending its pass over {_loader_name(item)}"
    if span.phase == "user":
        return f"in its phase {span.phase_name!r}" if span.phase_name else "in a phase of its own"
    info = _loader(item)
    if info is not None and info.role != "train":
        return f"at work with {_batch(item)}"
    return f"in step {span.step or 0}"


def _batch(item: _Open) -> str:
    """Return the batch in words, with its loader's name where the process has more than one."""
    what = "its next batch" if item.span.batch is None else f"batch {item.span.batch}"
    several = len(item.rank.process.loaders) > 1 and _loader(item) is not None
    return f"{what} of {_loader_name(item)}" if several else what


def _loader(item: _Open) -> LoaderInfo | None:
    return next((one for one in item.rank.process.loaders if one.loader == item.span.loader), None)


def _loader_name(item: _Open) -> str:
    info = _loader(item)
    return info.name if info is not None and info.name else "its loader"


def _worker(item: _Open) -> str:
    """Return where the worker is that the batch is awaited from; "" where that is not known."""
    span, rank = item.span, item.rank
    worker = next(
        (
            one
            for one in rank.workers
            if one.worker == span.awaited_worker and one.loader in (None, span.loader)
        ),
        None,
    )
    if worker is None:
        return ""
    if not worker.alive:
        return f"; worker {worker.worker} is dead"
    if worker.sample_index is None:
        return f"; worker {worker.worker} is {_DOES.get(worker.phase, 'busy')}"
    stream = any(one.loader == worker.loader and one.iterable_dataset for one in rank.process.loaders)
    return f"; worker {worker.worker} is in {sample_name(worker.sample_index, stream)}"
