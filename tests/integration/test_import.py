"""Recorded runs are imported completely or not at all, into either store, and keep what they said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from loaderwatch.core.answers import Labels
from loaderwatch.core.errors import WireError
from loaderwatch.core.facts import Loss, ProfileStack, StackDump
from loaderwatch.core.records import TABLES, TIME_COLUMN, ProfilePart
from loaderwatch.core.wire import MAX_TEXT, Envelope, encode
from loaderwatch.server.recordings import recording
from loaderwatch.server.recordings.export import export
from loaderwatch.server.recordings.outgoing_run import MovedRun, of_recording, of_store
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.metrics import METRICS
from loaderwatch.server.store.protocol import (
    Kept,
    Part,
    RunExists,
    Store,
    StoredAlert,
    UnknownRun,
)
from tests.fakes import clickhouse
from tests.fakes.profiles import GET, STACKS, text
from tests.fakes.random_runs import END, RANKS, in_order, random_run, same
from tests.fakes.runs import SECOND, T0, envelope, process, steps

RUN = "run-1"
SCENARIOS = Path(__file__).parents[1] / "scenarios" / "recordings"
needs_clickhouse = pytest.mark.skipif(clickhouse.missing() is not None, reason=str(clickhouse.missing()))
ALERT = StoredAlert(
    id=f"{RUN}.1", finding='{"say": "caf\\u00e9"}', state="acknowledged", opened_ns=T0, updated_ns=T0 + 1,
    closed_ns=T0 + 2
)  # fmt: skip
SAID = Labels(name="mine", tags=["a", "b"], note="two\nlines", pinned=True)


def _ended(seed: int = 1) -> list[Envelope]:
    """A run of two attempts that is over, with everything that envelopes carry."""
    made = random_run(seed)
    dump = StackDump(rank=0, worker=-1, pid=1000, taken_ns=END, text="frame é")
    lost = Loss(what="ring", rank=0, count=3, t_ns=END)
    sampled = [ProfileStack(id=number, text=text(GET)) for number in (1, 2)]
    made.append(
        envelope(
            100,
            stream="host-0",
            host="gpu00",
            made_ns=END,
            processes=[],
            stacks=[dump],
            losses=[lost],
            profile_stacks=[*sampled, *STACKS],  # counts name only the first two
        )
    )
    again = T0 + 200 * SECOND
    for host, ranks in (("host-0", [0, 1]), ("host-1", [2])):
        for seq, state in ((200, "live"), (201, "crashed" if host == "host-1" else "finished")):
            made.append(
                envelope(
                    seq,
                    stream=host,
                    host=host.replace("host-", "gpu0"),
                    made_ns=again + seq * SECOND // 10,
                    processes=[process(r, RANKS, pid=2000 + r, started_ns=again, state=state, steps=3)
                               for r in ranks],
                    tables={"steps": steps(ranks[0], [again + seq], [SECOND], [SECOND])},
                    final=state != "live",
                )
            )  # fmt: skip
    return made


def _fill(store: Store) -> None:
    envelopes = _ended()
    for begin in range(0, len(envelopes), 7):
        store.append(envelopes[begin : begin + 7])
    store.save_alerts(RUN, [ALERT])
    store.label(RUN, SAID)
    store.tidy()


@pytest.fixture
def source(tmp_path: Path) -> Iterator[DuckDBStore]:
    with closing(DuckDBStore(tmp_path / "from" / "runs")) as store:
        _fill(store)
    store = DuckDBStore(tmp_path / "from" / "runs")  # as it is read from the disk
    yield store
    store.close()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clickhouse.Server]:
    server = clickhouse.Server(tmp_path_factory.mktemp("engine"))
    yield server
    server.kill()


Open = Callable[[], Store]


@pytest.fixture(params=["duckdb", pytest.param("clickhouse", marks=needs_clickhouse)])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """A function that opens a store, empty at first; each call opens it again, as a restarted server does."""
    opened: list[Store] = []
    url = ""
    if request.param == "clickhouse":
        url = request.getfixturevalue("engine").url(f"test_{abs(hash(str(tmp_path))):x}")

    def make() -> Store:
        if opened:
            opened[-1].close()
        if url:
            from loaderwatch.server.store.clickhouse import ClickHouseStore
            from loaderwatch.server.store.clickhouse.address import parse_address

            opened.append(ClickHouseStore(parse_address(url)))
        else:
            opened.append(DuckDBStore(tmp_path / "to" / "runs"))
        return opened[-1]

    yield make
    opened[-1].close()


def _bring(store: Store, moved: MovedRun) -> None:
    arrival = store.arrive(moved.run_id)
    for part in moved.parts():
        with pytest.raises(UnknownRun):
            store.run(moved.run_id)
        arrival.add(part)
    arrival.finish(moved.rest)


def _rows(store: Store, table: str) -> dict[str, Any]:
    """Rows of a table in an order of their own, as those of one time come in any."""
    found = store.scan(RUN, table, 0, 2**62, counted=True)
    order = np.lexsort([np.asarray(found[name]).astype("U") for name in sorted(found)])
    return {name: np.asarray(values)[order] for name, values in found.items()}


def _answers(store: Store) -> dict[str, Any]:
    """What a store answers to everything that it can be asked of a run."""
    run = store.run(RUN)
    late = run.last_seen_ns + SECOND
    known: dict[str, Any] = {
        "run": msgspec.structs.replace(run, bytes=0),
        "runs": [each.run_id for each in store.runs()],
        "alerts": store.alerts(RUN),
        "bounds": store.bounds(RUN),
        "totals": store.totals(RUN),
        "losses": store.losses(RUN),
        "sequences": store.sequences(RUN),
        "stored_seq": [store.stored_seq(RUN, stream) for stream in ("host-0", "host-1", "nobody")],
        "events": list(store.events(RUN, 0, late)),
        "all events": list(store.all_events(RUN)),
        "facts": list(store.facts(RUN, 7)),
        "fetches": store.fetches(RUN, 1, T0 + 5 * SECOND, END, 40),
        "profile": [store.profile(RUN, part, None, T0, END) for part in ProfilePart],
        "texts": store.profile_stacks(RUN, T0, END),
        "all texts": list(store.all_profile_stacks(RUN)),
        "phases": store.phases(RUN, None, [0, 1, 2], T0, END, 1000),
        "slow samples": store.slow_samples(RUN, None, 20),
    }
    for metric in METRICS:
        known[f"series {metric}"] = [
            store.series(RUN, metric, *asked)
            for asked in ((None, T0, END, 300), (0, T0 + 20 * SECOND, late, 40), (2, T0 + 1, END - 1, 20))
        ]
        known[f"grid {metric}"] = store.grid(RUN, metric, T0, late, 30)
    for table in TABLES:
        known[f"rows {table}"] = _rows(store, table)
    for rank in (None, 0, 2):
        known[f"epochs {rank}"] = in_order(store.epochs(RUN, rank))
    for attempt in (None, 1, 2):
        recall = store.recall(RUN, 60 * SECOND, attempt)
        counts = {table: len(columns[TIME_COLUMN[table]]) for table, columns in recall.tables.items()}
        known[f"recall {attempt}"] = [
            msgspec.structs.replace(recall.run, bytes=0), recall.totals, recall.path, recall.sequences,
            recall.events, counts, recall.profile_stacks,
        ]  # fmt: skip
    return known


@pytest.mark.parametrize("way", ["file", "recording"])
def test_a_run_answers_everything_as_before(source: DuckDBStore, open_store: Open, way: str) -> None:
    moved = of_store(source, RUN)
    if way == "recording":
        packed = recording.pack(export(source, RUN, None))
        moved = of_recording(recording.unpack(packed, Path("run.lwrec")), Path("run.lwrec"))
    assert moved.fingerprint() == of_store(source, RUN).fingerprint()
    store = open_store()
    _bring(store, moved)
    asked = _answers(source)
    assert asked["run"].attempt == 2
    assert asked["run"].state == "crashed"
    assert [stack.id for stack in asked["texts"]] == [1, 2]
    assert len(asked["all texts"]) == 2 + len(STACKS)
    assert asked["profile"][0].texts
    answers = _answers(store)
    assert answers.keys() == asked.keys()
    for what, answer in asked.items():
        try:
            same(answer, answers[what])
        except AssertionError as error:
            raise AssertionError(what) from error
    _is_the_same(source, open_store())  # also for a server that is started later


@needs_clickhouse
def test_a_run_comes_back_from_clickhouse_as_it_went(
    source: DuckDBStore, engine: clickhouse.Server, tmp_path: Path
) -> None:
    from loaderwatch.server.store.clickhouse import ClickHouseStore
    from loaderwatch.server.store.clickhouse.address import parse_address

    with closing(ClickHouseStore(parse_address(engine.url("there_and_back")))) as there:
        _bring(there, of_store(source, RUN))
        recorded = export(there, RUN, None)
    with closing(DuckDBStore(tmp_path / "back")) as back:
        _bring(back, of_recording(recorded, tmp_path))
        _is_the_same(source, back)


def _is_the_same(one: Store, other: Store) -> None:
    """By rows, events and what lists show, of which the answers are made."""
    assert of_store(one, RUN).fingerprint() == of_store(other, RUN).fingerprint()
    assert of_store(one, RUN).rest == of_store(other, RUN).rest
    assert msgspec.structs.replace(one.run(RUN), bytes=0) == msgspec.structs.replace(other.run(RUN), bytes=0)
    same(one.totals(RUN), other.totals(RUN))


def test_envelopes_that_are_in_it_are_not_stored_again(source: DuckDBStore, open_store: Open) -> None:
    store = open_store()
    _bring(store, of_store(source, RUN))
    assert store.append(_ended()[:10]) == []
    later = envelope(202, stream="host-0", host="gpu00", made_ns=T0 + 300 * SECOND, processes=[])
    assert store.append([later]) == [later]
    assert store.alerts(RUN) == [ALERT]
    store.delete(RUN)
    _bring(store, of_store(source, RUN))
    assert store.alerts(RUN) == [ALERT]


def test_what_is_given_up_leaves_nothing(source: DuckDBStore, open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    moved = of_store(source, RUN)
    arrival = store.arrive(RUN)
    for part in moved.parts():
        arrival.add(part)
    arrival._store()  # type: ignore[attr-defined]
    arrival.give_up()
    assert store.runs() == []
    assert not list(tmp_path.glob("to/runs/**/*.duckdb*"))
    _bring(store, moved)
    _is_the_same(source, store)
    with pytest.raises(RunExists):
        store.arrive(RUN)
    with pytest.raises(UnknownRun):
        store.arrive("../etc")


def test_a_run_that_senders_bring_meanwhile_is_not_replaced(source: DuckDBStore, open_store: Open) -> None:
    store = open_store()
    moved = of_store(source, RUN)
    arrival = store.arrive(RUN)
    for part in moved.parts():
        arrival.add(part)
    sent = envelope(1, tables={"steps": steps(0, [T0], [1], [1])})
    assert store.append([sent]) == [sent]
    with pytest.raises(RunExists):
        arrival.finish(moved.rest)
    arrival.give_up()
    assert store.scan(RUN, "steps", 0, 2**62)["wait_ns"].tolist() == [1]
    assert len(open_store().scan(RUN, "steps", 0, 2**62)["wait_ns"]) == 1


@pytest.mark.parametrize(
    "damage",
    [
        Part(tables={"steps": {"rank": b"12345678"}}),
        Part(tables={"hosts": {c.name: b"12345678" for c in TABLES["hosts"]}}, hosts=[]),
        Part(tables={"steps": {c.name: b"12345678" for c in TABLES["steps"]}}, counted={"steps": b"\1\1"}),
        Part(events=[Kept(facts=True, body=encode(envelope(1, run_id="other")))]),
        Part(events=[Kept(facts=True, body=b"")]),
        Part(profile_stacks=[ProfileStack(id=1, text="x" * (MAX_TEXT + 1))]),
    ],
)
def test_a_damaged_part_is_refused(open_store: Open, damage: Part) -> None:
    store = open_store()
    arrival = store.arrive(RUN)
    with pytest.raises(WireError):
        arrival.add(damage)
    arrival.give_up()
    assert store.runs() == []
