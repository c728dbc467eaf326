"""The device's clock: how long the GPU starved for each batch. The loop's own wait does not show that.

CUDA is asynchronous. The loop queues a step in a few milliseconds and then waits in ``next(loader)`` while
the GPU still computes. That wait costs nothing until the GPU runs out of work. CUDA events tell how long the
GPU starved for a batch (table ``gpu_waits``). That time is the data wait; the rest of the loop's wait counts
as part of the step, in which the GPU worked. An iteration takes equally long by either clock.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import ProcessInfo
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.wait_rules import KNOWN_RATIO

RankClock: TypeAlias = Literal["device", "nvml", "loop"]

# Columns that are copied from the events unchanged.
TOLD: Final = ("slack_ns", "gpu_step_ns", "starved_ns")


def by_device(steps: Columns, gpu_waits: Columns) -> Columns:
    """Return the table ``steps`` with the device's waits and four more columns, in ns.

    - ``starved_ns``: how long the device lacked the batch; UNKNOWN without an event.
    - ``slack_ns``: least work that the GPU had left when the batch was requested; UNKNOWN without an event.
    - ``gpu_step_ns``: how long the GPU then took for the step; UNKNOWN without an event.
    - ``hidden_ns``: the part of the loop's wait in which the GPU still had work. It is subtracted from
      ``wait_ns`` and added to ``step_ns``. UNKNOWN where only the loop's clock is known.

    A batch without an event gets the mean hidden share of its loader's other batches, if at least half of all
    have events. Without any event the same object is returned.
    """
    if not gpu_waits["request_ns"].size or not steps["request_ns"].size:
        return steps
    hidden_ns, event_columns = _hidden(steps, gpu_waits)
    if not (hidden_ns != UNKNOWN).any():
        return steps
    wait_ns, step_ns = steps["wait_ns"], steps["step_ns"]
    taken_ns = np.where(hidden_ns == UNKNOWN, 0, hidden_ns)
    left_ns = np.where(wait_ns == UNKNOWN, UNKNOWN, wait_ns - taken_ns)
    cpu_ns = steps["wait_cpu_ns"]
    return {
        **steps,
        "wait_ns": left_ns,
        "wait_cpu_ns": np.where(hidden_ns == UNKNOWN, cpu_ns, np.minimum(cpu_ns, left_ns)),
        "step_ns": np.where(step_ns == UNKNOWN, UNKNOWN, step_ns + taken_ns),
        "hidden_ns": hidden_ns,
        **event_columns,
    }


def _hidden(steps: Columns, gpu_waits: Columns) -> tuple[NDArray[np.int64], Columns]:
    """Return the hidden part of each wait, and the other columns from events, in ns, shape (steps,) each.

    The first is UNKNOWN where the loop's clock counts, the others where there is no event.
    """
    request_ns, wait_ns = steps["request_ns"], steps["wait_ns"]
    at = np.minimum(np.searchsorted(request_ns, gpu_waits["request_ns"]), request_ns.size - 1)
    fits = (request_ns[at] == gpu_waits["request_ns"]) & (steps["loader"][at] == gpu_waits["loader"])
    fits &= (gpu_waits["starved_ns"] != UNKNOWN) & (wait_ns[at] != UNKNOWN)
    rows = at[fits]
    hidden_ns = np.full(request_ns.size, UNKNOWN, dtype=np.int64)
    hidden_ns[rows] = np.maximum(0, wait_ns[rows] - gpu_waits["starved_ns"][fits])
    event_columns = {name: np.full(request_ns.size, UNKNOWN, dtype=np.int64) for name in TOLD}
    for name, values in event_columns.items():
        values[rows] = gpu_waits[name][fits]
    for loader in set(steps["loader"][rows].tolist()):
        own = (steps["loader"] == loader) & (wait_ns != UNKNOWN)
        known = own & (hidden_ns != UNKNOWN)
        own[: int(np.argmax(known))] = False  # before its first event this process did not use the device
        missing = own & ~known
        if int(known.sum()) < KNOWN_RATIO * int(own.sum()):
            hidden_ns[known] = UNKNOWN
        elif missing.any():
            waited_ns = int(wait_ns[known].sum())
            share = int(hidden_ns[known].sum()) / waited_ns if waited_ns else 1.0
            hidden_ns[missing] = (wait_ns[missing] * share).astype(np.int64)
    return hidden_ns, event_columns


def clock_of(process: ProcessInfo, steps: Columns, rows: slice | NDArray[Any] = slice(None)) -> RankClock:
    """Return whose clock measures the waits in some rows of a process's steps.

    It is the device's if CUDA events cover them, else the loop's. If the process computes on another stream,
    NVML must confirm the events (``streamer/samplers/other_streams.py``).
    """
    if not (hidden_of(steps)[rows] != UNKNOWN).any():
        return "loop"
    return "nvml" if process.other_stream else "device"


def told_of(steps: Columns) -> NDArray[np.bool_]:
    """Return for which steps a valid event tells how long the device starved, shape (steps,)."""
    result: NDArray[np.bool_] = (_column(steps, "starved_ns") != UNKNOWN) & (hidden_of(steps) != UNKNOWN)
    return result


def hidden_of(steps: Columns) -> NDArray[np.int64]:
    """Return ``hidden_ns`` of a table of steps, shape (steps,); all UNKNOWN without a device clock."""
    return _column(steps, "hidden_ns")


def slack_of(steps: Columns) -> NDArray[np.int64]:
    """Return ``slack_ns`` of a table of steps, shape (steps,); all UNKNOWN without a device clock."""
    return _column(steps, "slack_ns")


def gpu_step_of(steps: Columns) -> NDArray[np.int64]:
    """Return ``gpu_step_ns`` of a table of steps, shape (steps,); all UNKNOWN without a device clock."""
    return _column(steps, "gpu_step_ns")


def _column(steps: Columns, name: str) -> NDArray[np.int64]:
    values = steps.get(name)
    return values if values is not None else np.full(steps["request_ns"].size, UNKNOWN, dtype=np.int64)
