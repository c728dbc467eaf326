"""Describes a loader's configuration without changing the loader; runs as little user code as possible."""

from __future__ import annotations

import multiprocessing
from typing import Any

from loaderwatch.agent.guard import ask
from loaderwatch.agent.iterable_sharding import splits_by_worker
from loaderwatch.core.facts import LoaderInfo, LoaderRole


def describe_loader(loader: Any, number: int, name: str, role: LoaderRole, class_name: str) -> LoaderInfo:
    """Return the loader's configuration, with None for each setting that the loader does not have.

    ``class_name`` is the class of the iterated object, which may be a framework's loader around this one.
    """
    dataset = getattr(loader, "dataset", None)
    iterable = is_iterable_dataset(loader)
    context = getattr(loader, "multiprocessing_context", None)
    workers = _integer(getattr(loader, "num_workers", None))
    return LoaderInfo(
        loader=number,
        name=name,
        role=role,
        class_name=class_name,
        dataset_class=type(dataset).__name__ if dataset is not None else None,
        dataset_length=None if dataset is None or iterable else _integer(ask(lambda: len(dataset))),
        batches=_batches(loader, iterable),
        batch_size=_batch_size(loader),
        num_workers=workers,
        prefetch_factor=_integer(getattr(loader, "prefetch_factor", None)),
        persistent_workers=_boolean(getattr(loader, "persistent_workers", None)),
        pin_memory=_boolean(getattr(loader, "pin_memory", None)),
        in_order=_boolean(getattr(loader, "in_order", None)),
        drop_last=_boolean(getattr(loader, "drop_last", None)),
        timeout_s=_number(getattr(loader, "timeout", None)),
        start_method=_start_method(context) if workers else None,
        iterable_dataset=iterable,
        sampler_class=_class_name(getattr(loader, "sampler", None)),
        distributed=None if dataset is None else is_distributed(getattr(loader, "sampler", None)),
        shards=shards_of(dataset) if iterable else None,
        splits_by_worker=splits(loader) if iterable else None,
        snapshot_every_n_steps=_integer(getattr(loader, "snapshot_every_n_steps", None)),
    )


def is_iterable_dataset(loader: Any) -> bool | None:
    """Whether the loader reads an iterable dataset; None for loaders that are not PyTorch's."""
    kind = getattr(loader, "_dataset_kind", None)
    return None if kind is None else kind == 1  # _DatasetKind.Iterable


def is_shuffled(loader: Any) -> bool:
    """Whether a loader's samples come in random order, as far as its sampler shows."""
    sampler = getattr(loader, "sampler", None)
    inner = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
    return any(
        getattr(source, "shuffle", False) is True or "Random" in type(source).__name__
        for source in (sampler, inner)
        if source is not None
    )


def synced_buffers(model: Any) -> int | None:
    """Return how many buffers a DDP model broadcasts in each forward; None for other models.

    The switch is ``forward_sync_buffers`` since torch 2.13, which deprecates ``broadcast_buffers``.
    """
    if not hasattr(model, "require_backward_grad_sync") or not hasattr(model, "module"):
        return None
    on = getattr(model, "forward_sync_buffers", getattr(model, "broadcast_buffers", True))
    return sum(1 for _ in model.buffers()) if on else 0


def is_distributed(sampler: object) -> bool:
    """Whether a sampler gives each rank its own part: DistributedSampler, or any with ``num_replicas``."""
    return _integer(getattr(sampler, "num_replicas", None)) is not None


def shuffles_by_epoch(sampler: object) -> bool:
    """Whether a sampler's order depends on an epoch that the script must set, like DistributedSampler's."""
    return (
        is_distributed(sampler)
        and hasattr(sampler, "set_epoch")
        and getattr(sampler, "shuffle", True) is not False
        and isinstance(getattr(sampler, "epoch", None), int)
    )


def shards_of(dataset: object) -> int | None:
    """Return how many parts an iterable dataset can split into for its workers; None if it does not say.

    ``num_shards`` counts when the dataset splits by this number. Hugging Face's datasets do so, with
    ``shard(num_shards, index)``. Their older streams lack that method, but give each worker whole shards,
    too. Elsewhere ``num_shards`` may count files that each worker reads in part, as in mosaicml-streaming.
    """
    if not callable(ask(lambda: getattr(dataset, "shard", None))) and not _is_hugging_face(dataset):
        return None
    for name in ("num_shards", "n_shards"):
        shards = _integer(ask(lambda name=name: getattr(dataset, name, None)))  # type: ignore[misc]
        if shards is not None:
            return shards
    return None


def splits(loader: Any) -> bool | None:
    """Whether an iterable dataset splits its rows among its workers; None if unknown."""
    dataset = loader.dataset
    if shards_of(dataset) is not None:
        return True
    return ask(lambda: splits_by_worker(dataset, getattr(loader, "worker_init_fn", None)))


def _is_hugging_face(dataset: object) -> bool:
    return any(base.__module__.partition(".")[0] == "datasets" for base in type(dataset).__mro__)


def _class_name(value: object) -> str | None:
    return None if value is None else type(value).__name__


def _batches(loader: Any, iterable: bool | None) -> int | None:
    if iterable:
        return None  # len() of an iterable loader switches on PyTorch's warnings about lengths
    if not _is_known(getattr(type(loader), "__len__", None)):
        return None  # a subclass's __len__ may draw batches or need attributes that are not set yet
    sampler = getattr(loader, "_index_sampler", None)
    if sampler is not None and not type(sampler).__module__.startswith("torch."):
        return None  # some batch samplers draw random numbers to count their batches
    return _integer(ask(lambda: len(loader)))


def _is_known(function: object) -> bool:
    return str(getattr(function, "__module__", "")).split(".")[0] in ("torch", "torchdata", "accelerate")


def _batch_size(loader: Any) -> int | None:
    size = _integer(getattr(loader, "batch_size", None))
    if size is None:
        size = _integer(getattr(getattr(loader, "batch_sampler", None), "batch_size", None))
    return size


def _start_method(context: Any) -> str | None:
    if context is not None:
        method = ask(context.get_start_method)
        return method if isinstance(method, str) else None
    # Without allow_none this query would fix the default for the whole process.
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


def _integer(value: object) -> int | None:
    return value if type(value) is int else None


def _boolean(value: object) -> bool | None:
    return value if type(value) is bool else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
