"""``GET /api/v1/identity``: shows whoever is about to send a token that this server knows it. Needs none itself."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from loaderwatch.core.trust import CHALLENGE_PATTERN, IDENTITY_PATH, proofs
from loaderwatch.server.parts import Parts

router = APIRouter()


@router.get(IDENTITY_PATH)
async def identity(request: Request, challenge: Annotated[str, Query(pattern=CHALLENGE_PATTERN)]) -> Response:
    """The challenge's HMAC under each token that this server knows."""
    parts: Parts = request.app.state.parts
    known = parts.keys.tokens.all() if parts.keys.tokens else ()
    return Response(msgspec.json.encode(proofs(known, challenge)), media_type="application/json")
