"""The course of a loader: bounded, whatever the run is long."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from loaderwatch.detect.loader_history import FIRST_SLICE_NS, LONGEST_SLICE_NS, MOST_COURSE_SLICES, Course
from tests.unit.detect.build import T0


def course(times: list[int], slice_ns: int = FIRST_SLICE_NS) -> Course:
    """Slices at these numbers, whose fetches take as many seconds."""
    values = np.array(times, dtype=np.float64)
    t_ns = T0 + np.array(times, dtype=np.int64) * slice_ns
    measured = {
        field.name: values
        for field in fields(Course)
        if field.name not in ("slice_ns", "t_ns", "epoch", "headroom_s")
    }
    return Course(
        slice_ns, t_ns, np.zeros(len(times), dtype=np.int64), headroom_s=values * np.nan, **measured
    )


def test_it_keeps_an_hour_in_a_bounded_number_of_slices() -> None:
    kept = course([0])
    second = 0
    while second < 10_000:
        second += kept.slice_ns // FIRST_SLICE_NS
        kept = kept.with_slices(course([second]))
        assert kept.t_ns.size <= MOST_COURSE_SLICES
    assert kept.slice_ns == LONGEST_SLICE_NS
    reach_s = (kept.t_ns[-1] - kept.t_ns[0]) / 1e9
    assert reach_s >= 3600
    assert (np.diff(kept.t_ns) > 0).all()
    # Each slice still tells of its own time.
    assert kept.fetch_s == pytest.approx(
        (kept.t_ns - T0) / FIRST_SLICE_NS, abs=LONGEST_SLICE_NS / FIRST_SLICE_NS
    )
    assert np.isnan(kept.headroom_s).all()


def test_its_newest_slices() -> None:
    assert course([1, 2, 3]).newest(2).fetch_s.tolist() == [2, 3]
    assert course([1]).newest(5).fetch_s.tolist() == [1]
