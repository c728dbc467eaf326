"""The audit of a run: asked of its server, or made here from its file or recording."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from loaderwatch.cli.analyze import NoSuchRun, pick
from loaderwatch.core.client import find_server
from loaderwatch.core.config import load_settings

if TYPE_CHECKING:
    from loaderwatch.detect.window import RunWindow

FILES = (".duckdb", ".lwrec")
"""Endings of files that hold a run."""


def audit_run(which: str, data_dir: Path | None) -> tuple[list[dict[str, Any]], str]:
    """The advice for a run (its id, its name, or a file), and how to call it.

    Raises:
        NoSuchRun
    """
    file = Path(which).expanduser()
    if which.endswith(FILES):
        if not file.is_file():
            raise NoSuchRun(f"there is no file {file}")
        if file.suffix == ".lwrec":
            return _of_recording(file)
        return _of_stored(file.absolute().parent, file.stem)
    client = find_server(data_dir)
    if client is not None:  # it has the files open
        row = pick(client.runs(), which)
        found: list[dict[str, Any]] = client.get(f"/runs/{quote(str(row['run_id']), safe='')}/audit")
        return found, _title(row)
    runs_dir = (data_dir or load_settings().data_dir) / "runs"
    if not runs_dir.is_dir():
        raise NoSuchRun(f"no runs are kept in {runs_dir}; name another place with --data-dir")
    return _of_stored(runs_dir, which)


def _of_stored(runs_dir: Path, which: str) -> tuple[list[dict[str, Any]], str]:
    from loaderwatch.server.http.live_answers import stored_row
    from loaderwatch.server.recordings.replay import rebuild
    from loaderwatch.server.store.duckdb import DuckDBStore

    store = DuckDBStore(runs_dir, read_only=True)
    try:
        row = pick([stored_row(run, store, time.time_ns()) for run in store.runs()], which)
        window = rebuild(store, str(row["run_id"])).window()
    finally:
        store.close()
    return _advice(window), _title(row)


def _of_recording(file: Path) -> tuple[list[dict[str, Any]], str]:
    from loaderwatch.server.recordings.recording import load, windows

    recording = load(file)
    ((window, _),) = deque(windows(recording), maxlen=1)
    return _advice(window), f"{recording.run_name} ({recording.run_id}), recorded in {file.name}"


def _advice(window: RunWindow) -> list[dict[str, Any]]:
    from loaderwatch.advise.audit import audit
    from loaderwatch.advise.facts import facts_of

    found: list[dict[str, Any]] = msgspec.to_builtins(audit(facts_of(window)))
    return found


def _title(row: dict[str, Any]) -> str:
    return f"{row['name']} ({row['run_id']}), {row['state']}"
