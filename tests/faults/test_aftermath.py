"""Everybody is killed at once, or the host goes down: who comes next on this host sends what is left."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from tests.faults.cluster import RUN, Cluster, Host
from tests.faults.processes import active_of


def kill_everybody(host: Host) -> None:
    """What an out-of-memory kill of a container does, but for the server elsewhere."""
    for pid in host.pids():
        os.kill(pid, signal.SIGKILL)
    for trainer in host.trainers:
        trainer.wait(10)
    assert not host.pids()


def test_the_next_run_sends_what_a_killed_one_left(cluster: Cluster) -> None:
    """Rings in shared memory and envelopes on disk of a run whose every process was killed while the server was away."""
    cluster.server.start()
    host = cluster.host
    host.train()
    host.wait_for_steps()
    active_of(host)
    cluster.pause(0.5, 1.5)
    cluster.server.kill()
    cluster.pause(0.5, 2.0)
    kill_everybody(host)
    assert host.waiting()
    cluster.server.start()
    host.train("run2")
    host.wait_for_steps(run="run2")
    cluster.settle()
    cluster.prove("run2")
    cluster.prove(RUN, lost=["torn"])


@pytest.mark.long
@pytest.mark.parametrize("number", range(3))
def test_a_run_goes_on_under_its_name(cluster: Cluster, number: int) -> None:
    """Everybody is killed and the same run is started again, as by an elastic launcher: both incarnations are stored."""
    cluster.server.start()
    host = cluster.host
    for _ in range(2):
        host.train(method=cluster.dice.choice(["fork", "spawn"]))
        host.wait_for_steps(host.steps() + 5)
        active_of(host)
        cluster.pause(0.0, 2.0)
        kill_everybody(host)
    host.train()
    host.wait_for_steps(host.steps() + 5)
    cluster.prove(lost=["torn"])


@pytest.mark.long
def test_after_a_reboot_the_outbox_is_sent(cluster: Cluster) -> None:
    """Shared memory is gone, and with it what no streamer had read; every envelope on disk arrives with the next run."""
    cluster.server.start()
    host = cluster.host
    host.train()
    host.wait_for_steps()
    active_of(host)
    cluster.pause(0.5, 1.5)
    cluster.server.kill()
    cluster.pause(2.0, 4.0)
    kill_everybody(host)
    before = host.waiting()
    assert any(path.suffix == ".lwe" for path in before)
    shutil.rmtree(host.settings.rings_dir)
    cluster.server.start()
    host.train("run2")
    host.wait_for_steps(run="run2")
    cluster.prove("run2")
    assert not host.waiting()
