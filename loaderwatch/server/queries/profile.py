"""The answer of ``GET /runs/{run}/profile``, from the store or from a window without one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from loaderwatch.core import answers
from loaderwatch.core.answers import ProfilePartName
from loaderwatch.core.columns import Columns
from loaderwatch.detect.evidence import RankEvidence, RunEvidence
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.profile import PARTS, answer, profile_of
from loaderwatch.detect.measures.statistics import Floats, mean, ratio, total
from loaderwatch.detect.window import empty_columns, seconds
from loaderwatch.server.queries.charts import time_range
from loaderwatch.server.store.protocol import Store


def stored_profile(
    store: Store,
    run_id: str,
    of: ProfilePartName = "fetch",
    rank: int | None = None,
    start: float | None = None,
    end: float | None = None,
    attempt: int | None = None,
) -> answers.Profile:
    """Return the profile of a stored run. Without a range it is that of an attempt (None: the newest).

    Raises:
        UnknownRun, StoreError, UnknownAttempt, Stopped
        ValueError: a time is unusable; the message names it.
    """
    start_ns, end_ns = time_range(store, run_id, start, end, attempt)
    stored = store.profile(run_id, PARTS[of], rank, start_ns, end_ns)
    counted = replace(profile_of(stored.counts, stored.texts, PARTS[of]), first_ns=stored.first_ns)
    ranks = counted.ranks if rank is None else (rank,)
    return answer(counted, of, ranks, stored.sample_s, stored.batch_s, stored.loop_ratio)


def profile_in(run: RunEvidence, of: ProfilePartName = "fetch", rank: int | None = None) -> answers.Profile:
    """Return the profile of a window, of one rank or of all that it has in detail.

    It is for runs that no store has: the last window of a recording, or a live run whose file was removed.
    """
    asked = [each for number, each in run.ranks.items() if rank in (None, number)]
    texts = asked[0].rows.profile_texts if asked else {}
    counted = profile_of(_together(asked, "profile"), texts, PARTS[of])
    sample_s = batch_s = loop_ratio = math.nan
    if of == "fetch":
        fetches = _together(asked, "fetches")
        fetch_s, has_samples = seconds(fetches["fetch_ns"]), fetches["samples"] > 0
        batch_s = mean(fetch_s)
        sample_s = ratio(total(fetch_s[has_samples]), float(fetches["samples"][has_samples].sum()))
        loop_ratio = _largest(asked, lambda pace: pace.wait_s)
    elif of == "step":
        own_s = [pace.step_s - pace.phases_s for each in asked for pace in each.paces]
        batch_s = mean(np.concatenate(own_s)) if own_s else math.nan
        loop_ratio = _largest(asked, lambda pace: pace.step_s - pace.phases_s)
    ranks = counted.ranks if rank is None else (rank,)
    return answer(counted, of, ranks, _known(sample_s), _known(batch_s), _known(loop_ratio))


def _largest(ranks: Sequence[RankEvidence], lost_s: Callable[[Pace], Floats]) -> float:
    """Return the largest share of a rank's loop that is lost; NaN if none is known."""
    shares = [
        ratio(
            sum(total(lost_s(pace)) for pace in rank.paces),
            sum(total(pace.wait_s) + total(pace.step_s) for pace in rank.paces),
        )
        for rank in ranks
    ]
    return max((share for share in shares if math.isfinite(share)), default=math.nan)


def _together(ranks: Sequence[RankEvidence], table: str) -> Columns:
    """Return the rows of several ranks, one after the other."""
    tables = [rank.table(table) for rank in ranks] or [empty_columns(table)]
    return {name: np.concatenate([each[name] for each in tables]) for name in tables[0]}


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
