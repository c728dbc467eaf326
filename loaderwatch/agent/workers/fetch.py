"""Times each fetch (samples, collating, CPU time, bytes) in workers, or on the training thread without them.

The fetcher object's class is replaced, and the dataset stays unchanged. While ``dataset[index]`` runs, at
most one frame of ours is on the stack (compiled: none), because the list of indices notes each sample.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

import numpy
import torch
from torch.utils.data import Subset

from loaderwatch.agent.class_swap import hidden_subclass, keep_fields_quick
from loaderwatch.agent.guard import ask
from loaderwatch.agent.hot import SampleClock, noted_collate, timed_fetch
from loaderwatch.agent.hot.layout import AT_ONCE, EACH, EACH_COUNTED, ONE, ONE_COUNTED
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.ring import RingWriter


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


MAX_PARTS: Final = 64
"""How many parts of a batch are measured; other parts are not counted."""
MAX_DEPTH: Final = 4
_classes: Final[dict[Any, Any]] = {}
_array_bytes: Any = numpy.ndarray.nbytes  # a subclass's own would run the user's code
_Tensor: Final = torch.Tensor
_strided: Final = torch.strided


class FetchClock(SampleClock):
    """The clock of one fetching process. On the training thread, ``worker`` is -1 and the span is its own."""

    def __init__(self, ring: RingWriter, loader: int, worker: int) -> None:
        super().__init__(ring, loader, worker, batch_bytes)


def batch_bytes(batch: Any) -> int:
    """Return the bytes of a batch's tensors and arrays; ``UNKNOWN`` if a bounded search finds none.

    No code of the user runs, because a batch may load its parts on access, count accesses, or refuse them.
    """
    if type(batch) is _Tensor and batch.layout is _strided:
        return batch.nbytes
    total = 0
    has_size = False
    parts: list[tuple[Any, int]] = [(batch, 0)]
    looked = 0
    while parts and looked < MAX_PARTS:
        part, depth = parts.pop()
        looked += 1
        kind = type(part)
        if issubclass(kind, (torch.Tensor, numpy.ndarray)):
            size = _nbytes(part)
            if size is not None:
                total += size
                has_size = True
        elif depth < MAX_DEPTH:
            if issubclass(kind, dict):
                parts.extend((value, depth + 1) for value in islice(dict.values(part), MAX_PARTS))
            elif issubclass(kind, list):
                parts.extend((value, depth + 1) for value in islice(list.__iter__(part), MAX_PARTS))
            elif issubclass(kind, tuple):
                parts.extend((value, depth + 1) for value in islice(tuple.__iter__(part), MAX_PARTS))
    return total if has_size else UNKNOWN


def _nbytes(part: Any) -> int | None:
    if type(part) is torch.Tensor and part.layout is torch.strided:
        return part.nbytes
    if isinstance(part, numpy.ndarray):
        return int(_array_bytes.__get__(part))
    return ask(lambda: _tensor_bytes(part))  # some tensors, such as nested ones, refuse


def _tensor_bytes(tensor: torch.Tensor) -> int:
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.nbytes


def watch_fetcher(fetcher: Any, clock: FetchClock) -> None:
    """Replace the fetcher's class by a timing one."""
    base = type(fetcher)
    fetcher._loaderwatch_reads = _how_it_reads(fetcher)
    fetcher._loaderwatch = clock
    if base in _classes.values():
        return
    watched = _classes.get(base)
    if watched is None:
        namespace = {"fetch": timed_fetch(base.fetch), "collate_fn": noted_collate()}
        watched = _classes[base] = hidden_subclass(base, namespace)
    fetcher.__class__ = watched
    keep_fields_quick(fetcher)


def _how_it_reads(fetcher: Any) -> int:
    # An iterable dataset has no indices, so its samples are counted.
    counted = hasattr(fetcher, "dataset_iter")
    if not fetcher.auto_collation:
        return ONE_COUNTED if counted else ONE
    if counted:
        return EACH_COUNTED
    return EACH if ask(lambda: reads_as_listed(fetcher.dataset)) else AT_ONCE
