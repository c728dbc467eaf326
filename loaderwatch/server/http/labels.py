"""The routes by which people name, tag, pin and delete a run, and learn first what a deletion removes."""

from __future__ import annotations

import time
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from loaderwatch.core.answers import Contents, Labels
from loaderwatch.core.printable import one_line
from loaderwatch.server.access.request_gate import ACCESS_KEY
from loaderwatch.server.access.tokens import Access
from loaderwatch.server.encoding import error_answer, json_answer
from loaderwatch.server.http.server import is_owner
from loaderwatch.server.live.summary import state_now
from loaderwatch.server.queries import live_answers
from loaderwatch.server.queries.parameters import ParameterError, json_body, struct_of
from loaderwatch.server.services import Parts
from loaderwatch.server.store.protocol import StoredRun

MOST_NAME: Final = 200
MOST_TAGS: Final = 20
MOST_TAG: Final = 40
MOST_NOTE: Final = 4000  # characters, as above
_MOST_BODY: Final = 32_768  # bytes

router = APIRouter(prefix="/api/v1/runs")

_Tag = Annotated[str, msgspec.Meta(max_length=MOST_TAG)]


class _Wanted(msgspec.Struct, forbid_unknown_fields=True):
    """A change of labels; a missing field stays as it is."""

    name: Annotated[str, msgspec.Meta(max_length=MOST_NAME)] | msgspec.UnsetType = msgspec.UNSET
    tags: Annotated[list[_Tag], msgspec.Meta(max_length=MOST_TAGS)] | msgspec.UnsetType = msgspec.UNSET
    note: Annotated[str, msgspec.Meta(max_length=MOST_NOTE)] | msgspec.UnsetType = msgspec.UNSET
    pinned: bool | msgspec.UnsetType = msgspec.UNSET


class _Confirmed(msgspec.Struct):
    name: str = ""


@router.patch("/{run}")
async def label(request: Request, run: str) -> Response:
    """Name, tag, annotate or pin a run; fields that are left out stay as they are."""
    parts: Parts = request.app.state.parts
    wanted = struct_of(await json_body(request, _MOST_BODY), _Wanted)
    labels = await run_in_threadpool(_label, parts, run, wanted)
    await parts.live.refresh(run)
    if parts.hub.is_followed(run):
        parts.hub.publish(run, await live_answers.run_state(parts, run))
    return json_answer(labels)


def _label(parts: Parts, run_id: str, wanted: _Wanted) -> Labels:
    given = {
        name: value for name, value in msgspec.structs.asdict(wanted).items() if value is not msgspec.UNSET
    }
    if "name" in given:
        given["name"] = one_line(given["name"]).strip()
    if "tags" in given:
        given["tags"] = list(dict.fromkeys(tag for text in given["tags"] if (tag := one_line(text).strip())))
    labels = msgspec.structs.replace(parts.store.run(run_id).labels, **given)
    parts.store.label(run_id, labels)
    return labels


@router.get("/{run}/contents")
def contents(request: Request, run: str) -> Response:
    """Return what the run holds, and what this reader may do with it."""
    parts: Parts = request.app.state.parts
    stored = parts.store.run(run)
    live = parts.live.get(run)
    summary = None if live is None else live.summary
    owner = _may_delete(request, parts)
    return json_answer(
        Contents(
            run_id=run,
            name=stored.shown_name,
            bytes=stored.bytes,
            seconds=max(0.0, (stored.last_seen_ns - stored.started_ns) / 1e9),
            steps=stored.steps if summary is None else summary.steps,
            attempts=stored.attempt,
            alerts=len(parts.store.alerts(run)),
            reporting=_is_reporting(parts, stored),
            may_change=Access.CHANGE in request.scope[ACCESS_KEY],
            may_delete=owner,
        )
    )


@router.delete("/{run}")
async def delete(request: Request, run: str) -> Response:
    """Delete a run for good. Only the owner may, even with --no-auth, and says the run's name in the body."""
    parts: Parts = request.app.state.parts
    if not _may_delete(request, parts):
        return error_answer(401, "deleting a run takes the owner's token", "authorization")
    stored = await run_in_threadpool(parts.store.run, run)
    confirmed = struct_of(await json_body(request) or {}, _Confirmed)
    if confirmed.name not in (stored.shown_name, run):
        raise ParameterError("name", f'confirm with the run\'s name: send {{"name": {stored.shown_name!r}}}')
    if _is_reporting(parts, stored):
        return error_answer(409, f"{stored.shown_name} is reporting; end its processes first", "run")
    await run_in_threadpool(parts.store.delete, run)
    parts.live.drop(run)
    return json_answer({"deleted": run})


def _may_delete(request: Request, parts: Parts) -> bool:
    """Whether this is the owner. With --no-auth everyone may change things, but a deletion is permanent."""
    if parts.options.no_auth:
        return is_owner(request, parts)
    return Access.CHANGE in request.scope[ACCESS_KEY]


def _is_reporting(parts: Parts, stored: StoredRun) -> bool:
    live = parts.live.get(stored.run_id)
    state = state_now(stored, time.time_ns()) if live is None else live.state_of(stored)
    return state == "live"
