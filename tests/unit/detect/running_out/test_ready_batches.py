"""Batches that lie ready and are used up, in runs that are played to the moment at which their loop waits."""

from __future__ import annotations

import re

import pytest

from tests.unit.detect.played import noise, played, read


def test_it_is_told_before_the_first_long_wait() -> None:
    factor = noise(0.1)
    run = played(read(70, lambda at_s: (0.08 if at_s < 50 else 0.23) * factor(), workers=4, prefetch=8))
    at_s, finding = run.first("headroom")
    assert 50 < at_s < run.waits_at_s - 2
    assert (finding.scenario, finding.severity) == ("", "info")
    (left_s,) = [float(one.value or 0) for one in finding.evidence if one.label == "until the loop waits"]
    assert at_s + left_s == pytest.approx(run.waits_at_s, abs=3)
    assert re.search(r"^Ready batches of .* run out: .* → .* in .*;", finding.title)
    assert "4 workers together deliver a batch every 5" in finding.cause


def test_a_loop_that_became_faster_uses_them_up_as_well() -> None:
    factor = noise(0.1)
    run = played(read(70, lambda at_s: 0.1 * factor(), lambda at_s: 0.1 if at_s < 50 else 0.045, prefetch=16))
    at_s, _ = run.first("headroom")
    assert 50 < at_s < run.waits_at_s


@pytest.mark.parametrize("batches", [40, 200, 1000])
def test_the_end_of_an_epoch_and_the_beginning_of_the_next_are_none(batches: int) -> None:
    factor = noise(0.1)
    assert played(read(150, lambda at_s: 0.07 * factor(), prefetch=8, batches=batches)).codes == set()


@pytest.mark.parametrize("seed", range(3))
def test_workers_that_keep_up_on_average_use_them_up_now_and_then(seed: int) -> None:
    factor, pause = noise(0.5, seed), noise(0.3, seed + 10)
    run = played(read(300, lambda at_s: 0.08 * factor(), lambda at_s: 0.05 * pause(), prefetch=8), 2.0)
    assert "headroom" not in run.codes
