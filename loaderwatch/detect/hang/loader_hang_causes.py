"""Why a loader delivers nothing, from the state of the awaited process: S22 S35 S36 S37 S41."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from loaderwatch.core.answers import Param, Text
from loaderwatch.core.facts import LoaderInfo, SpanInfo, StackDump
from loaderwatch.core.system import (
    CHILD_FUNCTIONS,
    FILE_LOCK_FUNCTIONS,
    PIPE_FUNCTIONS,
    SOCKET_FUNCTIONS,
    waits_in,
)
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.finding import Explanation
from loaderwatch.detect.measures.progress import WORKER_IDLE
from loaderwatch.detect.measures.stacks import Frame, main_frames, thread_places, waits_on_queue
from loaderwatch.detect.window import RankWindow


def loader_name(rank: RankWindow, span: SpanInfo) -> str | None:
    """Return the name of the span's loader, as attached or found in the script; None if unknown."""
    loader = rank.loader(span.loader)
    return None if loader is None else loader.name


def workers_of(rank: RankWindow, span: SpanInfo) -> list[SpanInfo]:
    """Return the workers of the span's loader; if the loader is unknown, the workers of all loaders."""
    return [w for w in rank.workers if span.loader is None or w.loader in (None, span.loader)]


def loader_evidence(rank: RankWindow, span: SpanInfo) -> Text:
    """Return the span's loader as evidence: its name, or "the loader"."""
    return Text("hang-loader", {"loader": loader_name(rank, span)})


def evaluates(rank: RankWindow, span: SpanInfo) -> bool:
    """Whether the span's loader feeds an evaluation: a validation or a test."""
    loader = rank.loader(span.loader)
    return loader is not None and loader.role == "eval"


_WAITERS: Final = threshold(8, "frames", "chosen: one of the innermost shows what kind of thread is awaited")
# Parts of the names of kernel functions in which a process waits for a file system or a disk.
_STORAGE: Final = (
    *("nfs", "rpc_", "fuse", "request_wait_answer", "cifs", "smb", "ceph", "p9_", "ptlrpc", "ll_", "cl_"),
    *("osc_", "mdc_", "io_schedule", "wait_on_page", "folio_", "lock_page", "bit_wait", "wait_on_bit"),
    *("wait_on_buffer", "bio_", "blk_", "rq_qos", "balance_dirty", "jbd2", "ext4", "xfs", "btrfs"),
    *("writeback", "wb_wait", "d_alloc_parallel", "rwsem_"),
)


def reason_of(
    rank: RankWindow, span: SpanInfo, worker: SpanInfo | None, frames: Sequence[Frame]
) -> Explanation:
    """Explain why a loader delivers nothing, by the state of its worker; None: no worker is known.

    ``frames``: the stack of that worker, else of the training process.
    """
    if worker is None:
        idle = [w for w in workers_of(rank, span) if w.phase == WORKER_IDLE]
        if idle:
            return _reason("S41", 0.75, "batch-lost-on-the-way", idle=len(idle))
        if waits_on_queue(frames):
            return producer_gone(rank.process.loaders)
        return blocked(span)
    if not worker.alive:
        return _reason("S37", 0.95, "worker-process-dead")
    if waits_on_queue(frames):
        return _reason("S35", 0.85, "worker-queue-never-filled")
    return blocked(worker)


def producer_gone(loaders: Sequence[LoaderInfo]) -> Explanation:
    """Explain a wait for a queue of this process that stays empty.

    ``loaders``: the rank's. A thread that read one may have ended with an error or before its pass did.
    """
    ended = next((loader for loader in loaders if loader.reader_error is not None), None)
    if ended is not None and not ended.reader_error:
        return _reason("S41", 0.9, "reader-thread-left", reader=ended.reader, loader=ended.name)
    if ended is not None:
        error = ended.reader_error
        return _reason("S41", 0.95, "reader-thread-died", reader=ended.reader, loader=ended.name, error=error)
    read = [loader for loader in loaders if loader.reader is not None]
    reader, name = (read[0].reader, read[0].name) if len(read) == 1 else (None, None)
    return _reason("S41", 0.8, "queue-never-filled", reader=reader, loader=name)


def thread_silent(dump: StackDump | None) -> Explanation:
    """Explain a wait for another thread of this process, or for a pool's result, that never comes.

    A process pool of ``multiprocessing`` restarts a killed worker and forgets its task. Threads of an
    executor that wait for tasks of the same executor keep these tasks from starting.
    """
    modules = [PurePath(frame.file).parts[-2:] for frame in main_frames(dump)[:_WAITERS]]
    if ("multiprocessing", "pool.py") in modules:
        return _reason("S35", 0.8, "pool-gives-no-sign")
    if any("futures" in parts for parts in modules):
        lines = [place.text for place in thread_places(dump.text)] if dump is not None else []
        return _reason("S35", 0.8, "future-gives-no-sign", lines=lines or None)
    return _reason("S35", 0.8, "thread-gives-no-sign")


def without_end(*, sleeps: bool = False) -> Explanation:
    """Explain S22: a process computes forever, or repeats the same forever and ``sleeps`` in between."""
    return _reason("S22", 0.85, "retries-without-end" if sleeps else "computes-without-end")


def blocked(process: SpanInfo, *, asked: bool = True) -> Explanation:
    """Explain why a process makes no progress, by its state and the kernel function in which it waits.

    ``asked``: for a worker, whether the loop waits for it.
    """
    state, wchan = process.os_state, process.wchan or ""
    worker = process.worker if process.worker >= 0 else None
    within: dict[str, Param] = {"wchan": wchan if wchan not in ("", "0") else None}
    if state == "R":
        return without_end()
    if state == "D" and (not within["wchan"] or any(mark in wchan for mark in _STORAGE)):
        return _reason("S36", 0.85, "storage-never-answers", **within)
    if state == "D":
        return _reason("S36", 0.7, "uninterruptible-wait", **within, pid=process.pid)
    if state in ("T", "t"):
        return _reason("S36", 0.9, "stopped-by-signal", worker=worker, pid=process.pid)
    if "futex" in wchan:
        return _reason("S35", 0.85, "lock-never-released", **within, worker=worker)
    if waits_in(FILE_LOCK_FUNCTIONS, wchan):
        return _reason("S36", 0.9, "file-lock-held", **within)
    if "wait_for_partner" in wchan:  # fs/pipe.c of Linux: open() of a FIFO
        return _reason("S36", 0.9, "named-pipe-never-opened", **within)
    if "nanosleep" in wchan:
        return _reason("S36", 0.75, "sleeps-in-own-code", **within)
    if waits_in(CHILD_FUNCTIONS, wchan):
        return _reason("S36", 0.8, "child-never-ends", **within, pid=process.pid)
    within |= {"pid": process.pid, "loops": worker is not None and asked}
    within["pipe"] = waits_in(PIPE_FUNCTIONS, wchan)
    if within["pipe"] or waits_in(SOCKET_FUNCTIONS, wchan):
        return _reason("S36", 0.75, "connection-never-answers", **within)
    return _reason("S36", 0.6, "something-never-answers", **within)


def _reason(scenario: str, confidence: float, rule: str, **params: Param) -> Explanation:
    return Explanation(scenario, confidence, rule=rule, params=params)
