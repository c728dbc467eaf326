"""``loaderwatch runs``: the runs known here."""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from typing import Final

import msgspec

from loaderwatch.cli.flags import add_data_dir
from loaderwatch.cli.run_source import NoSuchRun, open_runs, rows_of
from loaderwatch.core.answers import RunRow, ServerFacts, Text
from loaderwatch.core.client import Client, ServerError, find_server
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.printable import one_line
from loaderwatch.detect.translation import in_language
from loaderwatch.texts import in_own_language, own_language, say

_COLUMNS: Final = ("run", "name", "state", "started", "seen", "ranks", "attempts", "steps", "verdict")
"""The parts of the message ``runs-columns``."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    add_data_dir(parser)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--server", action="store_true")


def run(args: argparse.Namespace) -> int:
    """Print the runs, newest first, and the running server; return the exit code."""
    if args.server:
        client, facts = _server(args)
        print(_server_json(client, facts) if args.json else _server_line(client, facts))
        return 0
    known_runs = _known_runs(args)
    if args.json:
        print(json.dumps(msgspec.to_builtins(known_runs), indent=2))
        return 0
    if not known_runs:
        print(in_own_language("no-runs-yet"))
    else:
        print("\n".join(_table(known_runs)))
    print(_server_line(*_server(args)))
    return 0


def _known_runs(args: argparse.Namespace) -> list[RunRow]:
    if args.data_dir is not None and not args.data_dir.is_dir():
        raise ConfigError(
            f"there is no directory {args.data_dir}; name the one that `loaderwatch serve` keeps runs in"
        )
    try:
        with open_runs(args.data_dir) as runs:
            return rows_of(runs)
    except NoSuchRun:
        return []


def _server(args: argparse.Namespace) -> tuple[Client | None, ServerFacts | None]:
    """Return the running server, if any, and its facts, if it sends them.

    Raises:
        ServerError: the server in LOADERWATCH_SERVER does not answer, or does not know LOADERWATCH_TOKEN.
    """
    client = find_server(args.data_dir)
    if client is None:
        return None, None
    try:
        return client, client.server()
    except (ServerError, OSError):  # the server is older, or left this moment
        return client, None


def _server_json(client: Client | None, facts: ServerFacts | None) -> str:
    """Return the answer of ``GET /server`` as JSON, with the server's address; null if no server is up."""
    if client is None:
        return "null"
    answer = {} if facts is None else msgspec.to_builtins(facts)
    return json.dumps(answer | {"url": client.url}, indent=2)


def _server_line(client: Client | None, facts: ServerFacts | None) -> str:
    """Return a line about the running server and how long it stays."""
    if client is None:
        return in_own_language("no-server-is-up")
    if facts is None:
        return in_own_language("server-is-at", url=client.url)
    return in_own_language(
        "server-is-up",
        url=client.url,
        pid=facts.pid,
        data_dir=facts.data_dir,
        started_by=facts.started_by,
        started_at=_when(facts.started_at),
        leaves_at=None if facts.leaves_at is None else _when(facts.leaves_at),
    )


def _table(found: list[RunRow]) -> list[str]:
    head = tuple(say(Text("runs-columns", {}, part), own_language()) for part in _COLUMNS)
    rows = [
        (
            row.run_id,
            in_a_cell(row.name, 40),
            in_own_language("run-state", state="stopped" if _was_stopped(row) else row.state),
            _when(row.started_at),
            _when(row.last_seen_at),
            str(row.world_size),
            str(row.attempts),
            "" if row.steps is None else f"{row.steps:,}",
            in_a_cell(row.verdict or "", 200),
        )
        for row in in_language(found, own_language())
    ]
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head) - 1)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in (head, *rows)
    ]


def _was_stopped(row: RunRow) -> bool:
    return row.state == "crashed" and row.severity == "info"


def in_a_cell(text: object, width: int) -> str:
    """Return a text on one line, cut to a width in characters.

    It has no control characters for a terminal's cursor, because names come from other machines.
    """
    line = one_line(str(text))
    return line if len(line) <= width else line[: width - 1] + "…"


def _when(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")
