"""A large run is analyzed in part: chosen ranks completely, each row once; the others by their sums."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from loaderwatch.core.facts import GpuInfo
from loaderwatch.core.records import TABLES
from loaderwatch.core.wire import Envelope
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.live.summary import MOST_HOSTS, outline, summary_of
from loaderwatch.server.queries.live_answers import gpus_in
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.window.builder import WindowBuilder
from loaderwatch.server.window.detailed_hosts import LARGE, MOST_RANKS
from loaderwatch.server.window.replay import complete, rebuild
from tests.fakes.runs import SECOND, T0, envelope, joined, process, span, steps, table

HOSTS, PER_HOST = 40, 8
WORLD = HOSTS * PER_HOST
LATE, DEAD = 213, 99
MS = SECOND // 1000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    made = DuckDBStore(tmp_path)
    yield made
    made.close()


def second(seq: int, *, late: bool, dead: bool = False) -> list[Envelope]:
    """What all hosts send in a second: ten steps per rank. One rank may be ``late``, one ``dead``."""
    made = []
    for number in range(HOSTS):
        ranks = range(number * PER_HOST, (number + 1) * PER_HOST)
        times = T0 + (seq - 1) * SECOND + np.arange(10) * SECOND // 10
        batch = (seq - 1) * 10 + np.arange(10)
        rows = [
            steps(
                rank, times, wait * MS, (100 - wait) * MS, batch=batch, step=batch, optimizer_steps=1,
                nested_ns=0, ready=0, backward_ns=(90 - wait) * MS,
            )
            for rank in ranks
            for wait in [70 if late and rank == LATE else 2]
        ]  # fmt: skip
        made.append(
            envelope(
                seq,
                stream=f"stream{number}",
                host=f"host{number}",
                processes=[process(rank, WORLD, **(
                    {"state": "crashed", "exit": "uncaught ValueError: bad batch"}
                    if dead and rank == DEAD else {})) for rank in ranks],
                gpus=[GpuInfo(gpu=rank % PER_HOST, uuid=f"GPU-{rank}", name="a GPU", rank=rank)
                      for rank in ranks],
                spans=[span(rank, T0 + seq * SECOND - 50 * MS, epoch=0, batch=10 * seq, steps=10 * seq)
                       for rank in ranks if not (dead and rank == DEAD)],
                tables={
                    "steps": joined(rows),
                    "hosts": table("hosts", t_ns=[T0 + seq * SECOND], cpu_ratio=0.5, usable_cpus=8.0),
                },
            )
        )  # fmt: skip
    return made


class Played:
    """A partial builder beside a complete one. The store is a second ahead of both, as during a look."""

    def __init__(self, store: DuckDBStore) -> None:
        self.store = store
        self.part, self.whole = WindowBuilder("run-1", in_part=True), WindowBuilder("run-1")
        self._waiting: list[Envelope] = []

    def go_on(self, envelopes: list[Envelope]) -> RunWindow:
        self.store.append(envelopes)
        arrived, self._waiting = self._waiting, envelopes
        for builder in (self.part, self.whole):
            builder.add_all(arrived)
        self.part.choose(())
        complete(self.part, self.store)
        return self.part.window()


def test_what_is_looked_at_is_all_there(store: DuckDBStore) -> None:
    played = Played(store)
    for seq in range(1, 46):
        window = played.go_on(second(seq, late=seq > 15))
    whole = played.whole.window()
    assert len(whole.ranks) == WORLD > LARGE
    assert PER_HOST <= len(window.ranks) <= MOST_RANKS
    assert sorted([*window.ranks, *window.summed]) == list(range(WORLD))
    assert window.world_size == WORLD
    assert LATE in window.ranks
    assert 0 in window.ranks
    for number, rank in window.ranks.items():
        for name in TABLES:
            if name != "hosts":
                mine, other = rank.table(name), whole.ranks[number].table(name)
                assert all(mine[column].tolist() == other[column].tolist() for column in other), (
                    number,
                    name,
                )
    assert window.hosts.keys() == whole.hosts.keys()
    for host in window.ranks_by_host:
        assert window.hosts[host].hosts["t_ns"].tolist() == whole.hosts[host].hosts["t_ns"].tolist()
    assert played.part.totals() == played.whole.totals()


def test_the_summary_has_every_rank_as_if_all_were_looked_at(store: DuckDBStore) -> None:
    played = Played(store)
    for seq in range(1, 40):
        window = played.go_on(second(seq, late=True))
    mine = summary_of(RunEvidence(window), played.part.totals(), state="live")
    other = summary_of(RunEvidence(played.whole.window()), played.whole.totals(), state="live")
    assert [row.rank for row in mine.ranks] == list(range(WORLD))
    for row, known in zip(mine.ranks, other.ranks, strict=True):
        assert (row.step, row.phase, row.host, row.state) == (
            known.step,
            known.phase,
            known.host,
            known.state,
        )
        assert row.data_wait_ratio == pytest.approx(known.data_wait_ratio, abs=0.02)
        assert row.steps_per_s == pytest.approx(known.steps_per_s, rel=0.05)
    assert (mine.steps, mine.world_size, mine.hosts) == (other.steps, other.world_size, other.hosts)
    assert mine.data_wait_ratio == pytest.approx(other.data_wait_ratio, abs=0.02)
    assert mine.goodput_ratio == pytest.approx(other.goodput_ratio, abs=0.02)
    assert mine.lost_s == pytest.approx(other.lost_s, rel=0.01)
    assert (mine.rank_count, mine.host_count) == (WORLD, WORLD // PER_HOST)
    (odd, rest) = mine.groups
    assert (odd.ranks, odd.differs_in, odd.higher) == ([LATE], "data_wait_ratio", True)
    assert (rest.count, rest.differs_in) == (WORLD - 1, None)
    told = outline(mine)
    assert [row.rank for row in told.ranks] == sorted(window.ranks)
    assert len(told.hosts) <= MOST_HOSTS
    assert {row.host for row in told.ranks} <= {host.name for host in told.hosts}
    assert (told.rank_count, told.groups) == (WORLD, mine.groups)
    assert outline(other) is other


def test_without_a_host_the_gpus_are_those_looked_at(store: DuckDBStore) -> None:
    played = Played(store)
    for seq in range(1, 5):
        window = played.go_on(second(seq, late=True))
    assert {gpu.host for gpu in gpus_in(window, None, None)} == set(window.ranks_by_host)
    assert len(window.ranks_by_host) < HOSTS
    unseen = next(name for name in window.hosts if name not in window.ranks_by_host)
    assert len(gpus_in(window, unseen, None)) == PER_HOST


def test_the_straggler_is_found_and_the_finding_says_of_how_many(store: DuckDBStore) -> None:
    played = Played(store)
    for seq in range(1, 40):
        window = played.go_on(second(seq, late=True))
    found = detect(RunEvidence(window))
    assert [(one.code, one.rank) for one in found if one.severity != "info"] == [("input-bound", LATE)]
    said = {evidence.label: evidence.value for evidence in found[0].evidence}
    assert (
        said["ranks looked at in detail"]
        == f"{len(window.ranks)} of {WORLD}: those that stand out, and a sample"
    )


def test_what_all_looked_at_do_is_said_of_all(store: DuckDBStore) -> None:
    played = Played(store)
    for seq in range(1, 30):
        envelopes = second(seq, late=False)
        slow = np.tile(np.array([60 * MS]), 10 * PER_HOST).tobytes()
        for one in envelopes:
            one.tables["steps"]["wait_ns"] = slow
            one.tables["steps"]["step_ns"] = np.tile(np.array([40 * MS]), 10 * PER_HOST).tobytes()
        window = played.go_on(envelopes)
    found = next(one for one in detect(RunEvidence(window)) if one.code == "input-bound")
    assert found.title.startswith(f"All {WORLD} ranks lose up to 60 %")
    assert found.rank is None


def test_a_rank_that_dies_is_looked_at_in_the_same_look(store: DuckDBStore) -> None:
    played = Played(store)
    for seq in range(1, 20):
        window = played.go_on(second(seq, late=False))
    assert DEAD not in window.ranks
    played.go_on(second(20, late=False, dead=True))
    window = played.go_on(second(21, late=False, dead=True))
    assert window.ranks[DEAD].process.state == "crashed"
    (death,) = [finding for finding in detect(RunEvidence(window)) if finding.code == "crashed"]
    assert death.rank == DEAD


def test_a_restarted_server_goes_on_in_part(store: DuckDBStore) -> None:
    """What was stored between its reading of the run and of the rows comes once, too."""
    played = Played(store)
    for seq in range(1, 25):
        played.go_on(second(seq, late=True))
    again = rebuild(store, "run-1")
    window = again.window()
    last = summary_of(RunEvidence(window), again.totals(), state="live")
    assert all(row.steps_per_s == pytest.approx(10.0, rel=0.1) for row in last.ranks)
    assert all((row.seen_at or 0) > T0 / 1e9 for row in last.ranks)
    assert PER_HOST <= len(window.ranks) <= MOST_RANKS
    after = second(25, late=True)
    store.append(after)
    for _ in range(2):
        again.choose((LATE,))
        complete(again, store)
        again.add_all(after)
    found = again.window().ranks[LATE].table("steps")["batch"]
    assert found.tolist() == list(range(250))
    assert again.totals() == rebuild(store, "run-1").totals()
    assert len(rebuild(store, "run-1").window().ranks) <= MOST_RANKS


def test_a_run_that_starts_again_smaller_is_looked_at_whole(store: DuckDBStore) -> None:
    played = Played(store)
    for seq in range(1, 5):
        played.go_on(second(seq, late=False))
    for one in second(5, late=False):
        over = [msgspec.structs.replace(each, state="finished") for each in one.processes]
        played.go_on([msgspec.structs.replace(one, processes=over)])
    later = T0 + 100 * SECOND
    for seq in range(6, 9):
        made = [
            envelope(
                seq, stream="stream0", host="host0", made_ns=later + seq * SECOND,
                processes=[process(rank, 2, pid=9000 + rank, started_ns=later) for rank in range(2)],
                tables={"steps": joined([steps(rank, [later + seq * SECOND - MS], [MS], [MS])
                                         for rank in range(2)])},
            )
        ]  # fmt: skip
        window = played.go_on(made)
    assert (sorted(window.ranks), window.summed, window.attempt) == ([0, 1], {}, 2)
