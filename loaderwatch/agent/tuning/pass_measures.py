"""Measurements of one pass over a loader, from this process's and its workers' rings, for ``autotune``."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from loaderwatch.agent.tuning.trial import own_bytes
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.records import RECORD_FIELDS, UNKNOWN, ReadBy, RecordKind
from loaderwatch.core.ring import RingReader
from loaderwatch.core.system import PROC
from loaderwatch.pipeline.simulation import Pipeline, Setting

FEW: Final = 8
"""Minimum of steps and fetches of a measured pass: with fewer, their spread is unknown."""
MOST_ROWS: Final = 4096


@dataclass(frozen=True, slots=True)
class Measured:
    """One pass; times in seconds. ``wait_ratio`` is the share of waiting in its steady part, 0 to 1."""

    steps: int
    iteration_s: float
    wait_ratio: float
    workers: int
    pipeline: Pipeline
    batch_bytes: int
    worker_bytes: int | None


class PassClock:
    """Measures passes over one loader, one after the other.

    Args:
        folder: the folder of the rings.
        loader: the loader's number.
        cpus: the CPUs that loop and workers share.
    """

    def __init__(self, folder: Path, loader: int, cpus: float) -> None:
        self._folder = folder
        self._loader = loader
        self._cpus = cpus
        self._began_ns: int | None = None
        self._began_cpu_s = 0.0
        self._setting = Setting(0)
        self._found: Measured | None = None

    def begin(self, setting: Setting) -> None:
        """Note that a pass begins with this setting."""
        self._began_ns, self._began_cpu_s = monotonic_ns(), time.process_time()
        self._setting, self._found = setting, None

    def take(self, iterator: Any) -> None:
        """Measure the pass until now, while its iterator still has workers; only the first call counts."""
        if self._found is None and self._began_ns is not None:
            self._found = self._measure(iterator, self._began_ns)

    def measured(self) -> Measured | None:
        """Return the newest pass's measurements; None if there were too few."""
        return self._found

    def _measure(self, iterator: Any, since_ns: int) -> Measured | None:
        cpu_s = time.process_time() - self._began_cpu_s
        own = _rows(self._folder / f"main-{os.getpid()}.ring")
        workers = self._setting.num_workers
        steps = _columns(own, RecordKind.STEP, self._loader, since_ns)
        fetches = [_columns(own, RecordKind.FETCH, self._loader, since_ns)]
        if workers:
            paths = sorted(self._folder.glob(f"worker-{os.getpid()}-{self._loader}-*.ring"))
            fetches = [_columns(_rows(path), RecordKind.FETCH, self._loader, since_ns) for path in paths]
        fetch = {name: np.concatenate([f[name] for f in fetches]) for name in fetches[0]} if fetches else {}
        known = (
            (steps["step_ns"] != UNKNOWN)
            & (steps["wait_ns"] != UNKNOWN)
            & (steps["nested_ns"] != UNKNOWN)
            & (steps["off_main_thread"] != ReadBy.THREAD)
        )
        wait_s, step_s = steps["wait_ns"][known] / 1e9, (steps["step_ns"] + steps["nested_ns"])[known] / 1e9
        if not fetch or min(wait_s.size, fetch["fetch_ns"].size) < FEW:
            return None
        order = np.argsort(fetch["request_ns"], kind="stable")
        fetch = {name: values[order] for name, values in fetch.items()}
        # Before a pass, nothing is prefetched. The first batches then come all at once.
        warm = min(workers * self._setting.prefetch_factor, wait_s.size // 2) if workers else 1
        took_s = float((wait_s + step_s)[warm:].sum())
        if not took_s > 0:
            return None
        fetch_s, fetch_cpu_s = fetch["fetch_ns"] / 1e9, fetch["cpu_ns"] / 1e9
        fetch_free_s = np.maximum(fetch_s - fetch_cpu_s * _delay_per_cpu(iterator), fetch_cpu_s)
        fetch_cpus = float(fetch_cpu_s.sum() / max(1e-9, float(fetch_free_s.sum())))
        step_cpu_s = cpu_s if workers else max(0.0, cpu_s - float(fetch_cpu_s.sum()))
        ready = steps["ready"][known][warm:] > 0
        return Measured(
            steps=int(wait_s.size),
            iteration_s=took_s / (wait_s.size - warm),
            wait_ratio=float(wait_s[warm:].sum()) / took_s,
            workers=workers,
            pipeline=Pipeline(
                fetch_s=fetch_free_s,
                step_s=step_s,
                handover_s=float(np.median(wait_s[warm:][ready])) if workers and ready.any() else 0.0,
                fetch_cpus=fetch_cpus,
                step_cpus=min(self._cpus, step_cpu_s / max(1e-9, float(step_s.sum()))),
                cpus=self._cpus,
            ),
            batch_bytes=int(np.median(np.maximum(0, fetch["bytes"]))),
            worker_bytes=own_bytes(iterator) if iterator is not None else None,
        )


def _rows(path: Path) -> dict[RecordKind, list[tuple[int, ...]]]:
    """Return the newest records of a ring; none if the ring no longer exists."""
    try:
        reader = RingReader(path)
    except (OSError, LoaderwatchError):
        return {}
    try:
        return reader.drain(max(0, reader.pending(0) - MOST_ROWS)).records
    finally:
        reader.close()


def _columns(
    rows: dict[RecordKind, list[tuple[int, ...]]], kind: RecordKind, loader: int, since_ns: int
) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the columns of one kind of record of a loader, for requests since a time."""
    names = RECORD_FIELDS[kind]
    taken = np.array(rows.get(kind, []), dtype=np.int64).reshape(-1, len(names))
    columns = {name: taken[:, number] for number, name in enumerate(names)}
    ours = (columns["loader"] == loader) & (columns["request_ns"] >= since_ns)
    return {name: values[ours] for name, values in columns.items()}


def _delay_per_cpu(iterator: Any) -> float:
    """Return how long the workers were runnable without a CPU, per second of CPU time; 0 where unknown."""
    ran = waited = 0
    for worker in getattr(iterator, "_workers", ()):
        try:
            on_cpu, delayed, _ = (PROC / str(worker.pid) / "schedstat").read_text("ascii").split()
        except (OSError, ValueError):
            continue
        ran, waited = ran + int(on_cpu), waited + int(delayed)
    return waited / ran if ran else 0.0
