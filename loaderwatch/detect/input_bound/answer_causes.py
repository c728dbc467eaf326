"""Causes at the source that answers workers: requests without an answer (S22), and live sources (N43)."""

from __future__ import annotations

from typing import Final

import numpy as np

from loaderwatch.core.facts import LOCK_WAIT
from loaderwatch.core.system import ANSWER_FUNCTIONS, waits_in
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.finding import Explanation, known_evidence
from loaderwatch.detect.input_bound.lock_causes import looks_ratio
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.measures.stacks import awaited, code_line, main_frames, user_frame
from loaderwatch.detect.measures.statistics import MANY_TICKS, by_a_clock, median, quantile, spread, total
from loaderwatch.detect.window import distinct

LIMITED_S: Final = threshold(0.3, "s", "chosen: a shorter fetch has hardly run into a time limit")
LIMITED_FACTOR: Final = threshold(
    5.0, "factor", "chosen: times a quick fetch; a fetch that takes longer may have run into a time limit"
)
FEW_LIMITED: Final = threshold(3, "fetches", "chosen: fewer may take equally long by chance")
LIMIT_SPREAD_RATIO: Final = threshold(
    0.1, "ratio", "chosen: of the limit; such a fetch is that near to the limit or a multiple of it"
)
ALIKE_LIMITED_RATIO: Final = threshold(
    0.9, "ratio", "chosen: of the long fetches; so many must take the limit or a multiple of it"
)
LIMITED_TIME_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of all fetch time; the long fetches must take so much"
)
FEW_REGULAR_BATCHES: Final = threshold(
    6, "batches", "chosen: until a clock can be proven, regular batches count as a live source"
)
REGULAR_RATIO: Final = threshold(
    0.12, "ratio", "chosen: of the time between two batches; regular batches usually vary by less"
)
AWAITS_ANSWER_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the looks at the workers; so many must find them waiting for an answer"
)


def time_limits(s: Symptoms) -> Explanation | None:
    """Explain S22: some requests get no answer and are retried after a time limit; None otherwise.

    The sign is fetches that take far longer than the others, all as long as one limit or a multiple of it,
    while their worker waits for an answer. A worker that sleeps or reads for equally long each time does not
    count.
    """
    fetches = s.pace.fetches
    took_s = fetches.fetch_s[s.lately & np.isfinite(fetches.fetch_s)]
    quick_s = quantile(took_s, 0.25)
    limited_s = took_s[took_s >= max(LIMITED_S, LIMITED_FACTOR * quick_s)] if quick_s > 0 else took_s[:0]
    limit_s = quantile(limited_s, 0.1)
    times = limited_s / limit_s  # several requests of one fetch may run into the limit
    alike = np.abs(times - np.round(times)) <= LIMIT_SPREAD_RATIO
    asked = [dump for dump in s.passing_stacks(LOCK_WAIT) if waits_in(ANSWER_FUNCTIONS, dump.wchan)]
    if limited_s.size < FEW_LIMITED or not asked or total(limited_s) < LIMITED_TIME_RATIO * total(took_s):
        return None
    if alike.mean() < ALIKE_LIMITED_RATIO:
        return None
    dump = asked[-1]
    frames = main_frames(dump)
    limited_ratio = limited_s.size / took_s.size
    return Explanation(
        scenario="S22",
        confidence=0.92,  # more than S02 has: the first such fetches come after the first shortage
        rule="requests-time-out",
        params={
            "limited_ratio": limited_ratio,
            "limit_s": limit_s,
            "once": bool(times.max() < 1.5),
            "quick_s": quick_s,
            "awaited": awaited(frames, dump.wchan or ""),
            "worker": dump.worker,
            "line": code_line(user_frame(frames)),
        },
        gain_ceiling_ratio=s.gain(max(s.step_s, quick_s / max(1, s.workers))),
        evidence=known_evidence(
            ("fetches-that-took-as-long-as-a-time-limit", int(limited_s.size), "count"),
            ("such-a-fetch", limit_s, "s"),
            ("quick-fetch", quick_s, "s"),
        ),
        stacks=[dump],
    )


def live_source(s: Symptoms) -> Explanation | None:
    """Explain a stream that is as slow as its source (N43), such as a sensor; a remark. None otherwise.

    The sign is batches that come by a clock while the worker waits for an answer. A rate limit may look the
    same.
    """
    if not (
        s.loader.iterable_dataset
        and s.waits_for_storage
        and looks_ratio(s, "answer_wait") >= AWAITS_ANSWER_RATIO
    ):
        return None
    fetches = s.pace.fetches if s.history is None else s.history
    if not fetches.worker.size:
        return None
    for worker in distinct(fetches.worker):
        ticks_s = np.sort(fetches.ended_ns[fetches.worker == worker] - fetches.ended_ns[0]) / 1e9
        each_s = np.diff(ticks_s)
        regular = ticks_s.size >= FEW_REGULAR_BATCHES and spread(each_s) <= REGULAR_RATIO * median(each_s)
        # Before a clock can be proven, regular batches count as a live source, to raise no false alert.
        if not regular or (ticks_s.size >= MANY_TICKS and not by_a_clock(ticks_s)):
            return None
    return Explanation(
        scenario="S08",
        confidence=0.92,
        rule="live-source",
        params={"each_s": s.batch_s / s.workers},
        remark=True,
    )
