"""S25 in the workers: the collector's own clock says what a fetch was made of."""

from __future__ import annotations

from loaderwatch.detect.detectors import detect
from tests.unit.detect.build import RankBuilder, S, run


def collecting(part: float, fetch_s: float = 0.2) -> RankBuilder:
    """Two workers that collect garbage for a part of every fetch; the loop waits for them."""
    builder = RankBuilder()
    builder.epoch[0] = 1
    for number in range(120):
        worker = number % 2
        builder.fetch(worker, fetch_s, cpu=0.95)
        began_ns = builder.now_ns - int(fetch_s * S)
        builder.add(
            "collections", worker=worker, request_ns=began_ns + S // 100, duration_ns=int(part * fetch_s * S)
        )
        builder.step(fetch_s / 2 - 0.02, 0.02)
    return builder


def test_most_of_a_fetch_is_the_collectors() -> None:
    (finding,) = detect(run(collecting(0.7)))
    assert (finding.code, finding.scenario, finding.severity) == ("input-bound", "S25", "critical")
    assert "takes 140 ms of the 200 ms" in finding.title
    assert "gc.freeze()" in finding.advice
    assert finding.gain_ceiling_ratio is not None
    assert 0.65 < finding.gain_ceiling_ratio < 0.75  # (200 - 140) / 2 ms instead of 100 ms


def test_a_small_part_of_it_is_not() -> None:
    (finding,) = detect(run(collecting(0.2)))
    assert finding.scenario == "S02"


def test_a_long_pause_is_no_slow_sample() -> None:
    def spiky(collected: bool) -> RankBuilder:
        builder = RankBuilder()
        builder.epoch[0] = 1
        for number in range(400):
            slow = number % 100 == 50
            took_s = 1.2 if slow else 0.03
            began_ns = builder.now_ns if slow else builder.now_ns - int(took_s * S)
            builder.fetch(number % 2, took_s, request_ns=began_ns, slow_index=number, slow_ns=int(took_s * S))
            if slow and collected:
                builder.add("collections", worker=0, request_ns=began_ns + S // 10, duration_ns=S)
            builder.step(1.2 if slow else 0.001, 0.05, ready=2)
        return builder

    (finding,) = detect(run(spiky(True)))
    assert (finding.scenario, finding.worker, finding.sample_indices) == ("S25", 0, [])
    assert "stopped worker 0 for 1.0 s" in finding.title
    (finding,) = detect(run(spiky(False)))
    assert finding.scenario in ("S20", "S21")
