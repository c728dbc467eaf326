"""The routes that acknowledge and silence alerts."""

from __future__ import annotations

import time
from collections.abc import Callable

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from loaderwatch.server.alerts.alert_book import MAX_SILENCE_S, Alert, AlertBook, run_of
from loaderwatch.server.encoding import json_answer
from loaderwatch.server.queries import live_answers
from loaderwatch.server.queries.parameters import finite_number, json_body
from loaderwatch.server.services import Parts

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


async def _change(parts: Parts, id: str, action: Callable[[AlertBook], Alert]) -> Response:
    alert = await run_in_threadpool(live_answers.change_alert, parts, id, action)
    run_id = run_of(id)
    await parts.live.refresh(run_id)
    if parts.hub.is_followed(run_id):
        parts.hub.publish(run_id, await live_answers.run_state(parts, run_id))
    return json_answer(alert)
