"""How much a sender may store, and have kept in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest

from loaderwatch.core.errors import WireError
from loaderwatch.core.facts import MAX_RANKS
from loaderwatch.core.records import TABLES
from loaderwatch.core.wire import Envelope, pack_table
from loaderwatch.server.access.quotas import (
    HOSTS,
    LEAST_COST,
    LIVE_BYTES,
    LIVE_RANKS,
    LIVE_RUNS,
    NEW_RUNS,
    STRANGERS,
    STREAM_BURST,
    Admission,
)
from loaderwatch.server.access.rate_limits import TooMany
from tests.fakes.feed import Feed


@dataclass
class Live:
    """What a server has in memory."""

    runs: dict[str, int] = field(default_factory=dict)  # bytes that each holds
    known: set[str] = field(default_factory=lambda: {"run-1"})

    @property
    def held_bytes(self) -> int:
        return sum(self.runs.values())

    @held_bytes.setter
    def held_bytes(self, value: int) -> None:
        raise AssertionError

    def __len__(self) -> int:
        return len(self.runs)

    def __contains__(self, run_id: object) -> bool:
        return run_id in self.runs

    def held_by(self, run_id: str) -> int:
        return self.runs.get(run_id, 0)

    def knows(self, run_id: str) -> bool:
        return run_id in self.known


def of(run_id: str, stream: str = "s", ranks: range = range(0)) -> Envelope:
    """An envelope of a run with these processes."""
    feed = Feed(run_id)
    processes = [msgspec.structs.replace(feed.process(), rank=rank) for rank in ranks]
    return feed.envelope(stream=stream, processes=processes or [feed.process()])


def about(ranks: range) -> Envelope:
    """Rows of ranks that no process claims."""
    envelope = Feed().envelope(steps=0, processes=[], spans=[])
    rows = [[rank] + [0] * (len(TABLES["steps"]) - 1) for rank in ranks]
    envelope.tables["steps"] = pack_table("steps", rows)
    return envelope


def test_a_stream_that_sends_without_end_is_held_back_and_others_are_not() -> None:
    admission = Admission(Live())
    feed, other = Feed(host="greedy"), Feed(host="quiet")
    envelope = feed.envelope()
    for _ in range(STREAM_BURST // 2**23):
        admission(envelope, 2**23)
    with pytest.raises(TooMany) as caught:
        admission(envelope, 2**23)
    assert caught.value.retry_after_s >= 1
    admission(other.envelope(), 1000)


def test_small_envelopes_cost_something_too() -> None:
    admission = Admission(Live())
    envelope = Feed().envelope()
    for _ in range(STREAM_BURST // LEAST_COST):
        admission(envelope, 1)
    with pytest.raises(TooMany):
        admission(envelope, STREAM_BURST)


def test_new_runs_are_counted_and_known_ones_are_not() -> None:
    live = Live()
    admission = Admission(live)
    envelope = Feed().envelope()

    def begin(numbers: range) -> None:
        for number in numbers:
            admission(msgspec.structs.replace(envelope, run_id=f"r{number}", stream=f"s{number}"), 1)

    begin(range(NEW_RUNS))
    with pytest.raises(TooMany, match="new runs"):
        begin(range(NEW_RUNS, 2 * NEW_RUNS))  # where this takes long, some more may begin meanwhile
    last = msgspec.structs.replace(envelope, run_id="one-more", stream="one-more")
    live.known.add("one-more")
    admission(last, 1)


def test_so_many_runs_are_live_and_no_more() -> None:
    live = Live({f"r{number}": 0 for number in range(LIVE_RUNS)})
    admission = Admission(live)
    with pytest.raises(TooMany, match="1000 runs are live here"):
        admission(of("one-more"), 1)
    admission(of("r7"), 1)
    del live.runs["r8"]
    admission(of("one-more"), 1)


def test_who_holds_most_of_the_memory_waits_and_others_do_not() -> None:
    live = Live({"greedy": LIVE_BYTES, "quiet": 10**6})
    admission = Admission(live)
    with pytest.raises(TooMany, match="this run holds 4096 MiB"):
        admission(of("greedy"), 1)
    admission(of("quiet"), 1)
    live.runs["greedy"] //= 2  # ended, or its older rows fell out
    admission(of("greedy"), 1)


def test_ranks_of_no_process_are_refused_and_change_nothing() -> None:
    admission = Admission(Live())
    admission(about(range(STRANGERS)), 1)
    with pytest.raises(WireError, match="200 ranks, 1000 among them, have rows and no process"):
        admission(about(range(1000, 1200)), 1)
    admission(of("run-1", ranks=range(1000, 1200)), 1)
    admission(about(range(1000, 1200)), 1)  # they have introduced themselves
    with pytest.raises(WireError):
        admission(about(range(MAX_RANKS - 1000, MAX_RANKS)), 1)


def test_all_runs_together_have_so_many_ranks() -> None:
    live = Live({"big": 0, "next": 0}, {"big", "next"})
    admission = Admission(live)
    admission(of("big", "a", range(LIVE_RANKS - 10)), 1)
    admission(of("next", "b", range(10)), 1)
    admission(of("next", "b", range(10)), 1)
    with pytest.raises(TooMany, match="16384 ranks are live here"):
        admission(of("next", "b", range(11)), 1)
    del live.runs["big"]
    admission(of("next", "b", range(11)), 1)


def test_a_run_has_so_many_hosts_and_streams() -> None:
    admission = Admission(Live())
    one = Feed().envelope()
    for number in range(HOSTS):
        admission(msgspec.structs.replace(one, stream=f"s{number}"), 1)
    with pytest.raises(TooMany, match="4096 streams speak of run run-1"):
        admission(msgspec.structs.replace(one, stream="more"), 1)
    for number in range(HOSTS - 1):
        host = msgspec.structs.replace(one.host, name=f"h{number}")
        admission(msgspec.structs.replace(one, stream=f"s{number}", host=host), 1)
    with pytest.raises(TooMany, match="4096 hosts"):
        admission(
            msgspec.structs.replace(one, stream="s1", host=msgspec.structs.replace(one.host, name="x")), 1
        )
