"""The routes that acknowledge and silence alerts, and those of live events and Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from loaderwatch.server.access.request_gate import ACCESS_KEY
from loaderwatch.server.access.tokens import Access
from loaderwatch.server.alerts.book import MAX_SILENCE_S, Alert, AlertBook, run_of
from loaderwatch.server.encoding import json_answer, reader_language
from loaderwatch.server.http import prometheus as metrics
from loaderwatch.server.parts import Parts
from loaderwatch.server.queries import live_answers
from loaderwatch.server.queries.parameters import finite_number, json_body

router = APIRouter()


@router.post("/api/v1/alerts/{id}/ack")
async def acknowledge(request: Request, id: str) -> Response:
    """Acknowledge an alert: somebody works on it."""
    parts: Parts = request.app.state.parts

    def action(book: AlertBook) -> Alert:
        return book.acknowledge(id, time.time_ns())

    return await _change(parts, id, action)


@router.post("/api/v1/alerts/{id}/silence")
async def silence(request: Request, id: str) -> Response:
    """Silence the cause of an alert for a while."""
    parts: Parts = request.app.state.parts
    seconds = finite_number(await json_body(request), "seconds", 1, MAX_SILENCE_S)

    def action(book: AlertBook) -> Alert:
        return book.silence(id, seconds, time.time_ns())

    return await _change(parts, id, action)


@router.get("/api/v1/runs/{run}/events")
async def events(request: Request, run: str, changes: bool = False) -> Response:
    """Stream a run's server-sent events: a snapshot, then whole summaries, or with ``changes`` what is new in them."""
    parts: Parts = request.app.state.parts
    parts.hub.publish(run, await live_answers.run_state(parts, run))
    may_change = Access.CHANGE in request.scope[ACCESS_KEY]
    last_id, language = request.headers.get("last-event-id"), reader_language.get()
    return StreamingResponse(
        parts.hub.stream(run, last_id, may_change=may_change, changes=changes, language=language),
        media_type="text/event-stream",
        headers={"x-accel-buffering": "no"},
    )


@router.get("/metrics")
def prometheus(request: Request) -> Response:
    """Return the metrics as Prometheus text."""
    parts: Parts = request.app.state.parts
    return Response(metrics.text(parts), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _change(parts: Parts, id: str, action: Callable[[AlertBook], Alert]) -> Response:
    alert = await run_in_threadpool(live_answers.change_alert, parts, id, action)
    run_id = run_of(id)
    await parts.live.refresh(run_id)
    if parts.hub.is_followed(run_id):
        parts.hub.publish(run_id, await live_answers.run_state(parts, run_id))
    return json_answer(alert)
