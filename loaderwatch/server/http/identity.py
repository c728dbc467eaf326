"""The route ``GET /api/v1/identity``, which proves to a sender that this server knows its token. It needs no token."""

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
    """Return the challenge's HMAC under each token that this server knows."""
    parts: Parts = request.app.state.parts
    known = parts.keys.tokens.all() if parts.keys.tokens else ()
    return Response(msgspec.json.encode(proofs(known, challenge)), media_type="application/json")
