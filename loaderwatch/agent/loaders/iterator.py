"""The watched iterator: PyTorch's own gets its class swapped, any other a wrapper. Passes begin here, too."""

from __future__ import annotations

from collections.abc import Callable, Sized
from time import thread_time_ns
from typing import Any, Final

from torch.utils.data import dataloader

from loaderwatch.agent.accelerator import device_clock
from loaderwatch.agent.class_swap import hidden_subclass, keep_fields_quick
from loaderwatch.agent.guard import ask, shield
from loaderwatch.agent.hot import timed_next
from loaderwatch.agent.hot.layout import ENDING, Reader, nothing_to_read
from loaderwatch.agent.loaders.epoch import Epoch
from loaderwatch.agent.loaders.watch import Watch
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.records import UNKNOWN, EndedBy, IterKind, Phase

_classes: Final[dict[type, type]] = {}
_TORCH: Final[type | tuple[()]] = getattr(dataloader, "_BaseDataLoaderIter", ())
"""The base class of PyTorch's iterators; empty if its name has changed. Then they are wrapped like others."""


def is_torch_iterator(iterator: object) -> bool:
    """Whether this is one of PyTorch's own iterators, whose class can be swapped."""
    return isinstance(iterator, _TORCH)


def watch_iterator(iterator: Any, epoch: Epoch) -> None:
    """Swap the iterator's class; if it was swapped before (a reset iterator), only set the new epoch."""
    earlier = vars(iterator).get("_loaderwatch")
    if earlier is not None and earlier.ended is None:
        earlier.end(EndedBy.BREAK, epoch.request_ns, UNKNOWN)
    epoch.watch.passes.append(epoch)
    iterator._loaderwatch = epoch
    _read_in_one_frame(iterator, epoch)
    if type(iterator) not in _classes.values():
        iterator.__class__ = _watched_class(type(iterator))
        keep_fields_quick(iterator)


def _read_in_one_frame(iterator: Any, epoch: Epoch) -> None:
    """Let the hot path read the usual iterator itself: worker processes, map-style dataset, batches in order.

    Iterators with pinned memory are excluded: with them a GPU is timed, which the hot path does not do.
    """
    if epoch.read is nothing_to_read or _awaited_reader(iterator) is not _awaited_in_order:
        return
    if epoch.read(iterator)[0] != UNKNOWN:
        limit, free, pinned = _queue_of(iterator)
        if pinned == ():
            epoch.limit, epoch.free = limit, free


def unwatch_iterator(iterator: Any) -> None:
    """Restore the iterator's own class."""
    if type(iterator) in _classes.values():
        iterator.__class__ = type(iterator).__bases__[0]
        del iterator._loaderwatch


def _watched_class(base: type) -> type:
    watched = _classes.get(base)
    if watched is None:
        namespace = {
            "__next__": timed_next(base.__next__),  # type: ignore[attr-defined]
            "__del__": _timed_del(getattr(base, "__del__", None)),
        }
        if hasattr(base, "_shutdown_workers"):
            namespace["_shutdown_workers"] = _told_shutdown(base._shutdown_workers)
        watched = _classes[base] = hidden_subclass(base, namespace)
    return watched


def _told_shutdown(call: Callable[[Any], None]) -> Callable[[Any], None]:
    """Call the loader's tuner before the workers end, because their measurements end with them."""

    def _shutdown_workers(self: Any) -> None:
        epoch = self.__dict__.get("_loaderwatch")
        if epoch is not None and epoch.watch.tuner is not None:
            epoch.watch.tuner.leaving(self)
        call(self)

    return _shutdown_workers


def _timed_del(call: Any) -> Any:
    began_drop, ended_drop, how_left = shield(_began_drop), shield(_ended_drop), shield(_how_left)

    def __del__(self: Any) -> None:
        epoch = self.__dict__.get("_loaderwatch")
        began_ns = ended_by = None
        if epoch is not None and epoch.ended is None:
            began_ns, ended_by = began_drop(epoch), how_left(self)
        if call is not None:
            call(self)
        if began_ns is not None:
            ended_drop(epoch, began_ns, ended_by)

    return __del__


def _began_drop(epoch: Epoch) -> int:
    now = monotonic_ns()
    recorder = epoch.recorder
    recorder.cool()
    if not recorder.depth:
        epoch.publish(Phase.TEARDOWN, now, epoch.batch)
    return now


def _how_left(iterator: Any) -> EndedBy:
    """Return how an iterator is left before its end. This runs before its workers end."""
    died = any(worker.exitcode for worker in getattr(iterator, "_workers", ()))
    return EndedBy.LEFT_AFTER_DEATH if died else EndedBy.BREAK


def _ended_drop(epoch: Epoch, began: int, ended_by: EndedBy | None) -> None:
    epoch.end(ended_by or EndedBy.BREAK, began, monotonic_ns() - began)


def begin_pass(watch: Watch, persistent: Any = None) -> Epoch:
    """Begin an epoch when ``iter(loader)`` is entered.

    Args:
        watch: the loader's watch.
        persistent: the iterator that ``iter`` will reset; None if it makes a new one.
    """
    watch.refresh()
    recorder = watch.recorder
    if watch.gpu is None:
        watch.gpu = device_clock(recorder.ring)
    if recorder.step_loop is not None:
        recorder.step_loop.goes_on()
    epoch = Epoch(watch, recorder)
    if persistent is not None:
        earlier = getattr(persistent, "_loaderwatch", None)
        if isinstance(earlier, Epoch) and earlier.ended is None:
            # Persistent workers keep the iterator alive after a break, so the time of the break is unknown.
            earlier.end(EndedBy.BREAK, epoch.request_ns, UNKNOWN)
        outstanding = getattr(persistent, "_task_info", None)
        epoch.drained = len(outstanding) if isinstance(outstanding, dict) else UNKNOWN
        epoch.kind = IterKind.RESET
    if watch.ended_ns != UNKNOWN:
        epoch.gap_ns = epoch.request_ns - watch.ended_ns
    watch.sampler_ns = UNKNOWN
    watch.beginning = True
    watch.built.clear()
    recorder.cool()
    if not recorder.outer_waits(own=0):
        recorder.pause(epoch.request_ns, None)
        recorder.publish(Phase.ITER, epoch.request_ns, watch.loader, epoch.number)
    watch.began_cpu_ns = thread_time_ns()
    return epoch


def pass_begun(epoch: Epoch) -> None:
    """Note that ``iter(loader)`` returned."""
    now = monotonic_ns()
    epoch.iter_ns = now - epoch.request_ns
    epoch.iter_cpu_ns = thread_time_ns() - epoch.watch.began_cpu_ns
    epoch.watch.beginning = False
    recorder = epoch.recorder
    recorder.cool()
    if not recorder.depth:
        recorder.since_ns = now
        recorder.publish_outer(now)


def pass_failed(epoch: Epoch) -> None:
    """Note that ``iter(loader)`` raised."""
    pass_begun(epoch)
    epoch.open()
    epoch.end(EndedBy.ERROR, epoch.request_ns, epoch.iter_ns)


class WrappedIterator:
    """Wraps an iterator that is not PyTorch's and times its ``next``. Everything else is delegated."""

    def __init__(self, iterator: Any, epoch: Epoch) -> None:
        self._iterator = iterator
        self._loaderwatch = epoch
        epoch.watch.passes.append(epoch)

    def __iter__(self) -> WrappedIterator:
        return self

    __next__ = timed_next(lambda self: next(self._iterator))

    def __getattr__(self, name: str) -> Any:
        if name in ("_iterator", "_loaderwatch"):
            raise AttributeError(name)
        return getattr(self._iterator, name)

    __del__ = _timed_del(None)


def reader_of(iterator: Any) -> Reader:
    """Return the function that reads this iterator's state. It is chosen once, so the hot path never fails.

    Values that this PyTorch version or system does not offer are unknown. A reader receives the iterator in
    each call and never keeps it: a reference cycle would keep worker processes alive after a break.
    """
    if not hasattr(iterator, "_task_info"):
        return nothing_to_read
    for make in (_multiprocess_reader, _without_qsize):
        read = ask(lambda make=make: make(iterator))  # type: ignore[misc]
        if read is not None and ask(lambda read=read: read(iterator)) is not None:  # type: ignore[misc]
            return read  # type: ignore[no-any-return]
    return nothing_to_read


def _multiprocess_reader(iterator: Any) -> Reader:
    limit, free, pinned = _queue_of(iterator)
    awaited = _awaited_reader(iterator)

    def read(iterator: Any) -> tuple[int, int, int]:
        cached, worker = awaited(iterator)
        return limit - free() + len(pinned), cached, worker

    return read


def _queue_of(iterator: Any) -> tuple[int, Callable[[], int], Sized]:
    """Return the result queue's capacity, a function for its free places, and the batches already pinned."""
    results = iterator._worker_result_queue
    pinned = getattr(iterator, "_data_queue", results)
    # A multiprocessing queue's qsize() is capacity minus free places: a semaphore, no lock (not on macOS).
    # The pin-memory thread fills a queue.Queue. Its qsize() takes a lock, the deque's len() does not.
    return results._maxsize, results._sem._semlock._get_value, () if pinned is results else pinned.queue


def _without_qsize(iterator: Any) -> Reader:
    awaited = _awaited_reader(iterator)

    def read(iterator: Any) -> tuple[int, int, int]:
        return (UNKNOWN, *awaited(iterator))

    return read


def _awaited_reader(iterator: Any) -> Callable[[Any], tuple[int, int]]:
    """Return the function that reads the batches cached out of order and the worker of the next batch.

    ``_task_info`` maps an outstanding task to ``(worker,)`` and a received one to ``(worker, batch)``. So the
    tasks beyond ``_tasks_outstanding`` are cached. With an iterable dataset, a task of an ended worker is
    neither. Then the count is unknown, and such tasks are skipped as PyTorch skips them.
    """
    if iterator._dataset_kind == 1:  # _DatasetKind.Iterable
        return _awaited_of_iterable
    return _awaited_in_order if getattr(iterator, "_in_order", True) else _awaited_in_any_order


def _awaited_in_order(iterator: Any) -> tuple[int, int]:
    tasks = iterator._task_info
    if not tasks:
        return 0, ENDING
    return len(tasks) - iterator._tasks_outstanding, tasks[iterator._rcvd_idx][0]


def _awaited_in_any_order(iterator: Any) -> tuple[int, int]:
    tasks = iterator._task_info
    return len(tasks) - iterator._tasks_outstanding, UNKNOWN if tasks else ENDING


def _awaited_of_iterable(iterator: Any) -> tuple[int, int]:
    tasks = iterator._task_info
    status = iterator._workers_status
    cached = len(tasks) - iterator._tasks_outstanding if all(status) else UNKNOWN
    for task in range(iterator._rcvd_idx, iterator._send_idx):
        info = tasks.get(task)
        if info is not None and (len(info) == 2 or status[info[0]]):
            return cached, info[0] if getattr(iterator, "_in_order", True) else UNKNOWN
    return cached, ENDING
