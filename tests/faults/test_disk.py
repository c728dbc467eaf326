"""Disks that are full or cannot be written, real ones: small file systems mounted for the test."""

from __future__ import annotations

import os
import signal
import time

from tests.fakes.streaming import wait_for
from tests.faults.cluster import Cluster
from tests.faults.light import start_light, start_streamer
from tests.faults.mounts import Ballast, Mounts


def test_the_outbox_is_full(mounts: Mounts, cluster: Cluster) -> None:
    """What waits goes through shared memory, over a death of the streamer too; the job's stderr says what to do."""
    cluster.server.start()
    host = cluster.host
    disk = mounts.tmpfs(host.settings.outbox_dir, "256k")
    ballast = Ballast(disk)
    start_light(host, seconds=8.0)
    wait_for(lambda: cluster.server.get("/runs"))
    ballast.fill()
    time.sleep(1.5)
    os.kill(cluster.server.pid, signal.SIGSTOP)  # so that something waits
    time.sleep(1.0)
    active = host.active()
    assert active is not None
    os.kill(active, signal.SIGKILL)
    start_streamer(host)
    time.sleep(1.0)
    os.kill(cluster.server.pid, signal.SIGCONT)
    wait_for(lambda: "Free some space there" in host.log())
    assert list(host.settings.rings_dir.glob("*/state.json"))
    ballast.free()
    cluster.prove()
    said = [
        line for line in (host.data_dir / "job.log").read_text().splitlines() if "cannot write to" in line
    ]
    assert 1 <= len(said) <= 2  # each streamer says it once
    assert str(host.settings.outbox_dir) in said[0]


def test_the_store_is_full(mounts: Mounts, cluster: Cluster) -> None:
    """Envelopes are refused with 503 and wait on their hosts; nothing that was stored is damaged."""
    disk = mounts.tmpfs(cluster.server.data_dir, "48m")
    ballast = Ballast(disk)
    cluster.server.start()
    host = cluster.host
    start_light(host, ranks=[0, 1, 2, 3], world_size=4, seconds=10.0, period_s=0.002)
    wait_for(lambda: cluster.server.get("/runs"))
    time.sleep(1.0)
    ballast.fill()
    wait_for(lambda: len(host.waiting()) > 8, 30)
    wait_for(lambda: "No space left" in cluster.server.get("/runs/run1/summary")["verdict"]["advice"])
    summary = cluster.server.get("/runs/run1/summary")
    assert (summary["state"], summary["verdict"]["severity"]) == ("live", "critical"), (
        "what fails is this server"
    )
    ballast.free()
    cluster.prove()
    assert not list((disk / "runs").glob("*.corrupt*"))
