"""What streamers are told to do, with their receipts."""

from __future__ import annotations

from loaderwatch.core.wire import Notice
from loaderwatch.server.live.commands import MAX_NOTICES, Errands

LINE = Notice(rank=0, text="[hung] Rank 0 hangs")


def _host_of(rank: int) -> str | None:
    return {0: "gpu01", 1: "gpu02"}.get(rank)


def _texts(errands: Errands, seq: int, host: str = "gpu01") -> list[str]:
    return [notice.text for notice in errands.hand_out(host, f"{host}-1", seq, _host_of)[1]]


def test_each_host_gets_its_own_once() -> None:
    errands = Errands()
    errands.leave("gpu01", LINE)
    errands.want_stacks([0, 1, 7])
    stacks, notices = errands.hand_out("gpu02", "gpu02-1", 1, _host_of)
    assert sorted(request.rank for request in stacks) == [1, 7]  # nobody knows where 7 is
    assert notices == []
    stacks, notices = errands.hand_out("gpu01", "gpu01-1", 1, _host_of)
    assert [request.rank for request in stacks] == [0]
    assert notices == [LINE]
    assert errands.hand_out("gpu01", "gpu01-1", 2, _host_of) == ([], [])


def test_an_envelope_that_comes_again_gets_its_receipt_again() -> None:
    errands = Errands()
    errands.leave("gpu01", LINE)
    assert _texts(errands, 5) == [LINE.text]
    errands.leave("gpu01", Notice(rank=0, text="second"))
    assert _texts(errands, 5) == [LINE.text, "second"]  # the answer to 5 was lost
    assert _texts(errands, 5) == [LINE.text, "second"]  # twice
    assert _texts(errands, 6) == []  # 6 is only sent when the answer to 5 has arrived
    assert _texts(errands, 6) == []


def test_lines_for_a_host_that_stays_away_are_bounded() -> None:
    errands = Errands()
    for number in range(3 * MAX_NOTICES):
        errands.leave("gpu01", Notice(rank=0, text=str(number)))
    texts = _texts(errands, 1)
    assert (len(texts), texts[-1]) == (MAX_NOTICES, str(3 * MAX_NOTICES - 1))
