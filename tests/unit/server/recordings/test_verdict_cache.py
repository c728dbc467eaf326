"""Verdicts of runs that are over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loaderwatch.server.live.summary import LOST_AFTER_S
from loaderwatch.server.recordings.verdict_cache import Verdicts
from loaderwatch.server.store.duckdb import DuckDBStore
from tests.fakes.feed import SECOND, Feed

NEVER = float("inf")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    store = DuckDBStore(tmp_path / "runs")
    yield store
    store.close()


def end(store: DuckDBStore, run_id: str, state: str, exit: str | None = None) -> None:
    feed = Feed(run_id)
    store.append([feed.envelope(), feed.envelope(state=state, exit=exit, final=True)])


def test_what_is_known_needs_no_file(store: DuckDBStore, tmp_path: Path) -> None:
    end(store, "good", "finished")
    end(store, "bad", "crashed", "SIGKILL")
    path = tmp_path / "verdicts.json"
    first = Verdicts(store, path)
    now = time.time_ns()
    assert first.of(store.run("good"), now, 0.0) is None, "past the deadline no file is looked at"
    good, bad = first.of(store.run("good"), now, NEVER), first.of(store.run("bad"), now, NEVER)
    assert good is not None
    assert good.title.startswith("Finished")
    assert bad is not None
    assert bad.severity == "critical"
    assert bad.title.startswith("The training process (pid 4000) crashed (SIGKILL) at ")
    first.save()

    again = Verdicts(store, path)
    assert again.of(store.run("good"), now, 0.0) == good
    assert again.of(store.run("bad"), now, 0.0) == bad
    again.save([store.run("bad")])
    end(store, "more", "finished")
    again.keep("more", None)
    assert Verdicts(store, path).of(store.run("good"), now, 0.0) is None, "a deleted run is forgotten"
    again.keep("nowhere", None)


def test_news_of_a_run_makes_its_verdict_anew(store: DuckDBStore) -> None:
    end(store, "run-1", "finished")
    verdicts = Verdicts(store)
    now = time.time_ns()
    assert verdicts.of(store.run("run-1"), now, NEVER) is not None
    feed = Feed("run-1")
    feed.seq = 2
    store.append([feed.envelope(state="finished", final=True)])
    assert verdicts.of(store.run("run-1"), now, 0.0) is None
    assert verdicts.of(store.run("run-1"), now, NEVER) is not None


def test_a_lost_run_is_described_by_the_clock(store: DuckDBStore) -> None:
    store.append([Feed("run-1").envelope()])
    run = store.run("run-1")
    assert Verdicts(store).of(run, time.time_ns(), NEVER) is None
    late = run.received_ns + int((LOST_AFTER_S + 30) * SECOND)
    lost = Verdicts(store).of(run, late, 0.0)
    assert lost is not None
    assert lost.title == "No contact with the run for 45 s; its state is unknown.", "no file is opened"
    lost = Verdicts(store).of(run, late, NEVER)
    assert lost is not None
    assert lost.title.startswith(
        "No contact with the run for 45 s; its state is unknown. At the last contact: "
    )


@pytest.mark.parametrize("content", ["", "[]", '{"x": 1}', "\x00"])
def test_a_spoiled_memory_is_made_again(store: DuckDBStore, tmp_path: Path, content: str) -> None:
    end(store, "good", "finished")
    path = tmp_path / "verdicts.json"
    path.write_text(content)
    verdicts = Verdicts(store, path)
    assert verdicts.of(store.run("good"), time.time_ns(), NEVER) is not None
    verdicts.save()
    assert Verdicts(store, path).of(store.run("good"), time.time_ns(), 0.0) is not None
