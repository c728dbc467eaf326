"""Repeats a loader's first batches for the rest of the run, to measure the model with a perfect loader.

``loaderwatch run --cached-batches N`` asks for it. The first N batches are read as usual. Then the workers
end. Each pass continues with the cached batches and keeps its length.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from loaderwatch.agent.guard import ask, in_own_language, say
from loaderwatch.agent.loaders.watch import Watch

MAX_DEPTH: Final = 4
WARM_RATIO: Final = 0.25
"""Share of the batches read first, whose time does not count: the first steps compile and fill caches."""
FEW: Final = 4
"""Fewest iterations for which a speed is printed."""


class CachedBatches:
    """The first batches of one loader, and how fast the loop took them at first and when repeated.

    Args:
        most: how many batches are kept.
        began: called once, when the first batch is repeated.
    """

    def __init__(self, most: int, began: Callable[[], None]) -> None:
        self.most = most
        self._began = began
        self._kept: list[Any] = []  # empty until there are ``most`` batches, or all of the loader
        self._given = 0  # how often a kept batch was given
        self._length: int | None = None  # batches of a pass over a loader without ``len``
        self._read_ns: list[int] = []  # when each kept batch was first given
        self._again = (0, 0)  # iterations with kept batches, and their nanoseconds

    def passing(self, loader: Any, begin: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """Return one pass over the loader; ``begin`` begins a real pass."""
        length = _length(loader)
        length = self._length if length is None else length
        given = 0
        if not self._kept:
            kept: list[Any] = []
            times: list[int] = []
            iterator = begin()
            for batch in iterator:
                if not self._kept and len(kept) < self.most:
                    kept.append(batch)
                    times.append(time.monotonic_ns())
                given += 1
                yield _shallow(batch)
                if len(kept) == self.most and length is not None:
                    break
            else:  # the pass ended by itself
                self._length = given
                length = given
            if not self._kept and kept:
                self._kept, self._read_ns = kept, times
                _end(loader, iterator)
            del iterator
        yield from self._replay((length or 0) - given)

    def _replay(self, batches: int) -> Iterator[Any]:
        if batches <= 0:
            return
        if not self._given:
            self._began()
        first_ns = last_ns = time.monotonic_ns()
        for number in range(batches):
            batch = self._kept[self._given % len(self._kept)]
            self._given += 1
            last_ns = time.monotonic_ns()
            if number:
                steps, took_ns = self._again
                self._again = (steps + 1, took_ns + last_ns - first_ns)
            first_ns = last_ns
            yield _shallow(batch)

    def speeds(self) -> tuple[float, float] | None:
        """Return batches per second when read and when repeated; None with too few batches."""
        times = self._read_ns[int(WARM_RATIO * len(self._read_ns)) :]
        steps, took_ns = self._again
        if min(len(times) - 1, steps) < FEW or times[-1] <= times[0] or not took_ns:
            return None
        return (len(times) - 1) * 1e9 / (times[-1] - times[0]), steps * 1e9 / took_ns

    def say_speeds(self, name: str) -> None:
        """Print on stderr what a perfect loader would gain."""
        kept = len(self._read_ns)
        speeds = self.speeds()
        if speeds is None:
            steps = self._again[0]
            say(in_own_language("too-few-cached-batches", loader=name, read=kept, steps=steps))
            return
        read, again = speeds
        say(
            in_own_language(
                "speed-with-cached-batches",
                loader=name,
                kept=kept,
                read_per_s=f"{read:.3g}",
                again_per_s=f"{again:.3g}",
                times=again / read if again > 1.05 * read else None,
            )
        )


def cached_batches(watch: Watch, most: int, publish: Callable[[int], None]) -> CachedBatches:
    """Return the cache of a loader; ``publish`` receives its number of batches when they begin to repeat."""

    def began() -> None:
        say(in_own_language("cached-batches-repeat", loader=watch.name, batches=most))
        publish(most)

    return CachedBatches(most, began)


def _length(loader: Any) -> int | None:
    length = ask(lambda: len(loader))
    return length if isinstance(length, int) else None


def _end(loader: Any, iterator: Any) -> None:
    """End the workers of an abandoned pass: they would take CPUs and memory from the model."""
    end = getattr(iterator, "_shutdown_workers", None)
    if callable(end):
        end()
    if getattr(loader, "_iterator", None) is iterator:
        loader._iterator = None


def _shallow(batch: Any, depth: int = 0) -> Any:
    """Return a batch with new containers and the same tensors: the loop may take items out of it."""
    if depth > MAX_DEPTH:
        return batch
    if type(batch) is dict:
        return {key: _shallow(value, depth + 1) for key, value in batch.items()}
    if type(batch) is list:
        return [_shallow(value, depth + 1) for value in batch]
    if type(batch) is tuple:
        return tuple(_shallow(value, depth + 1) for value in batch)
    if isinstance(batch, dict) or hasattr(batch, "keys"):
        return copy.copy(batch)  # a framework's own kind of dictionary
    return batch
