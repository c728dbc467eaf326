"""Processes killed and stopped at random moments: every record is stored exactly once or counted as lost."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests.fakes.ports import next_free_port
from tests.faults import processes
from tests.faults.cluster import Cluster

Fault = Callable[[Cluster], tuple[str, ...]]


def test_one_training_through_many_faults(cluster: Cluster) -> None:
    """The quick form: streamer, server and at last the trainer, killed one after the other."""
    cluster.server.start()
    cluster.host.train(batches=80)
    cluster.host.wait_for_steps()
    lost: list[str] = []
    for fault in processes.QUICK:
        cluster.pause(0.0, 1.0)
        lost += fault(cluster)
    cluster.prove(lost=lost)


@pytest.mark.long
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("fault", processes.ALL, ids=lambda fault: fault.__name__)
def test_a_fault(cluster: Cluster, fault: Fault, number: int) -> None:
    """Each fault alone, at several moments, with persistent workers and with new workers in each epoch."""
    if fault is processes.kill_own_server:
        cluster.add_host(own_server=True)
    else:
        cluster.server.start()
    cluster.host.train(batches=80, persistent=number == 1, method="spawn" if number == 2 else "fork")
    cluster.host.wait_for_steps()
    cluster.pause(0.0, 3.0)
    lost = fault(cluster)
    cluster.pause(0.0, 2.0)
    cluster.prove(lost=lost)


@pytest.mark.long
@pytest.mark.parametrize("number", range(3))
def test_one_of_two_ranks_is_killed(cluster: Cluster, number: int) -> None:
    """The other rank's collective fails, or it is killed as well; the records of both are there."""
    cluster.server.start()
    cluster.host.train(ranks=(0, 1), world_size=2, port=next_free_port())
    cluster.host.wait_for_steps(20)
    cluster.pause(0.0, 3.0)
    cluster.dice.choice(cluster.host.trainers).kill()
    for trainer in cluster.host.trainers:
        try:
            trainer.wait(30)
        except subprocess.TimeoutExpired:  # gloo does not always notice; a launcher would end it
            trainer.kill()
    cluster.prove(lost=["torn"])
