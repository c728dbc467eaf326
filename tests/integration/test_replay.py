"""A stored run replayed gives the windows the live server had."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from loaderwatch.core.facts import GpuInfo, Loss, StackDump
from loaderwatch.core.records import TABLES
from loaderwatch.core.wire import Envelope
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.live.summary import summary_of
from loaderwatch.server.queries import charts
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.duckdb.runfile import RunFile
from loaderwatch.server.store.protocol import StoredRun, UnknownRun
from loaderwatch.server.window import replay
from loaderwatch.server.window.builder import WindowBuilder
from tests.fakes.runs import SECOND, T0, envelope, joined, process, span, steps, table

SECONDS = 200


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    opened = DuckDBStore(tmp_path / "runs")
    yield opened
    opened.close()


def _run() -> list[Envelope]:
    """Two hosts with a rank each and an envelope a second: an epoch, a wait of 30 s, a worker that dies."""
    made = []
    for seq in range(1, SECONDS + 1):
        now = T0 + seq * SECOND
        for rank, host in ((0, "host-a"), (1, "host-b")):
            times = now - SECOND + np.arange(10) * SECOND // 10
            tables = {"steps": steps(rank, times, SECOND // 50, SECOND // 20, batch=np.arange(10) + 10 * seq)}
            if 100 < seq <= 130:
                del tables["steps"]
            if seq == 131:
                tables["steps"] = joined(
                    [steps(rank, [T0 + 100 * SECOND], 30 * SECOND + 9, 0), tables["steps"]]
                )
            if seq % 50 == 1:
                tables["epoch_begins"] = table(
                    "epoch_begins",
                    rank=[rank],
                    loader=0,
                    epoch=seq // 50,
                    request_ns=now - SECOND,
                    iter_ns=5,
                    first_wait_ns=9,
                )
            tables["hosts"] = table("hosts", t_ns=[now], cpu_ratio=seq / 1000 + rank)
            tables["gpus"] = table("gpus", rank=[rank], gpu=0, t_ns=[now - 7], utilization_ratio=0.5)
            tables["fetches"] = table(
                "fetches", rank=rank, loader=0, worker=[0, 1], request_ns=now - SECOND, fetch_ns=SECOND // 3
            )
            waiting = 100 < seq <= 130
            spans = [
                span(
                    rank,
                    T0 + 100 * SECOND if waiting else now - 5,
                    phase="wait" if waiting else "step",
                    loader=0,
                ),
                span(rank, now - 9, worker=0, phase="fetch", alive=seq < 150),
            ]
            made.append(
                envelope(
                    seq,
                    stream=host,
                    host=host,
                    processes=[process(rank, 2, state="finished" if seq == SECONDS else "live")],
                    tables=tables,
                    spans=spans,
                    gpus=[GpuInfo(gpu=0, uuid=f"GPU-{rank}", name="H200", rank=rank)],
                    stacks=[StackDump(rank=rank, worker=0, pid=5, taken_ns=now, text=f"at {seq}")]
                    if seq % 60 == 0
                    else [],
                    losses=[Loss(what="ring", rank=rank, count=2, t_ns=now)] if seq == 40 else [],
                )
            )
    return made


def _same(one: RunWindow, other: RunWindow) -> None:
    assert one.now_ns == other.now_ns
    assert one.started_ns == other.started_ns
    assert one.span_s == pytest.approx(other.span_s)
    assert list(one.ranks) == list(other.ranks)
    for rank, left in one.ranks.items():
        right = other.ranks[rank]
        for field in ("host", "made_ns", "process", "span", "workers", "stacks"):
            assert getattr(left, field) == getattr(right, field), field
        for name, columns in TABLES.items():
            if name == "hosts":
                continue
            for column in columns:
                np.testing.assert_array_equal(
                    left.table(name)[column.name], right.table(name)[column.name], f"{name}.{column.name}"
                )
    assert set(one.hosts) == set(other.hosts)
    for host, here in one.hosts.items():
        there = other.hosts[host]
        assert (here.info, here.made_ns, here.gpus) == (there.info, there.made_ns, there.gpus)
        np.testing.assert_array_equal(here.hosts["cpu_ratio"], there.hosts["cpu_ratio"])


@pytest.mark.parametrize("order", [1, -1])
def test_replayed_windows_are_those_of_the_live_server(store: DuckDBStore, order: int) -> None:
    envelopes = _run()
    store.append(envelopes[: len(envelopes) // 2][::order])
    store.append(envelopes[len(envelopes) // 2 :][::order])
    live = WindowBuilder("run-1")
    feed = iter(envelopes)
    count = 0
    for again in replay.windows(
        store, "run-1", every_s=1.0
    ):  # its first row begins a second before the first envelope
        live.add(next(feed))
        live.add(next(feed))
        _same(live.window(), again)
        count += 1
    assert count == SECONDS
    assert next(feed, None) is None


def test_a_server_restarted_in_a_hang_knows_what_was_usual(store: DuckDBStore) -> None:
    """Half an hour without a step later."""
    times = T0 + np.arange(50) * SECOND
    rows = joined([steps(rank, times, SECOND // 50, SECOND // 20) for rank in (0, 1)])
    known = envelope(
        1, made_ns=int(times[-1]), processes=[process(0, 2), process(1, 2)], tables={"steps": rows}
    )
    silent = envelope(2, made_ns=int(times[-1]) + 1800 * SECOND, processes=[process(0, 2), process(1, 2)])
    store.append([known, silent])
    window = replay.rebuild(store, "run-1").window()
    for rank in window.ranks.values():
        assert rank.past("steps")["request_ns"].tolist() == times.tolist()


def test_a_restarted_server_goes_on_where_the_last_one_stopped(store: DuckDBStore) -> None:
    envelopes = _run()
    live = WindowBuilder("run-1")
    for each in envelopes[:300]:
        live.add(each)
    store.append(envelopes[:150])
    store.tidy()
    store.append(envelopes[150:300])
    rebuilt = replay.rebuild(store, "run-1")
    for each in (*envelopes[290:300], *envelopes[300:]):  # some come again
        live.add(each)
        rebuilt.add(each)
        _same(live.window(), rebuilt.window())
    one, other = live.totals(), rebuilt.totals()
    assert one.steps == other.steps == {0: 1701, 1: 1701}
    assert one.lost_records == other.lost_records == 4
    assert one.epochs == other.epochs == {0: 4, 1: 4}
    assert one.wait_s == pytest.approx(other.wait_s)
    assert one.step_s == pytest.approx(other.step_s)
    assert one.boundary_s == pytest.approx(other.boundary_s)


def test_what_is_stored_while_a_server_takes_a_run_up_again_counts_once(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A streamer returns with held-back envelopes at the moment when the restarted server reads the run."""
    envelopes = _run()
    store.append(envelopes[:60])
    came = threading.Thread(target=store.append, args=[envelopes[60:100]])  # with the losses in them
    card = RunFile.stored_run

    asked = []

    def stored_run(file: RunFile) -> StoredRun:
        found = card(file)
        asked.append(found)
        if len(asked) == 1:
            came.start()
            came.join(0.5)  # long enough to be stored, if nothing holds it up
        return found

    monkeypatch.setattr(RunFile, "stored_run", stored_run)
    rebuilt = replay.rebuild(store, "run-1")
    came.join()
    assert asked
    live = WindowBuilder("run-1")
    for each in envelopes[:100]:
        live.add(each)
        rebuilt.add(each)
    assert rebuilt.totals().lost_records == live.totals().lost_records == 4
    assert rebuilt.totals().steps == live.totals().steps


def test_the_summary_of_a_stored_run_is_its_last_live_one(store: DuckDBStore) -> None:
    envelopes = _run()
    live = WindowBuilder("run-1")
    for each in envelopes:
        live.add(each)
    store.append(envelopes)
    before = msgspec.to_builtins(summary_of(RunEvidence(live.window()), live.totals(), state="finished"))
    after = msgspec.to_builtins(charts.stored_summary(store, "run-1"))
    for key in ("lost_s", "data_wait_ratio", "goodput_ratio", "compute_duty_ratio", "steps_per_s"):
        assert after.pop(key) == pytest.approx(before.pop(key)), key
    assert after == before


def test_a_coarser_replay_shows_the_same_rows(store: DuckDBStore) -> None:
    store.append(_run())
    (*_, last) = replay.windows(store, "run-1", every_s=60.0)
    (*_, fine) = replay.windows(store, "run-1", every_s=1.0)
    _same(last, fine)


def test_an_unknown_run_cannot_be_replayed(store: DuckDBStore) -> None:
    with pytest.raises(UnknownRun):
        next(replay.windows(store, "nope"))
    with pytest.raises(UnknownRun):
        replay.rebuild(store, "nope")
