"""kill -9 of a real training: the run is crashed, and its last second is in the store and on the page."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Watched
from tests.faults.cluster import RUN, Cluster, wait_for
from tests.faults.ledger import balance, read_books, read_store

pytestmark = [
    pytest.mark.timeout(600, method="signal"),  # so that what it started is ended
    pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs Linux's /proc"),
]


@dataclass(frozen=True)
class Crash:
    """A training that was killed, and the server that watched it."""

    cluster: Cluster
    killed_at: float  # UTC
    steps_at: list[float]  # when each of its steps began, by its own book: UTC

    def get(self, path: str) -> Any:
        """What the API says of the run."""
        return self.cluster.server.get(f"/runs/{RUN}/{path}")


@pytest.fixture(scope="module")
def crash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crash]:
    with Cluster(tmp_path_factory.mktemp("crash"), random.Random(0)) as cluster:
        cluster.server.start()
        cluster.host.train(batches=80)
        cluster.host.wait_for_steps(120)
        (trainer,) = cluster.host.trainers
        wait_for(lambda: state(cluster) == "live")
        booted_at = time.time() - time.monotonic()
        os.kill(trainer.pid, signal.SIGKILL)
        killed_at = time.time()
        wait_for(lambda: state(cluster) != "live")
        cluster.settle()
        (book,) = (cluster.host.books / RUN).glob("train-0-*.log")
        asked = [line.split() for line in book.read_text().splitlines() if line.startswith("ask ")]
        yield Crash(cluster, killed_at, [booted_at + int(words[-1]) / 1e9 for words in asked])


def state(cluster: Cluster) -> str | None:
    """The run's, as the list of runs has it."""
    return next((str(run["state"]) for run in cluster.server.get("/runs")), None)


def test_the_run_is_crashed(crash: Crash) -> None:
    assert state(crash.cluster) == "crashed"
    summary = crash.get("summary")
    assert (summary["state"], [rank["state"] for rank in summary["ranks"]]) == ("crashed", ["crashed"])
    assert summary["verdict"]["severity"] == "critical"
    title = summary["verdict"]["title"]
    said = re.match(
        r"The training process \(pid (\d+)\) crashed \(SIGKILL\) at (\S+ \S+) in step (\d+) of epoch (\d+)",
        title,
    )
    assert said is not None, title
    (trainer,) = crash.cluster.host.trainers
    steps = crash.cluster.host.steps()
    (book,) = (crash.cluster.host.books / RUN).glob("train-0-*.log")
    last = book.read_text().splitlines()[-1].split()
    assert (int(said[1]), int(said[4])) == (trainer.pid, int(last[1]))
    assert int(said[3]) in (steps - 1, steps)  # the last one, or the wait for the next
    moments = range(int(crash.steps_at[-1]) - 1, int(crash.killed_at) + 1)
    assert said[2] in [time.strftime("%H:%M:%S %Z", time.localtime(moment)) for moment in moments]


def test_the_steps_of_its_last_second_are_stored(crash: Crash) -> None:
    """No step that the training's own books call finished is missing; only the last record may be torn."""
    cluster = crash.cluster
    books = read_books(cluster.host.books / RUN)
    result = balance(books, read_store(cluster.server.data_dir / "runs", RUN))
    assert result.certain["steps"] >= 100
    assert not result.missing["steps"]
    assert result.lost.total() <= 1
    assert not result.repeated


@pytest.mark.parametrize("metric", ["wait_s", "step_s"])
def test_the_last_step_is_in_the_charts(crash: Crash, metric: str) -> None:
    start, end = crash.killed_at - 5, crash.killed_at + 5
    series = crash.get(f"series?metric={metric}&rank=0&start={start}&end={end}")
    known = [t for t, mean in zip(series["t"], series["mean"], strict=True) if mean is not None]
    assert series["bucket_s"] <= 0.1
    # The last step that ended is the one before the last that began; it may have been torn.
    assert crash.steps_at[-3] - series["bucket_s"] < known[-1] <= crash.killed_at


@pytest.mark.browser
def test_the_page_says_crashed(crash: Crash, watched: Watched) -> None:
    page = watched.page
    page.goto(f"{crash.cluster.server.url}/?token={crash.cluster.server.token('viewer')}")
    expect(page.locator(".badge.state-crashed")).to_have_text("Crashed")
    page.locator(".run-link").click()
    expect(page.locator(".page-head .badge").first).to_have_text("Crashed")
    expect(page.locator(".verdict")).to_have_class("verdict tone-critical")
    expect(page.locator(".verdict-title")).to_contain_text("The training process (pid ")
    expect(page.locator(".verdict-title")).to_contain_text(" crashed (SIGKILL) at ")
