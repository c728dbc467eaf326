"""The FastAPI application: its parts, their life cycle, and one form for all errors."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from loaderwatch import __version__
from loaderwatch.core import environment_variables as variables
from loaderwatch.core.detached_processes import spawn_detached
from loaderwatch.core.errors import ConfigError, LoaderwatchError
from loaderwatch.core.files import NotPrivate, check_own, read_own, write_atomically
from loaderwatch.core.lock import STREAMER_LOCK, is_held
from loaderwatch.core.wire import RUN_ID_PATTERN
from loaderwatch.server.access.page_sessions import PageSessions
from loaderwatch.server.access.quotas import Admission
from loaderwatch.server.access.request_gate import Gate
from loaderwatch.server.access.tokens import AllowedHosts, Keys, Tokens, allowed_hosts
from loaderwatch.server.alerts.notify import Notifier
from loaderwatch.server.compression import Compression
from loaderwatch.server.config_file import ConfigFile, ServeOptions
from loaderwatch.server.encoding import Reader, error_answer, json_answer
from loaderwatch.server.http import ingest, labels, metrics, recordings, runs, server
from loaderwatch.server.http.errors import answer_to
from loaderwatch.server.idle_shutdown import Lifetime
from loaderwatch.server.ingest import Ingest
from loaderwatch.server.live.event_stream import Hub
from loaderwatch.server.live.judge import limits_of
from loaderwatch.server.live.run import LiveRun
from loaderwatch.server.live.runs import LiveRuns, MakeLiveRun
from loaderwatch.server.page import StaticFiles, find_web
from loaderwatch.server.peers.bundles import BUNDLE_PATH
from loaderwatch.server.peers.forwarding import Forwarding, Peers
from loaderwatch.server.peers.handover import Handover
from loaderwatch.server.recordings.incoming_runs import Arrivals
from loaderwatch.server.recordings.later_runs import LaterRuns
from loaderwatch.server.recordings.stored_windows import StoredWindows
from loaderwatch.server.recordings.verdict_cache import Verdicts
from loaderwatch.server.retention import retain
from loaderwatch.server.services import Parts
from loaderwatch.server.store.clickhouse import ClickHouseStore
from loaderwatch.server.store.clickhouse.address import parse_address
from loaderwatch.server.store.clickhouse.server_heartbeats import Server
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.protocol import Store, StoreError

LOOK_S: Final = 10.0


async def recover_runs(options: ServeOptions, store: Store) -> None:
    """Look for such runs forever, now and then; start a streamer for each, which ends once all is sent.

    Only runs that this server knows are sent; the next streamer here sends another server's runs there.
    """
    started: dict[str, subprocess.Popen[bytes]] = {}
    while True:
        await asyncio.sleep(LOOK_S)
        started = {run_id: process for run_id, process in started.items() if process.poll() is None}
        for run_id in await asyncio.to_thread(_unread_runs, options.rings_dir):
            if run_id in started:
                continue
            try:
                name = (await asyncio.to_thread(store.run, run_id)).name
                started[run_id] = await asyncio.to_thread(_start, options, run_id, name)
            except (LoaderwatchError, OSError) as error:  # unknown here, or no process can be started
                _log.debug("run %s is left as it lies: %s", run_id, error)


def _unread_runs(rings_dir: Path) -> set[str]:
    """Return the runs whose rings still exist and that had a streamer but have none now."""
    try:
        check_own(rings_dir)
    except NotPrivate:
        return set()
    folders = {path.parent for path in rings_dir.glob("*/main-*.ring")}
    locks = [folder / STREAMER_LOCK for folder in folders]
    return {lock.parent.name for lock in locks if lock.exists() and not is_held(lock)}


def _start(options: ServeOptions, run_id: str, name: str) -> subprocess.Popen[bytes]:
    _log.info("run %s lies unread in shared memory: starting a streamer for it", run_id)
    environ = {**variables.without_ours(os.environ), variables.DIR.name: str(options.data_dir)}
    arguments = ("-m", "loaderwatch.streamer", "--run-id", run_id, "--run-name", name, "--adopt")
    return spawn_detached(arguments, options.logs_dir / f"streamer-{run_id}.log", environ)


_log = logging.getLogger(__name__)


def create_app(
    options: ServeOptions,
    *,
    tokens: Tokens | None,
    url: str,
    open_to_all: bool = False,
    store: Store | None = None,
    make_live_run: MakeLiveRun = LiveRun,
    hosts: AllowedHosts | None = None,
    reached_at: str | None = None,
    listens_at: str = "",
) -> FastAPI:
    """Make the server as an ASGI application.

    Args:
        options: the options of ``loaderwatch serve``.
        tokens: the tokens in force; with them the server also proves itself. None lets everyone in.
        url: the server's own public address, without a slash at the end.
        open_to_all: lets everyone in; senders still ask the server to prove itself.
        store: a store to use instead of the one in ``options``.
        make_live_run: makes the live runs; tests pass other detectors here.
        hosts: the host names to answer to; by default from ``options``.
        reached_at: the address for other servers of the same database; by default ``url``.
        listens_at: numeric address and port of the listening socket; page sessions are bound to it.

    Raises:
        ConfigError: a notification address, ``config.toml`` or the ``store`` is unusable.
        StaticError: the page or Plotly is missing.
        StoreError: the store cannot be opened.
    """
    config = ConfigFile(options.config_path)
    notifier = Notifier(
        config.config.recipients(options.notify),
        general=config.config.notify,
        run_addresses=options.notify_dir,
        source="--notify" if options.notify else str(options.config_path),
    )
    static = StaticFiles(find_web())
    reached_at = reached_at or url
    opened = _open_store(options, reached_at) if store is None else store
    verdicts = Verdicts(opened, options.data_dir / "verdicts.json")
    hub = Hub()
    keys = Keys(tokens)
    limits = limits_of(options.hang_after_s)
    make = partial(make_live_run, limits=limits)
    live = LiveRuns(opened, hub, notifier, lambda: url, make=make, ended=verdicts.keep)
    parts = Parts(
        options=options,
        store=opened,
        ingest=Ingest(opened, commit_interval_s=opened.commit_interval_s, admit=Admission(live)),
        hub=hub,
        live=live,
        notifier=notifier,
        config=config,
        static=static,
        verdicts=verdicts,
        stored_windows=StoredWindows(opened, limits),
        later_runs=LaterRuns(opened),
        arrivals=Arrivals(opened, lambda run_id: live.note_stored([run_id])),
        url=url,
        reached_at=reached_at,
        keys=keys,
        sessions=PageSessions(listens_at=listens_at, public_url=options.public_url),
        lifetime=Lifetime(None if options.idle_hours is None else options.idle_hours * 3600),
    )
    if isinstance(opened, ClickHouseStore) and opened.members is not None:
        parts.peers = Peers(opened.members, keys)
        parts.handover = Handover(opened, live, parts.peers.client)
        live.knows_all = opened.is_alone

    app = FastAPI(
        title="loaderwatch",
        version=__version__,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.parts = parts
    app.include_router(server.identity_router)
    app.add_route("/api/v1/ingest", ingest.ingest, methods=["POST"])
    app.add_route(BUNDLE_PATH, ingest.ingest_bundle, methods=["POST"])
    app.include_router(runs.router)
    app.include_router(labels.router)
    app.include_router(runs.comparison_router)
    app.include_router(recordings.recording_router)
    app.include_router(recordings.router)
    app.include_router(runs.alerts_router)
    app.include_router(metrics.router)
    app.include_router(server.router)
    allow_hosts = (*options.allow_hosts, listens_at)
    if parts.peers is not None:
        app.add_middleware(Forwarding, peers=parts.peers)
        allow_hosts = (*allow_hosts, urlsplit(reached_at).hostname or "")
    app.add_middleware(Reader)
    app.add_middleware(Compression)
    app.add_middleware(
        Gate,
        keys=keys,
        sessions=parts.sessions,
        hosts=hosts or allowed_hosts(options.host, allow_hosts),
        open_to_all=open_to_all or tokens is None,
        public_url=options.public_url,
        is_stopping=lambda: parts.stopping,
        seen=parts.lifetime.seen,
    )
    _add_error_answers(app)
    _add_pages(app, parts)
    return app


def _open_store(options: ServeOptions, reached_at: str) -> Store:
    if options.store is None:
        return DuckDBStore(options.runs_dir)
    try:
        return ClickHouseStore(parse_address(options.store), Server(_server_id(options), reached_at))
    except StoreError as error:  # at the start there is no sender yet that could retry
        raise ConfigError(str(error)) from None


def _server_id(options: ServeOptions) -> str:
    """Return the server id stored in this data directory, so that a restarted server has the same runs."""
    with suppress(OSError, UnicodeDecodeError):
        stored_id = read_own(options.server_id_path).decode("ascii").strip()
        if RUN_ID_PATTERN.match(stored_id):
            return stored_id
    new_id = secrets.token_hex(8)
    try:
        write_atomically(options.server_id_path, new_id.encode())
    except OSError as error:
        raise ConfigError(f"cannot write {options.server_id_path}: {error.strerror}") from None
    return new_id


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    parts: Parts = app.state.parts
    parts.static.warm()
    parts.notifier.start()
    parts.ingest.on_stored(parts.live.take)
    parts.ingest.on_refused(parts.live.refuse)
    parts.ingest.start()
    parts.live.start(go_on=parts.handover is None)
    if parts.handover is not None:
        parts.handover.start()
    retention = asyncio.create_task(
        retain(parts.store, parts.options.retain_days, parts.live.drop), name="loaderwatch-retention"
    )
    recovery = asyncio.create_task(recover_runs(parts.options, parts.store), name="loaderwatch-recovery")
    parts.ready = True
    try:
        yield
    finally:
        parts.ready, parts.stopping = False, True
        retention.cancel()
        recovery.cancel()
        # whatever ended the server, close the store in order
        await asyncio.gather(retention, recovery, return_exceptions=True)
        parts.hub.close()
        if parts.handover is not None:
            await parts.handover.stop()
        await parts.arrivals.stop()
        await parts.ingest.stop()
        await parts.live.stop()
        await asyncio.to_thread(parts.store.close)
        await asyncio.to_thread(parts.notifier.close)


def _add_pages(app: FastAPI, parts: Parts) -> None:
    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        return json_answer({"status": "ok", "version": __version__})

    @app.get("/readyz", include_in_schema=False)
    async def readyz() -> Response:
        if not parts.ready:
            return error_answer(503, "the store is not open yet")
        await run_in_threadpool(parts.store.check)
        return json_answer({"status": "ok", "version": __version__})

    @app.api_route("/{path:path}", methods=["GET", "HEAD"], include_in_schema=False)
    async def page(path: str, request: Request) -> Response:
        file = None if path.startswith("api/") else parts.static.response(path, request)
        if file is None:
            return error_answer(404, f"there is nothing at /{path[:200]}", "path")
        return file


def _add_error_answers(app: FastAPI) -> None:
    """Answer every error with ``{"error", "field"}``. The gate answers unexpected errors."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = [str(part) for part in first["loc"] if part not in ("query", "path", "body")]
        name = ".".join(where) or "(body)"
        return error_answer(400, f"{name}: {first['msg']}", name)

    @app.exception_handler(HTTPException)
    async def http_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        answer = error_answer(error.status_code, str(error.detail))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(ValueError)
    async def bad_value(_request: Request, error: Exception) -> Response:
        return error_answer(400, str(error), getattr(error, "field", None))

    @app.exception_handler(LoaderwatchError)
    async def known(_request: Request, error: Exception) -> Response:
        assert isinstance(error, LoaderwatchError)
        return answer_to(error)
