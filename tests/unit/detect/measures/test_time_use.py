"""All ranks together are measured as each of them alone."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest

from loaderwatch.detect.measures.time_use import FEW_RANKS, Blocked, use_of, uses_of
from loaderwatch.detect.window import RankWindow
from tests.unit.detect.build import RankBuilder, S, loader

MANY = 3 * FEW_RANKS


def trained(number: int) -> RankWindow:
    """A rank that has done forty steps and is in the middle of a phase; its number decides their kind."""
    random = np.random.default_rng(number)
    kind = number % 8
    loaders = [loader(), loader(loader=1, name="val_loader", role="eval")] if kind in (1, 2) else [loader()]
    rank = RankBuilder(number, MANY, loaders=loaders)
    for at in range(40):
        wait_s, step_s = random.uniform(0.001, 0.3, 2)
        if kind == 3 and at == 20:
            step_s = 25.0
        began_ns = rank.now_ns
        optimizer_steps = {"optimizer_steps": 0 if at % 2 else 1} if kind == 4 else {}
        rank.step(wait_s, step_s, **optimizer_steps)
        if kind in (5, 6):
            starved_ns = -(2**63) if at % 5 == 4 else int(wait_s * S / 3)
            rank.add("gpu_waits", loader=0, request_ns=began_ns, starved_ns=starved_ns)
        if kind == 2 and at % 10 == 0:
            rank.step(0.01, 0.02, loader=1)
    rank.open(("wait", "backward", "step")[number % 3], 0.2, loader=0, epoch=0, batch=40)
    rank.has_model = kind == 7
    if kind == 6:
        rank.other_stream = True
    return rank.build()


def told(rank: RankWindow) -> Blocked:
    """For how long others blocked the rank in its newest steps, or in some of them."""
    request = rank.steps["request_ns"][-30:-2]
    if rank.rank % 4 == 1:
        request = request[::3]
    return request, np.random.default_rng(rank.rank).uniform(0.0, 0.1, request.size)


@pytest.mark.parametrize("back_s", [8.0, 0.5, 300.0])
def test_it_is_as_if_each_rank_were_measured_alone(back_s: float) -> None:
    ranks = [trained(number) for number in range(MANY)]
    since_ns = {rank.rank: rank.made_ns - int(back_s * S) for rank in ranks}
    blocked = {rank.rank: told(rank) for rank in ranks if rank.rank % 5}
    now_s = {rank.rank: 0.1 for rank in ranks if rank.rank % 2}
    together = uses_of(ranks, since_ns, blocked, now_s)
    assert sorted(together) == list(range(MANY))
    for rank in ranks:
        alone = use_of(
            rank,
            since_ns[rank.rank],
            blocked=blocked.get(rank.rank),
            blocked_now_s=now_s.get(rank.rank, 0.0),
        )
        found = together[rank.rank]
        assert found.clock == alone.clock
        assert astuple(found)[1:] == pytest.approx(astuple(alone)[1:], rel=1e-12)
    assert {use.clock for use in together.values()} == {"loop", "device", "nvml"}


def test_a_rank_without_steps_is_measured_too() -> None:
    ranks = [RankBuilder(number, MANY).open("wait", 2.0, loader=0).build() for number in range(MANY)]
    found = uses_of(ranks, {rank.rank: rank.made_ns - 30 * S for rank in ranks}, {}, {})
    assert [use.wait_s for use in found.values()] == [2.0] * MANY
