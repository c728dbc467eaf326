"""``loaderwatch runs``: the runs that are known here."""

from __future__ import annotations

import argparse
import json
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loaderwatch.cli.server_facts import server_facts, server_line
from loaderwatch.core.config import load_settings
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.printable import one_line

if TYPE_CHECKING:
    from loaderwatch.cli.typing import Subparsers


def prepare_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser("runs", help="list the runs that are known here", description=__doc__)
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=None,
        metavar="DIR",
        help="where runs are kept (default LOADERWATCH_DIR)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--server",
        action="store_true",
        help="only which server is up, and until when (with --json: null if none is)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the runs, newest first, and which server is up."""
    if args.server:
        facts = server_facts(args.data_dir)
        print(json.dumps(facts, indent=2) if args.json else server_line(facts))
        return 0
    found = known_runs(args.data_dir)
    if args.json:
        print(json.dumps(found, indent=2))
        return 0
    if not found:
        print("No runs yet. Add `loaderwatch.attach(train_loader)` to a training script and start it.")
    else:
        print("\n".join(_table(found)))
    print(server_line(server_facts(args.data_dir)))
    return 0


def known_runs(data_dir: Path | None) -> list[dict[str, Any]]:
    """The runs as ``GET /api/v1/runs`` gives them, from the server if one runs, else from its files."""
    from loaderwatch.core.client import find_server

    client = find_server(data_dir)
    if client is not None:
        return client.runs()
    from loaderwatch.server.http.live_answers import stored_row
    from loaderwatch.server.store.duckdb import DuckDBStore

    if data_dir is not None and not data_dir.is_dir():
        raise ConfigError(
            f"there is no directory {data_dir}; name the one that `loaderwatch serve` keeps runs in"
        )
    runs_dir = (data_dir or load_settings().data_dir) / "runs"
    if not runs_dir.is_dir():
        return []
    store = DuckDBStore(runs_dir, read_only=True)
    try:
        return [stored_row(run, store, time.time_ns()) for run in store.runs()]
    finally:
        store.close()


def _table(found: list[dict[str, Any]]) -> list[str]:
    head = ("RUN", "NAME", "STATE", "STARTED", "LAST SEEN", "RANKS", "ATTEMPTS", "STEPS", "VERDICT")
    rows = [
        (
            str(row["run_id"]),
            in_a_cell(row["name"], 40),
            str(row["state"]),
            _when(row["started_at"]),
            _when(row["last_seen_at"]),
            str(row["world_size"]),
            str(row.get("attempts", 1)),
            "" if row.get("steps") is None else f"{row['steps']:,}",
            in_a_cell(row["verdict"] or "", 200),
        )
        for row in found
    ]
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head) - 1)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in (head, *rows)
    ]


def in_a_cell(text: object, width: int) -> str:
    """On one line, cut to a width, and without what would move a terminal's cursor: names come from other machines."""
    line = one_line(str(text))
    return line if len(line) <= width else line[: width - 1] + "…"


def _when(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")
