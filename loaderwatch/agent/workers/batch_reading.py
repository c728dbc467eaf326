"""Whether a dataset reads all samples of a batch in one call of its own."""

from __future__ import annotations

from typing import Any

from torch.utils.data import Subset


def reads_at_once(dataset: Any) -> bool:
    """Whether the dataset's ``__getitems__`` is more than a loop over ``__getitem__``.

    PyTorch's ``Subset`` (of ``random_split``) has one that passes the indices to the inner dataset. If that
    has no ``__getitems__``, the Subset reads sample by sample. An overriding subclass counts as it is.
    """
    while _passes_on(dataset):
        dataset = dataset.dataset
    return bool(getattr(dataset, "__getitems__", None))


def reads_as_listed(dataset: Any) -> bool:
    """Whether each sample is read when its index is taken from the batch's list.

    A Subset of a Subset takes all indices from the list before it reads the first sample.
    """
    return not getattr(dataset.dataset if _passes_on(dataset) else dataset, "__getitems__", None)


def _passes_on(dataset: Any) -> bool:
    """Whether the dataset is a Subset that reads from its inner dataset, as PyTorch's own does."""
    if not isinstance(dataset, Subset) or "__getitems__" in vars(dataset):
        return False
    return all(
        getattr(type(dataset), name, None) is getattr(Subset, name, None)
        for name in ("__getitem__", "__getitems__")
    )
