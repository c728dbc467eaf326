"""The route ``GET /api/v1/compare``: what changed from one run to another."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from loaderwatch.advise.comparison.compare import comparison
from loaderwatch.server.encoding import json_answer
from loaderwatch.server.recordings.run_measures import observed
from loaderwatch.server.services import Parts

router = APIRouter(prefix="/api/v1")


@router.get("/compare")
def compare(request: Request, a: str, b: str) -> Response:
    """Return what changed from run ``a`` to run ``b``."""
    parts: Parts = request.app.state.parts
    return json_answer(comparison(observed(parts.store, a), observed(parts.store, b)))
