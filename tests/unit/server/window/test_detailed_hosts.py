from __future__ import annotations

import itertools

from loaderwatch.detect.window import SummedRank
from loaderwatch.server.window.detailed_hosts import (
    MOST_NEW,
    MOST_RANKS,
    POINTS,
    SAMPLED,
    STAYS_S,
    Detailed,
    is_sampled,
)
from tests.fakes.runs import envelope, process
from tests.unit.server.window.test_detailed_hosts_outliers import RANKS, ranks

NOW_S = 1000.0
HOSTS = [f"host{number}" for number in range(RANKS // 8)]


def introduced() -> Detailed:
    detailed = Detailed()
    for number, host in enumerate(HOSTS):
        detailed.meet(host, [process(number * 8 + n, RANKS) for n in range(8)])
    return detailed


def waiting(*numbers: int) -> list[SummedRank]:
    return ranks(waited_s=dict.fromkeys(numbers, 20.0), worked_s=dict.fromkeys(numbers, 10.0))


def test_the_sample_is_even_and_has_rank_0() -> None:
    for world in (257, 1000, 1024, 10_240):
        sampled = [rank for rank in range(world) if is_sampled(rank, world, POINTS)]
        assert (len(sampled), sampled[0]) == (POINTS, 0)
        gaps = {after - before for before, after in itertools.pairwise(sampled)}
        assert max(gaps) - min(gaps) <= 1
    detailed = introduced()
    assert 8 * len(detailed.hosts) == SAMPLED
    detailed.choose(ranks(), (), NOW_S)
    assert 8 * len(detailed.hosts) == SAMPLED


def test_of_hosts_with_a_rank_each_more_are_in_the_sample() -> None:
    detailed = Detailed()
    alone = [rank._replace(host=f"one{rank.rank}") for rank in ranks()]
    for second in range(20):
        detailed.choose(alone, (), NOW_S + second)
    assert SAMPLED <= len(detailed.hosts) < SAMPLED + MOST_NEW
    numbers = sorted(int(host[3:]) for host in detailed.hosts)
    assert max(after - before for before, after in itertools.pairwise(numbers)) < RANKS / SAMPLED * 2.5


def test_a_rank_that_stands_out_brings_its_host() -> None:
    detailed = introduced()
    sample = set(detailed.hosts)
    assert detailed.choose(waiting(12), (), NOW_S) == set()
    assert detailed.hosts - sample == {"host1"} == detailed.lacking
    detailed.fill({"host1": "stream", "host3": "other"}, {"stream": [(1, 7)], "other": [(1, 9)]})
    assert not detailed.lacking
    assert not detailed.keeps(envelope(7, stream="stream", host="host1"))  # its rows came with the past
    assert detailed.keeps(envelope(8, stream="stream", host="host1"))
    assert not detailed.keeps(envelope(8, stream="other", host="host3"))


def test_a_host_stays_for_a_while_after_it_stood_out() -> None:
    detailed = introduced()
    detailed.choose(waiting(12), (), NOW_S)
    assert detailed.choose(ranks(), (), NOW_S + STAYS_S - 1) == set()
    assert detailed.choose(ranks(), (), NOW_S + STAYS_S + 1) == {"host1"}
    assert not detailed.lacking


def test_who_is_asked_for_comes_first_and_few_come_at_once() -> None:
    detailed = introduced()
    sample = set(detailed.hosts)
    away = [number * 8 for number in range(RANKS // 8) if f"host{number}" not in sample]
    detailed.choose(waiting(*away[:40]), (away[-1],), NOW_S)
    assert len(detailed.hosts - sample) == MOST_NEW
    assert f"host{away[-1] // 8}" in detailed.hosts
    for second in range(30):
        detailed.choose(waiting(*away[:40]), (away[-1],), NOW_S + second)
    looked_at = 8 * len(detailed.hosts - sample)
    assert looked_at == MOST_RANKS - SAMPLED
    before = set(detailed.hosts)
    detailed.choose(waiting(*away[:40]), (away[-1],), NOW_S + 31)
    assert detailed.hosts == before  # equals do not take turns


def test_a_host_that_has_more_ranks_than_fit_is_looked_at_alone() -> None:
    everybody = [rank._replace(host="one") for rank in waiting(12)]
    detailed = Detailed()
    detailed.choose(everybody, (), NOW_S)
    assert detailed.hosts == {"one"}


def test_a_host_on_which_something_runs_out_comes_too() -> None:
    detailed = introduced()
    detailed.choose(ranks(), (), NOW_S, {"host3": 1.2, "gone": 9.0})
    assert "host3" in detailed.hosts
    assert "gone" not in detailed.hosts
