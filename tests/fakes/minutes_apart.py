"""Half an hour of three ranks, which stop and start again as two, and the expected values by hand.

Ranks do the same iteration at different times, also in different minutes. Some rows are missing, and some
minutes only evaluate.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.wire import Envelope
from loaderwatch.server.store.protocol import Store
from tests.fakes.runs import SECOND, T0, envelope, process, steps, table

RUN: Final = "apart"
RANKS: Final = 3
LASTS_S: Final = 1800
BEGAN_AGAIN: Final = T0 + 1117 * SECOND
"""In the middle of a minute; batches are counted from 0 again."""
_EVERY_S: Final = 20
_STEPS: Final = 10  # in that time


def envelopes(seed: int) -> list[Envelope]:
    """Envelopes in any order after the first, which makes the later attempt the second."""
    random = np.random.default_rng(seed)
    made: list[Envelope] = []
    for rank in range(RANKS):
        for seq in range(LASTS_S // _EVERY_S):
            low = T0 + seq * _EVERY_S * SECOND
            behind = 50 * SECOND if rank == 2 and 30 <= seq < 45 else 0
            again = low >= BEGAN_AGAIN
            if again and rank == RANKS - 1:
                continue
            batches = seq * _STEPS + np.arange(_STEPS) - (60 * _STEPS if again else 0)
            times = (
                low
                + behind
                + np.arange(_STEPS) * 2 * SECOND
                + random.integers(0, 1900, _STEPS) * SECOND // 1000
            )
            kept = random.random(_STEPS) > 0.02
            waits = random.integers(0, SECOND, _STEPS)
            waits[random.random(_STEPS) < 0.05] = UNKNOWN
            same: dict[str, Any] = {"batch": batches[kept], "epoch": seq // 40, "loader": seq % 7 == 3}
            starved = table(
                "gpu_waits",
                rank=rank,
                request_ns=times[kept],
                starved_ns=waits[kept] // 2,
                gpu_step_ns=1,
                **same,
            )
            started = BEGAN_AGAIN if again else T0 - SECOND
            made.append(
                envelope(
                    seq + 1,
                    run_id=RUN,
                    stream=f"rank-{rank}-{2 if again else 1}",
                    made_ns=low + behind + _EVERY_S * SECOND,
                    processes=[process(rank, RANKS - again, started_ns=started, pid=10 * rank + again)],
                    tables={
                        "steps": steps(rank, times[kept], waits[kept], SECOND // 2, **same),
                        "gpu_waits": starved,
                        "fetches": _fetches(random, rank, times, loader=seq // 6 % 3 == 1),
                    },
                )
            )
    return [made[0], *(made[1 + place] for place in random.permutation(len(made) - 1))]


def _fetches(random: np.random.Generator, rank: int, times: Any, loader: int) -> dict[str, bytes]:
    """Some samples are always slow, most once; no two take the same time."""
    indices = np.where(
        random.random(_STEPS) < 0.1, random.integers(0, 8, _STEPS), random.integers(0, 10**6, _STEPS)
    )
    slow = random.integers(0, SECOND, _STEPS) + (indices < 8) * 10 * SECOND
    indices[random.random(_STEPS) < 0.05] = UNKNOWN
    slow[random.random(_STEPS) < 0.05] = UNKNOWN
    return table(
        "fetches",
        rank=rank,
        loader=loader,
        worker=0,
        request_ns=times,
        fetch_ns=slow,
        slow_index=indices,
        slow_ns=slow,
    )


def slowest(store: Store, rank: int | None, limit: int) -> list[tuple[int, int]]:
    """Index and nanoseconds of the slowest samples by all rows, slowest first."""
    rows = store.scan(RUN, "fetches", 0, 2**62)
    longest: dict[tuple[int, int], int] = {}
    names = ("rank", "loader", "slow_index", "slow_ns")
    for of, loader, index, slow in zip(*(rows[name].tolist() for name in names), strict=True):
        if UNKNOWN not in (index, slow) and rank in (None, of):
            longest[loader, index] = max(longest.get((loader, index), 0), slow)
    return sorted(((index, slow) for (_, index), slow in longest.items()), key=lambda item: -item[1])[:limit]


def path(store: Store, name: str, begin_ns: int, end_ns: int) -> tuple[float, int]:
    """Seconds that the slowest ranks took in the iterations of a table, and their number, by all rows."""
    rows = store.scan(RUN, name, begin_ns, end_ns, counted=True)
    longest: dict[tuple[int, ...], int] = {}
    columns = ("loader", "epoch", "batch", "counted", {"steps": "wait_ns", "gpu_waits": "starved_ns"}[name])
    for *one, counted, took in zip(*(rows[column].tolist() for column in columns), strict=True):
        if counted == 1 and min(one) >= 0:
            longest[tuple(one)] = max(longest.get(tuple(one), 0), took)
    return sum(longest.values()) / 1e9, len(longest)


def batches(store: Store, begin_ns: int, end_ns: int) -> dict[int, tuple[int, float]]:
    """Batches of training loaders by rank, and the seconds for which they were waited, by all rows."""
    rows = store.scan(RUN, "steps", begin_ns, end_ns, counted=True)
    of_training = rows["counted"] == 1
    waits = np.where(rows["wait_ns"] == UNKNOWN, 0, rows["wait_ns"])
    return {
        rank: (int(chosen.sum()), float(waits[chosen].sum() / 1e9))
        for rank in range(RANKS)
        for chosen in [of_training & (rows["rank"] == rank)]
        if chosen.any()
    }
