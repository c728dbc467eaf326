"""The room that more workers need: memory, shared memory, descriptors. A trial that could run out of one is not begun."""

from __future__ import annotations

import os
from typing import Final

from loaderwatch.agent.tuning.search import Setting
from loaderwatch.core.facts import LoaderTrial
from loaderwatch.core.message import Param, Text
from loaderwatch.core.system import SHM, descriptor_limit, free_memory_bytes

MOST_RATIO: Final = 0.5
"""The share of what is free that a trial may take; the rest is the training's, whose model is not there yet."""
FILES_PER_WORKER: Final = 4
"""Descriptors that a worker takes in the training process: its pipes and its sentinel (torch/utils/data/dataloader.py)."""


def why_no_room(setting: Setting, last: LoaderTrial | None) -> Text | None:
    """Return why a setting might run out of something, by what the last trial took; None where there is room."""
    if last is None:
        return None
    workers = setting.workers
    ahead_bytes = workers * setting.prefetch * last.batch_bytes
    if last.worker_bytes and last.num_workers:
        wanted = workers * last.worker_bytes // last.num_workers + ahead_bytes
        free = free_memory_bytes()
        if wanted > MOST_RATIO * free:
            taken: dict[str, Param] = {"workers": workers, "wanted_gb": _gb(wanted), "free_gb": _gb(free)}
            return Text("no-room-in-memory", taken)
    shared = _free_shared_bytes()
    if shared is not None and ahead_bytes > MOST_RATIO * shared:
        held: dict[str, Param] = {
            "workers": workers,
            "prefetch": setting.prefetch,
            "batches_gb": _gb(ahead_bytes),
        }
        return Text("no-room-for-batches", {**held, "folder": str(SHM), "free_gb": _gb(shared)})
    if workers * FILES_PER_WORKER > MOST_RATIO * descriptor_limit():
        return Text("no-room-for-files", {"workers": workers, "limit": descriptor_limit()})
    return None


def _free_shared_bytes() -> int | None:
    try:
        found = os.statvfs(SHM)
    except (OSError, AttributeError):
        return None
    return found.f_bavail * found.f_frsize


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f}"
