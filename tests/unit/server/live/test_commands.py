"""The commands that streamers get with their receipts."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from loaderwatch.core.wire import Envelope
from loaderwatch.server.live.commands import (
    AGAIN_S,
    MAX_NOTICES,
    MAX_PROCESSES,
    SILENT_S,
    Claims,
    Commands,
    Process,
)
from tests.fakes.feed import Feed

LINE = "[hung] Rank 0 hangs"
PROCESSES = {0: Process(0, 4000, 1), 1: Process(1, 4001, 1)}
STREAMS = {0: "gpu01-1", 1: "gpu02-1"}  # by rank


def said(text: str) -> Callable[[str], str]:
    """The same line in every language."""
    return lambda language: text


def _holds(stream: str, process: Process) -> bool:
    return STREAMS.get(process.rank) == stream


def _hand_out(commands: Commands, stream: str, seq: int) -> tuple[list[int], list[tuple[int, str]]]:
    stacks, notices = commands.hand_out(stream, seq, PROCESSES.get, _holds)
    return sorted(each.rank for each in stacks), [
        (each.rank, each.in_language("en").text) for each in notices
    ]


def _texts(commands: Commands, seq: int) -> list[str]:
    return [text for _, text in _hand_out(commands, "gpu01-1", seq)[1]]


def test_each_stream_gets_what_concerns_its_own_processes_once() -> None:
    commands = Commands()
    commands.leave(PROCESSES[0], said(LINE))
    commands.want_stacks([0, 1, 7])
    assert _hand_out(commands, "gpu02-1", 1) == ([1], [])
    assert _hand_out(commands, "a-stranger", 1) == ([], []), "nobody has sent rank 7 yet"
    assert _hand_out(commands, "gpu01-1", 1) == ([0], [(0, LINE)])
    assert _hand_out(commands, "gpu01-1", 2) == ([], [])


def test_a_line_is_handed_out_in_the_language_of_the_job() -> None:
    commands = Commands()
    commands.leave(PROCESSES[0], {"en": LINE, "zh": "卡死"}.__getitem__)
    _, (notice,) = commands.hand_out("gpu01-1", 1, PROCESSES.get, _holds)
    assert [notice.in_language(language).text for language in ("zh", "en")] == ["卡死", LINE]


def test_lines_for_many_processes_are_bounded() -> None:
    commands = Commands()
    for pid in range(3 * MAX_PROCESSES):
        commands.leave(Process(0, pid, 1), said(LINE))
    assert len(_hand_out(commands, "gpu01-1", 1)[1]) == MAX_PROCESSES


def test_an_envelope_that_comes_again_gets_its_receipt_again() -> None:
    commands = Commands()
    commands.leave(PROCESSES[0], said(LINE))
    assert _texts(commands, 5) == [LINE]
    commands.leave(PROCESSES[0], said("second"))
    assert _texts(commands, 5) == [LINE, "second"]  # the answer to 5 was lost
    assert _texts(commands, 5) == [LINE, "second"]  # twice
    assert _texts(commands, 6) == []  # 6 is only sent when the answer to 5 has arrived
    assert _texts(commands, 6) == []


def test_lines_for_a_process_whose_stream_stays_away_are_bounded() -> None:
    commands = Commands()
    for number in range(3 * MAX_NOTICES):
        commands.leave(PROCESSES[0], said(str(number)))
    texts = _texts(commands, 1)
    assert (len(texts), texts[-1]) == (MAX_NOTICES, str(3 * MAX_NOTICES - 1))


def test_stacks_of_a_standstill_are_asked_for_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    commands = Commands()

    def asked(seq: int) -> list[int]:
        commands.want_stacks_again([0])
        return _hand_out(commands, "gpu01-1", seq)[0]

    assert asked(1) == [0]
    now += AGAIN_S / 2
    assert asked(2) == []
    now += AGAIN_S
    assert asked(3) == [0]


# -- which stream sent a rank's process


class Senders:
    """Envelopes of several streams about rank 0, and what each of them may learn."""

    def __init__(self) -> None:
        self.claims = Claims()

    def send(self, stream: str, pid: int, state: str = "live", rank: int = 0) -> Envelope:
        feed = Feed()
        process = feed.process(pid=pid, rank=rank, started_ns=pid, state=state)
        envelope = feed.envelope(steps=0, stream=stream, processes=[process])
        self.claims.take(envelope)
        return envelope

    def told(self, pid: int, *streams: str) -> list[str]:
        """Return which of these streams may learn of this process of rank 0."""
        return [stream for stream in streams if self.claims.holds(stream, Process(0, pid, pid))]


def test_the_stream_that_sent_a_process_is_told_of_it() -> None:
    senders = Senders()
    own = senders.send("own", 1)
    other = senders.send("other", 2, rank=1)
    assert senders.told(1, "own", "other", "nobody") == ["own"]
    assert senders.told(9, "own", "other") == [], "of a process that nobody sent"
    assert senders.claims.holds_any(own)
    assert senders.claims.holds_any(other)
    assert not senders.claims.holds_any(Feed().envelope(stream="nobody", processes=[]))


@pytest.mark.parametrize("state", ["live", "crashed"])
@pytest.mark.parametrize("first", ["job", "other"])
def test_while_two_streams_claim_a_rank_neither_is_told_anything(first: str, state: str) -> None:
    """Also later: the run's verdict is on what both sent. Who came first is no sign of who trains."""
    senders = Senders()
    if first == "other":
        senders.send("other", 1)
    senders.send("job", 2)
    senders.send("other", 3, state)
    senders.send("job", 2, "finished")
    senders.send("other", 4)
    told = [senders.told(pid, "job", "other") for pid in (1, 2, 3, 4)]
    assert told == [[], [], [], []]


def test_a_rank_that_is_restarted_on_another_host_is_told_of_there() -> None:
    senders = Senders()
    senders.send("gpu01", 1)
    senders.send("gpu01", 1, "crashed")
    senders.send("gpu02", 2)
    senders.send("gpu01", 1, "crashed")  # it still describes the process
    assert senders.told(2, "gpu01", "gpu02") == ["gpu02"]


def test_a_line_about_a_process_comes_when_its_rank_was_restarted_on_the_same_host() -> None:
    senders = Senders()
    senders.send("gpu01", 1)
    senders.send("gpu01", 2)
    assert senders.told(1, "gpu01") == senders.told(2, "gpu01") == ["gpu01"]


def test_another_host_takes_over_from_one_that_died(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    senders = Senders()
    senders.send("gpu01", 1)
    now += SILENT_S + 1
    senders.send("gpu02", 2)
    assert senders.told(2, "gpu02") == ["gpu02"]


def test_after_a_restart_of_the_server_the_process_itself_says_whose_stream_it_is() -> None:
    """Its start in nanoseconds is known to nobody else."""
    senders = Senders()
    senders.claims.seed([Feed().process(pid=1, started_ns=1)])
    senders.send("job", 1)
    assert senders.told(1, "job") == ["job"]
    senders.claims.seed([Feed().process(pid=1, started_ns=1)])
    senders.send("other", 2)
    senders.send("job", 1)
    assert senders.told(2, "other") == senders.told(1, "other") == []
