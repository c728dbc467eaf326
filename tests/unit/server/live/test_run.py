"""One live run, driven by hand on a real store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loaderwatch.core.facts import StackDump
from loaderwatch.core.message import Text
from loaderwatch.core.wire import Closing, Receipt
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.alerts.alert_book import Announcement
from loaderwatch.server.live.run import LiveRun
from loaderwatch.server.live.summary import LOST_AFTER_S
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.protocol import StoreError
from tests.fakes.feed import Feed
from tests.fakes.findings import finding_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    store = DuckDBStore(tmp_path)
    yield store
    store.close()


def hang(**more: Any) -> Finding:
    facts: dict[str, Any] = {
        "key": "hung:0", "code": "hung", "scenario": "S36", "severity": "critical", "confidence": 0.9,
        "began_ns": time.time_ns(), "title": "Rank 0 hangs.", "cause": "c", "advice": "a", "rank": 0,
    }  # fmt: skip
    return finding_of(**(facts | more))


class Driven:
    """A live run that is fed, looked at and judged one call at a time."""

    def __init__(self, store: DuckDBStore, *, is_new: bool = True) -> None:
        self.store = store
        self.feed = Feed()
        self.findings: list[Finding] = []
        self.windows: list[RunWindow] = []
        self.told: list[Announcement] = []
        self.live = LiveRun(
            "run-1",
            store,
            is_new=is_new,
            detector=self.detect,
            describe=lambda a: lambda _: f"{a.alert.finding.key} {a.resolved}",
        )

    def detect(self, run: RunEvidence) -> list[Finding]:
        self.windows.append(run.window)
        return self.findings

    def send(self, **more: Any) -> None:
        envelope = self.feed.envelope(**more)
        self.store.append([envelope])
        self.live.take(envelope)

    def look(self, after_s: float = 0.0) -> dict[str, Any]:
        self.live.heard_at -= after_s
        state = self.live.look()
        decoded: dict[str, Any] = msgspec.json.decode(state.summary)
        return decoded

    def receipt(self, stream: str = "") -> Receipt:
        """The answer to an envelope of the feed's stream, or of another stream with the same host facts."""
        envelope = self.feed.envelope(steps=0)
        envelope = msgspec.structs.replace(envelope, stream=stream, processes=[]) if stream else envelope
        self.store.append([envelope])
        self.live.take(envelope)
        return self.live.receipt(envelope, envelope.seq)

    def heard(self, stream: str = "") -> tuple[list[int], list[tuple[int, str]]]:
        """The ranks whose stacks a stream is asked for, and the lines that it is to write."""
        receipt = self.receipt(stream)
        ranks = [request.rank for request in receipt.stack_requests]
        return ranks, [(notice.rank, notice.text) for notice in receipt.notices]

    def judge(self) -> None:
        self.told += self.live.detect(time.time_ns())


def test_live_then_lost_then_live(store: DuckDBStore) -> None:
    run = Driven(store)
    run.send(steps=20)
    assert run.look()["state"] == "live"
    lost = run.look(after_s=LOST_AFTER_S + 5)
    assert lost["state"] == "lost"
    assert "; its state is unknown. At the last contact: " in lost["verdict"]["title"]
    assert lost["verdict"]["severity"] == "info", "silence of the streamer is no alert"
    run.send()
    assert run.look()["state"] == "live"


def test_a_run_that_cannot_be_stored_is_not_lost_and_says_so(store: DuckDBStore) -> None:
    run = Driven(store)
    run.send(steps=20)
    assert run.look(after_s=LOST_AFTER_S + 5)["state"] == "lost"
    run.live.refuse("/data/runs/run-1.duckdb could not be written: No space left on device")
    refused = run.look()
    assert refused["state"] == "live"
    assert refused["verdict"]["severity"] == "critical"
    assert "No space left on device" in refused["verdict"]["advice"]
    run.send()
    assert run.look()["verdict"]["severity"] != "critical"


def test_silence_is_never_judged(store: DuckDBStore) -> None:
    run = Driven(store)
    run.send(steps=20)
    run.look()
    assert run.live.undetected
    run.judge()
    assert not run.live.undetected
    for _ in range(3):
        run.look(after_s=100)
    assert not run.live.undetected, "nothing new came, so there is nothing new to judge"
    window = run.live.window()
    assert window is not None
    assert run.windows == [window]


def test_hung_while_a_hang_fires(store: DuckDBStore) -> None:
    run = Driven(store)
    run.send(steps=20)
    run.look()
    run.findings = [hang()]
    run.judge()
    assert run.look()["state"] == "hung"
    assert [a.resolved for a in run.told] == [False]
    assert run.heard("another-stream") == ([], [])
    assert run.heard() == ([0], [(0, "hung:0 False")])
    assert run.heard() == ([], [])


def test_the_end_closes_everything(store: DuckDBStore) -> None:
    run = Driven(store)
    run.send(steps=20)
    run.look()
    run.findings = [hang()]
    run.judge()
    run.send(state="finished", final=True)
    run.look()
    assert run.live.ended
    run.judge()
    assert [a.resolved for a in run.told] == [False, True]
    summary = run.look()
    assert summary["state"] == "finished"
    assert summary["verdict"]["title"] == "Finished. While it ran: Rank 0 hangs."
    assert {a.state for a in store.alerts("run-1")} == {"resolved"}


def test_another_server_goes_on_with_numbers_and_alerts(store: DuckDBStore) -> None:
    before = Driven(store)
    before.send(steps=20)
    before.send(steps=20)
    before.look()
    before.findings = [hang()]
    before.judge()
    before.live.close()

    after = Driven(store, is_new=False)
    after.feed = before.feed
    after.send(steps=10)  # on disk before the new server has looked at the run at all
    assert after.look()["steps"] == 50
    assert len(after.live.findings()) == 1
    after.findings = [hang()]
    after.judge()
    assert after.told == []
    assert len(after.live.findings()) == 1


def test_looks_that_come_too_late_read_from_the_store(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loaderwatch.server.live.run.MAX_INBOX", 3)
    run = Driven(store)
    run.send(steps=20)
    run.look()
    run.findings = [hang()]
    run.judge()
    for _ in range(10):
        run.send(steps=10)
    assert len(run.live._inbox) <= 3
    assert run.look()["steps"] == 120
    run.send(steps=1)
    assert run.look()["steps"] == 121
    run.judge()
    assert len(run.told) == 1, "the alert is still the same"


def test_a_broken_detector_is_counted_and_hides_nothing(
    store: DuckDBStore, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(run: RunEvidence) -> list[Finding]:
        raise ZeroDivisionError("by design")

    run = Driven(store)
    run.live = LiveRun("run-1", store, is_new=True, detector=broken)
    run.send(steps=20)
    for _ in range(3):
        run.look()
        run.judge()
    assert run.live.detector_faults == 3
    assert run.look()["steps"] == 20
    assert caplog.text.count("a detector failed") == 1


def test_stacks_are_asked_for_again_only_after_a_while(store: DuckDBStore) -> None:
    run = Driven(store)
    run.send(steps=5)
    run.look()
    run.findings = [hang()]
    for _ in range(5):
        run.judge()
    assert run.heard()[0] == [0]
    run.judge()
    assert run.heard()[0] == []
    assert run.live.want_stacks(None) == [0]
    assert run.heard()[0] == [0]
    assert run.live.want_stacks(7) == []


def test_what_a_run_holds_in_memory_is_known(store: DuckDBStore) -> None:
    """Rows, stacks and what waits for a look; ``admission`` limits it."""
    run = Driven(store)
    run.live.take(run.feed.envelope(), 5000)
    assert run.live.held_bytes == 5000
    run.live.take(run.feed.envelope(), 5000)
    store.append([run.feed.envelope()])
    run.look()
    rows = run.live.held_bytes
    assert 10_000 < rows < 10**6
    for text in ("s" * 60_000, "t" * 10_000):  # the newer one replaces the older
        run.send(stacks=[StackDump(rank=0, worker=-1, pid=1, taken_ns=time.time_ns(), text=text)])
        run.look()
        assert run.live.held_bytes == rows + len(text)


def test_what_a_silent_run_left_open_is_told_as_unheard(store: DuckDBStore) -> None:
    run = Driven(store)
    run.send(steps=20)
    run.look()
    run.findings = [hang()]
    run.judge()
    (end,) = run.live.let_go(time.time_ns())
    assert (end.resolved, end.unheard, end.died) == (True, True, False)


def test_the_lowest_ranks_stream_is_sent_what_to_print_at_the_end(store: DuckDBStore) -> None:
    run = Driven(store)
    run.send(steps=20)
    assert run.receipt().closing is None, "before the first look"
    run.look()
    assert run.receipt("another-stream").closing is None
    closing = run.receipt().closing
    assert closing is not None
    assert closing.lost
    assert not closing.found
    assert run.receipt().closing is None, "not with every receipt"
    run.live._closing_handed_at -= 10
    run.findings = [hang(lost_s=20.0)]
    run.judge()
    run.look()
    closing = run.receipt().closing
    assert closing is not None
    assert closing.found
    assert (closing.lines, closing.advice) == (["20 s: Rank 0 hangs."], "a")


def test_who_restarts_a_run_that_is_over_is_not_told_how_it_was(store: DuckDBStore) -> None:
    """A last word is for the process that the window had. A restart has its own, about nothing but itself."""
    run = Driven(store)
    run.send(steps=200)
    run.look()
    run.findings = [hang(lost_s=20.0)]
    run.judge()
    run.send(state="finished", final=True)
    run.look()
    run.judge()
    run.look()
    assert run.live.closing is not None
    assert run.live.closing("en").found
    other = Feed()

    def intrude(started_ns: int) -> Closing | None:
        process = other.process(pid=9, started_ns=started_ns)
        envelope = other.envelope(steps=0, stream="another-stream", processes=[process])
        store.append([envelope])
        run.live.take(envelope)
        return run.live.receipt(envelope, 1).closing

    older_ns, newer_ns = run.feed.started_ns - 10**9, time.time_ns()
    assert intrude(older_ns) is None
    run.findings = []
    run.look()
    assert intrude(older_ns) is None, "the run goes on without an older process"
    assert intrude(newer_ns) is None, "the last word is still the one of before"
    run.look()
    told = intrude(newer_ns)
    assert told is not None
    assert (told.found, told.lines) == (False, [])


def test_a_line_is_left_for_the_lowest_rank(store: DuckDBStore) -> None:
    run = Driven(store)
    run.live.say(Text("apprise-says-nothing"))
    run.send(steps=20)
    run.look()
    run.live.say(Text("apprise-says-nothing"))
    assert run.heard()[1] == [(0, "loaderwatch: Apprise does not say why")]


@pytest.mark.parametrize("shared", [False, True])
def test_where_servers_share_a_store_people_are_told_what_is_stored(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """Else another server that continues the run would report it again. A full disk alone hides no alert."""
    monkeypatch.setattr(store, "shared", shared)
    run = Driven(store)
    run.send(steps=20)
    run.look()
    run.findings = [hang()]
    with monkeypatch.context() as patched:

        def refuse(*_: object) -> None:
            raise StoreError("not now")

        patched.setattr(store, "save_alerts", refuse)
        run.judge()
        assert len(run.told) == (0 if shared else 1)
    run.send()
    run.look()
    assert [alert.state for alert in store.alerts("run-1")] == ["firing"]
    run.judge()
    run.judge()
    assert [one.alert.id for one in run.told] == [store.alerts("run-1")[0].id]
    assert [text for _, text in run.heard()[1]] == ["hung:0 False"]
