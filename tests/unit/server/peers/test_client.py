"""Requests to another server: it proves itself first; connections are reused, and closed for a lost peer."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from loaderwatch.server.peers import client as client_module
from loaderwatch.server.peers.client import PeerAway, PeerClient
from tests.fakes.feed import Feed
from tests.fakes.impostor import Impostor
from tests.fakes.serving import Access, serving


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    with serving(tmp_path_factory.mktemp("server")) as access:
        access.send(Feed().envelope())
        yield access


def test_answers_come_over_one_connection(access: Access) -> None:
    async def ask() -> None:
        client = PeerClient(lambda: access.owner)
        headers = {"authorization": f"Bearer {access.owner}"}
        for _ in range(3):
            answer = await client.ask(access.url, "GET", "/api/v1/runs", headers)
            assert answer.status == 200
            assert [run["run_id"] for run in json.loads(await answer.read())] == ["run-1"]
        body = json.dumps({"name": "mine"}).encode()
        answer = await client.ask(access.url, "PATCH", "/api/v1/runs/run-1", headers, body)
        assert json.loads(await answer.read())["name"] == "mine"
        assert len(client._idle[access.url]) == 1
        client.keep_only(())
        assert not client._idle

    asyncio.run(ask())


def test_a_stream_is_read_as_it_comes_and_ends_when_its_server_is_given_up(access: Access) -> None:
    async def ask() -> None:
        client = PeerClient(lambda: access.owner)
        headers = {"authorization": f"Bearer {access.owner}"}
        answer = await client.ask(access.url, "GET", "/api/v1/runs/run-1/events", headers)
        chunks = answer.chunks()
        assert b"retry" in await anext(chunks)
        client.keep_only({"http://another:1"})
        with pytest.raises(PeerAway, match="does not answer"):
            async for _ in chunks:
                pass
        assert not client._busy

    asyncio.run(ask())


def test_who_does_not_know_the_token_is_sent_nothing(access: Access) -> None:
    async def ask() -> None:
        client = PeerClient(lambda: "another-token")
        with pytest.raises(PeerAway, match="has not proven that it is one of ours"):
            await client.ask(access.url, "GET", "/api/v1/runs", {})
        assert not client._busy

    asyncio.run(ask())


def test_a_server_that_died_is_not_replaced_by_who_passes_challenges_on(
    access: Access, tmp_path: Path, free_port: int
) -> None:
    """All servers of a database have the same token, so one that lives proves for itself only."""

    async def ask() -> None:
        client = PeerClient(lambda: access.owner)
        headers = {"authorization": f"Bearer {access.owner}"}
        with pytest.raises(PeerAway, match="has not proven that it is one of ours"):
            await client.ask(f"http://127.0.0.1:{free_port}", "GET", "/api/v1/runs", headers)

    with Impostor(tmp_path / "impostor", free_port) as impostor:
        impostor.listens()
        impostor.relay(access.url)
        asyncio.run(ask())
        assert impostor.challenges == 1
        assert access.owner not in impostor.heard


def test_who_is_not_there_or_says_nothing_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "ANSWER_S", 0.2)

    async def ask(port: int) -> None:
        client = PeerClient(lambda: "token")
        with pytest.raises(
            PeerAway, match=rf"the server at http://127.0.0.1:{port}, which has this run, does not"
        ):
            await client.ask(f"http://127.0.0.1:{port}", "GET", "/api/v1/runs", {})
        assert not client._busy

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        asyncio.run(ask(silent.getsockname()[1]))
        silent.listen()  # it takes the connection, as that of a stopped process does
        asyncio.run(ask(silent.getsockname()[1]))
