"""The load that a server bears: envelopes over real HTTP, as streamers send them, while a page is open.

    python benchmarks/ingest.py --ranks 256 --seconds 60
    python benchmarks/ingest.py --ranks 1024 --seconds 600
    python benchmarks/ingest.py --ranks 1024 --seconds 60 --hang   # also the delay of a hang's alert
    python benchmarks/ingest.py --ranks 256 --seconds 60 --store clickhouse
    # Three servers: hosts send to each in turn, and one server owns the run.
    python benchmarks/ingest.py --ranks 1024 --seconds 60 --store clickhouse --servers 3
    python benchmarks/ingest.py --ranks 1024 --seconds 600
        --store clickhouse://user:password@host:8123/empty_database

The generator is one process beside the server. On two cores it competes for CPU, so its CPU is shown.
Each of its streamers sends what has come since its last request, as real ones do.

*Step to page*: from the end of a step until a page that follows the run sees it. Its envelope is made up to
one interval later. The page asks for the row of its rank after an event, and that row must count the step.

With ``--store clickhouse`` the engine of the tests (chdb) runs beside the server. It competes for CPU, which
is shown, and executes one statement at a time. Prints a table and a JSON line. The exit code is 1 if a budget
is missed; the table says which.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks.client import PAGE_ROWS, Connection, follow, page_queries, quantiles
from benchmarks.envelopes import PER_S, RUN, Streamer, streamers
from benchmarks.meter import Meter
from benchmarks.serving import TOKEN, Serving, serving, store_at
from loaderwatch.core.wire import MAX_TOGETHER, encode, join
from loaderwatch.server.store.clickhouse.server_heartbeats import Server, owner_of
from loaderwatch.server.times import envelope_s

WARM_UP_S: Final = 3.0
STEADY_S: Final = 300.0
"""Memory is judged in runs at least this long: windows reach back two minutes."""
HELD: Final = 0.99
PAGES: Final = 2
"""How many pages of ranks are looked at, of hosts that send half an interval after each other."""
EVENT_P95_S: Final = 2.0
QUERY_P50_S: Final = 0.1
GROWTH: Final = 1.10
STANDS_S: Final = 60.0
LIMIT_S: Final = 30.0
"""The limit of a hang for phases below a tenth of it, as all here (``detect.shared_thresholds``)."""
TOLD_S: Final = 3.0
TO_KNOW_EACH_OTHER_S: Final = 3.0


@dataclass
class Measured:
    """Seconds, by what took them."""

    ingest: list[float] = field(default_factory=list)
    queries: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    shown: list[float] = field(default_factory=list)  # step to event
    late: list[float] = field(default_factory=list)  # the generator behind its own schedule
    statuses: dict[int, int] = field(default_factory=dict)
    offered: int = 0
    rows: float = 0.0
    payload_bytes: int = 0
    cpu_ratio: list[float] = field(default_factory=list)  # of the server that owns the run
    others_cpu_ratio: list[float] = field(default_factory=list)  # of all others together
    memory_bytes: list[int] = field(default_factory=list)
    unseen: dict[int, deque[tuple[int, float]]] = field(default_factory=dict)
    """By first rank of a streamer: count of steps, when it was reached."""
    stood_at: float | None = None  # when all ranks came to stand (monotonic)
    told: float | None = None  # from their limit to the alert


async def stream(
    streamer: Streamer,
    port: int,
    begin: float,
    seconds: float,
    measured: Measured,
    odd: int | None = None,
) -> None:
    """Send one host's envelopes for so long; with ``odd``, then those of a hang in which all wait for it."""
    connection = Connection(port, TOKEN)
    first = streamer.ranks[0]
    unseen = measured.unseen[first] = deque()
    interval_s, steps = streamer.interval_s, streamer.steps
    due = begin + first % 1024 / 1024 * interval_s  # spread over the interval
    goes_on_until = due + seconds
    until = goes_on_until if odd is None else goes_on_until + STANDS_S
    try:
        while due < until and measured.told is None:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            made = time.monotonic()
            bodies: list[bytes] = []
            while due < until and due <= made and len(bodies) < MAX_TOGETHER:
                late = made - due
                measured.late.append(late)
                made_ns = time.time_ns() - int(late * 1e9)
                goes_on = due < goes_on_until
                if not goes_on and odd is not None:
                    # All at once, when the last host has sent its last step.
                    measured.stood_at = begin + seconds
                    streamer.stand(time.time_ns() - int((time.monotonic() - measured.stood_at) * 1e9), odd)
                bodies.append(encode(streamer.envelope(made_ns)))
                measured.offered += 1
                if goes_on:
                    unseen.extend(
                        (streamer.seq * steps - back, due - back / streamer.per_s)
                        for back in reversed(range(steps))
                    )
                due += interval_s
            body, sent = join(bodies), time.monotonic()
            while True:
                status, answer = await connection.ask("POST", "/api/v1/ingest", body)
                measured.statuses[status] = measured.statuses.get(status, 0) + len(bodies)
                if status not in (429, 503):
                    break
                await asyncio.sleep(1.0)
            measured.ingest.append(time.monotonic() - sent)
            measured.payload_bytes += len(body)
            if status == 200:
                measured.rows += streamer.rows * len(bodies)
                wanted_s = json.loads(answer).get("envelope_s", interval_s)
                if not goes_on and wanted_s != interval_s:  # as streamers do
                    interval_s = wanted_s
                    streamer.send_every(interval_s)
    finally:
        connection.close()


async def _look(port: int, ranks: int, until: float, measured: Measured) -> None:
    """What an open page asks for."""
    connection = Connection(port, TOKEN)
    try:
        await asyncio.sleep(WARM_UP_S)
        while time.monotonic() < until:
            for name, path in page_queries(RUN, ranks // 2).items():
                sent = time.monotonic()
                status, body = await connection.ask("GET", path)
                if status != 200:
                    raise RuntimeError(f"{path}: {status} {body[:200]!r}")
                measured.queries[name].append(time.monotonic() - sent)
                await asyncio.sleep(0.4)
    finally:
        connection.close()


async def _await_alert(port: int, measured: Measured) -> None:
    """Look for the alert of the standstill, as often as it matters."""
    connection = Connection(port, TOKEN)
    try:
        while measured.stood_at is None or time.monotonic() < measured.stood_at + STANDS_S:
            await asyncio.sleep(0.2)
            if measured.stood_at is None or time.monotonic() < measured.stood_at + LIMIT_S:
                continue
            _, body = await connection.ask("GET", f"/api/v1/runs/{RUN}/findings")
            if any(one["code"] == "hung" and one["severity"] != "info" for one in json.loads(body)):
                measured.told = time.monotonic() - measured.stood_at - LIMIT_S
                return
    finally:
        connection.close()


async def _watch(port: int, ranks: int, measured: Measured) -> None:
    """Look at some pages of the table of ranks, whose hosts send at different times."""

    def seen(now: float, steps: dict[int, int]) -> None:
        for rank, count in steps.items():
            unseen = measured.unseen.get(rank, ())
            while unseen and unseen[0][0] <= count:
                measured.shown.append(now - unseen.popleft()[1])

    await asyncio.sleep(WARM_UP_S)
    for unseen in measured.unseen.values():
        unseen.clear()  # ended while nobody looked
    offsets = {ranks * part // PAGES // PAGE_ROWS * PAGE_ROWS for part in range(PAGES)}
    await follow(port, TOKEN, RUN, offsets, seen)


async def _meter(pids: Sequence[int], measured: Measured) -> None:
    """Look at the processes of the servers, the owner's first."""
    owner, *others = map(Meter, pids)
    while True:
        await asyncio.sleep(1.0)
        read = owner.read()
        measured.others_cpu_ratio.append(sum(other.read().cpu_ratio for other in others))
        measured.cpu_ratio.append(read.cpu_ratio)
        measured.memory_bytes.append(read.memory_bytes)


async def _drive(
    servers: Sequence[Serving], sources: Sequence[Streamer], ranks: int, seconds: float, hang: bool
) -> Measured:
    measured = Measured()
    begin = time.monotonic() + 0.5
    port = servers[-1].port  # as far from the owner as a page can be
    others = [
        asyncio.create_task(_watch(port, ranks, measured)),
        asyncio.create_task(_meter([server.pid for server in servers], measured)),
    ]
    try:
        await asyncio.gather(
            *(
                stream(s, server.port, begin, seconds, measured, ranks // 3 if hang else None)
                for s, server in zip(sources, cycle(servers), strict=False)
            ),
            _look(port, ranks, begin + seconds, measured),
            *([_await_alert(port, measured)] if hang else []),
        )
        await asyncio.sleep(1.5)
        for task in others:
            if task.done():
                task.result()
    finally:
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
    return measured


@dataclass
class Line:
    """One line of the table. ``over`` is None where there is no budget."""

    name: str
    value: Any
    text: str
    budget: str = ""
    over: bool | None = None


def measure(
    ranks: int,
    workers: int,
    seconds: float,
    store: str,
    servers: int = 1,
    *,
    per_s: int = PER_S,
    hang: bool = False,
) -> list[Line]:
    """Start servers, drive them, stop them."""
    with tempfile.TemporaryDirectory(prefix="loaderwatch-bench-") as folder:
        directory = Path(folder)
        with store_at(store, directory) as (address, engine), ExitStack() as stack:
            started = [
                stack.enter_context(serving(directory / f"server{number}", address))
                for number in range(servers)
            ]
            if servers > 1:
                time.sleep(TO_KNOW_EACH_OTHER_S)
                owner = owner_of(RUN, [Server(server.id, "") for server in started])
                started.sort(key=lambda server: server.id != owner.id)
            own, began = psutil.Process().cpu_times(), time.monotonic()
            sources = streamers(ranks, workers, envelope_s(ranks), per_s)
            measured = asyncio.run(_drive(started, sources, ranks, seconds, hang))
            wall, now = time.monotonic() - began, psutil.Process().cpu_times()
            generator = (now.user + now.system - own.user - own.system) / wall
            files = list(directory.glob("server0/runs/*")) if address is None else []
            stored = sum(path.stat().st_size for path in files)
            of_engine = None if engine is None else sum(engine.cpu_times()[:2]) / wall
        said = "".join(server.log.read_text()[-2000:] for server in started)
    lines = _lines(measured, wall, generator, stored, ranks, seconds)
    if hang:
        said_s = "nothing was said" if measured.told is None else f"{measured.told:.1f} s"
        late = measured.told is None or measured.told > TOLD_S
        lines.append(Line("limit to alert", measured.told, said_s, f"at most {TOLD_S:g} s", late))
    if servers > 1:
        of_others = _mean(measured.others_cpu_ratio)
        lines.append(
            Line("other servers' CPU", of_others, f"{of_others:.0%} of one core, {servers - 1} together")
        )
    if of_engine is not None:
        lines.append(Line("engine CPU", of_engine, f"{of_engine:.0%} of one core, its start included"))
    if "Traceback" in said:
        lines.append(Line("errors in the server's log", said, said, "none", True))
    return lines


def _lines(
    measured: Measured, wall: float, generator: float, stored: int, ranks: int, seconds: float
) -> list[Line]:
    offered = measured.offered
    taken = measured.statuses.get(200, 0)
    first, middle, last = _thirds(measured.memory_bytes)
    lines = [
        Line("envelopes offered", offered, f"{offered}"),
        Line(
            "envelopes acknowledged",
            taken,
            f"{taken / max(seconds, wall - 2.0):.1f}/s, {taken / max(1, offered):.1%} of those offered",
            f"{HELD:.0%} of them, as fast as they come",
            taken < offered * HELD
            or (measured.stood_at is None and wall > seconds * 1.02 + 4.0 + envelope_s(ranks))
            or set(measured.statuses) != {200},
        ),
        Line("answers", measured.statuses, str(measured.statuses)),
        Line("rows", measured.rows, f"{measured.rows / seconds:.0f}/s"),
        Line("payload", measured.payload_bytes, f"{measured.payload_bytes / seconds / 1e6:.2f} MB/s"),
        *_stored(stored, measured.rows),
        Line("server CPU", _mean(measured.cpu_ratio), f"{_mean(measured.cpu_ratio):.0%} of one core"),
        Line("generator CPU", generator, f"{generator:.0%} of one core"),
        Line(
            "server memory",
            [first, middle, last],
            f"{first / 1e6:.0f} MB, {middle / 1e6:.0f} MB, {last / 1e6:.0f} MB in the first,"
            " second and last third",
            "the last third at most 1.1x of the second" if seconds >= STEADY_S else "",
            last > middle * GROWTH if seconds >= STEADY_S else None,
        ),
        _quantile_line("generator late", measured.late),
        _quantile_line("ingest", measured.ingest),
        _quantile_line("step to page", measured.shown, "p95", EVENT_P95_S),
    ]
    lines += [
        _quantile_line(f"query: {name}", times, "p50", QUERY_P50_S)
        for name, times in measured.queries.items()
    ]
    return lines


def _stored(stored: int, rows: float) -> list[Line]:
    """Return what DuckDB's files take."""
    each = stored / max(1.0, rows)
    return [Line("stored", each, f"{each:.1f} bytes a row")] if stored else []


def _quantile_line(name: str, seconds: Sequence[float], which: str = "", most: float = 0.0) -> Line:
    found = quantiles(seconds)
    if found is None:
        return Line(name, None, "nothing came", "something comes", True)
    budget = f"{which} at most {1000 * most:.0f} ms" if which else ""
    return Line(name, asdict_of(found), str(found), budget, getattr(found, which) > most if which else None)


def asdict_of(found: Any) -> dict[str, float]:
    """For JSON."""
    return {name: getattr(found, name) for name in found.__struct_fields__}


def _thirds(values: Sequence[int]) -> tuple[float, float, float]:
    """Means."""
    third = max(1, len(values) // 3)
    return _mean(values[:third]), _mean(values[third : 2 * third]), _mean(values[-third:])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=2, help="DataLoader workers of each rank")
    parser.add_argument("--store", default="duckdb", help="duckdb, clickhouse, or an address as for serve")
    parser.add_argument(
        "--hang", action="store_true", help="then let all ranks stand, and wait for the alert"
    )
    parser.add_argument("--steps-per-s", type=int, default=PER_S, help="of each rank, and GPU readings")
    parser.add_argument(
        "--servers", type=int, default=1, help="how many; more than one with ClickHouse alone"
    )
    options = parser.parse_args()
    if options.servers > 1 and options.store == "duckdb":
        parser.error("several servers share a ClickHouse: --store clickhouse")
    lines = measure(
        options.ranks,
        options.workers,
        options.seconds,
        options.store,
        options.servers,
        per_s=options.steps_per_s,
        hang=options.hang,
    )
    per_s = options.steps_per_s
    print(f"{options.ranks} ranks x {per_s} steps/s and as many GPUs at {per_s} Hz, {options.seconds:.0f} s")
    for line in lines:
        verdict = {None: "", True: f"OVER: {line.budget}", False: f"within: {line.budget}"}[line.over]
        print(f"{line.name:26} {line.text:64} {verdict}".rstrip())
    good = not any(line.over for line in lines)
    print("within all budgets" if good else "NOT within all budgets")
    figures = [asdict(line) for line in lines]
    print(
        json.dumps(
            {
                "benchmark": "ingest",
                "ranks": options.ranks,
                "seconds": options.seconds,
                "servers": options.servers,
                "steps_per_s": per_s,
                "store": options.store.partition(":")[0],
                "within": good,
                "figures": figures,
            }
        )
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
