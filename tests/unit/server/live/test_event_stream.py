"""The hub of live events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

from loaderwatch.server.live.event_stream import Hub, RunState
from tests.fakes.summaries import rank_row, summary_with

RUN = "run-1"


def state(step: int, findings: int = 0) -> RunState:
    return RunState(
        json.dumps({"step": step}).encode(), json.dumps(list(range(findings))).encode(), step + 0.5
    )


def parse(raw: bytes) -> dict[str, Any]:
    fields = dict(line.split(": ", 1) for line in raw.decode().strip().split("\n"))
    return {"id": fields.get("id"), "event": fields["event"], **json.loads(fields["data"])}


async def next_event(stream: AsyncIterator[bytes]) -> dict[str, Any]:
    while True:
        raw = await asyncio.wait_for(anext_of(stream), 5)
        if raw.startswith((b"id:", b"event:")):
            return parse(raw)


async def anext_of(stream: AsyncIterator[bytes]) -> bytes:
    return await stream.__anext__()


def run(scenario: Callable[[Hub], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(_with_hub(scenario), 10))


async def _with_hub(scenario: Callable[[Hub], Awaitable[None]]) -> None:
    await scenario(Hub())


def test_a_snapshot_then_ticks() -> None:
    async def scenario(hub: Hub) -> None:
        hub.publish(RUN, state(1, findings=1))
        stream = hub.stream(RUN, None)
        first = await next_event(stream)
        assert (first["event"], first["summary"], first["findings"]) == ("snapshot", {"step": 1}, [0])
        assert first["findings_changed"] is True
        assert first["newest_at"] == 1.5
        hub.publish(RUN, state(2, findings=1))
        second = await next_event(stream)
        assert (second["event"], second["summary"], second["findings"]) == ("tick", {"step": 2}, None)
        assert second["findings_changed"] is False

    run(scenario)


def test_a_slow_client_skips_states_but_no_change_of_the_findings() -> None:
    async def scenario(hub: Hub) -> None:
        hub.publish(RUN, state(1))
        stream = hub.stream(RUN, None)
        await next_event(stream)
        hub.publish(RUN, state(2, findings=1))  # not read
        for step in range(3, 1000):
            hub.publish(RUN, state(step, findings=1))
        event = await next_event(stream)
        assert event["summary"] == {"step": 999}
        assert event["findings"] == [0]

    run(scenario)


def test_resuming_skips_the_snapshot_only_when_nothing_changed() -> None:
    async def scenario(hub: Hub) -> None:
        hub.publish(RUN, state(1))
        event_id = (await next_event(hub.stream(RUN, None)))["id"]
        resumed = hub.stream(RUN, event_id)
        assert (await anext_of(resumed)).startswith(b"retry")
        waiting = asyncio.ensure_future(anext_of(resumed))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        hub.publish(RUN, state(2))
        assert parse(await asyncio.wait_for(waiting, 5))["event"] == "tick"
        assert (await next_event(hub.stream(RUN, event_id)))["event"] == "snapshot"
        assert (await next_event(hub.stream(RUN, "0badboot-2")))["event"] == "snapshot"
        assert (await next_event(hub.stream(RUN, "nonsense")))["event"] == "snapshot"

    run(scenario)


def test_the_same_state_again_is_no_event() -> None:
    async def scenario(hub: Hub) -> None:
        hub.publish(RUN, state(1))
        first = await next_event(hub.stream(RUN, None))
        hub.publish(RUN, state(1))
        assert (await next_event(hub.stream(RUN, None)))["id"] == first["id"]

    run(scenario)


def test_gone_ends_the_stream() -> None:
    async def scenario(hub: Hub) -> None:
        hub.publish(RUN, state(1))
        stream = hub.stream(RUN, None)
        await next_event(stream)
        hub.gone(RUN)
        assert (await next_event(stream))["event"] == "gone"
        assert [raw async for raw in stream] == []
        assert hub.clients == 0

    run(scenario)


def test_streams_of_a_run_that_moved_end_so_that_pages_reconnect() -> None:
    async def scenario(hub: Hub) -> None:
        hub.publish(RUN, state(1))
        stream = hub.stream(RUN, None)
        await next_event(stream)
        hub.moved(RUN)
        assert [raw async for raw in stream] == []
        assert hub.clients == 0
        hub.publish(RUN, state(2))  # it came back
        assert (await next_event(hub.stream(RUN, None)))["event"] == "snapshot"

    run(scenario)


def test_states_that_nobody_follows_do_not_gather() -> None:
    async def scenario(hub: Hub) -> None:
        hub.publish(RUN, state(1))
        first = await next_event(followed := hub.stream(RUN, None))
        for number in range(300):
            hub.publish(f"run-{number + 2}", state(number))
        assert len(hub._latest) <= 66
        resumed = hub.stream(RUN, first["id"])  # it was followed, so that it is still there
        assert (await anext_of(resumed)).startswith(b"retry")
        hub.publish(RUN, state(2))
        assert parse(await asyncio.wait_for(anext_of(resumed), 5))["event"] == "tick"
        hub.forget("run-301")
        hub.publish("run-301", state(7))
        newest = (await next_event(hub.stream("run-301", f"{first['id'].partition('-')[0]}-1")))["event"]
        assert newest == "snapshot"  # "1" was another run's state
        hub.close()
        assert [raw async for raw in followed] == []

    run(scenario)


def test_closing_ends_every_stream_at_once() -> None:
    async def scenario(hub: Hub) -> None:
        hub.publish(RUN, state(1))
        streams = [hub.stream(RUN, None) for _ in range(3)]
        for stream in streams:
            await next_event(stream)
        assert hub.clients == 3
        hub.close()
        for stream in streams:
            assert [raw async for raw in stream] == []
        assert hub.clients == 0

    run(scenario)


def test_a_page_that_asks_for_changes_gets_them() -> None:
    def step(number: int) -> RunState:
        facts = summary_with([rank_row(0), rank_row(1)], steps=number)
        return RunState(b'{"whole": true}', b"[]", float(number), facts)

    async def scenario(hub: Hub) -> None:
        hub.publish(RUN, step(1))
        lean, whole = hub.stream(RUN, None, changes=True), hub.stream(RUN, None)
        first = await next_event(lean)
        assert (first["event"], first["summary"]["steps"], first["worst_rank"]) == ("snapshot", 1, 1)
        assert (await next_event(whole))["summary"] == {"whole": True}
        hub.publish(RUN, replace(step(2), summary=b'{"whole": 2}'))
        second = await next_event(lean)
        assert (second["event"], second["summary"], second["partial"]) == ("tick", {"steps": 2}, True)
        assert (await next_event(whole))["summary"] == {"whole": 2}
        back = hub.stream(RUN, first["id"], changes=True)  # it has missed the second
        again = await next_event(back)
        assert (again["event"], again["summary"]["steps"], "partial" in again) == ("snapshot", 2, False)

    run(scenario)
