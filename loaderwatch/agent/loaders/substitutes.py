"""Substitutes: loaders that nobody gave to ``attach`` but that frameworks make in place of an attached one.

A hook sees every DataLoader as it is iterated. Frameworks make a new loader out of the one they are given (accelerate, and so
transformers; Lightning for several ranks), and the new one is watched as the attached one would have been. ``attach()``
without a loader watches every DataLoader in this way.
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
"""How many nested wrappers of a framework around a batch sampler or a dataset are looked into."""

_hook: IterHook | None = None
_all = False


class Attached(NamedTuple):
    """An attached loader, which may be gone by now; ``source`` is the batch sampler or stream that it reads."""

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
    """Watch loaders that are iterated in place of this one, which may be gone by then."""
    # Nothing is kept of loaders that are gone, because people attach anew in every epoch.
    _attached[:] = [one for one in _attached if one.watch is not watch and one.source() is not None]
    source = next(iter(_sources(loader)), None)
    _attached.append(Attached(weakly(source), weakly(_dataset_of(loader)), watch))
    _install()


def forget(watch: Watch) -> None:
    """Forget a loader that was detached."""
    _attached[:] = [one for one in _attached if one.watch is not watch]
    if not _attached and not _all:
        unwatch_everything()


def unwatch_everything() -> None:
    """Take the hooks on DataLoader out."""
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
    """Return the iterator of a loader that is being iterated, and watch the loader from here on if it is a substitute.

    A subclass that calls ``super().__iter__()`` gets its parent's iterator. Only where this is the ``__iter__`` that
    ``iter(loader)`` itself runs is the call repeated through the class that times.
    """
    if dataloader.watch_of(loader) is not None:
        return own(loader)
    asked: Any = type(loader)
    first = asked.__iter__
    whole = first is own or getattr(first, "__wrapped__", None) is own
    _take(loader)
    watched: Any = type(loader)
    return watched.__iter__(loader) if whole and watched is not asked else own(loader)


def _arrived(loader: Any) -> None:
    if dataloader.adopt is not None and (_all or original_of(loader) is not None):
        dataloader.adopt(loader)


_take = shield(_arrived)


def original_of(loader: Any) -> Watch | None:
    """Return the watch of the attached loader that this one replaces, None if it replaces none.

    A substitute draws from the same batch sampler, reads the same stream that nobody has read yet, or was made for the
    same dataset by calling the class that we swapped in for the attached loader (Lightning).
    """
    sources, dataset = _sources(loader), _dataset_of(loader)
    streams, remade = isinstance(dataset, IterableDataset), dataloader.is_swapped(loader)
    for one in _attached:
        source = one.source()
        if any(each is source for each in sources) and not (streams and one.watch.epochs):
            return one.watch
        if remade and dataset is not None and one.dataset() is dataset:
            return one.watch
    return None


def _dataset_of(loader: Any) -> Any:
    return ask(lambda: loader.dataset)


def _sources(loader: Any) -> list[Any]:
    """Return what a loader gets its batches from, and the objects that this wraps."""
    inside = "dataset" if isinstance(_dataset_of(loader), IterableDataset) else "batch_sampler"
    found = [loader]
    while len(found) <= MAX_WRAPPERS:
        one = ask(lambda: getattr(found[-1], inside, None))
        if one is None:
            break
        found.append(one)
    return found[1:]


def guess_role(loader: Any, known: list[LoaderInfo]) -> LoaderRole:
    """Guess "train" or "eval" for a loader that nobody attached by hand.

    A loader that is iterated without gradients evaluates, shuffled or not. Of the others, a shuffled one trains, and so does
    the first, also where it is built anew for every epoch. The rest evaluate, until an optimizer steps with their batches.
    """
    if not torch.is_grad_enabled():
        return "eval"
    if is_shuffled(loader):
        return "train"
    training = [info for info in known if info.role == "train"]
    return "train" if not training or any(_built_alike(loader, info) for info in training) else "eval"


def _built_alike(loader: Any, known: LoaderInfo) -> bool:
    """Whether a loader looks as if the line that built a known one had built it again."""
    info = describe_loader(loader, known.loader, known.name, known.role, type(loader).__name__)
    return info == msgspec.structs.replace(known, same_epoch_passes=info.same_epoch_passes)
