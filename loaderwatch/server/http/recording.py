"""The route ``GET /api/v1/runs/{run}/recording``: the newest part of a run as a file."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from loaderwatch.server.encoding import error_answer
from loaderwatch.server.recordings.export import DEFAULT_LAST_S, CannotExport, export
from loaderwatch.server.recordings.recording import SUFFIX, pack
from loaderwatch.server.services import Parts

MOST_LAST_S = 3600.0
"""The longest recording of a run's newest part, since packing takes a core for a while."""

router = APIRouter(prefix="/api/v1/runs")


@router.get("/{run}/recording")
def recording(
    request: Request,
    run: str,
    last: Annotated[float, Query(gt=0, le=MOST_LAST_S)] = DEFAULT_LAST_S,
    whole: bool = False,
) -> Response:
    """Return a recording of the last ``last`` seconds, or of the ``whole`` run."""
    parts: Parts = request.app.state.parts
    try:
        recorded = export(parts.store, run, None if whole else last, parts.options.hang_after_s)
    except CannotExport as error:
        return error_answer(409, str(error), "whole")
    packed = pack(recorded)
    headers = {"content-disposition": f'attachment; filename="{run}{SUFFIX}"'}
    return Response(packed, media_type="application/octet-stream", headers=headers)
