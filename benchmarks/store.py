"""The store alone: appends at full speed, and charts of a run beside those of a run 100 times longer.

    python benchmarks/store.py --append --ranks 1024 --seconds 20
    python benchmarks/store.py --history --ranks 64         # exit code 1: an answer is over its budget
    # Once a second, as its server does:
    python benchmarks/store.py --append --store clickhouse://user@host/empty_database
    python benchmarks/store.py --history --store clickhouse   # or the address of an empty database

``--history`` has budgets: each answer takes at most twice as long as for the short run. In DuckDB a repeated
chart takes at most 100 ms. ``--store clickhouse`` starts the engine of the tests (chdb). The short run is
queried again after the long one, so that both meet the same load of the machine.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from benchmarks.client import Quantiles, quantiles
from benchmarks.envelopes import INTERVAL_S, RUN, SECOND, streamers
from benchmarks.serving import store_at
from loaderwatch.core.wire import Envelope
from loaderwatch.server.queries import charts as queries
from loaderwatch.server.queries.heatmap import heatmap
from loaderwatch.server.recordings.stored_windows import StoredWindows
from loaderwatch.server.store.clickhouse import ClickHouseStore
from loaderwatch.server.store.clickhouse.address import parse_address
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.protocol import Store

WARM_S: Final = 0.1
ASKED: Final = 15
COMMIT_TICKS: Final = 20
"""Envelopes of each streamer in a commit, as a history is stored faster than it went."""
LONGER: Final = 2.0


def append(ranks: int, workers: int, seconds: float, url: str | None) -> dict[str, Any]:
    """Appends of what gathers in 100 ms in DuckDB, or in a second in the ClickHouse at ``url``."""
    appends: list[float] = []
    tidies: list[float] = []
    rows = 0.0
    with tempfile.TemporaryDirectory(prefix="loaderwatch-bench-") as directory:
        store = _open(Path(directory), url)
        sources = streamers(ranks, workers)
        gathered: list[Envelope] = []
        start_ns = time.time_ns()
        cpu, began = time.process_time(), time.perf_counter()
        for tick in range(int(seconds / INTERVAL_S)):
            envelopes = [s.envelope(start_ns + int((tick + 1) * INTERVAL_S * SECOND)) for s in sources]
            if url is not None:
                gathered += envelopes
                envelopes, gathered = (gathered, []) if tick % 2 else ([], gathered)
            fifth = max(1, -(-len(envelopes) // (1 if url else 5)))
            for first in range(0, len(envelopes), fifth):
                now = time.perf_counter()
                store.append(envelopes[first : first + fifth])
                appends.append(time.perf_counter() - now)
            rows += sum(s.rows for s in sources)
            if tick % 2:
                tidies.append(_timed(store.tidy))
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        store.tidy()
        stored = store.run(RUN).bytes
        store.close()
        if url is None:
            stored = sum(path.stat().st_size for path in Path(directory).iterdir())
    return {
        "rows": int(rows),
        "times_real_time": seconds / wall,
        "cpu_s_per_million_rows": cpu / rows * 1e6,
        "stored_bytes_per_row": stored / rows,
        "append": quantiles(appends),
        "tidy": quantiles(tidies),
    }


def _open(directory: Path, url: str | None) -> Store:
    return DuckDBStore(directory) if url is None else ClickHouseStore(parse_address(url))


def _beside(url: str, minutes: int) -> str:
    """Return the address of another database for each run, as both have one id."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path}_{minutes}_min"))


def history(ranks: int, url: str | None) -> dict[str, dict[str, Quantiles]]:
    """Charts by run: one of a minute, one of 100 minutes."""
    with tempfile.TemporaryDirectory(prefix="loaderwatch-bench-") as directory:
        stores: dict[str, tuple[Store, float]] = {}
        for minutes in (1, 100):
            store = _open(Path(directory) / str(minutes), None if url is None else _beside(url, minutes))
            stores[f"{minutes} min"] = store, _fill(store, ranks, minutes)
        found = _charts(stores)
        for store, _ in stores.values():
            store.close()
    return found


def _fill(store: Store, ranks: int, minutes: int) -> float:
    """Store a run that ends now, summed up as far as it can be, and return its end (UTC, s)."""
    sources = streamers(ranks, 0)
    start_ns = time.time_ns() - minutes * 60 * SECOND
    gathered: list[Envelope] = []
    for tick in range(int(minutes * 60 / INTERVAL_S)):
        made_ns = start_ns + int((tick + 1) * INTERVAL_S * SECOND)
        gathered += [s.envelope(made_ns) for s in sources]
        if (tick + 1) % COMMIT_TICKS == 0:
            store.append(gathered)
            gathered = []
            store.tidy()
    store.append(gathered)
    opened = (
        store._files.open if isinstance(store, DuckDBStore) else store._open  # type: ignore[attr-defined]
    )
    with opened(RUN) as run:
        while run.roll():
            pass
    return (start_ns + minutes * 60 * SECOND) / 1e9


def _charts(stores: Mapping[str, tuple[Store, float]]) -> dict[str, dict[str, Quantiles]]:
    """Ask for each chart of each run in turns, so that what else the machine does falls on all."""
    found: dict[str, dict[str, Quantiles]] = {name: {} for name in stores}
    asked = {name: _asks(store, end) for name, (store, end) in stores.items()}
    for what in next(iter(asked.values())):
        times: dict[str, list[float]] = {name: [] for name in stores}
        for turn in range(ASKED + 1):
            for name, asks in asked.items():
                took = _timed(asks[what])
                if turn:  # the first warms up
                    times[name].append(took)
        for name, each in times.items():
            measured = quantiles(each)
            assert measured is not None
            found[name][what] = measured
    return found


def _asks(store: Store, end: float) -> dict[str, Callable[[], Any]]:
    recent, windows = end - 60, StoredWindows(store)
    return {
        "series, all ranks": lambda: queries.series(store, RUN, "data_wait_ratio"),
        "series, one rank": lambda: queries.series(store, RUN, "wait_s", 3),
        "series, GPUs": lambda: queries.series(store, RUN, "gpu_utilization_ratio"),
        "heat map": lambda: heatmap(store, RUN, "data_wait_ratio", points=120),
        "series, last minute": lambda: queries.series(store, RUN, "data_wait_ratio", None, recent),
        "heat map, last minute": lambda: heatmap(store, RUN, "data_wait_ratio", recent, points=120),
        "slow samples, one rank": lambda: queries.slow_samples(store, RUN, 3),
        "slow samples, all ranks": lambda: queries.slow_samples(store, RUN),
        "summary, the first time": lambda: queries.stored_summary(store, RUN),
        "summary": lambda: queries.stored_summary(store, RUN, windows=windows),
    }


def _timed(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def show(found: dict[str, dict[str, Quantiles]], warm_s: float) -> bool:
    """Print the answers; whether all are within budget, which is ``warm_s`` for each chart."""
    short, long = found.values()
    good = True
    print(f"{'p50':24} {'1 min':>10} {'100 min':>10} {'ratio':>7}")
    for what, brief in short.items():
        ratio = long[what].p50 / brief.p50
        drawn = what.startswith(("series", "heat map"))
        over = ratio > LONGER or (drawn and long[what].p50 > warm_s)
        good = good and not over
        verdict = "OVER" if over else "within"
        print(f"{what:24} {1000 * brief.p50:7.1f} ms {1000 * long[what].p50:7.1f} ms {ratio:7.2f}  {verdict}")
    return good


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--append", action="store_true")
    what.add_argument("--history", action="store_true")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--store", default=None, metavar="STORE", help="clickhouse, or the address of an empty database"
    )
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="loaderwatch-bench-") as directory,
        store_at(options.store or "duckdb", Path(directory)) as (url, _),
    ):
        if options.append:
            appended = append(options.ranks, options.workers, options.seconds, url)
            for name, value in appended.items():
                print(f"{name:24} {value}")
            return 0
        charts = history(options.ranks, url)
    good = show(charts, WARM_S if url is None else math.inf)
    told = {run: {what: found.p50 for what, found in each.items()} for run, each in charts.items()}
    print(
        json.dumps(
            {
                "benchmark": "store",
                "store": options.store or "duckdb",
                "ranks": options.ranks,
                "within": good,
                "p50_s": told,
            }
        )
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
