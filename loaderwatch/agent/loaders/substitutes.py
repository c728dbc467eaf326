"""Substitutes: loaders that frameworks make to replace an attached loader.

A hook sees every DataLoader when it is iterated. Some frameworks make a new loader from the given one:
accelerate (also in transformers), and Lightning for several ranks. The new loader is then watched like the
attached one. ``attach()`` without a loader watches every DataLoader in this way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec
import torch
from torch.utils.data import DataLoader, IterableDataset

from loaderwatch.agent.guard import ask, shield, weakly
from loaderwatch.agent.loader_description import describe_loader, is_shuffled
from loaderwatch.agent.loaders import construction, dataloader
from loaderwatch.agent.loaders.class_hook import IterHook
from loaderwatch.agent.loaders.watch import Watch
from loaderwatch.core.facts import LoaderInfo, LoaderRole

MAX_WRAPPERS: Final = 4
"""Most nested framework wrappers around a batch sampler or dataset that are searched."""

_hook: IterHook | None = None
_all = False


class Attached(NamedTuple):
    """An attached loader, which may be gone; ``source`` is the batch sampler or stream that it reads."""

    source: Callable[[], Any]
    dataset: Callable[[], Any]
    watch: Watch


_attached: Final[list[Attached]] = []


def watch_everything() -> None:
    """Make every DataLoader adopt itself when it is iterated."""
    global _all
    _all = True
    _install()


def watch_substitutes(loader: Any, watch: Watch) -> None:
    """Watch the loaders that are iterated instead of this loader, which may be gone by then."""
    # Drop loaders that are gone, because scripts may attach a new loader in every epoch.
    _attached[:] = [old for old in _attached if old.watch is not watch and old.source() is not None]
    source = next(iter(_sources(loader)), None)
    _attached.append(Attached(weakly(source), weakly(_dataset_of(loader)), watch))
    _install()


def forget(watch: Watch) -> None:
    """Forget a loader that was detached."""
    _attached[:] = [attached for attached in _attached if attached.watch is not watch]
    if not _attached and not _all:
        unwatch_everything()


def unwatch_everything() -> None:
    """Remove the hooks on DataLoader."""
    global _hook, _all
    _all = False
    _attached.clear()
    construction.remove()
    if _hook is not None:
        _hook.remove()
        _hook = None


def _install() -> None:
    global _hook
    construction.install(DataLoader)
    if _hook is None:
        _hook = IterHook(DataLoader, arriving)
        _hook.install()


def arriving(loader: Any, own: Callable[[Any], Any]) -> Any:
    """Return the iterator of a loader that begins a pass; a substitute is watched from now on.

    The call is repeated through the timing class only if ``iter(loader)`` itself runs this ``__iter__``. A
    subclass that calls ``super().__iter__()`` gets its parent's iterator.
    """
    if dataloader.watch_of(loader) is not None:
        return own(loader)
    class_before: Any = type(loader)
    outermost = class_before.__iter__
    is_outermost = outermost is own or getattr(outermost, "__wrapped__", None) is own
    _take(loader)
    watched: Any = type(loader)
    return watched.__iter__(loader) if is_outermost and watched is not class_before else own(loader)


def _arrived(loader: Any) -> None:
    if dataloader.adopt is not None and (_all or original_of(loader) is not None):
        dataloader.adopt(loader)


_take = shield(_arrived)


def original_of(loader: Any) -> Watch | None:
    """Return the watch of the attached loader that this loader replaces; None if it replaces none.

    A substitute uses the same batch sampler, or reads the same stream that nobody has read yet. Or, with
    Lightning, it has the same dataset and was made by calling our class of the attached loader.
    """
    sources, dataset = _sources(loader), _dataset_of(loader)
    streams, remade = isinstance(dataset, IterableDataset), dataloader.is_swapped(loader)
    for attached in _attached:
        attached_source = attached.source()
        if any(source is attached_source for source in sources) and not (streams and attached.watch.epochs):
            return attached.watch
        if remade and dataset is not None and attached.dataset() is dataset:
            return attached.watch
    return None


def _dataset_of(loader: Any) -> Any:
    return ask(lambda: loader.dataset)


def _sources(loader: Any) -> list[Any]:
    """Return the source of a loader's batches, and the objects that the source wraps."""
    attribute = "dataset" if isinstance(_dataset_of(loader), IterableDataset) else "batch_sampler"
    chain = [loader]
    while len(chain) <= MAX_WRAPPERS:
        inner = ask(lambda: getattr(chain[-1], attribute, None))
        if inner is None:
            break
        chain.append(inner)
    return chain[1:]


def guess_role(loader: Any, known: list[LoaderInfo]) -> LoaderRole:
    """Guess "train" or "eval" for a loader that nobody attached by hand.

    Without gradients a loader evaluates, shuffled or not. With gradients, a shuffled loader trains. So does
    the first loader, even if rebuilt for every epoch. Others evaluate until an optimizer uses their batches.
    """
    if not torch.is_grad_enabled():
        return "eval"
    if is_shuffled(loader):
        return "train"
    training = [info for info in known if info.role == "train"]
    return "train" if not training or any(_built_alike(loader, info) for info in training) else "eval"


def _built_alike(loader: Any, known: LoaderInfo) -> bool:
    """Whether a loader looks as if the code that built a known loader had built it again."""
    info = describe_loader(loader, known.loader, known.name, known.role, type(loader).__name__)
    return info == msgspec.structs.replace(known, same_epoch_passes=info.same_epoch_passes)
