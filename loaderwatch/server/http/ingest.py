"""The route ``POST /api/v1/ingest``: envelopes in, receipts out.

Every host of every run calls it about twice a second. So it is a plain Starlette route: FastAPI's work on
parameters would take longer than the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from loaderwatch.core import wire
from loaderwatch.core.errors import LoaderwatchError, WireError
from loaderwatch.core.wire import MAX_ENVELOPE_BYTES, Receipt
from loaderwatch.server.access.forwarded import FORWARDED_KEY
from loaderwatch.server.access.rate_limits import TooMany
from loaderwatch.server.encoding import error_answer, json_answer, reader_language
from loaderwatch.server.http.errors import answer_to
from loaderwatch.server.ingest import Busy, IngestCounts
from loaderwatch.server.peers.bundles import MAX_BUNDLE_BYTES, Answer, join_answers, split_bundle
from loaderwatch.server.services import Parts

_log: Final = logging.getLogger(__name__)

MAX_CONCURRENT: Final = 2048
"""Requests read or stored at once: one per host of a large run during a commit. MAX_READING_BYTES and
``server.ingest`` limit their memory."""
MAX_READING_BYTES: Final = 128 * 2**20


async def ingest(request: Request) -> Response:
    """Store one envelope, or several of one stream; the answer says what its sender should do next."""

    async def taken(body: bytes) -> Response:
        return await _taken(request, body)

    return await _read(request, MAX_ENVELOPE_BYTES, taken)


async def ingest_bundle(request: Request) -> Response:
    """Do so with each of several bodies that came to another server; the answer has one for each."""
    if not request.scope.get(FORWARDED_KEY):
        return error_answer(404, "only servers of one database send bundles to each other", "path")

    async def taken(bundle: bytes) -> Response:
        answers = await asyncio.gather(
            *(_answer(request, body) for body in split_bundle(bundle)), return_exceptions=True
        )
        return Response(join_answers([_said(answer) for answer in answers]), media_type="application/msgpack")

    return await _read(request, MAX_BUNDLE_BYTES, taken)


async def _read(request: Request, most: int, taken: Callable[[bytes], Awaitable[Response]]) -> Response:
    """Read the body of a request and pass it on, if there is room for one more."""
    counts = _parts(request).ingest_counts
    if counts.open >= MAX_CONCURRENT:
        counts.busy += 1
        answer = error_answer(429, f"{counts.open} envelopes are being taken in; try again in 1 s")
        answer.headers["retry-after"] = "1"
        return answer
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        # A few KiB could unpack to gigabytes, and compression hardly shrinks the columns of large envelopes.
        return error_answer(415, f"send the envelope as it is, not as {encoding[:40]!r}", "content-encoding")
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > most:
        return _too_large(counts, most)
    body = bytearray()
    counts.open += 1
    try:
        async for chunk in request.stream():
            body += chunk
            counts.reading_bytes += len(chunk)
            if len(body) > most:
                return _too_large(counts, most)
            if counts.reading_bytes > MAX_READING_BYTES:
                counts.busy += 1
                return answer_to(Busy(counts.reading_bytes, 1.0))
        return await taken(bytes(body))
    except ClientDisconnect:
        return Response(status_code=400)  # the client is gone and will not read this
    finally:
        counts.open -= 1
        counts.reading_bytes -= len(body)


async def _taken(request: Request, body: bytes) -> Response:
    """Store the envelopes in a request's body, or pass them to the run's owner."""
    parts = _parts(request)
    counts, peers = parts.ingest_counts, parts.peers
    try:
        payloads = wire.split(body)
        if peers is not None and (owner := peers.owner(wire.run_of(payloads[0]) or "")) is not None:
            return await peers.pass_on(request.scope, owner, body)
        envelope, stored_seq = await parts.ingest.submit(payloads)
    except LoaderwatchError as error:
        counts.rejected += isinstance(error, WireError)
        counts.busy += isinstance(error, (Busy, TooMany))
        return answer_to(error)
    counts.accepted += len(payloads)
    counts.bytes += len(body)
    # The first of several envelopes counts, because it is sent again if this answer is lost.
    live = parts.live.get(envelope.run_id)
    if live is None:
        return json_answer(Receipt(stored_seq=stored_seq))
    return json_answer(live.receipt(envelope, stored_seq, reader_language.get()))


async def _answer(request: Request, body: bytes) -> Answer:
    return Answer.of(await _taken(request, body))


def _said(answer: Answer | BaseException) -> Answer:
    """Return an answer; a fault concerns only one body, and the others have their own answers."""
    if isinstance(answer, Answer):
        return answer
    if not isinstance(answer, Exception):
        raise answer
    _log.error("an envelope that was passed on failed", exc_info=answer)
    return Answer.of(
        error_answer(500, f"a fault of the server ({type(answer).__name__}); its log has the details")
    )


def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


def _too_large(counts: IngestCounts, most: int) -> Response:
    counts.too_large += 1
    answer = error_answer(413, f"an envelope may have {most} bytes at most", "(body)")
    answer.headers["connection"] = "close"  # the rest of the body is not read
    return answer
