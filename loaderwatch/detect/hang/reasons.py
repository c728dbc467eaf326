"""Why a loader does not deliver, from the state of the process it waits for: S22 S35 S36 S37 S41."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from loaderwatch.core.facts import LoaderInfo, SpanInfo, StackDump
from loaderwatch.core.system import (
    CHILD_FUNCTIONS,
    FILE_LOCK_FUNCTIONS,
    PIPE_FUNCTIONS,
    SOCKET_FUNCTIONS,
    waits_in,
)
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.hang.awaited import workers_of
from loaderwatch.detect.measures.progress import WORKER_IDLE
from loaderwatch.detect.measures.stacks import Frame, main_frames, thread_places, waits_on_queue
from loaderwatch.detect.text import listing
from loaderwatch.detect.window import RankWindow

_WAITERS: Final = 8
"""Innermost frames of which one tells what kind of thread is awaited."""
_STORAGE: Final = (
    *("nfs", "rpc_", "fuse", "request_wait_answer", "cifs", "smb", "ceph", "p9_", "ptlrpc", "ll_", "cl_", "osc_", "mdc_"),
    *("io_schedule", "wait_on_page", "folio_", "lock_page", "bit_wait", "wait_on_bit", "wait_on_buffer", "bio_", "blk_"),
    *("rq_qos", "balance_dirty", "jbd2", "ext4", "xfs", "btrfs", "writeback", "wb_wait", "d_alloc_parallel", "rwsem_"),
)  # fmt: skip
"""Parts of the names of kernel functions in which a process waits for a file system or a disk."""

"""The same of those in which it waits for a lock on a file."""


def reason_of(
    rank: RankWindow, span: SpanInfo, worker: SpanInfo | None, frames: Sequence[Frame]
) -> Explanation:
    """Explain why a loader does not deliver, by the state of the worker that should (None: nobody is known).

    ``frames`` are the stack of that worker, else of the training process.
    """
    if worker is None:
        idle = [w for w in workers_of(rank, span) if w.phase == WORKER_IDLE]
        if idle:
            return _relay_dead(len(idle))
        if waits_on_queue(frames):
            return producer_gone(rank.process.loaders)
        return blocked(span, "the training process")
    if not worker.alive:
        return Explanation(
            "S37",
            0.95,
            "and the worker process is dead",
            advice="Look for an out-of-memory kill (dmesg, memory.events) or a crash of native code in that worker. Lower num_workers or"
            " prefetch_factor if memory is the reason, and do not swallow exceptions around next().",
        )
    if waits_on_queue(frames):
        return Explanation(
            "S35",
            0.85,
            "waiting on a queue that nobody fills",
            advice="What it waits for is brought, or put back, by code that did not get so far: an error between get() and put() loses it, and the"
            " worker's log may show it. Put back in `finally`, and use get(timeout=…). Where a thread should fill the queue, start it in the"
            " worker: threads do not outlive a fork.",
        )
    return blocked(worker, f"worker {worker.worker}")


def _relay_dead(idle: int) -> Explanation:
    return Explanation(
        "S41",
        0.75,
        f"although {'its only worker is' if idle == 1 else f'all {idle} workers are'} idle",
        advice="The workers have handed over their batches, but the message was lost on the way: look at the stack of the training"
        " process for a dead pin-memory or prefetch thread, and at the job's log for an exception in a thread.",
    )


def producer_gone(loaders: Sequence[LoaderInfo]) -> Explanation:
    """Explain a wait on a queue of this process that stays empty.

    ``loaders``: the rank's; one of them may have been read by a thread that has ended with an error, or before its pass did.
    """
    ended = next((one for one in loaders if one.reader_error is not None), None)
    if ended is not None and not ended.reader_error:
        return Explanation(
            "S41",
            0.9,
            f"and the loop waits for a thread that has ended: {ended.reader}, which read {ended.name} and left it before its end",
            advice="Look for what the thread catches: an error that it drops, or logs at a level that is not shown. Hand a thread's errors on"
            " through its queue, and use get(timeout=…) with a check that the thread is alive.",
        )
    if ended is not None:
        return Explanation(
            "S41",
            0.95,
            f"and the loop waits for a thread that has ended: {ended.reader}, which read {ended.name}, by {ended.reader_error}",
            advice=f"{ended.reader_error} ended the thread, and nobody told the loop: its message and line are in the job's log. Mend what"
            " it names. Hand a thread's errors on through its queue, and use get(timeout=…) with a check that the thread is alive.",
        )
    readers = [one for one in loaders if one.reader is not None]
    because = "and the loop waits on a queue that nobody fills"
    if len(readers) == 1:
        (one,) = readers
        because = f"and the loop waits on a queue that nobody fills: {one.reader}, which reads {one.name}, brings nothing"
    return Explanation(
        "S41",
        0.8,
        because,
        advice="The thread that fills the queue has ended or is stuck: look for its exception in the job's log. Hand its errors on through"
        " the queue, and use get(timeout=…) with a check that the thread is alive.",
    )


def thread_silent(dump: StackDump | None) -> Explanation:
    """Explain a wait for another thread of this process, or for what a pool is to do, which gives no sign.

    A process pool of ``multiprocessing`` starts a worker anew that was killed, and forgets what that one was at. Threads of an
    executor that wait for tasks of the same executor keep each other from beginning them.
    """
    modules = [PurePath(frame.file).parts[-2:] for frame in main_frames(dump)[:_WAITERS]]
    if ("multiprocessing", "pool.py") in modules:
        return Explanation(
            "S35",
            0.8,
            "waiting for a pool of processes or threads that gives no sign",
            advice="If a worker of multiprocessing.Pool was killed (dmesg, a limit of its own), its task is lost, and the pool waits for"
            " ever: use concurrent.futures.ProcessPoolExecutor, which raises BrokenProcessPool, or map_async(...).get(timeout). Else look"
            " with `py-spy dump` where its workers stand.",
        )
    if any("futures" in parts for parts in modules):
        places = thread_places(dump.text) if dump is not None else []
        stand = f"; its threads stand at {listing([str(place) for place in places])}" if places else ""
        return Explanation(
            "S35",
            0.8,
            f"waiting for a future that gives no sign{stand}",
            advice="A task that waits for another task of the same executor keeps a thread of it: once all do, none can begin. Give what"
            " tasks submit an executor of its own, and wait with result(timeout=...).",
        )
    return Explanation(
        "S35",
        0.8,
        "waiting for another thread of its own that gives no sign",
        advice="That thread has ended or is stuck: look for its exception in the job's log. Set an event in a `finally:`, and wait with a"
        " timeout and a check that the thread is alive.",
    )


def without_end(*, sleeps: bool = False) -> Explanation:
    """Explain S22: a process that computes for ever, or tries the same for ever and ``sleeps`` in between."""
    return Explanation(
        "S22",
        0.85,
        "trying the same again and again" if sleeps else "computing without an end",
        advice="Look at that sample and at the line named here: a retry loop, an augmentation that cannot succeed, a regular expression"
        " that backtracks without end, or a corrupt file in a decoder. Bound every retry and skip the sample with a log line.",
    )


def blocked(process: SpanInfo, who: str, *, asked: bool = True) -> Explanation:
    """Explain why a process does not get on, by its state and the kernel function that it waits in.

    ``asked`` means, of a worker, that the loop waits for it.
    """
    state, wchan = process.os_state, process.wchan or ""
    if state == "R":
        return without_end()
    if state == "D":
        return _uninterruptible(process, wchan)
    if state in ("T", "t"):
        return Explanation(
            "S36",
            0.9,
            "stopped by a signal",
            advice=f"Somebody stopped {who}: resume it with kill -CONT {process.pid}, or find out what froze it.",
        )
    if "futex" in wchan:
        return Explanation(
            "S35",
            0.85,
            f"waiting for a lock that nobody releases{_in(wchan)}",
            advice="See who holds the lock in the stacks of the training process."
            if process.worker < 0
            else "A lock was probably held by a thread when the worker was forked: create the loader before starting threads, use"
            ' multiprocessing_context="forkserver", open files and clients inside the worker, and limit library threads'
            " (cv2.setNumThreads(0), OMP_NUM_THREADS=1).",
        )
    if waits_in(FILE_LOCK_FUNCTIONS, wchan):
        return Explanation(
            "S36",
            0.9,
            f"waiting for a file lock that another process holds{_in(wchan)}",
            advice="`lslocks` shows who holds the lock, which may be a process of another job or host. Take it with a limit (LOCK_NB and a deadline),"
            " and hold it for as short as possible.",
        )
    if "wait_for_partner" in wchan:  # fs/pipe.c of Linux: open() of a FIFO
        return Explanation(
            "S36",
            0.9,
            f"opening a named pipe whose other end nobody opens{_in(wchan)}",
            advice="Put a file in its place, or start what should write to it: the stack shows the line that opens it, and `ls -l` a"
            " pipe as p. A dataset that lists a folder can leave out what is no regular file.",
        )
    if "nanosleep" in wchan:
        return Explanation(
            "S36",
            0.75,
            f"asleep in its own code{_in(wchan)}",
            advice="It sleeps for long, or again and again: look at the line named here. A loop that retries or polls needs a bound, and a"
            " line in the log for what it waits for.",
        )
    if waits_in(CHILD_FUNCTIONS, wchan):
        return Explanation(
            "S36",
            0.8,
            f"waiting for a child process that does not end{_in(wchan)}",
            advice=f"`ps --ppid {process.pid} -o pid,stat,wchan:24,cmd` shows the child and where it stands. One that hands results over by a"
            " queue or a pipe does not end before they are read: read them first, then join() it (of a subprocess, communicate()), and give"
            " the wait a timeout.",
        )
    what = "the network or a pipe" if waits_in((*SOCKET_FUNCTIONS, *PIPE_FUNCTIONS), wchan) else "something"
    return Explanation(
        "S36",
        0.75 if what != "something" else 0.6,
        f"waiting for {what} that never answers{_in(wchan)}",
        advice="Give every connection and read a timeout with bounded retries."
        + (
            " DataLoader(timeout=…) turns such a wait into an error; choose it longer than the slowest first batch."
            if process.worker >= 0 and asked
            else ""
        )
        + (
            f" If a program of its own is at the other end, `ps --ppid {process.pid} -o pid,stat,wchan:24,cmd` shows where that stands: in"
            " pipe_write, an output of it, such as stderr=PIPE, is full, since nobody reads it."
            if waits_in(PIPE_FUNCTIONS, wchan)
            else ""
        ),
    )


def _uninterruptible(process: SpanInfo, wchan: str) -> Explanation:
    if wchan in ("", "0") or any(mark in wchan for mark in _STORAGE):
        return Explanation(
            "S36",
            0.85,
            f"waiting for storage that does not answer{_in(wchan)}",
            advice="This is the storage, not your code: check the mount that it reads or writes (NFS, Lustre, FUSE; `df` hangs on a dead one)"
            " and the kernel log of the host.",
        )
    return Explanation(
        "S36",
        0.7,
        f"in an uninterruptible wait in the kernel{_in(wchan)}",
        advice=f"A driver or a mount does not answer. `sudo cat /proc/{process.pid}/stack` says which, and the kernel log names processes"
        " that have been blocked for more than 120 seconds. Signals, also SIGKILL, may only work once it is over.",
    )


def _in(wchan: str) -> str:
    return f" ({wchan})" if wchan not in ("", "0") else ""
