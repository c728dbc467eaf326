"""64 ranks on one machine for an hour, through all real parts: does anything grow, slow down or get lost?

    make soak                                                        # an hour
    .venv/bin/python -m benchmarks.soak --seconds 300 --ranks 16     # a look

Ranks that only write rings (``players``), one streamer, one server, and one viewer with the page's stream and
queries. The players' ledger says what was written; in the end every row must be in the store exactly once.

Memory, CPU, open files and threads are read every 10 s (in short runs more often). Latencies are measured for
every step of four ranks: until the streamer's state says that the server has acknowledged the record, and
until the page's stream shows it. SIGTERM or Ctrl-C ends the run early and in order, with a table so far.
The exit code is 1 if a budget or a row is missed.

The budgets compare the last quarter with the second, since windows and caches fill in the first. Memory may
grow by 10 % (in runs of 40 minutes or more), open files and threads by 10 %, and latency p95 twofold. Memory
is that of the process itself (RssAnon and RssFile); its mapped rings are counted apart.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np

from benchmarks import players
from benchmarks.chain import RUN, Chain
from benchmarks.client import PAGE_ROWS, Connection, follow, page_queries
from benchmarks.meter import Meter, Process
from benchmarks.probe import Probe

PROBES: Final = 4
POLL_S: Final = 0.05
QUERY_EVERY_S: Final = 2.0
GROWTH: Final = 1.10
STEADY_S: Final = 2400.0
"""Memory is judged only in runs this long: between checkpoints (4 to 5 minutes) it moves by 60 MB."""
SLOWER: Final = 2.0
SPARE: Final = 4  # open files and threads that may come and go


# -- what is measured


@dataclass
class Sample:
    """What is read now and then."""

    at_s: float
    streamer: Process
    server: Process
    outbox: int
    written: int
    stored_bytes: int


@dataclass
class Measured:
    """Everything, with seconds since the beginning."""

    samples: list[Sample] = field(default_factory=list)
    acknowledged: list[tuple[float, float]] = field(default_factory=list)
    shown: list[tuple[float, float]] = field(default_factory=list)
    queries: list[tuple[float, float]] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)  # answers to queries that were not 200
    troubles: list[str] = field(default_factory=list)


# -- the hour


class Stop:
    """The first SIGTERM or Ctrl-C ends the run early and in order, the next one ends it at once."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


async def watch(chain: Chain, seconds: float, progress: Path, stop: Stop) -> Measured:
    """Measure until the time is over, something ends, or ``stop``."""
    measured = Measured()
    began = time.monotonic()
    chosen = sorted(chain.infos)[:: max(1, chain.ranks // PROBES)]  # spread over the run
    probes = [Probe(chain.rings, chain.infos[rank]) for rank in chosen]
    tasks = [
        asyncio.create_task(_acknowledgements(chain, probes, began, measured)),
        asyncio.create_task(_stream(chain, probes, began, measured)),
        asyncio.create_task(_ask(chain, began, measured)),
        asyncio.create_task(_sample(chain, began, min(10.0, seconds / 40), measured, progress)),
        asyncio.create_task(_wait_for(stop)),
    ]
    try:
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return measured


async def _wait_for(stop: Stop) -> None:
    while not stop.asked:
        await asyncio.sleep(0.2)


async def _acknowledgements(chain: Chain, probes: Sequence[Probe], began: float, measured: Measured) -> None:
    while True:
        await asyncio.sleep(POLL_S)
        for probe in probes:
            probe.read()
        cursors = chain.acknowledged()
        now = time.monotonic()
        for probe in probes:
            ages = probe.acknowledged(cursors.get(probe.key, 0), now)
            measured.acknowledged += [(now - began, age) for age in ages]


async def _stream(chain: Chain, probes: Sequence[Probe], began: float, measured: Measured) -> None:
    def seen(now: float, steps: dict[int, int]) -> None:
        for probe in probes:
            ages = probe.shown(steps.get(probe.rank, 0), now)
            measured.shown.extend((now - began, age) for age in ages)

    while True:
        with contextlib.suppress(OSError, RuntimeError):  # not there yet, or hung up: a page comes back, too
            await follow(chain.port, chain.token, RUN, range(0, chain.ranks, PAGE_ROWS), seen)
        await asyncio.sleep(1.0)


async def _ask(chain: Chain, began: float, measured: Measured) -> None:
    paths = page_queries(RUN, chain.ranks // 2)
    root = f"/api/v1/runs/{RUN}"
    for name in ("findings", "epochs", "coupling", "audit", "workers", "slow-samples"):
        paths[name] = f"{root}/{name}"
    paths["runs"] = "/api/v1/runs"
    connection = Connection(chain.port, chain.token)
    await asyncio.sleep(5.0)
    while True:
        for path in paths.values():
            sent = time.monotonic()
            try:
                status, _ = await connection.ask("GET", path)
            except (OSError, asyncio.IncompleteReadError):
                status = 0
            now = time.monotonic()
            if status == 200:
                measured.queries.append((now - began, now - sent))
            else:
                measured.refused[status] = measured.refused.get(status, 0) + 1
        await asyncio.sleep(QUERY_EVERY_S)


async def _sample(chain: Chain, began: float, every_s: float, measured: Measured, progress: Path) -> None:
    meters = Meter(chain.streamer.pid), Meter(chain.server.pid)
    runs = chain.settings.runs_dir
    said = 0.0
    with progress.open("w") as file:
        while True:
            await asyncio.sleep(every_s)
            trouble = chain.died()
            if trouble:
                measured.troubles.append(trouble)
                return
            streamer, server = (meter.read() for meter in meters)
            sample = Sample(
                at_s=time.monotonic() - began,
                streamer=streamer,
                server=server,
                outbox=chain.outbox(),
                written=sum(chain.written().values()),
                stored_bytes=sum(path.stat().st_size for path in runs.iterdir()),
            )
            measured.samples.append(sample)
            recent = [age for at, age in measured.shown[-2000:] if at > sample.at_s - every_s]
            file.write(json.dumps({**asdict(sample), "shown_p95_s": _p95(recent)}) + "\n")
            file.flush()
            if sample.at_s >= said + 60:
                said = sample.at_s
                print(
                    f"{sample.at_s / 60:5.1f} min  streamer {streamer.memory_bytes / 1e6:5.0f} MB"
                    f"  server {server.memory_bytes / 1e6:5.0f} MB  step to page p95 {_p95(recent):5.2f} s"
                    f"  outbox {sample.outbox}",
                    flush=True,
                )


def _p95(values: Sequence[float]) -> float:
    return float(np.percentile(values, 95)) if values else float("nan")


# -- the ledger against the store


def compare(chain: Chain) -> tuple[int, list[str]]:
    """Rows that should be there, and what is wrong with those that are."""
    written = chain.written()
    wrong: list[str] = []
    rows = 0
    path = chain.settings.runs_dir / f"{RUN}.duckdb"
    if not path.exists():
        return 0, [f"nothing was stored; the last envelopes lie in {chain.settings.outbox_dir}"]
    with duckdb.connect(str(path), read_only=True) as store:
        for table, columns in players.STORED.items():
            wanted = {rank: players.expected(rank, steps)[table] for rank, steps in written.items()}
            listed = ", ".join(columns)
            found = store.execute(f"SELECT rank, {listed} FROM {table} ORDER BY rank, {listed}").fetchnumpy()
            ranks = np.asarray(found["rank"])
            values = np.stack([np.asarray(found[name]) for name in columns], axis=1)
            for rank, want in wanted.items():
                first, last = np.searchsorted(ranks, rank), np.searchsorted(ranks, rank, "right")
                here = values[first:last]
                rows += len(want)
                if here.shape == want.shape and bool((here == want).all()):
                    continue
                have, should = set(map(tuple, here.tolist())), set(map(tuple, want.tolist()))
                wrong.append(
                    f"{table}, rank {rank}: {len(should - have)} missing, {len(have - should)} unknown,"
                    f" {len(here) - len(have)} twice, of {len(want)}"
                )
        lost = int(store.execute("SELECT coalesce(sum(lost), 0) FROM events").fetchall()[0][0])
    if lost:
        wrong.append(f"{lost} records counted as lost")
    return rows, wrong


# -- the table


@dataclass
class Row:
    """One line of the table."""

    name: str
    unit: str
    quarters: list[float]
    slope_per_h: float
    limit: str  # in words; empty: not judged
    over: bool


def judge(measured: Measured) -> list[Row]:
    """Each figure by quarters of the time there was."""
    end = measured.samples[-1].at_s if measured.samples else 0.0

    def row(
        name: str,
        unit: str,
        series: Sequence[tuple[float, float]],
        how: Any,
        times: float = 0.0,
        spare: float = 0.0,
    ) -> Row:
        quarters = [
            float(how(values))
            if (values := [v for at, v in series if q * end / 4 <= at < (q + 1) * end / 4 + 1e-6])
            else float("nan")
            for q in range(4)
        ]
        late = [(at, v) for at, v in series if at >= end / 4]
        slope = 3600 * _slope(late)
        over = bool(times) and quarters[3] > quarters[1] * times + spare
        limit = f"at most {times:g}x of the second quarter" if times else ""
        return Row(name, unit, quarters, slope, limit, over)

    rows = []
    growth = GROWTH if end >= STEADY_S else 0.0
    for name in ("streamer", "server"):
        of = [(s.at_s, getattr(s, name)) for s in measured.samples]
        rows += [
            row(f"{name} memory", "MB", [(at, p.memory_bytes / 1e6) for at, p in of], np.median, growth),
            row(f"{name} shared memory", "MB", [(at, p.shared_bytes / 1e6) for at, p in of], np.median),
            row(f"{name} CPU", "%", [(at, 100 * p.cpu_ratio) for at, p in of], np.mean),
            row(f"{name} open files", "", [(at, p.fds) for at, p in of], np.median, GROWTH, SPARE),
            row(f"{name} threads", "", [(at, p.threads) for at, p in of], np.median, GROWTH, SPARE),
        ]
    for name, series in (
        ("step to acknowledged", measured.acknowledged),
        ("step to page's event", measured.shown),
        ("page's queries", measured.queries),
    ):
        in_ms = [(at, 1000 * s) for at, s in series]
        rows.append(row(f"{name} p50", "ms", in_ms, np.median))
        rows.append(row(f"{name} p95", "ms", in_ms, _p95, SLOWER))
    rows.append(row("outbox, most", "", [(s.at_s, s.outbox) for s in measured.samples], max))
    return rows


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Per second, by least squares."""
    if len(points) < 3:
        return float("nan")
    at, value = np.array(points).T
    return float(np.polyfit(at, value, 1)[0])


def show(rows: Sequence[Row]) -> None:
    """Print the table."""
    print(f"\n{'':26} {'1st':>9} {'2nd':>9} {'3rd':>9} {'4th quarter':>12} {'slope/h':>9}")
    for row in rows:
        values = " ".join(f"{value:9.1f}" for value in row.quarters[:3])
        verdict = "OVER: " + row.limit if row.over else "within" if row.limit else ""
        name = f"{row.name}, {row.unit}" if row.unit else row.name
        print(f"{name:26} {values} {row.quarters[3]:12.1f} {row.slope_per_h:+9.1f}  {verdict}")


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--gpus", type=int, default=8, help="simulated; none without a C compiler")
    parser.add_argument(
        "--progress", type=Path, default=Path(tempfile.gettempdir()) / "loaderwatch-soak.jsonl"
    )
    options = parser.parse_args()
    stop = Stop()
    with tempfile.TemporaryDirectory(prefix="loaderwatch-soak-") as folder:
        chain = Chain(Path(folder), options.ranks, options.gpus)
        try:
            chain.start()
            print(
                f"{options.ranks} ranks for {options.seconds:.0f} s; samples go to {options.progress}",
                flush=True,
            )
            measured = asyncio.run(watch(chain, options.seconds, options.progress, stop))
            print("ending, and comparing the ledger with the store", flush=True)
            measured.troubles += chain.end()
            rows_written, wrong = compare(chain)
        finally:
            chain.kill()
    rows = judge(measured)
    show(rows)
    wrong += measured.troubles
    if measured.refused:
        wrong.append(f"queries refused, by status: {measured.refused}")
    for line in wrong[:20]:
        print(f"WRONG  {line}")
    steps = (
        measured.samples[-1].written / measured.samples[-1].at_s / options.ranks if measured.samples else 0.0
    )
    good = not wrong and not any(row.over for row in rows) and bool(measured.samples)
    print(
        f"{rows_written} rows written ({steps:.2f} steps/s of each rank), {'all' if not wrong else 'NOT all'}"
        " in the store exactly once"
    )
    print("within all budgets" if good else "NOT within all budgets")
    told = {
        "benchmark": "soak",
        "ranks": options.ranks,
        "seconds": measured.samples[-1].at_s if measured.samples else 0.0,
        "rows": rows_written,
        "wrong": wrong,
        "figures": [asdict(row) for row in rows],
        "within": good,
    }
    print(json.dumps(told))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
