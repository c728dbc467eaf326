"""What leaves the server compressed."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib

import pytest
from starlette.types import Message, Receive, Scope, Send

from loaderwatch.server.compression import Compression

BIG = json.dumps({"values": [0.5] * 20_000}).encode()


def answered(
    bodies: list[bytes], kind: bytes, accepts: bytes = b"gzip, br", more: tuple[tuple[bytes, bytes], ...] = ()
) -> tuple[dict[str, str], list[bytes]]:
    """Headers and parts of an answer, as the client gets them."""
    got: list[Message] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        length = str(sum(map(len, bodies))).encode()
        headers = [(b"content-type", kind), (b"content-length", length), *more]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for at, body in enumerate(bodies):
            await send({"type": "http.response.body", "body": body, "more_body": at < len(bodies) - 1})

    async def send(message: Message) -> None:
        got.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    scope = {"type": "http", "headers": [(b"accept-encoding", accepts)]}
    asyncio.run(Compression(app)(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in got[0]["headers"]}
    return headers, [message["body"] for message in got[1:]]


def test_json_is_packed() -> None:
    headers, (body,) = answered([BIG], b"application/json")
    assert gzip.decompress(body) == BIG
    assert headers["content-encoding"] == "gzip"
    assert int(headers["content-length"]) == len(body) < len(BIG) / 20
    assert headers["vary"] == "accept-encoding"


@pytest.mark.parametrize(
    ("body", "kind", "accepts"),
    [
        (b'{"a": 1}', b"application/json", b"gzip"),  # short
        (BIG, b"application/json", b"identity"),
        (BIG, b"application/octet-stream", b"gzip"),
        (BIG, b"text/html; charset=utf-8", b"gzip"),
    ],
)
def test_everything_else_leaves_as_it_is(body: bytes, kind: bytes, accepts: bytes) -> None:
    headers, parts = answered([body], kind, accepts)
    assert parts == [body]
    assert "content-encoding" not in headers
    assert int(headers["content-length"]) == len(body)


def test_what_is_packed_already_is_not_packed_again() -> None:
    packed = gzip.compress(BIG)
    _, parts = answered([packed], b"application/json", more=((b"content-encoding", b"gzip"),))
    assert parts == [packed]


def test_an_answer_in_parts_stays_one() -> None:
    _, parts = answered([BIG, BIG], b"application/json")
    assert parts == [BIG, BIG]


def test_each_event_can_be_read_as_it_comes_and_later_ones_are_short() -> None:
    events = [
        b'event: tick\ndata: {"step": %d, "verdict": "%s"}\n\n' % (n, b"a long sentence " * 20)
        for n in range(5)
    ]
    headers, parts = answered(events, b"text/event-stream")
    assert headers["content-encoding"] == "gzip"
    unpack = zlib.decompressobj(31)
    for event, part in zip(events, parts, strict=True):
        assert unpack.decompress(part) == event
    assert len(parts[1]) < len(events[1]) / 5
    assert unpack.eof
