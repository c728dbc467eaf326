"""Several servers on one ClickHouse: the owner of a run answers for all; another takes over if it dies."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from loaderwatch.core.facts import SpanInfo
from loaderwatch.core.wire import Envelope, encode
from loaderwatch.server.access.tokens import load_tokens
from loaderwatch.server.store.clickhouse import ClickHouseStore
from loaderwatch.server.store.clickhouse.address import parse_address
from loaderwatch.server.store.clickhouse.server_heartbeats import Server, owner_of
from tests.fakes import clickhouse
from tests.fakes.feed import Feed
from tests.fakes.page_session import greeted, sign_in
from tests.fakes.serving import Access, EventReader, ServeProcess, wait_until
from tests.fakes.webhook import Webhook
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(clickhouse.missing() is not None, reason=str(clickhouse.missing()))


class Pair:
    """Two servers of one database, with the same tokens, and the feeds of their runs."""

    def __init__(self, folder: Path, url: str, *args: str) -> None:
        self.folder = folder
        self.url = url
        self.args = args
        self.servers: list[ServeProcess] = []
        self.access: list[Access] = []

    def add(self, *, same_tokens: bool = True) -> Access:
        """Start one more server."""
        number = len(self.servers)
        data = self.folder / f"data{number}"
        data.mkdir(parents=True, exist_ok=True)
        if number and same_tokens:
            shutil.copy(self.folder / "data0" / "token.json", data / "token.json")
        server = ServeProcess(data, "--port", "0", "--store", self.url, *self.args)
        self.servers.append(server)
        self.access.append(server.start())
        if same_tokens:
            wait_until("all know each other", lambda: all(map(self._knows_all, self.access)))
        return self.access[-1]

    def _knows_all(self, access: Access) -> bool:
        with access.client() as client:
            lines = client.get("/metrics").text.splitlines()
        return f"loaderwatch_servers {len(self.access)}" in lines

    def feeds(self, each: int) -> list[Feed]:
        """Make feeds of so many runs for each server to own; those of the first come first."""
        servers = [Server(path.read_text(), "") for path in sorted(self.folder.glob("data*/server_id"))]
        names = [f"run-{number}" for number in range(1000)]
        return [
            Feed(name)
            for server in servers
            for name in [name for name in names if owner_of(name, servers) == server][:each]
        ]

    def judge_of(self, run_id: str) -> int | None:
        """Which server has the run in memory."""
        found = [number for number, access in enumerate(self.access) if run_id in _live_runs(access)]
        return found[0] if len(found) == 1 else None

    def pid(self, number: int) -> int:
        """The process of a server."""
        process = self.servers[number].process
        assert process is not None
        return process.pid

    def kill(self) -> None:
        """End all."""
        for server in self.servers:
            process = server.process
            if process is None:
                continue
            if process.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
                os.killpg(process.pid, signal.SIGKILL)
            if process.stdout is not None and not process.stdout.closed:
                print(process.communicate(timeout=PATIENCE_S)[0])


def _live_runs(access: Access) -> set[str]:
    try:
        with access.client() as client:
            text = client.get("/metrics", timeout=2.0).text
    except OSError:
        return set()
    except Exception:
        return set()
    return {
        line.partition('run="')[2].partition('"')[0]
        for line in text.splitlines()
        if line.startswith("loaderwatch_run_last_seen_timestamp_seconds{")
    }


class Sender(threading.Thread):
    """A host's outbox: an envelope every ``every_s``, each sent, in order, until a server accepts it."""

    def __init__(self, pair: Pair, feed: Feed, every_s: float = 0.4) -> None:
        super().__init__(daemon=True)
        self.pair = pair
        self.feed = feed
        self.every_s = every_s
        self.stuck_since_ns: int | None = None  # the loop waits for data since then
        self.over = threading.Event()
        self.refused = 0

    def _next(self) -> Envelope:
        if self.stuck_since_ns is None:
            return self.feed.envelope()
        at = self.feed.steps
        stuck = SpanInfo(
            rank=0, worker=-1, pid=4000, phase="wait", since_ns=self.stuck_since_ns, loader=0, epoch=0,
            batch=at, step=at, batches=at, steps=at,
        )  # fmt: skip
        return self.feed.envelope(steps=0, spans=[stuck])

    def run(self) -> None:
        """Send until told to end, and until all is taken."""
        turn = 0
        while not self.over.is_set():
            body = encode(self._next())
            while not self._taken(self.pair.access[turn % len(self.pair.access)], body):
                turn += 1
                self.refused += 1
                time.sleep(0.2)
            turn += 1
            self.over.wait(self.every_s)

    def _taken(self, access: Access, body: bytes) -> bool:
        try:
            with access.client(access.agent) as client:
                answer = client.post("/api/v1/ingest", content=body, timeout=3.0)
        except httpx.HTTPError:
            return False  # killed or stopped: the balancer would choose another one
        assert answer.status_code == 200 or answer.status_code >= 500, answer.text
        return answer.status_code == 200

    def finish(self) -> None:
        """Send what is left."""
        self.over.set()
        self.join(PATIENCE_S)
        assert not self.is_alive(), "envelopes are left that no server has taken"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[clickhouse.Server]:
    server = clickhouse.Server(tmp_path / "engine")
    yield server
    server.kill()


@pytest.fixture
def pair(engine: clickhouse.Server, tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path, engine.url("runs"))
    made.add()
    made.add()
    yield made
    made.kill()


def _send(access: Access, envelope: Envelope) -> dict[str, Any]:
    """Send until it is taken, as a streamer does."""

    def sent() -> dict[str, Any] | None:
        with access.client(access.agent) as client:
            answer = client.post("/api/v1/ingest", content=encode(envelope))
        assert answer.status_code in (200, 503), answer.text
        return answer.json() if answer.status_code == 200 else None

    return wait_until("an envelope is taken", sent)


def _steps(access: Access, run_id: str) -> int:
    with access.client() as client:
        answer = client.get(f"/api/v1/runs/{run_id}/summary")
    return int(answer.json()["steps"] or 0) if answer.status_code == 200 else -1


def _judges(pair: Pair, feeds: list[Feed]) -> dict[str, int]:
    """Which server judges each run, once only one does."""

    def settled() -> dict[str, int] | None:
        found = {feed.run_id: pair.judge_of(feed.run_id) for feed in feeds}
        settled = {run_id: judge for run_id, judge in found.items() if judge is not None}
        return settled if len(settled) == len(found) else None

    return wait_until("one server judges each run", settled)


def _see_all_steps(access: Access, feeds: list[Feed]) -> None:
    wait_until("all steps are seen", lambda: all(_steps(access, feed.run_id) == feed.steps for feed in feeds))


def _alike(one: Access, other: Access, path: str, **query: Any) -> None:
    """Both answer alike, unless a look at the live run, whose ages change, comes between the requests."""
    wait_until(f"{path} alike through both", lambda: one.get(path, **query) == other.get(path, **query))


def test_every_server_takes_every_envelope_and_answers_every_page(pair: Pair) -> None:
    feeds = pair.feeds(2)
    for turn in range(4):
        for feed in feeds:
            _send(pair.access[turn % 2], feed.envelope())
    assert list(_judges(pair, feeds).values()) == [0, 0, 1, 1]
    one, other = pair.access
    _see_all_steps(one, feeds)
    _see_all_steps(other, feeds)
    for feed in feeds:
        for path in ("findings", "ranks", "workers", "epochs", "gpus", "contents"):
            _alike(one, other, f"/runs/{feed.run_id}/{path}")
        _alike(one, other, f"/runs/{feed.run_id}/series", metric="wait_s", points=50)
    for access in pair.access:
        assert {(row["run_id"], row["steps"]) for row in access.get("/runs")} == {
            (feed.run_id, feed.steps) for feed in feeds
        }
    with ExitStack() as stack:
        run_id = feeds[0].run_id
        readers = [stack.enter_context(EventReader(access, run_id)) for access in pair.access]
        for reader in readers:
            reader.wait("a snapshot", lambda event: event["event"] == "snapshot")
        _send(one, feeds[0].envelope())
        steps = feeds[0].steps
        for reader in readers:
            reader.wait("the next steps", lambda event: (event["summary"] or {}).get("steps") == steps)


def test_hosts_of_one_run_send_to_servers_that_do_not_own_it(pair: Pair) -> None:
    """The owner gets their envelopes in bundles. Each host has its own receipt, and only its own errors."""
    run_id = pair.feeds(1)[0].run_id
    hosts = [Feed(run_id, host=f"gpu{rank:03d}", rank=rank, world_size=24) for rank in range(24)]
    access = pair.access[1]
    first = _send(pair.access[0], hosts[0].envelope())
    assert first["stored_seq"] == 1
    with access.client(access.agent) as client, ThreadPoolExecutor(25) as pool:

        def post(body: bytes) -> httpx.Response:
            return client.post("/api/v1/ingest", content=body)

        for _ in range(4):
            nonsense = pool.submit(post, b"\x81\xa6run_id\xa5" + run_id.encode())
            answers = list(pool.map(post, [encode(host.envelope()) for host in hosts]))
            assert [answer.status_code for answer in answers] == [200] * len(hosts)
            assert [answer.json()["stored_seq"] for answer in answers] == [host.seq for host in hosts]
            assert nonsense.result().status_code == 400
    assert _judges(pair, pair.feeds(1)[:1]) == {run_id: 0}

    def steps() -> list[int]:
        return [row["step"] for row in access.get(f"/runs/{run_id}/ranks")["rows"]]

    wait_until("all steps are seen", lambda: steps() == [host.steps for host in hosts])
    for host in hosts:
        assert host.steps == host.seq * 5


def test_when_a_server_is_killed_another_takes_over(pair: Pair) -> None:
    feeds = pair.feeds(3)
    for feed in feeds:
        _send(pair.access[0], feed.envelope())
    assert list(_judges(pair, feeds).values()) == [0, 0, 0, 1, 1, 1]
    began = time.monotonic()
    pair.servers[0].kill()
    other = pair.access[1]
    wait_until("the other judges all", lambda: {feed.run_id for feed in feeds} <= _live_runs(other))
    print(f"taken over within {time.monotonic() - began:.1f} s")
    for feed in feeds:
        _send(other, feed.envelope())
    _see_all_steps(other, feeds)


def test_a_server_that_joins_takes_its_share_and_gives_it_back(pair: Pair) -> None:
    third = pair.folder / "data2"
    third.mkdir()
    (third / "server_id").write_text("third")
    feed = pair.feeds(1)[2]  # one that will move
    sender = Sender(pair, feed)
    sender.start()
    first = _judges(pair, [feed])
    with EventReader(pair.access[0], feed.run_id) as reader:
        reader.wait("a snapshot", lambda event: event["event"] == "snapshot")
        pair.add()
        wait_until("the third judges", lambda: pair.judge_of(feed.run_id) == 2)
        wait_until("the page comes again", reader.ended.is_set)
    with EventReader(pair.access[0], feed.run_id) as reader:
        steps = feed.steps
        reader.wait("newer steps", lambda event: (event["summary"] or {}).get("steps", 0) > steps)
        code, output, _ = pair.servers[2].stop()
        assert (code, "Traceback" in output) == (0, False)
        assert _judges(pair, [feed]) == first
    sender.finish()
    _see_all_steps(pair.access[0], [feed])
    _check_books(pair, feed)


def test_servers_that_start_at_the_same_moment_make_the_database_together(
    engine: clickhouse.Server, tmp_path: Path
) -> None:
    pair = Pair(tmp_path, engine.url("runs"))
    tokens = load_tokens(tmp_path / "token.json")
    for number in range(2):
        data = tmp_path / f"data{number}"
        data.mkdir()
        shutil.copy(tmp_path / "token.json", data)
        pair.servers.append(ServeProcess(data, "--port", "0", "--store", pair.url))
    try:
        with ThreadPoolExecutor(2) as threads:
            pair.access = list(threads.map(ServeProcess.start, pair.servers))
        assert {access.owner for access in pair.access} == {tokens.owner}
        feeds = pair.feeds(1)
        for feed in feeds:
            for access in pair.access:
                _send(access, feed.envelope())
        assert list(_judges(pair, feeds).values()) == [0, 1]
        for access in pair.access:
            _see_all_steps(access, feeds)
    finally:
        pair.kill()


def test_whoever_may_do_something_may_do_it_through_every_server(pair: Pair) -> None:
    feed = pair.feeds(1)[1]
    _send(pair.access[0], feed.envelope())
    wait_until("the second judges", lambda: pair.judge_of(feed.run_id) == 1)
    first, second = pair.access
    run = f"/api/v1/runs/{feed.run_id}"
    with first.client(first.viewer) as viewer, first.client() as owner, first.client("") as nobody:
        assert nobody.get(f"{run}/summary").status_code == 401
        assert viewer.get(f"{run}/summary").status_code == 200
        assert viewer.get(f"{run}/contents").json()["may_change"] is False
        assert viewer.patch(run, json={"name": "mine"}).status_code == 403
        assert owner.patch(run, json={"name": "mine"}).json()["name"] == "mine"
        assert owner.get(f"{run}/contents").json()["may_delete"] is True
        assert viewer.get("/api/v1/runs/nope/summary").status_code == 404
        assert owner.post("/api/v1/alerts/nope.1/ack").status_code == 404
        # Nobody but a server says on whose behalf a request comes.
        forged = {"loaderwatch-peer": first.viewer, "loaderwatch-access": "7"}
        assert nobody.get(f"{run}/summary", headers=forged).status_code == 401
    with second.client() as owner:
        assert owner.get("/api/v1/runs").json()[0]["name"] == "mine"


def test_one_sign_in_is_good_at_every_server_behind_one_address(
    engine: clickhouse.Server, tmp_path: Path
) -> None:
    pair = Pair(tmp_path, engine.url("runs"), "--public-url", "http://localhost:8080")
    try:
        one, other = pair.add(), pair.add()
        for access in (one, other):
            with access.client("") as browser:
                session = sign_in(browser, access.owner)
        with one.client("") as browser:
            assert greeted(browser, session.ticket)["ticket"] != session.ticket, "it began at the other alone"
            browser.headers["host"] = "localhost:8080"  # as the balancer leaves it
            session = sign_in(browser, one.owner)
        with other.client("") as browser:
            browser.headers["host"] = "localhost:8080"
            assert browser.get("/api/v1/runs").status_code == 401
            greeting = greeted(browser, session.ticket)
            assert greeting["ticket"] == session.ticket
            both = replace(session, boots=f"{session.boots}-{greeting['boot']}")
            assert both.ask(browser, "GET", "/api/v1/runs").status_code == 200
    finally:
        pair.kill()


def test_servers_that_do_not_share_a_token_tell_each_other_nothing(
    engine: clickhouse.Server, tmp_path: Path
) -> None:
    pair = Pair(tmp_path, engine.url("runs"))
    try:
        pair.add()
        pair.add(same_tokens=False)
        feed = pair.feeds(1)[1]
        wait_until("they know each other", lambda: _refused(pair.access[0], feed))
        _, output, _ = pair.servers[0].stop()
        said = [line for line in output.splitlines() if "has not proven that it is one of ours" in line]
        assert len(said) == 1
        assert "give both the same token.json, or the same LOADERWATCH_TOKEN" in said[0]
    finally:
        pair.kill()


def _refused(access: Access, feed: Feed) -> bool:
    with access.client(access.agent) as client:
        answer = client.post("/api/v1/ingest", content=encode(feed.envelope()))
    return answer.status_code == 503 and "not proven" in answer.json()["error"]


def _hang(access: Access, run_id: str) -> dict[str, Any] | None:
    """The newest hang of a run, as a server tells of it; None while there is none, or it cannot say."""
    try:
        with access.client() as client:
            answer = client.get(f"/api/v1/runs/{run_id}/findings", timeout=3.0)
    except httpx.HTTPError:
        return None
    found = answer.json() if answer.status_code == 200 else []
    return next((one for one in found if one["code"] == "hung"), None)


def _ended(access: Access, run_id: str) -> bool:
    hang = _hang(access, run_id)
    return hang is not None and hang["state"] == "resolved"


def _check_books(pair: Pair, feed: Feed) -> None:
    """Every step that was sent is stored once."""
    store = ClickHouseStore(parse_address(pair.url))
    try:
        stored = store.scan(feed.run_id, "steps", 0, 2**62)["step"].tolist()
        assert sorted(stored) == list(range(feed.steps))
        assert store.totals(feed.run_id)[0].batches == feed.steps
        assert store.stored_seq(feed.run_id, f"{feed.run_id}-{feed.host}") == feed.seq
    finally:
        store.close()


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_an_incident_goes_on_when_its_judge_is_lost(
    engine: clickhouse.Server, tmp_path: Path, fault: signal.Signals
) -> None:
    """The judge is killed, or stopped until it is replaced; nothing is lost, counted or reported twice."""
    with Webhook() as webhook:
        pair = Pair(tmp_path, engine.url("runs"), "--hang-after", "2", "--notify", webhook.url)
        try:
            pair.add()
            other = pair.add()
            feed = pair.feeds(1)[0]
            sender = Sender(pair, feed)
            sender.start()
            wait_until("the first judges", lambda: pair.judge_of(feed.run_id) == 0)
            sender.stuck_since_ns = time.time_ns()
            before = wait_until("the hang is told", lambda: _hang(other, feed.run_id))
            webhook.wait_for(1)
            began = time.monotonic()
            os.kill(pair.pid(0), fault)
            wait_until("the other judges", lambda: feed.run_id in _live_runs(other))
            after = wait_until("the hang goes on", lambda: _hang(other, feed.run_id))
            print(
                f"{fault.name}: taken over within {time.monotonic() - began:.1f} s, {sender.refused} refused"
            )
            for name in ("id", "began_at", "state", "key"):
                assert after[name] == before[name]
            if fault == signal.SIGSTOP:
                time.sleep(2.0)
                os.kill(pair.pid(0), signal.SIGCONT)
                wait_until("it has its run again", lambda: pair.judge_of(feed.run_id) == 0)
            time.sleep(3.0)  # in which a server might report again
            hang = wait_until("the hang goes on", lambda: _hang(other, feed.run_id))
            assert (hang["id"], hang["state"]) == (before["id"], "firing")
            sender.stuck_since_ns = None
            wait_until("the hang is over", lambda: _ended(other, feed.run_id))
            sender.finish()
            wait_until("all steps are seen", lambda: _steps(other, feed.run_id) == feed.steps)
            time.sleep(2.0)
            told = [message["title"] for message in webhook.messages]
            assert len(told) == 2, told
            _check_books(pair, feed)
        finally:
            pair.kill()
