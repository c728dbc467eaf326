"""The worker probe: a ``worker_init_fn`` that watches its DataLoader worker from inside.

It is pickled to spawned workers, so it has plain values only. It runs the user's own ``worker_init_fn`` last,
so an error of that function is raised as before.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, Final

from torch.utils import data as torch_data

from loaderwatch.agent.frames import trim_frames
from loaderwatch.agent.guard import guard, in_own_language, say, shield
from loaderwatch.agent.process.garbage import watch_collections
from loaderwatch.agent.process.readable_thread import publish_thread
from loaderwatch.agent.process.stack_signal import register_stacks
from loaderwatch.agent.workers.failed_sample import mark
from loaderwatch.agent.workers.fetch import FetchClock, watch_fetcher
from loaderwatch.agent.workers.sample_limit import SampleLimit
from loaderwatch.agent.workers.stand_ins import limit_worker
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.records import Phase
from loaderwatch.core.ring import WORKER_CAPACITY, RingIdentity, RingStatus, RingWriter

MAX_WORKER_RINGS: Final = 1024
"""How many worker rings a run's folder may hold (94 kB each); later workers are not watched."""


class WorkerProbe:
    """Watches the worker in which it is called."""

    def __init__(
        self,
        folder: str,
        parent_pid: int,
        loader: int,
        stack_signal: int,
        init: Callable[[int], None] | None,
        limit: SampleLimit | None = None,
    ) -> None:
        self.folder = folder
        self.parent_pid = parent_pid
        self.loader = loader
        self.stack_signal = stack_signal
        self.init = init
        self.limit = limit

    def __call__(self, worker_id: int) -> None:
        if os.getpid() != self.parent_pid:  # a worker may also be a thread of the training process
            ring = shield(watch_worker)(self, worker_id)
            if self.limit is not None:
                shield(limit_worker)(self.limit, worker_id, ring)
        if self.init is not None:
            self.init(worker_id)


def watch_worker(probe: WorkerProbe, worker_id: int) -> RingWriter | None:
    """Open the worker's ring and time every fetch from now on; return the ring, or None without one."""
    folder = Path(probe.folder)
    pid = os.getpid()
    name = f"worker-{probe.parent_pid}-{probe.loader}-{worker_id}-{pid}"
    try:
        with os.scandir(folder) as files:
            rings = sum(file.name.startswith("worker-") and file.name.endswith(".ring") for file in files)
        if rings >= MAX_WORKER_RINGS:
            return None
        ring = RingWriter(
            folder / f"{name}.ring",
            RingIdentity(pid, probe.parent_pid, probe.loader, worker_id, monotonic_ns()),
            WORKER_CAPACITY,
        )
    except OSError as error:
        if _is_first(folder / f"main-{probe.parent_pid}.unwatched"):
            why = str(error.strerror)
            say(in_own_language("worker-not-recorded", worker=worker_id, folder=str(folder), why=why))
        return None
    shield(publish_thread)(ring)
    ring.set_span(Phase.STARTING, monotonic_ns(), probe.loader)
    registered = register_stacks(folder / f"{name}.stack", probe.stack_signal)
    stack_signal = probe.stack_signal if registered else 0
    guard.reset()  # a forked worker inherits the training process's count of faults
    guard.on_fault = lambda: _publish(ring, stack_signal, finished=False)
    guard.on_fault()
    # A worker ends without running atexit.
    Finalize(None, _publish, args=(ring, stack_signal), kwargs={"finished": True}, exitpriority=-100)
    watch_collections(ring, worker_id)
    time_fetchers(FetchClock(ring, probe.loader, worker_id))
    trim_tracebacks()
    return ring


def _is_first(mark: Path) -> bool:
    """Whether this worker is its training process's first to report this; each epoch may start workers."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        return True
    return True


def _publish(ring: RingWriter, stack_signal: int, *, finished: bool) -> None:
    """Publish the worker's status; ``finished`` means that the worker was asked to end and is ending."""
    ring.set_status(RingStatus(finished, stack_signal, guard.faults, guard.tripped))


def time_fetchers(clock: FetchClock) -> None:
    """Time every fetcher that this process creates from now on."""
    kind: Any = getattr(torch_data, "_DatasetKind", None)
    create = getattr(kind, "create_fetcher", None)
    if create is None:
        return  # this version of PyTorch creates fetchers elsewhere, so fetches are unknown
    watch = shield(watch_fetcher)
    idle = shield(clock.idle)

    def create_fetcher(*args: Any, **kwargs: Any) -> Any:
        fetcher = create(*args, **kwargs)
        watch(fetcher, clock)
        idle()
        return fetcher

    kind.create_fetcher = staticmethod(create_fetcher)


def trim_tracebacks() -> None:
    """Remove our frames from the traceback of a worker's error that is sent, and note the sample."""
    torch_worker: Any = getattr(getattr(torch_data, "_utils", None), "worker", None)
    wrap = getattr(torch_worker, "ExceptionWrapper", None)
    if wrap is None:
        return
    trim, note = shield(trim_frames), shield(mark)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        trim(sys.exc_info()[2])
        wrapper = wrap(*args, **kwargs)
        note(wrapper)
        return wrapper

    torch_worker.ExceptionWrapper = wrapped
