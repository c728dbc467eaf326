"""The watch of one loader: its number, settings and counters, and whether its sampler's epoch is set."""

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
"""Most passes in the same order that are published: more say nothing new, and publishing writes a file."""


_WORKER_DIED: Final = "DataLoader worker (pid"
"""The begin of PyTorch's error message when a worker was killed or exited by itself."""


def ended_by(error: BaseException) -> EndedBy:
    """Return how a pass ends if its ``next`` raised this error."""
    if isinstance(error, StopIteration):
        return EndedBy.EXHAUSTED
    died = isinstance(error, RuntimeError) and str(error).startswith(_WORKER_DIED)
    return EndedBy.WORKER_DIED if died else EndedBy.ERROR


def _nobody() -> None:
    pass


def _reads_nothing(iterator: Any) -> Reader:
    return nothing_to_read


class WorkerProbeMaker(Protocol):
    """A function that makes the ``worker_init_fn`` of watched workers."""

    def __call__(
        self, loader: int, init: Callable[[int], None] | None, limit: SampleLimit | None
    ) -> Callable[[int], None]:
        """Return a picklable probe for this loader's workers; it calls ``init``, the user's own function."""


class WatchedPass(Protocol):
    """The part of a pass that a watch and the loader's iterators use."""

    opened: bool
    ended: EndedBy | None
    kind: IterKind

    @property
    def waits(self) -> bool:
        """Whether a thread is inside ``next`` of this pass."""

    def read_from(self, inner: Any) -> None:
        """Use PyTorch's iterator ``inner``, which feeds this pass, as the source of its state from now on."""


class PassSource(Protocol):
    """A replacement for a loader's own passes."""

    def passing(self, loader: Any, begin: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """Return a pass over the loader; ``begin`` begins a real pass."""


class Tuner(Protocol):
    """Changes a loader's settings between its passes. None of these functions raises."""

    @property
    def settings(self) -> dict[str, Any]:
        """The loader's settings that the tuner has changed."""

    @property
    def before_pass(self) -> Callable[[Any], None]:
        """Called with the loader before ``iter(loader)``."""

    @property
    def begun(self) -> Callable[[Any], None]:
        """Called with the loader after ``iter(loader)``, also after an error."""

    @property
    def leaving(self) -> Callable[[Any], None]:
        """Called with PyTorch's iterator before its workers end."""


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
        self.ended_ns = UNKNOWN  # end of the previous epoch
        self.sampler_ns = UNKNOWN
        self.building = False  # inside the loader's own iterator construction
        self.beginning = False  # inside iter(loader)
        self.outers: list[WatchedPass] = []  # passes of other iterators, which may read PyTorch's
        self.passes: list[WatchedPass] = []  # all passes that have not ended
        self.left_ns = sys.maxsize  # end of the newest pass; maxsize until the current loader has ended one
        self.made_anew = False  # the loader was recreated, and its workers have not started yet
        self.built: list[weakref.ref[Any]] = []  # PyTorch's iterators, made inside iter(loader)
        # PyTorch's iterator that feeds a pass of ``outers``, while it lives
        self.inner: Callable[[], Any] = _nobody
        self.reader_of: Callable[[Any], Reader] = _reads_nothing  # returns the reader of such an iterator
        self.began_cpu_ns = 0  # the CPU clock when iter(loader) was entered
        self.refresh = refresh  # looks up rank and run again: init_process_group may come after attach
        self.note_calls = note_calls  # publishes where a training pass is read
        self._note_reader = note_reader
        self.note_pass: Callable[[], None] | None = None  # checks the sampler when a pass begins
        self.tuner: Tuner | None = None  # attach(autotune=True)
        self.cached: PassSource | None = None  # LOADERWATCH_CACHED_BATCHES
        self.limit: SampleLimit | None = None  # attach(sample_timeout=)
        self.sample_guard: SampleGuard | None = None  # enforces the limit in this process

    def note_reader(self, thread: str, error: str | None) -> None:
        """Publish that this thread reads the loader, and the type of the error that ended the reading."""
        self._note_reader(self.loader, thread, error)

    def in_process_fetch(self) -> FetchClock:
        """Return the clock of fetches on the training thread. It counts over all epochs."""
        if self._fetch is None:
            self._fetch = self._make_fetch(self.loader)
        return self._fetch


def epoch_check(
    loader: Any, publish: Callable[[int], None], earlier: Callable[[], None] | None = None
) -> Callable[[], None] | None:
    """Return a function to call when each pass over the loader begins; None if its sampler has no epoch.

    A DistributedSampler whose ``set_epoch`` is never called gives every epoch in the same order. ``publish``
    receives the number of passes in a row that began with the same epoch. Passes that ``earlier`` counted are
    included: this loader replaces the loader of ``earlier``.
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
        """Check another sampler from now on."""
        self._sampler = sampler

    def __call__(self) -> None:
        sampler = self._sampler()
        if sampler is None:
            return
        passes_before = self._passes
        self._passes = passes_before + 1 if sampler.epoch == self._epoch else 1
        self._epoch = sampler.epoch
        if self._passes != passes_before and self._passes <= PUBLISHED_PASSES:
            self._publish(self._passes)
