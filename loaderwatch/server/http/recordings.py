"""The routes of recordings: ``loaderwatch import`` sends a run in parts, and a run can be had as a file."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from loaderwatch.core.answers import Fingerprint
from loaderwatch.server.encoding import body_of, error_answer, json_answer, too_large
from loaderwatch.server.recordings.export import DEFAULT_LAST_S, CannotExport, export
from loaderwatch.server.recordings.incoming_runs import MOST_BYTES, OutOfTurn, TooManyArrive
from loaderwatch.server.recordings.outgoing_run import StillReports, of_store
from loaderwatch.server.recordings.recording import SUFFIX, pack
from loaderwatch.server.services import Parts
from loaderwatch.server.store.protocol import RunExists

MOST_LAST_S = 3600.0
"""The longest recording of a run's newest part, since packing takes a core for a while."""

recording_router = APIRouter(prefix="/api/v1/runs")


@recording_router.get("/{run}/recording")
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


router = APIRouter(prefix="/api/v1/runs")


@router.get("/{run}/fingerprint")
def fingerprint(request: Request, run: str) -> Response:
    """Return what is the same for two runs with the same rows and events. All of the run is read."""
    parts: Parts = request.app.state.parts
    try:
        moved = of_store(parts.store, run)
    except StillReports as error:
        return error_answer(409, str(error), "run")
    return json_answer(Fingerprint(fingerprint=moved.fingerprint()))


@router.post("/{run}/import")
async def bring(
    request: Request, run: str, number: Annotated[int, Query(ge=0)], last: bool = False
) -> Response:
    """Take in a part of a run, or with ``last`` what is known of it besides."""
    parts: Parts = request.app.state.parts
    try:
        body = await body_of(request, MOST_BYTES)
    except ClientDisconnect:
        return error_answer(400, "the request ended early", "(body)")
    if body is None:
        return too_large(MOST_BYTES)
    try:
        if run in parts.live:
            raise RunExists(run)
        await parts.arrivals.take(run, number, body, last=last)
    except (RunExists, OutOfTurn) as error:
        return error_answer(409, str(error), "run" if isinstance(error, RunExists) else "number")
    except TooManyArrive as error:
        answer = error_answer(429, str(error))
        answer.headers["retry-after"] = "10"
        return answer
    return json_answer({"number": number})
