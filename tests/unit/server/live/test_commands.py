"""What streamers are told to do, with their receipts."""

from __future__ import annotations

import time

import pytest

from loaderwatch.core.wire import Notice
from loaderwatch.server.live.commands import AGAIN_S, MAX_NOTICES, HostCommands

LINE = Notice(rank=0, text="[hung] Rank 0 hangs")


def _host_of(rank: int) -> str | None:
    return {0: "gpu01", 1: "gpu02"}.get(rank)


def _texts(commands: HostCommands, seq: int, host: str = "gpu01") -> list[str]:
    return [notice.text for notice in commands.hand_out(host, f"{host}-1", seq, _host_of)[1]]


def test_each_host_gets_its_own_once() -> None:
    commands = HostCommands()
    commands.leave("gpu01", LINE)
    commands.want_stacks([0, 1, 7])
    stacks, notices = commands.hand_out("gpu02", "gpu02-1", 1, _host_of)
    assert sorted(request.rank for request in stacks) == [1, 7]  # nobody knows where 7 is
    assert notices == []
    stacks, notices = commands.hand_out("gpu01", "gpu01-1", 1, _host_of)
    assert [request.rank for request in stacks] == [0]
    assert notices == [LINE]
    assert commands.hand_out("gpu01", "gpu01-1", 2, _host_of) == ([], [])


def test_an_envelope_that_comes_again_gets_its_receipt_again() -> None:
    commands = HostCommands()
    commands.leave("gpu01", LINE)
    assert _texts(commands, 5) == [LINE.text]
    commands.leave("gpu01", Notice(rank=0, text="second"))
    assert _texts(commands, 5) == [LINE.text, "second"]  # the answer to 5 was lost
    assert _texts(commands, 5) == [LINE.text, "second"]  # twice
    assert _texts(commands, 6) == []  # 6 is only sent when the answer to 5 has arrived
    assert _texts(commands, 6) == []


def test_lines_for_a_host_that_stays_away_are_bounded() -> None:
    commands = HostCommands()
    for number in range(3 * MAX_NOTICES):
        commands.leave("gpu01", Notice(rank=0, text=str(number)))
    texts = _texts(commands, 1)
    assert (len(texts), texts[-1]) == (MAX_NOTICES, str(3 * MAX_NOTICES - 1))


def test_stacks_of_a_standstill_are_asked_for_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    commands = HostCommands()

    def asked(seq: int) -> list[int]:
        commands.want_stacks_again([0])
        return [request.rank for request in commands.hand_out("gpu01", "gpu01-1", seq, _host_of)[0]]

    assert asked(1) == [0]
    now += AGAIN_S / 2
    assert asked(2) == []
    now += AGAIN_S
    assert asked(3) == [0]
