"""What a run sends to ClickHouse, and in which order, with a recorder in place of an empty database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from loaderwatch.core.answers import Labels
from loaderwatch.core.records import UNKNOWN
from loaderwatch.server.store.clickhouse.claims import Claim, Fenced
from loaderwatch.server.store.clickhouse.run import ClickHouseRun
from loaderwatch.server.store.protocol import StoredAlert, StoreError
from tests.fakes.runs import SECOND, T0, envelope, process, steps

_CLAIMED = re.compile(r"claims \(run, commit, claimant, ready\) SELECT '[^']*', (\d+)")


class Recorder:
    """What the run asks of a ``Database``: it knows claims, and keeps the blocks that are inserted."""

    name = "recorder"

    def __init__(self) -> None:
        self.claimed = 0
        self.refused = ""  # inserts into this table fail
        self.blocks: list[tuple[str, dict[str, NDArray[Any]]]] = []  # table, columns
        self.tokens: set[tuple[str, str]] = set()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        if "max(commit) AS newest" in sql:
            return [(self.claimed,)]
        return [(self.claimed, b"me")] if "SELECT commit, claimant" in sql else []

    def query(self, sql: str) -> dict[str, NDArray[Any]]:
        unknown = np.ma.array([0], mask=[True])
        nulls = 3 if "max(made_ns)" in sql else 2 if "max(ordinal)" in sql else 0
        return {str(column): unknown for column in range(nulls)}

    def command(self, sql: str, **_: Any) -> None:
        if found := _CLAIMED.search(sql):
            self.claimed = int(found[1])

    def insert(
        self, table: str, columns: Mapping[str, NDArray[Any]], types: Mapping[str, str], token: str
    ) -> None:
        if table == self.refused:
            raise StoreError("refused")
        assert set(columns) <= set(types)
        assert (table, token) not in self.tokens, "ClickHouse would take it for the block before, sent again"
        self.tokens.add((table, token))
        self.blocks.append((table, dict(columns)))


@pytest.fixture
def database() -> Recorder:
    return Recorder()


@pytest.fixture
def run(database: Recorder) -> ClickHouseRun:
    made: Any = database
    return ClickHouseRun(made, "run-1", create=True, claim=Claim(made, "run-1", lambda: False))


STEPS = {"steps": steps(0, T0 + np.arange(3) * SECOND, SECOND // 2, SECOND // 2)}


def test_the_block_that_makes_a_commit_count_comes_last(run: ClickHouseRun, database: Recorder) -> None:
    first, second = (envelope(seq, processes=[process(0)], tables=STEPS) for seq in (1, 2))
    assert run.append([first, first]) == [first]
    assert run.append([first]) == []
    assert [table for table, _ in database.blocks] == ["dirty", "steps", "events", "acked"]
    run.append([second])
    table, acked = database.blocks[-1]
    assert table == "acked"
    assert acked["after"].tolist() == [database.claimed + 1]
    assert acked["commit"].tolist() == [database.claimed + 2]
    assert (run.newest_ns, run.first_ns, run.changed) == (second.made_ns, T0, True)


def test_what_was_said_is_replaced_under_rising_numbers(run: ClickHouseRun, database: Recorder) -> None:
    run.save_alerts([])
    assert database.blocks == []
    run.save_alerts([StoredAlert(id="run-1.a", finding="{}", state="firing", opened_ns=1, updated_ns=2)])
    run.label(Labels(name="baseline"))
    (_, alerts), (_, labels) = database.blocks
    assert (alerts["id"].tolist(), alerts["closed_ns"].tolist()) == (["run-1.a"], [UNKNOWN])
    assert labels["said"].tolist() == ['{"name":"baseline","tags":[],"note":"","pinned":false}']
    assert labels["commit"][0] == alerts["commit"][0] + 1
    assert run.stored_run().labels.name == "baseline"


def test_a_commit_that_failed_or_was_fenced_does_not_count(run: ClickHouseRun, database: Recorder) -> None:
    database.refused = "acked"
    with pytest.raises(StoreError, match="refused"):
        run.append([envelope(1)])
    assert run.newest_ns == 0
    database.refused = ""
    database.claimed += 1 << 28
    with pytest.raises(Fenced):
        run.append([envelope(2)])
    assert run.newest_ns == 0
