"""What happened when: the parts of each epoch, and the events shown beside charts."""

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
