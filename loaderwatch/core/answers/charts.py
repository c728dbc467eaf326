"""The data of charts: series, heat maps, epochs, fetches, and the events beside them."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from loaderwatch.core.facts import LoaderRole
from loaderwatch.core.message import Text

MarkKind: TypeAlias = Literal["config", "checkpoint", "evaluation", "attempt", "alert"]


class EpochParts(msgspec.Struct, frozen=True, kw_only=True):
    """An epoch in the order of its parts, in seconds. None: not known, or not over yet."""

    epoch: int
    began_at: float
    start_s: float | None  # iter(loader) without the sampler: workers are started or reset
    sampler_s: float | None  # until the sampler returned its first index
    first_batch_s: float | None  # the first next(loader)
    steady_s: float | None  # from the first batch until the end of the epoch was detected
    teardown_s: float | None
    gap_s: float | None  # from its end to the next epoch of this loader
    cost_s: float  # start, sampler, teardown, and the first batch beyond a usual wait
    ended_at: float | None
    ended_by: str | None
    batches: int | None
    iter_kind: str | None
    workers: int | None
    drained: int | None  # batches of the previous epoch that a reset discarded


class LoaderEpochs(msgspec.Struct, frozen=True, kw_only=True):
    """A loader's epochs, ``GET /runs/{run}/boundaries``; a loader recreated in each epoch counts as one."""

    rank: int
    loader: int
    name: str
    role: LoaderRole
    epochs: int  # ``cost_s`` is the sum over these
    cost_s: float
    usual_wait_s: float  # recent median wait for a batch after the first; 0 if not known
    newest: list[EpochParts]  # the newest epochs, the oldest of them first


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """An event beside charts, ``GET /runs/{run}/marks``."""

    kind: MarkKind
    began_at: float
    ended_at: float | None  # None: a moment, or not over yet
    ranks: list[int]  # empty: the whole run
    text: str  # ``text_text`` in English; names of phases and loaders are not translated
    finding_id: str | None = None  # of an alert
    text_text: Text | None = None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """A metric over time: ``t``, ``min``, ``mean`` and ``max`` have one value per bucket."""

    metric: str
    rank: int | None
    bucket_s: float
    t: list[float]
    min: list[float | None]
    mean: list[float | None]
    max: list[float | None]


class Heatmap(msgspec.Struct, frozen=True, kw_only=True):
    """A metric over time, a row of ``values`` per rank or host, shape (ranks, t).

    A host's row has in each bucket the worst value of its ranks, and in ``ranks`` the rank that is worst on
    average. The ``hosts`` are the rows' hosts; ``of`` is the number of requested rows that exist.
    """

    metric: str
    bucket_s: float
    ranks: list[int]
    t: list[float]
    values: list[list[float | None]]
    hosts: list[str] = []
    of: int = 0


class Epoch(msgspec.Struct, frozen=True, kw_only=True):
    """An epoch of a loader and what its boundaries cost."""

    rank: int
    loader: int
    epoch: int
    began_at: float
    iter_s: float | None
    sampler_s: float | None
    first_wait_s: float | None
    iter_kind: str | None
    workers: int | None
    drained: int | None
    gap_s: float | None
    ended_at: float | None
    teardown_s: float | None
    batches: int | None
    ended_by: str | None


class Fetches(msgspec.Struct, frozen=True, kw_only=True):
    """Fetches of a rank's workers, as columns of one length."""

    loader: list[int]
    worker: list[int]
    began_at: list[float]
    fetch_s: list[float | None]
    collate_s: list[float | None]
    cpu_s: list[float | None]
    samples: list[int | None]
    slow_index: list[int | None]
    slow_s: list[float | None]
    bytes: list[int | None]


class SlowSample(msgspec.Struct, frozen=True, kw_only=True):
    """The slowest reading of a dataset index."""

    rank: int
    loader: int
    worker: int
    index: int
    slow_s: float
    fetch_s: float | None
    at: float


ProfilePartName: TypeAlias = Literal["fetch", "step", "evaluation", "boundary"]
ThreadStateName: TypeAlias = Literal[
    "running", "runnable", "disk", "network", "lock", "pipe", "child", "timer", "waiting"
]


class ProfileFrame(msgspec.Struct, frozen=True, kw_only=True):
    """One frame of a sampled stack. ``library``: it belongs to Python or an installed package."""

    file: str
    line: int
    function: str
    library: bool


class CountedStack(msgspec.Struct, frozen=True, kw_only=True):
    """A stack that was sampled ``samples`` times in one state. ``frames``: the outermost first."""

    frames: list[ProfileFrame]
    state: ThreadStateName
    samples: int


class ProfileLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the user's code, with the calls that it makes into libraries.

    ``share`` is its share of the samples; ``low`` and ``high`` are its 95 % interval (Wilson 1927).
    """

    file: str
    line: int
    function: str
    share: float
    low: float
    high: float
    states: dict[ThreadStateName, float]  # shares of this line's samples
    calls: str | None = None  # the library's function that it usually is in; None: its own code
    per_sample_s: float | None = None  # of a dataset's sample, for "fetch"
    per_batch_s: float | None = None  # of a batch or step
    speedup: float | None = None  # if it took no time, the loop would be at most so many times as fast


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of fetches, steps, evaluations or epoch boundaries goes, from samples of stacks."""

    of: ProfilePartName
    ranks: list[int]
    start: float | None  # of the first counts
    end: float | None
    samples: int  # with a stack
    unread: int  # without: the process could not be read at that moment, or its stack is a rare one
    states: dict[ThreadStateName, float]  # shares of the samples
    lines: list[ProfileLine]  # the largest share first
    stacks: list[CountedStack]  # the most frequent first
