"""Slow, greedy and malformed clients: each is cut off, and the others do not notice."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from loaderwatch.core.wire import MAX_ENVELOPE_BYTES
from loaderwatch.server.access.connection import LEAST_READ, Connection, Server, uvicorn_options
from loaderwatch.server.live.event_stream import Hub, RunState
from tests.fakes.feed import Feed
from tests.fakes.serving import Access, serving
from tests.waiting import PATIENCE_S, wait_until

QUICK_S = 2.0  # a machine with much else to do must not cut a healthy client off


class Quick(Connection):
    """Deadlines that a test can wait for."""

    headers_s = QUICK_S
    body_s = QUICK_S
    reading_s = QUICK_S
    most = 20


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    with serving(tmp_path_factory.mktemp("slow"), connection=Quick) as access:
        yield access


def connect(access: Access, buffer: int | None = None) -> socket.socket:
    connection = socket.socket()
    if buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(PATIENCE_S)
    host, _, port = access.url.partition("://")[2].partition(":")
    connection.connect((host, int(port)))
    return connection


def head(access: Access, line: str, *headers: str, token: str = "") -> bytes:
    lines = [line, f"Host: {access.url.partition('://')[2]}", f"Authorization: Bearer {token}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def trickle(connection: socket.socket, bytes_: bytes) -> None:
    """Send a byte every 50 ms until hung up; a server that counts from the last byte never hangs up."""
    connection.settimeout(0.05)
    for number in range(int(PATIENCE_S / 0.05)):
        try:
            connection.sendall(bytes_[number % len(bytes_)].to_bytes(1, "big"))
            if connection.recv(65536) == b"":
                break
        except TimeoutError:
            continue
        except OSError:
            break
    else:
        pytest.fail("was not hung up on")


def until_closed(connection: socket.socket) -> bytes:
    """What came until the other side hung up."""
    connection.settimeout(PATIENCE_S)
    heard = b""
    try:
        while data := connection.recv(65536):
            heard += data
    except ConnectionError:
        pass
    return heard


def lives(access: Access) -> bool:
    with access.client() as client:
        return client.get("/api/v1/runs").status_code == 200


def test_who_says_nothing_is_hung_up_on(access: Access) -> None:
    with closing(connect(access)) as idle:
        assert until_closed(idle) == b""


def test_headers_that_never_end(access: Access) -> None:
    with closing(connect(access)) as slow:
        slow.sendall(head(access, "GET / HTTP/1.1")[:-2])
        trickle(slow, b"X-a: b\r\n")
    assert lives(access)


def test_headers_that_never_end_on_a_connection_that_was_good(access: Access) -> None:
    with closing(connect(access)) as slow:
        slow.sendall(head(access, "GET /healthz HTTP/1.1"))
        assert slow.recv(65536).startswith(b"HTTP/1.1 200")
        trickle(slow, b"GET")


@pytest.mark.parametrize("token", ["agent", "wrong"])
@pytest.mark.parametrize("framing", ["Content-Length: 5000", "Transfer-Encoding: chunked"])
def test_a_body_that_never_ends(access: Access, framing: str, token: str) -> None:
    token = access.agent if token == "agent" else token
    with closing(connect(access)) as slow:
        slow.sendall(head(access, "POST /api/v1/ingest HTTP/1.1", framing, token=token))
        trickle(slow, b"1\r\nx\r\n")
    access.send(Feed(f"after-{len(framing)}-{len(token)}").envelope())


def test_a_body_without_a_length_is_cut_at_the_limit(access: Access) -> None:
    chunk = b"40000\r\n" + b"x" * 0x40000 + b"\r\n"
    sent = 0
    with closing(connect(access)) as big:
        big.sendall(
            head(access, "POST /api/v1/ingest HTTP/1.1", "Transfer-Encoding: chunked", token=access.agent)
        )
        try:
            while sent < 4 * MAX_ENVELOPE_BYTES:
                big.sendall(chunk)
                sent += len(chunk)
        except OSError:
            pass
        answer = until_closed(big)
    assert sent < 3 * MAX_ENVELOPE_BYTES
    assert not answer or answer.startswith(b"HTTP/1.1 413")
    assert lives(access)


@pytest.mark.parametrize("path", ["/api/v1/alerts/run-1.x/silence"])
def test_small_forms_have_small_limits(access: Access, path: str) -> None:
    with access.client() as client:
        assert client.post(path, content=b"x" * 5000).status_code in (400, 413)
        assert client.post(path, content=iter([b"x" * 3000] * 3)).status_code in (400, 413)


def test_compressed_bodies_are_not_unpacked(access: Access) -> None:
    with access.client(access.agent) as client:
        for encoding in ("gzip", "deflate", "br", "zstd", "gzip, gzip"):
            answer = client.post(
                "/api/v1/ingest", content=b"\x1f\x8b", headers={"content-encoding": encoding}
            )
            assert answer.status_code == 415
            assert answer.json()["field"] == "content-encoding"


def test_headers_have_a_limit(access: Access) -> None:
    for more in (["X: " + "x" * 40_000], [f"X-{number}: x" for number in range(5000)]):
        with closing(connect(access)) as big:
            big.sendall(head(access, "GET / HTTP/1.1", *more)[:-2])
            assert until_closed(big).startswith(b"HTTP/1.1 400")
    assert lives(access)


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
        b"POST /api/v1/alerts/x/ack HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\ntoken",
        b"POST /api/v1/alerts/x/ack HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/v1/alerts/x/ack HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"POST /api/v1/alerts/x/ack HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"POST /api/v1/alerts/x/ack HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n X: folded\r\nA\x00: b\r\n\r\n",
        b"GET /\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_ambiguous_requests_end_the_connection(access: Access, request_: bytes) -> None:
    """Request smuggling needs two readers that disagree on a message. We refuse ambiguous messages."""
    with closing(connect(access)) as connection:
        connection.sendall(request_)
        answer = until_closed(connection)
    statuses = [line for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1")]
    assert all(not status.startswith(b"HTTP/1.1 2") for status in statuses), statuses
    assert lives(access)


def test_a_body_with_two_lengths_is_no_two_requests(access: Access) -> None:
    smuggled = head(access, "GET /healthz HTTP/1.1")
    both = (f"Content-Length: {5 + len(smuggled)}", "Transfer-Encoding: chunked")
    with closing(connect(access)) as connection:
        connection.sendall(
            head(access, "POST /api/v1/alerts/x/ack HTTP/1.1", *both) + b"0\r\n\r\n" + smuggled
        )
        answer = until_closed(connection)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1


def test_more_connections_than_are_served(access: Access) -> None:
    held = [connect(access) for _ in range(3 * Quick.most)]
    try:
        refused = 0
        for connection in held[Quick.most :]:
            connection.settimeout(5)
            try:
                refused += connection.recv(1) == b""
            except ConnectionError:
                refused += 1
        assert refused >= Quick.most
    finally:
        for connection in held:
            connection.close()

    def places_are_free() -> bool:
        with suppress(Exception):
            return lives(access)
        return False

    wait_until("the places are given back", places_are_free)


# ---- readers who do not read


def served(app: Starlette, check: Callable[[int, Hub], None], hub: Hub) -> None:
    async def run() -> None:
        config = uvicorn.Config(app, log_level="error", **uvicorn_options() | {"http": Quick})
        server = Server(config)
        listener = socket.create_server(("127.0.0.1", 0))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        publisher = asyncio.create_task(publish())
        try:
            await asyncio.to_thread(check, listener.getsockname()[1], hub)
        finally:
            publisher.cancel()
            server.should_exit = True
            hub.close()
            await asyncio.wait_for(task, PATIENCE_S)
            listener.close()

    async def publish() -> None:
        number = 0
        while True:
            number += 1
            hub.publish("run", RunState(b'"' + b"x" * 200_000 + b'"', b"[]", float(number)))
            await asyncio.sleep(0.01)

    asyncio.run(run())


def read_for(port: int, seconds: float, pause_s: float, amount: int) -> tuple[int, bool]:
    """Bytes read, and whether the other side hung up."""
    total = 0
    with closing(socket.socket()) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        connection.settimeout(PATIENCE_S)
        connection.connect(("127.0.0.1", port))
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(pause_s)
            try:
                data = connection.recv(amount) if amount else b"-"
            except ConnectionError:
                return total, True
            if not data:
                return total, True
            total += len(data)
    return total, False


def test_a_page_that_does_not_read_its_events_is_dropped(tmp_path: Path) -> None:
    hub = Hub()
    followed = Starlette(routes=[Route("/", lambda _: StreamingResponse(hub.stream("run", None)))])

    def check(port: int, hub: Hub) -> None:
        with closing(socket.socket()) as stalled:
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            stalled.connect(("127.0.0.1", port))
            stalled.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_until("it is served", lambda: hub.clients == 1, pause_s=0.01)
            wait_until("it holds no place any more", lambda: hub.clients == 0)
        total, dropped = read_for(port, 3 * QUICK_S, 0.005, 4 * LEAST_READ)
        assert not dropped, "a slow one that reads is served"
        assert total > LEAST_READ

    served(followed, check, hub)


def test_who_reads_a_big_answer_byte_by_byte_is_cut_off(tmp_path: Path) -> None:
    """What the kernels had taken by then can still be read; the rest was dropped with the connection."""
    big = Starlette(routes=[Route("/", lambda _: Response(b"x" * 2**25))])

    def check(port: int, hub: Hub) -> None:
        with closing(socket.socket()) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            slow.connect(("127.0.0.1", port))
            slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            end = time.monotonic() + 6 * QUICK_S
            while time.monotonic() < end:
                assert slow.recv(1)
                time.sleep(0.05)
            assert len(until_closed(slow)) < 2**24
        total, dropped = read_for(port, 3 * QUICK_S, 0.005, 4 * LEAST_READ)
        assert not dropped, "a slow one that reads is served"
        assert total > LEAST_READ

    served(big, check, Hub())


# ---- the end


def test_no_connection_is_open_after_the_end() -> None:
    """Not even one that is accepted in the moment in which the server has to end."""
    app = Starlette()

    async def run(listener: socket.socket, clients: list[socket.socket]) -> None:
        config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1, **uvicorn_options())
        server = Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        server.should_exit = True
        clients += [socket.create_connection(listener.getsockname()) for _ in range(5)]
        time.sleep(
            0.2
        )  # the loop stands, as under load: its look for the end and the clients come in one turn
        await asyncio.wait_for(task, PATIENCE_S)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        clients: list[socket.socket] = []
        asyncio.run(run(listener, clients))
    for client in clients:
        client.settimeout(1)
        with client, suppress(ConnectionError):
            assert client.recv(1) == b""
