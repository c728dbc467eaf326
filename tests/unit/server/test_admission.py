"""How much a sender may store."""

from __future__ import annotations

import msgspec
import pytest

from loaderwatch.server.admission import LEAST_COST, NEW_RUNS, STREAM_BURST, Admission
from loaderwatch.server.limits import TooMany
from tests.fakes.feed import Feed


def test_a_stream_that_sends_without_end_is_held_back_and_others_are_not() -> None:
    admission = Admission(lambda run_id: True)
    feed, other = Feed(host="greedy"), Feed(host="quiet")
    envelope = feed.envelope()
    for _ in range(STREAM_BURST // 2**23):
        admission(envelope, 2**23)
    with pytest.raises(TooMany) as caught:
        admission(envelope, 2**23)
    assert caught.value.retry_after_s >= 1
    admission(other.envelope(), 1000)


def test_small_envelopes_cost_something_too() -> None:
    admission = Admission(lambda run_id: True)
    envelope = Feed().envelope()
    for _ in range(STREAM_BURST // LEAST_COST):
        admission(envelope, 1)
    with pytest.raises(TooMany):
        admission(envelope, LEAST_COST * 100)


def test_new_runs_are_counted_and_known_ones_are_not() -> None:
    known: set[str] = set()
    admission = Admission(known.__contains__)
    envelope = Feed().envelope()
    for number in range(NEW_RUNS):
        admission(msgspec.structs.replace(envelope, run_id=f"r{number}", stream=f"s{number}"), 1)
    last = msgspec.structs.replace(envelope, run_id="one-more", stream="one-more")
    with pytest.raises(TooMany, match="new runs"):
        admission(last, 1)
    known.add("one-more")
    admission(last, 1)
