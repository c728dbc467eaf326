"""What the workers of an iterable dataset deliver: each worker reads all of it, unless its code splits it."""

from __future__ import annotations

from loaderwatch.core.answers import Param
from loaderwatch.core.facts import LoaderInfo


def copies(loader: LoaderInfo) -> int:
    """Return how often each row is delivered: once per worker if the code splits nothing, else 1."""
    return max(1, loader.num_workers or 0) if loader.splits_by_worker is False else 1


def split(loader: LoaderInfo) -> dict[str, Param]:
    """Return the parameters of the message ``split-first``, which is added to advice for more workers."""
    splits = loader.splits_by_worker
    needed = "unknown" if splits is None else "missing"
    return {
        "split": "not-needed" if not loader.iterable_dataset or splits else needed,
        "copies": copies(loader),
        "dataset": loader.dataset_class or None,
    }
