"""Times the sampler's first index: a ``randperm`` of a hundred million takes seconds at every epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from loaderwatch.agent.loaders.watch import Watch
from loaderwatch.core.clock import monotonic_ns


class TimedSampler:
    """Stands in for a loader's index sampler while its iterator is built.

    It asks the sampler for exactly what the loader would ask, in the same order, so random numbers are drawn as
    before: ``iter()`` at once, each index when it is wanted.
    """

    def __init__(self, sampler: Any, watch: Watch) -> None:
        self._sampler = sampler
        self._watch = watch

    def __iter__(self) -> Iterator[Any]:
        began = monotonic_ns()
        indices = iter(self._sampler)
        # chained, so that nothing of ours runs for the indices behind the first
        return chain.from_iterable(self._timed(indices, monotonic_ns() - began))

    def _timed(self, indices: Iterator[Any], spent_ns: int) -> Iterator[Iterable[Any]]:
        began = monotonic_ns()
        try:
            first = next(indices)
        except StopIteration:
            return
        finally:
            self._watch.sampler_ns = monotonic_ns() - began + spent_ns
        yield (first,)
        yield indices

    def __len__(self) -> int:
        return len(self._sampler)

    def __getattr__(self, name: str) -> Any:
        if name == "_sampler":  # while being copied or unpickled
            raise AttributeError(name)
        return getattr(self._sampler, name)
