"""Streamers that die or stand still: whoever goes on sends every record exactly once."""

from __future__ import annotations

import os
import signal

from tests.fakes.streaming import wait_for
from tests.faults.cluster import Cluster


def test_streamers_are_killed(cluster: Cluster) -> None:
    """The standby, then the active one, while the training goes on."""
    cluster.server.start()
    host = cluster.host
    host.train(seconds=7.0)
    host.wait_for_steps()
    wait_for(host.standby, 30)
    cluster.pause(0.0, 1.0)
    active = host.active()
    assert active is not None
    os.kill(active, signal.SIGKILL)
    wait_for(lambda: host.active() not in (None, active), 10)
    cluster.prove()
