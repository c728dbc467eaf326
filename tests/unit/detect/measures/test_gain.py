"""What a change can give at most."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderwatch.detect.measures import gain as ceiling


def test_ceilings_never_promise_more_than_computing_allows() -> None:
    assert ceiling.workers_needed(0.118, 0.021) == 6
    after = ceiling.iteration_with(0.118, 6, 0.021)
    assert after == 0.021
    assert ceiling.gain_ratio(0.0598, after) == pytest.approx(0.649, abs=0.001)
    assert ceiling.gain_ratio(0.02, 0.03) == 0.0
    assert ceiling.gain_ratio(0.0, 0.03) is None
    assert ceiling.prefetch_needed(1.5, 0.12, 2) == 8


@given(fetch=st.floats(1e-4, 100), step=st.floats(1e-4, 100), workers=st.integers(1, 64))
def test_gain_is_a_share(fetch: float, step: float, workers: int) -> None:
    now = ceiling.iteration_with(fetch, workers, step)
    more = ceiling.iteration_with(fetch, workers + 1, step)
    gain = ceiling.gain_ratio(now, more)
    assert gain is not None
    assert 0 <= gain < 1
    assert more >= step
