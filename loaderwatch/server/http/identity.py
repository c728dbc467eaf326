"""The routes by which this server proves to senders and to the page that it knows a token. They need none."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from loaderwatch.core.server_trust import CHALLENGE_PATTERN, IDENTITY_PATH, proofs, secret_at
from loaderwatch.server.access.page_sessions import SESSION_PATH, TICKET_PATTERN
from loaderwatch.server.encoding import json_answer
from loaderwatch.server.services import Parts

router = APIRouter()


@router.get(IDENTITY_PATH)
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


@router.get(SESSION_PATH)
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
