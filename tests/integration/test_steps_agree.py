"""One meaning of ``steps``: for real trainings with evaluations all places show the same number."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.ports import next_free_port
from tests.fakes.serving import Access, ServeProcess, wait_until
from tests.fakes.streaming import end_processes, kill_group

TRAINING = """
import os, sys, time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch

with_optimizer, epochs, enough = sys.argv[1] == "optimizer", int(sys.argv[2]), Path(sys.argv[3])


def loader(batches, workers):
    return DataLoader(TensorDataset(torch.randn(4 * batches, 8)), batch_size=4, num_workers=workers)


if __name__ == "__main__":
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3) if with_optimizer else None
    train, valid = loader(8, 1), loader(5, 0)
    watched = {"model": model, "optimizer": optimizer} if with_optimizer else {}
    loaderwatch.attach(train, **watched)
    loaderwatch.attach(valid, role="eval")

    def evaluate():
        with torch.no_grad():
            for (x,) in valid:
                model(x)

    for epoch in range(epochs):
        for number, (x,) in enumerate(train):
            model(x).square().mean().backward()
            if number % 2:  # gradients of two batches are accumulated
                if optimizer is not None:
                    optimizer.step()
                else:  # by hand: there is no optimizer to be found
                    with torch.no_grad():
                        for parameter in model.parameters():
                            parameter -= 1e-3 * parameter.grad
                model.zero_grad()
            if number == 3:
                evaluate()  # within the epoch, as Lightning does
            time.sleep(0.02)
        evaluate()
    deadline = time.monotonic() + 300
    while not enough.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
"""
EPOCHS = (3, 2)  # of each rank
BATCHES = [8 * epochs for epochs in EPOCHS]
OPTIMIZER_STEPS = [4 * epochs for epochs in EPOCHS]
EVALUATED = [2 * 5 * epochs for epochs in EPOCHS]


@contextmanager
def trainings(folder: Path, access: Access, how: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two ranks that stay after their last step until there is a file ``enough``."""
    script = folder / "train.py"
    script.write_text(TRAINING)
    ranks = []
    env = {k: v for k, v in os.environ.items() if not k.startswith("LOADERWATCH_")}
    env |= {
        "LOADERWATCH_DIR": str(folder / "host"),
        "LOADERWATCH_SERVER": access.url,
        "LOADERWATCH_TOKEN": access.agent,
        "LOADERWATCH_RUN": "counted",
        "OMP_NUM_THREADS": "1",
        "WORLD_SIZE": "2",
    }
    try:
        for rank, epochs in enumerate(EPOCHS):
            ranks.append(
                subprocess.Popen(
                    [sys.executable, str(script), how, str(epochs), str(folder / "enough")],
                    env=env | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                    start_new_session=True,
                )
            )
        yield ranks
    finally:
        for process in ranks:
            kill_group(process.pid)
            process.wait(30)


def said_by_the_server(access: Access) -> dict[str, Any]:
    """The steps of rank 0 and 1, or of the run (those of its furthest rank), by where they are shown."""
    summary = access.get("/runs/counted/summary")
    (row,) = access.get("/runs")
    return {
        "summary": summary["steps"],
        "ranks": [rank["step"] for rank in summary["ranks"]],
        "the page's list": row["steps"],
    }


def said_in_the_terminal(data_dir: Path) -> dict[str, int]:
    (listed,) = json.loads(command("runs", "--json", "--data-dir", str(data_dir)))
    analyzed = re.search(
        r", (\d+) steps$", command("analyze", "counted", "--data-dir", str(data_dir)), re.MULTILINE
    )
    assert analyzed is not None
    return {"loaderwatch runs": listed["steps"], "loaderwatch analyze": int(analyzed[1])}


def command(*arguments: str) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("LOADERWATCH_")}
    done = subprocess.run(
        [sys.executable, "-m", "loaderwatch", *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def exported(access: Access, metric: str) -> list[int]:
    with access.client() as client:
        text = client.get("/metrics").text
    found = re.findall(rf'^loaderwatch_{metric}{{.*rank="(\d)"}} (\S+)$', text, re.M)
    return [int(float(value)) for _, value in sorted(found)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", ["optimizer", pytest.param("batches", marks=pytest.mark.long)])
def test_every_place_says_the_same_number_of_steps(tmp_path: Path, how: str) -> None:
    steps = OPTIMIZER_STEPS if how == "optimizer" else BATCHES
    expected = {
        "summary": max(steps),
        "ranks": steps,
        "the page's list": max(steps),
    }
    in_terminal = {"loaderwatch runs": max(steps), "loaderwatch analyze": max(steps)}

    def evaluated() -> list[int]:
        return [rank["eval_batches"] for rank in access.get("/runs/counted/summary")["ranks"]]

    data_dir = tmp_path / "server"
    with ServeProcess(data_dir, "--port", str(next_free_port())) as server:
        access = server.start()
        with trainings(tmp_path, access, how) as ranks:
            wait_until("all evaluations", lambda: access.get("/runs") and evaluated() == EVALUATED, 200)
            wait_until("all steps, live", lambda: said_by_the_server(access) == expected, 60)
            assert said_in_the_terminal(data_dir) == in_terminal
            assert exported(access, "steps_total") == steps
            assert exported(access, "eval_batches_total") == EVALUATED
            server.stop(signal.SIGTERM)  # and started again while the training lives
            access = server.start()
            assert said_by_the_server(access) == expected
            assert evaluated() == EVALUATED
            (tmp_path / "enough").touch()
            for rank in ranks:
                assert rank.wait(200) == 0
        wait_until("the end", lambda: access.get("/runs")[0]["state"] == "finished", 200)
        assert said_by_the_server(access) == expected
        end_processes(tmp_path / "host")
        server.stop(signal.SIGTERM)
        assert said_in_the_terminal(data_dir) == in_terminal, "without a server"
        access = server.start()
        assert said_by_the_server(access) == expected
        assert evaluated() == EVALUATED
        assert access.get("/runs/counted/summary")["eval_batches"] == max(EVALUATED)
