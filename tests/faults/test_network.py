"""The network to the server: away for a while, or repeating, delaying, cutting and holding back requests."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.faults.cluster import Cluster, Host, wait_for, wait_or_tell
from tests.faults.ledger import assert_balanced
from tests.faults.light import start_light
from tests.faults.proxy import Proxy


def _waiting(host: Host) -> int:
    return len(list(host.settings.outbox_dir.glob("*/*/*.lwe")))


def _holes(cluster: Cluster, run: str, away: tuple[float, float]) -> list[float]:
    """Times within the outage at which the page's chart of steps has no value."""
    start, end = away
    path = f"/runs/{run}/series?metric=steps_per_s&start={start}&end={end}&points=200"
    series = cluster.server.get(path)
    width = series["bucket_s"]
    drawn = {int(t // width) for t, mean in zip(series["t"], series["mean"], strict=True) if mean}
    whole = range(int(start // width) + 1, int(end // width) - 1)
    assert whole, "the outage is too short to have a hole"
    return [number * width for number in whole if number not in drawn]


def _stay_away(
    cluster: Cluster, seconds: float, *, until: Callable[[], object] | None = None
) -> tuple[float, float]:
    cluster.server.kill()
    gone = time.time()
    time.sleep(seconds)
    if until is not None:
        wait_for(until)
    back = time.time()
    cluster.server.start()
    return gone, back


def test_the_server_is_away_for_seconds(cluster: Cluster) -> None:
    """A host with room keeps all of it; one whose outbox is small drops the oldest and counts them."""
    cluster.server.start()
    began = time.monotonic()
    roomy = cluster.host
    tight = cluster.add_host(LOADERWATCH_OUTBOX_BYTES="60000")
    start_light(roomy, "roomy", ranks=[0, 1], world_size=2, period_s=0.01)
    start_light(tight, "tight", ranks=[0, 1], world_size=2, period_s=0.01)
    wait_for(lambda: len(cluster.server.get("/runs")) == 2)
    enough = tight.steps("tight") + 800  # far more than its outbox holds
    away = _stay_away(cluster, 4.5, until=lambda: tight.steps("tight") > enough)
    cluster.settle()
    lasted_s = time.monotonic() - began
    assert not _holes(cluster, "roomy", away)
    counted = {
        name: cluster.server.get(f"/runs/{name}/summary")["lost_records"] for name in ("roomy", "tight")
    }
    cluster.server.stop()
    runs = cluster.server.data_dir / "runs"
    assert_balanced(roomy.books / "roomy", runs, "roomy")
    result = assert_balanced(tight.books / "tight", runs, "tight", lost=["outbox"])
    assert counted == {"roomy": 0, "tight": result.lost.total()}
    for rank, missing in result.missing["steps"].items():
        assert missing > 50
        # Beside its steps, the dropped envelopes held the rank's rows of "processes": one a second.
        assert missing <= result.lost["outbox", rank] <= missing + lasted_s


@pytest.mark.long
@pytest.mark.timeout(1800, method="signal")
def test_the_server_is_away_for_ten_minutes(cluster: Cluster) -> None:
    """Real training on two hosts, in real time. All data arrives, and the server is not overloaded."""
    cluster.server.start()
    cluster.host.train("alone", step_s=0.02)
    crowd = cluster.add_host()
    start_light(crowd, "crowd", ranks=list(range(16)), world_size=16, period_s=0.1)
    wait_for(lambda: len(cluster.server.get("/runs")) == 2)
    away = _stay_away(cluster, 600.0)
    assert _waiting(crowd) > 1000
    began = time.monotonic()
    wait_or_tell(lambda: _waiting(crowd) + _waiting(cluster.host) < 10, 180, crowd)
    print(f"what ten minutes had left was stored {time.monotonic() - began:.1f} s after the server was back")
    assert not _holes(cluster, "alone", away)
    assert not _holes(cluster, "crowd", away)
    cluster.settle()
    cluster.server.stop()
    runs = cluster.server.data_dir / "runs"
    assert_balanced(cluster.host.books / "alone", runs, "alone")
    assert_balanced(crowd.books / "crowd", runs, "crowd")
    said = (cluster.server.data_dir / "server.log").read_text()
    assert "not stored" not in said


@pytest.mark.long
def test_envelopes_are_repeated_reordered_delayed_and_cut(cluster: Cluster) -> None:
    """All network faults on two streams; then held-back envelopes, newest first, and old ones again."""
    cluster.server.start()
    with Proxy(
        cluster.server.port, cluster.dice, repeat=0.2, delay=0.15, cut=0.15, drop=0.1, hold=0.15
    ) as proxy:
        hosts = [cluster.add_host(f"gpu{n}", LOADERWATCH_SERVER=proxy.url) for n in range(2)]
        for number, host in enumerate(hosts):
            start_light(host, ranks=[number], world_size=2)
        wait_for(lambda: all(proxy.done[what] for what in proxy.faults))
        proxy.release()
        cluster.settle()
        late = proxy.release(old=True)
        state = cluster.server.get("/runs")[0]["state"]
        print(f"the network did: {dict(proxy.done)}; {late} came late or again")
    assert state == "finished", "an old envelope that comes last does not bring the run back to life"
    cluster.server.stop()
    for number, host in enumerate(hosts):
        books = host.books / "run1"
        assert list(books.iterdir())
        for path in books.iterdir():
            if number:
                path.rename(hosts[0].books / "run1" / path.name)
    assert_balanced(hosts[0].books / "run1", cluster.server.data_dir / "runs", "run1")
