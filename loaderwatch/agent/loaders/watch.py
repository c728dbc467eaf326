"""The watch of one loader: its number, settings and counters, and whether its sampler is told of the epochs."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any, Final, Protocol

from loaderwatch.agent.hot import DeviceClock, PhaseClock
from loaderwatch.agent.hot.layout import Reader, nothing_to_read
from loaderwatch.agent.loader_description import shuffles_by_epoch
from loaderwatch.agent.recorder import Recorder
from loaderwatch.core.records import UNKNOWN, EndedBy, IterKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from loaderwatch.agent.workers.fetch import FetchClock
    from loaderwatch.agent.workers.sample_limit import SampleGuard, SampleLimit
    from loaderwatch.core.facts import LoaderRole

PUBLISHED_PASSES: Final = 3
"""How many passes in the same order are published; more say nothing new, and publishing writes a file."""


_WORKER_DIED: Final = "DataLoader worker (pid"
"""How PyTorch's error begins when a worker was killed or left by itself."""


def ended_by(error: BaseException) -> EndedBy:
    """Return how the pass ends whose ``next`` raised this."""
    if isinstance(error, StopIteration):
        return EndedBy.EXHAUSTED
    died = isinstance(error, RuntimeError) and str(error).startswith(_WORKER_DIED)
    return EndedBy.WORKER_DIED if died else EndedBy.ERROR


def _nobody() -> None:
    pass


def _reads_nothing(iterator: Any) -> Reader:
    return nothing_to_read


class WorkerProbeMaker(Protocol):
    """A function that makes the ``worker_init_fn`` which watches a worker."""

    def __call__(
        self, loader: int, init: Callable[[int], None] | None, limit: SampleLimit | None
    ) -> Callable[[int], None]:
        """Return a picklable probe for workers of this loader; it calls ``init``, the user's own ``worker_init_fn``."""


class WatchedPass(Protocol):
    """The part of a pass that a watch and the loader's iterators use."""

    opened: bool
    ended: EndedBy | None
    kind: IterKind

    @property
    def waits(self) -> bool:
        """Whether somebody is inside ``next`` of this pass."""

    def read_from(self, inner: Any) -> None:
        """Read batches ready and the like from PyTorch's iterator from now on, from which this pass gets its batches."""


class PassSource(Protocol):
    """What gives a loader's passes in its place."""

    def passing(self, loader: Any, begin: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """Return a pass over the loader; ``begin`` begins one of its own."""


class Tuner(Protocol):
    """What changes a loader's settings between its passes. None of these raises."""

    @property
    def settings(self) -> dict[str, Any]:
        """The facts of the loader that are the tuner's by now."""

    @property
    def before_pass(self) -> Callable[[Any], None]:
        """Is called with the loader before ``iter(loader)``."""

    @property
    def begun(self) -> Callable[[Any], None]:
        """Is called with the loader after it, also if it raised."""

    @property
    def leaving(self) -> Callable[[Any], None]:
        """Is called with PyTorch's iterator before its workers end."""


class Watch:
    """One watched loader: its number, its settings, its counters."""

    def __init__(
        self,
        loader: int,
        name: str,
        role: LoaderRole,
        recorder: Recorder,
        make_probe: WorkerProbeMaker | None,
        make_fetch: Callable[[int], FetchClock],
        refresh: Callable[[], None],
        note_calls: Callable[[int | None], None],
        note_reader: Callable[[int, str, str | None], None],
    ) -> None:
        self.loader = loader
        self.name = name
        self.role = role
        self.recorder = recorder
        self.phases: PhaseClock | None = None
        self.gpu: DeviceClock | None = None
        self.make_probe = make_probe
        self._make_fetch = make_fetch
        self._fetch: FetchClock | None = None
        self.closed = False  # the loader was detached
        self.epochs = 0
        self.batches = 0
        self.ended_ns = UNKNOWN  # end of the epoch before
        self.sampler_ns = UNKNOWN
        self.building = False  # inside the loader's own iterator construction
        self.beginning = False  # inside iter(loader)
        self.outers: list[WatchedPass] = []  # passes of iterators that are not PyTorch's but may read one
        self.passes: list[WatchedPass] = []  # all passes that have not ended
        # when the newest pass ended; maxsize while none of the present loader's has
        self.left_ns = sys.maxsize
        self.made_anew = False  # the loader was made anew, and its workers are still to be started
        self.built: list[weakref.ref[Any]] = []  # PyTorch's iterators, made inside iter(loader)
        self.inner: Callable[[], Any] = (
            _nobody  # PyTorch's iterator that a pass of ``outers`` reads from, while it lives
        )
        self.reader_of: Callable[[Any], Reader] = _reads_nothing  # returns the reader of such an iterator
        self.began_cpu_ns = 0  # the CPU clock as iter(loader) was entered
        self.refresh = refresh  # looks up rank and run again: init_process_group may come after attach
        self.note_calls = note_calls  # publishes from where a training pass is read
        self._note_reader = note_reader
        self.note_pass: Callable[[], None] | None = None  # looks at the sampler as a pass begins
        self.tuner: Tuner | None = None  # attach(autotune=True)
        self.cached: PassSource | None = None  # LOADERWATCH_CACHED_BATCHES
        self.limit: SampleLimit | None = None  # attach(sample_timeout=)
        self.sample_guard: SampleGuard | None = None  # keeps it in this process

    def note_reader(self, thread: str, error: str | None) -> None:
        """Publish that this thread reads the loader, and the type of the error that ended that."""
        self._note_reader(self.loader, thread, error)

    def in_process_fetch(self) -> FetchClock:
        """Return the clock of fetches on the training thread, which counts them over all epochs."""
        if self._fetch is None:
            self._fetch = self._make_fetch(self.loader)
        return self._fetch


def epoch_check(
    loader: Any, publish: Callable[[int], None], earlier: Callable[[], None] | None = None
) -> Callable[[], None] | None:
    """Return a function to call as each pass over the loader begins; None when its sampler has no epoch to set.

    A DistributedSampler whose ``set_epoch`` is never called gives every epoch in the same order. ``publish`` is told how many
    passes in a row began with the same epoch; those over ``earlier``'s loader count, which this one takes the place of.
    """
    sampler = getattr(loader, "sampler", None)
    if not shuffles_by_epoch(sampler):
        return None
    if isinstance(earlier, _EpochCheck):
        earlier.follow(weakref.ref(sampler))
        return earlier
    return _EpochCheck(weakref.ref(sampler), publish)


class _EpochCheck:
    """Counts the passes in a row that began with the same epoch of the sampler."""

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
