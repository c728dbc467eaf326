from __future__ import annotations

import random
from typing import Any

import numpy as np

from loaderwatch.core.wire import Envelope
from loaderwatch.server.store.facts import MOST, RunFacts, _NewestStarts
from loaderwatch.server.window.builder import WindowBuilder
from tests.fakes.runs import SECOND, T0, envelope, process, span, steps


def _facts(*envelopes: Envelope) -> RunFacts:
    facts = RunFacts()
    for each in envelopes:
        facts.take(each)
    return facts


def _came(seq: int, *ranks: Any, **more: Any) -> Envelope:
    """At second ``seq``; a rank is (rank, pid, second of its start, state)."""
    made = [
        process(rank, 2, pid=pid, started_ns=T0 + at * SECOND, state=state) for rank, pid, at, state in ranks
    ]
    return envelope(seq, processes=made, **more)


BOTH = _came(1, (0, 10, 0, "live"), (1, 11, 0, "live"))
DEAD = _came(5, (0, 10, 0, "crashed"), (1, 11, 0, "crashed"))


def test_ranks_that_come_again_one_after_the_other_are_one_attempt() -> None:
    facts = _facts(BOTH, DEAD, _came(8, (0, 20, 7, "live"), (1, 11, 0, "crashed")))
    assert (facts.attempt, facts.attempt_ns, facts.state) == (2, T0 + 7 * SECOND, "live")
    assert sorted(facts.processes) == [0], "rank 1 has ended with the attempt before"
    facts.take(_came(9, (0, 20, 7, "live"), (1, 21, 6, "live")))
    assert (facts.attempt, facts.attempt_ns, sorted(facts.processes)) == (2, T0 + 6 * SECOND, [0, 1])
    (over,) = facts.earlier
    assert (over.number, over.state, over.ended_ns) == (1, "crashed", T0 + 6 * SECOND)
    assert {rank: one.pid for rank, one in facts.before[0].items()} == {0: 10, 1: 11}


def test_a_pid_that_comes_again_is_another_process() -> None:
    """In a container the training is process 1 each time."""
    facts = _facts(_came(1, (0, 1, 0, "live")), _came(5, (0, 1, 0, "crashed")), _came(9, (0, 1, 8, "live")))
    assert (facts.attempt, facts.state) == (2, "live")
    late = _came(9, (0, 1, 0, "live"), stream="another")
    assert not facts.take(late), "said of the old one before its end"


def test_two_jobs_at_once_under_one_name_are_no_thousand_attempts() -> None:
    one, other = (0, 10, 0, "live"), (0, 20, 3, "live")
    facts = _facts(*(_came(seq, one if seq % 2 else other) for seq in range(4, 40)))
    assert facts.attempt == 2


def test_the_attempts_kept_in_mind_are_bounded() -> None:
    facts = _facts(*(_came(10 * n + 1, (0, n + 10, 10 * n, "live")) for n in range(MOST + 20)))
    assert (facts.attempt, len(facts.earlier), facts.earlier[-1].number) == (MOST + 20, MOST, MOST + 19)
    assert facts.earlier[-1].state == "lost", "nobody said how it ended"


def test_a_window_has_nothing_of_the_attempt_before() -> None:
    builder = WindowBuilder("run-1")
    old = steps(0, T0 + SECOND + (SECOND // 10) * _numbers(20), 0, SECOND // 20)
    builder.add(
        _came(4, (0, 10, 0, "live"), tables={"steps": old}, spans=[span(0, T0 + 4 * SECOND, steps=20)])
    )
    builder.add(_came(5, (0, 10, 0, "crashed")))
    assert builder.totals().steps == {0: 20}
    new = steps(0, T0 + 8 * SECOND + (SECOND // 10) * _numbers(5), 0, SECOND // 20)
    builder.add(_came(9, (0, 20, 7, "live"), tables={"steps": new}))
    builder.add(_came(10, (0, 20, 7, "live"), tables={"steps": old}))  # what an outbox had kept
    window = builder.window()
    assert (window.attempt, window.started_ns, builder.totals().steps) == (2, T0 + 7 * SECOND, {0: 5})
    assert (
        window.ranks[0].table("steps")["request_ns"].tolist()
        == (T0 + 8 * SECOND + (SECOND // 10) * _numbers(5)).tolist()
    )


def _numbers(count: int) -> Any:
    return np.arange(count, dtype=np.int64)


def test_ranks_that_do_not_exist_any_more() -> None:
    """Ranks of an ended process whose run restarted with fewer ranks; the truth compares all pairs."""
    chance = random.Random(3)
    for _ in range(100):
        others = [
            process(0, world_size=chance.randint(1, 6), started_ns=T0 + chance.randint(0, 9))
            for _ in range(8)
        ]
        newest = _NewestStarts()
        newest.add_all(others[:4])
        for other in others[4:]:
            newest.add(other)
        for rank in range(8):
            for started_ns in range(T0 - 1, T0 + 11):
                asked = process(rank, world_size=9, started_ns=started_ns, state="finished")
                gone = any(rank >= by.world_size and started_ns < by.started_ns for by in others)
                assert newest.outgrow(asked) == gone
                assert not newest.outgrow(process(rank, world_size=9, started_ns=started_ns))
