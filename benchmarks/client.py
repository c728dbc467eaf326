"""The clients of the benchmarks: a bare HTTP connection, and a reader of the page's stream of steps.

They must cost almost nothing, because on two cores the client takes CPU from the server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlencode

import msgspec
import numpy as np


class Connection:
    """A keep-alive HTTP/1.1 connection."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body.

        Raises:
            OSError, asyncio.IncompleteReadError: the server hung up; the next call connects again.
        """
        try:
            return await self._ask(method, path, body)
        except BaseException:
            self.close()
            raise

    async def _ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
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
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise RuntimeError(f"{path}: {head[:200]!r}")
        return reader

    def _head(self, method: str, path: str, length: int) -> bytes:
        return (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            f"Authorization: Bearer {self._token}\r\nContent-Type: application/msgpack\r\n"
            f"Content-Length: {length}\r\n\r\n"
        ).encode()

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class _RankRow(msgspec.Struct):
    rank: int
    step: int


class _RankPage(msgspec.Struct):
    rows: list[_RankRow]


_PAGE = msgspec.json.Decoder(_RankPage)
PAGE_ROWS: Final = 16
"""Rows of the page's table of ranks."""


async def follow(
    port: int, token: str, run: str, offsets: Collection[int], seen: Callable[[float, dict[int, int]], None]
) -> None:
    """Follow the run's events as a page does; after each one ask for the rows of its ranks at ``offsets``.

    Calls ``seen(time of arrival (monotonic), steps by rank)``.
    """
    events, asking = Connection(port, token), Connection(port, token)
    paths = [f"/api/v1/runs/{run}/ranks?limit={PAGE_ROWS}&offset={offset}" for offset in offsets]
    try:
        reader = await events.events(f"/api/v1/runs/{run}/events?changes=true")
        while line := await reader.readline():
            if not line.startswith(b"data: {") or b'"summary"' not in line[:40]:
                continue
            for path in paths:
                status, body = await asking.ask("GET", path)
                if status != 200:
                    raise RuntimeError(f"{path}: {status} {body[:200]!r}")
                seen(time.monotonic(), {row.rank: row.step for row in _PAGE.decode(body).rows})
    finally:
        events.close()
        asking.close()


HEAT_ROWS: Final = {"by": "host", "order": "worst", "limit": 64}
"""Which rows of the heat map the page of a run of many ranks asks for."""


def page_queries(run: str, rank: int) -> dict[str, str]:
    """Paths by name: what the run's pages ask for while somebody looks at them."""
    root = f"/api/v1/runs/{run}"

    def series(metric: str, **more: object) -> str:
        return f"{root}/series?{urlencode({'metric': metric, **more})}"

    return {
        "summary": f"{root}/summary",
        "series, all ranks": series("data_wait_ratio"),
        "series, one rank": series("wait_s", rank=rank),
        "series, GPUs": series("gpu_utilization_ratio"),
        "heat map": f"{root}/heatmap?{urlencode({'metric': 'data_wait_ratio', 'points': 120, **HEAT_ROWS})}",
    }


class Quantiles(msgspec.Struct, frozen=True):
    """Of some seconds."""

    p50: float
    p95: float
    p99: float
    max: float

    def __str__(self) -> str:
        return "  ".join(f"{name} {1000 * getattr(self, name):7.1f} ms" for name in self.__struct_fields__)


def quantiles(seconds: Sequence[float]) -> Quantiles | None:
    """None of nothing."""
    return Quantiles(*np.percentile(np.array(seconds), [50, 95, 99, 100]).tolist()) if len(seconds) else None


@contextmanager
def timed(into: Mapping[str, list[float]], name: str) -> Iterator[None]:
    """Note how long the block took, unless it fails."""
    began = time.monotonic()
    yield
    into[name].append(time.monotonic() - began)
