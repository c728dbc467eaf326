"""The route ``POST /api/v1/ingest``: envelopes in, receipts out. Every host of every run calls it about twice a second, so it is a plain
route of Starlette's: what FastAPI does for parameters would take longer than all else in it."""

from __future__ import annotations

from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from loaderwatch.core import wire
from loaderwatch.core.errors import WireError
from loaderwatch.core.wire import MAX_ENVELOPE_BYTES, Receipt
from loaderwatch.server.access.rate_limits import TooMany
from loaderwatch.server.encoding import error_answer, json_answer
from loaderwatch.server.ingest import Busy, IngestCounts
from loaderwatch.server.live.commands import envelope_s
from loaderwatch.server.parts import Parts

MAX_CONCURRENT: Final = 2048
"""How many requests are read or stored at once: one of each host of a large run while a commit lasts. What they hold is bounded by
MAX_READING_BYTES, and in ``server.ingest``."""
MAX_READING_BYTES: Final = 128 * 2**20


async def ingest(request: Request) -> Response:
    """Store one envelope, or several of one stream; the answer says what its sender should do next."""
    parts: Parts = request.app.state.parts
    counts = parts.ingest_counts
    if counts.open >= MAX_CONCURRENT:
        counts.busy += 1
        answer = error_answer(429, f"{counts.open} envelopes are being taken in; try again in 1 s")
        answer.headers["retry-after"] = "1"
        return answer
    counts.open += 1
    try:
        return await _store(request, parts, counts)
    finally:
        counts.open -= 1


async def _store(request: Request, parts: Parts, counts: IngestCounts) -> Response:
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        # A few KiB could unpack to gigabytes, and the columns of large envelopes hardly shrink.
        return error_answer(415, f"send the envelope as it is, not as {encoding[:40]!r}", "content-encoding")
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > MAX_ENVELOPE_BYTES:
        return _too_large(counts)
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            counts.reading_bytes += len(chunk)
            if len(body) > MAX_ENVELOPE_BYTES:
                return _too_large(counts)
            if counts.reading_bytes > MAX_READING_BYTES:
                raise Busy(counts.reading_bytes, 1.0)
        payloads = wire.split(bytes(body))
        if (
            parts.peers is not None
            and (owner := parts.peers.owner(wire.run_of(payloads[0]) or "")) is not None
        ):
            return await parts.peers.whole(request.scope, owner, bytes(body))
        envelope, stored_seq = await parts.ingest.submit(payloads)
    except ClientDisconnect:
        return Response(status_code=400)  # the client is gone and does not read this
    except WireError:
        counts.rejected += 1
        raise
    except (Busy, TooMany):
        counts.busy += 1
        raise
    finally:
        counts.reading_bytes -= len(body)
    counts.accepted += len(payloads)
    counts.bytes += len(body)
    # The first of several envelopes counts, because it comes again when this answer is lost.
    live = parts.live.get(envelope.run_id)
    if live is None:
        return json_answer(Receipt(stored_seq=stored_seq))
    host = envelope.host.name
    requests, notices = live.receipt(host, envelope.stream, envelope.seq)
    return json_answer(
        Receipt(
            stored_seq=stored_seq,
            stack_requests=requests,
            notices=notices,
            notifies=live.notifies,
            closing=live.closing_for(host),
            envelope_s=envelope_s(0 if live.summary is None else live.summary.world_size, stands=live.stands),
        )
    )


def _too_large(counts: IngestCounts) -> Response:
    counts.too_large += 1
    answer = error_answer(413, f"an envelope may have {MAX_ENVELOPE_BYTES} bytes at most", "(body)")
    answer.headers["connection"] = "close"  # the rest of the body is not read
    return answer
