"""A host that never speaks again, while others go on."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from loaderwatch.server.live.run import LOST_BEHIND_S
from tests.faults.cluster import RUN, Cluster, Host, wait_for
from tests.faults.light import start_light
from tests.faults.processes import kill_everybody

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="a host name of its own needs a UTS namespace, and that root"
)


ON_A_BUSY_MACHINE_S = 6.0


def test_a_silent_host_is_lost_within_two_ticks(cluster: Cluster) -> None:
    """A host's rank and streamers are killed, as by a power cut: it shows as lost, the other as live."""
    cluster.server.start()
    stays = cluster.add_host("stays")
    goes = cluster.add_host("goes")
    for rank, host in enumerate((stays, goes)):
        start_light(host, ranks=[rank], world_size=2)
    wait_for(lambda: states(cluster) == ["live", "live"])
    cluster.pause(0.5, 2.0)
    kill_everybody(goes)
    began = time.monotonic()
    wait_for(lambda: states(cluster) == ["live", "lost"], LOST_BEHIND_S + ON_A_BUSY_MACHINE_S)
    print(f"lost after {time.monotonic() - began:.1f} s")
    summary = summary_of(cluster)
    assert summary["state"] in ("live", "hung")
    assert summary["ranks"][1]["host"] == "goes"
    steps = summary["ranks"][0]["step"]
    wait_for(lambda: summary_of(cluster)["ranks"][0]["step"] > steps)
    comes_back(cluster, goes)


def comes_back(cluster: Cluster, host: Host) -> None:
    """The host is back with another run: its streamer sends the rest and reports that the rank crashed."""
    start_light(host, "run2", seconds=1.0)
    wait_for(lambda: states(cluster) == ["live", "crashed"])


def summary_of(cluster: Cluster) -> dict[str, Any]:
    """What the page shows."""
    try:
        found: dict[str, Any] = cluster.server.get(f"/runs/{RUN}/summary")
    except OSError:  # 404: not heard of yet
        return {"ranks": []}
    return found


def states(cluster: Cluster) -> list[str]:
    """By rank."""
    return [rank["state"] for rank in summary_of(cluster)["ranks"]]
