"""``sample_timeout`` in the training process: a loader's limit, and the iterator that reads under the limit.

The iterator drops batches whose samples were all left out, and names the sample for which a worker was ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, NoReturn

import torch.distributed

from loaderwatch.agent.class_swap import hidden_subclass, keep_fields_quick
from loaderwatch.agent.guard import ask, in_own_language
from loaderwatch.agent.loaders.watch import Watch
from loaderwatch.agent.process.printed_once import say_once
from loaderwatch.agent.process.stack_signal import free_signals
from loaderwatch.agent.workers.deadline import Deadline, Signals, can_be_timed
from loaderwatch.agent.workers.ended_workers import ended_worker
from loaderwatch.agent.workers.sample_limit import EmptyBatch, SampleGuard, SampleLimit
from loaderwatch.agent.workers.stand_ins import limit_fetcher
from loaderwatch.core.errors import SampleTimeout

_classes: Final[dict[type, type]] = {}
_signals: Signals | None = None
_deadline: Deadline | None = None


def set_limit(watch: Watch, seconds: float, skip: bool, folder: str) -> None:
    """Set a loader's limit for its next workers; print a line if this system cannot enforce it."""
    global _signals
    if _signals is None and can_be_timed():
        free = free_signals()[-len(Signals._fields) :]
        _signals = Signals(*free) if len(free) == len(Signals._fields) else None
    if _signals is None:
        option = f"sample_timeout={seconds:g}"
        say_once(in_own_language("limit-needs-timers", option=option, loader=watch.name))
        return
    end_limit(watch)
    watch.limit = SampleLimit(seconds, skip, watch.loader, watch.name, _signals, folder, os.getpid())


def end_limit(watch: Watch) -> None:
    """Remove a loader's limit. Running workers keep it."""
    watch.limit = None
    if watch.sample_guard is not None:
        watch.sample_guard.over = True
        watch.sample_guard = None


def limit_in_process(fetcher: Any, watch: Watch) -> None:
    """Enforce the loader's limit, if any, in a fetcher of this process."""
    global _deadline
    limit = watch.limit
    if limit is None:
        return
    if watch.sample_guard is None:
        try:
            if _deadline is None or _deadline.pid != os.getpid():  # a forked child has no timers
                _deadline = Deadline(limit.signals)
        except (OSError, ValueError) as error:  # ValueError: only the main thread may have a signal handler
            impossible = {"option": limit.option, "loader": limit.name, "error": str(error)}
            say_once(in_own_language("limit-not-in-process", **impossible))
            watch.limit = None
            return
        watch.sample_guard = SampleGuard(limit, _deadline, -1, watch.recorder.ring)
    limit_fetcher(fetcher, watch.sample_guard)


def limit_iterator(iterator: Any, watch: Watch) -> None:
    """Swap the class of a new PyTorch iterator if its loader has a limit.

    The iterator keeps this class after ``detach``, because its workers keep the limit.
    """
    if watch.limit is None or type(iterator) in _classes.values():
        return
    iterator._loaderwatch_limit = watch.limit, watch.recorder.ring
    base = type(iterator)
    limited = _classes.get(base)
    if limited is None:
        limited = _classes[base] = hidden_subclass(base, {"__next__": _limited_next(base.__next__)})
    iterator.__class__ = limited
    keep_fields_quick(iterator)


def _limited_next(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def __next__(self: Any) -> Any:
        while True:
            try:
                batch = call(self)
            except StopIteration:
                raise
            except Exception:  # PyTorch's error for a dead worker, or EOFError for objects that it still held
                ended = _asked_twice(lambda: ended_worker(self._workers, *self._loaderwatch_limit))
                if ended is None:
                    raise
                raise ended from None
            if type(batch) is not EmptyBatch:
                return batch
            if _has_other_ranks():
                _raise_nothing_left(batch, self._loaderwatch_limit[0])

    return __next__


def _asked_twice(question: Callable[[], SampleTimeout | None]) -> SampleTimeout | None:
    """Ask twice: the worker may die during the first question, and PyTorch's SIGCHLD handler then raises."""
    return ask(question) or ask(question)


def _raise_nothing_left(batch: EmptyBatch, limit: SampleLimit) -> NoReturn:
    raise SampleTimeout(
        f"all {batch.samples} samples of a batch of {limit.name} took longer than {limit.option} and were"
        " left out. A rank that gets a batch less than the others would wait for them for ever."
        " Look at the samples that were named before, or use larger batches"
    )


def _has_other_ranks() -> bool:
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
