"""A DataLoader like another one, with other worker settings."""

from __future__ import annotations

import inspect
from typing import Any, Final

from torch.utils.data import DataLoader

from loaderwatch.agent.loader_description import is_iterable_dataset, splits
from loaderwatch.agent.tuning.search import DEFAULT_PREFETCH, Setting

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
