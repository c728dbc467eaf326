"""The route ``GET /api/v1/runs/{run}/recording``, which gives the newest part of a run as a file."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from loaderwatch.server.parts import Parts
from loaderwatch.server.recordings.export import DEFAULT_LAST_S, export
from loaderwatch.server.recordings.recording import SUFFIX, pack

MOST_LAST_S = 3600.0
"""The longest recording; longer ones are made from the file of an ended run, since packing takes a core for a while."""

router = APIRouter(prefix="/api/v1/runs")


@router.get("/{run}/recording")
def recording(
    request: Request, run: str, last: Annotated[float, Query(gt=0, le=MOST_LAST_S)] = DEFAULT_LAST_S
) -> Response:
    """Return a recording of the last ``last`` seconds."""
    parts: Parts = request.app.state.parts
    packed = pack(export(parts.store, run, last, parts.options.hang_after_s))
    headers = {"content-disposition": f'attachment; filename="{run}{SUFFIX}"'}
    return Response(packed, media_type="application/octet-stream", headers=headers)
