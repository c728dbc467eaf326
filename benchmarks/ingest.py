"""What the server bears: envelopes as streamers send them, over real HTTP, with people looking at the page meanwhile.

    python benchmarks/ingest.py --ranks 1024 --seconds 60
    python benchmarks/ingest.py --store-only          # the store alone, no HTTP
    python benchmarks/ingest.py --history 64          # charts of a run, and of one 100 times longer

Each rank makes 10 steps/s and 10 GPU samples/s; 8 ranks share a streamer, which sends two envelopes a second. The
generator is one process beside the server, so on two cores it takes its share from it; its CPU is shown. Prints a table
and a JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import numpy as np
import psutil

from loaderwatch.core.records import TABLES, UNKNOWN
from loaderwatch.core.wire import (
    Envelope,
    GpuInfo,
    HostInfo,
    LoaderInfo,
    ProcessInfo,
    SpanInfo,
    encode,
)
from loaderwatch.server import queries
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.protocol import Store

SECOND: Final = 10**9
RANKS_PER_STREAMER: Final = 8
INTERVAL_S: Final = 0.5
PER_S: Final = 10
TOKEN: Final = "benchmark-token-0123456789abcdef"
RUN: Final = "bench"


class Streamer:
    """Makes the envelopes of one host. Times move on; the other values are drawn once."""

    def __init__(self, number: int, ranks: Sequence[int], world_size: int, workers: int) -> None:
        random = np.random.default_rng(number)
        self.name = f"host-{number:03d}"
        self.workers = workers
        self.ranks = list(ranks)
        self.seq = 0
        count = int(PER_S * INTERVAL_S)
        each = np.repeat(np.array(self.ranks), count)
        self._offsets = np.tile(np.arange(count) * SECOND // PER_S, len(self.ranks))
        wait = random.integers(10**6, 4 * 10**7, len(each))
        step = np.full(len(each), SECOND // PER_S) - wait
        self._steps = _columns(
            "steps",
            len(each),
            rank=each,
            loader=0,
            epoch=0,
            off_main_thread=0,
            wait_ns=wait,
            wait_cpu_ns=wait // 50,
            ready=random.integers(0, 4, len(each)),
            cached=0,
            step_ns=step,
            forward_ns=step // 3,
            backward_ns=step // 2,
            optimizer_ns=step // 10,
        )
        self._gpus = _columns(
            "gpus",
            len(each),
            rank=each,
            gpu=each % 8,
            utilization_ratio=random.random(len(each)),
            power_w=random.random(len(each)) * 700,
            memory_used_bytes=5e10,
            memory_total_bytes=8e10,
            sm_clock_hz=1.8e9,
            temperature_c=60.0,
        )
        self._fetches = _columns(
            "fetches",
            len(each),
            rank=each,
            loader=0,
            worker=np.arange(len(each)) % max(1, workers),
            fetch_ns=random.integers(10**7, 10**8, len(each)),
            collate_ns=10**6,
            samples=32,
            slow_index=random.integers(0, 10**6, len(each)),
            slow_ns=random.integers(10**6, 10**7, len(each)),
            bytes=10**6,
        )
        alive = [(rank, worker) for rank in self.ranks for worker in range(-1, workers)]
        self._processes = _columns(
            "processes",
            len(alive),
            rank=np.array([rank for rank, _ in alive]),
            loader=0,
            worker=np.array([worker for _, worker in alive]),
            pid=np.arange(len(alive)) + 1000,
            state=ord("S"),
            cpu_ratio=random.random(len(alive)),
            rss_bytes=1e9,
        )
        self._alive = alive
        started = time.time_ns() - SECOND
        self._infos = [
            ProcessInfo(
                pid=1000 + rank,
                rank=rank,
                local_rank=rank % RANKS_PER_STREAMER,
                world_size=world_size,
                started_ns=started,
                name="train.py",
                loaders=[
                    LoaderInfo(
                        loader=0,
                        name="train_loader",
                        role="train",
                        class_name="DataLoader",
                        num_workers=workers,
                    )
                ],
            )
            for rank in self.ranks
        ]
        self._gpu_infos = [
            GpuInfo(gpu=rank % 8, uuid=f"GPU-{rank}", name="NVIDIA H200", rank=rank) for rank in self.ranks
        ]
        self._host = HostInfo(name=self.name, cpus=64, usable_cpus=64.0)

    def envelope(self, made_ns: int) -> Envelope:
        """What ended within the interval before ``made_ns``."""
        self.seq += 1
        times = self._offsets + (made_ns - int(INTERVAL_S * SECOND))
        stamps = times.tobytes()
        batch = (times // (SECOND // PER_S)).tobytes()
        tables = {
            "steps": {**self._steps, "request_ns": stamps, "batch": batch, "step": batch},
            "gpus": {**self._gpus, "t_ns": stamps},
            "fetches": {**self._fetches, "request_ns": stamps, "ordinal": batch},
        }
        if self.seq % 2:
            tables["processes"] = {
                **self._processes,
                "t_ns": np.full(len(self._alive), made_ns).tobytes(),
            }
            tables["hosts"] = _columns("hosts", 1, t_ns=made_ns, cpu_ratio=0.5, usable_cpus=64.0)
        spans = [
            SpanInfo(
                rank=rank,
                worker=worker,
                pid=1000 + i,
                phase="step" if worker < 0 else "fetch",
                since_ns=made_ns - 10**7,
                loader=0,
                epoch=0,
                batch=self.seq,
                steps=self.seq * 5,
                batches=self.seq * 5,
            )
            for i, (rank, worker) in enumerate(self._alive)
        ]
        return Envelope(
            run_id=RUN,
            run_name="benchmark",
            stream=self.name,
            seq=self.seq,
            made_ns=made_ns,
            host=self._host,
            processes=self._infos,
            gpus=self._gpu_infos,
            spans=spans,
            tables=tables,
        )

    @property
    def rows(self) -> float:
        """Rows of an envelope, on average."""
        return 3 * len(self.ranks) * PER_S * INTERVAL_S + (len(self._alive) + 1) / 2


def _columns(table: str, rows: int, **given: Any) -> dict[str, bytes]:
    packed = {}
    for column in TABLES[table]:
        value = given.get(column.name, UNKNOWN if column.dtype == "i8" else np.nan)
        kind = "<i8" if column.dtype == "i8" else "<f8"
        packed[column.name] = np.broadcast_to(np.asarray(value), (rows,)).astype(kind).tobytes()
    return packed


def streamers(ranks: int, workers: int) -> list[Streamer]:
    """Enough of them for so many ranks."""
    return [
        Streamer(i, range(first, min(first + RANKS_PER_STREAMER, ranks)), ranks, workers)
        for i, first in enumerate(range(0, ranks, RANKS_PER_STREAMER))
    ]


# -- over HTTP


class Connection:
    """A keep-alive HTTP/1.1 connection, as bare as can be: the generator must not be what is measured."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**26)
        assert self._reader is not None
        self._writer.write(self._head(method, path, len(body)) + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.split("content-length:", 1)[1].split("\r\n", 1)[0])
        return int(head.split(" ", 2)[1]), await self._reader.readexactly(length)

    async def events(self, path: str) -> asyncio.StreamReader:
        """The open stream of server-sent events."""
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**26)
        self._writer.write(self._head("GET", path, 0))
        await reader.readuntil(b"\r\n\r\n")
        return reader

    def _head(self, method: str, path: str, length: int) -> bytes:
        return (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Type: application/msgpack\r\nContent-Length: {length}\r\n\r\n"
        ).encode()

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.close()


@dataclass
class Measured:
    """Seconds, by what took them."""

    ingest: list[float] = field(default_factory=list)
    queries: dict[str, list[float]] = field(default_factory=dict)
    tick: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)  # the generator behind its own schedule
    statuses: dict[int, int] = field(default_factory=dict)
    rows: float = 0.0
    payload_bytes: int = 0
    unseen: list[float] = field(default_factory=list)  # when envelopes were made that no tick has covered yet
    cpu_ratio: list[float] = field(default_factory=list)
    rss_bytes: int = 0


async def _stream(streamer: Streamer, port: int, begin: float, seconds: float, measured: Measured) -> None:
    connection = Connection(port)
    try:
        for number in range(int(seconds / INTERVAL_S)):
            due = begin + (number + streamer.ranks[0] % 128 / 128) * INTERVAL_S  # spread over the interval
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            measured.late.append(max(0.0, time.monotonic() - due))
            made_ns = time.time_ns()
            body = encode(streamer.envelope(made_ns))
            measured.unseen.append(made_ns / 1e9)
            sent = time.monotonic()
            while True:
                status, _ = await connection.ask("POST", "/api/v1/ingest", body)
                measured.statuses[status] = measured.statuses.get(status, 0) + 1
                if status not in (429, 503):
                    break
                await asyncio.sleep(1.0)
            measured.ingest.append(time.monotonic() - sent)
            measured.payload_bytes += len(body)
            if status == 200:
                measured.rows += streamer.rows
    finally:
        connection.close()


async def _look(port: int, ranks: int, until: float, measured: Measured) -> None:
    """What an open page asks for."""
    run = f"/api/v1/runs/{RUN}"
    asks = {
        "summary": f"{run}/summary",
        "series, all ranks": f"{run}/series?{urlencode({'metric': 'data_wait_ratio'})}",
        "series, one rank": f"{run}/series?{urlencode({'metric': 'wait_s', 'rank': ranks // 2})}",
        "series, GPUs": f"{run}/series?{urlencode({'metric': 'gpu_utilization_ratio'})}",
        "heat map": f"{run}/heatmap?{urlencode({'metric': 'data_wait_ratio', 'points': 120})}",
    }
    connection = Connection(port)
    try:
        await asyncio.sleep(3.0)
        while time.monotonic() < until:
            for name, path in asks.items():
                sent = time.monotonic()
                status, body = await connection.ask("GET", path)
                if status != 200:
                    raise RuntimeError(f"{path}: {status} {body[:200]!r}")
                measured.queries.setdefault(name, []).append(time.monotonic() - sent)
                await asyncio.sleep(0.4)
    finally:
        connection.close()


async def _watch(port: int, measured: Measured) -> None:
    await asyncio.sleep(2.0)
    connection = Connection(port)
    try:
        reader = await connection.events(f"/api/v1/runs/{RUN}/events")
        while line := await reader.readline():
            at = line.rfind(b'"newest_at":')
            if not line.startswith(b"data:") or at < 0:
                continue
            newest = float(line[at + 12 :].split(b",")[0].split(b"}")[0])
            now = time.time()
            measured.tick.extend(now - made for made in measured.unseen if made <= newest)
            measured.unseen = [made for made in measured.unseen if made > newest]
    finally:
        connection.close()


async def _meter(process: psutil.Process, measured: Measured) -> None:
    process.cpu_percent()
    while True:
        await asyncio.sleep(1.0)
        measured.cpu_ratio.append(process.cpu_percent() / 100)
        measured.rss_bytes = max(measured.rss_bytes, process.memory_info().rss)


async def _drive(port: int, pid: int, ranks: int, workers: int, seconds: float) -> Measured:
    measured = Measured()
    begin = time.monotonic() + 0.5
    until = begin + seconds
    others = [
        asyncio.create_task(_watch(port, measured)),
        asyncio.create_task(_meter(psutil.Process(pid), measured)),
    ]
    try:
        await asyncio.gather(
            *(_stream(s, port, begin, seconds, measured) for s in streamers(ranks, workers)),
            _look(port, ranks, until, measured),
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


def over_http(ranks: int, workers: int, seconds: float) -> dict[str, Any]:
    """Start a server, drive it, stop it."""
    with tempfile.TemporaryDirectory(prefix="loaderwatch-bench-") as directory, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
        probe.close()
        log = Path(directory) / "server.log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                [
                    *(sys.executable, "-m", "loaderwatch", "serve", "--data-dir", directory),
                    *("--port", str(port), "--token", TOKEN),
                ],
                env={**os.environ, "LOADERWATCH_DIR": directory},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            asyncio.run(_ready(port, server, log))
            own = psutil.Process().cpu_times()
            began = time.monotonic()
            measured = asyncio.run(_drive(port, server.pid, ranks, workers, seconds))
            wall = time.monotonic() - began
            now = psutil.Process().cpu_times()
            stored = sum(path.stat().st_size for path in (Path(directory) / "runs").iterdir())
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait(30)
        said = log.read_text()[-2000:]
    result = {
        "ranks": ranks,
        "workers": workers,
        "seconds": seconds,
        "envelopes": len(measured.ingest),
        "statuses": measured.statuses,
        "envelopes_per_s": len(measured.ingest) / seconds,
        "rows_per_s": measured.rows / seconds,
        "payload_bytes_per_s": measured.payload_bytes / seconds,
        "stored_bytes_per_row": stored / max(1.0, measured.rows),
        "server_cpu_ratio": float(np.mean(measured.cpu_ratio)),
        "server_rss_bytes": measured.rss_bytes,
        "generator_cpu_ratio": (now.user + now.system - own.user - own.system) / wall,
        "generator_late_s": _quantiles(measured.late),
        "ingest_s": _quantiles(measured.ingest),
        "post_to_tick_s": _quantiles(measured.tick),
        **{f"{name} query_s": _quantiles(times) for name, times in measured.queries.items()},
    }
    if "Traceback" in said:
        print(said, file=sys.stderr)
    return result


async def _ready(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        connection = Connection(port)
        try:
            if (await connection.ask("GET", "/healthz"))[0] == 200:
                return
        except OSError:
            await asyncio.sleep(0.2)
        finally:
            connection.close()
    raise RuntimeError(f"the server did not start:\n{log.read_text()[-2000:]}")


# -- without HTTP


def store_only(ranks: int, workers: int, seconds: float) -> dict[str, Any]:
    """Appends of what gathers in 100 ms, as fast as they go."""
    with tempfile.TemporaryDirectory(prefix="loaderwatch-bench-") as directory:
        store = DuckDBStore(Path(directory))
        sources = streamers(ranks, workers)
        rows = 0.0
        appends: list[float] = []
        tidies: list[float] = []
        start_ns = time.time_ns()
        cpu = time.process_time()
        began = time.perf_counter()
        for tick in range(int(seconds / INTERVAL_S)):
            envelopes = [s.envelope(start_ns + int((tick + 1) * INTERVAL_S * SECOND)) for s in sources]
            fifth = -(-len(envelopes) // 5)
            for first in range(0, len(envelopes), fifth):
                appends.append(_timed(lambda part=envelopes[first : first + fifth]: store.append(part)))  # type: ignore[misc]
            rows += sum(s.rows for s in sources)
            if tick % 2:
                tidies.append(_timed(store.tidy))
        wall = time.perf_counter() - began
        cpu = time.process_time() - cpu
        store.close()
        stored = sum(path.stat().st_size for path in Path(directory).iterdir())
    return {
        "ranks": ranks,
        "seconds": seconds,
        "rows": int(rows),
        "times_real_time": seconds / wall,
        "cpu_s_per_million_rows": cpu / rows * 1e6,
        "stored_bytes_per_row": stored / rows,
        "append_s": _quantiles(appends),
        "tidy_s": _quantiles(tidies),
    }


def history(ranks: int) -> dict[str, Any]:
    """Charts of a run of a minute and of one 100 times longer, of the whole run and of its last minute."""
    found: dict[str, Any] = {"ranks": ranks}
    with tempfile.TemporaryDirectory(prefix="loaderwatch-bench-") as directory:
        for name, minutes in (("1 min", 1), ("100 min", 100)):
            store = DuckDBStore(Path(directory) / name.replace(" ", ""))
            sources = streamers(ranks, 0)
            start_ns = time.time_ns() - minutes * 60 * SECOND
            for tick in range(int(minutes * 60 / INTERVAL_S)):
                made_ns = start_ns + int((tick + 1) * INTERVAL_S * SECOND)
                store.append([s.envelope(made_ns) for s in sources])
                if tick % 8 == 0:
                    store.tidy()
            store.tidy()
            for what, times in _charts(store, (start_ns + minutes * 60 * SECOND) / 1e9).items():
                found[f"{what} ({name}) s"] = times
            store.close()
    return found


def _charts(store: Store, end: float) -> dict[str, Any]:
    recent = end - 60
    asks: dict[str, Callable[[], Any]] = {
        "series, all ranks": lambda: queries.series(store, RUN, "data_wait_ratio"),
        "series, one rank": lambda: queries.series(store, RUN, "wait_s", 3),
        "series, GPUs": lambda: queries.series(store, RUN, "gpu_utilization_ratio"),
        "heat map": lambda: queries.heatmap(store, RUN, "data_wait_ratio", points=120),
        "series, last minute": lambda: queries.series(store, RUN, "data_wait_ratio", None, recent),
        "heat map, last minute": lambda: queries.heatmap(store, RUN, "data_wait_ratio", recent, points=120),
        "slow samples": lambda: queries.slow_samples(store, RUN),
        "summary": lambda: queries.stored_summary(store, RUN),
    }
    measured = {}
    for what, ask in asks.items():
        ask()
        measured[what] = _quantiles([_timed(ask) for _ in range(15)])
    return measured


def _timed(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


# -- printing


def _quantiles(seconds: Sequence[float]) -> dict[str, float] | None:
    if not seconds:
        return None
    p50, p95, p99, most = np.percentile(np.array(seconds), [50, 95, 99, 100]).tolist()
    return {"p50": p50, "p95": p95, "p99": p99, "max": most}


def _show(result: dict[str, Any]) -> None:
    width = max(len(name) for name in result)
    for name, value in result.items():
        if isinstance(value, dict) and "p50" in value:
            text = "  ".join(f"{q} {1000 * v:8.1f} ms" for q, v in value.items())
        elif isinstance(value, float):
            text = f"{value:.4g}"
        else:
            text = str(value)
        print(f"{name:{width}}  {text}")
    print(json.dumps(result))


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=2, help="DataLoader workers of each rank")
    parser.add_argument("--store-only", action="store_true")
    parser.add_argument("--history", type=int, metavar="RANKS")
    args = parser.parse_args()
    if args.history:
        _show(history(args.history))
    elif args.store_only:
        _show(store_only(args.ranks, args.workers, args.seconds))
    else:
        _show(over_http(args.ranks, args.workers, args.seconds))


if __name__ == "__main__":
    main()
