"""Envelopes for another server's runs: those that arrive within a moment are sent to it together.

A request costs a server twice as much as storing its envelope. With bundles the owner of a large run takes
only a few requests a second from each other server, whatever the number of hosts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from starlette.responses import Response

from loaderwatch.core.errors import LoaderwatchError, WireError
from loaderwatch.core.wire import MAX_ENVELOPE_BYTES, UNDECODABLE
from loaderwatch.server.encoding import error_answer
from loaderwatch.server.store.clickhouse.server_heartbeats import Server

BUNDLE_PATH: Final = "/api/v1/ingest/bundle"
GATHER_S: Final = 0.1
"""How long bodies are gathered while an earlier bundle is in progress. In a run that needs bundles, a commit
takes longer. A body that comes alone is sent at once."""
MOST_BODIES: Final = 256
FULL_BYTES: Final = 4 * 2**20
MAX_BUNDLE_BYTES: Final = FULL_BYTES + MAX_ENVELOPE_BYTES + 2**16
"""A bundle that is not yet full takes one more body of any size."""


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """The answer to one body of a bundle, for the body's sender."""

    status: int
    body: bytes
    retry_after: str = ""

    @classmethod
    def of(cls, response: Response) -> Answer:
        """Return the content of a response."""
        return cls(response.status_code, bytes(response.body), response.headers.get("retry-after", ""))

    def response(self) -> Response:
        """Return the response for the sender."""
        headers = {"retry-after": self.retry_after} if self.retry_after else None
        return Response(self.body, self.status, headers, media_type="application/json")


_encode: Final = msgspec.msgpack.Encoder().encode
_bodies: Final = msgspec.msgpack.Decoder(list[bytes])
_answers: Final = msgspec.msgpack.Decoder(list[Answer])


def split_bundle(bundle: bytes) -> list[bytes]:
    """Return the bodies in a bundle.

    Raises:
        WireError: the bytes are not a bundle.
    """
    try:
        return _bodies.decode(bundle)
    except UNDECODABLE as error:
        raise WireError("(body)", f"not a bundle of envelopes: {error}") from None


def join_answers(answers: Sequence[Answer]) -> bytes:
    """Return the body of the answer to a bundle."""
    return _encode(answers)


def again_soon(why: str) -> Response:
    """Answer that the same request will succeed in a moment."""
    answer = error_answer(503, why)
    answer.headers["retry-after"] = "1"
    return answer


@dataclass(slots=True)
class _Lane:
    """The bodies on their way to one server."""

    bodies: list[bytes] = field(default_factory=list)
    senders: list[asyncio.Future[Answer]] = field(default_factory=list)
    bytes: int = 0
    under_way: int = 0
    timer: asyncio.TimerHandle | None = None


class Bundles:
    """Passes request bodies on in bundles. Use it on the event loop only."""

    def __init__(self, send: Callable[[Server, bytes], Awaitable[bytes]]) -> None:
        """``send`` posts a bundle to a server and returns its answer, or raises a ``LoaderwatchError``."""
        self._send = send
        self._lanes: dict[Server, _Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def pass_on(self, owner: Server, body: bytes) -> Response:
        """Return the owner's answer to one body; 503 if the owner does not answer."""
        lane = self._lanes.setdefault(owner, _Lane())
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer] = loop.create_future()
        lane.bodies.append(body)
        lane.senders.append(answered)
        lane.bytes += len(body)
        if not lane.under_way or len(lane.bodies) >= MOST_BODIES or lane.bytes >= FULL_BYTES:
            self._depart(owner, lane)
        elif lane.timer is None:
            lane.timer = loop.call_later(GATHER_S, self._depart, owner, lane)
        return (await answered).response()

    def _depart(self, owner: Server, lane: _Lane) -> None:
        if lane.timer is not None:
            lane.timer.cancel()
            lane.timer = None
        bodies, lane.bodies = lane.bodies, []
        senders, lane.senders = lane.senders, []
        lane.bytes = 0
        lane.under_way += 1
        task = asyncio.create_task(self._carry(owner, lane, bodies, senders), name="loaderwatch-bundle")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(
        self, owner: Server, lane: _Lane, bodies: list[bytes], senders: list[asyncio.Future[Answer]]
    ) -> None:
        why = "this server is stopping; send it again later"
        answers: list[Answer] = []
        try:
            decoded = _answers.decode(await self._send(owner, _encode(bodies)))
            if len(decoded) == len(bodies):
                answers = decoded
            else:
                why = (
                    f"the server at {owner.url} gave {len(decoded)} answers to {len(bodies)} requests;"
                    " try again"
                )
        except UNDECODABLE as error:
            why = f"the server at {owner.url} did not answer to a bundle of envelopes: {error}; try again"
        except LoaderwatchError as error:
            why = str(error)
        finally:
            lane.under_way -= 1
            if not lane.under_way and not lane.bodies:
                self._lanes.pop(owner, None)
            for number, sender in enumerate(senders):
                if not sender.done():  # it has not hung up
                    sender.set_result(answers[number] if answers else Answer.of(again_soon(why)))
