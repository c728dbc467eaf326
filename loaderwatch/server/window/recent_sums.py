"""Sums of each rank's rows per second, which describe thousands of ranks without their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.wait_rules import KNOWN_RATIO
from loaderwatch.detect.measures.time_use import RECENT_S
from loaderwatch.server.window.row_buffer import LAYOUTS, Block

Floats = NDArray[np.float64]

TABLES: Final = ("steps", "gpu_waits", "gpus")
"""The tables whose rows are summed."""
SECONDS: Final = int(RECENT_S)
"""How many seconds the rates cover."""
_SLOTS: Final = 48
"""Seconds that are kept: a rank's newest rows may come a few seconds after those of other tables."""
_FIRST_CAPACITY: Final = 64
_SECOND_NS: Final = 10**9

(
    _BATCHES,
    _STEPS,
    _WAIT_NS,
    _STEP_NS,
    _FORWARD_NS,
    _BACKWARD_NS,
    _TOLD,
    _STARVED_NS,
    _READINGS,
    _UTILIZATION,
) = range(10)
_MEASURES: Final = 10


class Rates(NamedTuple):
    """What ranks did in the last ``SECONDS``, one value per rank; NaN if unknown."""

    covered_s: Floats  # since the first of these seconds with a batch
    batches: Floats
    steps_per_s: Floats
    waited_s: Floats  # by the device's clock if most batches have a CUDA event
    worked_s: Floats  # the rest of these batches' time
    forward_s: Floats
    backward_s: Floats
    by_device: NDArray[np.bool_]
    utilization_ratio: Floats


class RecentSums:
    """The sums of one attempt of a run: about 4 KB per rank for any number of rows."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}  # by rank: its index in the arrays
        self._sums = np.zeros((_MEASURES, 0, _SLOTS))
        self._second = np.zeros((0, _SLOTS), dtype=np.int64)  # the second in each slot, s UTC

    def take(self, table: str, block: Block, counted: NDArray[np.bool_], firsts: NDArray[np.int64]) -> None:
        """Take in rows of a table, grouped by rank.

        ``firsts`` is where each rank's rows begin. ``counted`` is the result of ``totals.of_training``.
        """
        if table not in TABLES:
            return
        layout = LAYOUTS[table]
        index = layout.index
        second = block[layout.time] // _SECOND_NS
        lengths = np.diff(np.append(firsts, block.shape[1]))
        places = np.repeat([self._place(rank) for rank in block[0, firsts].tolist()], lengths)
        cells = places * _SLOTS + second % _SLOTS
        # Rows of a rank and second are neighbours, except for a few late ones.
        begins = np.flatnonzero(np.concatenate(([True], cells[1:] != cells[:-1])))
        cells, second = cells[begins], second[begins]
        slot_seconds = self._second.reshape(-1)
        is_new_second = slot_seconds[cells] < second
        if is_new_second.any():
            self._sums.reshape(_MEASURES, -1)[:, cells[is_new_second]] = 0.0
            np.maximum.at(slot_seconds, cells, second)
        is_current = slot_seconds[cells] == second
        for measure, values in _measured(table, block, index, counted):
            sums_of_group = np.add.reduceat(values, begins)
            np.add.at(self._sums[measure].reshape(-1), cells[is_current], sums_of_group[is_current])

    def rates(self, ranks: Sequence[int], made_ns: Sequence[int]) -> Rates:
        """Return what ranks did in the seconds before ``made_ns`` (ns UTC, each by its host's clock)."""
        places = np.array([self._place(rank) for rank in ranks], dtype=np.intp)
        newest = np.array(made_ns, dtype=np.int64) / _SECOND_NS
        second = self._second[places]
        within = second > (newest - SECONDS - 1)[:, None]  # whole seconds, and the current one
        sums = np.where(within, self._sums[:, places], 0.0).sum(axis=2)
        begun = np.where(within & (self._sums[_BATCHES, places] > 0), second, np.iinfo(np.int64).max)
        covered_s = np.maximum(0.0, newest - begun.min(axis=1, initial=np.iinfo(np.int64).max))
        batches, timed = sums[_BATCHES], sums[_TOLD]
        by_device = (timed > 0) & (timed >= KNOWN_RATIO * batches)
        loop_ns = sums[_WAIT_NS] + sums[_STEP_NS]
        with np.errstate(divide="ignore", invalid="ignore"):
            starved_ns = np.minimum(sums[_WAIT_NS], sums[_STARVED_NS] * np.maximum(1.0, batches / timed))
            steps_per_s = np.where(covered_s > 0.5, sums[_STEPS] / covered_s, np.nan)
            utilization = np.where(sums[_READINGS] > 0, sums[_UTILIZATION] / sums[_READINGS], np.nan)
        waited_ns = np.where(by_device, starved_ns, sums[_WAIT_NS])
        return Rates(
            covered_s=covered_s,
            batches=batches,
            steps_per_s=steps_per_s,
            waited_s=waited_ns / 1e9,
            worked_s=(loop_ns - waited_ns) / 1e9,
            forward_s=sums[_FORWARD_NS] / 1e9,
            backward_s=sums[_BACKWARD_NS] / 1e9,
            by_device=by_device,
            utilization_ratio=utilization,
        )

    def _place(self, rank: int) -> int:
        place = self._places.get(rank)
        if place is None:
            place = self._places[rank] = len(self._places)
            if place >= self._second.shape[0]:
                self._grow()
        return place

    def _grow(self) -> None:
        """Double the room for ranks."""
        capacity = max(_FIRST_CAPACITY, 2 * self._second.shape[0])
        sums, second = np.zeros((_MEASURES, capacity, _SLOTS)), np.zeros((capacity, _SLOTS), dtype=np.int64)
        sums[:, : self._sums.shape[1]], second[: self._second.shape[0]] = self._sums, self._second
        self._sums, self._second = sums, second


def _measured(
    table: str, block: Block, at: dict[str, int], counts: NDArray[np.bool_]
) -> list[tuple[int, Floats]]:
    """Return the values that a table's rows add, by measure; 0 for rows that do not count."""

    def known(name: str) -> Floats:
        values = block[at[name]]
        return np.where(counts & (values != UNKNOWN), values, 0).astype(np.float64)

    if table == "steps":
        counts = counts & (block[at["off_main_thread"]] != 1)
        made = block[at["optimizer_steps"]]
        return [
            (_BATCHES, counts.astype(np.float64)),
            (_STEPS, np.where(counts, np.where(made >= 0, made, 1), 0).astype(np.float64)),
            (_WAIT_NS, known("wait_ns")),
            (_STEP_NS, known("step_ns")),
            (_FORWARD_NS, known("forward_ns")),
            (_BACKWARD_NS, known("backward_ns")),
        ]
    if table == "gpu_waits":
        counts = counts & (block[at["starved_ns"]] != UNKNOWN)
        return [(_TOLD, counts.astype(np.float64)), (_STARVED_NS, known("starved_ns"))]
    values = block[at["utilization_ratio"]].view(np.float64)
    is_known = ~np.isnan(values)
    return [(_READINGS, is_known.astype(np.float64)), (_UTILIZATION, np.where(is_known, values, 0.0))]
