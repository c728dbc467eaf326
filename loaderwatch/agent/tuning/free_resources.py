"""Resources for more workers: memory, shared memory, descriptors. A trial must not exhaust any of them."""

from __future__ import annotations

import os
from typing import Final

from loaderwatch.agent.tuning.search import Setting
from loaderwatch.core.facts import LoaderTrial
from loaderwatch.core.message import Param, Text
from loaderwatch.core.system import SHM, descriptor_limit, free_memory_bytes

MOST_RATIO: Final = 0.5
"""A trial may take this share of a free resource. The rest is for the training's model, not loaded yet."""
FILES_PER_WORKER: Final = 4
"""A worker's descriptors in the training process: pipes and sentinel (torch/utils/data/dataloader.py)."""


def why_no_room(setting: Setting, last: LoaderTrial | None) -> Text | None:
    """Return why a setting might exhaust a resource, judged by the last trial; None where there is room."""
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
        shared_memory = os.statvfs(SHM)
    except (OSError, AttributeError):
        return None
    return shared_memory.f_bavail * shared_memory.f_frsize


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f}"
