"""One trial: read a loader with one setting for some seconds, and count its batches."""

from __future__ import annotations

import inspect
import os
import time
import warnings
from collections.abc import Iterator
from typing import Any, Final

from torch.utils.data import DataLoader

from loaderwatch.agent.loader_description import is_iterable_dataset, splits
from loaderwatch.agent.tuning.search import DEFAULT_PREFETCH, Setting
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.facts import LoaderTrial
from loaderwatch.core.message import Param, Text
from loaderwatch.core.system import PROC, SHM, descriptor_limit, free_memory_bytes

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


_KEPT: Final = ("collate_fn", "pin_memory", "timeout", "worker_init_fn", "generator", "in_order")
_OF_WORKERS: Final = ("timeout", "worker_init_fn", "multiprocessing_context", "in_order")


def setting_of(loader: Any) -> Setting:
    """Return the setting that a DataLoader was made with."""
    prefetch = getattr(loader, "prefetch_factor", None)
    return Setting(loader.num_workers, DEFAULT_PREFETCH if prefetch is None else prefetch)


def rebuilt(loader: Any, setting: Setting) -> Any:
    """Make a DataLoader of PyTorch's own class over the same dataset and sampler, with this setting.

    Its workers end with each pass. It uses the loader's own dataset, sampler and functions, not copies.
    """
    takes = inspect.signature(DataLoader.__init__).parameters
    options: dict[str, Any] = {
        name: getattr(loader, name)
        for name in (*_KEPT, "multiprocessing_context")
        if name in takes and hasattr(loader, name)
    }
    if setting.workers:
        options["prefetch_factor"] = setting.prefetch
    else:
        options = {name: value for name, value in options.items() if name not in _OF_WORKERS}
    if is_iterable_dataset(loader):
        options |= {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    elif loader.batch_sampler is not None:
        options["batch_sampler"] = loader.batch_sampler
    else:  # samples come one by one
        options |= {"batch_size": None, "sampler": loader.sampler}
    return DataLoader(loader.dataset, num_workers=setting.workers, **options)


def most_workers(loader: Any) -> int | None:
    """Return how many workers a loader can have without repeating rows; None: any number.

    Each worker iterates a copy of an iterable dataset. A dataset that ignores its worker repeats all rows.
    """
    return 1 if is_iterable_dataset(loader) and splits(loader) is False else None


WARM_RATIO: Final = 0.25
"""The share of a trial for the workers' warm-up: batches from the start do not come from a steady queue."""
FEW_BATCHES: Final = 8
"""A trial reads more batches than this and than two per worker, in at most ``LONGEST`` times its time."""
LONGEST: Final = 3.0


class TrialFailed(LoaderwatchError):
    """The loader cannot be tried: it raised an error, or it has no batches."""


def try_setting(loader: Any, setting: Setting, seconds: float, step_s: float = 0.0) -> LoaderTrial:
    """Read batches for about ``seconds`` s and measure how many come per second, once they come steadily.

    If an epoch is shorter, the next one begins. The start of an epoch counts, as a training pays for it, too.

    Args:
        loader: a DataLoader; the trial creates another one like it.
        setting: the setting of the new one.
        seconds: how long to read, from the first batch on.
        step_s: seconds of a training step. The reader sleeps for so long between batches, and its share of
            waiting is measured. With 0 it takes batches as fast as they come.

    Raises:
        TrialFailed: the loader raised, or gave no batch.
    """
    began = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns of more workers than CPUs; a trial tests that
            return _read(rebuilt(loader, setting), setting, seconds, step_s, began)
    except TrialFailed:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines()  # a worker's error is a traceback; its last line counts
        text = lines[-1] if len(lines) > 1 else ": ".join([type(error).__name__, *lines])
        raise TrialFailed(f"reading a batch with num_workers={setting.workers} failed with {text}") from error


def _read(made: Any, setting: Setting, seconds: float, step_s: float, began: float) -> LoaderTrial:
    arrivals: list[float] = []
    waits_s: list[float] = []
    passes: list[Iterator[Any]] = [iter(made)]
    first_at: float | None = None
    while True:
        asked_at = time.monotonic()
        batch = next(passes[-1], passes)
        if batch is passes:
            if not arrivals:
                raise TrialFailed("the loader has no batches")
            passes[-1] = iter(made)
            batch = next(passes[-1], passes)
            if batch is passes:
                raise TrialFailed("the dataset gives its rows once only, so that nothing can be compared")
        now = time.monotonic()
        first_at = now if first_at is None else first_at
        arrivals.append(now)
        waits_s.append(now - asked_at)
        if _is_enough(arrivals, setting.workers, seconds):
            break
        if step_s:
            time.sleep(step_s)
    return LoaderTrial(
        num_workers=setting.workers,
        prefetch_factor=setting.prefetch if setting.workers else None,
        batches=len(arrivals),
        batches_per_s=_steady_rate(arrivals, setting.workers, seconds),
        start_s=first_at - began,
        wait_ratio=_wait_ratio(arrivals, waits_s, seconds) if step_s else None,
        batch_bytes=tensor_bytes(batch),
        worker_bytes=own_bytes(passes[-1]),
    )


def _is_enough(arrivals: list[float], workers: int, seconds: float) -> bool:
    took = arrivals[-1] - arrivals[0]
    if took >= LONGEST * seconds:
        return True
    return took >= seconds and len(arrivals) > max(FEW_BATCHES, 2 * workers)


def _steady(arrivals: list[float], seconds: float) -> int:
    """Return the number of the first batch after the warm-up."""
    warm = arrivals[0] + WARM_RATIO * seconds
    first = next(number for number, at in enumerate(arrivals) if at >= warm or number == len(arrivals) - 2)
    return max(0, first)


def _steady_rate(arrivals: list[float], workers: int, seconds: float) -> float:
    """Return batches/s over whole rounds of the workers, since their batches may come all at once."""
    if len(arrivals) < 2:
        return 1.0 / max(1e-9, seconds)
    first = _steady(arrivals, seconds)
    last = len(arrivals) - 1
    if workers and last - first > workers:
        last -= (last - first) % workers
    return (last - first) / max(1e-9, arrivals[last] - arrivals[first])


def _wait_ratio(arrivals: list[float], waits_s: list[float], seconds: float) -> float:
    first = _steady(arrivals, seconds)
    took = arrivals[-1] - arrivals[first]
    return min(1.0, sum(waits_s[first + 1 :]) / took) if took > 0 else 1.0


def own_bytes(iterator: Any) -> int | None:
    """Return the workers' private memory in bytes; None without workers or where the system does not say."""
    workers = getattr(iterator, "_workers", ())
    sizes = [_private_bytes(worker.pid) for worker in workers]
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def _private_bytes(pid: int) -> int | None:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text("ascii").splitlines()
    except OSError:
        return None
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def tensor_bytes(batch: Any, depth: int = 0) -> int:
    """Return the bytes of a batch's tensors and arrays: in dicts, lists and tuples, a few levels deep."""
    size = getattr(batch, "nbytes", None)
    if isinstance(size, int):
        return size
    if depth > 4:
        return 0
    parts = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, list | tuple) else ()
    return sum(tensor_bytes(part, depth + 1) for part in parts)
