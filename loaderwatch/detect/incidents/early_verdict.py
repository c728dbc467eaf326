"""The early verdict: within seconds it names a span that lasts longer than usual, long before a hang."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loaderwatch.core.answers import Param, Verdict
from loaderwatch.core.facts import LoaderInfo, SpanInfo
from loaderwatch.detect.finding import verdict
from loaderwatch.detect.input_bound.message_names import code_line
from loaderwatch.detect.measures.progress import LOADER_PHASES, STEP_PHASES, TERMINAL, stack_of, trains_on
from loaderwatch.detect.measures.stacks import (
    Frame,
    collective,
    in_debugger,
    main_frames,
    saving,
    user_frame,
)
from loaderwatch.detect.measures.standstill import goes_on
from loaderwatch.detect.window import RankWindow, RunWindow

# The phases of a worker that the message `awaited-worker` names.
_DOES: Final = ("idle", "fetch", "collate", "starting")


@dataclass(frozen=True)
class _Open:
    """An open span of a training process that lasts longer than usual."""

    rank: RankWindow
    span: SpanInfo
    age_s: float
    frames: Sequence[Frame]  # of a stack taken during the span, innermost first; empty without one

    @property
    def order(self) -> tuple[bool, bool, float]:
        """Return the sort key: a loader phase first, then a rank in no exchange, because others await it."""
        exchanges = self.span.phase == "backward" or collective(self.frames) is not None
        return self.span.phase in LOADER_PHASES, not exchanges, self.age_s


def watched(window: RunWindow) -> Verdict | None:
    """Return a verdict on the span that lasts longer than usual; None if there is none.

    The span may end in a moment, so this is no alert: detectors report what lasts. Left out is what a person
    does on purpose: a debugger, a prompt, or code outside the loops whose stack does not lead back to the
    loader.
    """
    spans = [item for _, rank in sorted(window.ranks.items()) if (item := _open(rank)) is not None]
    if not spans:
        return None
    item = max(spans, key=lambda item: item.order)
    rank = item.rank.rank if len(window.ranks) > 1 else None
    params: dict[str, Param] = {"rank": rank, "age_s": item.age_s, **_batch(item)}
    if item.span.phase == "wait":
        return verdict("info", "batch-awaited", None, **params, **_worker(item))
    line = code_line(user_frame(item.frames))
    place: dict[str, Param] = {
        "where": _place(item),
        "step": item.span.step or 0,
        "phase": item.span.phase_name,
    }
    return verdict("info", "standing", None, **params, **place, line=line)


def _open(rank: RankWindow) -> _Open | None:
    span = rank.span
    if span is None:
        return None
    # One step may call the model many times (evaluation, an endless search): count from the step's start.
    since_ns = span.since_ns if span.step_since_ns is None else span.step_since_ns
    age_s = goes_on(rank, since_ns)
    if age_s is None or span.wchan in TERMINAL:
        return None
    dump = stack_of(rank, -1, None)
    frames = main_frames(dump) if dump is not None and dump.taken_ns > since_ns else ()
    if in_debugger(frames) or not _is_to_go_on(rank, span, frames):
        return None
    return _Open(rank, span, age_s, frames)


def _is_to_go_on(rank: RankWindow, span: SpanInfo, frames: Sequence[Frame]) -> bool:
    """Whether the process should go on: outside loops, if it will train, saves, or is in a collective."""
    if span.phase == "outside":
        return trains_on(rank, span) or saving(frames) or collective(frames) is not None
    return span.phase not in STEP_PHASES or trains_on(rank, span)


def _place(item: _Open) -> str:
    """Return where the process is, as the message ``standing`` expects it."""
    span = item.span
    if span.phase == "outside":
        if trains_on(item.rank, span):
            return "between-steps" if item.rank.process.trains_without_loader else "between-passes"
        return "outside" if span.batches else "before-first-batch"
    if span.phase == "iter":
        return "iter"
    if span.phase == "teardown":
        return "teardown"
    if span.phase == "user":
        return "own-phase"
    info = _loader(item)
    return "at-batch" if info is not None and info.role != "train" else "step"


def _batch(item: _Open) -> dict[str, Param]:
    """Return the parameters of the message ``which-batch``; it names the loader if there are several."""
    info = _loader(item)
    return {
        "batch": item.span.batch,
        "loader": info.name if info is not None and info.name else None,
        "of_loader": len(item.rank.process.loaders) > 1 and info is not None,
    }


def _loader(item: _Open) -> LoaderInfo | None:
    return next((info for info in item.rank.process.loaders if info.loader == item.span.loader), None)


def _worker(item: _Open) -> dict[str, Param]:
    """Return the parameters of the message ``awaited-worker``; the worker is None if it is not known."""
    span, rank = item.span, item.rank
    worker = next(
        (w for w in rank.workers if w.worker == span.awaited_worker and w.loader in (None, span.loader)), None
    )
    if worker is None:
        return {"worker": None, "worker_is": None, "sample": None, "stream": False}
    stream = any(info.loader == worker.loader and info.iterable_dataset for info in rank.process.loaders)
    doing = worker.phase if worker.phase in _DOES else "busy"
    at_sample = worker.sample_index is not None
    return {
        "worker": worker.worker,
        "worker_is": "dead" if not worker.alive else "at-sample" if at_sample else doing,
        "sample": worker.sample_index,
        "stream": stream,
    }
