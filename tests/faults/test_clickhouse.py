"""ClickHouse is killed or stopped, or one of two servers is killed: the books still balance."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from loaderwatch.server.store.clickhouse.server_heartbeats import Server as Placed
from loaderwatch.server.store.clickhouse.server_heartbeats import owner_of
from tests.fakes import clickhouse
from tests.faults.cluster import RUN, Cluster, Server, wait_for
from tests.faults.light import start_light

pytestmark = pytest.mark.skipif(clickhouse.missing() is not None, reason=str(clickhouse.missing()))
TOKEN: Final = "a-token-that-both-servers-have"
STANDS_STILL_S: Final = 20.0  # longer than a server waits for an answer


class Engines:
    """The engine that is up; ``again`` starts one where a killed one was."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.up = clickhouse.Server(folder)

    def again(self) -> None:
        self.up = clickhouse.Server(self._folder, port=self.up.port)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engines]:
    engines = Engines(tmp_path / "engine")
    yield engines
    engines.up.kill()


def _go_on(cluster: Cluster, run: str = RUN, steps: int = 300) -> None:
    """Let the training do so many more steps."""
    enough = cluster.host.steps(run) + steps
    wait_for(lambda: cluster.host.steps(run) >= enough)


def test_clickhouse_is_killed_again_and_again(cluster: Cluster, engine: Engines) -> None:
    cluster.server.store = engine.up.url("books")
    cluster.server.start()
    start_light(cluster.host, ranks=[0, 1], world_size=2)
    wait_for(lambda: cluster.server.get("/runs"))
    for _ in range(3):
        cluster.pause(0.5, 2.5)
        engine.up.kill()
        _go_on(cluster)
        engine.again()
        wait_for(cluster.server.answers)
    _go_on(cluster)
    cluster.prove()


def test_clickhouse_stands_still(cluster: Cluster, engine: Engines) -> None:
    """For longer than it is waited for: what it takes in when it goes on came again meanwhile."""
    cluster.server.store = engine.up.url("books")
    cluster.server.start()
    start_light(cluster.host, ranks=[0, 1], world_size=2)
    wait_for(lambda: cluster.server.get("/runs"))
    cluster.pause(0.5, 2.5)
    cluster.freeze(engine.up.process.pid, STANDS_STILL_S)
    _go_on(cluster)
    cluster.prove()


def test_the_server_that_judges_is_killed(cluster: Cluster, engine: Engines, tmp_path: Path) -> None:
    """The host sends to the other server, which continues the run; then the first one returns."""
    other = Server(tmp_path / "other", store=engine.up.url("books"))
    cluster.server.store = engine.up.url("books")
    for server in (cluster.server, other):
        server.start(LOADERWATCH_TOKEN=TOKEN)
    try:
        run = _owned_by(other, [cluster.server, other])
        host = cluster.add_host(LOADERWATCH_TOKEN=TOKEN)
        start_light(host, run, ranks=[0, 1], world_size=2)
        wait_for(lambda: _judges(other))
        cluster.pause(0.5, 2.5)
        other.kill()
        wait_for(lambda: _judges(cluster.server))
        _go_on(cluster, run)
        other.start(LOADERWATCH_TOKEN=TOKEN)
        wait_for(lambda: _judges(other))
        _go_on(cluster, run)
        cluster.settle()
        other.stop()
        cluster.prove(run)
    finally:
        other.kill()


def _owned_by(server: Server, servers: list[Server]) -> str:
    """A name of a run that this one of the servers owns."""
    placed = {
        each.port: Placed((each.data_dir / "server_id").read_text().strip(), each.url) for each in servers
    }
    names = (f"run{number}" for number in range(1000))
    return next(name for name in names if owner_of(name, placed.values()) == placed[server.port])


def _judges(server: Server) -> bool:
    """Whether a run is live in this server, which judges it then."""
    request = urllib.request.Request(f"{server.url}/metrics", headers={"authorization": f"Bearer {TOKEN}"})
    with suppress(OSError), urllib.request.urlopen(request, timeout=10) as answer:
        return any(line.startswith(b"loaderwatch_run_") for line in answer)
    return False
