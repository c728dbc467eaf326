"""Every store answers alike: one suite over DuckDB and ClickHouse, and a run of everything asked of both.

ClickHouse's engine is the real one (``tests.fakes.clickhouse``), or a server that CLICKHOUSE_URL names.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
import numpy as np
import pytest

from loaderwatch.core.answers import Labels
from loaderwatch.core.facts import Loss, ProfileStack, StackDump
from loaderwatch.core.records import LEARNED_FROM, TABLES, TIME_COLUMN, UNKNOWN, ProfilePart
from loaderwatch.server.retention import delete_old_runs
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.facts import UnknownAttempt
from loaderwatch.server.store.metrics import METRICS
from loaderwatch.server.store.protocol import Store, StoredAlert, UnknownRun
from loaderwatch.server.store.sql import charts
from tests.fakes import clickhouse, minutes_apart
from tests.fakes.profiles import OWN, STACKS, TEXTS, ZIP, counts
from tests.fakes.random_runs import END, in_order, in_step, random_run, same
from tests.fakes.runs import SECOND, T0, envelope, joined, process, steps, table

Open = Callable[[], Store]
"""Opens the same store again, as a server that was started again does."""


class Places:
    """Where the stores of these tests lie: a directory, or a database of the engine."""

    def __init__(self, tmp: Path) -> None:
        self._tmp = tmp
        self._server: clickhouse.Server | None = None
        self._opened: list[Store] = []

    def opener(self, kind: str) -> Open:
        """Return what opens a store that is empty at first."""
        name = f"test_{uuid.uuid4().hex[:12]}"

        def open_store() -> Store:
            if kind == "duckdb":
                store: Store = DuckDBStore(self._tmp / name)
            else:
                from loaderwatch.server.store.clickhouse import ClickHouseStore
                from loaderwatch.server.store.clickhouse.address import parse_address

                store = ClickHouseStore(parse_address(self._url(name)))
            self._opened.append(store)
            return store

        return open_store

    def _url(self, database: str) -> str:
        if given := os.environ.get("CLICKHOUSE_URL"):
            return urlunsplit(urlsplit(given)._replace(path=database))
        if self._server is None:
            self._server = clickhouse.Server(self._tmp / "engine")
        return self._server.url(database)

    def close(self) -> None:
        """Close whatever was opened."""
        for store in self._opened:
            store.close()
        if self._server is not None:
            self._server.kill()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    made = Places(tmp_path_factory.mktemp("stores"))
    yield made
    made.close()


needs_clickhouse = pytest.mark.skipif(clickhouse.missing() is not None, reason=str(clickhouse.missing()))


@pytest.fixture(params=["duckdb", pytest.param("clickhouse", marks=needs_clickhouse)])
def open_store(request: pytest.FixtureRequest, places: Places) -> Open:
    return places.opener(request.param)


@pytest.fixture
def store(open_store: Open) -> Store:
    return open_store()


def _one_step(seq: int) -> dict[str, dict[str, bytes]]:
    return {"steps": steps(0, [T0 + seq * SECOND], [seq], [1])}


def _waits(store: Store, run_id: str = "run-1") -> list[int]:
    waits: list[int] = store.scan(run_id, "steps", 0, 2**62)["wait_ns"].tolist()
    return waits


# ---- what a store promises


def test_texts_of_sampled_stacks_are_stored_once_and_found_by_their_counts(open_store: Open) -> None:
    for seq in (1, 2):
        store = open_store()
        rows = counts([ZIP, 0, 5], [3, 2, 1], t_ns=T0 + seq * SECOND)
        repeated = [*STACKS, ProfileStack(id=ZIP, text="another")]
        store.append([envelope(seq, tables={"profile": rows}, profile_stacks=repeated)])
        store.close()
    store = open_store()
    store.append([envelope(9, tables={"profile": counts([OWN], [4], t_ns=T0 + 9 * SECOND)})])
    assert list(store.all_profile_stacks("run-1")) == sorted(STACKS, key=lambda stack: stack.id)
    (zipped,) = (stack for stack in STACKS if stack.id == ZIP)
    assert store.profile_stacks("run-1", T0, T0 + 5 * SECOND) == [zipped]
    found = store.profile("run-1", ProfilePart.FETCH, 0, T0, END)
    assert found.texts == {number: TEXTS[number] for number in (ZIP, OWN)}
    counted = dict(zip(found.counts["stack"].tolist(), found.counts["samples"].tolist(), strict=True))
    assert counted == {0: 4, 5: 2, ZIP: 6, OWN: 4}
    assert [stack.id for stack in store.recall("run-1", 10**12).profile_stacks] == [ZIP, OWN]
    assert [stack.id for stack in store.recent("run-1", SECOND, [0], []).profile_stacks] == [OWN]


def test_an_envelope_is_stored_once(store: Store) -> None:
    first, second = envelope(1, tables=_one_step(1)), envelope(2, tables=_one_step(2))
    assert store.append([first, first]) == [first]
    assert store.append([first, second]) == [second]
    assert store.append([]) == []
    assert _waits(store) == [1, 2]
    assert store.stored_seq("run-1", "host-a") == 2
    assert store.stored_seq("run-1", "host-b") == store.stored_seq("run-2", "host-a") == 0


def test_envelopes_come_in_any_order_and_again_after_a_restart(open_store: Open) -> None:
    order = [5, 1, 2, 9, 2, 3, 8, 5, 9, 4]
    for seq in order:
        store = open_store()
        store.append([envelope(seq, tables=_one_step(seq))])
        store.close()
    store = open_store()
    assert _waits(store) == sorted(set(order))
    fresh = store.append([envelope(n, tables=_one_step(n)) for n in range(1, 11)])
    assert [each.seq for each in fresh] == [6, 7, 10]
    assert _waits(store) == list(range(1, 11))
    assert store.recall("run-1", 10**12).sequences == {"host-a": [(1, 10)]}


def test_runs_and_streams_are_kept_apart(store: Store) -> None:
    other = envelope(1, stream="host-b", host="host-b", processes=[process(1, 2)], tables=_one_step(3))
    store.append([envelope(1, tables=_one_step(1)), envelope(1, run_id="run-2", tables=_one_step(2)), other])
    assert sorted(_waits(store)) == [1, 3]
    assert _waits(store, "run-2") == [2]
    assert {run.run_id for run in store.runs()} == {"run-1", "run-2"}
    run = store.run("run-1")
    assert (run.rank_hosts, run.world_size, run.state) == ({0: "host-a", 1: "host-b"}, 2, "live")
    assert store.bounds("run-1") == (T0 + SECOND, T0 + SECOND)


def test_a_run_that_nobody_knows_is_said_to_be_unknown(store: Store) -> None:
    for question in (
        lambda run: store.run(run), lambda run: store.alerts(run), lambda run: store.bounds(run),
        lambda run: store.delete(run), lambda run: store.label(run, Labels()), lambda run: store.totals(run),
        lambda run: store.recall(run, 1),
        lambda run: store.scan(run, "steps", 0, 1), lambda run: list(store.events(run, 0, 1)),
        lambda run: list(store.facts(run, 1)), lambda run: store.save_alerts(run, [_alert("a")]),
    ):  # fmt: skip
        for name in ("run-9", "no' OR '1'='1", "../etc"):
            with pytest.raises(UnknownRun):
                question(name)
    store.append([envelope(1)])
    with pytest.raises(UnknownAttempt):
        store.recall("run-1", 1, attempt=7)


def test_unknown_and_nan_are_gaps_and_come_back_as_they_were(store: Store) -> None:
    times = T0 + np.arange(4) * SECOND
    rows = table(
        "steps",
        rank=[0, 0, UNKNOWN, 1],
        loader=0,
        request_ns=times,
        wait_ns=[5, UNKNOWN, 7, 2**60],
        off_main_thread=0,
    )
    gpus = table("gpus", rank=0, gpu=[0, 0, 0, UNKNOWN], t_ns=times, power_w=[1.5, np.nan, 0.0, np.inf])
    hosts = table("hosts", t_ns=times, cpu_ratio=[0.0, np.nan, 1.0, 0.5])
    store.append(
        [envelope(9, host="a'\\ // & 2 FROM steps ?", tables={"steps": rows, "gpus": gpus, "hosts": hosts})]
    )
    found = store.scan("run-1", "steps", 0, 2**62)
    assert found["rank"].tolist() == [0, 0, UNKNOWN, 1]
    assert found["wait_ns"].tolist() == [5, UNKNOWN, 7, 2**60]
    assert found["epoch"].dtype == np.int64
    np.testing.assert_array_equal(
        store.scan("run-1", "gpus", 0, 2**62)["power_w"], [1.5, np.nan, 0.0, np.inf]
    )
    assert set(store.scan("run-1", "hosts", 0, 2**62)["host"]) == {"a'\\ // & 2 FROM steps ?"}
    drawn = store.series("run-1", "host_cpu_ratio", 0, T0, T0 + 4 * SECOND, 2)
    assert drawn.mean.tolist() == [0.0, 0.75]
    assert store.series("run-1", "gpu_power_w", 0, T0, T0 + SECOND, 10).mean.tolist() == [1.5]
    assert store.series("run-1", "h2d_s", None, T0, T0 + 4 * SECOND, 10).t_ns.tolist() == []


def test_a_bucket_has_its_beginning_and_not_its_end(store: Store) -> None:
    at = [T0, T0 + 10 * SECOND - 1, T0 + 10 * SECOND, T0 + 20 * SECOND - 1, T0 + 20 * SECOND]
    store.append(
        [
            envelope(
                60,
                tables={
                    "steps": steps(0, at, [1 * SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND, 5 * SECOND], 1)
                },
            )
        ]
    )
    assert T0 % (10 * SECOND) == 0
    found = store.series("run-1", "wait_s", None, T0, T0 + 20 * SECOND, 2)
    assert found.bucket_ns == 10 * SECOND
    assert (found.t_ns - T0).tolist() == [0, 10 * SECOND]
    assert (found.low.tolist(), found.mean.tolist(), found.high.tolist()) == ([1, 3], [1.5, 3.5], [2, 4])
    assert store.scan("run-1", "steps", T0 + 1, at[3])["request_ns"].tolist() == at[1:3]


def test_a_clock_that_is_set_back_loses_nothing(store: Store) -> None:
    for seq, at in ((1, T0 + 3600 * SECOND), (2, T0), (3, T0 + SECOND)):
        store.append([envelope(seq, made_ns=at, tables={"steps": steps(0, [at], [seq], [1])})])
    assert _waits(store) == [2, 3, 1]
    assert store.run("run-1").last_seen_ns == T0 + 3600 * SECOND
    assert store.bounds("run-1") == (T0, T0 + 3600 * SECOND)
    assert store.totals("run-1")[0].batches == 3


def test_a_run_that_comes_again_is_another_attempt(open_store: Open) -> None:
    store = open_store()
    ended = process(0, state="finished", steps=1)
    store.append([envelope(1, tables=_one_step(1)), envelope(2, processes=[ended])])
    again = process(0, pid=77, started_ns=T0 + 100 * SECOND)
    store.append(
        [envelope(1, stream="later", made_ns=T0 + 101 * SECOND, processes=[again], tables=_one_step(101))]
    )
    for each in (store, None):
        if each is None:
            store.close()
            each = open_store()
        run = each.run("run-1")
        assert (run.attempt, run.attempt_ns, run.state) == (2, T0 + 100 * SECOND, "live")
        assert [(one.number, one.state) for one in run.earlier] == [(1, "finished")]
        now, then = each.recall("run-1", 10**12), each.recall("run-1", 10**12, attempt=1)
        assert now.tables["steps"]["wait_ns"].tolist() == [101]
        assert then.tables["steps"]["wait_ns"].tolist() == [1]
        assert then.run.state == "finished"


def _alert(name: str, **more: Any) -> StoredAlert:
    facts: dict[str, Any] = {
        "id": name, "finding": '{"say": "caf\\u00e9 \'quoted\' \\\\"}', "state": "firing", "opened_ns": T0,
        "updated_ns": T0,
    }  # fmt: skip
    return StoredAlert(**(facts | more))


def test_alerts_and_labels_are_replaced(open_store: Open) -> None:
    store = open_store()
    store.append([envelope(1, tables=_one_step(1))])
    assert store.alerts("run-1") == []
    store.save_alerts("run-1", [_alert("a"), _alert("b", opened_ns=T0 + 1)])
    closed = _alert("a", state="resolved", updated_ns=T0 + 9, closed_ns=T0 + 9)
    store.save_alerts("run-1", [closed])
    assert store.alerts("run-1") == [_alert("b", opened_ns=T0 + 1), closed]
    said = Labels(name="it's \\ mine", tags=["x"], note="two\nlines", pinned=True)
    store.label("run-1", Labels(name="first"))
    store.label("run-1", said)
    assert store.run("run-1").labels == said
    store.close()
    store = open_store()
    assert store.alerts("run-1") == [_alert("b", opened_ns=T0 + 1), closed]
    assert store.run("run-1").labels == said


def test_what_is_deleted_is_gone_and_may_come_again(open_store: Open) -> None:
    store = open_store()
    for run_id in ("run-1", "run-2"):
        store.append([envelope(1, run_id=run_id, tables=_one_step(1))])
    store.save_alerts("run-1", [_alert("a")])
    store.tidy()
    store.delete("run-1")
    assert [run.run_id for run in store.runs()] == ["run-2"]
    with pytest.raises(UnknownRun):
        store.scan("run-1", "steps", 0, 2**62)
    assert store.append([envelope(1, tables=_one_step(7))]) != []
    assert _waits(store) == [7]
    assert store.alerts("run-1") == []
    store.close()
    store = open_store()
    assert (_waits(store), _waits(store, "run-2")) == ([7], [1])


def test_old_runs_are_deleted_and_pinned_ones_stay(store: Store) -> None:
    for run_id in ("old", "pinned"):
        store.append([envelope(1, run_id=run_id)])
    store.label("pinned", Labels(pinned=True))
    now_ns = store.run("old").received_ns
    assert delete_old_runs(store, 1.0, now_ns + 1800 * SECOND) == []
    assert delete_old_runs(store, 1.0, now_ns + 2 * 86400 * SECOND) == ["old"]
    assert [run.run_id for run in store.runs()] == ["pinned"]


def test_losses_and_stacks_are_kept(open_store: Open) -> None:
    store = open_store()
    dump = StackDump(rank=0, worker=-1, pid=1, taken_ns=T0, text="frame é")
    lost = Loss(what="ring", rank=0, count=3, t_ns=T0)
    store.append([envelope(1, losses=[lost]), envelope(2, stacks=[dump])])
    store.close()
    store = open_store()
    assert store.losses("run-1") == [lost]
    assert store.run("run-1").lost_records == 3
    assert [each.body.stacks for each in store.events("run-1", T0, END)][1] == [dump]
    assert [each.t_ns for each in store.facts("run-1", 5)] == [T0 + SECOND]


# ---- what is kept of a bucket beside its sums


def _roll_everything(store: Store, run_id: str) -> None:
    """As after a quiet minute: every bucket closed and summed."""
    opened: Any = store
    reach = opened._files.open if isinstance(store, DuckDBStore) else opened._open
    with reach(run_id) as run:
        run.newest_ns += 2000 * SECOND
        while run.roll():
            pass
        run.newest_ns -= 2000 * SECOND
        assert not any(run._dirty.values())


def _check_digests(store: Store) -> None:
    for rank in (None, 0, 2, 9):
        for limit in (5, 20, 40):
            found = [
                (row["slow_index"], row["slow_ns"])
                for row in store.slow_samples(minutes_apart.RUN, rank, limit)
            ]
            assert found == minutes_apart.slowest(store, rank, limit)
    spans = {1: (0, minutes_apart.BEGAN_AGAIN), 2: (minutes_apart.BEGAN_AGAIN, 2**62)}
    for attempt, span in spans.items():
        told = store.recall(minutes_apart.RUN, 30 * SECOND, attempt)
        sums = {rank: (each.batches, each.wait_s) for rank, each in told.totals.items()}
        same(sums, minutes_apart.batches(store, *span))
        assert told.path is not None
        for name in ("steps", "gpu_waits"):
            seconds, number = told.path.by_table[name]
            expected_s, expected = minutes_apart.path(store, name, *span)
            assert seconds == pytest.approx(expected_s, rel=1e-12)
            assert number == expected > 0


def test_slow_samples_and_paths_are_those_of_all_rows_whatever_is_summed(open_store: Open) -> None:
    """Also when rows come late to what was summed, and after a server began again."""
    store = open_store()
    envelopes = minutes_apart.envelopes(4)
    for part in (envelopes[:180], envelopes[180:]):
        for begin in range(0, len(part), 30):
            store.append(part[begin : begin + 30])
        _check_digests(store)
        _roll_everything(store, minutes_apart.RUN)
        _check_digests(store)
    store.close()
    _check_digests(open_store())


def test_a_run_that_comes_again_with_fewer_ranks_is_summed_as_before(store: Store) -> None:
    """The remaining ranks are all ranks of the run now, but were not when the iterations were made."""
    at = np.arange(50) * 2 * SECOND
    both = [steps(rank, T0 + rank * 70 * SECOND + at, np.full(50, SECOND), np.ones(50)) for rank in (0, 1)]
    ended = [process(rank, 2, state="finished") for rank in (0, 1)]
    store.append([envelope(1, made_ns=T0 + 200 * SECOND, processes=ended, tables={"steps": joined(both)})])
    alone = process(0, 1, pid=77, started_ns=T0 + 1000 * SECOND)
    later = steps(0, [T0 + 1001 * SECOND], [5], [1])
    store.append(
        [envelope(1, stream="later", made_ns=T0 + 2000 * SECOND, processes=[alone], tables={"steps": later})]
    )
    assert store.run("run-1").world_size == 1
    for roll in (False, True):
        if roll:
            _roll_everything(store, "run-1")
        path = store.recall("run-1", SECOND, attempt=1).path
        assert path is not None
        assert path.by_table["steps"] == (50.0, 50)


# ---- equal answers


RUNS = ("run-1", "in-step")


@pytest.fixture(scope="module", params=["rows", "rolled"])
def both(request: pytest.FixtureRequest, places: Places) -> Iterator[tuple[Store, Store]]:
    """DuckDB and ClickHouse with the same envelopes, read from rows or, as far as possible, from rollups."""
    if reason := clickhouse.missing():
        pytest.skip(reason)
    stores = places.opener("duckdb")(), places.opener("clickhouse")()
    envelopes = [*random_run(1), *in_step(2)]
    for begin in range(0, len(envelopes), 7):
        group = envelopes[begin : begin + 7]
        fresh = [store.append(group) for store in stores]
        assert fresh[0] == fresh[1]
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "rolled":
            for store in stores:
                for run_id in RUNS:
                    _roll_everything(store, run_id)
            patch.setattr(charts, "ROWS_LIMIT", 0)
        yield stores


@pytest.mark.parametrize("metric", METRICS)
def test_charts_are_thesame(both: tuple[Store, Store], metric: str) -> None:
    drawn = 0
    asked: list[tuple[int | None, int, int, int]] = [
        (None, T0, END, 300), (None, T0 + 1, END - 1, 20), (0, T0 + 20 * SECOND, END + 10**12, 40),
        (9, T0, END, 20),
    ]  # fmt: skip
    for run_id in RUNS:
        for one in asked:
            mine, other = (store.series(run_id, metric, *one) for store in both)
            same(mine, other)
            drawn += len(mine.t_ns)
        same(*(store.grid(run_id, metric, T0, END, 30) for store in both))
    assert drawn


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_thesame(both: tuple[Store, Store], name: str) -> None:
    for start, end in ((0, 2**62), (T0 + 10 * SECOND, T0 + 20 * SECOND), (END, 2**62)):
        mine, other = (store.scan("run-1", name, start, end) for store in both)
        assert list(mine) == list(other)
        order = [
            np.lexsort([np.asarray(each[c]).astype("U") for c in sorted(each)]) for each in (mine, other)
        ]
        for column in mine:
            same(np.asarray(mine[column])[order[0]], np.asarray(other[column])[order[1]])


def test_lists_are_thesame(both: tuple[Store, Store]) -> None:
    for rank in (None, 0, 2, 9):
        same(*(in_order(store.epochs("run-1", rank)) for store in both))
        same(*(store.slow_samples("run-1", rank, 20) for store in both))
        same(*(store.phases("run-1", rank, [0, 1, 2], T0 + SECOND, END, 1000) for store in both))
        for part in ProfilePart:
            same(*(store.profile("run-1", part, rank, T0 + SECOND, END) for store in both))
    for worker in (None, 0, 1):
        same(*(store.fetches("run-1", 1, T0 + 5 * SECOND, END, 40, worker) for store in both))
    assert both[0].slow_samples("run-1", None, 20)
    assert both[0].profile("run-1", ProfilePart.FETCH, None, T0, END).counts["samples"].size
    assert both[0].phases("run-1", None, [0, 1, 2], T0, END, 1000)
    whole = both[0].epochs("run-1", 0)
    assert len(whole) > 2
    for store in both:
        same(in_order(store.epochs("run-1", 0, 2)), in_order(whole[-2:]))


def test_sums_and_facts_are_thesame(both: tuple[Store, Store]) -> None:
    for run_id in RUNS:
        same(*(store.totals(run_id) for store in both))
    same(*(store.bounds("run-1") for store in both))
    same(*(store.losses("run-1") for store in both))
    same(*([each.t_ns for each in store.facts("run-1", 100)] for store in both))
    runs = [msgspec.structs.replace(store.run("run-1"), received_ns=0, bytes=0) for store in both]
    assert runs[0] == runs[1]
    for start, end in ((T0, END), (T0 + 10 * SECOND, T0 + 11 * SECOND)):
        mine, other = (list(store.events("run-1", start, end)) for store in both)
        assert mine == other


def test_a_server_that_continues_finds_thesame(both: tuple[Store, Store]) -> None:
    mine, other = (store.recall("run-1", 30 * SECOND) for store in both)
    same(mine.totals, other.totals)
    same(mine.path, other.path)
    assert (mine.sequences, mine.events) == (other.sequences, other.events)
    assert mine.path is not None
    assert mine.path.by_table["steps"][1] > 0
    for name in TABLES:
        assert len(mine.tables[name][TIME_COLUMN[name]]) == len(other.tables[name][TIME_COLUMN[name]]) > 0


def test_the_recent_past_of_some_ranks_and_hosts_is_the_same(both: tuple[Store, Store]) -> None:
    whole = both[0].recall("run-1", 30 * SECOND)
    ranks = sorted(whole.totals)[:1]
    hosts = sorted(set(whole.tables["hosts"]["host"]))[:1]
    for some_ranks, some_hosts in ((ranks, hosts), (ranks, []), ([], hosts), ([99], ["no 'such\\ host"])):
        mine, other = (store.recent("run-1", 30 * SECOND, some_ranks, some_hosts) for store in both)
        assert mine.sequences == other.sequences == whole.sequences
        for name in TABLES:
            time, found = TIME_COLUMN[name], mine.tables[name]
            assert found[time].tolist() == other.tables[name][time].tolist()
            if name == "hosts":
                kept = np.isin(whole.tables[name]["host"], some_hosts)
            else:
                kept = np.isin(whole.tables[name]["rank"], some_ranks)
            expected = whole.tables[name][time][kept].tolist()
            # What limits are learned from reaches back from the newest row of these ranks.
            reaches = (
                found[time].tolist()[-len(expected) :]
                if expected and name in LEARNED_FROM
                else found[time].tolist()
            )
            assert reaches == expected or (not expected and name in LEARNED_FROM)
    few = [store.recall("run-1", 30 * SECOND, most_ranks=1) for store in both]
    for recall in few:
        assert recall.tables == {}
        assert recall.sequences == whole.sequences
        same(recall.totals, whole.totals)
