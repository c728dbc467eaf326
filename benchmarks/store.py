"""The store alone: appends as fast as they go, and charts of a run beside those of one 100 times longer.

    python benchmarks/store.py --append --ranks 1024 --seconds 20
    python benchmarks/store.py --history --ranks 64         # exit code 1: a chart is over its budget
    python benchmarks/store.py --append --store clickhouse://user@host/empty_database   # once a second, as its server does

Budgets of the second: each chart within 100 ms once it was asked for, and at most twice that of the short run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.client import Quantiles, quantiles
from benchmarks.envelopes import INTERVAL_S, RUN, SECOND, streamers
from loaderwatch.core.wire import Envelope
from loaderwatch.server.queries import charts as queries
from loaderwatch.server.queries.heatmap import heatmap
from loaderwatch.server.store.clickhouse import ClickHouseStore
from loaderwatch.server.store.clickhouse.address import parse_address
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.protocol import Store

WARM_S: Final = 0.1
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


def history(ranks: int) -> dict[str, dict[str, Quantiles]]:
    """Charts by run: one of a minute, one of 100 minutes."""
    found: dict[str, dict[str, Quantiles]] = {}
    with tempfile.TemporaryDirectory(prefix="loaderwatch-bench-") as directory:
        for minutes in (1, 100):
            store = DuckDBStore(Path(directory) / str(minutes))
            sources = streamers(ranks, 0)
            start_ns = time.time_ns() - minutes * 60 * SECOND
            for tick in range(int(minutes * 60 / INTERVAL_S)):
                made_ns = start_ns + int((tick + 1) * INTERVAL_S * SECOND)
                store.append([s.envelope(made_ns) for s in sources])
                if tick % 8 == 0:
                    store.tidy()
            store.tidy()
            found[f"{minutes} min"] = _charts(store, (start_ns + minutes * 60 * SECOND) / 1e9)
            store.close()
    return found


def _charts(store: Store, end: float) -> dict[str, Quantiles]:
    recent = end - 60
    asks: dict[str, Callable[[], Any]] = {
        "series, all ranks": lambda: queries.series(store, RUN, "data_wait_ratio"),
        "series, one rank": lambda: queries.series(store, RUN, "wait_s", 3),
        "series, GPUs": lambda: queries.series(store, RUN, "gpu_utilization_ratio"),
        "heat map": lambda: heatmap(store, RUN, "data_wait_ratio", points=120),
        "series, last minute": lambda: queries.series(store, RUN, "data_wait_ratio", None, recent),
        "heat map, last minute": lambda: heatmap(store, RUN, "data_wait_ratio", recent, points=120),
        "slow samples": lambda: queries.slow_samples(store, RUN),
        "summary": lambda: queries.stored_summary(store, RUN),
    }
    measured = {}
    for what, ask in asks.items():
        ask()
        found = quantiles([_timed(ask) for _ in range(15)])
        assert found is not None
        measured[what] = found
    return measured


def _timed(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def show(found: dict[str, dict[str, Quantiles]]) -> bool:
    """Print the charts; whether all are within budget."""
    short, long = found.values()
    good = True
    print(f"{'p50':24} {'1 min':>10} {'100 min':>10} {'ratio':>7}")
    for what, brief in short.items():
        ratio = long[what].p50 / brief.p50
        drawn = what.startswith(("series", "heat map"))
        over = drawn and (long[what].p50 > WARM_S or ratio > LONGER)
        good = good and not over
        verdict = "" if not drawn else "OVER" if over else "within"
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
    parser.add_argument("--store", default=None, metavar="URL", help="of --append: a ClickHouse database")
    options = parser.parse_args()
    if options.append:
        appended = append(options.ranks, options.workers, options.seconds, options.store)
        for name, value in appended.items():
            print(f"{name:24} {value}")
        return 0
    charts = history(options.ranks)
    good = show(charts)
    told = {run: {what: found.p50 for what, found in each.items()} for run, each in charts.items()}
    print(json.dumps({"benchmark": "store", "ranks": options.ranks, "within": good, "p50_s": told}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
