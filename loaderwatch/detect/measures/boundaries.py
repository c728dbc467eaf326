"""Epoch boundaries of one loader as rows: the end of one epoch and the beginning of the next."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.records import UNKNOWN, EndedBy, IterKind
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.device_clock import hidden_of, told_of
from loaderwatch.detect.measures.statistics import Floats, known, median
from loaderwatch.detect.shared_thresholds import NEWEST_EPOCHS
from loaderwatch.detect.window import RankWindow, seconds

NOISE_S: Final = threshold(0.001, "s", "chosen: the loop's and the device's clock differ by as much")


@dataclass(frozen=True, slots=True)
class Boundary:
    """One epoch boundary: the time from the end of one epoch to the first batch of the next, in seconds."""

    epoch: int  # the epoch that begins
    request_ns: int  # when iter(loader) was entered, UTC
    iter_s: float  # all of iter(loader)
    sampler_s: float  # part of iter_s until the sampler gave its first index
    first_wait_s: float  # for the first batch, beyond a usual wait
    teardown_s: float  # at the end of the previous epoch
    kind: IterKind | None
    workers: int
    drained: int  # stale batches that a reset threw away
    ended_by: EndedBy | None  # how the previous epoch ended
    batches_before: int | None  # how many batches the previous epoch delivered
    first_fetch_s: float  # the first fetch of the new epoch; NaN if unknown
    gap_s: float  # the loop's own time between the two epochs
    rebuilt: bool = False  # a new loader was built for the epoch
    hidden_s: float = 0.0  # part of all these times in which the device still had work

    @property
    def start_s(self) -> float:
        """Return the seconds of iter(loader) without the sampler: starting or resetting workers."""
        return max(0.0, self.iter_s - self.sampler_s)

    @property
    def ended_ns(self) -> int:
        """Return when the first batch arrived, ns UTC."""
        return self.request_ns + int((self.iter_s + self.first_wait_s) * 1e9)

    @property
    def cost_s(self) -> float:
        """Return the cost in seconds: teardown, iter(loader) and first wait, minus what the device hid."""
        return max(0.0, self.iter_s + self.first_wait_s + self.teardown_s - self.hidden_s)


def boundaries(rank: RankWindow, loader: LoaderInfo) -> list[Boundary]:
    """Return the epoch boundaries of a loader in the window, one for each epoch that began, oldest first."""
    begins, ends = rank.table("epoch_begins"), rank.table("epoch_ends")
    rows = np.flatnonzero(begins["loader"] == loader.loader)[-NEWEST_EPOCHS:]
    ended = {int(ends["epoch"][row]): row for row in np.flatnonzero(ends["loader"] == loader.loader)}
    usual_s = usual_wait_s(rank, loader)
    fetches = rank.table("fetches")
    own = fetches["loader"] == loader.loader
    began_ns, fetch_s = fetches["request_ns"][own], seconds(fetches["fetch_ns"][own])
    hidden = _hidden_s(rank, loader)
    usual_hidden_s = float(np.median(list(hidden.values()))) if hidden else 0.0
    result = []
    for row in rows:
        epoch = int(begins["epoch"][row])
        end = ended.get(epoch - 1)
        request_ns = int(begins["request_ns"][row])
        iter_s, first_s = _s(begins["iter_ns"][row]), _s(begins["first_wait_ns"][row])
        kind = _kind(int(begins["iter_kind"][row]))
        until_ns = request_ns + int((iter_s + first_s) * 1e9)
        teardown_s = _s(ends["teardown_ns"][end]) if end is not None else 0.0
        hidden_s = hidden.get(epoch, usual_hidden_s)
        result.append(
            Boundary(
                epoch=epoch,
                request_ns=request_ns,
                iter_s=iter_s,
                sampler_s=_s(begins["sampler_ns"][row]),
                first_wait_s=max(0.0, first_s - usual_s),
                teardown_s=teardown_s,
                kind=IterKind.STARTED if kind is IterKind.REBUILT else kind,
                workers=_count(int(begins["workers"][row])),
                drained=_count(int(begins["drained"][row])),
                ended_by=_ended_by(int(ends["ended_by"][end])) if end is not None else None,
                batches_before=int(ends["batches"][end]) if end is not None else None,
                first_fetch_s=_first_fetch_s(began_ns, fetch_s, request_ns, until_ns),
                gap_s=_s(begins["gap_ns"][row]),
                rebuilt=kind is IterKind.REBUILT or (loader.loader, epoch) in rank.rebuilt,
                # A device that has work left at the first request also had work during all that came before.
                hidden_s=hidden_s + iter_s + teardown_s if hidden_s > 0 else 0.0,
            )
        )
    return result


def _hidden_s(rank: RankWindow, loader: LoaderInfo) -> dict[int, float]:
    """Return by epoch how long the device still had work in the first wait, as far as events tell."""
    steps = rank.clocked_steps
    first = (steps["loader"] == loader.loader) & (steps["batch"] == 0) & told_of(steps)
    hidden_s = hidden_of(steps)[first] / 1e9
    return dict(
        zip(
            steps["epoch"][first].tolist(), np.where(hidden_s >= NOISE_S, hidden_s, 0.0).tolist(), strict=True
        )
    )


def usual_wait_s(rank: RankWindow, loader: LoaderInfo) -> float:
    """Return the median wait in seconds for a batch that is not an epoch's first; 0 if none is known."""
    steps = rank.table("steps")
    own = (steps["loader"] == loader.loader) & (steps["batch"] > 0)
    value = median(seconds(steps["wait_ns"][own]))
    return value if math.isfinite(value) else 0.0


def _first_fetch_s(
    began_ns: np.ndarray[tuple[int], np.dtype[np.int64]], fetch_s: Floats, since_ns: int, until_ns: int
) -> float:
    """Return the seconds of the longest fetch between an epoch's start and its first batch; NaN if none."""
    ended_ns = began_ns + (np.nan_to_num(fetch_s) * 1e9).astype(np.int64)
    inside = (began_ns >= since_ns) & (ended_ns <= until_ns + 50_000_000)
    took = known(fetch_s[inside])
    return float(took.max()) if took.size else math.nan


def _s(value: int) -> float:
    return 0.0 if value == UNKNOWN else max(0, int(value)) / 1e9


def _count(value: int) -> int:
    return max(0, value)


def _kind(value: int) -> IterKind | None:
    return IterKind(value) if value in IterKind._value2member_map_ else None


def _ended_by(value: int) -> EndedBy | None:
    return EndedBy(value) if value in EndedBy._value2member_map_ else None
