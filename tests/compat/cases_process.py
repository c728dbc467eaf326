"""The process around the loader: hooks, signals, threads, children, profilers, tracers and warnings."""

from __future__ import annotations

import atexit
import faulthandler
import gc
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from tests.compat.case import ATTACHED, FORK, RUN, SPAWN, Watcher, batches, case
from tests.compat.datasets import Squares, Stream

mp: Any = torch.multiprocessing


def state_of_process() -> dict[str, Any]:
    """What a library may change behind one's back."""
    return {
        "signals": [str(signal.getsignal(number)) for number in range(1, int(signal.SIGRTMIN))],
        "excepthooks": [
            sys.excepthook is sys.__excepthook__,
            threading.excepthook is threading.__excepthook__,
        ],
        "unraisable": sys.unraisablehook is sys.__unraisablehook__,
        "tracers": [
            sys.gettrace(),
            sys.getprofile(),
            threading.gettrace() if sys.version_info > (3, 10) else None,
        ],
        "faulthandler": faulthandler.is_enabled(),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "collector": [gc.isenabled(), gc.get_threshold()],
        "recursion": sys.getrecursionlimit(),
        "switch": sys.getswitchinterval(),
        "streams": [sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
        "environment": sorted(
            name for name in os.environ if "LOADERWATCH" not in name and name != "PYTHONPATH"
        ),
        "directory": str(Path.cwd()) != "",
        "mask": [os.umask(0o22), os.umask(0o22)],
        "warnings": len(warnings.filters),
        "logging": [len(logging.root.handlers), logging.root.level, logging.raiseExceptions],
        "torch threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "gradients": torch.is_grad_enabled(),
        "dtype": str(torch.get_default_dtype()),
        "method": multiprocessing.get_start_method(),
        "sharing": mp.get_sharing_strategy(),
        "children": len(multiprocessing.active_children()),
        "exit": atexit._ncallbacks() - ("loaderwatch" in sys.modules),
        "callbacks": len(gc.callbacks) - ("loaderwatch.agent.process.garbage" in sys.modules),
    }


@case(alone=True)
def process_state(watch: Watcher) -> Any:
    """Of ours are one callback at exit, one of the collector, and the handler of a real-time signal."""
    seen = [batches(watch(DataLoader(Squares(), 4, num_workers=n))) for n in (0, 2)]
    for thread in threading.enumerate():
        if thread.name == "QueueFeederThread":
            thread.join(10)  # PyTorch closes its queues and does not wait
    return [seen, state_of_process()]


@case(alone=True, quick=(FORK, ATTACHED, RUN))
def said_at_exit(watch: Watcher) -> Any:
    """Output, order of exit functions, exit code."""
    atexit.register(print, "first registered")
    loader = watch(DataLoader(Squares(), 4, num_workers=2, persistent_workers=True))
    atexit.register(print, "last registered")
    for batch in loader:
        print("sum", batch.sum().item())
    print("to stderr", file=sys.stderr)


@case(alone=True, options=("-W", "error"))
def warnings_are_errors(watch: Watcher) -> Any:
    """``python -W error``."""
    return [batches(watch(DataLoader(Squares(), 4, num_workers=n))) for n in (0, 1)]


@case(alone=True, options=("-X", "dev", "-b"), long=True)
def development_mode(watch: Watcher) -> Any:
    """``python -X dev`` reports unclosed resources and deprecations at exit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # PyTorch's own
        return [batches(watch(DataLoader(Squares(), 4, num_workers=n))) for n in (0, 1)]


@case(alone=True, options=("-O",), long=True)
def without_asserts(watch: Watcher) -> Any:
    """``python -O``."""
    return batches(watch(DataLoader(Stream(), 4, num_workers=1)))


@case(alone=True, streamer=True, long=True)
def with_a_streamer(watch: Watcher) -> Any:
    """A streamer reads along, and asks for stacks by signal while a step is slow."""
    loader = watch(DataLoader(Squares(), 4, num_workers=1))
    seen = []
    for batch in loader:
        seen.append(batch)
        if len(seen) == 3:
            began = time.monotonic()
            time.sleep(3.0)  # is not cut short by a signal
            seen.append(time.monotonic() - began >= 3.0)
    return seen


def own_loader(watch: Watcher) -> None:
    """What a child process does."""
    torch.manual_seed(3)
    seen = batches(watch(DataLoader(Squares(), 5, shuffle=True, num_workers=1)))
    print("child", [batch.tolist() for batch in seen], len(multiprocessing.active_children()), flush=True)


@case(alone=True, long=True)
def forked_process(watch: Watcher) -> Any:
    """``os.fork`` of the training process, which goes on, between epochs and within one."""
    loader = watch(DataLoader(Squares(), 4, shuffle=True))
    seen = [batches(loader)]
    for number, batch in enumerate(loader):
        seen.append(batch)
        if number != 1:
            continue
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            own_loader(watch)
            print("rest", sum(len(rows) for rows in batches(loader)), flush=True)
            os._exit(7)
        print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    return [*seen, batches(loader)]


@case(alone=True, long=True)
def multiprocessing_child(watch: Watcher) -> Any:
    """A child that makes its own loader."""
    seen = batches(watch(DataLoader(Squares(), 4)))
    child = multiprocessing.get_context("fork").Process(target=own_loader, args=(watch,))
    child.start()
    child.join(100)
    return [*seen, child.exitcode]


def spawned(rank: int, watch: Watcher) -> None:
    """A rank."""
    torch.manual_seed(rank)
    seen = batches(
        watch(DataLoader(Squares(), 5, shuffle=True, num_workers=1, multiprocessing_context="fork"))
    )
    if rank == 0:
        print("rank", rank, [batch.tolist() for batch in seen], flush=True)
    else:
        raise ValueError(f"rank {rank} has had enough")


@case(alone=True, unwatched=True, long=True)
def spawned_ranks(watch: Watcher) -> Any:
    """``torch.multiprocessing.spawn``, one of whose ranks fails."""
    from tests.compat.case import failure

    return failure(lambda: mp.spawn(spawned, (watch,), nprocs=1)), failure(
        lambda: mp.spawn(failing, (watch,), nprocs=1)
    )


def failing(rank: int, watch: Watcher) -> None:
    """A rank that fails."""
    spawned(rank + 1, watch)


@case()
def profiler(watch: Watcher) -> Any:
    """PyTorch's profiler sees the loader's ranges under its names, as often as before, and none of ours."""
    seen: list[Any] = []
    for n in (0, 1):
        loader = watch(DataLoader(Squares(), 4, num_workers=n))
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            seen += batches(loader)
        names = [(one.key, one.count) for one in profile.key_averages() if "aten" not in one.key]
        seen.append(sorted(names))
        with torch.autograd.profiler.profile() as old:
            seen += batches(loader)
        seen.append(sorted((one.key, one.count) for one in old.key_averages() if "DataLoader" in one.key))
    del profile, old
    gc.collect()  # the profilers are cycles, and hold the batches' memory
    return seen


@case()
def traced(watch: Watcher) -> Any:
    """``sys.settrace``, as coverage and debuggers do: the user's lines are traced as before."""
    lines: list[Any] = []

    def trace(frame: Any, event: str, argument: Any) -> Any:
        # attach asks for the length of the dataset once, for the page
        if frame.f_code.co_filename.endswith("datasets.py") and frame.f_code.co_name != "__len__":
            lines.append((frame.f_code.co_name, event, frame.f_lineno))
            return trace
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        seen = batches(watch(DataLoader(Squares(6), 2)))
    finally:
        sys.settrace(before)
    return [seen, lines, sys.gettrace() is before]


@case()
def profiled(watch: Watcher) -> Any:
    """``cProfile`` counts the calls of the user's functions as before."""
    import cProfile
    import pstats

    profile = cProfile.Profile()
    seen = profile.runcall(batches, watch(DataLoader(Squares(), 4)))
    stats: Any = pstats.Stats(profile)
    counts = sorted(
        (key[2], value[0])
        for key, value in stats.stats.items()
        if "datasets.py" in key[0] and key[2] != "__len__"
    )
    return [seen, counts]


@case(keeps="socket:[N]")
def sharing_by_files(watch: Watcher) -> Any:
    """``set_sharing_strategy('file_system')``."""
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy("file_system")
    try:
        seen = batches(watch(DataLoader(Squares(), 4, num_workers=2)))
    finally:
        mp.set_sharing_strategy(before)
    gc.collect()
    return seen


@case()
def signals_of_the_users(watch: Watcher) -> Any:
    """Handlers that were set before and after are called while the loop waits."""
    called: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: called.append(number))
    seen: list[Any] = []
    try:
        for batch in watch(DataLoader(Squares(), 4, num_workers=1)):
            os.kill(os.getpid(), signal.SIGUSR1)
            seen.append(batch)
    finally:
        signal.signal(signal.SIGUSR1, before)
    return [seen, called]


@case(methods=(SPAWN,), alone=True)
def main_module_is_imported_once(watch: Watcher) -> Any:
    """A spawned worker imports what it did."""
    return batches(watch(DataLoader(Squares(4), 2, num_workers=1)))
