"""Paces: a loader's recent steps on one rank and its workers' fetches, which detectors judge."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.records import UNKNOWN
from loaderwatch.detect.device_clock import RankClock, gpu_step_of, hidden_of, slack_of
from loaderwatch.detect.measures.fetches import Fetches, fetches_of
from loaderwatch.detect.measures.statistics import Floats, mean, ratio, total
from loaderwatch.detect.measures.time_use import open_wait_s
from loaderwatch.detect.nested_evaluation import passes_s
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import RankWindow, seconds

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Pace:
    """The steady-state steps of one loader on one rank; arrays have one entry per step (a row), oldest first.

    Rows outside the steady state are left out: the first batches of each epoch, when the prefetch queue is
    still empty, and rows of a loader that another thread iterates. An open wait is the last row.
    """

    rank: RankWindow
    loader: LoaderInfo
    workers: int | None  # None: not a DataLoader
    request_ns: Ints
    epoch: Ints
    batch: Ints
    step: Ints  # the step's number in the run, the same for all batches of a step; UNKNOWN possible
    wait_s: Floats
    wait_cpu_s: Floats
    step_s: Floats  # this loop's own work
    phases_s: Floats  # part of it in copy, model and optimizer by the loop's clock; NaN if not timed
    model_s: Floats  # part of it in forward and backward pass, without DDP's exchange
    optimizer_s: Floats  # part of it in the optimizer's step; NaN if there was none
    nested_s: Floats  # waits on other training loaders inside the step, and work with their batches
    aside_s: Floats  # evaluation inside the step, not included in step_s and nested_s
    apart_s: Floats  # script's work between two passes before this row, in the newest row also after it
    beside_s: Floats  # part of aside_s that the loop did itself outside the evaluation's passes
    ready: Ints  # batches that lay ready when the wait began; UNKNOWN possible
    cached: Ints
    awaited: Ints
    optimizer_steps: Ints
    open_wait: bool  # the last row is a wait that still goes on
    hidden_s: Floats  # part of the loop's wait in which the GPU still had work; NaN by the loop's clock
    slack_s: Floats  # work that the GPU had left when the batch was requested; NaN if unknown
    gpu_step_s: Floats  # GPU time from the delivery to the next request; NaN if unknown
    fetches: Fetches

    @cached_property
    def total_s(self) -> float:
        """Return the seconds of all rows. Evaluation is left out, whether inside a step or between passes."""
        return total(self.wait_s) + total(self.step_s) + total(self.nested_s)

    @cached_property
    def elapsed_s(self) -> float:
        """Return the seconds of all rows plus the script's work between passes, such as RL simulation."""
        return self.total_s + total(self.apart_s)

    @cached_property
    def in_pass_ratio(self) -> float:
        """Return the share (0 to 1) of the elapsed time within passes over the loader; NaN without time."""
        return ratio(self.total_s, self.elapsed_s)

    @cached_property
    def lost_s(self) -> float:
        """Return the seconds of all rows that were spent waiting for data."""
        return total(self.wait_s)

    @cached_property
    def share(self) -> float:
        """Return the share (0 to 1) of the elapsed time lost to data wait; NaN without any time."""
        return ratio(self.lost_s, self.elapsed_s)

    @property
    def loop_share(self) -> float:
        """Return the share (0 to 1) of the time within the passes lost to data wait; NaN without any time."""
        return ratio(self.lost_s, self.total_s)

    @property
    def empty_share(self) -> float:
        """Return the share (0 to 1) of the time in waits that began without a known ready batch.

        The remaining wait is the time to fetch and unpack a batch that lies ready.
        """
        return ratio(total(self.wait_s[~self.anything_ready]), self.elapsed_s)

    @cached_property
    def loop_wait_s(self) -> Floats:
        """Return how long the loop itself waited for each batch, in seconds, shape (rows,)."""
        result: Floats = self.wait_s + np.nan_to_num(self.hidden_s)
        return result

    @cached_property
    def hidden_wait_s(self) -> float:
        """Return the loop's mean seconds of wait per batch if the GPU hides at least half of it; else NaN."""
        hidden_s, loop_s = float(np.nansum(self.hidden_s)), total(self.loop_wait_s)
        return mean(self.loop_wait_s) if hidden_s > 0.5 * loop_s else math.nan

    @cached_property
    def headroom_s(self) -> Floats:
        """Return the seconds of GPU work left without another batch, shape (rows,); NaN where unknown.

        This is its slack plus the steps of the batches that lie ready.
        """
        ready = np.where(self.ready == UNKNOWN, np.nan, self.ready)
        result: Floats = self.slack_s + ready * self.mean_step_s
        return result

    @cached_property
    def clock(self) -> RankClock:
        """Return whose clock measures the waits: the device's if it has events, else the loop's."""
        if not np.isfinite(self.hidden_s).any():
            return "loop"
        return "nvml" if self.rank.process.other_stream else "device"

    @cached_property
    def mean_step_s(self) -> float:
        """Return the mean seconds of an iteration without any data wait."""
        return mean(self.step_s + np.nan_to_num(self.nested_s))

    @cached_property
    def until_next_s(self) -> Floats:
        """Return the seconds from each delivery to the next request, everything included, shape (rows,)."""
        result: Floats = np.nan_to_num(self.step_s + self.nested_s + self.aside_s)
        return result

    @property
    def ended_ns(self) -> int:
        """Return when the last row ended, ns UTC; for an open wait when it was last seen."""
        return int(self.request_ns[-1]) + int(1e9 * float(self.loop_wait_s[-1] + self.own_s[-1]))

    @cached_property
    def own_s(self) -> Floats:
        """Return the seconds from each delivery to the next request by the loop's clock, shape (rows,)."""
        result: Floats = self.until_next_s - np.nan_to_num(self.hidden_s)
        return result

    @cached_property
    def iteration_s(self) -> float:
        """Return the mean seconds of an iteration now, including data wait; NaN without rows."""
        return ratio(self.total_s, self.wait_s.size)

    @cached_property
    def anything_ready(self) -> NDArray[np.bool_]:
        """Return the mask, shape (rows,), of waits that began with a ready batch; False if unknown."""
        result: NDArray[np.bool_] = (self.ready > 0) | (self.cached > 0)
        return result

    @cached_property
    def collected_s(self) -> Floats:
        """Return the seconds that the garbage collector blocked the worker per fetch, shape (fetches,)."""
        table, fetches = self.rank.table("collections"), self.fetches
        result = np.zeros(fetches.fetch_s.size)
        for worker in np.unique(fetches.worker[fetches.worker >= 0]):
            rows = np.flatnonzero(fetches.worker == worker)
            own = table["worker"] == worker
            began_ns, took_s = table["request_ns"][own], np.nan_to_num(seconds(table["duration_ns"][own]))
            at = np.searchsorted(fetches.began_ns[rows], began_ns, side="right") - 1
            inside = (at >= 0) & (began_ns < fetches.ended_ns[rows][np.maximum(at, 0)])
            np.add.at(result, rows[at[inside]], took_s[inside])
        return result

    @cached_property
    def loop_collected_s(self) -> Floats:
        """Return the seconds that the garbage collector blocked the training in each step, shape (rows,)."""
        return self._collected_s(self._delivered_ns, self._delivered_ns + (self.own_s * 1e9).astype(np.int64))

    @cached_property
    def wait_collected_s(self) -> Floats:
        """Return the seconds that the garbage collector blocked the process in each wait, shape (rows,)."""
        return self._collected_s(self.request_ns, self._delivered_ns)

    @property
    def _delivered_ns(self) -> Ints:
        return self.request_ns + (np.nan_to_num(self.loop_wait_s) * 1e9).astype(np.int64)

    def _collected_s(self, since_ns: Ints, until_ns: Ints) -> Floats:
        table = self.rank.table("collections")
        result = np.zeros(since_ns.size)
        own = table["worker"] == -1
        began_ns, took_s = table["request_ns"][own], seconds(table["duration_ns"][own])
        if not began_ns.size or not result.size:
            return result
        at = np.searchsorted(since_ns, began_ns, side="right") - 1
        inside = (at >= 0) & (began_ns < until_ns[np.maximum(at, 0)])
        np.add.at(result, at[inside], np.nan_to_num(took_s[inside]))
        return result

    def since(self, began_ns: int) -> Pace:
        """Return the pace with only the rows requested at or after a time (ns UTC); all fetches stay."""
        return self.where(self.request_ns >= began_ns)

    def with_fetches(self, mask: NDArray[np.bool_]) -> Pace:
        """Return the pace with the same rows and only the fetches of a mask, shape (fetches,)."""
        return replace(self, fetches=self.fetches.where(mask))

    def where(self, mask: NDArray[np.bool_]) -> Pace:
        """Return the pace with only the rows of a mask, shape (rows,); all fetches stay."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        rows: dict[str, Any] = {name: v[mask] for name, v in values.items() if isinstance(v, np.ndarray)}
        still_open = self.open_wait and bool(mask.size) and bool(mask[-1])
        return replace(self, **rows, open_wait=still_open)


PHASES: Final = ("h2d", "forward", "backward", "optimizer")


def warm_batches(loader: LoaderInfo) -> int:
    """Return how many first batches of an epoch are left out: those that were requested before it began."""
    if not loader.num_workers:
        return 1
    return max(1, loader.num_workers * (loader.prefetch_factor or 2))


def paces_of(rank: RankWindow) -> list[Pace]:
    """Return one pace for each training loader of a rank that delivered a batch in the window."""
    paces = (pace_of(rank, loader) for loader in rank.process.loaders if loader.role == "train")
    return [pace for pace in paces if pace.wait_s.size]


def recent(pace: Pace, limits: Limits, aside_s: float = 0.0) -> Pace | None:
    """Return the pace of "now": the last ``recent_s``, extended until it holds two rounds of the workers.

    ``aside_s``: the seconds in that time whose rows were removed from the pace; the pace reaches back by as
    much more. None if the loader is not being iterated now, or if there are too few rows.
    """
    needed = max(6, 2 * (pace.workers or 1))
    size = pace.wait_s.size
    if size < min(needed, 4):
        return None
    made_ns = pace.rank.made_ns
    last_end_ns = int(pace.request_ns[-1]) + int(1e9 * float(pace.wait_s[-1] + pace.until_next_s[-1]))
    if not pace.open_wait and made_ns - last_end_ns > limits.recent_s * 1e9:
        span = pace.rank.span
        stepping = span is not None and span.loader == pace.loader.loader and span.phase != "outside"
        if not stepping:
            return None
    began_ns = made_ns - int((limits.recent_s + aside_s) * 1e9)
    now = pace.since(began_ns)
    if now.wait_s.size >= needed:
        return now
    mask = np.zeros(size, dtype=bool)
    mask[-needed:] = True
    now = pace.where(mask)
    enough = now.wait_s.size >= needed or now.total_s >= limits.recent_s
    return now if enough else None


def workers_changed_ns(rank: RankWindow, loader: LoaderInfo) -> int | None:
    """Return when the epoch began (ns UTC) since which the number of workers is the same; None if always.

    Measurements with another number of workers do not belong to this pace. A script may change it between two
    epochs, and autotune does.
    """
    begins = rank.table("epoch_begins")
    own = (begins["loader"] == loader.loader) & (begins["workers"] != UNKNOWN)
    workers = begins["workers"][own]
    others = np.flatnonzero(workers != workers[-1]) if workers.size else workers
    return int(begins["request_ns"][own][others[-1] + 1]) if others.size else None


def pace_of(rank: RankWindow, loader: LoaderInfo, warm: int | None = None) -> Pace:
    """Return the pace of a loader without the first ``warm`` batches of each epoch.

    None leaves out batches that were requested before the epoch began. Steps and fetches with another number
    of workers are left out, too.
    """
    steps, recorded = rank.steps, rank.clocked_steps
    warm = warm_batches(loader) if warm is None else warm
    mask = (
        (steps["loader"] == loader.loader)
        & (steps["batch"] >= warm)
        & (steps["off_main_thread"] != 1)
        & (steps["wait_ns"] != UNKNOWN)
    )
    fetches, changed_ns = fetches_of(rank, loader), workers_changed_ns(rank, loader)
    if changed_ns is not None:
        mask &= steps["request_ns"] >= changed_ns
        fetches = fetches.where(fetches.began_ns >= changed_ns)
    nested_s = np.nan_to_num(seconds(steps["nested_ns"][mask]))
    beside_s = np.nan_to_num(seconds(recorded["step_ns"][mask]) - seconds(steps["step_ns"][mask]))
    aside_s = np.nan_to_num(seconds(recorded["nested_ns"][mask])) - nested_s + beside_s
    columns: dict[str, Ints] = {
        key: steps[key][mask]
        for key in (
            "request_ns",
            "epoch",
            "batch",
            "step",
            "ready",
            "cached",
            "awaited_worker",
            "optimizer_steps",
        )
    }
    wait_s, wait_cpu_s, step_s = (seconds(steps[key][mask]) for key in ("wait_ns", "wait_cpu_ns", "step_ns"))
    hidden_s, slack_s, gpu_step_s = (
        seconds(column(steps)[mask]) for column in (hidden_of, slack_of, gpu_step_of)
    )
    copied_s, *computed_s = (seconds(recorded[f"{phase}_ns"][mask]) for phase in PHASES)
    phases_s = np.nan_to_num(copied_s) + computed_s[0] + computed_s[1] + computed_s[2]
    model_s = computed_s[0] + computed_s[1] - np.nan_to_num(seconds(recorded["collective_ns"][mask]))
    optimizer_s = np.where(columns["optimizer_steps"] == 0, np.nan, computed_s[2])
    span = rank.span
    open_wait = (
        rank.process.state == "live"
        and span is not None
        and span.alive
        and span.phase == "wait"
        and span.loader == loader.loader
        and (span.batch is None or span.batch >= warm)
        and rank.made_ns > span.since_ns
    )
    if open_wait:
        assert span is not None
        # step_s of the open row is NaN: the step has not begun. If the device usually has work left when a
        # batch is requested, assume that it has work this time, too.
        open_s = (rank.made_ns - span.since_ns) / 1e9
        lost_s = open_wait_s(rank)
        wait_s = np.append(wait_s, lost_s)
        hidden_s = np.append(hidden_s, open_s - lost_s if np.isfinite(hidden_s).any() else np.nan)
        unknown = wait_cpu_s, step_s, phases_s, model_s, optimizer_s, slack_s, gpu_step_s
        wait_cpu_s, step_s, phases_s, model_s, optimizer_s, slack_s, gpu_step_s = (
            np.append(array, np.nan) for array in unknown
        )
        nested_s, aside_s, beside_s = (np.append(array, 0.0) for array in (nested_s, aside_s, beside_s))
        last = {
            "request_ns": span.since_ns,
            "epoch": UNKNOWN if span.epoch is None else span.epoch,
            "batch": UNKNOWN if span.batch is None else span.batch,
            "awaited_worker": UNKNOWN if span.awaited_worker is None else span.awaited_worker,
        }
        columns = {key: np.append(values, last.get(key, UNKNOWN)) for key, values in columns.items()}
    return Pace(
        rank=rank,
        loader=loader,
        workers=loader.num_workers,
        request_ns=columns["request_ns"],
        epoch=columns["epoch"],
        batch=columns["batch"],
        step=columns["step"],
        wait_s=wait_s,
        wait_cpu_s=wait_cpu_s,
        step_s=step_s,
        phases_s=phases_s,
        model_s=model_s,
        optimizer_s=optimizer_s,
        nested_s=nested_s,
        aside_s=aside_s,
        apart_s=_apart_s(rank, loader, columns["request_ns"]),
        beside_s=beside_s,
        ready=columns["ready"],
        cached=columns["cached"],
        awaited=columns["awaited_worker"],
        optimizer_steps=columns["optimizer_steps"],
        open_wait=open_wait,
        hidden_s=hidden_s,
        slack_s=slack_s,
        gpu_step_s=gpu_step_s,
        fetches=fetches,
    )


def _apart_s(rank: RankWindow, loader: LoaderInfo, request_ns: Ints) -> Floats:
    """Return the seconds of the script's own work between two passes over a loader, each before the next row.

    The shape is (rows,). Passes over other loaders do not count. The newest row also has the work that goes
    on now, up to the longest of the earlier times: there may be no next pass. The end of a training does not
    lie between two passes.
    """
    apart_s = np.zeros(request_ns.size)
    begins, ends = rank.table("epoch_begins"), rank.table("epoch_ends")
    begun = (begins["loader"] == loader.loader) & (begins["gap_ns"] != UNKNOWN)
    until_ns = begins["request_ns"][begun]
    since_ns = until_ns - np.maximum(0, begins["gap_ns"][begun])
    rows = np.searchsorted(request_ns, until_ns)
    over = ends["loader"] == loader.loader
    span = rank.span
    if over.any() and span is not None and span.phase == "outside" and rank.process.state == "live":
        ended_ns = int((ends["request_ns"] + np.maximum(0, ends["teardown_ns"]))[over][-1])
        longest_ns = int((until_ns - since_ns).max(initial=0))
        if request_ns.size and ended_ns > request_ns[-1]:
            since_ns = np.append(since_ns, ended_ns)
            until_ns = np.append(until_ns, min(rank.made_ns, ended_ns + longest_ns))
            rows = np.append(rows, request_ns.size - 1)
    if not since_ns.size or not request_ns.size:
        return apart_s
    others = [info.loader for info in rank.process.loaders if info.loader != loader.loader]
    own_s = (until_ns - since_ns) / 1e9
    if others:
        own_s = own_s - passes_s(others, rank.table("steps"), begins, ends, since_ns, until_ns)
    within = (rows > 0) & (rows < request_ns.size)  # work before the first row is over
    np.add.at(apart_s, rows[within], np.maximum(0.0, own_s[within]))
    return apart_s
