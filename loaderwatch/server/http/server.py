"""The routes about the server itself: which one it is, the proof of its identity, and its end."""

from __future__ import annotations

import os
import time
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from loaderwatch.core.answers import ServerFacts
from loaderwatch.core.server_trust import CHALLENGE_PATTERN, IDENTITY_PATH, proofs, secret_at
from loaderwatch.core.wire import UNDECODABLE, decode_json
from loaderwatch.server.access.page_sessions import SESSION_PATH, TICKET_PATTERN
from loaderwatch.server.access.tokens import Access
from loaderwatch.server.encoding import error_answer, json_answer
from loaderwatch.server.idle_shutdown import SERVER_PATH
from loaderwatch.server.services import Parts
from loaderwatch.server.store.protocol import UnknownRun

identity_router = APIRouter()


@identity_router.get(IDENTITY_PATH)
async def identity(request: Request, challenge: Annotated[str, Query(pattern=CHALLENGE_PATTERN)]) -> Response:
    """Return the challenge's HMAC under all that tells this server from others: tokens, its own key, and its
    address."""
    parts: Parts = request.app.state.parts
    secrets = [parts.keys.server_key]
    if parts.keys.tokens:
        secrets += parts.keys.tokens.all()
        secrets.append(secret_at(parts.keys.tokens.page_token, parts.reached_at))
    answer = proofs(secrets, challenge)
    return Response(msgspec.json.encode(answer), media_type="application/json")


@identity_router.get(SESSION_PATH)
async def session(
    request: Request,
    challenge: Annotated[str, Query(pattern=CHALLENGE_PATTERN)],
    ticket: Annotated[str | None, Query(pattern=TICKET_PATTERN)] = None,
) -> Response:
    """Begin a session of the page, or go on with the one of ``ticket``; the proofs are made of the token and
    the ticket."""
    parts: Parts = request.app.state.parts
    return json_answer(
        parts.sessions.greet(parts.keys.tokens, challenge, ticket, request.headers.get("host", ""))
    )


router = APIRouter(prefix=SERVER_PATH)


class _Asked(msgspec.Struct):
    force: bool = False


@router.get("")
async def which(request: Request) -> Response:
    """Return which server this is, and until when it stays."""
    return json_answer(_facts(request.app.state.parts))


@router.post("/stop")
async def stop(request: Request) -> Response:
    """End the server. Only its owner may do this, even with --no-auth, which allows everyone everything
    else."""
    parts: Parts = request.app.state.parts
    if parts.options.no_auth and not is_owner(request, parts):
        return error_answer(401, "stopping the server takes the owner's token", "authorization")
    try:
        asked = decode_json(await request.body() or b"{}", _Asked)
    except UNDECODABLE:
        return error_answer(400, 'the body is {"force": true}, or none', "force")
    facts = _facts(parts)
    if facts.reporting and not asked.force:
        return error_answer(409, f"{', '.join(facts.reporting)} is reporting", "force")
    if parts.lifetime.end is None:
        return error_answer(409, "this server is a part of another program", "(body)")
    parts.lifetime.end()
    return json_answer(facts)


def is_owner(request: Request, parts: Parts) -> bool:
    """Whether a request carries the owner's token, which --no-auth does not require."""
    token = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    return parts.keys.tokens is not None and Access.CHANGE in parts.keys.tokens.access(token)


def _facts(parts: Parts) -> ServerFacts:
    left_s = parts.lifetime.left_s()
    return ServerFacts(
        url=parts.url,
        pid=os.getpid(),
        data_dir=str(parts.options.data_dir),
        started_by=parts.options.started_by,
        started_at=parts.lifetime.started_at,
        idle_hours=parts.options.idle_hours,
        leaves_at=None if left_s is None else time.time() + left_s,
        reporting=_reporting(parts),
    )


def _reporting(parts: Parts) -> list[str]:
    """Return the names of the runs that send envelopes now."""
    names = []
    for live in parts.live.all():
        try:
            run = parts.store.run(live.run_id)
        except UnknownRun:
            continue
        if live.state_of(run) == "live":
            names.append(run.name)
    return sorted(names)
