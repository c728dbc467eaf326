"""``python -m tests.compat.child ORDER``: runs cases one after the other in one way and writes their results.

ORDER is a JSON object: module, way, method, cases, alone, out. ``out`` gets one line of JSON when a case
begins and one with its result when it ends. So a process that dies leaves everything up to its death.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from torch.utils.data.dataloader import _BaseDataLoaderIter

from tests.compat.case import (
    ATTACHED,
    BARE,
    EVERYTHING,
    FORK,
    FORKSERVER,
    Case,
    Watcher,
    cases_of,
    described,
    failure,
    generators,
    plain_text,
    seed,
)

STACKS: Final = signal.SIGPROF
"""Has the process write the stacks of its threads; to find out where it stands when its time is over."""

SETTLE_S: Final = 10.0
"""How long workers, threads and pipes that were asked to end may take until they count as left behind."""


class Started:
    """The processes that multiprocessing starts here: how many, and which of them are still there."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        start = BaseProcess.start

        def noted(process: BaseProcess) -> None:
            start(process)
            if process.pid is not None:
                self.pids.append(process.pid)

        BaseProcess.start = noted  # type: ignore[method-assign,assignment]

    def left(self) -> int:
        """How many are still there."""
        multiprocessing.active_children()  # waits for those that have ended
        return sum(_alive(pid) for pid in self.pids)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def _output(path: Path) -> Iterator[None]:
    """What this process and its workers write to stdout and stderr goes to the file."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, before in enumerate(saved, 1):
            os.dup2(before, number)
            os.close(before)


def _open_files() -> Counter[str]:
    links: Counter[str] = Counter()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            link = re.sub(r"\d+", "N", str(entry.readlink()))
        except OSError:
            continue
        # of the process, once: `loaderwatch run` opens them with the first loader that is iterated
        if not re.search(r"/dev/shm/loaderwatch-.*/main-N\.(ring|stack)$", link):
            links[link] += 1
    return links


def _threads() -> Counter[str]:
    names = (re.sub(r"\d+", "N", thread.name) for thread in threading.enumerate())
    # Inductor, where it was used, starts a pool when it likes, with us and without.
    pool = "ThreadPoolExecutor" if "torch._inductor" in sys.modules else None
    return Counter(name for name in names if pool is None or not name.startswith(pool))


def _difference(before: Counter[str], after: Counter[str]) -> list[list[Any]]:
    return [[one, after[one] - before[one]] for one in sorted({*before, *after}) if after[one] != before[one]]


def _iterators() -> int:
    """How many loader iterators are alive. Only a collection of cycles frees them and their workers."""
    return sum(issubclass(type(one), _BaseDataLoaderIter) for one in gc.get_objects())


def _recorded() -> int:
    session: Any = sys.modules.get("loaderwatch.agent.session")
    opened = session and session.current_session()
    return int(opened.recorder.batches) if opened else 0


def _faults() -> list[str]:
    guard: Any = sys.modules.get("loaderwatch.agent.guard")
    return [repr(fault) for fault in guard.guard.reset()] if guard else []


def observe(one: Case, watcher: Watcher, started: Started, output: Path) -> dict[str, Any]:
    """Run one case in this process; what it saw, and what it left behind.

    Garbage collection is off meanwhile, so that a cycle of ours would show by live iterators and workers.
    PyTorch itself makes such a cycle when it re-raises an error of a worker.
    """
    gc.collect()
    gc.disable()
    seed()
    started.pids.clear()
    output.write_bytes(b"")
    began = time.monotonic()
    files, threads, recorded = _open_files(), _threads(), _recorded()

    with _output(output), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        # since Python 3.12: of the threads that PyTorch's queues leave for a moment; ours are counted below
        warnings.filterwarnings("ignore", ".* is multi-threaded, use of fork", DeprecationWarning)
        saw = described(failure(lambda: one.body(watcher)))
    kept = _iterators()
    if kept:
        gc.collect()
    give_up_at = time.monotonic() + SETTLE_S
    while (
        (left := started.left())
        or _threads() != threads
        or any(kind != one.keeps for kind, _ in _difference(files, _open_files()))
    ):
        if time.monotonic() > give_up_at:
            break
        time.sleep(0.01)
    seen = {
        "saw": saw,
        "generators": generators(),
        "workers": len(started.pids),
        "kept": kept,
        "left": left,
        "threads": _difference(threads, _threads()),
        "files": _difference(files, _open_files()),
        "output": plain_text(output.read_text(errors="replace")),
        "warnings": [
            [w.category.__name__, plain_text(str(w.message)), f"{w.filename}:{w.lineno}"] for w in warned
        ],
        "ours": {
            "recorded": _recorded() - recorded,
            "faults": _faults(),
            "seconds": round(time.monotonic() - began, 2),
        },
    }
    gc.enable()
    return seen


def alone(one: Case, watcher: Watcher) -> dict[str, Any]:
    """Run a case that may end the process; stdout and stderr are the parent's to read."""
    seed()
    saw = described(one.body(watcher))
    return {
        "saw": saw,
        "generators": generators(),
        "ours": {"recorded": _recorded(), "faults": _faults()},
    }


def main(order: dict[str, Any]) -> None:
    """Run what was ordered."""
    way, method = order["way"], order["method"]
    # Not dump_traceback_later: Python waits at exit for its thread, which a forked child does not have.
    faulthandler.register(STACKS, all_threads=True)
    multiprocessing.set_start_method(method)
    if method != FORK or not order["alone"]:
        resource_tracker.ensure_running()  # what multiprocessing keeps open is not the first case's
    if method == FORKSERVER:
        multiprocessing.set_forkserver_preload(["torch", order["module"]])
        forkserver.ensure_running()
    cases = cases_of(importlib.import_module(order["module"]))
    gc.freeze()  # each case collects, and need not walk torch to do so
    watcher = Watcher(way, method)
    if way == EVERYTHING:
        import loaderwatch

        loaderwatch.attach()
    elif way == ATTACHED and not order["alone"]:
        import loaderwatch

        loaderwatch.attach([])  # what a session keeps open is not the first case's
    out = Path(order["out"]).open("a", buffering=1)  # noqa: SIM115 - open as long as the process
    started = Started()
    scratch = Path(tempfile.mkdtemp(dir=Path(order["out"]).parent))
    for name in order["cases"]:
        print(json.dumps({"case": name}), file=out)
        if order["alone"]:
            seen = alone(cases[name], watcher)
        else:
            seen = observe(cases[name], watcher, started, scratch / "output")
        print(json.dumps({"case": name, "seen": seen}), file=out)
    if way == BARE and any(module.partition(".")[0] == "loaderwatch" for module in sys.modules):
        raise SystemExit("a bare run imported loaderwatch")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
