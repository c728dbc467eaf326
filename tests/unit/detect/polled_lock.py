"""A simulated loader whose workers share a self-made lock: each sleeps between two tries to get it."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from tests.unit.detect.build import T0, RankBuilder, S, loader

SAMPLES = 4  # of a batch
PREFETCH = 2


@dataclass
class _Worker:
    batches: list[int]
    began_s: float = 0.0
    left: int = SAMPLES
    has_it: bool = False


@dataclass
class _Loop:
    step_s: float
    asked_s: float = 0.0
    free_s: float = 0.0
    wanted: int = 0
    done: dict[int, float] = field(default_factory=dict)


def polled(
    *,
    workers: int = 4,
    step_s: float = 0.01,
    hold_s: float = 0.02,
    pause_s: float = 0.005,
    seconds: float = 40.0,
) -> RankBuilder:
    """The rank's rows. A worker that finds the lock free holds it for one sample, then tries again."""
    random = np.random.default_rng(workers)
    builder = RankBuilder(loaders=[loader(num_workers=workers, batch_size=SAMPLES)])
    each = [_Worker(list(range(number, PREFETCH * workers, workers))) for number in range(workers)]
    loop, free = _Loop(step_s), True
    tries = [(0.001 * number, number) for number in range(workers)]
    while tries and tries[0][0] < seconds:
        now, number = heapq.heappop(tries)
        worker = each[number]
        if worker.has_it:
            free, worker.has_it = True, False
            worker.left -= 1
        if not worker.left:
            builder.now_ns = T0 + int(now * S)
            builder.fetch(number, now - worker.began_s, cpu=0.02)
            loop.done[worker.batches.pop(0)] = now
            worker.began_s, worker.left = now, SAMPLES
        _takes(loop, builder, each, tries, now)
        if not worker.batches:
            continue
        if free:
            free, worker.has_it = False, True
            heapq.heappush(tries, (now + hold_s * random.uniform(0.95, 1.05), number))
        else:
            heapq.heappush(tries, (now + pause_s * random.uniform(1.0, 1.05), number))
    builder.now_ns = T0 + int(seconds * S)
    return builder


def _takes(
    loop: _Loop, builder: RankBuilder, each: list[_Worker], tries: list[tuple[float, int]], now: float
) -> None:
    """The loop takes what has come in the meantime, in its order, and asks for another batch each time."""
    while loop.wanted in loop.done and max(loop.free_s, loop.done[loop.wanted]) <= now:
        at = max(loop.free_s, loop.done[loop.wanted])
        builder.now_ns = T0 + int(loop.asked_s * S)
        builder.step(at - loop.asked_s, loop.step_s, ready=int(at == loop.asked_s))
        loop.asked_s = loop.free_s = at + loop.step_s
        number = loop.wanted % len(each)
        if not each[number].batches:  # it had none left, and starts again
            each[number].began_s = now
            heapq.heappush(tries, (now, number))
        each[number].batches.append(loop.wanted + PREFETCH * len(each))
        loop.wanted += 1
