"""How often streams send, and when one of them is behind: never while it keeps its interval."""

from __future__ import annotations

import pytest

from loaderwatch.core.wire import ENVELOPE_S, SLOWEST_ENVELOPES_S
from loaderwatch.server.live.run import LOST_BEHIND_S
from loaderwatch.server.live.summary import LOST_AFTER_S
from loaderwatch.server.times import behind_s, envelope_s
from loaderwatch.server.window.detailed_hosts import BEHIND_S


def test_streams_of_large_runs_send_less_often() -> None:
    assert [envelope_s(ranks) for ranks in (0, 1, 512)] == [ENVELOPE_S] * 3
    assert [envelope_s(ranks, stands=True) for ranks in (8, 1024, 4096)] == [ENVELOPE_S, ENVELOPE_S, 1.0]
    assert ENVELOPE_S < envelope_s(1024) < envelope_s(4096) < envelope_s(10_240) <= SLOWEST_ENVELOPES_S


@pytest.mark.parametrize("least_s", [LOST_BEHIND_S, BEHIND_S])
@pytest.mark.parametrize("ranks", [1, 512, 513, 2049, 8193, 16_384])
def test_who_sends_as_often_as_told_is_not_behind(ranks: int, least_s: float) -> None:
    assert behind_s(ranks, least_s) > 2 * envelope_s(ranks)
    assert behind_s(ranks, least_s) < LOST_AFTER_S, "the run as a whole is lost after that"
    assert behind_s(512, least_s) == least_s
