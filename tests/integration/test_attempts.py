"""A run's name is reused after a crash: the new attempt is judged, and the earlier one can be viewed."""

from __future__ import annotations

import os
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
from tests.fakes.streaming import kill_group

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TRAINING = """
import sys, time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch

if __name__ == "__main__":
    batches, enough = int(sys.argv[1]), Path(sys.argv[2])
    loader = DataLoader(TensorDataset(torch.zeros(4 * batches)), batch_size=4, num_workers=1)
    loaderwatch.attach(loader)
    for _ in loader:
        time.sleep(0.02)
    deadline = time.monotonic() + 400
    while not enough.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
"""
RUN = "again"


class Job:
    """A training that is started again and again under one name."""

    def __init__(self, folder: Path, access: Access) -> None:
        self.enough = folder / "enough"
        self._script = folder / "train.py"
        self._script.write_text(TRAINING)
        env = {k: v for k, v in os.environ.items() if not k.startswith("LOADERWATCH_")}
        self._env = env | {
            "LOADERWATCH_DIR": str(folder / "host"),
            "LOADERWATCH_SERVER": access.url,
            "LOADERWATCH_TOKEN": access.agent,
            "LOADERWATCH_RUN": RUN,
            "OMP_NUM_THREADS": "1",
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, batches: int) -> None:
        """So many steps; then it stays until there is a file ``enough``."""
        self.process = subprocess.Popen(
            [sys.executable, str(self._script), str(batches), str(self.enough)],
            env=self._env,
            start_new_session=True,
        )

    def kill(self) -> None:
        """SIGKILL, for its workers as well."""
        assert self.process is not None
        kill_group(self.process.pid)
        self.process.wait(60)


@contextmanager
def job(folder: Path, access: Access) -> Iterator[Job]:
    """Nothing of it is left."""
    made = Job(folder, access)
    try:
        yield made
    finally:
        if made.process is not None:
            made.kill()


def summary(access: Access, attempt: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = access.get(
        f"/runs/{RUN}/summary", **({} if attempt is None else {"attempt": attempt})
    )
    return found


def codes(access: Access, attempt: int | None = None) -> list[str]:
    found = access.get(f"/runs/{RUN}/findings", **({} if attempt is None else {"attempt": attempt}))
    return [finding["code"] for finding in found]


def analyzed(data_dir: Path, *more: str) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("LOADERWATCH_")}
    command = [sys.executable, "-m", "loaderwatch", "analyze", RUN, "--data-dir", str(data_dir), *more]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_for(access: Access, what: str, condition: Any) -> None:
    wait_until(what, lambda: access.get("/runs") and condition(summary(access)), 200)


def test_the_verdict_is_of_the_newest_attempt(tmp_path: Path) -> None:
    data_dir = tmp_path / "server"
    with ServeProcess(data_dir, "--port", str(next_free_port())) as server:
        access = server.start()
        with job(tmp_path, access) as it:
            it.start(40)
            wait_for(access, "40 steps", lambda s: s["steps"] == 40)
            it.kill()
            wait_for(access, "the crash", lambda s: s["state"] == "crashed" and codes(access) == ["crashed"])
            crashed = summary(access)
            assert (crashed["attempt"], crashed["attempts"], crashed["earlier"]) == (1, 1, [])

            it.start(30)
            wait_for(access, "30 steps", lambda s: (s["attempt"], s["steps"]) == (2, 30))
            wait_for(access, "a verdict of its own", lambda s: s["verdict"]["severity"] != "critical")
            _check_the_second(access, data_dir, "live")
            server.stop(signal.SIGTERM)
            access = server.start()
            _check_the_second(access, data_dir, "live")
            it.enough.touch()
            assert it.process is not None
            assert it.process.wait(200) == 0
            wait_for(access, "the end", lambda s: s["state"] == "finished")
            _check_the_second(access, data_dir, "finished")

            it.enough.unlink()
            it.start(20)
            wait_for(access, "20 steps", lambda s: (s["attempt"], s["steps"]) == (3, 20))
            assert [one["state"] for one in summary(access)["earlier"]] == ["crashed", "finished"]
            it.kill()
            wait_for(
                access, "the second crash", lambda s: s["state"] == "crashed" and codes(access) == ["crashed"]
            )
        server.stop(signal.SIGTERM)
        assert "attempt 1 of 3, 40 steps" in analyzed(data_dir, "--attempt", "1"), "without a server"


def _check_the_second(access: Access, data_dir: Path, state: str) -> None:
    now = summary(access)
    assert (now["state"], now["attempt"], now["attempts"], now["steps"]) == (state, 2, 2, 30)
    assert now["verdict"]["severity"] != "critical", now["verdict"]
    assert "crash" not in now["verdict"]["title"]
    assert "crashed" not in codes(access)
    (over,) = now["earlier"]
    assert (over["attempt"], over["state"], over["steps"]) == (1, "crashed", 40)
    assert over["ended_at"] == pytest.approx(now["started_at"])
    (row,) = access.get("/runs")
    assert (row["state"], row["attempts"], row["steps"]) == (state, 2, 30)
    assert [epoch["epoch"] for epoch in access.get(f"/runs/{RUN}/epochs")] == [0]
    series = access.get(f"/runs/{RUN}/series", metric="wait_s")
    assert series["t"][0] >= now["started_at"] - series["bucket_s"]

    before = summary(access, 1)
    assert (before["state"], before["attempt"], before["attempts"], before["steps"]) == ("crashed", 1, 2, 40)
    assert before["verdict"]["severity"] == "critical"
    assert "crashed" in before["verdict"]["title"]
    assert before["ranks"][0]["pid"] != now["ranks"][0]["pid"]
    assert codes(access, 1) == ["crashed"]
    earlier = access.get(f"/runs/{RUN}/series", metric="wait_s", attempt=1)
    assert earlier["t"][-1] < now["started_at"]
    with access.client() as client:
        missing = client.get(f"/api/v1/runs/{RUN}/summary", params={"attempt": 7})
    assert (missing.status_code, missing.json()["field"]) == (404, "attempt")

    assert "attempt 2 of 2, 30 steps" in analyzed(data_dir)
    said = analyzed(data_dir, "--attempt", "1")
    assert "crashed, attempt 1 of 2, 40 steps" in said
    assert "[critical]" in said
