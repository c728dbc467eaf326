"""Which server is up, in one line and as facts."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Final

_BY: Final = {"hand": "started by hand", "run": "started by a run", "demo": "started by the demo"}


def server_facts(data_dir: Path | None) -> dict[str, Any] | None:
    """What ``GET /api/v1/server`` says; None when no server is up.

    Raises:
        ServerError: the server that LOADERWATCH_SERVER names does not answer, or does not know LOADERWATCH_TOKEN.
    """
    from loaderwatch.core.client import ServerError, find_server

    client = find_server(data_dir)
    if client is None:
        return None
    try:
        return client.server() | {"url": client.url}
    except (ServerError, OSError):  # of an older version; or it left this moment
        return {"url": client.url}


def server_line(facts: dict[str, Any] | None) -> str:
    """For people."""
    if facts is None:
        return "No server is up; the next run starts one, and so does `loaderwatch serve`."
    if "pid" not in facts:
        return f"Server: {facts['url']}"
    stays = "stays"
    if facts["leaves_at"] is not None:
        stays = f"leaves at {_when(facts['leaves_at'])} if no run reports and nobody looks until then"
    return (
        f"Server: {facts['url']} (pid {facts['pid']}, {facts['data_dir']}), {_BY.get(facts['started_by'], 'started')}"
        f" at {_when(facts['started_at'])}; {stays}."
    )


def _when(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")
