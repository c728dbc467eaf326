"""``attach()`` without a loader: every DataLoader is watched from its next iteration on, also those of frameworks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader

from loaderwatch.agent import loader as loaders
from loaderwatch.agent.describe import is_shuffled
from loaderwatch.agent.everyiter import EveryIter
from loaderwatch.core.wire import LoaderInfo

_hook: EveryIter | None = None


def watch_everything() -> None:
    """Make every DataLoader adopt itself when it is iterated."""
    global _hook
    if _hook is None:
        _hook = EveryIter(DataLoader, adopted)
        _hook.install()


def unwatch_everything() -> None:
    """Take that out again."""
    global _hook
    if _hook is not None:
        _hook.remove()
        _hook = None


def adopted(loader: Any, own: Callable[[Any], Any]) -> Any:
    """The iterator of a loader that is watched from here on."""
    adopt = loaders.adopt
    if adopt is None or loaders.watch_of(loader) is not None:
        return own(loader)
    adopt(loader)
    return iter(loader) if loaders.is_swapped(loader) else own(loader)


def guess_role(loader: Any, known: list[LoaderInfo]) -> str:
    """Train or eval, for a loader that nobody attached by hand.

    One that is iterated without gradients evaluates, shuffled or not; of the others a shuffled one trains, and the first.
    """
    if not torch.is_grad_enabled():
        return "eval"
    if is_shuffled(loader):
        return "train"
    return "eval" if any(info.role == "train" for info in known) else "train"
