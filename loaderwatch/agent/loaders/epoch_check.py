"""Notices a DistributedSampler whose ``set_epoch`` is never called: every epoch then comes in the same order."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final

from loaderwatch.agent.loaders.describe import shuffles_by_epoch

PUBLISHED_PASSES: Final = 3
"""Further passes in the same order say nothing new, and publishing costs a file."""


def epoch_check(
    loader: Any, publish: Callable[[int], None], earlier: Callable[[], None] | None = None
) -> Callable[[], None] | None:
    """What to call as each pass over the loader begins; None when its sampler has no epoch to set.

    ``publish`` is told how many passes in a row began with the same epoch; those over ``earlier``'s loader count, which this
    one takes the place of.
    """
    sampler = getattr(loader, "sampler", None)
    if not shuffles_by_epoch(sampler):
        return None
    if isinstance(earlier, _EpochCheck):
        earlier.follow(weakref.ref(sampler))
        return earlier
    return _EpochCheck(weakref.ref(sampler), publish)


class _EpochCheck:
    def __init__(self, sampler: weakref.ref[Any], publish: Callable[[int], None]) -> None:
        self._sampler = sampler
        self._publish = publish
        self._epoch: int | None = None
        self._passes = 0

    def follow(self, sampler: weakref.ref[Any]) -> None:
        """Another one from now on."""
        self._sampler = sampler

    def __call__(self) -> None:
        sampler = self._sampler()
        if sampler is None:
            return
        before = self._passes
        self._passes = before + 1 if sampler.epoch == self._epoch else 1
        self._epoch = sampler.epoch
        if self._passes != before and self._passes <= PUBLISHED_PASSES:
            self._publish(self._passes)
