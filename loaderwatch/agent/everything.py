"""``attach()`` without a loader: every DataLoader is watched from its next iteration on, also those of frameworks."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader

from loaderwatch.agent import loader as loaders
from loaderwatch.agent.describe import is_shuffled
from loaderwatch.core.wire import LoaderInfo

_own_iter: Any = None


def watch_everything() -> None:
    """Make every DataLoader adopt itself when it is iterated."""
    global _own_iter
    if _own_iter is not None:
        return
    own = _own_iter = DataLoader.__iter__

    def __iter__(self: Any) -> Any:
        adopt = loaders.adopt
        if adopt is None or loaders.watch_of(self) is not None:
            return own(self)
        overrides = type(self).__iter__ is not __iter__
        adopt(self)
        # Inside a subclass's own __iter__ this epoch is already under way: it is watched from the next one on.
        if overrides or not loaders.is_swapped(self):
            return own(self)
        return iter(self)

    DataLoader.__iter__ = __iter__  # type: ignore[method-assign]


def unwatch_everything() -> None:
    """Take that out again."""
    global _own_iter
    if _own_iter is not None:
        DataLoader.__iter__ = _own_iter  # type: ignore[method-assign]
        _own_iter = None


def guess_role(loader: Any, known: list[LoaderInfo]) -> str:
    """Train or eval, for a loader that nobody attached by hand.

    A shuffled one trains; one that is iterated without gradients evaluates; the first of the others trains.
    """
    if is_shuffled(loader):
        return "train"
    if not torch.is_grad_enabled():
        return "eval"
    return "eval" if any(info.role == "train" for info in known) else "train"
