from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from loaderwatch.core import wire
from loaderwatch.core.errors import WireError
from loaderwatch.core.facts import Loss
from loaderwatch.core.wire import Envelope, decode, encode, item_count
from loaderwatch.server.ingest import DECODE_INLINE_BYTES, Busy, Ingest
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.protocol import StoreError
from tests.fakes.runs import SECOND, T0, envelope, steps
from tests.waiting import PATIENCE_S


def _payload(seq: int, **more: Any) -> bytes:
    return encode(envelope(seq, tables={"steps": steps(0, [T0 + seq * SECOND], [seq], [1])}, **more))


def test_what_is_acknowledged_is_on_disk_and_told_once(tmp_path: Path) -> None:
    async def play() -> None:
        store = DuckDBStore(tmp_path)
        ingest = Ingest(store)
        told: list[int] = []
        ingest.on_stored(lambda e, _: told.append(e.seq))
        ingest.start()
        (first, seq) = await ingest.submit([_payload(1)])
        assert (first.seq, seq, told) == (1, 1, [1])
        other = DuckDBStore(tmp_path / "copy")  # what another process would find
        for part in tmp_path.glob("run-1.duckdb*"):
            (tmp_path / "copy" / part.name).write_bytes(part.read_bytes())
        assert other.stored_seq("run-1", "host-a") == 1
        other.close()
        results = await asyncio.gather(*(ingest.submit([_payload(n)]) for n in (3, 2, 3, 1, 2)))
        assert [e.seq for e, _ in results] == [3, 2, 3, 1, 2]
        assert {highest for _, highest in results} == {3}
        assert sorted(told) == [1, 2, 3]
        assert ingest.waiting_bytes == 0
        await ingest.stop()
        with pytest.raises(StoreError, match="stopping"):
            await ingest.submit([_payload(4)])
        store.close()

    asyncio.run(play())


def test_envelopes_that_gather_share_a_commit(tmp_path: Path) -> None:
    class Counting(DuckDBStore):
        commits = 0

        def append(self, envelopes: Sequence[Envelope]) -> list[Envelope]:
            Counting.commits += 1
            time.sleep(0.05)
            return super().append(envelopes)

    async def play() -> None:
        store = Counting(tmp_path)
        ingest = Ingest(store)
        ingest.start()
        await asyncio.gather(*(ingest.submit([_payload(n)]) for n in range(1, 201)))
        assert store.stored_seq("run-1", "host-a") == 200
        await ingest.stop()
        store.close()

    asyncio.run(play())
    assert Counting.commits < 20


def test_a_malformed_payload_changes_nothing(tmp_path: Path) -> None:
    async def play() -> None:
        store = DuckDBStore(tmp_path)
        ingest = Ingest(store)
        ingest.start()
        broken = envelope(1, tables={"steps": steps(0, [1, 2], 1, 1) | {"wait_ns": b"12345678"}})
        with pytest.raises(WireError, match="different lengths") as caught:
            await ingest.submit([encode(broken)])
        assert caught.value.field == "tables.steps"
        with pytest.raises(WireError):
            await ingest.submit([b"\xc1" * 300_000])  # decoded in a thread
        assert store.runs() == []
        assert ingest.waiting_bytes == 0
        await ingest.stop()
        store.close()

    asyncio.run(play())


def test_too_much_waiting_is_refused_and_taken_later(tmp_path: Path) -> None:
    gate = threading.Event()

    class Slow(DuckDBStore):
        def append(self, envelopes: Sequence[Envelope]) -> list[Envelope]:
            assert gate.wait(PATIENCE_S)
            return super().append(envelopes)

    async def play() -> None:
        store = Slow(tmp_path)
        size = len(_payload(1)) + 600 * item_count(decode(_payload(1)))
        ingest = Ingest(store, max_waiting_bytes=3 * size)
        ingest.start()
        waiting = [asyncio.create_task(ingest.submit([_payload(n)])) for n in (1, 2, 3)]
        await asyncio.sleep(0)
        with pytest.raises(Busy) as caught:
            await ingest.submit([_payload(4)])
        assert caught.value.retry_after_s > 0
        waiting[2].cancel()  # its sender hung up: it is stored all the same
        gate.set()
        await asyncio.gather(*waiting, return_exceptions=True)
        await ingest.submit([_payload(4)])
        assert store.stored_seq("run-1", "host-a") == 4
        assert len(store.scan("run-1", "steps", 0, 2**62)["rank"]) == 4
        assert ingest.waiting_bytes == 0
        await ingest.stop()
        store.close()

    asyncio.run(play())


def test_a_run_that_cannot_be_stored_does_not_hold_up_others(tmp_path: Path) -> None:
    class Failing(DuckDBStore):
        def append(self, envelopes: Sequence[Envelope]) -> list[Envelope]:
            if envelopes[0].run_id == "bad":
                raise StoreError("the disk is full")
            if envelopes[0].run_id == "worse":
                raise ZeroDivisionError
            return super().append(envelopes)

    async def play() -> None:
        store = Failing(tmp_path)
        ingest = Ingest(store)
        ingest.start()
        for _ in range(2):
            results = await asyncio.gather(
                ingest.submit([_payload(1)]),
                ingest.submit([_payload(1, run_id="bad")]),
                ingest.submit([_payload(1, run_id="worse")]),
                return_exceptions=True,
            )
            assert not isinstance(results[0], BaseException)
            assert isinstance(results[1], StoreError)
            assert isinstance(results[2], StoreError)
            assert "ZeroDivisionError" in str(results[2])
        await ingest.stop()
        store.close()

    asyncio.run(play())


def test_a_failing_listener_does_not_cost_the_receipt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        store = DuckDBStore(tmp_path)
        ingest = Ingest(store)
        heard: list[int] = []

        def fail(envelope: Envelope, weight: int) -> None:
            raise ValueError("listener")

        ingest.on_stored(fail)
        ingest.on_stored(lambda e, _: heard.append(e.seq))
        ingest.start()
        assert (await ingest.submit([_payload(1)]))[1] == 1
        assert heard == [1]
        await ingest.stop()
        store.close()

    asyncio.run(play())
    assert "a listener failed" in caplog.text


def test_stopping_commits_what_waits(tmp_path: Path) -> None:
    async def play() -> None:
        store = DuckDBStore(tmp_path)
        ingest = Ingest(store, commit_interval_s=0.5)
        ingest.start()
        waiting = [asyncio.create_task(ingest.submit([_payload(n)])) for n in range(1, 30)]
        while not ingest.waiting_bytes:
            await asyncio.sleep(0)
        await ingest.stop()
        assert [highest for _, highest in await asyncio.gather(*waiting)][-1] == 29
        store.close()

    asyncio.run(play())


def test_a_newer_streamer_is_stored_as_far_as_known_and_that_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        store = DuckDBStore(tmp_path)
        ingest = Ingest(store)
        ingest.start()
        for seq in (1, 2, 3):
            columns = {**steps(0, [T0 + seq * SECOND], [seq], [1]), "tokens": b"\0" * 8}
            await ingest.submit([encode(envelope(seq, tables={"steps": columns}))])
        await ingest.stop()
        assert store.totals("run-1")[0].steps == 3
        store.close()

    asyncio.run(play())
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "tables.steps.tokens" in said[0]
    assert "upgrade" in said[0]


def test_large_envelopes_are_decoded_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst 8 MiB take 400 MB while they are looked at: not as many times as there are threads."""
    at_once: list[int] = []
    now = 0
    real = wire.decode

    def decoding(payload: bytes, unknown: set[str] | None = None) -> Envelope:
        nonlocal now
        now += 1
        at_once.append(now)
        time.sleep(0.02)
        try:
            return real(payload, unknown)
        finally:
            now -= 1

    monkeypatch.setattr(wire, "decode", decoding)

    async def play() -> None:
        store = DuckDBStore(tmp_path)
        ingest = Ingest(store)
        ingest.start()
        bad = b"\xc1" * (DECODE_INLINE_BYTES + 1)
        results = await asyncio.gather(*(ingest.submit([bad]) for _ in range(8)), return_exceptions=True)
        assert [type(result) for result in results] == [WireError] * 8
        await ingest.stop()
        store.close()

    asyncio.run(play())
    assert at_once == [1] * 8


def test_what_waits_counts_as_what_it_is_in_memory(tmp_path: Path) -> None:
    """50,000 losses are 2 MB as they come, and 9 in memory; other things are heavier."""
    gate = threading.Event()

    class Slow(DuckDBStore):
        def append(self, envelopes: Sequence[Envelope]) -> list[Envelope]:
            assert gate.wait(PATIENCE_S)
            return super().append(envelopes)

    async def play() -> None:
        store = Slow(tmp_path)
        ingest = Ingest(store, max_waiting_bytes=33 * 2**20)
        ingest.start()
        lost = [Loss(what="", rank=0, count=1, t_ns=0)] * 50_000
        heavy = [encode(envelope(number, losses=lost, tables={})) for number in range(1, 4)]
        assert sum(map(len, heavy)) < 8 * 2**20
        first = asyncio.create_task(ingest.submit([heavy[0]]))
        second = asyncio.create_task(ingest.submit([heavy[1]]))
        with pytest.raises(Busy):
            await asyncio.wait_for(second, PATIENCE_S)
        assert not first.done()
        assert ingest.waiting_bytes < 41_000_000
        gate.set()
        await first
        assert ingest.waiting_bytes == 0
        await ingest.stop()
        store.close()

    asyncio.run(play())


def test_several_of_one_request_share_a_commit(tmp_path: Path) -> None:
    """Also if one of them was stored before or is refused: the others are stored, and the answer says so."""

    async def play() -> None:
        store = DuckDBStore(tmp_path)
        ingest = Ingest(store)
        told: list[int] = []
        ingest.on_stored(lambda e, _: told.append(e.seq))
        ingest.start()
        first, highest = await ingest.submit([_payload(n) for n in range(1, 21)])
        assert (first.seq, highest, told) == (1, 20, list(range(1, 21)))
        with pytest.raises(WireError, match="not MessagePack"):
            await ingest.submit([_payload(20), b"\xc1", _payload(21)])
        first, highest = await ingest.submit([_payload(20), _payload(21), _payload(22)])
        assert (first.seq, highest, told) == (20, 22, list(range(1, 23)))
        await ingest.stop()
        store.close()

    asyncio.run(play())


def test_the_writer_rests_after_a_long_commit(tmp_path: Path) -> None:
    """Envelopes that come in meanwhile share the next one."""

    sizes: list[int] = []

    class Slow(DuckDBStore):
        def append(self, envelopes: Sequence[Envelope]) -> list[Envelope]:
            sizes.append(len(envelopes))
            time.sleep(0.1)
            return super().append(envelopes)

    async def play() -> None:
        store = Slow(tmp_path)
        ingest = Ingest(store, commit_interval_s=0.0)
        ingest.start()
        await ingest.submit([_payload(1)])
        await asyncio.gather(*(ingest.submit([_payload(n)]) for n in range(2, 12)))
        await ingest.stop()
        store.close()

    asyncio.run(play())
    assert sizes == [1, 10]
