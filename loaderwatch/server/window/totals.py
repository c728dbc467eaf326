"""Running sums over a run: by rank, and along the critical path of ranks that share their iterations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Clock
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.wait_rules import KNOWN_RATIO
from loaderwatch.detect.measures.critical_path import PathSums
from loaderwatch.server.store.facts import LOADER_BASE
from loaderwatch.server.store.protocol import PathTotals, RankTotals
from loaderwatch.server.window.row_buffer import LAYOUTS, Block

MOST_ITERATIONS: Final = 16_384
"""Iterations (and epochs) in which late ranks are compared with the others: half an hour at ten a second."""
_DURATIONS: Final = {
    "steps": "wait_ns",
    "gpu_waits": "starved_ns",
    "epoch_begins": "iter_ns",
    "epoch_ends": "teardown_ns",
}
"""Per table, the duration for which a row's rank makes all others wait, unless another takes longer."""
TABLES: Final = tuple(_DURATIONS)
"""The tables whose rows are summed."""


@dataclass(frozen=True)
class RunTotals:
    """Sums over the run, by rank.

    ``steps`` are training steps; ``eval_batches`` are batches of evaluation loaders; neither includes the
    other. The clock of ``wait_s`` is the device's if most batches have a CUDA event. The rest of the time is
    ``step_s``. Time in iter(loader) and teardown is ``boundary_s``; first waits are in ``wait_s``. For a
    single rank, and if ranks differ in clock, ``path`` is None.
    """

    steps: dict[int, int]
    eval_batches: dict[int, int]
    wait_s: dict[int, float]
    step_s: dict[int, float]
    epochs: dict[int, int]
    boundary_s: dict[int, float]
    lost_records: int
    batches: dict[int, int] = field(default_factory=dict)  # of training loaders
    by_device: frozenset[int] = frozenset()  # ranks whose waits are by the device's clock
    path: PathSums | None = None

    @property
    def clock(self) -> Clock:
        """Return the clock of the waits."""
        if not self.by_device:
            return "loop"
        return "device" if self.by_device.issuperset(self.wait_s) else "mixed"


@dataclass
class _Sums:
    steps: int = 0
    eval_batches: int = 0
    batches: int = 0
    wait_ns: float = 0.0
    step_ns: float = 0.0
    epochs: int = 0
    boundary_ns: float = 0.0
    device_batches: int = 0
    starved_ns: float = 0.0

    @property
    def by_device(self) -> bool:
        """Whether most batches have a CUDA event."""
        return self.device_batches > 0 and self.device_batches >= KNOWN_RATIO * self.batches

    @property
    def hidden_ns(self) -> float:
        """The part of the waits in which the device still had work; 0 unless ``by_device``."""
        if not self.by_device:
            return 0.0
        starved_ns = self.starved_ns * max(1.0, self.batches / self.device_batches)
        return max(0.0, self.wait_ns - starved_ns)


class Totals:
    """The sums of one attempt of a run."""

    def __init__(self) -> None:
        self._ranks: dict[int, _Sums] = {}
        self._longest = {table: Longest() for table in _DURATIONS}

    def take(
        self,
        table: str,
        block: Block,
        counted: NDArray[np.bool_],
        firsts: NDArray[np.int64],
        *,
        count: bool = True,
    ) -> None:
        """Take in rows of a table, grouped by rank. ``firsts`` is where each rank's rows begin.

        ``counted`` marks rows of training loaders (``of_training``). ``count`` false: the sums have them.
        """
        if table not in _DURATIONS:
            return
        if table == "steps":
            on_main = block[LAYOUTS[table].index["off_main_thread"]] != 1
            evaluated = ~counted & on_main
            if count and evaluated.any():
                self._count_evaluation(block[0], evaluated, firsts)
            counted = counted & on_main
        self._follow(table, block if counted.all() else block[:, counted], count)
        if count:
            self._add(table, block, counted, firsts)

    def seed(self, ranks: Mapping[int, RankTotals], path: PathTotals | None) -> None:
        """Begin with a store's sums. The newest rows in them follow with ``count=False``."""
        for rank, total in ranks.items():
            self._ranks[rank] = _Sums(
                steps=total.steps,
                eval_batches=total.eval_batches,
                batches=total.batches,
                wait_ns=total.wait_s * 1e9,
                step_ns=total.step_s * 1e9,
                epochs=total.epochs,
                boundary_ns=total.boundary_s * 1e9,
                device_batches=total.device_batches,
                starved_ns=total.starved_s * 1e9,
            )
        for table, (longest_s, number) in (path.by_table if path is not None else {}).items():
            self._longest[table].total_ns, self._longest[table].number = longest_s * 1e9, number

    def count_as_said(self, rank: int, steps: int) -> None:
        """Lower the step count to the process's own: batches before its optimizer was found were no steps."""
        sums = self._of(rank)
        sums.steps = min(sums.steps, steps)

    def so_far(self, ranks: Iterable[int], lost_records: int) -> RunTotals:
        """Return the sums, including ranks without rows."""
        sums = {rank: self._ranks.get(rank, _Sums()) for rank in sorted({*ranks, *self._ranks})}
        return RunTotals(
            steps={rank: s.steps for rank, s in sums.items()},
            eval_batches={rank: s.eval_batches for rank, s in sums.items()},
            wait_s={rank: (s.wait_ns - s.hidden_ns) / 1e9 for rank, s in sums.items()},
            step_s={rank: (s.step_ns + s.hidden_ns) / 1e9 for rank, s in sums.items()},
            epochs={rank: s.epochs for rank, s in sums.items()},
            boundary_s={rank: s.boundary_ns / 1e9 for rank, s in sums.items()},
            lost_records=lost_records,
            batches={rank: s.batches for rank, s in sums.items()},
            by_device=frozenset(rank for rank, s in sums.items() if s.by_device),
            path=self._path([s for s in sums.values() if s.batches]),
        )

    def _path(self, sums: Sequence[_Sums]) -> PathSums | None:
        by_device = {s.by_device for s in sums}
        if len(sums) < 2 or len(by_device) != 1:
            return None
        wait_ns = self._longest["steps"].total_ns
        if by_device == {True}:
            scale = sum(s.batches for s in sums) / sum(s.device_batches for s in sums)
            wait_ns = min(wait_ns, self._longest["gpu_waits"].total_ns * max(1.0, scale))
        boundary_ns = self._longest["epoch_begins"].total_ns + self._longest["epoch_ends"].total_ns
        return PathSums(
            iterations=self._longest["steps"].number, wait_s=wait_ns / 1e9, boundary_s=boundary_ns / 1e9
        )

    def _of(self, rank: int) -> _Sums:
        return self._ranks.setdefault(rank, _Sums())

    def _count_evaluation(
        self, ranks: NDArray[np.int64], evaluated: NDArray[np.bool_], firsts: NDArray[np.int64]
    ) -> None:
        for first, batches in zip(
            firsts.tolist(), np.add.reduceat(evaluated, firsts, dtype=np.int64).tolist(), strict=True
        ):
            self._of(int(ranks[first])).eval_batches += batches

    def _add(self, table: str, block: Block, counted: NDArray[np.bool_], firsts: NDArray[np.int64]) -> None:
        index = LAYOUTS[table].index
        ones = np.ones(block.shape[1], dtype=np.int64)
        duration = block[index[_DURATIONS[table]]]
        values = [duration, ones]
        if table == "steps":
            optimizer_steps = block[index["optimizer_steps"]]
            values += [np.where(optimizer_steps >= 0, optimizer_steps, 1), block[index["step_ns"]]]
        elif table == "gpu_waits":
            values[1] = (duration != UNKNOWN).astype(np.int64)
        for first, group_sums in zip(firsts.tolist(), _sums(values, counted, firsts).T.tolist(), strict=True):
            sums = self._of(int(block[0, first]))
            if table == "steps":
                sums.wait_ns += group_sums[0]
                sums.batches += int(group_sums[1])
                sums.steps += int(group_sums[2])
                sums.step_ns += group_sums[3]
            elif table == "gpu_waits":
                sums.starved_ns += group_sums[0]
                sums.device_batches += int(group_sums[1])
            else:
                sums.boundary_ns += group_sums[0]
                sums.epochs += int(group_sums[1]) if table == "epoch_begins" else 0

    def _follow(self, table: str, block: Block, count: bool) -> None:
        index = LAYOUTS[table].index
        loader, epoch = block[index["loader"]], block[index["epoch"]]
        batch = block[index["batch"]] if "batch" in index else np.zeros_like(epoch)
        keyed = (loader >= 0) & (epoch >= 0) & (batch >= 0)
        keys = (loader << 56) | (epoch << 36) | batch
        durations = np.maximum(0, block[index[_DURATIONS[table]]])  # UNKNOWN is negative
        self._longest[table].take(keys[keyed], durations[keyed], block[LAYOUTS[table].time][keyed], count)


def of_training(table: str, block: Block, uncounted: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which rows belong to training loaders, shape (rows,). It is all rows of a table without loaders.

    ``uncounted`` are other loaders, as numbers rank * LOADER_BASE + loader.
    """
    at = LAYOUTS[table].index
    if not len(uncounted) or "loader" not in at:
        return np.ones(block.shape[1], dtype=bool)
    return ~np.isin(block[0] * LOADER_BASE + block[at["loader"]], uncounted)


class Longest:
    """The sum over keys of each key's longest duration in any rank, whatever their order of arrival."""

    def __init__(self) -> None:
        self.total_ns = 0.0
        self.number = 0  # of different keys
        self._forgotten_ns = -1  # rows this old with an unknown key may have been compared before
        self._keys = self._longest = self._times = np.zeros(0, dtype=np.int64)

    def take(
        self,
        keys: NDArray[np.int64],
        durations: NDArray[np.int64],
        times: NDArray[np.int64],
        count: bool = True,
    ) -> None:
        """Take in durations (ns) of keys, with times (ns UTC). ``count`` false: the sum has them already."""
        if not keys.size:
            return
        order = np.argsort(keys, kind="stable")
        keys, durations, times = keys[order], durations[order], times[order]
        firsts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        keys, times, longest = keys[firsts], times[firsts], np.maximum.reduceat(durations, firsts)
        places = np.searchsorted(self._keys, keys)
        is_known = np.zeros(keys.size, dtype=bool)
        if self._keys.size:
            is_known = self._keys[np.minimum(places, self._keys.size - 1)] == keys
        added = np.maximum(0, longest[is_known] - self._longest[places[is_known]])
        self._longest[places[is_known]] += added
        is_new = ~is_known & (times > self._forgotten_ns)
        if count:
            self.total_ns += float(added.sum()) + float(longest[is_new].sum())
            self.number += int(is_new.sum())
        if is_new.any():
            self._keys = np.insert(self._keys, places[is_new], keys[is_new])
            self._longest = np.insert(self._longest, places[is_new], longest[is_new])
            self._times = np.insert(self._times, places[is_new], times[is_new])
            self._forget()

    def _forget(self) -> None:
        """Drop the older half of the keys if there are too many."""
        if self._keys.size <= MOST_ITERATIONS:
            return
        self._forgotten_ns = max(self._forgotten_ns, int(np.median(self._times)))
        kept = self._times > self._forgotten_ns
        self._keys, self._longest, self._times = self._keys[kept], self._longest[kept], self._times[kept]


def _sums(
    values: Sequence[NDArray[np.int64]], counted: NDArray[np.bool_], firsts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Sum values of counted rows in groups; return an array of shape (values, groups)."""
    all_values = np.stack(values)
    known = np.where(counted & (all_values != UNKNOWN), all_values, 0).astype(np.float64)
    result: NDArray[np.float64] = np.add.reduceat(known, firsts, axis=1)
    return result
