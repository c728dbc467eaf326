"""Envelopes sent together to the owner of their run: each sender gets its own answer, whatever others get."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import httpx
import msgspec
import pytest
from starlette.responses import Response

from loaderwatch.core.errors import WireError
from loaderwatch.core.wire import encode, join
from loaderwatch.server.access.forwarded import Forwarded, headers_of
from loaderwatch.server.access.tokens import Access as Right
from loaderwatch.server.access.tokens import Tokens
from loaderwatch.server.peers.bundles import BUNDLE_PATH, MOST_BODIES, Answer, Bundles, split_bundle
from loaderwatch.server.peers.client import PeerAway, PeerClient
from loaderwatch.server.store.clickhouse.server_heartbeats import Server
from tests.fakes.feed import Feed
from tests.fakes.serving import Access, serving, wait_until

T = TypeVar("T")


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    with serving(tmp_path_factory.mktemp("server")) as access:
        yield access


class Road:
    """The way to a real server, which counts the bundles on it."""

    def __init__(self, access: Access) -> None:
        tokens = Tokens(access.agent, access.viewer, access.owner)
        self.owner = Server("owner", access.url)
        self.headers = headers_of(Forwarded(Right.INGEST, ""), tokens)
        self.client = PeerClient(lambda: tokens.page_token)
        self.sizes: list[int] = []

    async def send(self, owner: Server, bundle: bytes) -> bytes:
        self.sizes.append(len(split_bundle(bundle)))
        answer = await self.client.ask(owner.url, "POST", BUNDLE_PATH, self.headers, bundle)
        body = await answer.read()
        assert answer.status == 200, body
        return body

    def play(self, action: Callable[[Bundles], Awaitable[T]]) -> T:
        """Do something with bundles that go this way, and hang up."""

        async def whole() -> T:
            try:
                return await action(Bundles(self.send))
            finally:
                self.client.keep_only(())
                await asyncio.sleep(0)

        return asyncio.run(whole())


def _hosts(run_id: str, count: int) -> list[Feed]:
    return [Feed(run_id, host=f"gpu{rank:03d}", rank=rank, world_size=count) for rank in range(count)]


def test_many_senders_share_a_few_requests_and_each_gets_its_receipt(access: Access) -> None:
    road = Road(access)
    hosts = _hosts("many", 40)

    async def send(bundles: Bundles) -> list[list[Response]]:
        turns = [
            await asyncio.gather(*(bundles.pass_on(road.owner, encode(host.envelope())) for host in hosts))
            for _ in range(3)
        ]
        assert not bundles._lanes
        return turns

    for seq, answers in enumerate(road.play(send), 1):
        assert [answer.status_code for answer in answers] == [200] * 40
        assert [json.loads(bytes(answer.body))["stored_seq"] for answer in answers] == [seq] * 40
    assert sum(road.sizes) == 120
    assert len(road.sizes) == 6, "the first of each turn goes at once, all that come meanwhile go together"
    wait_until(
        "all steps are there",
        lambda: [row["step"] for row in access.get("/runs/many/ranks")["rows"]] == [15] * 40,
    )


def test_what_is_wrong_with_one_is_told_to_its_sender_alone(access: Access) -> None:
    road = Road(access)
    feed, other = Feed("mixed"), Feed("another")
    bodies = [
        encode(feed.envelope()),
        b"\x81\xa3no",
        join([encode(other.envelope()), encode(other.envelope())]),
        b"",
    ]

    async def send(bundles: Bundles) -> list[Response]:
        return await asyncio.gather(*(bundles.pass_on(road.owner, body) for body in bodies))

    answers = road.play(send)
    assert [answer.status_code for answer in answers] == [200, 400, 200, 400]
    assert [json.loads(bytes(answers[n].body))["stored_seq"] for n in (0, 2)] == [1, 2]
    assert json.loads(bytes(answers[1].body))["field"] == "(body)"


def test_the_others_go_on_when_a_sender_hangs_up(access: Access) -> None:
    road = Road(access)
    hosts = _hosts("hung-up", 3)

    async def send(bundles: Bundles) -> list[Response | BaseException]:
        senders = [
            asyncio.create_task(bundles.pass_on(road.owner, encode(host.envelope()))) for host in hosts
        ]
        await asyncio.sleep(0)
        senders[1].cancel()
        return await asyncio.gather(*senders, return_exceptions=True)

    first, gone, last = road.play(send)
    assert isinstance(first, Response)
    assert isinstance(last, Response)
    assert (first.status_code, last.status_code) == (200, 200)
    assert isinstance(gone, asyncio.CancelledError)


def _answers_when(owner_says: bytes | Exception) -> list[Response]:
    async def send(_owner: Server, _bundle: bytes) -> bytes:
        if isinstance(owner_says, Exception):
            raise owner_says
        return owner_says

    async def play() -> list[Response]:
        bundles = Bundles(send)
        return await asyncio.gather(*(bundles.pass_on(Server("a", "http://a:1"), b"x") for _ in range(3)))

    return asyncio.run(play())


@pytest.mark.parametrize(
    ("owner_says", "why"),
    [
        (PeerAway("the server at http://a:1 does not answer"), "does not answer"),
        (b"<html>", "did not answer to a bundle of envelopes"),
        (msgspec.msgpack.encode([[200, b"{}", ""]] * 5), "gave 5 answers to"),
    ],
)
def test_senders_come_again_when_the_owner_does_not_answer(owner_says: bytes | Exception, why: str) -> None:
    for answer in _answers_when(owner_says):
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert why in json.loads(bytes(answer.body))["error"]


def test_a_bundle_does_not_grow_without_end() -> None:
    sizes: list[int] = []

    async def play() -> None:
        async def send(_owner: Server, bundle: bytes) -> bytes:
            sizes.append(len(split_bundle(bundle)))
            await asyncio.sleep(0.01)
            return msgspec.msgpack.encode([Answer(200, b"{}")] * sizes[-1])

        bundles = Bundles(send)
        owner = Server("a", "http://a:1")
        await asyncio.gather(*(bundles.pass_on(owner, b"x") for _ in range(1 + 2 * MOST_BODIES)))
        await asyncio.gather(*(bundles.pass_on(owner, bytes(3 * 2**20)) for _ in range(4)))

    asyncio.run(play())
    assert sizes == [1, MOST_BODIES, MOST_BODIES, 1, 2, 1]


def test_only_servers_send_bundles(access: Access) -> None:
    with access.client() as client:
        answer = client.post(BUNDLE_PATH, content=msgspec.msgpack.encode([encode(Feed().envelope())]))
    assert (answer.status_code, answer.json()["error"]) == (
        404,
        "only servers of one database send bundles to each other",
    )
    with access.client(access.agent) as client:
        assert client.post(BUNDLE_PATH, content=b"x").status_code == 403


def test_what_is_no_bundle_is_refused(access: Access) -> None:
    with pytest.raises(WireError, match="not a bundle of envelopes"):
        split_bundle(b"\x81\xa3no")
    answer = httpx.post(access.url + BUNDLE_PATH, headers=Road(access).headers, content=b"\x81\xa3no")
    assert (answer.status_code, answer.json()["field"]) == (400, "(body)")
