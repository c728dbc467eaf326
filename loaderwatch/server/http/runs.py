"""The routes for the page and scripts: runs, summaries, event stream, chart columns, findings, stacks.

Routes that ask the store are plain functions, because FastAPI runs those in threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from loaderwatch.advise.comparison.compare import comparison
from loaderwatch.core.answers import ProfilePartName
from loaderwatch.core.facts import MAX_NAME
from loaderwatch.detect.translation import in_language
from loaderwatch.server.access.forwarded import FORWARDED_KEY
from loaderwatch.server.access.request_gate import ACCESS_KEY
from loaderwatch.server.access.tokens import Access
from loaderwatch.server.alerts.alert_book import MAX_SILENCE_S, Alert, AlertBook, run_of
from loaderwatch.server.encoding import json_answer, reader_language
from loaderwatch.server.live.groups import in_group, page_of
from loaderwatch.server.queries import charts, live_answers
from loaderwatch.server.queries.heatmap import By, Order, Rows
from loaderwatch.server.queries.heatmap import heatmap as heatmap_of
from loaderwatch.server.queries.live_answers import MOST_EPOCHS
from loaderwatch.server.queries.marks import marks_of
from loaderwatch.server.queries.parameters import ParameterError, finite_number, json_body
from loaderwatch.server.recordings.run_measures import observed
from loaderwatch.server.services import Parts
from loaderwatch.server.store.protocol import MOST_EPOCH_ROWS

comparison_router = APIRouter(prefix="/api/v1")


@comparison_router.get("/compare")
def compare(request: Request, a: str, b: str) -> Response:
    """Return what changed from run ``a`` to run ``b``."""
    parts: Parts = request.app.state.parts
    return json_answer(comparison(observed(parts.store, a), observed(parts.store, b)))


alerts_router = APIRouter()


@alerts_router.post("/api/v1/alerts/{id}/ack")
async def acknowledge(request: Request, id: str) -> Response:
    """Acknowledge an alert: somebody works on it."""
    parts: Parts = request.app.state.parts

    def action(book: AlertBook) -> Alert:
        return book.acknowledge(id, time.time_ns())

    return await _change(parts, id, action)


@alerts_router.post("/api/v1/alerts/{id}/silence")
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


router = APIRouter(prefix="/api/v1/runs")

Rank = Annotated[int | None, Query(ge=0)]
Time = Annotated[float | None, Query(allow_inf_nan=False)]
Moment = Annotated[float | None, Query(ge=0, le=charts.MAX_SECONDS, allow_inf_nan=False)]
Attempt = Annotated[int | None, Query(ge=1)]
Points = Annotated[int, Query(ge=2, le=2000)]
Digits = Annotated[int | None, Query(ge=1, le=17)]
Find = Annotated[str, Query(max_length=200)]


def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


@router.get("")
async def runs(request: Request) -> Response:
    """Return every run, newest first. Another server that asks gets those that this one owns."""
    parts = _parts(request)
    peers = parts.peers
    if peers is None:
        return json_answer(await run_in_threadpool(live_answers.runs, parts))
    others, gave = ([], None) if request.scope.get(FORWARDED_KEY) else await peers.rows()

    def wanted(run_id: str) -> bool:
        owner = peers.owner(run_id)
        return owner is None or (gave is not None and owner not in gave)

    rows = [*await run_in_threadpool(live_answers.runs, parts, wanted), *others]
    return json_answer(sorted(rows, key=lambda row: row.started_at, reverse=True))


@router.get("/{run}/summary")
async def summary(request: Request, run: str, attempt: Attempt = None) -> Response:
    """Return the state of the run, or of an earlier attempt when it ended."""
    state = await live_answers.run_state(_parts(request), run, attempt)
    return Response(state.summary_in(reader_language.get()), media_type="application/json")


@router.get("/{run}/events")
async def events(request: Request, run: str, changes: bool = False) -> Response:
    """Stream the run's server-sent events: a snapshot, then whole summaries, or with ``changes`` what is new
    in them."""
    parts = _parts(request)
    parts.hub.publish(run, await live_answers.run_state(parts, run))
    may_change = Access.CHANGE in request.scope[ACCESS_KEY]
    last_id, language = request.headers.get("last-event-id"), reader_language.get()
    return StreamingResponse(
        parts.hub.stream(run, last_id, may_change=may_change, changes=changes, language=language),
        media_type="text/event-stream",
        headers={"x-accel-buffering": "no"},
    )


@router.get("/{run}/ranks")
async def ranks(
    request: Request,
    run: str,
    rank: Rank = None,
    sort: str = "rank",
    down: bool = False,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=4096)] = 64,
    find: Find = "",
    group: Annotated[str | None, Query(max_length=200)] = None,
    attempt: Attempt = None,
) -> Response:
    """Return some of a run's ranks: a page of them, or of a group of them, or one."""
    parts = _parts(request)
    state = await live_answers.run_state(parts, run, attempt)
    if rank is not None and (live := parts.live.get(run)) is not None:
        live.attend(rank)
    rows = state.ranks if group is None else in_group(state.ranks, group)
    wanted = [row for row in rows if rank is None or row.rank == rank]
    return json_answer(page_of(wanted, sort=sort, down=down, offset=offset, limit=limit, find=find))


@router.get("/{run}/findings")
def findings(request: Request, run: str, attempt: Attempt = None) -> Response:
    """Return the detectors' findings, with stacks and with what came of their advice in later runs."""
    return json_answer(live_answers.findings_followed(_parts(request), run, attempt))


@router.get("/{run}/series")
def series(
    request: Request,
    run: str,
    metric: Annotated[list[str], Query(min_length=1, max_length=charts.MAX_METRICS)],
    rank: Rank = None,
    start: Time = None,
    end: Time = None,
    points: Points = 300,
    attempt: Attempt = None,
    digits: Digits = None,
) -> Response:
    """Return a metric over time; a list of them when ``metric`` repeats."""
    answer = charts.several_series(
        _parts(request).store, run, metric, rank, start, end, points, attempt, digits
    )
    return json_answer(answer if len(metric) > 1 else answer[0])


@router.get("/{run}/heatmap")
def heatmap(
    request: Request,
    run: str,
    metric: str,
    start: Time = None,
    end: Time = None,
    points: Points = 300,
    attempt: Attempt = None,
    by: By = "rank",
    order: Order = "rank",
    find: Find = "",
    limit: Annotated[int, Query(ge=1, le=4096)] = 256,
    digits: Digits = None,
) -> Response:
    """Return a metric over time, a row per rank or host."""
    rows = Rows(by=by, order=order, find=find, limit=limit)
    answer = heatmap_of(_parts(request).store, run, metric, start, end, points, attempt, rows, digits)
    return json_answer(answer)


@router.get("/{run}/epochs")
def epochs(
    request: Request,
    run: str,
    rank: Rank = None,
    attempt: Attempt = None,
    limit: Annotated[int, Query(ge=1, le=MOST_EPOCH_ROWS)] = 2000,
) -> Response:
    """Return the newest epochs and what their boundaries cost."""
    return json_answer(charts.epochs(_parts(request).store, run, rank, attempt, limit))


@router.get("/{run}/boundaries")
def boundaries(
    request: Request,
    run: str,
    rank: Rank = None,
    limit: Annotated[int, Query(ge=1, le=MOST_EPOCHS)] = 100,
    attempt: Attempt = None,
) -> Response:
    """Return each loader's epochs by their parts, and what their boundaries cost."""
    return json_answer(live_answers.boundaries(_parts(request), run, rank, limit, attempt))


@router.get("/{run}/marks")
def marks(
    request: Request,
    run: str,
    rank: Rank = None,
    start: Moment = None,
    end: Moment = None,
    attempt: Attempt = None,
    limit: Annotated[int, Query(ge=1, le=2000)] = 500,
) -> Response:
    """Return the events beside charts: changed settings, checkpoints, evaluation, attempts and alerts."""
    parts = _parts(request)
    findings_said = in_language(live_answers.findings(parts, run, attempt), reader_language.get())
    return json_answer(marks_of(parts.store, run, findings_said, rank, start, end, attempt, limit))


@router.get("/{run}/fetches")
def fetches(
    request: Request,
    run: str,
    rank: Rank = None,
    start: Time = None,
    end: Time = None,
    limit: Annotated[int, Query(ge=1, le=20_000)] = 2000,
    worker: Annotated[int | None, Query(ge=-1)] = None,
) -> Response:
    """Return the fetches of a rank's workers, or of one."""
    if rank is None:
        raise ParameterError("rank", "say which rank's workers, e.g. ?rank=0")
    return json_answer(charts.fetches(_parts(request).store, run, rank, start, end, limit, worker))


@router.get("/{run}/slow-samples")
def slow_samples(
    request: Request, run: str, rank: Rank = None, limit: Annotated[int, Query(ge=1, le=1000)] = 20
) -> Response:
    """Return the slowest samples."""
    return json_answer(charts.slow_samples(_parts(request).store, run, rank, limit))


@router.get("/{run}/profile")
def profile(
    request: Request,
    run: str,
    of: ProfilePartName = "fetch",
    rank: Rank = None,
    start: Time = None,
    end: Time = None,
    attempt: Attempt = None,
) -> Response:
    """Return which lines take the time of fetches, steps, evaluations or epoch boundaries."""
    return json_answer(live_answers.profile(_parts(request), run, of, rank, start, end, attempt))


@router.get("/{run}/audit")
def audit(request: Request, run: str) -> Response:
    """Return advice on the configuration."""
    return json_answer(live_answers.audit_of(_parts(request), run))


@router.get("/{run}/what-if")
def what_if(request: Request, run: str, rank: Rank = None) -> Response:
    """Return what other settings of a rank's loaders would give."""
    return json_answer(live_answers.what_if_now(_parts(request), run, rank))


@router.get("/{run}/coupling")
def coupling(request: Request, run: str) -> Response:
    """Return which ranks wait for which."""
    return json_answer(live_answers.coupling_now(_parts(request), run))


@router.get("/{run}/gpus")
def gpus(
    request: Request,
    run: str,
    host: Annotated[str | None, Query(max_length=MAX_NAME)] = None,
    limit: Annotated[int | None, Query(ge=1)] = None,
) -> Response:
    """Return the GPUs of the run's hosts (of a large run: those looked at in detail), or of one, and the
    processes on them."""
    return json_answer(live_answers.gpus(_parts(request), run, host, limit))


@router.get("/{run}/workers")
def workers(request: Request, run: str, rank: Rank = None) -> Response:
    """Return what each process is doing now."""
    return json_answer(live_answers.workers(_parts(request), run, rank))


@router.get("/{run}/stacks")
def stacks(request: Request, run: str, rank: Rank = None) -> Response:
    """Return the newest stacks of each process."""
    return json_answer(live_answers.stacks(_parts(request), run, rank))


@router.post("/{run}/stacks")
async def ask_for_stacks(request: Request, run: str, rank: Rank = None) -> Response:
    """Ask the streamer for fresh stacks; they come with one of its next envelopes."""
    parts = _parts(request)
    live = parts.live.get(run)
    if live is None:
        await run_in_threadpool(parts.store.run, run)  # 404 if the run is unknown
        return json_answer({"requested": False})
    return json_answer({"requested": bool(live.want_stacks(rank))})
