"""What happened when: the parts of each epoch, and the events that stand beside charts."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from loaderwatch.core.facts import LoaderRole
from loaderwatch.core.message import Text

MarkKind: TypeAlias = Literal["config", "checkpoint", "evaluation", "attempt", "alert"]


class EpochParts(msgspec.Struct, frozen=True, kw_only=True):
    """An epoch in the order of its parts, seconds each. None: not known, or not over yet."""

    epoch: int
    began_at: float
    start_s: float | None  # iter(loader) without the sampler: workers are started or reset
    sampler_s: float | None  # until the sampler gave its first index
    first_batch_s: float | None  # the first next(loader)
    steady_s: float | None  # from the first batch until the end was found
    teardown_s: float | None
    gap_s: float | None  # from its end to the next epoch of this loader
    cost_s: float  # start, sampler, teardown, and the first batch beyond a usual wait
    ended_at: float | None
    ended_by: str | None
    batches: int | None
    iter_kind: str | None
    workers: int | None
    drained: int | None  # batches of the epoch before that a reset threw away


class LoaderEpochs(msgspec.Struct, frozen=True, kw_only=True):
    """The epochs of a loader, ``GET /runs/{run}/boundaries``; a loader that is built anew for each epoch is one."""

    rank: int
    loader: int
    name: str
    role: LoaderRole
    epochs: int  # of which ``cost_s`` is the sum
    cost_s: float
    usual_wait_s: float  # median wait for a batch after the first, lately; 0 where not known
    newest: list[EpochParts]  # the newest of them, oldest first


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """An event beside charts, ``GET /runs/{run}/marks``."""

    kind: MarkKind
    began_at: float
    ended_at: float | None  # None: a moment, or not over yet
    ranks: list[int]  # empty: the run
    text: str  # ``text_text`` in English; the name of a phase or of a loader has no other words
    finding_id: str | None = None  # of an alert
    text_text: Text | None = None
