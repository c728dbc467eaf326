"""Where a run's time goes: what counts while it is open, and what another rank blocks."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import SummedRank
from loaderwatch.server.live.summary import summary_of
from loaderwatch.server.queries.live_answers import coupling_of
from loaderwatch.server.window.totals import RunTotals
from tests.unit.detect.build import RankBuilder, S, run


def goodput(*ranks: RankBuilder) -> float:
    found = RunEvidence(run(*ranks)).use.goodput_ratio
    assert found is not None
    return found


def steady(rank: int = 0, world: int = 1, steps: int = 800) -> RankBuilder:
    builder = RankBuilder(rank, world)
    for _ in range(steps):
        builder.step(0.001, 0.049, collective_ns=int(0.001 * S))
    return builder


def test_an_open_step_counts_while_it_is_open() -> None:
    usual = goodput(steady())
    assert usual == pytest.approx(0.98, abs=0.01)
    assert goodput(steady().open("step", 15.0)) == pytest.approx(usual, abs=0.02)
    assert goodput(steady().step(0.001, 15.0)) == pytest.approx(usual, abs=0.02)


@pytest.mark.parametrize("since", [0.0, 10.0])
def test_a_step_that_hangs_is_not_good_before_or_after_it_ends(since: float) -> None:
    during = steady().open("backward", 200.0)
    after = steady().step(0.001, 200.0)
    for _ in range(int(since / 0.05)):
        after.step(0.001, 0.049)
    assert goodput(during) == 0.0
    assert goodput(after) == pytest.approx(0.98 * since / 30, abs=0.01)


def test_the_phases_of_an_open_step_follow_each_other() -> None:
    """A step has taken 8 s so far. Its forward pass, which has ended, counts with the open backward pass."""
    rank = RankBuilder()
    for _ in range(5):
        rank.step(0.5, 7.5)
    rank.now_ns += int(4.5 * S)
    rank.open("backward", 3.0)
    assert goodput(rank) == pytest.approx(7.5 / 8, abs=0.02)


def blocked(way: str) -> list[RankBuilder]:
    """Rank 3 works or waits for its batch 20 s longer; the other ranks wait in backward meanwhile."""
    ranks = [steady(number, 4) for number in range(4)]
    for rank in ranks:
        late = rank.rank == 3
        rank.has_model = True
        if way == "works":
            rank.open("step" if late else "backward", 20.0)
        elif way == "has worked":
            rank.step(0.001, 20.0, collective_ns=0 if late else int(19.9 * S))
        elif way == "waits":
            rank.open("wait" if late else "backward", 20.0)
        elif way == "has waited":
            wait = 20.0 if late else 0.001
            rank.step(wait, 20.001 - wait, collective_ns=0 if late else int(19.9 * S))
    return ranks


@pytest.mark.parametrize(("during", "after"), [("works", "has worked"), ("waits", "has waited")])
def test_what_another_rank_blocks_is_not_good(during: str, after: str) -> None:
    open_, done = RunEvidence(run(*blocked(during))).use, RunEvidence(run(*blocked(after))).use
    for number in range(4):
        late_works = number == 3 and during == "works"
        for found in (open_, done):
            expected = 0.99 if late_works else 0.33
            assert found.ranks[number].goodput_ratio == pytest.approx(expected, abs=0.03)
    assert open_.goodput_ratio == pytest.approx(done.goodput_ratio, abs=0.02)
    assert open_.wait_ratio == pytest.approx(done.wait_ratio, abs=0.02)


def test_what_one_rank_waits_in_each_iteration_is_no_goodput_of_the_others() -> None:
    ranks = [RankBuilder(number, 8) for number in range(8)]
    for _ in range(300):
        for rank in ranks:
            rank.step(*((0.100, 0.050) if rank.rank == 3 else (0.001, 0.149)))
    found = RunEvidence(run(*ranks)).use
    assert found.goodput_ratio == pytest.approx(1 / 3, abs=0.01)
    assert found.goodput_ratio == pytest.approx(1 - (found.wait_ratio or 0), abs=0.01)


def test_ranks_without_phases_do_not_block_each_other_by_their_steps() -> None:
    ranks = [steady(number, 2).open("step", 10.0) for number in range(2)]
    assert goodput(*ranks) == pytest.approx(0.98, abs=0.02)


def test_the_bars_of_who_waits_for_whom_hold_the_open_wait_as_the_tiles_do() -> None:
    """An open wait of 20 s follows 20 s of training. The tile of a rank and its bar show the same."""
    ranks = [steady(number, 4, steps=200) for number in range(4)]
    for rank in ranks:
        rank.open("wait" if rank.rank == 3 else "backward", 20.0)
    window = run(*ranks)
    bars = {share.rank: share for share in coupling_of(RunEvidence(window, Limits())).ranks}
    for number, use in RunEvidence(window).use.ranks.items():
        bar = bars[number]
        assert bar.data_s / bar.iteration_s == pytest.approx(use.wait_ratio, abs=0.02)
        assert bar.data_s + bar.own_s + bar.others_s == pytest.approx(bar.iteration_s)
    assert bars[0].others_s / bars[0].iteration_s == pytest.approx(2 / 3, abs=0.02)
    assert bars[3].caused_s > 10 * bars[0].caused_s


def late_and_early(steps: int, *, early_ended_s: float | None = None) -> list[RankBuilder]:
    """Rank 0 gets a batch every 200 ms for steps of 90 ms. Rank 1 has read ahead and waits for rank 0."""
    ranks = [RankBuilder(number, 2) for number in range(2)]
    for _ in range(steps):
        ranks[0].step(0.108, 0.092)
        ranks[1].step(0.001, 0.199)
    if early_ended_s is not None:
        ranks[1].state = "finished"
        for _ in range(int(early_ended_s / 0.2)):
            ranks[0].step(0.108, 0.092)
        ranks[1].now_ns = ranks[0].now_ns  # the host's newest envelope is of both
    return ranks


@pytest.mark.parametrize("ended_s", [None, 0.2, 2.0, 10.0, 20.0, 40.0])
def test_ranks_in_step_that_end_one_after_the_other_keep_the_critical_path(ended_s: float | None) -> None:
    window = run(*late_and_early(300, early_ended_s=ended_s))
    assert RunEvidence(window).use.wait_ratio == pytest.approx(0.54, abs=0.01)
    summary = summary_of(RunEvidence(window), RunTotals({}, {}, {}, {}, {}, {}, 0), state="live")
    assert summary.data_wait_ratio == pytest.approx(0.54, abs=0.01)
    assert summary.ranks[0].data_wait_ratio == pytest.approx(0.54, abs=0.01)


def test_a_rank_that_ended_long_ago_does_not_count() -> None:
    ranks = late_and_early(100)
    ranks[0].state = "finished"
    for _ in range(300):
        ranks[1].step(0.001, 0.199)
    ranks[0].now_ns = ranks[1].now_ns
    use = RunEvidence(run(*ranks)).use
    assert use.wait_ratio == pytest.approx(0.005, abs=0.003)
    assert use.goodput_ratio == pytest.approx(0.995, abs=0.003)
    assert use.steps_per_s == pytest.approx(5.0, abs=0.1)


def test_a_run_that_is_over_is_told_as_it_ended() -> None:
    ranks = late_and_early(300)
    for rank in ranks:
        rank.state = "finished"
        rank.now_ns += 3 * S  # the streamer stays until all is sent
    assert RunEvidence(run(*ranks)).use.wait_ratio == pytest.approx(0.54, abs=0.01)


def test_nvml_is_the_clock_where_a_rank_computes_on_another_stream() -> None:
    """Its waits are taken from its events, as far as NVML confirms them. Events explain none of its time."""
    ranks = [RankBuilder(number, 2) for number in range(2)]
    ranks[1].other_stream = True
    for number in range(300):
        for rank in ranks:
            began_ns = rank.now_ns
            rank.step(0.092, 0.003)
            if number % 4:
                rank.add("gpu_waits", loader=0, request_ns=began_ns, starved_ns=S // 200, gpu_step_ns=S // 11)
    use = RunEvidence(run(*ranks)).use
    assert [one.clock for one in use.ranks.values()] == ["device", "nvml"]
    assert use.clock == "mixed"
    assert use.ranks[0].known_ratio == pytest.approx(0.75, abs=0.01)
    assert use.ranks[1].known_ratio == 0.0
    assert use.known_ratio == pytest.approx(0.375, abs=0.01)
    assert use.wait_ratio == pytest.approx(0.053, abs=0.004)
    assert RunEvidence(run(steady())).use.known_ratio is None


def test_ranks_that_are_known_by_sums_weigh_as_much_as_those_looked_at() -> None:
    """Two that do not go in step, of which one waits; six others, known by sums alone, do not."""
    slow, quick = RankBuilder(0, 8), RankBuilder(1, 8)
    for _ in range(100):
        slow.step(0.200, 0.100)
    for _ in range(400):
        quick.step(0.0, 0.075)
    window = run(slow, quick)
    one = window.ranks[1]
    summed = {
        rank: SummedRank(
            rank, "host", one.made_ns, one.process, None, None, covered_s=30.0, batches=400.0,
            steps_per_s=13.3, waited_s=0.0,
            worked_s=30.0, forward_s=0.0, backward_s=0.0, by_device=False, utilization_ratio=math.nan,
        )
        for rank in range(2, 8)
    }  # fmt: skip
    assert RunEvidence(window).use.wait_ratio == pytest.approx(1 / 3, abs=0.02)
    whole = RunEvidence(replace(window, summed=summed)).use
    assert whole.wait_ratio == pytest.approx(1 / 12, abs=0.01)
    assert whole.goodput_ratio == pytest.approx(1 - 1 / 12, abs=0.02)
    assert whole.steps_per_s == pytest.approx((3.3 + 7 * 13.3) / 8, rel=0.02)
