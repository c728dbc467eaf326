"""Faults of processes. Each hits a running training at a random moment and names the losses it may cause."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Final

from tests.fakes.streaming import end_processes
from tests.faults.cluster import BUSY_S, Cluster, Host, wait_for

LONGER_THAN_A_REQUEST_S: Final = (15.5, 18.0)
"""The streamer gives a request up after 15 s and sends it again: the server gets it twice."""


def kill_trainer(it: Cluster) -> tuple[str, ...]:
    """SIGKILL of the training process: at most the record that was being written is torn."""
    os.kill(it.host.trainers[0].pid, signal.SIGKILL)
    return ("torn",)


def kill_worker(it: Cluster) -> tuple[str, ...]:
    """SIGKILL of a DataLoader worker; PyTorch ends the training with an error."""
    kill_one(it, it.host.workers())
    return ("torn",)


def kill_active(it: Cluster) -> tuple[str, ...]:
    """SIGKILL of the streamer that streams."""
    standby_of(it.host)
    was = active_of(it.host)
    os.kill(was, signal.SIGKILL)
    wait_for(lambda: it.host.active() not in (None, was))
    return ()


def kill_standby(it: Cluster) -> tuple[str, ...]:
    """SIGKILL of the streamer that waits."""
    kill_one(it, [standby_of(it.host)])
    return ()


def kill_streamers(it: Cluster) -> tuple[str, ...]:
    """SIGKILL of both at once: the training brings a new one with its next epoch."""
    standby_of(it.host)
    were = it.host.streamers()
    for pid in were:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: it.host.active() not in (None, *were))
    return ()


def kill_server(it: Cluster) -> tuple[str, ...]:
    """SIGKILL of the server, whatever it writes just then; another is started on its files."""
    it.server.kill()
    it.pause(0.0, 1.0)
    it.server.start()
    return ()


def kill_servers(it: Cluster) -> tuple[str, ...]:
    """The same again and again, also while the one before is being caught up with."""
    for _ in range(3):
        kill_server(it)
        it.pause(0.3, 2.0)
    return ()


def kill_own_server(it: Cluster) -> tuple[str, ...]:
    """SIGKILL of the server that the streamer started: it starts another."""
    wait_for(it.host.local_server)
    was = it.host.local_server()
    assert was is not None
    it.pause(1.0, 4.0)
    os.kill(was, signal.SIGKILL)
    wait_for(lambda: it.host.local_server() not in (None, was))
    return ()


def stop_trainer(it: Cluster) -> tuple[str, ...]:
    """SIGSTOP of the training process for a while."""
    it.freeze(it.host.trainers[0].pid, it.dice.uniform(3, 8))
    return ()


def stop_worker(it: Cluster) -> tuple[str, ...]:
    """SIGSTOP of a worker for a while."""
    wait_for(it.host.workers)
    it.freeze(it.dice.choice(it.host.workers()), it.dice.uniform(3, 8))
    return ()


def stop_active(it: Cluster) -> tuple[str, ...]:
    """SIGSTOP the streamer for longer than any timeout. It keeps its lock, so nobody may write its stream."""
    was = active_of(it.host)
    standby_of(it.host)
    seconds = it.dice.choice((it.dice.uniform(3, 6), it.dice.uniform(*LONGER_THAN_A_REQUEST_S)))
    it.freeze(was, seconds)
    assert it.host.active() == was
    # A worker's ring holds its last 512 batches: on a fast machine those of a quarter of a minute.
    return ("ring",) if seconds > LONGER_THAN_A_REQUEST_S[0] else ()


def stop_standby(it: Cluster) -> tuple[str, ...]:
    """The active one dies while the standby stands still: it takes over when it wakes."""
    standby = standby_of(it.host)
    os.kill(standby, signal.SIGSTOP)
    os.kill(active_of(it.host), signal.SIGKILL)
    it.pause(3.0, 6.0)
    os.kill(standby, signal.SIGCONT)
    wait_for(lambda: it.host.active() == standby)
    return ()


def stop_server(it: Cluster) -> tuple[str, ...]:
    """SIGSTOP of the server until a request is given up and sent again."""
    it.freeze(it.server.pid, it.dice.uniform(*LONGER_THAN_A_REQUEST_S))
    return ()


QUICK: Final[tuple[Callable[[Cluster], tuple[str, ...]], ...]] = (kill_active, kill_server, kill_trainer)
"""In this order one training outlives them all, but the last."""

ALL: Final[tuple[Callable[[Cluster], tuple[str, ...]], ...]] = (
    kill_trainer,
    kill_worker,
    kill_active,
    kill_standby,
    kill_streamers,
    kill_servers,
    kill_own_server,
    stop_trainer,
    stop_worker,
    stop_active,
    stop_standby,
    stop_server,
)


def kill_one(it: Cluster, pids: list[int]) -> None:
    """SIGKILL for one of them."""
    os.kill(it.dice.choice(pids), signal.SIGKILL)


def active_of(host: Host) -> int:
    """The active streamer, when there is one."""
    wait_for(host.active)
    pid = host.active()
    assert pid is not None
    return pid


def standby_of(host: Host) -> int:
    """The standby, when there is one."""
    wait_for(host.standby)
    pid = host.standby()
    assert pid is not None
    return pid


def kill_everybody(host: Host) -> None:
    """What an out-of-memory kill of a container does, but for the server elsewhere."""
    end_processes(host.data_dir)
    for trainer in host.trainers:
        trainer.wait(BUSY_S)
