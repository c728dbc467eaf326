from __future__ import annotations

import math
from typing import Any

import numpy as np

from loaderwatch.core.records import TABLES
from loaderwatch.detect.window import SummedRank
from loaderwatch.server.window.detailed_hosts import scarcity, standing_out
from tests.fakes.runs import SECOND, T0, process, span

RANKS = 1000


def ranks(**odd: dict[int, Any]) -> list[SummedRank]:
    """A thousand ranks: 10 steps/s, 2 % data wait, small differences; ``odd`` changes fields of some."""
    random = np.random.default_rng(1)
    made = []
    for rank in range(RANKS):
        jitter = random.normal(0, 0.01)
        facts: dict[str, Any] = {
            "rank": rank, "host": f"host{rank // 8}", "made_ns": T0, "process": process(rank, RANKS),
            "span": span(rank, T0 - SECOND // 20, epoch=1, batch=77, steps=500), "gpu": 0, "covered_s": 30.0,
            "batches": 300.0, "steps_per_s": 10.0,
            "waited_s": 0.6 * (1 + jitter), "worked_s": 29.4 * (1 + jitter), "forward_s": 9.0 * (1 + jitter),
            "backward_s": 18.0 * (1 + jitter), "by_device": False, "utilization_ratio": 0.9 + jitter,
        }  # fmt: skip
        facts.update({name: values[rank] for name, values in odd.items() if rank in values})
        made.append(SummedRank(**facts))
    return made


def out(of: list[SummedRank]) -> list[int]:
    return [int(rank) for rank in np.flatnonzero(standing_out(of) >= 1.0)]


def test_nobody_stands_out_of_ranks_that_differ_a_little() -> None:
    assert out(ranks()) == []
    assert standing_out([]).tolist() == []
    assert out(ranks()[:1]) == []


def test_who_waits_works_or_computes_otherwise_stands_out() -> None:
    assert out(ranks(waited_s={517: 20.0}, worked_s={517: 10.0})) == [517]
    assert out(ranks(utilization_ratio={3: 0.2, 4: math.nan})) == [3]
    # One that all wait for in the exchange: its iterations are as long as theirs, its backward pass is short.
    assert out(ranks(forward_s={42: 22.0}, backward_s={42: 5.0})) == [42]
    assert out(ranks(batches={8: 150.0})) == [8]  # its iterations take twice as long


def test_a_dead_or_silent_rank_stands_out() -> None:
    dead = process(9, RANKS, state="crashed")
    assert out(ranks(process={9: dead})) == [9]
    assert out(ranks(made_ns=dict.fromkeys(range(16, 24), T0 - 20 * SECOND))) == list(range(16, 24))
    everybody = {number: process(number, RANKS, state="finished") for number in range(RANKS)}
    assert out(ranks(process=everybody)) == []
    died = {
        number: process(number, RANKS, state="crashed", exit="uncaught RuntimeError: peer gone")
        for number in range(RANKS)
    }
    died[77] = process(77, RANKS, state="crashed", exit="uncaught ValueError: no such file")
    assert out(ranks(process=died)) == [77]  # they died together, and this one for a reason of its own


def test_a_host_between_two_of_its_envelopes_is_not_silent() -> None:
    """Streams of ten thousand ranks send every four seconds, each in its turn, and some are late."""
    one = ranks()[0]
    ten_thousand = [
        one._replace(rank=rank, host=f"host{rank // 8}", made_ns=T0 - rank // 8 % 60 * SECOND // 10)
        for rank in range(10_240)
    ]
    assert out(ten_thousand) == []
    late = [
        each._replace(made_ns=T0 - 12 * SECOND) if each.host == "host640" else each for each in ten_thousand
    ]
    assert out(late) == list(range(5120, 5128))


def test_of_ranks_that_all_stand_those_elsewhere_stand_out() -> None:
    """Rank 77 waits for its batch, and all others stand in the exchange of the same step."""
    stands = {
        rank: span(
            rank, T0 - 40 * SECOND, phase="wait" if rank == 77 else "backward", epoch=1, batch=77, steps=500
        )
        for rank in range(RANKS)
    }
    assert out(ranks(span=stands)) == [77]
    fewer = {**stands, 77: span(77, T0 - 40 * SECOND, phase="backward", epoch=1, batch=76, steps=499)}
    assert out(ranks(span=fewer)) == [77]


def test_ranks_that_go_on_do_not_stand_out_by_where_they_are() -> None:
    places = {
        rank: span(rank, T0 - SECOND, phase="wait" if rank % 97 == 0 else "step", batch=rank)
        for rank in range(RANKS)
    }
    assert out(ranks(span=places)) == []


def test_a_host_on_which_something_runs_out_is_worth_a_look() -> None:
    names = [column.name for column in TABLES["hosts"]]

    def host(**newest: float) -> dict[str, Any]:
        return {name: np.array([np.nan, newest.get(name, np.nan)]) for name in names}

    assert scarcity(host()) == 0.0
    assert scarcity({name: np.zeros(0) for name in names}) == 0.0
    assert scarcity(host(memory_available_bytes=60e9, memory_total_bytes=64e9)) < 1.0
    for scarce in (
        {"memory_available_bytes": 5e9, "memory_total_bytes": 64e9},
        {"memory_used_bytes": 15e9, "memory_limit_bytes": 16e9},
        {"shm_used_bytes": 60e6, "shm_total_bytes": 64e6},
        {"filling_disk_free_bytes": 5e9, "filling_disk_total_bytes": 100e9},
    ):
        assert scarcity(host(**scarce)) > 1.0
