"""Everybody is killed at once, or the host goes down: who comes next on this host sends what is left."""

from __future__ import annotations

import os
import shutil
import signal
import time

import pytest

from loaderwatch.core.wire import decode
from loaderwatch.streamer.outbox.outbox import unpack_file
from loaderwatch.streamer.streamer_start import UNATTENDED_S
from tests.faults.cluster import RUN, Cluster, Host, wait_for
from tests.faults.ledger import balance, read_books, read_store
from tests.faults.processes import active_of, kill_everybody


@pytest.mark.long
def test_the_next_run_sends_what_a_killed_one_left(cluster: Cluster) -> None:
    """Every process of a run was killed while the server was away; its rings and envelopes are still sent."""
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
    """All are killed and the same run starts again, as by an elastic launcher; both attempts are stored."""
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
    """Shared memory is lost with its unread records; every envelope on disk arrives with the next run."""
    cluster.server.start()
    host = cluster.host
    left = leave_an_outbox(cluster, host)
    shutil.rmtree(host.settings.rings_dir)
    cluster.server.start()
    host.train("run2")
    host.wait_for_steps(run="run2")
    cluster.prove("run2")
    assert_sent(cluster, host, left)


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="a host name of its own needs a UTS namespace, and that root")
def test_a_container_comes_back_under_another_name(cluster: Cluster) -> None:
    """A directory outlives its container: the next one sends its content when nobody has written for long."""
    cluster.server.start()
    before = cluster.add_host("pod-1")
    left = leave_an_outbox(cluster, before)
    shutil.rmtree(before.settings.rings_dir)
    cluster.server.start()
    after = cluster.add_host("pod-2", data_dir=before.data_dir)
    cluster.hosts.remove(before)
    after.train("run2")
    after.wait_for_steps(run="run2")
    cluster.pause(3.0, 4.0)
    assert before.waiting(), "an outbox that was written to just now is left alone: its host may live"
    long_ago = time.time() - UNATTENDED_S - 60
    for path in before.settings.outbox_dir.glob("run1/*/*"):
        os.utime(path, (long_ago, long_ago))
    after.train("run3", seconds=1.0)  # its streamer looks as it starts
    cluster.prove("run2")
    assert_sent(cluster, before, left)


@pytest.mark.long
def test_the_server_has_sent_what_a_killed_run_left(cluster: Cluster) -> None:
    """All but the server are killed, and nothing runs on this machine again: the server starts a streamer."""
    host = cluster.add_host(own_server=True)
    host.train()
    wait_for(lambda: list(host.settings.runs_dir.glob(f"{RUN}.duckdb")))
    cluster.pause(0.5, 2.0)
    own = host.local_server()
    for pid in host.pids():
        if pid != own:
            os.kill(pid, signal.SIGKILL)
    assert host.waiting()
    wait_for(lambda: not host.waiting())
    cluster.prove(lost=["torn"])


def leave_an_outbox(cluster: Cluster, host: Host) -> int:
    """A run dies with everybody while the server is away; returns how many steps lie in its outbox."""
    host.train()
    host.wait_for_steps()
    active_of(host)
    cluster.pause(0.5, 1.5)
    cluster.server.kill()
    cluster.pause(2.0, 4.0)
    kill_everybody(host)
    wholes = [unpack_file(path.read_bytes()) for path in host.settings.outbox_dir.glob("run1/*/*.lwe")]
    steps = 0
    for whole in wholes:
        assert whole is not None
        steps += len(decode(whole[1]).tables.get("steps", {}).get("rank", b"")) // 8
    assert steps > 0
    return steps


def assert_sent(cluster: Cluster, host: Host, steps: int) -> None:
    """Nothing waits any more; so many steps are stored at the least, none twice and none that never was."""
    assert not host.waiting()
    result = balance(read_books(host.books / RUN), read_store(cluster.server.data_dir / "runs", RUN))
    print(f"{steps} steps waited; {result}")
    assert result.stored["steps"] >= steps
    assert not result.repeated
    assert not any(result.unheard_of.values())
