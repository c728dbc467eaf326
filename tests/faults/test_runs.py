"""Runs that come again under their name, many ranks at once, and several runs beside each other."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter

import pytest

from tests.faults.cluster import RUN, TRAINING, Cluster, wait_for
from tests.faults.ledger import assert_balanced
from tests.faults.light import start_light, states_of_ranks

RANKS = 64


@pytest.mark.long
def test_a_run_comes_again_under_its_name(cluster: Cluster) -> None:
    """Three ranks crash, and two go on under the same name. Everything is stored once; the page shows two."""
    cluster.server.start()
    host = cluster.host
    start_light(host, ranks=[0, 1, 2], world_size=3, seconds=2.0, finish=False)
    wait_for(lambda: host.steps() and not host.streamers())  # it has ended, and everything is sent
    first = cluster.server.get(f"/runs/{RUN}/summary")
    assert (first["state"], len(first["ranks"])) == ("crashed", 3)
    start_light(host, ranks=[0, 1], world_size=2)
    wait_for(lambda: states_of_ranks(cluster) == ["live", "live"])
    (row,) = cluster.server.get("/runs")
    assert (row["state"], row["world_size"]) == ("live", 2)
    cluster.settle()
    second = cluster.server.get(f"/runs/{RUN}/summary")
    assert (second["state"], [rank["rank"] for rank in second["ranks"]]) == ("finished", [0, 1])
    assert (second["attempt"], [one["state"] for one in second["earlier"]]) == (2, ["crashed"])
    assert second["earlier"][0]["steps"] == first["steps"]
    assert cluster.server.get(f"/runs/{RUN}/summary?attempt=1")["steps"] == first["steps"]
    cluster.prove()


@pytest.mark.long
def test_torchrun_restarts_its_ranks(cluster: Cluster) -> None:
    """``torchrun --max-restarts``: one of two ranks is killed, both restart; again if gloo fails at first."""
    cluster.server.start()
    host = cluster.host
    books = host.books / RUN
    books.mkdir()
    plan = json.dumps({"books": str(books), "seconds": 600.0})
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "--max-restarts=1",
    ]
    with (host.data_dir / "job.log").open("ab") as log:
        host.trainers.append(
            subprocess.Popen(
                [*command, str(TRAINING), plan],
                stdout=log,
                stderr=log,
                env=host.environ | {"LOADERWATCH_RUN": RUN, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
                start_new_session=True,
            )
        )
    host.wait_for_steps(20)
    (victim,) = books.glob("train-1-*.log")
    os.kill(int(victim.stem.split("-")[2]), signal.SIGKILL)
    wait_for(lambda: len(list(books.glob("train-*.log"))) == 4, 240)
    wait_for(lambda: states_of_ranks(cluster) == ["live", "live"])
    cluster.settle()
    assert states_of_ranks(cluster) == ["finished", "finished"]
    assert cluster.server.get(f"/runs/{RUN}/summary")["attempts"] == 2, (
        "both ranks came again: one new attempt"
    )
    for attempt in (1, 2):
        found = cluster.server.get(f"/runs/{RUN}/epochs?attempt={attempt}")
        epochs = Counter((e["rank"], e["epoch"]) for e in found)
        assert epochs[0, 0] == epochs[1, 0] == 1, "each rank went once into its first epoch"
    cluster.prove()


def test_sixty_four_ranks_join_within_a_second(cluster: Cluster) -> None:
    """On one host, with as many streamers as come of two ``attach`` at the same moment."""
    cluster.server.start()
    host = cluster.host
    start_light(host, streamers=3, ranks=list(range(RANKS)), world_size=RANKS, period_s=0.1)
    wait_for(lambda: len(states_of_ranks(cluster)) == RANKS)
    cluster.settle()
    assert {rank["state"] for rank in cluster.server.get(f"/runs/{RUN}/summary")["ranks"]} == {"finished"}
    assert len({path.name.split("-")[1] for path in (host.books / RUN).glob("train-*.log")}) == RANKS
    cluster.prove()


@pytest.mark.long
def test_sixty_four_hosts_join_within_a_second(cluster: Cluster) -> None:
    """A streamer each, one server: nobody is refused, everything is stored, all are shown."""
    cluster.server.start()
    hosts = [cluster.add_host(f"node{number:02}") for number in range(RANKS)]
    for number, host in enumerate(hosts):
        start_light(host, ranks=[number], world_size=RANKS, period_s=0.1)
    wait_for(lambda: len(states_of_ranks(cluster)) == RANKS)
    cluster.settle(180)
    found = cluster.server.get(f"/runs/{RUN}/summary")
    assert {rank["state"] for rank in found["ranks"]} == {"finished"}
    assert len({rank["host"] for rank in found["ranks"]}) == RANKS
    for host in hosts:
        assert "answers 5" not in host.log()
        assert "answers 429" not in host.log()
    _prove_together(cluster)


@pytest.mark.long
def test_several_runs_share_a_server(cluster: Cluster) -> None:
    """Three on one host, one on another."""
    cluster.server.start()
    host, other = cluster.host, cluster.add_host("other")
    for number in range(3):
        start_light(host, f"run-{number}", ranks=[0, 1], world_size=2)
    start_light(other, "run-3", ranks=[0, 1], world_size=2)
    for number in range(4):
        wait_for(
            lambda run=f"run-{number}": (  # type: ignore[misc]
                states_of_ranks(cluster, run) == ["live", "live"]
            )
        )
    cluster.settle()
    assert {run["run_id"]: run["state"] for run in cluster.server.get("/runs")} == {
        f"run-{number}": "finished" for number in range(4)
    }
    cluster.server.stop()
    for number in range(4):
        books = (host if number < 3 else other).books / f"run-{number}"
        assert_balanced(books, cluster.server.data_dir / "runs", f"run-{number}")


def _prove_together(cluster: Cluster) -> None:
    """One run on many hosts: their books side by side."""
    cluster.server.stop()
    together = cluster.folder / "books"
    together.mkdir()
    for host in cluster.hosts:
        for path in (host.books / RUN).iterdir():
            shutil.copy(path, together / path.name)
    assert_balanced(together, cluster.server.data_dir / "runs", RUN)
